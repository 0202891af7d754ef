"""Item difficulties with intervals, from released sheet totals.

An interval covers one true difficulty with 95 %, whatever the abilities are. Its variance has two
parts, privacy noise and the sampling of people; what the ridge draws to zero is undone, so it is
not in the interval's centre (`conditional_fit`). All of it is computed from what was released, so
it is post-processing.

Anchors are items whose difficulties a_i are fixed, such as those of an item bank. The scale moves
as a whole, so that the mean of b_i - a_i over the anchors is 0, weighted by w_i in proportion to
one over the variance of b_i; then b has the covariance (I - 1 w') S (I - 1 w')', as the a_i are
exact.
Of anchors that nothing bounds on one side only the others count. An anchor moved where b_i - a_i
leaves out zero at the level of Bonferroni for all anchors.

Differences of an item's difficulty between two groups of people (DIF), from released totals.

Each group is fitted by itself, so groups may differ in ability as they like. With b_i in the one
and b_i' in the other group, d_i = b_i' - b_i less its mean over the items: each scale has its own
zero, so only relative differences mean something. The two errors are independent, as nobody is in
two groups and each number has noise of its own; so the covariance of d is the sum of both, centred.

An item clearly differs where its interval at the level of Bonferroni, for all items and all pairs
of groups that are compared, leaves out zero. Its size follows the rule of ETS [ZH93] for
D = 2.35 d: C if |D| is 1.5 or more and clearly above 1, B if it is 1 or more and clearly not 0
(both at 5 % for one item), else A.

Noise in the difficulties of a typical test, by two methods, from public facts alone.

Abilities and difficulties are taken to be standard normal, the latter at the quantiles of that law.
What an answer tells does not depend on how many people there are, and both methods learn about as
much from answers, so the one with less noise here is the better one for any number of people.
Simulated errors of both methods differ as these do: by 0 to 10 % for 5 to 28 items with Gaussian
noise, by 15 to 30 % for 100 to 600, and 4 to 20 times with Laplace noise.

References:
    [ZH93] Zieky. Practical questions in the use of DIF statistics in test development. 1993.
    [HT88] Holland, Thayer. Differential item performance and the Mantel-Haenszel procedure. 1988.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from hushrank.estimation.common.estimate import Estimate, estimate_of, nothing_learned
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.pair_separation import (
    ScoreErrors,
    difference_variance,
    separate_pairs,
)
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.estimation.responses.conditional_fit import ConditionalFit, fit_totals
from hushrank.estimation.responses.sheet_totals import SheetShape, SheetTotals
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.units import NoiseKind

CLEAR_SHEETS = 4.0  # standard deviations of noise by which the number of sheets must exceed zero
CLOSE = 6.0  # by which the number of sheets exceeds its noise where that doubles errors
LEAST_VARIANCE = 1e-12  # of an anchor's difficulty, so that its weight is finite
CONFIRMED = 3.0  # by which noise must leave room for a wrong answer, and for a right one
FURTHEST_SPREAD = 0.45  # of difficulties, relative to that of answers, that a prediction takes
OF_KNOTS = 0.04  # of H's noise at each knot, about so much goes to the balance of an item


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsEstimate:
    """Difficulties of m items, and what they rest on.

    Attributes:
        estimate: scores are difficulties, so rank 1 is the hardest item. Without anchors those of
            items that are bounded on both sides sum to zero; those of all, if there are none.
        fit: the difficulties with their covariance, on this scale; None: nothing is learned.
        no_lower_limit: items of which no wrong answer is confirmed, shape (m,).
        no_upper_limit: items of which no right answer is confirmed.
        moved_anchors: by code, how much harder than its fixed difficulty an anchor clearly is.
    """

    estimate: Estimate
    fit: ConditionalFit | None
    no_lower_limit: NDArray[np.bool_]
    no_upper_limit: NDArray[np.bool_]
    moved_anchors: Mapping[int, float] = field(default_factory=dict)


def estimate_from_totals(
    totals: SheetTotals, law: NoiseLaw, anchors: Mapping[int, float] | None = None
) -> TotalsEstimate:
    """Difficulties from released totals, with intervals.

    Args:
        totals: released.
        law: of the noise in one entry.
        anchors: fixed difficulties by code; None: the mean of all items is zero.

    Returns:
        Difficulties; not `informative` where the number of sheets of an item does not stand clear
        of noise, or where hardly any sheet has some points and not all.

    Raises:
        ValueError: the totals are confidential.
        ConvergenceError: the totals cannot be fitted.
    """
    if totals.confidential:
        raise ValueError("totals are confidential: only released ones may be estimated from")
    shape, n = totals.shape, totals.n_items
    people, room = np.zeros(n), np.zeros(n)
    for items, histogram in zip(shape.booklets, totals.histograms, strict=True):
        people[list(items)] += histogram.sum() / shape.sheet_weight
        room[list(items)] += len(histogram) * law.variance / shape.sheet_weight**2
    half = totals.right_minus_wrong / (2 * shape.answer_weight)
    counted = (people > CLEAR_SHEETS * np.sqrt(room)).all() and (people > 0).all()
    fit = fit_totals(totals, law.variance) if counted else None
    if fit is None or not fit.informed:
        nobody = np.zeros(n, np.bool_)
        estimate = nothing_learned(np.zeros(n), rank=np.full(n, (n + 1) / 2))
        return TotalsEstimate(
            estimate=estimate, fit=None, no_lower_limit=nobody, no_upper_limit=nobody
        )
    fit = fit.widened(errors_of_the_chosen(people, np.sqrt(room)))
    of_half = shape.bands * law.variance / (2 * shape.answer_weight) ** 2
    reach = people / 2 - CONFIRMED * np.sqrt(of_half + room / 4)  # half of people has noise too
    easy, hard = half >= reach, -half >= reach
    if (limited := ~(easy | hard)).any():
        fit = fit.with_zero(limited / limited.sum())
    moved: dict[int, float] = {}
    if anchors:
        fit, moved = _anchored(fit, law, anchors, limited)
    return TotalsEstimate(
        estimate=informative_estimate(fit, law, easy, hard),
        fit=fit,
        no_lower_limit=easy,
        no_upper_limit=hard,
        moved_anchors=moved,
    )


def errors_of_the_chosen(people: Floats, noise: Floats) -> Floats:
    """Factor of errors, 1 + (`CLOSE` noise / people)^3: what difficulties lose by being published.

    They are published if the noisy number of sheets stands clear of its noise. If it does so by
    little, it was most likely drawn too large, and with it the curvature of the likelihood is. Of
    draws that are published, intervals without this factor then hold an item in as few as 74 % (5
    items, 100 people, Laplace noise of epsilon 0.5; 62 of 1,000 draws), with it in 93 % or more.
    Where the number is 20 times its noise, the factor is 1.03. It was found by simulation on one
    set of seeds and checked on another, not derived.

    Args:
        people: noisy number of sheets with each item, above zero.
        noise: its standard deviation.
    """
    return np.asarray(1 + (CLOSE * noise / people) ** 3)


def _anchored(
    fit: ConditionalFit, law: NoiseLaw, anchors: Mapping[int, float], limited: NDArray[np.bool_]
) -> tuple[ConditionalFit, dict[int, float]]:
    """The fit on the scale of anchors, and how far those are off that clearly moved."""
    codes = np.array([code for code in anchors if limited[code]] or [*anchors])
    fixed = np.array([anchors[code] for code in codes.tolist()])
    weights = np.zeros(len(limited))
    weights[codes] = 1 / np.maximum(np.diagonal(fit.covariance)[codes], LEAST_VARIANCE)
    weights /= weights.sum()
    fit = fit.with_zero(weights)
    shift = float(weights[codes] @ fixed)
    fit = replace(fit, difficulty=fit.difficulty + shift, unbiased=fit.unbiased + shift)
    whole, noise = (np.maximum(np.diagonal(each)[codes], 0) for each in (fit.covariance, fit.noise))
    share = np.clip(np.divide(noise, whole, out=np.zeros_like(whole), where=whole > 0), 0, 1)
    off = fit.unbiased[codes] - fixed
    clear = np.abs(off) > quantile(share, LEVEL / (2 * len(codes)), law.kind, 1) * np.sqrt(whole)
    clear &= limited[codes]
    return fit, dict(zip(codes[clear].tolist(), off[clear].tolist(), strict=True))


def informative_estimate(
    fit: ConditionalFit, law: NoiseLaw, easy: NDArray[np.bool_], hard: NDArray[np.bool_]
) -> Estimate:
    """Scores, intervals and ranks from a fit.

    Args:
        fit: difficulties with their errors.
        law: of the noise in one entry.
        easy, hard: items whose intervals have no lower end, no upper end.
    """
    variance = np.maximum(np.diagonal(fit.covariance), 0)
    noise = np.diagonal(fit.noise)
    between, between_noise = difference_variance(fit.covariance), difference_variance(fit.noise)
    gap, ahead = (b[:, np.newaxis] - b for b in (fit.unbiased, fit.difficulty))

    def reach(whole: Floats, private: Floats, tail: float, draws: int) -> Floats:
        share = np.divide(private, whole, out=np.zeros_like(whole), where=whole > 0)
        # An item's error is nearly all the noise in its own total; a difference has two.
        shown = quantile(np.clip(share, 0, 1), tail, law.kind, draws)
        return np.asarray(shown * np.sqrt(whole))

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        half = reach(variance, noise, tail, 1)
        low, high = np.where(easy, -np.inf, fit.unbiased - half), fit.unbiased + half
        return low, np.where(hard, np.inf, high)

    def better_at(tail: float) -> NDArray[np.bool_]:
        margin = reach(between, between_noise, tail, 2)
        bounded = ~easy[:, np.newaxis] & ~hard
        return np.asarray((gap > margin) & (ahead > 0) & bounded)

    separation = separate_pairs(fit.difficulty, better_at, ends_at)
    open_ended = easy.any() or hard.any()
    found = estimate_of(
        fit.difficulty,
        *ends_at(LEVEL / 2),
        separation,
        errors=None if open_ended else ScoreErrors(fit.unbiased, fit.covariance),
        noise_share=np.divide(noise, variance, out=np.zeros_like(noise), where=variance > 0),
    )
    return replace(found, deviation=np.sqrt(variance))


def predicted_noise(shape: SheetShape, law: NoiseLaw) -> float:
    """Variance of the noise in half of an item's right minus wrong, less what scores expect."""
    knots = shape.n_entries - shape.n_answers
    of_half = shape.bands * law.variance / (2 * shape.answer_weight) ** 2
    return of_half + OF_KNOTS * knots * law.variance / shape.sheet_weight**2


