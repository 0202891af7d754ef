"""An anchor in a git repository: each head is a line of a file, and a commit.

What counts is the file in the last commit (`HEAD`), not the one in the work tree. The repository's
own settings hold: its author, its hooks and the signing of commits. To bring commits to another
host, let a `post-commit` hook push them.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from filelock import FileLock, Timeout

from hushrank.flows.integrity.anchor import unreachable
from hushrank.flows.integrity.file_anchor import LOCK_TIMEOUT, is_newer, last_record
from hushrank.flows.integrity.head import Anchored, Head
from hushrank.flows.signals import signals_held

FILE = "hushrank-anchor.jsonl"
GIT_TIMEOUT = 60.0  # seconds; a hook that pushes needs a few
MOST_TOLD = 200  # characters of what git says


class GitAnchor:
    """The `Anchor` of a folder in the work tree of a git repository.

    Args:
        folder: the folder; it must exist. Each ledger needs one of its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def place(self) -> str:
        """As in the configuration."""
        return f"git:{self._folder}"

    def latest(self) -> Anchored | None:
        """The last line of the file in the last commit."""
        return last_record(self._committed(), self.place)

    def records(self) -> bytes:
        """The file in the last commit."""
        return self._committed()

    def put(self, head: Head, record: bytes) -> None:
        """Commit the file with one line more; see `Anchor.put`."""
        path = self._folder / FILE
        try:
            lock = FileLock(self._lock_file())
            with signals_held(), lock.acquire(timeout=LOCK_TIMEOUT):
                before = self._committed()
                if not is_newer(head, last_record(before, self.place), self.place):
                    return
                path.write_bytes(before + record)  # over what a commit that failed has left
                self._git("written", "add", "--force", "--", FILE)
                message = f"hushrank ledger: line {head.position}"
                self._git("written", "commit", "--quiet", "-m", message, "--only", "--", FILE)
        except Timeout:
            why = f"others kept it locked for {LOCK_TIMEOUT:g} s"
            raise unreachable(self.place, "written", why) from None
        except OSError as error:
            raise unreachable(self.place, "written", error.strerror or "error") from None

    def _lock_file(self) -> Path:
        named = self._git("written", "rev-parse", "--absolute-git-dir").decode().strip()
        return Path(named) / "hushrank-anchor.lock"

    def _committed(self) -> bytes:
        """The file in the last commit; empty: there is none."""
        found, why = self._tried("cat-file", "blob", f"HEAD:./{FILE}")
        if found is not None:
            return found
        self._git("read", "rev-parse", "--show-prefix")  # tells of a folder in no repository
        head, _ = self._tried("rev-parse", "--verify", "--quiet", "HEAD")
        if head is not None and self._git("read", "ls-tree", "HEAD", "--", FILE):
            raise unreachable(self.place, "read", why)
        return b""

    def _git(self, what: str, *arguments: str) -> bytes:
        """What git prints; LedgerError with its complaint if it fails."""
        printed, why = self._tried(*arguments)
        if printed is None:
            raise unreachable(self.place, what, why)
        return printed

    def _tried(self, *arguments: str) -> tuple[bytes | None, str]:
        """What git prints, or None and its first line of complaint."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        try:
            done = subprocess.run(
                ["git", *arguments],
                cwd=self._folder,
                env=kept | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=GIT_TIMEOUT,
                start_new_session=True,  # Ctrl-C is for the run, which waits for this
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, f"git gave no answer within {GIT_TIMEOUT:g} s"
        except OSError as error:  # no git, or no such folder
            missing = "git is not installed" if self._folder.is_dir() else "there is no such folder"
            return None, missing if isinstance(error, FileNotFoundError) else str(error.strerror)
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        said = " ".join(said.split())[:MOST_TOLD].rstrip(".")
        return (None if done.returncode else done.stdout), f"git says: {said or 'nothing'}"
