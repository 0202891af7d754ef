"""Counts of private rankings do not depend on how these are split."""

from __future__ import annotations

import numpy as np

from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import seeded_bits, system_bits
from hushrank.transforms.common.randomisation import RankingMechanism
from hushrank.transforms.rankings.count_rankings import RankingCountsFn
from hushrank.transforms.rankings.pair_answers import randomize_rankings
from hushrank.transforms.rankings.rankings import Rankings

MALLOWS = RankingMechanism.MALLOWS


def test_sums_do_not_depend_on_how_rankings_are_split():
    items = synthetic_rankings(np.tile([2, 0, 1], 300), np.full(300, 3), 1.0, seeded_bits(3))
    rankings = Rankings(items, np.full(300, 3), np.full(300, 1.0))
    private = [
        randomize_rankings(
            rankings.take(np.arange(start, stop)), MALLOWS, system_bits(), already_private=True
        )
        for start, stop in ((0, 10), (10, 10), (10, 250), (250, 300))
    ]
    combine = RankingCountsFn(4, 3, by_place=True)
    total = combine.create_accumulator()
    for part in private[:2]:
        total = combine.add_input(total, part)
    other = combine.create_accumulator()
    for part in private[2:]:
        other = combine.add_input(other, part)
    merged = combine.extract_output(combine.merge_accumulators([other, total]))
    whole = combine.add_input(
        combine.create_accumulator(),
        randomize_rankings(rankings, MALLOWS, system_bits(), already_private=True),
    )
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(merged.arrays()[name], array)
    assert whole.wins.sum() == 900
