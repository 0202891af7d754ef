"""Logs with unbalanced designs: some items are shown far more often than others, some came late.

The generators are numpy's; no release draws from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from hushrank.estimation.common.links import LOGISTIC, Floats, Link
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons.exposures import Exposures

ROUND_TOTAL = 1e9  # exposures are scaled to it before the fit, so that none is near zero


@dataclass(frozen=True, slots=True)
class Meetings:
    """How often two items meet, in a design that is not balanced.

    Attributes:
        factors: shape (n,), each > 0; two items meet in proportion to the product of their factors.
        matched: how far apart the scores of partners are; None: they meet by chance.
        pairs: shape (n, n), how often each pair meets, whatever the factors say; None: as they say.
    """

    factors: tuple[float, ...]
    matched: float | None = None
    pairs: Floats | None = field(default=None, compare=False)

    @classmethod
    def zipf(cls, n_items: int, exponent: float, matched: float | None = None) -> Self:
        """Items shown in proportion to 1 / k^exponent, the first one most often."""
        return cls(tuple((1 / np.arange(1.0, n_items + 1) ** exponent).tolist()), matched)

    @classmethod
    def shown(cls, exposures: Sequence[float], matched: float | None = None) -> Self:
        """Items shown in proportion to known numbers; only roughly if partners are matched.

        Args:
            exposures: exposure of each item, at least 0, none above the sum of the others.
            matched: see the class.
        """
        values = np.array(exposures, np.float64)
        fitted = Exposures(ROUND_TOTAL * values / values.sum(), 0.0).factors()
        return cls(tuple(fitted.tolist()), matched)

    def shares(self, truth: Floats) -> Floats:
        """Share of all comparisons that each pair gets, shape (n, n): symmetric, its sum is 2."""
        if self.pairs is not None:
            return np.asarray(2 * self.pairs / self.pairs.sum())
        chance = np.outer(self.factors, self.factors)
        if self.matched is not None:
            chance *= np.exp(-(np.subtract.outer(truth, truth) ** 2) / (2 * self.matched**2))
        np.fill_diagonal(chance, 0)
        return np.asarray(2 * chance / chance.sum())


@dataclass(frozen=True)
class Arena:
    """Comparisons whose two items are drawn by chance, in proportion to their exposure.

    Attributes:
        n_items, comparisons: the numbers of items and of comparisons.
        spread: standard deviation of the true scores.
        zipf: exponent of the exposures.
        late: items that came late, and were shown a fifth as often as their place implies.
        matched: how far apart the scores of partners are; None: they meet by chance.
    """

    n_items: int
    comparisons: int
    zipf: float = 1.0
    spread: float = 0.7
    late: int = 0
    matched: float | None = None
    link: Link = LOGISTIC

    def truth(self, generator: np.random.Generator) -> Floats:
        """Scores that sum to zero, shape (n,)."""
        scores = generator.normal(0, self.spread, self.n_items)
        return np.asarray(scores - scores.mean())

    def design(self, truth: Floats, generator: np.random.Generator) -> Floats:
        """Expected comparisons of each pair."""
        shown = generator.permutation(1 / np.arange(1.0, self.n_items + 1) ** self.zipf)
        shown[generator.choice(self.n_items, self.late, replace=False)] /= 5
        return self.comparisons * Meetings(tuple(shown.tolist()), self.matched).shares(truth)

    def answers(self, truth: Floats, design: Floats, generator: np.random.Generator) -> PairCounts:
        """Who beat whom how often."""
        asked = generator.poisson(np.triu(design))
        won = generator.binomial(asked, self.link.cdf(np.subtract.outer(truth, truth)))
        return PairCounts((won + (asked - won).T).astype(np.int64))
