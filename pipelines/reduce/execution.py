"""Run the graph of a reduction on an engine."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hushrank.pipelines.engine.memory_plan import MemoryPlan
from hushrank.pipelines.engine.runner import Engine, Runner
from hushrank.pipelines.reduce.reduction_job import (
    REJECTS_FOLDER,
    Reduction,
    is_reduced,
    read_tally,
)
from hushrank.transforms import system
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.engine import in_process
from hushrank.transforms.engine.beam import beam
from hushrank.transforms.storage.files import is_remote
from hushrank.transforms.storage.spill_file import SPILL_PREFIX, Spill, SpillFile, SpillFolder

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8  # GNU libc's mallopt
_LARGEST_KEPT = 32 << 20  # bytes of one array; the most that GNU libc takes from its own heap
_FREE_KEPT = 512 << 20
_STEP = 16 << 20
Build = Callable[[beam.Pipeline, Spill | None], None]


@functools.cache
def keep_freed_memory() -> None:
    """Let new arrays of some MB reuse the memory of freed ones; without GNU libc, do nothing.

    By default GNU libc returns such memory to the system and takes new memory, page by page, for
    the next array: this costs a third of the time in which a million rows are reduced. All threads
    share one heap, because a heap for each would keep as much again. Memory in use does not change.
    The process may keep up to 512 MiB that it does not use, for the next arrays only.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another libc, or another system
        return
    for parameter, value in (
        (_ARENA_MAX, 1),
        (_MMAP_THRESHOLD, _LARGEST_KEPT),
        (_TRIM_THRESHOLD, _FREE_KEPT),
        (_TOP_PAD, _STEP),
    ):
        mallopt(parameter, value)


def execute(job: Reduction, build: Build) -> None:
    """Build the graph of `job` with `build` and run it to its end.

    Args:
        job: the reduction.
        build: adds the graph to a pipeline, given where rows may wait.

    Raises:
        InputError: a file cannot be read, or a row broke a rule under `fail_on_bad_rows`.
        RuntimeError: the engine gave up.
    """
    if job.engine.runner is Runner.LOCAL:
        _run_here(job, build)
    else:
        _run_elsewhere(job, build)
    if job.fail_on_bad_rows and read_tally(job.results).get("rows_rejected"):
        raise InputError(
            "input: some rows break a rule (on_bad_rows: fail). They are in"
            f" {job.confidential}/{REJECTS_FOLDER} with the reason; nothing was released or spent."
        )


def _run_here(job: Reduction, build: Build) -> None:
    keep_freed_memory()
    try:
        with _spill_file(job) as spill, _pipeline(job.engine) as pipeline:
            build(pipeline, spill)
    except InputError as error:  # Beam appends the name of the stage
        raise InputError(str(error).partition(" [while running")[0]) from None


def _run_elsewhere(job: Reduction, build: Build) -> None:
    """Run the graph on another engine, whose job ends with this process if that is ended.

    The shuffle is the engine's; only rows of heavy people wait in files. Where a job of the
    same release is done already, left by a process that died or that did not wait, its results are
    taken.
    """
    if is_reduced(job.results):
        return
    from hushrank.pipelines.engine.options import reachable  # loads Beam

    with _interrupted_by_termination(), reachable(job.engine) as engine:
        pipeline = _pipeline(engine)
        build(pipeline, SpillFolder(job.confidential))
        result = pipeline.run()
        try:
            state = result.wait_until_finish(1000 * engine.most_seconds)
        except KeyboardInterrupt:
            result.cancel()
            raise
        if state == "RUNNING":
            result.cancel()
    if state != "DONE":
        raise RuntimeError(f"the job has not ended, or the engine stopped it: {state}")


@contextlib.contextmanager
def _interrupted_by_termination() -> Iterator[None]:
    """Let SIGTERM end what is going on, as Ctrl-C does, so that it can be tidied up."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are for the main thread alone
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _pipeline(engine: Engine) -> beam.Pipeline:
    if in_process.is_chosen():
        return beam.Pipeline()
    return beam.Pipeline(options=_beam_options()(engine))


@functools.cache
def _beam_options() -> Callable[[Engine], PipelineOptions]:
    from hushrank.pipelines.engine.options import pipeline_options  # loads Beam

    gc.freeze()  # objects that stay: a full collection would look at all of them, for 0.1 s
    return pipeline_options


@contextlib.contextmanager
def _spill_file(job: Reduction) -> Iterator[SpillFile | None]:
    """Memory and a file for the shuffle, in reach of every worker; None: rows need neither.

    The file is in the confidential folder; if that is in Cloud Storage, in the engine's `spill`,
    and where none is named there is memory only.

    Raises:
        InputError: `spill` cannot be used.
    """
    folder: str | None = job.confidential
    if is_remote(job.confidential):
        folder = job.engine.spill
    if in_process.is_chosen():
        yield None  # what is in its collections stays where it is; see `runner.does_without_beam`
        return
    room = MemoryPlan.of(job.memory_limit).waiting_bytes
    with contextlib.ExitStack() as open_files:
        descriptor = memory = None
        if folder is not None:
            descriptor = open_files.enter_context(_nameless(folder, job)).fileno()
        if (opened := system.memory_file(SPILL_PREFIX)) is not None:
            memory = open_files.enter_context(opened).fileno()
        if descriptor is None and memory is None:
            yield None
            return
        yield SpillFile(descriptor, memory, 0 if memory is None else room)


def _nameless(folder: str, job: Reduction) -> IO[bytes]:
    """A file without a name, for its owner only."""
    try:
        system.make_private_folder(Path(folder))
        return tempfile.TemporaryFile(dir=folder, prefix=SPILL_PREFIX)
    except OSError as error:
        if folder == job.confidential:
            raise
        raise InputError(
            f"runner.spill: {folder}: rows cannot wait there: {error.strerror}; name a folder of"
            " this machine that can be written"
        ) from None
