"""Logs of rankings are recognised by the names and values of their columns, and others are not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows.methods.registry import calibrate, load_config
from hushrank.flows.planning.propose.proposal import propose_config, write_proposal
from hushrank.flows.planning.propose.rankings import guess_rankings
from hushrank.privacy.filters import fits
from hushrank.privacy.units import NoiseKind, Unit
from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns

LONG = [
    {"voter": 1, "candidate": "Oslo", "position": 1},
    {"voter": 1, "candidate": "Bern", "position": 2},
]
LISTS = [{"voter": "a", "order": ["Oslo", "Bern"]}, {"voter": "b", "order": None}]


def guessed(rows):
    return guess_rankings(list(rows[0]), rows)


def test_long_form_is_recognised():
    guess = guessed(LONG)
    assert guess.layout == "long"
    assert guess.known() == {"user": "voter", "item": "candidate", "rank": "position"}
    with_contest = [row | {"election": 3} for row in LONG]
    assert guessed(with_contest).contest == "election"


def test_list_form_is_recognised():
    guess = guessed(LISTS)
    assert guess.layout == "list"
    assert guess.known() == {"user": "voter", "ranking": "order"}
    assert guessed([{"order": [1, 2]}]).user is None


OTHERS = [
    [{"user": 1, "a": "x", "b": "y", "rank": 1}],
    [{"user": 1, "item": "x", "rank": "best"}],
    [{"user": 1, "item": "x", "correct": 1}],
    [{"user": 1, "item": "x", "rank": None}],
    [{"item": "x", "rank": 1}],
    [{"user": 1, "one": [1], "two": [2]}],
    [{"user": 1, "nested": [[1], [2]]}],
]


@pytest.mark.parametrize("rows", OTHERS)
def test_other_logs_are_not_taken_for_rankings(rows):
    assert guessed(rows) is None


@pytest.mark.parametrize("rows", [LONG, LISTS])
def test_a_filled_proposal_is_valid(tmp_path: Path, monkeypatch, rows):
    monkeypatch.chdir(tmp_path)
    if rows is LONG:
        pq.write_table(pa.Table.from_pylist(rows), "ballots.parquet")
        source = Path("ballots.parquet")
    else:
        source = Path("ballots.jsonl")
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    target = Path("survey.yaml")
    proposal = propose_config(source, target)
    told = write_proposal(proposal, target)
    assert "Looks like rankings: user=voter" in told
    best = {"best": "lowest", "not_ranked": "[]"} if rows is LONG else {}
    first = "which rank is the best, which rank means not ranked, " if best else ""
    asked = f"({first}unlisted, the items, epsilon)"
    assert f"lines in it are marked CHOOSE {asked}" in told
    assert "Oslo" not in proposal.text + proposal.summary
    text = proposal.text
    names = {"items": "{names: [Oslo, Bern, Rome]}"}
    for key, value in {**names, "unlisted": "below", "epsilon": "2", **best}.items():
        text, times = re.subn(rf"(?m)^( *{key}:) +# CHOOSE.*$", rf"\1 {value}", text)
        assert times == 1
    target.write_text(text)
    config = load_config(target)
    expected = (
        RankColumns(user="voter", item="candidate", rank="position")
        if rows is LONG
        else ListColumns(user="voter", ranking="order")
    )
    assert config.columns() == expected
    assert config.rankings.unlisted == "below"
    assert config.privacy.unit is Unit.USER
    assert config.privacy.noise is NoiseKind.GAUSSIAN
    assert config.ledger.epsilon == 10  # above that little is promised: docs/choosing.md
    calibrated = calibrate(config)  # and five releases at epsilon 2 fit
    assert fits([calibrated.spend] * 4, calibrated.spend, 10, config.ledger.delta)
