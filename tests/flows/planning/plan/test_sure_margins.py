"""Margins that a plan calls sure are those that a release then states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hushrank.flows.planning.plan.sure_margins import sure_margins
from hushrank.flows.planning.plan.survey import Setting, plan_config
from tests.flows.conftest import Survey
from tests.flows.scenarios.test_precincts import CODES, NAMES, ballots, write
from tests.flows.scenarios.test_rankings import run

GAUSSIAN = {"noise": "gaussian", "delta": 1e-7}


@pytest.fixture
def election(tmp_path: Path) -> Survey:
    write(tmp_path / "votes.csv", ballots())
    columns = {"user": "ballot", "places": ["1st", "2nd", "3rd"]}
    rows = {"kind": "rankings", "layout": "places", "paths": ["votes.csv"], "columns": columns}
    settings = {
        "name": "county",
        "input": {**rows, "unlisted": "below"},
        "items": {"names": NAMES},
        "privacy": {"unit": "user", "epsilon": 2.0, "max_contributions": 1},
        "method": "kemeny",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 1000, "delta": 1e-5},
    }
    return Survey(tmp_path, settings).set()


@pytest.mark.parametrize("privacy", [{}, {**GAUSSIAN, "adjacency": "add-remove"}])
def test_a_plan_says_what_a_release_then_states(election, command, privacy):
    election.settings["privacy"] |= privacy
    config = plan_config(election.set().config)
    settings = [Setting(method="kemeny", epsilon=2.0, people=n, answers=1) for n in (900, 9_000)]
    few, many = sure_margins(config, settings)
    assert few.votes == many.votes
    assert few.share == pytest.approx(10 * many.share) == few.votes.margin / 900
    release, _ = run(election, command)
    if privacy:  # Gaussian: 95 % of the noise are below 1.645 deviations
        usual = 1.6449 * release["election"]["margin_deviation"]
        assert few.votes.true_margin == pytest.approx(few.votes.margin + usual, abs=0.6)
    assert release["election"]["sure_from"] == pytest.approx(few.votes.margin, rel=1e-12)
    table = {"groups": {"column": "precinct", "values": CODES}, "method": "precinct-table"}
    release, _ = run(election.set(**table), command, "table")
    assert release["precincts"]["reach"] == pytest.approx(few.votes.precinct, rel=1e-12)
    assert release["precincts"]["wide_reach"] == pytest.approx(few.votes.total, rel=1e-12)


def test_ballots_of_a_person_count_and_many_items_have_no_margins(election):
    config = plan_config(election.set(privacy__max_contributions=3).config)
    setting = Setting(method="kemeny", epsilon=2.0, people=9, answers=3)
    (found,) = sure_margins(config, [setting])
    assert (found.ballots, found.share) == (27, found.votes.margin / 27)
    items = {"names": [f"candidate {n}" for n in range(101)]}
    many = plan_config(election.set(method="bradley-terry", items=items).config)
    assert sure_margins(many, [replace(setting, method="bradley-terry")]) == []


def test_methods_without_margins_have_no_such_table(election):
    config = plan_config(election.set(method="borda").config)
    assert sure_margins(config, [Setting(method="borda", epsilon=1.0, people=9, answers=1)]) == []
