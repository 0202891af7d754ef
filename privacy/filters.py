"""Totals that hold although each cost is chosen in view of all earlier results. Pure.

An analyst looks at a result and then decides what the next release may cost. `composed_epsilon` is
for costs that were fixed before; below the plain sum it does not hold for such an analyst. Here a
limit (epsilon, delta) is a *privacy filter* ([RRUV16]): a set of histories of costs, closed under
leaving out costs at the end, such that whoever goes on only inside the set is (epsilon, delta)-DP,
whatever the strategy. `fits` says whether a history is inside. A total is the smallest epsilon
whose limit allows the history.

Lemma (union). If U_1, ..., U_k are filters for (epsilon, delta_j), then "inside at least one" is a
filter for (epsilon, sum of the delta_j). Proof. An event consists of whole interactions. Split it
by the first j whose U_j holds the costs of the interaction. Part j is an event of the analyst who
stops before leaving U_j, and has the same probabilities there: P(part) <= e^epsilon P'(part) +
delta_j. Add up. QED. Which filters these are and their delta_j may depend on the cost that was set
aside first, because nothing had been seen then.

Costs with delta > 0. An (e, d)-DP release is, but for an event whose chance is d on either input,
randomised response at e ([KOV15] Theorem 3.1). So filters for pure costs remain such if costs with
a delta are counted as pure, and their d add up to at most D in all of them: delta grows by D, once
for all filters together, because these events are the same.

The filters of a limit (epsilon, delta), by the first cost:

    sum          The epsilons add up to at most epsilon. Exact in decimals; takes no delta.
    equal-costs  The first is pure, s: no cost has a delta or is above s, and N of them, s each, are
                 (epsilon, 63/64 delta)-DP. Composition of N s-DP releases is adaptive already.
    gaussian     The first is Gaussian: all are, and their charges m^2 (`charge_of`) add up to M
                 with F(M, epsilon) <= 63/64 delta; see below.
    renyi        At one of eight orders a: the Renyi divergences add up to r with
                 r + log(1 - 1/a) - log(a delta / 1024) / (a - 1) <= epsilon: 1/1024 delta each
                 ([FZ21] Theorem 4.3 at one fixed order, also [L21]; [CKS20] Proposition 12).

Together 63/64 + 8/1024 + 1/128 = 1 delta, for D is 1/128 delta; costs with a delta are inside
`sum` and `renyi`. Where the first cost has a delta itself, D is delta, and `sum` is the only one.

Pure and Gaussian costs in one history have `renyi` only. To convert the Gaussian ones at delta and
add the pure ones is no filter: the analyst may take the one or the other in view of the first
result, which can cost nearly twice delta (`tests/privacy/test_filters.py`).

    one          A single counted Gaussian cost is what it is by itself, at delta. If it is inside a
                 filter above, the lemma covers it; if not, nothing can be added to it, and the
                 analyst has this release and no other.

Theorem ([ST22] for Gaussian noise). Let delta(e; m) be the profile of `gaussian_profile`, K =
`SLACK_PER_CHARGE` and F(M, e) = exp(K M) delta(e - K M; sqrt(M)). Discrete Gaussian releases, each
chosen in view of all earlier ones, whose charges never add up to more than M, have P(event) <=
e^e P'(event) + F(M, e) for every real e. Proof, by induction on how many are still to come. Let the
first have laws P, P' and the charge c. Given its output y, the rest has at most F(M - c, e + log
P'(y) / P(y)) by induction, which is what one fixed Gaussian of squared shift M - c has, with factor
exp(K (M - c)), whatever y is. Put it in the place of the rest: what follows no longer depends on y,
and both releases compose as in `gaussian_profile`, to squared shift c + (M - c) and slack K M. F
grows with M, so an analyst who charges less has no more. QED. The induction needs one number for
a release, so a slack S above K m^2 is charged as m^2 = S / K.

A reservation whose look at the rows stops it costs the look. It counts as one of N in
`equal-costs`, under what it had set aside. For sums of epsilons and of Renyi divergences what is
given back can be used again, because both are at least as large for the whole as for look and rest
one by one.

A stream is set aside at once, and its nights are drawn between other releases. Its whole cost is
charged before its first night: the shifts and divergences of its nights add up to it along every
path, and a pure one is post-processing of one randomised response, drawn at its start ([VW21]).

A budget over many releases: the equal share of each, and how many more fit. Pure.

Both rest on `filters`, by which a ledger adds up, so that a ledger lets pass what is planned here.
The same people take part in every release: losses compose, they do not overlap.

References:
    [CKS20] Canonne, Kamath, Steinke. The discrete Gaussian for differential privacy. 2020.
    [FZ21] Feldman, Zrnic. Individual privacy accounting via a Renyi filter. 2021.
    [KOV15] Kairouz, Oh, Viswanath. The composition theorem for differential privacy. 2015.
    [L21] Lecuyer. Practical privacy filters and odometers with Renyi differential privacy. 2021.
    [RRUV16] Rogers, Roth, Ullman, Vadhan. Privacy odometers and filters. 2016.
    [ST22] Smith, Thakurta. Fully adaptive composition for Gaussian differential privacy. 2022.
    [VW21] Vadhan, Wang. Concurrent composition of differential privacy. 2021.
    [WRRW23] Whitehouse, Ramdas, Rogers, Wu. Fully-adaptive composition in differential privacy.
        2023. Its zCDP filter is the same sum at a mixture of orders.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from enum import StrEnum
from fractions import Fraction

import numpy as np
import scipy

from hushrank.privacy.accounting import (
    Spend,
    composed_epsilon,
    decimal_value,
    epsilon_of,
    float_at_least,
    float_at_most,
    largest_rho,
)
from hushrank.privacy.units import NoiseKind

MAIN_SHARE = Fraction(63, 64)  # share of delta for the filter that the first cost selects
RENYI_SHARE = Fraction(1, 1024)  # share of delta for each order
SUM_SHARE = Fraction(1, 128)  # share of delta for the deltas of costs, if the first has none
RENYI_ORDERS = (1.5, 2.0, 3.0, 5.0, 9.0, 17.0, 33.0, 65.0)  # fixed: chosen in view of no cost
SLACK_PER_CHARGE = 1e-3  # slack S over squared shift; only small scales have more
FLOAT_ERROR = 1e-12  # relative, of sums of logarithms and exponentials of floats
REMAINING_ACCURACY = 1e-6  # accuracy of what is left by Renyi divergence, as a share of the budget
MOST_EXPONENT = 30.0  # above it exp(x) - 1 is exp(x), to the last bit of a float


class Rule(StrEnum):
    """The filter by which a total holds."""

    SUM = "sum"
    EQUAL_COSTS = "equal-costs"
    GAUSSIAN = "gaussian"
    RENYI = "renyi"
    ONE = "one"


@dataclass(frozen=True, slots=True)
class Total:
    """The smallest limit that allows a history of costs.

    Attributes:
        epsilon: joint epsilon at the delta of the question; `inf` where no rule has a bound.
        rule: the filter that allows the history at this epsilon.
    """

    epsilon: float
    rule: Rule


def adaptive_total(spends: Sequence[Spend], delta: float, first: Spend | None = None) -> Total:
    """The smallest epsilon of a limit at `delta` that allows `spends`.

    Args:
        spends: costs that count; their order matters only for the default of `first`.
        delta: delta of the limit.
        first: the cost that was set aside first, if it is not the first of `spends` any more: a
            look has stopped that release, or it was cancelled after others were drawn.

    Raises:
        ValueError: `delta` is not at least 0 and below 1.
    """
    best = Total(math.inf, Rule.SUM)
    for bound in _bounds(spends, delta, first):
        if bound.epsilon < best.epsilon:
            best = bound
    return best


def fits(
    spends: Sequence[Spend], new: Spend, epsilon: float, delta: float, first: Spend | None = None
) -> bool:
    """Whether the limit (epsilon, delta) allows `new` on top of `spends`.

    Args:
        spends, delta, first: as for `adaptive_total`.
        new: cost of one more release.
        epsilon: epsilon of the limit.

    Raises:
        ValueError: `delta` is not at least 0 and below 1.
    """
    first = first_cost(spends, first)
    return any(bound.epsilon <= epsilon for bound in _bounds([*spends, new], delta, first))


def remaining_epsilon(
    spends: Sequence[Spend], epsilon: float, delta: float, first: Spend | None = None
) -> float:
    """Largest epsilon of one more pure release that the limit (epsilon, delta) allows, from below.

    At least what the plain sum leaves, exactly. What is returned always `fits`; 0: nothing does.

    Args:
        spends, delta, first: as for `adaptive_total`.
        epsilon: epsilon of the limit.

    Raises:
        ValueError: `epsilon` is not finite, or `delta` is not at least 0 and below 1.
    """
    _require_delta(delta)
    first, allowed = first_cost(spends, first), decimal_value(epsilon)
    added = _added(spends)
    found = [0.0]
    if added is not None and added <= allowed:
        found.append(float_at_most(allowed - added))
    if first is not None and _is_pure(first):
        found.append(min(first.epsilon, epsilon))
    if first is not None and not first.delta and delta > 0:
        found.append(_left_by_renyi(spends, epsilon, delta))
    largest_first = sorted(found, reverse=True)
    return next(
        (each for each in largest_first if fits(spends, _pure(each), epsilon, delta, first)), 0.0
    )


def first_cost(spends: Sequence[Spend], first: Spend | None = None) -> Spend | None:
    """The cost that selects the filters: `first`, else the first of `spends` that is not free."""
    counted = (spend for spend in spends if not _is_free(spend))
    return first if first is not None and not _is_free(first) else next(counted, None)


def charge_of(spend: Spend) -> float:
    """Squared shift m^2 that filter `gaussian` charges for a Gaussian cost, rounded up.

    `inf` where the theorem of `gaussian_profile` gives nothing.
    """
    from hushrank.privacy.gaussian_profile import shift_of

    shift = shift_of(spend.rho or 0.0, spend.l2_squared)
    return max(shift.squared, shift.slack / SLACK_PER_CHARGE * (1 + FLOAT_ERROR))


def renyi_divergence(spend: Spend, order: float) -> float:
    """Renyi divergence of a pure or Gaussian cost at `order`, rounded up.

    A pure cost is randomised response, the worst epsilon-DP release: at order a and epsilon e

        log((exp(a e) + exp((1 - a) e)) / (1 + exp(e))) / (a - 1)

    written so that nothing cancels where e is small.
    """
    if spend.rho is not None:
        return order * spend.rho * (1 + FLOAT_ERROR)
    epsilon, above = spend.epsilon, order - 1
    if order * epsilon > MOST_EXPONENT:
        smaller = math.log1p(math.exp((1 - 2 * order) * epsilon)) - math.log1p(math.exp(-epsilon))
        return min(epsilon, epsilon + smaller / above + FLOAT_ERROR * epsilon)
    excess = -math.expm1(-above * epsilon) * math.expm1(order * epsilon) / (1 + math.exp(epsilon))
    return min(epsilon, math.log1p(excess) / above * (1 + FLOAT_ERROR))


def epsilon_of_renyi(divergence: float, order: float, delta: float) -> float:
    """Epsilon at `delta` of a Renyi divergence at `order` ([CKS20] Proposition 12), rounded up."""
    exact = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    return max(0.0, (divergence + exact) + FLOAT_ERROR * (divergence + abs(exact)))


def main_delta(delta: float) -> float:
    """The part of a limit's `delta` that equal costs and Gaussian costs may use, rounded down."""
    return float_at_most(MAIN_SHARE * decimal_value(delta))


