"""Precision of scores from randomised answers, and the number of people that it takes.

[XSC] §S.1.4 gives the order of the largest error, sqrt(1 / (n p G)): n items, each person asked a
share p of the pairs, G = sum over people of t^2, t = tanh(epsilon / 2). Here the constant is kept
too. For scores near each other a pair of weight w = p G has the information w I about its
difference, I = F'(0)^2 / (F(0) (1 - F(0))), so the scores' covariance is
(identity - 1/n) / (n w I). Scores that lie further apart are known less well: within +-1, by about
a tenth for the logistic link.

Number of comparisons of each pair, from noisy counts of comparisons of each item.

The exposure of an item is the number of comparisons in which it took part. Given exposures alone,
the likeliest design (of largest entropy) is

    W[i, j] = a_i a_j,   with row sums equal to the exposures,

that is: partners meet by chance, in proportion to how often they are shown. The factors a are those
of iterative proportional fitting ([DS40]).

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
    [DS40] Deming, Stephan. On a least squares adjustment of a sampled frequency table when the
        expected marginal totals are known. 1940.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, ndtr

from hushrank.estimation.common.links import Floats, Link
from hushrank.estimation.fit.weighted_pairs import WeightedPairs
from hushrank.privacy.randomized_response import attenuation, flip_thresholds

KNOTS = 4_001  # knots of the trapezoid rule for the mean of a largest error: right to 10^-10


@dataclass(frozen=True, slots=True)
class PredictedError:
    """Errors to expect of the scores, before they are estimated.

    Attributes:
        typical: n^(-1/2) l2 norm of the error, the standard error of one score.
        largest: l-infinity norm of the error, its mean.
    """

    typical: float
    largest: float


def predicted_error(n_items: int, pair_weight: float, link: Link) -> PredictedError:
    """Error of scores from pairs of mean weight w = p G.

    Args:
        n_items: n, at least 2.
        pair_weight: w, > 0; see `mean_pair_weight`.
        link: F.

    Raises:
        ValueError: an argument is out of range.
    """
    _require(n_items, pair_weight=pair_weight)
    typical = math.sqrt(_typical_squared_times_weight(n_items, link) / pair_weight)
    return PredictedError(typical, _largest_of_normals(n_items) * typical)


def mean_pair_weight(pairs: WeightedPairs) -> float:
    """p G of sums that exist already: their mean weight over all pairs of items."""
    return float(pairs.pair_values()[1].sum()) / (pairs.n_items * (pairs.n_items - 1) / 2)


def weight_under_noise(pair_weight: float, noise_variance: float) -> float:
    """Mean weight of pairs without noise that say as much as noisy ones of `pair_weight`.

    Noise of variance v on both counts of a pair adds 2 v to the variance w of what w comparisons
    say of it, so w^2 / (w + 2 v) comparisons say as much.

    Args:
        pair_weight: w, comparisons of a pair to expect, > 0.
        noise_variance: v, of the noise on one entry of the matrix of wins, in comparisons.
    """
    return pair_weight**2 / (pair_weight + 2 * noise_variance)


def weight_under_perturbation(
    n_items: int, pair_weight: float, noise_variance: float, link: Link
) -> float:
    """Return the weight under noise of variance v on each entry of the gradient of the likelihood.

    The information of an item is h = n w I, and its score has variance (h + v) / h^2.
    """
    h = n_items * pair_weight * float(link.information(np.zeros(1))[0])
    return pair_weight * h / (h + noise_variance)


def predicted_share_error(
    n_items: int, pair_weight: float, pair_share: float, noise_variance: float
) -> PredictedError:
    """Error of win shares from noisy win counts.

    An item takes part in c = (n - 1) w comparisons and wins half of them: who wins adds c / 4 to
    the variance of its count, how often it was asked about c (1 - p) / 4, the noise v.

    Args:
        n_items: n, at least 2.
        pair_weight: w, comparisons of a pair to expect, > 0.
        pair_share: p, the share of the pairs that a person is asked, in (0, 1]; 0: pairs are drawn
            independently.
        noise_variance: v, of the noise on one count, in comparisons.
    """
    _require(n_items, pair_weight=pair_weight)
    c = (n_items - 1) * pair_weight
    variance = c / 4 + c * (1 - pair_share) / 4 + noise_variance
    typical = math.sqrt((1 - 1 / n_items) * variance) / c
    return PredictedError(typical, _largest_of_normals(n_items) * typical)


def information_needed(target_error: float, n_items: int, pair_share: float, link: Link) -> float:
    """The stopping rule's alpha: collect answers until G reaches it ([XSC] §S.1.4).

    Args:
        target_error: largest error of a score, in mean, > 0.
        n_items: n, at least 2.
        pair_share: p, the share of the pairs that a person is asked, in (0, 1].
        link: F.

    Returns:
        The G at which `predicted_error` is the target.

    Raises:
        ValueError: an argument is out of range.
    """
    _require(n_items, target_error=target_error, pair_share=pair_share)
    if pair_share > 1:
        raise ValueError(f"pair_share must be at most 1, got {pair_share!r}")
    typical = target_error / _largest_of_normals(n_items)
    return _typical_squared_times_weight(n_items, link) / typical**2 / pair_share


def people_needed(information: float, mix: Mapping[float, float]) -> int:
    """Fewest people whose answers are expected to reach G = `information`.

    Args:
        information: value from `information_needed`, > 0.
        mix: epsilon of an answer -> relative number of people who choose it.

    Raises:
        ValueError: an argument is out of range, or the mix carries no information.
    """
    if not (math.isfinite(information) and information > 0):
        raise ValueError(f"information must be finite and > 0, got {information!r}")
    shares = np.array(list(mix.values()), np.float64)
    if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.sum() > 0):
        raise ValueError("the mix of epsilons needs shares >= 0, and at least one above 0")
    t = attenuation(flip_thresholds(np.array(list(mix), np.float64)))
    per_person = float(shares @ t**2 / shares.sum())
    if per_person == 0:
        raise ValueError("answers at these epsilons say nothing: no number of people is enough")
    return math.ceil(information / per_person)


def _typical_squared_times_weight(n_items: int, link: Link) -> float:
    information = float(link.information(np.zeros(1))[0])
    return (1 - 1 / n_items) / (n_items * information)


def _largest_of_normals(count: int) -> float:
    """Mean of the largest of `count` independent |standard normal| variables."""
    x = np.linspace(0, 10 + math.sqrt(2 * math.log(count)), KNOTS)
    return float(np.trapezoid(1 - (2 * ndtr(x) - 1) ** count, x))


def _require(n_items: int, **positive: float) -> None:
    if n_items < 2:
        raise ValueError(f"a ranking needs at least 2 items, got {n_items}")
    for name, value in positive.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be finite and > 0, got {value!r}")


FITTING_STEPS = 500
FITTED = 1e-9  # relative error of a row sum at which the fit is over
LEAST_CLEAR = 0.5  # standard deviations of its noise that every exposure is taken to have at least
LEAST_EXPOSURE = 0.5  # comparisons, likewise: where there is no noise, an item may have none
UNBALANCED_TAIL = 1e-4
UNBALANCED_SPREAD = 0.1


@dataclass(frozen=True, slots=True)
class Exposures:
    """Noisy exposures of n items, in comparisons.

    Attributes:
        values: shape (n,), as released: of any sign.
        noise_variance: variance of the noise in each.
    """

    values: Floats
    noise_variance: float

    @property
    def plausible(self) -> Floats:
        """The released ones, none below half a standard deviation of the noise; shape (n,)."""
        least = max(LEAST_CLEAR * math.sqrt(self.noise_variance), LEAST_EXPOSURE)
        return np.asarray(np.maximum(self.values, least))

    def drawn_together(self) -> Exposures:
        """The exposures, drawn to their mean as far as noise explains how they differ."""
        n, mean = len(self.values), self.values.mean()
        seen = float(((self.values - mean) ** 2).sum()) / (n - 1)
        kept = 1.0 if self.noise_variance == 0 else max(0.0, 1 - self.noise_variance / seen)
        left = self.noise_variance * (kept + (1 - kept) / n)
        return Exposures(mean + kept * (self.values - mean), left)

    def clearly_unbalanced(self) -> bool:
        """Whether exposures differ by more than chance and noise make them, and by much.

        If partners are drawn at random, exposures of a balanced design are binomial: their variance
        is at most their mean. A chi-square test at `UNBALANCED_TAIL`, and a relative spread beyond
        that of at least `UNBALANCED_SPREAD`.
        """
        n, mean = len(self.values), max(float(self.values.mean()), 0.0)
        spread = float(((self.values - mean) ** 2).sum())
        chance = self.noise_variance + mean
        excess = spread / (n - 1) - chance
        if mean == 0 or excess < (UNBALANCED_SPREAD * mean) ** 2:
            return False
        return spread / chance > float(chdtri(n - 1, UNBALANCED_TAIL))

    def factors(self) -> Floats:
        """The factors a of the design, shape (n,).

        No item is taken to have met more opponents than there are: an exposure above the sum of
        all others, which only noise can make, is lowered to it.
        """
        rows = self.plausible
        rows = np.minimum(rows, rows.sum() - rows)
        factors = rows / math.sqrt(rows.sum())
        for _ in range(FITTING_STEPS):
            sums = factors * (factors.sum() - factors)
            if np.abs(sums - rows).max() <= FITTED * rows.max():
                break
            factors = factors * np.sqrt(rows / sums)
        return np.asarray(factors)

    def design(self) -> Floats:
        """Expected comparisons of each pair, shape (n, n): symmetric, zero on the diagonal."""
        factors = self.factors()
        design = np.outer(factors, factors)
        np.fill_diagonal(design, 0.0)
        return design
