"""Scores of groups, each drawn towards all of them by as much as pays: partial pooling.

The scores of group g are theta_g = mu + delta_g, mu ~ N(0, s^2 I), delta_g ~ N(0, t^2 I): what
groups share, and what is a group's own. Near any scores a the noisy counts of a group say
x_g ~ N(theta_g, I_g^-1), where I_g is the information in them (`Evidence`). Given s and t, with
A_g = (I_g^-1 + t^2)^-1 = I_g (1 + t^2 I_g)^-1, M = (sum A_g + s^-2)^-1 and mu' = M sum A_g x_g
([M83], [DR77])

    theta_g has mean  mu' + t^2 A_g (x_g - mu'),
    and covariance    t^2 (1 - t^2 A_g) + (1 - t^2 A_g) M (1 - t^2 A_g).

s and t are integrated out on grids, weighed by how well they explain all noisy counts: so errors
hold what is not known of them. In units, s has the density s / (1 + s^2)^2, which is 0 at 0: were
it not, little information about many items would say that all are equal ([C13]). t has a
half-Cauchy prior of scale s. Both grids end, so no score moves without limit. Nothing is divided by
an I_g, so a group that says nothing has the scores of the others and an error of their differences.

Noisy counts say less of scores that lie far apart than of equal ones, and a group of few rows may
have either. So its evidence is not taken at one value but is the mean over DRAWS scores of the
group's own posterior, a normal law that so fits best ([OA09], eq. 9 and 10, with expected
information). This is repeated until scores stay, each time with the mean of the evidence before and
after, since scores may go to and fro else. All is post-processing.

The estimand is the group's own score. An interval misses an item where delta is large; on average
over items and groups that is what the errors say. The truly best item of a group is one whose delta
is large: `ends` moves the ends of intervals for it, and for the worst. An end goes further, too,
where counts say less of scores on its side (`_tilt`). Two items are told apart by an interval that
may miss with a chance of KEPT c (1 - r t / (t + s / 2)) where c is wanted: the more of the order is
due to delta (t beside s) and the more is drawn (r, 0 to 1), the more sure it
must be. KEPT < 1 is for what a normal law leaves out of Laplace noise.

Intervals that hold the truly best and the truly worst item as often as any other.

Let theta_i ~ N(m_i, e_i^2) be what is known of each score after partial pooling, taken as
independent. An interval of m_i around 1.96 e_i holds 95 % of the items. It holds fewer of the items
that are truly best: such an item is one whose error points upwards, since scores were drawn in. How
often it is missed follows from the same law. Item i is the best with the chance

    B_i(x) = product over j != i of Phi((x - m_j) / e_j)   where its score is x,

and lies above m_i + z e_i and is the best with the chance

    T_i(z) = integral from z of phi(y) B_i(m_i + y e_i) dy.

The upper ends are moved out to where the sum of all T_i is what an interval may miss: each item
whose T_i is above a common eta until it is eta. So an item far behind keeps its interval, and where
no other item can be the best nothing moves. For the worst item, the same with signs turned.

References:
    [C13] Chung, Rabe-Hesketh, Dorie, Gelman, Liu. A nondegenerate penalized likelihood estimator
        for variance parameters in multilevel models. 2013.
    [DR77] Dempster, Laird, Rubin. Maximum likelihood from incomplete data. 1977. Section 4.4.
    [M83] Morris. Parametric empirical Bayes inference. 1983.
    [OA09] Opper, Archambeau. The variational Gaussian approximation revisited. 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp, ndtri

from hushrank.estimation.common.estimate import Estimate, estimate_of, nothing_learned
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.pair_separation import (
    ScoreErrors,
    difference_variance,
    normal_draws,
    separate_intervals,
    separate_pairs,
)
from hushrank.estimation.common.uncertainty import LEVEL, MOST_PAIRED

FURTHEST, STEPS = 8.0, 161  # range of z in standard deviations, and steps in it
CELLS = 2_048  # cells of scores, between which log B is straight


def reach_of_ends(centre: Floats, error: Floats, q: float, missed: float) -> tuple[Floats, Floats]:
    """Reach of intervals below and above their centres, in errors; shape (n,), q at least.

    Args:
        centre: m, shape (n,).
        error: e, shape (n,), at least 0.
        q: reach of an interval that heeds no ends.
        missed: chance that the best item, or the worst, is not held.
    """
    error = np.maximum(error, np.finfo(float).tiny + 1e-9 * error.max())
    return _reach(-centre, error, q, missed), _reach(centre, error, q, missed)


def _reach(centre: Floats, error: Floats, q: float, missed: float) -> Floats:
    """Reach of intervals above their centres, so that the largest score is held."""
    z = np.linspace(-FURTHEST, FURTHEST, STEPS)
    mass = _largest(centre, error, z)
    beyond = np.cumsum(mass[:, ::-1], axis=1)[:, ::-1]  # T_i(z)
    at_q = np.array([np.interp(q, z, each) for each in beyond])
    below = float(mass[:, z < -q].sum())  # the best item may lie below its interval, too
    least = _level(at_q, max(missed - below, missed / 2))
    moved = at_q > least
    found = np.full(len(centre), q)
    found[moved] = [np.interp(-least, -each, z) for each in beyond[moved]]
    return np.asarray(np.maximum(found, q))


def _largest(centre: Floats, error: Floats, z: Floats) -> Floats:
    """Chance of each step of z that an item's score is there and the largest, shape (n, STEPS)."""
    at = centre[:, np.newaxis] + np.multiply.outer(error, z)
    grid = np.linspace(at.min(), at.max(), CELLS)
    together = np.zeros(CELLS)
    for middle, spread in zip(centre, error, strict=True):
        together += log_ndtr((grid - middle) / spread)
    others = np.interp(at, grid, together) - log_ndtr(z)
    step = z[1] - z[0]
    density = np.exp(np.minimum(others, 0) - z**2 / 2) * step / np.sqrt(2 * np.pi)
    return np.asarray(density / density.sum())


