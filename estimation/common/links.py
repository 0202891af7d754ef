"""Link functions F: the chance that an item wins is F(d), d its score minus its opponent's.

Every F is a strictly increasing distribution function with F(-d) = 1 - F(d), so the chance of
losing needs no functions of its own. All are accurate in both tails.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_expit, log_ndtr, ndtr

from hushrank.privacy.objective_perturbation import LossBounds

Floats = NDArray[np.float64]

LARGEST_EXPONENT = 700.0  # exp of it is still finite
PROBIT_TAIL = 100.0


@dataclass(frozen=True, slots=True)
class Link:
    """One link function and its logarithm, as a likelihood and its privacy analysis need them.

    Attributes:
        name: name of the link in the configuration.
        cdf: F, the chance of winning.
        log_cdf: log F.
        derivatives: (log F)', which decreases, and -(log F)'', at least 0: F is log-concave.
        slope_bound: sup (log F)' = sup F'/F, the most one comparison pulls at its winner's score.
        kappa1: sup F'/(F(1 - F)), the most that flipping one outcome changes ([CCW] A1).
        kappa2: sup -(log F)'' ([CCW] A2, which has a strict inequality that no proof needs).
        outcome_free_curvature: -(log F)'' is even, so it does not tell who won.
    """

    name: str
    cdf: Callable[[Floats], Floats]
    log_cdf: Callable[[Floats], Floats]
    derivatives: Callable[[Floats], tuple[Floats, Floats]]
    slope_bound: float
    kappa1: float
    kappa2: float
    outcome_free_curvature: bool

    def slope(self, d: Floats) -> Floats:
        """(log F)' = F'/F, between 0 and `slope_bound`."""
        return self.derivatives(d)[0]

    def curvature(self, d: Floats) -> Floats:
        """-(log F)'', between 0 and `kappa2`."""
        return self.derivatives(d)[1]

    def information(self, d: Floats) -> Floats:
        """F'^2 / (F (1 - F)), the Fisher information about d in one comparison."""
        return self.slope(d) * self.slope(-d)  # F'/F times F'/(1 - F)


def _logistic_cdf(d: Floats) -> Floats:
    """Compute `scipy.special.expit`, which itself takes three times as long."""
    return np.asarray(1.0 / (1.0 + np.exp(np.minimum(-d, LARGEST_EXPONENT))))


def _logistic_derivatives(d: Floats) -> tuple[Floats, Floats]:
    growth = np.exp(np.minimum(d, LARGEST_EXPONENT))
    slope = 1.0 / (1.0 + growth)
    return slope, slope * growth * slope  # in this order nothing overflows


def _probit_derivatives(d: Floats) -> tuple[Floats, Floats]:
    """The curvature is slope (slope + d): far left that cancels, there by its series."""
    with np.errstate(over="ignore"):  # far right erfcx is inf and the slope 0, as it should be
        slope = math.sqrt(2 / math.pi) / erfcx(-d / math.sqrt(2))
    inverse_square = 1.0 / np.square(np.minimum(d, -PROBIT_TAIL))
    series = 1.0 - inverse_square + 6.0 * inverse_square**2  # the next term is below 1e-10
    near = slope * (slope + np.maximum(d, -PROBIT_TAIL))
    return slope, np.where(d < -PROBIT_TAIL, series, near)


def _laplace_cdf(d: Floats) -> Floats:
    tail = np.exp(-np.abs(d)) / 2
    return np.where(d < 0, tail, 1 - tail)


def _laplace_log_cdf(d: Floats) -> Floats:
    return np.where(d < 0, np.minimum(d, 0) - math.log(2), np.log1p(-np.exp(-np.abs(d)) / 2))


def _laplace_derivatives(d: Floats) -> tuple[Floats, Floats]:
    """The curvature is 0 left of the origin and jumps to 2 there.

    At the origin it is the mean, 1, so that Newton's matrix stays in the convex hull of the two
    one-sided second derivatives whoever won (a semismooth Newton method needs no more).
    """
    decay = np.exp(-np.maximum(d, 0))  # 1 on the left, where log F is a straight line
    slope = decay / (2.0 - decay)
    return slope, slope * (1.0 + slope) * np.heaviside(d, 0.5)


LOGISTIC = Link(
    name="logistic",  # Bradley-Terry-Luce
    cdf=_logistic_cdf,
    log_cdf=log_expit,
    derivatives=_logistic_derivatives,
    slope_bound=1.0,
    kappa1=1.0,
    kappa2=0.25,
    outcome_free_curvature=True,
)
LAPLACE = Link(
    name="laplace",  # Dawkins threshold model; density exp(-|d|) / 2
    cdf=_laplace_cdf,
    log_cdf=_laplace_log_cdf,
    derivatives=_laplace_derivatives,
    slope_bound=1.0,
    kappa1=2.0,
    kappa2=2.0,
    outcome_free_curvature=False,
)
PROBIT = Link(
    name="probit",  # Thurstone-Mosteller
    cdf=ndtr,
    log_cdf=log_ndtr,
    derivatives=_probit_derivatives,
    slope_bound=math.inf,
    kappa1=math.inf,
    kappa2=1.0,
    outcome_free_curvature=False,
)

LINKS = {link.name: link for link in (LOGISTIC, PROBIT, LAPLACE)}


def link_named(name: str) -> Link:
    """The link of that name.

    Raises:
        ValueError: there is no link of that name.
    """
    if name not in LINKS:
        raise ValueError(f"link must be one of {', '.join(LINKS)}; got {name!r}")
    return LINKS[name]


def score_differences(scores: Floats) -> Floats:
    """scores[i] - scores[j], shape (n, n)."""
    return np.asarray(scores[:, None] - scores[None, :])


def laplacian(weights: Floats) -> Floats:
    """Laplacian matrix of the graph with these symmetric edge weights, shape (n, n)."""
    return np.asarray(np.diag(weights.sum(axis=1)) - weights)


def loss_bounds(link: Link) -> LossBounds:
    """Return the bounds on a link that privacy needs.

    Raises:
        ValueError: objective perturbation is not private with this link.
    """
    if math.isinf(link.kappa1):
        raise ValueError(
            f"link {link.name} cannot be private by perturbed-mle: one comparison can move its "
            "gradient without limit, so no noise hides it. Use link logistic or laplace, or keep "
            f"{link.name} with method noisy-pairs or debiased-rr"
        )
    return LossBounds(
        slope=link.slope_bound,
        kappa1=link.kappa1,
        kappa2=link.kappa2,
        outcome_free_curvature=link.outcome_free_curvature,
    )
