"""Exports of best-worst scaling (MaxDiff) as survey programs write them: from file to page."""

from __future__ import annotations

import csv
import itertools
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml

from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config
from hushrank.flows.release.release import load_release
from tests.flows.conftest import Survey
from tests.flows.forgeries import run

UTILITIES = {"Tea": 1.2, "Coffee": 0.7, "Juice": 0.2, "Milk": -0.4, "Cola": -0.6, "Water": -1.1}
ITEMS = list(UTILITIES)
PEOPLE, SETS, SHOWN = 900, 4, 4


def picked(among: Sequence[str], sign: int, rng: random.Random) -> str:
    return rng.choices(among, [math.exp(sign * UTILITIES[item]) for item in among])[0]


def choices() -> list[tuple[int, list[str], str, str]]:
    """Person, items shown, best and worst of each row, by the multinomial logit law."""
    rng = random.Random(11)
    found = []
    for person in range(PEOPLE):
        for _ in range(SETS):
            shown = rng.sample(ITEMS, SHOWN)
            best = picked(shown, 1, rng)
            worst = picked([item for item in shown if item != best], -1, rng)
            found.append((person, shown, best, worst))
    return found


def true_scores() -> dict[str, float]:
    """Scores over all sets of four items."""
    return scores_over([*itertools.combinations(ITEMS, SHOWN)])


def scores_over(sets: Sequence[Sequence[str]]) -> dict[str, float]:
    """Mean half of the items below less those above, over sets; not shown counts as 0."""
    sums = dict.fromkeys(ITEMS, 0.0)
    for shown in sets:
        weights = np.array([math.exp(UTILITIES[item]) for item in shown])
        for b, best in enumerate(shown):
            first = weights[b] / weights.sum()
            rest = [item for item in shown if item != best]
            against = np.array([math.exp(-UTILITIES[item]) for item in rest])
            sums[best] += first * (SHOWN - 1) / 2
            for item, share in zip(rest, against / against.sum(), strict=True):
                sums[item] -= first * share * (SHOWN - 1) / 2
    return {item: value / len(sets) for item, value in sums.items()}


def write(header: Sequence[str], row: Callable[[int, list[str], str, str], list[object]]) -> None:
    with Path("sets.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(header)
        rows.writerows(row(*each) for each in choices())


def with_names() -> None:
    header = ["ResponseId", *(f"alt_{k}" for k in range(1, 5)), "Most preferred", "Least preferred"]
    write(header, lambda person, shown, best, worst: [f"R_{person}", *shown, best, worst])


def choices_first() -> None:
    header = ["respondent_id", "BestChoice", "WorstChoice", *(f"Item{k}" for k in range(1, 5))]
    write(header, lambda person, shown, best, worst: [person, best, worst, *shown])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def job(folder: Path, **columns: object) -> Survey:
    settings = {
        "name": "drinks",
        "input": {
            "kind": "rankings",
            "layout": "best-worst",
            "paths": ["sets.csv"],
            "ties": "random",
            "columns": columns,
        },
        "items": {"names": ITEMS},
        "privacy": {
            "unit": "user",
            "epsilon": 8.0,
            "noise": "gaussian",
            "delta": 1e-6,
            "max_contributions": SETS,
        },
        "method": "borda",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 20, "delta": 1e-5},
    }
    return Survey(folder, settings).set()


