"""Nights of a simulated survey: who is there each night, the files, and the job of a stream."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow.parquet as pq
import pytest

from hushrank.flows.methods.registry import load_config
from hushrank.pipelines.simulate.simulate_nights import Habit, NightsSpec, simulate_nights
from hushrank.pipelines.simulate.simulated_rows import SimulationSpec
from tests.statistics import FALSE_POSITIVE_RATE, binomial_p_value

FIRST = date(2026, 1, 30)
PEOPLE, NIGHTS = 2_000, 12
HABITS = (Habit(0.25, 0.8), Habit(0.75, 0.05))


def a_spec(**changes) -> NightsSpec:
    survey = SimulationSpec(items=8, people=PEOPLE, comparisons=3, seed=5)
    return NightsSpec(
        **{"survey": survey, "habits": HABITS, "nights": NIGHTS, "first": FIRST} | changes
    )


def people_of(written) -> list[np.ndarray]:
    return [np.unique(pq.read_table(path)["user"].to_numpy()) for path in written.log]


def test_people_answer_by_their_habits(tmp_path):
    """Each night a person is there with the chance of the habit; 20 % more or less is seen."""
    written = simulate_nights(a_spec(), tmp_path / "out")
    there = people_of(written)
    answers, expected = sum(map(len, there)), 0.25 * 0.8 + 0.75 * 0.05
    trials = PEOPLE * NIGHTS
    times = np.bincount(np.concatenate(there), minlength=PEOPLE)
    often = (times > 5).sum()
    assert binomial_p_value(int(often), PEOPLE, 0.25) > FALSE_POSITIVE_RATE
    assert abs(answers / trials - expected) < 0.02
    seldom = times[times <= 5].sum()
    assert binomial_p_value(int(seldom), (PEOPLE - often) * NIGHTS, 0.05) > FALSE_POSITIVE_RATE
    assert binomial_p_value(int(seldom), (PEOPLE - often) * NIGHTS, 0.06) < FALSE_POSITIVE_RATE
    for path in written.log:
        assert pq.read_table(path).group_by("user").aggregate([([], "count_all")])[
            "count_all"
        ].to_pylist() == [3] * len(np.unique(pq.read_table(path)["user"].to_numpy()))


def test_files_are_named_by_their_night_and_the_same_seed_writes_the_same(tmp_path):
    one, same = (simulate_nights(a_spec(), tmp_path / name) for name in ("one", "same"))
    assert [path.stem for path in one.log[:3]] == ["2026-01-30", "2026-01-31", "2026-02-01"]
    for path, other in zip(one.log, same.log, strict=True):
        assert pq.read_table(path).equals(pq.read_table(other))
    first, second = (pq.read_table(path) for path in one.log[:2])
    assert not first.equals(second)


def test_a_night_without_anybody_has_a_file_without_rows(tmp_path):
    survey = SimulationSpec(items=3, people=2, comparisons=1)
    spec = a_spec(survey=survey, habits=(Habit(1, 0.1),))
    written = simulate_nights(spec, tmp_path / "out")
    rows = [pq.read_table(path).num_rows for path in written.log]
    assert 0 in rows
    assert max(rows) <= 2


@pytest.mark.parametrize("nights", [1, 20, 60])
def test_the_job_is_a_stream_of_all_nights(tmp_path, nights):
    written = simulate_nights(a_spec(nights=nights), tmp_path / "out")
    stream = load_config(written.survey).schedule.stream
    assert (stream.nights, stream.first) == (nights, FIRST)
    assert stream.show.window == min(28, nights)
    assert stream.gap * stream.participations >= nights
    assert f"{stream.last}" == written.log[-1].stem


def test_nights_need_habits_and_have_no_further_columns():
    with pytest.raises(ValueError, match="need a habit"):
        a_spec(habits=())
    with pytest.raises(ValueError, match="no column event"):
        a_spec(survey=SimulationSpec(items=3, people=2, comparisons=1, events=True))
