"""A Flink cluster on this machine: job manager, task managers, Beam's job server, Python workers.

    python infra/flink/cluster.py

prints a line of JSON when the cluster takes jobs, and ends it on Ctrl-C or SIGTERM. SIGHUP starts
anew what has died. Needs Java and Maven. The jars come through Maven, once, and stay in its own
cache. Beam's job server is the one of the Beam that is installed here; where the Maven repository
does not hold that, it is an older one, and this says so: the protocol between the two is kept
compatible.

Everything listens on this machine alone and leaves its logs, which may hold rows, in the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from engine_processes import (  # noqa: E402 - found by the line above
    Cluster,
    asked,
    classpath,
    free_ports,
    listens,
    serve,
    write_jar,
)

FLINK = "1.19"
JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
TASK_MANAGER_NAME = "task-manager-{}"
JOB_SERVER = "org.apache.beam.runners.flink.FlinkJobServerDriver"
PACKAGES = ("lang", "lang.reflect", "io", "net", "nio", "text", "time", "util", "util.concurrent")
OPENED = (*(f"java.base/java.{package}" for package in PACKAGES), "java.base/sun.nio.ch")

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
taskmanager.network.sort-shuffle.min-buffers: 64
taskmanager.memory.framework.heap.size: 128m
taskmanager.memory.framework.off-heap.size: 64m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 192m
taskmanager.memory.jvm-overhead.max: 192m
parallelism.default: {task_managers}
classloader.resolve-order: parent-first
heartbeat.interval: 1000
heartbeat.timeout: 20000
cluster.registration.error-delay: 1000
cluster.registration.refused-registration-delay: 1000
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 8
restart-strategy.fixed-delay.delay: 3 s
web.refresh-interval: 500
io.tmp.dirs: {folder}
"""


class FlinkCluster(Cluster):
    """Job manager, task managers, job server and a pool of Python workers."""

    opened = OPENED

    def _start(self) -> dict[str, object]:
        jars, version = classpath(HERE / "pom.xml", "flink", FLINK)
        rpc, rest, server, workers = free_ports(4)
        settings = SETTINGS.format(
            rpc=rpc, rest=rest, task_managers=self._size, folder=self._folder
        )
        (self._folder / "flink-conf.yaml").write_text(settings)
        self._java("job-manager", jars, 320, JOB_MANAGER, "-c", self._folder)
        names = list(map(TASK_MANAGER_NAME.format, range(self._size)))
        managers = [self._task_manager(name, jars) for name in names]
        pool = self._processes.pool(workers)
        self._java(
            "job-server", jars, 320, JOB_SERVER, "--flink-master", f"127.0.0.1:{rest}",
            "--flink-conf-dir", self._folder, *self._job_server_options(server),
        )  # fmt: skip
        self._processes.wait(lambda: self._is_up(rest, (server, workers)))
        return {
            "flink": FLINK,
            "beam": version,
            "job_server": f"localhost:{server}",
            "workers": f"localhost:{workers}",
            "job_server_jar": str(write_jar(self._folder / "job-server.jar", jars, JOB_SERVER)),
            "master": f"localhost:{rest}",
            "task_managers": managers,
            "worker_pool": pool,
        }

    def _task_manager(self, name: str, jars: str) -> int:
        named = f"-Dtaskmanager.resource-id={name}"
        return self._java(name, jars, 384, TASK_MANAGER, "-c", self._folder, named)

    def _java(self, name: str, jars: str, megabytes: int, main: str, *arguments: object) -> int:
        command = ["-cp", jars, main, *arguments]
        return self._processes.java(name, megabytes, command, {"FLINK_CONF_DIR": str(self._folder)})

    def _is_up(self, rest: int, ports: tuple[int, ...]) -> bool:
        registered = asked(rest, "overview").get("taskmanagers")
        return registered == self._size and all(map(listens, ports))


if __name__ == "__main__":
    serve("Flink", FlinkCluster, "--task-managers")
