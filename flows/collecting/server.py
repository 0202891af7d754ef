"""Server of the collector: its spool, its tasks and two ports, until it is stopped.

HTTP interface of the collector: it takes batches, serves the page, and reports its health.  No
handler reads the address of a peer, and nothing is logged: neither what was sent nor when. An
error is a status code and one sentence for the sender. Places of a survey's parts: where they
wait, and where the night of the same file reads them.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from math import ceil
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hushrank.flows.collecting.body import BodyReader, PlaceOfPart
from hushrank.flows.collecting.contents import Refused, TokenKey, UnknownToken, content_of
from hushrank.flows.collecting.journal import Batch, Busy, Committer, NotKept, TokenUsed
from hushrank.flows.collecting.progress import LETS_ANYBODY_STOP, Progress
from hushrank.flows.collecting.protocol import (
    MOST_CONNECTIONS,
    Bucket,
    GuardedProtocol,
    Meters,
    Recent,
    quiet_server,
)
from hushrank.flows.collecting.spool import (
    MOST_PROCESSES,
    Clock,
    Tell,
    Terms,
    spools_can_be_used,
    take_spool,
)
from hushrank.flows.collecting.survey.settings import collect_of
from hushrank.flows.config.apart import NamedPlace, Use, conflicts, named_places
from hushrank.flows.config.schedule import date_formats, reads
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.privacy.randomness import system_bits
from hushrank.transforms import system
from hushrank.transforms.storage.files import FileFormat
from hushrank.transforms.storage.places import Place

HEALTH, METRICS = "/health", "/metrics"
_BUSY = "the collector is busy; send the same again in a few seconds"
_DISK = "the collector cannot keep answers at the moment; send the same again later"
_RATE = "this survey gets more answers than it takes in a second; send the same again later"
_ENOUGH = "this survey has enough answers; what you sent was not kept now"
_CLOSED = "this survey is closed; what you sent was not kept"
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
        closed: why the survey takes no more answers; empty: it takes them.
        tell_kept: is called with each batch once it is on disk.
    """

    path: str
    reader: BodyReader
    committer: Committer
    bucket: Bucket
    meters: Meters
    healthy: Callable[[], bool]
    closed: Callable[[], str]
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
        if (why := self.closed()) and not self.committer.knows(batch):
            raise _Problem(410, why)
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


SPOOL = "collector"  # folder in the confidential area


def place_of_parts(config: SurveyConfig, folder: Place, night: date) -> PlaceOfPart:
    """Return the place of a journal's part, by its night and id; the night reads it there.

    Args:
        config: the survey.
        folder: `collect.folder`.
        night: any, to try the paths with.

    Raises:
        ConfigError: no night would read such a file.
    """
    schedule = config.schedule
    if schedule.window is not None:
        raise ConfigError(
            "schedule.window: answers that are collected have no time; remove it, and write {date}"
            " in input.paths or schedule.partition: date."
        )
    if config.input.format not in (None, FileFormat.PARQUET):
        raise ConfigError("input.format: the collector writes Parquet; remove this line.")
    for form in _forms(config):

        def place(night: date, id_: str, form: str = form) -> Place:
            found = folder
            for part in (*night.strftime(form).split("/"), f"part-{id_}.parquet"):
                found = found / part
            return found

        if reads(config.input.paths, str(place(night, "0")), night):
            return place
    raise ConfigError(
        f"input.paths: none matches the collector's files, such as {place(night, 'ID')}. Write"
        f" for example {folder}/{{date}}/*.parquet"
    )


def _forms(config: SurveyConfig) -> Iterator[str]:
    """Yield the names that a folder may have for its night, as formats of `strftime`."""
    if config.schedule.partition is not None:
        yield f"{config.schedule.partition}=%Y-%m-%d"
        return
    yield "%Y-%m-%d"
    yield from date_formats(config.input.paths)


