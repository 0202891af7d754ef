"""The rules between the other sections of a job and `schedule.stream`, or `groups`."""

from __future__ import annotations

from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.method import Methods, Problems, Sections
from hushrank.flows.config.privacy import PrivacyConfig
from hushrank.flows.config.schedule import NightlyBudget, selects_nights
from hushrank.flows.config.stream import StreamConfig
from hushrank.privacy.units import Bounding, NoiseKind, Unit

STREAM = "schedule.stream"


def problems_of_stream(config: Sections, methods: Methods) -> Problems:
    """Key and text of the rules that a stream and other sections break together."""
    own = methods[config.method]
    if config.schedule.stream is None:
        return
    if not own.streams:
        suitable = " or ".join(name for name, each in methods.items() if each.streams)
        yield STREAM, f"is for method: {suitable}, got {own.name}; change one of the two"
        return
    yield from _problems_of_nights(config)
    yield from _problems_of_its_guarantee(config.privacy, config.schedule.stream)


def _problems_of_nights(config: Sections) -> Problems:
    if not selects_nights(config.input.paths, config.schedule):
        yield (
            STREAM,
            "needs nights: write {date} into input.paths, or set schedule.partition or"
            " schedule.window",
        )
    if config.schedule.budget is NightlyBudget.PER_MONTH:
        yield (
            "schedule.budget",
            "must be per-night with schedule.stream, of which section privacy pays all nights;"
            " remove this line",
        )


def _problems_of_its_guarantee(privacy: PrivacyConfig, stream: StreamConfig) -> Problems:
    if privacy.unit is not Unit.USER:
        yield (
            STREAM,
            "protects a person on all nights together, so it needs privacy.unit: user, got"
            f" {privacy.unit}; set that, or remove stream",
        )
    if privacy.look is not None:
        yield (
            "privacy.look",
            "not with schedule.stream: a look takes epsilon every night, and the nights of a stream"
            " are paid for once; remove it",
        )
    if privacy.public_graph:
        yield (
            "privacy.public_graph",
            "not with schedule.stream: on which nights a person's rows count would show in who"
            " compared what; remove one of the two",
        )
    if privacy.bounding is Bounding.WEIGHTS or privacy.max_weight is not None:
        yield (
            STREAM,
            "not with weights of rows (privacy.bounding, input.columns.weight), of which every"
            " night would have to release the sum of squares too; remove one of the two",
        )
    if not privacy.private:
        yield "privacy.epsilon", "must be finite with schedule.stream"
    if privacy.noise is NoiseKind.LAPLACE and stream.bands not in (None, 1):
        yield (
            f"{STREAM}.bands",
            f"must be 1 with noise: laplace, got {stream.bands}; remove it, or set noise: gaussian",
        )


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
