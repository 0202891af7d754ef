"""A black-box audit of a whole stream: people, exact counts and noise of six nights.

One person is replaced, or absent, on all nights at once. The nights are released as a run does it:
who counts, the files of people and counts, the encoded night, the noise. What the terms promise is
the exact curve of a Gaussian mechanism whose sensitivity is one standard deviation; planted bugs
must be seen to exceed it.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from hushrank.privacy.audit import audit_epsilon
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import RandomBits, seeded_bits, system_bits
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import Stream, encoded_night, stream_of
from hushrank.privacy.stream_encoder import Terms, Workload, square_root
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.streams.people_files import (
    People,
    finish_people,
    open_people,
    take_part,
    write_shard,
)
from hushrank.transforms.streams.released_files import forget_cells, keep_cells, recent_cells
from tests.statistics import FALSE_POSITIVE_RATE

TERMS = Terms(nights=6, participations=2, gap=3)
CELLS, DELTA, NAME = 2, 0.1, "s"
RHO = 0.5  # the sensitivity is then one standard deviation of the noise
FEW, MANY = 4_000, 40_000  # trials with the exact sampler, and with the fast one
Log = dict[int, dict[int, tuple[int, int]]]  # person, night: rows in each cell

OTHERS: Log = {1: {0: (1, 0), 3: (0, 1)}, 2: {1: (0, 1), 2: (1, 0), 5: (1, 0)}}
EVERY_NIGHT, OTHER_CELL = (dict.fromkeys(range(6), row) for row in ((1, 0), (0, 1)))
ACROSS_BLOCKS = {2: (1, 0), 3: (1, 0)}  # two neighbours that are in two blocks of three nights
NOBODY: dict[int, tuple[int, int]] = {}


def promised(mu: float = math.sqrt(2 * RHO), delta: float = DELTA) -> float:
    """Epsilon of a Gaussian whose sensitivity is `mu` standard deviations, exactly."""

    def excess(epsilon: float) -> float:
        both = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return norm.cdf(both[0]) - math.exp(epsilon) * norm.cdf(both[1]) - delta

    return float(brentq(excess, 0, 50))


def the_stream(adjacency: Adjacency, charged: Adjacency | None = None) -> Stream:
    params = PrivacyParams(
        unit=Unit.USER, adjacency=charged or adjacency, epsilon=math.inf, rho=RHO,
        noise=NoiseKind.GAUSSIAN,
    )  # fmt: skip
    return stream_of(params, Sensitivity(1, 1), TERMS, Workload(None))


def those_who_count(people: People, owners: np.ndarray, night: int, bug: str):
    words = (owners, np.zeros_like(owners))
    terms = TERMS
    if bug == "gap from the night":  # of the calendar's block, not from the last that counted
        terms = dataclasses.replace(TERMS, gap=night % TERMS.gap + 1)
    return take_part(people, words, night, terms)


def encoded(log: Log, stream: Stream, folder: Path, bug: str = "") -> np.ndarray:
    """All nights of `log` before noise, shape (nights, cells)."""
    place, nights, lineage = str(folder), [], [""]
    for night in range(TERMS.nights):
        there = sorted(person for person, rows in log.items() if night in rows)
        owners = np.array(there, np.uint64)
        people = open_people(place, NAME, night - 1, lineage[0]).partition(0, 0)
        if bug == "people forgotten" and night == 1:  # a crash, and they are made anew
            people = People.nobody()
        counts, after = those_who_count(people, owners, night, bug)
        shard = write_shard(place, night, "a", 0, 0, after)
        digest = finish_people(place, NAME, night, "a", [shard], lineage[0]).digest
        rows = [log[person][night] for person, yes in zip(there, counts, strict=True) if yes]
        counted = np.array(rows, np.int64).reshape(-1, CELLS).sum(axis=0)
        keep_cells(place, NAME, night, counted, digest)
        recent = recent_cells(place, NAME, night, lineage[: min(stream.encoder.bands - 1, night)])
        nights.append(encoded_night(stream.encoder, recent.counts))
        lineage = [digest, *lineage]
        forget_cells(place, night, stream.encoder.bands)
    return np.stack(nights)


def bound(
    stream: Stream, left: Log, right: Log, work: Path, bits: RandomBits, trials: int, bug: str = ""
) -> float:
    """Lower bound on the epsilon at which all nights together tell `left` from `right`."""
    exact = {side: encoded(log, stream, work / side, bug) for side, log in
             (("left", left), ("right", right))}  # fmt: skip

    def released(side: str, runs: int) -> np.ndarray:
        noise = add_noise(np.zeros((runs, *exact[side].shape), np.int64), stream.law, bits)
        if bug == "noise reused":
            noise[:, 1::2] = noise[:, ::2]
        return (exact[side] + noise).reshape(runs, -1)

    return audit_epsilon(
        released,
        "left",
        "right",
        trials=trials,
        confidence=1 - FALSE_POSITIVE_RATE,
        delta=DELTA,
        statistics={"differences": lambda y: y[:, CELLS:] - y[:, :-CELLS]},
    ).epsilon_lower


def with_(person: dict[int, tuple[int, int]]) -> Log:
    return {**OTHERS, 0: person}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adjacency", "other"), [(Adjacency.ADD_REMOVE, NOBODY), (Adjacency.REPLACE_ONE, OTHER_CELL)]
)
def test_a_whole_stream_keeps_its_promise(tmp_path, adjacency, other):
    sides = with_(EVERY_NIGHT), with_(other)
    found = bound(the_stream(adjacency), *sides, tmp_path, system_bits(), FEW)
    assert 0 < found <= promised()


BUGS = {
    "people forgotten": (with_(EVERY_NIGHT), with_(NOBODY)),
    "gap from the night": (with_(ACROSS_BLOCKS), with_(NOBODY)),
    "bands longer than the gap": (with_(EVERY_NIGHT), with_(NOBODY)),
    "noise reused": (with_(EVERY_NIGHT), with_(NOBODY)),
    "replace-one charged as add-remove": (with_(EVERY_NIGHT), with_(OTHER_CELL)),
}


@pytest.mark.parametrize(("bug", "sides"), BUGS.items(), ids=list(BUGS))
def test_planted_bugs_are_seen(tmp_path, bug, sides):
    stream = the_stream(Adjacency.ADD_REMOVE)
    if bug == "bands longer than the gap":
        stream = dataclasses.replace(stream, encoder=square_root(Workload(None), 6))
    if bug == "replace-one charged as add-remove":
        stream = the_stream(Adjacency.REPLACE_ONE, charged=Adjacency.ADD_REMOVE)
    assert bound(stream, *sides, tmp_path, seeded_bits(4), MANY, bug) > promised()


def test_the_fast_noise_of_the_planted_bugs_alone_shows_nothing(tmp_path):
    stream = the_stream(Adjacency.ADD_REMOVE)
    sides = with_(EVERY_NIGHT), with_(NOBODY)
    assert 0.8 < bound(stream, *sides, tmp_path, seeded_bits(4), MANY) <= promised()
