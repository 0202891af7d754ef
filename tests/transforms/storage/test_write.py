"""A file is there whole or not at all, and only its owner can read it."""

from __future__ import annotations

import errno
import io
import os
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.transforms.storage.places import npz_bytes, parquet_bytes, write_once, write_whole

NO_LINKS = {
    getattr(errno, name)
    for name in ("EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL", "EXDEV", "EMLINK", "EIO")
}


@pytest.fixture
def open_umask():
    """The most permissive habit that a user can have."""
    before = os.umask(0)
    yield
    os.umask(before)


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_and_the_folder_made_for_it_are_the_owners_alone(tmp_path, open_umask):
    path = tmp_path / "made" / "counts.npz"
    write_whole(str(path), b"content")
    assert path.read_bytes() == b"content"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert names(path.parent) == ["counts.npz"]


def test_a_file_that_others_could_read_is_replaced_by_one_that_they_cannot(tmp_path, open_umask):
    path = tmp_path / "counts.npz"
    path.write_bytes(b"old")
    write_whole(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", ["fsync", "fdopen"])
@pytest.mark.parametrize("old", [None, b"old"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call, old):
    path = tmp_path / "counts.npz"
    if old is not None:
        path.write_bytes(old)
    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left on device"):
        write_whole(str(path), b"x" * 100_000)
    monkeypatch.undo()
    assert names(tmp_path) == ([] if old is None else ["counts.npz"])
    assert old is None or path.read_bytes() == old


def test_a_write_that_is_interrupted_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(str(tmp_path / "counts.npz"), b"content")
    assert names(tmp_path) == []


def test_the_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    path = tmp_path / "counts.npz"
    fsync, seen = os.fsync, []

    def watch(descriptor):
        seen.append((os.fstat(descriptor).st_size, path.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    write_whole(str(path), b"content")
    assert seen == [(7, False)]


def test_arrays_and_tables_are_read_back_as_they_were(tmp_path):
    write_whole(str(tmp_path / "x.npz"), npz_bytes(counts=np.arange(4).reshape(2, 2)))
    with np.load(tmp_path / "x.npz") as arrays:
        assert arrays["counts"].tolist() == [[0, 1], [2, 3]]
    table = pa.table({"a": ["x", None], "n": [1, 2]})
    write_whole(str(tmp_path / "x.parquet"), parquet_bytes(table))
    assert pq.read_table(tmp_path / "x.parquet") == table


def test_objects_are_not_written():
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        npz_bytes(names=np.array(["a", None], object))


@pytest.mark.parametrize("error", [None, *sorted(NO_LINKS)])
def test_what_is_written_once_stays_also_where_there_are_no_hard_links(
    tmp_path, monkeypatch, error
):
    path = tmp_path / "drawn"
    if error is not None:

        def link(*_: object) -> None:
            raise OSError(error, os.strerror(error))

        monkeypatch.setattr(os, "link", link)
    assert write_once(str(path), b"first") == b"first"
    assert write_once(str(path), b"second") == b"first"
    assert names(tmp_path) == ["drawn"]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS])
def test_another_failure_of_a_link_is_not_hidden(tmp_path, monkeypatch, error):
    def link(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(OSError, match=os.strerror(error)):
        write_once(str(tmp_path / "drawn"), b"first")
    assert names(tmp_path) == []


def test_times_in_seconds_that_no_millisecond_reaches_are_written():
    far = pa.array([0, 2**63 - 1, None], pa.int64())
    table = pa.table({"s": far.view(pa.timestamp("s", "UTC")), "us": far.view(pa.timestamp("us"))})
    back = pq.read_table(io.BytesIO(parquet_bytes(table)))
    assert back["s"].to_pylist() == far.to_pylist()
    assert back["us"].cast(pa.int64()).to_pylist() == far.to_pylist()
