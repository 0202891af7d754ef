"""A Spark cluster on this machine: master, workers with an executor each, Beam's job server.

    python infra/spark/cluster.py

prints a line of JSON when the cluster takes jobs, and ends it on Ctrl-C or SIGTERM. Needs Java and
Maven; see `engine_processes.py`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from engine_processes import (  # noqa: E402 - found by the line above
    SHORT_LIVED,
    Cluster,
    asked,
    classpath,
    free_ports,
    listens,
    serve,
    write_jar,
)

SPARK = "3.5.3"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
JOB_SERVER = "org.apache.beam.runners.spark.SparkJobServerDriver"
BASE = ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util", "util.concurrent")
OPENED = (
    *(f"java.base/java.{package}" for package in (*BASE, "util.concurrent.atomic")),
    "java.base/sun.nio.ch", "java.base/sun.nio.cs", "java.base/sun.security.action",
    "java.base/sun.util.calendar", "java.base/jdk.internal.ref",
)  # fmt: skip
EXECUTOR_MEGABYTES = 512  # Spark refuses less than some 450
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": f"{EXECUTOR_MEGABYTES}m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": " ".join(SHORT_LIVED),
    "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "true",
    # The executors stand for two machines: what a lost one has written is lost with it.
    "spark.shuffle.readHostLocalDisk": "false",
}


class SparkCluster(Cluster):
    """Master, workers, job server and a pool of Python workers."""

    opened = OPENED

    def _start(self) -> dict[str, object]:
        jars, version = classpath(HERE / "pom.xml", "spark", SPARK)
        self._lay_out(jars)
        port, page, server, pool = free_ports(4)
        master = f"spark://127.0.0.1:{port}"
        web = ["--webui-port", page]
        self._java("master", MASTER, "--host", "127.0.0.1", "--port", port, *web)
        self._processes.wait(lambda: bool(asked(page, "json/")))
        workers = [self._worker(number, master) for number in range(self._size)]
        worker_pool = self._processes.pool(pool)
        jar = write_jar(self._folder / "job-server.jar", jars, JOB_SERVER)
        self._job_server(jar, master, server)
        self._processes.wait(lambda: self._is_up(page, (server, pool)))
        return {
            "spark": SPARK,
            "beam": version,
            "job_server": f"localhost:{server}",
            "workers": f"localhost:{pool}",
            "job_server_jar": str(jar),
            "master": master,
            "machines": workers,
            "worker_pool": worker_pool,
            "events": str(self._folder / "events"),
        }

    def _lay_out(self, jars: str) -> None:
        """The folders in which Spark looks for its jars, to start executors."""
        (self._folder / "jars").mkdir(parents=True, exist_ok=True)
        for jar in map(Path, jars.split(os.pathsep)):
            (self._folder / "jars" / jar.name).symlink_to(jar)

    def _worker(self, number: int, master: str) -> int:
        """Spark's own, which starts an executor for a job; its number."""
        name = f"worker-{number}"
        return self._java(
            name, WORKER, "--host", "127.0.0.1", "--cores", 1, "--memory",
            f"{EXECUTOR_MEGABYTES}m", "--webui-port", 0, "--work-dir", self._folder / name, master,
        )  # fmt: skip

    def _java(self, name: str, main: str, *arguments: object) -> int:
        command = ["-cp", self._folder / "jars" / "*", main, *arguments]
        return self._processes.java(name, 256, command, self._environment())

    def _job_server(self, jar: Path, master: str, port: int) -> None:
        """Spark's driver runs in it; of jars it sends `jar` alone, because executors have all."""
        events = self._folder / "events"
        events.mkdir()
        settings = {**SETTINGS, "spark.eventLog.dir": events.as_uri()}
        command: list[object] = [f"-D{name}={value}" for name, value in settings.items()]
        command += ["-jar", jar, "--spark-master-url", master, *self._job_server_options(port)]
        self._processes.java("job-server", 512, command, self._environment())

    def _environment(self) -> dict[str, str]:
        """Where Spark finds its jars, and of which Scala they are, to start executors."""
        places = dict.fromkeys(("SPARK_HOME", "SPARK_LOCAL_DIRS"), str(self._folder))
        return {**places, "SPARK_SCALA_VERSION": "2.12", "SPARK_LOCAL_IP": "127.0.0.1"}

    def _is_up(self, page: int, ports: tuple[int, ...]) -> bool:
        alive = asked(page, "json/").get("aliveworkers") == self._size
        return alive and all(map(listens, ports))


if __name__ == "__main__":
    serve("Spark", SparkCluster, "--workers")
