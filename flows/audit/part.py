"""What an audit looks at: outputs of a mechanism on inputs of which some are adjacent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.flows.methods.base import Arrays, ReductionJob
from hushrank.privacy.audit import Rows, Statistic
from hushrank.privacy.units import NoiseKind
from hushrank.transforms.storage.files import InputFile, list_files

Reduce = Callable[[ReductionJob], None]
Columns = Mapping[str, object]  # name -> the values of that column


class Source(Protocol):
    """Draws outputs; it is sent to the processes that draw."""

    @property
    def block(self) -> int:
        """How many outputs it draws at once at least."""
        ...

    def outputs(self, side: int, runs: int) -> Rows:
        """At least `runs` independent outputs on one of its inputs, shape (runs, d)."""
        ...

    def statistics(self, left: int, right: int) -> dict[str, Statistic]:
        """Functions of outputs that may tell these two inputs apart, by name."""
        ...

    def ratio(self, left: int, right: int) -> Statistic | None:
        """Logarithm of the likelihood ratio of two inputs, where it is known."""
        ...


class Untold:
    """A source that knows no statistic of its own."""

    def statistics(self, left: int, right: int) -> dict[str, Statistic]:
        """None."""
        return {}

    def ratio(self, left: int, right: int) -> Statistic | None:
        """Not known."""
        return None


@dataclass(frozen=True, kw_only=True)
class Part:
    """One promise, and inputs between which it is tried.

    Attributes:
        what: the promise, in words.
        source: what draws.
        sides: what the person who changes does in each input, in words.
        pairs: which of them are adjacent.
        epsilon, delta: what is stated of every such pair.
        law: family of the noise, where it is added to counts that are released; else None.
        centres: the output on each side without that noise, shape (d,); empty if it is no such sum.
        apart: how far the sides of each pair are apart, where that is known; else empty.
    """

    what: str
    source: Source
    sides: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    epsilon: float
    delta: float = 0.0
    law: NoiseKind | None = None
    centres: tuple[Rows, ...] = ()
    apart: tuple[float, ...] = ()


def as_row(arrays: Arrays) -> Rows:
    """One output as one row: all numbers, by the names of the arrays."""
    return np.concatenate([np.ravel(arrays[name]).astype(np.float64) for name in sorted(arrays)])


def written(path: Path, columns: Columns) -> tuple[InputFile, ...]:
    """The rows as a file of Parquet, the way a run finds it."""
    pq.write_table(pa.table(dict(columns)), path)
    return tuple(list_files([str(path)]))