def _bounds(spends: Sequence[Spend], delta: float, first: Spend | None) -> Iterator[Total]:
    """The epsilon of every rule that applies, the cheap ones before the slow ones."""
    _require_delta(delta)
    counted, first = [spend for spend in spends if not _is_free(spend)], first_cost(spends, first)
    if first is None:
        yield Total(0.0, Rule.SUM)
        return
    deltas = sum((decimal_value(spend.delta) for spend in counted), Fraction(0))
    if deltas > (1 if first.delta else SUM_SHARE) * decimal_value(delta):
        return
    added = _added(counted)
    if added is not None:
        yield Total(float_at_least(added), Rule.SUM)
    if delta == 0 or first.delta:
        return
    if len(counted) == 1 and added is None:
        yield Total(epsilon_of(counted[0], delta), Rule.ONE)
    if all(spend.rho is not None for spend in (first, *counted)):
        yield Total(_gaussian_epsilon(counted, delta), Rule.GAUSSIAN)
    yield Total(_renyi_epsilon(counted, delta), Rule.RENYI)
    if _is_pure(first) and all(
        _is_pure(each) and each.epsilon <= first.epsilon for each in counted
    ):
        repeated = [first] * len(counted)
        yield Total(composed_epsilon(repeated, main_delta(delta)), Rule.EQUAL_COSTS)


