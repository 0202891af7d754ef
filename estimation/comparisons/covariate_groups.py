"""Scores and effects of covariates of groups, each drawn towards those of the others.

Every group has a release of `covariate_mle` of its own, and so equations (`covariate_effects`) that
only its own rows and noise enter.

Effects of a group. Those of group g are beta_g = mu + delta_g, delta_g ~ N(0, t^2) for each
covariate. What the other groups say of mu, with t^2 on top, stands beside what the group's own rows
say, as if it were an observation of beta_g of that variance ([M83]). A group of few rows so has
about the effects of the others, with an error that says how much groups differ; a large one has its
own. t has a half-Cauchy prior of scale `USUAL` and is integrated out on a grid, weighed by how well
it explains the effects of all groups.

Scores of a group. What its equations say of scores, whatever its effects are, goes into partial
pooling like the evidence of counts (`estimation.common.pooling`).

References:
    [M83] Morris. Parametric empirical Bayes inference. 1983.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hushrank.estimation.common.links import LOGISTIC, Floats, score_differences
from hushrank.estimation.common.pooling import Evidence, Pooled, pool
from hushrank.estimation.comparisons.covariate_effects import (
    EffectEstimates,
    Errors,
    World,
    effects_in,
    worlds_of,
)
from hushrank.estimation.comparisons.covariate_mle import CovariateMle, CovariateRelease
from hushrank.estimation.comparisons.net_wins import SINGULAR, fit_net_wins

USUAL = 0.5  # log odds: usual size of differences between effects of groups
REACH = 2.12  # standard deviations that a Laplace variable exceeds in 5 of 100 cases, a normal in 3
SPREADS = np.linspace(0.0, 3.0, 61)  # values of t


@dataclass(frozen=True, slots=True)
class RankedGroups:
    """Results for each group, in order.

    Attributes:
        boards: scores, drawn towards each other.
        effects: effects of covariates, likewise.
    """

    boards: Pooled
    effects: tuple[EffectEstimates, ...]


def rank_groups_with_covariates(
    released: Sequence[CovariateRelease], mechanism: CovariateMle, start: Floats
) -> RankedGroups:
    """Rank each group.

    Args:
        released: release of each group by `mechanism`; at least 2.
        mechanism: the mechanism that drew them.
        start: scores of all rows, shape (n,).
    """
    pairs = [worlds_of(each, mechanism) for each in released]
    told = [_told(world, wary) for world, wary in pairs]
    lent = _lent(np.array([each[0] for each in told]), np.array([each[1] for each in told]))
    effects = tuple(_effects(*own, *others) for own, others in zip(told, lent, strict=True))
    evidence = [
        partial(_evidence, _with_effects(world, *others), of_group.values)
        for (world, _), others, of_group in zip(pairs, lent, effects, strict=True)
    ]
    return RankedGroups(pool(evidence, start), effects)


def _moved(world: World, scores: Floats, effects: Floats) -> Floats:
    """Variance of the error in what a group's equations say where it did not fit, shape (n + q,).

    Its informations are noisy, and they tell what changes between its own point and this one.
    """
    there, here = (LOGISTIC.cdf(score_differences(each)) for each in (scores, world.scores))
    weights = world.design.sum(axis=1)
    apart = (world.design * (there - here)).sum(axis=1) / weights
    slopes = LOGISTIC.curvature(score_differences(world.scores))
    typical = (world.design * slopes).sum(axis=1) / weights
    moved = (effects - world.effects) ** 2
    of_items = apart**2 * world.design_variance / typical**2 + world.between_variance @ moved
    far = ((scores - world.scores) ** 2).sum()
    of_effects = world.between_variance * far + world.effects_variance @ moved
    return np.concatenate([of_items, of_effects])


def _told(world: World, wary: World) -> tuple[Floats, Floats]:
    """What a group's own rows say of its effects: values and variances, shape (q,).

    A variance is infinite where what is known of an effect does not stand clear of its noise.
    """
    effects = effects_in(world, wary)
    scores = fit_net_wins(world.net_wins(effects, world.w_variance))
    return Errors.at(wary, scores, effects).of_effects(wary)


def _lent(values: Floats, variances: Floats) -> list[tuple[Floats, Floats]]:
    """For each group what the others say of its effects: means and precisions, shape (q,).

    Args:
        values, variances: shape (groups, q), by each group's own rows; variances may be infinite.
    """
    squared = SPREADS[:, np.newaxis, np.newaxis] ** 2
    weights = 1 / (variances + squared)  # (spreads, groups, q)
    known = np.isfinite(variances)
    seen = np.where(known, values, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = weights.sum(axis=1)
        mean = (weights * seen).sum(axis=1) / total
        off = (weights * (seen - mean[:, np.newaxis]) ** 2).sum(axis=1)
        logs = np.where(known, np.log(np.where(known, weights, 1.0)), 0.0).sum(axis=1)
        explained = (logs - np.log(total) - off) / 2
    explained = np.where(np.isfinite(explained), explained, 0.0)
    explained -= np.log1p((SPREADS / USUAL) ** 2)[:, np.newaxis]
    chance = np.exp(explained - explained.max(axis=0))
    chance /= chance.sum(axis=0)
    return [
        _of_others(np.delete(seen, g, axis=0), np.delete(weights, g, axis=1), squared[:, 0], chance)
        for g in range(len(values))
    ]


def _of_others(
    values: Floats, weights: Floats, squared: Floats, chance: Floats
) -> tuple[Floats, Floats]:
    """Mean and precision of a group's effects by the other groups, over all t, shape (q,)."""
    total = weights.sum(axis=1)
    told = (total > 0).all(axis=0)
    total = np.where(told, total, 1.0)
    means = (weights * values).sum(axis=1) / total
    mean = (chance * means).sum(axis=0)
    variance = (chance * (1 / total + squared + (means - mean) ** 2)).sum(axis=0)
    return np.where(told, mean, 0.0), np.where(told, 1 / variance, 0.0)


