"""The `spectral` section: the public graph on which method `spectral` compares items."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from hushrank.flows.config.section import Section


class GraphKind(StrEnum):
    """Which pairs of items are compared."""

    DENSE = "dense"  # all of them
    SPARSE = "sparse"  # an Erdős–Rényi graph, drawn without looking at an answer


class SpectralConfig(Section):
    """Settings of the methods `spectral` and `spectral-rr`.

    Attributes:
        graph: which pairs of items are compared: all (`dense`), or an Erdős–Rényi graph that is
            drawn without looking at an answer (`sparse`).
        debiased: of `spectral-rr`: undo the flips; false is the paper's baseline.
        edge_probability: of a sparse graph; by default log(m) / m for m items.
    """

    graph: Annotated[GraphKind, Field(strict=False)] = GraphKind.DENSE
    debiased: bool = True
    edge_probability: float | None = Field(default=None, ge=1e-9, le=1, examples=["0.1"])

    def _problems(self) -> Iterable[tuple[str, str]]:
        if self.edge_probability is not None and self.graph is GraphKind.DENSE:
            yield "edge_probability", "is for graph: sparse; remove it, or set graph: sparse"
