"""Probabilities of a win, a loss and a tie by the scores of two items, and the tie strength.

With d the difference of the scores (log strengths p_i, p_j) and r the chance of a tie of equals:

    Davidson     P(i wins), P(j wins), P(tie) in proportion to p_i, p_j, nu sqrt(p_i p_j) ([D70]),
    Rao-Kupper   P(i wins) = p_i / (p_i + theta p_j), and P(tie) what is left ([RK67]).

Equals tie with r = nu / (2 + nu) and r = (theta - 1) / (theta + 1). Both models are fitted in
t = log(r / (1 - r)), which is free: nu = 2 e^t and theta = 1 + 2 e^t. In both a score has the same
meaning: Davidson's are log odds of the comparisons that do not tie; Rao and Kupper's are log odds
of a win, less log theta.

The fit of how often equals tie is in t = log(r / (1 - r)), r being the chance that equals tie, with
a wide penalty t ~ N(TIE_CENTRE, TIE_SPREAD^2) so that t is finite whatever the noise. The interval
is around one Newton step from there without the penalty, and in r: noise, which is most of the
error where there is doubt, is normal in counts of ties and so in r; in t it is not, where noise
hides most ties.

Three counts a pair of items: the first won, the second won, they tied; and noise on all of them.

The array has shape (2, n, n): wins[a, b], how often a beat b, and ties[a, b], how often they tied,
for a < b alone; all else is zero.

References:
    [D70] Davidson. On extending the Bradley-Terry model to accommodate ties in paired comparison
        experiments. 1970.
    [RK67] Rao, Kupper. Ties in paired-comparison experiments: a generalization of the
        Bradley-Terry model. 1967.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from hushrank.estimation.common.central_noise import Calibration, calibrate
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.matrices import Counts, integers_of
from hushrank.estimation.common.uncertainty import LEVEL
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.sensitivity import tie_counts_sensitivity
from hushrank.privacy.units import PrivacyParams

TIE_CENTRE, TIE_SPREAD = -1.0, 3.0  # law of t: r of 27 %, and from 0.1 to 99 %
LEFT, RIGHT, TIE = 0, 1, 2  # outcomes, as they are numbered in all arrays here
SMALLEST = 1e-12  # chance of a tie, below which it is not told from none


@dataclass(frozen=True, slots=True)
class TieStrength:
    """The chance that two items of equal scores tie.

    Attributes:
        chance: r.
        low, high: 95 % interval, from 0 to 1 where nothing is known.
    """

    chance: float
    low: float
    high: float


def strength_of(tie: float, net_wins: float, variance: float) -> TieStrength:
    """Return the strength of ties from a fit.

    Args:
        tie: t.
        pull: slope of the log-likelihood there, without the penalty.
        variance: variance of t without the penalty; infinite where the counts say nothing of it.
    """
    chance = float(expit(tie))
    slope = chance * (1 - chance)
    if not np.isfinite(variance) or slope == 0:
        return TieStrength(chance, 0.0, 1.0)
    middle = chance + slope * net_wins * variance
    reach = -float(ndtri(LEVEL / 2)) * slope * np.sqrt(variance)
    low, high = np.clip([middle - reach, middle + reach], 0, 1)
    return TieStrength(chance, float(min(low, chance)), float(max(high, chance)))


class TieModel(StrEnum):
    """Rule by which ties follow from scores."""

    DAVIDSON = "davidson"
    RAO_KUPPER = "rao-kupper"

    @property
    def symbol(self) -> str:
        """Name of its parameter."""
        return "nu" if self is TieModel.DAVIDSON else "theta"

    def parameter(self, tie_of_equals: float) -> float:
        """nu or theta, by the chance that equals tie."""
        odds = tie_of_equals / (1 - tie_of_equals) if tie_of_equals < 1 else math.inf
        return 2 * odds + (0 if self is TieModel.DAVIDSON else 1)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The three outcomes of some pairs; arrays of shape (3, pairs).

    Attributes:
        probabilities: probabilities of each outcome.
        by_gap: slope of the log of each chance in d.
        by_tie: slope of it in t.
    """

    probabilities: Floats
    by_gap: Floats
    by_tie: Floats


def outcomes_of(model: TieModel, gap: Floats, tie: float) -> Outcomes:
    """Probabilities and slopes at some differences of scores.

    Args:
        model: model of ties.
        gap: d, shape (pairs,).
        tie: t.
    """
    return (_davidson if model is TieModel.DAVIDSON else _rao_kupper)(gap, tie)


