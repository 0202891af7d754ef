"""The real application: files as they are around, the truth without privacy, paired tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hushrank.estimation.common.links import LOGISTIC
from hushrank.experiments.xsc.xsc_application import (
    paired_tests,
    ranking_without_privacy,
    read_answers,
    with_drawn_epsilon,
)

CARS = """User ID, Item1 ID, Item2 ID, Is Control
1, 3, 1, 0
1, 1, 2, 0
1, 2, 1, 1
2, 3, 2, 0
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "answers.csv"
    path.write_text(text)
    return path


def test_car_preferences_are_read_and_control_questions_left_out(tmp_path: Path) -> None:
    answers = read_answers(written(tmp_path, CARS))
    assert (answers.n_people, answers.n_items) == (2, 3)
    np.testing.assert_array_equal(answers.person, [0, 0, 1])
    np.testing.assert_array_equal(answers.cells, [2, 1, 5])  # (1, 3), (1, 2), (2, 3)
    np.testing.assert_array_equal(answers.outcomes, [0, 1, 0])
    scores = ranking_without_privacy(answers, LOGISTIC)
    np.testing.assert_array_equal(np.argsort(-scores), [2, 0, 1])


def test_our_own_column_names_are_read(tmp_path: Path) -> None:
    answers = read_answers(
        written(tmp_path, "user,winner,loser\nann,Paris,Milan\nbob,Rome,Paris\n")
    )
    assert (answers.n_people, answers.n_items) == (2, 3)
    np.testing.assert_array_equal(answers.outcomes, [0, 0])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("user,winner\n1,2\n", "column loser not found"),
        ("", "column user not found"),
        ("user,winner,loser\n1,2,2\n", "the same item"),
    ],
)
def test_files_that_cannot_be_used_say_why(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        read_answers(written(tmp_path, text))


def test_everybody_has_one_epsilon_within_one_of_the_level(tmp_path: Path) -> None:
    answers = read_answers(written(tmp_path, CARS))
    survey = with_drawn_epsilon(answers, np.random.default_rng(1))
    assert survey.epsilon[0] == survey.epsilon[1] == survey.people_epsilon[0]
    assert np.ptp(survey.people_epsilon) < 1
    assert (survey.people_epsilon > 0.2).all()
    assert (survey.people_epsilon < 3).all()


def test_paired_tests_see_what_unpaired_ones_cannot() -> None:
    spread = np.linspace(0, 1, 50)
    errors = {
        "ours": spread.tolist(),
        "worse": (spread + 0.01 + 0.001 * (-1) ** np.arange(50)).tolist(),
        "equal": (spread + 0.001 * (-1) ** np.arange(50)).tolist(),
    }
    worse, equal = paired_tests(errors, "ours")
    assert (worse.method, equal.method) == ("worse", "equal")
    assert worse.difference == pytest.approx(0.01)
    assert worse.t > 0
    assert worse.p_value < 1e-10
    assert equal.p_value > 0.5
