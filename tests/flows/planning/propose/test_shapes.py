"""Every shape of log that people have, from `init` to a ranking, with no line changed by hand.

The rows are simulated, the names of columns and the words are those of real files. Only lines that
are marked CHOOSE are filled in; no row may be set aside, and the best item must come out first.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ITEMS = ["Oslo", "Bern", "Rome"]  # best first
PEOPLE = 60
EPSILON = "8"

Row = dict[str, Any]


def compared() -> Iterator[tuple[int, str, str, str | None]]:
    """Person, left, right and who won, or None for a tie: the better one wins, one in 20 ties."""
    for person in range(PEOPLE):
        for number, (a, b) in enumerate(combinations(ITEMS, 2)):
            left, right = (a, b) if (person + number) % 2 else (b, a)
            yield person, left, right, None if (3 * person + number) % 20 == 19 else a


def answered() -> Iterator[tuple[int, int, int]]:
    """Person, item from 1 and mark: item 3 is hard, item 1 easy."""
    for person in range(4 * PEOPLE):  # of 60, noise puts another item first now and then
        for item in range(1, 6):
            yield person, item, int((person * 7) % 10 >= 2 * item - 1)


def sheets(prefix: str, person: str | None, marks: tuple[Any, Any] = (0, 1)) -> list[Row]:
    found: dict[int, Row] = {}
    for whose, item, mark in answered():
        row = found.setdefault(whose, {} if person is None else {person: 1000 + whose})
        row[f"{prefix}{item}"] = marks[mark]
    return list(found.values())


def write_csv(path: Path, rows: list[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_json_lines(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_parquet(path: Path, rows: list[Row]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path)


WRITERS = {".csv": write_csv, ".jsonl": write_json_lines, ".parquet": write_parquet}
COMPARED = {
    "design": "balanced",
    "items": f"{{names: [{', '.join(sorted(ITEMS))}]}}",
    "max_contributions": "3",
}
TESTED = {"items": "{names: [Q1, Q2, Q3, Q4, Q5]}", "max_contributions": "5"}
SHEET = {"missing": "unseen", "max_contributions": "5"}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A log, what `init` must say of it, and what a person fills in."""

    file: str
    rows: Callable[[], list[Row]]
    says: str
    choices: dict[str, str] = field(default_factory=lambda: COMPARED)
    first: str = "Oslo"


def arena() -> list[Row]:
    words = ["tie", "tie (bothbad)", "both_bad"]
    return [
        {
            "question_id": f"{number:032x}",
            "model_a": left,
            "model_b": right,
            "winner": words[number % 3] if won is None else "model_a" if won == left else "model_b",
            "judge": f"arena_user_{person}",
            "conversation_a": [{"role": "user", "content": "hello"}],
            "conversation_b": [{"role": "user", "content": "hello"}],
            "turn": 1,
            "language": "English",
            "tstamp": 1682351591.25 + number,
        }
        for number, (person, left, right, won) in enumerate(compared())
    ]


def tennis() -> list[Row]:
    loser = {(a, b): b for a, b in combinations(ITEMS, 2)}
    return [
        {
            "tourney_id": f"2023-{person:03d}",
            "tourney_name": f"Open {person}",
            "tourney_date": 20230102,
            "winner_id": 100 + ITEMS.index(won),
            "winner_seed": "",
            "winner_name": won,
            "loser_id": 7,
            "loser_seed": "",
            "loser_name": loser[tuple(sorted((left, right), key=ITEMS.index))],
            "score": "6-3 6-4",
            "w_ace": 3,
            "l_ace": 2,
        }
        for person, left, right, won in compared()
        if won is not None
    ]


def pairs(user: str, left: str, right: str, result: str, words: dict[str | None, Any]) -> list[Row]:
    """`words`: what the result says for `left`, for `right` and for a tie (None)."""
    return [
        {
            user: f"u{person}",
            left: a,
            right: b,
            result: words[None] if won is None else words["left" if won == a else "right"],
        }
        for person, a, b, won in compared()
    ]


def named(user: str, left: str, right: str, result: str, tie: str) -> list[Row]:
    return [
        {user: f"u{person}", left: a, right: b, result: won or tie}
        for person, a, b, won in compared()
    ]