def _effects(
    values: Floats, variances: Floats, means: Floats, precisions: Floats
) -> EffectEstimates:
    """Effects of a group by its own rows and by the other groups, with 95 % intervals."""
    own = 1 / variances
    known = own + precisions
    told = known > 0
    known = np.where(told, known, 1.0)
    found = np.where(np.isfinite(variances), own * values, 0.0) + precisions * means
    half = np.where(told, REACH / np.sqrt(known), np.inf)
    centre = np.where(told, found / known, values)
    return EffectEstimates(centre, centre - half, centre + half)


def _with_effects(world: World, means: Floats, precisions: Floats) -> World:
    """The equations of a group, with an observation of its effects beside its own rows."""
    force = world.force.copy()
    force[world.n_items :] += precisions * (means - world.effects)
    return replace(world, of_effects=world.of_effects + np.diag(precisions), force=force)


def _evidence(world: World, effects: Floats, scores: Floats) -> Evidence:
    """What a group's equations say of scores near these, whatever its effects are.

    As `net_wins.evidence_of_net_wins`, beside whose errors are those of effects.
    """
    n, stiffness = world.n_items, world.stiffness(scores)
    chance = LOGISTIC.cdf(score_differences(scores))
    weights = world.design.sum(axis=1)
    share = (world.design * chance).sum(axis=1) / weights
    beyond = chance - share[:, np.newaxis]
    variance = stiffness.copy()
    variance[:n, :n] += world.design * beyond * beyond.T
    noise = world.w_variance + _moved(world, scores, effects)
    noise[:n] += (world.design * beyond**2).sum(axis=1)
    variance += np.diag(noise + SINGULAR * np.diagonal(stiffness).max())
    solved = np.linalg.solve(variance, np.column_stack([stiffness, world.left(scores, effects)]))
    known, pull = stiffness @ solved[:, :-1], stiffness @ solved[:, -1]
    taken = np.linalg.solve(known[n:, n:], np.column_stack([known[n:, :n], pull[n:]]))
    information = known[:n, :n] - known[:n, n:] @ taken[:, :-1]
    return Evidence((information + information.T) / 2, pull[:n] - known[:n, n:] @ taken[:, -1])
