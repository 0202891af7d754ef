"""Method `perturbed-mle`: scores by maximum likelihood with noise inside the optimisation."""

from __future__ import annotations

import math

from hushrank.estimation.common.links import link_named
from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS, pair_counts_of
from hushrank.estimation.comparisons.mle_many_items import rank_many_by_scores
from hushrank.estimation.comparisons.mle_uncertainty import rank_by_scores
from hushrank.estimation.comparisons.perturbed_mle import (
    MleSettings,
    PerturbedMle,
    calibrate_mle,
    perturbed_mle,
)
from hushrank.flows.config.model import NO_SIZE
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.guarantee.perturbed_mle import mle_record
from hushrank.flows.guarantee.score_mechanism import ScoreMechanism
from hushrank.flows.methods.base import Arrays, Conclusion, Terms
from hushrank.flows.methods.reductions import reduce_survey
from hushrank.flows.release.release import NO_COMPARISONS, NOT_INFORMATIVE
from hushrank.flows.release.scale import SCALE_OF_LINK
from hushrank.flows.release.statistics import ReleasedScores
from hushrank.pipelines.reduce.reduction_job import ReduceComparisons, Statistic
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.storage.files import InputFile

MOST_ITEMS = 100_000  # above `MOST_DENSE_ITEMS` counts are sparse and intervals take O(items)
COVER_MATTERS = (
    "The noise that covers rounding is a noticeable part of the error of these scores: a larger"
    " epsilon, or fewer items, would help."
)


class PerturbedLikelihood:
    """Algorithm 1 of Cai, Chakraborty and Wang: see `estimation.comparisons.perturbed_mle`."""

    mechanism = ScoreMechanism

    def calibrate(self, config: SurveyConfig) -> ScoreMechanism:
        """Noise inside the optimisation, the ridge, and noise that covers rounding."""
        stated = config.privacy.public_graph_statement
        return ScoreMechanism.of(_calibrated(config), config.comparisons.ties, stated)

    def terms(self, mechanism: ScoreMechanism) -> Terms:
        """Cost and noise."""
        objective = mechanism.objective
        noise = (
            f"{objective.kind.capitalize()} noise of scale {objective.scale:.6g} on the gradient of"
            f" the likelihood, ridge {objective.ridge:.6g}"
        )
        return Terms(spend=mechanism.spend, noise=noise)

    def reduction(
        self,
        config: SurveyConfig,
        mechanism: ScoreMechanism,
        files: tuple[InputFile, ...],
        key: SecretKey,
        folder: str,
    ) -> ReduceComparisons:
        """Count how often each item beat each other."""
        return reduce_survey(config, mechanism.params, files, key, folder, Statistic.PAIR_COUNTS)

    def draw(self, exact: Arrays, mechanism: ScoreMechanism, bits: RandomBits) -> Arrays:
        """Fit with noise. The scores are all that leaves."""
        counts = pair_counts_of(exact, mechanism.ties.row_weight)
        return {"scores": perturbed_mle(counts, mechanism.calibrated, bits)}

    def conclude(
        self, drawn: Arrays, mechanism: ScoreMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Ranking and intervals, from the scores and public numbers."""
        scores, calibrated = drawn["scores"], mechanism.calibrated
        many = mechanism.n_items > MOST_DENSE_ITEMS
        estimate = (rank_many_by_scores if many else rank_by_scores)(scores, calibrated)
        warnings = []
        if not estimate.informative:
            warnings.append(NOT_INFORMATIVE if mechanism.params.private else NO_COMPARISONS)
        if calibrated.cover_matters:
            warnings.append(COVER_MATTERS)
        return Conclusion(
            estimate=estimate,
            privacy=mle_record(mechanism),
            released=ReleasedScores.of(scores, config.items.catalogue().names),
            scale=SCALE_OF_LINK[mechanism.link],
            warnings=tuple(warnings),
        )


def _calibrated(config: SurveyConfig) -> PerturbedMle:
    n_items = len(config.items.catalogue())
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
        return calibrate_mle(config.privacy.params(), _settings(config, n_items), n_items)
    except ValueError as error:
        key = "model.gamma" if str(error).startswith("ridge") else "privacy"
        raise ConfigError(f"{key}: {error}") from None


def _settings(config: SurveyConfig, n_items: int) -> MleSettings:
    model = config.model
    if model.expected_comparisons is None:
        raise ConfigError(f"model.expected_comparisons: {NO_SIZE}")
    expected, ridge = model.expected_comparisons, model.gamma
    if model.c0 is not None:
        ridge = model.c0 * math.sqrt(expected * math.log(n_items))
    return MleSettings(
        expected_comparisons=expected,
        link=link_named(model.link),
        ridge=ridge,
        constants=model.constants,
        public_graph=config.privacy.public_graph,
    )
