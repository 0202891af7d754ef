"""Sections `runner`, `memory_limit` and `observability`: how a run is executed and monitored.

`runner: local` is short for `runner: {kind: local}`. The same job gives the same release on every
engine, so nothing here enters the job's hash. Workers get the hushrank package from an image, a
wheel or the environment in which they were started, never from a source tree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from hushrank.flows.config.section import LocalPath, Section, Text
from hushrank.flows.config.yaml_file import refuse
from hushrank.pipelines.engine.runner import LEAST_MEMORY, MOST_MEMORY, Engine, Runner

MOST_WORKERS = 1024  # more than a machine has processors: a typing error
WORKER_REST_MILLISECONDS = 60_000  # time that an idle worker stays, because a start takes seconds
ADDRESS = re.compile(r"[A-Za-z0-9.-]+:[0-9]{1,5}")
URL = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+(/[^\s@]*)?")
BUCKET = re.compile(r"gs://[a-z0-9][a-z0-9._-]+(/.*)?")


UNITS = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}
_SIZE = re.compile(rf"(\d{{1,18}}(?:\.\d{{1,18}})?) *({'|'.join(UNITS)})")


def _memory(value: object) -> object:
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            refuse(("", f"must be bytes, or a size such as 2 GiB or 1500 MB, got {value[:40]!r}"))
        value = int(float(found[1]) * UNITS[found[2]])
    if isinstance(value, int) and not isinstance(value, bool) and value < LEAST_MEMORY:
        refuse(
            (
                "",
                f"must be at least {LEAST_MEMORY >> 20} MiB, of which the engine and its readers"
                f" take most, got {value} bytes; raise it, or remove it for 2 GiB",
            )
        )
    if isinstance(value, int) and value > MOST_MEMORY:
        refuse(("", f"must be at most {MOST_MEMORY >> 40} TiB; write what this machine can spare"))
    return value


MemorySize = Annotated[int, BeforeValidator(_memory)]


def _address(value: object) -> object:
    if isinstance(value, str) and not ADDRESS.fullmatch(value):
        refuse(("", f"must be host:port, got {value[:80]!r}; write for example localhost:8099"))
    return value


def _bucket(value: object) -> object:
    if isinstance(value, str) and not BUCKET.fullmatch(value):
        refuse(
            ("", f"must be a gs:// folder, got {value[:80]!r}; write for example gs://bucket/tmp")
        )
    return value


def _url(value: object) -> object:
    if isinstance(value, str) and not URL.fullmatch(value):
        refuse(
            (
                "",
                "must be an http:// or https:// URL without a password, such as"
                " https://marquez.example.org/api/v1/lineage",
            )
        )
    return value


# at most a year
Hours = Annotated[float, Field(gt=0, le=8784, allow_inf_nan=False, examples=["24"])]
Url = Annotated[Text, BeforeValidator(_url)]
Address = Annotated[Text, BeforeValidator(_address)]
Bucket = Annotated[Text, BeforeValidator(_bucket)]


def _workers(value: object) -> object:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value != "auto" and not (whole and 1 <= int(f"{value}") <= MOST_WORKERS):
        refuse(("", f"must be auto, or a number from 1 to {MOST_WORKERS}, got {str(value)[:40]!r}"))
    return value


Workers = Annotated[Literal["auto"] | int, BeforeValidator(_workers), Field(examples=["auto"])]


class Environment(StrEnum):
    """Source of the Python that an engine's workers run."""

    LOOPBACK = "loopback"  # the process that submits the job; for an engine on this machine
    EXTERNAL = "external"  # a pool of workers that runs beside each of the engine's own
    DOCKER = "docker"  # a container that the engine starts


