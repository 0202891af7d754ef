"""Weights of answers whose people chose their own epsilon, and what a release says of them.

The sums are private, whatever weights they have, so choosing weights spends nothing.
"""

from __future__ import annotations

import numpy as np

from hushrank.estimation.fit.alike import (
    answers_differ,
    least_attenuation,
    weighed_alike,
    weighed_by_precision,
)
from hushrank.estimation.fit.chosen_epsilons import EpsilonBins, shares
from hushrank.estimation.fit.pair_fit import SumsVariance
from hushrank.estimation.fit.weighted_pairs import WeightedPairs
from hushrank.flows.config.method import Problems, Sections, Weights
from hushrank.flows.config.privacy import Budget
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.statement.record import Parameter

ONE_BIN = 0.95  # share of the weight above which a result is that of one bin of epsilons
DIFFER = (
    "People who chose more privacy may answer differently: the shares of wins that weigh answers by"
    " their epsilon differ from those that count all alike by more than chance. These scores lean"
    " to people with a large epsilon; model.weights: equal counts all alike."
)


def problems_of_weights(config: Sections) -> Problems:
    """Yield the rules that `model.weights` breaks."""
    if config.model.weights is Weights.PRECISION:
        return
    epsilons = config.privacy.local_epsilons()
    if epsilons.low == epsilons.high:
        yield "model.weights", "is for answers whose epsilons differ; remove it"
    elif config.privacy.budget is Budget.PER_USER:
        yield "model.weights", "needs privacy.budget: per_comparison; remove one of the two"
    elif config.model.epsilon_cap is not None:
        yield "model.epsilon_cap", "is for model.weights: precision; remove one of the two"


def weighed(pairs: WeightedPairs, config: SurveyConfig) -> tuple[WeightedPairs, SumsVariance]:
    """The sums that are fitted, by `model.weights`, and their variance.

    Args:
        pairs: sums that have those of answers alike.
        config: the job.
    """
    if config.model.weights is Weights.EQUAL:
        return weighed_alike(pairs, config.privacy.local_epsilons().low)
    return weighed_by_precision(pairs)


def told_of_weights(
    pairs: WeightedPairs, bins: EpsilonBins, config: SurveyConfig
) -> tuple[dict[str, Parameter], tuple[str, ...]]:
    """Parameters and warnings of a release about the weights of its answers.

    Args:
        pairs: sums that have those of answers alike.
        bins: bins of the epsilons that were counted.
        config: the job.
    """
    _, _, sums = pairs.table()
    _, w, _, alike, _, squares = sums.sum(axis=1)
    equal = config.model.weights is Weights.EQUAL
    effective = alike / least_attenuation(bins.low) if equal else w * w / max(squares, 1e-300)
    told: dict[str, Parameter] = {
        "weights": config.model.weights.value,
        "effective_answers": float(effective),
    }
    if equal:
        return told, ()
    warnings = []
    of_answers, of_weight = shares(pairs.chosen)
    first = int(np.argmax(of_weight))
    if of_weight[first] > ONE_BIN > of_answers.max():
        low, high = bins.edges()[first : first + 2]
        warnings.append(
            f"{100 * of_weight[first]:.0f} % of the weight is that of answers with epsilon"
            f" {low:.3g} to {high:.3g}, so this result is theirs. model.weights: equal counts all"
            " alike."
        )
    if answers_differ(pairs, bins.low, capped=bins.cap is not None):
        warnings.append(DIFFER)
    return told, tuple(warnings)
