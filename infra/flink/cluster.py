"""A Flink cluster on this machine: job manager, task managers, Beam's job server, Python workers.

    python infra/flink/cluster.py

prints a line of JSON when the cluster takes jobs, and ends it on Ctrl-C or SIGTERM. Needs Java and
Maven. The jars come through Maven, once, and stay in its own cache. Beam's job server is the one of
the Beam that is installed here; where the Maven repository does not hold that, it is an older one,
and this says so: the protocol between the two is kept compatible.

Everything listens on this machine alone and leaves its logs, which may hold rows, in the folder.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib.metadata
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "build" / "flink"
FLINK = "1.19"
OLDER_BEAM = "2.62.0"
MAVEN_SECONDS, START_SECONDS = 900, 120
CANNOT = 69  # exit code: something that this needs is not to be had here

JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
JOB_SERVER = "org.apache.beam.runners.flink.FlinkJobServerDriver"
OPENED = ("lang", "lang.reflect", "io", "net", "nio", "text", "time", "util", "util.concurrent")
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # seconds of compiling saved

SETTINGS = """\
jobmanager.rpc.address: 127.0.0.1
jobmanager.rpc.port: {rpc}
jobmanager.bind-host: 127.0.0.1
jobmanager.memory.process.size: 768m
rest.address: 127.0.0.1
rest.bind-address: 127.0.0.1
rest.port: {rest}
taskmanager.host: 127.0.0.1
taskmanager.bind-host: 127.0.0.1
taskmanager.numberOfTaskSlots: 2
cluster.evenly-spread-out-slots: true
taskmanager.cpu.cores: 1.0
taskmanager.memory.task.heap.size: 256m
taskmanager.memory.task.off-heap.size: 0m
taskmanager.memory.managed.size: 128m
taskmanager.memory.network.min: 192m
taskmanager.memory.network.max: 192m
taskmanager.memory.framework.heap.size: 128m
taskmanager.memory.framework.off-heap.size: 64m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 192m
taskmanager.memory.jvm-overhead.max: 192m
parallelism.default: {task_managers}
classloader.resolve-order: parent-first
heartbeat.interval: 1000
heartbeat.timeout: 8000
cluster.registration.error-delay: 1000
cluster.registration.refused-registration-delay: 1000
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 1
restart-strategy.fixed-delay.delay: 1 s
io.tmp.dirs: {folder}
"""


class CannotStartError(Exception):
    """Something that a cluster needs is not to be had on this machine."""


def classpath() -> tuple[str, str]:
    """The jars, fetched through Maven if they are not there yet, and the version of Beam in them.

    Raises:
        CannotStartError: there is no Java or Maven, or Maven cannot fetch them.
    """
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise CannotStartError(f"there is no {tool} on this machine")
    installed = importlib.metadata.version("apache-beam")
    FOLDER.mkdir(parents=True, exist_ok=True)
    places = {each: FOLDER / f"classpath-{FLINK}-{each}" for each in (installed, OLDER_BEAM)}
    with (FOLDER / "lock").open("w") as lock:  # Maven's cache is not for two at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        for version, found in places.items():
            if _is_complete(found):
                return found.read_text(), version
        for version, found in places.items():
            told = _fetch(version, found)
            if _is_complete(found):
                return found.read_text(), version
    raise CannotStartError(f"Maven cannot fetch Flink {FLINK} and Beam's runner for it: {told}")


def _is_complete(found: Path) -> bool:
    newer = found.exists() and found.stat().st_mtime >= (HERE / "pom.xml").stat().st_mtime
    return newer and all(Path(jar).is_file() for jar in found.read_text().split(os.pathsep))


def _fetch(version: str, found: Path) -> str:
    """Write the class path of `version` to `found`; what Maven said if it could not."""
    command = [
        "mvn", "--quiet", "--batch-mode", f"--file={HERE / 'pom.xml'}",
        f"-Dflink.version={FLINK}", f"-Dbeam.version={version}",
        f"-Dmdep.outputFile={found}", "dependency:build-classpath",
    ]  # fmt: skip
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_SECONDS)
    except subprocess.TimeoutExpired:
        return f"it did not end within {MAVEN_SECONDS} s"
    errors = (line for line in ended.stdout.splitlines() if line.startswith("[ERROR]"))
    return next(errors, f"it ended with code {ended.returncode}")


class Cluster:
    """The processes of one cluster. Leaving the context ends them.

    Attributes:
        endpoints: what whoever submits jobs, or ends a worker to see what happens, must know.
    """

    def __init__(self, folder: Path, task_managers: int) -> None:
        self._folder = folder
        self._task_managers = task_managers
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> dict[str, object]:
        jars, version = classpath()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        rpc, rest, server, workers = _free_ports(4)
        settings = SETTINGS.format(
            rpc=rpc, rest=rest, task_managers=self._task_managers, folder=self._folder
        )
        (self._folder / "flink-conf.yaml").write_text(settings)
        try:
            self._java("job-manager", jars, 320, JOB_MANAGER, "-c", self._folder)
            managers = [
                self._java(f"task-manager-{number}", jars, 384, TASK_MANAGER, "-c", self._folder)
                for number in range(self._task_managers)
            ]
            pool = self.start_pool(workers)
            self._java(
                "job-server", jars, 320, JOB_SERVER, "--flink-master", f"127.0.0.1:{rest}",
                "--flink-conf-dir", self._folder, "--job-host", "127.0.0.1", "--job-port", server,
                "--artifact-port", 0, "--expansion-port", 0, "--artifacts-dir",
                self._folder / "artifacts",
            )  # fmt: skip
            self._wait(rest, (server, workers))
        except BaseException:
            self.__exit__()
            raise
        return {
            "flink": FLINK,
            "beam": version,
            "job_server": f"localhost:{server}",
            "workers": f"localhost:{workers}",
            "job_server_jar": str(_write_jar(self._folder / "job-server.jar", jars)),
            "master": f"localhost:{rest}",
            "task_managers": managers,
            "worker_pool": pool,
        }

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def start_pool(self, port: int) -> int:
        """Start what starts Python workers, from the environment that runs this; its process."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        module = "apache_beam.runners.worker.worker_pool_main"
        command = [sys.executable, "-m", module, f"--service_port={port}"]
        return self._run("worker-pool", command, {**os.environ, "PATH": path})

    def _java(self, name: str, jars: str, megabytes: int, main: str, *arguments: object) -> int:
        opened = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENED]
        opened.append("--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")
        heap = [f"-Xmx{megabytes}m", "-XX:MaxDirectMemorySize=512m"]
        command = ["java", *SHORT_LIVED, *opened, *heap, "-cp", jars, main, *map(str, arguments)]
        return self._run(name, command, {**os.environ, "FLINK_CONF_DIR": str(self._folder)})

    def _run(self, name: str, command: list[str], environment: dict[str, str]) -> int:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        self._processes.append(process)
        return process.pid

    def _wait(self, rest: int, ports: tuple[int, ...]) -> None:
        """Until the task managers have registered and the servers listen.

        Raises:
            CannotStartError: that takes too long, or a process has ended.
        """
        deadline = time.monotonic() + START_SECONDS
        while not (_registered(rest) == self._task_managers and all(map(_listens, ports))):
            if any(process.poll() is not None for process in self._processes):
                raise CannotStartError(f"a process ended; see the logs in {self._folder}")
            if time.monotonic() > deadline:
                raise CannotStartError(f"not up after {START_SECONDS} s; see {self._folder}")
            time.sleep(0.25)