class LocalRunner(Section):
    """This machine, in one process.

    Attributes:
        spill: a folder on a disk of this machine where rows may wait, in a file without a name, if
            `confidential` is in Cloud Storage and memory_limit does not hold them; None: such a run
            is refused. True rows touch that disk, so choose an encrypted disk.
        beam: run the job on Apache Beam's local engine even if its small stand-in could run it,
            which starts sooner. Both give the same counts, bit for bit.
        workers: how many files, or parts of them, are read at once; `auto`: one for each processor
            that this process may use, but no more than memory_limit has room for. Any number gives
            the same counts, bit for bit.
    """

    kind: Literal["local"] = Field(default="local", examples=["local"])
    spill: LocalPath | None = Field(default=None, examples=["/var/tmp/hushrank"])
    beam: bool = False
    workers: Workers = "auto"

    def engine(self) -> Engine:
        """Engine that this section names."""
        spill = None if self.spill is None else str(self.spill)
        number = None if self.workers == "auto" else self.workers
        return Engine(spill=spill, beam=self.beam, workers=number)


class _PortableRunner(Section):
    """An engine that takes Beam's portable jobs through a job server.

    Attributes:
        job_server: address of a running job server; None: the machine that submits starts one.
        environment: where workers come from.
        workers: address of the pool for `external`, as the engine's machines see it.
        image: for `docker`: a container image that holds the hushrank package.
        workers_per_machine: Python processes that each of the engine's own workers uses.
        max_hours: a job that takes longer is stopped, because an engine waits for ever for a worker
            that died while it was starting.
    """

    job_server: Address | None = Field(default=None, examples=["localhost:8099"])
    environment: Annotated[Environment, Field(strict=False)] = Environment.LOOPBACK
    workers: Address | None = Field(default=None, examples=["localhost:50000"])
    image: Text | None = Field(default=None, examples=["example.org/hushrank:0.1.0"])
    workers_per_machine: int = Field(default=1, ge=1, le=256)
    max_hours: Hours = 24.0

    def _problems(self) -> Iterator[tuple[str, str]]:
        for key, environment, example in (
            ("workers", Environment.EXTERNAL, "localhost:50000"),
            ("image", Environment.DOCKER, "example.org/hushrank:0.1.0"),
        ):
            given = getattr(self, key) is not None
            if given and self.environment is not environment:
                yield key, f"goes with environment: {environment}; set that, or remove {key}"
            if not given and self.environment is environment:
                yield key, f"missing with environment: {environment}; add {key}: {example}"

    def _arguments(self) -> Iterator[str]:
        if self.job_server is not None:
            yield f"--job_endpoint={self.job_server}"
        yield f"--environment_type={self.environment.upper()}"
        if self.workers or self.image:
            yield f"--environment_config={self.workers or self.image}"
        yield f"--sdk_worker_parallelism={self.workers_per_machine}"
        yield f"--environment_cache_millis={WORKER_REST_MILLISECONDS}"


class _ClusterRunner(_PortableRunner):
    """A cluster, whose job server is a program in Java.

    Attributes:
        master: the cluster that a started job server talks to.
        job_server_jar: the job server's jar; None: Beam fetches the one of its version.
    """

    master: Text | None = Field(default=None, examples=["localhost:8081"])
    job_server_jar: LocalPath | None = Field(default=None, examples=["job-server.jar"])

    def _problems(self) -> Iterator[tuple[str, str]]:
        if (self.job_server is None) == (self.master is None):
            yield "", "needs exactly one of job_server and master; add job_server: localhost:8099"
        if self.job_server_jar is not None and self.master is None:
            yield "job_server_jar", "goes with master, for which a job server is started; remove it"
        elif self.job_server_jar is not None and not self.job_server_jar.is_file():
            yield "job_server_jar", f"no such file: {self.job_server_jar}"
        yield from super()._problems()


