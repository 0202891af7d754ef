"""The steps of one night of a stream, around the moment at which it is released.

    count_night, or count_empty_night    people and exact counts are kept; may be repeated
    transforms.streams.released_files.draw_night        the release: once
    forget_night                         what no later night needs is deleted; may be repeated

A run that dies anywhere starts again at the first step, and the steps that are done change nothing:
what the night before has left is deleted in the last step only.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np

from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS
from hushrank.pipelines.reduce.night_people import shards_of_arrays
from hushrank.pipelines.reduce.reduction_job import (
    BITS_FILE,
    EXACT_FILE,
    TALLY_FILE,
    NightOfStream,
    ReduceComparisons,
    Statistic,
)
from hushrank.privacy.stream import Stream
from hushrank.transforms.storage.write import read_whole, write_whole
from hushrank.transforms.streams.cell_files import forget_cells, keep_cells
from hushrank.transforms.streams.people_files import carry_people, finish_people, forget_people
from hushrank.transforms.streams.released_files import Drawn, drawn_night
from hushrank.transforms.streams.shown_files import forget_shown
from hushrank.transforms.streams.stream_folder import (
    COUNTING,
    delete_counting,
    delete_nights,
    end,
)


def count_night(
    job: ReduceComparisons, stream: Stream, reduce: Callable[[ReduceComparisons], None]
) -> None:
    """Reduce a night of a stream and keep its exact counts; nothing where it was drawn already.

    Args:
        job: the night.
        stream: the terms and the law.
        reduce: executes a job, as `pipelines.reduce.reduce.run` does.

    Raises:
        InputError: as `reduce`; or the night before is not there.
        ValueError: the job is no night of a stream, or counts pairs of too many items.
    """
    night = job.stream
    if night is None:
        raise ValueError("the job is no night of a stream")
    if job.statistic is Statistic.PAIR_COUNTS and len(job.catalogue) > MOST_DENSE_ITEMS:
        raise ValueError(
            f"a stream counts every pair: it takes at most {MOST_DENSE_ITEMS} items, got"
            f" {len(job.catalogue)}; count wins instead"
        )
    if _is_drawn(night, stream):
        return
    delete_counting(night.folder, night.night)
    reduce(job)
    keep_counted(job)


def keep_counted(job: ReduceComparisons) -> str:
    """Keep what an attempt at a night was reduced to: its people first, then its counts.

    Both are in one file, so they are of the same rows. The counts name the people, so nothing is
    drawn from those of another attempt.

    Returns:
        Digest of the people of the night.

    Raises:
        InputError: some people are missing.
        ValueError: the job is no night of a stream.
    """
    night = job.stream
    if night is None:
        raise ValueError("the job is no night of a stream")
    with np.load(io.BytesIO(read_whole(f"{job.results}/{EXACT_FILE}"))) as arrays:
        counts, shards = arrays["counts"], shards_of_arrays(arrays)
    place = (night.folder, night.stream, night.night)
    people = finish_people(*place, night.attempt, shards, night.before)
    for name in (TALLY_FILE, BITS_FILE):  # for the operator, and for the draw
        write_whole(f"{job.confidential}/{name}", read_whole(f"{job.results}/{name}"))
    keep_cells(*place, counts, people.digest)
    return people.digest


def count_empty_night(night: NightOfStream, shape: tuple[int, ...], stream: Stream) -> None:
    """The same for a night without a row: it is a night like any other, of zeros.

    Args:
        night: which one.
        shape: of the counts of any night.
        stream: the terms and the law.

    Raises:
        InputError: the night before is not there.
    """
    if _is_drawn(night, stream):
        return
    delete_counting(night.folder, night.night)
    place = (night.folder, night.stream, night.night)
    people = carry_people(*place, night.attempt, night.before)
    keep_cells(*place, np.zeros(shape, np.int64), people.digest)


def forget_night(folder: str, name: str, night: int, stream: Stream, drawn: Drawn) -> None:
    """Delete what no night after this one needs; after the last night everything exact.

    Args:
        folder: of the stream.
        name: of the stream and all of its terms.
        night: from 0.
        stream: the terms and the law.
        drawn: what was drawn for the night.

    Raises:
        InputError: the people of the night are missing, or others.
    """
    if night == stream.terms.nights - 1:
        end(folder)
        return
    delete_nights(folder, COUNTING, night)
    forget_people(folder, name, night, drawn.people)
    forget_cells(folder, night, stream.encoder.bands)
    forget_shown(folder, night, stream.encoder.bands)


def _is_drawn(night: NightOfStream, stream: Stream) -> bool:
    return drawn_night(night.folder, night.stream, night.night, stream) is not None
