"""Sensitivity of the gradient and the Hessian of a likelihood of comparisons to one unit.

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
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushrank.privacy.units import Adjacency, PrivacyParams


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
