"""Votes by precinct from the file to the map: counts, files, refusals, and what Python gives."""

from __future__ import annotations

import csv
import random
from itertools import product
from pathlib import Path

import pytest

import hushrank as hr
from tests.flows.conftest import Survey

NAMES = ["Ada", "Bo", "Cleo"]
CODES = ["001", "002", "X-3"]
DISTRICTS = {"North": CODES[:2], "South": CODES[2:]}
EXACT = {
    "unit": "user",
    "epsilon": 600.0,
    "max_contributions": 1,
}  # no noise, but for a chance of 1e-17


def ballots() -> list[list[str]]:
    """Ballot, precinct and three places; the last rows break rules or are of another precinct."""
    rows = []
    for number, (code, first) in enumerate(product(CODES, range(3))):
        second = NAMES[(first + 1) % 3]
        for copy in range(20 * (number + 1)):
            rows.append([f"{number}-{copy}", code, NAMES[first], second, ""])
    rows += [["a", "999", "Ada", "", ""], ["b", "", "Bo", "", ""], ["c", "001", "nobody", "", ""]]
    return rows


def write(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["ballot", "precinct", "1st", "2nd", "3rd"], *rows])


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    write(tmp_path / "votes.csv", ballots())
    places = {"user": "ballot", "places": ["1st", "2nd", "3rd"]}
    settings = {
        "name": "county",
        "input": {
            "kind": "rankings",
            "layout": "places",
            "paths": ["votes.csv"],
            "columns": places,
            "unlisted": "below",
        },
        "items": {"names": NAMES},
        "groups": {"column": "precinct", "values": CODES, "districts": DISTRICTS},
        "privacy": {**EXACT},
        "method": "precinct-table",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 2000},
    }
    return Survey(tmp_path, settings).set()


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "precincts.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_file_has_a_row_for_each_precinct_and_candidate(survey, command):
    code, printed = command("run", survey.config, "--direct")
    assert code == 0
    rows = table(survey.output)
    votes = {(row["level"], row["code"], row["item"]): int(row["votes"]) for row in rows}
    for number, (place, first) in enumerate(product(CODES, NAMES)):
        assert votes["precinct", place, first] == 20 * (number + 1)
    for item in NAMES:
        for name, codes in DISTRICTS.items():
            held = sum(votes["precinct", place, item] for place in codes)
            assert votes["district", name, item] == held
        total = sum(votes["district", name, item] for name in DISTRICTS)
        assert votes["all", "", item] == total
    assert {row["district"] for row in rows if row["code"] == "X-3"} == {"South"}
    assert all(float(row["low"]) <= float(row["noisy"]) <= float(row["high"]) for row in rows)
    assert "First places in 3 precincts: a noisy number of a precinct is within" in printed
    assert "so very small ones tend to be too large" in " ".join(printed.split())
    page = (survey.output / "report.html").read_text()
    assert '<h2 id="votes">Votes by precinct</h2>' in page
    assert '<th scope="row" translate="no">X-3</th><td class="number">180</td>' in page
    assert command("run", survey.config, "--direct")[0] == 0  # spends nothing: the ledger is full


def test_names_of_districts_stay_with_their_numbers(survey, command):
    """Their order is no part of the job, so one draw serves both orders."""
    found = []
    for names in (("South", "North"), ("North", "South")):
        districts = {name: DISTRICTS[name] for name in names}
        survey.set(groups__districts=districts, output=f"out{len(found)}")
        assert command("run", survey.config, "--direct")[0] == 0
        found.append(table(survey.folder / f"out{len(found)}"))
    assert found[0] == found[1]
    noisy = {row["code"]: float(row["noisy"]) for row in found[0] if row["item"] == "Ada"}
    assert noisy["North"] == noisy["001"] + noisy["002"]
    assert noisy["South"] == noisy["X-3"]


