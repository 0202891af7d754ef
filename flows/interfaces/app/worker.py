"""Process of one run: `hushrank run` of a YAML file, under the folder's lock.

It is no child of the page in any way that matters: it goes on if the browser, the server or the
terminal is closed. Its standard streams are files in the page's private folder. They hold what
`hushrank run --json` prints, which is public.
"""

from __future__ import annotations

import sys
from pathlib import Path

from filelock import FileLock, Timeout

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.app.folder import CHANGED, digest_of, text_at
from hushrank.flows.interfaces.app.runs import LOCK
from hushrank.flows.interfaces.cli.main import main, print_error

TIMEOUT = 60.0  # seconds; whoever looks whether the lock is free holds it for a moment
BUSY = "Another run goes on in this folder; wait for its end. Nothing was spent."


def work(private: Path, survey: str, digest: str) -> None:
    """Run a job, if its file still is what the person saw.

    Args:
        private: folder of the page's notes.
        survey: the YAML file, in the folder where this process works.
        digest: of the content that the person saw.
    """
    try:
        with FileLock(private / LOCK, timeout=TIMEOUT):
            if digest_of(text_at(Path(survey))) != digest:
                refuse(CHANGED.format(survey))
            main(["run", survey, "--direct", "--json"])
    except Timeout:
        refuse(BUSY)


def refuse(text: str) -> None:
    """Print why nothing was run, and exit."""
    error = ConfigError(text)
    print_error(error, text, error.exit_code)
    sys.exit(error.exit_code)


if __name__ == "__main__":
    work(Path(sys.argv[1]), *sys.argv[2:4])
