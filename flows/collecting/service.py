"""HTTP interface of the collector: it takes batches, serves the page, and reports its health.

No handler reads the address of a peer, and nothing is logged: neither what was sent nor when. An
error is a status code and one sentence for the sender.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from time import monotonic

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hushrank.flows.collecting.body import BodyReader
from hushrank.flows.collecting.commit import Batch, Busy, Committer, NotKept, TokenUsed
from hushrank.flows.collecting.contents import Refused
from hushrank.flows.collecting.limits import Bucket, Meters
from hushrank.flows.collecting.tokens import UnknownToken

HEALTH, METRICS = "/health", "/metrics"
_BUSY = "the collector is busy; send the same again in a few seconds"
_DISK = "the collector cannot keep answers at the moment; send the same again later"
_RATE = "this survey gets more answers than it takes in a second; send the same again later"
_ENOUGH = "this survey has enough answers; what you sent was not kept now"
_USED = "answers with this token were accepted before; each link can be used once"


class _Problem(Exception):  # noqa: N818 - it becomes a response
    def __init__(self, status: int, sentence: str, retry_after: float = 0.0) -> None:
        self.status, self.sentence, self.retry_after = status, sentence, retry_after


@dataclass(frozen=True)
class Service:
    """Parts of the service.

    Attributes:
        path: path to which answers are sent.
        reader: reader of bodies.
        committer: keeps batches.
        bucket: limit of answers a second.
        meters: counts.
        healthy: whether answers can be kept.
        is_full: whether the survey takes no more answers.
        tell_kept: is called with each batch once it is on disk.
    """

    path: str
    reader: BodyReader
    committer: Committer
    bucket: Bucket
    meters: Meters
    healthy: Callable[[], bool]
    is_full: Callable[[], bool]
    tell_kept: Callable[[Batch], None]

    def app(self, origins: tuple[str, ...], site: Path | None, headers: dict[str, str]) -> ASGIApp:
        """Build the application that everybody may reach.

        Args:
            origins: other origins from which a page may send answers.
            site: the folder of the page; None: it is served elsewhere.
            headers: sent with every file of the page.
        """
        routes: list[BaseRoute] = [
            Route(self.path, self._answers, methods=["POST"]),
            Route(HEALTH, self._health),
        ]
        if site is not None:
            files = StaticFiles(directory=site, html=True)
            routes.append(Mount("/", _WithHeaders(files, headers)))
        cross = Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["POST"],
            allow_headers=["content-type"],
        )
        return self._starlette(routes, [cross] if origins else [])

    def private_app(self) -> ASGIApp:
        """Build the application that only this machine may reach."""
        routes = [Route(HEALTH, self._health), Route(METRICS, self._metrics)]
        return self._starlette(routes, [])

    def _starlette(self, routes: Sequence[BaseRoute], middleware: list[Middleware]) -> ASGIApp:
        handlers = {
            _Problem: self._refuse,
            HTTPException: self._refuse_route,
            Exception: self._fail,
        }
        return _Quiet(Starlette(routes=routes, middleware=middleware, exception_handlers=handlers))  # type: ignore[arg-type]

    async def _answers(self, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise _Problem(415, "the Content-Type must be application/json")
        try:
            batch = self.reader.batch(await self._body(request))
        except UnknownToken as error:
            raise _Problem(403, str(error)) from None
        except Refused as error:
            raise _Problem(422, str(error)) from None
        if self.is_full() and not self.committer.knows(batch):
            raise _Problem(410, _ENOUGH)
        if seconds := self.bucket.take(batch.answers, monotonic()):
            raise _Problem(429, _RATE, seconds)
        try:
            new = await self.committer.keep(batch)
        except TokenUsed:
            raise _Problem(409, _USED) from None
        except Busy:
            raise _Problem(503, _BUSY, 1) from None
        except NotKept:
            raise _Problem(503, _DISK, 30) from None
        if new:
            self.meters.batches.inc()
            self.meters.answers.inc(batch.answers)
            self.tell_kept(batch)
        else:
            self.meters.repeats.inc()
        return JSONResponse({"accepted": batch.answers})

    async def _body(self, request: Request) -> bytes:
        limit = self.reader.limit
        stated = request.headers.get("content-length", "0")
        body = bytearray()
        if not stated.isdecimal() or int(stated) <= limit:
            async for piece in request.stream():
                body += piece
                if len(body) > limit:
                    break
            else:
                return bytes(body)
        raise _Problem(413, f"the body must have at most {limit} bytes")

    async def _health(self, request: Request) -> Response:
        if self.healthy():
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "answers cannot be kept"}, 503)

    async def _metrics(self, request: Request) -> Response:
        return Response(self.meters.text(), media_type="text/plain; version=0.0.4")

    async def _refuse(self, request: Request, problem: _Problem) -> Response:
        return self._error(problem.status, problem.sentence, problem.retry_after)

    async def _refuse_route(self, request: Request, error: HTTPException) -> Response:
        sentences = {
            404: "there is nothing at this address",
            405: "this address needs another HTTP method",
        }
        return self._error(error.status_code, sentences.get(error.status_code, error.detail))

    async def _fail(self, request: Request, error: Exception) -> Response:
        return self._error(500, "the collector failed; answers that it accepted are kept")

    def _error(self, status: int, sentence: str, retry_after: float = 0.0) -> Response:
        self.meters.refused.labels(str(status)).inc()
        headers = {"Retry-After": str(ceil(retry_after))} if retry_after else None
        return JSONResponse({"error": sentence}, status, headers)


class _Quiet:
    """Wrapper that stops errors of handlers, because uvicorn would log the error's text."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except ClientDisconnect:
            pass
        except Exception:
            pass


class _WithHeaders:
    """Wrapper that adds headers to all responses of an application."""

    def __init__(self, app: ASGIApp, headers: dict[str, str]) -> None:
        self._app = app
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._headers]
            await send(message)

        await self._app(scope, receive, with_headers)
