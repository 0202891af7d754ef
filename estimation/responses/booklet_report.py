"""What noisy totals tell of each booklet beside difficulties: reliability and abilities by score.

All of it is computed from what was released, so it is post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hushrank.estimation.responses.conditional_fit import (
    ConditionalFit,
    curvature_of,
    real_counts,
    right_at_scores,
)
from hushrank.estimation.responses.reliability import (
    AnswersByScore,
    Reliability,
    ScoredSheets,
    kr20,
    person_separation,
)
from hushrank.estimation.responses.score_table import ScoreTable, score_table
from hushrank.estimation.responses.sheet_totals import SheetTotals
from hushrank.privacy.noise import NoiseLaw


@dataclass(frozen=True, slots=True, kw_only=True)
class BookletEstimate:
    """What is said of one booklet.

    Attributes:
        table: abilities by raw score.
        kr20: reliability of raw scores; None: noise and chance hide it, or there are other booklets
            in whose answers those of this one are counted.
        separation: reliability of abilities; None: it cannot be told.
    """

    table: ScoreTable
    kr20: Reliability | None
    separation: Reliability | None


def booklet_estimates(
    totals: SheetTotals, fit: ConditionalFit, law: NoiseLaw
) -> Iterator[BookletEstimate]:
    """What is said of each booklet of a test, in the order of `SheetShape.booklets`.

    Args:
        totals: released.
        fit: to these totals.
        law: of the noise in one entry.

    Raises:
        ConvergenceError: no ability was found for a score.
    """
    counts, shape = real_counts(totals), totals.shape
    for items, histogram in zip(counts.booklets, counts.histograms, strict=True):
        difficulty, covariance = fit.difficulty[items], fit.covariance[np.ix_(items, items)]
        table = score_table(difficulty, covariance)
        scores = ScoredSheets(
            histogram=histogram,
            variance=law.variance / shape.sheet_weight**2,
            kind=law.kind,
        )
        reliability = None
        if len(shape.booklets) == 1:
            right = right_at_scores(difficulty, histogram)
            answers = AnswersByScore(
                half=counts.half,
                variance=shape.bands * law.variance / (2 * shape.answer_weight) ** 2,
                right=histogram.at_knots(right),
                curvature=curvature_of(difficulty, histogram, right),
            )
            reliability = kr20(scores, answers)
        yield BookletEstimate(
            table=table,
            kr20=reliability,
            separation=person_separation(scores, table, covariance),
        )
