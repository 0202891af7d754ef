"""Ranking by noisy win counts: no model of how people choose ([CCW] Algorithms 2 and 3).

The release is N + noise, N_i the comparisons won by item i; everything here is computed from it and
is post-processing. The score of an item is its net win share, N_i / (2M / n) - 1/2 with M the sum
of the counts: the share of its comparisons that it wins, less one half. It assumes that every pair
of items was asked about equally often (a balanced design, 2M / n comparisons an item): where some
items were shown more often than others, they score higher for that reason alone.

Sampling error: comparisons are taken as independent given the items. If each draws its pair at
random, the counts are multinomial: a comparison is won by item i with probability
pi_i = 2 p_i / n, p_i its win share. If the pairs were fixed in advance the covariance is smaller
(law of total variance), so the multinomial one is either right or too large, for every difference.
Answers of one person that agree with each other more than the scores explain make the intervals
too short.

The one-shot top k: a baseline that releases the best k items and nothing else ([QSZ21]).

Noise goes on every win count, once; the k items with the largest noisy counts are reported, in
order.

Guarantee: epsilon-DP, for discrete Laplace noise of scale s / epsilon, where s is the smaller of
two charges.

For the reported items (`reported_sensitivity`), s = a k. Let one unit move each count by c at most,
and fix the noise of all items but the reported k. If the noise of each of these grows by c less the
change of its own count, all reported values grow by c alike and no other by more, so the same items
are reported in the same order, whatever rule breaks ties by the catalogue. That is a move of at
most a = 2 c each under replace-one and a = c under add-remove, where the counts move all up or all
down (down: the noise makes up for the loss); the probability of k moves changes by the factor
exp(a k / scale) at most.

For all counts, s = `win_counts_sensitivity`: the list is a function of the noisy counts, which
could all be released with that noise. One comparison moves two counts only, and L rows of a person
move them by 2 L; the first charge is the smaller one where a person counts with many rows and with
few for any one item, as under `per_item_cap` or `distinct_pairs`.

[QSZ21] have the scale 8 c sqrt(k log(n / delta)) / epsilon instead, for epsilon <= 0.2 and with a
delta. That is larger than a k / epsilon while k < 16 log(n / delta), 312 for n = 300 and
delta = 1e-6: it is not offered.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025.
    [F54] Fieller. Some problems in interval estimation. 1954.
    [QSZ21] Qiao, Su, Zhang. Oneshot differentially private top-k selection. 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration, calibrate
from hushrank.estimation.common.estimate import (
    CLEAR_TOTAL,
    Estimate,
    estimate_of,
    mean_ranks,
    nothing_learned,
)
from hushrank.estimation.common.matrices import WinCounts, check_released, integers_of
from hushrank.estimation.common.pair_separation import ScoreErrors
from hushrank.estimation.common.pooling import Evidence, EvidenceAt
from hushrank.estimation.common.uncertainty import LEVEL, Margin, quantile, separate_ranks
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.sensitivity import Sensitivity, win_counts_sensitivity
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams

LEAST_WON = 0.5  # comparisons that an item is taken to win: where there is no noise, it may have 0


@dataclass(frozen=True, slots=True)
class _Tails:
    """Law of the noise in one count, but for its variance.

    Attributes:
        kind: kind of each draw.
        draws: number of draws whose sum is the noise.
    """

    kind: NoiseKind
    draws: int

    def quantile(
        self, noise_share: NDArray[np.float64], tail: float, n_counts: int
    ) -> NDArray[np.float64]:
        """Quantile of an error with the noise of `n_counts` counts, see `uncertainty.quantile`."""
        return quantile(noise_share, tail, self.kind, n_draws=n_counts * self.draws)


def rank_by_win_counts(counts: WinCounts, law: NoiseLaw, laplace_draws: int = 1) -> Estimate:
    """Rank items by their noisy counts, with scores, 95 % intervals, rank intervals and groups.

    A total that does not stand clear of its own noise says nothing about any item: in a balanced
    design no item then won more than a few standard deviations of the noise. The items are still
    ranked by their counts, but every score is 0, every interval covers everything, and
    `informative` is False.

    Args:
        counts: noisy counts of at least 2 items.
        law: law of the noise in one count, in the counts' own integer units.
        laplace_draws: number of Laplace draws, where above 1, whose sum is the noise in a count;
            `law` has its variance.

    Returns:
        Scores in [-1/2, 1/2], each inside its interval.

    Raises:
        ValueError: `counts` is confidential, or has fewer than 2 items.
    """
    check_released(counts)
    wins = counts.wins / counts.row_weight  # in comparisons, and so is all that follows
    noise_sd = math.sqrt(law.variance) / counts.row_weight
    tails = _Tails(NoiseKind.LAPLACE if laplace_draws > 1 else law.kind, laplace_draws)
    if wins.sum() <= CLEAR_TOTAL * noise_sd * math.sqrt(counts.n_items):
        return nothing_learned(np.zeros(len(wins)), rank=mean_ranks(wins), reach=0.5)
    # Cut shares would draw an item that is surely ahead to those behind it: errors are of these.
    uncut = counts.n_items * wins / (2 * wins.sum()) - 0.5
    scores = _within_bounds(uncut)

    def ends_at(tail: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        low, high = _score_interval(wins, noise_sd, tails, tail)
        return np.minimum(low, scores), np.maximum(high, scores)

    def margin_at(tail: float) -> Margin:
        return _pair_margin(noise_sd, tails, tail)

    share = np.clip(wins / wins.sum(), 0, 2 / len(wins))
    each = len(wins) / (2 * wins.sum())  # change of a score by one more comparison
    variances = each**2 * (noise_sd**2 + np.maximum(wins, 0))
    found = estimate_of(
        scores,
        *ends_at(LEVEL / 2),
        separate_ranks(wins, margin_at, ends_at),
        rank=mean_ranks(wins),
        errors=ScoreErrors(uncut, variances),
        noise_share=_noise_share(share, wins.sum(), noise_sd**2),
    )
    sampling = wins.sum() * share * (1 - share)
    whole = _noise_variance(share, noise_sd**2) + sampling
    return replace(found, deviation=each * np.sqrt(whole))


def evidence_of_win_counts(counts: WinCounts, law: NoiseLaw) -> EvidenceAt:
    """Return noisy counts' evidence near any scores; none if the total is not clear of its noise.

    As for an interval: wins_i - pi_i M has mean zero, and the variance of `_score_interval`.
    """
    check_released(counts)
    n, wins = counts.n_items, counts.wins / counts.row_weight
    noise, total = law.variance / counts.row_weight**2, float(counts.wins.sum() / counts.row_weight)

    def at(scores: NDArray[np.float64]) -> Evidence:
        if total <= CLEAR_TOTAL * math.sqrt(noise * n):
            return Evidence(np.zeros(n), np.zeros(n))
        share = np.clip(2 * (scores + 0.5) / n, 0, 2 / n)
        sampling = np.maximum(total * share * (1 - share), LEAST_WON)
        variance = noise * (1 - 2 * share + n * share**2) + sampling
        slope = 2 * total / n
        return Evidence(slope**2 / variance, slope * (wins - share * total) / variance)

    return at


def _within_bounds(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Nearest vector to `scores` that sums to zero, as they do, and stays in [-1/2, 1/2].

    The true scores are such a vector, so this never moves further from them. The order stays.
    """
    if np.abs(scores).max() <= 0.5:
        return scores

    def sum_after(shift: float) -> float:
        return float(np.clip(scores - shift, -0.5, 0.5).sum())

    shift = scipy.optimize.brentq(sum_after, scores.min() - 0.5, scores.max() + 0.5)
    return np.clip(scores - shift, -0.5, 0.5)


