"""The page's application without a network, and as a program of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hushrank.flows.interfaces.app.folder import Folder
from hushrank.flows.interfaces.app.server import Page
from tests.flows.planning.propose.test_shapes import ITEMS, compared, write_csv

with warnings.catch_warnings():  # it recommends another client, which is no dependency
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

SECRET, HOST = "5ec7e7", "127.0.0.1:4711"
ORIGIN = {"origin": f"http://{HOST}"}
ANSWERS = {
    "input.design": "balanced",
    "items": f"{{names: [{', '.join(ITEMS)}]}}",
    "privacy.max_contributions": "3",
}


class Asker:
    """What a browser asks of the page, with its address and origin."""

    def __init__(self, page: Page) -> None:
        self.client = TestClient(
            page.app(SECRET, HOST), base_url=f"http://{HOST}", raise_server_exceptions=False
        )

    def get(self, path: str) -> Any:
        return self.client.get(f"/{SECRET}/{path}")

    def post(self, path: str, content: Any) -> Any:
        return self.client.post(f"/{SECRET}/{path}", json=content, headers=ORIGIN)

    def written(self, answers: dict[str, str], **asked: Any) -> str:
        """Write a job's file; return its name."""
        done = self.post("api/survey", {"file": "votes.csv", "answers": answers, **asked}).json()
        name: str = done["survey"]
        return name

    def digest(self, survey: str = "survey.yaml") -> str:
        found: str = self.get(f"api/budget?survey={survey}").json()["digest"]
        return found

    def paid(self, epsilon: float = 8.0, survey: str = "survey.yaml") -> str:
        """Set epsilon; return the digest of the file."""
        body = {"survey": survey, "digest": self.digest(survey), "epsilon": epsilon}
        done = self.post("api/budget", body)
        assert done.status_code == 200, done.text
        digest: str = done.json()["digest"]
        return digest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of votes, in which this process works."""
    root = tmp_path / "votes"
    root.mkdir()
    monkeypatch.chdir(root)
    write_csv(
        root / "votes.csv",
        [
            {"voter": f"u{person}", "left": a, "right": b, "winner": won}
            for person, a, b, won in compared()
            if won is not None
        ],
    )
    return root


@pytest.fixture
def page(folder: Path) -> Iterator[Page]:
    found = Page.of(Folder.at(folder))
    yield found
    found.budgets.close()


@pytest.fixture
def asker(page: Page) -> Asker:
    return Asker(page)


@pytest.fixture
def started() -> Iterator[Callable[[Path], tuple[str, subprocess.Popen[str]]]]:
    """Start `hushrank app` in a folder; return its address and its process, which is ended."""
    processes = []

    def start(folder: Path) -> tuple[str, subprocess.Popen[str]]:
        words = [sys.executable, "-m", "hushrank", "app", str(folder), "--no-browser"]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        processes.append(process)
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        return found[0], process

    yield start
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
