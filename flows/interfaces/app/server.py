"""The server of the page: its addresses, what each hands out, and how it starts and ends.

Each handler does what one command does, by the same functions. An error that a person can act on
is one sentence with status 422. An unforeseen error is named by its kind alone, because its text
may quote a row.
"""

from __future__ import annotations

import contextlib
import json
import socket
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hushrank.flows.collecting.protocol import make_quiet, quiet_server
from hushrank.flows.errors import ConfigError, HushrankError, problem_of_machine, text_of
from hushrank.flows.interfaces.app.budget import Budgets
from hushrank.flows.interfaces.app.folder import Folder, text_at
from hushrank.flows.interfaces.app.guard import SHOWN_POLICY, Guard
from hushrank.flows.interfaces.app.past import Past
from hushrank.flows.interfaces.app.proposals import Asked, Earlier, Proposals, texts_by_name
from hushrank.flows.interfaces.app.runs import Runs
from hushrank.flows.planning.plan.plan import MOST_PEOPLE
from hushrank.flows.report.svg import figure_style
from hushrank.transforms.storage.places import write_whole

HOST = "127.0.0.1"
STOP_SECONDS = 2  # seconds for requests that are under way when the server stops
MOST_BOUND = 100_000  # answers of one person
MOST_JSON = 1_000_000  # bytes of a request with choices
STYLE = "app.css"
PAGE = {  # path: file of the page, and its type
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.css": (STYLE, "text/css; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
}
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".csv": "text/csv; charset=utf-8",
    ".yaml": "application/yaml; charset=utf-8",
    ".ipynb": "application/x-ipynb+json",
}
UNKNOWN = "there is nothing at this address"
UNFORESEEN = "An unforeseen error ({}). Load the page again; its last step shows what was spent."


