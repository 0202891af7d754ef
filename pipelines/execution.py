"""Run the graph of a reduction on an engine."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import apache_beam as beam

from hushrank.pipelines.confidential_area import has_rejects
from hushrank.pipelines.options import Runner, pipeline_options
from hushrank.pipelines.reduction_job import REJECTS_FOLDER
from hushrank.transforms.files import is_remote
from hushrank.transforms.schema import InputError
from hushrank.transforms.spill_file import SpillFile
from hushrank.transforms.write import OWNER_ONLY_FOLDER

Build = Callable[[beam.Pipeline, SpillFile | None], None]


class Reduction(Protocol):
    """What every reduction says about itself."""

    @property
    def confidential(self) -> str:
        """Folder for everything that holds private data."""
        ...

    @property
    def fail_on_bad_rows(self) -> bool:
        """Whether a row that breaks a rule stops the run."""
        ...


def execute(job: Reduction, runner: Runner, build: Build) -> None:
    """Build the graph of `job` with `build` and run it to its end.

    Args:
        job: the reduction.
        runner: the engine.
        build: adds the graph to a pipeline, given a spill file if all workers can reach one.

    Raises:
        InputError: a file cannot be read, or a row broke a rule under `fail_on_bad_rows`.
    """
    try:
        with (
            _spill_file(job.confidential, runner) as spill,
            beam.Pipeline(options=pipeline_options(runner)) as pipeline,
        ):
            build(pipeline, spill)
    except InputError as error:  # Beam appends the name of the stage
        raise InputError(str(error).partition(" [while running")[0]) from None
    if job.fail_on_bad_rows and has_rejects(job.confidential):
        raise InputError(
            "input: some rows break a rule (on_bad_rows: fail). They are in"
            f" {job.confidential}/{REJECTS_FOLDER} with the reason; nothing was released or spent."
        )


@contextlib.contextmanager
def _spill_file(folder: str, runner: Runner) -> Iterator[SpillFile | None]:
    """A file for the shuffle in the confidential folder, where every worker can reach it."""
    if runner is not Runner.LOCAL or is_remote(folder):
        yield None
        return
    Path(folder).mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        yield SpillFile(file.fileno())
