"""How many outputs an audit draws at most, and what so many of them show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from hushrank.flows.trust.audit import audit as whole
from hushrank.flows.trust.audit.audit import MOST_NUMBERS, MOST_RUNS, outputs_until
from hushrank.flows.trust.audit.result import Untold
from hushrank.privacy.audit import Rows, audit_epsilon
from tests.flows.small_jobs import SMALL_JOBS
from tests.flows.trust.audit.planted import BUGS, survey_of

FEWER = 400_000


@dataclass(frozen=True)
class AtOnce(Untold):
    """A source that takes no time."""

    width: int
    block: int = 10_000

    def outputs(self, side: int, runs: int) -> Rows:
        return np.zeros((runs, self.width))


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(("width", "runs"), [(4, MOST_RUNS), (1_000, MOST_NUMBERS // 1_000)])
def test_runs_end_where_memory_would(width, runs, processes):
    """Processes that draw at once share it."""
    runs //= processes
    (drawn,) = outputs_until(AtOnce(width), (0,), 3_600.0, 0, processes)
    assert runs <= len(drawn) < runs + 10_000


@pytest.mark.slow
def test_the_most_runs_show_half_the_noise_of_an_objective_at_a_small_delta(tmp_path, monkeypatch):
    """The two logs of the audit move w by 0.71 standard deviations; fewer runs do not show it.

    To draw the fits takes five minutes of a processor (`benchmarks/audit_power.py`), so w is drawn
    here, along the line that it moves on. Where its length shows, so does the likelihood ratio.
    """
    bug = BUGS["half the noise, objective, small delta"]
    monkeypatch.setattr(whole, "reduce_rows", SMALL_JOBS.run)
    bug.plant(monkeypatch)
    (part,) = whole.parts_of(survey_of(bug.job, tmp_path).config, tmp_path)
    shift = 2 * max(part.apart)  # in scales of what is drawn, which is half of what is stated
    assert shift == pytest.approx(0.706, abs=0.01)
    rng = np.random.default_rng(1)

    def shown(runs: int) -> float:
        return audit_epsilon(
            lambda middle, runs: rng.normal(middle, size=runs),
            shift / 2,
            -shift / 2,
            trials=runs,
            confidence=1 - whole.WRONG,
            delta=part.delta,
            ratio=lambda rows: shift * rows[:, 0],
        ).epsilon_lower

    assert shown(MOST_RUNS) > part.epsilon > shown(FEWER)
