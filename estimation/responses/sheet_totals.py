"""Totals of answer sheets: right minus wrong by item, and a histogram of raw scores.

A right answer adds `answer_weight` to the total of its item, a wrong one takes as much off. A sheet
adds `sheet_weight` to the histogram of its booklet: to its raw score where every score has an entry
of its own, or else shares of that to the two knots around it, which keep the score on average. The
weights are public. They give both parts one noise law: noise of scale s on an entry is noise of
scale s / `answer_weight` on right minus wrong.

With public bands of raw scores, right minus wrong of an item is counted apart for the sheets of
each band, which shows how well the model fits. A sheet still touches one entry of each of its
items, so the noise is the same on every entry, and the sum over bands has `bands` times its
variance. Bands hold about as many sheets each where abilities and difficulties are standard normal.

The histogram has about 3 % more noise than the best share of the budget would give where its
weight w, relative to half of right minus wrong, is off by the root of 2. For Gaussian noise
w^2 = .12 K, or .08 K on knots; for Laplace noise it takes 15 % of epsilon, or 8 % on knots.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from hushrank.estimation.common.central_noise import Calibration, calibrate
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.sensitivity import sheet_totals_sensitivity
from hushrank.privacy.units import NoiseKind, PrivacyParams

MOST_SCORES = 40  # items of a sheet whose scores all have entries of their own; knots beyond
TYPICAL_SPREAD = 0.85  # of the log odds of a share of right answers, in a typical test
STEPS = 24  # between the knots of the histogram of a longer sheet
_OF_SCORES, _OF_KNOTS = (0.12, 0.15), (0.08, 0.08)  # w^2 / K (Gaussian), part of epsilon (Laplace)

Integers = NDArray[np.int64]


def step_of_scores(most: int) -> int:
    """Scores between two knots where the longest sheet has `most` items; 1: every score is one."""
    return 1 if most <= MOST_SCORES else -(-most // STEPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetShape:
    """What is counted of sheets: a public number of each kind.

    Attributes:
        n_items: size of the catalogue.
        booklets: ascending codes of the items of each booklet, each set once; of a test without
            booklets one with all items.
        step: scores between two knots of a histogram, the last two may be nearer; 1: every score.
        answer_weight: what an answer adds to, or takes off, the total of its item.
        sheet_weight: what a sheet adds to a histogram.
        bands: of raw scores in which right minus wrong is counted apart.
    """

    n_items: int
    booklets: tuple[tuple[int, ...], ...]
    step: int
    answer_weight: int
    sheet_weight: int
    bands: int = 1

    @classmethod
    def of(
        cls,
        n_items: int,
        booklets: Sequence[tuple[int, ...]],
        kind: NoiseKind = NoiseKind.GAUSSIAN,
        bands: int = 1,
    ) -> Self:
        """The shape for a test, with the weights that suit a law of noise.

        Args:
            n_items: size of the catalogue.
            booklets: codes of the items of each; empty: everybody is asked everything.
            kind: law of the noise.
            bands: of raw scores; 1: answers of all sheets are counted together.
        """
        sets = tuple(dict.fromkeys(booklets)) or (tuple(range(n_items)),)
        most = max(map(len, sets))
        step = step_of_scores(most)
        squared, share = _OF_SCORES if step == 1 else _OF_KNOTS
        wanted = 2 * math.sqrt(squared * most)
        if kind is NoiseKind.LAPLACE:
            wanted = share / (1 - share) * most
        times, answer_weight = max(round(wanted / step), 1), max(round(step / wanted), 1)
        return cls(
            n_items=n_items,
            booklets=sets,
            step=step,
            answer_weight=1 if times > 1 else answer_weight,
            sheet_weight=times * step,
            bands=bands,
        )

    def band_starts(self, booklet: int) -> Integers:
        """The lowest score of each band of a booklet, ascending, 0 first; all differ."""
        items = len(self.booklets[booklet])
        parts = np.arange(1, self.bands) / self.bands
        typical = np.rint(items * expit(TYPICAL_SPREAD * ndtri(parts))).astype(np.int64)
        for band in range(len(typical)):  # each band has a score of its own at least
            typical[band] = max(typical[band], band + 1, *typical[:band][-1:] + 1)
        return np.concatenate([[0], typical])

    def knots(self, booklet: int) -> Integers:
        """The scores of a booklet that have entries, ascending: 0 first, all right last."""
        starts, items = self.band_starts(booklet), len(self.booklets[booklet])
        ends = np.append(starts[1:] - 1, items)
        parts = [
            np.append(np.arange(start, end, self.step), end)
            for start, end in zip(starts, ends, strict=True)
        ]
        return np.concatenate(parts)

    @property
    def n_answers(self) -> int:
        """How many numbers of right minus wrong are counted."""
        return self.bands * self.n_items

    @property
    def n_entries(self) -> int:
        """How many numbers are counted."""
        return self.n_answers + sum(len(self.knots(b)) for b in range(len(self.booklets)))

    def calibrate(self, params: PrivacyParams) -> Calibration:
        """Noise for all entries, one vector; it depends on public parameters only."""
        sensitivity = sheet_totals_sensitivity(
            params, self.n_items, self.answer_weight, self.sheet_weight
        )
        return calibrate(params, sensitivity, "sheet_totals_sensitivity")

    def count(self, person: Integers, item: Integers, correct: NDArray[np.uint8]) -> Integers:
        """Entries of some whole sheets, shape (n_entries,): right minus wrong, then histograms.

        Right minus wrong stands band by band.

        Args:
            person: shape (answers,), who gave each answer, ascending.
            item: shape (answers,), codes, ascending within a person; nobody answers an item twice.
            correct: shape (answers,), 1 right, 0 wrong.

        Raises:
            ValueError: a sheet has not just the items of a booklet.
        """
        entries = np.zeros(self.n_entries, np.int64)
        ends = np.cumsum([self.n_answers, *(len(self.knots(b)) for b in range(len(self.booklets)))])
        for booklet, right in self._whole_sheets(person, item, correct):
            scores = right.sum(axis=1, dtype=np.int64)
            codes = np.array(self.booklets[booklet])
            band = np.searchsorted(self.band_starts(booklet), scores, side="right") - 1
            for number in np.unique(band).tolist():
                own = right if self.bands == 1 else right[band == number]
                less_wrong = 2 * own.sum(axis=0, dtype=np.int64) - len(own)
                entries[number * self.n_items + codes] += self.answer_weight * less_wrong
            entries[ends[booklet] : ends[booklet + 1]] += sheets_at_knots(
                scores, self.knots(booklet), self.sheet_weight
            )
        return entries

    def _whole_sheets(
        self, person: Integers, item: Integers, correct: NDArray[np.uint8]
    ) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Answers as matrices of whole sheets, shape (sheets, items), and the booklet of each."""
        everything = self.booklets == (tuple(range(self.n_items)),)
        if everything and len(person) % self.n_items == 0:
            owner = person.reshape(-1, self.n_items)[:, [0, -1]]
            if (owner[:, 0] == owner[:, 1]).all() and (np.diff(owner[:, 0]) > 0).all():
                yield 0, correct.reshape(-1, self.n_items)  # n items, none twice: all there are
                return
        starts = np.flatnonzero(np.diff(person, prepend=-1))
        sizes = np.diff(starts, append=len(person))
        known = {codes: booklet for booklet, codes in enumerate(self.booklets)}
        for size in np.unique(sizes).tolist():
            places = starts[sizes == size][:, np.newaxis] + np.arange(size)
            codes, right = item[places], correct[places]
            while len(codes):
                booklet = known.get(tuple(codes[0].tolist()))
                if booklet is None:
                    raise ValueError("a sheet must have all items of one booklet, and no other")
                same = (codes == codes[0]).all(axis=1)
                yield booklet, right[same]
                codes, right = codes[~same], right[~same]


