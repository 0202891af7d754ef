"""Audits of an instant runoff: which cells a round has depends on the noise of those before it.

Given who has left, the counts of a round are exact ones with noise of a known law, so the
likelihood ratio of two logs follows from the output alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.rankings.instant_runoff import count_round, members_of_sets
from hushrank.flows.statement.rankings import RankingCountMechanism
from hushrank.flows.trust.audit.result import Draws
from hushrank.privacy.audit import Rows, Statistic
from hushrank.privacy.units import NoiseKind


@dataclass(frozen=True)
class RoundDraws(Draws):
    """Draws of all rounds, which know their likelihood."""

    mechanism: RankingCountMechanism

    def ratio(self, left: int, right: int) -> Statistic:
        """Logarithm of how much likelier the counts are on the left log, by the stated law."""
        n_items = self.mechanism.n_items
        members = members_of_sets(n_items, self.mechanism.longest)

        def ratio_of(outputs: Rows) -> NDArray[np.float64]:
            rounds = outputs.reshape(len(outputs), n_items - 1, n_items + 1).astype(np.int64)
            here = np.ones((len(outputs), n_items), np.bool_)
            told = np.zeros(len(outputs))
            for place in range(n_items - 1):
                counts = rounds[:, place]
                for mask in np.unique(here, axis=0):
                    own = np.flatnonzero((here == mask).all(axis=1))
                    exact = [
                        count_round(self.exact[side]["firsts"], members, mask)
                        for side in (left, right)
                    ]
                    told[own] += self._of_round(counts[own], *exact)
                last_first = np.where(here, counts[:, :-1], counts.max() + 1)[:, ::-1]
                outs = n_items - 1 - last_first.argmin(axis=1)
                here[np.arange(len(outputs)), outs] = False
            return told

        return ratio_of

    def _of_round(
        self, own: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        scale, power = self.mechanism.law.scale, 1
        if self.mechanism.law.kind is NoiseKind.GAUSSIAN:
            scale, power = 2 * scale**2, 2
        further = np.abs(own - right) ** power - np.abs(own - left) ** power
        return np.asarray(further.sum(axis=1) / scale)
