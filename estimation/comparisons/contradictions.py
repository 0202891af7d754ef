"""How often people contradict themselves, from true or randomised answers by person.

Three items go in a circle if a person prefers the first to the second, the second to the third and
the third to the first. [XSC] §S.1.1 counts who does so anywhere among all pairs. Here it is the
share of threes of items, among those of which a person compared all pairs: a fair coin for each
answer gives 1/4, one order of each person 0. For people who answered three pairs it is the share
of people.

With s and w of an answer as in `PersonAnswers`, z = s / w has the true answer as its mean, whatever
the noise, and the flips of different answers are independent. So for z_ab of the answer whether a
won, z_ba = 1 - z_ab, the mean of z_ab z_bc z_ca + z_ba z_cb z_ac is 1 if the three go in a circle,
else 0. With a matrix Z of a person, zero where nothing was answered, and A of ones where something
was, the sum over all threes is tr(Z^3) / 3, and their number tr(A^3) / 6.

The share of people with a circle anywhere among many pairs has one unbiased estimate, too, but its
variance multiplies over all answers: at epsilon 1 an answer it is 3.5 to 5.3 a person for three
items, 23 to 28 for four and 280 to 460 for five.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushrank.estimation.common.links import Floats
from hushrank.estimation.comparisons.mixed_effects import PersonAnswers

AT_ONCE = 1 << 21  # numbers in the matrices of the people that are looked at together


@dataclass(frozen=True, slots=True)
class Contradictions:
    """How often three items go in a circle.

    Attributes:
        share: share of threes that do; by noise it may be below 0 or above 1.
        error: its standard error, over people.
        threes: threes of items of which somebody compared all pairs, counted for each person.
        people: people with such a three, 2 or more.
    """

    share: float
    error: float
    threes: int
    people: int


def contradictions(answers: PersonAnswers) -> Contradictions:
    """Estimate the share of threes of items that go in a circle.

    Answers with w = 0 say nothing and are left out. Nothing is computed about a single person that
    leaves this function.

    Raises:
        ValueError: somebody answered a pair more than once, or fewer than two people compared three
            items with each other.
    """
    n, kept = answers.n_items, answers.w > 0
    person, first, second = (
        column[kept] for column in (answers.person, answers.first, answers.second)
    )
    pair = np.minimum(first, second) * n + np.maximum(first, second)
    if len(np.unique(np.stack([person, pair]), axis=1).T) < len(pair):
        raise ValueError("each person may answer a pair of items only once")
    order = np.argsort(person, kind="stable")
    z = (answers.s[kept] / answers.w[kept])[order]
    person, first, second = person[order], first[order], second[order]
    size = max(AT_ONCE // (n * n), 1)
    sums = []
    for low in range(0, answers.n_people, size):
        rows = slice(*np.searchsorted(person, [low, low + size]))
        place = person[rows] - low, first[rows], second[rows]
        sums.append(_circles(*place, z[rows], (min(size, answers.n_people - low), n, n)))
    circles, threes = np.concatenate(sums, axis=1)
    people, total = int((threes > 0).sum()), float(threes.sum())
    if people < 2:
        raise ValueError("at least two people must have compared three items with each other")
    share = float(circles.sum()) / total
    spread = float(np.square(circles - share * threes).sum())
    error = math.sqrt(people / (people - 1) * spread) / total
    return Contradictions(share, error, int(total), people)


def _circles(
    person: np.ndarray, first: np.ndarray, second: np.ndarray, z: Floats, shape: tuple[int, ...]
) -> Floats:
    """Circles, undone, and threes of each person, shape (2, people)."""
    wins, asked = np.zeros(shape), np.zeros(shape)
    wins[person, first, second], wins[person, second, first] = z, 1 - z
    asked[person, first, second] = asked[person, second, first] = 1
    closed = [np.einsum("lab,lba->l", each @ each, each) for each in (wins, asked)]
    return np.stack([closed[0] / 3, np.rint(closed[1] / 6)])
