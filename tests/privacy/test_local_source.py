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
from hushrank.privacy.local_source import privatize_answer
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
