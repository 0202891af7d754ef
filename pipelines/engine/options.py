"""Beam's options for each engine, and the job server through which some of them take jobs."""

from __future__ import annotations

import contextlib
import logging
import shutil
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar
from zipfile import BadZipFile

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.flink_runner import FlinkJarJobServer
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.portability.prism_runner import PrismJobServer
from apache_beam.runners.portability.spark_runner import SparkJarJobServer

from hushrank.pipelines.engine.runner import HERE, Engine, Runner
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.engine.in_process import local_workers

# isort: split


View = TypeVar("View", bound=PipelineOptions)

UNTYPED = "--no_pipeline_type_check"  # no transform declares types, and the check takes 30 ms
RUNNERS = {  # Beam's names for runners
    Runner.LOCAL: "FnApiRunner",
    Runner.FLINK: "FlinkRunner",
    Runner.SPARK: "SparkRunner",
    Runner.PRISM: "PrismRunner",
    Runner.DATAFLOW: "DataflowRunner",
}
ENDPOINT = "--job_endpoint="
PRISM_REST = "1m"  # time after which a Prism that lost its run, and thereby its job, ends
# What to do where the job server of an engine does not start.
_CLUSTER = "Name its jar as job_server_jar, or a job_server that runs."
START = {
    Runner.FLINK: _CLUSTER,
    Runner.SPARK: _CLUSTER,
    Runner.PRISM: "Name the program prism of this version of Beam, or its zip file under the name"
    " that Beam gave it, or a job_server that runs.",
}


class _Prism(PrismJobServer):
    """The program `prism`, for one job.

    It writes only errors, and serves no page. If the run is killed, its workers are gone, so its
    job fails, and Prism has none left.
    """

    def prism_arguments(self, job_port: int) -> list[object]:
        return [*super().prism_arguments(job_port), f"--idle_shutdown_timeout={PRISM_REST}"]


JOB_SERVERS = {
    Runner.FLINK: FlinkJarJobServer,
    Runner.SPARK: SparkJarJobServer,
    Runner.PRISM: _Prism,
}


def pipeline_options(engine: Engine = HERE) -> PipelineOptions:
    """Beam's options for `engine`.

    The local engine is named explicitly, because plain `DirectRunner` first tries to download
    another one. It is imported at the top, because otherwise its first job would wait for that. It
    works with threads, although it warns that it might not. Its other modes are worse:
    `multi_threading` lost a part of the rows in 8 of 150 runs (a timer empties buffers while they
    are written), and `multi_processing` starts slowly and gains nothing.
    """
    logging.getLogger(fn_runner.__name__).setLevel(logging.ERROR)
    options = [f"--runner={RUNNERS[engine.runner]}", UNTYPED, *engine.arguments]
    if engine.runner is Runner.LOCAL:
        options.append(f"--direct_num_workers={local_workers()}")
    else:  # workers have our package, so the session is not sent along
        options.append("--no_save_main_session")
    return _Options(options)


class _Options(PipelineOptions):
    """Options with one view for each class that asks for its own.

    Beam asks for 120 views a graph, and makes a parser of arguments for each. That takes a third
    of the time of a small graph. All views share their values, so one of a class is enough.
    """

    def view_as(self, cls: type[View]) -> View:
        """The view of `cls`; see `PipelineOptions`."""
        views: dict[type, PipelineOptions] = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        view: View = views[cls]
        return view

    def __getstate__(self) -> dict[str, object]:
        """A copy makes its own views: theirs are not its values."""
        return {name: value for name, value in super().__getstate__().items() if name != "_views"}


@contextlib.contextmanager
def reachable(engine: Engine) -> Iterator[Engine]:
    """`engine` with a job server: the one that it names, or one that runs in this context.

    Beam's runners could start one, but would leave it behind when a signal ends the process.

    Raises:
        InputError: there is no Java here for one that needs it, or the job server cannot be fetched
            or started.
    """
    server_class = JOB_SERVERS.get(engine.runner)
    if server_class is None or any(each.startswith(ENDPOINT) for each in engine.arguments):
        yield engine
        return
    key = "runner.binary" if engine.runner is Runner.PRISM else "runner.master"
    if engine.runner is not Runner.PRISM and shutil.which("java") is None:
        raise InputError(
            "runner.master: hushrank starts a job server for it. This needs Java, but there is none"
            " here. Install Java, or name a job_server that runs. Nothing was read or spent."
        )
    port = _free_port()
    options = pipeline_options(replace(engine, arguments=(*engine.arguments, f"--job_port={port}")))
    server = server_class(options)
    try:
        server.start()
    except (OSError, RuntimeError, KeyError, BadZipFile) as error:
        # The download or the process failed, or a zip file is damaged, or its name not its content.
        raise InputError(
            f"{key}: Beam's job server for it cannot be fetched or started"
            f" ({type(error).__name__}). {START[engine.runner]} Nothing was read or spent."
        ) from None
    try:
        yield replace(engine, arguments=(*engine.arguments, f"{ENDPOINT}localhost:{port}"))
    finally:
        server.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port: int = probe.getsockname()[1]
    return port
