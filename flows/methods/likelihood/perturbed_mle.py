"""Method `perturbed-mle`: scores by maximum likelihood with noise inside the optimisation.

What computes intervals loads when a release is concluded, as in `noisy_pairs`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import calibrate_exposures
from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import Floats, link_named, loss_bounds
from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS, pair_counts_of
from hushrank.estimation.comparisons.perturbed_mle import (
    MleSettings,
    PerturbedMle,
    calibrate_mle,
    perturbed_mles,
)
from hushrank.estimation.comparisons.planning import (
    Exposures,
    predicted_error,
    weight_under_perturbation,
)
from hushrank.flows.config.items import PublicDesign
from hushrank.flows.config.method import MethodFacts, Problems, Sections
from hushrank.flows.config.schedule import NightlyBudget
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import GROUPS, Arrays, Attacked, Conclusion, Terms
from hushrank.flows.methods.draws import Draw
from hushrank.flows.methods.likelihood import covariates
from hushrank.flows.methods.reductions import (
    CountedMethod,
    problems_of_unknown_meetings,
    warnings_of,
)
from hushrank.flows.release.release import NO_COMPARISONS, NOT_INFORMATIVE
from hushrank.flows.release.released import Figure, Made, ReleasedRecord
from hushrank.flows.release.scale import SCALE_OF_LINK
from hushrank.flows.statement.perturbed_mle import (
    EffectMechanism,
    ScoreMechanism,
    mle_record,
)
from hushrank.pipelines.reduce.reduction_job import Statistic
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.accounting import Spend
from hushrank.privacy.noise import add_noise
from hushrank.privacy.objective_perturbation import gradient_sensitivity
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import NoiseKind, PrivacyParams, Unit

MOST_ITEMS = 100_000  # above `MOST_DENSE_ITEMS` counts are sparse and intervals take O(items)
EXPOSURE_PART = 8  # one part of epsilon in so many pays for how often each item was compared
# Comparisons an item to expect where nothing is known of them: numbers that float64 fits with ease.
# It has no part in the guarantee, nor in what is made of the scores.
ROUND_SIZE = 10_000.0
COVER_MATTERS = (
    "The noise that covers rounding is a noticeable part of the error of these scores: a larger"
    " epsilon, or fewer items, would help."
)
_NO_SIZE = (
    f"missing; with more than {MOST_DENSE_ITEMS} items this method needs about how many comparisons"
    " an item takes part in, from what is public (people invited, questions asked) and never"
    " counted in the answers. Add for example expected_comparisons: 500"
)
_REFUSED_LINK = (
    "cannot be private with this method: one comparison can move its gradient without"
    " limit, so no noise hides it. Write logistic or laplace, or set method: noisy-pairs"
)


LARGEST_MEAN = 1e-6  # mean of released scores, which sum to zero but for rounding


class ReleasedScores(ReleasedRecord):
    """Scores that were drawn with noise; nothing else leaves the protected side.

    Attributes:
        scores: scores by item, in catalogue order; they sum to zero.
        exposures: comparisons in which each item took part, with noise of their own, or as the
            job's public file says; null where the method does not look at them.
    """

    shows = (Figure.SCORES,)
    made = Made.FITTED
    kind: Literal["scores"] = "scores"
    scores: dict[str, float]
    exposures: dict[str, float] | None = None

    @classmethod
    def of(
        cls,
        scores: NDArray[Any],
        items: Sequence[str],
        exposures: NDArray[np.float64] | None = None,
    ) -> Self:
        """The record of drawn `scores`, shape (n,), and of `exposures`, likewise.

        Raises:
            ValueError: these are no scores: integers (counts are), not finite, or of a sum other
                than zero.
        """
        if scores.dtype != np.float64 or scores.ndim != 1 or not np.isfinite(scores).all():
            raise ValueError("released scores must be a 1-d array of finite real numbers")
        if abs(float(scores.mean())) > LARGEST_MEAN * max(1.0, float(np.abs(scores).max())):
            raise ValueError("released scores must sum to zero")
        named = None
        if exposures is not None:
            named = dict(zip(items, exposures.tolist(), strict=True))
        return cls(scores=dict(zip(items, scores.tolist(), strict=True)), exposures=named)

    @property
    def assumes_exposures(self) -> bool:
        """True where no numbers of comparisons stand beside the scores."""
        return self.exposures is None


@dataclass(frozen=True)
class PerturbedLikelihood(CountedMethod[ScoreMechanism | EffectMechanism]):
    """Algorithm 1 of Cai, Chakraborty and Wang: see `estimation.comparisons.perturbed_mle`.

    Where the job names covariates: see `flows.methods.likelihood.covariates`.
    """

    facts: MethodFacts
    plan_order: int | None = None
    mechanism = ScoreMechanism | EffectMechanism
    statistic = Statistic.PAIR_COUNTS

    def calibrate(self, config: SurveyConfig) -> ScoreMechanism | EffectMechanism:
        """Noise inside the optimisation, the ridge, noise that covers rounding, and exposures'."""
        if config.comparisons.covariates:
            return covariates.calibrate(config)
        stated, ties = config.privacy.public_graph_statement, config.comparisons.ties
        whole = config.privacy.params()
        if (design := config.model.design()) is not None:
            mechanism = ScoreMechanism.of(_calibrated(config, whole), ties, stated)
            return replace(mechanism, stated_exposures="pairs" if design.of_pairs else "items")
        if config.model.expected_comparisons is not None:
            return ScoreMechanism.of(_calibrated(config, whole), ties, stated)
        if config.privacy.public_graph or not whole.private:
            calibrated = _calibrated(config, whole)
            return ScoreMechanism.of(calibrated, ties, stated, shows_exposures=True)
        share = whole.epsilon / EXPOSURE_PART  # a power of two: exact
        rest = replace(whole, epsilon=math.nextafter(whole.epsilon - share, 0.0))
        return ScoreMechanism.of(
            _calibrated(config, rest),
            ties,
            stated,
            calibrate_exposures(whole, share, len(config.items.catalogue.names), ties.row_weight),
            shows_exposures=True,
            spend=Spend(epsilon=whole.epsilon, delta=whole.delta),
        )

    def terms(self, mechanism: ScoreMechanism | EffectMechanism) -> Terms:
        """Cost and noise."""
        if isinstance(mechanism, EffectMechanism):
            return covariates.terms(mechanism)
        objective = mechanism.objective
        noise = (
            f"{objective.kind.capitalize()} noise of scale {objective.scale:.6g} on the gradient of"
            f" the likelihood, ridge {objective.ridge:.6g}"
        )
        if mechanism.exposures is not None:
            scale = mechanism.exposures.law.scale
            noise += f"; of scale {scale:.6g} on how often each item was compared"
        return Terms(spend=mechanism.spend, noise=noise)

    def draw(
        self, exact: Arrays, mechanism: ScoreMechanism | EffectMechanism, bits: RandomBits
    ) -> Arrays:
        """Fit with noise. The scores are all that leaves, and noisy exposures."""
        drawn = self.draws(exact, mechanism, 1, bits)
        return {name: values[0] for name, values in drawn.items()}

    def draws(
        self,
        exact: Arrays,
        mechanism: ScoreMechanism | EffectMechanism,
        runs: int,
        bits: RandomBits,
    ) -> Arrays:
        """Draw `runs` independent times, along the first axis; a release is one draw."""
        if isinstance(mechanism, EffectMechanism):
            return covariates.draws(exact, mechanism, runs, bits)
        counts = pair_counts_of(exact, mechanism.ties.row_weight)
        drawn: Arrays = {"scores": perturbed_mles(counts, mechanism.calibrated, runs, bits)}
        if mechanism.shows_exposures:
            exposures = np.tile(counts.won() + counts.lost(), (runs, 1))
            if mechanism.exposures is not None:
                exposures = add_noise(exposures, mechanism.exposures.law, bits)
            drawn["exposures"] = exposures
        return drawn

    def conclude(
        self, drawn: Arrays, mechanism: ScoreMechanism | EffectMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Ranking and intervals, from the scores, exposures and public numbers."""
        if isinstance(mechanism, EffectMechanism):
            return covariates.conclude(drawn, mechanism, config)
        scores, names = drawn["scores"], config.items.catalogue.names
        if mechanism.shows_exposures:
            from hushrank.estimation.comparisons.mle_uncertainty import rank_by_scores_and_exposures

            exposures = _exposures(drawn, mechanism)
            estimate = rank_by_scores_and_exposures(scores, mechanism.calibrated, exposures)
            released = ReleasedScores.of(scores, names, exposures.values)
            said = (*warnings_of(estimate, exposures, None, private=mechanism.params.private),)
        elif (design := config.model.design()) is not None:
            estimate, said = _by_public_design(scores, mechanism, design, names)
            released = ReleasedScores.of(scores, names, design.exposures(names))
        else:
            estimate, said = _by_expected_design(scores, mechanism)
            released = ReleasedScores.of(scores, names)
        if mechanism.calibrated.cover_matters:
            said = (*said, COVER_MATTERS)
        return Conclusion(
            estimate=estimate,
            privacy=mle_record(mechanism),
            released=released,
            scale=SCALE_OF_LINK[mechanism.link],
            warnings=said,
        )

    def conclude_whole(
        self, drawn: Arrays, mechanism: ScoreMechanism | EffectMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Rank all rows."""
        if isinstance(mechanism, EffectMechanism):
            return covariates.conclude_whole(drawn, mechanism, config)
        return self.conclude(drawn, mechanism, config)

    def attacked(self, mechanism: ScoreMechanism | EffectMechanism) -> Attacked:
        """A fit with noise inside."""
        ridge = mechanism.calibrated.objective.ridge
        return replace(super().attacked(mechanism), ridge=ridge)

    def certified(
        self, mechanism: ScoreMechanism | EffectMechanism, drawn: Arrays
    ) -> tuple[Draw, ...]:
        """Noise inside the optimisation, and on what else is released."""
        from hushrank.flows.methods.likelihood.draws import draws_of_effects, draws_of_scores

        if isinstance(mechanism, EffectMechanism):
            return draws_of_effects(mechanism)
        return draws_of_scores(mechanism)

    def noise_in_net_wins(self, mechanism: ScoreMechanism | EffectMechanism) -> float:
        """Variance of the linear term of the likelihood."""
        if isinstance(mechanism, EffectMechanism):
            return mechanism.calibrated.score_noise.variance
        return float(mechanism.noise.variance)

    def least_noise_in_net_wins(self, config: SurveyConfig) -> float:
        """Variance of Laplace noise that would spend all of epsilon on the gradient.

        The determinant of the Hessian, the cover of the output and noisy exposures take their parts
        of epsilon, and the paper's constants only add noise. 0 where the noise is Gaussian, and
        where this is no such job or `calibrate` may refuse it.
        """
        params, n_items = config.privacy.params(), len(config.items.catalogue.names)
        usual = params.private and params.noise is NoiseKind.LAPLACE
        special = config.comparisons.covariates or params.weighted or config.privacy.public_graph
        if not usual or special or not 2 <= n_items <= MOST_DENSE_ITEMS:
            return 0.0
        change = gradient_sensitivity(loss_bounds(link_named(config.model.link)), params, n_items)
        return 2 * (change.l1 / params.epsilon) ** 2

    def simulated(self, config: SurveyConfig, survey: PlannedSurvey, replicate: int) -> Arrays:
        """Wins of a simulated survey; covariates have no effect there."""
        exact = super().simulated(config, survey, replicate)
        if not config.comparisons.covariates:
            return exact
        return covariates.simulated(exact["counts"], config)

    def predicted_error(
        self,
        config: SurveyConfig,
        survey: PlannedSurvey,
        mechanism: ScoreMechanism | EffectMechanism,
    ) -> float | None:
        """Predicted error of scores."""
        variance = self.noise_in_net_wins(mechanism)
        weight = weight_under_perturbation(
            survey.n_items, survey.pair_comparisons, variance, survey.link
        )
        return predicted_error(survey.n_items, weight, survey.link).typical


def _exposures(drawn: Arrays, mechanism: ScoreMechanism) -> Exposures:
    weight = mechanism.ties.row_weight
    variance = 0.0 if mechanism.exposures is None else mechanism.exposures.law.variance
    return Exposures(drawn["exposures"] / weight, variance / weight**2)


def _by_public_design(
    scores: Floats, mechanism: ScoreMechanism, design: PublicDesign, names: Sequence[str]
) -> tuple[Estimate, tuple[str, ...]]:
    """Rank if the configuration says how often items, or pairs of them, are compared."""
    from hushrank.estimation.comparisons.mle_uncertainty import (
        rank_by_scores_and_exposures,
        rank_by_scores_and_pairs,
    )

    exposures = Exposures(design.exposures(names), 0.0)
    if design.of_pairs:
        estimate = rank_by_scores_and_pairs(scores, mechanism.calibrated, design.pairs(names))
    else:
        estimate = rank_by_scores_and_exposures(scores, mechanism.calibrated, exposures)
    return estimate, (*warnings_of(estimate, exposures, None, private=mechanism.params.private),)


def _by_expected_design(
    scores: Floats, mechanism: ScoreMechanism
) -> tuple[Estimate, tuple[str, ...]]:
    """Rank if the configuration says how often an item is compared, all taken to be alike."""
    from hushrank.estimation.comparisons.mle_uncertainty import rank_by_scores, rank_many_by_scores

    many = mechanism.n_items > MOST_DENSE_ITEMS
    estimate = (rank_many_by_scores if many else rank_by_scores)(scores, mechanism.calibrated)
    if estimate.informative:
        return estimate, ()
    return estimate, (NOT_INFORMATIVE if mechanism.params.private else NO_COMPARISONS,)


def _calibrated(config: SurveyConfig, params: PrivacyParams) -> PerturbedMle:
    n_items = len(config.items.catalogue.names)
    if n_items > MOST_ITEMS:
        raise ConfigError(
            f"items: method: perturbed-mle takes at most {MOST_ITEMS} items, got {n_items};"
            " set method: noisy-counts"
        )
    if config.privacy.rho is not None:
        raise ConfigError(
            "privacy.rho: method: perturbed-mle gives epsilon and delta, not rho; write epsilon"
            " and delta instead"
        )
    try:
        return calibrate_mle(params, _settings(config, n_items), n_items)
    except ValueError as error:
        key = "model.gamma" if str(error).startswith("ridge") else "privacy"
        raise ConfigError(f"{key}: {error}") from None


def _settings(config: SurveyConfig, n_items: int) -> MleSettings:
    model = config.model
    expected, ridge = model.expected_comparisons, model.gamma
    if (design := model.design()) is not None:
        expected = 2 * design.comparisons / n_items
    if expected is None:
        if n_items > MOST_DENSE_ITEMS:
            raise ConfigError(f"model.expected_comparisons: {_NO_SIZE}")
        expected = ROUND_SIZE
    if model.c0 is not None:
        ridge = model.c0 * math.sqrt(expected * math.log(n_items))
    return MleSettings(
        expected_comparisons=expected,
        link=link_named(model.link),
        ridge=ridge,
        constants=model.constants,
        public_graph=config.privacy.public_graph,
    )


def _problems(config: Sections) -> Problems:
    if config.privacy.names_per_person > 1:
        yield (
            "privacy.names_per_person",
            "is for methods that add noise to counts, as the proof here is of one name; set method:"
            " noisy-pairs",
        )
    yield from problems_of_unknown_meetings(config)
    if config.comparisons.covariates:
        yield from covariates.problems(config)
    elif config.groups is not None:
        yield (
            "groups",
            f"with method: {config.method} is for jobs that name covariates (input.features or"
            " input.columns.first); set method: auto, win-loss or noisy-pairs",
        )
    link = config.model.link
    if link != "auto" and math.isinf(link_named(link).kappa1):
        yield "model.link", f"{link} {_REFUSED_LINK}"
    model, n_items = config.model, len(config.items.catalogue.names)
    if model.c0 is not None and model.expected_comparisons is None and model.exposures is None:
        yield "model.c0", "chooses gamma by model.expected_comparisons; add it, or remove c0"
    if model.exposures is not None:
        if config.privacy.public_graph:
            yield "model.exposures", "is public already with public_graph: true; remove one of them"
        if n_items > MOST_DENSE_ITEMS:
            yield (
                "model.exposures",
                f"is for at most {MOST_DENSE_ITEMS} items, got {n_items}; write"
                " expected_comparisons instead",
            )


def _problems_of_gaussian(config: Sections) -> Problems:
    yield from _problems(config)
    if config.privacy.noise is not NoiseKind.GAUSSIAN:
        yield (
            "privacy.noise",
            "must be gaussian with method: noisy-objective; write it, with a delta",
        )
    elif config.schedule.budget is NightlyBudget.PER_MONTH:
        yield (
            "schedule.budget",
            "per-month is not for method: noisy-objective, whose cost is no rho; write per-night",
        )


_MLE = MethodFacts(
    name="perturbed-mle",
    summary="scores by maximum likelihood, with noise inside the optimisation",
    kind="comparisons",
    units=(Unit.USER, Unit.COMPARISON),
    reads=(
        *("model.link", "model.constants", "model.gamma", "model.c0"),
        *("model.expected_comparisons", "model.exposures"),
        *("privacy.public_graph", "input.features", GROUPS),
    ),
    rules=_problems,
)
_OBJECTIVE = replace(
    _MLE,
    name="noisy-objective",
    summary="as perturbed-mle, with Gaussian noise and a delta",
    reads=tuple(key for key in _MLE.reads if key not in ("input.features", GROUPS)),
    rules=_problems_of_gaussian,
)
MLE = PerturbedLikelihood(_MLE, plan_order=2)
METHODS = (MLE, PerturbedLikelihood(_OBJECTIVE))
