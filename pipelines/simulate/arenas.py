"""Logs of unbalanced designs: some items are shown far more often than others, some came late.

The generators are numpy's: no release draws from here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushrank.estimation.common.links import LOGISTIC, Floats, Link
from hushrank.estimation.common.matrices import PairCounts


@dataclass(frozen=True)
class Arena:
    """Comparisons whose two items are drawn by chance, in proportion to how often they are shown.

    Attributes:
        n_items, comparisons: how many.
        spread: standard deviation of the true scores.
        zipf: exponent of the exposures.
        late: items that came late, and were shown a fifth as often as their place has it.
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
        """Comparisons of each pair to expect."""
        shown = generator.permutation(1 / np.arange(1.0, self.n_items + 1) ** self.zipf)
        shown[generator.choice(self.n_items, self.late, replace=False)] /= 5
        chance = np.outer(shown, shown)
        if self.matched is not None:
            chance *= np.exp(-(np.subtract.outer(truth, truth) ** 2) / (2 * self.matched**2))
        np.fill_diagonal(chance, 0)
        return np.asarray(2 * self.comparisons * chance / chance.sum())

    def answers(self, truth: Floats, design: Floats, generator: np.random.Generator) -> PairCounts:
        """Who beat whom how often."""
        asked = generator.poisson(np.triu(design))
        won = generator.binomial(asked, self.link.cdf(np.subtract.outer(truth, truth)))
        return PairCounts((won + (asked - won).T).astype(np.int64))
