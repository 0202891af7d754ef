"""A host that serves a survey's page and takes what it sends, and how the page is answered."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

STEP = "button.choice, button.main, #body"
NEXT = f"(clicked) => !clicked.isConnected && document.querySelector({STEP!r})"
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css",
    "js": "text/javascript",
    "json": "application/json",
}


class QuietServer(ThreadingHTTPServer):
    """A browser that goes away in the middle of a request is no error."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@dataclass
class Host:
    """The files of a page, and what was sent to it.

    Attributes:
        files: the files by name.
        headers: with which they are served.
        asked: every request: method, path with query, headers, body.
        refuse: the sentence with which sendings are refused; empty: they are taken.
    """

    files: dict[str, bytes]
    headers: dict[str, str]
    address: str = ""
    asked: list[tuple[str, str, dict[str, str], str]] = field(default_factory=list)
    refuse: str = ""

    @property
    def sent(self) -> list[dict[str, Any]]:
        """What was posted, in order."""
        return [json.loads(body) for method, _, _, body in self.asked if method == "POST"]


def press(page: Any, button: Any) -> None:
    """Click a button of a survey's page, which shows every step anew, and wait for the next one."""
    clicked = button.element_handle()
    clicked.click()
    page.wait_for_function(NEXT, arg=clicked)


@contextmanager
def hosted(files: dict[str, bytes], headers: dict[str, str]) -> Iterator[Host]:
    """Serve `files` at a free port of this machine."""
    host = Host(files, headers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._note("")
            name = self.path.partition("?")[0].strip("/") or "index.html"
            content = host.files.get(name)
            headers = host.headers | {"Content-Type": TYPES.get(name.rpartition(".")[2], "x/x")}
            self._answer(200 if content is not None else 404, content or b"", headers)

        def do_POST(self) -> None:
            self._note(self.rfile.read(int(self.headers["Content-Length"])).decode())
            said = {"error": host.refuse} if host.refuse else {"accepted": 1}
            kind = {"Content-Type": "application/json"}
            self._answer(400 if host.refuse else 200, json.dumps(said).encode(), kind)

        def _note(self, body: str) -> None:
            host.asked.append((self.command, self.path, dict(self.headers), body))

        def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words: Any) -> None:
            pass

    server = QuietServer(("127.0.0.1", 0), Handler)
    host.address = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield host
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