def predicted_error(
    sheets: float, sheet_items: int, ability_spread: float, spread: float, noise: float
) -> float:
    """Root mean square error of difficulties, from public facts.

    The logistic curve's slope is near that of a normal law of variance 8 / pi. So an answer of
    somebody of unknown ability tells of an item of difficulty b by k(b), a normal density of
    variance w = 8 / pi + (spread of abilities)^2. Over items of spread s the mean of 1 / k(b) is
    (1 / k(0)) / sqrt(1 - s^2 / w), and that of 1 / k(b)^2 (1 / k(0)^2) / sqrt(1 - 2 s^2 / w).

    Args:
        sheets: how many sheets have an item.
        sheet_items: K, items of a sheet.
        ability_spread: standard deviation of abilities.
        spread: of difficulties.
        noise: as of `predicted_noise`.
    """
    width = 8 / math.pi + ability_spread**2
    known = sheets / math.sqrt(2 * math.pi * width)
    uneven = min(spread**2 / width, FURTHEST_SPREAD)
    sampling = 1 / known / math.sqrt(1 - uneven)
    private = noise / known**2 / math.sqrt(1 - 2 * uneven)
    return math.sqrt((1 - 1 / sheet_items) * (sampling + private))


DELTA = 2.35  # D of ETS in a unit of log odds
MODERATE, LARGE = 1.0, 1.5  # |D| from which a difference is of size B, and of size C
FEWEST = 3  # items that can be compared


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDifferences:
    """How much harder items are in one group than in another; shape (k,) each.

    Attributes:
        item: codes of the items whose difficulty is bounded on both sides in both groups.
        difference: d, above zero where the item is harder in the second group.
        error: its standard error.
        low, high: 95 % interval of each difference alone.
        differs: whether it is not zero, with 95 % confidence for all that are compared.
        size: 0, 1 or 2 for A, B or C.
    """

    item: NDArray[np.int64]
    difference: Floats
    error: Floats
    low: Floats
    high: Floats
    differs: NDArray[np.bool_]
    size: NDArray[np.int64]


