"""Write a simulated survey that goes on for many nights, a file a night, and a job that streams it.

On which nights a person answers follows from a habit. Nothing else changes from night to night: all
have the same true scores.

Simulate on which nights of a stream people answer, and which of these nights count.

The inputs are public guesses only. The generators are numpy's; no release draws from here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.pipelines.simulate.simulate import (
    Progress,
    Simulated,
    job_of,
    open_row_file,
    schema_of,
    survey_folder,
    table_of,
    write_side_files,
)
from hushrank.pipelines.simulate.simulated_rows import (
    HABIT_STREAM,
    SimulationSpec,
    comparison_blocks,
)
from hushrank.privacy.stream_encoder import RowTerms, SquareTerms, Terms
from hushrank.transforms.storage.files import FileFormat
from hushrank.transforms.streams.people_files import People, take_part
from hushrank.transforms.streams.square_meter import meter_of

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
    """Numbers of people who answered on each night, and of those who counted; or of rows.

    Attributes:
        there, counted: shape (nights, habits).
    """

    there: Counts
    counted: Counts

    @property
    def share_counted(self) -> float:
        """The share of all that counted; 1 if nobody answered."""
        there = int(self.there.sum())
        return int(self.counted.sum()) / there if there else 1.0


def habit_of_each(
    habits: Sequence[Habit], n_people: int, random: np.random.Generator
) -> NDArray[np.intp]:
    """Draw the habit of each person, by the shares of the habits; shape (people,)."""
    shares = np.array([habit.share for habit in habits])
    return np.asarray(random.choice(len(habits), n_people, p=shares / shares.sum()))


def _people_with(
    habits: Sequence[Habit], n_people: int, seed: int
) -> tuple[np.random.Generator, NDArray[np.intp], NDArray[np.float64]]:
    """Randomness, and of each person the number of the habit and the chance to answer a night."""
    if not habits or n_people < 1:
        raise ValueError(f"need people with habits, got {n_people!r} and {len(habits)} habits")
    random = np.random.default_rng(seed)
    habit_of = habit_of_each(habits, n_people, random)
    chance = np.array([habit.chance for habit in habits])[habit_of]
    return random, habit_of, chance


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
    random, habit_of, chance = _people_with(habits, n_people, seed)
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


def simulate_rows(
    habits: Sequence[Habit],
    terms: RowTerms | SquareTerms,
    n_people: int,
    rows: int,
    n_items: int,
    seed: int,
) -> Answers:
    """Simulate the rows of a whole stream that meters them, and count them by the rule of runs.

    Args:
        habits: habits of all people; shares need not add up to 1.
        terms: the rule that decides which rows count.
        n_people: number of people, >= 1.
        rows: rows that a person gives on a night, each on a random pair; of several on one pair one
            is taken.
        n_items: number of items, >= 2.
        seed: the same seed simulates the same people.

    Returns:
        Numbers of rows.

    Raises:
        ValueError: there are no habits, or no people.
    """
    random, habit_of, chance = _people_with(habits, n_people, seed)
    there, counted = (np.zeros((terms.nights, len(habits)), np.int64) for _ in range(2))
    people = People.nobody()
    for night in range(terms.nights):
        owners = np.repeat(np.flatnonzero(random.random(n_people) < chance), rows)
        pairs = random.integers(0, n_items * (n_items - 1) // 2, len(owners)).astype(np.uint32)
        first = np.unique(owners * np.int64(1 << 32) + pairs, return_index=True)[1]
        owners, pairs = owners[np.sort(first)], pairs[np.sort(first)]
        there[night] = np.bincount(habit_of[owners], minlength=len(habits))
        words = owners.astype(np.uint64), np.zeros(len(owners), np.uint64)
        meter = meter_of(people, night, terms)
        apart = meter.apart(words, pairs)
        words, pairs, owners = (words[0][apart], words[1][apart]), pairs[apart], owners[apart]
        kept = owners[meter.admit(words, pairs)]
        people = meter.after
        counted[night] = np.bincount(habit_of[kept], minlength=len(habits))
    return Answers(there, counted)


MAX_NIGHTS = 1_100  # three years
GAP, WINDOW = 7, 28  # settings of the job, where there are as many nights


@dataclass(frozen=True, slots=True)
class NightsSpec:
    """A survey in which people compare pairs of items on some of many nights.

    Attributes:
        survey: items, people, and how they answer on a night on which they do.
        habits: habits of the people; their shares need not add up to 1.
        nights: number of nights.
        first: date of the first.

    Raises:
        ValueError: there are no habits, or fewer nights than 1 or more than three years of them.
    """

    survey: SimulationSpec
    habits: Sequence[Habit]
    nights: int
    first: date

    def __post_init__(self) -> None:
        if not self.habits:
            raise ValueError("people need a habit: name the chance that they answer on a night")
        if not 1 <= self.nights <= MAX_NIGHTS:
            raise ValueError(f"nights must be between 1 and {MAX_NIGHTS}, got {self.nights!r}")
        if self.survey.events or self.survey.epsilons:
            raise ValueError("nights have no column event or epsilon; leave them out")

    @property
    def dates(self) -> tuple[date, ...]:
        """Dates of all nights."""
        return tuple(self.first + timedelta(days=night) for night in range(self.nights))


def simulate_nights(
    spec: NightsSpec,
    out: Path,
    *,
    format_: FileFormat = FileFormat.PARQUET,
    progress: Progress | None = None,
) -> Simulated:
    """Write the nights that `spec` describes into the folder `out`, made if it does not exist.

    Args:
        spec: nights and people; the rows depend on nothing else.
        out: a new or empty folder.
        format_: format of the files, one a night, without rows where nobody answers.
        progress: called from time to time with the share that is done.

    Raises:
        FileExistsError: `out` is not empty, or is a file.
    """
    survey, names = spec.survey, [f"{night}.{format_.value}" for night in spec.dates]
    with survey_folder(out, names) as written:
        ids = pa.array(survey.item_ids()) if survey.named else None
        for night, path in enumerate(written.log):
            with open_row_file(path, schema_of(survey), format_) as write:
                for columns in _night(spec, night):
                    write(table_of(columns, ids))
            if progress is not None:
                progress((night + 1) / spec.nights)
        scores = survey.true_scores().tolist()
        write_side_files(written, survey.item_ids(), scores, _job(spec, format_))
    return written


def _night(spec: NightsSpec, night: int) -> Iterator[dict[str, NDArray[np.generic]]]:
    """The rows of a night: those of a survey of the people who are there."""
    survey = spec.survey
    habits = habit_of_each(spec.habits, survey.people, survey.generator(HABIT_STREAM))
    chance = np.array([habit.chance for habit in spec.habits])[habits]
    random = survey.generator(HABIT_STREAM, night)
    there = np.flatnonzero(random.random(survey.people) < chance)
    if not len(there):
        return
    scores = tuple(survey.true_scores().tolist())
    seed = int(random.integers(1 << 62))
    for columns in comparison_blocks(replace(survey, people=len(there), scores=scores, seed=seed)):
        yield columns | {"user": there[columns["user"]]}


def _job(spec: NightsSpec, format_: FileFormat) -> dict[str, Any]:
    """A job that ranks the nights as one stream."""
    job = job_of(spec.survey, format_)
    gap, window = min(GAP, spec.nights), min(WINDOW, spec.nights)
    job["name"] = "simulated-nights"
    job["input"]["paths"] = [f"survey/{{date}}.{format_.value}"]
    job["privacy"] |= {"epsilon": 1.0, "delta": 1e-6, "noise": "gaussian"}
    job["ledger"] |= {"epsilon": 2.0, "delta": 1e-5}
    job["schedule"] = {
        "stream": {
            "nights": spec.nights,
            "participations": -(-spec.nights // gap),
            "gap": gap,
            "show": {"window": window},
            "first": spec.first.isoformat(),
        }
    }
    return job
