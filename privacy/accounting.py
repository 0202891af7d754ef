"""Cost of releases, alone and together: a thin layer over dp-accounting.

A pure epsilon-DP mechanism is represented by binary randomised response with the same epsilon,
which dominates every epsilon-DP mechanism, and an (epsilon, delta)-DP one likewise ([KOV15] Theorem
3.1); Gaussian noise by its rho of zCDP and by a Gaussian mechanism that dominates it but for a
small slack (`gaussian_profile`). A total is the smallest of the bounds that are valid for the
spends at hand:

    sum   epsilons and deltas add up; the Gaussian spends are converted together, at the delta that
          is left: as one Gaussian mechanism, nearly exactly, or by RDP where that is less.
          The sum is exact in the decimals that people typed (`decimals`): ten times 0.1 is 1.
    PLD   privacy-loss distributions on a grid, rounded up; without Gaussian spends. Nearly optimal.
    RDP   Renyi divergences; pure and Gaussian spends.

The accountants are asked only where they can gain something over the sum (`_most_gain`).

The bounds hold for mechanisms chosen one after the other, each in view of the earlier outputs, as
long as what each may *spend* is fixed beforehand: the draws of one release, or a plan. A ledger
cannot know that, so it adds up by `filters`, whose totals hold although costs are chosen in view of
results.

Floats read as the decimal numbers that people typed.

A budget is written in decimals: ten releases at epsilon 0.1 use up a total of 1.0, although the ten
floats add up to a little more than 1. So budgets are summed exactly, as the rational numbers that
the shortest decimals of the floats state (0.1 is one tenth). To calibrate noise, the smaller of the
two readings of a float is used (`smaller_reading`), so a release never costs more than its decimal
says. Floats compare as their decimals do, because both readings are increasing.

References:
    [BS16] Bun, Steinke. Concentrated differential privacy. 2016.
    [KOV15] Kairouz, Oh, Viswanath. The composition theorem for differential privacy. 2015.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hushrank.privacy.units import NoiseKind, PrivacyParams

if TYPE_CHECKING:
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant


def decimal_value(number: float) -> Fraction:
    """The rational number that the shortest decimal of `number` states.

    Raises:
        ValueError: `number` is not finite.
    """
    if not math.isfinite(number):
        raise ValueError(f"only a finite number has a decimal value, got {number!r}")
    return Fraction(repr(float(number)))


def smaller_reading(number: float) -> Fraction:
    """The smaller of the float's binary value and the value of its shortest decimal.

    Raises:
        ValueError: `number` is not finite.
    """
    return min(decimal_value(number), Fraction(number))


def float_at_least(value: Fraction) -> float:
    """The smallest float whose decimal value is at least `value`."""
    nearest = float(value)
    return nearest if decimal_value(nearest) >= value else math.nextafter(nearest, math.inf)


def float_at_most(value: Fraction) -> float:
    """The largest float whose decimal value is at most `value`."""
    return 0.0 - float_at_least(-value)  # gives 0.0 for zero, not -0.0


PLD_GRID = 1e-4  # between two losses; doubled while the epsilons add up to more than ...
PLD_FINE_EPSILON = 15.0  # ... this, which keeps convolutions below half a million cells
PLD_MAX_EPSILON = 480.0  # above it a total means little and exp(loss) nears the end of the floats
PLD_MIN_DELTA = 1e-10  # below it the rounding of the convolutions would be felt
RDP_ORDERS = tuple(1 + 2 ** (k / 4) for k in range(-24, 65))  # zCDP within 0.4 % of the best order
SMALL_EPSILON = 1e-4  # below it the divergence of randomised response drowns in rounding
CONVOLUTION_ERROR = 1e-12  # error of a delta read off a composed PLD; measured below 1e-13


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """Cost of one release: (epsilon, delta)-DP, or that of Gaussian noise where `rho` is set.

    Attributes:
        epsilon, delta: 0 where `rho` is set.
        rho: cost of discrete Gaussian noise on integers, squared sensitivity / (2 squared scale);
            such noise is rho-zCDP.
        l2_squared: squared l2 sensitivity of these integers, or less; 1 where it is not known.

    Raises:
        ValueError: a field is negative or not a number, delta is not below 1, `l2_squared` is not
            at least 1, or both `rho` and `epsilon` or `delta` are set.
    """

    epsilon: float = 0.0
    delta: float = 0.0
    rho: float | None = None
    l2_squared: int = 1

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and 0 <= self.delta < 1):
            raise ValueError(f"a spend needs epsilon >= 0 and 0 <= delta < 1, got {self!r}")
        if not self.l2_squared >= 1:
            raise ValueError(f"a spend needs l2_squared >= 1, got {self!r}")
        if self.rho is None:
            return
        if not self.rho >= 0:
            raise ValueError(f"a spend needs rho >= 0, got {self!r}")
        if self.epsilon > 0 or self.delta > 0:
            raise ValueError(f"a spend is either rho or (epsilon, delta), got {self!r}")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, ready for JSON."""
        return asdict(self)


