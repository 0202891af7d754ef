"""Groups in a stream, against all tiny streams of one person, through the code that bounds rows.

A person has up to two rows of one pair, in two groups, on each of three nights. `take_part` says
which nights count, `bound_bucket` which rows, `add_pairs` counts them by group and `encoded_night`
spreads them. The largest change over all adjacent streams is the stated sensitivity: not more, and
not less. An audit of whole streams sees bounds that hold in each group alone.
"""

from __future__ import annotations

import math
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from hushrank.privacy.audit import audit_epsilon
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.sensitivity import (
    Sensitivity,
    pair_counts_sensitivity,
    win_counts_sensitivity,
)
from hushrank.privacy.stream import Stream, encoded_night, stream_of, stream_sensitivity
from hushrank.privacy.stream_encoder import Encoder, RowTerms, Terms, Workload, square_root
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.common.catalogue import Groups
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.streams.people_files import People, take_part
from tests.privacy.test_group_sensitivity import GROUPS, N, counts_of, read_bounded_and_counted
from tests.statistics import FALSE_POSITIVE_RATE
from tests.transforms.streams.test_stream_audit import DELTA, RHO, promised

NIGHTS = 3
ROWS = [(0, 1, outcome, group) for outcome, group in product((1, -1), range(GROUPS))]
STATISTICS = {
    "wins": (win_counts_sensitivity, lambda wins: wins.sum(axis=-1)),
    "pairs": (pair_counts_sensitivity, lambda wins: wins),
}


def nights_of_a_person(most: int, *, per_group: bool = False) -> np.ndarray:
    """Wins of all rows that a person may have on a night, one of them more than count."""
    bundles = [
        rows for size in range(most + 1) for rows in combinations_with_replacement(ROWS, size)
    ]
    bundles.append((*ROWS, *ROWS))
    found = [counts_of(rows, max_contributions=most, per_group=per_group) for rows in bundles]
    return np.unique(np.array(found), axis=0)


def all_streams(nights: np.ndarray, terms: Terms) -> np.ndarray:
    """All streams of one person, of the nights that count: each is a person of its own here."""
    places = np.array(list(product(range(len(nights)), repeat=terms.nights)))
    streams, people = nights[places], People.nobody()
    for night in range(terms.nights):
        there = np.flatnonzero(streams[:, night].any(axis=(1, 2, 3))).astype(np.uint64)
        counts, people = take_part(people, (there, np.zeros_like(there)), night, terms)
        streams[there[~counts].astype(np.int64), night] = 0
    return np.unique(streams, axis=0)


def encoded_all(streams: np.ndarray, encoder: Encoder) -> np.ndarray:
    """C X of each stream, shape (m, nights, cells)."""
    nights = range(streams.shape[1])
    return np.stack(
        [
            encoded_night(
                encoder,
                [streams[:, night - lag] for lag in range(min(encoder.bands, night + 1))],
            ).reshape(len(streams), -1)
            for night in nights
        ],
        axis=1,
    )


def encoded(streams: np.ndarray, encoder: Encoder) -> np.ndarray:
    """The same as vectors, without cells that are always 0."""
    found = encoded_all(streams, encoder).reshape(len(streams), -1)
    return found[:, found.any(axis=0)].astype(np.float64)  # exact: far below 2^53


def farthest(vectors: np.ndarray, adjacency: Adjacency) -> Sensitivity:
    others = np.zeros((1, vectors.shape[1])) if adjacency is Adjacency.ADD_REMOVE else vectors
    l1, l2 = (cdist(vectors, others, each).max() for each in ("cityblock", "sqeuclidean"))
    return Sensitivity(int(l1), int(l2))


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("most", [1, 2])
def test_sensitivity_is_that_of_all_tiny_streams_of_groups(most, name):
    nights, (sensitivity, statistic) = nights_of_a_person(most), STATISTICS[name]
    for times, gap in product((1, 2), (1, 2, 3)):
        terms = Terms(nights=NIGHTS, participations=times, gap=gap)
        streams = statistic(all_streams(nights, terms))
        for workload in (Workload(2), Workload(None)):
            encoder = square_root(workload, workload.most_bands(terms))
            vectors = encoded(streams, encoder)
            for adjacency in Adjacency:
                params = PrivacyParams(
                    unit=Unit.USER, adjacency=Adjacency.ADD_REMOVE, epsilon=1.0,
                    max_contributions=most,
                )  # fmt: skip
                night = sensitivity(params, N, 1, GROUPS)
                stated = stream_sensitivity(night, adjacency, terms, encoder)
                assert stated == farthest(vectors, adjacency)


def test_enumeration_sees_bounds_that_hold_in_each_group_alone():
    terms, encoder = Terms(nights=NIGHTS, participations=2, gap=2), square_root(Workload(2), 2)
    streams = all_streams(nights_of_a_person(1, per_group=True), terms).sum(axis=-1)
    stated = stream_sensitivity(Sensitivity(1, 1), Adjacency.ADD_REMOVE, terms, encoder)
    found = farthest(encoded(streams, encoder), Adjacency.ADD_REMOVE)
    assert found == Sensitivity(GROUPS * stated.l1, GROUPS * stated.l2_squared)


SHARED = Groups(("p", "q"), others=True, most=1)
BOTH = Groups(("p", "q"), others=True, most=2)


