"""Prefect server that one command starts for itself: `python -m ...server_process PORT`.

The server listens on this machine alone. It ends when its standard input is closed, so it never
outlives the command that started it, however that command ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

APP = "prefect.server.api.server:create_app"


def serve(port: int) -> None:
    """Serve API and page on `port` of this machine until standard input ends."""
    import uvicorn

    threading.Thread(target=_end_with_input, daemon=True).start()
    uvicorn.run(APP, factory=True, host="127.0.0.1", port=port, log_level="critical")


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
