"""Estimates without ranks, for tests of scores: to rank takes most of the time of an estimate."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator

import numpy as np
import pytest

from hushrank.estimation.common.uncertainty import AllAtOnce, RankSeparation

RANKING = (
    "common.pooling",
    "comparisons.mle_uncertainty",
    "comparisons.net_wins",
    "comparisons.pairs_by_chance",
    "fit.pair_fit",
    "rankings.bradley_terry",
    "rankings.personalized",
    "rankings.ranking_estimates",
    "responses.spectral_estimate",
    "responses.totals_estimate",
)


@contextlib.contextmanager
def scores_alone(yes: bool = True) -> Iterator[None]:
    """Scores and their intervals are as ever; any item may have any rank."""
    with pytest.MonkeyPatch.context() as patch:
        for name in RANKING if yes else ():
            module = importlib.import_module(f"hushrank.estimation.{name}")
            patch.setattr(module, "separate_pairs", _any_rank)
        yield


def _any_rank(values: np.ndarray, *_: object) -> RankSeparation:
    n = len(values)
    first, last, ends = np.ones(n, np.int64), np.full(n, n), np.full(n, np.inf)
    at_once = AllAtOnce(-ends, ends, first, last, np.zeros((n, n), np.bool_))
    return RankSeparation(first, last, first, at_once)