def _gaussian_epsilon(spends: Sequence[Spend], delta: float) -> float:
    from hushrank.privacy.gaussian_profile import Shift, composed_gaussians

    charge = math.fsum(often * charge_of(spend) for spend, often in Counter(spends).items())
    slack = SLACK_PER_CHARGE * charge * (1 + FLOAT_ERROR)
    return composed_gaussians([Shift(charge, slack)], main_delta(delta))


def _renyi_epsilon(spends: Sequence[Spend], delta: float) -> float:
    share = float_at_most(RENYI_SHARE * decimal_value(delta))
    if not share > 0:
        return math.inf
    return min(epsilon_of_renyi(_divergence(spends, order), order, share) for order in RENYI_ORDERS)


def _divergence(spends: Sequence[Spend], order: float) -> float:
    found = Counter(spends).items()
    return math.fsum(often * renyi_divergence(spend, order) for spend, often in found)


def _left_by_renyi(spends: Sequence[Spend], epsilon: float, delta: float) -> float:
    low, high = 0.0, epsilon
    while high - low > REMAINING_ACCURACY * epsilon:
        middle = (low + high) / 2
        if _renyi_epsilon([*spends, _pure(middle)], delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def _added(spends: Sequence[Spend]) -> Fraction | None:
    """The sum of the epsilons; None where a cost is Gaussian or infinite."""
    if any(spend.rho or math.isinf(spend.epsilon) for spend in spends):
        return None
    return sum((decimal_value(spend.epsilon) for spend in spends), Fraction(0))


def _is_pure(spend: Spend) -> bool:
    return spend.rho is None and spend.delta == 0


def _is_free(spend: Spend) -> bool:
    return not (spend.epsilon or spend.delta or spend.rho)


def _pure(epsilon: float) -> Spend:
    return Spend(epsilon=epsilon)


def _require_delta(delta: float) -> None:
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be at least 0 and below 1, got {delta!r}")


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
