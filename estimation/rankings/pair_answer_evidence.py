"""What private answers to random pairs say: of each pair (Kemeny), of each item (Borda, fits).

An answer y, +1, -1 or 0, has mean t times what is true of its ranking's pair (`RandomPairs`), so
y / t is unbiased, and over the answers to a pair its mean estimates the pair's *margin share* mu:
the share of rankings with a above b, less those with b above a. Around it a pair's answers have the
variance E y^2 / t^2 - mu^2 each, which holds all chance: who answered, and the randomisation.

Sums over rankings are had in two ways. The *ratio* takes mu for each pair, times all rankings: of
pairs that people agree on it has by far the smaller error, because it does not depend on how often
a pair happened to be drawn. It needs several answers a pair, and every ranking must hold both items
or be known to have been asked whatever it holds (complete lists, or hidden items). *Sums* count
every answer for as many rankings as it stands for, of lists of all kinds ([HT]).

A ranking that answers d pairs answers all of them in its own way, so its d answers vary together:
sums of products of two answers of the same ranking (`moments`) less what independent ones would
give are added to the variances, where they add to them.

References:
    [W65] Warner. Randomized response: a survey technique for eliminating evasive answer bias. 1965.
    [HT] Horvitz, Thompson. A generalization of sampling without replacement from a finite universe.
        1952.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.links import LOGISTIC, Floats, laplacian, score_differences
from hushrank.estimation.common.uncertainty import LEVEL
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.pair_fit import require_fittable
from hushrank.estimation.fit.solve import minimise
from hushrank.estimation.rankings.net_evidence import NetEvidence
from hushrank.estimation.rankings.pair_answer_counts import PairAnswerCounts, unit_of
from hushrank.estimation.rankings.ranking_evidence import RankingEvidence
from hushrank.privacy.random_pairs import Hide, RandomPairs, n_pairs

FEWEST_ANSWERS = 4  # to a pair, on average, for its own mean to be used


@dataclass(frozen=True, slots=True, eq=False)
class _Shares:
    """Margin shares of the pairs; arrays have shape (n, n), and rows and columns are items.

    Attributes:
        attenuation: t.
        mean: mu, antisymmetric; 0 where nobody was asked.
        said: share of the answers that are not 0.
        answers: effective number of answers to the pair.
        asked: weights of the answers to the pair.
    """

    attenuation: float
    mean: Floats
    said: Floats
    answers: Floats
    asked: Floats

    @property
    def null_variance(self) -> Floats:
        """Variance of a margin share that is 0: no share has more; 1 where nobody answered."""
        own = self.said / self.attenuation**2 / np.maximum(self.answers, 1)
        return np.asarray(np.where(self.answers > 0, own, 1.0))

    @property
    def variance(self) -> Floats:
        """Variance of a margin share: the estimated variance of one answer, over their number."""
        spread = self.said / self.attenuation**2
        few = np.maximum(self.answers - 1, 1) / np.maximum(self.answers, 1)
        own = (spread - self.mean**2) / few
        own = np.clip(own, np.maximum(spread - 1, 0), spread) / np.maximum(self.answers, 1)
        return np.asarray(np.where(self.answers > 1, own, self.null_variance))


def answered_pairs(
    counts: PairAnswerCounts, law: RandomPairs, *, undone: bool = True
) -> RankingEvidence:
    """Margins of all pairs, for the Kemeny order.

    Args:
        counts: of private answers.
        law: by which they were drawn.
        undone: divide by t; False: count the answers as they are.
    """
    shares = _shares(counts, law, undone=undone)
    if _takes_ratio(counts, law):
        totals = np.full(shares.mean.shape, float(counts.rankings))
        margins, squares = totals * shares.mean, totals**2 * shares.null_variance
    else:
        unit = unit_of(law, counts.n_items)
        totals = unit * shares.asked
        margins = totals * shares.mean
        squares = unit**2 / shares.attenuation**2 * shares.said * counts.squares
    np.fill_diagonal(totals, 0.0)
    np.fill_diagonal(squares, 0.0)
    return RankingEvidence((totals + margins) / 2, totals, squares, counts.rankings)


def answered_nets(
    counts: PairAnswerCounts, law: RandomPairs, *, undone: bool = True
) -> NetEvidence:
    """Sums of half nets over all rankings, for Borda scores."""
    shares, n = _shares(counts, law, undone=undone), counts.rankings
    unit, t = unit_of(law, counts.n_items), shares.attenuation
    if _takes_ratio(counts, law):
        sums = n * shares.mean.sum(axis=1) / 2
        covariance = laplacian(_off_diagonal(n**2 * shares.variance / 4))
        covariance = covariance + _common(counts, law, shares, shares.mean / 2) * unit**2
    else:
        sums = unit / t * (counts.wins - counts.wins.T).sum(axis=1) / 2
        covariance = (unit / t / 2) ** 2 * counts.moments - np.outer(sums, sums) / max(n, 1)
    weight = _largest_weight(counts, law)
    return _evidence(counts, law, sums, covariance, unit * shares.asked, weight * unit / t, undone)


def fitted_nets(
    counts: PairAnswerCounts, law: RandomPairs, ridge: float, *, undone: bool = True
) -> NetEvidence:
    """Sums of half nets over the answers, for a likelihood of the answers given their pairs.

    Answers are weighted so that they count as one each on average. Their variance is taken around
    the shares of fitted scores, so it holds how often each pair was drawn too.

    Raises:
        ValueError: the items of rankings are hidden, so nobody knows how many hold a pair.
        ConvergenceError: no minimum was reached.
    """
    if law.hide is Hide.ITEMS:
        raise ValueError("answers that hide which items were ranked have no likelihood by pairs")
    shares, t = _shares(counts, law, undone=undone), law.attenuation if undone else 1.0
    mean_weight = counts.squares.sum() / max(counts.asked.sum(), 1)
    scale = 1 / mean_weight if mean_weight > 0 else 1.0
    totals = scale * shares.asked
    sums = scale / t * (counts.wins - counts.wins.T).sum(axis=1) / 2
    fitted = _margins_of_fit(totals, sums, ridge / t**2)
    spread = 1 / t**2 / 4 - fitted * shares.mean + fitted**2
    covariance = laplacian(_off_diagonal(scale**2 * counts.squares * spread))
    covariance = covariance + _common(counts, law, shares, fitted) * scale**2
    weight = _largest_weight(counts, law)
    return _evidence(counts, law, sums, covariance, totals, weight * scale / t, undone)


def _shares(counts: PairAnswerCounts, law: RandomPairs, *, undone: bool) -> _Shares:
    t = law.attenuation if undone else 1.0
    asked = counts.asked.astype(np.float64)
    some = np.maximum(asked, 1.0)
    return _Shares(
        attenuation=t,
        mean=(counts.wins - counts.wins.T) / some / t,
        said=(counts.wins + counts.wins.T) / some,
        answers=asked**2 / np.maximum(counts.squares, 1),
        asked=asked,
    )


def _takes_ratio(counts: PairAnswerCounts, law: RandomPairs) -> bool:
    """Whether each pair's own mean is used: by released counts alone."""
    known = law.hide is Hide.ITEMS or counts.complete
    return known and counts.rankings * law.pairs >= FEWEST_ANSWERS * n_pairs(counts.n_items)


