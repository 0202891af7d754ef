"""Server of the collector: its spool, its tasks and two ports, until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import uvicorn
from starlette.types import ASGIApp

from hushrank.flows.collecting.body import BodyReader
from hushrank.flows.collecting.commit import Batch, Committer
from hushrank.flows.collecting.contents import content_of
from hushrank.flows.collecting.limits import Bucket, Meters, Recent
from hushrank.flows.collecting.places import path_of, place_of_parts
from hushrank.flows.collecting.progress import LETS_ANYBODY_STOP, Progress
from hushrank.flows.collecting.protocol import MOST_CONNECTIONS, GuardedProtocol
from hushrank.flows.collecting.service import Service
from hushrank.flows.collecting.spool import (
    MOST_PROCESSES,
    Clock,
    Tell,
    Terms,
    spools_can_be_used,
    take_spool,
)
from hushrank.flows.collecting.survey.settings import collect_of
from hushrank.flows.collecting.tokens import TokenKey
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.privacy.randomness import system_bits
from hushrank.transforms import system

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
        self._parts_folder = collect.folder
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
            is_full=lambda: progress is not None and progress.full,
            tell_kept=self._count,
        )

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
    return _Server(
        uvicorn.Config(
            app,
            http=GuardedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
    )


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
