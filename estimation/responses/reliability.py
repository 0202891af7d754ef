"""How reliable a test is: KR-20 or alpha, and person separation, with intervals.

Of a booklet with K items, H_r sheets at knot r of its histogram, N sheets together, m and V the
mean and the variance of their raw scores, p_i the share of right answers to item i:

- KR-20 = K / (K - 1) (1 - A / V), where A is the sum of p_i (1 - p_i) [KR37].
- Cronbach's alpha, its form for points, has the variances of items in place of p_i (1 - p_i) [C51].
- Person separation = 1 - A / V, where A is the mean over sheets of the squared standard error of
  the ability by raw score, and V the variance of these abilities [A77].

Noise of variance t^2 in each H_r and s^2 in half of right less wrong answers makes V too small on
average, by t^2 / N^2 times the sum over knots of the squared distance from the mean, and the sum of
p_i (1 - p_i) by K s^2 / N^2; both are added.

A and V have errors by noise and by the sampling of people, known by the delta method. The interval
has the shares x for which A - x V is within its error of zero [F54]. Unlike an interval around
A / V it also holds where V is uncertain.

What noisy totals tell of each booklet beside difficulties: reliability and abilities by score.

All of it is computed from what was released, so it is post-processing.

References:
    [KR37] Kuder, Richardson. The theory of the estimation of test reliability. 1937.
    [C51] Cronbach. Coefficient alpha and the internal structure of tests. 1951.
    [A77] Andrich. An index of person separation in latent trait theory. 1982.
    [F54] Fieller. Some problems in interval estimation. 1954.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.estimation.responses.conditional_fit import (
    ConditionalFit,
    curvature_of,
    real_counts,
    right_at_scores,
)
from hushrank.estimation.responses.knots import ScoreHistogram
from hushrank.estimation.responses.score_table import ScoreTable, score_table
from hushrank.estimation.responses.sheet_totals import SheetTotals
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.units import NoiseKind

CLEAR = 4.0  # standard errors by which the variance of raw scores must exceed zero


@dataclass(frozen=True, slots=True)
class Reliability:
    """An estimate of a reliability, with its 95 % interval; all are at most 1."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _Spread:
    """A variance over sheets, the mean, and what a sheet at each knot changes in it, times N."""

    variance: float
    mean: float
    influence: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredSheets:
    """What totals tell of the raw scores of a booklet.

    Attributes:
        histogram: sheets by raw score, noise included.
        variance: of the noise in each number of sheets.
        kind: law of the noise.
    """

    histogram: ScoreHistogram
    variance: float
    kind: NoiseKind

    @property
    def people(self) -> float:
        """Sheets together."""
        return self.histogram.people

    def spread(self, values: Floats) -> _Spread:
        """Variance over sheets of a value by score, shape (K + 1,)."""
        mean = float(self.histogram.mean(values))
        squares = self.histogram.at_knots(np.square(values - mean))
        raw = float(self.histogram.sheets @ squares / self.people)
        by_noise = self.variance * float(squares.sum()) / self.people**2
        return _Spread(raw + by_noise, mean, squares - raw)

    def sampled(self, influence: Floats) -> Floats:
        """Covariance of means over sheets, as people are drawn, of rows of influences."""
        weights = np.maximum(self.histogram.sheets, 0)
        weights = weights / weights.sum()
        off = influence - (influence @ weights)[:, np.newaxis]
        return np.asarray((off * weights) @ off.T / self.people)

    @property
    def is_clear(self) -> bool:
        """Whether the variance of raw scores stands clear of noise and chance."""
        spread = self.spread(self.histogram.scores.astype(np.float64))
        influence = spread.influence[np.newaxis]
        noise = self.variance * float(np.square(influence).sum()) / self.people**2
        error = noise + float(self.sampled(influence)[0, 0])
        return spread.variance > CLEAR * math.sqrt(error)

    def share(
        self, within: float, whole: float, drawn: Floats, sampling: Floats
    ) -> tuple[float, float, float] | None:
        """The share within / whole, and the ends of its interval; None: it has no ends.

        Args:
            within, whole: a part of a variance, and this variance.
            drawn: shape (2, draws), what one standard deviation of each draw of noise changes in
                both.
            sampling: covariance of their other errors.
        """
        noise = drawn @ drawn.T
        errors = noise + sampling
        towards = np.array([1.0, -within / whole])
        private, total = (float(towards @ each @ towards) for each in (noise, errors))
        of_noise = private / total if total > 0 else 0.0
        parts = np.square(towards @ drawn)
        draws = 1 if private == 0 else int(parts.sum() ** 2 / np.square(parts).sum())
        far = float(quantile(np.array(of_noise), LEVEL / 2, self.kind, max(draws, 1))) ** 2
        # The ends x solve (within - x whole)^2 = far (errors of within - x whole).
        square = whole**2 - far * errors[1, 1]
        middle = within * whole - far * errors[0, 1]
        root = middle**2 - square * (within**2 - far * errors[0, 0])
        if square <= 0 or whole <= 0:
            return None
        reach = math.sqrt(max(root, 0.0))
        return within / whole, (middle - reach) / square, (middle + reach) / square


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersByScore:
    """What totals tell of the answers of the same sheets.

    Attributes:
        half: of right less wrong answers, noise included, shape (K,).
        variance: of the noise in it.
        right: probability of a right answer given the score, shape (knots, K).
        curvature: covariance of answers given scores, summed over sheets, shape (K, K).
    """

    half: Floats
    variance: float
    right: Floats
    curvature: Floats