def _common(
    counts: PairAnswerCounts, law: RandomPairs, shares: _Shares, expected: Floats
) -> Floats:
    """What the answers of one ranking vary together, in squared weights; none takes variance away.

    Over all rankings, the sum of products of two answers to different pairs, less what it is where
    they are independent around `expected`, half the margin share of each pair. Two given pairs are
    drawn together by a share d (d - 1) / (P (P - 1)) of the rankings. Of partial lists nobody knows
    which are, and nothing is taken off: the variance is then too large, never too small.
    """
    n_items = counts.n_items
    d = min(law.pairs, n_pairs(n_items))
    if d == 1:
        return np.zeros((n_items, n_items))
    said = shares.said * counts.squares
    products = (counts.moments - laplacian(_off_diagonal(said))) / (2 * shares.attenuation) ** 2
    if law.hide is Hide.ITEMS or counts.complete:
        pairs = n_pairs(n_items)
        weight = _largest_weight(counts, law)
        together = counts.rankings * d * (d - 1) / (pairs * max(pairs - 1, 1)) * weight**2
        half = shares.mean.sum(axis=1) / 2
        alone = laplacian(_off_diagonal(expected**2 - expected * shares.mean))
        products = products - together * (np.outer(half, half) + alone)
    values, vectors = np.linalg.eigh(products)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _margins_of_fit(totals: Floats, sums: Floats, ridge: float) -> Floats:
    """Half the margin shares that scores would have which explain the sums, shape (n, n)."""
    require_fittable(len(sums), ridge)
    scores = minimise(Objective(totals / 2, LOGISTIC, 2 * ridge, -sums)).theta
    return np.asarray(LOGISTIC.cdf(score_differences(scores)) - 0.5)


def _largest_weight(counts: PairAnswerCounts, law: RandomPairs) -> float:
    """Largest weight of an answer of any of the rankings."""
    if law.hide is Hide.ITEMS:
        return 1.0
    longest = int(np.flatnonzero(counts.lengths).max(initial=0))
    return float(max(n_pairs(longest), law.pairs))


def _evidence(
    counts: PairAnswerCounts,
    law: RandomPairs,
    sums: Floats,
    covariance: Floats,
    totals: Floats,
    largest: float,
    undone: bool,
) -> NetEvidence:
    """Evidence with this covariance; an answer of the largest weight more is added to it."""
    n = max(counts.rankings, 1)
    longest = int(np.flatnonzero(counts.lengths).max(initial=0)) or counts.n_items
    if law.hide is Hide.ITEMS:
        ranked = _ranked(counts, law)
        totals = np.where(ranked[:, np.newaxis] & ranked, totals, 0.0)
    return NetEvidence(
        sums=sums,
        moments=covariance + np.outer(sums, sums) / n,
        totals=_off_diagonal(totals),
        rankings=counts.rankings,
        one=largest / 2,
        longest=longest,
        bias=0.0 if undone else np.inf,
        kept=law.attenuation if undone else 1.0,
    )


def _ranked(counts: PairAnswerCounts, law: RandomPairs) -> NDArray[np.bool_]:
    """Which items somebody surely ranked, where it is hidden which items a list holds.

    The answers to pairs of an item that nobody ranked say "not both ranked", but for chance: each
    says another thing with the known chance of both other answers, apart from all others.
    """
    said, asked = (counts.wins + counts.wins.T).sum(axis=1), counts.asked.sum(axis=1)
    chance = 2 * law.threshold / 2.0**64
    tail = LEVEL / 2 / counts.n_items
    return np.asarray(said > scipy.stats.binom.isf(tail, asked, chance))


def _off_diagonal(matrix: Floats) -> Floats:
    off = np.array(matrix, np.float64)
    np.fill_diagonal(off, 0.0)
    return off
