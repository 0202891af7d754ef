"""Exact counts wait as long as a band needs them; the folder of a stream is the stream's alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hushrank.privacy.randomness import BitSource, seeded_bits, system_bits
from hushrank.transforms.common.catalogue import Naming
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.streams.people_files import carry_people
from hushrank.transforms.streams.released_files import forget_cells, keep_cells, recent_cells
from hushrank.transforms.streams.stream_folder import begin, end, stream_key, stream_naming

STREAM = "a stream"


def cells(night: int) -> np.ndarray:
    return np.arange(6).reshape(2, 3) + 10 * night


def nights_kept(folder) -> list[str]:
    return sorted(path.name for path in (folder / "cells").iterdir())


@pytest.mark.parametrize("bands", [1, 2, 4])
def test_as_many_nights_as_bands_are_found_and_the_others_are_gone(tmp_path, bands):
    folder = str(tmp_path)
    for night in range(7):
        keep_cells(folder, STREAM, night, cells(night), f"people {night}")
        before = [f"people {each}" for each in range(night - 1, max(-1, night - bands), -1)]
        recent = recent_cells(folder, STREAM, night, before)
        found = recent.counts
        assert recent.people == f"people {night}"
        expected = [cells(each) for each in range(night, max(-1, night - bands), -1)]
        assert len(found) == len(expected) == min(bands, night + 1)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
        for _ in range(2):  # again after a crash
            forget_cells(folder, night, bands)
            left = [f"{each:05d}.npz" for each in range(max(0, night - bands + 2), night + 1)]
            assert nights_kept(tmp_path) == left


def test_a_night_that_is_repeated_before_its_noise_overwrites(tmp_path):
    for counts in (cells(3), cells(4)):
        keep_cells(str(tmp_path), STREAM, 0, counts, "people")
    (found,) = recent_cells(str(tmp_path), STREAM, 0, []).counts
    assert np.array_equal(found, cells(4))


def test_missing_nights_and_those_of_others_are_refused(tmp_path):
    folder = str(tmp_path)
    keep_cells(folder, STREAM, 2, cells(2), "b")
    with pytest.raises(InputError, match="its counts are part"):
        recent_cells(folder, STREAM, 2, ["a"])
    with pytest.raises(InputError, match="another stream"):
        recent_cells(folder, "another", 2, [])
    (tmp_path / "cells" / "00001.npz").write_bytes((tmp_path / "cells/00002.npz").read_bytes())
    with pytest.raises(InputError, match="another night"):
        recent_cells(folder, STREAM, 2, ["b"])
    keep_cells(folder, STREAM, 1, cells(1), "of another attempt")
    with pytest.raises(InputError, match="not what night 1 was drawn from"):
        recent_cells(folder, STREAM, 2, ["a"])


def test_the_key_is_drawn_once_and_is_the_streams(tmp_path):
    folder = str(tmp_path)
    with pytest.raises(FileNotFoundError):
        stream_key(folder, STREAM)
    key = begin(folder, STREAM, system_bits())
    assert key.source is BitSource.SYSTEM
    assert begin(folder, STREAM, system_bits()) == stream_key(folder, STREAM) == key
    assert key.value.hex() not in repr(key)
    for call in (lambda: begin(folder, "another", system_bits()), lambda: stream_key(folder, "x")):
        with pytest.raises(InputError, match="another stream"):
            call()
    other = begin(str(tmp_path / "other"), STREAM, seeded_bits(1))
    assert other.source is BitSource.SEEDED
    assert (tmp_path / "key.json").stat().st_mode & 0o077 == 0


def test_an_old_stream_goes_on_under_its_own_rule_or_is_refused(tmp_path):
    folder = str(tmp_path)
    with pytest.raises(FileNotFoundError):
        stream_naming(folder, STREAM, None)
    key = begin(folder, STREAM, system_bits())
    assert stream_naming(folder, STREAM, Naming.TEXTS) is Naming.BARE
    with pytest.raises(InputError, match="another stream"):
        stream_naming(folder, "another", None)
    stored = json.loads((tmp_path / "key.json").read_text())
    del stored["names"], stored["check"]  # as earlier versions began it
    (tmp_path / "key.json").write_text(json.dumps(stored))
    assert stream_key(folder, STREAM) == begin(folder, STREAM, system_bits()) == key
    assert stream_naming(folder, STREAM, Naming.TEXTS) is Naming.TEXTS
    with pytest.raises(InputError, match="an earlier version began this stream"):
        stream_naming(folder, STREAM, None)
    for rule in Naming:  # as the operator states
        (tmp_path / "key.json").write_text(json.dumps({**stored, "names": str(rule)}))
        assert stream_naming(folder, STREAM, None) is rule
    (tmp_path / "key.json").write_text(json.dumps({**stored, "names": "both"}))
    with pytest.raises(InputError, match="is damaged"):
        stream_naming(folder, STREAM, Naming.TEXTS)


def test_a_lost_key_is_not_drawn_again_once_people_counted(tmp_path):
    folder = str(tmp_path)
    begin(folder, STREAM, system_bits())
    carry_people(folder, STREAM, 0, "a", "")
    (tmp_path / "key.json").unlink()
    with pytest.raises(InputError, match="nobody knows who they are"):
        begin(folder, STREAM, system_bits())


def test_the_end_of_a_stream_leaves_nothing(tmp_path):
    folder = str(tmp_path)
    begin(folder, STREAM, system_bits())
    keep_cells(folder, STREAM, 0, cells(0), carry_people(folder, STREAM, 0, "a", "").digest)
    for _ in range(2):
        end(folder)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
