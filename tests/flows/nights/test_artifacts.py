"""What a run leaves at the Prefect server: released values only, under keys that it accepts."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hushrank.flows.ledger.entries import Balance, Lifetime, SharedInput, Statement
from hushrank.flows.nights.flow import artifact_key, picture, ranking_rows, report_address, summary
from hushrank.flows.release.wording import verdict
from hushrank.flows.run.stages import Outcome
from tests.releases import PAIR_WINS, SEEDED, make_pairs_release, make_release

BALANCE = Balance(
    population="campus-choice",
    total=10.0,
    delta=1e-6,
    spent_epsilon=3.0,
    remaining_epsilon=6.999,
    releases=4,
    undrawn=(),
    unsafe=0,
    renews_on=date(2026, 12, 1),
)


def outcome(release, **changes) -> Outcome:
    fields = {"folder": Path("/srv/out"), "spent": None, "balance": BALANCE, **changes}
    return Outcome(release=release, **fields)


def test_the_summary_says_what_was_found_and_what_is_left():
    release = make_release()
    text = summary(outcome(release))
    assert f"**{verdict(release)}**" in text.replace("\\", "")
    assert "| Guarantee | epsilon 2, unit user |" in text
    assert "| Budget left | epsilon 6.99 of 10.00 |" in text
    assert "nothing: it was drawn before" in text
    assert "Please note" not in text
    assert "protected" in summary(outcome(make_release(bits=SEEDED)))


def test_the_summary_has_the_total_of_all_periods_and_who_stated_that_people_are_others():
    made = Statement(by="anna_b", at=datetime(2026, 11, 20, tzinfo=UTC))
    balance = replace(
        BALANCE,
        lifetime=Lifetime(spent_epsilon=12.5, releases=9, limit=20.0),
        shared=(SharedInput("staff", stated=True, added=True, statement=made),),
        shared_epsilon=14.5,
    )
    text = summary(outcome(make_release(), balance=balance))
    assert "| Since the first release | epsilon 12.50 of 20.00 by 9 releases |" in text
    assert r"anna\_b stated on 2026-11-20 that the people of staff are others" in text
    assert "the people have lost epsilon 14.50 together" in text
    assert "Since the first" not in summary(outcome(make_release()))


def test_names_are_text_and_never_markup():
    names = ["[click](http://a)", "*b*", "<i>c</i>", "d|e", "f", "g"]
    text = summary(outcome(make_release(items=names, wins=[900, 500, 300, 200, 100, 50])))
    assert r"\[click\]\(http://a\)" in text
    assert "[click](" not in text


def test_the_table_has_the_best_items_only():
    rows = ranking_rows(make_release())
    assert rows[0]["place"] == "1"
    assert rows[0]["item"] == "London"
    assert re.fullmatch(r"\d+ %", rows[0]["share won"])
    many = make_release(items=[f"v{i}" for i in range(150)], wins=list(range(0, 15000, 100)))
    assert len(ranking_rows(many)) == 100


@pytest.mark.parametrize("release", [make_release(), make_pairs_release(PAIR_WINS)])
def test_the_picture_stands_alone(release):
    kind, _, content = picture(release).partition(",")
    assert kind == "data:image/svg+xml;base64"
    svg = base64.b64decode(content).decode()
    ElementTree.fromstring(svg)
    assert "var(" not in svg
    assert re.findall(r'https?://[^"]*', svg) == ["http://www.w3.org/2000/svg"]


def test_keys_are_those_that_the_server_accepts_and_differ():
    names = ["campus-choice", "Campus choice", "campus_choice", "zoo", "Zürich 2026"]
    keys = [artifact_key(name) for name in names]
    assert keys[0] == "hushrank-campus-choice"
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key) for key in keys)


def test_the_report_is_linked():
    assert report_address(outcome(make_release())) == "file:///srv/out/report.html"
