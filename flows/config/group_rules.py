"""Rules between the `groups` section of a job and the others."""

from __future__ import annotations

from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.method import Methods, Problems, Sections
from hushrank.privacy.units import Bounding


def problems_of_groups(config: Sections, methods: Methods) -> Problems:
    """Jobs in which rows cannot be ranked by group."""
    groups = config.groups
    if groups is None:
        return
    if not isinstance(config.input, InputConfig):
        yield "groups", "is for input.kind: comparisons; remove it"
        return
    if not methods[config.method].uses("groups"):
        able = " or ".join(name for name, each in methods.items() if each.uses("groups"))
        yield (
            "groups",
            "needs a method that releases counts, from which every group is ranked at one"
            f" epsilon: write method: {able}; or remove it",
        )
    if config.privacy.public_graph:
        yield (
            "groups",
            "not with privacy.public_graph: true, which would release how often each group compared"
            " what; remove one of them",
        )
    for role, column in config.input.columns.model_dump(exclude_none=True).items():
        if column == groups.column:
            yield "groups.column", f"{column} is input.columns.{role} already; name another"
    if config.schedule.stream is not None:
        yield (
            "groups",
            "not with schedule.stream, which ranks all rows together; remove one of them",
        )
    if config.input.columns.weight is not None or config.privacy.bounding is Bounding.WEIGHTS:
        yield (
            "groups",
            "not with input.columns.weight, nor with privacy.bounding: weights; remove one of them",
        )
