"""Accuracy of a ranking of very many items, from its method's formula instead of simulated fits.

One fit of 300 items takes seconds, and a plan needs hundreds. The formula of a method gives the
standard error of a typical score, in a balanced design with equal items: sampling s and privacy p,
whose squares add up. An item with the true score t_i tells less, where it wins or loses nearly all
its comparisons. With the Fisher information of a comparison I(d) and

    a_i = mean over j of I(t_i - t_j) / I(0),

the variance of its score is s^2 / a_i + p^2 / a_i^2: outcomes of clear pairs vary less, noise does
not. A share won has the variance s^2 b_i + p^2, b_i the mean of 4 F (1 - F). Errors of items are
taken as normal and independent; their correlations are of the order 1/n. Every setting has the same
true scores and the same normal numbers, so settings differ by what they are alone.

Where items meet unequally often, pair ij meets r_ij times as often as a pair does on average. The
information on scores is then proportional to the Laplacian matrix of the weights r_ij I(t_i - t_j),
and noise of one variance on each item's net wins adds its square. With the eigenvalues l of the
matrix of these weights, divided by n - 1 and I(0), the variance along its axes is

    s^2 c^2 / l + p^2 c^3 / l^2,  c = n / (n - 1),

which for equal weights and scores is s^2 + p^2. Noise of one variance on each pair is 2 v beside
the w r_ij of chance, so that the pair weighs w r_ij / (r_ij + 2 v / w) of its r_ij, and 2 v / w is
p^2 / s^2 (`estimation.comparisons.planning.weight_under_noise`).

Fits shrink what noise rules: a score of which little is known has the standard deviation 1
(`net_wins.PRECISION`). So what is seen with the variance v, an item or an axis, is multiplied by
1 / (1 + v), and its error is then v / (1 + v). Shares won are not shrunk. What differs from
simulated surveys is in docs/choosing.md and tests/flows/planning/plan/test_formula.py.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from hushrank.estimation.common.links import Floats, laplacian
from hushrank.estimation.common.uncertainty import Counts, ranks_alone
from hushrank.estimation.comparisons.net_wins import PRECISION
from hushrank.flows.planning.plan.world import (
    Accuracy,
    ErrorParts,
    mean_accuracy,
    score_errors,
    scores_measured,
)
from hushrank.flows.release.scale import SCALE_OF_LINK, Scale
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey

REPLICATES = 24  # of errors
FEWEST_TRUTHS, ITEMS_IN_ALL = 3, 2_400  # different true scores, and how many items they have
NOTHING = 1e-12  # an eigenvalue beside the largest one


def accuracy_by_formula(
    survey: PlannedSurvey,
    parts: ErrorParts,
    *,
    of_shares: bool,
    n_top: int | None,
    of_pairs: bool = False,
) -> Accuracy:
    """Find the accuracy without a fit.

    Args:
        survey: the survey that would be simulated.
        parts: errors by the method's formula, in a balanced design.
        of_shares: scores are shares won, not log odds.
        n_top: number of the best items; None: 3.
        of_pairs: noise is on each pair, not on each item.
    """
    found = []
    different = truths_of(survey.n_items)
    for replicate in range(REPLICATES):
        truth = survey.truth(replicate % different)
        wanted = survey.true_shares(truth) if of_shares else truth
        chance = survey.unit_errors(replicate)
        if of_shares:
            errors = _errors(survey, truth, parts, of_shares=True)
            scores = wanted + errors * chance
        elif survey.meetings is None:
            variances = _errors(survey, truth, parts, of_shares=False) ** 2
            scores, errors = _shrunk(truth, variances, chance)
        else:
            scores, errors = _unequal(survey, replicate % different, parts, chance, of_pairs)
        width = _width(scores, errors)
        measured = scores_measured(scores, truth, n_top) | score_errors(scores, wanted)
        informative = float(width < len(truth) - 1)
        found.append(measured | {"width": width, "informative": informative})
    scale = Scale.WIN_SHARE if of_shares else SCALE_OF_LINK[survey.link.name]
    return replace(mean_accuracy(found, scale), by_formula=True)


def truths_of(n_items: int) -> int:
    """Number of different true scores; of many items, few say as much as many do of a few."""
    return max(FEWEST_TRUTHS, min(REPLICATES, ITEMS_IN_ALL // n_items))


def _shrunk(truth: Floats, variances: Floats, chance: Floats) -> tuple[Floats, Floats]:
    """Scores seen with these variances and drawn to zero, and their standard errors."""
    known = 1 / (1 + PRECISION * variances)
    return known * (truth + np.sqrt(variances) * chance), np.sqrt(known * variances)


def _errors(survey: PlannedSurvey, truth: Floats, parts: ErrorParts, *, of_shares: bool) -> Floats:
    """Standard error of each score, shape (n,)."""
    apart = truth[:, None] - truth[None, :]
    if of_shares:
        chance = survey.link.cdf(apart)
        return np.sqrt(
            parts.sampling**2 * _mean_of_others(4 * chance * (1 - chance)) + parts.privacy**2
        )
    alike = float(survey.link.information(np.zeros(1))[0])
    known = _mean_of_others(survey.link.information(apart) / alike)
    return np.sqrt(parts.sampling**2 / known + (parts.privacy / known) ** 2)


def _unequal(
    survey: PlannedSurvey, replicate: int, parts: ErrorParts, chance: Floats, of_pairs: bool
) -> tuple[Floats, Floats]:
    """Scores and their standard errors where items meet unequally often, both of shape (n,)."""
    noise, c = parts.privacy**2, survey.n_items / (survey.n_items - 1)
    world = replace(survey, people=1, answers=1, distinct=False, shares=(), activity=())
    of_a_pair = noise / parts.sampling**2 if of_pairs else 0.0
    values, axes = _spectra(world, of_a_pair)[replicate]
    of_items = 0.0 if of_pairs else noise * c**3
    variances = parts.sampling**2 * c**2 / values + of_items / values**2
    scores, errors = _shrunk(survey.truth(replicate) @ axes, variances, chance[1:])
    return axes @ scores, np.sqrt(np.square(axes) @ errors**2)


@lru_cache(maxsize=1)
def _spectra(world: PlannedSurvey, noise: float) -> list[tuple[Floats, Floats]]:
    """Eigenvalues and axes of the weights of pairs, for each of the true scores.

    They are the same for any number of people and, where noise is on items, for any epsilon.

    Args:
        world: a survey whose pairs meet unequally often; how many people answer does not matter.
        noise: variance of a pair's noise, if there is any, in that of its chance.
    """
    return [_spectrum(world, world.truth(each), noise) for each in range(truths_of(world.n_items))]


def _spectrum(world: PlannedSurvey, truth: Floats, noise: float) -> tuple[Floats, Floats]:
    if world.meetings is None:
        raise ValueError("all pairs meet equally often")
    often = world.meetings.shares(truth) * world.n_pairs
    alike = float(world.link.information(np.zeros(1))[0])
    weights = often * world.link.information(truth[:, None] - truth[None, :]) / alike
    np.divide(weights * often, often + noise, out=weights, where=often > 0)
    values, axes = np.linalg.eigh(laplacian(weights) / (world.n_items - 1))
    return np.maximum(values[1:], NOTHING * values[-1]), axes[:, 1:]  # all scores sum to zero


def _mean_of_others(pairs: Floats) -> Floats:
    """Mean over the other items, shape (n,), of a matrix whose diagonal is 1."""
    return np.asarray((pairs.sum(axis=1) - 1) / (len(pairs) - 1))


def _width(scores: Floats, errors: Floats) -> float:
    """Mean width of the 95 % intervals of ranks."""
    apart = (scores[:, None] - scores[None, :]) / np.hypot.outer(errors, errors)

    def counts_at(tail: float) -> tuple[Counts, Counts]:
        sure = apart > float(-ndtri(tail))
        return sure.sum(axis=0), sure.sum(axis=1)

    first, last = ranks_alone(len(scores), counts_at)
    return float((last - first).mean())
