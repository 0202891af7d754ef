"""Simulate on which nights of a stream people answer, and which of these nights count.

The inputs are public guesses only. The generators are numpy's; no release draws from here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.stream_encoder import Terms
from hushrank.transforms.streams.people_files import People, take_part

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Habit:
    """Share of the people who answer with one chance.

    Attributes:
        share: share of these people among all people, > 0.
        chance: chance that each answers on a night, whatever they did before; above 0, at most 1.

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
    """Numbers of people who answered on each night, and of those who counted.

    Attributes:
        there, counted: shape (nights, habits).
    """

    there: Counts
    counted: Counts

    @property
    def share_counted(self) -> float:
        """The share of all people's nights that counted; 1 if nobody answered."""
        there = int(self.there.sum())
        return int(self.counted.sum()) / there if there else 1.0


def habit_of_each(
    habits: Sequence[Habit], n_people: int, random: np.random.Generator
) -> NDArray[np.intp]:
    """Draw the habit of each person, by the shares of the habits; shape (people,)."""
    shares = np.array([habit.share for habit in habits])
    return np.asarray(random.choice(len(habits), n_people, p=shares / shares.sum()))


def simulate_answers(habits: Sequence[Habit], terms: Terms, n_people: int, seed: int) -> Answers:
    """Simulate the answers of a whole stream, and count them by the rule that runs use.

    Args:
        habits: habits of all people; shares need not add up to 1.
        terms: the rule that decides when a person counts.
        n_people: number of people, >= 1.
        seed: the same seed simulates the same people.

    Raises:
        ValueError: there are no habits, or no people.
    """
    if not habits or n_people < 1:
        raise ValueError(f"need people with habits, got {n_people!r} and {len(habits)} habits")
    random = np.random.default_rng(seed)
    habit_of = habit_of_each(habits, n_people, random)
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
