"""Draws of a method from exact arrays, and looks at rows: what the process that draws is told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration
from hushrank.flows.audit.part import Untold, as_row
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.base import Arrays
from hushrank.flows.methods.registry import METHODS
from hushrank.flows.run.drawn import noisy_votes
from hushrank.flows.statement.mechanism import Mechanism
from hushrank.privacy.audit import Rows
from hushrank.privacy.randomness import system_bits


@dataclass(frozen=True)
class Draws(Untold):
    """Draws of a method.

    Attributes:
        config: the small job.
        mechanism: what it draws by.
        exact: arrays of each side.
        block: see `Source`.
    """

    config: SurveyConfig
    mechanism: Mechanism
    exact: tuple[Arrays, ...]
    block: int = 20

    def outputs(self, side: int, runs: int) -> Rows:
        """As often as asked for, one by one."""
        method, bits = METHODS[self.config.method].resolve(self.config).method, system_bits()
        drawn = (method.draw(self.exact[side], self.mechanism, bits) for _ in range(runs))
        return np.stack([as_row(each) for each in drawn])


@dataclass(frozen=True)
class Looks(Untold):
    """Looks at the rows of each side, from exact votes of shape (2,)."""

    look: Calibration
    votes: tuple[NDArray[np.int64], ...]
    block: int = 1_000

    def outputs(self, side: int, runs: int) -> Rows:
        """All at once: each run has votes of its own."""
        votes = np.tile(self.votes[side], (runs, 1))
        return np.asarray(noisy_votes(votes, self.look, system_bits()), np.float64)
