"""Objective perturbation: noise on a likelihood, and how far a person moves its gradient.

Objective perturbation: noise inside an optimisation whose minimiser is released.

    theta = argmin  sum of losses + (ridge / 2) |theta|^2 + w . theta

with w random. The minimiser has w = -(gradient of the rest at theta), so the density of theta is
that of w there times the determinant of the Hessian, and the privacy loss between two adjacent
inputs is, at the theta that was released,

    (|w'|_1 - |w|_1) / scale + log det(Hessian) - log det(Hessian')          (w Laplace)

[CCW] Propositions 2.1 and 3.1, [KST12] Theorem 2. (Where the Hessian jumps, as that of the Laplace
link does, theta -> w is still a Lipschitz bijection, differentiable almost everywhere.)

Tight constants. The first part is at most sensitivity.l1 / scale. The Hessians are the same but for
`rows` terms of rank one on either side, none longer than 2 kappa2 and all at least 0, on top of the
ridge: each changes the determinant by the factor 1 + 2 kappa2 / ridge at most, so the second part
is at most e_det = rows log(1 + 2 kappa2 / ridge). Hence scale = l1 / (epsilon - e_det).

If F is logistic and ridge >= kappa1 scale, rows that enter the first part pay nothing for the
second: one with slope s adds 2 s / scale + log(1 + 2 s (kappa1 - s) / ridge), which then increases
in s, to 2 kappa1 / scale at s = kappa1: what the first part charges anyway. Then only
`rows_within` are left to be counted in e_det.

Paper's constants: scale 8 L kappa1 / epsilon, ridge at least 4 kappa2 / epsilon (comparisons) or
8 L kappa2 / epsilon (users). Valid, and twice to four times as much noise as needed.

Gaussian noise. With b = -w and g the gradient's change, the first part is
(b.g + |g|^2 / 2) / scale^2. Its b.g is not normal, because g depends on theta and so on b. Two
bounds hold all the same. It is at most |g| times the length of b's projection on the fixed
directions that g combines: scale times a chi variable. And g is a sum of `terms`, one for each row
(or for two, one leaving and one coming), so b.g is at most the sum of the largest values that each
term can have, which lie at the ends of its coefficients: the largest of few normal variables. What
each exceeds with probability delta may add up to less than what the sum does; but the mean beyond
such a point, the expected shortfall, is no smaller and subadditive ([AT02] Prop. 3.1). So b.g
exceeds scale * tail with probability delta at most, for

    tail = min( l2 chi_d(delta), terms term_l2 shortfall(delta) ),

d the dimension of the directions, and scale solves l2^2 / (2 scale^2) + tail / scale
= epsilon - e_det. [KST12] has one term with one direction, and for that the scale
l2 sqrt(8 log(2 / delta) + 4 epsilon) / epsilon with ridge 4 kappa2 L / epsilon: here, with
l2 = 2 sqrt(2) kappa1 L, the `paper` constants, which by themselves do not cover users with several
rows; the tight scale is taken where it is the larger.

Sensitivity of the gradient and the Hessian of a likelihood of comparisons to one unit.

A comparison that item a won against item b has the loss -log F(d), d = theta_a - theta_b, hence
the gradient -s(d) (e_a - e_b) with s = (log F)' in [0, slope], and the Hessian h(d) (e_a - e_b)
(e_a - e_b)' with h = -(log F)'' in [0, kappa2]. All below holds at every theta, as the proofs of
objective perturbation need. A split tie is the mean of the two outcomes; all bounds are of convex
functions of a row, so ties change nothing.

l1 norm. The entries of a gradient difference g sum to zero, so |g|_1 = 2 max over S of the sum of g
over S, and rows with both items inside S, or both outside, drop out of that sum: only rows across
count, at most `slope` each. A bundle has K of them:

    K = min(L, floor(n^2 / 4) with distinct pairs, c floor(n / 2) with per-item cap c)

    add-remove                2 slope K
    replace-one               4 slope K, and at most 2 kappa1 floor(n^2 / 4) with distinct pairs
    replace-one, graph public 2 kappa1 K

A pair that both bundles hold counts once, and moves g by s(d) + s(-d) = F'/(F(1 - F)) <= kappa1 if
the outcomes differ (else not at all); a public graph allows nothing but that. [CCW] A.1 bounds all
three by 4 kappa1 for single comparisons; for the Laplace link 4 slope is half of 4 kappa1.

l2 norm. |g|^2 <= max |g_i| |g|_1 for one bundle, with max |g_i| <= slope m, m = min(L, n - 1 with
distinct pairs, c); the norms of two bundles add. Where F is logistic a replaced row moves g by
sqrt(6) slope at most (two rows that share an item; on one pair s(d) + s(-d) = 1), so L of them move
it by sqrt(6) slope L.

References:
    [AT02] Acerbi, Tasche. On the coherence of expected shortfall. 2002.
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025.
    [KST12] Kifer, Smith, Thakurta. Private convex empirical risk minimization and high-dimensional
        regression. 2012.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import scipy
from scipy.special import chdtri, ndtr

from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class LossBounds:
    """Bounds of the loss -log F of one comparison.

    Attributes:
        slope: sup (log F)'.
        kappa1: sup (log F)'(d) + (log F)'(-d), between `slope` and twice that.
        kappa2: sup -(log F)''.
        outcome_free_curvature: -(log F)'' is an even function. Then (log F)'(d) + (log F)'(-d) is
            constant, F is logistic, and a slope s comes with the curvature s (kappa1 - s).

    Raises:
        ValueError: a bound is missing: objective perturbation would not be private.
    """

    slope: float
    kappa1: float
    kappa2: float
    outcome_free_curvature: bool

    def __post_init__(self) -> None:
        if not (0 < self.slope <= self.kappa1 <= 2 * self.slope < math.inf and self.kappa2 > 0):
            raise ValueError(f"not the bounds of a loss with a bounded gradient: {self!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientSensitivity:
    """Change of gradient and Hessian over adjacent inputs, at every theta.

    Attributes:
        l1, l2: norms of the gradient's change.
        rows: terms of rank one in the Hessian that one input has and the other lacks, at most.
        rows_within: number of these rows that can come on top of a change of l1 norm `l1`.
        terms: rows added, replaced or flipped, of which the gradient's change is the sum; 1 where
            that sum is the same at every theta.
        term_l2: l2 norm of one of them, at most.
        term_directions: fixed directions that one of them combines, with bounded coefficients.
    """

    l1: float
    l2: float
    rows: int
    rows_within: int
    terms: int
    term_l2: float
    term_directions: int


def gradient_sensitivity(
    loss: LossBounds, params: PrivacyParams, n_items: int, public_graph: bool = False
) -> GradientSensitivity:
    """The bounds that the module's text derives.

    `rows_within` counts, beside the pairs across some S that make up the l1 norm, the rows of one
    bundle that are not across. Across pairs and such rows are together at most 2 L (L under
    add-remove), and at most n(n-1)/2 with distinct pairs.

    Args:
        loss: bounds on the loss of one comparison.
        params: unit, adjacency and the bounds that are enforced on a bundle.
        n_items: size of the public catalogue, n >= 2.
        public_graph: whether it is public which pairs each unit compared; then only outcomes are
            protected.

    Raises:
        ValueError: `n_items` is below 2, or a public graph is asked for under add-remove, which
            hides whether a row is there at all.
    """
    if n_items < 2:
        raise ValueError(f"n_items must be >= 2, got {n_items!r}")
    if public_graph and params.adjacency is Adjacency.ADD_REMOVE:
        raise ValueError(
            "public_graph says that who compared what is public, and adjacency add-remove hides "
            "it: use adjacency: replace-one, or remove public_graph"
        )
    size = _BundleSize.of(params, n_items)
    spread = math.sqrt(2 * size.across * size.per_item)
    if public_graph:
        constant = loss.outcome_free_curvature
        return GradientSensitivity(
            l1=2 * loss.kappa1 * size.across,
            l2=loss.kappa1 * spread,
            rows=0 if constant else size.rows,
            rows_within=0 if constant else size.rows,
            terms=1 if constant else size.rows,
            term_l2=loss.kappa1 * (spread if constant else math.sqrt(2)),
            term_directions=1,
        )
    l1, bundles, pairs_across = 2 * loss.slope * size.across, 1, float(size.across)
    term_l2 = math.sqrt(2) * loss.slope
    if params.adjacency is Adjacency.REPLACE_ONE:
        l1 = min(2 * l1, 2 * loss.kappa1 * size.pairs_across)
        bundles, pairs_across = 2, min(2 * size.across, size.pairs_across)
        term_l2 = math.sqrt(6 if loss.outcome_free_curvature else 8) * loss.slope
    return GradientSensitivity(
        l1=l1,
        l2=min(bundles * loss.slope * spread, size.rows * term_l2),
        rows=size.rows,
        rows_within=int(min(size.rows, min(bundles * size.rows, size.pairs) - pairs_across)),
        terms=size.rows,
        term_l2=term_l2,
        term_directions=bundles,
    )


@dataclass(frozen=True, slots=True)
class _BundleSize:
    """Sizes that a bundle can have: all rows, rows across a set, rows that meet one item.

    The last two count the pairs that exist, and those across a set, where a pair can occur once
    only; they are infinite elsewhere.
    """

    rows: int
    across: int
    per_item: int
    pairs: float
    pairs_across: float

    @classmethod
    def of(cls, params: PrivacyParams, n_items: int) -> _BundleSize:
        if params.weighted:
            raise ValueError("gradients of weighted rows have no sensitivity here")
        rows = across = per_item = params.max_contributions
        pairs = pairs_across = math.inf
        if params.per_item_cap is not None:
            rows = min(rows, params.per_item_cap * n_items // 2)
            across = min(across, params.per_item_cap * (n_items // 2))
            per_item = min(per_item, params.per_item_cap)
        if params.distinct_pairs:
            pairs, pairs_across = n_items * (n_items - 1) // 2, n_items**2 // 4
            rows, across = min(rows, pairs), min(across, pairs_across)
            per_item = min(per_item, n_items - 1)
        return cls(rows, min(across, rows), min(per_item, rows), pairs, pairs_across)


LARGEST_EXPONENT = 700.0  # e to a larger power is no float
ROUNDING = 1 + 2.0**-40  # scales are computed in floating point and rounded up by more than that


class Constants(StrEnum):
    """Source of the scale and the ridge that belong to an epsilon."""

    TIGHT = "tight"  # the values that the proof needs
    PAPER = "paper"  # the values that the papers print


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveNoise:
    """Calibrated noise w, as if it were continuous and the minimiser exact.

    Attributes:
        kind: law of each entry of w.
        scale: scale of w: exp(-|x| / scale), or standard deviation for `gaussian`; 0 without
            privacy.
        ridge: ridge that makes the scale private.
        sensitivity: sensitivity of the gradient, in the norm that the noise needs.
        determinant_epsilon: e_det, the part of epsilon that the Hessians take.
        epsilon: cost of all of it, at most the epsilon that was asked for.
        delta: delta of all of it, at most the delta that was asked for.
    """

    kind: NoiseKind
    scale: float
    ridge: float
    sensitivity: float
    determinant_epsilon: float
    epsilon: float
    delta: float

    @property
    def privacy_loss(self) -> float:
        """The epsilon that this scale really costs; `epsilon` unless `paper` made it larger."""
        if self.scale == 0:
            return math.inf
        if self.kind is NoiseKind.LAPLACE:
            return self.sensitivity / self.scale + self.determinant_epsilon
        return self.epsilon


def calibrate_noise(
    loss: LossBounds,
    params: PrivacyParams,
    n_items: int,
    ridge: float,
    *,
    epsilon: float,
    public_graph: bool = False,
    constants: Constants = Constants.TIGHT,
) -> ObjectiveNoise:
    """Smallest noise with which the minimiser is (epsilon, params.delta)-DP for this ridge.

    Args:
        loss: bounds of one comparison's loss.
        params: unit, adjacency, enforced bounds, law of the noise and its delta.
        n_items: size of the public catalogue.
        ridge: gamma, > 0; public, never computed from the data.
        epsilon: epsilon for w alone, at most params.epsilon: the output's noise has its own share;
            `inf` gives no noise.
        public_graph: whether it is public which pairs each unit compared.
        constants: `paper` never adds less noise than `tight`.

    Raises:
        ValueError: the ridge is too small for this epsilon (the text says how large it must be),
            or the parameters do not fit together.
    """
    change = gradient_sensitivity(loss, params, n_items, public_graph)
    if params.noise is NoiseKind.GAUSSIAN and params.rho is not None:
        raise ValueError(
            "objective perturbation with gaussian noise is (epsilon, delta)-DP, not zCDP: "
            "set epsilon and delta instead of rho"
        )
    if not (math.isfinite(ridge) and ridge > 0):
        raise ValueError(f"ridge must be finite and > 0, got {ridge!r}")
    if math.isinf(epsilon):
        return ObjectiveNoise(
            kind=params.noise,
            scale=0.0,
            ridge=ridge,
            sensitivity=change.l1 if params.noise is NoiseKind.LAPLACE else change.l2,
            determinant_epsilon=0.0,
            epsilon=epsilon,
            delta=0.0,
        )
    least = least_ridge(loss, params, n_items, epsilon, public_graph, constants)
    if ridge < least or (ridge == least and constants is Constants.TIGHT):
        above = "at least" if constants is Constants.PAPER else "more than"
        raise ValueError(
            f"ridge {ridge:g} is too small: at epsilon {epsilon:g} these bounds and constants: "
            f"{constants} need {above} {least:.6g}"
        )
    if params.noise is NoiseKind.GAUSSIAN:
        noise = _gaussian(loss, params.delta, n_items, ridge, epsilon, change)
    else:
        noise = _laplace(loss, ridge, epsilon, change)
    if constants is Constants.TIGHT:
        return noise
    return replace(noise, scale=max(noise.scale, _paper_scale(loss, params)))


def least_ridge(
    loss: LossBounds,
    params: PrivacyParams,
    n_items: int,
    epsilon: float,
    public_graph: bool = False,
    constants: Constants = Constants.TIGHT,
) -> float:
    """The ridge from which (`paper`), or above which (`tight`), the noise can be calibrated."""
    rows = gradient_sensitivity(loss, params, n_items, public_graph).rows
    tight = 2 * loss.kappa2 / math.expm1(min(epsilon / rows, LARGEST_EXPONENT)) if rows else 0.0
    if constants is Constants.TIGHT:
        return tight
    single = params.unit is Unit.COMPARISON and params.noise is NoiseKind.LAPLACE
    per_row = 4 if single or params.noise is NoiseKind.GAUSSIAN else 8
    return max(tight, per_row * params.max_contributions * loss.kappa2 / params.epsilon)


def cheap_ridge(
    loss: LossBounds,
    params: PrivacyParams,
    n_items: int,
    epsilon: float,
    public_graph: bool = False,
    constants: Constants = Constants.TIGHT,
) -> float:
    """A ridge at which the Hessians take at most a quarter of epsilon; with `paper`, its floor.

    With a logistic F and Laplace noise: the one from which only `rows_within` are charged, since
    rows_within log(1 + 2 kappa2 / ridge) <= 2 kappa2 rows_within / ridge.
    """
    least = least_ridge(loss, params, n_items, epsilon, public_graph, constants)
    change = gradient_sensitivity(loss, params, n_items, public_graph)
    if change.rows == 0 or constants is Constants.PAPER:
        return least
    quarter = least_ridge(loss, params, n_items, epsilon / 4, public_graph)
    if not loss.outcome_free_curvature or params.noise is NoiseKind.GAUSSIAN:
        return quarter
    charged_within = 2 * loss.kappa2 * change.rows_within
    return ROUNDING**2 * (loss.kappa1 * change.l1 + charged_within) / epsilon


def _paper_scale(loss: LossBounds, params: PrivacyParams) -> float:
    rows = params.max_contributions
    if params.noise is NoiseKind.LAPLACE:
        return 8 * rows * loss.kappa1 / params.epsilon
    l2 = 2 * math.sqrt(2) * loss.kappa1 * rows
    return l2 * math.sqrt(8 * math.log(2 / params.delta) + 4 * params.epsilon) / params.epsilon


def _laplace(
    loss: LossBounds, ridge: float, epsilon: float, change: GradientSensitivity
) -> ObjectiveNoise:
    per_row = math.log1p(2 * loss.kappa2 / ridge)
    determinant = change.rows * per_row
    if loss.outcome_free_curvature:
        left = epsilon - change.rows_within * per_row
        if left > 0 and ridge >= loss.kappa1 * ROUNDING * change.l1 / left:
            determinant = change.rows_within * per_row
    return ObjectiveNoise(
        kind=NoiseKind.LAPLACE,
        scale=ROUNDING * change.l1 / (epsilon - determinant),
        ridge=ridge,
        sensitivity=change.l1,
        determinant_epsilon=determinant,
        epsilon=epsilon,
        delta=0.0,
    )


def _gaussian(
    loss: LossBounds,
    delta: float,
    n_items: int,
    ridge: float,
    epsilon: float,
    change: GradientSensitivity,
) -> ObjectiveNoise:
    """Solves l2^2 / (2 scale^2) + tail / scale = epsilon - e_det."""
    determinant = change.rows * math.log1p(2 * loss.kappa2 / ridge)
    left = epsilon - determinant
    tail = _tail(change, loss, n_items, delta)
    return ObjectiveNoise(
        kind=NoiseKind.GAUSSIAN,
        scale=ROUNDING * (tail + math.sqrt(tail**2 + 2 * left * change.l2**2)) / (2 * left),
        ridge=ridge,
        sensitivity=change.l2,
        determinant_epsilon=determinant,
        epsilon=epsilon,
        delta=delta,
    )


def _tail(change: GradientSensitivity, loss: LossBounds, n_items: int, delta: float) -> float:
    """Value that b.g / scale exceeds with probability delta at most."""
    dimension = min(change.terms * change.term_directions, n_items - 1)
    projected = change.l2 * math.sqrt(float(chdtri(dimension, delta)))  # quantile of a chi variable
    # The ends of a term with two directions: both of them, of length term_l2, or either alone.
    alone = change.term_l2 / (math.sqrt(2) * loss.slope)
    stretches = np.array([1.0] if change.term_directions == 1 else [1.0, alone, alone])

    def excess(t: float) -> float:
        return float(ndtr(-t * stretches).sum()) - delta

    quantile = float(scipy.optimize.brentq(excess, 0.0, 40.0)) * ROUNDING
    if change.terms == 1:
        return min(projected, change.term_l2 * quantile)
    z = quantile * stretches
    beyond = (
        np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) - z * ndtr(-z)
    ) / stretches  # integrals of the tails from `quantile` on
    shortfall = quantile + float(beyond.sum()) / delta
    return min(projected, change.terms * change.term_l2 * shortfall)