def spend_of(params: PrivacyParams, l2_squared: int) -> Spend:
    """Return the cost of a release under `params`, if its noise is calibrated to exactly that.

    Args:
        params: the guarantee.
        l2_squared: see `Spend`.
    """
    if params.noise is NoiseKind.LAPLACE:
        return Spend(epsilon=params.epsilon)
    return Spend(rho=rho_of(params, l2_squared), l2_squared=l2_squared)


def rho_of(params: PrivacyParams, l2_squared: int) -> float:
    """The rho of a `gaussian` release: its own, or the largest for its (epsilon, delta).

    Raises:
        ValueError: the noise is not `gaussian`.
    """
    if params.noise is not NoiseKind.GAUSSIAN:
        raise ValueError("only noise: gaussian has a rho")
    if params.rho is not None:
        return params.rho
    if math.isinf(params.epsilon):
        return math.inf
    return rho_for(params.epsilon, params.delta, l2_squared)


def rho_for(epsilon: float, delta: float, l2_squared: int = 1) -> float:
    """Largest rho of discrete Gaussian noise that gives (epsilon, delta)-DP, from below.

    To 1 part in 10^9 of what is known: that of the discrete Gaussian itself, and not only of zCDP.

    Args:
        epsilon, delta: guarantee of one release.
        l2_squared: see `Spend`.

    Raises:
        ValueError: `epsilon` is not finite and > 0, or `delta` is not strictly between 0 and 1.
    """
    if not (math.isfinite(epsilon) and epsilon > 0 and 0 < delta < 1):
        raise ValueError(
            f"need a finite epsilon > 0 and 0 < delta < 1, got {epsilon!r} and {delta!r}"
        )
    return _largest_rho_of_one(epsilon, delta, l2_squared)


@lru_cache(maxsize=256)  # each calibration of one plan asks for the same
def _largest_rho_of_one(epsilon: float, delta: float, l2_squared: int) -> float:
    def holds(spend: Spend) -> bool:
        return epsilon_of(spend, delta) <= epsilon

    return largest_rho(holds, epsilon, l2_squared)


def largest_rho(holds: Callable[[Spend], bool], guess: float, l2_squared: int = 1) -> float:
    """Largest rho whose spend `holds`, from below, to 1 part in 10^9.

    Args:
        holds: true up to some rho and false above it.
        guess: start of the search, > 0.
        l2_squared: see `Spend`.
    """

    def fits_at(rho: float) -> bool:
        return holds(Spend(rho=rho, l2_squared=l2_squared))

    low, high = 0.0, guess
    while fits_at(high):
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if fits_at(middle):
            low = middle
        else:
            high = middle
    return low


def epsilon_of(spend: Spend, delta: float) -> float:
    """Epsilon such that one release that costs `spend` is (epsilon, delta)-DP.

    The epsilon itself where the release is pure; `inf` where no bound exists at that delta.

    Raises:
        ValueError: `delta` is not at least 0 and below 1.
    """
    return _summed_epsilon([spend], delta)


def composed_epsilon(spends: Sequence[Spend], delta: float) -> float:
    """Epsilon such that all `spends` together are (epsilon, delta)-DP.

    The smallest that is known, or one at most `PLD_GRID` above it. Zero-concentrated spends need
    delta > 0, (epsilon, delta) spends at least the sum of their deltas; `inf` where no bound exists
    at this delta.

    Raises:
        ValueError: `delta` is not at least 0 and below 1.
    """
    summed = _summed_epsilon(spends, delta)
    if _most_gain(spends, delta) <= PLD_GRID:
        return summed
    return min(summed, _accountant_epsilon(spends, delta))


def _summed_epsilon(spends: Sequence[Spend], delta: float) -> float:
    total = _sum(spends, delta)
    return math.inf if total is None else float_at_least(total)


