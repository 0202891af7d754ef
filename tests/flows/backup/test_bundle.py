"""A backup is whole or is not used: every byte that is changed, cut off or missing is noticed."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hushrank.flows.backup.bundle import SUMS, Manifest, find_bundle, write_bundle
from hushrank.flows.errors import BackupError
from hushrank.transforms.storage.places import CloudPath, Place
from tests.fake_cloud_storage import Fault, Store, fake_cloud_storage
from tests.flows.backup.conftest import everything

FILES = {"ledger.jsonl": b"{}\n", "confidential/0123456789abcdef/drawn.npz": b"noise"}


def manifest(day: int = 20) -> Manifest:
    return Manifest(
        made=datetime(2026, 11, day, 3, tzinfo=UTC),
        code_version="0.1.0",
        population="zoo",
        job="job",
        ledger="ledger.jsonl",
        line=1,
        hash="hash",
    )


def write(place: Place, day: int = 20) -> Place:
    return write_bundle(place, manifest(day), iter(FILES.items()))


def refused(place: Place) -> bool:
    try:
        find_bundle(place, "zoo")
    except BackupError as error:
        return "Nothing was put back." in str(error)
    return False


def test_a_backup_is_read_as_it_was_written(tmp_path):
    bundle = find_bundle(write(tmp_path / "backups"), "zoo")
    assert {name: bundle.read(name) for name in FILES} == FILES
    assert bundle.manifest == manifest().model_copy(update={"files": 2})
    assert set(everything(Path(str(bundle.folder)))) == {*FILES, "manifest.json", SUMS}


def test_every_byte_that_is_changed_or_cut_off_is_noticed(tmp_path):
    folder = Path(str(write(tmp_path / "backups")))
    for name, content in everything(folder).items():
        path = folder / name
        for place in range(len(content)):
            changed = bytearray(content)
            changed[place] ^= 32  # of letters the other case, which many readers take for the same
            for damaged in (
                bytes(changed),
                content[:place],
                content[:place] + content[place + 1 :],
            ):
                path.write_bytes(damaged)
                assert refused(folder), (name, place)
        path.write_bytes(content + b"\n")
        assert refused(folder), name
        path.unlink()
        assert refused(folder), name
        path.write_bytes(content)
    assert not refused(folder)


def test_what_a_killed_backup_has_left_is_deleted_by_the_next_one(tmp_path):
    place = tmp_path / "backups"
    place.mkdir(mode=0o700)
    for name in (".zoo-2026-11-19T030000Z.partial", ".zoo-b-2026-11-19T030000Z.partial"):
        (place / name / "confidential").mkdir(parents=True)
    write(place)
    names = sorted(path.name for path in place.iterdir())
    assert names == [".zoo-b-2026-11-19T030000Z.partial", "zoo-2026-11-20T030000Z"]


def test_the_newest_is_taken_and_never_an_older_one_in_its_place(tmp_path):
    place = tmp_path / "backups"
    names = [Path(str(write(place, day))) for day in (20, 21)]
    write_bundle(place, manifest().model_copy(update={"population": "zoo-b"}), iter([]))
    assert find_bundle(place, "zoo").folder == names[1]
    (names[1] / SUMS).unlink()
    with pytest.raises(BackupError, match="is unfinished"):
        find_bundle(place, "zoo")
    shutil.rmtree(names[1])
    assert find_bundle(place, "zoo").folder == names[0]
    with pytest.raises(BackupError, match="holds no backup of other"):
        find_bundle(place, "other")
    with pytest.raises(BackupError, match="holds no backup of zoo"):
        find_bundle(tmp_path / "nowhere", "zoo")


@pytest.mark.parametrize("name", ["../ledger.jsonl", "a/../../b", "/etc/passwd", "a//b"])
def test_a_name_that_leads_elsewhere_is_neither_written_nor_read(tmp_path, name):
    with pytest.raises(BackupError, match="cannot be backed up"):
        write_bundle(tmp_path / "backups", manifest(), iter([(name, b"")]))
    assert list((tmp_path / "backups").iterdir()) == []
    folder = Path(str(write(tmp_path / "backups")))
    (folder / SUMS).write_text((folder / SUMS).read_text().replace("ledger.jsonl", name))
    assert refused(folder)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_at_any_write_leaves_nothing(tmp_path, monkeypatch, number):
    """A backup before it stays as it was."""
    place = tmp_path / "backups"
    write(place, 19)
    before, flush = everything(place), os.fsync
    for fails_at in range(20):
        left = iter(range(fails_at))

        def full(descriptor: int, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise OSError(number, os.strerror(number))
            flush(descriptor)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            try:
                write(place)
            except OSError:
                assert everything(place) == before
                assert [path.name for path in place.iterdir()] == ["zoo-2026-11-19T030000Z"]
            else:
                break
    assert fails_at >= len(FILES) + 2  # each file, the manifest and the digests
    assert not refused(place)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with fake_cloud_storage("backups") as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        yield store


@pytest.mark.parametrize("ending", [*FILES, "manifest.json", SUMS])
def test_a_store_that_fails_leaves_nothing(store, ending):
    place = CloudPath.parse("gs://backups/zoo")
    store.faults.append(Fault("POST", ending, 403))
    with pytest.raises(PermissionError):
        write(place)
    assert store.names("backups") == []
    write(place)
    assert not refused(place)


def test_a_killed_backup_in_the_cloud_is_unfinished(store):
    place = CloudPath.parse("gs://backups/zoo")
    folder = write(place)
    store.buckets["backups"].pop(f"{folder}/{SUMS}".removeprefix("gs://backups/"))
    with pytest.raises(BackupError, match="is unfinished"):
        find_bundle(place, "zoo")
