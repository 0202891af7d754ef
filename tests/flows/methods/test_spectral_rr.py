"""Randomised test answers from the command line: the estimate, the guarantee, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.flows.conftest import Survey
from tests.flows.methods.test_spectral import DIFFICULTIES, NAMES, sheets


@pytest.fixture
def exam(tmp_path: Path) -> Survey:
    pq.write_table(sheets(20_000), tmp_path / "answers.parquet", row_group_size=5_000)
    settings = {
        "name": "exam",
        "input": {"kind": "responses", "paths": ["answers.parquet"]},
        "items": {"names": NAMES},
        "privacy": {"unit": "local", "epsilon": 6.0, "budget": "per_user", "max_contributions": 4},
        "method": "spectral-rr",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 7, "delta": 1e-6},
    }
    return Survey(tmp_path, settings).set()


def release_of(exam: Survey) -> dict:
    return json.loads((exam.output / "release.json").read_text())


def test_debiased_difficulties_are_near_the_truth_and_intervals_say_how_near(exam, command):
    code, printed = command("run", exam.config, "--direct")
    assert code == 0, printed
    release = release_of(exam)
    assert [line["item"] for line in release["ranking"]] == NAMES[::-1]
    truth = dict(zip(NAMES, DIFFICULTIES, strict=True))
    for line in release["ranking"]:
        half = (line["high"] - line["low"]) / 2
        # Of 16 parts: a t variable of 15 degrees of freedom is beyond 5 x 2.13 once in 5e7.
        assert abs(line["score"] - truth[line["item"]]) < 5 * half
        assert half < 1 / 3


def test_the_plain_baseline_shrinks_towards_zero_and_says_so(exam, command):
    code, printed = command("run", exam.set(spectral={"debiased": False}).config, "--direct")
    assert code == 0, printed
    release = release_of(exam)
    scores = np.array([line["score"] for line in release["ranking"]])
    assert np.abs(scores).max() < 0.8 * np.abs(DIFFICULTIES).max()
    assert any("is the paper's baseline" in warning for warning in release["warnings"])


def test_the_guarantee_is_of_all_answers_of_a_person(exam, command):
    _, printed = command("run", exam.set(privacy__epsilon=2.0).config, "--direct")
    assert "exam has epsilon 5.00 left of 7.00" in printed
    privacy = release_of(exam)["privacy"]
    assert (privacy["unit"], privacy["epsilon"], privacy["delta"]) == ("local", 2.0, 0)
    assert privacy["mechanism"] == "randomised-response"
    assert privacy["parameters"]["epsilon_of_a_person"] == 2.0
    assert 0 < privacy["parameters"]["epsilon_of_a_person_after_shuffling"] < 1
    assert privacy["parameters"]["people"] == 20_000
    assert "Which items a person answered" in privacy["not_protected"][0]
    report = (exam.output / "report.html").read_text()
    assert '<h2 id="item-map">Item map</h2>' in report


def test_shuffling_is_not_credited_where_people_answered_different_items(exam, command):
    command("run", exam.set(privacy__max_contributions=3).config, "--direct")
    parameters = release_of(exam)["privacy"]["parameters"]
    assert not any("shuffling" in name for name in parameters)
    assert release_of(exam)["released"]["people"] == [0, 0, 0, 20_000]


def test_answers_are_flipped_in_the_sums(exam, command):
    """Everybody is right on the first item and wrong on the others; flips must show elsewhere."""
    table = sheets(2000)
    right = np.asarray(table["item"].to_pylist()) == NAMES[0]
    pq.write_table(table.set_column(2, "correct", [right]), exam.folder / "answers.parquet")
    command("run", exam.set(spectral={"debiased": False}).config, "--direct")
    y = np.array(release_of(exam)["released"]["sums"]) / 2**30
    assert 0 < y[1, 2] < 2000  # nobody was right on item 1; a flip has probability 0.18
    assert y[0, 1] < 2000


REFUSED = [
    (
        {"privacy__unit": "user", "privacy__budget": None},
        "privacy.unit: local goes with method: spectral-rr",
    ),
    (
        {"method": "spectral"},
        "unit: user with auto, spectral, totals, which add noise after counting",
    ),
    ({"privacy__budget": None}, "privacy.budget: must be per_user with method: spectral-rr"),
    ({"privacy__max_contributions": None}, "privacy.max_contributions: must be at least 2"),
    ({"privacy__epsilon": 1e-18}, "privacy.epsilon: must be from 1e-09"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_does_not_go_together_is_explained(exam, command, changes, message):
    code, printed = command("run", exam.set(**changes).config, "--direct")
    assert code == 2, printed
    assert message in printed
    assert not exam.output.exists()
