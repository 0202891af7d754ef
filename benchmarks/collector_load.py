"""The collector under load: how long an answer waits for its acknowledgement, at a steady rate.

A collector runs in a process of its own, pinned to one core; respondents in this process send
batches of private answers at a steady rate over open connections. The clock of a request starts
when its turn comes, so that a stall counts for all who wait behind it. Every acknowledgement comes
after an fsync. Printed: answers a second, quantiles of the wait, processor time of the collector,
and how long ten million answers would take at that rate; nobody sent ten million.

    python -m benchmarks.collector_load [--rate 2000] [--batch 10 --batch 1] [--seconds 20]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import socket
import tempfile
import time
from pathlib import Path

import numpy as np

from hushrank.flows.collecting.protocol import make_quiet
from hushrank.flows.collecting.server import Collector, Options, allow_connections, serve
from hushrank.flows.methods.registry import load_config
from hushrank.pipelines.simulate.simulate_responses import Population, Sent, send

ITEMS = [f"item {number}" for number in range(50)]
A_NIGHT = 10_000_000
WARM = 100  # requests that are not counted
SURVEY = """
name: load
input:
  kind: comparisons
  paths: ["answers/{date}/*.parquet"]
  columns: {left: left, right: right, outcome: outcome, epsilon: epsilon}
items: {names: [NAMES]}
privacy: {unit: local, already_private: true, epsilon_range: [0.5, 4]}
method: debiased-rr
collect: {folder: answers, questions: 50, rate: 1000000}
output: out
confidential: work
ledger: {path: ledger.jsonl, epsilon: 10}
"""


def collect(folder: Path, port: int) -> None:
    """In a child: collect until it is told to stop."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    make_quiet()
    allow_connections()
    collector = Collector(load_config(folder / "survey.yaml"), folder / "spool", print)
    options = Options(host="127.0.0.1", port=port, metrics_port=None, site=None, headers={})
    asyncio.run(serve(collector, options, ()))


def processor_seconds(pid: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(port: int) -> None:
    """Return once somebody listens at `port`."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return


def measure(batch: int, rate: float, seconds: float, connections: int) -> None:
    """Print one line: batches of so many answers, together `rate` answers a second."""
    requests = rate / batch
    people = Population(
        survey="load",
        items=ITEMS,
        scores=np.linspace(1, -1, len(ITEMS)),
        epsilons=np.linspace(0.5, 4, 36).round(2).tolist(),
        answers=batch,
        seed=batch,
    )
    bodies = list(people.bodies(WARM + int(requests * seconds)))
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        (folder / "survey.yaml").write_text(SURVEY.replace("NAMES", ", ".join(ITEMS)))
        child = multiprocessing.get_context("spawn").Process(target=collect, args=(folder, port))
        child.start()
        wait_for(port)
        asyncio.run(send(bodies[:WARM], port, "/answers", connections=connections))  # warm
        before, started = processor_seconds(child.pid or 0), time.perf_counter()
        sent = asyncio.run(
            send(bodies[WARM:], port, "/answers", connections=connections, rate=requests)
        )
        took = time.perf_counter() - started
        used = processor_seconds(child.pid or 0) - before
        child.terminate()
        child.join()
    show(batch, sent, took, used)


def show(batch: int, sent: list[Sent], took: float, used: float) -> None:
    """Print what came of it."""
    kept = [one.seconds for one in sent if one.status == 200]
    answers = batch * len(kept)
    p50, p99, worst = 1000 * np.quantile(kept, (0.5, 0.99, 1.0))
    rate, hours = answers / took, A_NIGHT / (answers / took) / 3600
    print(
        f"batches of {batch}: {rate:.0f} answers/s accepted, {len(sent) - len(kept)} requests"
        f" refused | wait p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {worst:.0f} ms | collector used"
        f" {100 * used / took:.0f} % of a core, or {answers / used:.0f} answers a second of"
        f" processor | {A_NIGHT:,} answers at this rate, extrapolated: {hours:.1f} h"
    )


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=2_000, help="answers a second")
    parser.add_argument("--batch", type=int, action="append", help="answers of a respondent")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--connections", type=int, default=100)
    options = parser.parse_args()
    print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for batch in options.batch or [10, 1]:
        measure(batch, options.rate, options.seconds, options.connections)


if __name__ == "__main__":
    main()
