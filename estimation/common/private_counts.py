"""Noise and intervals of counts beside a ranking: see `privacy.private_counts`.

All here follows from noisy numbers and the law of their noise: it is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration, Seen, calibrate, one_error
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.private_counts import (
    answers_sensitivity,
    contradictions_sensitivity,
    people_sensitivity,
)
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import Bounding, NoiseKind, PrivacyParams, Query

SENSITIVITIES = {
    Query.PEOPLE: people_sensitivity,
    Query.ANSWERS: answers_sensitivity,
    Query.CONTRADICTIONS: contradictions_sensitivity,
}
SIZES = {Query.PEOPLE: 1, Query.ANSWERS: 1, Query.CONTRADICTIONS: 2}  # numbers of each query

Numbers = dict[Query, NDArray[np.int64]]  # shape (1,), of contradictions (2,)


def calibrate_counts(params: PrivacyParams) -> dict[Query, Calibration]:
    """Laplace noise of each query that `params` ask; empty: they ask none."""
    if params.counts is None:
        return {}
    pure = replace(
        params,
        epsilon=params.counts.epsilon,
        delta=0.0,
        rho=None,
        noise=NoiseKind.LAPLACE,
        look=0.0,
        counts=None,
        bounding=Bounding.LEAVE_OUT,  # these counts have no weights
        max_weight=None,
    )
    return {
        query: calibrate(pure, of(params), of.__name__)
        for query in params.counts.queries
        for of in [SENSITIVITIES[query]]
    }


def noisy_counts(exact: Numbers, laws: dict[Query, Calibration], bits: RandomBits) -> Numbers:
    """Add noise of its own to every number of every query.

    Args:
        exact: exact numbers of each query.
        laws: calibrations of the same queries.
        bits: random bits of the draw.
    """
    return {query: add_noise(exact[query], each.law, bits) for query, each in laws.items()}


@dataclass(frozen=True, slots=True)
class Interval:
    """A noisy number and where the true one is, with 95 %.

    Attributes:
        count: the number, with noise; may be negative.
        low, high: ends of the interval, for this number alone; at least 0.
    """

    count: int
    low: int
    high: int

    @classmethod
    def of(cls, count: int, law: NoiseLaw) -> Interval:
        """The interval of a count with noise of this law.

        It misses the true number, if that is 0 or more, with a chance of at most 5 %: by the tail
        of the discrete Laplace law, exactly.
        """
        error = one_error(law)
        return cls(count, max(count - error, 0), max(count + error, 0))


def share_of_contradicting(pair: NDArray[np.int64], law: NoiseLaw) -> Seen:
    """The share of those who contradict themselves among people with a repeated pair.

    As of a pilot query, it is a share of two noisy numbers of disjoint people; `interval` holds the
    true share with 95 %.

    Args:
        pair: noisy numbers of people who contradict themselves and who do not.
        law: law of the noise in each.
    """
    contrary, consistent = pair.tolist()
    return Seen(contrary, consistent, law)
