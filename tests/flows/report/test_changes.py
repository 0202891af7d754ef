"""What a report says of the release before: real changes, noise, and what cannot be compared."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hushrank.flows.methods.counts.one_shot import ReleasedList
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import Scale
from hushrank.flows.report.changes import changes_between
from hushrank.privacy.units import NoiseKind
from tests.releases import (
    ITEMS,
    PAIR_WINS,
    WINS,
    make_pairs_release,
    make_release,
    make_scores_release,
    user_params,
)

NOW = make_release(seed=11)


def earlier(days: int = 1, **changes) -> Release:
    return make_release(
        release_id="before", created=NOW.created - timedelta(days=days), **{"seed": 12, **changes}
    )


def top_list(*names: str, **changes) -> Release:
    fields = {"released": ReleasedList(items=names), "scale": Scale.PLACE, **changes}
    return NOW.model_copy(update=fields)


def test_noise_alone_is_called_noise():
    found = changes_between(earlier(), NOW)
    assert found.since == "19 November 2026"
    assert found.sentence == "No change is larger than noise and chance explain."
    assert {row.beyond for row in found.rows} == {"no"}
    assert [row.item for row in found.rows] == [line.item for line in NOW.ranking]


def test_a_large_change_is_named_and_heads_the_table():
    wins = dict(zip(ITEMS, WINS, strict=True))
    wins["Stockholm"], wins["London"] = wins["London"], wins["Stockholm"]
    found = changes_between(earlier(wins=list(wins.values())), NOW)
    assert found.sentence == (
        "London is clearly up. Stockholm is clearly down. Every other change can be noise."
    )
    assert [row.item for row in found.rows if row.beyond == "yes"] == ["London", "Stockholm"]
    assert [row.item for row in found.rows[:2]] == ["London", "Stockholm"]
    assert NOW.ranking[1].item != "Stockholm"  # which heads the table, and not the ranking
    assert found.rows[0].change.startswith("+")
    assert found.rows[0].ranks.endswith("→ 1")


def test_two_releases_of_one_day_are_told_apart_by_the_hour():
    assert changes_between(earlier(days=0), NOW).since == "20 November 2026, 02:00 UTC"


def test_a_long_table_is_cut_after_the_largest_changes():
    items = [f"video {i}" for i in range(40)]
    wins = list(range(0, 40_000, 1000))
    moved = [*wins[:-1], 0]
    before = make_release(items=items, wins=wins, created=NOW.created - timedelta(days=1))
    found = changes_between(before, make_release(items=items, wins=moved))
    assert len(found.rows) == 15
    assert found.left_out == 25
    assert [row.beyond for row in found.rows] == sorted(
        (row.beyond for row in found.rows), reverse=True
    )
    ranked = [line.item for line in make_release(items=items, wins=moved).ranking]
    for beyond in ("yes", "no"):
        places = [ranked.index(row.item) for row in found.rows if row.beyond == beyond]
        assert places == sorted(places)
    (fallen,) = (row for row in found.rows if row.item == "video 39")
    assert fallen.beyond == "yes"
    assert fallen.ranks.endswith("40")


@pytest.mark.parametrize(
    ("before", "now", "sentence"),
    [
        (make_scores_release(PAIR_WINS), NOW, "another kind of score"),
        (earlier(items=[*ITEMS[:-1], "Oslo"]), NOW, "It ranked other items"),
        (earlier(wins=[1] * 6), NOW, "shows nothing but noise"),
        (top_list("a", "b"), NOW, "has scores and the other has a list"),
        (top_list("a", "b"), top_list("a", "b"), "The same items were the best, in the same order"),
        (top_list("a", "b"), top_list("b", "a"), "The same items were the best, in another order"),
        (top_list("a", "b"), top_list("b", "c"), "New on the list: c. No longer on it: a."),
    ],
)
def test_what_cannot_be_compared_by_score_is_said(before, now, sentence):
    found = changes_between(before, now)
    assert sentence in found.sentence
    assert found.rows == ()


def test_normal_noise_is_reckoned_with_normal_tails(monkeypatch):
    seen = []

    def noted(*arguments, normal, correlation):
        seen.append(normal)
        raise RuntimeError

    monkeypatch.setattr("hushrank.flows.report.changes.score_change", noted)
    gaussian = user_params(noise=NoiseKind.GAUSSIAN, delta=1e-6)
    for params in (user_params(), gaussian):
        with pytest.raises(RuntimeError):
            changes_between(earlier(params=params), make_release(params=params))
    assert seen == [False, True]


def test_scores_with_another_zero_are_not_compared():
    before = make_pairs_release(PAIR_WINS)
    moved = tuple(line.moved(lambda score: score + 0.3) for line in before.ranking)
    told = changes_between(before, before.model_copy(update={"ranking": moved}))
    assert "the zero of its scores is another one" in told.sentence
    assert told.rows == ()
