"""Objective perturbation where comparisons have covariates: how large noise and ridges must be.

A comparison that item a won against item b has the loss -log F(x . theta), F logistic, with the
design vector x = (e_a - e_b, z): after the scores of n items, theta holds the effects of q
covariates z in [-1, 1]^q, turned so that they speak for a. What is released is

    theta = argmin  sum of losses + (ridge / 2) (|scores|^2 + |effects|^2 / share) + w . theta,

w independent Laplace: of that scale for scores, of scale / share for effects, 0 < share <= 1.

Density. The loss is smooth and convex and the ridge makes the sum strictly so: theta -> w =
-(gradient of the rest at theta) is a smooth bijection, and the density of theta is that of w there
times the determinant of the Hessian ([CMS11] Theorem 9, [KST12] Theorem 2, [CCW] Proposition 2.1).
Let one input have the rows R, the other the rows R', and both all others. At every theta the
privacy loss is

    sum over coordinates (|w'_j| - |w_j|) / scale_j + log det(Hessian) - log det(Hessian').

Let a row have the slope s = (log F)' in [0, 1] there, hence the curvature s (1 - s), and let
u = 2 + share |z|_1, at most U = 2 + share q.

Gradient. A row of R or R' moves w by s x: the first sum by s u / scale at most.

Determinant. Hessian' is at least what both have in common, H. A row of R adds s (1 - s) x x' to H,
and, in whatever order rows are added, multiplies the determinant by 1 + s (1 - s) x' M^-1 x at
most, M the matrix of the ridges, since all else is at least 0. And x' M^-1 x is
(2 + share |z|^2) / ridge <= u / ridge, because |z_k| <= 1. A row of R' takes nothing:
log det(Hessian') >= log det(H).

Together. A row of R' costs U / scale at most. A row of R costs

    s u / scale + log(1 + s (1 - s) u / ridge),

whose derivative in s is at least u / scale - u / ridge. If ridge >= scale it increases up to
u / scale at s = 1: the determinant costs nothing on top. Else it is at most
U / scale + log(1 + U / (4 ridge)). A split tie is the mean of two outcomes: it moves the gradient
by u / (2 scale) at most, has the same curvature, and so costs no more than a win does.

With at most `rows` rows of a unit on either side, and none on one of them under add-remove,

    epsilon = l1 / scale + e_det,   l1 = rows U (add-remove), 2 rows U (replace-one),
    e_det = 0 if ridge >= scale, else rows log(1 + U / (4 ridge)).

The bound of the gradient is attained in the limit: two rows on four items, with opposite covariates
of size 1, both of which the scores speak against. Values beyond [-1, 1] would break it, so
covariates are clipped before anything else is done with them
(`transforms.comparisons.covariate_counts`).

Groups. Each of G groups of rows has a fit of its own, and so have all rows together: one minimiser
of the sum of all objectives, whose matrix M and Hessian consist of blocks. A row in two fits is two
rows of the joint problem, whose design vectors x lie in two blocks, so all of the above holds with
twice the rows, wherever the rows of a unit lie before and after.

Share. An effect is seen in all rows, a score in those of its item. So noise in effects may be
larger for the same error, and a smaller share leaves more for the scores. With half the variance of
a covariate lost to the scores of items that differ in it, the mean squared error is smallest near
share = 8 / n; `share_of_effects` takes the power of two next to it. This is a public choice, and
the guarantee holds for every share.

What a computer makes of the minimiser is covered as in `privacy.exact_minimiser`: w is drawn on
grids, each of them 2^40 times finer than its scale, the smallest ridge is that of the scores, and
all n + q values take part.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025.
    [CMS11] Chaudhuri, Monteleoni, Sarwate. Differentially private empirical risk minimization.
        2011.
    [KST12] Kifer, Smith, Thakurta. Private convex empirical risk minimization and high-dimensional
        regression. 2012.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushrank.privacy.objective_perturbation import ROUNDING
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams

SHARE_TIMES_ITEMS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CovariateNoise:
    """Calibrated noise, as if it were continuous and the minimiser exact.

    Attributes:
        scale: scale of w at scores: density proportional to exp(-|x| / scale); 0 without privacy.
        ridge: ridge of scores.
        share: effects have scale / share and ridge / share; a power of two.
        sensitivity: l1 of the module's text.
        determinant_epsilon: e_det.
        epsilon: cost of all of it.
    """

    scale: float
    ridge: float
    share: float
    sensitivity: float
    determinant_epsilon: float
    epsilon: float


def share_of_effects(n_items: int) -> float:
    """Share of the budget for effects, as the module says; it follows from the number of items."""
    return min(1.0, 2.0 ** round(math.log2(SHARE_TIMES_ITEMS / n_items)))


def most_rows(params: PrivacyParams, n_items: int) -> int:
    """The most rows that a unit can have within its bounds."""
    rows = params.max_contributions
    if params.per_item_cap is not None:
        rows = min(rows, params.per_item_cap * n_items // 2)
    if params.distinct_pairs:
        rows = min(rows, n_items * (n_items - 1) // 2)
    return rows


def changed_rows(params: PrivacyParams, n_items: int, copies: int = 1) -> int:
    """The most rows in which two adjacent inputs differ: those that leave, and those that come.

    Each counts as often as there are fits that it takes part in, `copies` at most.
    """
    sides = 1 if params.adjacency is Adjacency.ADD_REMOVE else 2
    return sides * most_rows(params, n_items) * copies


def reach(n_effects: int, share: float) -> float:
    """U of the module's text."""
    return 2 + share * n_effects


