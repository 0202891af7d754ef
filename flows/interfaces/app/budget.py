"""Epsilon and the bound on answers: what they would give, what they cost, and how they are set.

All numbers are those of `hushrank plan`: the same simulated surveys of the same public settings.
Nothing is read but the YAML file and the ledger. Epsilon and the bound are changed in the YAML file
where they stand; every other character of it stays.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import yaml

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError, HushrankError
from hushrank.flows.interfaces.app.folder import CHANGED, Folder, digest_of, text_at
from hushrank.flows.interfaces.app.proposals import Proposals
from hushrank.flows.interfaces.documents.runs import Budget
from hushrank.flows.ledger.texts import left_text
from hushrank.flows.planning.plan.display import two_digits
from hushrank.flows.planning.plan.plan import EPSILONS, PlanRequest, accuracy_plot, world_to_plan
from hushrank.flows.planning.plan.survey import (
    Setting,
    accuracy_of,
    answers_of,
    plan_config,
    predicted,
    scores_are_shares,
)
from hushrank.flows.planning.plan.world import Accuracy, World
from hushrank.flows.planning.propose.names import CHOOSE
from hushrank.flows.planning.propose.proposal import MARKED
from hushrank.flows.release.scale import Scale
from hushrank.flows.run.context import ledger_of
from hushrank.flows.run.job import inputs_of
from hushrank.flows.statement.sentences import chance_to_guess
from hushrank.privacy.units import Unit
from hushrank.transforms.storage.places import write_whole

STOPS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)  # of the slider of epsilon
MOST_ANSWERS = 30  # of the slider of answers a person
PATHS = {"epsilon": ("privacy", "epsilon"), "answers": ("privacy", "max_contributions")}
BY_HAND = (
    "{}: {} is not set in this file as one number, so the page does not change it. Change it there"
)


@dataclass(frozen=True)
class Budgets:
    """Predictions for the jobs of a folder; each setting is simulated once.

    Attributes:
        folder: the folder, in which this process works.
        proposals: checks a YAML file before it is written.
    """

    folder: Folder
    proposals: Proposals
    _found: dict[tuple[str, Setting], Accuracy] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _ahead: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "ahead"))
    _waiting: list[Future[None]] = field(default_factory=list)

    def state(self, name: str) -> dict[str, Any]:
        """Say what the YAML file sets, and what is left of the budget.

        Raises:
            HushrankError: the file or the ledger breaks a rule.
        """
        path = self._path(name)
        text = text_at(path)
        config = plan_config(path)
        balance = ledger_of(config).balance(inputs_of(config, make_key=False))
        budget = Budget.of(balance)
        return {
            "survey": name,
            "digest": digest_of(text),
            "population": config.name,
            "kind": config.input.kind,
            "unit": config.privacy.unit.value,
            "items": len(config.items.catalogue.names),
            "epsilon": number_at(text, PATHS["epsilon"]),
            "answers": number_at(text, PATHS["answers"]),
            "stops": STOPS,
            "most_answers": MOST_ANSWERS,
            "budget": budget.model_dump(mode="json"),
            "left": f"{left_text(budget.left)} of {left_text(budget.epsilon)}",
        }

    def expected(
        self, name: str, people: int, epsilon: float, answers: int | None
    ) -> dict[str, Any]:
        """Predict the error of a typical score by the formula of `hushrank plan`, at once.

        Raises:
            ConfigError: as for `predicted`.
        """
        config, world = self._world(name, people, answers)
        setting = self._setting(config, people, epsilon, answers)
        error = predicted(config, setting, world)
        said = []
        if error is not None and config.input.kind == "comparisons":
            off = _off_by(error, percent=scores_are_shares(config, setting, world))
            said.append(
                f"Rough estimate by a formula: a typical score is off by {off}. Simulated surveys"
                " follow."
            )
        return {"formula": error, "says": [*said, protection(config, epsilon)]}

    def predicted(
        self, name: str, people: int, epsilon: float, answers: int | None
    ) -> dict[str, Any]:
        """Predict the accuracy of one setting, as `hushrank plan` does, and say it in words.

        Raises:
            ConfigError: a number is out of range, or the job cannot be planned.
        """
        config, world = self._world(name, people, answers)
        setting = self._setting(config, people, epsilon, answers)
        found = self._accuracy(name, config, world, setting)
        others = (self._setting(config, people, each, answers) for each in STOPS)
        self._predict_ahead(name, config, world, [*others])
        return {
            "epsilon": epsilon,
            "people": people,
            "answers": setting.answers,
            "best_first": _known(found.top),
            "order": _known(found.order),
            "error": _known(found.error),
            "rank_width": _known(found.width),
            "informative": found.informative,
            "items": len(config.items.catalogue.names),
            "says": [*_sentences(config, found), protection(config, epsilon)],
        }

    def close(self) -> None:
        """Give up what is predicted ahead."""
        self._ahead.shutdown(wait=False, cancel_futures=True)

    def picture(
        self, name: str, people: int, epsilon: float, answers: int | None, *, at_once: bool
    ) -> bytes:
        """Draw the picture of `hushrank plan`: accuracy against epsilon, as SVG.

        Args:
            name, people, epsilon, answers: as for `predicted`.
            at_once: draw the formula, and of simulated surveys only what is known already.

        Raises:
            ConfigError: as for `predicted`; or nothing is known yet.
        """
        config, world = self._world(name, people, answers)
        settings = [
            self._setting(config, people, each, answers) for each in sorted({*EPSILONS, epsilon})
        ]
        accuracy = self._known_accuracy if at_once else self._accuracy
        tried = [(each, accuracy(name, config, world, each)) for each in settings]
        formula = [predicted(config, each, world) for each in settings]
        return accuracy_plot(config.name, {config.method: tried}, formula, ".svg")

    def set(self, name: str, digest: str, epsilon: float, answers: int | None) -> str:
        """Write epsilon and the bound into the YAML file; return its new digest.

        Args:
            name: name of the file.
            digest: of the content that the page showed.
            epsilon: privacy loss.
            answers: most answers of a person; None: as the file has it.

        Raises:
            ConfigError: somebody changed the file, a value is not one number there, or the job
                breaks a rule; nothing was written.
        """
        path = self._path(name)
        text = text_at(path)
        if digest_of(text) != digest:
            raise ConfigError(CHANGED.format(name))
        values = {"epsilon": f"{epsilon:g}"} | (
            {} if answers is None else {"answers": f"{answers}"}
        )
        for key, value in values.items():
            if number_at(text, PATHS[key]) != float(value):
                text = _with_number(text, name, PATHS[key], value)
        self.proposals.check(text, path)
        write_whole(str(path), text.encode())
        return digest_of(text)

    def _path(self, name: str) -> Path:
        self.folder.survey(name)
        return Path(name)  # relative, as messages name it

    def _world(self, name: str, people: int, answers: int | None) -> tuple[SurveyConfig, World]:
        config = plan_config(self._path(name))
        return config, world_to_plan(
            config,
            PlanRequest(people=(people,), answers=() if answers is None else (answers,)),
            World(),
        )

    def _setting(
        self, config: SurveyConfig, people: int, epsilon: float, answers: int | None
    ) -> Setting:
        method, most = config.method, answers_of(config, answers)
        return Setting(method=method, epsilon=epsilon, people=people, answers=most)

    def _predict_ahead(
        self, name: str, config: SurveyConfig, world: World, settings: Sequence[Setting]
    ) -> None:
        """Simulate the other stops of the slider before they are asked for.

        What was waiting for another number of people or answers is given up.
        """
        for each in self._waiting:
            each.cancel()
        self._waiting[:] = [
            self._ahead.submit(self._accuracy_ahead, name, config, world, each) for each in settings
        ]

    def _accuracy_ahead(
        self, name: str, config: SurveyConfig, world: World, setting: Setting
    ) -> None:
        with contextlib.suppress(HushrankError):  # whoever asks for it is told
            self._accuracy(name, config, world, setting)

    def _accuracy(
        self, name: str, config: SurveyConfig, world: World, setting: Setting
    ) -> Accuracy:
        """Simulate a setting, one at a time, unless that was done before for this job."""
        key = _key(name, config, setting)
        with self._lock:
            if key not in self._found:
                self._found[key] = accuracy_of(config, setting, world)
            return self._found[key]

    def _known_accuracy(
        self, name: str, config: SurveyConfig, world: World, setting: Setting
    ) -> Accuracy:
        """Return what was simulated for a setting before; else NaN in place of each number."""
        found = self._found.get(_key(name, config, setting))
        if found is not None:
            return found
        pairs = config.input.kind == "comparisons"
        percent = pairs and scores_are_shares(config, setting, world)
        return Accuracy(
            top=math.nan,
            best=math.nan,
            order=math.nan,
            error=math.nan,
            largest=math.nan,
            width=math.nan,
            equal=math.nan,
            largest_equal=math.nan,
            informative=math.nan,
            spread={"top": math.nan},
            scale=Scale.WIN_SHARE if percent else Scale.LOG_ODDS,
        )


def _key(name: str, config: SurveyConfig, setting: Setting) -> tuple[str, Setting]:
    return f"{name} {config.job_hashes[0]}", setting


def protection(config: SurveyConfig, epsilon: float) -> str:
    """Say what epsilon means for a person, to somebody who never heard of it."""
    chance = chance_to_guess(epsilon, config.privacy.delta or 0)
    whose = "one answer" if config.privacy.unit is not Unit.USER else "one person's answers"
    return (
        f"Protection: somebody who knows everything but {whose}, and must say which of two equally"
        f" likely possibilities is true, is right at most {chance:g} % of the time after seeing"
        " this release, in place of 50 %."
    )


def _sentences(config: SurveyConfig, found: Accuracy) -> list[str]:
    """Say a prediction in words; numbers that are not known are left out."""
    items = len(config.items.catalogue.names)
    percent = found.scale is Scale.WIN_SHARE
    said = []
    if not math.isnan(found.order):
        said.append(f"{100 * found.order:.0f} % of all pairs of items come out in the right order.")
    if not math.isnan(found.top):
        said.append(f"The best item comes out first in {100 * found.top:.0f} % of such surveys.")
    if not math.isnan(found.width):
        said.append(
            f"A rank is known within {found.width:.1f} places of {items}, on average, by 95 %"
            " intervals."
        )
    if math.isfinite(found.error) and found.error < found.equal:
        said.append(f"A typical score is off by {_off_by(found.error, percent=percent)}.")
    elif not math.isnan(found.error):
        said.append("Scores are off by more than if all items were called equal.")
    if found.informative < 1:
        said.append(
            f"In {100 * (1 - found.informative):.0f} % of such surveys the release says that"
            " nothing can be learned."
        )
    return said


def _off_by(error: float, *, percent: bool) -> str:
    return f"{two_digits(100 * error)} percentage points" if percent else two_digits(error)


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def number_at(text: str, path: tuple[str, ...]) -> float | None:
    """Return the number at a path of a YAML text; None: there is none, or it is no number."""
    node = _node_at(text, path)
    try:
        return None if node is None else float(node.value)
    except ValueError:
        return None


def _node_at(text: str, path: tuple[str, ...]) -> yaml.ScalarNode | None:
    """Return the scalar at a path of a YAML text; None: there is none."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    for key in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        found: Mapping[str, yaml.Node] = {name.value: value for name, value in node.value}
        node = found.get(key)
    return node if isinstance(node, yaml.ScalarNode) else None


def _with_number(text: str, name: str, path: tuple[str, ...], value: str) -> str:
    """Return a YAML text with another number at a path.

    Raises:
        ConfigError: the text has no single value there.
    """
    node = _node_at(text, path)
    if node is None:
        raise ConfigError(BY_HAND.format(name, ".".join(path)))
    start, end = node.start_mark.index, node.end_mark.index
    if start == end and text[start - 1 : start] != " ":  # `epsilon:` without a value
        value = f" {value}"
    rest, line_end, after = text[end:].partition("\n")
    rest = rest.replace(f"# {CHOOSE} ", "# ")  # it is chosen now
    changed = f"{text[:start]}{value}{rest}{line_end}{after}"
    return changed if f"# {CHOOSE} " in changed else changed.replace(MARKED, "")
