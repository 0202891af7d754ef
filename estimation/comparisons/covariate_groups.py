"""Scores and effects of covariates of groups, each drawn towards those of the others.

Every group has a release of `covariate_mle` of its own, and so equations (`covariate_effects`) that
only its own rows and noise enter. All rows together have another one, with noise of its own.

Effects of a group. Those of group g are beta_g = mu + delta_g, delta_g ~ N(0, t^2) for each
covariate. What the other groups and all rows say of mu, with t^2 on top, stands beside what the
group's own rows say, as if it were an observation of beta_g of that variance ([M83]). A group of
few rows so has about the effects of the others, with an error that says how much groups differ; a
large one has its own. t has a half-Cauchy prior of scale `USUAL` and is integrated out on a grid,
weighed by how well it explains the effects of all groups. This is done twice. Estimates are means
of what each group's own fit gives, which noise cannot move far. Intervals rest on values without
any penalty alone, and only on those that stand clear of their noise.

Scores of a group. Its net wins at its estimated effects, whose errors are more noise in them, go
into partial pooling like the evidence of counts (`estimation.common.pooling`). So do those of all
rows, as what they add to the groups' (`net_wins.evidence_of_net_wins`). An error of an exposure
counts by the share of wins at the scores of all rows. Were it taken at the scores that are tried,
errors would explain all net wins at equal scores, and scores would be drawn to zero for that. For
the same reason a group whose information is not clear of its noise says nothing of scores: taken
for more rows than it has, it would say that all items are equal. Where that of all rows is not,
no group says anything.

References:
    [M83] Morris. Parametric empirical Bayes inference. 1983.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hushrank.estimation.common.estimate import CLEAR_TOTAL
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.pooling import Evidence, EvidenceAt, Pooled, pool
from hushrank.estimation.comparisons.covariate_effects import (
    CLEAR,
    EffectEstimates,
    Errors,
    World,
    effects_in,
    worlds_of,
)
from hushrank.estimation.comparisons.covariate_mle import CovariateMle, CovariateRelease
from hushrank.estimation.comparisons.net_wins import (
    NetWins,
    evidence_of_net_wins,
    fit_net_wins,
)

Known = tuple[Floats, Floats]  # values and variances, or means and precisions, of shape (q,)

USUAL = 0.5  # log odds: usual size of differences between effects of groups
REACH = 2.12  # standard deviations that a Laplace variable exceeds in 5 of 100 cases, a normal in 3
SPREADS = np.linspace(0.0, 3.0, 61)  # values of t


@dataclass(frozen=True, slots=True)
class _Own:
    """What a group's own rows say of its effects: values and variances, each of shape (q,).

    Attributes:
        likely: estimates, where effects have the precision PRECISION beforehand.
        sure: without any penalty; a variance is infinite where what is known of an effect does not
            stand clear of its noise.
    """

    likely: Known
    sure: Known


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
    released: Sequence[CovariateRelease],
    whole: CovariateRelease,
    mechanism: CovariateMle,
    start: Floats,
) -> RankedGroups:
    """Rank each group.

    Args:
        released: release of each group by `mechanism`; at least 2.
        whole: release of all their rows by `mechanism`, with noise of its own.
        mechanism: the mechanism that drew them.
        start: scores of all rows, shape (n,).
    """
    pairs = [worlds_of(each, mechanism) for each in released]
    own = [_own(world, wary) for world, wary in pairs]
    of_all, wary_of_all = worlds_of(whole, mechanism)
    told = _own(of_all, wary_of_all)
    found = _pooled([each.likely for each in own], told.likely)
    sure = _pooled([each.sure for each in own], told.sure)
    effects = tuple(
        _intervals(values, *of_group) for (values, _), of_group in zip(found, sure, strict=True)
    )
    if of_all.information < CLEAR_TOTAL:
        pairs = [(replace(world, information=0.0), wary) for world, wary in pairs]
        of_all = replace(of_all, information=0.0)
    evidence = [
        _evidence(world, of_group, start) for (world, _), of_group in zip(pairs, found, strict=True)
    ]
    beyond = _evidence(of_all, told.likely, start, n_parts=len(released))
    return RankedGroups(pool(evidence, start, also=beyond), effects)


def _own(world: World, wary: World) -> _Own:
    """What a group's own rows say of its effects."""
    effects = effects_in(world, wary)
    scores = fit_net_wins(world.net_wins(effects, world.w_variance))
    errors, wary_errors = (Errors.at(each, scores, effects) for each in (world, wary))
    likely = np.diagonal(errors.likely)[world.n_items :]
    return _Own(likely=(effects, likely), sure=wary_errors.of_effects(wary))


