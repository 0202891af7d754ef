"""The specification of a simulated survey: items, true scores, people, and how they answer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Link, link_named

MAX_ITEMS = 1 << 20  # so that (person in a block, pair) fits into one int64
MAX_ROWS_PER_PERSON = 1 << 20  # one person's rows are drawn at once
# Independent streams of one seed.
SCORES_STREAM, ROWS_STREAM, EPSILON_STREAM, HABIT_STREAM = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSpec:
    """A survey in which people compare pairs of items drawn uniformly at random.

    The rows depend only on these fields, not on the number of files or their format. Optional
    columns do not change the other columns. (numpy may change its streams between versions.)

    Attributes:
        items: n, the items 0 to n - 1.
        people: the people 0 to people - 1; each gives at least one answer.
        comparisons: how many answers each person gives.
        varying: `comparisons` is only the mean of a geometric law: many people answer little, some
            much.
        heavy_share: share of people who give `heavy_factor` times as many answers.
        heavy_factor: see `heavy_share`.
        distinct_pairs: nobody meets a pair twice, so nobody answers more than n(n-1)/2 times.
        link: `logistic` (Bradley-Terry-Luce), `probit` (Thurstone) or `laplace`.
        spread: standard deviation of the true scores, drawn from a normal law and then centred.
        scores: true scores to use instead; they are centred too.
        ties: share of answers without a winner, the same for every pair.
        named: items are called item-0, item-1, ... (with leading zeros) instead of 0, 1, ...
        events: add a column `event`, a running number that no other row has.
        epsilons: add a column `epsilon`: each person draws one of these.
        seed: seed of the simulation; the same seed gives the same rows.

    Raises:
        ValueError: a field breaks its rule; the text names field, rule and value.
    """

    items: int
    people: int
    comparisons: int = 15
    varying: bool = False
    heavy_share: float = 0.0
    heavy_factor: int = 10
    distinct_pairs: bool = True
    link: str = "logistic"
    spread: float = 1.0
    scores: tuple[float, ...] | None = None
    ties: float = 0.0
    named: bool = False
    events: bool = False
    epsilons: tuple[float, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        link_named(self.link)
        self._check_range("items", 2, MAX_ITEMS)
        self._check_range("people", 1, 1 << 40)
        self._check_range("comparisons", 1, MAX_ROWS_PER_PERSON)
        self._check_range("heavy_factor", 1, MAX_ROWS_PER_PERSON // self.comparisons)
        self._check_range("heavy_share", 0, 1)
        self._check_range("ties", 0, 1)
        self._check_range("seed", 0, math.inf)
        if self.distinct_pairs and self.comparisons > self.n_pairs:
            raise ValueError(
                f"comparisons must be at most {self.n_pairs}, the pairs of {self.items} items,"
                f" while distinct_pairs is set; got {self.comparisons}"
            )
        self._check_scores()
        if not all(math.isfinite(epsilon) and epsilon > 0 for epsilon in self.epsilons):
            raise ValueError(f"epsilons must be finite and > 0, got {self.epsilons!r}")

    def _check_range(self, name: str, least: float, most: float) -> None:
        value = getattr(self, name)
        if not least <= value <= most:
            raise ValueError(f"{name} must be between {least} and {most}, got {value!r}")

    def _check_scores(self) -> None:
        if not (math.isfinite(self.spread) and self.spread >= 0):
            raise ValueError(f"spread must be finite and >= 0, got {self.spread!r}")
        if self.scores is None:
            return
        if len(self.scores) != self.items:
            raise ValueError(f"scores must have {self.items} entries, got {len(self.scores)}")
        if not all(map(math.isfinite, self.scores)):
            raise ValueError(f"scores must be finite, got {self.scores!r}")

    @property
    def n_pairs(self) -> int:
        """Unordered pairs of items, n(n-1)/2."""
        return self.items * (self.items - 1) // 2

    @property
    def mean_comparisons(self) -> float:
        """Expected rows of one person, before the limit that `distinct_pairs` sets."""
        return self.comparisons * (1 + self.heavy_share * (self.heavy_factor - 1))

    @property
    def win_model(self) -> Link:
        """The chance that an item wins, from the difference of two scores."""
        return link_named(self.link)

    def item_ids(self) -> tuple[str, ...]:
        """The names of the items in the public catalogue."""
        width = len(str(self.items - 1)) if self.named else 0
        prefix = "item-" if self.named else ""
        return tuple(f"{prefix}{item:0{width}}" for item in range(self.items))

    def true_scores(self) -> NDArray[np.float64]:
        """Shape (items,); sums to zero."""
        if self.scores is None:
            scores = self.generator(SCORES_STREAM).normal(0.0, self.spread, self.items)
        else:
            scores = np.array(self.scores, np.float64)
        centred: NDArray[np.float64] = scores - scores.mean()
        return centred

    def generator(self, *stream: int) -> np.random.Generator:
        """Generator of one stream of this seed; streams are independent of each other."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=stream))
