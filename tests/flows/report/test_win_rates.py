"""The page's table of win rates: from which releases, and with which numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hushrank.flows.release.release import on_scale
from hushrank.flows.release.scale import Scale
from hushrank.flows.report.model_facts import MOST, OF_COUNTS, OF_SCORES, win_rates_of
from tests.releases import ITEMS, PAIR_WINS, make_pairs_release, make_release, make_scores_release

PAIRS = make_pairs_release(PAIR_WINS)


def rates(table) -> list[list[int | None]]:
    return [[int(cell.rate[:-2]) if cell.rate else None for cell in row] for row in table.rows]


@pytest.mark.parametrize("release", [PAIRS, make_scores_release(PAIR_WINS)])
def test_rates_are_what_the_scores_say(release):
    table = win_rates_of(release)
    assert table.how == OF_SCORES
    assert table.names == tuple(line.item for line in release.ranking)
    found = rates(table)
    for row, one in enumerate(release.ranking):
        for column, other in enumerate(release.ranking):
            expected = 100 / (1 + math.exp(other.score - one.score))
            assert found[row][column] == (None if row == column else round(expected))
            if row != column:
                assert f"{one.item} beats {other.item}" in table.rows[row][column].title


def test_ratings_give_the_rates_of_the_scores_that_they_are():
    assert win_rates_of(on_scale(PAIRS, Scale.ELO)) == win_rates_of(PAIRS)


def test_where_scores_have_no_link_the_noisy_counts_of_a_pair_tell():
    release = PAIRS.model_copy(update={"scale": Scale.ABOVE_MIDDLE})
    table = win_rates_of(release)
    assert table.how == OF_COUNTS
    wins = release.released.among(table.names)
    for row in range(len(ITEMS)):
        for column in range(len(ITEMS)):
            if row != column:
                share = wins[row, column] / (wins[row, column] + wins[column, row])
                assert rates(table)[row][column] == round(100 * share)
                low, high = map(int, table.rows[row][column].interval.split("–"))
                assert low < round(100 * share) < high


def test_counts_of_weighted_rows_are_as_random_as_the_release_says():
    privacy = PAIRS.privacy.model_copy(update={"parameters": {"design_effect": 4.0}})
    plain = PAIRS.model_copy(update={"scale": Scale.ABOVE_MIDDLE})
    tables = [win_rates_of(plain), win_rates_of(plain.model_copy(update={"privacy": privacy}))]
    assert rates(tables[0]) == rates(tables[1])
    ends = [list(map(int, table.rows[0][1].interval.split("–"))) for table in tables]
    plain_width, weighted_width = (high - low for low, high in ends)
    assert weighted_width > plain_width


@pytest.mark.parametrize(
    "release",
    [
        make_release(),  # of win counts alone, which say nothing of pairs
        make_release(wins=[1] * 6),
        PAIRS.model_copy(update={"informative": False}),
    ],
)
def test_a_release_that_does_not_tell_has_no_table(release):
    assert win_rates_of(release) is None


def test_of_many_items_the_best_are_shown_and_the_rest_counted():
    lines = tuple(replace(PAIRS.ranking[0], item=f"item {i}", score=-0.01 * i) for i in range(40))
    table = win_rates_of(PAIRS.model_copy(update={"ranking": lines}))
    assert (len(table.names), len(table.rows), table.left_out) == (MOST, MOST, 40 - MOST)
