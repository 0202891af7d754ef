"""Protection of one release: the unit of privacy, the adjacency and the budget.

Public levels to which the epsilons that people chose are rounded down. Pure.  Undoing a mechanism
takes the sums of each epsilon apart, so a release of rankings or of test answers knows few
epsilons. The levels follow from the public bounds alone: both bounds, and steps of equal ratio
between them, rounded to four digits. With 12 steps between the bounds, two, three, four, five or
seven epsilons of equal ratio (such as 1, 2, 4 and 8) are levels themselves.  An epsilon is
rounded down before anything is drawn. So whoever chose epsilon loses at most epsilon, and what
was drawn by is what is stated and undone. The levels do not depend on who chose what.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class Unit(StrEnum):
    """Unit whose change the guarantee covers: two adjacent inputs differ in one of these."""

    COMPARISON = "comparison"  # one row (edge DP)
    USER = "user"  # every row of one person (individual DP)
    LOCAL = "local"  # one answer, privatised before it is counted (local DP)


class Adjacency(StrEnum):
    """Way in which two adjacent inputs differ in that unit."""

    REPLACE_ONE = "replace-one"  # one unit takes other values; how many units there are is public
    ADD_REMOVE = "add-remove"  # one unit is present or absent


class NoiseKind(StrEnum):
    """Law of the integer noise: `laplace` gives pure epsilon-DP, `gaussian` gives rho-zCDP."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


class Bounding(StrEnum):
    """Rule for the rows of a person who has more than L."""

    LEAVE_OUT = "leave-out"  # L of them count, drawn at random
    WEIGHTS = "weights"  # all count, with a weight that falls with their number


UNITS = 1_000  # integer units of a comparison, where rows have weights
MOST_WEIGHT = 30  # largest for which squared weights of ten billion rows add up within 63 bits


MOST_NAMES_FOUND = 100  # most names of items that a person may write and that count
MOST_SHARE_OF_NAMES = 0.5  # of rho: more would leave the ranking the smaller part


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """Parts of a guarantee where names of items are released first (`privacy.discovered_names`).

    Attributes:
        epsilon, delta: guarantee of names and ranking together.
        rho: zCDP parameter of the noise in the weights of names.
        rest: that of all that is drawn afterwards.
        delta_names: most probability with which a name of one person alone is published; a part of
            `delta`.
        most_names: c, the most distinct names of one person that count.
    """

    epsilon: float
    delta: float
    rho: float
    rest: float
    delta_names: float
    most_names: int