@dataclass(frozen=True)
class Page:
    """The parts behind the page of one folder."""

    folder: Folder
    proposals: Proposals
    budgets: Budgets
    runs: Runs
    past: Past

    @classmethod
    def of(cls, folder: Folder) -> Page:
        """Build the parts for a folder, in which this process works."""
        proposals = Proposals(folder)
        return cls(folder, proposals, Budgets(folder, proposals), Runs(folder), Past(folder))

    def app(self, secret: str, host: str) -> Guard:
        """Build the application.

        Args:
            secret: first part of every path.
            host: address and port that it answers to.
        """
        routes = [
            *(Route(path, _page_file, name=path) for path in PAGE),
            Route("/api/folder", self._folder),
            Route("/api/files/{name:path}", self._upload, methods=["PUT"]),
            Route("/api/head", self._head, methods=["POST"]),
            Route("/api/survey", self._write, methods=["POST"]),
            Route("/api/budget", self._budget),
            Route("/api/budget", self._set_budget, methods=["POST"]),
            Route("/api/formula", self._formula),
            Route("/api/plan", self._plan),
            Route("/plan.svg", self._plan_picture),
            Route("/api/check", self._check, methods=["POST"]),
            Route("/api/run", self._run, methods=["POST"]),
            Route("/api/run/events", self._events),
            Route("/api/past", self._past),
            Route("/history.svg", self._history_picture),
            Route("/released/{survey}/{release}/{file}", self._released),
            Route("/download/{file}", self._download),
        ]
        handlers: Mapping[Any, Callable[..., Any]] = {
            HushrankError: _refuse,
            HTTPException: _refuse_route,
            Exception: _fail,
        }
        return Guard(_Quiet(Starlette(routes=routes, exception_handlers=handlers)), secret, host)

    def _folder(self, request: Request) -> Response:
        state = self.runs.state()
        return JSONResponse(
            {
                "folder": str(self.folder.root),
                "files": self.folder.files(),
                "surveys": self.folder.surveys(),
                "run": {key: state[key] for key in ("survey", "going_on")},
            }
        )

    async def _upload(self, request: Request) -> Response:
        stated = request.headers.get("content-length", "")
        size = int(stated) if stated.isdecimal() else None
        path = await self.folder.keep(request.path_params["name"], request.stream(), size)
        return JSONResponse({"file": path.name})

    async def _head(self, request: Request) -> Response:
        content = await _json_of(request)
        confidential = content.get("confidential") is True
        asked = Asked.from_json(content)
        found = await run_in_threadpool(self.proposals.seen, asked, confidential=confidential)
        return JSONResponse(found)

    async def _write(self, request: Request) -> Response:
        content = await _json_of(request)
        answers = content.get("answers")
        if not isinstance(answers, dict) or not texts_by_name(answers):
            raise ConfigError("the page sent no answers; load it again")
        asked, earlier = Asked.from_json(content), Earlier.from_json(content)
        found = await run_in_threadpool(self.proposals.write, asked, answers, earlier)
        return JSONResponse(found)

    def _budget(self, request: Request) -> Response:
        return JSONResponse(self.budgets.state(_survey_of(request)))

    async def _set_budget(self, request: Request) -> Response:
        content = await _json_of(request)
        survey, digest = _text(content, "survey"), _text(content, "digest")
        epsilon = _number(content, "epsilon", 100)
        answers = content.get("answers")
        most = None if answers is None else int(_number(content, "answers", MOST_BOUND))
        new = await run_in_threadpool(self.budgets.set, survey, digest, epsilon, most)
        return JSONResponse({"digest": new})

    def _formula(self, request: Request) -> Response:
        return JSONResponse(self.budgets.expected(_survey_of(request), *_setting_of(request)))

    def _plan(self, request: Request) -> Response:
        return JSONResponse(self.budgets.predicted(_survey_of(request), *_setting_of(request)))

    def _plan_picture(self, request: Request) -> Response:
        survey, setting = _survey_of(request), _setting_of(request)
        at_once = "at_once" in request.query_params
        return _shown(self.budgets.picture(survey, *setting, at_once=at_once), ".svg")

    async def _check(self, request: Request) -> Response:
        content = await _json_of(request)
        survey, what = _text(content, "survey"), _text(content, "what")
        return JSONResponse(await run_in_threadpool(self.past.check, survey, what))

    async def _run(self, request: Request) -> Response:
        content = await _json_of(request)
        survey, digest = _text(content, "survey"), _text(content, "digest")
        await run_in_threadpool(self.runs.start, survey, digest)
        return JSONResponse({"survey": survey})

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self.runs.events(), media_type="text/event-stream")

    def _past(self, request: Request) -> Response:
        return JSONResponse(self.past.releases(_survey_of(request)))

    def _history_picture(self, request: Request) -> Response:
        return _shown(self.past.picture(_survey_of(request)), ".svg")

    def _released(self, request: Request) -> Response:
        survey, release, file = (request.path_params[key] for key in ("survey", "release", "file"))
        content = self.past.file(survey, release, file)
        if "download" in request.query_params:
            return _saved(content, f"{release}-{file}")
        return _shown(content, Path(file).suffix)

    def _download(self, request: Request) -> Response:
        name = request.path_params["file"]
        survey = _survey_of(request)
        if name == survey:
            return _saved(text_at(self.folder.survey(survey)).encode(), survey)
        if name == f"{Path(survey).stem}.ipynb":
            return _saved(self.past.notebook(survey), name)
        raise HTTPException(404)


class _Quiet:
    """Wrapper that stops errors of handlers, because uvicorn would log the error's text."""

    def __init__(self, app: Starlette) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        with contextlib.suppress(ClientDisconnect, Exception):
            await self._app(scope, receive, send)


def _page_file(request: Request) -> Response:
    name, type_ = PAGE[request.url.path]
    content = (files("hushrank.flows.interfaces.app") / "files" / name).read_bytes()
    if name == STYLE:
        content = figure_style().encode() + content  # the same colours as reports
    return Response(content, media_type=type_)


