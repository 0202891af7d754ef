"""Words are read back where they were written, by however many threads, or an error says not."""

from __future__ import annotations

import errno
import itertools
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.spill_file import (
    Place,
    Spill,
    SpillFile,
    SpillFolder,
    fetch,
    further,
    park,
)
from tests.fake_cloud_storage import fake_cloud_storage


@pytest.fixture
def spill():
    with tempfile.TemporaryFile() as file:
        yield SpillFile(file.fileno())


@pytest.fixture
def store(monkeypatch):
    with fake_cloud_storage("survey") as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        yield store


def read(spill: Spill, place: Place, shape: tuple[int, ...]) -> np.ndarray:
    words = np.empty(shape, np.uint64)
    spill.read(words, place)
    return words


def test_what_many_threads_append_is_kept_apart(spill):
    def append(number: int) -> tuple[int, int, int]:
        words = np.full(1 + number % 7 * 1000, number, np.uint64)
        return spill.append(words), number, len(words)

    with ThreadPoolExecutor(8) as threads:
        places = list(threads.map(append, range(300)))
    for place, number, length in places:
        assert set(read(spill, place, (length,)).tolist()) == {number}
    taken = sorted((place, place + 8 * length) for place, _, length in places)
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(taken))


def test_a_write_or_read_that_stops_half_way_goes_on(spill, monkeypatch):
    pwrite, preadv = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda file, data, place: pwrite(file, data[:13], place))
    words = np.arange(40, dtype=np.uint64).reshape(4, 10)
    spill.append(words)
    place = spill.append(words + np.uint64(1))
    monkeypatch.setattr(os, "preadv", lambda file, data, place: preadv(file, [data[0][:11]], place))
    np.testing.assert_array_equal(read(spill, place, (4, 10)), words + np.uint64(1))


def test_a_full_disk_is_an_error(spill, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left on device"):
        spill.append(np.zeros(3, np.uint64))


def test_reading_past_the_end_is_an_error(spill):
    spill.append(np.zeros(3, np.uint64))
    with pytest.raises(OSError, match="the spill file is shorter than what was written to it"):
        read(spill, 8, (3,))


def test_a_blob_waits_in_the_file_or_travels(spill):
    blobs = [bytes(range(16)), bytes(8)]
    shuffle_blocks = [park(blob, spill) for blob in blobs]
    assert not any(isinstance(shuffle_block, bytes) for shuffle_block in shuffle_blocks)
    assert [fetch(shuffle_block, spill) for shuffle_block in shuffle_blocks] == blobs
    assert fetch(park(blobs[0], None), None) == blobs[0]
    with pytest.raises(ValueError, match="none is given"):
        fetch(shuffle_blocks[0], None)


def test_memory_alone_is_used_up_to_its_end_and_no_further():
    with os.fdopen(os.memfd_create("test"), "w+b") as memory:
        only = SpillFile(None, memory.fileno(), 80)
        first, second = only.append(np.arange(6, dtype=np.uint64)), None
        with pytest.raises(
            InputError, match=r"^memory_limit: rows that wait .* spill: /a/folder}$"
        ):
            only.append(np.zeros(5, np.uint64))
        second = only.append(np.arange(4, dtype=np.uint64))
        assert read(only, first, (6,)).tolist() == [0, 1, 2, 3, 4, 5]
        assert read(only, second, (4,)).tolist() == [0, 1, 2, 3]
        assert read(only, 80, (0,)).tolist() == []
    with pytest.raises(ValueError, match="neither memory nor a file"):
        read(SpillFile(None), 0, (1,))


@pytest.mark.parametrize("in_cloud", [False, True])
def test_files_of_a_folder_hold_several_parts_each(tmp_path, store, in_cloud):
    place = "gs://survey/work/release" if in_cloud else str(tmp_path / "work" / "release")
    folder = SpillFolder(place)
    parts = [np.arange(start, start + 12, dtype=np.uint64).reshape(3, 4) for start in (0, 100)]
    places = [where for _ in range(2) for where in folder.write(parts)]
    assert len(set(places)) == 4
    assert len({name for name, _ in places}) == 2
    for where, part in zip(places, parts * 2, strict=True):
        assert (read(folder, where, (3, 4)) == part).all()
        assert (read(folder, further(where, 5 * 8), (7,)) == part.ravel()[5:]).all()
    if not in_cloud:
        modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "work" / "release").iterdir()}
        assert modes == {0o600}
        assert (tmp_path / "work" / "release").stat().st_mode & 0o777 == 0o700
        with pytest.raises(FileNotFoundError):
            read(folder, (".waiting.other", 0), (1,))


def test_a_place_of_one_machine_is_none_of_a_folder(tmp_path, spill):
    with pytest.raises(ValueError, match="the rows are in the spill file of one machine"):
        read(SpillFolder(str(tmp_path)), 0, (1,))
    with pytest.raises(ValueError, match="the rows are in a file of their own"):
        spill.read(np.empty(1, np.uint64), (".waiting.0", 0))
