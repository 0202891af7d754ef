"""Audits of a stream: people, exact counts and noise of all of its nights together."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.base import Calibrated
from hushrank.flows.methods.registry import calibrate
from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.flows.trust.audit.central import items_of, rows_with
from hushrank.flows.trust.audit.people import NOBODY, Person, adjacent, comparers
from hushrank.flows.trust.audit.result import Part, Reduce, Untold, written
from hushrank.flows.trust.audit.small_job import FIRST_NIGHT, small_job
from hushrank.pipelines.reduce.reduction_job import NightOfStream, ReduceComparisons
from hushrank.pipelines.reduce.stream_nights import count_night
from hushrank.privacy.audit import Rows, Statistic
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.stream import Stream, encoded_night, released_night
from hushrank.transforms.streams.released_files import draw_night, recent_cells
from hushrank.transforms.streams.stream_folder import begin

NAME = "audit"
Recent = tuple[NDArray[np.int64], ...]  # counts of a night and those before it that it is made of
PEOPLE = ("wins on one pair", "losses on one pair", "wins on pairs of one item", NOBODY)


@dataclass(frozen=True)
class Nights(Untold):
    """All nights of a stream, drawn at once for many runs.

    Attributes:
        stream: the terms and the law.
        sides: for each side, the counts that each night is made of.
        block: see `Source`.
    """

    stream: Stream
    sides: tuple[tuple[Recent, ...], ...]
    block: int = 20

    def outputs(self, side: int, runs: int) -> Rows:
        """Return rows that each hold the released numbers of all nights."""
        nights, bits = [], system_bits()
        for recent in self.sides[side]:
            copies = [np.tile(counts.ravel(), (runs, 1)) for counts in recent]
            nights.append(released_night(self.stream, copies, bits))
        return np.concatenate(nights, axis=1).astype(np.float64)

    def statistics(self, left: int, right: int) -> dict[str, Statistic]:
        """Differences between nights, which show noise that they share."""
        cells = self.sides[left][0][0].size
        return {"differences of nights": partial(_changes, cells=cells)}

    def encoded(self, side: int) -> Rows:
        """Return all nights without noise, shape (d,)."""
        nights = [encoded_night(self.stream.encoder, recent) for recent in self.sides[side]]
        return np.concatenate([night.ravel() for night in nights]).astype(np.float64)


def _changes(rows: Rows, cells: int) -> Rows:
    return rows[:, cells:] - rows[:, :-cells]


def stream_parts(config: SurveyConfig, folder: Path, reduce: Reduce) -> list[Part]:
    """Return the promises to a person on all nights together.

    Args:
        config: the whole job.
        folder: folder for synthetic files and their counts.
        reduce: executes a reduction.
    """
    small = small_job(config, items_of(config), folder)
    calibrated = calibrate(small)
    mechanism = calibrated.mechanism
    if not isinstance(mechanism, CountMechanism) or mechanism.stream is None:
        raise ValueError("the job is no stream")
    people = [each for each in comparers(small, items_of(config)) if each.does in PEOPLE]
    found: list[tuple[Recent, ...]] = []
    for person in people:
        place = folder / f"stream-{len(found)}"
        place.mkdir()
        found.append(_counted(small, calibrated, mechanism.stream, person, place, reduce))
    source = Nights(mechanism.stream, tuple(found))
    attacked = calibrated.method.attacked(mechanism)
    return [
        Part(
            what=f"all {mechanism.stream.terms.nights} nights of a stream",
            source=source,
            sides=tuple(f"{each.does}, every night" for each in people),
            pairs=adjacent(small, people),
            epsilon=attacked.epsilon,
            delta=attacked.delta,
            law=mechanism.law.kind,
            centres=tuple(source.encoded(side) for side in range(len(people))),
        )
    ]


def _counted(
    small: SurveyConfig,
    calibrated: Calibrated,
    stream: Stream,
    person: Person,
    folder: Path,
    reduce: Reduce,
) -> tuple[Recent, ...]:
    """The counts of every night, with this person in the log of each."""
    mechanism, nights = calibrated.mechanism, []
    place, lineage = str(folder / "stream"), [""]
    stream_key = begin(place, NAME, system_bits())
    for night in range(stream.terms.nights):
        day = FIRST_NIGHT + timedelta(days=night)
        files = written(folder / f"rows-{day}.parquet", rows_with(small, calibrated, person))
        work = folder / f"work-{night}"
        work.mkdir()
        key = SecretKey.draw(system_bits())
        job = calibrated.method.reduction(small, mechanism, files, key, str(work))
        if not isinstance(job, ReduceComparisons):
            raise ValueError("a stream is one of comparisons")
        of_stream = NightOfStream(
            stream=NAME,
            folder=place,
            key=stream_key,
            terms=stream.terms,
            night=night,
            attempt=uuid.uuid4().hex,
            before=lineage[0],
        )
        count_night(replace(job, stream=of_stream), stream, reduce)
        before = lineage[: min(stream.encoder.bands - 1, night)]
        nights.append(tuple(recent_cells(place, NAME, night, before).counts))
        lineage.insert(0, draw_night(place, NAME, night, stream, system_bits()).people)
    return tuple(nights)
