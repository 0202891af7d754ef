"""`link: auto` finds the link that the answers came from."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.estimation.common.links import LINKS, LOGISTIC, PROBIT, Link
from hushrank.estimation.comparisons.model_selection import select_link
from hushrank.estimation.fit.pair_fit import AnswerVariance
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.fit.weighted_pairs import UNITS, WeightedPairs

SCORES = np.linspace(-1.5, 1.5, 8)


def without_noise(link: Link) -> WeightedPairs:
    w = np.full((8, 8), 1000 * UNITS)
    s = np.rint(w * link.cdf(np.subtract.outer(SCORES, SCORES))).astype(np.int64)
    return WeightedPairs(np.triu(s, 1), np.triu(w, 1))


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_the_true_link_has_the_smallest_loss(link: Link) -> None:
    selected = select_link(without_noise(link), list(LINKS.values()), AnswerVariance())
    assert selected.fit.link == link.name
    assert set(selected.losses) == set(LINKS)
    assert selected.fit.loss == min(selected.losses.values())
    assert not selected.failures
    np.testing.assert_allclose(selected.fit.scores, SCORES, atol=0.01)


def test_a_link_without_minimum_is_named_and_not_chosen() -> None:
    s = np.triu(np.full((2, 2), -3 * UNITS), 1)
    few = WeightedPairs(s, np.triu(np.full((2, 2), UNITS // 10), 1))
    selected = select_link(few, [PROBIT, LOGISTIC], AnswerVariance())
    assert selected.fit.link == "logistic"
    assert "without end" in selected.failures["probit"]
    with pytest.raises(ConvergenceError, match="probit"):
        select_link(few, [PROBIT], AnswerVariance())
    with pytest.raises(ValueError, match="at least one"):
        select_link(few, [], AnswerVariance())
