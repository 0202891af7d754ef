"""Errors of scores from perturbed maximum likelihood where items are too many for matrices.

The same expansion as in `mle_uncertainty`, of which this module has the public design in which all
pairs are compared equally often. Every sum over the other items is then a function of one score,
taken over `GROUPS` groups of items with nearly equal scores instead of all n. Off the diagonal, the
covariance matrices there are of order 1 / n, and left out. Memory and time are linear in n.

Rank intervals are made of intervals that hold for all opponents of an item at once: one item is
surely better than another where the two intervals lie apart. That asks for more than the difference
of two scores has to show, by a factor of sqrt(2) at most: the rank intervals are never too short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.chances import ScoreErrors
from hushrank.estimation.common.crossing import FARTHEST
from hushrank.estimation.common.estimate import Estimate, estimate_of, nothing_learned
from hushrank.estimation.common.links import Floats, Link
from hushrank.estimation.common.uncertainty import (
    LEVEL,
    EndsAt,
    Margin,
    RankSeparation,
    separate_ranks,
)
from hushrank.estimation.comparisons.mle_uncertainty import error_reach, hopeless
from hushrank.estimation.comparisons.perturbed_mle import PerturbedMle

GROUPS = 200  # of items with nearly equal scores
BLOCK = 8_192  # items worked on at a time
TABLE_STEP = 0.02  # of a score, in the table by which pulls are mapped back

Function = Callable[[Floats, Floats], Floats]  # of released and of halfway score differences


@dataclass(frozen=True, slots=True)
class ManyErrors:
    """What the release says about the scores beside their released values; shapes (n,).

    Attributes:
        unbiased: scores without the ridge's bias.
        sampling, noise: variances of their two errors.
        low, high: 95 % intervals, one score at a time.
        ends_at: intervals of other tail chances.
    """

    unbiased: Floats
    sampling: Floats
    noise: Floats
    low: Floats
    high: Floats
    ends_at: EndsAt


def rank_many_by_scores(scores: Floats, mechanism: PerturbedMle) -> Estimate:
    """As `mle_uncertainty.rank_by_scores`, in memory and time linear in the number of items.

    Args:
        scores: as released, shape (n,).
        mechanism: what released them.

    Raises:
        ValueError: the shapes do not fit.
    """
    if scores.shape != (mechanism.n_items,):
        raise ValueError(f"{mechanism.n_items} items have no scores of shape {scores.shape}")
    if hopeless(mechanism):
        return nothing_learned(scores)
    errors = many_errors(scores, mechanism)
    separation = _separation(scores, errors, mechanism)
    return estimate_of(
        scores,
        np.minimum(errors.low, scores),
        np.maximum(errors.high, scores),
        separation,
        informative=bool((separation.rank_low > 1).any()),
        errors=ScoreErrors(errors.unbiased, errors.sampling + errors.noise),
    )


def many_errors(scores: Floats, mechanism: PerturbedMle) -> ManyErrors:
    """Unbiased scores, variances and intervals: see `mle_uncertainty.mle_errors`."""
    link, ridge = mechanism.settings.link, mechanism.objective.ridge
    start = _Crowd.of(scores, mechanism)
    crowd = start.moved(scores + _ridge_bias(start, ridge, link) / 2)
    stiffness = crowd.sums(lambda d, e: _force(d, link) * _density(e, link))
    chance = crowd.sums(lambda d, e: _force(d, link) ** 2 * link.cdf(e) * link.cdf(-e))
    sampling, noise = chance / stiffness**2, mechanism.noise.variance / stiffness**2
    if mechanism.cover is not None:
        noise += mechanism.cover.noise.variance
    pull = crowd.sums(lambda d, _: _force(d, link) * link.cdf(d)) + ridge * scores

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        width = error_reach(sampling, noise, tail, mechanism, n_draws=1) * stiffness
        low, high = (_scores_of_pulls(pull + side * width, crowd, link) for side in (-1, 1))
        return low, high

    low, high = ends_at(LEVEL / 2)
    return ManyErrors(
        unbiased=scores + _ridge_bias(crowd, ridge, link),
        sampling=sampling,
        noise=noise,
        low=low,
        high=high,
        ends_at=ends_at,
    )


@dataclass(frozen=True, slots=True)
class _Crowd:
    """All items as opponents, in groups of nearly equal scores.

    Attributes:
        scores, halfway: shape (n,), as released, and where derivatives are taken.
        group: shape (n,), of each item.
        sizes: shape (k,), of each group.
        each: expected comparisons of one pair.
    """

    scores: Floats
    halfway: Floats
    group: NDArray[np.int64]
    sizes: Floats
    each: float

    @classmethod
    def of(cls, scores: Floats, mechanism: PerturbedMle) -> _Crowd:
        n = len(scores)
        group = np.empty(n, np.int64)
        group[np.argsort(scores)] = np.arange(n) * GROUPS // n
        each = mechanism.settings.expected_comparisons / (n - 1)
        return cls(scores, scores, group, np.bincount(group).astype(np.float64), each)

    def moved(self, halfway: Floats) -> _Crowd:
        """The same with derivatives taken elsewhere."""
        return _Crowd(self.scores, halfway, self.group, self.sizes, self.each)

    def mean(self, values: Floats) -> Floats:
        """Mean of each group, shape (k,)."""
        return np.asarray(np.bincount(self.group, values) / self.sizes)

    def sums(self, function: Function, values: Floats | None = None) -> Floats:
        """Expected comparisons times `function`, summed over all opponents, shape (n,).

        Args:
            function: of an item's differences to the groups.
            values: shape (k,), factors of the groups; None: 1.
        """
        scores, halfway = self.mean(self.scores), self.mean(self.halfway)
        factors = self.each * self.sizes * (1.0 if values is None else values)
        sums = np.empty(len(self.scores))
        for start in range(0, len(sums), BLOCK):
            part = slice(start, start + BLOCK)
            d = self.scores[part, np.newaxis] - scores
            e = self.halfway[part, np.newaxis] - halfway
            sums[part] = function(d, e) @ factors
        return sums


def _ridge_bias(crowd: _Crowd, ridge: float, link: Link) -> Floats:
    """M^+ (ridge scores): first between groups, then for each item, given those of the groups."""

    def weight(d: Floats, e: Floats) -> Floats:
        return _force(d, link) * _density(e, link)

    scores, halfway = crowd.mean(crowd.scores), crowd.mean(crowd.halfway)
    edges = crowd.each * weight(
        np.subtract.outer(scores, scores), np.subtract.outer(halfway, halfway)
    ) * crowd.sizes  # fmt: skip
    laplacian = np.diag(edges.sum(axis=1)) - edges
    size = np.trace(laplacian) / len(edges)
    share = crowd.sizes / crowd.sizes.sum()
    centred = scores - share @ scores
    of_groups = np.linalg.solve(laplacian + size * share, ridge * centred)
    pulled = ridge * crowd.scores + crowd.sums(weight, of_groups)
    bias = pulled / crowd.sums(weight)
    return np.asarray(bias - bias.mean())


def _scores_of_pulls(pulls: Floats, crowd: _Crowd, link: Link) -> Floats:
    """The score at which each item would have its pull, the others being halfway."""
    others, released = crowd.mean(crowd.halfway), crowd.mean(crowd.scores)
    grid = np.arange(others.min() - FARTHEST, others.max() + FARTHEST, TABLE_STEP)
    forces = _force(np.subtract.outer(released, released), link) * crowd.each * crowd.sizes
    table = forces @ link.cdf(np.subtract.outer(grid, others)).T  # a row for each group
    scores = np.empty(len(pulls))
    order = np.argsort(crowd.group, kind="stable")
    for group, items in enumerate(np.split(order, np.cumsum(crowd.sizes[:-1]).astype(np.int64))):
        scores[items] = np.interp(pulls[items], table[group], grid)
    most = forces.sum(axis=1)[crowd.group]
    return np.where(pulls <= 0, -np.inf, np.where(pulls >= most, np.inf, scores))


def _separation(scores: Floats, errors: ManyErrors, mechanism: PerturbedMle) -> RankSeparation:
    """The pairs whose intervals lie apart; their ends are widened until they ascend with scores."""
    order = np.argsort(scores, kind="stable")
    rank = np.empty(len(scores))
    rank[order] = np.arange(len(scores))  # what is compared: the ends are functions of it

    def margin_at(tail: float) -> Margin:
        """Infinite where the interval at place y does not lie below that at place x."""
        width = error_reach(errors.sampling, errors.noise, tail, mechanism, n_draws=1)
        high = np.maximum.accumulate((errors.unbiased + width)[order])
        low = np.minimum.accumulate((errors.unbiased - width)[order][::-1])[::-1]

        def margin(x: Floats, y: Floats) -> Floats:
            below = high[y.astype(np.int64)] < low[x.astype(np.int64)]
            return np.where(below, 0.0, np.inf)

        return margin

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        low, high = errors.ends_at(tail)
        return np.minimum(low, scores), np.maximum(high, scores)

    return separate_ranks(rank, margin_at, ends_at)


def _force(d: Floats, link: Link) -> Floats:
    """F' / (F (1 - F))."""
    return np.asarray(link.slope(d) + link.slope(-d))


def _density(d: Floats, link: Link) -> Floats:
    """F'."""
    return np.asarray(link.slope(d) * link.cdf(d))