def _sum(spends: Sequence[Spend], delta: float) -> Fraction | None:
    """The plain sum, zCDP spends converted at the delta that is left; None where there is none."""
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be at least 0 and below 1, got {delta!r}")
    left = decimal_value(delta) - sum(decimal_value(spend.delta) for spend in spends)
    if left < 0 or any(math.isinf(spend.epsilon) for spend in spends):
        return None
    total = Fraction(sum(decimal_value(spend.epsilon) for spend in spends))
    gaussian = [spend for spend in spends if spend.rho is not None]
    if not gaussian:
        return total
    converted = _gaussian_epsilon(gaussian, float_at_most(left))
    return total + decimal_value(converted) if math.isfinite(converted) else None


def _gaussian_epsilon(spends: Sequence[Spend], delta: float) -> float:
    """Return the epsilon of Gaussian spends by `gaussian_profile`, or by RDP if that is less."""
    from hushrank.privacy.gaussian_profile import Shift, composed_gaussians, shift_of

    shifts: list[Shift] = []
    for spend, count in Counter(spends).items():
        if spend.rho is not None:
            shift = shift_of(spend.rho, spend.l2_squared)
            shifts.append(Shift(count * shift.squared, count * shift.slack))
    by_renyi = float(_rdp(spends).get_epsilon(delta))
    return min(composed_gaussians(shifts, delta), by_renyi)


def _most_gain(spends: Sequence[Spend], delta: float) -> float:
    """Return how far any accountant's epsilon can be below the plain sum; `inf` if unknown.

    Pure releases may be randomised responses, which all tell the truth with probability p, the
    product of the 1 / (1 + exp(-epsilon)); their likelihood ratio is then exp(sum). What is
    (epsilon', delta)-DP bounds that event: p (1 - exp(epsilon' - sum)) <= delta. So no valid
    epsilon' is below sum + log(1 - delta / p).
    """
    if any(spend.rho is not None or spend.delta > 0 for spend in spends):
        return math.inf
    share = delta * math.prod(1 + math.exp(-spend.epsilon) for spend in spends)
    return -math.log1p(-share) if share < 1 else math.inf


def _accountant_epsilon(spends: Sequence[Spend], delta: float) -> float:
    """Total of the accountant at `delta`: PLD or RDP; `inf` where neither has a bound."""
    reach = math.fsum(spend.epsilon for spend in spends)
    concentrated = any(spend.rho is not None for spend in spends)
    if not concentrated and reach <= PLD_MAX_EPSILON and delta >= PLD_MIN_DELTA:
        # Powers of two: a finer grid lies on the coarser ones, so it never rounds up further.
        grid = PLD_GRID * 2 ** max(0, math.ceil(math.log2(max(reach, 1.0) / PLD_FINE_EPSILON)))
        composed = _composed_pld(spends, grid)
        return float(composed.get_epsilon_for_delta(delta - CONVOLUTION_ERROR))
    if delta > 0 and all(spend.delta == 0 for spend in spends):
        return float(_rdp(spends).get_epsilon(delta))
    return math.inf


def _composed_pld(spends: Sequence[Spend], grid: float) -> Any:
    """Equal spends at once, then in pairs, so that the long convolutions are few."""
    from dp_accounting.pld import common as pld_common
    from dp_accounting.pld import privacy_loss_distribution as pld

    parts = [
        pld.from_privacy_parameters(
            pld_common.DifferentialPrivacyParameters(spend.epsilon, spend.delta), grid
        ).self_compose(count)
        for spend, count in Counter(spends).items()
        if spend != Spend()
    ]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        parts = [left.compose(right) for left, right in pairs] + parts[len(parts) // 2 * 2 :]
    return parts[0] if parts else pld.identity(grid)


def _rdp(spends: Sequence[Spend]) -> RdpAccountant:
    from dp_accounting.privacy_accountant import NeighboringRelation
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(RDP_ORDERS, NeighboringRelation.REPLACE_ONE)
    for spend, count in Counter(spends).items():
        accountant.compose(_event(spend), count)
    return accountant


def _event(spend: Spend) -> dp_event.DpEvent:
    """The accountant's name for a pure or zCDP spend."""
    from dp_accounting import dp_event

    if math.isinf(spend.epsilon) or (spend.rho is not None and math.isinf(spend.rho)):
        return dp_event.NonPrivateDpEvent()
    if spend.rho is not None:
        return dp_event.ZCDpEvent(spend.rho)
    if spend.epsilon < SMALL_EPSILON:
        return dp_event.ZCDpEvent(spend.epsilon**2 / 2)  # [BS16] Proposition 1.4
    odds = math.exp(-spend.epsilon)  # odds of a lie against the truth
    return dp_event.RandomizedResponseDpEvent(2 * odds / (1 + odds), 2)