def _davidson(gap: Floats, tie: float) -> Outcomes:
    logits = np.stack([gap / 2, -gap / 2, np.full(gap.shape, tie + math.log(2))])
    weights = np.exp(logits - logits.max(axis=0))
    probabilities = weights / weights.sum(axis=0)
    lead = (probabilities[LEFT] - probabilities[RIGHT]) / 2
    by_gap = np.stack([0.5 - lead, -0.5 - lead, -lead])
    by_tie = np.stack([-probabilities[TIE], -probabilities[TIE], 1 - probabilities[TIE]])
    return Outcomes(probabilities, by_gap, by_tie)


def _rao_kupper(gap: Floats, tie: float) -> Outcomes:
    threshold = math.log1p(2 * math.exp(tie))  # log theta
    slope = -math.expm1(-threshold)  # slope of log theta in t: 1 - 1 / theta
    left, right = expit(gap - threshold), expit(-gap - threshold)
    # (theta^2 - 1) times the product: the same as what is left, without a difference of ones.
    tied = math.expm1(2 * threshold) * left * right
    probabilities = np.stack([left, right, np.maximum(tied, np.finfo(float).tiny)])
    by_gap = np.stack([1 - left, right - 1, right - left])
    by_theta = 2 / (1 + math.exp(-threshold)) - slope * (1 + tied)
    by_tie = np.stack([-slope * (1 - left), -slope * (1 - right), by_theta])
    return Outcomes(probabilities, by_gap, by_tie)


@dataclass(frozen=True, slots=True)
class TieCounts:
    """Outcomes of comparisons of each pair.

    Attributes:
        cells: shape (2, n, n), int64, or float64 once noisy: wins and ties, as above.
        confidential: True until noise was added.

    Raises:
        ValueError: the array has another shape or type, an entry that counts nothing is not zero,
        or a confidential count is negative.
    """

    cells: Counts
    confidential: bool = True

    def __post_init__(self) -> None:
        cells = self.cells
        if cells.ndim != 3 or cells.shape[0] != 2 or cells.shape[1] != cells.shape[2]:
            raise ValueError(f"cells must have shape (2, n, n), got {cells.shape}")
        if cells.dtype != np.int64 and (self.confidential or cells.dtype != np.float64):
            raise ValueError(f"cells must be int64, got {cells.dtype}")
        if cells[~counted_cells(self.n_items)].any():
            raise ValueError("no item meets itself, and ties are counted above the diagonal alone")
        if self.confidential and (cells < 0).any():
            raise ValueError("counts without noise cannot be negative")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return int(self.cells.shape[1])

    def of_pairs(self) -> Floats:
        """Wins of the first, wins of the second, ties, of each pair a < b: shape (3, pairs)."""
        a, b = np.triu_indices(self.n_items, 1)
        wins, ties = self.cells
        return np.stack([wins[a, b], wins[b, a], ties[a, b]]).astype(np.float64)


def counted_cells(n_items: int) -> NDArray[np.bool_]:
    """Mark the entries of the array that count something: three a pair."""
    unequal = ~np.eye(n_items, dtype=bool)
    return np.stack([unequal, np.triu(unequal)])


def calibrate_tie_counts(
    params: PrivacyParams, n_items: int, n_groups: int = 1, most: int | None = None
) -> Calibration:
    """Noise for the three counts of each pair; it depends on public parameters only."""
    sensitivity = tie_counts_sensitivity(params, n_items, n_groups)
    return calibrate(params, sensitivity.in_groups(most), "tie_counts_sensitivity")


def release_tie_counts(counts: TieCounts, calibration: Calibration, bits: RandomBits) -> TieCounts:
    """Add noise to all three counts of every pair, zeros too.

    Guarantee: the one of `calibration`, for counts of a log whose bounds were
    enforced, if `bits.safe`.

    Args:
        counts: confidential.
        calibration: noise from `calibrate_tie_counts`, for these items.
        bits: `system_bits()` in a release.

    Returns:
        Counts that may be published.

    Raises:
        ValueError: `counts` had noise added already.
    """
    if not counts.confidential:
        raise ValueError("counts have noise already: adding it again would not protect more")
    cells = integers_of(counts.cells)
    noisy, counted = np.zeros_like(cells), counted_cells(counts.n_items)
    noisy[counted] = add_noise(cells[counted], calibration.law, bits)
    return TieCounts(noisy, confidential=False)
