import errno
import os
import stat
import threading
from pathlib import Path

import pytest
from filelock import FileLock

from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.entries import LINE_START
from hushrank.flows.ledger.local_file import LedgerFile

ONE = LINE_START + b'1,"seq":1}\n'
TWO = LINE_START + b'1,"seq":2}\n'


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "folder" / "ledger.jsonl"


@pytest.fixture
def file(path) -> LedgerFile:
    return LedgerFile(path)


def add(file: LedgerFile, lines: bytes) -> None:
    written = file.append(file.read().token, lines)
    assert written is not None
    assert written == file.read()


def message(call, *arguments) -> str:
    with pytest.raises(LedgerError) as caught:
        call(*arguments)
    return str(caught.value)


def test_an_absent_ledger_is_empty_and_reading_makes_nothing(file, path):
    assert file.read().content == b""
    assert not path.parent.exists()


def test_what_was_appended_is_read(file):
    add(file, ONE)
    add(file, TWO)
    assert file.read().content == ONE + TWO
    assert file.read().loss is None


def test_all_files_are_for_their_owner_alone(file, path):
    old = os.umask(0)
    try:
        add(file, ONE)
        with file.hold("a"):
            pass
    finally:
        os.umask(old)
    modes = {entry: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.rglob("*")}
    folders = {path.parent, Path(f"{path}.runs")}
    assert {entry for entry in modes if entry.is_dir()} == folders - {path.parent}
    assert {modes[entry] for entry in modes if not entry.is_dir()} == {0o600}
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}


def test_an_append_to_content_that_changed_is_refused(file):
    before = file.read().token
    add(file, ONE)
    assert not file.append(before, TWO)
    assert file.read().content == ONE


def test_a_token_stands_for_content_not_for_length(file, path):
    add(file, ONE)
    token = file.read().token
    path.write_bytes(TWO)
    assert not file.append(token, TWO)


def test_a_link_to_the_ledger_stays_a_link(file, path, tmp_path):
    elsewhere = tmp_path / "elsewhere.jsonl"
    path.parent.mkdir()
    path.symlink_to(elsewhere)
    add(file, ONE)
    assert path.is_symlink()
    assert elsewhere.read_bytes() == ONE


@pytest.mark.parametrize("torn", [1, 5, len(LINE_START), len(TWO) - 1])
def test_the_rest_of_an_interrupted_append_has_no_effect(file, path, torn):
    add(file, ONE)
    with path.open("ab") as stream:
        stream.write(TWO[:torn])
    assert file.read().content == ONE
    add(file, TWO)
    assert path.read_bytes() == ONE + TWO


