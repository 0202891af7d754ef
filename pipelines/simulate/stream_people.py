"""People who answer on some nights of a stream, and whose nights count: by simulation.

Only guesses that are public enter. The generators are numpy's: no release draws from here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.stream_encoder import Terms
from hushrank.transforms.streams.participation import People, take_part

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Habit:
    """How often some people answer.

    Attributes:
        share: of all people, > 0.
        chance: of each to answer on a night, whatever they did before; above 0 and at most 1.

    Raises:
        ValueError: a field is out of range.
    """

    share: float
    chance: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.share) and self.share > 0):
            raise ValueError(f"share of people must be > 0, got {self.share!r}")
        if not 0 < self.chance <= 1:
            raise ValueError(f"chance must be above 0 and at most 1, got {self.chance!r}")


@dataclass(frozen=True, slots=True)
class Answers:
    """How many people answered on each night, and how many of them counted.

    Attributes:
        there, counted: shape (nights, habits).
    """

    there: Counts
    counted: Counts

    @property
    def share_counted(self) -> float:
        """Of all people's nights, those that counted; 1 where nobody answered."""
        there = int(self.there.sum())
        return int(self.counted.sum()) / there if there else 1.0


def simulate_answers(habits: Sequence[Habit], terms: Terms, n_people: int, seed: int) -> Answers:
    """Let people answer for a whole stream, and count by the rule that runs apply.

    Args:
        habits: of all people; shares need not add up to 1.
        terms: when a person counts.
        n_people: how many, >= 1.
        seed: the same invents the same people.

    Raises:
        ValueError: no habit, or nobody.
    """
    if not habits or n_people < 1:
        raise ValueError(f"need people with habits, got {n_people!r} and {len(habits)} habits")
    random = np.random.default_rng(seed)
    shares = np.array([habit.share for habit in habits])
    habit_of = random.choice(len(habits), n_people, p=shares / shares.sum())
    chance = np.array([habit.chance for habit in habits])[habit_of]
    shape = terms.nights, len(habits)
    there, counted = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    people = People.nobody()
    for night in range(terms.nights):
        owners = np.flatnonzero(random.random(n_people) < chance)
        words = owners.astype(np.uint64), np.zeros(len(owners), np.uint64)
        counts, people = take_part(people, words, night, terms)
        there[night] = np.bincount(habit_of[owners], minlength=len(habits))
        counted[night] = np.bincount(habit_of[owners[counts]], minlength=len(habits))
    return Answers(there, counted)
