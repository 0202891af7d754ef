"""What `flink/cluster.py` and `spark/cluster.py` share: jars through Maven, and processes that end.

Everything that they start listens on this machine alone and leaves its logs, which may hold rows,
in one folder.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib.metadata
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

BUILD = Path(__file__).resolve().parents[1] / "build"
POOL = Path(__file__).resolve().with_name("worker_pool.py")
OLDER_BEAM = "2.62.0"
MAVEN_SECONDS, START_SECONDS = 900, 600
CANNOT = 69  # exit code: something that this needs is not to be had here
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # seconds of compiling saved


class CannotStartError(Exception):
    """Something that a cluster needs is not to be had on this machine."""


def classpath(pom: Path, engine: str, version: str) -> tuple[str, str]:
    """The jars, fetched through Maven if they are not there yet, and the version of Beam in them.

    Args:
        pom: says which; it reads the properties `beam.version` and `<engine>.version`.
        engine: flink or spark.
        version: of the engine.

    Raises:
        CannotStartError: there is no Java or Maven, or Maven cannot fetch them.
    """
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise CannotStartError(f"there is no {tool} on this machine")
    installed = importlib.metadata.version("apache-beam")
    folder = BUILD / engine
    folder.mkdir(parents=True, exist_ok=True)
    places = {each: folder / f"classpath-{version}-{each}" for each in (installed, OLDER_BEAM)}
    with (BUILD / "maven-lock").open("w") as lock:  # Maven's cache is not for two at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        for beam, found in places.items():
            if _is_complete(found, pom):
                return found.read_text(), beam
        for beam, found in places.items():
            told = _fetch(pom, {f"{engine}.version": version, "beam.version": beam}, found)
            if _is_complete(found, pom):
                return found.read_text(), beam
    raise CannotStartError(
        f"Maven cannot fetch {engine.title()} {version} and Beam's runner for it: {told}"
    )


def _is_complete(found: Path, pom: Path) -> bool:
    newer = found.exists() and found.stat().st_mtime >= pom.stat().st_mtime
    return newer and all(Path(jar).is_file() for jar in found.read_text("utf-8").split(os.pathsep))


def _fetch(pom: Path, properties: Mapping[str, str], found: Path) -> str:
    """Write the class path that `pom` asks for to `found`; what Maven said if it could not."""
    command = [
        "mvn", "--quiet", "--batch-mode", f"--file={pom}",
        *(f"-D{name}={value}" for name, value in properties.items()),
        f"-Dmdep.outputFile={found}", "dependency:build-classpath",
    ]  # fmt: skip
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_SECONDS)
    except subprocess.TimeoutExpired:
        return f"it did not end within {MAVEN_SECONDS} s"
    errors = (line for line in ended.stdout.splitlines() if line.startswith("[ERROR]"))
    return next(errors, f"it ended with code {ended.returncode}")


class Processes:
    """Some processes of one cluster; `end` ends them."""

    def __init__(self, folder: Path, opened: tuple[str, ...]) -> None:
        """Args: the folder of logs; packages that Java must open, as its module/package."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._opened = [f"--add-opens={package}=ALL-UNNAMED" for package in opened]
        self._all: list[subprocess.Popen[bytes]] = []
        self._started_by: list[tuple[str, list[str], Mapping[str, str]]] = []  # of each in `_all`

    def run(self, name: str, command: list[str], environment: Mapping[str, str]) -> int:
        """Start one; its number."""
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        self._all.append(process)
        self._started_by.append((name, command, environment))
        return process.pid

    def revive(self) -> None:
        """Start anew what has died."""
        living = [process.poll() is None for process in self._all]
        dead = list(itertools.filterfalse(living.__getitem__, range(len(living))))
        calls = [self._started_by[place] for place in dead]
        for place in reversed(dead):
            del self._all[place], self._started_by[place]
        for call in calls:
            self.run(*call)

    def java(
        self, name: str, megabytes: int, command: list[object], environment: Mapping[str, str]
    ) -> int:
        """Start Java with that much heap; its number."""
        heap = [f"-Xmx{megabytes}m", "-XX:MaxDirectMemorySize=512m"]
        whole = ["java", *SHORT_LIVED, *self._opened, *heap, *map(str, command)]
        return self.run(name, whole, {**os.environ, **environment})

    def pool(self, port: int) -> int:
        """Start what starts Python workers, from the environment that runs this; its number."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        command = [sys.executable, str(POOL), str(port)]
        return self.run("worker-pool", command, {**os.environ, "PATH": path})

    def wait(self, is_up: Callable[[], bool]) -> None:
        """Until that is so.

        Raises:
            CannotStartError: that takes too long, or a process has ended.
        """
        deadline = time.monotonic() + START_SECONDS
        while not is_up():
            if any(process.poll() is not None for process in self._all):
                raise CannotStartError(f"a process ended; see the logs in {self._folder}")
            if time.monotonic() > deadline:
                raise CannotStartError(f"not up after {START_SECONDS} s; see {self._folder}")
            time.sleep(0.25)

    def end(self) -> None:
        """End all, and what they have started."""
        for process in self._all:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._all:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


class Cluster(ABC):
    """The processes of one cluster. Leaving the context ends them."""

    opened: tuple[str, ...]  # packages that Java must open, as its module/package

    def __init__(self, folder: Path, size: int) -> None:
        """Args: the folder of logs; how many machines it has that work."""
        self._folder = folder
        self._size = size
        self._processes = Processes(folder, self.opened)

    def __enter__(self) -> dict[str, object]:
        """What whoever submits jobs, or ends a process to see what happens, must know."""
        try:
            return self._start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self._processes.end()

    def revive(self) -> None:
        """Start anew what has died; whoever killed it finds the number of the new one."""
        self._processes.revive()

    @abstractmethod
    def _start(self) -> dict[str, object]:
        """Start all, and wait until the cluster takes jobs."""

    def _job_server_options(self, port: int) -> list[object]:
        """Where Beam's job server listens, and where it stores what it is sent."""
        ports = ["--job-port", port, "--artifact-port", 0, "--expansion-port", 0]
        return ["--job-host", "127.0.0.1", *ports, "--artifacts-dir", self._folder / "artifacts"]


