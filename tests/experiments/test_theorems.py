"""docs/reproduction.md, Every theorem: each has a row, code and a test, and some are checked here.

Theorems about a mechanism or a method of hushrank are tested where these are.
"""

from __future__ import annotations

import math
import re
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from hushrank.estimation.common.estimate import footrule_distance, kendall_distance
from hushrank.privacy.mallows import (
    concordance_probability,
    expected_concordance,
    insertion_weights,
)

CLAIMS = {  # numbered statements of the papers that are not steps of their proofs
    "CCW": "P2.1 P2.2 P2.3 P2.4 P3.1 T2.1 T2.2 T2.3 T2.4 T3.1 T3.2 T3.3 T3.4 C2.1 C2.2 A2 A3",
    "XSC": "L1 L2 L3 L4 T1 T2 T3 T4 T5",
    "NZ": "T3.1 T3.2 T3.3 T3.4 L4.1",
    "RDP": "L1 L2 L3 L4 L5 L6 L7 T1 T2 T3 C1",
}
KINDS = "Proposition|Theorem|Corollary|Algorithm|Lemma"


@pytest.fixture(scope="module")
def rows(checkout: Path) -> list[list[str]]:
    """Cells of the table."""
    text = (checkout / "docs" / "reproduction.md").read_text()
    table = text.split("\n### Every theorem, and where it is\n")[1].split("\n## ")[0]
    lines = re.findall(r"^\| (?!theorem)(\w.*) \|$", table, re.MULTILINE)
    return [line.split(" | ") for line in lines]


def test_every_claim_of_the_papers_has_a_row(rows: list[list[str]]) -> None:
    found: dict[str, set[str]] = {paper: set() for paper in CLAIMS}
    for name, *_ in rows:
        paper, rest = name.split(" ", 1)
        for kind, numbers in re.findall(rf"({KINDS})(?:ies|s)? ((?:\d[\d.]*(?:, )?)+)", rest):
            found[paper] |= {kind[0] + each for each in re.findall(r"[\d.]*\d", numbers)}
    assert found == {paper: set(claims.split()) for paper, claims in CLAIMS.items()}


def test_every_row_names_code_and_tests_that_are_there(
    checkout: Path, rows: list[list[str]]
) -> None:
    for name, _, here, checked in rows:
        paths = re.findall(r"`([\w/]+\.py)`", here + checked)
        assert all((checkout / path).is_file() for path in paths), name
        tested = any(path.startswith("tests/") for path in paths)
        assert tested or here == "no code", name
        errata = set(re.findall(r"\b[ECNRX]\d+\b", here))
        page = (checkout / "docs" / "reproduction.md").read_text()
        assert all(f"**{each}**" in page or f"### {each}:" in page for each in errata), name


@pytest.mark.parametrize("epsilon", [0.1, 2.0, 20.0])
def test_rdp_theorem_1_3_where_an_item_is_inserted(epsilon: float) -> None:
    """Its mean and variance, of the table by which hushrank draws: t - 1 - D of w_D."""
    m = 8
    q = math.exp(epsilon / (m - 1))
    weights = insertion_weights(np.array([epsilon]), m)[:, 0].astype(float)
    for t in range(2, m + 1):
        chance = weights[:t] / weights[:t].sum()
        place = t - 1.0 - np.arange(t)
        mean = (t - 1) * q**t / (q**t - 1) - (q**t - q) / ((q - 1) * (q**t - 1))
        square = (t - 1) ** 2 * q**t / (q**t - 1) - 2 * mean / (q - 1)
        square += (q**t - q) / ((q**t - 1) * (q - 1))
        assert chance @ place == pytest.approx(mean, rel=1e-8)
        assert chance @ place**2 == pytest.approx(square, rel=1e-8)


@pytest.mark.parametrize("m", [2, 3, 10, 40])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
def test_rdp_theorem_1_2_holds_for_one_true_ranking(m: int, epsilon: float) -> None:
    kept = 2 * concordance_probability(np.arange(1, m), epsilon, m) - 1
    assert kept.min() >= math.tanh(epsilon / (m - 1) / 2) * (1 - 1e-9)
    assert kept.max() <= math.tanh((2 * m - 3) / (m - 1) * epsilon / 2) * (1 + 1e-9)


@pytest.mark.parametrize("m", [2, 3, 10, 40])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0, 30.0])
def test_rdp_lemma_4_mallows_keeps_more_pairs_than_laplace_noise(m: int, epsilon: float) -> None:
    """Two ranks d apart keep their order under noise b with 1 - (1 + d / (2 b)) e^(-d / b) / 2."""
    d, b = np.arange(1, m), 2 * (m - 1) / epsilon
    kept = 1 - (1 + d / (2 * b)) * np.exp(-d / b) / 2
    laplace = float((kept * (m - d)).sum() / (m - d).sum())
    assert expected_concordance(epsilon, m) > laplace


def test_xsc_theorem_5_the_footrule_is_at_most_twice_kendalls_distance() -> None:
    truth = np.arange(5.0)
    for order in permutations(range(5)):
        scores = np.array(order, float)
        assert footrule_distance(scores, truth) <= 2 * kendall_distance(scores, truth) + 1e-12


def test_xsc_lemma_1_flipped_answers_follow_no_bradley_terry_model() -> None:
    """Example 1: items log 2 apart, a third of the answers flipped."""
    near, far = (1 / 3 + odds / (1 + odds) * (1 - 2 / 3) for odds in (2, 4))
    assert (near, far) == pytest.approx((5 / 9, 3 / 5))
    odds = near / (1 - near)
    assert far / (1 - far) != pytest.approx(odds**2, rel=0.02)
