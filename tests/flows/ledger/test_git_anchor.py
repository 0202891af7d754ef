"""Commits of a git anchor: what a killed git leaves does not stop them, and others' stay."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger import git_anchor
from hushrank.flows.ledger.git_anchor import FILE, GitAnchor
from hushrank.flows.ledger.guards import Guards
from hushrank.flows.ledger.keys import Head
from tests.flows.ledger.conftest import make_repository
from tests.ledgers import pure, release

LOCKS_OF_THE_INDEX = ["index.lock", "next-index-77.lock"]
LOCKS_OF_THE_BRANCH = ["HEAD.lock", "refs/heads/{branch}.lock"]


@pytest.fixture
def folder(tmp_path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture
def guards(folder) -> Guards:
    return Guards(anchor=GitAnchor(folder))


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def lock_in(folder: Path, name: str, age: float = 0.0) -> Path:
    branch = git(folder, "symbolic-ref", "--short", "HEAD").strip()
    lock = folder / ".git" / name.format(branch=branch)
    lock.touch()
    os.utime(lock, (lock.stat().st_atime - age, lock.stat().st_mtime - age))
    return lock


def lines(folder: Path) -> int:
    return git(folder, "show", f"HEAD:{FILE}").count("\n")


def head(position: int) -> tuple[Head, bytes]:
    made = Head(position=position, hash=f"{position:064x}")
    return made, made.record(None)


def git_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    """Put a git first on the path that does something else."""
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout
    program = tmp_path / "bin" / "git"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\ngit={real.strip()}\n{does}\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@pytest.mark.parametrize("name", LOCKS_OF_THE_INDEX)
@pytest.mark.parametrize("shared", [False, True])
def test_a_lock_of_the_index_stops_nothing(folder, guards, opened, name, shared):
    if shared:
        (folder / "mine").write_text("mine\n")
        git(folder, "add", "mine")
    lock = lock_in(folder, name)
    release(opened(guards), "a", 1)
    assert lines(folder) == 4
    assert opened(guards).balance().spent_epsilon == 1
    assert (folder / FILE).read_text() == git(folder, "show", f"HEAD:{FILE}")
    assert lock.exists()  # it may be held


def test_locks_that_a_killed_git_has_left_are_removed_after_a_minute(folder, guards, opened):
    names = ["index.lock", *LOCKS_OF_THE_BRANCH]
    locks = [lock_in(folder, name, age=90) for name in names]
    release(opened(guards), "a", 1)
    assert lines(folder) == 4
    assert not [lock for lock in locks if lock.exists()]
    assert git(folder, "status", "--porcelain") == ""


@pytest.mark.parametrize("name", LOCKS_OF_THE_BRANCH)
@pytest.mark.parametrize("why", ["fresh", "shared", "staged", "at work"])
def test_a_lock_that_may_be_held_is_named_with_its_cure(
    folder, guards, opened, tmp_path, name, why
):
    release(opened(guards), "a", 1)
    if why in ("shared", "staged"):
        (folder / "mine").write_text("mine\n")
        git(folder, "add", "mine")
    if why == "shared":
        git(folder, "commit", "--quiet", "-m", "mine", "--", "mine")
    lock = lock_in(folder, name, age=0 if why == "fresh" else 90)
    running = ["git", "cat-file", "--batch"] if why == "at work" else ["cat"]
    with subprocess.Popen(running, cwd=folder, stdin=subprocess.PIPE) as other:
        with pytest.raises(LedgerError) as caught:
            opened(guards).reserve("b", pure(1))
        other.stdin.close()
    text = str(caught.value)
    assert f"the lock {lock} is held by another git, or was left by one that was killed" in text
    assert f"If no git runs there, run: rm {lock} " in text
    assert "This step is recorded in" in text
    lock.unlink()
    release(opened(guards), "b", 1)
    assert opened(guards).balance().spent_epsilon == 2


def test_a_git_that_is_killed_is_not_taken_for_an_empty_repository(
    folder, guards, opened, tmp_path, monkeypatch
):
    release(opened(guards), "a", 1)
    git_that(tmp_path, monkeypatch, "kill -9 $$")
    for call in (guards.anchor.latest, lambda: guards.anchor.put(*head(9))):
        with pytest.raises(LedgerError, match=r"\(git was killed by SIGKILL\)"):
            call()


def test_a_git_that_hangs_is_asked_to_end_so_it_removes_its_locks(
    folder, guards, opened, tmp_path, monkeypatch
):
    release(opened(guards), "a", 1)
    does = 'trap "touch ended; exit 1" TERM\ncase $1 in update-ref) sleep 60 & wait;; esac\n'
    git_that(tmp_path, monkeypatch, f'{does} exec $git "$@"')
    monkeypatch.setattr(git_anchor, "GIT_TIMEOUT", 1.0)
    with pytest.raises(LedgerError, match=r"written \(git did not finish within 1 s\)"):
        guards.anchor.put(*head(9))
    assert (folder / "ended").exists()


def test_what_git_says_is_not_cut_before_its_advice(folder, guards, tmp_path, monkeypatch):
    said = "one reason " * 40 + "and the advice."
    git_that(tmp_path, monkeypatch, f"echo {said} >&2; exit 128")
    with pytest.raises(LedgerError, match=r"and the advice\)"):
        guards.anchor.put(*head(9))
    git_that(tmp_path, monkeypatch, "exit 128")
    with pytest.raises(LedgerError, match=r"git says: git ended with exit code 128"):
        guards.anchor.put(*head(9))


def test_a_commit_of_somebody_else_in_between_is_kept(folder, guards, monkeypatch):
    guards.anchor.put(*head(1))
    run = git_anchor.run_git
    left = [1]

    def interrupted(where: Path, *arguments: str, given: bytes = b""):
        if arguments[0] == "update-ref" and left.pop():
            left.append(0)
            git(folder, "commit", "--quiet", "--allow-empty", "-m", "mine")
        return run(where, *arguments, given=given)

    monkeypatch.setattr(git_anchor, "run_git", interrupted)
    guards.anchor.put(*head(2))
    log = git(folder, "log", "--format=%s").splitlines()
    assert log == ["hushrank ledger: line 2", "mine", "hushrank ledger: line 1"]
    assert lines(folder) == 2


def test_files_and_folders_of_somebody_else_stay_in_the_commit(folder, tmp_path):
    for name in ("mine", "deep/mine", "deep/er/mine"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{name}\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "mine")
    (folder / "deep/er/new").mkdir()
    for place in (folder / "deep/er", folder / "deep/er/new", folder):
        GitAnchor(place).put(*head(1))
        GitAnchor(place).put(*head(2))
        assert GitAnchor(place).latest().head.position == 2
    listed = git(folder, "ls-tree", "-r", "--name-only", "HEAD").split()
    mine = ["deep/er/mine", "deep/mine", "mine"]
    assert listed == sorted([f"deep/er/{FILE}", f"deep/er/new/{FILE}", FILE, *mine])
    assert git(folder, "status", "--porcelain") == ""
    git(folder, "fsck", "--strict")


def said_of_anchors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of the anchor, and not by threads of other tests."""
    return [each.message for each in caplog.records if each.name == git_anchor.__name__]