def item_differences(
    first: TotalsEstimate, second: TotalsEstimate, kind: NoiseKind, comparisons: int
) -> ItemDifferences | None:
    """Compare the difficulties of two groups; None: nothing can be told.

    Args:
        first: of the group that is compared with.
        second: of the other group, with the same items.
        kind: law of the noise.
        comparisons: pairs of groups that are compared in all.
    """
    if first.fit is None or second.fit is None:
        return None
    both = (first, second)
    open_ended = np.any([each.no_lower_limit | each.no_upper_limit for each in both], axis=0)
    item = np.flatnonzero(~open_ended)
    if len(item) < FEWEST:
        return None
    own = np.ix_(item, item)
    centre = np.eye(len(item)) - 1 / len(item)
    difference = centre @ (second.fit.unbiased - first.fit.unbiased)[item]
    whole, noise = (
        np.maximum(np.einsum("ij,jk,ik->i", centre, covariance[own], centre), 0)
        for covariance in (
            first.fit.covariance + second.fit.covariance,
            first.fit.noise + second.fit.noise,
        )
    )
    error = np.sqrt(whole)
    share = np.clip(np.divide(noise, whole, out=np.zeros_like(whole), where=whole > 0), 0, 1)

    def reach(tail: float) -> Floats:
        return np.asarray(quantile(share, tail, kind, 2) * error)  # two totals: one a group

    far, alone = np.abs(difference), reach(LEVEL / 2)
    large = (far >= LARGE / DELTA) & (far - reach(LEVEL) > MODERATE / DELTA)
    moderate = (far >= MODERATE / DELTA) & (far > alone)
    return ItemDifferences(
        item=item,
        difference=difference,
        error=error,
        low=difference - alone,
        high=difference + alone,
        differs=far > reach(LEVEL / (2 * len(item) * comparisons)),
        size=np.where(large, 2, moderate.astype(np.int64)),
    )


