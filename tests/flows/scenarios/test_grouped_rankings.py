"""A ranking for each public group of ballots: counts, winners, refusals, and what Python gives."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

import hushrank as hr
from hushrank.verifier.verify_release import Findings, Wrong, check_elections
from tests.flows.scenarios.test_precincts import NAMES, ballots, survey, write  # noqa: F401

WARDS = ["North", "South"]


def of_wards() -> list[list[str]]:
    """70 ballots against 30 for Ada in one ward, 20 against 90 in the other; none of West."""
    rows = []
    for ward, ada, bo in (("North", 70, 30), ("South", 20, 90), ("West", 5, 0)):
        orders = [NAMES] * ada + [["Bo", "Cleo", "Ada"]] * bo
        rows += [[f"{ward}-{n}", ward, *order] for n, order in enumerate(orders)]
    return rows


@pytest.fixture
def wards(survey):  # noqa: F811
    write(survey.folder / "votes.csv", of_wards())
    groups = {"column": "precinct", "values": WARDS}
    return survey.set(groups=groups, method="kemeny")


def ran(wards, command, **changes) -> dict:
    wards.set(**changes)
    code, printed = command("run", wards.config, "--direct")
    assert code == 0, printed
    assert command("verify", wards.output)[0] == 0
    return json.loads((wards.output / "release.json").read_text())


def test_each_group_has_its_margins_and_winners(wards, command):
    release = ran(wards, command)
    north, south = release["groups"]
    assert [each["name"] for each in (north, south)] == WARDS
    weight = release["released"]["weights"]["margins"]
    margins = [np.array(each["released"]["margins"]) / weight for each in (north, south)]
    assert [each[0, 1] for each in margins] == [40, -70]
    whole = np.array(release["released"]["margins"]) / weight
    assert (whole == sum(margins)).all()  # ballots of West break a rule
    winners = [
        [rule["winners"] for rule in each["election"]["rules"] if rule["rule"] == "condorcet"]
        for each in (release, north, south)
    ]
    assert winners == [[["Bo"]], [["Ada"]], [["Bo"]]]
    assert [each["ranking"][0]["item"] for each in (north, south)] == ["Ada", "Bo"]
    assert north["own"] == south["own"] == 1
    statement = " ".join(release["privacy"]["statement"])
    assert "A ranking counts in one of them only" in statement
    page = (wards.output / "report.html").read_text()
    assert "for all pairs, rules and groups at once" in page
    assert 'aria-label="Winners by rule of South"' in page
    groups = hr.read_release(wards.output).groups
    assert [*groups] == WARDS
    assert groups["South"]["item"][0].as_py() == "Bo"


@pytest.mark.parametrize("method", ["borda", "bradley-terry", "footrule"])
def test_other_methods_count_by_group_too(wards, command, method):
    others = {"column": "precinct", "values": WARDS, "others": "whole"}
    release = ran(wards, command, method=method, groups=others, rules=None)
    firsts = [each["ranking"][0]["item"] for each in (release, *release["groups"])]
    assert firsts == ["Bo", "Ada", "Bo"]
    election = method != "borda"
    assert all(("election" in each) == election for each in release["groups"])


def test_what_is_sure_holds_for_all_groups_at_once(wards, command):
    """A release that spends its 5 % on each group anew is refuted."""
    release = ran(wards, command, privacy={**wards.settings["privacy"], "epsilon": 3.0})
    checked = Findings()
    check_elections(release, checked, 2)
    assert checked.good
    for board in (0, None):
        forged = copy.deepcopy(release)
        told = forged if board is None else forged["groups"][board]
        told["election"]["sure_from"] *= 0.97
        said = Findings()
        try:
            check_elections(forged, said, 2)
        except Wrong:
            continue
        assert not said.good


def test_private_rankings_have_no_groups(wards, command):
    changes = {"unit": "local", "mechanism": "mallows", "epsilon": 2.0}
    code, printed = command("run", wards.set(privacy=changes, method="borda").config, "--direct")
    assert code == 2
    assert "groups: needs privacy.unit: user" in " ".join(printed.split())


TAGS = ["union", "young", "city"]
SHARED = {"column": "tags", "values": TAGS, "most": 2, "separator": "|", "others": "whole"}


@pytest.fixture
def tagged(survey):  # noqa: F811
    """120 ballots whose voters are in none, one, two or three groups; unions are for Ada."""
    sets = ["union", "young|union", "city|young|union", "young", "nobody listed", ""]
    path = survey.folder / "votes.csv"
    with path.open("w") as file:
        file.write("ballot,tags,1st,2nd,3rd\n")
        for number in range(120):
            own = sets[number % 6]
            order = NAMES if "union" in own else ["Bo", "Cleo", "Ada"]
            file.write(",".join([str(number), own, *order]) + "\n")
    return survey.set(groups=dict(SHARED), method="kemeny")


@pytest.mark.parametrize("method", ["kemeny", "borda", "bradley-terry", "footrule"])
def test_a_ballot_counts_in_its_groups_and_once_in_the_whole(tagged, command, method):
    release = ran(tagged, command, method=method)
    assert release["privacy"]["groups_per_answer"] == 2
    boards = {each["name"]: each for each in release["groups"]}
    assert list(boards) == TAGS
    firsts = [boards[name]["ranking"][0]["item"] for name in TAGS]
    assert firsts[:2] == ["Ada", "Ada"]  # 60 of the union; 40 of 60 young ones
    statement = " ".join(release["privacy"]["statement"])
    assert "Counts are kept for 3 groups, which may overlap, and for all rankings" in statement
    assert "A ranking counts in 2 of the groups at most and once in the whole" in statement
    assert "Groups share rankings" in (tagged.output / "report.html").read_text()
    if method == "kemeny":
        weight = release["released"]["weights"]["margins"]
        told = [release, *(boards[name] for name in TAGS)]
        margins = [np.array(each["released"]["margins"])[0, 1] / weight for each in told]
        assert margins == [0, 60, 20, 0]  # the city comes third in the list, and counts nowhere


@pytest.mark.parametrize("form", ["lists", "flags"])
def test_lists_and_flags_say_the_same(tagged, command, form):
    texts = [line.split(",") for line in (tagged.folder / "votes.csv").read_text().splitlines()[1:]]
    rows = [{"ballot": row[0], "1st": row[2], "2nd": row[3], "3rd": row[4]} for row in texts]
    for row, (_, own, *_) in zip(rows, texts, strict=True):
        listed = own.split("|")
        row |= {"tags": listed} if form == "lists" else {name: name in listed for name in TAGS}
    (tagged.folder / "votes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    groups = {key: each for key, each in SHARED.items() if key not in ("column", "separator")}
    groups |= {"column": "tags"} if form == "lists" else {"columns": TAGS}
    release = ran(tagged, command, input__paths=["votes.jsonl"], groups=groups)
    weight = release["released"]["weights"]["margins"]
    told = [release, *release["groups"]]
    margins = [np.array(each["released"]["margins"])[0, 1] / weight for each in told]
    assert margins == [0, 60, 20, 0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "precinct-table"}, "where a ballot is cast in one place"),
        ({"groups__separator": None}, "tags"),
        ({"groups__column": "1st"}, "groups.column: 1st is a column of the ranking already"),
        ({"groups__most": None}, "separator"),
    ],
)
def test_what_does_not_go_with_groups_that_overlap_is_refused(tagged, command, changes, words):
    code, printed = command("run", tagged.set(**changes).config, "--direct")
    assert code == 2, printed
    assert words in " ".join(printed.split())
