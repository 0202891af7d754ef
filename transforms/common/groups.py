"""The public groups of a survey's rows, such as the languages of an arena: configuration, too."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.transforms.common.schema import by_distinct, is_text, to_numpy, to_text

OUTSIDE = -1  # group of a row whose group is not listed, where such rows are set aside
UNLISTED_GROUP = "group is not one of groups.values"
MOST_GROUPS = 255  # of comparisons: a row's group takes 8 bits beside its items, others one more
MOST_PRECINCTS = 20_000  # of rankings: a code has 16 bits

GroupCodes = NDArray[np.int16]


@dataclass(frozen=True)
class Groups:
    """The groups that rows may name in one column; a group's code is its position.

    Attributes:
        names: names of the groups that have a ranking of their own.
        others: whether rows of no listed group, or without one, count as well, in one more cell of
            their own that is part of the whole only.

    Raises:
        ValueError: no name, too many, an empty one, one that occurs twice, or one group in all.
    """

    names: tuple[str, ...]
    others: bool = False

    def __post_init__(self) -> None:
        bare = [name.strip() for name in self.names]
        if not bare or not all(bare):
            raise ValueError("every group needs a name")
        if len(bare) > MOST_PRECINCTS:
            raise ValueError(f"at most {MOST_PRECINCTS:,} groups can be counted, got {len(bare):,}")
        if len(set(bare)) < len(bare):
            twice = next(name for name in bare if bare.count(name) > 1)
            raise ValueError(f"group {twice} occurs {bare.count(twice)} times; name it once")
        if len(self) < 2:
            raise ValueError("one group is the whole; name two, or let other rows count as well")

    def __len__(self) -> int:
        """Cells of groups: one for each name, and one for all others where these count."""
        return len(self.names) + self.others

    def codes(self, column: pa.Array) -> GroupCodes:
        """Code of each row's group, shape (m,).

        Names are compared as they are written, but for blanks around them. A group that is not
        listed, or missing, has the last code where others count, else `OUTSIDE`.
        """
        return by_distinct(column, self._codes, self._unlisted)

    def _codes(self, values: pa.Array) -> GroupCodes:
        texts = to_text(values) if is_text(values.type) else values.cast(pa.large_string())
        found = to_numpy(pc.fill_null(pc.index_in(texts, self._texts, skip_nulls=True), -1))
        return np.where(found < 0, self._unlisted, found).astype(np.int16)

    @property
    def _unlisted(self) -> np.int16:
        return np.int16(len(self.names) if self.others else OUTSIDE)

    @cached_property
    def _texts(self) -> pa.Array:
        return pa.array([name.strip() for name in self.names], pa.large_string())
