"""Values planted in the confidential area never reach a published file."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows import steps
from tests.flows.conftest import answers

USER, ITEM = "canary-user-7391", "canary-item-5517"
EXACT = 739_155_177  # a count that no noise of this job could turn into itself
DIGITS = re.compile(r"739[., ]?155[., ]?177")


@pytest.fixture
def canaries(survey, monkeypatch):
    """A user, an item outside the catalogue and an exact count that must stay where they are."""
    table = answers(200)
    users = [f"user-{user}" for user in table["user"].to_pylist()]
    users[0] = USER
    table = table.set_column(0, "user", pa.array(users))
    names = np.array(survey.settings["items"]["names"])
    for position, column in ((1, "item_i"), (2, "item_j")):
        named = pa.array(names[table[column].to_numpy()].tolist())
        table = table.set_column(position, column, named)
    left = table["item_i"].to_pylist()
    left[1] = ITEM
    pq.write_table(table.set_column(1, "item_i", pa.array(left)), survey.folder / "answers.parquet")
    reduce = steps.reduce

    def reduce_and_plant(job, reducer):
        reduce(job, reducer)
        (survey.work / job.release_id / "planted.txt").write_text(f"{USER} {ITEM} {EXACT}")
        diagnostics = survey.work / job.release_id / "diagnostics.json"
        known = json.loads(diagnostics.read_text())
        diagnostics.write_text(json.dumps({**known, "planted": EXACT, "who": USER}))

    monkeypatch.setattr("hushrank.flows.nightly.reduce", reduce_and_plant)
    return survey


def leaks(folder: Path) -> list[Path]:
    """Files that hold a planted value, in plain text or in a download inside a page."""
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and any(planted(text) for text in texts_of(path))
    ]


def texts_of(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    inside = re.findall(r"base64,([A-Za-z0-9+/=]+)", text)
    return [text, *(base64.b64decode(part).decode(errors="replace") for part in inside)]


def planted(text: str) -> bool:
    return USER in text or ITEM in text or DIGITS.search(text) is not None


@pytest.mark.parametrize("method", ["noisy-counts", "noisy-pairs"])
def test_no_planted_value_reaches_a_published_file(canaries, command, method):
    survey = canaries.set(method=method)
    for _ in range(2):  # the second run publishes nothing new, and compares
        code, printed = command("run", survey.config, "--direct")
        assert code == 0, printed
        assert not planted(printed)
    assert len(leaks(survey.work)) >= 2, "the canaries are not where they were put"
    assert leaks(survey.output) == []
    assert not planted(survey.ledger.read_text())
    export = survey.folder / "all.csv"
    code, printed = command("export", survey.config, "--out", export)
    assert code == 0, printed
    assert not planted(printed + export.read_text())


def test_the_search_finds_what_is_planted(canaries, command):
    command("run", canaries.config, "--direct")
    page = canaries.output / "report.html"
    for text in (USER, f"{EXACT:,}", str(EXACT), ITEM):
        (canaries.output / "copy.html").write_text(page.read_text() + text)
        assert leaks(canaries.output) == [canaries.output / "copy.html"]
