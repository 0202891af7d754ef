"""A budget for a stream against a budget a night: the noise drawn is the noise stated."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from hushrank.experiments.stream import stream as experiment
from hushrank.experiments.stream.stream import run
from hushrank.pipelines.simulate.simulate_nights import Habit, simulate_answers
from hushrank.privacy.stream_encoder import Terms


def table(path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_tables_and_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "LENGTHS", (60,))
    monkeypatch.setattr(experiment, "PEOPLE", 3_000)
    run(["weekly"], 4, False, tmp_path / "new")
    rows = table(tmp_path / "new" / "results.csv")
    assert len(rows) == 3 * (1 + 3 * 2)  # composition; caps and encoder at three gaps
    for row in rows:
        assert float(row["measured"]) == pytest.approx(float(row["noise"]), rel=0.12)
        assert float(row["se"]) < float(row["error"])
    for shown in ("last 28 nights", "all so far"):
        of = {
            (row["way"], row["gap"]): row
            for row in rows
            if row["shown"] == shown and row["gap"] in ("1", "28")
        }
        order = (("encoder", "28"), ("caps", "28"), ("composition", "1"))
        noise = [float(of[key]["noise"]) for key in order]
        assert noise == sorted(noise)
        assert float(of["composition", "1"]["counted"]) == 1
        assert float(of["encoder", "28"]["counted"]) == float(of["caps", "28"]["counted"]) < 0.5
    best = table(tmp_path / "new" / "best.csv")
    assert len(best) == 9
    for row in best:
        mine = [each for each in rows if (each["shown"], each["way"]) == (row["shown"], row["way"])]
        assert float(row["error"]) == min(float(each["error"]) for each in mine)
    for name in ("noise", "error", "nights"):
        for ending in ("png", "svg"):
            assert (tmp_path / "new" / f"{name}.{ending}").stat().st_size > 5_000


def test_what_cannot_be_run_is_refused(tmp_path):
    for arguments, message in (
        ((["daily"], 1, True, tmp_path), "unknown pattern 'daily'; known: every-night, weekly"),
        ((None, 0, True, tmp_path), "replicates must be >= 1"),
        ((None, 1, True, tmp_path, [tmp_path]), "no real answers"),
    ):
        with pytest.raises(ValueError, match=message):
            run(*arguments)


def test_simulated_people_answer_as_their_habits_say():
    habits = (Habit(3.0, 1.0), Habit(1.0, 0.2))
    terms = Terms(nights=40, participations=3, gap=7)
    found = simulate_answers(habits, terms, 4_000, 1)
    assert np.ptp(found.there[:, 0]) == 0  # who answers every night
    assert found.there[0, 0] == pytest.approx(3_000, rel=0.05)
    assert found.there[:, 1].mean() == pytest.approx(200, rel=0.05)
    assert np.flatnonzero(found.counted[:, 0]).tolist() == [0, 7, 14]
    assert found.counted.sum(axis=0)[1] < 3 * 1_100
    assert found.share_counted == found.counted.sum() / found.there.sum()


def test_habits_are_checked():
    for share, chance in ((0.0, 0.5), (1.0, 0.0), (1.0, 1.1), (float("nan"), 0.5)):
        with pytest.raises(ValueError, match="must be"):
            Habit(share, chance)
    terms = Terms(nights=4, participations=3, gap=1)
    for habits, people in (((), 5), ((Habit(1, 1),), 0)):
        with pytest.raises(ValueError, match="need people"):
            simulate_answers(habits, terms, people, 1)
