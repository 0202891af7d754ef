"""Names of items that enough people mention, released by the weighted Gaussian threshold.

Of each person at most c distinct names count, c public; a person with d of them adds the weight
1 / sqrt(d) to each. A name somebody mentions has the sum W of its weights. Each such W gets
discrete Gaussian noise, and the name is published if the noisy W reaches a public threshold. Names
that nobody mentions cannot appear and get no noise. Weights are integers in units of 2^-20, rounded
down.

Theorem. Let the noise have variance l2^2 / (2 rho), l2 from `names_sensitivity`, and the threshold
be that of `threshold_of`. The published names with their noisy weights are delta-approximately
rho-zCDP ([BS16] Definition 8.1). So together with whatever is drawn afterwards in view of them,
where that is rho'-zCDP for every list of names, they are (epsilon, delta + delta')-DP for each
(epsilon, delta') that Gaussian noise of rho and rho' together gives.

Proof. Let x and x' differ in one person. Let U be the names that only that person mentions in x,
t <= c of them; each has at most the weight 1 / sqrt(t) there, for d >= t. Let E be the event that
one of U is published: by the union bound P(E) is at most t times the chance that noise reaches the
threshold less 1 / sqrt(t), which `threshold_of` keeps below delta. E depends on the noise of U
alone. Outside E all that is published is computed from the noisy weights of names that somebody
mentions in both x and x'; these are a Gaussian mechanism whose l2 sensitivity is at most that of
`names_sensitivity`. The same holds of x' and the names that only its person mentions. So, given
that neither happens, which has probability at least 1 - delta on each side, both laws are those of
one Gaussian mechanism. What is drawn afterwards composes with it adaptively. No factor e^epsilon
stands before delta.

What it does not hide: people who agree, or one person with many accounts, have any text published
once there are about `people_needed`; and with probability delta a name of one person alone appears.

References:
    [BS16] Bun, Steinke. Concentrated differential privacy. 2016.
    [CKS20] Canonne, Kamath, Steinke. The discrete Gaussian for differential privacy. 2020.
        Proposition 25: P(X >= m) <= P(N(0, sigma^2) >= m - 1) for integers m.
    [KKMN09] Korolova, Kenthapadi, Mishra, Ntoulas. Releasing search queries and clicks privately.
        2009. Names by a threshold.
    [GGKNS20] Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin. Differentially private set union.
        2020. Weights that share out an l2 norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hushrank.privacy.accounting import Spend, decimal_value, float_at_most, largest_rho
from hushrank.privacy.gaussian_profile import FLOAT_ERROR, composed_gaussians, shift_of
from hushrank.privacy.noise import NoiseLaw, add_noise, gaussian_law
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import (
    MOST_NAMES_FOUND,
    MOST_SHARE_OF_NAMES,
    Adjacency,
    Discovery,
)

ONE = 1 << 20  # integer units of a weight of 1
SHARE_OF_DELTA = Fraction(1, 4)  # part of delta that pays for names of one person alone

Weights = NDArray[np.int64]
# Weight of each of d names of a person, by d: floor(2^20 / sqrt(d)).
WEIGHTS: Weights = np.array([0, *(math.isqrt(ONE**2 // d) for d in range(1, MOST_NAMES_FOUND + 1))])


def names_sensitivity(most_names: int, adjacency: Adjacency) -> Sensitivity:
    """Sensitivity of the sums of weights, in units of 2^-20.

    Bound: l2^2 = 2^40 and l1 = c floor(2^20 / sqrt(c)), add-remove; twice both, replace-one. Exact.

    A person with d <= c names adds d weights of floor(2^20 / sqrt(d)): their squares add up to at
    most 2^40, and to that for d = 1. Their sum grows with d: from d to d + 1 by at least
    2^20 (sqrt(d + 1) - sqrt(d)) - (d + 1), which is above 52,000 for d < 100. Replacing a person
    takes one such vector away and adds another one; no entry is negative, so the square of the
    difference is at most the sum of both squares, and is that where no name is in both.

    Args:
        most_names: c, from 1 to `MOST_NAMES_FOUND`.
        adjacency: what may differ between two inputs.
    """
    sides = 1 if adjacency is Adjacency.ADD_REMOVE else 2
    return Sensitivity(sides * most_names * int(WEIGHTS[most_names]), sides * ONE**2)


@lru_cache(maxsize=64)  # every calibration of one job asks for the same
def discovery_of(
    epsilon: float, delta: float, share: float, most_names: int, adjacency: Adjacency
) -> Discovery:
    """Split (epsilon, delta) between names and the ranking that follows.

    A quarter of delta pays for names of one person alone. At what is left of it, Gaussian noise of
    rho' for names and rho'' for the ranking is (epsilon, delta)-DP, by `gaussian_profile` or by
    [BS16] Proposition 1.3, whichever gives more; names get `share` of their sum.

    Raises:
        ValueError: a value is out of range; the text begins with its name.
    """
    if not 0 < share <= MOST_SHARE_OF_NAMES:
        raise ValueError(
            f"share must be above 0 and at most {MOST_SHARE_OF_NAMES:g}, got {share!r}"
        )
    if not 1 <= most_names <= MOST_NAMES_FOUND:
        raise ValueError(f"most_items must be from 1 to {MOST_NAMES_FOUND}, got {most_names!r}")
    alone = float_at_most(decimal_value(delta) * SHARE_OF_DELTA)
    left = float_at_most(decimal_value(delta) - decimal_value(alone))
    squared = names_sensitivity(most_names, adjacency).l2_squared

    def holds(spend: Spend) -> bool:
        rho = spend.rho or 0.0
        shifts = shift_of(share * rho, squared), shift_of((1 - share) * rho, 1)
        plain = (rho + 2 * math.sqrt(rho * -math.log(left))) * (1 + FLOAT_ERROR)
        return min(plain, composed_gaussians(shifts, left)) <= epsilon

    rho = largest_rho(holds, epsilon)
    return Discovery(
        epsilon=epsilon,
        delta=delta,
        rho=share * rho,
        rest=(1 - share) * rho,
        delta_names=alone,
        most_names=most_names,
    )


@dataclass(frozen=True, slots=True)
class NamesMechanism:
    """Noise and threshold of the weights of names, from public settings alone.

    Attributes:
        sensitivity: sensitivity of the weights, in units of 2^-20.
        law: law of the noise in each weight.
        threshold: a name is published if its noisy weight is at least this.
    """

    sensitivity: Sensitivity
    law: NoiseLaw
    threshold: int

    @classmethod
    def of(cls, terms: Discovery, adjacency: Adjacency) -> NamesMechanism:
        """Calibrate noise and threshold to the terms."""
        sensitivity = names_sensitivity(terms.most_names, adjacency)
        law = gaussian_law(sensitivity, terms.rho)
        return cls(sensitivity, law, threshold_of(law, terms.delta_names, terms.most_names))

    def people_needed(self, names: int) -> int:
        """People with so many names each of whom a name needs for an even chance."""
        return math.ceil(self.threshold / int(WEIGHTS[names]))


def threshold_of(law: NoiseLaw, delta: float, most_names: int) -> int:
    """Least weight at which a name is published, in units of 2^-20.

    Bound: for every t <= c, t P(noise >= threshold - floor(2^20 / sqrt(t))) <= delta, where the
    tail of the discrete Gaussian is at most that of the normal, one unit further in ([CKS20]).

    Args:
        law: law of the noise, `gaussian`.
        delta: most probability with which a name of one person alone is published.
        most_names: c.
    """
    numbers = np.arange(1, most_names + 1)
    reach = -law.scale * ndtri(delta / numbers)
    # One unit for the tail, one for rounding: floats of this size are right to 10^-7 units.
    return int(np.ceil(WEIGHTS[numbers] + reach).max()) + 2


def publish_names(
    weights: Weights, mechanism: NamesMechanism, bits: RandomBits
) -> tuple[NDArray[np.int64], Weights]:
    """Add noise to the weights of all names that somebody mentions; keep those that reach it.

    Guarantee: see the module. Drawn once a release.

    Args:
        weights: shape (m,), exact weights, each > 0; confidential.
        mechanism: noise and threshold.
        bits: source of the noise.

    Returns:
        Places of the published names, the largest noisy weight first, and these noisy weights.
    """
    noisy = add_noise(weights[weights > 0], mechanism.law, bits)
    mentioned = np.flatnonzero(weights > 0)
    reached = np.flatnonzero(noisy >= mechanism.threshold)
    order = reached[np.argsort(-noisy[reached], kind="stable")]
    return mentioned[order], noisy[order]