class Query(StrEnum):
    """A count beside the ranking (`privacy.private_counts`)."""

    PEOPLE = "people"
    ANSWERS = "answers"
    CONTRADICTIONS = "contradictions"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTerms:
    """Counts that are released beside a ranking, and what each costs.

    Attributes:
        epsilon: pure epsilon of each query.
        queries: what is counted, each once, at least one.
    """

    epsilon: float
    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyParams:
    """Guarantee of one release and the bounds that it rests on.

    Attributes:
        unit: unit that the guarantee protects; not `local`, which no central mechanism gives.
        adjacency: meaning of "differ in one unit".
        epsilon: privacy loss in nats; > 0; `inf` only for a release without privacy.
        delta: failure probability, in [0, 1); 0 for `laplace`, > 0 for `gaussian` without `rho`.
        rho: zCDP parameter; `gaussian` only, instead of `delta`, and then `epsilon` is not used.
        noise: law of the noise.
        max_contributions: L, the rows kept of one user; 1 for unit `comparison`.
        per_item_cap: c, the most kept rows of one user in which the same item occurs; None: no cap.
        distinct_pairs: whether each user's kept rows are on distinct pairs of items.
        bounding: rule for a user's further rows; `weights` needs unit `user`, `gaussian`
            noise and `distinct_pairs`.
        max_weight: W, the largest weight of a row, a multiple of 1 / `UNITS`; None: rows carry no
            weights of their own.
        look: epsilon that a noisy look at the rows takes beside all that (`privacy.look`);
            0: there is no look. `epsilon` is what is left for the rest.
        look_unlisted: whether that look also counts who names an item that is not listed.
        names_per_person: k, the most user names of one person; the guarantee is of any k names
            together, and the bounds are of each name.
        discovery: names of items that are released first; `rho` is what is left for the rest. None:
            the items are public.
        counts: counts beside the ranking, which take a part of epsilon beside all that; None: there
            are none.

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
    look_unlisted: bool = False
    bounding: Bounding = Bounding.LEAVE_OUT
    max_weight: float | None = None
    names_per_person: int = 1
    discovery: Discovery | None = None
    counts: CountTerms | None = None

    def __post_init__(self) -> None:
        if self.unit is Unit.LOCAL:
            raise ValueError("unit must be comparison or user: local answers carry their own noise")
        if math.isnan(self.epsilon) or not self.epsilon > 0:
            raise ValueError(f"epsilon must be > 0, got {self.epsilon!r}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be at least 0 and below 1, got {self.delta!r}")
        if self.max_contributions < 1:
            raise ValueError(f"max_contributions must be >= 1, got {self.max_contributions!r}")
        if self.names_per_person < 1:
            raise ValueError(f"names_per_person must be >= 1, got {self.names_per_person!r}")
        if not 0 <= self.look < math.inf:
            raise ValueError(f"look must be finite and >= 0, got {self.look!r}")
        self._check_noise()
        self._check_bounds()
        self._check_weights()

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
                ("names_per_person", 1),
            ):
                if getattr(self, name) != neutral:
                    raise ValueError(
                        f"{name} bounds what one user contributes: "
                        "it needs unit: user, got unit: comparison"
                    )

    def _check_weights(self) -> None:
        if self.max_weight is not None:
            units = self.max_weight * UNITS
            if not (1 <= self.max_weight <= MOST_WEIGHT and abs(units - round(units)) < 1e-6):
                raise ValueError(
                    f"max_weight must be from 1 to {MOST_WEIGHT} with at most 3 decimals,"
                    f" got {self.max_weight!r}"
                )
        if self.bounding is Bounding.LEAVE_OUT:
            return
        if self.unit is Unit.COMPARISON:
            raise ValueError("bounding weights is for people with many rows: it needs unit: user")
        if self.noise is NoiseKind.LAPLACE:
            raise ValueError(
                "bounding weights needs noise: gaussian: the weights keep the l2 norm of what a"
                " person adds, and Laplace noise goes by the l1 norm, which grows with the rows"
            )
        if not self.distinct_pairs:
            raise ValueError(
                "bounding weights needs distinct_pairs: true: rows on one pair add up in one count,"
                " so that weights would gain nothing"
            )

    @property
    def weighted(self) -> bool:
        """Whether rows count with weights, in units of 1 / `UNITS`."""
        return self.bounding is Bounding.WEIGHTS or self.max_weight is not None

    @property
    def units(self) -> int:
        """Integer units of a comparison of weight 1."""
        return UNITS if self.weighted else 1

    @property
    def most_units(self) -> int:
        """Integer units of the heaviest row."""
        return self.units if self.max_weight is None else round(self.max_weight * UNITS)

    @property
    def has_parts(self) -> bool:
        """Whether a pilot query or counts beside the ranking take a part of epsilon."""
        return self.look > 0 or self.counts is not None

    @property
    def private(self) -> bool:
        """False for `epsilon: inf`, which adds no noise."""
        return self.rho is not None or math.isfinite(self.epsilon)


STEPS = 12
DIGITS = 4

Levels = tuple[float, ...]


def epsilon_levels(low: float, high: float) -> Levels:
    """The levels between two public bounds, ascending, both bounds among them.

    Args:
        low, high: the bounds; one level where they are equal.

    Raises:
        ValueError: the bounds are not 0 < low <= high < infinity.
    """
    if not 0 < low <= high < math.inf:
        raise ValueError(f"need 0 < low <= high < inf, got {low!r} and {high!r}")
    logs = np.linspace(math.log(low), math.log(high), STEPS + 1)
    between = {float(f"{math.exp(each):.{DIGITS}g}") for each in logs[1:-1]}
    return tuple(sorted({low, high} | {each for each in between if low < each < high}))


def level_of(epsilons: NDArray[np.float64], levels: Levels) -> NDArray[np.int64]:
    """Position of the largest level that does not exceed each epsilon; -1 if there is none."""
    return np.searchsorted(np.array(levels), epsilons, side="right") - 1