ABILITIES = 21  # nodes of the normal law
MOST_QUANTILES = 200  # difficulties of longer tests lie as these


def noise_from_totals(items: int, asked: float, variance: float) -> float:
    """Standard deviation of the noise in a difficulty, times the number of people.

    Args:
        items: of the catalogue.
        asked: share of people who are asked an item.
        variance: of the noise in half of right less wrong (`totals_estimate.predicted_noise`).
    """
    right, _, chance = _typical(items)
    slope = chance @ (right * (1 - right))
    return math.sqrt(variance * float(np.mean(1 / np.square(asked * slope))))


def noise_from_pairs(items: int, degree: float, asked: float, variance: float) -> float:
    """The same of measurements of pairs: right on one item and wrong on the other, both ways.

    Args:
        items: of the catalogue.
        degree: pairs of an item that are measured.
        asked: share of people who are asked both items of such a pair.
        variance: of the noise in a count.
    """
    right, difficulty, chance = _typical(items)
    one = (chance[:, np.newaxis] * right).T @ (1 - right)
    wrong = expit(difficulty[:, np.newaxis] - difficulty)
    slope = asked * (one + one.T) * wrong * wrong.T
    told = np.square(slope) / (variance * (np.square(wrong) + np.square(wrong.T)))
    np.fill_diagonal(told, 0.0)
    of_item = told.sum(axis=1) * degree / (len(difficulty) - 1)
    return math.sqrt(float(np.mean(1 / of_item)))


def _typical(items: int) -> tuple[Floats, Floats, Floats]:
    """Chance of a right answer by ability and item, difficulties, and chance of each ability."""
    n = min(items, MOST_QUANTILES)
    difficulty = ndtri((np.arange(n) + 0.5) / n)
    ability, weight = hermegauss(ABILITIES)
    return expit(ability[:, np.newaxis] - difficulty), difficulty, weight / weight.sum()
