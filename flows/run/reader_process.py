"""The part of a run that reads rows, in a process of its own.

Only this child process (`flows.reading`) holds rows in memory. Its parent, which talks to people,
ledger and server, gets an empty answer or an error text that is safe to show. The text of an
unexpected error may quote a row, so it goes to a file in the confidential folder. The child starts
before there is a job, and loads what every job needs while its parent checks the configuration.
Beam takes seconds more, so the child loads it only for a job that needs it.
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Self

from hushrank.flows.reading import READING, Reader, ReadingError  # loads no library
from hushrank.transforms.engine import in_process

if TYPE_CHECKING:
    from hushrank.flows.methods.base import ReductionJob

ERROR_FILE = "error.txt"
BEAM = "apache_beam"
LOADED_FIRST = (  # modules that the child loads first; none loads Beam
    READING,
    "hushrank.transforms.comparisons.bound",
    "hushrank.pipelines.reduce.reduction_job",
    "hushrank.flows.run.reader_process",
)


class Reducer:
    """A child process that runs reductions; it starts before the first reduction is known.

    Leaving the context ends the child at once, whatever it does.

    Attributes:
        reader: the child, for whatever else must be read.
    """

    def __init__(self) -> None:
        """Start nothing yet: the context does."""
        self.reader = Reader(*LOADED_FIRST)

    def __enter__(self) -> Self:
        self.reader.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.__exit__()

    def run(self, job: ReductionJob) -> None:
        """Run `job` in the child and wait for it.

        Raises:
            ConfigError: the input breaks a rule.
            ReadingError: anything else went wrong; details are in the confidential folder.
        """
        from hushrank.pipelines.engine.runner import Runner
        from hushrank.transforms.storage.files import Service

        files = all(file.format is not Service.BEAM for file in job.files)
        here = job.engine.runner is Runner.LOCAL and files  # a transform may start other programs
        memory = job.memory_limit if here else None  # an engine bounds its own
        while not self.reader.call(_reduce, job, memory=memory, cells=job.cells):
            self.reader.restart()


class _WithoutPandas:
    """Keep Arrow from loading pandas at its first array, where it is installed: nobody needs it."""

    def find_spec(self, name: str, *_: object) -> None:
        """Refuse to find pandas; leave other modules to the other finders."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _reduce(job: ReductionJob) -> bool:
    """Run `job`, where this process is fit for it; False: it needs one that can load Beam."""
    from hushrank.pipelines.engine.runner import does_without_beam
    from hushrank.transforms.common.schema import InputError

    if does_without_beam(job):
        if BEAM not in sys.modules:
            in_process.choose()
            sys.meta_path.insert(0, _WithoutPandas())
    elif in_process.is_chosen():
        return False
    from hushrank.pipelines.reduce import reduce

    try:
        reduce.run(job)
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise ReadingError(_keep(job, error)) from None
    return True


def _keep(job: ReductionJob, error: Exception) -> str:
    """Store the error in the confidential area; return a text that says only where it is.

    An engine's end is told in full: its text is ours, and nothing in it depends on rows.
    """
    from hushrank.pipelines.reduce.kind import EngineEndedError
    from hushrank.transforms.storage.places import write_whole

    if isinstance(error, EngineEndedError):
        return f"reduce: {error}. No budget was spent."
    text = f"reduce: failed ({type(error).__name__}). No budget was spent."
    path = f"{job.confidential}/{ERROR_FILE}"
    try:
        write_whole(path, "".join(traceback.format_exception(error)).encode())
    except OSError as full:
        return f"{text} Nothing could be written to the confidential area: {full.strerror}."
    return f"{text} The details may hold private values, so they are in {path} only."
