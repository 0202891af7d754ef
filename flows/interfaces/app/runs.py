"""Runs that the page starts: one at a time, each a process of its own that outlives the server."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.app.folder import Folder, text_at
from hushrank.transforms.common.local_files import MostBytes, open_to_write
from hushrank.transforms.storage.places import write_whole

START, LOCK = "start.lock", "run.lock"
LOG, RESULT, NOTE = "run.log", "run.out", "run.json"
WORKER = "hushrank.flows.interfaces.app.worker"
MOST_LOG = 200_000  # bytes of progress that are read
BRIEFLY = 0.1  # seconds; another look holds the lock for far less
LOOK_SECONDS = 0.2  # between two looks at a run's progress
START_SECONDS = 60.0  # in which a new process must have taken the lock, or have ended
BUSY = "A run goes on in this folder already: {}. Wait for its end. Nothing was spent."
CUT_OFF = (
    "The run ended before it had finished: it was killed, or the machine went down. Run again: what"
    " was reserved but not drawn is given back, and if noise was drawn, the same release is"
    " published without spending again."
)


@dataclass(frozen=True, slots=True)
class Runs:
    """The last run of a folder: it goes on, or it has ended.

    Attributes:
        folder: the folder, in which this process works.
    """

    folder: Folder

    def start(self, survey: str, digest: str) -> None:
        """Start a run, unless one goes on.

        Args:
            survey: name of the YAML file.
            digest: of the content that the person saw.

        Raises:
            ConfigError: a run goes on.
        """
        self.folder.survey(survey)
        private = self.folder.private
        with FileLock(private / START):  # two tabs, or two servers
            if self.is_going_on():
                raise ConfigError(BUSY.format(self.note().get("survey", survey)))
            note = {"survey": survey, "digest": digest}
            words = [sys.executable, "-m", WORKER, str(private), survey, digest]
            with open_to_write(private / LOG) as log, open_to_write(private / RESULT) as result:
                process = subprocess.Popen(
                    words,
                    cwd=self.folder.root,
                    stdin=subprocess.DEVNULL,
                    stdout=result,
                    stderr=log,
                    start_new_session=True,  # closing the terminal does not end it
                    env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
                )
            write_whole(str(private / NOTE), json.dumps(note | {"process": process.pid}).encode())
            _wait_for_lock(private / LOCK, process)

    def is_going_on(self) -> bool:
        """Whether a process holds the lock of runs."""
        return _is_held(self.folder.private / LOCK)

    def note(self) -> dict[str, Any]:
        """Return which file was run last; empty: none."""
        try:
            found = json.loads(text_at(self.folder.private / NOTE))
        except (ConfigError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def state(self) -> dict[str, Any]:
        """Return the last run: its file, whether it goes on, its steps and its result."""
        private = self.folder.private
        with FileLock(private / START):  # a run that is being started has no result yet
            going_on = self.is_going_on()  # before its files are read, so that none is missed
            note = self.note()
            return {
                "survey": note.get("survey"),
                "digest": note.get("digest"),
                "going_on": going_on,
                "steps": _lines_of(private / LOG),
                "result": None if going_on else self._result(),
            }

    def _result(self) -> dict[str, Any] | None:
        """Return the document that the run printed, or an error; None: there was no run."""
        if not self.note():
            return None
        try:
            found = json.loads(text_at(self.folder.private / RESULT, MostBytes.RECORDS))
        except (ConfigError, ValueError):
            found = None
        if not isinstance(found, dict):
            return {"error": {"kind": "Interrupted", "message": CUT_OFF, "exit_code": 130}}
        return found

    async def events(self) -> AsyncIterator[bytes]:
        """Yield server-sent events: the state of the run, each time that it changes, to its end."""
        last = None
        while True:
            state = await asyncio.to_thread(self.state)
            if state != last:
                yield f"data: {json.dumps(state)}\n\n".encode()
                last = state
            if not state["going_on"]:
                return
            await asyncio.sleep(LOOK_SECONDS)


def _is_held(path: Path) -> bool:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=BRIEFLY)
    except Timeout:
        return True
    lock.release()
    return False


def _wait_for_lock(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the new process holds the lock, or has ended, so that no second one starts."""
    looks = int(START_SECONDS / LOOK_SECONDS)
    for _ in range(looks):
        if _is_held(path):
            return
        try:
            process.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return


def _lines_of(path: Path) -> list[str]:
    try:
        text = text_at(path, MOST_LOG)
    except ConfigError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]
