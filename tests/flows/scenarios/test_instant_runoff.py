"""Instant runoff, from the YAML file to the page: rounds, refusals, kills, forgeries, a city."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import hushrank as hr
from hushrank.verifier.verify_release import Findings, Wrong, check_elections
from tests.flows.conftest import Survey
from tests.flows.scenarios.test_rankings import BEST_FIRST, NAMES, long_form, run, true_rankings
from tests.flows.scenarios.test_run_faults import events, raising
from tests.flows.scenarios.test_trusted_rankings import GAUSSIAN

BY_NOISE = "hushrank.estimation.rankings.election_rules.members_of_sets"
BY_ROUNDS = "hushrank.estimation.rankings.election_rules.Rounds.of"


@pytest.fixture
def ballots(tmp_path: Path) -> Survey:
    pq.write_table(long_form(true_rankings()), tmp_path / "ballots.parquet")
    settings = {
        "name": "zoo",
        "input": {
            **{"kind": "rankings", "paths": ["ballots.parquet"], "columns": {}},
            "unlisted": "below",
        },
        "items": {"names": NAMES},
        "privacy": {**GAUSSIAN, "max_contributions": 1},
        "method": "instant-runoff",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 10, "delta": 1e-5},
    }
    return Survey(tmp_path, settings).set()


def findings(release: dict[str, Any]) -> list[str]:
    """What the verifier calls wrong in the rounds of a release."""
    said = Findings()
    try:
        check_elections(release, said, 1)
    except (Wrong, KeyError, TypeError, ValueError) as error:
        said.check(good=False, wrong=str(error))
    return [text for kind, text in said.lines if kind == "WRONG"]


def test_rounds_are_on_the_page_in_the_terminal_and_in_a_table(ballots, command):
    release, printed = run(ballots, command)
    printed = " ".join(printed.split())
    assert [line["item"] for line in release["ranking"]] == BEST_FIRST
    election, released = release["election"], release["released"]
    (rule,) = election["rules"]
    assert (rule["rule"], rule["winners"], rule["sure"]) == (
        "instant-runoff",
        BEST_FIRST[:1],
        True,
    )
    assert [each["out"] for each in election["rounds"]] == BEST_FIRST[:0:-1]
    exact = np.bincount(true_rankings()[:, 0], minlength=5)  # 0 of noise 5 times its deviation
    deviation = release["privacy"]["noise_variance"] ** 0.5
    assert np.abs(np.array(released["rounds"][0]) - exact).max() < 5 * deviation
    assert [row.count(None) for row in released["rounds"]] == [0, 1, 2, 3]
    assert f"Instant-runoff: {BEST_FIRST[0]} (surely)." in printed
    assert f"Round 4: {BEST_FIRST[0]} " in printed
    page = (ballots.output / "report.html").read_text()
    assert 'id="rounds"' in page
    assert '<th scope="col">Without the noise</th>' in page
    with (ballots.output / "rounds.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 5 + 4 + 3 + 2
    assert [line["item"] for line in lines if line["leaves"] == "yes"] == BEST_FIRST[:0:-1]
    words = " ".join(release["privacy"]["statement"])
    assert "The noise of all rounds was drawn before the first one." in words
    assert command("verify", str(ballots.output))[0] == 0
    again, printed = run(ballots, command)
    assert "nothing was spent now" in printed
    assert again == release
    assert findings(release) == []
    first, *others = election["rounds"]
    left = released["rounds"][0].copy()
    left[released["items"].index(BEST_FIRST[0])] = None
    for forged in (
        {"rounds": [{**first, "out": BEST_FIRST[0]}, *others]},
        {"rounds": [{**first, "possible": [BEST_FIRST[0]]}, *others]},
        {"rounds": [{**first, "reached": False}, *others]},
        {"rounds": others},
        {"rounds": None},
        {"rules": [{**rule, "winners": BEST_FIRST[1:2]}]},
        {"rules": [{**rule, "possible": BEST_FIRST[:2]}]},
        {"rules": [{**rule, "rule": "condorcet"}]},
        {"sure_from": 3.0},
    ):
        assert findings({**release, "election": {**election, **forged}}), forged
    for rounds in ([left, *released["rounds"][1:]], released["rounds"][::-1]):
        assert findings({**release, "released": {**released, "rounds": rounds}})


def test_noise_that_decides_is_not_called_sure(ballots, command):
    """A small epsilon: other candidates may have left, and the winner may be another one."""
    release, _ = run(ballots.set(privacy__epsilon=0.06, rules=["instant-runoff"]), command)
    assert findings(release) == []
    (rule,) = release["election"]["rules"]
    assert not rule["sure"]
    assert len(rule["possible"]) > 1
    honest = release["election"]["rounds"]
    for place, told in enumerate(honest):
        bold = [*honest]
        bold[place] = {**told, "possible": [told["out"]], "reached": True}
        forged = {**release["election"], "rounds": bold}
        assert bold == honest or findings({**release, "election": forged})


@pytest.mark.parametrize("where", [BY_NOISE, BY_ROUNDS])
def test_a_run_that_dies_around_the_rounds_pays_once(ballots, command, monkeypatch, where):
    """Between the noise and the rounds nothing is kept, and nothing spent; after the rounds, which
    are stored with the draw, every later run publishes the same."""
    with monkeypatch.context() as patch:
        patch.setattr(where, raising(KeyboardInterrupt()))
        assert command("run", ballots.config, "--direct")[0] == 130
    before = where == BY_NOISE
    assert events(ballots) == ["open", "reserve", "cancel" if before else "draw"]
    assert not (ballots.output / "release.json").exists()
    stored = [dict(np.load(path)) for path in ballots.work.rglob("drawn.npz")]
    assert len(stored) == (not before)
    release, _ = run(ballots, command)
    (drawn,) = ballots.work.rglob("drawn.npz")
    rounds = np.load(drawn)["rounds"]
    assert all((each["rounds"] == rounds).all() for each in stored)
    told = np.array([[n or 0 for n in row] for row in release["released"]["rounds"]])
    assert (told == rounds[:, :-1]).all()
    assert sum(event == "draw" for event in events(ballots)) == 1


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"input__unlisted": "unknown"}, "input.unlisted: must be below with method: instant"),
        ({"input__ties": "random"}, "input.ties: must be refuse with method: instant-runoff"),
        ({"input__paths": ["city.toi"]}, "input.overvotes: missing; .toc and .toi files may put"),
        ({"input__paths": ["elections"]}, "input.overvotes: missing; .toc and .toi files may put"),
        ({"input__paths": ["el*/x*"]}, "write input.format instead"),
        ({"items": {"count": 22}}, "items: method: instant-runoff takes at most 21 items"),
        ({"items": {"count": 19}}, "input.max_length: ballots with up to 19 of 19 items"),
        ({"rules": ["condorcet"]}, "rules: condorcet needs method: kemeny or bradley-terry"),
        ({"rules": ["stv"]}, "rules: hushrank has no count for several seats (STV)"),
        ({"method": "stv"}, "method: hushrank has no count for several seats (STV)"),
        ({"seats": 3}, "seats: hushrank has no count for several seats (STV)"),
        ({"input__seats": 3}, "input.seats: hushrank has no count for several seats (STV)"),
        (
            {
                "schedule": {
                    "stream": {
                        **{"nights": 9, "participations": 2, "gap": 3, "first": "2026-01-01"},
                        "show": {"window": 9},
                    }
                }
            },
            "schedule.stream: is for comparisons, not for rankings: an election is counted once",
        ),
        ({"privacy": {"unit": "local", "epsilon": 2.0}}, "privacy.unit"),
    ],
)
def test_what_cannot_be_counted_in_rounds_is_refused_in_words(ballots, command, changes, told):
    code, printed = command("validate", ballots.set(**changes).config)
    assert (code, told in " ".join(printed.split())) == (2, True), printed
    assert not ballots.ledger.exists()


def test_python_counts_the_real_ballots_of_burlington(real_data, tmp_path):
    """2009: the winner of the rounds is neither first in first choices nor preferred to all."""
    source = real_data / "cases" / "09" / "city.toi"
    if not source.is_file():
        pytest.skip(f"needs {source}, which is not part of the project")
    release = hr.rank(
        str(source),
        kind="rankings",
        items=["Alder", "Birch", "Cedar", "Dogwood", "Elm", "Write-In"],
        unlisted="below",
        settings={"input": {"overvotes": "exhaust"}},
        method="instant-runoff",
        epsilon=4.0,
        delta=1e-6,
        noise="gaussian",
        max_contributions=1,
        ledger=tmp_path / "ledger.jsonl",
        name="burlington",
    )
    order = [line.item for line in release.record.ranking]
    assert order[:4] == ["Alder", "Elm", "Birch", "Dogwood"]
    assert {*order[4:]} == {"Cedar", "Write-In"}
    assert release.record.election.rules[0].sure
    table = release.rounds.to_pandas()
    assert table[table["leaves"]]["item"].tolist() == order[:0:-1]
    last = dict(zip(release.record.released.items, release.record.released.rounds[-1], strict=True))
    assert abs(last["Alder"] - 4_313) < 40  # as counted in 2009, but for a few ties
    assert abs(last["Elm"] - 4_061) < 40