def free_ridge(
    params: PrivacyParams,
    n_items: int,
    n_effects: int,
    share: float,
    epsilon: float,
    copies: int = 1,
) -> float:
    """The smallest ridge at which the determinant costs nothing."""
    l1 = changed_rows(params, n_items, copies) * reach(n_effects, share)
    return ROUNDING**2 * l1 / epsilon


def calibrate_covariates(
    params: PrivacyParams,
    n_items: int,
    n_effects: int,
    ridge: float,
    share: float,
    epsilon: float,
    copies: int = 1,
) -> CovariateNoise:
    """The smallest noise with which the minimiser is epsilon-DP for this ridge and share.

    Args:
        params: unit, adjacency and the bounds that are enforced.
        n_items: size of the public catalogue, n.
        n_effects: number of covariates, q.
        ridge: ridge of scores, > 0; public.
        share: share of epsilon, in (0, 1], a power of two; public.
        epsilon: epsilon for w alone; `inf` gives no noise.
        copies: the most fits that a row takes part in; see the module's text on groups.

    Raises:
        ValueError: the noise is not Laplace, the ridge is too small for epsilon (the text says how
            large it must be), or an argument is out of range.
    """
    if params.noise is not NoiseKind.LAPLACE:
        raise ValueError("covariates are for laplace noise")
    if not (math.isfinite(ridge) and ridge > 0):
        raise ValueError(f"ridge must be finite and > 0, got {ridge!r}")
    if not (0 < share <= 1 and math.frexp(share)[0] == 0.5):
        raise ValueError(f"share must be a power of two, at most 1, got {share!r}")
    u = reach(n_effects, share)
    l1 = changed_rows(params, n_items, copies) * u
    scale, determinant = 0.0, 0.0
    if math.isfinite(epsilon):
        scale = ROUNDING * l1 / epsilon
        if ridge < scale:
            rows = most_rows(params, n_items) * copies
            determinant = rows * math.log1p(u / (4 * ridge)) * ROUNDING
            if determinant >= epsilon:
                least = u / (4 * math.expm1(epsilon / rows))
                raise ValueError(
                    f"ridge {ridge:g} is too small: at epsilon {epsilon:g} these bounds need more"
                    f" than {least:.6g}"
                )
            scale = ROUNDING * l1 / (epsilon - determinant)
    return CovariateNoise(
        scale=scale,
        ridge=ridge,
        share=share,
        sensitivity=l1,
        determinant_epsilon=determinant,
        epsilon=epsilon,
    )