def _write_jar(path: Path, jars: str) -> Path:
    """A jar that `java -jar` runs as Beam's job server, with all others where they are."""
    places = " ".join(Path(jar).as_uri() for jar in jars.split(os.pathsep))
    manifest = ["Manifest-Version: 1.0", f"Main-Class: {JOB_SERVER}", f"Class-Path: {places}"]
    folded = ("\n ".join(re.findall(".{1,70}", line)) for line in manifest)
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "\n".join(folded) + "\n")
    return path


def _registered(rest: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{rest}/overview", timeout=5) as answer:
            return int(json.load(answer)["taskmanagers"])
    except OSError:
        return 0


def _listens(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("localhost", port)) == 0


def _free_ports(n: int) -> Iterator[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return iter([each.getsockname()[1] for each in sockets])


def main() -> None:
    """Start a cluster, say where it is, and wait to be ended."""
    parser = argparse.ArgumentParser(description="A Flink cluster on this machine.")
    parser.add_argument("--folder", type=Path, default=FOLDER / "cluster", help="for logs")
    parser.add_argument("--task-managers", type=int, default=2)
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Cluster(chosen.folder.absolute(), chosen.task_managers) as endpoints:
            sys.stdout.write(json.dumps(endpoints) + "\n")
            sys.stdout.flush()
            signal.pause()
    except CannotStartError as reason:
        sys.stderr.write(f"Flink cannot be started: {reason}\n")
        sys.exit(CANNOT)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
