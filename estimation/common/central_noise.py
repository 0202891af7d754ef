"""The central mechanisms on counts: exact counts in, noisy counts and their guarantee out.

Pilot query: how many rows or people it saw, the share that fits, when to stop.  See
`privacy.look` for who votes. All here follows from two noisy numbers and the law of their noise:
it is post-processing.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025. Algorithms 2 and 3, the latter with erratum E1 (see `privacy.sensitivity`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.matrices import (
    OutcomeCounts,
    PairCounts,
    WinCounts,
    WinLossCounts,
    integers_of,
    outcomes_of,
)
from hushrank.privacy.accounting import Spend, spend_of
from hushrank.privacy.noise import NoiseLaw, add_noise, gaussian_law, laplace_law
from hushrank.privacy.pilot_query import votes_sensitivity
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.row_weights import Counted, weighted_sensitivity
from hushrank.privacy.sensitivity import (
    Sensitivity,
    exposures_sensitivity,
    outcomes_sensitivity,
    pair_counts_sensitivity,
    win_counts_sensitivity,
    win_loss_sensitivity,
)
from hushrank.privacy.units import Bounding, NoiseKind, PrivacyParams


@dataclass(frozen=True, slots=True)
class Calibration:
    """Noise that gives a statistic its guarantee: what draws is what is stated.

    Attributes:
        sensitivity: sensitivity of the statistic, in its own integer units.
        derivation: the function whose docstring derives the sensitivity.
        law: law of the noise on each entry.
        spend: cost of one draw.
        names: names of one person, of which `sensitivity` is together; the derivation is of one.
    """

    sensitivity: Sensitivity
    derivation: str
    law: NoiseLaw
    spend: Spend
    names: int = 1


def calibrate_win_counts(
    params: PrivacyParams,
    n_items: int,
    row_weight: int = 1,
    n_groups: int = 1,
    most: int | None = None,
) -> Calibration:
    """Noise for the win counts of `n_items` items; it depends on public parameters only."""
    sensitivity = win_counts_sensitivity(params, n_items, row_weight, n_groups)
    return calibrate(params, sensitivity.in_groups(most), "win_counts_sensitivity")


def calibrate_win_loss(
    params: PrivacyParams,
    n_items: int,
    row_weight: int = 1,
    n_groups: int = 1,
    most: int | None = None,
) -> Calibration:
    """Noise for wins and losses of `n_items` items; it depends on public parameters only."""
    sensitivity = win_loss_sensitivity(params, n_items, row_weight, n_groups)
    return calibrate(params, sensitivity.in_groups(most), "win_loss_sensitivity")


def calibrate_pair_counts(
    params: PrivacyParams,
    n_items: int,
    row_weight: int = 1,
    n_groups: int = 1,
    most: int | None = None,
) -> Calibration:
    """Noise for the pair counts of `n_items` items; it depends on public parameters only."""
    sensitivity = pair_counts_sensitivity(params, n_items, row_weight, n_groups)
    return calibrate(params, sensitivity.in_groups(most), "pair_counts_sensitivity")


def calibrate_exposures(
    params: PrivacyParams, epsilon: float, n_items: int, row_weight: int = 1
) -> Calibration:
    """Laplace noise for how often each item was compared, at an epsilon of its own.

    Laplace noise whatever `params` name: it costs no delta.
    """
    sensitivity = exposures_sensitivity(params, n_items, row_weight)
    pure = replace(params, epsilon=epsilon, delta=0.0, rho=None, noise=NoiseKind.LAPLACE)
    return calibrate(pure, sensitivity, "exposures_sensitivity")


def calibrate_outcomes(params: PrivacyParams, n_items: int, row_weight: int = 1) -> Calibration:
    """Noise for who won, of a public graph of `n_items` items; from public parameters only."""
    sensitivity = outcomes_sensitivity(params, n_items, row_weight)
    return calibrate(params, sensitivity, "outcomes_sensitivity")


def calibrate_weighted(
    params: PrivacyParams, counted: Counted, n_items: int, row_weight: int = 1
) -> tuple[Calibration, int]:
    """Noise for counts of weighted rows and their sum of squares; and what divides that sum."""
    found = weighted_sensitivity(params, counted, n_items, row_weight)
    return calibrate(params, found.whole, "weighted_sensitivity"), found.divisor


def calibrate(params: PrivacyParams, sensitivity: Sensitivity, derivation: str) -> Calibration:
    """Noise for integers of this sensitivity to one name, by the law that `params` name.

    Where people may have several names, the noise is for all names of a person together
    (`Sensitivity.of_names`).

    Discrete Laplace of scale l1 / epsilon is epsilon-DP. Discrete Gaussian of variance
    l2^2 / (2 rho) is rho-zCDP; where `params` name epsilon and delta, rho is the largest at which
    it is (epsilon, delta)-DP, by the theorem of `privacy.gaussian_profile`, or by zCDP where that
    gives more.
    """
    sensitivity = sensitivity.of_names(params.names_per_person)
    spend = spend_of(params, sensitivity.l2_squared)
    if spend.rho is None:
        law = laplace_law(sensitivity, params.epsilon)
    else:
        law = gaussian_law(sensitivity, spend.rho)
    return Calibration(sensitivity, derivation, law, spend, params.names_per_person)


def law_of_sum(law: NoiseLaw, draws: int) -> NoiseLaw:
    """Law that the sum of so many draws of `law` is taken to have: normal, of the same variance.

    For estimates from a sum of released counts, such as the whole of several groups.
    """
    if draws == 1:
        return law
    return NoiseLaw(NoiseKind.GAUSSIAN, math.sqrt(draws * law.variance))


def release_win_counts(counts: WinCounts, calibration: Calibration, bits: RandomBits) -> WinCounts:
    """Add noise to every win count ([CCW] Alg. 2 and 3): counts that may be published.

    Guarantee: the one of `calibration`, for counts of a log whose bounds were
    enforced, if `bits.safe`.

    Args:
        counts: confidential win counts.
        calibration: noise from `calibrate_win_counts`, for these items and this weight of a row.
        bits: `system_bits()` in a release.

    Raises:
        ValueError: `counts` had noise added already.
    """
    _check_without_noise(counts)
    noisy = add_noise(integers_of(counts.wins), calibration.law, bits)
    return WinCounts(noisy, counts.row_weight, confidential=False)


def release_win_loss(
    counts: WinLossCounts, calibration: Calibration, bits: RandomBits
) -> WinLossCounts:
    """Add noise to every count: counts that may be published.

    Guarantee: the one of `calibration`, for counts of a log whose bounds were
    enforced, if `bits.safe`.

    Args:
        counts: confidential.
        calibration: noise from `calibrate_win_loss`, for these items and this weight of a row.
        bits: `system_bits()` in a release.

    Raises:
        ValueError: `counts` had noise added already.
    """
    _check_without_noise(counts)
    both = add_noise(np.concatenate([counts.wins, counts.losses]), calibration.law, bits)
    n = counts.n_items
    return WinLossCounts(both[:n], both[n:], counts.row_weight, confidential=False)


def release_pair_counts(
    counts: PairCounts,
    calibration: Calibration,
    bits: RandomBits,
    asked: NDArray[np.bool_] | None = None,
) -> PairCounts:
    """Add noise to every entry off the diagonal, zeros too; nothing is counted on the diagonal.

    Nothing is counted, and nothing drawn, for pairs that nobody was asked about, either.

    Guarantee: the one of `calibration`, for counts of a log whose bounds were
    enforced, if `bits.safe`.

    Args:
        counts: confidential pair counts.
        calibration: noise from `calibrate_pair_counts`, for these items and this weight of a row.
        bits: `system_bits()` in a release.
        asked: the pairs that rows may be of, public, symmetric, of shape (n, n); None: all.

    Returns:
        Counts that may be published.

    Raises:
        ValueError: `counts` had noise added already, or hold a pair that was not asked about.
    """
    _check_without_noise(counts)
    pairs = ~np.eye(counts.n_items, dtype=bool) if asked is None else asked
    wins = integers_of(counts.dense())
    if wins[~pairs].any():
        raise ValueError("counts hold rows on pairs that were not asked about: filter them before")
    noisy = np.zeros_like(wins)
    noisy[pairs] = add_noise(wins[pairs], calibration.law, bits)
    return PairCounts(noisy, counts.row_weight, confidential=False)


def release_outcomes(
    counts: PairCounts, calibration: Calibration, bits: RandomBits
) -> OutcomeCounts:
    """Release outcomes of a public graph: exact totals, and noise on one item's wins of each pair.

    Guarantee: the one of `calibration`, for two logs whose rows differ in the outcomes
    of one unit's alone, and whose bounds were enforced, if `bits.safe`. Which pairs met, and how
    often, has the same law for both logs, and given it `outcomes_sensitivity` bounds how far wins
    move.

    Args:
        counts: confidential pair counts, dense or sparse.
        calibration: noise from `calibrate_outcomes`, for these items and this weight of a row.
        bits: `system_bits()` in a release.

    Returns:
        Counts that may be published.

    Raises:
        ValueError: `counts` had noise added already.
    """
    exact = outcomes_of(counts)
    return exact.with_wins(add_noise(exact.wins.data, calibration.law, bits))


def release_squares(
    squares: NDArray[np.int64], divisor: int, calibration: Calibration, bits: RandomBits
) -> NDArray[np.int64]:
    """Add noise to the sum of squared weights: one more entry of the vector of counts.

    Guarantee: together with counts that get noise by the same calibration, of
    `calibrate_weighted`, that for which it was made.

    Args:
        squares: exact, shape (1,), in squared units.
        divisor: divisor of the squares, from `calibrate_weighted`.
        calibration: noise of the counts.
        bits: `system_bits()` in a release.

    Returns:
        Shape (1,), in units of `divisor`.
    """
    return add_noise(squares // divisor, calibration.law, bits)


def _check_without_noise(counts: WinCounts | WinLossCounts | PairCounts) -> None:
    if not counts.confidential:
        raise ValueError("counts have noise already: adding it again would not protect more")


LEVEL = 0.95  # confidence of the interval of the share
FALSE_STOP = 0.001  # most chance of a stop where half of the votes fit, or half of the people vote
MISSED = 0.1  # chance of no stop where nothing fits, at the number that `noticed_from` tells
REACH = 20.0  # scales of noise: nothing is looked for beyond
SHARES = np.linspace(0.0, 1.0, 2001)


def calibrate_look(params: PrivacyParams) -> Calibration | None:
    """Laplace noise for the two or three numbers of votes, at the epsilon that `params` set aside.

    None: the parameters set no epsilon aside.
    """
    if not params.look:
        return None
    pure = replace(
        params,
        epsilon=params.look,
        delta=0.0,
        rho=None,
        noise=NoiseKind.LAPLACE,
        look=0.0,
        bounding=Bounding.LEAVE_OUT,  # votes have no weights
        max_weight=None,
    )
    return calibrate(pure, votes_sensitivity(params), "votes_sensitivity")


@dataclass(frozen=True, slots=True)
class Seen:
    """Noisy result of a pilot query.

    Attributes:
        fit, unfit: votes that rows fit, and that they do not, with noise; may be negative.
        law: law of the noise in each number.
        people: number of people who were asked, a public number; None: it is not stated.
        unlisted: number of voters who name an item that is not listed, with noise; None: the pilot
            query did not count them.
    """

    fit: int
    unfit: int
    law: NoiseLaw
    people: int | None = None
    unlisted: int | None = None

    @property
    def share(self) -> float | None:
        """Share of the votes that say that rows fit, in [0, 1]; None if noise left no vote."""
        fit, unfit = max(self.fit, 0), max(self.unfit, 0)
        return fit / (fit + unfit) if fit + unfit else None

    def interval(self) -> tuple[float, float]:
        """Interval of the true share, with `LEVEL`: every share p that makes the votes likely.

        At the true p, (1 - p) fit - p unfit is noise alone, so those p are kept at which it is no
        further out than that noise is with probability `LEVEL` (Fieller's way). Which are kept may
        have gaps; the interval spans all of them, and (0, 1) where none is kept or all are. It also
        spans `share`, which may lie outside where noise made a number of votes negative.
        """
        off = (1 - SHARES) * self.fit - SHARES * self.unfit
        kept = SHARES[_beyond(np.abs(off), SHARES, self.law.scale) >= (1 - LEVEL) / 2]
        if not len(kept):  # no true numbers of votes, which are not negative, are likely
            return 0.0, 1.0
        step = SHARES[1]
        ends = max(float(kept[0]) - step, 0.0), min(float(kept[-1]) + step, 1.0)
        told = ends if self.share is None else (*ends, self.share)
        return min(told), max(told)

    @property
    def error(self) -> int:
        """Half width of the 95 % interval of the number of votes, fit and unfit together."""
        return total_error(self.law)

    @property
    def stops(self) -> bool:
        """Whether the run stops: most rows do not fit, or most people are missing."""
        return self.misfits or self.silent

    @property
    def silent(self) -> bool:
        """Whether it is near certain that fewer than half of the people asked voted at all.

        Where half or more did, that happens with probability `FALSE_STOP` at most: half of the sum
        of both noises is distributed as half of their difference. Never if `people` is not stated.
        """
        if self.people is None:
            return False
        half = np.array([0.5])
        away = np.array([(self.people / 2 - self.fit - self.unfit) / 2])
        return bool(away[0] > 0 and _beyond(away, half, self.law.scale)[0] < FALSE_STOP)

    @property
    def misfits(self) -> bool:
        """Whether it is near certain that fewer than half of the votes say that rows fit.

        Where half or more do, that happens with probability `FALSE_STOP` at most.
        """
        half = np.array([0.5])
        away = np.array([(self.unfit - self.fit) / 2])
        return bool(away[0] > 0 and _beyond(away, half, self.law.scale)[0] < FALSE_STOP)


def noticed_from(law: NoiseLaw) -> int:
    """Return how many votes of rows that do not fit stop a run, but for a chance of `MISSED`.

    Where no row fits. In two significant digits, rounded up.
    """
    if law.scale == 0:
        return 1
    needed = sum(2.0 + 2 * _reach(law, chance) for chance in (FALSE_STOP, MISSED))
    step = 10 ** max(math.floor(math.log10(needed)) - 1, 0)
    return int(math.ceil(needed / step) * step)


def one_error(law: NoiseLaw, missed: float = 1 - LEVEL) -> int:
    """Return the smallest t such that noise of one number is t or less, in size, but for `missed`.

    Law: discrete Laplace of scale b has P(|X| > t) = 2 e^(-(t + 1) / b) / (1 + e^(-1 / b)).
    """
    if law.scale == 0:
        return 0
    beyond = math.log(2 / (1 + math.exp(-1 / law.scale)) / missed)
    return max(math.ceil(law.scale * beyond - 1), 0)


def total_error(law: NoiseLaw) -> int:
    """Half width of the interval, at `LEVEL`, of the sum of both numbers of votes."""
    return 0 if law.scale == 0 else math.ceil(2 + 2 * _reach(law, (1 - LEVEL) / 2))


def _reach(law: NoiseLaw, chance: float) -> float:
    """Noise that half the sum or difference of two numbers exceeds with this chance, less 1."""
    reach = np.arange(0.0, REACH, REACH / 2000) * law.scale
    beyond = _beyond(reach + 1, np.full(reach.shape, 0.5), law.scale)
    return float(reach[np.argmax(beyond < chance)])


def _beyond(off: Floats, share: Floats, scale: float) -> Floats:
    """Most probability that (1 - p) X - p Y is `off` or more, for noise X and Y of this scale.

    Of two Laplace variables of scales a > b: (a^2 e^(-t/a) - b^2 e^(-t/b)) / (2 (a^2 - b^2)), and
    (2 + t/a) e^(-t/a) / 4 where they are equal. Discrete Laplace noise reaches no further than the
    continuous one of its scale plus 1, for P(|X| >= k) <= e^(-(k - 1) / scale). So off - 1 is what
    is looked up.
    """
    t = np.maximum(off - 1, 0.0)
    if scale == 0:
        return np.where(off > 0, 0.0, 0.5)
    a = scale * np.maximum(share, 1 - share)
    b = scale * np.minimum(share, 1 - share)
    near = np.abs(a - b) < 1e-3 * scale
    apart = np.where(near, scale, a - b) * (a + b)
    with np.errstate(divide="ignore"):
        second = np.where(b > 0, b**2 * np.exp(-t / np.where(b > 0, b, 1.0)), 0.0)
    unequal = (a**2 * np.exp(-t / a) - second) / (2 * apart)
    equal = (2 + t / a) * np.exp(-t / a) / 4
    return np.where(near, equal, unequal)