def _level(masses: Floats, allowed: float) -> float:
    """The eta at which the sum of min(mass, eta) is `allowed`; infinite where all may stay."""
    if masses.sum() <= allowed:
        return np.inf
    ordered = np.sort(masses)
    rest = allowed - np.concatenate([[0.0], np.cumsum(ordered)[:-1]])
    levels = rest / np.arange(len(ordered), 0, -1)
    return float(levels[np.argmax(ordered >= levels)])


SCALES = 0.02, 6.0  # the least s and the largest, in units
FEW, MANY = 16, 31  # values of s and of t while scores are sought, and at last
SPREADS = 0.02, 8.0  # the least t but 0 and the largest, in units
ROUNDS = 40  # at most
KEEP = 0.5  # share of the evidence of the round before
STAYS = 0.01  # largest step, in units, at which scores count as found
LONGEST_STEP = 1.5  # units
KEPT = 0.8
ENDS_MISSED = 0.6 * LEVEL  # chance to miss best items and worst ones; a normal law's is beside
DRAWS, MOST_OFF = 16, 2.0  # draws of scores, at most so many units from their mean along an axis
LEAST_TILT = 0.2
LEAST_WEIGHT = 1e-12  # of a t whose scores count


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence of noisy counts about scores near given ones.

    Attributes:
        information: shape (n, n), or (n,) where errors are taken as independent; may be singular.
        pull: shape (n,), information times what the scores are off by.
    """

    information: Floats
    pull: Floats


EvidenceAt = Callable[[Floats], Evidence]  # takes scores, shape (n,)


@dataclass(frozen=True, slots=True)
class Pooled:
    """Scores of groups.

    Attributes:
        estimates: estimate of each group, in order.
        own: for each group, how much of a score's distance from the others its own counts decide:
            0, nothing; 1, all.
        spread: t, its mean.
    """

    estimates: tuple[Estimate, ...]
    own: tuple[float, ...]
    spread: float


@dataclass(frozen=True, slots=True)
class _Posterior:
    """Posterior of one group's scores: mean, covariance (or variances), and `own`."""

    mean: Floats
    covariance: Floats
    own: float


