"""What a ranking method says of itself to the configuration and to the pages that name it.

This room knows no method. Whoever checks a configuration hands over a table of them
(`flows.methods.registry`), so that there is no configuration whose method was not looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import ValidationInfo
from pydantic_core import PydanticCustomError

from hushrank.flows.config.comparisons import Design, InputConfig
from hushrank.flows.config.items import ItemsConfig
from hushrank.flows.config.ledger import LedgerConfig
from hushrank.flows.config.model import ModelConfig, ReportConfig, SpectralConfig
from hushrank.flows.config.observability import ObservabilityConfig
from hushrank.flows.config.privacy import PrivacyConfig
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.runner import RunnerConfig
from hushrank.flows.config.schedule import ScheduleConfig
from hushrank.privacy.units import Unit
from hushrank.transforms.storage.cloud_storage import Place

METHODS = "methods"  # where validators find the table, in the context of a validation


class Sections(Protocol):
    """The sections that rules look at: `config.survey.SurveyConfig`, which is made of them."""

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
    def confidential(self) -> Place: ...
    @property
    def ledger(self) -> LedgerConfig: ...
    @property
    def schedule(self) -> ScheduleConfig: ...
    @property
    def observability(self) -> ObservabilityConfig: ...
    @property
    def runner(self) -> RunnerConfig: ...


Problems = Iterable[tuple[str, str]]  # key from the root of the file, and the rule that it breaks


def _no_rules(config: Sections) -> Problems:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodFacts:
    """One method, for whoever does not run it.

    Attributes:
        name: in the YAML file, and in releases.
        summary: what it does, for the table of methods in the reference.
        kind: of the input that it ranks.
        units: that it protects; a method of unit `local` takes no other one.
        reads: dotted keys that have an effect with some methods only, and with this one: of
            `model`, `spectral` and `privacy.public_graph`. Others of these are refused with it.
        requires: keys that it reads and cannot do without, and what is said where one is missing.
        logistic: its scores are those of a logistic link, whatever the configuration says.
        chooses_link: `model.link` may be `auto`.
        design: the only design that it takes; None: several.
        baseline: it is there for comparison; a better method does the same.
        rules: what else a configuration of its kind of input breaks with this method.
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
    rules: Callable[[Sections], Problems] = _no_rules

    @property
    def linked(self) -> bool:
        """Whether its scores have a link that the configuration names."""
        return "model.link" in self.reads

    @property
    def local(self) -> bool:
        """Whether answers are privatised one by one, before they are counted."""
        return Unit.LOCAL in self.units

    def uses(self, key: str) -> bool:
        """Whether a key that not every method reads has an effect with this one."""
        return key in self.reads or key in self.requires


Methods = Mapping[str, MethodFacts]  # by name, in the order in which people are told of them


def methods_of(info: ValidationInfo) -> Methods:
    """The table that was handed to a validation.

    Raises:
        LookupError: none was, which is a mistake of the program.
    """
    methods: Methods | None = (info.context or {}).get(METHODS)
    if methods is None:
        raise LookupError("a configuration is checked against a table of methods: check_config")
    return methods


def known_method(name: Any, info: ValidationInfo) -> str:
    """`name`, if a method has it; else pydantic's error for a value that is not in a list."""
    methods = methods_of(info)
    if isinstance(name, str) and name in methods:
        return name
    *others, last = map(repr, methods)
    expected = f"{', '.join(others)} or {last}" if others else last
    raise PydanticCustomError("enum", "Input should be {expected}", {"expected": expected})