SHAPES = {
    "names": (
        with_names,
        {
            "user": "ResponseId",
            "best": "Most preferred",
            "worst": "Least preferred",
            "shown": [f"alt_{k}" for k in range(1, 5)],
        },
    ),
    "choices first": (
        choices_first,
        {
            "user": "respondent_id",
            "best": "BestChoice",
            "worst": "WorstChoice",
            "shown": [f"Item{k}" for k in range(1, 5)],
        },
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_export_is_ranked_and_its_intervals_hold(shape: str, here: Path):
    """All intervals of all items together: each shape fails by chance in less than 5 % of draws of
    answers; these answers are fixed, so only the noise is drawn, a small part of the error."""
    make, columns = SHAPES[shape]
    make()
    run(job(here, **columns))
    release = load_release(here / "out" / "release.json")
    truth = true_scores()
    for line in release.ranking:
        assert line.low_all <= truth[line.item] <= line.high_all, line.item
        assert line.high_all - line.low_all < 0.4, line.item
    assert release.ranking[0].item == "Tea"
    assert "Water" in (here / "out" / "report.html").read_text(encoding="utf-8")
    assert release.privacy.parameters["longest_ranking"] == SHOWN  # noise for sets, not for lists


DESIGN = [ITEMS[:4], ITEMS[2:], [*ITEMS[:2], *ITEMS[4:]]]  # sets that everybody sees


def in_one_row(shown: bool) -> None:
    """A row a person with three sets, of which some are not answered."""
    rng = random.Random(5)
    own = ["item1", "item2", "item3", "item4"] if shown else []
    with Path("sets.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        names = [f"Q{k} {each}" for k in (1, 2, 3) for each in (*own, "most", "least")]
        rows.writerow(["respondent_id", *names])
        for person in range(PEOPLE):
            cells: list[str] = []
            for among in DESIGN:
                best = picked(among, 1, rng)
                worst = picked([item for item in among if item != best], -1, rng)
                told = [best, worst] if rng.random() > 0.05 else ["", "NA"]
                cells += [*(among if shown else []), *told]
            rows.writerow([f"{person}x", *cells])


def set_columns(shown: bool) -> list[dict[str, object]]:
    sets: list[dict[str, object]] = []
    for k, among in enumerate(DESIGN, 1):
        items = [f"Q{k} item{n}" for n in (1, 2, 3, 4)] if shown else among
        key = "shown" if shown else "items"
        sets.append({"best": f"Q{k} most", "worst": f"Q{k} least", key: items})
    return sets


@pytest.mark.parametrize("shown", [True, False])
def test_a_row_with_all_sets_of_a_person_is_ranked(shown: bool, here: Path):
    """Scores add up over the three sets of the design, each answered alike often.

    All intervals at once, so a correct job fails in less than 5 % of draws of answers; these are
    fixed, and noise is a small part.
    """
    in_one_row(shown)
    run(job(here, user="respondent_id", sets=set_columns(shown)))
    release = load_release(here / "out" / "release.json")
    truth = scores_over(DESIGN)
    for line in release.ranking:
        assert line.low_all <= truth[line.item] <= line.high_all, line.item
        assert line.high_all - line.low_all < 0.5, line.item
    facts = release.privacy.parameters
    assert facts["longest_ranking"] == 4
    assert facts["widened_for_sets_of_a_person_by"] == pytest.approx(1.5505, abs=0.001)


@pytest.mark.parametrize("shown", [True, False])
def test_init_finds_the_sets_of_a_row_and_never_takes_items_from_choices(
    shown: bool, here: Path, command: Callable[..., tuple[int, str]]
):
    in_one_row(shown)
    code, said = command("init", "sets.csv", "--out", "job.yaml")
    assert code == 0
    text = Path("job.yaml").read_text()
    found = yaml.safe_load(text)
    sets = found["input"]["columns"]["sets"]
    told = set_columns(True)
    if not shown:
        told = [{**each, "items": None} for each in told]
        told = [{key: each[key] for key in ("best", "worst", "items")} for each in told]
        assert "the items of the set with Q1 most" in said
    assert sets == told
    assert found["privacy"]["max_contributions"] == 3
    assert not any(item in text for item in ITEMS)


@pytest.mark.parametrize(
    ("sets", "rule"),
    [
        ([{"best": "a", "worst": "b"}], "needs exactly one of shown"),
        ([{"best": "a", "worst": "b", "shown": ["a", "c"]}], "names column a twice"),
        ([{"best": "a", "worst": "b", "items": ["Tea", "Tea"]}], "names an item twice"),
        ([{"best": "a", "worst": "b", "items": ["Tea", "Wine"]}], "Wine is not one of items"),
        ([{"best": "id", "worst": "b", "items": ["Tea", "Milk"]}], "column id is user already"),
    ],
)
def test_sets_that_contradict_each_other_are_refused(
    here: Path, sets: list[dict[str, object]], rule: str
):
    with pytest.raises(ConfigError, match=rule):
        load_config(job(here, user="id", sets=sets).config)


def test_choices_are_ranked_in_each_group(here: Path):
    """Even people prefer as all do; odd ones say the worst is the best."""
    header = ["id", "team", "best", "worst", *(f"alt_{k}" for k in range(1, 5))]

    def row(person: int, shown: list[str], best: str, worst: str) -> list[object]:
        named = (worst, best) if person % 2 else (best, worst)
        return [person, ("even", "odd")[person % 2], *named, *shown]

    write(header, row)
    survey = job(here, user="id", best="best", worst="worst", shown=header[4:])
    run(survey.set(groups={"column": "team", "values": ["even", "odd"]}))
    even, odd = load_release(here / "out" / "release.json").groups
    assert even.ranking[0].item == odd.ranking[-1].item == "Tea"


def test_a_file_of_ranks_says_the_same(here: Path):
    """1, 0 and -1 in a column for each item are `layout: wide`, which needs no other rule."""
    write(
        ["id", *ITEMS],
        lambda person, shown, best, worst: [
            person,
            *(("" if i not in shown else (i == best) - (i == worst)) for i in ITEMS),
        ],
    )
    survey = job(here, user="id")
    survey.set(input__layout="wide", input__best="highest")
    run(survey)
    release = load_release(here / "out" / "release.json")
    truth = true_scores()
    for line in release.ranking:
        assert line.low_all <= truth[line.item] <= line.high_all, line.item


@pytest.mark.parametrize("shape", SHAPES)
def test_init_does_not_take_the_order_of_display_for_a_ranking(
    shape: str, here: Path, command: Callable[..., tuple[int, str]]
):
    make, columns = SHAPES[shape]
    make()
    assert command("init", "sets.csv", "--out", "job.yaml")[0] == 0
    found = yaml.safe_load(Path("job.yaml").read_text())["input"]
    assert (found["layout"], found["ties"]) == ("best-worst", "random")
    assert {each: found["columns"][each] for each in ("best", "worst", "shown")} == {
        each: columns[each] for each in ("best", "worst", "shown")
    }


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"items__names": [*ITEMS, "NA"]}, "an item is named NA, which means an empty cell"),
        ({"input__columns__best": "Best"}, "Correct input.columns.best, or the line"),
        ({"input__columns__shown": ["alt_1", "alt_9"]}, "Correct input.columns.shown, or the line"),
    ],
)
def test_what_the_file_does_not_allow_is_named(
    here: Path, command: Callable[..., tuple[int, str]], change: dict[str, object], told: str
):
    with_names()
    survey = job(here, **SHAPES["names"][1]).set(**change)
    code, said = command("validate", survey.config)
    assert code != 0
    assert told in " ".join(said.split())


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"input__ties": "refuse"}, "must be random"),
        ({"input__unlisted": "below"}, "were not shown"),
        ({"method": "bradley-terry"}, "must be borda or kemeny"),
        ({"input__columns__user": None}, "columns.user: missing"),
        ({"input__columns__shown": None}, "columns.shown: missing"),
        ({"input__columns__shown": ["alt_1", "alt_1"]}, "names a column twice"),
        ({"input__columns__shown": ["alt_1", "Most preferred"]}, "is best already"),
        ({"input__layout": "places"}, "belongs to layout: best-worst"),
    ],
)
def test_what_would_change_the_answer_is_refused(here: Path, change: dict[str, object], rule: str):
    survey = job(here, **SHAPES["names"][1]).set(**change)
    with pytest.raises(ConfigError, match=rule):
        load_config(survey.config)