def pool(
    groups: Sequence[EvidenceAt],
    start: Floats,
    *,
    unit: float = 1.0,
    reach: float = np.inf,
    also: EvidenceAt | None = None,
) -> Pooled:
    """Estimate the scores of each group from the noisy counts of all.

    Args:
        groups: evidence of each group: functions of scores, shape (n,).
        start: scores of the whole, shape (n,).
        unit: a difference of scores that is far from nothing and not unusual.
        reach: no score is further from 0.
        also: evidence of all rows about their scores, beyond that of the groups. It is taken as an
            observation of mu like that of one group more. It does not enter the weights of s and t:
            the largest group is part of it, so that they agree says nothing of how groups differ.

    Raises:
        ValueError: fewer than 2 groups.
    """
    if len(groups) < 2:
        raise ValueError(f"pooling takes at least 2 groups, got {len(groups)}")
    n_groups, groups = len(groups), [*groups, *([] if also is None else [also])]
    at = np.tile(start - start.mean(), (len(groups), 1))
    if not any(each(scores).information.any() for each, scores in zip(groups, at, strict=True)):
        nothing = nothing_learned(np.zeros(len(start)), reach=reach)
        return Pooled((nothing,) * n_groups, (0.0,) * n_groups, 0.0)
    normal = normal_draws(DRAWS // 2, len(start))
    normal = np.concatenate([normal, -normal])
    around = at[:, np.newaxis]  # the scores that evidence is the mean of, shape (groups, draws, n)
    seen: list[_Seen] = []
    for _ in range(ROUNDS):
        seen = _damped(seen, _seen(groups, around))
        found, _, _ = _posteriors(seen, n_groups, unit, FEW)
        step = np.clip([each.mean for each in found] - at, -LONGEST_STEP * unit, None)
        step = np.minimum(step, LONGEST_STEP * unit)
        at = at + step
        at = np.clip(at - at.mean(axis=1, keepdims=True), -reach, reach)
        off = [_along_axes(normal, each.covariance, MOST_OFF * unit) for each in found]
        around = at[:, np.newaxis] + off
        if np.abs(step).max() <= STAYS * unit:
            break
    found, spread, scale = _posteriors(seen, n_groups, unit, MANY)
    apart = spread / (spread + scale / 2)
    estimates = tuple(
        _estimate(each, (1 - each.own) * apart, evidence.higher, reach)
        for each, evidence in zip(found[:n_groups], seen, strict=False)
    )
    return Pooled(estimates, tuple(each.own for each in found[:n_groups]), spread)


@dataclass(frozen=True, slots=True)
class _Seen:
    """Mean evidence.

    Attributes:
        information: as in `Evidence`.
        sums: shape (n,), information times the scores that the counts say.
        higher: shape (n,), information about an item where its own score is higher than on
            average, as a share of the mean; 2 less that, where it is lower.
    """

    information: Floats
    sums: Floats
    higher: Floats


def _seen(groups: Sequence[EvidenceAt], around: Floats) -> list[_Seen]:
    """Mean evidence of each group; `around` has shape (groups, draws, n)."""
    found = []
    for evidence, scores in zip(groups, around, strict=True):
        each = [evidence(one) for one in scores]
        information = np.mean([one.information for one in each], axis=0)
        pull = np.mean([one.pull for one in each], axis=0)
        about = np.array([_diagonal(one.information) for one in each])
        sums = pull + _times(information, scores.mean(axis=0))
        found.append(_Seen(information, sums, _tilt(about, scores)))
    return found


def _damped(before: Sequence[_Seen], now: list[_Seen]) -> list[_Seen]:
    """Mean of both, which keeps scores from going to and fro; `now` in the first round."""
    if not before:
        return now
    return [
        _Seen(
            KEEP * old.information + (1 - KEEP) * new.information,
            KEEP * old.sums + (1 - KEEP) * new.sums,
            new.higher,
        )
        for old, new in zip(before, now, strict=True)
    ]


def _tilt(about: Floats, scores: Floats) -> Floats:
    """`higher` of information about each item at scores, both of shape (draws, n)."""
    above, mean = scores > scores.mean(axis=0), about.mean(axis=0)
    summed = np.where(above, about, 0).sum(axis=0)
    known = (mean > 0) & above.any(axis=0)
    share = np.divide(summed, mean * above.sum(axis=0), out=np.ones_like(mean), where=known)
    return np.asarray(np.clip(share, LEAST_TILT, 2 - LEAST_TILT))


def _along_axes(normal: Floats, covariance: Floats, most: float) -> Floats:
    """Draws of a normal law of mean 0, shape (draws, n), along no axis of more than that spread."""
    if covariance.ndim == 1:
        return np.asarray(normal * np.minimum(np.sqrt(np.maximum(covariance, 0)), most))
    values, axes = np.linalg.eigh(covariance)
    root = np.minimum(np.sqrt(np.maximum(values, 0)), most)
    return np.asarray(((normal @ axes) * root) @ axes.T)


def _posteriors(
    seen: Sequence[_Seen], n_groups: int, unit: float, n_spreads: int
) -> tuple[list[_Posterior], float, float]:
    """Posterior of each group and of all rows, mean of t, and mean of s."""
    matrices = seen[0].information.ndim == 2
    axes = scipy.linalg.helmert(len(seen[0].sums)) if matrices else None  # scores that sum to zero
    known = [_Known.of(_along(each.information, axes), _point(each.sums, axes)) for each in seen]
    spreads = unit * np.concatenate([[0.0], np.geomspace(*SPREADS, n_spreads)])
    scales = unit * np.geomspace(*SCALES, n_spreads)
    known, also = known[:n_groups], known[n_groups:]
    given = [_Given.of(known, also, spread, scales, unit) for spread in spreads]
    weights = _weights(given, spreads)
    heavy = [(w, each) for w, each in zip(weights, given, strict=True) if w >= LEAST_WEIGHT]
    found = [_posterior(each, heavy, axes) for each in (*known, *also)]
    scale = float(weights @ np.array([each.scale for each in given]))
    return found, float(weights @ spreads), scale


@dataclass(frozen=True, slots=True)
class _Known:
    """A group's I_g along its own axes, on which (1 + t^2 I_g)^-1 is a diagonal for any t.

    Attributes:
        values: eigenvalues of I_g, shape (n,).
        axes: its eigenvectors, shape (n, n); None: I_g is a diagonal.
        sums: I_g x_g along them, shape (n,).
    """

    values: Floats
    axes: Floats | None
    sums: Floats

    @classmethod
    def of(cls, information: Floats, sums: Floats) -> _Known:
        if information.ndim == 1:
            return cls(information, None, sums)
        values, axes = np.linalg.eigh(information)
        return cls(np.maximum(values, 0), axes, sums @ axes)

    def kept(self, squared: float) -> Floats:
        """(1 + t^2 I_g)^-1, which is also 1 - t^2 A_g."""
        return np.asarray(1 / (1 + squared * self.values))

    def matrix(self, diagonal: Floats) -> Floats:
        """A matrix that is a diagonal along these axes."""
        return diagonal if self.axes is None else (self.axes * diagonal) @ self.axes.T

    def back(self, vector: Floats) -> Floats:
        """A vector along these axes, as it is along those of scores."""
        return vector if self.axes is None else self.axes @ vector

    def along(self, values: Floats) -> Floats:
        """A vector or matrix of scores, along these axes."""
        if self.axes is None:
            return values
        return values @ self.axes if values.ndim == 1 else self.axes.T @ values @ self.axes


@dataclass(frozen=True, slots=True)
class _Given:
    """Results for one t, over all s.

    Attributes:
        squared: t^2.
        covariance, mean: of mu.
        scale: mean of s.
        log_chance: log of the likelihood of t times its prior, s and mu integrated out, but for
            what does not depend on t.
    """

    squared: float
    covariance: Floats
    mean: Floats
    scale: float
    log_chance: float

    @classmethod
    def of(
        cls,
        known: Sequence[_Known],
        also: Sequence[_Known],
        spread: float,
        scales: Floats,
        unit: float,
    ) -> _Given:
        """Args: evidence of groups, and of all rows; t, values of s, and the unit of the scores."""
        squared = spread**2
        alone = _shared(known, squared)
        variances, means = _of_shared(alone, scales)
        logs = (np.log(variances) + means * alone.sums).sum(axis=1) / 2
        logs = logs - len(alone.sums) * np.log(scales) + _log_prior(spread, scales, unit)
        log = float(logsumexp(logs))
        chance = np.exp(logs - log)
        shared = _shared([*known, *also], squared) if also else alone
        variances, means = _of_shared(shared, scales)
        mean = chance @ means
        off = means - mean
        covariance = shared.matrix(chance @ variances)
        if shared.axes is None:
            covariance = covariance + chance @ off**2
        else:
            back = off @ shared.axes.T
            covariance = covariance + (back.T * chance) @ back
        # x'A x = x'I x - t^2 (I x)'(1 + t^2 I)^-1 (I x), whose first part does not depend on t.
        explained = squared * sum(float(each.kept(squared) @ each.sums**2) for each in known)
        size = sum(float(np.log(each.kept(squared)).sum()) for each in known)
        scale = float(chance @ scales)
        return cls(squared, covariance, shared.back(mean), scale, (size + explained) / 2 + log)


def _shared(known: Sequence[_Known], squared: float) -> _Known:
    """Sum of A_g and of A_g x_g: what groups say of mu if it is flat beforehand."""
    kept = [each.kept(squared) for each in known]
    weights = [each.matrix(each.values * k) for each, k in zip(known, kept, strict=True)]
    drawn = [each.back(k * each.sums) for each, k in zip(known, kept, strict=True)]
    return _Known.of(sum(weights[1:], weights[0]), sum(drawn[1:], drawn[0]))


def _of_shared(shared: _Known, scales: Floats) -> tuple[Floats, Floats]:
    """Diagonal of M, and mu', for each s along the axes of sum A_g; both of shape (scales, n)."""
    variances = 1 / (shared.values + scales[:, np.newaxis] ** -2)
    return variances, variances * shared.sums


def _log_prior(spread: float, scales: Floats, unit: float) -> Floats:
    """Log of the prior of s and t, and of the step between values of s."""
    of_scale = np.log(scales) - 2 * np.log1p((scales / unit) ** 2)
    of_spread = -np.log(scales) - np.log1p((spread / scales) ** 2)
    return np.asarray(of_scale + of_spread + np.log(np.gradient(scales)))


def _posterior(
    group: _Known, heavy: Sequence[tuple[float, _Given]], axes: Floats | None
) -> _Posterior:
    """Posterior of a group: the mean over t.

    Args:
        group: what its counts say.
        heavy: each t that counts, with its weight.
        axes: of scores that sum to zero; None: informations are diagonals.
    """
    weights = np.array([weight for weight, _ in heavy])
    means, covariance, own = [], np.zeros_like(heavy[0][1].covariance), 0.0
    for weight, given in heavy:
        kept, shared = group.kept(given.squared), given.covariance
        means.append(kept * (group.along(given.mean) + given.squared * group.sums))
        if axes is None:
            covariance += weight * (given.squared * kept + kept**2 * shared)
        else:
            covariance += weight * np.diag(given.squared * kept)
            covariance += weight * np.outer(kept, kept) * group.along(shared)
        own += weight * given.squared * float((group.values * kept).mean())
    mean = weights @ np.array(means)
    off = np.array(means) - mean
    if axes is None or group.axes is None:
        return _Posterior(mean, np.asarray(covariance + weights @ off**2), own)
    turned = axes.T @ group.axes
    covariance += (off.T * weights) @ off
    return _Posterior(np.asarray(turned @ mean), turned @ covariance @ turned.T, own)


def _weights(given: Sequence[_Given], spreads: Floats) -> Floats:
    """Posterior weight of each t."""
    log = np.array([each.log_chance for each in given]) + np.log(np.gradient(spreads))
    weights = np.exp(log - log.max())
    return np.asarray(weights / weights.sum())


def _estimate(found: _Posterior, drawn: float, higher: Floats, reach: float) -> Estimate:
    """Scores with intervals, rank intervals and groups of equals; `drawn` is r t / (t + s / 2)."""
    scores = np.clip(found.mean - found.mean.mean(), -reach, reach)
    errors = np.sqrt(np.maximum(_diagonal(found.covariance), 0))

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        half = _quantile(tail, drawn) * errors
        return np.clip(scores - half, -reach, reach), np.clip(scores + half, -reach, reach)

    if len(scores) > MOST_PAIRED:
        separation = separate_intervals(scores, ends_at)
    else:
        full = found.covariance if found.covariance.ndim == 2 else np.diag(found.covariance)
        spread = np.sqrt(difference_variance(full))
        apart = np.subtract.outer(scores, scores)

        def better_at(tail: float) -> NDArray[np.bool_]:
            return np.asarray((apart > _quantile(tail, drawn) * spread) & (apart > 0))

        separation = separate_pairs(scores, better_at, ends_at, full)
    low, high = _ends(scores, errors, found.own, higher)
    low, high = np.clip(low, -reach, reach), np.clip(high, -reach, reach)
    return estimate_of(scores, low, high, separation, errors=ScoreErrors(scores, found.covariance))


def _ends(scores: Floats, errors: Floats, own: float, higher: Floats) -> tuple[Floats, Floats]:
    """95 % intervals; the error's own part is larger on the side where counts say less."""
    below, above = reach_of_ends(scores, errors, _quantile(LEVEL / 2, 0.0), ENDS_MISSED)
    below = below / np.sqrt(1 - own + own * np.minimum(2 - higher, 1))
    above = above / np.sqrt(1 - own + own * np.minimum(higher, 1))
    return scores - below * errors, scores + above * errors


def _quantile(tail: float, drawn: float) -> float:
    return -float(ndtri(KEPT * tail * (1 - drawn)))


def _along(information: Floats, axes: Floats | None) -> Floats:
    if axes is None:
        return information
    found = axes @ information @ axes.T
    return np.asarray((found + found.T) / 2)


def _point(scores: Floats, axes: Floats | None) -> Floats:
    return scores if axes is None else np.asarray(axes @ scores)


# A diagonal matrix is its diagonal.


def _diagonal(matrix: Floats) -> Floats:
    return matrix if matrix.ndim == 1 else np.diagonal(matrix)


def _times(matrix: Floats, vector: Floats) -> Floats:
    return np.asarray(matrix * vector if matrix.ndim == 1 else matrix @ vector)
