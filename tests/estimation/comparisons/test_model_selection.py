"""`link: auto` finds the link that the answers came from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import root

from hushrank.estimation.common.links import LINKS, LOGISTIC, PROBIT, Link
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons.model_selection import link_of_counts, select_link
from hushrank.estimation.fit.pair_fit import AnswerVariance
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.fit.weighted_pairs import UNITS, WeightedPairs
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.units import NoiseKind

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


@pytest.mark.parametrize("name", ["logistic", "probit", "laplace"])
def test_noisy_counts_choose_the_link_that_they_were_drawn_by(name: str) -> None:
    """Deterministic, by seeds: 6 000 comparisons of each pair, noise of deviation 10."""
    chosen = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=8) * (0.8 if name == "probit" else 1.2)
        first = rng.binomial(6_000, np.triu(LINKS[name].cdf(truth[:, np.newaxis] - truth), 1))
        wins = first + np.tril(6_000 - first.T, -1)
        wins += np.rint(rng.normal(size=wins.shape) * 10).astype(np.int64)
        np.fill_diagonal(wins, 0)
        counts, law = PairCounts(wins, 1, False), NoiseLaw(NoiseKind.GAUSSIAN, 10.0)
        chosen.append(link_of_counts(counts, law, [*LINKS.values()]).name)
    assert chosen.count(name) >= 4
    with pytest.raises(ValueError, match="at least one link"):
        link_of_counts(counts, law, [])


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_wins_and_losses_of_items_fit_every_link(link: Link) -> None:
    """So `win-loss` cannot choose one: from the probit link, each link gives the same counts."""
    appearances = np.array([300.0, 500.0, 200.0, 800.0, 400.0, 300.0, 250.0, 350.0])
    met = np.outer(appearances, appearances) / appearances.sum()
    np.fill_diagonal(met, 0)

    def net_wins(scores: np.ndarray, of: Link) -> np.ndarray:
        apart = np.subtract.outer(scores, scores)
        return (met * (of.cdf(apart) - of.cdf(-apart))).sum(axis=1)

    counted = net_wins(SCORES, PROBIT)
    found = root(
        lambda scores: net_wins(scores, link) - counted + scores.sum(), SCORES, method="lm"
    )
    np.testing.assert_allclose(net_wins(found.x, link), counted, atol=1e-6)
    assert np.ptp(found.x) > 1