class FlinkRunner(_ClusterRunner):
    """Apache Flink.

    Attributes:
        version: version of the cluster that `master` names; None: the newest that Beam knows.
        parallelism: tasks of a step that work at once; None: the cluster's own default.
        rest: address of the cluster's REST interface, which is asked before anything is reserved
            whether a dead task manager would fail the run; None: `master`, if that is given.
    """

    kind: Literal["flink"] = Field(examples=["flink"])
    rest: Address | None = Field(default=None, examples=["localhost:8081"])
    version: Literal["1.19", "1.20", "2.0", "2.1", "2.2"] | None = None
    parallelism: int | None = Field(default=None, ge=1, le=100_000, examples=["2"])

    @property
    def asked(self) -> str | None:
        """Address to ask for the cluster's settings; None: none is known."""
        known = self.rest or self.master
        return known if known is not None and ADDRESS.fullmatch(known) else None

    def engine(self) -> Engine:
        """Engine that this section names."""
        given = {
            "flink_master": self.master,
            "flink_version": self.version,
            "flink_job_server_jar": self.job_server_jar,
            "parallelism": self.parallelism,
        }
        arguments = (*self._arguments(), *_options(given))
        return Engine(Runner.FLINK, arguments, _seconds(self.max_hours))

    def _problems(self) -> Iterator[tuple[str, str]]:
        yield from super()._problems()
        if self.version is not None and self.master is None:
            yield "version", "goes with master, for which a job server is started; remove it"


class SparkRunner(_ClusterRunner):
    """Apache Spark.

    Attributes:
        master: URL of the cluster that a started job server talks to.
    """

    kind: Literal["spark"] = Field(examples=["spark"])
    master: Text | None = Field(default=None, examples=["spark://localhost:7077"])

    def engine(self) -> Engine:
        """Engine that this section names."""
        given = {"spark_master_url": self.master, "spark_job_server_jar": self.job_server_jar}
        arguments = (*self._arguments(), *_options(given))
        return Engine(Runner.SPARK, arguments, _seconds(self.max_hours))


class PrismRunner(_PortableRunner):
    """Prism, Beam's own portable engine for one machine.

    Attributes:
        binary: the program `prism`, or a zip file that holds it, which is started for each job and
            ends with it; None: `job_server` runs already.
    """

    kind: Literal["prism"] = Field(examples=["prism"])
    binary: LocalPath | None = Field(default=None, examples=["/usr/local/bin/prism"])

    def engine(self) -> Engine:
        """Engine that this section names."""
        arguments = (*self._arguments(), *_options({"prism_location": self.binary}))
        return Engine(Runner.PRISM, arguments, _seconds(self.max_hours))

    def _problems(self) -> Iterator[tuple[str, str]]:
        if (self.job_server is None) == (self.binary is None):
            yield "", "needs exactly one of job_server and binary; add binary: /usr/local/bin/prism"
        if self.binary is not None and not self.binary.is_file():
            yield "binary", f"no such file: {self.binary}"
        yield from super()._problems()


