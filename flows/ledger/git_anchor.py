"""An anchor in a git repository: each head is a line of a file, and a commit.

What counts is the file in the last commit (`HEAD`), not the one in the work tree. The repository's
own settings hold: its author, the signing of commits, and the hook `post-commit`, which may push
them to another host.

A commit is made from its parts: the file, the folders above it, the commit, and then the branch,
which moves only if nobody else has moved it. Work tree and index are brought up to date afterwards,
for whoever looks into them: nothing depends on them. So of the lock files that a killed git leaves
behind, only those of the branch and of `HEAD` can stop a commit.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.anchor import LOCK_TIMEOUT, is_newer, last_record, unreachable
from hushrank.flows.ledger.keys import Anchored, Head
from hushrank.flows.terminal import signals_held
from hushrank.transforms import system
from hushrank.transforms.common.local_files import open_to_write
from hushrank.transforms.storage.places import STALE_SECONDS, is_stale

GIT_TIMEOUT = 60.0  # seconds; a hook that pushes needs a few
ENDING_SECONDS = 5.0  # time for git to remove its locks after SIGTERM
MOST_TOLD = 800  # characters of git's output that a message quotes
_LOCKED = re.compile(r"Unable to create '(.+?\.lock)': File exists")
_PROCESSES = Path("/proc")


@dataclass(frozen=True, slots=True)
class Ended:
    """Result of a command.

    Attributes:
        printed: standard output of git.
        code: exit code of git; None: it was killed, gave no answer, or could not be started.
        why: complaint of git, or what ended it; empty if it succeeded.
        lock: the lock file because of which git did nothing; None: that was not the reason.
    """

    printed: bytes = b""
    code: int | None = None
    why: str = ""
    lock: Path | None = None

    @property
    def good(self) -> bool:
        """Whether the command succeeded."""
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
            **system.OWN_GROUP,  # Ctrl-C is for the run, which waits for this
        )
    except OSError as error:  # no git, or no such folder
        missing = f"{name} is not installed" if folder.is_dir() else "there is no such folder"
        absent = isinstance(error, FileNotFoundError | NotADirectoryError)
        return Ended(why=missing if absent else str(error.strerror))
    try:
        printed, said = child.communicate(given, timeout=GIT_TIMEOUT)
    except subprocess.TimeoutExpired:
        _end(child)
        return Ended(why=f"{name} did not finish within {GIT_TIMEOUT:g} s")
    if child.returncode < 0:
        return Ended(why=f"{name} was killed by {_signal_name(-child.returncode)}")
    if not child.returncode:
        return Ended(printed, 0)
    complaint = " ".join((said or printed).decode("utf-8", "replace").split())
    otherwise = f"{name} ended with exit code {child.returncode}"
    return Ended(printed, child.returncode, _shortened(complaint) or otherwise)


def remove_dead_lock(lock: Path, repository: Path) -> bool:
    """Delete a lock file of git if its maker is gone; return whether it was deleted.

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
    """Whether a process runs git in `repository`; true also if that cannot be determined."""
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
    except (FileNotFoundError, ProcessLookupError):  # the process has just ended
        return False
    except OSError:  # a process of another user
        return True


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a command and all processes that it started."""
    for force in (False, True):
        with suppress(ProcessLookupError):
            system.end_group(child.pid, force=force)
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


FILE = "hushrank-anchor.jsonl"
MAX_TRIES = 20  # tries of one commit; each fails only because another commit succeeded
_FILE_MODE, _FOLDER_MODE = b"100644", b"040000"

_Entry = tuple[bytes, bytes, bytes]  # mode, kind and object id of a name in a git tree


@dataclass(frozen=True, slots=True)
class _Where:
    """Location of an anchor in its repository.

    Attributes:
        prefix: the anchor's folder, from the top of the work tree; ends with "/" unless empty.
        git_folder: the folder of git itself.
        top: the top of the work tree.
    """

    prefix: bytes
    git_folder: Path
    top: Path


class GitAnchor:
    """The `Anchor` of a folder in the work tree of a git repository.

    Args:
        folder: the folder; it must exist. Each ledger needs one of its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def place(self) -> str:
        """Place of the anchor, as the configuration writes it."""
        return f"git:{self._folder}"

    def latest(self) -> Anchored | None:
        """Return the head in the last line of the file in the last commit."""
        return last_record(self.records(), self.place)

    def records(self) -> bytes:
        """Return the file in the last commit."""
        found = run_git(self._folder, "cat-file", "blob", f"HEAD:./{FILE}")
        return found.printed if found.good else self._committed(self._last_commit("read"))

    def put(self, head: Head, record: bytes) -> None:
        """Commit the file with one more line; see `Anchor.put`."""
        try:
            where = self._where()
            lock = FileLock(where.git_folder / "hushrank-anchor.lock")
            with signals_held(), lock.acquire(timeout=LOCK_TIMEOUT):
                for _ in range(MAX_TRIES):
                    last = self._last_commit("written")
                    before = self._committed(last)
                    if not is_newer(head, last_record(before, self.place), self.place):
                        return
                    if self._commit(where, last, head, before + record):
                        return
        except Timeout:
            why = f"others kept it locked for {LOCK_TIMEOUT:g} s"
            raise unreachable(self.place, "written", why) from None
        except OSError as error:
            raise unreachable(self.place, "written", error.strerror or "error") from None
        raise unreachable(self.place, "written", "others commit to it all the time")

    def _commit(self, where: _Where, last: str | None, head: Head, content: bytes) -> bool:
        """Commit `content` on top of `last`; return False if somebody else committed meanwhile."""
        names = [*where.prefix.split(b"/")[:-1], FILE.encode()]
        blob = self._id("hash-object", "-w", "--stdin", given=content)
        tree = self._folder_with(None if last is None else f"{last}^{{tree}}", names, blob)
        parent = () if last is None else ("-p", last)
        signing = run_git(self._folder, "config", "--type=bool", "--get", "commit.gpgSign")
        sign = ("-S",) if signing.printed.strip() == b"true" else ()
        message = f"hushrank ledger: line {head.position}"
        made = self._id("commit-tree", *sign, *parent, "-m", message, tree)
        step = ("update-ref", "-m", f"commit: {message}", "HEAD", made, last or "")
        moved = self._unlocked(where, *step)
        if not moved.good:
            if moved.code is not None and self._last_commit("written") != last:
                return False
            raise self._refused("written", moved)
        self._show(where, blob, content)
        self._tell(where.top)
        return True

    def _show(self, where: _Where, blob: str, content: bytes) -> None:
        """Bring work tree and index up to date; only the commit matters to the anchor."""
        with suppress(OSError), open_to_write(self._folder / FILE) as file:
            file.write(content)
        name = os.fsdecode(where.prefix) + FILE
        entry = f"{_FILE_MODE.decode()},{blob},{name}"
        with suppress(LedgerError):
            self._unlocked(where, "update-index", "--add", "--cacheinfo", entry)

    def _tell(self, top: Path) -> None:
        """Run the hook and pack loose files, as git does after a commit."""
        found = run_git(top, "rev-parse", "--git-path", "hooks/post-commit")
        hook = top / os.fsdecode(found.printed.rstrip(b"\n"))
        if found.good and os.access(hook, os.X_OK):
            ended = run_hook(hook, top)
            if not ended.good:  # the commit is made, and git ignores a failed hook too
                logging.getLogger(__name__).warning(
                    "ledger.anchor: %s: the hook %s failed (%s). The line is committed; if the hook"
                    " was to push it, push it by hand.", self.place, hook, ended.why,
                )  # fmt: skip
        run_git(top, "gc", "--auto", "--quiet")

    def _folder_with(self, folder: str | None, names: Sequence[bytes], blob: str) -> str:
        """Return the git tree that equals `folder` except for the file `names`; None: an empty
        tree."""
        entries = {} if folder is None else self._entries(folder)
        name, *below = names
        if below:
            _, kind, inner = entries.get(name, (b"", b"", b""))
            within = inner.decode() if kind == b"tree" else None
            made = self._folder_with(within, below, blob)
            entries[name] = (_FOLDER_MODE, b"tree", made.encode())
        else:
            entries[name] = (_FILE_MODE, b"blob", blob.encode())
        listed = (b" ".join(entry) + b"\t" + each + b"\0" for each, entry in entries.items())
        return self._id("mktree", "-z", "--missing", given=b"".join(listed))

    def _entries(self, folder: str) -> dict[bytes, _Entry]:
        found: dict[bytes, _Entry] = {}
        for line in _texts(self._git("written", "ls-tree", "-z", "--full-tree", folder)):
            entry, _, name = line.partition(b"\t")
            mode, kind, made = entry.split()
            found[name] = (mode, kind, made)
        return found

    def _last_commit(self, what: str) -> str | None:
        """Return the id of the last commit; None if there is none yet."""
        found = run_git(self._folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if found.code == 1:
            return None
        if not found.good:
            raise self._refused(what, found)
        return found.printed.decode().strip()

    def _committed(self, commit: str | None) -> bytes:
        """Return the file in `commit`; empty if it has none."""
        if commit is None:
            return b""
        found = run_git(self._folder, "cat-file", "blob", f"{commit}:./{FILE}")
        if found.good:
            return found.printed
        if found.code is None or self._git("read", "ls-tree", commit, "--", FILE):
            raise self._refused("read", found)
        return b""

    def _unlocked(self, where: _Where, *arguments: str) -> Ended:
        """Run git; retry if a dead git's lock was in the way and could be removed."""
        ended = run_git(self._folder, *arguments)
        while ended.lock and self._is_alone() and remove_dead_lock(ended.lock, where.top):
            ended = run_git(self._folder, *arguments)
        return ended

    def _is_alone(self) -> bool:
        """Whether the repository holds anchors and nothing else, in its last commit and index."""
        listed = self._git("written", "ls-files", "-z", "--full-name", ":/")
        last = self._last_commit("written")
        if last is not None:
            listed += self._git("written", "ls-tree", "-rz", "--full-tree", "--name-only", last)
        return all(name.rpartition(b"/")[2] == FILE.encode() for name in _texts(listed))

    def _where(self) -> _Where:
        asked = ("--show-prefix", "--absolute-git-dir", "--show-toplevel")
        prefix, git_folder, top = self._git("written", "rev-parse", *asked).split(b"\n")[:3]
        return _Where(prefix, Path(os.fsdecode(git_folder)), Path(os.fsdecode(top)))

    def _id(self, *arguments: str, given: bytes = b"") -> str:
        """Return the id of the object that git makes."""
        return self._git("written", *arguments, given=given).decode().strip()

    def _git(self, what: str, *arguments: str, given: bytes = b"") -> bytes:
        """Return git's standard output.

        Raises:
            LedgerError: git fails.
        """
        ended = run_git(self._folder, *arguments, given=given)
        if not ended.good:
            raise self._refused(what, ended)
        return ended.printed

    def _refused(self, what: str, ended: Ended) -> LedgerError:
        if ended.lock is None:
            return unreachable(self.place, what, ended.why)
        return unreachable(
            self.place,
            what,
            f"the lock {ended.lock} is held by another git, or was left by one that was killed",
            f"If no git runs there, run: rm {shlex.quote(str(ended.lock))} (in a repository that"
            f" holds anchors alone, hushrank does this once the lock is {STALE_SECONDS:g} s old)",
        )


def _texts(listed: bytes) -> Iterable[bytes]:
    """Split the texts that git printed with `-z`."""
    return filter(None, listed.split(b"\0"))
