"""Guides for each kind of log, from the file to the report: their commands are run.

The logs are simulated, with the columns and words of real ones. Noise decides the rows of a
ranking, so of these only the form is compared.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.flows.scenarios.test_pages_are_true import commands, normal, run

MODELS = ["Aster", "Birch", "Cedar", "Dahlia", "Elm", "Fir", "Ginkgo", "Hazel"]
STRENGTHS = np.array([1.2, 0.9, 0.6, 0.3, 0.0, -0.3, -0.6, -1.0])
SHOWN = np.array([8, 1, 4, 2, 1, 1, 3, 1]) / 21

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def battles(folder: Path, rng: np.random.Generator) -> None:
    with (folder / "battles.jsonl").open("w") as file:
        for judge in range(1_500):
            for _ in range(12):
                a, b = rng.choice(8, 2, replace=False, p=SHOWN)
                first = rng.random() < 1 / (1 + np.exp(STRENGTHS[b] - STRENGTHS[a]))
                winner = "tie" if rng.random() < 0.15 else "model_a" if first else "model_b"
                row = {"question_id": "…", "judge": f"j{judge}", "model_a": MODELS[a]}
                row |= {"model_b": MODELS[b], "winner": winner}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def sheets(folder: Path, rng: np.random.Generator) -> None:
    difficulty = np.linspace(-1.5, 1.5, 8)
    with (folder / "exam.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Matrikelnummer", *(f"Q{item}" for item in range(1, 9))])
        for person in range(2_000):
            chance = 1 / (1 + np.exp(difficulty - rng.normal()))
            writer.writerow([100_000 + person, *(rng.random(8) < chance).astype(int)])


def ballots(folder: Path, rng: np.random.Generator) -> None:
    names, strengths = ["Ada", "Bo", "Cleo", "Dan"], np.array([0.8, 0.4, -0.2, -1.0])
    with (folder / "ballots.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["voter", "candidate", "rank"])
        for voter in range(900):
            order = np.argsort(-(strengths + rng.gumbel(size=4)))
            writer.writerows([voter, names[item], rank] for rank, item in enumerate(order, 1))


def form(line: str) -> str:
    """A line without what noise decides."""
    line = re.sub(r"^(\d+=?) +\S+", "PLACE ITEM", line)
    line = normal(re.sub(r"\d+=", "# ", line))
    return re.sub(r"[+-]#", "#", line)


def missing(page: str, folder: Path, programs: Path | None = None) -> list[str]:
    """Lines of the page that its commands do not print, in their order."""
    found = []
    for command, lines in commands(page):
        if command.startswith("head "):
            continue
        printed = [form(line) for line in run(command, folder, programs)]
        for line in map(form, lines):
            if line in ("", "..."):
                continue
            if line not in printed:
                found.append(f"{command}: {line}")
            else:
                printed = printed[printed.index(line) + 1 :]
    return found


@pytest.mark.parametrize(
    ("page", "write", "best"),
    [
        ("leaderboards", battles, {"Aster", "Birch"}),
        ("tests", sheets, {"Q8"}),
        ("elections", ballots, {"Ada"}),
    ],
)
def test_a_guide_is_true(
    checkout: Path,
    tmp_path: Path,
    programs: Path,
    page: str,
    write: Callable[[Path, np.random.Generator], None],
    best: set[str],
) -> None:
    write(tmp_path, np.random.default_rng(4))
    text = (checkout / "docs" / f"{page}.md").read_text()
    assert missing(text, tmp_path, programs) == []
    releases = list(tmp_path.glob("out/*/release.json"))
    assert releases
    for release in releases:
        assert json.loads(release.read_text())["ranking"][0]["item"] in best
        assert (release.parent / "report.html").exists()


# The guide of a stream with nine nights instead of sixty, for the time that they take.
SHORTER = {
    "--nights 60": "--nights 9",
    "participations: 9": "participations: 2",
    "2026-03-01": "2026-01-09",
    "2026-02-01": "2026-01-04",
    "window: 28": "window: 9",
}


def test_the_guide_of_a_stream_is_true(checkout: Path, tmp_path: Path, programs: Path) -> None:
    page = (checkout / "docs" / "nightly.md").read_text()
    tutorial = page.split("\n## Sixty nights: a tutorial\n")[1].split("\n## ")[0]
    plan, nights = tutorial.split("### A survey of sixty nights")
    assert missing(plan, tmp_path, programs) == []
    for text, shorter in SHORTER.items():
        assert text in nights
        nights = nights.replace(text, shorter)
    (curves,) = re.findall(r"^```python\n(.*?)^```$", nights, re.MULTILINE | re.DOTALL)
    (tmp_path / "curves.py").write_text(curves)
    assert missing(nights, tmp_path, programs) == []
    assert (tmp_path / "curves.svg").exists()
    for folder in ("out", "out-every"):
        assert len([*tmp_path.glob(f"nights/{folder}/releases/*")]) == 9


def test_the_drill_of_a_backup_is_true(checkout: Path, tmp_path: Path, programs: Path) -> None:
    page = (checkout / "docs" / "backup.md").read_text()
    drill = page.split("\n## A drill\n")[1].split("\n## ")[0]
    assert missing(drill.replace("/home/ada", str(tmp_path)), tmp_path, programs) == []
    ledger, before = (
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in (
            tmp_path / "server" / ".hushrank" / "ledger.jsonl",
            tmp_path / "laptop" / ".hushrank" / "ledger.jsonl",
        )
    )
    assert ledger[: len(before)] == before
    added = [line for line in ledger[len(before) :] if line["event"] == "reserve"]
    assert len(added) == 2
    assert all(line["of"] for line in added)  # paid for with the stream
    assert len([*tmp_path.glob("server/out/releases/*")]) == 5


def test_a_line_that_is_not_printed_is_found(tmp_path: Path) -> None:
    page = "```\n$ echo '1  Bo  +0.3'\n1=  Ada  -0.7\n1  Ada\n```\n"
    assert missing(page, tmp_path) == ["echo '1  Bo  +0.3': PLACE ITEM"]
