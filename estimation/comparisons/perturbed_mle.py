"""Private scores by perturbed maximum likelihood ([CCW] Algorithm 1 and its §3.2).

    scores = argmin  -log-likelihood + (ridge / 2) |theta|^2 + w . theta,   w random

Guarantee: `ObjectiveNoise` for the minimiser plus `OutputCover` for what a computer makes of it, on
all of R^n; what is released is its projection on the scores that sum to zero, which is
post-processing. The raw counts never leave; only the scores do, and they cannot be drawn a second
time without paying a second time.

The probit link is refused (erratum E2): (log F)' grows without bound, so one comparison can move
the gradient by any amount and no noise of finite scale hides it; [CCW] A1 fails.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hushrank.estimation.common.links import LOGISTIC, Floats, Link, loss_bounds
from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS, PairCounts
from hushrank.estimation.fit.exact_fit import CountedObjective, FixedPoint, exact_fit
from hushrank.estimation.fit.likelihood import (
    UNIT_ROUNDOFF,
    Likelihood,
    Objective,
    covered_fits,
    summation_depth,
)
from hushrank.estimation.fit.solve import ConvergenceError, minimise
from hushrank.privacy.accounting import Spend
from hushrank.privacy.exact_minimiser import (
    GriddedNoise,
    OutputCover,
    delta_of_grid,
    gridded,
    output_cover,
)
from hushrank.privacy.objective_perturbation import (
    Constants,
    ObjectiveNoise,
    calibrate_noise,
    cheap_ridge,
)
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import PrivacyParams

OUTPUT_SHARE = 0.01  # share of epsilon for the cover of the computed minimiser
PRECISION = 2.0  # a score's: its variance is taken as one half where a ridge has to be chosen
LEAST_TOLERANCE = 1e-9
CROWDED = 100  # times as many comparisons as expected are fitted in float64
MOST_FLOAT_STEPS = 100  # steps of a fit in float64, before integers
LARGEST_DRAW = 60  # scales of w that no draw exceeds, but with probability below n e^-60
RIDGE_FACTOR = 2.0  # c0 of the ridge c0 sqrt(n p log n) in [CCW] §4


@dataclass(frozen=True, slots=True, kw_only=True)
class MleSettings:
    """Public choices: none of them may be computed from the data.

    Attributes:
        expected_comparisons: about how many comparisons an item takes part in, > 0.
        link: F.
        ridge: gamma; None chooses it by `default_ridge`.
        constants: source of the scale of noise that belongs to epsilon.
        public_graph: whether it is public who compared what, and only the outcomes are protected.
        tolerance: gradient norm that the solver must reach; None chooses 1e-9, or more where
            counts are so large that float64 needs it.

    Raises:
        ValueError: a number is out of range.
    """

    expected_comparisons: float
    link: Link = LOGISTIC
    ridge: float | None = None
    constants: Constants = Constants.TIGHT
    public_graph: bool = False
    tolerance: float | None = None

    def __post_init__(self) -> None:
        for name in ("expected_comparisons", "ridge", "tolerance"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be finite and > 0, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbedMle:
    """Calibrated mechanism: all of it is public and belongs in the release.

    Attributes:
        settings, params, n_items: arguments that it was made for.
        objective: scale of w, ridge, and what the minimiser costs.
        noise: w on its grid.
        cover: noise that covers the computed minimiser; None without privacy.
        tolerance: gradient norm that the computed minimiser must not exceed, rounding included.
        spend: cost of one release.
    """

    settings: MleSettings
    params: PrivacyParams
    n_items: int
    objective: ObjectiveNoise
    noise: GriddedNoise
    cover: OutputCover | None
    tolerance: float
    spend: Spend

    def draw_noise(self, runs: int, bits: RandomBits) -> Floats:
        """Every w of so many releases, shape (runs, n)."""
        return self.noise.draw(runs * self.n_items, bits).reshape(runs, self.n_items)

    @property
    def privacy_loss(self) -> float:
        """Epsilon that the proofs find: the spend's, or less where `paper` adds more noise."""
        if self.cover is None:
            return math.inf
        return self.objective.privacy_loss + self.cover.epsilon

    @property
    def typical_error(self) -> float:
        """Standard deviation of one score to expect, from public numbers alone."""
        known = information(self.settings)
        return math.sqrt(known + self.noise.variance) / (known + self.objective.ridge)

    @property
    def cover_matters(self) -> bool:
        """The cover adds more than 1 % to the typical error: a release says so."""
        if self.cover is None:
            return False
        return self.cover.noise.variance > 0.02 * self.typical_error**2


