"""A stream of wins and losses that counts squares, from the command line; encoders that stay."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.privacy import best_encoder as encoders
from hushrank.privacy.stream_encoder import square_root
from tests.flows.conftest import Survey
from tests.flows.scenarios.test_stream import (
    DAYS,
    GAP,
    NIGHTS,
    NO_NOISE,
    STREAM,
    TIMES,
    drawn,
    expected,
    release_of,
    run,
    stream_folder,
    stream_of,
)

SQUARES = {
    **{key: value for key, value in STREAM.items() if key not in ("participations", "gap")},
    "participation": {"squares": 2 * TIMES, "gap": GAP, "burst": 2 * TIMES},
}  # for people of one row a night the rule of `expected`: a row takes 2 squares


@pytest.fixture
def stream(survey: Survey) -> Survey:
    return stream_of(survey)


def of_squares(stream: Survey) -> Survey:
    return stream.set(method="win-loss", input__design="random", schedule__stream=SQUARES)


def test_six_nights_show_wins_losses_and_answers_of_those_who_count(stream, command):
    of_squares(stream)
    code, printed = command(
        "backfill", stream.config, "--direct", "--from", DAYS[0], "--to", DAYS[-1]
    )
    assert code == 0, printed
    assert drawn(stream) == NIGHTS
    answers: list[float] = []
    for number, wins in enumerate(expected(pairs=True)):
        release = release_of(stream, number)
        told = release["released"]
        assert list(told["wins"].values()) == pytest.approx(wins.sum(axis=1), abs=0.2)
        assert list(told["losses"].values()) == pytest.approx(wins.sum(axis=0), abs=0.2)
        answers.append(release["stream"]["answers"][-1])
        assert sum(release["stream"]["answers"]) == pytest.approx(wins.sum(), abs=0.4)
        assert release["stream"]["participation"] == {**SQUARES["participation"], "refill": None}
        assert release["privacy"]["rho"] == NO_NOISE
        assert release["alarms"]["number"] == 6
    code, printed = command("history", stream.config, "--json")
    assert code == 0, printed


def test_a_state_that_was_edited_or_is_older_is_refused(stream, command):
    of_squares(stream)
    assert run(command, stream, 0)[0] == 0
    folder = stream_folder(stream)
    older = shutil.copytree(folder, stream.folder / "older")
    assert run(command, stream, 1)[0] == 0
    newer = shutil.copytree(folder, stream.folder / "newer")
    (shard,) = (folder / "people" / "00001").rglob("*.parquet")
    people = pq.read_table(shard)
    place = people.schema.get_field_index("times")
    forgotten = pa.array(np.zeros(len(people)), people.schema.field(place).type)
    pq.write_table(people.set_column(place, "times", forgotten), shard)
    code, printed = run(command, stream, 2)
    assert code == 2, printed
    assert "is not what this stream wrote" in printed
    for other in (older, newer):
        shutil.rmtree(folder)
        shutil.copytree(other, folder)
        code, printed = run(command, stream, 2)
        assert code == (0 if other is newer else 2), printed
    assert drawn(stream) == 3


@pytest.mark.parametrize("participation", [None, {"rows": 2, "pair_gap": 2, "burst": 2}])
def test_a_running_stream_keeps_its_encoder_if_another_version_finds_a_better_one(
    stream, command, monkeypatch, participation
):
    section = {**STREAM, "show": "cumulative"}
    if participation is not None:
        section = {**SQUARES, "show": "cumulative", "participation": participation}
        stream.set(method="noisy-pairs")
    stream.set(schedule__stream=section)
    assert run(command, stream, 0)[0] == 0
    before = release_of(stream, 0)["stream"]
    monkeypatch.setattr(
        encoders, "best_encoder", lambda workload, _, bands: square_root(workload, bands)
    )
    code, printed = run(command, stream, 1)
    assert code == 0, printed
    after = release_of(stream, 1)["stream"]
    for name in ("coefficients", "noise_variance"):
        assert after[name] == before[name]
    assert before["coefficients"][1] != 1 << 19  # the square root's
