"""`hushrank` for pages of commands, in children of one process that has loaded everything once.

A shell finds a program `hushrank` that hands its arguments, folder, environment and streams to a
server and ends with the exit code that it gets back: all that a command sees and leaves is as if it
had been started. Loading the libraries takes 3 s of processor time, and a run loads them twice.
`test_readme` starts the real one. The nth command in a folder draws what it drew there before: see
`tests.draws`.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

STREAMS = 3  # stdin, stdout, stderr
ASK = f"""#!{sys.executable} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(__file__ + ".socket")
    socket.send_fds(server, [b"-"], range({STREAMS}))
    server.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode())
    server.shutdown(socket.SHUT_WR)
    answer = server.recv(16)
os._exit(int(answer or 99))
"""
START = "from tests.flows.command_server import serve; import sys; serve(sys.argv[1])"


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Path]:
    """The folder of a program `hushrank`, to come first on the path."""
    program = folder / "hushrank"
    program.write_text(ASK)
    program.chmod(0o755)
    command = [sys.executable, "-c", START, f"{program}.socket"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        try:
            yield folder
        finally:
            server.terminate()


def serve(address: str) -> NoReturn:
    """Carry out what comes to the socket at `address`, each in a child, until a signal ends it."""
    _load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # of children that have ended nothing is kept
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            asking, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _carry_out(asking, Path(address).parent)
            asking.close()


def _load() -> None:
    """What commands load when they need it: no thread starts, or children could not be forked."""
    from hushrank.transforms.engine import in_process

    in_process.choose()
    for library in ("tests.draws", "hushrank.flows.interfaces.cli.main"):
        importlib.import_module(library)
    from hushrank.flows import reading
    from tests.flows.conftest import InProcessReader, InProcessReducer

    reading.Reader = InProcessReader  # type: ignore[misc, assignment]
    reading.Reducer = InProcessReducer  # type: ignore[misc, assignment]


def _carry_out(asking: socket.socket, counts: Path) -> NoReturn:
    code = 98
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        _, streams, *_ = socket.recv_fds(asking, 1, STREAMS)
        with asking.makefile("rb") as stream:
            arguments, folder, environment = json.loads(stream.read())
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
        from tests.draws import same_draws

        with same_draws(f"{_turn(counts, folder)} {arguments}"):
            code = _exit_code(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        asking.sendall(str(code).encode())
        os._exit(code)


def _turn(counts: Path, folder: str) -> int:
    """How many commands came from a folder before this one."""
    count = counts / hashlib.sha256(folder.encode()).hexdigest()
    with count.open("a+b") as file:
        file.write(b"+")
        return file.tell()


def _exit_code(arguments: list[str]) -> int:
    from hushrank.flows.interfaces.cli.main import main

    try:
        main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0
