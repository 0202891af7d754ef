"""Forms with a column for each pair of items, as survey programs export them: from file to page."""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

import hushrank as hr
from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.section import GivenRows
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config
from tests.flows.scenarios.test_cases import ranked

SCORES = {"Tea": 1.2, "Coffee": 0.6, "Cocoa": -0.6, "Tap water": -1.2}
ITEMS = list(SCORES)
PAIRS = list(combinations(ITEMS, 2))
PEOPLE = 1500


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of this file are written, and write, beside the survey."""
    monkeypatch.chdir(tmp_path)


def chosen(person: int) -> list[str]:
    """What a person says of each pair: by scores, blank in a tenth, and "Same" in a tenth."""
    rng = random.Random(person)
    found = []
    for one, other in PAIRS:
        chance, said = 1 / (1 + math.exp(SCORES[other] - SCORES[one])), rng.random()
        rest = "" if said < 0.1 else "Same" if said < 0.2 else None
        found.append(rest if rest is not None else one if rng.random() < chance else other)
    return found


def write(header: Sequence[Sequence[str]], before: Callable[[int], Sequence[object]]) -> None:
    with Path("form.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerows(header)
        rows.writerows([*before(person), *chosen(person)] for person in range(PEOPLE))


def qualtrics() -> None:
    """Names, questions and identities stand above the answers; people share addresses."""
    names = ["StartDate", "IPAddress", "ResponseId", *(f"Q{k}" for k in range(1, 7))]
    asked = [f"Which do you like better: {one} or {other}?" for one, other in PAIRS]
    ids = [json.dumps({"ImportId": name}) for name in names]
    header = [names, ["Start Date", "IP Address", "Response ID", *asked], ids]
    write(header, lambda n: ["2026-11-01 10:00:00", f"10.0.0.{n % 40}", f"R_{n:06d}"])


def google_forms() -> None:
    asked = [f"{one} or {other}?" for one, other in PAIRS]
    write([["Timestamp", "Email Address", *asked]], lambda n: ["1/11/2026", f"p{n}@example.org"])


def lime_survey() -> None:
    asked = [f"G1Q{k}. {one} vs. {other}" for k, (one, other) in enumerate(PAIRS)]
    write([["Response ID", "Date submitted", *asked]], lambda n: [n + 1, "2026-11-01"])


def dotted() -> None:
    write([["person", *(f"{one}.{other}" for one, other in PAIRS)]], lambda n: [f"p{n}"])


FORMS = {
    qualtrics: {"user": "ResponseId"},
    google_forms: {},
    lime_survey: {"user": "Response ID"},
    dotted: {},
}


@pytest.mark.parametrize("form", FORMS)
def test_from_the_file_to_the_page(command, form):
    form()
    places, _ = ranked(command, "form.csv", design="balanced", **FORMS[form])
    assert places == ITEMS
    page = Path("out/form/report.html").read_text(encoding="utf-8")
    assert all(item in page for item in ITEMS)
    assert command("verify", "out/form")[0] == 0
    asked = yaml.safe_load(Path("survey.yaml").read_text())["input"]["columns"]["pairs"]
    assert list(asked.values()) == list(map(list, PAIRS))


def test_a_sentence_writes_its_second_item_small_and_an_odd_cell_hides_no_question(command):
    """As people type them: "Tea or coffee?", whose cells hold Coffee; one cell holds a remark."""
    names = ["user", *(f"Q{k}" for k in range(1, 7))]
    header = [names, ["Response ID", *(f"{one} or {other.lower()}?" for one, other in PAIRS)]]
    header.append([json.dumps({"ImportId": name}) for name in names])
    write(header, lambda n: [f"p{n}"])
    lines = Path("form.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    before = lines[3].rsplit(",", 1)[0]
    lines[3] = f"{before},cannot say\n"
    Path("form.csv").write_text("".join(lines), encoding="utf-8")
    places, _ = ranked(command, "form.csv", design="balanced", user="user")
    assert places == ["Tea", "Coffee", "Cocoa", "tap water"]
    assert "set aside 1 " in " ".join(
        command("inspect", "survey.yaml", "--yes-confidential")[1].split()
    )


def test_codes_in_cells_are_a_question(command):
    header = ",".join(["person", *(f"{a}.{b}" for a, b in combinations("ABC", 2))])
    rows = [f"p{n},{n % 2},1,{(n + 1) % 2}" for n in range(400)]
    Path("form.csv").write_text("\n".join([header, *rows]) + "\n")
    places, _ = ranked(command, "form.csv", design="balanced", words="1/0")
    assert places[0] == "A"
    text = Path("survey.yaml").read_text().replace("out/form", "out/turned")
    as_said, turned = '{left: ["1"], right: ["0"]}', '{left: ["0"], right: ["1"]}'
    assert as_said in text
    turned = text.replace(as_said, turned)
    Path("survey.yaml").write_text(turned)
    code, printed = command("run", "--direct", "survey.yaml")
    assert code == 0, printed
    assert json.loads(Path("out/turned/release.json").read_text())["ranking"][0]["item"] == "C"


def test_a_form_counts_as_the_same_answers_in_a_row_each():
    """The exact counts of both files are equal, where all rows count; so is what is set aside."""
    google_forms()
    asked = {f"{one} or {other}?": [one, other] for one, other in PAIRS}
    sheets = [dict(zip(PAIRS, chosen(person), strict=True)) for person in range(PEOPLE)]
    people = [f"p{n}@example.org" for n in range(PEOPLE)]
    long = [
        {"person": name, "left": one, "right": other, "winner": said}
        for name, sheet in zip(people, sheets, strict=True)
        for (one, other), said in sheet.items()
        if said
    ]
    about = {"items": ITEMS, "words": {"tie": ["same"]}, "ties": "split", "max_contributions": 6}
    settings = {"input": {"on_bad_rows": "set-aside"}}
    form = hr.inspect(
        "form.csv",
        kind="comparisons",
        user="Email Address",
        pairs=asked,
        settings=settings,
        **about,
    )
    rows = hr.inspect(pa.Table.from_pylist(long), user="person", winner="winner", **about)
    assert form.appearances == rows.appearances
    assert (form.rows, form.valid, form.people) == (rows.rows, rows.valid, rows.people)
    assert form.set_aside == rows.set_aside == {}


@pytest.mark.parametrize("method", ["noisy-pairs", "debiased-rr"])
def test_other_methods_and_local_noise_read_a_form(method):
    google_forms()
    asked = {f"{one} or {other}?": [one, other] for one, other in PAIRS}
    unit = "local" if method == "debiased-rr" else "user"
    found = hr.rank(
        "form.csv", name="drinks", kind="comparisons", user="Email Address", pairs=asked,
        words={"tie": ["same"]}, ties="random", items=ITEMS, epsilon=8, unit=unit, method=method,
        max_contributions=6, ledger="ledger.jsonl", out="out", total_epsilon=100,
    )  # fmt: skip
    assert [each.item for each in found.record.ranking] == ITEMS


def test_what_is_said_of_a_form_calls_no_empty_cell_a_tie():
    rows = InputConfig.model_validate(
        {
            "kind": "comparisons", "layout": "pairs-wide", "paths": ["form.csv"], "ties": "split",
            "columns": {"user": "id", "pairs": {"Q": ["A", "B"]}},
        }
    )  # fmt: skip
    said = rows.readings(GivenRows(("A", "B"), formats=set(), complete=True, codes=False))
    assert [each.text for each in said] == [
        "Each column of input.columns.pairs should hold one of its two items, or tie for a tie."
        " Rows with anything else are excluded."
    ]


REFUSED = [
    ({"layout": "long"}, "layout: columns.pairs names a column for each pair"),
    ({"columns": {"user": "id"}}, "columns.pairs names the pair of each column; add it"),
    ({"columns": {"user": "id", "pairs": {"id": ["A", "B"]}}}, "column id is user already"),
    ({"columns": {"pairs": {"Q": ["A", "A"]}}}, "column Q has twice the item A"),
    ({"columns": {"pairs": {"Q": ["A", "D"]}}}, "D is not one of items"),
    ({"columns": {"pairs": {"Q": ["A", "B"]}, "winner": "Q"}}, "has no effect beside"),
    ({"columns": {"user": "choice", "pairs": {"Q": ["A", "B"]}}}, "may be called choice here"),
    ({"words": {"tie": ["", "same"]}}, "an empty cell is no answer in layout pairs-wide"),
    ({"words": {"tie": ["N/A"]}}, "an empty cell is no answer in layout pairs-wide"),
    ({"words": {"tie": ["Left item"]}}, "no word may be left item in layout pairs-wide"),
    ({"words": {"tie": ["b"]}}, "the word b also names an item"),
]


@pytest.mark.parametrize(("changed", "told"), REFUSED)
def test_a_form_that_contradicts_itself_is_refused(changed, told):
    job = {
        "name": "people",
        "input": {
            "kind": "comparisons", "layout": "pairs-wide", "paths": ["form.csv"],
            "columns": {"user": "id", "pairs": {"Q": ["A", "B"]}},
        } | changed,
        "items": {"names": ["A", "B", "C"]},
        "privacy": {"unit": "user", "epsilon": 1, "max_contributions": 3},
        "method": "win-loss", "output": "out", "confidential": ".hushrank/work",
        "ledger": {"path": ".hushrank/ledger.jsonl", "epsilon": 10},
    }  # fmt: skip
    Path("survey.yaml").write_text(yaml.safe_dump(job))
    with pytest.raises(ConfigError, match=told):
        load_config(Path("survey.yaml"))
