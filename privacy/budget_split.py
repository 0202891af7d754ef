"""A budget over many releases: the equal share of each, and how many more fit. Pure.

Both rest on `filters`, by which a ledger adds up, so that a ledger lets pass what is planned here.
The same people take part in every release: losses compose, they do not overlap.

References:
    [KOV15] Kairouz, Oh, Viswanath. The composition theorem for differential privacy. 2015.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal

import numpy as np
import scipy

from hushrank.privacy.accounting import Spend, largest_rho
from hushrank.privacy.filters import adaptive_total, fits, main_delta
from hushrank.privacy.units import NoiseKind

DIGITS = 3  # digits of a share: people can read it, and a better accountant seldom changes it


def even_share(noise: NoiseKind, releases: int, epsilon: float, delta: float) -> Spend:
    """The largest equal spend of which `releases` stay within (epsilon, delta) together.

    `laplace`: pure epsilons; `gaussian`: rho, whatever the sensitivity of the counts.

    Args:
        noise: kind of noise of every release.
        releases: number of releases; at least 1.
        epsilon: joint epsilon of all releases, finite and > 0.
        delta: joint delta of all releases; > 0 for `gaussian`.

    Returns:
        A spend of three significant digits, rounded down.

    Raises:
        ValueError: an argument breaks one of these rules.
    """
    if releases < 1:
        raise ValueError(f"releases must be >= 1, got {releases!r}")
    if not (math.isfinite(epsilon) and epsilon > 0 and 0 <= delta < 1):
        raise ValueError(
            f"need a finite epsilon > 0 and 0 <= delta < 1, got {epsilon!r}, {delta!r}"
        )
    if noise is NoiseKind.GAUSSIAN:
        if delta == 0:
            raise ValueError("gaussian noise needs a delta > 0, got 0")

        def fit(spend: Spend) -> bool:
            return adaptive_total([spend] * releases, delta).epsilon <= epsilon

        return Spend(rho=_rounded_down(largest_rho(fit, epsilon)))
    least = _rounded_down(epsilon / releases)  # this share fits by the plain sum
    low, high = least, epsilon
    while delta > 0 and (middle := _rounded_down(math.sqrt(low * high))) > low:
        if delta_of_repeated(middle, releases, epsilon) <= main_delta(delta):
            low = middle
        else:
            high = middle
    # The ledger's accountant rounds up a little: what it adds up decides.
    while low > least and adaptive_total([Spend(epsilon=low)] * releases, delta).epsilon > epsilon:
        low = _rounded_down(low * (1 - 10.0**-DIGITS))
    return Spend(epsilon=max(low, least))


def delta_of_repeated(epsilon: float, releases: int, total: float) -> float:
    """Smallest delta at which `releases` epsilon-DP mechanisms are (total, delta)-DP together.

    [KOV15] Theorem 3.3, as a sum over how often randomised response, the worst mechanism, lies:
    with l of k lies the loss is (k - 2 l) epsilon.
    """

    lies = np.arange(releases + 1)
    loss = (releases - 2 * lies) * epsilon
    chance = scipy.stats.binom.pmf(lies, releases, 1 / (1 + math.exp(epsilon)))
    return float(np.sum(chance * -np.expm1(np.minimum(total - loss, 0.0))))


def releases_left(
    spends: Sequence[Spend],
    spend: Spend,
    epsilon: float,
    delta: float,
    most: int,
    first: Spend | None = None,
) -> int:
    """Count how many more releases of `spend` fit, on top of `spends`, within (epsilon, delta).

    Args:
        spends: costs that count already.
        spend: cost of each further release.
        epsilon, delta: joint limit of all releases.
        most: number at which to stop counting.
        first: the cost that was set aside first, if it is not the first of `spends` any more.

    Returns:
        A number from 0 to `most`.

    Raises:
        ValueError: `delta` is not at least 0 and below 1, or `most` is negative.
    """
    if most < 0:
        raise ValueError(f"most must be >= 0, got {most!r}")

    def fit(count: int) -> bool:
        return count == 0 or fits([*spends, *[spend] * (count - 1)], spend, epsilon, delta, first)

    low, high = 0, 1
    while high <= most and fit(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if fit(middle):
            low = middle
        else:
            high = middle
    return low


def _rounded_down(value: float) -> float:
    exact = Decimal(f"{value:.12g}")  # 0.3 / 3 is 0.1, whatever floats make of it
    step = Decimal(1).scaleb(exact.adjusted() + 1 - DIGITS)
    return float(exact.quantize(step, ROUND_FLOOR))
