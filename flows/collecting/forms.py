"""The form in which private answers are kept: records of one width, and the columns of a part."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Records = NDArray[np.void]
NO_ITEM = 2**32 - 1  # fills the places of a ranking that is shorter than the longest one
NO_OUTCOME = -128  # stands beside it


class Role(StrEnum):
    """What a column of a part holds, and how wide it is in a record."""

    ITEM = "item"  # its place in the catalogue
    OUTCOME = "outcome"
    EPSILON = "epsilon"
    LENGTH = "length"
    RANKING = "ranking"  # places in the catalogue, best first
    USER = "user"  # a random number of one batch, where its answers share an epsilon


_WIDTHS: dict[Role, str] = {
    Role.ITEM: "<u4",
    Role.OUTCOME: "i1",
    Role.EPSILON: "<f8",
    Role.LENGTH: "<u2",
    Role.RANKING: "<u4",
    Role.USER: "<i8",
}


@dataclass(frozen=True)
class RowForm:
    """The columns of a part, in their order.

    Attributes:
        columns: name and role of each.
        items: names of the catalogue, in its order.
        longest: the most items of a ranking; only a column of rankings needs it.
        survey: name of the survey that the rows belong to; empty: an older version wrote them.
    """

    columns: tuple[tuple[str, Role], ...]
    items: tuple[str, ...]
    longest: int = 0
    survey: str = ""

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """A record: the columns side by side, without gaps."""
        return np.dtype(
            [
                (name, _WIDTHS[role], (self.longest,)) if role is Role.RANKING
                else (name, _WIDTHS[role])
                for name, role in self.columns
            ]
        )  # fmt: skip

    def records(self, rows: bytes) -> Records:
        """The records that `rows` holds, one after the other."""
        return np.frombuffer(rows, self.dtype)

    def table(self, records: Records) -> pa.Table:
        """The rows of a part, with items by name."""
        return pa.table({name: self._column(records[name], role) for name, role in self.columns})

    def _column(self, values: NDArray[Any], role: Role) -> pa.Array:
        names = pa.array(self.items, pa.string())
        if role is Role.ITEM:
            return names.take(pa.array(values, mask=values == NO_ITEM))
        if role is Role.OUTCOME:
            return pa.array(values, mask=values == NO_OUTCOME)
        if role is not Role.RANKING:
            return pa.array(values)
        there = values != NO_ITEM
        ends = np.concatenate([[0], there.sum(axis=1).cumsum()])
        return pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), names.take(pa.array(values[there]))
        )

    def content(self) -> dict[str, Any]:
        """All of it, for the head of a journal."""
        return {
            "columns": self.columns,
            "items": self.items,
            "longest": self.longest,
            "survey": self.survey,
        }

    @classmethod
    def of(cls, content: dict[str, Any]) -> RowForm:
        """What `content` gave, after it was JSON.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        columns = tuple((str(name), Role(role)) for name, role in content["columns"])
        items, survey = tuple(map(str, content["items"])), str(content.get("survey", ""))
        return cls(columns, items, int(content["longest"]), survey)
