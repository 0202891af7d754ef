"""Registry of methods: a module in the folder of a family names its own in `METHODS`.

Method `auto`, which chooses among those of a family, is of no family and stands here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules, walk_packages

import hushrank.flows.methods
from hushrank.estimation.common.central_noise import calibrate_look
from hushrank.flows.config.check import check_config
from hushrank.flows.config.method import MethodFacts, Methods, Problems, Sections
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.row_rules import ASKED, TIE_MODEL
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.config.yaml_file import read_yaml
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import Calibrated, Choice, Method
from hushrank.privacy.units import Unit


def _rules_of_auto(config: Sections) -> Problems:
    if isinstance(config.input, ResponsesConfig):
        from hushrank.flows.methods.responses.least_noise import problems_of_tests

        yield from problems_of_tests(config)


class Auto(Method):
    """The method of least noise that is right for the stated design.

    It follows from public facts: the design, the catalogue, epsilon and the bounds. Each family
    chooses among its own methods (`counts.least_noise`, `responses.least_noise`); only the one that
    is asked is imported.
    """

    facts = MethodFacts(
        name="auto",
        summary="the method of least noise that suits the stated design, by public facts alone",
        kind="comparisons",
        also=("responses",),
        units=(Unit.USER, Unit.COMPARISON),
        rules=_rules_of_auto,
        reads=(
            "groups",
            "model.anchors",
            "model.bands",
            "model.link",
            "model.exposures",
            "model.expected_comparisons",
            "privacy.public_graph",
            "input.columns.weight",
            "input.features",
            TIE_MODEL,
            ASKED,
        ),
    )

    def resolve(self, config: SurveyConfig) -> Choice:
        """The candidate of least noise, and why.

        Raises:
            ConfigError: no candidate suits the configuration.
        """
        if isinstance(config.input, ResponsesConfig):
            from hushrank.flows.methods.responses import least_noise as tests

            return tests.of_least_noise(config)
        from hushrank.flows.methods.counts import least_noise as comparisons

        return comparisons.of_least_noise(config)


KINDS = ("comparisons", "responses", "rankings")
ROOM = hushrank.flows.methods.__name__


def methods_in(folders: Iterable[str], package: str) -> Iterator[Method]:
    """The methods that modules in the folders of `package` name, and those in folders there."""
    for module in walk_packages(folders, f"{package}."):
        yield from getattr(import_module(module.name), "METHODS", ())


def _place(method: Method) -> tuple[int, bool, bool]:
    """Place of a method in lists: by kind of input, noise after counting first, baselines last."""
    facts = method.facts
    return KINDS.index(facts.kind), facts.local, facts.baseline


class _Found(MutableMapping[str, Method]):
    """Methods by name. A family is imported when a job of its kind, or all methods, are asked for.

    A family is a folder of this room, whose `KIND` says what its methods rank; `LOCAL` says that
    all of them are for answers that are privatised before they are counted.
    """

    def __init__(self) -> None:
        self._found: dict[str, Method] = {}
        self._waiting: list[str] | None = None  # families; None: this room was not looked into yet

    def of(self, kind: str | None, *, local: bool = True) -> list[Method]:
        """Return all methods imported by now: at least those of a kind of input; None: of all.

        Args:
            kind: the kind of input.
            local: if False, families are left out that are for unit `local` alone.
        """
        if self._waiting is None:
            modules = iter_modules(hushrank.flows.methods.__path__, f"{ROOM}.")
            self._waiting = [each.name for each in modules if each.ispkg]
            self._add((Auto(),))
        for name in tuple(self._waiting):
            family = import_module(name)
            wanted = local or not getattr(family, "LOCAL", False)
            if kind is None or (kind == family.KIND and wanted):
                self._waiting.remove(name)
                self._add(methods_in(family.__path__, name))
        return list(self._found.values())

    def _add(self, methods: Iterable[Method]) -> None:
        self._found |= {method.facts.name: method for method in methods}

    def __getitem__(self, name: str) -> Method:
        for kind in KINDS:
            if name not in self._found:
                self.of(kind)
        return self._found[name]

    def __setitem__(self, name: str, method: Method) -> None:
        self._found[name] = method

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        return (method.facts.name for method in sorted(self.of(None), key=_place))

    def __len__(self) -> int:
        return len(self.of(None))


METHODS = _Found()


def facts_of_methods(kind: str | None = None, *, local: bool = True) -> Methods:
    """Return each method's facts by name: at least those that `METHODS.of` finds."""
    found = sorted(METHODS.of(kind, local=local), key=_place)
    return {method.facts.name: method.facts for method in found}


def load_config(path: Path) -> SurveyConfig:
    """The job that the YAML file at `path` describes.

    Raises:
        ConfigError: the file or one of its values breaks a rule; one line for each problem found.
    """
    return check_job(path, read_yaml(path))


def check_job(
    path: Path, content: Mapping[object, object], base: Path | None = None
) -> SurveyConfig:
    """The job of these keys, as `check_config` has it, with the methods that exist.

    Only the methods of its kind and unit are imported, unless something is wrong: messages name
    methods of every kind.

    Raises:
        ConfigError: a value breaks a rule; one line for each problem found.
    """
    rows, privacy = content.get("input"), content.get("privacy")
    kind = rows.get("kind") if isinstance(rows, Mapping) else None
    local = not isinstance(privacy, Mapping) or privacy.get("unit") == Unit.LOCAL
    if kind in KINDS:
        try:
            return check_config(path, content, facts_of_methods(kind, local=local), base)
        except ConfigError:
            pass
    return check_config(path, content, facts_of_methods(), base)


def calibrate(config: SurveyConfig) -> Calibrated:
    """Choose and calibrate the method that draws: once a release, before anything is spent.

    Raises:
        ConfigError: the configuration does not suit its method; a line for each problem found.
    """
    chosen = METHODS[config.method].resolve(config)
    mechanism, local = chosen.mechanism, config.privacy.unit is Unit.LOCAL
    if mechanism is None:
        mechanism = chosen.method.calibrate(config)
    if local:
        return Calibrated(chosen, mechanism)
    params = config.privacy.params()
    with _told_as("look"):
        look = calibrate_look(params)
    if params.counts is None:
        return Calibrated(chosen, mechanism, look)
    from hushrank.estimation.common.private_counts import calibrate_counts

    with _told_as("counts"):
        return Calibrated(chosen, mechanism, look, calibrate_counts(params))


@contextmanager
def _told_as(key: str) -> Iterator[None]:
    """Name the part of a budget that is too small for noise that a count can hold."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"privacy.{key}: {error}; raise its share, or epsilon") from None
