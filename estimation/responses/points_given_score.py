"""Chances of points given raw scores, in the adjacent category (partial credit) model.

Item i gives h = 0..m points with a chance that is proportional to exp(h w - d_i1 - .. - d_ih) at
ability w, where d_is is the difficulty of its step s from s - 1 to s points [M82]. For m = 1 that
is the Rasch model. The raw score is sufficient for w, so the law of a sheet given its score r
depends on steps alone. It is computed at the ability whose mean score is r:
P(x_i = h | r) = p_ih L(r - h) / sum over k of p_ik L(r - k), with L the law of the score of all
other items.

References:
    [M82] Masters. A Rasch model for partial credit scoring. Psychometrika 47, 1982.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats

HALVINGS, FURTHEST = 45, 40.0  # of the range of abilities, which exceeds the steps by so much
MOST_CELLS = 4_000_000  # of laws of scores that are held at once
EXACT_CELLS = 5_000_000  # of laws without two items, up to which covariances are exact

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Steps:
    """Step difficulties of items, in one row, item by item.

    Attributes:
        values: shape (sum of points,).
        points: most points of each item.
    """

    values: Floats
    points: tuple[int, ...]

    @property
    def most(self) -> int:
        """Most points that an item gives."""
        return max(self.points)

    @property
    def top(self) -> int:
        """Highest raw score."""
        return sum(self.points)

    @property
    def owner(self) -> Integers:
        """The item of each step."""
        return np.repeat(np.arange(len(self.points)), self.points)

    @property
    def place(self) -> Integers:
        """The number of each step within its item, from 1."""
        return np.concatenate([np.arange(1, most + 1) for most in self.points])

    def log_weights(self) -> Floats:
        """Shape (items, most + 1): minus the sum of steps up to h points; -inf: never given."""
        table = np.full((len(self.points), self.most + 1), np.inf)
        table[:, 0] = 0.0
        table[self.owner, self.place] = self.values
        return -np.cumsum(table, axis=1)

    def chances(self, ability: Floats) -> Floats:
        """Chance of each number of points, shape (abilities, items, most + 1)."""
        points = np.arange(self.most + 1)
        logs = self.log_weights() + ability[:, np.newaxis, np.newaxis] * points
        logs -= logs.max(axis=2, keepdims=True)
        weights = np.exp(logs)
        return np.asarray(weights / weights.sum(axis=2, keepdims=True))

    def of_steps(self, by_points: Floats) -> Floats:
        """Sums over at least s points, for each step s: from shape (.., items, most + 1)."""
        above = np.cumsum(by_points[..., ::-1], axis=-1)[..., ::-1]
        return np.asarray(above[..., self.owner, self.place])


def points_at_scores(steps: Steps, scores: Integers) -> Floats:
    """P(x_i = h | r) of some raw scores, shape (scores, items, most + 1)."""
    found = np.zeros((len(scores), len(steps.points), steps.most + 1))
    found[scores == 0, :, 0] = 1.0
    full = np.flatnonzero(scores == steps.top)
    found[full[:, np.newaxis], np.arange(len(steps.points)), list(steps.points)] = 1.0
    inner = np.flatnonzero((scores > 0) & (scores < steps.top))
    rows = max(1, MOST_CELLS // (len(steps.points) * (steps.top + 1)))
    for part in np.split(inner, range(rows, len(inner), rows)):
        if len(part):
            found[part] = _inner_points(steps, scores[part])
    return found


def _at_mean_score(steps: Steps, scores: Integers) -> Floats:
    """Chances at the abilities whose mean scores these are, by bisection."""
    low = np.full(len(scores), steps.values.min() - FURTHEST)
    high = np.full(len(scores), steps.values.max() + FURTHEST)
    points = np.arange(steps.most + 1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = (steps.chances(middle) @ points).sum(axis=1) > scores
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return steps.chances((low + high) / 2)


def _with_item(law: Floats, chance: Floats) -> Floats:
    """Law of a score with one more item: law shape (.., top + 1), chance shape (.., most + 1)."""
    found = law * chance[..., :1]
    for points in range(1, chance.shape[-1]):
        found[..., points:] += law[..., :-points] * chance[..., points : points + 1]
    return found


def _at(law: Floats, scores: Integers) -> Floats:
    """The law read backwards from each score, shape (.., scores, top + 1): entry u is at
    score - u, and 0 below 0."""
    place = scores[:, np.newaxis] - np.arange(law.shape[-1])
    index = np.broadcast_to(np.maximum(place, 0), law.shape)
    return np.asarray(np.take_along_axis(law, index, axis=-1) * (place >= 0))


def _inner_points(steps: Steps, scores: Integers) -> Floats:
    chance, n = _at_mean_score(steps, scores), len(steps.points)
    before = np.zeros((n + 1, len(scores), steps.top + 1))
    before[0, :, 0] = 1.0
    after = before.copy()
    for item in range(n):
        before[item + 1] = _with_item(before[item], chance[:, item])
        after[item + 1] = _with_item(after[item], chance[:, n - 1 - item])
    after = after[::-1]  # entry i: the law of the items from i on
    weights = np.empty_like(chance)
    for points in range(steps.most + 1):
        others = np.einsum("isu,isu->si", before[:-1], _at(after[1:], scores - points))
        weights[:, :, points] = chance[:, :, points] * others
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))


def is_exact(steps: Steps, n_scores: int) -> bool:
    """Whether `step_covariance` is exact for so many scores."""
    return len(steps.points) ** 2 * n_scores * (steps.top + 1) <= EXACT_CELLS


def step_covariance(
    steps: Steps, scores: Integers, weights: Floats, by_points: Floats, *, exact: bool
) -> Floats:
    """Covariance of reached steps given scores, summed over sheets, shape (steps, steps).

    Args:
        steps: their difficulties.
        scores: raw scores.
        weights: sheets at each of them, at least 0.
        by_points: `points_at_scores` of them.
        exact: whether to take pairs of items out of the law of scores; else items are independent
            but for the sum, which is nearly so where they are many.
    """
    points = np.arange(steps.most + 1)
    reached = steps.of_steps(by_points)
    if not exact:
        spread = steps.of_steps(by_points * (points - (by_points @ points)[..., np.newaxis]))
        total = (by_points @ points**2 - np.square(by_points @ points)).sum(axis=1)
        share = np.divide(weights, total, out=np.zeros_like(total), where=total > 0)
        found = -np.einsum("r,ri,rj->ij", share, spread, spread)
        return np.asarray(found + _within_items(steps, weights, reached))
    joint = _sheets_with_both(steps, scores, weights)
    both = steps.of_steps(np.moveaxis(steps.of_steps(joint), -1, 0))  # steps of j, then of i
    found = both.T - np.einsum("r,ri,rj->ij", weights, reached, reached)
    same = steps.owner[:, np.newaxis] == steps.owner
    found[same] = _within_items(steps, weights, reached)[same]
    return np.asarray((found + found.T) / 2)


def _within_items(steps: Steps, weights: Floats, reached: Floats) -> Floats:
    """Covariance of steps of the same item, zero elsewhere: who reached one reached all before."""
    later = np.maximum(steps.place[:, np.newaxis], steps.place)
    mean = weights @ reached
    first = np.searchsorted(steps.owner, np.arange(len(steps.points)))
    at = np.minimum(first[steps.owner][:, np.newaxis] + later, len(mean)) - 1
    found = mean[at] - np.einsum("r,ri,rj->ij", weights, reached, reached)
    found[steps.owner[:, np.newaxis] != steps.owner] = 0.0
    return np.asarray(found)


def _sheets_with_both(steps: Steps, scores: Integers, weights: Floats) -> Floats:
    """Sheets with h points on item i and k on item j, shape (i, h, j, k); of i = j meaningless."""
    n, most = len(steps.points), steps.most
    found = np.zeros((n, most + 1, n, most + 1))
    for end, sheets in ((0, weights[scores == 0]), (1, weights[scores == steps.top])):
        at = np.array(steps.points) * end
        found[np.arange(n)[:, np.newaxis], at[:, np.newaxis], np.arange(n), at] += sheets.sum()
    inner = (scores > 0) & (scores < steps.top) & (weights > 0)
    if not inner.any():
        return found
    score, chance = scores[inner], _at_mean_score(steps, scores[inner])
    before = np.zeros((n + 1, n, len(score), steps.top + 1))  # laws without the item of axis 1
    before[0, :, :, 0] = 1.0
    after = before.copy()
    for item in range(n):
        for laws, added in ((before, item), (after, n - 1 - item)):
            laws[item + 1] = _with_item(laws[item], chance[np.newaxis, :, added])
            laws[item + 1, added] = laws[item, added]
    after, law = after[::-1], _law_of_all(chance, steps.top)
    scale = weights[inner] / law[np.arange(len(score)), score]
    for points in range(2 * most + 1):
        others = np.einsum("jisu,jisu->jis", before[:-1], _at(after[1:], score - points))
        for own in range(max(0, points - most), min(most, points) + 1):
            other = points - own
            found[:, own, :, other] += np.einsum(
                "s,si,sj,jis->ij", scale, chance[:, :, own], chance[:, :, other], others
            )
    return found


def _law_of_all(chance: Floats, top: int) -> Floats:
    law = np.zeros((len(chance), top + 1))
    law[:, 0] = 1.0
    for item in range(chance.shape[1]):
        law = _with_item(law, chance[:, item])
    return law