@pytest.mark.parametrize("content", [b"user,left,right", b"\x89PNG\x00\x01", b"{}"])
def test_a_file_that_is_no_ledger_is_never_cut(file, path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    assert file.read().content == content  # for the reader of entries to refuse
    add(file, ONE)  # nobody does: it proves that nothing is taken away even so
    assert path.read_bytes() == content + ONE


@pytest.mark.parametrize("left", [0, 7, len(ONE), len(ONE) + len(TWO) - 1])
def test_an_end_that_is_cut_off_is_a_loss(file, path, left):
    add(file, ONE)
    add(file, TWO)
    path.write_bytes((ONE + TWO)[:left])
    missing = len(ONE + TWO) - len(ONE) * (left >= len(ONE))
    assert file.read().loss == (
        f"{path}: {missing} bytes at its end are missing: it was cut off, deleted or replaced by an"
        " older copy. Put the newest copy back. Without one, count this budget as spent, or run"
        " hushrank ledger recover, which lists the known spending."
    )


def test_a_deleted_ledger_is_a_loss_until_that_is_accepted(file, path):
    add(file, ONE)
    path.unlink()
    assert file.read().loss is not None
    file.accept_loss()
    assert file.read().loss is None


@pytest.mark.parametrize("lines", [ONE, ONE + TWO])
def test_lines_without_their_length_are_a_loss(file, path, lines):
    """An older copy of the ledger, put back without the file that tells its length."""
    add(file, ONE)
    add(file, TWO)
    path.write_bytes(lines)
    Path(f"{path}.length").unlink()
    assert file.read().loss == (
        f"{path}.length is missing, so hushrank cannot tell whether this ledger is the newest. Put"
        " the newest copy back, with the files beside it; or run hushrank ledger recover, which"
        " lists"
        " the known spending."
    )
    file.accept_loss()
    assert file.read().loss is None


def test_the_first_append_may_die_before_its_length_is_recorded(file, path, monkeypatch):
    real = LedgerFile._record_length

    def dies(self: LedgerFile, length: int) -> None:
        if length:
            raise KeyboardInterrupt
        real(self, length)

    with monkeypatch.context() as patch:
        patch.setattr(LedgerFile, "_record_length", dies)
        with pytest.raises(KeyboardInterrupt):
            add(file, ONE)
    assert file.read().content == ONE
    assert file.read().loss is None


@pytest.mark.parametrize("planted", [".length.new", ".length"])
def test_a_planted_link_is_not_written_through(file, path, tmp_path, planted):
    target = tmp_path / "precious"
    target.write_text(f"{len(ONE)}\n")
    add(file, ONE)
    Path(f"{path}{planted}").unlink(missing_ok=True)
    Path(f"{path}{planted}").symlink_to(target)
    add(file, TWO)
    assert target.read_text() == f"{len(ONE)}\n"
    assert Path(f"{path}.length").read_text() == f"{len(ONE + TWO)}\n"
    assert not Path(f"{path}.length").is_symlink()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_can_write_is_refused(file, path, mode):
    add(file, ONE)
    token = file.read().token
    path.parent.chmod(mode)
    for call in (file.read, lambda: file.append(token, TWO), file.hold("a").__enter__):
        assert message(call) == (
            f"ledger.path: {path.parent} can be written by other users of this machine, who could"
            f" put an older ledger back. Run: chmod go-w {path.parent}; or name a folder of your"
            " own, such as .hushrank. Nothing was spent."
        )
    path.parent.chmod(0o750)
    add(file, TWO)


def test_a_link_into_a_folder_that_others_can_write_is_refused(file, path, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    path.parent.mkdir()
    path.symlink_to(elsewhere / "ledger.jsonl")
    add(file, ONE)
    elsewhere.chmod(0o777)
    assert f"{elsewhere} can be written by other users" in message(file.read)


def test_a_folder_of_another_user_is_refused(file, path, monkeypatch):
    add(file, ONE)
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    monkeypatch.setattr("hushrank.transforms.system.posix._ROOT", 1234)
    assert message(file.read) == (
        f"ledger.path: {path.parent} belongs to another user (number {path.stat().st_uid}), who"
        " could put an older ledger back. Keep the ledger in a folder of the account that runs"
        f" hushrank: chown 4321 {path.parent}, or name another one. Nothing was spent."
    )


def test_a_length_that_lags_behind_is_allowed(file, path):
    add(file, ONE)
    with path.open("ab") as stream:  # as after a death between line and length
        stream.write(TWO)
    assert file.read().content == ONE + TWO
    assert file.read().loss is None


@pytest.mark.parametrize(
    "text", ["many", "-5", "", "+5", " 0", "0\n\n", "1_0", "007", "٣", "5", "9" * 5000, "1e3"]
)
def test_a_length_that_no_append_writes_is_refused(file, path, text):
    add(file, ONE)
    Path(f"{path}.length").write_text(text)  # "5" would be in the middle of a line
    assert message(file.read) == (
        f"{path}.length is damaged: it does not hold a number that an append writes. If {path} is"
        " complete, delete it and run hushrank ledger recover."
    )


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_what_is_not_a_file_is_refused(path, kind):
    if kind == "folder":
        path.mkdir(parents=True)
    elif kind == "pipe":
        path.parent.mkdir()
        os.mkfifo(path)
    else:
        path = Path(os.devnull)
    assert message(LedgerFile(path).read).startswith(f"{path}: the ledger cannot be read (")
    assert message(LedgerFile(path).read).endswith(
        "or set ledger.path to another file. Nothing was spent."
    )


def test_a_file_in_place_of_the_folder_is_refused(file, path):
    path.parent.write_text("")
    assert message(file.read) == (
        f"{path}.length: the ledger cannot be read (Not a directory)."
        " Correct ledger.path or its permissions."
    )


def test_a_ledger_of_somebody_else_is_refused(file, path, monkeypatch):
    add(file, ONE)

    def denied(*arguments, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", denied)
    assert message(file.read) == (
        f"{path}.length: the ledger cannot be read (Permission denied)."
        " Correct ledger.path or its permissions."
    )
    assert message(file.append, "token", ONE) == (
        f"{path}: the ledger cannot be written (Permission denied); its content is unchanged."
        " Free some space or correct the permissions, then run again."
    )
    assert message(file.hold("a").__enter__) == (
        f"{path}.runs: the lock of this run cannot be made (Permission denied)."
        " Correct the permissions or ledger.path."
    )


def full_disk(room: int):
    """An `os.write` that finds room for `room` more bytes."""
    real = os.write

    def write(descriptor: int, content: bytes) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(descriptor, bytes(content)[:room])
        room -= written
        return written

    return write


@pytest.mark.parametrize("room", [0, 1, len(TWO) - 1, len(TWO), len(TWO) + 1])
def test_a_full_disk_leaves_the_ledger_as_it_was(file, path, monkeypatch, room):
    add(file, ONE)
    token = file.read().token
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_disk(room))
        assert message(file.append, token, TWO) == (
            f"{path}: the ledger cannot be written (No space left on device); its content is"
            " unchanged. Free some space or correct the permissions, then run again."
        )
    assert path.read_bytes() == ONE
    assert file.read().loss is None
    add(file, TWO)
    assert file.read().content == ONE + TWO


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failing_disk_leaves_the_ledger_as_it_was(file, path, monkeypatch, failing):
    add(file, ONE)
    token = file.read().token

    def fail(*arguments: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, fail)
        assert "cannot be written (Input/output error)" in message(file.append, token, TWO)
    assert path.read_bytes() == ONE
    add(file, TWO)
    assert file.read().content == ONE + TWO


def test_a_ledger_that_stays_locked_is_refused(path):
    path.parent.mkdir()
    with FileLock(f"{path}.lock"):
        file = LedgerFile(path, lock_timeout=0.05)
        assert message(file.append, file.read().token, ONE) == (
            f"{path}: other processes kept it locked for 0.05 s. Run again once they are done."
        )
    assert file.read().content == b""


def test_a_release_is_held_once_and_others_are_free(file):
    with file.hold("a"), file.hold("b"):
        assert message(file.hold("a").__enter__) == (
            "Another run of release a is in progress. Wait until it ends;"
            " then run again, which will cost nothing if it succeeded."
        )
    with file.hold("a"):
        pass


def test_a_release_is_held_across_threads(file):
    refused = []

    def contend() -> None:
        refused.append(message(file.hold("a").__enter__))

    with file.hold("a"):
        thread = threading.Thread(target=contend)
        thread.start()
        thread.join()
    assert "in progress" in refused[0]


def test_a_run_that_fails_lets_go(file):
    with pytest.raises(KeyError), file.hold("a"):
        raise KeyError
    with file.hold("a"):
        pass


def test_what_writers_that_died_have_left_is_deleted_and_nothing_else(file, path):
    add(file, ONE)
    left = [".length.new", f".key.{'0a' * 16}.new"]
    theirs = [
        ".new",
        ".2026.new",
        ".2026.new.length",
        ".key.new",
        ".key.old.new",
        ".keys.length.new",
    ]
    for ending in (*left, *theirs):
        Path(f"{path}{ending}").write_bytes(TWO)
    file.tidy()
    assert all(Path(f"{path}{ending}").exists() for ending in left)  # being written still
    for each in path.parent.iterdir():
        os.utime(each, (1, 1))
    file.tidy()
    assert not any(Path(f"{path}{ending}").exists() for ending in left)
    assert all(Path(f"{path}{ending}").exists() for ending in theirs)  # other ledgers
