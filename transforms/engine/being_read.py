"""Which files this process has open to parse them, told to the process that started it.

A parser of the libraries may end its process, and then nothing else can say at which file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[str, bool], None]  # name of a file, and whether its reading begins or ends

_reports: list[Report] = []  # per process; empty where nobody asked


def report_to(report: Report) -> None:
    """Call `report` from now on, in any thread, before a file is read and after it was."""
    _reports.append(report)


@contextmanager
def being_read(name: str) -> Iterator[None]:
    """Report that the file `name` is read as long as the block lasts.

    After an error in the block its end is not reported, so that whoever tells of it knows the file.
    """
    for report in _reports:
        report(name, True)
    try:
        yield
    except GeneratorExit:  # whoever read the block's rows wants no more of them
        _end(name)
        raise
    _end(name)


def _end(name: str) -> None:
    for report in _reports:
        report(name, False)
