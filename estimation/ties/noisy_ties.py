"""Items ranked by noisy counts of wins and ties: post-processing of counts that anybody may see.

Where totals look as if partners met by chance, by the likelihood of that design
(`ties_by_chance`); else, and without noise, by `ties_by_pairs`. `pair_meetings.met_otherwise` looks
which it is, as for counts of two outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logit

from hushrank.estimation.common.estimate import Estimate, nothing_learned
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.pooling import Evidence, EvidenceAt
from hushrank.estimation.comparisons.exposures import Exposures
from hushrank.estimation.comparisons.noisy_pairs import NORMAL_KURTOSIS
from hushrank.estimation.fit.noisy_cells import CellLaw
from hushrank.estimation.fit.pair_fit import (
    estimate_from,
    require_fittable,
    sandwich,
)
from hushrank.estimation.fit.pair_meetings import confirms_chance, met_otherwise, shows_schedule
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.ties.tie_counts import TieCounts
from hushrank.estimation.ties.tie_models import TieModel, TieStrength, strength_of
from hushrank.estimation.ties.ties_by_chance import (
    ChanceEvidence,
    ChanceOfTies,
    Point,
    fit_by_chance,
    start_of,
)
from hushrank.estimation.ties.ties_by_pairs import TiesByPairs, by_pairs, known_of
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.units import NoiseKind

LAPLACE_KURTOSIS = 4.0  # kurtosis of a sum of three draws
LEAST_EQUALS = 1e-6  # share of ties, between which and 1 less that t is taken


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedTies:
    """Items ranked by noisy counts of three outcomes.

    Attributes:
        estimate: scores, intervals, ranks.
        tie: share of ties between equals.
        by_chance: whether the counts fit a design in which partners meet by chance.
        n_pairs: pairs of items.
        n_left_out: pairs that the fit did not use, since their totals are too near their noise.
        hidden: whether the totals show neither which pairs met nor that chance decided it, so that
            every interval is open.
    """

    estimate: Estimate
    tie: TieStrength
    by_chance: bool
    n_pairs: int
    n_left_out: int
    hidden: bool = False


def rank_noisy_ties(
    counts: TieCounts, law: NoiseLaw, model: TieModel, *, chance: bool = False
) -> RankedTies:
    """Rank items by noisy counts, in the way that suits their design.

    Args:
        counts: noisy counts of at least 2 items.
        law: law of the noise in one of them.
        model: model of ties.
        chance: whether the operator states that chance decided which items met; otherwise the
            counts must show that, or which pairs met, or every interval is open.

    Raises:
        ValueError: the counts are confidential, or of fewer than 2 items.
        ConvergenceError: no fit was found.
    """
    if counts.confidential:
        raise ValueError("counts are confidential: only released counts may be fitted here")
    require_fittable(counts.n_items, 1.0)
    cells = counts.of_pairs()
    found = _by_chance(cells, law, model, counts.n_items)
    if found is None:
        objective = by_pairs(cells, law.variance, model, counts.n_items)
        found = _ranked_by_pairs(objective, objective.solve())
    if chance or law.scale == 0 or _shows_who_met(cells, law, counts.n_items):
        return found
    return replace(found, estimate=nothing_learned(found.estimate.scores), hidden=True)


def _shows_who_met(cells: Floats, law: NoiseLaw, n_items: int) -> bool:
    """Whether noisy counts show which pairs met, or that chance decided it."""
    totals, noise = np.zeros((n_items, n_items)), 3 * law.variance
    totals[np.triu_indices(n_items, 1)] = cells.sum(axis=0)
    totals += totals.T
    if shows_schedule(totals, noise):
        return True
    design = Exposures(totals.sum(axis=1), (n_items - 1) * noise).design()
    return confirms_chance(totals, design, noise, _kurtosis(law))


def _kurtosis(law: NoiseLaw) -> float:
    return LAPLACE_KURTOSIS if law.kind is NoiseKind.LAPLACE else NORMAL_KURTOSIS


def evidence_of_ties(
    counts: TieCounts, law: NoiseLaw, model: TieModel, *, by_chance: bool, equals: float
) -> EvidenceAt:
    """Return noisy counts' evidence of one group near any scores, as the whole was ranked.

    Where pairs met by chance, the group's ties are its own; else they are the whole's.

    Args:
        counts: noisy counts of the group.
        law: law of the noise in one of them.
        model: model of ties.
        by_chance: whether pairs met by chance.
        equals: share of ties between equals in the whole.
    """
    cells = counts.of_pairs()
    if by_chance:
        return ChanceEvidence(start_of(cells, CellLaw(law), model, counts.n_items))
    objective = by_pairs(cells, law.variance, model, counts.n_items)
    tie = float(logit(np.clip(equals, LEAST_EQUALS, 1 - LEAST_EQUALS)))

    def at(scores: Floats) -> Evidence:
        return objective.evidence(scores, tie)

    return at


def _by_chance(cells: Floats, law: NoiseLaw, model: TieModel, n_items: int) -> RankedTies | None:
    """Rank by the likelihood of a design of chance; None for another design or without noise."""
    if law.scale == 0:
        return None
    try:
        problem, at = fit_by_chance(cells, CellLaw(law), model, n_items)
    except ConvergenceError:  # the noise is spent: the other fit is worth more than none
        return None
    pairs = problem.pairs
    totals, meetings = pairs.matrix(cells.sum(axis=0)), pairs.matrix(at.means.sum(axis=0))
    if met_otherwise(totals, meetings, 3 * law.variance, _kurtosis(law)):
        return None
    return _ranked_by_chance(problem, at)


def _ranked_by_chance(problem: ChanceOfTies, at: Point) -> RankedTies:
    def moments_at(scores: Floats) -> tuple[Floats, Floats]:
        values = np.concatenate([scores, at.values[len(scores) :]])
        there = problem.lowered(problem.point(values))
        known = problem.known_of_scores(there)
        return known, known

    _, gradient = problem.loss_and_gradient(at)
    found = sandwich(at.scores - at.scores.mean(), problem.spread**-2, moments_at)
    lowered = problem.lowered(at)
    more = problem.few_cells(lowered)
    covariance = found.covariance * np.sqrt(np.multiply.outer(more[:-1], more[:-1]))
    estimate = estimate_from(replace(found, covariance=covariance))
    n = problem.pairs.n_items
    _, stiff = problem.penalty(at)
    stiff[-1] = 0
    known = float(known_of(problem.information(lowered) + np.diag(stiff), slice(2 * n, None))[0, 0])
    variance = float(more[-1]) / known if known > 0 else np.inf
    return RankedTies(
        estimate=estimate,
        tie=strength_of(at.tie, float(gradient[-1]), variance),
        by_chance=True,
        n_pairs=len(problem.pairs.first),
        n_left_out=0,
    )


def _ranked_by_pairs(objective: TiesByPairs, values: Floats) -> RankedTies:
    tie = float(values[-1])

    def moments_at(scores: Floats) -> tuple[Floats, Floats]:
        curvature, chance, noise = objective.of_scores(np.append(scores, tie))
        return curvature, chance + noise

    _, gradient = objective.loss_and_gradient(values)
    variance = objective.tie_variance(values)
    scores = values[:-1] - values[:-1].mean()
    estimate = estimate_from(sandwich(scores, 2 * objective.ridge, moments_at))
    _, chance, noise = objective.of_scores(values)
    by_noise, by_chance = np.diagonal(noise), np.diagonal(chance)
    both = by_noise + by_chance
    share = np.divide(by_noise, both, out=np.zeros(len(both)), where=both > 0)
    return RankedTies(
        estimate=replace(estimate, noise_share=share),
        tie=strength_of(tie, float(gradient[-1]), variance),
        by_chance=False,
        n_pairs=len(objective.totals),
        n_left_out=int((objective.used.kept == 0).sum()),
    )