def verbal_aggression() -> list[Row]:
    rows = [
        {"Anger": 20, "Gender": "FM"[person % 2], "item": f"Q{item}", "id": 1 + person}
        | {"mode": "Do", "r2": "NY"[mark]}
        for person, item, mark in answered()
    ]
    return sorted(rows, key=lambda row: (row["item"] != "Q3", row["item"]))


SHAPES = {
    "arena": Shape(
        file="battles.jsonl",
        rows=arena,
        says="comparisons: user=judge, left=model_a, right=model_b, outcome=winner.",
    ),
    "tennis": Shape(
        file="atp_matches_2023.csv",
        rows=tennis,
        says="comparisons: winner=winner_name, loser=loser_name.\n"
        "Could not tell which column is user.",
        choices=COMPARED | {"user": "tourney_id"},
    ),
    "sides": Shape(
        file="crowd.csv",
        rows=lambda: pairs(
            "worker", "left", "right", "winner", {"left": "left", "right": "right", None: "tie"}
        ),
        says="comparisons: user=worker, left=left, right=right, outcome=winner.",
    ),
    "numbered-sides": Shape(
        file="turk.csv",
        rows=lambda: pairs(
            "turker", "option1", "option2", "label", {"left": 1, "right": 2, None: 0}
        ),
        says="comparisons: user=turker, left=option1, right=option2, outcome=label.",
    ),
    "wiki-survey": Shape(
        file="votes.csv",
        rows=lambda: named("Session ID", "Idea A", "Idea B", "Winner", "neither"),
        says="comparisons: left=Idea A, right=Idea B, winner=Winner.\nCould not tell",
        choices=COMPARED | {"user": "Session ID"},
    ),
    "students": Shape(
        file="cems.parquet",
        rows=lambda: named("idstud", "school1", "school2", "choice", "no preference"),
        says="comparisons: user=idstud, left=school1, right=school2, winner=choice.",
    ),
    "left-over": Shape(
        file="who.csv",
        rows=lambda: named("farmer", "a", "b", "preferred", "tie"),
        says="comparisons: left=a, right=b, winner=preferred.\nCould not tell",
        choices=COMPARED | {"user": "farmer"},
    ),
    "sheet": Shape(
        file="ecpe.csv",
        rows=lambda: sheets("E", "id"),
        says="a test, with a row a person and a column an item.\nCould not tell",
        choices=SHEET | {"user": "id", "words": "null"},
        first="E5",
    ),
    "sheet-of-words": Shape(
        file="exam.csv",
        rows=lambda: sheets("Q ", "Matrikelnummer", ("wrong", "right")),
        says="a test, with a row a person and a column an item: user=Matrikelnummer.",
        choices=SHEET,
        first="Q 5",
    ),
    "sheet-of-truths": Shape(
        file="exam.parquet",
        rows=lambda: sheets("Q", "student", (False, True)),
        says="a test, with a row a person and a column an item: user=student.",
        choices=SHEET,
        first="Q5",
    ),
    "long": Shape(
        file="answers.parquet",
        rows=lambda: [
            {"person": person, "item": f"Q{item}", "correct": mark}
            for person, item, mark in answered()
        ],
        says="test answers: user=person, item=item, correct=correct.",
        choices=TESTED | {"words": "null"},
        first="Q5",
    ),
    "verbal-aggression": Shape(
        file="VerbAgg.csv",
        rows=verbal_aggression,
        says="test answers: item=item, correct=r2.\nCould not tell",
        choices=TESTED | {"user": "id"},
        first="Q5",
    ),
    "ballots": Shape(
        file="ballots.csv",
        rows=lambda: [
            {"voter": person, "candidate": item, "position": place}
            for person in range(20 * PEOPLE)
            for place, item in enumerate(ITEMS, 1)
        ],
        says="rankings: user=voter, item=candidate, rank=position.",
        choices={
            "items": COMPARED["items"],
            "best": "lowest",
            "not_ranked": "[]",
            "unlisted": "unknown",
        },
    ),
}


def filled(text: str, choices: dict[str, str]) -> str:
    """The file with a value in each line that is marked CHOOSE, and in no other."""
    for key, value in choices.items():
        text, times = re.subn(rf"(?m)^( *{key}:) +# CHOOSE.*$", rf"\1 {value}", text)
        assert times == 1, key
    assert not re.search(r"(?m)^[^#\n]+# CHOOSE", text)  # those of a proposal in comments may stay
    return text