def test_counts_do_not_depend_on_order_files_or_names(survey, command):
    """Ballots of nobody, equal ones in two precincts among them, with ties broken by coins."""
    rows = [["", code, "1", "1", "2"] for code in CODES for _ in range(30)]
    header = ["ballot", "precinct", *NAMES]
    found = []
    for order in (rows, random.Random(1).sample(rows, len(rows))):
        with (survey.folder / "votes.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *order])
        survey.set(
            input={
                "kind": "rankings",
                "layout": "wide",
                "paths": ["votes.csv"],
                "columns": {},
                "ties": "random",
            },
            groups={"column": "precinct", "values": CODES[:2], "others": "whole"},
            output=f"out{len(found)}",
            confidential=f"work{len(found)}",
            ledger__path=f"ledger{len(found)}.jsonl",
        )
        code, printed = command("run", survey.config, "--direct")
        assert code == 0, printed
        found.append({})
        for row in table(survey.folder / f"out{len(found) - 1}"):
            where = row["level"], row["code"]
            found[-1][where] = found[-1].get(where, 0) + int(row["votes"])
    every = {("precinct", code): 30 for code in CODES[:2]}
    assert found[0] == found[1] == {**every, ("elsewhere", ""): 30, ("all", ""): 90}


@pytest.mark.parametrize(("skipped", "votes"), [("close", 40), ("exhaust", 0)])
def test_an_empty_first_place_counts_as_skipped_ranks_do(survey, command, skipped, votes):
    write(survey.folder / "votes.csv", [[f"b{n}", "001", "", "Bo", "Ada"] for n in range(40)])
    survey.set(input__skipped=skipped)
    assert command("run", survey.config, "--direct")[0] == 0
    told = {(row["code"], row["item"]): int(row["votes"]) for row in table(survey.output)}
    assert (told["001", "Bo"], told["001", "Ada"]) == (votes, 0)
    assert (
        "in how many rankings an item is the best that counts"
        in (survey.output / "release.json").read_text()
    )


def test_no_valid_vote_is_a_cell_where_the_operator_lists_it(survey, command):
    """Blank ballots, unknown names and names that stand twice; of a listed precinct alone."""
    odd = [["", "", ""], ["nobody", "Ada", ""], ["Bo", "Bo", ""], ["Ada", "", ""]]
    rows = [[f"{n}-{k}", "001", *each] for n, each in enumerate(odd) for k in range(30)]
    write(survey.folder / "votes.csv", [*rows, ["x", "999", "", "", ""]])
    found = []
    for name in (None, "No valid vote"):
        names = [*NAMES, *([] if name is None else [name])]
        survey.set(input__no_valid_vote=name, items={"names": names}, output=f"out{len(names)}")
        code, printed = command("run", survey.config, "--direct")
        assert code == 0, printed
        assert command("verify", survey.folder / f"out{len(names)}")[0] == 0
        rows = table(survey.folder / f"out{len(names)}")
        found.append({row["item"]: int(row["votes"]) for row in rows if row["code"] == "001"})
    plain = {"Ada": 30, "Bo": 0, "Cleo": 0}
    assert found == [plain, {**plain, "No valid vote": 90}]
    code, printed = command("run", survey.set(method="kemeny", groups=None).config, "--direct")
    assert code == 2
    assert "input.no_valid_vote: is for method: precinct-table" in " ".join(printed.split())


def test_margins_of_a_precinct_hold_for_all_of_its_candidates_at_once(survey, command):
    """Beside the best other one; the law of their reach is in tests of the estimation."""
    survey.set(privacy={**EXACT, "epsilon": 3.0})
    assert command("run", survey.config, "--direct")[0] == 0
    assert command("verify", survey.output)[0] == 0
    rows = table(survey.output)
    for code in CODES:
        own = [row for row in rows if row["code"] == code]
        noisy = [float(row["noisy"]) for row in own]
        for row, number in zip(own, noisy, strict=True):
            others = [each for each in noisy if each is not number]
            assert float(row["margin"]) == pytest.approx(number - max(others), abs=1e-5)
            assert float(row["margin_low"]) < float(row["margin"]) < float(row["margin_high"])
    page = (survey.output / "report.html").read_text()
    assert "Leads, by noisy numbers" in page


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"groups": None}, "groups: missing; method: precinct-table counts first places"),
        (
            {"method": "instant-runoff"},
            "groups: does not go with method: instant-runoff, whose counts are of all rankings"
            " together; write method: ",
        ),
        (
            {"input__columns__weight": "w"},
            "input.columns.weight: is for input.kind: comparisons; each ranking counts once",
        ),
        (
            {"input__layout": "long", "input__columns": {"user": "ballot"}},
            "groups: needs input.layout: list, wide, places or best-worst",
        ),
        ({"groups__column": "1st"}, "groups.column: 1st is a column of the ranking already"),
        ({"groups__districts": {"North": CODES[:2]}}, "groups.districts: must list each of"),
        ({"method": "kemeny"}, "groups.districts: is for method: precinct-table; remove it"),
        ({"rules": ["plurality"]}, "rules: plurality needs method: footrule"),
        ({"privacy__unit": "local"}, "adds noise after counting, which privacy.unit: local"),
    ],
)
def test_what_makes_no_table_is_refused(survey, command, changes, told):
    code, printed = command("validate", survey.set(**changes).config)
    assert (code, told in " ".join(printed.split())) == (2, True), printed


def test_python_makes_the_same_table(survey):
    release = hr.rank(
        str(survey.folder / "votes.csv"),
        name="county",
        kind="rankings",
        method="precinct-table",
        items=NAMES,
        user="ballot",
        places=["1st", "2nd", "3rd"],
        layout="places",
        unlisted="below",
        groups={"column": "precinct", "values": CODES, "districts": DISTRICTS},
        epsilon=600.0,
        max_contributions=1,
        total_epsilon=2000,
        look=None,
        ledger=survey.folder / "own.jsonl",
        out=survey.folder / "own",
    )
    assert len(table(survey.folder / "own")) == 3 * (len(CODES) + len(DISTRICTS) + 1)
    assert [line["item"] for line in release.ranking.to_pylist()] == ["Cleo", "Bo", "Ada"]
