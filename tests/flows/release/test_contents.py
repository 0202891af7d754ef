"""The content of a file is known again wherever it lies, and what is remembered cannot lie."""

from __future__ import annotations

import json
import mmap
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hushrank.flows.ledger.keys import KEY_BYTES, LedgerKey
from hushrank.flows.release import identity as contents_module
from hushrank.flows.release.identity import CACHE_FILE, Contents, Stamp, meant_by
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.files import FileFormat, InputFile, list_files
from tests.conftest import REAL_FSYNC

KEY, OTHER_KEY = LedgerKey(bytes(KEY_BYTES), ""), LedgerKey(b"\1" * KEY_BYTES, "")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file whose digest is remembered though it is small and new."""
    monkeypatch.setattr(contents_module, "REMEMBERED_BYTES", 1)
    monkeypatch.setattr(contents_module, "SETTLED_NS", -(10**18))
    (tmp_path / "area").mkdir()
    path = tmp_path / "a.csv"
    path.write_bytes(b"user,winner\n1,ants\n")
    return path


def named(path: Path, key: LedgerKey = KEY) -> str:
    (found,) = meant_by(Contents(key, path.parent / "area"), list_files([str(path)]))
    return found


def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths whose bytes are read from now on."""
    paths: list[str] = []
    read = Contents._hashed
    monkeypatch.setattr(
        Contents, "_hashed", lambda each, path: (paths.append(path), read(each, path))[1]
    )
    return paths


def test_place_and_dates_say_nothing(path: Path, tmp_path: Path):
    first = named(path)
    os.utime(path, (1, 1))
    assert named(path) == first
    copy = tmp_path / "copy.txt.csv"
    shutil.copyfile(path, copy)
    linked = tmp_path / "link.csv"
    linked.symlink_to(path)
    assert named(copy) == named(linked) == first
    path.write_bytes(b"user,winner\n1,bees\n")  # of the same length
    assert named(path) != first
    assert named(copy, OTHER_KEY) != first


def test_how_a_file_is_read_belongs_to_the_release_and_not_to_the_content(path: Path):
    (file,) = list_files([str(path)])
    german, french = (replace(file, partitions=(("language", name),)) for name in ("de", "fr"))
    lines = replace(file, format=FileFormat.JSONL)
    packed = path.with_name("a.csv.gz")
    shutil.copyfile(path, packed)
    read = [file, german, french, lines, replace(file, path=str(packed))]
    contents = Contents(KEY, path.parent)
    assert len({contents.of(each) for each in read}) == 1
    assert len({str(meant_by(contents, [each])) for each in read}) == len(read)


def test_times_are_not_believed_where_a_mapped_file_keeps_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    """On tmpfs a change of a mapped page that was changed before leaves all times as they are."""
    monkeypatch.setattr(contents_module.system, "is_in_memory", lambda device: True)
    contents = Contents(KEY, path.parent / "area")
    meant_by(contents, list_files([str(path)]))
    assert not (path.parent / "area" / CACHE_FILE).exists()
    path.write_bytes(b"user,winner\n1,bees\n")
    monkeypatch.setattr(Stamp, "of", classmethod(lambda cls, status: Stamp(0, 0, 0, 0, 0)))
    with pytest.raises(InputError, match="changed during the run"):
        contents.require_unchanged()


def test_the_file_systems_of_this_machine_are_known():
    assert contents_module.system.is_in_memory(os.stat("/dev/shm").st_dev)
    assert contents_module.system.is_in_memory(os.makedev(4095, 1))  # of which nobody knows


def test_a_mapped_file_is_flushed_first_so_that_its_next_change_moves_its_times(
    path: Path, monkeypatch
):
    monkeypatch.setattr(os, "fsync", REAL_FSYNC)
    if contents_module.system.is_in_memory(path.stat().st_dev):
        pytest.skip("the folder of the tests is in memory")
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[-2:-1] = b"t"
        first = named(path)
        mapped[-2:-1] = b"u"
        assert named(path) != first


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"md5": "x"}, {"md5": "x", "path": "gs://other/b.csv", "version": "2"}),
        ({"digest": "x"}, {"digest": "x", "path": "/elsewhere.parquet", "size": 7}),
    ],
)
def test_an_object_with_a_checksum_and_a_table_are_their_bytes(one, other, tmp_path: Path):
    file = InputFile("gs://bucket/a.csv", 3, "1", FileFormat.CSV)
    contents = Contents(KEY, tmp_path)
    assert contents.of(replace(file, **one)) == contents.of(replace(file, **other))
    assert contents.of(replace(file, **{**one, "size": 4, "digest": "y"})) != contents.of(file)


