"""A Cloud Storage of our own for tests: the part of its JSON API that Google's client uses.

Unlike emulators it enforces generation preconditions, in one critical section with the write, and
it fails on demand: with a status, or by losing its answer to a request that it carried out.
"""

from __future__ import annotations

import base64
import email
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import google.cloud.storage  # noqa: F401 - now: else every process that a test forks loads it
import google_crc32c


@dataclass
class Fault:
    """What happens to the next `times` requests of a method for objects whose name ends so.

    `kind` is a status that answers in place of carrying the request out, or `lost`: it is carried
    out and the connection closed without an answer.
    """

    method: str
    ending: str
    kind: int | str
    times: int = 1


@dataclass
class _Object:
    content: bytes
    generation: int
    metadata: dict[str, str]
    updated: str


@dataclass
class Store:
    """Buckets of objects, what was asked of them, and what shall go wrong.

    `serving` is the number of requests that are being carried out. `hold` is told of every read of
    content before it is answered, with the object's name, and may wait.
    """

    buckets: dict[str, dict[str, _Object]]
    url: str = ""
    ahead: timedelta = timedelta(0)  # of this machine's clock
    serving: int = 0
    hold: Callable[[str], None] = lambda name: None
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    uploads: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def names(self, bucket: str) -> list[str]:
        return sorted(self.buckets[bucket])

    def content(self, bucket: str, name: str) -> bytes:
        return self.buckets[bucket][name].content

    def put(self, bucket: str, name: str, content: bytes, metadata: dict[str, str]) -> _Object:
        now = (datetime.now(UTC) + self.ahead).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        made = _Object(content, next(self.numbers), metadata, now)
        self.buckets[bucket][name] = made
        return made

    def pass_time(self, seconds: float) -> None:
        """Have that time pass in the store, and nowhere else."""
        with self.lock:
            self.ahead += timedelta(seconds=seconds)

    def fault(self, method: str, name: str) -> int | str | None:
        """What is wrong with this request; counts it."""
        with self.lock:
            self.requests.append((method, name))
            for fault in self.faults:
                if fault.times and fault.method == method and name.endswith(fault.ending):
                    fault.times -= 1
                    return fault.kind
        return None


