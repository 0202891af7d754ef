"""`hushrank.plan` and `hushrank.inspect`: before a run, from Python."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from html import escape
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa

from hushrank.flows import reading
from hushrank.flows.config.schedule import day_of
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.cli.inspect_command import inspect_job
from hushrank.flows.interfaces.cli.inspect_texts import show_look
from hushrank.flows.interfaces.documents.plans import PlanDocument, Reached, plan_document
from hushrank.flows.interfaces.python.arguments import plainly
from hushrank.flows.interfaces.python.configuration import (
    LABEL,
    Keywords,
    add_look,
    checked,
    complete,
    content_of,
    scratch,
    words_of_keywords,
)
from hushrank.flows.interfaces.python.run import held, paths_of
from hushrank.flows.interfaces.python.table import Table
from hushrank.flows.ledger.keys import KEY_BYTES, LedgerKey
from hushrank.flows.methods.registry import load_config
from hushrank.flows.planning.plan.display import show_plan
from hushrank.flows.planning.plan.plan import (
    DEFAULT_TARGET,
    PlanRequest,
    SurveyPlan,
    checked_plan,
)
from hushrank.flows.planning.plan.survey import config_to_plan, plan_config
from hushrank.flows.planning.plan.world import World
from hushrank.flows.run.context import Survey
from hushrank.flows.terminal import text_console
from hushrank.pipelines.inspect.found import Look
from hushrank.privacy.randomness import system_bits

TEXT_WIDTH = 110
NO_PEOPLE = (
    "people: missing. Say about how many people will answer: people=300, or people=[100, 300]"
)
SHOWN_ON_REQUEST = (
    "Confidential: exact numbers of real people, without noise. .show() prints them; a notebook"
    " that is saved keeps what it printed."
)


class Plan:
    """Predicted accuracy of a job, from simulated surveys; no answer was read.

    Attributes:
        document: all numbers, as `hushrank plan --json` prints them.
    """

    @plainly
    def __init__(self, plan: SurveyPlan) -> None:
        """Args: what was tried."""
        self._plan = plan
        self.document: PlanDocument = plan_document(plan)

    @property
    def settings(self) -> Table:
        """A row for each setting: epsilon, people, answers, and what it reaches."""
        return Table(pa.Table.from_pylist([each.model_dump() for each in self.document.settings]))

    @property
    def recommended(self) -> Reached | None:
        """The first setting that reaches the target; None: none does."""
        return self.document.recommended

    @property
    def enough_epsilon(self) -> float | None:
        """The epsilon that reaches the target; None: no epsilon is enough."""
        return self.document.enough_epsilon

    def __repr__(self) -> str:
        """Text of the plan, as the terminal shows it."""
        text = io.StringIO()
        show_plan(text_console(text, TEXT_WIDTH), self._plan)
        return text.getvalue().rstrip()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


class Inspection:
    """Exact numbers about the rows, for whoever holds them. Confidential: `repr` shows none.

    Attributes:
        rows: number of rows that were read.
        valid: number of rows that a run would count or bound.
        set_aside: reason -> rows that a run would set aside.
        contributions, kept: number of contributions in valid rows, and of those that the bounds
            keep.
        people: number of contributions -> people who have so many; None: nobody is named.
        appearances: item -> valid rows in which it stands.
    """

    @plainly
    def __init__(self, config: SurveyConfig, night: date | None, found: Look) -> None:
        """Args: the job and what was seen."""
        self._config, self._night, self._found = config, night, found
        self.rows = found.rows
        self.set_aside = dict(found.set_aside)
        self.valid = found.rows - found.set_aside.total()
        self.contributions, self.kept = found.contributions, found.kept
        self.people = None if found.people is None else dict(found.people)
        names = config.items.catalogue.names
        self.appearances = dict(zip(names, found.appearances.tolist(), strict=True))

    def show(self) -> None:
        """Print everything, as `hushrank inspect` does."""
        text = io.StringIO()
        show_look(text_console(text, TEXT_WIDTH), self._config, self._night, self._found)
        sys.stdout.write(text.getvalue())

    def __repr__(self) -> str:
        return SHOWN_ON_REQUEST


@plainly
def plan(
    survey: str | os.PathLike[str] | None = None,
    *,
    people: int | Sequence[int],
    epsilons: Sequence[float] = (),
    answers: Sequence[int] = (),
    target: str = DEFAULT_TARGET,
    spread: float = 1.0,
    seed: int = 0,
    anyway: bool = False,
    **asked: Unpack[Keywords],
) -> Plan:
    """Predict a job's accuracy before any answer is read and any budget is spent.

    Args:
        survey: a YAML file; None: the keywords describe the job, as for `rank`.
        people: number of people who answer, one or several numbers.
        epsilons: epsilons to try; empty: usual values.
        answers: numbers of answers that a person may contribute, to try.
        target: the wanted accuracy: top=0.9 (the best item first), best, order, error, largest.
        spread: standard deviation of the true scores of the simulated items.
        seed: the same seed simulates the same surveys.
        anyway: accept a delta above 1e-5, or above 1 / (10 * people), and an epsilon that buys
            nothing.
        **asked: see `Keywords`; of a YAML file none.

    Raises:
        ConfigError: a keyword or the file breaks a rule.
    """
    counts = (people,) if isinstance(people, int) else tuple(people)
    if not counts:
        raise ConfigError(NO_PEOPLE)
    request = PlanRequest(
        people=counts, epsilons=tuple(epsilons), answers=tuple(answers), target=target
    )
    if survey is not None and asked:
        raise ConfigError(
            f"survey: the YAML file decides {', '.join(asked)}; leave the keywords out."
        )
    world = World(spread=spread, seed=seed)
    if survey is not None:
        config = plan_config(Path(survey))
        return Plan(checked_plan(f"{survey}", config, request, world, anyway=anyway))
    config = _config_to_plan(asked)
    try:
        return Plan(checked_plan(f"{LABEL}", config, request, world, anyway=anyway))
    except ConfigError as error:
        raise words_of_keywords(error, LABEL) from None


@plainly
def inspect(
    answers: Any = None,
    *,
    survey: str | os.PathLike[str] | None = None,
    night: date | str | None = None,
    **asked: Unpack[Keywords],
) -> Inspection:
    """Look at the rows exactly, for whoever holds them: do columns, words and items fit?

    Nothing is written or spent. What you see must not decide epsilon, bounds, items or method.

    Args:
        answers: a table or paths, as for `rank`; None: what the YAML file names.
        survey: a YAML file, instead of keywords.
        night: the day whose rows to look at, if the job selects nights.
        **asked: see `Keywords`; of a YAML file none.

    Raises:
        ConfigError: a keyword, a column or the table breaks a rule.
        LedgerError: the ledger of a YAML file must record the access, and cannot.
    """
    day = day_of(night, "night") if isinstance(night, str) else night
    if survey is not None:
        if asked or answers is not None:
            raise ConfigError("survey: give a table with keywords, or survey='survey.yaml'.")
        read = Survey(Path(survey), load_config(Path(survey)))
        return _looked(read, day)
    paths = paths_of(answers)
    config = checked(_content(asked, paths), in_memory=paths is None)
    # a temporary key: nothing is stored under it
    key = LedgerKey(system_bits().take(KEY_BYTES), "")
    with held(Survey(LABEL, config), answers, paths, key) as ready:
        return _looked(ready, day)


def _looked(survey: Survey, night: date | None) -> Inspection:
    with reading.Reader() as reader:
        job, found = inspect_job(survey, night, reader, "hr.inspect")
    return Inspection(job.config, night, found)


def _config_to_plan(asked: Mapping[str, Any]) -> SurveyConfig:
    config = checked(_content(asked, None), in_memory=True)
    return config_to_plan(LABEL, config)


def _content(asked: Mapping[str, Any], paths: list[str] | None) -> dict[str, Any]:
    """Build the content of the YAML file, with placeholders for epsilon and paths."""
    content = content_of({key: value for key, value in asked.items() if key != "ledger"})
    content.setdefault("name", "plan")
    complete(content, paths)
    if "look" not in asked:
        add_look(content)
    privacy = content["privacy"]
    if privacy.get("epsilon") is None and "rho" not in privacy:
        privacy["epsilon"] = 1.0
    if math.isinf(privacy.get("epsilon") or 0):
        privacy["epsilon"] = 1.0
    folder = scratch()
    content["output"], content["confidential"] = str(folder / "out"), str(folder / "work")
    section = content.setdefault("ledger", {})
    section["path"] = str(folder / "ledger.jsonl")
    section.setdefault("epsilon", 1.0)
    if privacy.get("delta") or privacy.get("rho"):
        section.setdefault("delta", privacy.get("delta") or 1e-6)
    return content
