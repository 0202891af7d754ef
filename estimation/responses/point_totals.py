"""Totals of answer sheets with points: how often each item got each number, and raw scores.

An item that gives 0 to m points has m + 1 cells. A sheet adds `answer_weight` to the cell of its
points in each item, and `sheet_weight` to the histogram of raw scores, as in `sheet_totals`. For
Gaussian noise under `add-remove` each sheet also takes an equal share off all cells of an item
(`privacy.response_sensitivity`); such cells are in units of 1 / `share`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration, calibrate
from hushrank.estimation.common.links import Floats
from hushrank.estimation.responses.knots import ScoreHistogram
from hushrank.estimation.responses.sheet_totals import (
    Integers,
    sheets_at_knots,
    step_of_scores,
)
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.response_sensitivity import point_totals_sensitivity
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams

SQUARED, PART = 0.25, 0.15  # of the cells of a sheet: S^2 / l2^2 (Gaussian), part of l1 (Laplace)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointShape:
    """What is counted of sheets with points: public numbers.

    Attributes:
        points: most points of each item, in catalogue order.
        step: scores between two knots of the histogram, the last two may be nearer; 1: every score.
        answer_weight: what a sheet adds to the cell of its points, in units of 1 / `share`.
        sheet_weight: what a sheet adds to the histogram.
        share: a common multiple of the items' numbers of cells, of which each cell of an item loses
            an equal part for each sheet; 1: nothing is taken off. A sheet adds so many times
            `answer_weight` to a cell of its own.
    """

    points: tuple[int, ...]
    step: int
    answer_weight: int
    sheet_weight: int
    share: int

    @classmethod
    def of(cls, points: Sequence[int], params: PrivacyParams) -> Self:
        """The shape for a test, with the weights that suit the law and the adjacency."""
        gaussian = params.noise is NoiseKind.GAUSSIAN
        centred = gaussian and params.adjacency is Adjacency.ADD_REMOVE
        share = math.lcm(*(most + 1 for most in points)) if centred else 1
        top = sum(points)
        step = step_of_scores(top)
        lengths = sum(most / (most + 1) if centred else 1.0 for most in points)
        wanted = math.sqrt(SQUARED * lengths) if gaussian else PART / (1 - PART) * lengths
        times, weight = max(round(wanted * share / step), 1), max(round(step / (wanted * share)), 1)
        return cls(
            points=tuple(points),
            step=step,
            answer_weight=1 if times > 1 else weight,
            sheet_weight=times * step,
            share=share,
        )

    @property
    def knots(self) -> Integers:
        """The raw scores that have entries, ascending: 0 first, all points last."""
        return np.append(np.arange(0, sum(self.points), self.step), sum(self.points))

    @property
    def starts(self) -> Integers:
        """First entry of each item's cells, and the first of the histogram."""
        return np.cumsum([0, *(most + 1 for most in self.points)])

    @property
    def n_entries(self) -> int:
        """How many numbers are counted."""
        return int(self.starts[-1]) + len(self.knots)

    def calibrate(self, params: PrivacyParams) -> Calibration:
        """Noise for all entries, one vector; it depends on public parameters only."""
        weights = (self.answer_weight, self.sheet_weight, self.share)
        sensitivity = point_totals_sensitivity(params, self.points, *weights)
        return calibrate(params, sensitivity, "point_totals_sensitivity")

    def count(self, person: Integers, item: Integers, points: NDArray[np.uint8]) -> Integers:
        """Entries of some whole sheets, shape (n_entries,): cells by item, then the histogram.

        Args:
            person: shape (answers,), who gave each answer, ascending.
            item: shape (answers,), codes, ascending within a person; nobody answers an item twice.
            points: shape (answers,), points of each answer.

        Raises:
            ValueError: a sheet has not just all items, or more points than an item gives.
        """
        n, starts = len(self.points), self.starts
        whole = len(person) % n == 0 and (item.reshape(-1, n) == np.arange(n)).all()
        owner = person.reshape(-1, n) if whole else person[:0].reshape(0, n)
        if not whole or (owner != owner[:, :1]).any() or (np.diff(owner[:, 0]) <= 0).any():
            raise ValueError("a sheet must have all items, each once")
        if (points > np.array(self.points)[item]).any():
            raise ValueError("an item must not have more points than it gives")
        cells = np.bincount(starts[item] + points, minlength=int(starts[-1])) * self.share
        if self.share > 1:
            sizes = np.diff(starts)
            cells -= np.repeat(len(owner) * self.share // sizes, sizes)
        scores = points.reshape(-1, n).sum(axis=1, dtype=np.int64)
        sheets = sheets_at_knots(scores, self.knots, self.sheet_weight)
        return np.concatenate([self.answer_weight * cells, sheets])


@dataclass(frozen=True, slots=True)
class PointTotals:
    """Entries of all sheets of a test with points.

    Attributes:
        entries: shape (n_entries,), int64.
        shape: what they count.
        confidential: whether they are exact; released ones have noise.
    """

    entries: Integers
    shape: PointShape
    confidential: bool = True

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.shape.points)

    @property
    def cells(self) -> list[Integers]:
        """By item, the entries of 0 to m points."""
        return np.split(self.entries[: self.shape.starts[-1]], self.shape.starts[1:-1])

    @property
    def histogram(self) -> Integers:
        """`sheet_weight` times how many sheets are at each knot."""
        return self.entries[self.shape.starts[-1] :]

    @property
    def by_score(self) -> ScoreHistogram:
        """Sheets by raw score, noise included."""
        return ScoreHistogram.of(self.histogram, self.shape.knots, self.shape.sheet_weight)

    def people_by_points(self) -> list[Floats]:
        """By item, sheets with each number of points; they add up to all sheets.

        Cells of an item have their mean replaced, so that shares and the noise that all cells of an
        item have in common leave no trace.
        """
        shape, people = self.shape, self.by_score.people
        own = (cells / (shape.answer_weight * shape.share) for cells in self.cells)
        return [cells - cells.mean() + people / len(cells) for cells in own]


def release_point_totals(
    totals: PointTotals, calibration: Calibration, bits: RandomBits
) -> PointTotals:
    """Add independent noise to every entry, zeros included: totals that may be published.

    Guarantee: that for which `calibration` was made, by `PointShape.calibrate`, if `bits.safe`.

    Raises:
        ValueError: the totals had noise added already.
    """
    if not totals.confidential:
        raise ValueError("totals have noise already: adding it again would not protect more")
    noisy = add_noise(totals.entries, calibration.law, bits)
    return PointTotals(noisy, totals.shape, confidential=False)