def shared_nights(groups: Groups, most: int) -> np.ndarray:
    """Wins of all rows of a night on one pair, of each group and of the whole, as a run counts."""
    rows = [(0, 1, outcome, names) for outcome in (1, -1) for names in (["p", "q"], ["q"], [])]
    bundles = [
        each for size in range(most + 1) for each in combinations_with_replacement(rows, size)
    ]
    bundles.append((*rows, *rows))  # more than count
    found = [
        read_bounded_and_counted(
            [(*row, 0) for row in bundle], groups, Ties.DROP, event=False, max_contributions=most
        )["pairs"]
        for bundle in bundles
    ]
    return np.unique(np.array(found), axis=0)


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize(("groups", "most"), [(SHARED, 1), (BOTH, 1), (BOTH, 2)])
def test_groups_that_overlap_cost_all_nights_one_more_than_an_answer_has(groups, most, name):
    """Every stream of one person of up to three nights, and all pairs of them."""
    nights, (sensitivity, statistic) = shared_nights(groups, most), STATISTICS[name]
    for times, gap in ((1, 1), (2, 1), (2, 2)):
        terms = Terms(nights=NIGHTS, participations=times, gap=gap)
        streams = statistic(all_streams(nights, terms))
        encoder = square_root(Workload(None), Workload(None).most_bands(terms))
        vectors = np.unique(encoded(streams, encoder), axis=0)
        params = PrivacyParams(
            unit=Unit.USER, adjacency=Adjacency.ADD_REMOVE, epsilon=1.0, max_contributions=most
        )
        night = sensitivity(params, N, 1, len(groups)).in_groups(groups.most)
        for adjacency in Adjacency:
            stated = stream_sensitivity(night, adjacency, terms, encoder)
            assert stated == farthest(vectors, adjacency)  # enough, and not too much


@pytest.mark.parametrize("groups", [SHARED, BOTH])
def test_metered_rows_of_groups_that_overlap_cost_one_more_than_a_row_has(groups):
    """Every stream of two pairs on three nights that the terms allow, rows in any set of groups."""
    terms = RowTerms(nights=NIGHTS, rows=2, gap=2, burst=2)
    encoder, sets = square_root(Workload(None), 2), ([0, 1][: groups.most], [1], [])
    rows = [(pair, won, names) for pair in range(2) for won in range(2) for names in sets]
    streams = [np.zeros((NIGHTS, len(groups), 2, 2), np.int64)]
    placed = list(product(range(NIGHTS), rows))
    for count in (1, 2):
        for chosen in combinations_with_replacement(placed, count):
            pairs = [(night, pair) for night, (pair, _, _) in chosen]
            (first, one), (second, other) = pairs[0], pairs[-1]
            if count == 2 and one == other and second - first < terms.gap:
                continue
            counts = np.zeros_like(streams[0])
            for night, (pair, won, names) in chosen:
                counts[night, [*names, -1], pair, won] += 1
            streams.append(counts)
    vectors = np.unique(encoded(np.array(streams), encoder), axis=0)
    row = Sensitivity(1, 1).in_groups(groups.most)
    for adjacency in Adjacency:
        assert stream_sensitivity(row, adjacency, terms, encoder) == farthest(vectors, adjacency)


AUDITED = Terms(nights=4, participations=2, gap=2)
EVERY_NIGHT = [ROWS[:2]] * AUDITED.nights  # a win in either group
TURN_ABOUT = [[ROWS[night % GROUPS]] for night in range(AUDITED.nights)]  # of one group a night
NEVER: list[list[tuple[int, ...]]] = [[]] * AUDITED.nights
ANSWERS_BUG, NIGHTS_BUG = "answers bounded in each group", "nights kept in each group"


def the_stream() -> Stream:
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.ADD_REMOVE, epsilon=math.inf, rho=RHO,
        noise=NoiseKind.GAUSSIAN, max_contributions=1,
    )  # fmt: skip
    night = win_counts_sensitivity(params, N, 1, GROUPS)
    return stream_of(params, night, AUDITED, Workload(None))


def all_nights(log: list[list[tuple[int, ...]]], stream: Stream, bug: str) -> np.ndarray:
    """The encoded nights of one person."""
    found, people = [], People.nobody()
    for night, rows in enumerate(log):
        names = np.array([row[3] if bug == NIGHTS_BUG else 0 for row in rows], np.uint64)
        owners = np.unique(names)
        counts, people = take_part(people, (np.zeros_like(owners), owners), night, AUDITED)
        kept = [row for row, name in zip(rows, names, strict=True) if counts[owners == name].all()]
        wins = counts_of(kept, max_contributions=1, per_group=bug == ANSWERS_BUG)
        found.append(wins.sum(axis=-1)[np.newaxis])
    return encoded_all(np.stack(found, axis=1), stream.encoder)


@pytest.mark.parametrize("bug", ["", ANSWERS_BUG, NIGHTS_BUG])
@pytest.mark.parametrize("log", [EVERY_NIGHT, TURN_ABOUT], ids=["every night", "turn about"])
def test_an_audit_of_whole_streams_catches_what_holds_in_each_group_alone(log, bug):
    """Twice the answers, or the nights, of one person count then; of the fitting log alone."""
    stream, bits = the_stream(), seeded_bits(6)
    one, other = (all_nights(each, stream, bug).ravel() for each in (log, NEVER))

    def release(exact, runs):
        return add_noise(np.tile(exact, (runs, 1)), stream.law, bits)

    bound = audit_epsilon(
        release, one, other, trials=40_000, confidence=1 - FALSE_POSITIVE_RATE, delta=DELTA
    ).epsilon_lower
    counts_more = (bug, log) in ((ANSWERS_BUG, EVERY_NIGHT), (NIGHTS_BUG, TURN_ABOUT))
    assert (bound > promised()) if counts_more else (0.7 < bound <= promised())