def kr20(scores: ScoredSheets, answers: AnswersByScore) -> Reliability | None:
    """KR-20; None: the variance of scores does not stand clear of noise and chance."""
    people, n = scores.people, len(answers.half)
    correct = 0.5 + answers.half / people
    within = float((correct * (1 - correct)).sum()) + n * answers.variance / people**2
    odd = 1 - 2 * correct
    return _alpha(
        scores,
        n_items=n,
        within=within,
        of_answers=odd * math.sqrt(answers.variance),
        of_people=float(odd @ answers.half),
        influence=(answers.right - correct) @ odd,
        given_scores=float(odd @ answers.curvature @ odd),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsByScore:
    """What totals tell of the points of the same sheets.

    Attributes:
        people: by item, sheets with 0 to m points, noise included, their mean replaced.
        variance: of the noise in each cell before that.
        reached: probability of at least s points given the score, shape (knots, steps).
        curvature: covariance of reached steps given scores, summed over sheets.
    """

    people: Sequence[Floats]
    variance: float
    reached: Floats
    curvature: Floats


def alpha(scores: ScoredSheets, points: PointsByScore) -> Reliability | None:
    """Cronbach's alpha; None: the variance of scores does not stand clear of noise and chance."""
    people, within, of_people = scores.people, 0.0, 0.0
    of_answers, by_step, shares = [], [], []
    for own in points.people:
        number, share = np.arange(len(own)), own / people
        mean = float(number @ share)
        noise = points.variance * float(np.square(number - number.mean()).sum()) / people**2
        within += float(number**2 @ share) - mean**2 + noise
        odd = number**2 - 2 * mean * number  # derivative of the item's variance in `share`
        of_answers.append((odd - odd.mean()) * math.sqrt(points.variance))
        of_people += float((odd - odd.mean()) @ own)
        by_step.append(np.diff(odd))
        shares.append(share[::-1].cumsum()[::-1][1:])
    steps = np.concatenate(by_step)
    return _alpha(
        scores,
        n_items=len(points.people),
        within=within,
        of_answers=np.concatenate(of_answers),
        of_people=of_people,
        influence=(points.reached - np.concatenate(shares)) @ steps,
        given_scores=float(steps @ points.curvature @ steps),
    )


def _alpha(
    scores: ScoredSheets,
    *,
    n_items: int,
    within: float,
    of_answers: Floats,
    of_people: float,
    influence: Floats,
    given_scores: float,
) -> Reliability | None:
    """Alpha from the sum of the variances of items.

    Args:
        scores: of the sheets.
        n_items: K.
        within: the sum.
        of_answers: what one standard deviation of each draw in cells of items changes in it, by N.
        of_people: what a sheet more takes off it, by N^2.
        influence: what a sheet at each knot changes in it, by N.
        given_scores: its variance given scores, by N^2.
    """
    people, spread = scores.people, scores.spread(scores.histogram.scores.astype(np.float64))
    of_scores = np.stack([np.full(len(spread.influence), -of_people / people), spread.influence])
    drawn = np.concatenate(
        [
            np.stack([of_answers, np.zeros(len(of_answers))]),
            of_scores * math.sqrt(scores.variance),
        ],
        axis=1,
    )
    sampling = scores.sampled(np.stack([influence, spread.influence]))
    sampling[0, 0] += given_scores / people**2
    found = None
    if scores.is_clear:
        found = scores.share(within, spread.variance, drawn / people, sampling)
    if found is None:
        return None
    share, low, high = found
    lead = n_items / (n_items - 1)
    return Reliability(lead * (1 - share), lead * (1 - high), min(lead * (1 - low), 1.0))


def person_separation(
    scores: ScoredSheets, table: ScoreTable, covariance: Floats
) -> Reliability | None:
    """Person separation; None: noise and chance hide it, or errors exceed what abilities differ.

    Args:
        scores: of a booklet.
        table: abilities by its raw scores.
        covariance: of the errors of its difficulties.
    """
    people = scores.people
    histogram = scores.histogram
    spread, squares = scores.spread(table.ability), histogram.at_knots(np.square(table.error))
    within = float(histogram.sheets @ squares) / people
    influence = np.stack([squares - within, spread.influence])
    from_mean = (table.ability - spread.mean)[:, np.newaxis]
    pulled = 2 * histogram.mean(from_mean * table.by_difficulty)
    sampling = scores.sampled(influence)
    sampling[1, 1] += float(pulled @ covariance @ pulled)
    drawn = influence * math.sqrt(scores.variance) / people
    found = scores.share(within, spread.variance, drawn, sampling) if scores.is_clear else None
    if found is None or found[0] >= 1:
        return None
    share, low, high = found
    return Reliability(1 - share, 1 - high, min(1 - low, 1.0))


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
