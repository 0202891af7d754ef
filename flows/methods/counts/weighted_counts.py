"""Calibration, draw and ranking of methods on counts where rows have weights.

`privacy.row_weights` has the bound, and `estimation.common.design_effect` says what the sum of
squared weights is for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import calibrate_weighted, release_squares
from hushrank.estimation.common.design_effect import effective_units
from hushrank.flows.config.comparisons import Design
from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.flows.statement.record import Parameter
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.row_weights import Counted
from hushrank.privacy.units import UNITS, PrivacyParams
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.bound import SQUARES

Arrays = dict[str, NDArray[Any]]  # arrays by name
WEIGHT_KEYS = ("privacy.bounding", "input.columns.weight")  # keys of methods that take weights


def weighted_mechanism(
    params: PrivacyParams, counted: Counted, n_items: int, ties: Ties, design: Design | None = None
) -> CountMechanism:
    """Noise for counts of weighted rows, and for the sum of their squares."""
    calibration, divisor = calibrate_weighted(params, counted, n_items, ties.row_weight)
    return CountMechanism.of(
        params, calibration, n_items, ties, design=design, squares_divisor=divisor
    )


def drawn_squares(exact: Arrays, mechanism: CountMechanism, bits: RandomBits) -> Arrays:
    """The noisy sum of squared weights; nothing where rows have none."""
    if mechanism.squares_divisor is None:
        return {}
    squares = exact[SQUARES]
    divisor, calibration = mechanism.squares_divisor, mechanism.calibration
    return {SQUARES: release_squares(squares, divisor, calibration, bits)}


def ranking_weight(
    drawn: Arrays,
    mechanism: CountMechanism,
    wins: NDArray[np.int64] | NDArray[np.float64],
    entries: int,
) -> int:
    """The row weight to rank by: integer units of what is as random as one comparison.

    Args:
        drawn: arrays that were released.
        mechanism: mechanism that drew them.
        wins: noisy counts that add up to those of all rows.
        entries: number of entries that have noise of their own.
    """
    divisor = mechanism.squares_divisor
    if divisor is None:
        return mechanism.row_weight
    variance = mechanism.law.variance
    return effective_units(
        total=float(wins.sum()),
        total_variance=entries * variance,
        squares=float(drawn[SQUARES][0]) * divisor,
        squares_variance=variance * divisor**2,
        row_weight=mechanism.row_weight // UNITS,
        most=mechanism.params.most_units,
    )


def weight_parameters(
    drawn: Arrays, mechanism: CountMechanism, ranked_by: int
) -> dict[str, Parameter]:
    """Return a release's parameters of weights; empty where rows have none.

    Args:
        drawn: arrays that were released.
        mechanism: mechanism that drew them.
        ranked_by: value from `ranking_weight`.
    """
    divisor, params = mechanism.squares_divisor, mechanism.params
    if divisor is None:
        return {}
    found: dict[str, Parameter] = {
        "bounding": params.bounding.value,
        "units_of_a_comparison": mechanism.row_weight,
        "sum_of_squared_weights": int(drawn[SQUARES][0]) * divisor / UNITS**2,
        "design_effect": ranked_by / mechanism.row_weight,
    }
    if params.max_weight is not None:
        found["max_weight"] = params.max_weight
    return found
