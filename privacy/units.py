"""What one release protects: the unit of privacy, the adjacency and the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """Whose change the guarantee covers: two adjacent inputs differ in one of these."""

    COMPARISON = "comparison"  # one row (edge DP)
    USER = "user"  # every row of one person (individual DP)
    LOCAL = "local"  # one answer, privatised before it is counted (local DP)


class Adjacency(StrEnum):
    """How two adjacent inputs differ in that unit."""

    REPLACE_ONE = "replace-one"  # one unit takes other values; how many units there are is public
    ADD_REMOVE = "add-remove"  # one unit is present or absent


class NoiseKind(StrEnum):
    """Law of the integer noise: `laplace` gives pure epsilon-DP, `gaussian` gives rho-zCDP."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyParams:
    """Guarantee of one release and the bounds that it rests on.

    Attributes:
        unit: what the guarantee protects; not `local`, which no central mechanism gives.
        adjacency: what "differ in one unit" means.
        epsilon: privacy loss in nats; > 0; `inf` only for a release without privacy.
        delta: failure probability, in [0, 1); 0 for `laplace`, > 0 for `gaussian` without `rho`.
        rho: zCDP parameter; `gaussian` only, instead of `delta`, and then `epsilon` is not used.
        noise: law of the noise.
        max_contributions: L, the rows kept of one user; 1 for unit `comparison`.
        per_item_cap: c, the most kept rows of one user in which the same item occurs; None: no cap.
        distinct_pairs: each user's kept rows are on distinct pairs of items.
        look: epsilon that a noisy look at the rows takes beside all that (`privacy.look`); 0: there
            is no look. `epsilon` is what is left for the rest.

    Raises:
        ValueError: a field breaks one of these rules; the text names field, rule and value.
    """

    unit: Unit
    adjacency: Adjacency
    epsilon: float
    delta: float = 0.0
    rho: float | None = None
    noise: NoiseKind = NoiseKind.LAPLACE
    max_contributions: int = 1
    per_item_cap: int | None = None
    distinct_pairs: bool = False
    look: float = 0.0

    def __post_init__(self) -> None:
        if self.unit is Unit.LOCAL:
            raise ValueError("unit must be comparison or user: local answers carry their own noise")
        if math.isnan(self.epsilon) or not self.epsilon > 0:
            raise ValueError(f"epsilon must be > 0, got {self.epsilon!r}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be at least 0 and below 1, got {self.delta!r}")
        if self.max_contributions < 1:
            raise ValueError(f"max_contributions must be >= 1, got {self.max_contributions!r}")
        if not 0 <= self.look < math.inf:
            raise ValueError(f"look must be finite and >= 0, got {self.look!r}")
        self._check_noise()
        self._check_bounds()

    def _check_noise(self) -> None:
        if self.rho is not None and not (math.isfinite(self.rho) and self.rho > 0):
            raise ValueError(f"rho must be finite and > 0, got {self.rho!r}")
        if self.noise is NoiseKind.LAPLACE:
            if self.delta > 0 or self.rho is not None:
                raise ValueError(
                    "noise laplace is pure DP: it takes neither delta nor rho; "
                    "remove it or set noise: gaussian"
                )
            return
        both = self.delta > 0 and self.rho is not None
        neither = self.delta == 0 and self.rho is None
        if both or (neither and self.private):
            raise ValueError("noise gaussian takes either delta > 0 (with epsilon) or rho")

    def _check_bounds(self) -> None:
        if self.per_item_cap is not None and not 1 <= self.per_item_cap <= self.max_contributions:
            raise ValueError(
                "per_item_cap must be between 1 and max_contributions "
                f"({self.max_contributions}), got {self.per_item_cap!r}"
            )
        if self.unit is Unit.COMPARISON:
            for name, neutral in (
                ("max_contributions", 1),
                ("per_item_cap", None),
                ("distinct_pairs", False),
            ):
                if getattr(self, name) != neutral:
                    raise ValueError(
                        f"{name} bounds what one user contributes: "
                        "it needs unit: user, got unit: comparison"
                    )

    @property
    def private(self) -> bool:
        """False for `epsilon: inf`, which adds no noise."""
        return self.rho is not None or math.isfinite(self.epsilon)
