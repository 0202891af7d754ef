"""Slopes of items in the two-parameter logistic model (2PL), from noisy right less wrong by bands.

Somebody of ability w is right on item i with chance P_i(w) = 1 / (1 + e^-(a_i w + c_i)). With the
law of the raw score of all other items at each ability, P_i says which part of the people is in
band b of raw scores and right, and which is there and wrong; half of their difference is m_bi. So
half of right less wrong answers, Z_bi / 2, is N m_bi in expectation, with N sheets. As people are
drawn, and with noise s in Z / 2 and t in the sum of all sheets, by which N is known, the covariance
of Z_bi / 2 - N m_bi between bands is

    diag(N p_bi / 4 + s^2) + (t^2 - N) m_i m_i',

where p_bi is the part of the people in the band. Log slopes and intercepts c minimise what this
covariance makes of the differences, and weak priors; the laws of other items follow in turns.

Abilities have mean 0 and variance 1, and a density exp(sum over d of k_d g_d(w)) times the normal
one, in which g_d is Hermite's polynomial of degree d, bounded at both ends. The numbers k follow
from the histogram of raw scores by weighted least squares, in the first turns. With a normal
density for abilities that are skew, intervals of slopes would hold in half of all cases.

What all slopes have in common depends on the density's shape, so slopes are told relative to their
geometric mean, with the errors of each item by itself and, in intervals, of that mean. They are
told where they say more than the Rasch model, in which all are alike: where the variance of the
true log slopes, that of the fitted ones less their squared errors, exceeds these errors. In a test
of few items, or of many that nearly everybody solves, the density's shape is known too badly:
intervals would hold in 62 to 84 % of simulated tests for some of the items.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.hermite_e import hermegauss, hermeval
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL
from hushrank.estimation.responses.conditional_fit import laws_without_item, score_law
from hushrank.estimation.responses.sheet_totals import Integers, SheetTotals, knot_shares

NODES = 25  # abilities at which laws are computed
DEGREES = (3, 4, 5, 6)  # of polynomials in the log density; lower ones are mean and variance
BEND_SD, LONGEST_BEND, DAMPING, TURNS = 0.5, 0.2, 0.5, 40  # of k: prior, steps, and their number
PRIOR_SD = np.array([1.0, 6.0])  # of log slopes and of intercepts
FURTHEST = 0.98  # share of right answers from which an intercept starts at most
STEEPEN = 1.2  # what abilities that differ make of the log odds of a share, in a typical test
LEAST = 0.25  # variance of half of right less wrong: half a sheet, squared
MOST_STEPS, LONGEST_STEP, CLOSE = 200, 0.5, 1e-5
FEWEST_ITEMS = 8
RARE, MOST_RARE = 0.05, 0.1  # part of rare answers of an item; share of the items that may have one
FEWEST_BANDS = 3  # two parameters of an item need more numbers than two
MOST_ITEMS = 300  # laws without each item are computed in each turn


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSlopes:
    """Slopes of items relative to their geometric mean, in catalogue order; shape (n,) each.

    Attributes:
        slope: a.
        low, high: 95 % interval of each.
    """

    slope: Floats
    low: Floats
    high: Floats


def item_slopes(totals: SheetTotals, variance: float) -> ItemSlopes | None:
    """Fit slopes; None: they cannot be told better than by one slope for all items.

    So it is also with booklets, with few bands, with few or very many items, where nearly everybody
    is right, or wrong, on more than a tenth of the items, and where no solution is found.

    Args:
        totals: released, with Gaussian noise, of more sheets than noise could make.
        variance: of the noise in one entry.
    """
    shape, several = totals.shape, len(totals.shape.booklets) > 1
    suited = FEWEST_ITEMS <= shape.n_items <= MOST_ITEMS and shape.bands >= FEWEST_BANDS
    if several or not suited or _are_rare(totals).mean() > MOST_RARE:
        return None
    scores, (sheets,) = np.arange(shape.n_items + 1), totals.histograms
    equations = _Equations(
        half=totals.by_band.T / (2 * shape.answer_weight),
        sheets=sheets / shape.sheet_weight,
        of_half=variance / (2 * shape.answer_weight) ** 2,
        of_sheets=variance / shape.sheet_weight**2,
        band=np.searchsorted(shape.band_starts(0), scores, side="right") - 1,
        shares=knot_shares(shape.knots(0), shape.sheet_weight) / shape.sheet_weight,
    )
    found = equations.solve()
    if found is None:
        return None
    log_slope, error = found
    log_slope = log_slope - log_slope.mean()
    if log_slope.var(ddof=1) <= 2 * np.square(error).mean():
        return None
    centre = np.eye(len(error)) - 1 / len(error)  # the mean that is taken off errs too
    reach = -ndtri(LEVEL / 2) * np.sqrt(np.square(centre) @ np.square(error))
    low, slope, high = (np.exp(log_slope + side * reach) for side in (-1, 0, 1))
    return ItemSlopes(slope=slope, low=low, high=high)


def _are_rare(totals: SheetTotals) -> NDArray[np.bool_]:
    """Whether nearly all answers to an item are right, or wrong; noise included."""
    people = totals.histograms[0].sum() / totals.shape.sheet_weight
    right_less_wrong = totals.right_minus_wrong / totals.shape.answer_weight
    return np.asarray(np.abs(right_less_wrong) > (1 - 2 * RARE) * people)


@dataclass(frozen=True, slots=True)
class _Abilities:
    """Abilities of people: nodes of mean 0 and variance 1, shape (nodes, 1), with weights."""

    node: Floats
    weight: Floats
    bend: Floats  # g less its mean, shape (degrees, nodes)

    @classmethod
    def of(cls, bends: Floats) -> _Abilities:
        """Abilities with a density that is bent by k."""
        place, weight = hermegauss(NODES)
        bend = np.stack([hermeval(place, np.eye(degree + 1)[degree]) for degree in DEGREES])
        size = np.sqrt([[math.factorial(degree)] for degree in DEGREES])
        bend *= np.exp(-np.square(place) / 8) / size
        weight = weight * np.exp(bends @ bend)
        weight /= weight.sum()
        off = place - weight @ place
        node = off / math.sqrt(weight @ np.square(off))
        column = (slice(None), np.newaxis)
        return cls(node[column], weight[column], bend - (bend @ weight)[column])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Equations:
    """Released numbers with their noise; `half` has shape (n, bands)."""

    half: Floats
    sheets: Floats
    of_half: float
    of_sheets: float
    band: Integers  # of each raw score
    shares: Floats  # what a sheet of each raw score adds to each knot

    @property
    def people(self) -> float:
        """Sheets together."""
        return float(self.sheets.sum())

    def solve(self) -> tuple[Floats, Floats] | None:
        """Log slopes with standard errors, by steps of Gauss and Newton; None: they still move."""
        share = 0.5 + self.half.sum(axis=1) / self.people
        start = STEEPEN * logit(np.clip(share, 1 - FURTHEST, FURTHEST))
        values = np.stack([np.zeros(len(share)), start], axis=1)  # log slopes and intercepts
        bends = np.zeros(len(DEGREES))
        for turn in range(MOST_STEPS):
            people = _Abilities.of(bends)
            steep = people.node * np.exp(values[:, 0])
            right = expit(steep + values[:, 1])
            law = score_law(right)
            downhill, curvature = self._of_items(people, steep, right, law)
            downhill -= values / PRIOR_SD**2
            curvature += np.diag(1 / PRIOR_SD**2)
            step = np.linalg.solve(curvature, downhill[..., np.newaxis])[..., 0]
            if turn < TURNS:
                bend = self._of_abilities(people, law, bends)
                bends = bends + DAMPING * np.clip(bend, -LONGEST_BEND, LONGEST_BEND)
            elif np.abs(step).max() < CLOSE:
                return values[:, 0], np.sqrt(np.linalg.inv(curvature)[:, 0, 0])
            values = values + np.clip(step, -LONGEST_STEP, LONGEST_STEP)
        return None

    def _of_abilities(self, people: _Abilities, law: Floats, bends: Floats) -> Floats:
        """The step of k to the histogram."""
        expected = self.people * people.weight[:, 0] @ law @ self.shares
        loaded = self.people * (people.bend * people.weight[:, 0]) @ law @ self.shares
        weighted = loaded / (np.maximum(expected, 1.0) + self.of_sheets)
        system = weighted @ loaded.T + np.eye(len(bends)) / BEND_SD**2
        wanted = weighted @ (self.sheets - expected) - bends / BEND_SD**2
        return np.asarray(np.linalg.solve(system, wanted))

    def _of_items(
        self, people: _Abilities, steep: Floats, right: Floats, law: Floats
    ) -> tuple[Floats, Floats]:
        """Half of the downhill direction and of the curvature, shapes (n, 2) and (n, 2, 2)."""
        wrong_there, right_there = np.zeros((2, self.half.shape[1], *right.shape))
        for score, others, known in laws_without_item(law, right):
            part = np.where(known, others, 0.0)
            wrong_there[self.band[score]] += part
            right_there[self.band[score + 1]] += part
        hits = (people.weight * right * right_there).sum(axis=1).T
        misses = (people.weight * (1 - right) * wrong_there).sum(axis=1).T
        half, size = (hits - misses) / 2, self.people
        common = len(self.sheets) * self.of_sheets - size
        covariance = common * half[:, :, np.newaxis] * half[:, np.newaxis]
        bands = np.arange(half.shape[1])
        covariance[:, bands, bands] += size * (hits + misses) / 4 + max(self.of_half, LEAST)
        moved = people.weight * right * (1 - right) * (right_there + wrong_there) / 2
        by_value = np.stack([(moved * steep).sum(axis=1), moved.sum(axis=1)], axis=2)
        loaded = size * np.moveaxis(by_value, 1, 0)  # items, bands, values
        weighted = np.linalg.solve(covariance, loaded)
        downhill = np.einsum("ibv,ib->iv", weighted, self.half - size * half)
        return downhill, np.einsum("ibv,ibw->ivw", weighted, loaded)
