"""How far to trust scores from perturbed maximum likelihood, from the release alone.

The gradient of the likelihood at the released theta is -ridge theta - w. Its expectation, where W
comparisons of two items are made and d is the difference of their scores, is the sum over pairs of

    A (F(d) - F(d of the truth)),     A = W F'(d) / (F(d) (1 - F(d))),

and it differs from that by the sampling error s. So the release shows, but for an error s + w, what
each item's expected pull, the sum of A F(d of the truth) over its pairs, is:

    pull = sum of A F(d) + ridge theta.

Scores without the ridge's bias are those with this pull. To first order they are
unbiased = theta + ridge M^+ theta on scores that sum to zero, with M the graph Laplacian of the
weights A F'(d'), d' half-way from theta to such a step; their covariance is
M^+ (J + Var(w)) M^+ + Var(cover) with J = Cov(s), the Laplacian of (A^2 / W) F(d') (1 - F(d')).

The pull of an item is a curve in its score, steep in the middle and flat at the ends. An interval
of half-width q sd(score) M_ii around the pull is therefore mapped back through the curve: where
noise is large that keeps its coverage, and a pull that no score explains gives an infinite end.

The numbers W are confidential; their expectation under the public design takes their place: each
item in `expected_comparisons` comparisons, with others at random, or what the operator states pair
by pair. Where the real design differs from that, the bias is corrected by too much or too little,
and intervals are too long or too short. Answers of one person that agree more than the scores
explain make them too short.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.chances import ScoreErrors
from hushrank.estimation.common.crossing import scores_of_pulls
from hushrank.estimation.common.estimate import Estimate, estimate_of, nothing_learned
from hushrank.estimation.common.links import Floats, Link
from hushrank.estimation.common.pair_separation import difference_variance, separate_pairs
from hushrank.estimation.common.pairwise import laplacian, score_differences
from hushrank.estimation.common.uncertainty import LEVEL, EndsAt, quantile
from hushrank.estimation.comparisons.perturbed_mle import PerturbedMle, information

HOPELESS = 1.0  # standard deviations of w, in units of what one unit of score pulls


@dataclass(frozen=True, slots=True, kw_only=True)
class MleErrors:
    """What the release says about the scores beside their released values.

    Attributes:
        unbiased: shape (n,), scores without the ridge's bias; they sum to zero.
        sampling: shape (n, n), covariance of their sampling errors.
        noise: shape (n, n), covariance of what the privacy noise does to them.
        low, high: shape (n,), 95 % intervals, one score at a time.
        ends_at: intervals of other tail chances.
    """

    unbiased: Floats
    sampling: Floats
    noise: Floats
    low: Floats
    high: Floats
    ends_at: EndsAt

    @property
    def covariance(self) -> Floats:
        """Of the unbiased scores: both parts."""
        return self.sampling + self.noise


def rank_by_scores(
    scores: Floats, mechanism: PerturbedMle, design: Floats | None = None
) -> Estimate:
    """Released scores with 95 % intervals, rank intervals and groups.

    An interval is stretched where it would not hold its score, which the ridge draws to zero.

    Args:
        scores: as released, shape (n,).
        mechanism: what released them.
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
    pull = (comparisons * force * link.cdf(d)).sum(axis=1) + ridge * scores

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        own = np.diagonal(sampling), np.diagonal(noise)
        reach = error_reach(*own, tail, mechanism, n_draws=1) * np.diagonal(stiffness)
        low, high = (
            scores_of_pulls(pull + side * reach, comparisons * force, halfway, link)
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
    """M: how the pulls change with the scores."""
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
    """What an error of these variances exceeds with chance `tail`."""
    variance = sampling + noise
    share = np.divide(noise, variance, out=np.zeros_like(variance), where=variance > 0)
    return np.asarray(quantile(share, tail, mechanism.params.noise, n_draws) * np.sqrt(variance))


def _pseudo_inverse(stiffness: Floats) -> Floats:
    """Inverse on the vectors that sum to zero, and zero on (1, ..., 1)."""
    n = len(stiffness)
    size = np.trace(stiffness) / n
    return np.asarray(np.linalg.inv(stiffness + size / n) - 1 / (n * size))
