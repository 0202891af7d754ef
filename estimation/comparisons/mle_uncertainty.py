"""Errors of scores from perturbed maximum likelihood, computed from the release alone.

The gradient of the likelihood at the released theta is -ridge theta - w. Its expectation, where W
comparisons of two items are made and d is the difference of their scores, is the sum over pairs of

    A (F(d) - F(d of the truth)),     A = W F'(d) / (F(d) (1 - F(d))),

and it differs from that by the sampling error s. So the release shows, but for an error s + w, what
each item's expected pull, the sum of A F(d of the truth) over its pairs, is:

    pull = sum of A F(d) + ridge theta.

Scores without the ridge's bias are those with these net wins. To first order they are
unbiased = theta + ridge M^+ theta on scores that sum to zero, with M the graph Laplacian of the
weights A F'(d'), d' half-way from theta to such a step; their covariance is
M^+ (J + Var(w)) M^+ + Var(cover) with J = Cov(s), the Laplacian of (A^2 / W) F(d') (1 - F(d')).

The net wins of an item is a curve in its score, steep in the middle and flat at the ends. An
interval of half-width q sd(score) M_ii around the net wins is therefore mapped back through the
curve: where noise is large that keeps its coverage, and net wins that no score explains gives an
infinite end.

The numbers W are confidential; their expectation under the public design takes their place: each
item in `expected_comparisons` comparisons, with others at random, or what the operator states pair
by pair. Where the real design differs from that, the bias is corrected by too much or too little,
and intervals are too long or too short. Answers of one person that agree more than the scores
explain make them too short.

With exposures, scores are ranked without a guess of the design. The scores theta~ of
`perturbed_mle` are where

    sum over j of A[i, j] (F(theta~_i - theta~_j) - F(theta_i - theta_j)) + ridge theta~_i

is an error, of sampling and of the noise w, A the comparisons of a pair times F' / (F (1 - F)) at
theta~. With the design that exposures lead to in place of the comparisons,
that give net wins (`estimation.comparisons.net_wins`) without the ridge, which privacy needs and
scores do not. Where the design is wrong it is wrong on both sides: net wins at theta~ is not moved
by it. Exposures are released with noise or public; where it is public how often each pair is
compared, that is the design.

Many items are too many for matrices. `rank_many_by_scores` makes the same expansion for the public
design in which all pairs are compared equally often. Every sum over the other items is then a
function of one score, taken over `GROUPS` groups of items with nearly equal scores instead of all
n. Off the diagonal, the covariance matrices there are of order 1 / n, and left out. Memory and time
are linear in n.

Rank intervals are made of intervals that hold for all opponents of an item at once: one item is
surely better than another where the two intervals lie apart. That asks for more than the difference
of two scores has to show, by a factor of sqrt(2) at most: the rank intervals are never too short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import Estimate, estimate_of, nothing_learned
from hushrank.estimation.common.links import Floats, Link, laplacian, score_differences
from hushrank.estimation.common.pair_separation import (
    ScoreErrors,
    difference_variance,
    separate_pairs,
)
from hushrank.estimation.common.uncertainty import (
    FARTHEST,
    LEVEL,
    EndsAt,
    Margin,
    RankSeparation,
    quantile,
    scores_of_net_wins,
    separate_ranks,
)
from hushrank.estimation.comparisons.net_wins import NetWins, rank_by_net_wins
from hushrank.estimation.comparisons.perturbed_mle import PerturbedMle, information
from hushrank.estimation.comparisons.planning import Exposures

HOPELESS = 1.0  # standard deviations of w, in units of what one unit of score pulls
GROUPS = 200  # groups of items with nearly equal scores
BLOCK = 8_192  # items worked on at a time
TABLE_STEP = 0.02  # step of a score, in the table by which net wins are mapped back
Function = Callable[[Floats, Floats], Floats]  # takes released and halfway score differences


def rank_by_scores_and_exposures(
    scores: Floats, mechanism: PerturbedMle, exposures: Exposures
) -> Estimate:
    """Scores without the ridge's pull, with 95 % intervals, rank intervals and groups.

    Args:
        scores: scores as `mechanism` released them, shape (n,).
        mechanism: the mechanism that released them.
        exposures: exposures of the same comparisons, from a release of their own.

    Raises:
        ValueError: the shapes do not fit.
    """
    if scores.shape != (mechanism.n_items,) or exposures.values.shape != scores.shape:
        raise ValueError(
            f"{mechanism.n_items} items, but scores of shape {scores.shape} and exposures of"
            f" shape {exposures.values.shape}"
        )
    return rank_by_net_wins(
        net_wins_of(scores, mechanism, exposures.design(), exposures.noise_variance)
    )


def rank_by_scores_and_pairs(
    scores: Floats, mechanism: PerturbedMle, comparisons: Floats
) -> Estimate:
    """Rank as `rank_by_scores_and_exposures` does, if it is public who meets whom.

    Args:
        scores: scores as `mechanism` released them, shape (n,).
        mechanism: the mechanism that released them.
        comparisons: public, of each pair, shape (n, n): symmetric, zero on the diagonal.

    Raises:
        ValueError: the shapes do not fit.
    """
    n = mechanism.n_items
    if scores.shape != (n,) or comparisons.shape != (n, n):
        raise ValueError(
            f"{n} items, but scores of shape {scores.shape} and comparisons of shape"
            f" {comparisons.shape}"
        )
    return rank_by_net_wins(net_wins_of(scores, mechanism, comparisons, 0.0))


def net_wins_of(
    scores: Floats, mechanism: PerturbedMle, comparisons: Floats, exposure_variance: float
) -> NetWins:
    """Return what the released scores say of the net wins.

    Args:
        scores, mechanism: as `rank_by_scores_and_exposures`.
        comparisons: expected comparisons of each pair, shape (n, n).
        exposure_variance: variance of the noise in each exposure.
    """
    link, ridge = mechanism.settings.link, mechanism.objective.ridge
    d = score_differences(scores)
    force = link.slope(d) + link.slope(-d)  # F' / (F (1 - F))
    weights, chance = comparisons * force, link.cdf(d)
    noise = np.full(len(scores), mechanism.noise.variance)
    if mechanism.cover is not None:
        stiffness = laplacian(weights * link.slope(d) * chance)
        noise = noise + mechanism.cover.noise.variance * (stiffness**2).sum(axis=1)
    seen = np.maximum(weights.sum(axis=1), np.finfo(float).tiny)
    return NetWins(
        values=(weights * (chance - 0.5)).sum(axis=1) + ridge * scores,
        design=weights,
        sampling_factor=force,
        link=link,
        noise_variance=noise,
        exposure_variance=exposure_variance,
        free_share=(weights * chance).sum(axis=1) / seen,
        kind=mechanism.params.noise,
        draws=1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MleErrors:
    """Errors of the scores, from the release.

    Attributes:
        unbiased: shape (n,), scores without the ridge's bias; they sum to zero.
        sampling: shape (n, n), covariance of their sampling errors.
        noise: shape (n, n), covariance of what the privacy noise does to them.
        low, high: shape (n,), 95 % intervals, one score at a time.
        ends_at: intervals of other tail probabilities.
    """

    unbiased: Floats
    sampling: Floats
    noise: Floats
    low: Floats
    high: Floats
    ends_at: EndsAt

    @property
    def covariance(self) -> Floats:
        """Covariance of the unbiased scores: both parts."""
        return self.sampling + self.noise


def rank_by_scores(
    scores: Floats, mechanism: PerturbedMle, design: Floats | None = None
) -> Estimate:
    """Released scores with 95 % intervals, rank intervals and groups.

    An interval is stretched where it would not hold its score, which the ridge draws to zero.

    Args:
        scores: scores as released, shape (n,).
        mechanism: the mechanism that released them.
        design: public, shape (n, n), symmetric: expected comparisons of each pair; None: equal for
            all pairs.

    Raises:
        ValueError: the shapes do not fit.
    """
    if hopeless(mechanism):
        return nothing_learned(scores)
    errors = mle_errors(scores, mechanism, design)

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        low, high = errors.ends_at(tail)
        return np.minimum(low, scores), np.maximum(high, scores)

    def better_at(tail: float) -> NDArray[np.bool_]:
        return _better(scores, errors, mechanism, tail)

    separation = separate_pairs(scores, better_at, ends_at, errors.covariance)
    return estimate_of(
        scores,
        np.minimum(errors.low, scores),
        np.maximum(errors.high, scores),
        separation,
        informative=bool((separation.rank_low > 1).any()),
        errors=ScoreErrors(errors.unbiased, errors.covariance),
    )


def hopeless(mechanism: PerturbedMle) -> bool:
    """Whether w alone moves a score further than scores lie apart; from public numbers.

    The expansion below would then be taken far out where the likelihood is flat.
    """
    return mechanism.noise.standard_deviation > HOPELESS * information(mechanism.settings)


def mle_errors(scores: Floats, mechanism: PerturbedMle, design: Floats | None = None) -> MleErrors:
    """Unbiased scores, the covariance of their errors, and intervals.

    Args:
        scores, mechanism, design: as `rank_by_scores`.

    Raises:
        ValueError: the shapes do not fit.
    """
    n, link, ridge = mechanism.n_items, mechanism.settings.link, mechanism.objective.ridge
    comparisons = _design(mechanism) if design is None else design
    if scores.shape != (n,) or comparisons.shape != (n, n):
        raise ValueError(
            f"{n} items need scores of shape ({n},) and a design of shape ({n}, {n}), got "
            f"{scores.shape} and {comparisons.shape}"
        )
    d = score_differences(scores)
    force = link.slope(d) + link.slope(-d)  # F' / (F (1 - F))
    first_step = ridge * _pseudo_inverse(_stiffness(comparisons * force, scores, link)) @ scores
    halfway = scores + first_step / 2
    stiffness = _stiffness(comparisons * force, halfway, link)
    inverse, chance = _pseudo_inverse(stiffness), link.cdf(score_differences(halfway))
    sampling = inverse @ laplacian(comparisons * force**2 * chance * (1 - chance)) @ inverse
    noise = mechanism.noise.variance * inverse @ inverse
    if mechanism.cover is not None:
        noise += mechanism.cover.noise.variance * (np.eye(n) - 1 / n)
    net_wins = (comparisons * force * link.cdf(d)).sum(axis=1) + ridge * scores

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        own = np.diagonal(sampling), np.diagonal(noise)
        reach = error_reach(*own, tail, mechanism, n_draws=1) * np.diagonal(stiffness)
        low, high = (
            scores_of_net_wins(net_wins + side * reach, comparisons * force, halfway, link)
            for side in (-1, 1)
        )
        return low, high

    low, high = ends_at(LEVEL / 2)
    return MleErrors(
        unbiased=scores + ridge * inverse @ scores,
        sampling=sampling,
        noise=noise,
        low=low,
        high=high,
        ends_at=ends_at,
    )


def _design(mechanism: PerturbedMle) -> Floats:
    n = mechanism.n_items
    each_pair = mechanism.settings.expected_comparisons / (n - 1)
    return np.asarray(each_pair * (1 - np.eye(n)))


def _stiffness(weights: Floats, scores: Floats, link: Link) -> Floats:
    """M: how the net wins change with the scores."""
    d = score_differences(scores)
    return laplacian(weights * link.slope(d) * link.cdf(d))  # F' = (F'/F) F


def _better(
    scores: Floats, errors: MleErrors, mechanism: PerturbedMle, tail: float
) -> NDArray[np.bool_]:
    """The pairs whose order is sure, and agreed on by the released and the unbiased scores."""
    margin = error_reach(
        difference_variance(errors.sampling),
        difference_variance(errors.noise),
        tail,
        mechanism,
        n_draws=2,
    )
    sure: NDArray[np.bool_] = score_differences(errors.unbiased) > margin
    return np.asarray(sure & (score_differences(scores) > 0))


def error_reach(
    sampling: Floats, noise: Floats, tail: float, mechanism: PerturbedMle, n_draws: int
) -> Floats:
    """Value that an error of these variances exceeds with chance `tail`."""
    variance = sampling + noise
    share = np.divide(noise, variance, out=np.zeros_like(variance), where=variance > 0)
    return np.asarray(quantile(share, tail, mechanism.params.noise, n_draws) * np.sqrt(variance))


def _pseudo_inverse(stiffness: Floats) -> Floats:
    """Inverse on the vectors that sum to zero, and zero on (1, ..., 1)."""
    n = len(stiffness)
    size = np.trace(stiffness) / n
    return np.asarray(np.linalg.inv(stiffness + size / n) - 1 / (n * size))


@dataclass(frozen=True, slots=True)
class ManyErrors:
    """Errors of the scores, from the release; shapes (n,).

    Attributes:
        unbiased: scores without the ridge's bias.
        sampling, noise: variances of their two errors.
        low, high: 95 % intervals, one score at a time.
        ends_at: intervals of other tail probabilities.
    """

    unbiased: Floats
    sampling: Floats
    noise: Floats
    low: Floats
    high: Floats
    ends_at: EndsAt


def rank_many_by_scores(scores: Floats, mechanism: PerturbedMle) -> Estimate:
    """Rank as `rank_by_scores` does, in memory and time linear in the number of items.

    Args:
        scores: scores as released, shape (n,).
        mechanism: the mechanism that released them.

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
    net_wins = crowd.sums(lambda d, _: _force(d, link) * link.cdf(d)) + ridge * scores

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        width = error_reach(sampling, noise, tail, mechanism, n_draws=1) * stiffness
        low, high = (_scores_of_net_wins(net_wins + side * width, crowd, link) for side in (-1, 1))
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
        """Copy of this expansion with derivatives taken elsewhere."""
        return _Crowd(self.scores, halfway, self.group, self.sizes, self.each)

    def mean(self, values: Floats) -> Floats:
        """Mean of each group, shape (k,)."""
        return np.asarray(np.bincount(self.group, values) / self.sizes)

    def sums(self, function: Function, values: Floats | None = None) -> Floats:
        """Expected comparisons times `function`, summed over all opponents, shape (n,).

        Args:
            function: function of an item's differences to the groups.
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


def _scores_of_net_wins(net_wins: Floats, crowd: _Crowd, link: Link) -> Floats:
    """The score at which each item would have its net wins, the others being halfway."""
    others, released = crowd.mean(crowd.halfway), crowd.mean(crowd.scores)
    grid = np.arange(others.min() - FARTHEST, others.max() + FARTHEST, TABLE_STEP)
    forces = _force(np.subtract.outer(released, released), link) * crowd.each * crowd.sizes
    table = forces @ link.cdf(np.subtract.outer(grid, others)).T  # a row for each group
    scores = np.empty(len(net_wins))
    order = np.argsort(crowd.group, kind="stable")
    for group, items in enumerate(np.split(order, np.cumsum(crowd.sizes[:-1]).astype(np.int64))):
        scores[items] = np.interp(net_wins[items], table[group], grid)
    most = forces.sum(axis=1)[crowd.group]
    return np.where(net_wins <= 0, -np.inf, np.where(net_wins >= most, np.inf, scores))


def _separation(scores: Floats, errors: ManyErrors, mechanism: PerturbedMle) -> RankSeparation:
    """The pairs whose intervals lie apart; their ends are widened until they ascend with scores."""
    order = np.argsort(scores, kind="stable")
    rank = np.empty(len(scores))
    rank[order] = np.arange(len(scores))  # ranks are compared: the ends are functions of them

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
