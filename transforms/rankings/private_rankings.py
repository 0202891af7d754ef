"""Privatise rankings one by one: the local trust boundary.

`randomize_rankings` is the only step from `Rankings`, which are true, to `PrivateRankings`, which
anyone may see. As for single answers (`transforms.comparisons.privatize`), a ranking is privatised
and counted in one bundle of the engine, whose output is kept whole or not at all.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.laplace_ranks import laplace_rankings
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.random_pairs import PairAnswers
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.common.epsilons import Epsilons
from hushrank.transforms.common.randomisation import RankingMechanism
from hushrank.transforms.rankings.rankings import Rankings


@dataclass(frozen=True, slots=True)
class PrivateRankings:
    """Synthetic rankings: each is private at its own epsilon; its items and length are not hidden.

    Attributes:
        items, lengths, epsilon: as in `Rankings`.
    """

    items: NDArray[np.int64]
    lengths: NDArray[np.int64]
    epsilon: Epsilons


@dataclass(frozen=True, slots=True)
class ByLevel:
    """Private rankings, or private answers of rankings, apart for each level of epsilon.

    Attributes:
        parts: rankings of each level.
    """

    parts: tuple[PrivateRankings | PairAnswers, ...]


def randomize_rankings(
    rankings: Rankings,
    mechanism: RankingMechanism,
    bits: RandomBits,
    *,
    already_private: bool = False,
) -> PrivateRankings:
    """Cross the trust boundary: replace every ranking by a synthetic one of the same items.

    Guarantee: epsilon-ranking DP for each ranking with its own epsilon ([RDP] Lemmas 1 to 3),
    if `bits.safe`; between any two rankings of the same m items `mallows.whole_ranking_epsilon` or
    `laplace_ranks.whole_ranking_epsilon`. Not hidden: which items were ranked, and how many.

    Args:
        rankings: true rankings.
        mechanism: `laplace-ranks` takes one epsilon for all.
        bits: `system_bits()` in a release.
        already_private: the rankings were privatised at the source with these epsilons; they pass
            as they are.

    Raises:
        ValueError: several epsilons for `laplace-ranks`.
    """
    if already_private:
        return PrivateRankings(rankings.items, rankings.lengths, rankings.epsilon)
    items, lengths, epsilon = rankings.items, rankings.lengths, rankings.epsilon
    if not len(lengths):
        return PrivateRankings(items.copy(), lengths, epsilon)
    alike = bool((epsilon == epsilon[0]).all())
    if mechanism is RankingMechanism.MALLOWS:
        items = synthetic_rankings(items, lengths, float(epsilon[0]) if alike else epsilon, bits)
    elif alike:
        items = laplace_rankings(items, lengths, float(epsilon[0]), bits)
    else:
        raise ValueError("laplace-ranks takes one epsilon for all rankings")
    return PrivateRankings(items, lengths, epsilon)
