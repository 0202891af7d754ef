"""Beam's job server, through which Flink and Spark take portable jobs: start one for a cluster."""

from __future__ import annotations

import contextlib
import shutil
import socket
from collections.abc import Iterator
from dataclasses import replace

from apache_beam.runners.portability.flink_runner import FlinkJarJobServer
from apache_beam.runners.portability.spark_runner import SparkJarJobServer

from hushrank.pipelines.engine.options import pipeline_options
from hushrank.pipelines.engine.runner import Engine, Runner
from hushrank.transforms.common.schema import InputError

ENDPOINT = "--job_endpoint="
JOB_SERVERS = {Runner.FLINK: FlinkJarJobServer, Runner.SPARK: SparkJarJobServer}


@contextlib.contextmanager
def reachable(engine: Engine) -> Iterator[Engine]:
    """`engine` with a job server: the one that it names, or one that runs in this context.

    Beam's runners could start one, but would leave it behind when a signal ends the process.

    Raises:
        InputError: there is no Java here, or the job server cannot be fetched or started.
    """
    server_class = JOB_SERVERS.get(engine.runner)
    if server_class is None or any(each.startswith(ENDPOINT) for each in engine.arguments):
        yield engine
        return
    if shutil.which("java") is None:
        raise InputError(
            "runner.master: hushrank starts a job server for it. This needs Java, but there is none"
            " here. Install Java, or name a job_server that runs. Nothing was read or spent."
        )
    port = _free_port()
    options = pipeline_options(replace(engine, arguments=(*engine.arguments, f"--job_port={port}")))
    server = server_class(options)
    try:
        server.start()
    except (OSError, RuntimeError) as error:  # the download or the process failed
        raise InputError(
            "runner.master: Beam's job server for it cannot be fetched or started"
            f" ({type(error).__name__}). Name its jar as job_server_jar, or a job_server that runs."
            " Nothing was read or spent."
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
