"""Beam's pool of Python workers, of which several of an engine's machines may share one.

    python infra/worker_pool.py PORT

Machines name their workers alike: each has a 1-1. Beam's own pool knows workers by that name alone,
so a machine that no longer needs its worker, a minute after its last job, would have the pool end
that of another in the middle of a job. Here nobody is ended by name: a worker ends when the machine
that it works for closes the connection, or dies.
"""

from __future__ import annotations

import signal
import sys

from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer


class SharedPool(BeamFnExternalWorkerPoolServicer):
    """A pool that starts workers and leaves it to them to end."""

    def StopWorker(  # noqa: N802 - gRPC's name
        self, stop_worker_request: object, unused_context: object
    ) -> beam_fn_api_pb2.StopWorkerResponse:
        """Do nothing."""
        return beam_fn_api_pb2.StopWorkerResponse()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _, server = SharedPool.start(use_process=True, port=int(sys.argv[1]))
    try:
        signal.pause()
    except KeyboardInterrupt:
        server.stop(None)