def spool_folder(config: SurveyConfig, chosen: Path | None) -> Path:
    """Return the folder of the journals: the chosen one, or one in the confidential area.

    Raises:
        ConfigError: no folder was chosen, and that area is not on this machine; or the folder that
            was chosen is, or holds, another place of the survey.
    """
    if chosen is not None:
        others = (each for each in named_places(config) if each.key != "confidential")
        spool = NamedPlace("--spool", Use.OWN_FOLDER, chosen.absolute())
        for key, why in conflicts([*others, spool]):
            raise ConfigError(f"{key}: {why}. Nothing was written.")
        return chosen
    if not isinstance(config.confidential, Path):
        raise ConfigError(
            f"confidential: {config.confidential} is not on this machine, and answers wait on a"
            " local disk until the end of their night. Name a folder with --spool."
        )
    return config.confidential / SPOOL


def path_of(url: str) -> str:
    """Return the path of `collect.url`, which may be an address or stand beside the page."""
    path = urlsplit(url).path if "://" in url else url
    return f"/{path.lstrip('/')}"


TEND_SECONDS = 1.0  # between two looks at whether a night is over, or the disk works again
RETRY_SECONDS = 30.0  # until a part that could not be written is tried again
STOP_SECONDS = 10  # seconds for requests that are under way when the server stops
SPARE_FILES = 200  # descriptors beside connections


