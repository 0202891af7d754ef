"""The command `hushrank`, which `python -m hushrank` is too.

Loading the libraries takes most of a second, in which Ctrl-C would show a traceback of whatever is
being loaded, or end in a library's own error. So Ctrl-C ends this process at once, until the
command is there to tidy up, and again after it has ended.
"""

import os
import signal
import sys

INTERRUPTED = 130  # by convention 128 and the number of SIGINT


def main() -> None:
    """Load and run the command; `hushrank.flows.interfaces.cli.main` has the exit codes."""
    obeyed = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # `nohup` ignores it
    if obeyed:
        signal.signal(signal.SIGINT, _leave_loading)
    from hushrank.flows.interfaces.cli.main import main as command

    try:
        if obeyed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        if obeyed:
            signal.signal(signal.SIGINT, _leave)


def _leave_loading(*_: object) -> None:
    os.write(2, b"Interrupted: nothing was read or spent.\n")
    _leave()


def _leave(*_: object) -> None:
    os._exit(INTERRUPTED)


if __name__ == "__main__":  # a process that multiprocessing spawns imports this module too
    main()
