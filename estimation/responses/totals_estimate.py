"""Item difficulties with intervals, from released sheet totals.

An interval covers one true difficulty with 95 %, whatever the abilities are. Its variance has two
parts, privacy noise and the sampling of people; what the ridge draws to zero is undone, so it is
not in the interval's centre (`conditional_fit`). All of it is computed from what was released, so
it is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import Estimate, estimate_of, nothing_learned
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.pair_separation import difference_variance, separate_pairs
from hushrank.estimation.common.probabilities import ScoreErrors
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.estimation.responses.conditional_fit import ConditionalFit, fit_totals
from hushrank.estimation.responses.sheet_totals import SheetShape, SheetTotals
from hushrank.privacy.noise import NoiseLaw

CLEAR_SHEETS = 4.0  # standard deviations of noise by which the number of sheets must exceed zero
CONFIRMED = 3.0  # by which noise must leave room for a wrong answer, and for a right one
FURTHEST_SPREAD = 0.45  # of difficulties, relative to that of answers, that a prediction takes
OF_KNOTS = 0.04  # of H's noise at each knot, about so much goes to the balance of an item


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsEstimate:
    """Difficulties of m items, and what they rest on.

    Attributes:
        estimate: scores are difficulties, so rank 1 is the hardest item. Those of items that are
            bounded on both sides sum to zero; those of all, if there are none.
        fit: the difficulties with their covariance, on this scale; None: nothing is learned.
        no_lower_limit: items of which no wrong answer is confirmed, shape (m,).
        no_upper_limit: items of which no right answer is confirmed.
    """

    estimate: Estimate
    fit: ConditionalFit | None
    no_lower_limit: NDArray[np.bool_]
    no_upper_limit: NDArray[np.bool_]


def estimate_from_totals(totals: SheetTotals, law: NoiseLaw) -> TotalsEstimate:
    """Difficulties from released totals, with intervals.

    Args:
        totals: released.
        law: of the noise in one entry.

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
    of_half = shape.bands * law.variance / (2 * shape.answer_weight) ** 2
    reach = people / 2 - CONFIRMED * np.sqrt(of_half + room / 4)  # half of people has noise too
    easy, hard = half >= reach, -half >= reach
    if (limited := ~(easy | hard)).any():
        fit = fit.with_zero(limited / limited.sum())
    estimate = informative_estimate(fit, law, easy, hard)
    return TotalsEstimate(estimate=estimate, fit=fit, no_lower_limit=easy, no_upper_limit=hard)


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
    return estimate_of(
        fit.difficulty,
        *ends_at(LEVEL / 2),
        separation,
        errors=None if open_ended else ScoreErrors(fit.unbiased, fit.covariance),
        noise_share=np.divide(noise, variance, out=np.zeros_like(noise), where=variance > 0),
    )


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