def _shown(content: bytes, suffix: str) -> Response:
    """Return a report or a picture, as a page of its own that reaches nothing."""
    type_ = TYPES.get(suffix, "application/octet-stream")
    return Response(content, media_type=type_, headers={"content-security-policy": SHOWN_POLICY})


def _saved(content: bytes, name: str) -> Response:
    """Return a file that the browser stores."""
    type_ = TYPES.get(Path(name).suffix, "application/octet-stream")
    plain = "".join(each if each.isascii() and each not in '"\\;' else "_" for each in name)
    headers = {"content-disposition": f'attachment; filename="{plain}"'}
    return Response(content, media_type=type_, headers=headers)


async def _json_of(request: Request) -> dict[str, Any]:
    """Return the object that the page sent.

    Raises:
        HTTPException: it is too large, or no JSON object.
    """
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise HTTPException(415, "the Content-Type must be application/json")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_JSON:
            raise HTTPException(413, f"a request must have at most {MOST_JSON} bytes")
    try:
        content = json.loads(bytes(body))
    except (ValueError, RecursionError):
        raise HTTPException(400, "the request is no JSON") from None
    if not isinstance(content, dict):
        raise HTTPException(400, "the request is no JSON object")
    return content


def _survey_of(request: Request) -> str:
    return request.query_params.get("survey", "")


def _setting_of(request: Request) -> tuple[int, float, int | None]:
    """Return people, epsilon and answers of a setting to plan; None: as many as the job has."""
    asked = dict(request.query_params)
    return (
        int(_number(asked, "people", MOST_PEOPLE)),
        _number(asked, "epsilon", 100),
        int(_number(asked, "answers", MOST_BOUND)) if "answers" in asked else None,
    )


def _text(content: Mapping[str, Any], key: str) -> str:
    value = content.get(key)
    if not isinstance(value, str):
        raise ConfigError(f"the page sent no {key}; load it again")
    return value


def _number(content: Mapping[str, Any], key: str, most: float) -> float:
    try:
        value = float(content.get(key, ""))
    except (TypeError, ValueError):
        raise ConfigError(f"{key}: must be a number") from None
    if not 0 < value <= most:
        raise ConfigError(f"{key}: must be above 0 and at most {most:g}")
    if key != "epsilon" and value < 1:
        raise ConfigError(f"{key}: must be at least 1")
    return value


def _refuse(request: Request, error: Exception) -> Response:
    text = text_of(error) if isinstance(error, HushrankError) else ""
    return JSONResponse({"error": text}, 422)


def _refuse_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    detail = error.detail if isinstance(error, HTTPException) else UNKNOWN
    return JSONResponse({"error": UNKNOWN if status == 404 else detail}, status)


def _fail(request: Request, error: Exception) -> Response:
    told = problem_of_machine(error) or UNFORESEEN.format(type(error).__name__)
    return JSONResponse({"error": told}, 500)


def listening(port: int) -> socket.socket:
    """Open the port on this machine's own address; 0: any free one.

    Raises:
        ConfigError: it is taken, or may not be opened.
    """
    try:
        return socket.create_server((HOST, port))
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) else "no such port"
        raise ConfigError(
            f"--port {port}: cannot listen: {why}. Choose another, or leave it out"
        ) from None


def serve(page: Page, opened: socket.socket, secret: str) -> None:
    """Answer until SIGTERM or SIGINT; a run that was started goes on."""
    host = f"{HOST}:{opened.getsockname()[1]}"
    make_quiet()
    try:
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(quiet_server(page.app(secret, host), STOP_SECONDS)).run([opened])
    finally:
        page.budgets.close()


def open_browser(folder: Folder, address: str) -> None:
    """Open the page in the person's browser.

    The address goes through a file that only this account may open: other accounts of the machine
    see the words with which a browser is started.
    """
    path = folder.private / "open.html"
    text = f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(address)}">'
    write_whole(str(path), text.encode())
    path.chmod(0o600)
    webbrowser.open(path.as_uri())