def _lent(values: Floats, variances: Floats, n_groups: int) -> list[Known]:
    """For each group what the others say of its effects: means and precisions, shape (q,).

    How much groups differ follows from the groups alone: all rows hold those of the largest group,
    so that both agree says nothing of it.

    Args:
        values, variances: shape (groups or one more, q), by each group's own rows, and then by all
            rows; variances may be infinite.
        n_groups: number of groups.
    """
    squared = SPREADS[:, np.newaxis, np.newaxis] ** 2
    weights = 1 / (variances + squared)  # (spreads, groups, q)
    known = np.isfinite(variances)
    seen = np.where(known, values, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        own, at = weights[:, :n_groups], seen[:n_groups]
        total = own.sum(axis=1)
        mean = (own * at).sum(axis=1) / total
        off = (own * (at - mean[:, np.newaxis]) ** 2).sum(axis=1)
        logs = np.where(known, np.log(np.where(known, weights, 1.0)), 0.0)
        logs = logs[:, :n_groups].sum(axis=1)
        explained = (logs - np.log(total) - off) / 2
    explained = np.where(np.isfinite(explained), explained, 0.0)
    explained -= np.log1p((SPREADS / USUAL) ** 2)[:, np.newaxis]
    chance = np.exp(explained - explained.max(axis=0))
    chance /= chance.sum(axis=0)
    return [
        _of_others(np.delete(seen, g, axis=0), np.delete(weights, g, axis=1), squared[:, 0], chance)
        for g in range(n_groups)
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


def _pooled(own: Sequence[Known], whole: Known) -> list[Known]:
    """Effects of each group by its own rows and by all others, and their variances."""
    values, variances = (np.array(each) for each in zip(*own, _apart(whole), strict=True))
    lent = _lent(values, variances, len(own))
    return [_together(*mine, *others) for mine, others in zip(own, lent, strict=True)]


def _apart(whole: Known) -> Known:
    """Effects in all rows, with the variance of what they add to those of a group.

    Twice their own: chance did the same to the rows of the group, which are among them.
    """
    return whole[0], 2 * whole[1]


def _together(values: Floats, variances: Floats, means: Floats, precisions: Floats) -> Known:
    """Values and variances by both; the values where neither tells anything."""
    own = 1 / variances
    known = own + precisions
    told = known > 0
    found = np.where(own > 0, own * values, 0.0) + precisions * means
    known = np.where(told, known, 1.0)
    return np.where(told, found / known, values), np.where(told, 1 / known, np.inf)


def _intervals(values: Floats, centre: Floats, variances: Floats) -> EffectEstimates:
    """Estimates with 95 % intervals around `centre`."""
    half = REACH * np.sqrt(variances)
    return EffectEstimates(
        values, np.minimum(centre - half, values), np.maximum(centre + half, values)
    )


def _evidence(world: World, effects: Known, start: Floats, n_parts: int = 0) -> EvidenceAt:
    """Return evidence about items at these effects; none if the rows' information is not clear."""
    if world.information < CLEAR:
        nothing = Evidence(np.zeros((world.n_items,) * 2), np.zeros(world.n_items))
        return lambda _: nothing
    return partial(evidence_of_net_wins, _net_wins(world, *effects, start), n_parts=n_parts)


def _net_wins(world: World, effects: Floats, variances: Floats, start: Floats) -> NetWins:
    """Net wins of a group's items at these effects; errors of effects and exposures are noise."""
    noise = world.noise_at(world.scores, effects, variances)
    noise[: world.n_items] += world.between**2 @ variances
    found = world.net_wins(effects, noise)
    chance, _ = found.probabilities_and_slopes(start)
    share = (found.design * chance).sum(axis=1) / found.design.sum(axis=1)
    of_exposures = (share - found.free_share) ** 2 * found.exposure_variance
    return replace(found, noise_variance=found.noise_variance + of_exposures, exposure_variance=0.0)
