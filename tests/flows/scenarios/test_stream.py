"""A stream of nights from the command line: one budget, nights in order, each drawn once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows.run.budget import ledger_of
from hushrank.flows.run.job import read_survey
from hushrank.privacy.stream_encoder import Encoder, Workload, decoding
from tests.flows.conftest import ITEMS, Survey

FIRST = date(2024, 11, 16)
NIGHTS, TIMES, GAP, WINDOW = 6, 2, 2, 3
DAYS = [FIRST + timedelta(days=number) for number in range(NIGHTS)]
EMPTY = 3  # the night without files
STREAM = {
    "nights": NIGHTS,
    "participations": TIMES,
    "gap": GAP,
    "show": {"window": WINDOW},
    "first": str(FIRST),
}
EAGER = 1_000  # answers every night, and prefers dogs to ants as nobody else does
ANTS, DOGS = 0, 3
NO_NOISE = 1e5  # rho: the noise in a shown count is about 0.02


def log_of(number: int) -> pa.Table:
    """Each of thirty people answers on about half of the nights: ants before bees before cats."""
    rng = np.random.default_rng(number)
    users = np.flatnonzero(rng.random(30) < 0.5)
    left = rng.integers(0, 2, len(users))
    rows = [(user, item, item + 1, 1) for user, item in zip(users, left, strict=True)]
    rows.append((EAGER, ANTS, DOGS, -1))
    columns = zip(*rows, strict=True)
    names = ("user", "item_i", "item_j", "outcome")
    return pa.table({name: np.array(each) for name, each in zip(names, columns, strict=True)})


def expected(pairs: bool = False) -> Iterator[np.ndarray]:
    """What each night shows: by hand, person by person."""
    last: dict[int, int] = {}
    times: dict[int, int] = {}
    nights = []
    for number in range(NIGHTS):
        wins = np.zeros((len(ITEMS), len(ITEMS)))
        for row in log_of(number).to_pylist() if number != EMPTY else ():
            user = row["user"]
            if user in last and (number - last[user] < GAP or times[user] == TIMES):
                continue
            last[user], times[user] = number, times.get(user, 0) + 1
            better, worse = row["item_i"], row["item_j"]
            if row["outcome"] < 0:
                better, worse = worse, better
            wins[better, worse] += 1
        nights.append(wins if pairs else wins.sum(axis=1))
        yield np.sum(nights[-WINDOW:], axis=0)


@pytest.fixture
def stream(survey: Survey) -> Survey:
    for number, day in enumerate(DAYS):
        if number != EMPTY:
            pq.write_table(log_of(number), survey.folder / f"log-{day}.parquet")
    return survey.set(
        input__paths=["log-{date}.parquet"],
        privacy={"unit": "user", "rho": NO_NOISE, "noise": "gaussian", "max_contributions": 6},
        ledger={"path": "ledger.jsonl", "epsilon": 1e6, "delta": 1e-6},
        schedule={"empty": "skip", "stream": STREAM},
    )


def events(survey: Survey) -> list[dict]:
    return [json.loads(line) for line in survey.ledger.read_text().splitlines()]


def drawn(survey: Survey) -> int:
    return sum(event["event"] == "draw" for event in events(survey))


def release_of(survey: Survey, number: int) -> dict:
    (folder,) = (survey.output / "releases").glob(f"{DAYS[number]}-*")
    return json.loads((folder / "release.json").read_text())


def spent(survey: Survey) -> float:
    return ledger_of(read_survey(survey.config).config).balance().spent_epsilon


def stream_folder(survey: Survey) -> Path:
    (folder,) = survey.work.glob("stream-*")
    return folder


def test_six_nights_cost_once_and_count_a_person_twice(stream, command):
    code, printed = command("run", stream.config, "--direct", "--date", DAYS[0])
    assert code == 0, printed
    cost = spent(stream)
    assert cost > 0
    code, printed = command(
        "backfill", stream.config, "--direct", "--from", DAYS[0], "--to", DAYS[-1]
    )
    assert code == 0, printed
    assert spent(stream) == cost
    assert drawn(stream) == NIGHTS
    reserved = [event for event in events(stream) if event["event"] == "reserve"]
    assert len(reserved) == 1 + NIGHTS
    assert [each["spend"]["rho"] for each in reserved] == [NO_NOISE, *[None] * NIGHTS]

    dogs, noisy = [], []
    for number, wanted in enumerate(expected()):
        release = release_of(stream, number)
        shown = np.array(list(release["released"]["wins"].values()))
        assert shown == pytest.approx(wanted, abs=0.2)
        told = release["stream"]
        assert (told["number"], told["nights"], told["first"]) == (number + 1, NIGHTS, str(FIRST))
        assert release["privacy"]["rho"] == NO_NOISE
        noisy.append(np.array(told["noisy"]))
        # What is shown follows from the noisy numbers that every night publishes.
        kernel = decoding(Workload(WINDOW), Encoder(tuple(told["coefficients"])), NIGHTS)
        again = sum(kernel[number - place] * y for place, y in enumerate(noisy))
        assert shown == pytest.approx(again, abs=1e-5)
        ranked = {line["item"]: line["score"] for line in release["ranking"]}
        assert set(ranked) == set(ITEMS)
        dogs.append(round(shown[DOGS]))
    assert dogs == [1, 1, 2, 1, 1, 0]  # of the eager person the nights 0 and 2 count
