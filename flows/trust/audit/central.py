"""Audits of mechanisms that add noise after counting: units `user` and `comparison`.

Each synthetic log goes through the reduction of a run (read, encode, meet, bound, count). Then the
method draws from the exact arrays as often as an audit wants, as a run would draw once.

Audits of a stream: people, exact counts and noise of all of its nights together.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration
from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.method import GraphKind
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.base import Arrays, Calibrated
from hushrank.flows.methods.registry import METHODS, calibrate
from hushrank.flows.run.confidential_folder import Exact, load_arrays
from hushrank.flows.statement.mechanism import CountMechanism, Mechanism
from hushrank.flows.statement.rankings import RankingCountMechanism
from hushrank.flows.trust.audit.fits import FitDraws, GroupedEffectDraws, draws_of
from hushrank.flows.trust.audit.people import (
    FIRST_NIGHT,
    GROUP,
    NOBODY,
    ROWS,
    Person,
    adjacent,
    comparers,
    comparisons_by_others,
    rankers,
    small_job,
    test_takers,
)
from hushrank.flows.trust.audit.result import (
    Beside,
    Columns,
    Draws,
    Looks,
    Part,
    Reduce,
    Untold,
    written,
)
from hushrank.pipelines.reduce.reduction_job import EXACT_FILE, NightOfStream, ReduceComparisons
from hushrank.pipelines.reduce.stream_nights import count_night
from hushrank.privacy.audit import Rows, Statistic
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.ranking_sensitivity import Part as RankingPart
from hushrank.privacy.stream import Stream, encoded_night, released_night
from hushrank.privacy.stream_encoder import SquareTerms
from hushrank.privacy.units import Adjacency, Query, Unit
from hushrank.transforms.responses.answer_sheets import Missing
from hushrank.transforms.streams.released_files import draw_night, recent_cells
from hushrank.transforms.streams.stream_folder import begin

LOOK = "the look at the rows"
BESIDE = "beside the ranking: "  # begins the name of a part on such counts
FEW_TIMES = 5
MOST_TIMES = 100_000
TIMES_RIDGE = 500  # losses of an item that always loses, as a multiple of the ridge


def central_parts(config: SurveyConfig, folder: Path, reduce: Reduce) -> list[Part]:
    """The release, the look before it and counts beside it, if there are any.

    Args:
        config: the whole job.
        folder: folder for synthetic files and their counts.
        reduce: executes a reduction.
    """
    small = small_job(config, items_of(config), folder)
    calibrated = calibrate(small)
    people = _people_of(small)
    pairs, sides = adjacent(small, people), tuple(person.does for person in people)
    counted = [_counted(small, calibrated, person, folder, reduce) for person in people]
    exact = tuple(arrays for arrays, _ in counted)
    parts = [replace(_of_release(small, calibrated, exact), sides=sides, pairs=pairs)]
    if isinstance(parts[0].source, (FitDraws, GroupedEffectDraws)):
        parts[0].source.check_release()
        parts[0] = replace(parts[0], apart=parts[0].source.apart(pairs))
    laws: dict[str, tuple[Query | None, Calibration]]
    laws = {f"{BESIDE}{query}": (query, each) for query, each in calibrated.counts.items()}
    if calibrated.look is not None:
        laws[LOOK] = None, calibrated.look
    for what, (query, law) in laws.items():
        numbers = tuple(told[what] for _, told in counted)
        source = Looks(law, numbers) if query is None else Beside(query, law, numbers)
        parts.append(
            Part(
                what=what,
                source=source,
                sides=sides,
                pairs=pairs,
                epsilon=law.spend.epsilon,
                law=law.law.kind,
                centres=tuple(each.astype(np.float64) for each in numbers),
            )
        )
    return parts


def _of_release(small: SurveyConfig, calibrated: Calibrated, exact: tuple[Arrays, ...]) -> Part:
    """The promise of the release; its sides are not named yet."""
    mechanism, centres = calibrated.mechanism, ()
    attacked = calibrated.method.attacked(mechanism)
    if attacked.still is not None:
        still = Draws(small, attacked.still, exact)
        centres = tuple(still.outputs(side, 1)[0] for side in range(len(exact)))
    return Part(
        what="the release",
        source=_source(small, mechanism, exact),
        sides=(),
        pairs=(),
        epsilon=attacked.epsilon,
        delta=attacked.delta,
        law=attacked.law,
        centres=centres,
    )


def _source(small: SurveyConfig, mechanism: Mechanism, exact: tuple[Arrays, ...]) -> Draws:
    """Return the source of the release, as one that knows its likelihood if that is possible."""
    if isinstance(mechanism, RankingCountMechanism) and RankingPart.ROUNDS in mechanism.weights:
        from hushrank.flows.trust.audit.people import RoundDraws

        return RoundDraws(small, mechanism, exact)
    return draws_of(small, mechanism, exact)


def items_of(config: SurveyConfig) -> int:
    """A catalogue as small as shows the most that the bounds allow."""
    most, privacy = len(config.items.catalogue.names), config.privacy
    bound = privacy.max_contributions or 1
    if isinstance(config.input, RankingsConfig):
        return min(most, 5)
    if not isinstance(config.input, InputConfig):
        spectral = config.spectral
        degree = 6 if spectral is None else spectral.degree or 6
        even = spectral is not None and spectral.graph is GraphKind.EVEN
        return min(most, max(min(bound, 6) + 1, degree + 2 if even else 0))
    wanted = 3
    if privacy.distinct_pairs or privacy.per_item_cap is not None:
        wanted = max(4, min(bound, 6) + 1)
    if privacy.per_item_cap is not None:  # as many pairs without a common item as fill the bound
        wanted = max(wanted, min(2 * -(-bound // privacy.per_item_cap), 12))
    if METHODS[config.method].facts.uses("model.exposures"):  # a fit of scores needs a few
        wanted = max(wanted, 4)
    return min(most, max(wanted, (config.top_k or 0) + 1))


def _people_of(small: SurveyConfig) -> list[Person]:
    n_items = len(small.items.catalogue.names)
    if isinstance(small.input, RankingsConfig):
        return rankers(small, n_items)
    if isinstance(small.input, InputConfig):
        return comparers(small, n_items)
    return test_takers(small, n_items)


def _counted(
    small: SurveyConfig, calibrated: Calibrated, person: Person, folder: Path, reduce: Reduce
) -> tuple[Arrays, dict[str, NDArray[np.int64]]]:
    """Exact arrays of a log that holds this person and others, and what is counted beside them."""
    files = written(folder / ROWS, rows_with(small, calibrated, person))
    key, work = SecretKey.draw(system_bits()), folder / f"counted-{len(list(folder.iterdir()))}"
    work.mkdir()
    reduce(calibrated.method.reduction(small, calibrated.mechanism, files, key, str(work)))
    numbers = Exact(work).counts(calibrated.counts) if calibrated.counts else {}
    told = {f"{BESIDE}{query}": each for query, each in numbers.items()}
    if calibrated.look is not None:
        unlisted = calibrated.params.look_unlisted
        told[LOOK] = Exact(work).votes(small.privacy.unit, unlisted=unlisted)
    return load_arrays(work / EXACT_FILE), told


def rows_with(small: SurveyConfig, calibrated: Calibrated, person: Person) -> Columns:
    """Return all rows of a log in which this person has the names 0, -1 and so on, all alike."""
    others = _others(small, calibrated)
    if person.does == NOBODY:
        return others
    names, n_rows = small.privacy.names_per_person, len(next(iter(person.rows.values())))
    own = {name: np.concatenate([rows] * names) for name, rows in person.rows.items()}
    own["user"] = -np.repeat(np.arange(names), n_rows)  # everybody else is 1 or more
    joined: Callable[[str], Any] = lambda name: np.concatenate([others[name], own[name]])  # noqa: E731
    if "ranking" in own:
        rankings = [*others["ranking"], *own["ranking"].tolist()]
        return {name: rankings if name == "ranking" else joined(name) for name in others}
    return {name: joined(name) for name in others}


def _others(small: SurveyConfig, calibrated: Calibrated) -> dict[str, Any]:
    n_items = len(small.items.catalogue.names)
    if isinstance(small.input, InputConfig):
        return comparisons_by_others(small, _times(small, calibrated))
    if isinstance(small.input, RankingsConfig):
        rows = {"user": np.array([1, 2]), "ranking": [[0, 1], [1, 0]]}
        return rows if small.groups is None else {**rows, GROUP: [small.groups.values[0]] * 2}
    missing = small.responses.missing or Missing.UNSEEN
    items = np.arange(min(2, n_items) if missing is Missing.UNSEEN else n_items)
    rows = {"user": np.ones(len(items), np.int64), "item": items, "correct": 1 - items % 2}
    if small.groups is not None:
        rows[GROUP] = np.full(len(items), small.groups.values[0])
    return rows


def _times(small: SurveyConfig, calibrated: Calibrated) -> int:
    """Return how often an item loses: often where a fit hears of it and a row may come or go."""
    ridge = calibrated.method.attacked(calibrated.mechanism).ridge
    flips = small.privacy.public_graph or (
        small.privacy.unit is Unit.COMPARISON
        and small.privacy.adjacency is Adjacency.REPLACE_ONE
        and len(small.items.catalogue.names) < 4
    )
    if ridge is None or flips:
        return FEW_TIMES
    return int(np.clip(TIMES_RIDGE * ridge, 1_000, MOST_TIMES))


NAME = "audit"
Recent = tuple[NDArray[np.int64], ...]  # counts of a night and those before it that it is made of
PEOPLE = ("wins on one pair", "losses on one pair", "wins on pairs of one item", NOBODY)
OF_SQUARES = "losses on pairs of one item"  # where a night of many rows moves the most


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
    squares = isinstance(mechanism.stream.terms, SquareTerms)
    wanted = (*PEOPLE, OF_SQUARES) if squares else PEOPLE
    people = [each for each in comparers(small, items_of(config)) if each.does in wanted]
    found: list[tuple[Recent, ...]] = []
    for person in people:
        place = folder / f"stream-{len(found)}"
        place.mkdir()
        found.append(_counted_nights(small, calibrated, mechanism.stream, person, place, reduce))
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


def _counted_nights(
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