def write_jar(path: Path, jars: str, main: str) -> Path:
    """A jar that `java -jar` runs as `main`, with all others where they are."""
    places = " ".join(Path(jar).as_uri() for jar in jars.split(os.pathsep))
    manifest = ["Manifest-Version: 1.0", f"Main-Class: {main}", f"Class-Path: {places}"]
    folded = ("\n ".join(re.findall(".{1,70}", line)) for line in manifest)
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "\n".join(folded) + "\n")
    return path


def asked(port: int, path: str) -> dict[str, Any]:
    """What a server on this machine says as JSON; nothing while it is not up."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except OSError:
        return {}


def listens(port: int) -> bool:
    """Whether somebody does, at a port of this machine."""
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("localhost", port)) == 0


def free_ports(n: int) -> Iterator[int]:
    """So many different ones, below those that systems hand out, for Java binds them later."""
    found = []
    for port in random.sample(range(20_000, 32_000), 1000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == n:
            return iter(found)
    raise CannotStartError("there are no free ports")


def serve(name: str, cluster: type[Cluster], members: str) -> NoReturn:
    """Start a cluster as the command line says, say where it is, and wait to be ended.

    SIGHUP starts anew what has died.

    Args:
        name: of the engine.
        cluster: its class.
        members: the option that says how many machines work.
    """
    parser = argparse.ArgumentParser(description=f"A {name} cluster on this machine.")
    logs = BUILD / name.lower() / "cluster"
    parser.add_argument("--folder", type=Path, default=logs, help="for logs")
    parser.add_argument(members, dest="size", type=int, default=2)
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    running = cluster(chosen.folder.absolute(), chosen.size)
    try:
        with running as endpoints:
            asked: list[bool] = []  # not done by the handler itself: the next signal would cut in
            signal.signal(signal.SIGHUP, lambda *_: asked.append(True))
            sys.stdout.write(json.dumps({**endpoints, "process": os.getpid()}) + "\n")
            sys.stdout.flush()
            while True:
                signal.pause()
                while asked:
                    asked.clear()
                    running.revive()
    except CannotStartError as reason:
        sys.stderr.write(f"{name} cannot be started: {reason}\n")
        sys.exit(CANNOT)
    except KeyboardInterrupt:
        pass
    sys.exit(0)
