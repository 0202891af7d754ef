"""Certificate's parts on noise inside the optimisation of a likelihood."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Literal

from hushrank.estimation.common.central_noise import Calibration
from hushrank.estimation.common.covariates import STEPS
from hushrank.estimation.common.links import link_named
from hushrank.estimation.comparisons.covariate_mle import (
    CovariateMle,
    H,
    InformationNoise,
    copies_of,
)
from hushrank.flows.methods.draws import (
    INFINITE,
    CountNoise,
    Cover,
    Law,
    Loss,
    ObjectiveNoise,
    cost_of,
    exact,
    text_of,
)
from hushrank.flows.methods.formulas import (
    EXPOSED,
    ROWS,
    Formula,
    Inputs,
    Restated,
    bounds_of,
    count_noise,
    law_of,
)
from hushrank.flows.statement.perturbed_mle import EffectMechanism, ScoreMechanism
from hushrank.privacy.accounting import Spend, smaller_reading
from hushrank.privacy.exact_minimiser import GriddedNoise, OutputCover, cover_reach
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import NoiseKind

KINDS: dict[NoiseKind, Literal["objective-perturbation-laplace", "objective-perturbation-gaussian"]]
KINDS = {
    NoiseKind.LAPLACE: "objective-perturbation-laplace",
    NoiseKind.GAUSSIAN: "objective-perturbation-gaussian",
}
INFORMATION = {
    "of_scores": "how much the answers tell of each score",
    "between": "how much they tell of scores and effects together",
    "of_effects": "how much they tell of each pair of effects",
}

OF_SCORES = Restated(
    proof="privacy.objective_perturbation.gradient_sensitivity",
    what="scores",
    lines=(
        ROWS,
        "across = min(rows, c * (n // 2), n * n // 4 if distinct else rows)",
        "each = min(rows, c, n - 1 if distinct else rows)",
        "l1 = 2 * (kappa1 if public else sides * slope) * across",
        "l1 = min(l1, 2 * kappa1 * (n * n // 4)) if distinct and not public else l1",
        "l2_squared = 2 * across * each * (kappa1 if public else sides * slope) ** 2",
        "term = slope ** 2 * (2 if sides == 1 else 6 if even_curvature else 8)",
        "l2_squared = l2_squared if public else min(l2_squared, rows ** 2 * term)",
    ),
)
OF_EXPOSURES = Restated(
    proof="privacy.sensitivity.exposures_sensitivity",
    what="how often each item was compared",
    entries=lambda n_items: n_items,
    lines=(
        ROWS,
        *EXPOSED,
        "most = [min(L, k * c // 2, k * (k - 1) // 2 if distinct or k < 2 else L)"
        " for k in range(n + 1)]",
        "apart = max(most[k] + most[n - k] for k in range(n + 1)) if sides == 2 else rows",
        "l1 = row_weight * 2 * apart",
        "l2_squared = sides * row_weight ** 2 * degrees",
    ),
)
OF_EFFECTS = Restated(
    proof="privacy.covariate_perturbation.calibrate_covariates",
    lines=(
        ROWS,
        "l1 = sides * rows * (2 + share * effects)",
    ),
)
OF_INFORMATION = Restated(
    proof="estimation.comparisons.covariate_mle.calibrate_covariate_mle",
    lines=(
        ROWS,
        "l1 = sides * rows * row_weight * units * moved",
        "l2_squared = l1 ** 2",
    ),
)


IN_TWO_FITS = ("l1 = fits * l1",)  # with groups: that of the group, and that of all rows


def draws_of_scores(mechanism: ScoreMechanism) -> tuple[ObjectiveNoise | CountNoise, ...]:
    """Scores, and how often each item was compared where noise was added to that."""
    objective, params, n_items = mechanism.objective, mechanism.params, mechanism.n_items
    own: Inputs = {**bounds_of(params, n_items), "public": int(mechanism.public_graph)}
    formula = OF_SCORES.formula(own)
    scores = ObjectiveNoise(
        mechanism=KINDS[objective.kind],
        what=OF_SCORES.what,
        derivation=formula.derivation,
        formula=formula.lines,
        inputs=formula.inputs,
        loss=_loss(mechanism.link),
        norm="l1" if objective.kind is NoiseKind.LAPLACE else "l2",
        sensitivity=exact(objective.sensitivity),
        scale=exact(objective.scale),
        ridge=exact(objective.ridge),
        share=text_of(1),
        determinant_epsilon=exact(objective.determinant_epsilon),
        constants=mechanism.constants.value,
        public_graph=mechanism.public_graph,
        laws=(_gridded(mechanism.noise),),
        cover=_cover(mechanism.cover, mechanism.noise, objective.ridge, n_items),
        cost=cost_of(Spend(epsilon=params.epsilon, delta=params.delta)),
    )
    if mechanism.exposures is None:
        return (scores,)
    counted = OF_EXPOSURES.of_counts(params, n_items, mechanism.ties.row_weight, 1)
    return scores, count_noise(OF_EXPOSURES.what, n_items, counted, mechanism.exposures)


def draws_of_effects(mechanism: EffectMechanism) -> tuple[ObjectiveNoise | CountNoise, ...]:
    """Scores and effects of covariates, and the information that intervals follow from."""
    calibrated, params = mechanism.calibrated, mechanism.params
    objective = calibrated.objective
    n_values = calibrated.n_fits * (calibrated.n_items + calibrated.n_effects)
    own: Inputs = {**bounds_of(params, calibrated.n_items), "effects": calibrated.n_effects}
    formula = _of_fits(OF_EFFECTS.formula(own), calibrated.n_fits)
    return (
        ObjectiveNoise(
            mechanism=KINDS[NoiseKind.LAPLACE],
            what=f"scores, and effects of {', '.join(mechanism.names)}",
            derivation=formula.derivation,
            formula=formula.lines,
            inputs=formula.inputs,
            loss=_loss("logistic"),
            norm="l1",
            sensitivity=exact(objective.sensitivity),
            scale=exact(objective.scale),
            ridge=exact(objective.ridge),
            share=exact(objective.share),
            determinant_epsilon=exact(objective.determinant_epsilon),
            constants="tight",
            public_graph=False,
            laws=(_gridded(calibrated.score_noise), _gridded(calibrated.effect_noise)),
            cover=_cover(calibrated.cover, calibrated.effect_noise, objective.ridge, n_values),
            cost=cost_of(Spend(epsilon=params.epsilon)).model_copy(
                update={"epsilon": _what_is_left(calibrated)}
            ),
        ),
        *(
            _information(calibrated, name, getattr(calibrated, name))
            for name in INFORMATION
            if getattr(calibrated, name).sensitivity
        ),
    )


def _what_is_left(calibrated: CovariateMle) -> str:
    """Epsilon of scores and effects: all but that of the information."""
    if not calibrated.params.private:
        return INFINITE
    told = sum(Fraction(kind.epsilon) for kind in calibrated.information if kind.sensitivity)
    return text_of(smaller_reading(calibrated.params.epsilon) - told)


def _information(calibrated: CovariateMle, name: str, kind: InformationNoise) -> CountNoise:
    """Noise on one kind of sums of information."""
    n, q = calibrated.n_items, calibrated.n_effects
    sums = q * (q + 1) // 2 - calibrated.first
    moved = {"of_scores": 2, "between": 2 * STEPS * q, "of_effects": STEPS**2 * sums}
    entries = {"of_scores": n, "between": n * q, "of_effects": sums}
    own: Inputs = {
        **bounds_of(calibrated.params, n),
        "effects": q,
        "first": int(calibrated.first),
        "kind": list(INFORMATION).index(name),
        "row_weight": calibrated.row_weight,
        "units": H,
        "moved": moved[name],
    }
    l1 = kind.sensitivity
    spend = Spend(epsilon=kind.epsilon)
    sensitivity = Sensitivity(l1, l1**2)
    return count_noise(
        INFORMATION[name],
        calibrated.n_fits * entries[name],
        _of_fits(OF_INFORMATION.formula(own), calibrated.n_fits),
        Calibration(sensitivity, "calibrate_covariate_mle", kind.law, spend),
        Fraction(kind.unit),
    )


def _of_fits(formula: Formula, n_fits: int) -> Formula:
    """The formula where a row may take part in several fits."""
    if n_fits == 1:
        return formula
    squared = ("l2_squared = l1 ** 2",) * any("l2_squared" in line for line in formula.lines)
    lines = (*formula.lines, *IN_TWO_FITS, *squared)
    return replace(formula, lines=lines, inputs={**formula.inputs, "fits": copies_of(n_fits)})


def _loss(link: str) -> Loss:
    own = link_named(link)
    return Loss(
        link=link,
        slope=exact(own.slope_bound),
        kappa1=exact(own.kappa1),
        kappa2=exact(own.kappa2),
        even_curvature=own.outcome_free_curvature,
    )


def _gridded(noise: GriddedNoise) -> Law:
    return law_of(noise.law, Fraction(noise.step or 1.0))


def _cover(
    cover: OutputCover | None, noise: GriddedNoise, ridge: float, n_values: int
) -> Cover | None:
    if cover is None:
        return None
    return Cover(
        tolerance=exact(cover.tolerance),
        values=n_values,
        apart=cover_reach(n_values, cover.tolerance, noise.step, ridge),
        law=_gridded(cover.noise),
        epsilon=exact(cover.epsilon),
    )
