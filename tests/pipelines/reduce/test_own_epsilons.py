"""Rankings that bring their own epsilon: each is drawn by its own level, by a black-box audit.

One file holds people of the smallest and of the largest epsilon. On the second input everybody with
the smallest has the reversed ranking; what is counted of their level must not tell the two apart by
more than that epsilon. A planted bug, which draws them by the epsilon of another row, must show.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hushrank.pipelines.reduce import reduce_rankings
from hushrank.pipelines.reduce.reduce_rankings import RankingsKind
from hushrank.privacy.audit import audit_epsilon
from hushrank.privacy.mallows import whole_ranking_epsilon
from hushrank.privacy.random_pairs import PairAnswers, laws_of_levels
from hushrank.privacy.units import epsilon_levels, level_of
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.common.randomisation import RankingLevels, RankingMechanism, law_of_pairs
from hushrank.transforms.rankings.pair_answers import ByLevel
from hushrank.transforms.rankings.ranking_columns import ListColumns
from hushrank.transforms.rankings.rankings import Rankings
from tests.pipelines.reduce.test_reduce_rankings import a_job, list_form, write
from tests.statistics import FALSE_POSITIVE_RATE

M, TRIALS = 3, 40_000
LOW, HIGH = 0.5, 4.0
LEVELS = epsilon_levels(LOW, HIGH)
LAWS = laws_of_levels(LEVELS, None, M)
MECHANISMS = [RankingMechanism.RANDOM_PAIRS, RankingMechanism.MALLOWS]


def kind_of(tmp_path: Any, mechanism: RankingMechanism) -> RankingsKind:
    write(list_form([[0, 1, 2]]), tmp_path / "rows")
    pairs = LAWS if mechanism is RankingMechanism.RANDOM_PAIRS else ()
    job = a_job(
        tmp_path / "rows", tmp_path / "work",
        columns=ListColumns(ranking="ranking"), mechanism=mechanism, already_private=False,
        by_place=False, max_length=M, pairs=pairs[-1] if pairs else None,
        epsilons=EpsilonSource(low=LOW, high=HIGH, levels=LEVELS),
        levels=RankingLevels(levels=LEVELS, epsilons=LEVELS, pairs=pairs),
    )  # fmt: skip
    return RankingsKind(job)


def drawn_of_the_careful(kind: RankingsKind, ranking: list[int], runs: int) -> NDArray[np.int64]:
    """One output for each person with the smallest epsilon; as many have the largest."""
    orders = np.tile([ranking, [0, 1, 2]], (runs, 1))
    epsilon = np.tile([LOW, HIGH], runs)
    true = Rankings(orders.ravel(), np.full(2 * runs, M), epsilon)
    private = kind._private(true).rows
    assert isinstance(private, ByLevel)
    part = private.parts[0]
    if isinstance(part, PairAnswers):
        return np.column_stack([part.first, part.second, part.outcome])
    return part.items.reshape(-1, M)


def bound(kind: RankingsKind) -> float:
    return audit_epsilon(
        lambda ranking, runs: drawn_of_the_careful(kind, ranking, runs),
        [0, 1, 2],
        [2, 1, 0],
        trials=TRIALS,
        confidence=1 - FALSE_POSITIVE_RATE,
    ).epsilon_lower


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_ranking_is_drawn_by_its_own_epsilon(tmp_path, mechanism, monkeypatch):
    """A correct draw fails with probability 10^-6 at most; the bug is far beyond the bound."""
    kind = kind_of(tmp_path, mechanism)
    mallows = mechanism is RankingMechanism.MALLOWS
    promised = whole_ranking_epsilon(LOW, M) if mallows else LOW
    assert 0.2 * promised < bound(kind) <= promised

    def of_the_next_row(epsilons: NDArray[np.float64], levels: Any) -> NDArray[np.int64]:
        return np.roll(level_of(epsilons, levels), 1)

    def others(kind: RankingsKind, ranking: list[int], runs: int) -> NDArray[np.int64]:
        orders = np.tile([ranking, [0, 1, 2]], (runs, 1))
        true = Rankings(orders.ravel(), np.full(2 * runs, M), np.tile([LOW, HIGH], runs))
        part = kind._private(true).rows.parts[-1]  # where the bug puts the careful
        if isinstance(part, PairAnswers):
            pairs = np.column_stack([part.first, part.second, part.outcome])
            return pairs.reshape(runs, -1)
        return np.asarray(part.items.reshape(-1, M))

    monkeypatch.setattr(reduce_rankings, "level_of", of_the_next_row)
    found = audit_epsilon(
        lambda ranking, runs: others(kind, ranking, runs),
        [0, 1, 2],
        [2, 1, 0],
        trials=TRIALS,
        confidence=1 - FALSE_POSITIVE_RATE,
    )
    assert found.epsilon_lower > promised


def test_a_worker_with_another_law_of_a_level_refuses(tmp_path):
    kind = kind_of(tmp_path, RankingMechanism.RANDOM_PAIRS)
    wrong = (*LAWS[:3], replace(LAWS[3], threshold=LAWS[3].threshold - 1), *LAWS[4:])
    law_of_pairs(LAWS)
    with pytest.raises(RuntimeError, match="by another law than the run states"):
        law_of_pairs(wrong)
    assert kind.job.laws_of_pairs == LAWS
