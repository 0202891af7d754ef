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
    survey: PlannedSurvey, parts: ErrorParts, *, of_shares: bool, n_top: int | None
) -> Accuracy:
    """Find the accuracy without a fit.

    Args:
        survey: the survey that would be simulated.
        parts: errors by the method's formula.
        of_shares: scores are shares won, not log odds.
        n_top: number of the best items; None: 3.
    """
    found = []
    for replicate in range(REPLICATES):
        truth = survey.truth(replicate)
        wanted = survey.true_shares(truth) if of_shares else truth
        errors = _errors(survey, truth, parts, of_shares=of_shares)
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
