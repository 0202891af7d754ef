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
