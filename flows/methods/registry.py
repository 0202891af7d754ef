"""Which methods there are: a module in the folder of a family names its own in `METHODS`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import hushrank.flows.methods
from hushrank.estimation.common.pilot_query import calibrate_look
from hushrank.flows.config.method import Methods
from hushrank.flows.config.survey import SurveyConfig, check_config
from hushrank.flows.config.yaml_file import read_yaml
from hushrank.flows.methods.base import Calibrated, Method
from hushrank.privacy.units import Unit

KINDS = ("comparisons", "responses", "rankings")


def methods_in(folders: Iterable[str], package: str) -> Iterator[Method]:
    """The methods that modules in the folders of `package` name, and those in folders there."""
    for module in walk_packages(folders, f"{package}."):
        if module.name != __name__:
            yield from getattr(import_module(module.name), "METHODS", ())


def _place(method: Method) -> tuple[int, bool, bool]:
    """Where people are told of it: by kind of input, noise after counting first, baselines last."""
    facts = method.facts
    return KINDS.index(facts.kind), facts.local, facts.baseline


METHODS: dict[str, Method] = {
    method.facts.name: method
    for method in sorted(
        methods_in(hushrank.flows.methods.__path__, hushrank.flows.methods.__name__), key=_place
    )
}


def facts_of_methods() -> Methods:
    """What each method says of itself, by name."""
    return {name: method.facts for name, method in METHODS.items()}


def load_config(path: Path) -> SurveyConfig:
    """The job that the YAML file at `path` describes.

    Raises:
        ConfigError: the file or one of its values breaks a rule; one line for each problem found.
    """
    return check_config(path, read_yaml(path), facts_of_methods())


def calibrate(config: SurveyConfig) -> Calibrated:
    """Which method draws, and what it draws by: once a release, before anything is spent.

    Raises:
        ConfigError: the configuration does not suit its method; a line for each problem found.
    """
    chosen = METHODS[config.method].resolve(config)
    mechanism, local = chosen.mechanism, config.privacy.unit is Unit.LOCAL
    if mechanism is None:
        mechanism = chosen.method.calibrate(config)
    return Calibrated(chosen, mechanism, None if local else calibrate_look(config.privacy.params()))