def test_the_repository_signs_and_pushes_as_it_is_set(folder, guards, tmp_path, caplog):
    program = tmp_path / "sign"
    program.write_text(
        '#!/bin/sh\ncat >/dev/null\nprintf "\\n[GNUPG:] SIG_CREATED \\n" >&2\n'
        "printf -- '-----BEGIN PGP SIGNATURE-----\\nx\\n-----END PGP SIGNATURE-----\\n'\n"
    )
    program.chmod(0o700)
    git(folder, "config", "commit.gpgSign", "true")
    git(folder, "config", "gpg.program", str(program))
    hook = folder / ".git/hooks/post-commit"
    hook.write_text("git rev-parse HEAD >> pushed\n")  # git runs it with a shell
    guards.anchor.put(*head(1))
    assert not (folder / "pushed").exists()  # nobody may execute it
    hook.chmod(0o700)
    guards.anchor.put(*head(2))
    assert (folder / "pushed").read_text() == git(folder, "rev-parse", "HEAD")
    assert "gpgsig -----BEGIN PGP SIGNATURE-----" in git(folder, "cat-file", "commit", "HEAD")
    assert not said_of_anchors(caplog)
    hook.write_text("echo no route >&2; exit 3\n")
    guards.anchor.put(*head(3))
    (told,) = said_of_anchors(caplog)
    assert f"the hook {hook} failed (no route). The line is committed" in told
    assert lines(folder) == 3


def test_many_loose_objects_are_packed(folder, guards, monkeypatch):
    """As after `git commit`: each commit keeps the whole file once more."""
    run, asked = git_anchor.run_git, []

    def noted(where: Path, *arguments: str, given: bytes = b""):
        asked.append(arguments)
        return run(where, *arguments, given=given)

    monkeypatch.setattr(git_anchor, "run_git", noted)
    guards.anchor.put(*head(1))
    assert asked[-1] == ("gc", "--auto", "--quiet")