class DataflowRunner(Section):
    """Google Cloud Dataflow.

    Attributes:
        project, region: where the job runs and is paid for.
        temp_location, staging_location: gs:// folders; the second is the first unless given.
        image: a container image that holds the hushrank package.
        wheel: the hushrank wheel, installed by each worker when it starts, if there is no image.
        service_account: e-mail of the workers' identity; None: the project's default, which may do
            more than it should.
        machine_type, max_workers: type of a worker machine, and the most workers.
        subnetwork, public_ips: the workers' network; without public addresses it needs Private
            Google Access.
        max_hours: a job that takes longer is stopped.
    """

    kind: Literal["dataflow"] = Field(examples=["dataflow"])
    project: Text = Field(examples=["my-project"])
    region: Text = Field(examples=["europe-west4"])
    temp_location: Bucket = Field(examples=["gs://my-confidential-bucket/tmp"])
    staging_location: Bucket | None = Field(default=None, examples=["gs://my-bucket/staging"])
    image: Text | None = Field(default=None, examples=["example.org/hushrank:0.1.0"])
    wheel: LocalPath | None = Field(default=None, examples=["dist/hushrank-0.1.0-py3-none-any.whl"])
    service_account: Text | None = Field(
        default=None, examples=["workers@my-project.iam.gserviceaccount.com"]
    )
    machine_type: Text | None = Field(default=None, examples=["n2-standard-4"])
    max_workers: int | None = Field(default=None, ge=1, le=100_000, examples=["20"])
    subnetwork: Text | None = Field(
        default=None, examples=["regions/europe-west4/subnetworks/default"]
    )
    public_ips: bool = False
    max_hours: Hours = 24.0

    def _problems(self) -> Iterable[tuple[str, str]]:
        if (self.image is None) == (self.wheel is None):
            yield "", "needs exactly one of image and wheel, which bring our package"
        if self.wheel is not None and not (self.wheel.suffix == ".whl" and self.wheel.is_file()):
            yield "wheel", f"no such wheel: {self.wheel}; build one with: uv build"

    def engine(self) -> Engine:
        """Engine that this section names."""
        given = {
            "project": self.project,
            "region": self.region,
            "temp_location": self.temp_location,
            "staging_location": self.staging_location or self.temp_location,
            "sdk_container_image": self.image,
            "extra_package": self.wheel,
            "service_account_email": self.service_account,
            "worker_machine_type": self.machine_type,
            "max_num_workers": self.max_workers,
            "subnetwork": self.subnetwork,
        }
        addresses = () if self.public_ips else ("--no_use_public_ips",)
        image = ("--sdk_location=container",) if self.image else ()  # the image has Beam already
        arguments = (*_options(given), *image, *addresses)
        return Engine(Runner.DATAFLOW, arguments, _seconds(self.max_hours))


RunnerConfig = LocalRunner | FlinkRunner | SparkRunner | PrismRunner | DataflowRunner


def spelled_out(value: Any) -> Any:
    """Return the section that a single word, such as `local`, stands for."""
    return {"kind": value} if isinstance(value, str) else value


def _seconds(hours: float) -> int:
    return math.ceil(3600 * hours)


def _options(given: Mapping[str, str | int | Path | None]) -> Iterator[str]:
    return (f"--{name}={value}" for name, value in given.items() if value is not None)


class LineageConfig(Section):
    """Destination of OpenLineage events of runs: a file, an endpoint, or both.

    Attributes:
        file: file that gets one JSON object a line.
        url: endpoint that gets each event by POST; a key comes from OPENLINEAGE_API_KEY.
        namespace: namespace of the job in these events.
        timeout: seconds that the endpoint may delay a run at each of the two events of a run; after
            a failure the run goes on without it.
    """

    file: LocalPath | None = Field(default=None, examples=["lineage.jsonl"])
    url: Url | None = Field(default=None, examples=["https://marquez.example.org/api/v1/lineage"])
    namespace: Text = "hushrank"
    timeout: float = Field(default=5.0, gt=0, le=60, allow_inf_nan=False)

    def _problems(self) -> Iterable[tuple[str, str]]:
        if self.file is None and self.url is None:
            yield "", "needs file or url; add for example file: lineage.jsonl, or remove it"


class ObservabilityConfig(Section):
    """Destinations of logs, metrics and traces of runs; nothing here enters the release key.

    Attributes:
        log: file that gets lines for every run; None: no file.
        log_format: `json`, one object a line, or `text`.
        metrics: Prometheus text file, replaced after every run; None: no file.
        traces: send OpenTelemetry spans to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names.
        support: folder that gets a bundle without data when a run fails; None: no folder.
        lineage: OpenLineage events, which say from which inputs a release was made; None: none.
    """

    log: LocalPath | None = Field(default=None, examples=["hushrank.log.jsonl"])
    log_format: Literal["json", "text"] = "json"
    metrics: LocalPath | None = Field(default=None, examples=["metrics/hushrank.prom"])
    traces: bool = False
    support: LocalPath | None = Field(default=None, examples=["support"])
    lineage: LineageConfig | None = None
