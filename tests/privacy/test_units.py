"""Every rule of PrivacyParams, by its message."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import pytest
from hypothesis import given

from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.strategies import privacy_params

VALID: dict[str, Any] = {
    "unit": Unit.USER,
    "adjacency": Adjacency.REPLACE_ONE,
    "epsilon": 1.0,
    "max_contributions": 5,
}
BAD_NOISE = "noise gaussian takes either delta > 0 (with epsilon) or rho"
PURE = "noise laplace is pure DP: it takes neither delta nor rho; remove it or set noise: gaussian"
COMPARISON = " bounds what one user contributes: it needs unit: user, got unit: comparison"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be > 0, got 0.0"),
        ({"epsilon": -1.0}, "epsilon must be > 0, got -1.0"),
        ({"epsilon": math.nan}, "epsilon must be > 0, got nan"),
        ({"delta": -1e-9}, "delta must be at least 0 and below 1, got -1e-09"),
        ({"delta": 1.0}, "delta must be at least 0 and below 1, got 1.0"),
        ({"delta": math.nan}, "delta must be at least 0 and below 1, got nan"),
        ({"max_contributions": 0}, "max_contributions must be >= 1, got 0"),
        ({"delta": 1e-6}, PURE),
        ({"rho": 0.1}, PURE),
        ({"noise": NoiseKind.GAUSSIAN}, BAD_NOISE),
        ({"noise": NoiseKind.GAUSSIAN, "rho": 0.1, "delta": 1e-6}, BAD_NOISE),
        (
            {"noise": NoiseKind.GAUSSIAN, "rho": 0.1, "delta": 1e-6, "epsilon": math.inf},
            BAD_NOISE,
        ),
        ({"noise": NoiseKind.GAUSSIAN, "rho": 0.0}, "rho must be finite and > 0, got 0.0"),
        ({"noise": NoiseKind.GAUSSIAN, "rho": math.inf}, "rho must be finite and > 0, got inf"),
        ({"noise": NoiseKind.GAUSSIAN, "rho": math.nan}, "rho must be finite and > 0, got nan"),
        ({"per_item_cap": 0}, "per_item_cap must be between 1 and max_contributions (5), got 0"),
        ({"per_item_cap": 6}, "per_item_cap must be between 1 and max_contributions (5), got 6"),
        ({"unit": Unit.COMPARISON}, "max_contributions" + COMPARISON),
        (
            {"unit": Unit.COMPARISON, "max_contributions": 1, "per_item_cap": 1},
            "per_item_cap" + COMPARISON,
        ),
        (
            {"unit": Unit.COMPARISON, "max_contributions": 1, "distinct_pairs": True},
            "distinct_pairs" + COMPARISON,
        ),
    ],
)
def test_a_broken_rule_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        PrivacyParams(**{**VALID, **changes})


@pytest.mark.parametrize(
    ("changes", "private"),
    [
        ({}, True),
        ({"epsilon": math.inf}, False),
        ({"noise": NoiseKind.GAUSSIAN, "delta": 1e-6}, True),
        ({"noise": NoiseKind.GAUSSIAN, "delta": 1e-6, "epsilon": math.inf}, False),
        ({"noise": NoiseKind.GAUSSIAN, "epsilon": math.inf}, False),
        ({"noise": NoiseKind.GAUSSIAN, "rho": 0.1}, True),
        ({"noise": NoiseKind.GAUSSIAN, "rho": 0.1, "epsilon": math.inf}, True),
    ],
)
def test_only_infinite_epsilon_without_rho_is_not_private(
    changes: dict[str, Any], private: bool
) -> None:
    assert PrivacyParams(**{**VALID, **changes}).private is private


@given(privacy_params())
def test_parameters_cannot_change_once_checked(params: PrivacyParams) -> None:
    assert dataclasses.replace(params) == params
    with pytest.raises(dataclasses.FrozenInstanceError):
        params.epsilon = 100.0  # type: ignore[misc]
