"""The function for where the answer is given: the pipeline's law, and no dependency.

False-positive rate of each statistical assertion: 1e-6.
"""

from __future__ import annotations

import ast
import math
import secrets
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from hushrank.privacy import local_source
from hushrank.privacy.local_source import privatize_answer, privatize_ranking
from hushrank.privacy.random_pairs import Hide, law_of_epsilon
from hushrank.privacy.randomized_response import flip_thresholds
from tests.statistics import FALSE_POSITIVE_RATE

M = 50_000


@given(st.floats(min_value=1e-308, max_value=1e308) | st.floats(1e-7, 60.0), st.integers(0, 1))
def test_flips_below_the_very_same_threshold(epsilon: float, answer: int) -> None:
    threshold = int(flip_thresholds(np.array([epsilon]))[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "randbits", lambda bits: threshold - 1 if bits == 64 else None)
        assert privatize_answer(answer, epsilon) == 1 - answer
        patch.setattr(secrets, "randbits", lambda bits: threshold if bits == 64 else None)
        assert privatize_answer(answer, epsilon) == answer


@pytest.mark.parametrize("answer", [0, 1])
def test_flip_rate_is_the_theorem_s(answer: int) -> None:
    flips = sum(privatize_answer(answer, 1.0) != answer for _ in range(M))
    assert binomtest(flips, M, 1 / (1 + math.e)).pvalue > FALSE_POSITIVE_RATE
    assert binomtest(flips, M, 1 / (1 + math.exp(1.2))).pvalue < FALSE_POSITIVE_RATE
    assert binomtest(flips, M, 1 / (1 + math.exp(0.8))).pvalue < FALSE_POSITIVE_RATE


def test_module_needs_only_the_standard_library() -> None:
    tree = ast.parse(Path(local_source.__file__).read_text())
    imported = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    assert imported == ["math", "secrets"]
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))


def test_the_documentation_shows_the_function_as_it_is(checkout: Path) -> None:
    function = Path(local_source.__file__).read_text().partition("import secrets")[2]
    assert function in (checkout / "docs/local_privacy.md").read_text()


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_bad_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        privatize_answer(1, epsilon)


def test_bad_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="answer"):
        privatize_answer(2, 1.0)


@given(st.floats(1e-9, 1e6), st.integers(1, 30), st.sampled_from(Hide))
def test_rankings_answer_below_the_very_same_threshold(
    epsilon: float, pairs: int, hide: Hide
) -> None:
    share = math.nextafter(epsilon / pairs, 0)
    own = local_source._threshold(share, 1 if hide is Hide.ORDER else 2)
    assert own == law_of_epsilon(epsilon, pairs, hide).threshold


@pytest.mark.parametrize("catalogue", [None, ["a", "b", "c", "d"]])
def test_answers_about_a_ranking_are_true_as_often_as_the_theorem_says(
    catalogue: list[str] | None,
) -> None:
    ranking, others = ["c", "a", "b"], 1 if catalogue is None else 2
    found = [each for _ in range(4000) for each in privatize_ranking(ranking, 3.0, 2, catalogue)]
    true = 0
    for left, right, outcome in found:
        ranked = left in ranking and right in ranking
        above = ranked and ranking.index(left) < ranking.index(right)
        true += outcome == (0 if not ranked else 1 if above else -1)
    kept = [math.exp(each / 2) / (math.exp(each / 2) + others) for each in (3.0, 2.4, 3.6)]
    right, low, high = (binomtest(true, len(found), chance).pvalue for chance in kept)
    assert right > FALSE_POSITIVE_RATE
    assert max(low, high) < FALSE_POSITIVE_RATE
    assert len({each[:2] for each in found}) == (3 if catalogue is None else 6)


def test_items_outside_the_catalogue_or_twice_are_refused() -> None:
    for ranking, catalogue in ((["a", "a"], None), (["a", "e"], ["a", "b"])):
        with pytest.raises(ValueError, match="items must be different, and of the catalogue"):
            privatize_ranking(ranking, 1.0, 1, catalogue)
