"""Beam's pool of Python workers, of which several of an engine's machines may share one.

    python infra/worker_pool.py PORT

Machines name their workers alike: each has a 1-1. Beam's own pool knows workers by that name alone,
so a machine that no longer needs its worker, a minute after its last job, would have the pool end
that of another in the middle of a job. Here nobody is ended by name: a worker ends when the machine
that it works for closes the connection, or dies.

Beam's own pool starts each worker as a program, which loads Beam and hushrank in seconds of
processor time. Here this process loads both once, and each worker is a fork of it. It starts no
thread of Python and no gRPC, as a process that forks must not: another one, forked first, answers
the machines. Libraries that it has loaded may have threads of their own, which a fork lacks:
pyarrow's allocator has one, and is made for forks.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import ClassVar

from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker.sdk_worker import SdkHarness
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer

import hushrank.pipelines.reduce.reduce  # noqa: F401 - all that a worker needs, loaded once


class SharedPool(BeamFnExternalWorkerPoolServicer):
    """A pool that has workers forked, and leaves it to them to end."""

    orders: ClassVar[Connection]  # to the process that forks: a machine's address, a worker's name
    results: ClassVar[SimpleQueue[str]]  # of orders, in turn: why nothing was forked, or no words
    one_at_a_time = threading.Lock()

    def StartWorker(  # noqa: N802 - gRPC's name
        self, start_worker_request: beam_fn_api_pb2.StartWorkerRequest, unused_context: object
    ) -> beam_fn_api_pb2.StartWorkerResponse:
        """Have one forked; the machine is told if it cannot be."""
        request = start_worker_request
        with self.one_at_a_time:
            self.orders.send((request.control_endpoint.url, request.worker_id))
            return beam_fn_api_pb2.StartWorkerResponse(error=self.results.get())

    def StopWorker(  # noqa: N802 - gRPC's name
        self, stop_worker_request: object, unused_context: object
    ) -> beam_fn_api_pb2.StopWorkerResponse:
        """Do nothing."""
        return beam_fn_api_pb2.StopWorkerResponse()


def answer_machines(port: int, orders: Connection) -> None:
    """Serve the pool until the process that forks has ended."""
    SharedPool.orders, SharedPool.results = orders, SimpleQueue()
    _, server = SharedPool.start(port=port)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            SharedPool.results.put(orders.recv())
    server.stop(None)


def fork_workers(orders: Connection) -> None:
    """Fork a worker for each order, until the process that answers machines has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a worker that has ended
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            machine, name = orders.recv()
            try:
                is_worker = os.fork() == 0
            except OSError as error:  # too many processes, or no memory: later there may be room
                sys.stderr.write(f"Cannot fork worker {name}: {error.strerror}\n")
                sys.stderr.flush()
                orders.send(f"the pool cannot fork a worker: {error.strerror}")
                continue
            if is_worker:
                orders.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                end_after(partial(work_for, machine, name))
            orders.send("")


def work_for(machine: str, name: str) -> None:
    """Be a worker until the machine at this address closes the connection."""
    SdkHarness(machine, worker_id=name).run()


def end_after(work: Callable[[], object]) -> None:
    """End this process, a fork, once its work is done; what fails is printed, and the code is 1."""
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.path.insert(0, os.getcwd())  # as a program has it: a job may name modules that lie there
    ours, theirs = Pipe()
    if os.fork() == 0:
        ours.close()
        end_after(partial(answer_machines, int(sys.argv[1]), theirs))
    theirs.close()
    with contextlib.suppress(KeyboardInterrupt):
        fork_workers(ours)
        sys.exit(1)  # what answers machines has ended first, as where the port is taken