def _score_interval(
    wins: NDArray[np.float64], noise_sd: float, tails: _Tails, tail: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores that the counts do not contradict: [F54], since the denominator is noisy too.

    With T comparisons, N_i - pi_i T has mean zero. Its noisy version wins_i - pi_i M has variance
    noise_sd^2 (1 - 2 pi_i + n pi_i^2) + T pi_i (1 - pi_i), so the pi_i that are not rejected at
    quantile q solve a quadratic inequality. Its leading coefficient is positive because M is clear
    of its noise. No variance is estimated at an extreme share, so none vanishes there.
    """
    n, total, noise = len(wins), wins.sum(), noise_sd**2
    share = np.clip(wins / total, 0, 2 / n)  # nearest possible value: never further from the truth
    noise_part = _noise_share(share, total, noise)
    # Count it as one draw: the noise of the total, a sum of n draws, is nearer to normal than that.
    q2 = tails.quantile(noise_part, tail, 1) ** 2
    a = total**2 - q2 * (n * noise - total)
    b = total**2 * share + q2 * (total / 2 - noise)
    discriminant = b**2 - a * (total**2 * share**2 - q2 * noise)
    root = np.sqrt(np.maximum(discriminant, 0))  # below 0 by rounding only: `share` is a solution
    low, high = np.clip(n / 2 * (b - root) / a, 0, 1), np.clip(n / 2 * (b + root) / a, 0, 1)
    return low - 0.5, high - 0.5


def _noise_share(share: NDArray[np.float64], total: float, noise: float) -> NDArray[np.float64]:
    """Share of the noise in the variance of wins_i - pi_i M, see `_score_interval`."""
    from_noise = _noise_variance(share, noise)
    spread = from_noise + total * share * (1 - share)
    return np.divide(from_noise, spread, out=np.zeros(len(share)), where=spread > 0)


def _noise_variance(share: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """Variance of the noise in wins_i - pi_i M, see `_score_interval`."""
    return np.asarray(noise * (1 - 2 * share + len(share) * share**2))


def _pair_margin(noise_sd: float, tails: _Tails, tail: float) -> Margin:
    """Difference of the counts of two equally good items that chance exceeds with `tail`.

    It has variance 2 noise_sd^2 + T (pi_i + pi_j), and the sum of the two counts estimates the
    second term. More variance, more margin: it grows with either count, as `separate_ranks` needs.
    """
    noise = 2 * noise_sd**2

    def margin(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        variance = noise + np.maximum(x + y, 0)
        noise_part = np.divide(noise, variance, out=np.zeros_like(variance), where=variance > 0)
        return np.asarray(tails.quantile(noise_part, tail, 2) * np.sqrt(variance))

    return margin


@dataclass(frozen=True, slots=True)
class OneShotNoise:
    """The mechanism, calibrated.

    Attributes:
        k: number of items that it reports.
        calibration: calibration of the noise on each count, which is not released.
    """

    k: int
    calibration: Calibration


def one_shot_top_k(
    counts: WinCounts, mechanism: OneShotNoise, bits: RandomBits
) -> NDArray[np.int64]:
    """Report the k items with the largest noisy win counts, best first: places in the catalogue.

    Guarantee: that for which `mechanism` was calibrated, for counts of a log whose bounds were
    enforced, if `bits.safe`.

    Args:
        counts: raw counts; they stay inside the confidential area.
        mechanism: from `calibrate_one_shot`, for these items and this weight of a row.
        bits: `system_bits()` in a release.

    Raises:
        ValueError: the counts carry noise already.
    """
    if not counts.confidential:
        raise ValueError("one-shot needs raw counts, and these carry noise: rank them directly")
    noisy = add_noise(integers_of(counts.wins), mechanism.calibration.law, bits)
    return np.argsort(-noisy, kind="stable")[: mechanism.k].astype(np.int64)


def calibrate_one_shot(
    params: PrivacyParams, n_items: int, k: int, row_weight: int = 1
) -> OneShotNoise:
    """Noise on each count; it depends on public parameters only.

    Raises:
        ValueError: `k` is not between 1 and the number of items, or the noise is not `laplace`.
    """
    if not 1 <= k <= n_items:
        raise ValueError(f"top_k must be between 1 and {n_items} (the items), got {k!r}")
    if params.weighted:
        raise ValueError("one-shot counts every row once: remove the weights")
    if params.noise is not NoiseKind.LAPLACE:
        raise ValueError("one-shot is pure DP: set noise: laplace, without delta and rho")
    found = one_shot_sensitivity(params, n_items, k, row_weight)
    return OneShotNoise(k, calibrate(params, found, "one_shot_sensitivity"))


def one_shot_sensitivity(
    params: PrivacyParams, n_items: int, k: int, row_weight: int = 1
) -> Sensitivity:
    """The smaller of two charges for the k best items: see the module's text."""
    reported = reported_sensitivity(params, n_items, k, row_weight)
    moved = min(reported.l1, win_counts_sensitivity(params, n_items, row_weight).l1)
    return Sensitivity(moved, moved**2)


def reported_sensitivity(
    params: PrivacyParams, n_items: int, k: int, row_weight: int = 1
) -> Sensitivity:
    """Bound how far the noise of k reported items moves so that they are reported again."""
    both_ways = 1 if params.adjacency is Adjacency.ADD_REMOVE else 2
    moved = both_ways * k * _largest_change(params, n_items) * row_weight
    return Sensitivity(moved, moved**2)


def _largest_change(params: PrivacyParams, n_items: int) -> int:
    """c: how far one unit moves the win count of one item."""
    most = params.max_contributions
    if params.per_item_cap is not None:
        most = min(most, params.per_item_cap)
    return min(most, n_items - 1) if params.distinct_pairs else most
