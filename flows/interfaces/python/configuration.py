"""From keywords to the configuration that the YAML file would give."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from hushrank.flows.config.items import COMPLETE_ORDERS
from hushrank.flows.config.privacy import check_deltas
from hushrank.flows.config.survey import SurveyConfig, check_config
from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.python.keywords import content_of, words_of_keywords
from hushrank.flows.interfaces.python.ledger import Ledger
from hushrank.flows.methods.base import Calibrated
from hushrank.flows.methods.registry import calibrate, facts_of_methods
from hushrank.flows.planning.propose.questions import (
    NUMBERS,
    Question,
    codes_of_result_question,
    unlisted_question,
)
from hushrank.flows.planning.propose.sections import DEFAULT_METHODS, LOOK
from hushrank.flows.run.budget import ledger_of
from hushrank.privacy.accounting import Spend
from hushrank.privacy.filters import adaptive_total
from hushrank.transforms.storage.cloud_storage import Place, is_cloud

LABEL = Path("rank")  # what messages name in place of a YAML file
IN_MEMORY = ("a table in memory",)  # stands for `input.paths` in the identity of a job
NO_LEDGER = (
    "ledger: missing. Name a file, such as ledger='arena.jsonl'; it is made if there is none. It"
    " adds up what all releases about these people reveal together and refuses what is too much;"
    " with it the same table again spends nothing. For a simulation write ledger=None,"
    " unsafe=True: the release is then marked unsafe."
)
UNSAFE_WITHOUT_REASON = (
    "unsafe: goes with ledger=None, with seed=... or with epsilon=math.inf, each of which makes a"
    " release that protects nobody; leave it out."
)
NO_FOLDERS = (
    "schedule.partition: selects folders, and a table in memory has none, so every night would rank"
    " all rows. Name the column of the time: schedule={'window': 'answered_at'}. Nothing was spent."
)
LOCAL_METHODS = {"comparisons": "debiased-rr", "responses": "spectral-rr"}
USUAL_DELTA = 1e-6
NO_NAME = "name: missing; add for example name='arena', the people whose budget is counted together"


@dataclass(frozen=True, slots=True)
class Asked:
    """What keywords ask for.

    Attributes:
        config: the configuration.
        counted: whether a lasting ledger counts the release.
        calibrated: method and mechanism of it; None: nobody needed them yet.
    """

    config: SurveyConfig
    counted: bool
    calibrated: Calibrated | None = None


def asked_of(asked: Mapping[str, Any], paths: list[str] | None, *, unsafe: bool) -> Asked:
    """The configuration of a job, with every rule of the YAML file checked.

    Args:
        asked: the keywords.
        paths: what to read; None: a table in memory.
        unsafe: the caller allows a release without a lasting ledger.

    Raises:
        ConfigError: a rule is broken; one line for each problem.
        LedgerError: the ledger cannot be read.
    """
    content = content_of(asked)
    named = asked.get("ledger")
    counted = named is not None
    if not counted and not unsafe:
        raise ConfigError(NO_LEDGER)
    if "name" not in content:
        raise ConfigError(NO_NAME)
    ledger = named if isinstance(named, Ledger) else Ledger(named or scratch() / "ledger.jsonl")
    _complete(content, ledger, paths)
    known = _fill_total(content, ledger)
    looks = "look" not in asked and not unsafe and add_look(content)
    open_questions = [each.as_argument(name) for name, each in _unanswered(content)]
    try:
        config = checked(content, in_memory=paths is None, ledger=ledger.path)
    except ConfigError as error:
        raise ConfigError("\n".join([*open_questions, str(error)])) from None
    if open_questions:
        raise ConfigError("\n".join(open_questions))
    if looks and _is_known_without_look(config):
        config = _without_look(config)
    if known or not config.privacy.private:
        return Asked(config, counted)
    calibrated = calibrate(config)
    return Asked(_with_total_of(config, calibrated.spend), counted, calibrated)


def _unanswered(content: Mapping[str, Any]) -> Iterator[tuple[str, Question]]:
    """Arguments that only the caller knows, and what they decide.

    They are which number in the column of the result means left, and what a ranking says of the
    items that it does not list. The values that an earlier version took give the same job.
    """
    answers, privacy = content["input"], content["privacy"]
    columns = answers["columns"]
    if privacy.get("already_private"):
        return
    if answers["kind"] == "comparisons" and "winner" not in columns and not answers.get("words"):
        sides = columns.get("left", "left"), columns.get("right", "right")
        yield "words", codes_of_result_question(columns.get("outcome", "outcome"), sides, NUMBERS)
    complete = all(path.lower().endswith(COMPLETE_ORDERS) for path in answers["paths"])
    may_be_short = answers["kind"] == "rankings" and privacy["unit"] == "user" and not complete
    if may_be_short and "unlisted" not in answers:
        yield "unlisted", unlisted_question()


def checked(
    content: dict[str, Any], *, in_memory: bool, ledger: Place | None = None
) -> SurveyConfig:
    """The configuration, with messages in the words of Python.

    Raises:
        ConfigError: it breaks a rule.
    """
    try:
        keys = cast("Mapping[object, object]", content)
        base = ledger.parent if isinstance(ledger, Path) else scratch()  # where no path lies
        config = check_config(LABEL, keys, facts_of_methods(), base)
    except ConfigError as error:
        raise words_of_keywords(error, LABEL) from None
    if not in_memory:
        return config
    if config.nightly and config.schedule.window is None:
        raise ConfigError(NO_FOLDERS)
    return config.model_copy(update={"input": config.input.model_copy(update={"paths": IN_MEMORY})})


def check_keyword_deltas(config: SurveyConfig, *, anyway: bool) -> None:
    """Refuse a delta above the limit, in the words of Python (`config.privacy.check_deltas`).

    Raises:
        ConfigError: a delta is above the limit.
    """
    try:
        check_deltas(f"{LABEL}", config.deltas, anyway=anyway, people=config.stated_people)
    except ConfigError as error:
        raise words_of_keywords(error, LABEL) from None


def complete(content: dict[str, Any], paths: list[str] | None) -> None:
    """Add what the YAML file must say and keywords imply: kind, layout, unit and method."""
    answers = content.setdefault("input", {})
    columns = answers.setdefault("columns", {})
    answers["paths"] = list(IN_MEMORY) if paths is None else paths
    kind = answers.setdefault("kind", _kind(columns, answers))
    if kind == "rankings":
        answers.setdefault("layout", "list" if "ranking" in columns else "long")
    privacy = content.setdefault("privacy", {})
    unit = privacy.setdefault("unit", "user")
    if "method" not in content and kind in DEFAULT_METHODS:
        usual = DEFAULT_METHODS[kind]
        content["method"] = LOCAL_METHODS.get(kind, usual) if unit == "local" else usual


def add_look(content: dict[str, Any]) -> bool:
    """Add the pilot query that `rank` has by default; whether it was added.

    It is not with rho, a stream of nights or unit local, and not where the content names its own.
    """
    privacy, schedule = content["privacy"], content.get("schedule") or {}
    if privacy["unit"] == "local" or privacy.get("rho") is not None or "stream" in schedule:
        return False
    if "look" in privacy:
        return False
    privacy["look"] = LOOK
    return True


def _is_known_without_look(config: SurveyConfig) -> bool:
    """Whether the ledger knows this job as an earlier version ran it: it goes on as it was."""
    known = {each.config_hash for each in ledger_of(config).book().account.attempts}
    return known.isdisjoint(config.job_hashes()) and not known.isdisjoint(
        _without_look(config).job_hashes()
    )


def _without_look(config: SurveyConfig) -> SurveyConfig:
    privacy = config.privacy.model_copy(update={"look": None})
    return config.model_copy(update={"privacy": privacy})


def _kind(columns: Mapping[str, Any], answers: Mapping[str, Any]) -> str:
    if columns.keys() & {"ranking", "rank"}:
        return "rankings"
    if columns.keys() & {"item", "correct"} or answers.get("layout") == "wide":
        return "responses"
    return "comparisons"


def _complete(content: dict[str, Any], ledger: Ledger, paths: list[str] | None) -> None:
    complete(content, paths)
    section = content.setdefault("ledger", {})
    section["path"] = str(ledger.path)
    section.update(ledger.guard_keys)
    beside = ledger.path.parent
    content.setdefault("output", str(beside / "out" / str(content["name"])))
    content.setdefault("confidential", str(beside / ".hushrank" / "work"))


def _fill_total(content: dict[str, Any], ledger: Ledger) -> bool:
    """Write the total of the budget: the caller's, or the ledger's; whether there was one."""
    section, privacy = content["ledger"], content["privacy"]
    for key, value in ledger.terms_for(str(content["name"])).items():
        section.setdefault(key, value)
    needs_delta = privacy.get("delta") or (USUAL_DELTA if privacy.get("rho") else None)
    if needs_delta and not section.get("delta"):
        section["delta"] = needs_delta
    known = "epsilon" in section
    section.setdefault("epsilon", 1.0)
    return known


def _with_total_of(config: SurveyConfig, spend: Spend) -> SurveyConfig:
    """With what this release costs as the total: a second one needs the caller's word."""
    total = adaptive_total([spend], config.ledger.delta).epsilon
    section = config.ledger.model_copy(update={"epsilon": total})
    return config.model_copy(update={"ledger": section})


@cache
def scratch() -> Path:
    """A folder of this process, for what no ledger counts; it ends with the process."""
    folder = Path(tempfile.mkdtemp(prefix="hushrank-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def local_area(config: SurveyConfig) -> Path:
    """Where a table in memory is written for the reader: on this machine only."""
    area = config.confidential
    return scratch() if is_cloud(str(area)) else Path(str(area))
