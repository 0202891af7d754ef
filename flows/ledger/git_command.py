"""Git as a child process that may be killed, and the lock files that a killed git leaves behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hushrank.transforms.storage.write import is_stale

GIT_TIMEOUT = 60.0  # seconds; a hook that pushes needs a few
ENDING_SECONDS = 5.0  # for git to remove its locks after SIGTERM
MOST_TOLD = 800  # characters of what git says
_LOCKED = re.compile(r"Unable to create '(.+?\.lock)': File exists")
_PROCESSES = Path("/proc")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended.

    Attributes:
        printed: its standard output.
        code: its exit code; None: it was killed, gave no answer, or could not be started.
        why: its complaint, or what ended it; empty if it succeeded.
        lock: the lock file because of which git did nothing; None: that was not the reason.
    """

    printed: bytes = b""
    code: int | None = None
    why: str = ""
    lock: Path | None = None

    @property
    def good(self) -> bool:
        """Whether it succeeded."""
        return self.code == 0


def run_git(folder: Path, *arguments: str, given: bytes = b"") -> Ended:
    """Run git in `folder`, with `given` on its standard input."""
    ended = _run(folder, "git", "git", *arguments, given=given)
    if ended.code is None or ended.good:
        return ended
    found = _LOCKED.search(ended.why)
    lock = None if found is None else folder / found[1]
    return replace(ended, why=f"git says: {ended.why}", lock=lock)


def run_hook(hook: Path, folder: Path) -> Ended:
    """Run a hook of git in `folder`; like git, with a shell if the hook names no interpreter."""
    return _run(folder, "the hook", "sh", "-c", '"$0"', str(hook))


def _run(folder: Path, name: str, *command: str, given: bytes = b"") -> Ended:
    """Run a command without the `GIT_` variables of this process.

    It gets SIGTERM after `GIT_TIMEOUT` seconds: git then removes its lock files.
    """
    kept = {each: value for each, value in os.environ.items() if not each.startswith("GIT_")}
    try:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=kept | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the run, which waits for this
        )
    except OSError as error:  # no git, or no such folder
        missing = f"{name} is not installed" if folder.is_dir() else "there is no such folder"
        absent = isinstance(error, FileNotFoundError | NotADirectoryError)
        return Ended(why=missing if absent else str(error.strerror))
    try:
        printed, said = child.communicate(given, timeout=GIT_TIMEOUT)
    except subprocess.TimeoutExpired:
        _end(child)
        return Ended(why=f"{name} gave no answer within {GIT_TIMEOUT:g} s")
    if child.returncode < 0:
        return Ended(why=f"{name} was killed by {_signal_name(-child.returncode)}")
    if not child.returncode:
        return Ended(printed, 0)
    complaint = " ".join((said or printed).decode("utf-8", "replace").split())
    otherwise = f"{name} ended with exit code {child.returncode}"
    return Ended(printed, child.returncode, _shortened(complaint) or otherwise)


def remove_dead_lock(lock: Path, repository: Path) -> bool:
    """Delete a lock file of git if whoever made it is gone; whether it was deleted.

    It must be a minute old, and no process of this machine may run git in the repository. The
    caller knows that nobody else uses the repository.
    """
    if not is_stale(lock) or _git_runs_in(repository):
        return False
    with suppress(FileNotFoundError):
        try:
            lock.unlink()
        except OSError:
            return False
    return True


def _git_runs_in(repository: Path) -> bool:
    """Whether a process runs git in `repository`; true too if nobody can tell."""
    if not (_PROCESSES / "self/cwd").exists():
        return True
    return any(_is_git_in(process, repository.resolve()) for process in _numbered(_PROCESSES))


def _numbered(folder: Path) -> Iterator[Path]:
    return (each for each in folder.iterdir() if each.name.isdigit())


def _is_git_in(process: Path, repository: Path) -> bool:
    try:
        if not (process / "comm").read_text().startswith("git"):
            return False
        return (process / "cwd").readlink().is_relative_to(repository)
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return False
    except OSError:  # somebody else's
        return True


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a command and whatever it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=ENDING_SECONDS)
            return


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _shortened(text: str) -> str:
    return text.rstrip(".") if len(text) <= MOST_TOLD else f"{text[:MOST_TOLD]}..."