def perturbed_mle(pair_counts: PairCounts, mechanism: PerturbedMle, bits: RandomBits) -> Floats:
    """Draw w, minimise, cover: one private release of scores.

    Guarantee: (spend.epsilon, spend.delta)-DP for the unit and adjacency of the mechanism's
    `params`, whose bounds were enforced on the rows that were counted, if `bits.safe`. With
    `epsilon: inf` it is the penalised maximum likelihood estimate and protects nothing.

    Args:
        pair_counts: raw counts; they stay inside the confidential area.
        mechanism: from `calibrate_mle`; none of it is computed from the counts.
        bits: `system_bits()` in a release.

    Returns:
        Scores, shape (n,): higher is better, sum zero; the ridge draws them towards zero.

    Raises:
        ValueError: the counts carry noise already, or are of another number of items.
    """
    return np.asarray(perturbed_mles(pair_counts, mechanism, 1, bits)[0])


def perturbed_mles(
    pair_counts: PairCounts, mechanism: PerturbedMle, runs: int, bits: RandomBits
) -> Floats:
    """Draw `runs` independent releases, each like `perturbed_mle` and each at its cost.

    Several minimisers at once are for audits, on few items: they are found together.

    Returns:
        Shape (runs, n).
    """
    if not pair_counts.confidential:
        raise ValueError(
            "perturbed_mle needs raw counts, and these carry noise: fit them by noisy_pairs"
        )
    n = pair_counts.n_items
    if n != mechanism.n_items:
        raise ValueError(f"a mechanism for {mechanism.n_items} items, but counts of {n}")
    w = mechanism.draw_noise(runs, bits)
    scores = covered_fits(
        w - w.mean(axis=1, keepdims=True),
        partial(likelihood_of, pair_counts, mechanism),
        lambda run: _minimiser(pair_counts, mechanism, w[run]),
        mechanism.cover,
        mechanism.tolerance,
        bits,
    )
    return np.asarray(scores - scores.mean(axis=1, keepdims=True))


def likelihood_of(counts: PairCounts, mechanism: PerturbedMle) -> Likelihood:
    """The objective without w, of dense counts of few items."""
    wins = counts.dense()
    winner, loser = np.nonzero(wins)
    items = np.eye(counts.n_items)
    return Likelihood(
        design=items[winner] - items[loser],
        wins=np.asarray(wins[winner, loser] / counts.row_weight),
        link=mechanism.settings.link,
        ridges=np.full(counts.n_items, mechanism.objective.ridge),
    )


def _minimiser(counts: PairCounts, mechanism: PerturbedMle, w: Floats) -> Floats | FixedPoint:
    """A point at which the exact gradient, not only the computed one, is within the tolerance.

    Any counts have a minimiser: what float64 cannot certify is solved in integers. Which of the two
    it was does not show in the scores, because the cover hides where within the tolerance a point
    lies. Integers take longer, which tells something to whoever watches the machine alone.
    """
    link, ridge = mechanism.settings.link, mechanism.objective.ridge
    tolerance, start = mechanism.tolerance, np.zeros(counts.n_items)
    objective = Objective(counts.in_comparisons(), link, ridge, w)
    try:
        with np.errstate(all="ignore"):
            solution = minimise(objective, tolerance=tolerance / 2, max_steps=MOST_FLOAT_STEPS)
    except (ConvergenceError, ArithmeticError):
        pass
    else:
        if solution.gradient_norm + solution.gradient_error <= tolerance:
            return solution.theta
        start = solution.theta
    return exact_fit(CountedObjective.of(counts, link, ridge, w, tolerance), start)