def ranked(command: Callable[..., tuple[int, str]], choices: dict[str, str], first: str) -> str:
    """Fill in, validate and run `survey.yaml`; what `run` printed."""
    job = Path("survey.yaml")
    job.write_text(filled(job.read_text(), {"epsilon": EPSILON} | choices))
    code, printed = command("validate", job)
    assert code == 0, printed
    code, printed = command("run", "--direct", job)
    assert code == 0, printed
    (release,) = Path("out").glob("*/release.json")
    ranking = json.loads(release.read_text())["ranking"]
    assert ranking[0]["item"] == first
    (counts,) = Path(".hushrank/work").rglob("diagnostics.json")
    assert json.loads(counts.read_text())["rows_rejected"] == 0
    return printed


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_init_proposes_is_valid_and_ranks(command, shape):
    WRITERS[Path(shape.file).suffix](Path(shape.file), shape.rows())
    code, printed = command("init", shape.file)
    assert code == 0, printed
    assert printed.startswith(f"I read the header and at most 5 rows. Looks like {shape.says}"), (
        printed
    )
    ranked(command, shape.choices, shape.first)


def test_a_folder_with_a_level_of_dates_is_ranked_whole_and_nights_are_offered(command):
    rows = named("uid", "a", "b", "winner", "tie")
    for number, day in enumerate(("2026-11-18", "2026-11-19", "2026-11-20")):
        folder = Path("logs", f"date={day}")
        folder.mkdir(parents=True)
        write_json_lines(folder / "part-0.jsonl", rows[number::3])
    code, printed = command("init", "logs")
    assert code == 0, printed
    assert printed.startswith(
        "I read the header and at most 5 rows of logs/date=2026-11-18/part-0.jsonl, the first of"
        " 3 files. Looks like comparisons: user=uid, left=a, right=b, winner=winner.\n"
    )
    text = Path("survey.yaml").read_text()
    night = "# schedule: {partition: date}"
    assert night in text
    ranked(command, COMPARED, "Oslo")
    nightly = Path("nightly.yaml")
    text = text.replace(night, night[2:]).replace("out/logs", "out/nights")
    nightly.write_text(filled(text, COMPARED | {"epsilon": "2"}))
    code, printed = command("validate", nightly, "--date", "2026-11-19")
    assert code == 0, printed
    assert "1 file," in printed


def test_a_sheet_without_a_person_says_what_to_do_and_that_does_it(command):
    write_csv(Path("lsat.csv"), sheets("Item ", None))
    code, printed = command("init", "lsat.csv")
    assert code == 0, printed
    assert (
        "No column names the person of a sheet, but the protection of people needs one" in printed
    )
    advice = re.search(r"For example: (awk .*)$", printed, re.MULTILINE)
    subprocess.run(["sh", "-c", advice[1]], check=True)
    Path("survey.yaml").unlink()
    code, printed = command("init", "numbered.csv")
    assert code == 0, printed
    ranked(command, SHEET | {"user": "id", "words": "null"}, "Item 5")


@pytest.mark.parametrize(
    ("name", "mark", "keys"),
    [("a.csv", ";", ["delimiter: "]), ("a.tsv", "\t", ["format: csv", "delimiter: tab"])],
)
def test_other_marks_between_columns_are_read(command, name, mark, keys):
    """Names of columns hold commas, a value the mark itself, in quotes."""
    rows = [
        {"Matrikelnummer": f"{mark}{person}", "Stadt, a": left, "Stadt, b": right, "choice": won}
        for person, left, right, won in compared()
        if won is not None
    ]
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=mark)
        writer.writeheader()
        writer.writerows(rows)
    code, printed = command("init", name)
    assert code == 0, printed
    assert "user=Matrikelnummer, left=Stadt, a, right=Stadt, b, winner=choice." in printed
    text = Path("survey.yaml").read_text()
    assert all(f"  {key}" in text for key in keys)
    ranked(command, COMPARED, "Oslo")


def test_rows_under_a_key_of_one_object_are_refused_with_the_command_that_helps(command):
    """As programs answer requests; read as it is, the file would be one row."""
    Path("answer.json").write_text(json.dumps({"next": None, "data": [{"user": "a", "won": "b"}]}))
    code, printed = command("init", "answer.json", "--out", "job.yaml")
    said = " ".join(printed.split())
    assert code != 0
    assert "a list under data" in said
    assert "jq -c '.[\"data\"][]'" in said
    assert not Path("job.yaml").exists()
