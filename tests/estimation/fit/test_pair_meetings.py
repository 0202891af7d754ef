"""How often pairs met, from noisy totals: sums that scores rest on have no bias."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.estimation.comparisons.planning import Exposures
from hushrank.estimation.fit.pair_meetings import pair_meetings
from hushrank.privacy.units import NoiseKind

N, RATE, SCALE, DRAWS = 12, 20.0, 3.0, 60


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("kind", NoiseKind)
def test_the_used_comparisons_are_those_that_were_made(kind: NoiseKind, groups: int) -> None:
    """Deterministic, by seeds: sum k U against sum k W, which set how far scores lie apart."""
    rng, own = np.random.default_rng(1), SCALE**2 * (2 if kind is NoiseKind.LAPLACE else 1)
    group = np.arange(N) % groups
    rate = RATE * (group[:, np.newaxis] == group)
    used = made = plain = 0.0
    for _ in range(DRAWS):
        met = np.triu(rng.poisson(rate), 1).astype(np.float64)
        draw = rng.laplace if kind is NoiseKind.LAPLACE else rng.normal
        noise = np.triu(draw(0.0, SCALE, (2, N, N)).sum(axis=0), 1)
        met, noise = met + met.T, noise + noise.T
        totals = met + noise
        design = Exposures(totals.sum(axis=1), 2 * (N - 1) * own).design()
        found = pair_meetings(totals, design, 2 * own, kind)
        weights = found.mean / (found.mean + 2 * own)
        used += found.used(weights, 2 * own).sum()
        made += (weights * met).sum()
        plain += (weights * found.mean).sum()
    assert used == pytest.approx(made, rel=0.02)
    if groups == 2:  # without the correction for fitted errors there are too many
        assert plain > 1.004 * made
