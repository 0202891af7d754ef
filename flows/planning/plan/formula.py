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
and noise of one variance on each item's net wins adds its square: with the matrix A of these
weights, divided by n - 1 and I(0), variances are the diagonal of

    s^2 c^2 A^+ + p^2 c^3 A^+ A^+,  c = n / (n - 1),

which for equal weights and scores is s^2 + p^2. Noise of one variance on each pair is 2 v beside
the w r_ij of chance, so that the pair weighs w r_ij / (r_ij + 2 v / w) of its r_ij, and 2 v / w is
p^2 / s^2 (`estimation.comparisons.planning.weight_under_noise`). Simulated surveys have the same
errors up to a quarter (`tests/flows/planning/plan/test_formula.py`); intervals of perturbed-mle are
up to twice as wide at a small epsilon.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import Counts, ranks_alone
from hushrank.flows.planning.plan.world import (
    Accuracy,
    ErrorParts,
    mean_accuracy,
    score_errors,
    scores_measured,
)
from hushrank.flows.release.scale import SCALE_OF_LINK, Scale
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey

REPLICATES = 24  # of the true scores and of their errors


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
    for replicate in range(REPLICATES):
        truth = survey.truth(replicate)
        wanted = survey.true_shares(truth) if of_shares else truth
        if survey.meetings is None:
            errors = _errors(survey, truth, parts, of_shares=of_shares)
        else:
            errors = _unequal_errors(survey, truth, parts, of_pairs=of_pairs)
        scores = wanted + errors * survey.unit_errors(replicate)
        width = _width(scores, errors)
        measured = scores_measured(scores, truth, n_top) | score_errors(scores, wanted)
        informative = float(width < len(truth) - 1)
        found.append(measured | {"width": width, "informative": informative})
    scale = Scale.WIN_SHARE if of_shares else SCALE_OF_LINK[survey.link.name]
    return replace(mean_accuracy(found, scale), by_formula=True)


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


def _unequal_errors(
    survey: PlannedSurvey, truth: Floats, parts: ErrorParts, *, of_pairs: bool
) -> Floats:
    """Standard error of each score where items meet unequally often, shape (n,)."""
    n = survey.n_items
    if survey.meetings is None:
        raise ValueError("all pairs meet equally often")
    often = survey.meetings.shares(truth) * (n * (n - 1) / 2)
    alike = float(survey.link.information(np.zeros(1))[0])
    weights = often * survey.link.information(truth[:, None] - truth[None, :]) / alike
    noise = parts.privacy**2
    if of_pairs:
        np.divide(weights * often, often + noise / parts.sampling**2, out=weights, where=often > 0)
        noise = 0.0
    known = np.linalg.pinv((np.diag(weights.sum(axis=1)) - weights) / (n - 1), hermitian=True)
    c = n / (n - 1)
    chance = parts.sampling**2 * c**2 * np.diag(known)
    return np.asarray(np.sqrt(chance + noise * c**3 * np.square(known).sum(axis=1)))


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
