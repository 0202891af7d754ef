"""How reliable a test is: KR-20 and person separation, with intervals.

Of a booklet with K items, H_r sheets at knot r of its histogram, N sheets together, m and V the
mean and the variance of their raw scores, p_i the share of right answers to item i:

- KR-20 = K / (K - 1) (1 - A / V), where A is the sum of p_i (1 - p_i) [KR37].
- Person separation = 1 - A / V, where A is the mean over sheets of the squared standard error of
  the ability by raw score, and V the variance of these abilities [A77].

Noise of variance t^2 in each H_r and s^2 in half of right less wrong answers makes V too small on
average, by t^2 / N^2 times the sum over knots of the squared distance from the mean, and the sum of
p_i (1 - p_i) by K s^2 / N^2; both are added.

A and V have errors by noise and by the sampling of people, known by the delta method. The interval
has the shares x for which A - x V is within its error of zero [F54]. Unlike an interval around
A / V it also holds where V is uncertain.

References:
    [KR37] Kuder, Richardson. The theory of the estimation of test reliability. 1937.
    [A77] Andrich. An index of person separation in latent trait theory. 1982.
    [F54] Fieller. Some problems in interval estimation. 1954.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.estimation.responses.score_table import ScoreTable
from hushrank.privacy.units import NoiseKind

CLEAR = 4.0  # standard errors by which the variance of raw scores must exceed zero
RARE = 1e-3  # part of the sheets that are taken to be at all scores alike


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
        sheets: at each knot, noise included, shape (knots,).
        knots: raw scores, ascending.
        step: between two knots, the last two may be nearer.
        variance: of the noise in each number of sheets.
        kind: law of the noise.
    """

    sheets: Floats
    knots: NDArray[np.int64]
    step: int
    variance: float
    kind: NoiseKind

    @property
    def people(self) -> float:
        """Sheets together."""
        return float(self.sheets.sum())

    def at_knots(self, values: Floats) -> Floats:
        """Values at knots by which sheets at knots have about the same sum as at their scores.

        Between two knots a sheet counts with the line through the values there. The lines are as
        near as possible to the values of all scores, by least squares over sheets.

        Args:
            values: of the scores 0 to K, shape (K + 1, ...).
        """
        if self.step == 1:
            return values
        scores, size = np.arange(self.knots[-1] + 1), len(self.knots)
        low = np.clip(np.searchsorted(self.knots, scores, side="right") - 1, 0, size - 2)
        upper = (scores - self.knots[low]) / np.diff(self.knots)[low]
        lines = np.zeros((len(scores), size))
        lines[scores, low], lines[scores, low + 1] = 1 - upper, upper
        typical = lines @ np.maximum(self.sheets, 0)
        weight = np.sqrt(typical / typical.sum() + RARE / len(scores))
        weighted = weight.reshape(-1, *[1] * (values.ndim - 1)) * values
        fitted = np.linalg.lstsq(lines * weight[:, np.newaxis], weighted, rcond=None)
        return np.asarray(fitted[0])

    def mean(self, values: Floats) -> Floats:
        """Mean over sheets of values by score, shape (K + 1, ...)."""
        return np.asarray(self.sheets @ self.at_knots(values) / self.people)

    def spread(self, values: Floats) -> _Spread:
        """Variance over sheets of a value by score, shape (K + 1,)."""
        mean = float(self.mean(values))
        squares = self.at_knots(np.square(values - mean))
        raw = float(self.sheets @ squares / self.people)
        by_noise = self.variance * float(squares.sum()) / self.people**2
        return _Spread(raw + by_noise, mean, squares - raw)

    def sampled(self, influence: Floats) -> Floats:
        """Covariance of means over sheets, as people are drawn, of rows of influences."""
        weights = np.maximum(self.sheets, 0)
        weights = weights / weights.sum()
        off = influence - (influence @ weights)[:, np.newaxis]
        return np.asarray((off * weights) @ off.T / self.people)

    @property
    def scores(self) -> Floats:
        """Raw scores, ascending."""
        return np.arange(self.knots[-1] + 1.0)

    @property
    def is_clear(self) -> bool:
        """Whether the variance of raw scores stands clear of noise and chance."""
        spread = self.spread(self.scores)
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
    spread, odd = scores.spread(scores.scores), 1 - 2 * correct
    of_answers = np.stack([odd, np.zeros(n)]) * math.sqrt(answers.variance)
    of_scores = np.stack(
        [np.full(len(scores.knots), -odd @ answers.half / people), spread.influence]
    )
    drawn = np.concatenate([of_answers, of_scores * math.sqrt(scores.variance)], axis=1) / people
    influence = np.stack([(answers.right - correct) @ odd, spread.influence])
    sampling = scores.sampled(influence)
    sampling[0, 0] += float(odd @ answers.curvature @ odd) / people**2
    found = scores.share(within, spread.variance, drawn, sampling) if scores.is_clear else None
    if found is None:
        return None
    share, low, high = found
    lead = n / (n - 1)
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
    spread, squares = scores.spread(table.ability), scores.at_knots(np.square(table.error))
    within = float(scores.sheets @ squares) / people
    influence = np.stack([squares - within, spread.influence])
    from_mean = (table.ability - spread.mean)[:, np.newaxis]
    pulled = 2 * scores.mean(from_mean * table.by_difficulty)
    sampling = scores.sampled(influence)
    sampling[1, 1] += float(pulled @ covariance @ pulled)
    drawn = influence * math.sqrt(scores.variance) / people
    found = scores.share(within, spread.variance, drawn, sampling) if scores.is_clear else None
    if found is None or found[0] >= 1:
        return None
    share, low, high = found
    return Reliability(1 - share, 1 - high, min(1 - low, 1.0))