def calibrate_mle(params: PrivacyParams, settings: MleSettings, n_items: int) -> PerturbedMle:
    """The mechanism for these public choices; no data are looked at.

    Args:
        params: `epsilon: inf` gives the mechanism without noise.
        settings: public choices.
        n_items: size of the public catalogue.

    Raises:
        ValueError: the link is refused, the ridge is too small for epsilon (the text says how
            large it must be), delta is too small, or the parameters do not fit together.
    """
    loss = loss_bounds(settings.link)
    ridge = settings.ridge or default_ridge(params, settings, n_items)
    grid_delta = delta_of_grid(params, n_items)
    if params.private and 0 < params.delta <= grid_delta:
        raise ValueError(f"delta must be above {grid_delta:.3g} here, got {params.delta!r}")
    objective = calibrate_noise(
        loss,
        replace(params, delta=params.delta - grid_delta),
        n_items,
        ridge,
        epsilon=(1 - OUTPUT_SHARE) * params.epsilon,
        public_graph=settings.public_graph,
        constants=settings.constants,
    )
    noise = gridded(objective.kind, objective.scale)
    tolerance = _tolerance(settings, n_items, objective.scale)
    return PerturbedMle(
        settings=settings,
        params=params,
        n_items=n_items,
        objective=objective,
        noise=noise,
        cover=output_cover(n_items, tolerance, noise.step, ridge, OUTPUT_SHARE * params.epsilon)
        if params.private
        else None,
        tolerance=tolerance,
        spend=Spend(epsilon=params.epsilon, delta=params.delta),
    )


def default_ridge(params: PrivacyParams, settings: MleSettings, n_items: int) -> float:
    """The largest of three ridges, each for one part of the error; from public numbers alone.

    Privacy: `cheap_ridge`. Accuracy: for scores of variance 1 / PRECISION, seen through an
    information h and the noise w, the ridge PRECISION (1 + Var(w) / h) has the least error.
    Rounding: a ridge at which the cover of the minimiser adds at most a fifth of the sampling
    error; it matters from some 10^7 comparisons an item on. All are far below
    RIDGE_FACTOR sqrt(d log n), d the comparisons of an item, that the worst case of [CCW] Prop. 2.2
    allows and their experiments use: for these (n = 300, p = 1, epsilon = 1) the error is half as
    large.
    """
    if not params.private:
        return PRECISION
    loss, epsilon = loss_bounds(settings.link), (1 - OUTPUT_SHARE) * params.epsilon
    private = cheap_ridge(loss, params, n_items, epsilon, settings.public_graph, settings.constants)
    noise = calibrate_noise(
        loss,
        params,
        n_items,
        max(2 * private, PRECISION),
        epsilon=epsilon,
        public_graph=settings.public_graph,
        constants=settings.constants,
    )
    w, known = gridded(noise.kind, noise.scale), information(settings)
    tolerance = _tolerance(settings, n_items, noise.scale)
    cover = output_cover(n_items, tolerance, w.step, 1.0, OUTPUT_SHARE)
    coverable = 5 * math.sqrt(cover.noise.variance * known) / params.epsilon
    return max(private, PRECISION * (1 + w.variance / known), coverable)


def information(settings: MleSettings) -> float:
    """Fisher information about one score to expect, at equal scores."""
    at_zero = float(settings.link.information(np.zeros(1))[0])
    return settings.expected_comparisons * at_zero


def _tolerance(settings: MleSettings, n_items: int, noise_scale: float) -> float:
    """The gradient norm that float64 can reach, whatever w and nearly any counts.

    See `Objective.gradient_error`: half of all comparisons pull, each rounded about so many times;
    the ridge pulls against w. Other counts take longer, and the cover of a tolerance this large is
    still far below every other error.
    """
    if settings.tolerance is not None:
        return settings.tolerance
    crowd = CROWDED * settings.expected_comparisons
    # In a sparse gradient, a term goes through as many additions as its item has opponents.
    depth = summation_depth(n_items) if n_items <= MOST_DENSE_ITEMS else min(n_items, crowd)
    pulls = (40 + depth) * crowd
    rounding = UNIT_ROUNDOFF * (pulls + 64 * LARGEST_DRAW * noise_scale) * math.sqrt(n_items)
    return max(LEAST_TOLERANCE, rounding)