@pytest.mark.parametrize("change", [{"version": "2"}, {"path": "gs://bucket/b.csv"}, {"size": 4}])
def test_an_object_without_a_checksum_is_its_generation(change, tmp_path: Path):
    file = InputFile("gs://bucket/a.csv", 3, "1", FileFormat.CSV)
    contents = Contents(KEY, tmp_path)
    assert contents.of(replace(file, **change)) != contents.of(file)


def test_two_files_of_one_content_count_twice(path: Path, tmp_path: Path):
    shutil.copyfile(path, tmp_path / "b.csv")
    found = meant_by(Contents(KEY, tmp_path), list_files([str(tmp_path)]))
    assert len(found) == 2
    assert len(set(found)) == 1


def test_an_unchanged_file_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch):
    paths, first = hashed(monkeypatch), named(path)
    assert named(path) == first
    assert paths == [str(path)]
    assert (path.parent / "area" / CACHE_FILE).stat().st_size < 300


def lie(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def edited(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = path.parent / "area" / CACHE_FILE
    (digest, _) = next(iter(json.loads(cache.read_text()).values())).split()
    lie(cache, digest, "0" * len(digest))


def of_another_machine(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents_module.platform, "node", lambda: "elsewhere")


def damaged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path.parent / "area" / CACHE_FILE).write_bytes(b'[{"\xff')


def another_kind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path.parent / "area" / CACHE_FILE).write_text('["no", 1]')


def changed_and_dated_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.stat()
    path.write_bytes(b"user,winner\n1,bees\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "lying", [edited, of_another_machine, damaged, another_kind, changed_and_dated_back]
)
def test_a_memory_that_lies_is_not_believed(path: Path, monkeypatch: pytest.MonkeyPatch, lying):
    first = named(path)
    lying(path, monkeypatch)
    paths = hashed(monkeypatch)
    assert (named(path) == first) is (lying is not changed_and_dated_back)
    assert paths == [str(path)]


def test_the_digest_of_a_file_that_changed_just_now_is_not_remembered(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A second change within one step of the clock would leave all times as they are."""
    monkeypatch.setattr(contents_module, "SETTLED_NS", 10**18)
    named(path)
    assert not (path.parent / "area" / CACHE_FILE).exists()


def test_without_a_folder_that_can_be_written_it_takes_longer_and_works(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(contents_module, "write_whole", full)
    paths = hashed(monkeypatch)
    assert named(path) == named(path)
    assert len(paths) == 2


def test_a_file_that_changes_while_it_is_read_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    stamps = iter(range(100))
    monkeypatch.setattr(
        Stamp, "of", classmethod(lambda cls, status: Stamp(0, 0, next(stamps), 0, 0))
    )
    with pytest.raises(InputError, match="changed while it was read"):
        named(path)


def test_a_file_that_changes_after_it_was_named_is_refused(path: Path):
    contents = Contents(KEY, path.parent)
    contents.of(*list_files([str(path)]))
    os.utime(path, (1, 1))
    contents.require_unchanged()  # its bytes are the same
    path.write_bytes(b"user,winner\n1,bees\n")
    with pytest.raises(InputError, match="changed during the run"):
        contents.require_unchanged()
    path.unlink()
    with pytest.raises(InputError, match="changed during the run"):
        contents.require_unchanged()


def test_many_small_files_leave_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(contents_module, "SETTLED_NS", -(10**18))
    for number in range(50):
        (tmp_path / f"{number}.csv").write_text(f"user\n{number}\n")
    assert len(set(meant_by(Contents(KEY, tmp_path), list_files([str(tmp_path)])))) == 50
    assert not (tmp_path / CACHE_FILE).exists()
