"""Scores and effects of covariates: what `perturbed-mle` does where the job names covariates.

What computes intervals loads when a release is concluded, as in `noisy_pairs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Self

import numpy as np
from pydantic import Field

from hushrank.estimation.common.covariates import CovariateCounts, pack
from hushrank.estimation.comparisons.covariate_mle import (
    MOST_ITEMS,
    CovariateMle,
    CovariateRelease,
    calibrate_covariate_mle,
    covariate_mles,
)
from hushrank.flows.config.method import Problems, Sections
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import Arrays, Conclusion, Terms
from hushrank.flows.methods.counts.common import EVENT_IN_ONE_GROUP
from hushrank.flows.release.boards import Board
from hushrank.flows.release.release import NO_COMPARISONS, NOT_INFORMATIVE
from hushrank.flows.release.released import Figure, Made, ReleasedRecord, effects_of
from hushrank.flows.release.scale import Scale
from hushrank.flows.statement.perturbed_mle import EffectMechanism, effects_record
from hushrank.pipelines.simulate.planned_survey import Counts
from hushrank.privacy.objective_perturbation import Constants
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.common.catalogue import Groups


class ReleasedEffects(ReleasedRecord):
    """Scores, effects and sums of information that were drawn with noise; nothing else leaves.

    With groups each has its own, and so have all rows together.

    Attributes:
        scores: scores by item, in catalogue order; they sum to zero.
        effects: effects by name, in log odds.
        units: worth of 1 in each of the three sums of information, in comparisons.
        of_scores: about each score.
        between: information that each score shares with each effect; a row for each item.
        of_effects: about effects: the upper triangle, row by row, without its first entry where
            the first effect is that of being shown first.
    """

    shows = (Figure.SCORES,)
    made = Made.FITTED
    kind: Literal["scores-and-effects"] = "scores-and-effects"
    scores: dict[str, float]
    effects: dict[str, float]
    units: tuple[float, float, float] = Field(description="of_scores, between, of_effects")
    of_scores: tuple[int, ...]
    between: tuple[tuple[int, ...], ...]
    of_effects: tuple[int, ...]

    @classmethod
    def of(
        cls,
        released: CovariateRelease,
        mechanism: CovariateMle,
        items: Sequence[str],
        names: Sequence[str],
    ) -> Self:
        """The record of what `mechanism` drew."""
        one, two, three = (kind.unit for kind in mechanism.information)
        return cls(
            scores=dict(zip(items, released.scores.tolist(), strict=True)),
            effects=dict(zip(names, released.effects.tolist(), strict=True)),
            units=(one, two, three),
            of_scores=tuple(released.of_scores.tolist()),
            between=tuple(map(tuple, released.between.tolist())),
            of_effects=tuple(released.of_effects.tolist()),
        )


def calibrate(config: SurveyConfig) -> EffectMechanism:
    """Noise inside the optimisation, noise that covers rounding, and that of the information."""
    params, ties = config.privacy.params(), config.comparisons.ties
    covariates = config.comparisons.covariates
    groups = None if config.groups is None else config.groups.groups()
    try:
        calibrated = calibrate_covariate_mle(
            params,
            len(config.items.catalogue.names),
            len(covariates),
            ties.row_weight,
            config.model.gamma,
            first=config.comparisons.columns.first is not None,
            n_fits=1 if groups is None else len(groups) + 1,
        )
    except ValueError as error:
        key = "model.gamma" if str(error).startswith("ridge") else "privacy"
        raise ConfigError(f"{key}: {error}") from None
    names, scales = zip(*covariates, strict=True)
    return EffectMechanism(
        calibrated=calibrated, names=names, scales=scales, ties=ties, groups=groups
    )


def terms(mechanism: EffectMechanism) -> Terms:
    """Cost and noise."""
    objective = mechanism.calibrated.objective
    noise = (
        f"Laplace noise of scale {objective.scale:.6g} on the gradient of the likelihood, and of"
        f" {1 / objective.share:g} times that for {len(mechanism.names)} effects, ridge"
        f" {objective.ridge:.6g}; discrete Laplace noise on how much the answers tell"
    )
    return Terms(spend=mechanism.spend, noise=noise)


def draws(exact: Arrays, mechanism: EffectMechanism, runs: int, bits: RandomBits) -> Arrays:
    """Fits with noise. Scores, effects and noisy sums of information are all that leaves.

    With groups every array has an axis of them, after that of the runs; all rows come last.
    """
    made = mechanism.calibrated
    drawn = [
        covariate_mles(counts, made, runs, bits).arrays() for counts in fits_of(exact, mechanism)
    ]
    if mechanism.groups is None:
        return drawn[0]
    return {name: np.stack([each[name] for each in drawn], axis=1) for name in drawn[0]}


def fits_of(exact: Arrays, mechanism: EffectMechanism) -> list[CovariateCounts]:
    """The counts of each fit: those of every group and then of all rows, or of all rows alone."""
    made, groups = mechanism.calibrated, mechanism.groups
    n_groups = 1 if groups is None else len(groups)
    sizes = made.n_items * n_groups, made.n_effects, made.row_weight
    counts = CovariateCounts.of_arrays(exact, *sizes)
    return [counts] if groups is None else counts.by_group(n_groups)


def conclude(drawn: Arrays, mechanism: EffectMechanism, config: SurveyConfig) -> Conclusion:
    """Ranking, effects and intervals, from what was drawn and public numbers."""
    whole = conclude_whole(drawn, mechanism, config)
    if mechanism.groups is None:
        return whole
    return _with_groups(whole, drawn, mechanism, mechanism.groups, config)


def conclude_whole(drawn: Arrays, mechanism: EffectMechanism, config: SurveyConfig) -> Conclusion:
    """Ranking and effects of all rows, whose fit comes last where there are groups."""
    if mechanism.groups is not None:
        drawn = {name: values[-1] for name, values in drawn.items()}
    return _conclude_fit(CovariateRelease(**drawn), mechanism, config)


def _conclude_fit(
    released: CovariateRelease, mechanism: EffectMechanism, config: SurveyConfig
) -> Conclusion:
    """Rank by one fit."""
    from hushrank.estimation.comparisons.covariate_effects import rank_with_covariates

    estimate, effects = rank_with_covariates(released, mechanism.calibrated)
    nothing = NOT_INFORMATIVE if mechanism.params.private else NO_COMPARISONS
    items = config.items.catalogue.names
    return Conclusion(
        estimate=estimate,
        privacy=effects_record(mechanism),
        released=ReleasedEffects.of(released, mechanism.calibrated, items, mechanism.names),
        scale=Scale.LOG_ODDS,
        warnings=() if estimate.informative else (nothing,),
        effects=effects_of(effects, mechanism.names, mechanism.scales),
    )


def _with_groups(
    found: Conclusion,
    drawn: Arrays,
    mechanism: EffectMechanism,
    groups: Groups,
    config: SurveyConfig,
) -> Conclusion:
    """Rank each group by the fits of all groups."""
    from hushrank.estimation.comparisons.covariate_groups import rank_groups_with_covariates

    parts = [
        CovariateRelease(**{name: values[k] for name, values in drawn.items()})
        for k in range(len(groups))
    ]
    whole = CovariateRelease(**{name: values[-1] for name, values in drawn.items()})
    ranked = rank_groups_with_covariates(parts, whole, mechanism.calibrated, found.estimate.scores)
    items = config.items.catalogue.names
    boards = tuple(
        Board(
            name=name,
            estimate=estimate,
            own=own,
            released=ReleasedEffects.of(part, mechanism.calibrated, items, mechanism.names),
            effects=effects_of(effects, mechanism.names, mechanism.scales),
        )
        for name, estimate, own, part, effects in zip(
            groups.names,
            ranked.boards.estimates,
            ranked.boards.own,
            parts,
            ranked.effects,
            strict=False,
        )
    )
    warnings = found.warnings
    if config.comparisons.columns.event is not None:
        warnings = (*warnings, EVENT_IN_ONE_GROUP)
    return replace(found, boards=boards, warnings=warnings)


def simulated(wins: Counts, config: SurveyConfig) -> Arrays:
    """Wins of a simulated survey, in which nobody is shown first and no item has any feature.

    Args:
        wins: wins[a, b] times the weight of a row, shape (n, n), or with groups (g, n, n).
        config: the job.
    """
    n_items, n_covariates = wins.shape[-1], len(config.comparisons.covariates)
    group, winner, loser = np.nonzero(wins.reshape(-1, n_items, n_items))
    n_codes = len(wins.reshape(-1, n_items))
    cells = (group * n_items + winner) * np.int64(n_codes) + group * n_items + loser
    words = pack(np.zeros((len(winner), n_covariates), np.int8))
    weight = config.comparisons.ties.row_weight
    counts = wins[wins > 0]
    return CovariateCounts(cells, words, counts, n_codes, n_covariates, weight).arrays()


def problems(config: Sections) -> Problems:
    """Yield settings that do not go with covariates."""
    model = config.model
    if model.link != "logistic":
        yield "model.link", "must be logistic with covariates, whose effects are log odds"
    if model.constants is not Constants.TIGHT:
        yield "model.constants", "must be tight with covariates, which no paper has"
    for key in ("expected_comparisons", "exposures", "c0"):
        if getattr(model, key) is not None:
            yield (
                f"model.{key}",
                "not with covariates: how much the answers tell is released with noise; remove it",
            )
    if config.groups is not None and config.groups.most is not None:
        yield (
            "groups.most",
            "not with covariates, which are fitted in groups that do not overlap; remove one of the"
            " two",
        )
    if config.privacy.public_graph:
        yield "privacy.public_graph", "not with covariates, which are protected; remove one of them"
    n_items = len(config.items.catalogue.names)
    if n_items > MOST_ITEMS:
        yield (
            "items",
            f"must be at most {MOST_ITEMS} with covariates, got {n_items}",
        )