def knot_shares(knots: Integers, sheet_weight: int) -> Integers:
    """What a sheet of each raw score adds to each knot, shape (K + 1, knots).

    It adds `sheet_weight` to a knot, or shares of it to both around its score, which keep the score
    on average but for rounding.

    Args:
        knots: ascending, from 0 to the highest score K.
        sheet_weight: what a sheet adds in all.
    """
    score = np.arange(knots[-1] + 1)
    low = np.clip(np.searchsorted(knots, score, side="right") - 1, 0, len(knots) - 2)
    apart = np.diff(knots)[low]
    above = (sheet_weight * (score - knots[low]) + apart // 2) // apart
    shares = np.zeros((len(score), len(knots)), np.int64)
    shares[score, low], shares[score, low + 1] = sheet_weight - above, above
    return shares


def sheets_at_knots(score: Integers, knots: Integers, sheet_weight: int) -> Integers:
    """The histogram of the raw scores of some sheets, shape (knots,), as `knot_shares` says."""
    shares = knot_shares(knots, sheet_weight)
    return np.asarray(np.bincount(score, minlength=len(shares)) @ shares)


@dataclass(frozen=True, slots=True)
class SheetTotals:
    """Entries of all sheets of a test.

    Attributes:
        entries: shape (n_entries,), int64.
        shape: what they count.
        confidential: whether they are exact; released ones have noise.
    """

    entries: Integers
    shape: SheetShape
    confidential: bool = True

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.shape.n_items

    @property
    def right_minus_wrong(self) -> Integers:
        """By item, `answer_weight` times; shape (n_items,)."""
        return np.asarray(self.by_band.sum(axis=0))

    @property
    def by_band(self) -> Integers:
        """The same of the sheets of each band of raw scores, shape (bands, n_items)."""
        return self.entries[: self.shape.n_answers].reshape(self.shape.bands, -1)

    @property
    def histograms(self) -> list[Integers]:
        """By booklet, `sheet_weight` times how many sheets are at each knot."""
        sizes = [len(self.shape.knots(b)) for b in range(len(self.shape.booklets))]
        return np.split(self.entries[self.shape.n_answers :], np.cumsum(sizes)[:-1])


def release_sheet_totals(
    totals: SheetTotals, calibration: Calibration, bits: RandomBits
) -> SheetTotals:
    """Add independent noise to every entry, zeros included: totals that may be published.

    Guarantee: that for which `calibration` was made, by `SheetShape.calibrate`, for sheets of at
    most `max_contributions` items, if `bits.safe`.

    Raises:
        ValueError: the totals had noise added already.
    """
    if not totals.confidential:
        raise ValueError("totals have noise already: adding it again would not protect more")
    noisy = add_noise(totals.entries, calibration.law, bits)
    return SheetTotals(noisy, totals.shape, confidential=False)
