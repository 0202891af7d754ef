"""What a ranking method tells the configuration, and the pages that name it.

This room knows no method. The caller that checks a configuration passes a table of methods
(`flows.methods.registry`), so every checked configuration has a known method.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import ValidationInfo
from pydantic_core import PydanticCustomError

from hushrank.flows.config.comparisons import Design, GroupsConfig, InputConfig
from hushrank.flows.config.items import ItemsConfig
from hushrank.flows.config.model import ModelConfig, ReportConfig, SpectralConfig
from hushrank.flows.config.privacy import LedgerConfig, PrivacyConfig
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.runner import ObservabilityConfig, RunnerConfig
from hushrank.flows.config.schedule import ScheduleConfig
from hushrank.privacy.units import Unit
from hushrank.transforms.storage.cloud_storage import Place

METHODS = "methods"  # key of the table in the validation context


class Sections(Protocol):
    """The sections that rules look at; `config.survey.SurveyConfig` has them."""

    @property
    def name(self) -> str: ...
    @property
    def input(self) -> InputConfig | ResponsesConfig | RankingsConfig: ...
    @property
    def comparisons(self) -> InputConfig: ...
    @property
    def rankings(self) -> RankingsConfig: ...
    @property
    def items(self) -> ItemsConfig: ...
    @property
    def groups(self) -> GroupsConfig | None: ...
    @property
    def privacy(self) -> PrivacyConfig: ...
    @property
    def method(self) -> str: ...
    @property
    def model(self) -> ModelConfig: ...
    @property
    def spectral(self) -> SpectralConfig | None: ...
    @property
    def top_k(self) -> int | None: ...
    @property
    def report(self) -> ReportConfig: ...
    @property
    def output(self) -> Place: ...
    @property
    def supersedes(self) -> tuple[Place, ...]: ...
    @property
    def confidential(self) -> Place: ...
    @property
    def ledger(self) -> LedgerConfig: ...
    @property
    def schedule(self) -> ScheduleConfig: ...
    @property
    def observability(self) -> ObservabilityConfig: ...
    @property
    def runner(self) -> RunnerConfig: ...


Problems = Iterable[tuple[str, str]]  # key from the root of the file, and the broken rule


def _no_rules(config: Sections) -> Problems:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodFacts:
    """Facts about one method, for callers that do not run it.

    Attributes:
        name: its name in the YAML file, and in releases.
        summary: what it does, for the table of methods in the reference.
        kind: the kind of input that it ranks.
        units: the units that it protects.
        reads: dotted keys that only some methods use and that this one uses, among `groups`,
            `model`, `spectral`, `privacy.public_graph` and `input.features`. The other such keys
            are refused with it.
        requires: keys that it cannot do without, each with the message if the key is missing.
        logistic: whether its scores always are those of a logistic link.
        chooses_link: whether `model.link` may be `auto`.
        design: the only design that it takes; None: several.
        baseline: whether it is only there for comparison, because a better method does the same.
        streams: whether one budget can pay for many nights of it (`schedule.stream`).
        rules: further rules that a configuration with this method must keep.
    """

    name: str
    summary: str
    kind: str
    units: tuple[Unit, ...]
    reads: Collection[str] = ()
    requires: Mapping[str, str] = field(default_factory=dict)
    logistic: bool = False
    chooses_link: bool = False
    design: Design | None = None
    baseline: bool = False
    streams: bool = False
    rules: Callable[[Sections], Problems] = _no_rules

    @property
    def linked(self) -> bool:
        """Whether its scores have a link that the configuration names."""
        return "model.link" in self.reads

    @property
    def local(self) -> bool:
        """Whether answers always are privatised one by one, before they are counted."""
        return set(self.units) == {Unit.LOCAL}

    def uses(self, key: str) -> bool:
        """Whether this method uses a key that not every method uses."""
        return key in self.reads or key in self.requires


Methods = Mapping[str, MethodFacts]  # by name, in the order of the pages


def methods_of(info: ValidationInfo) -> Methods:
    """The table that the caller passed to a validation.

    Raises:
        LookupError: no table was passed, which is a fault in the program.
    """
    methods: Methods | None = (info.context or {}).get(METHODS)
    if methods is None:
        raise LookupError("a configuration is checked against a table of methods: check_config")
    return methods


def known_method(name: Any, info: ValidationInfo) -> str:
    """`name`, if a method has it; else pydantic's error for a value outside a list."""
    methods = methods_of(info)
    if isinstance(name, str) and name in methods:
        return name
    *others, last = map(repr, methods)
    expected = f"{', '.join(others)} or {last}" if others else last
    raise PydanticCustomError("enum", "Input should be {expected}", {"expected": expected})