class _Refused(Exception):  # noqa: N818
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # answers in one piece: a second one waits 40 ms for the first one's receipt
    disable_nagle_algorithm = True
    store: Store

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        with self.store.lock:
            self.store.serving += 1
        try:
            self._carry_out()
        finally:
            with self.store.lock:
                self.store.serving -= 1

    def _carry_out(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length)
        url = urlsplit(self.path)
        self.query = {key: values[0] for key, values in parse_qs(url.query).items()}
        parts = url.path.split("/b/", 1)[1].split("/o", 1)
        self.bucket, self.name = parts[0], unquote(parts[1].lstrip("/")) if len(parts) > 1 else ""
        if self.command in ("POST", "PUT"):
            self.resource = self._resource()
        kind = self.store.fault(self.command, self.name)
        if self.query.get("alt") == "media":
            self.store.hold(self.name)
        try:
            if isinstance(kind, int):
                raise _Refused(kind)
            with self.store.lock:
                if self.bucket not in self.store.buckets:
                    raise _Refused(404)
                status, headers, content = self._answer()
        except _Refused as refused:
            status, headers = refused.status, {}
            content = json.dumps({"error": {"code": status, "message": "refused"}}).encode()
        if kind == "lost":
            self.close_connection = True
            return
        self.send_response(status)
        for header, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(header, value)
        self.end_headers()
        self.wfile.write(content)

    def _answer(self) -> tuple[int, dict[str, str], bytes]:
        if self.command == "GET" and not self.name:
            return self._listing()
        if self.command == "GET":
            found = self._found()
            if self.query.get("alt") == "media":
                return self._media(found)
            return 200, {}, self._described(self.name, found)
        if self.command == "DELETE":
            self._found()
            del self.store.buckets[self.bucket][self.name]
            return 204, {}, b""
        return self._upload()

    def _found(self) -> _Object:
        """The object, if it is the generation that is asked for."""
        found = self.store.buckets[self.bucket].get(self.name)
        if found is None or self.query.get("generation", found.generation) != (
            str(found.generation) if "generation" in self.query else found.generation
        ):
            raise _Refused(404)
        self._check_match(self.query, found)
        return found

    def _check_match(self, query: dict[str, Any], found: _Object | None) -> None:
        wanted = query.get("ifGenerationMatch")
        if wanted is not None and int(wanted) != (found.generation if found else 0):
            raise _Refused(412)

    def _listing(self) -> tuple[int, dict[str, str], bytes]:
        objects = self.store.buckets[self.bucket]
        names = sorted(name for name in objects if name.startswith(self.query.get("prefix", "")))
        items = [json.loads(self._described(name, objects[name])) for name in names]
        return 200, {}, json.dumps({"kind": "storage#objects", "items": items}).encode()

    def _media(self, found: _Object) -> tuple[int, dict[str, str], bytes]:
        content, status = found.content, 200
        headers = {
            "X-Goog-Hash": f"crc32c={_checksum(content)}",
            "X-Goog-Generation": str(found.generation),
        }
        if (asked := self.headers.get("Range")) is not None:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            end = min(int(last) + 1 if last else len(content), len(content))
            if int(first) >= len(content):
                raise _Refused(416)
            del headers["X-Goog-Hash"]  # it is that of the whole
            headers |= {"Content-Range": f"bytes {first}-{end - 1}/{len(content)}"}
            content, status = content[int(first) : end], 206
        return status, headers, content

    def _resource(self) -> dict[str, Any]:
        """What an upload says of its object; keeps the content apart."""
        if self.command == "PUT":
            self.name = self.store.uploads[self.query["upload_id"]][0]
            return {}
        if self.query["uploadType"] == "multipart":
            head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
            resource, _ = email.message_from_bytes(head + self.body).get_payload()
            start = self.body.index(b"\r\n\r\n", self.body.index(b"\r\n\r\n") + 4) + 4
            end = self.body.rindex(b"\r\n--")
            fields = json.loads(resource.get_payload())
            self.body = self.body[start:end]
        else:
            fields = json.loads(self.body or b"{}")
        self.name = fields.get("name") or self.query["name"]
        return fields

    def _upload(self) -> tuple[int, dict[str, str], bytes]:
        objects = self.store.buckets[self.bucket]
        if self.command == "POST" and self.query["uploadType"] == "resumable":
            number = str(next(self.store.numbers))
            self.store.uploads[number] = (self.name, self.resource, self.query)
            place = f"{self.store.url}/upload/storage/v1/b/{self.bucket}/o?upload_id={number}"
            return 200, {"Location": place}, b""
        resource, query = self.resource, self.query
        if self.command == "PUT":
            _, resource, query = self.store.uploads[self.query["upload_id"]]
            content = resource.setdefault("sent", b"") + self.body
            resource["sent"] = content
            if self.headers["Content-Range"].endswith("*"):
                return 308, {"Range": f"bytes=0-{len(content) - 1}"}, b""
            if int(self.headers["Content-Range"].rpartition("/")[2]) > len(content):
                return 308, {"Range": f"bytes=0-{len(content) - 1}"}, b""
            self.body = content
        self._check_match(query, objects.get(self.name))
        made = self.store.put(self.bucket, self.name, self.body, resource.get("metadata") or {})
        return 200, {}, self._described(self.name, made)

    def _described(self, name: str, found: _Object) -> bytes:
        return json.dumps(
            {
                "kind": "storage#object",
                "bucket": self.bucket,
                "name": name,
                "size": str(len(found.content)),
                "generation": str(found.generation),
                "metageneration": "1",
                "crc32c": _checksum(found.content),
                "metadata": found.metadata,
                "updated": found.updated,
                "timeCreated": found.updated,
            }
        ).encode()


def _checksum(content: bytes) -> str:
    return base64.b64encode(google_crc32c.value(content).to_bytes(4, "big")).decode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients are killed in the middle of their requests."""


@contextmanager
def fake_cloud_storage(*buckets: str) -> Iterator[Store]:
    """A running store with these empty buckets; `url` is for STORAGE_EMULATOR_HOST."""
    store = Store({bucket: {} for bucket in buckets})
    handler = type("Handler", (_Handler,), {"store": store})
    server = _Server(("localhost", 0), handler)
    store.url = f"http://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
