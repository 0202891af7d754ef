"""Ranking by noisy wins and losses of each item, where pairs met by chance (`win-loss`).

The release is the number of comparisons that each item won and the number that it lost, each with
noise of its own. What an item was shown how often is thereby known, and its share won is wins over
appearances, whatever the exposure. That makes scores, too, where an item's opponents are a chance
sample of all comparisons: then wins less losses are the sufficient statistic of the Bradley-Terry
model whose design is that of the exposures (`estimation.comparisons.exposures`). Where strong
items meet strong ones, as in a league, the pairing has to be known: use `perturbed-mle` there.

Noise: with Laplace noise of scale b on each count, the net wins (wins - losses) / 2 has noise of
variance b^2 and the exposure wins + losses one of variance 4 b^2, uncorrelated. At sensitivity 4 L
for a person replaced that is half the variance of the net wins that `perturbed-mle` pays for, and
the exposures come with it.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from hushrank.estimation.common.estimate import CLEAR_TOTAL, Estimate, nothing_learned
from hushrank.estimation.common.links import LOGISTIC, Floats, Link
from hushrank.estimation.common.matrices import WinLossCounts, check_released
from hushrank.estimation.common.pooling import Evidence, EvidenceAt
from hushrank.estimation.comparisons.exposures import Exposures
from hushrank.estimation.comparisons.net_wins import NetWins, evidence_of_net_wins, rank_by_net_wins
from hushrank.privacy.noise import NoiseLaw


def rank_by_win_loss(counts: WinLossCounts, law: NoiseLaw, link: Link = LOGISTIC) -> Estimate:
    """Rank items by their scores, with 95 % intervals, rank intervals and groups.

    Args:
        counts: noisy counts of at least 2 items.
        law: law of the noise in one count, in the counts' own integer units.
        link: F.

    Returns:
        Scores that sum to zero. A total that does not stand clear of its own noise says nothing of
        any item: scores are 0 and `informative` is False.

    Raises:
        ValueError: `counts` is confidential, or has fewer than 2 items.
    """
    check_released(counts)
    exposures = exposures_of(counts, law)
    if not _clear(exposures):
        return nothing_learned(np.zeros(counts.n_items))
    return rank_by_net_wins(_net_wins(counts, law, exposures, link))


def evidence_of_win_loss(counts: WinLossCounts, law: NoiseLaw, link: Link = LOGISTIC) -> EvidenceAt:
    """Return counts' evidence near any scores; none if the total is not clear of its noise."""
    check_released(counts)
    exposures = exposures_of(counts, law)
    if not _clear(exposures):
        nothing = Evidence(np.zeros((counts.n_items,) * 2), np.zeros(counts.n_items))
        return lambda _: nothing
    return partial(evidence_of_net_wins, _net_wins(counts, law, exposures, link))


def _clear(exposures: Exposures) -> bool:
    variance = exposures.noise_variance * len(exposures.values)
    return bool(exposures.values.sum() > CLEAR_TOTAL * np.sqrt(variance))


def exposures_of(counts: WinLossCounts, law: NoiseLaw) -> Exposures:
    """Wins and losses of each item, in comparisons."""
    appearances = (counts.wins + counts.losses) / counts.row_weight
    return Exposures(appearances, 2 * law.variance / counts.row_weight**2)


def _net_wins(counts: WinLossCounts, law: NoiseLaw, exposures: Exposures, link: Link) -> NetWins:
    n, unit = counts.n_items, counts.row_weight
    values: Floats = (counts.wins - counts.losses) / (2 * unit)
    return NetWins(
        values=values,
        design=exposures.design(),
        sampling_factor=np.ones((n, n)),
        link=link,
        noise_variance=np.full(n, law.variance / (2 * unit**2)),
        exposure_variance=exposures.noise_variance,
        free_share=np.full(n, 0.5),
        kind=law.kind,
        draws=2,
    )
