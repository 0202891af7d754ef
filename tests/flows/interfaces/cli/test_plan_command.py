"""`hushrank plan` from the command line."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hushrank.estimation.common.links import link_named
from hushrank.estimation.fit.pair_fit import AnswerVariance, fit_scores
from hushrank.estimation.fit.weighted_pairs import WeightedPairs, weighted_sums
from hushrank.privacy.randomized_response import randomize
from hushrank.privacy.randomness import seeded_bits


def people_of(printed: str) -> list[int]:
    return [int(text.replace(",", "")) for text in re.findall(r"  ([\d,]+)$", printed, re.M)]


def test_more_privacy_takes_more_people(command):
    code, printed = command("plan", "--items", 10, "--answers", 15)
    assert code == 0, printed
    people = people_of(printed)
    assert len(people) == 4
    assert people == sorted(people, reverse=True)
    assert "No answer was read; nothing was spent." in printed


def test_a_mix_lies_between_and_people_give_an_error(command):
    alone = [
        people_of(command("plan", "--items", 10, "--answers", 15, "--epsilon", level)[1])[0]
        for level in ("0.5", "2")
    ]
    arguments = ("--epsilon", "0.5:2", "--epsilon", "2:1")
    mixed = people_of(command("plan", "--items", 10, "--answers", 15, *arguments)[1])[0]
    assert alone[0] > mixed > alone[1]
    code, printed = command(
        "plan", "--items", 10, "--answers", 15, "--epsilon", "2", "--people", 4 * alone[1]
    )
    assert code == 0
    assert re.search(r"\b0\.05\b", printed)  # four times the people halve the error of 0.1


def test_an_epsilon_of_a_person_is_divided(command):
    per_answer = people_of(command("plan", "--items", 10, "--answers", 5, "--epsilon", "1")[1])
    arguments = ("--answers", 5, "--epsilon", "5", "--per-user")
    assert people_of(command("plan", "--items", 10, *arguments)[1]) == per_answer


def test_so_many_people_reach_the_target(command):
    """Mean largest error of 40 simulated surveys of the planned size: within 10 % of the target."""
    n_items, target, epsilon = 6, 0.1, 1.0
    pairs = [(i, j) for i in range(n_items) for j in range(i + 1, n_items)]
    printed = command("plan", "--items", 6, "--answers", 15, "--epsilon", epsilon)[1]
    (people,) = people_of(printed)
    rng, bits, errors = np.random.default_rng(5), seeded_bits(5), []
    cells = np.repeat([i * n_items + j for i, j in pairs], people)
    for _ in range(40):
        noisy = randomize(rng.integers(0, 2, len(cells), dtype=np.uint8), epsilon, bits)
        sums = weighted_sums(cells, noisy, epsilon, n_items)
        fit = fit_scores(WeightedPairs(*sums), link_named("logistic"), AnswerVariance())
        errors.append(np.abs(fit.scores).max())
    assert np.mean(errors) == pytest.approx(target, rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--items", 3, "--answers", 4), "--answers must be between 1 and the pairs of the items"),
        (("--items", 3, "--answers", 3, "--epsilon", "x"), "--epsilon must be a number > 0"),
        (("--items", 3, "--answers", 3, "--epsilon", "1:-1"), "--epsilon must be a number > 0"),
        (("--items", 3, "--answers", 3, "--link", "cubic"), "link must be one of"),
        (
            ("--items", 3, "--answers", 3, "--target-error", 0),
            "target_error must be finite and > 0",
        ),
    ],
)
def test_mistakes_are_named(command, arguments, message):
    code, printed = command("plan", *arguments)
    assert code == 2
    assert message in printed