def now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a collector.

    Attributes:
        host, port: address where it listens.
        metrics_port: port of its counts, on 127.0.0.1; None: they are nowhere.
        site: folder of the page, to be served too.
        headers: sent with the page.
    """

    host: str
    port: int
    metrics_port: int | None
    site: Path | None
    headers: dict[str, str]


class Collector:
    """Collector of one process, from its spool to its application."""

    def __init__(self, config: SurveyConfig, folder: Path, tell: Tell, clock: Clock = now) -> None:
        """Take a spool below `folder`, with all files that a killed process left there.

        Raises:
            ConfigError: the configuration or a folder does not allow it.
        """
        content, collect = content_of(config), collect_of(config)
        terms, self._tell = terms_of(config, tell, clock), tell
        key = TokenKey.of(config.confidential, terms.bits) if collect.tokens else None
        progress = Progress.of(config)
        # One that knows all tokens that were used, or all answers that were kept.
        most = 1 if collect.tokens or progress is not None else MOST_PROCESSES
        self.spool = take_spool(folder, terms, most)
        self._writer = ThreadPoolExecutor(1, "journal")
        self._sealer = ThreadPoolExecutor(1, "parts")
        try:
            with spools_can_be_used(folder):
                recent, used = Recent(self.spool.submissions()), set(self.spool.used_tokens())
                if progress is not None and isinstance(collect.folder, Path):
                    progress.begin(self.spool, collect.folder, content.form)
        except ConfigError:
            self.spool.close()
            raise
        self._told: dict[str, str] = {}
        self.committer = Committer(self.spool.append, self._writer, recent, used)
        self.meters, self._form, self._progress = Meters(), content.form, progress
        self._parts_folder, self._clock = collect.folder, clock
        self._closing = collect.closing(config.schedule)
        self._show_progress()
        if collect.stop_at_target and not collect.tokens:
            tell(LETS_ANYBODY_STOP)
        mark = None if key is None else key.mark
        self.service = Service(
            path=path_of(collect.url),
            reader=BodyReader(config.name, config.input.kind, content, terms.bits, mark),
            committer=self.committer,
            bucket=Bucket(collect.rate, monotonic()),
            meters=self.meters,
            healthy=lambda: not self.spool.broken,
            closed=self._closed,
            tell_kept=self._count,
        )

    def _closed(self) -> str:
        """Why no more answers are taken; empty: they are."""
        if self._closing is not None and self._clock() >= self._closing:
            return _CLOSED
        return _ENOUGH if self._progress is not None and self._progress.full else ""

    def _count(self, batch: Batch) -> None:
        """Add a batch to the progress; say so when the target is reached."""
        if (progress := self._progress) is None:
            return
        before = progress.reached
        progress.add(self._form, batch.rows)
        self.meters.show_progress(progress.shown, progress.needed)
        if before < progress.needed <= progress.reached:
            self._tell(progress.sentence)

    def _show_progress(self) -> None:
        """Tell the operator of the progress: at the start, and when parts were written."""
        if self._progress is not None:
            self.meters.show_progress(self._progress.shown, self._progress.needed)
            self._tell(self._progress.sentence)

    async def tend(self) -> None:
        """Seal journals and write parts when they are due, in an endless loop."""
        again = monotonic()
        while True:
            await self._attempt("A journal cannot be sealed", self._writer, self.spool.tend)
            if monotonic() >= again and not await self._attempt(
                "A part cannot be written", self._sealer, self._write_parts
            ):
                again = monotonic() + RETRY_SECONDS
            await asyncio.sleep(TEND_SECONDS)

    async def _attempt(self, trouble: str, thread: Executor, step: Callable[[], None]) -> bool:
        """Try a step and return whether it succeeded; report an error once until it succeeds
        again."""
        try:
            await asyncio.get_running_loop().run_in_executor(thread, step)
        except Exception as error:  # this task must not end: nobody else would write parts
            reason = str(error) if isinstance(error, ConfigError) else type(error).__name__
            reason = getattr(error, "strerror", None) or reason
            text = f"{trouble}: {reason.rstrip('.')}. hushrank tries again."
            if self._told.get(trouble) != text:
                self._tell(text)
            self._told[trouble] = text
            return False
        self._told.pop(trouble, None)
        return True

    def _write_parts(self) -> None:
        before = self.spool.parts
        try:
            self.spool.write_parts()
        finally:
            self.meters.parts.inc(self.spool.parts - before)
            self.meters.waiting.set(self.spool.waiting())
        if self.spool.parts > before:
            if self._progress is not None and isinstance(self._parts_folder, Path):
                self._progress.count_parts(self._parts_folder, self._form)
            self._show_progress()

    async def close(self) -> None:
        """Write waiting answers to disk, and release the spool."""
        await self.committer.finish()
        self._sealer.shutdown()
        self._writer.shutdown()
        self.spool.close()


def terms_of(config: SurveyConfig, tell: Tell, clock: Clock = now) -> Terms:
    """Return the settings that all spools of a survey share.

    Raises:
        ConfigError: the configuration does not say where answers go.
    """
    zone, folder = config.schedule.zone, collect_of(config).folder
    return Terms(
        form=content_of(config).form,
        place=place_of_parts(config, folder, clock().astimezone(zone).date()),
        zone=zone,
        clock=clock,
        bits=system_bits(),
        tell=tell,
    )


async def serve(collector: Collector, options: Options, origins: tuple[str, ...]) -> None:
    """Collect until SIGTERM or SIGINT; answers taken until then are stored.

    Raises:
        ConfigError: a port cannot be listened to.
    """
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: None)  # texts may quote what was sent
    app = collector.service.app(origins, options.site, options.headers)
    servers = [(_server(app), _listening(options.host, options.port))]
    if options.metrics_port is not None:
        private = collector.service.private_app()
        servers.append((_server(private), _listening("127.0.0.1", options.metrics_port)))

    def stop() -> None:
        for server, _ in servers:
            server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    tending = asyncio.create_task(collector.tend())
    try:
        await asyncio.gather(*(server.serve([opened]) for server, opened in servers))
    finally:
        tending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await tending
        await collector.close()


class _Server(uvicorn.Server):
    """Server of uvicorn that leaves signals to the collector."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Catch no signal."""
        yield


def _server(app: ASGIApp) -> _Server:
    return _Server(quiet_server(app, STOP_SECONDS, http=GuardedProtocol))


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(
            f"{host}:{port}: cannot listen: {error.strerror}. Choose others with --host and --port."
        ) from None


def allow_connections() -> None:
    """Raise the limit of open files to the number of connections, as far as allowed."""
    system.allow_open_files(MOST_CONNECTIONS + SPARE_FILES)
