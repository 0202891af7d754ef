"""Conditional maximum likelihood of the Rasch model, from sheet totals that may hold noise.

Given a raw score r, the chance of a right answer to item i depends on difficulties b alone:
p_i(r) = e^-b_i g_{r-1}(others) / g_r, with g the elementary symmetric functions of e^-b. Half of
right minus wrong of item i, less what histograms H expect of it,

    u_i = Z_i / 2 - sum over r of H_r (p_i(r) - 1/2),

is zero in expectation at the true b, whatever the abilities are, and is linear in the noisy
numbers. So the solution of u_i + k_i b_i = 0, sum b = 0, has no bias but that of the ridge,
k_i = (1 + noise_i / V_ii) / RIDGE_SD^2, which keeps noise from driving an item away. (u rises with
b_i, so a ridge that draws towards zero is added.) V is the covariance of right answers given raw
scores: the slope of u, and the covariance of what sampling adds to u. The covariance of b is
V^+ (V + s^2 I + t^2 F F') V^+, where s and t are the noise in Z / 2 and in H, F_ir = p_i(r) - 1/2.

p_i(r) comes from any ability at which the score is r on average. The law of the score there is a
Poisson binomial; an item is taken out of it by the recursion, upwards or downwards, in which
rounding dies out.

How well items fit the Rasch model, from right less wrong answers by bands of raw scores.

Given a raw score, the model says how often each item is right. Of item i and the sheets of band b,

    R_b = Z_ib / 2 - sum over scores r in b of H_r (p_i(r) - 1/2)

is what they were right more often than that, noise included. Its variance is

    V_b = sum of H_r p_i(r) (1 - p_i(r)) + s^2 + t^2 sum of (p_i(r) - 1/2)^2,

where s and t are the noise in Z / 2 and in H. The difficulty is fitted to the sum over bands, so

    Q_i = sum of R_b^2 / V_b - (sum of R_b)^2 / sum of V_b

has about a chi-squared law with bands - 1 degrees of freedom where the model holds ([M85] for exact
counts). An item misfits where Q_i is beyond the limit of Bonferroni for all items. It is steeper
than the model says where those with more points are right more often than expected.

References:
    [M85] Molenaar. Some improved diagnostics for failure of the Rasch model. 1983.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, expit

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.responses.knots import ScoreHistogram, chances_at_all_scores
from hushrank.estimation.responses.sheet_totals import Integers, SheetTotals

RIDGE_SD = 2.0  # of the normal law by which the ridge draws difficulties to their mean
EXACT_ITEMS = 60  # of a booklet up to which V is exact; beyond, items are nearly independent
NEARLY_EQUAL = 1e-5  # difficulties nearer than this are moved apart for the exact V
FLAT = 1e-6  # of a sheet: so little is told of an item by whoever answers it as everything else
HALF = 0.5
HALVINGS = 40  # of the range of abilities; the score need not be met exactly
LEAST_DAMPING = 1 / 16
MOST_STEPS, LONGEST_STEP, CLOSE = 200, 1.0, 1e-6


def probabilities_at_scores(difficulty: Floats, scores: Integers) -> Floats:
    """Chance of a right answer to each item given a raw score, shape (scores, k)."""
    n = len(difficulty)
    probabilities = np.zeros((len(scores), n))
    probabilities[scores == n] = 1.0
    inner = (scores > 0) & (scores < n)
    score = scores[inner][:, np.newaxis]
    if len(score):
        probabilities[inner] = _inner_probabilities(difficulty, score)
    return probabilities


def _inner_probabilities(difficulty: Floats, score: Integers) -> Floats:
    low = np.full(score.shape, difficulty.min() - 40.0)
    high = np.full(score.shape, difficulty.max() + 40.0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = expit(middle - difficulty).sum(axis=1, keepdims=True) > score
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    right = expit((low + high) / 2 - difficulty)
    law, before = score_law(right), np.zeros(right.shape)
    for r, others, known in laws_without_item(law, right):
        before = np.where((score == r + 1) & known, others, before)
    return np.asarray(right * before / np.take_along_axis(law, score, axis=1))


def laws_without_item(
    law: Floats, right: Floats
) -> Iterator[tuple[int, Floats, NDArray[np.bool_]]]:
    """Chance of each raw score of all items but one, score by score, in two passes.

    Args:
        law: of the raw score of all, shape (rows, k + 1).
        right: chance of a right answer to each item, shape (rows, k).

    Yields:
        The score, the chance of it without each item, shape (rows, k), and where that holds: in
        each cell in one of the two passes.
    """
    rare, common = np.where(right < 0.5, right, 0.0), np.where(right < 0.5, 1.0, right)
    others = np.zeros(right.shape)
    for r in range(right.shape[1]):  # without an item that is seldom right, from the lower end
        others = (law[:, r, np.newaxis] - rare * others) / (1 - rare)
        yield r, others, right < 0.5
    others = np.zeros(right.shape)
    for r in range(right.shape[1], 0, -1):  # one that is often right, from the upper end
        others = (law[:, r, np.newaxis] - (1 - common) * others) / common
        yield r - 1, others, right >= 0.5


def score_law(right: Floats) -> Floats:
    """The law of the raw score of independent answers, shape (rows, k + 1)."""
    law = np.zeros((len(right), right.shape[1] + 1))
    law[:, 0] = 1.0
    for item in range(right.shape[1]):
        chance = right[:, item, np.newaxis]
        law[:, 1:] = law[:, 1:] * (1 - chance) + law[:, :-1] * chance
        law[:, 0] *= 1 - chance[:, 0]
    return law


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionalFit:
    """Difficulties from sheet totals.

    Attributes:
        difficulty: b, shape (n,), sum zero, or as `with_zero` says.
        unbiased: b without the ridge's pull, to first order.
        covariance: shape (n, n), of the errors of `unbiased`.
        noise: the part of it that noise makes.
        people: sheets with each item, noise included, shape (n,).
        kept: smallest share of an item's difficulty that the ridge leaves.
        informed: whether it leaves half of some item's; else scores of people tell nothing, as
            where all sheets have no point or all points.
    """

    difficulty: Floats
    unbiased: Floats
    covariance: Floats
    noise: Floats
    people: Floats
    kept: float
    informed: bool

    def with_zero(self, weights: Floats) -> ConditionalFit:
        """The same differences, on a scale whose zero is the weighted mean.

        An item that may lie anywhere has no weight: it would take the zero with it, and with that
        the scores of all others.

        Args:
            weights: shape (n,), of sum 1.
        """
        centre = np.eye(len(weights)) - weights
        return replace(
            self,
            difficulty=centre @ self.difficulty,
            unbiased=centre @ self.unbiased,
            covariance=centre @ self.covariance @ centre.T,
            noise=centre @ self.noise @ centre.T,
        )

    def widened(self, by: Floats) -> ConditionalFit:
        """The same difficulties; errors are `by` times as large, shape (n,) or ()."""
        factors = np.multiply.outer(by, by)
        return replace(self, covariance=self.covariance * factors, noise=self.noise * factors)


@dataclass(frozen=True, slots=True)
class _State:
    """u, V and F at some difficulties."""

    balance: Floats
    curvature: Floats
    loadings: Floats


@dataclass(frozen=True, slots=True)
class RealCounts:
    """Totals as real numbers: half of right minus wrong, and sheets by raw score."""

    half: Floats
    booklets: tuple[Integers, ...]
    histograms: tuple[ScoreHistogram, ...]

    @property
    def people(self) -> Floats:
        """Sheets with each item."""
        found = np.zeros(len(self.half))
        for items, histogram in zip(self.booklets, self.histograms, strict=True):
            found[items] += histogram.people
        return found

    def at(self, difficulty: Floats) -> _State:
        """What the equations are at some difficulties."""
        balance, n = self.half.copy(), len(difficulty)
        curvature, loadings = np.zeros((n, n)), []
        for items, histogram in zip(self.booklets, self.histograms, strict=True):
            chance = right_at_scores(difficulty[items], histogram)
            part = np.zeros((n, len(histogram.knots)))
            part[items] = histogram.at_knots(chance).T - 0.5
            balance -= part @ histogram.sheets
            curvature[np.ix_(items, items)] += curvature_of(difficulty[items], histogram, chance)
            loadings.append(part)
        return _State(balance, curvature, np.concatenate(loadings, axis=1))


def right_at_scores(difficulty: Floats, histogram: ScoreHistogram) -> Floats:
    """Chance of a right answer to each item given each raw score, shape (K + 1, k)."""

    def of_points(scores: Integers) -> Floats:
        right = probabilities_at_scores(difficulty, scores)
        return np.stack([1 - right, right], axis=2)

    return np.asarray(chances_at_all_scores(of_points, histogram.knots)[..., 1])


def curvature_of(difficulty: Floats, histogram: ScoreHistogram, chance: Floats) -> Floats:
    """Covariance of the answers of sheets given their scores, summed over sheets, shape (k, k).

    Of few items it is exact: given r, the chance to be right on i and wrong on j is
    (p_i - p_j) / (1 - e^(b_i - b_j)).

    Args:
        difficulty: b, shape (k,).
        histogram: of the sheets.
        chance: p at all scores, shape (k + 1, k).
    """
    weights = histogram.weights
    if len(difficulty) > EXACT_ITEMS:
        own = chance * (1 - chance)
        total = own.sum(axis=1)  # 0 where the score is 0 or full
        share = np.divide(weights, total, out=np.zeros_like(total), where=total > 0)
        scaled = own * np.sqrt(share)[:, np.newaxis]
        return np.asarray(np.diag(weights @ own) - scaled.T @ scaled)
    order, places = np.argsort(difficulty, kind="stable"), NEARLY_EQUAL * np.arange(len(difficulty))
    spread = np.empty(len(difficulty))
    spread[order] = np.maximum.accumulate(difficulty[order] - places) + places
    if (spread != difficulty).any():
        chance = right_at_scores(spread, histogram)
    right, gap = weights @ chance, spread[:, np.newaxis] - spread
    np.fill_diagonal(gap, 1.0)
    one_right = (right[:, np.newaxis] - right) / -np.expm1(gap)
    covariance = right[:, np.newaxis] - one_right - (chance * weights[:, np.newaxis]).T @ chance
    np.fill_diagonal(covariance, 0.0)
    covariance = (covariance + covariance.T) / 2
    np.fill_diagonal(covariance, -covariance.sum(axis=1))
    return np.asarray(covariance)


@dataclass(frozen=True, slots=True)
class _Noise:
    """Variance of the noise in half of right less wrong, and in a number of sheets; the ridge."""

    of_half: float
    of_sheets: float
    ridge: float
    least: float  # V of an item counts as so much, which keeps the ridge finite

    def pull(self, state: _State) -> tuple[Floats, Floats]:
        """Weight of the ridge for each item, and the part of it that noise makes."""
        own = np.maximum(np.diagonal(state.curvature), self.least)
        added = self.of_half + self.of_sheets * np.square(state.loadings).sum(axis=1)
        return self.ridge * (1 + added / own), self.ridge * added / own


def fit_totals(totals: SheetTotals, variance: float) -> ConditionalFit:
    """Fit difficulties to released totals.

    Args:
        totals: of whole sheets; of each booklet more sheets than noise could make.
        variance: of the noise in each entry; 0: there is none. Then there is no ridge either, where
            the maximum of the likelihood is known to exist.

    Raises:
        ConvergenceError: no solution was found.
    """
    counts, shape, n = real_counts(totals), totals.shape, totals.n_items
    noise = _Noise(
        of_half=shape.bands * variance / (2 * shape.answer_weight) ** 2,
        of_sheets=variance / shape.sheet_weight**2,
        ridge=0.0 if variance == 0 and _exists(counts) else 1 / RIDGE_SD**2,
        least=FLAT * float(counts.people.max()),
    )
    difficulty, state = _solve(counts, noise)
    pull, _ = noise.pull(state)
    inverse = inverse_of_centred(state.curvature)
    spread = noise.of_half * np.eye(n) + noise.of_sheets * state.loadings @ state.loadings.T
    private = inverse @ spread @ inverse
    shifted = inverse @ (pull * difficulty)
    own = np.maximum(np.diagonal(state.curvature), 0)
    kept = own / np.maximum(own + pull, np.finfo(np.float64).tiny)
    return ConditionalFit(
        difficulty=difficulty,
        unbiased=difficulty + shifted - shifted.mean(),
        covariance=inverse + private,
        noise=private,
        people=counts.people,
        kept=float(kept.min()),
        informed=bool(kept.max() >= HALF),
    )


def inverse_of_centred(curvature: Floats) -> Floats:
    """Pseudo-inverse of a matrix whose rows add up to zero.

    That direction is made as large as the others and taken off again: rounding leaves it a tiny
    eigenvalue, which a pseudo-inverse could take for information.
    """
    n, scale = len(curvature), float(np.trace(curvature))
    constant = np.full((n, n), scale / n**2)
    inverse = np.linalg.pinv(curvature + constant, hermitian=True)
    inverse = inverse - inverse.mean()
    return np.asarray((inverse + inverse.T) / 2, np.float64)


def _solve(counts: RealCounts, noise: _Noise) -> tuple[Floats, _State]:
    """Damped Newton steps from 0 to u + k b = 0, sum b = 0."""
    n = len(counts.half)
    difficulty, before, damping = np.zeros(n), np.inf, 1.0
    for _ in range(MOST_STEPS):
        state = counts.at(difficulty)
        pull, by_noise = noise.pull(state)
        steeper = by_noise * np.abs(difficulty)  # V falls as an item moves away
        flat = float(np.trace(state.curvature)) / n**2  # V says nothing of the sum
        system = state.curvature + np.diag(pull + steeper) + flat
        wanted = np.linalg.solve(
            system, np.column_stack([-state.balance - pull * difficulty, np.ones(n)])
        )
        move = wanted[:, 0] - wanted[:, 1] * (wanted[:, 0].sum() / wanted[:, 1].sum())
        longest = float(np.abs(move).max())
        if longest < CLOSE:
            return difficulty, state
        if not np.isfinite(longest):
            raise ConvergenceError("difficulties are not finite")
        damping = min(1.0, 1.2 * damping) if longest < before else max(damping / 2, LEAST_DAMPING)
        before = longest
        difficulty = difficulty + move * damping * min(1.0, LONGEST_STEP / longest)
        difficulty -= difficulty.mean()
    if longest < NEARLY_EQUAL:  # items of equal totals are moved apart and back, by less than this
        return difficulty, counts.at(difficulty)
    raise ConvergenceError(f"difficulties still move by {longest:.3g}")


def real_counts(totals: SheetTotals) -> RealCounts:
    """Divide released totals by their public weights."""
    shape = totals.shape
    return RealCounts(
        half=totals.right_minus_wrong / (2 * shape.answer_weight),
        booklets=tuple(np.array(items) for items in shape.booklets),
        histograms=tuple(
            ScoreHistogram.of(entries, shape.knots(booklet), shape.sheet_weight)
            for booklet, entries in enumerate(totals.histograms)
        ),
    )


def _exists(counts: RealCounts) -> bool:
    """Whether exact totals have a maximum of the likelihood: no set of items is a ladder.

    There is none if some k items got every point that sheets could have put there: if the k items
    of most right answers have the sum over sheets of min(r, k). Known of one booklet only.
    """
    if len(counts.booklets) > 1:
        return False
    (histogram,) = counts.histograms
    knots, sheets = histogram.knots, histogram.sheets
    right = np.sort(counts.half + sheets.sum() / 2)[::-1].cumsum()[:-1]
    most = [float(sheets @ np.minimum(knots, k)) for k in range(1, len(counts.half))]
    return bool((right < np.array(most) - 0.5).all())


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFit:
    """Fit of each item, in catalogue order; shape (n,) each.

    Attributes:
        statistic: Q.
        degrees: of freedom.
        chance: to see so large a Q or a larger one where the model holds.
        misfits: whether it does not hold, with 95 % confidence for all items together.
        steeper: whether people with more points are right more often than the model says.
    """

    statistic: Floats
    degrees: NDArray[np.int64]
    chance: Floats
    misfits: NDArray[np.bool_]
    steeper: NDArray[np.bool_]


def item_fit(totals: SheetTotals, fit: ConditionalFit, variance: float) -> ItemFit:
    """Compare each item with the model.

    Args:
        totals: released, with two bands or more.
        fit: to these totals.
        variance: of the noise in one entry.

    Raises:
        ValueError: there are no bands.
    """
    shape, counts = totals.shape, real_counts(totals)
    if shape.bands < 2:
        raise ValueError("the fit of items needs two bands of raw scores or more")
    more = totals.by_band / (2 * shape.answer_weight)
    of_half = variance / (2 * shape.answer_weight) ** 2
    spread = np.full(more.shape, of_half)
    parts = zip(counts.booklets, counts.histograms, strict=True)
    for booklet, (items, histogram) in enumerate(parts):
        chance = right_at_scores(fit.unbiased[items], histogram)
        expected, starts = histogram.at_knots(chance) - 0.5, shape.band_starts(booklet)
        of_knot, of_score = (
            np.searchsorted(starts, scores, side="right") - 1
            for scores in (histogram.knots, histogram.scores)
        )
        for number in range(shape.bands):
            own, sheets = of_score == number, of_knot == number
            off = expected[sheets]
            more[number, items] -= histogram.sheets[sheets] @ off
            sampled = histogram.weights[own] @ (chance[own] * (1 - chance[own]))
            noise = variance / shape.sheet_weight**2 * np.square(off).sum(axis=0)
            spread[number, items] += sampled + noise
    told = spread > 0
    share = np.divide(1, spread, out=np.zeros_like(spread), where=told)
    statistic = (np.square(more) * share).sum(axis=0)
    statistic -= np.square(more.sum(axis=0)) / np.maximum(spread.sum(axis=0), 1e-300)
    degrees = np.maximum(told.sum(axis=0) - 1, 0)
    chances = np.where(degrees > 0, chdtrc(np.maximum(degrees, 1), np.maximum(statistic, 0)), 1.0)
    places = np.arange(shape.bands)[:, np.newaxis] * told
    mean = (places * spread).sum(axis=0) / np.maximum(spread.sum(axis=0), 1e-300)
    return ItemFit(
        statistic=np.maximum(statistic, 0),
        degrees=degrees,
        chance=chances,
        misfits=chances < LEVEL / totals.n_items,
        steeper=((places - mean) * more).sum(axis=0) > 0,
    )
