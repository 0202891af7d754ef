"""Keywords of Python functions, and the configuration that they stand for."""

from __future__ import annotations

import atexit
import difflib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, cast

from hushrank.flows.config.items import COMPLETE_ORDERS
from hushrank.flows.config.privacy import check_deltas
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.python.ledger import Ledger
from hushrank.flows.methods.registry import check_job
from hushrank.flows.planning.propose.questions import (
    NUMBERS,
    Question,
    codes_of_result_question,
    unlisted_question,
)
from hushrank.flows.planning.propose.sections import DEFAULT_METHODS, LOOK
from hushrank.flows.run.context import Survey
from hushrank.privacy.accounting import Spend
from hushrank.privacy.filters import adaptive_total
from hushrank.transforms.storage.places import Place, is_cloud

PathLike: TypeAlias = str | os.PathLike[str]
Items: TypeAlias = Iterable[str | int] | Mapping[str, Any] | int | str | os.PathLike[str]


class Keywords(TypedDict, total=False):
    """Keywords of `rank`, `plan` and `inspect`; each stands for a key of the YAML file.

    Attributes:
        name: the population, the people whose budget is counted together.
        items: all that can be ranked: names, how many there are, a file, or "discover" for names
            that enough people write (`{"discover": {"most_items": 20}}`). Else it must not be made
            from the answers. Where the rows hold numbers in place of the names, write
            {"names": [...], "first_code": 1}, or 0.
        ledger: the file of the budget, or a `Ledger`.
        total_epsilon: the most epsilon that all releases of this population may cost together. By
            default what the ledger says, or else what this release costs.
        total_delta: delta at which that total is stated.
        user: the column of the person who answered.
        left, right: columns of the two items of a comparison.
        winner: the column of the item that won, or of the word tie.
        winner_values: words of that column that stand for a side or a tie, such as
            {"left": ["a"], "right": ["b"], "tie": ["both_bad"]}.
        outcome: the column of the result where it names no item; needs `words`.
        loser: column of the item that lost, with `winner`, instead of `left` and `right`.
        event: the column of the identity of an answer, so that copies count once.
        weight: the column of how much an answer counts.
        item: the column of a test item, or of a ranked item.
        correct: the column of 1, right, or 0, wrong.
        ranking: the column of lists of items, best first.
        rank: the column of an item's rank, a number; see `best`.
        places: the columns that name the item at the first place, the second and so on.
        contest: the column of the contest of a ranking.
        kind: comparisons, responses or rankings; by default what the columns say.
        layout: wide, where each item has a column; by default what the columns say.
        epsilon, delta, rho: the guarantee.
        unit: unit that is protected: user (the default), comparison or local.
        adjacency: replace-one (the default) or add-remove.
        noise: laplace (the default) or gaussian.
        max_contributions: the most answers of one person that count.
        per_item_cap: most answers of a person in which one item occurs.
        look: the share of epsilon that pays for the pilot query, which tells through noise whether
            rows are read as meant; or {"share": 0.02, "people": how many were asked}. `rank` takes
            0.02 unless this is None; with `rho`, a stream, unit local or `unsafe` there is none.
        counts: the share of epsilon that pays for noisy counts of people and answers beside the
            ranking; or {"share": 0.05, "of": what is counted}. By default there are none.
        mechanism: mechanism that privatises rankings, under unit local.
        already_private: whether the answers were privatised at the source, under unit local.
        method: method that computes the ranking.
        design: pairs that were asked about: balanced, random or any.
        pairs: the columns of a form that ask about a pair of items each, such as
            {"Tea or coffee?": ["Tea", "Coffee"]}, whose cells name one; or, of a log of answers,
            the pairs that people were asked about, if these are not all: a list of pairs of items,
            or a CSV file with the columns left and right.
        best: rank that is the best: lowest (the default; 1 is the first place) or highest.
        ties: rule for ties.
        unlisted: below, if the items that a ranking does not list are below those it lists, as on
            most ballots, else unknown; without a default for rankings, but for PrefLib's complete
            orders.
        not_ranked: cells in place of a rank that say that an item was not ranked.
        missing: meaning of a blank of a test: unseen (the default), wrong or set-aside.
        booklets: the items of each booklet of a test, as a dict of lists.
        booklet: the column of the booklet that a person had.
        words: meaning of the values of the result, such as {"left": 1, "right": 0}; without a
            default where `outcome` is given.
        top_k: number of the best items to name.
        about: description of the survey for the page: a dict with keys such as title,
            question, who, how_recruited, sample, dates and contact.
        model, spectral, groups, report, schedule: sections of the YAML file, as dicts.
        observability, retention, runner, memory_limit: further ones.
        out: the folder of releases. By default `out/NAME` beside the ledger.
        confidential: the folder for files that must stay private. By default `.hushrank/work`
            beside the ledger.
        settings: further keys, nested as in the YAML file.
    """

    name: str
    items: Items
    ledger: PathLike | Ledger | None
    total_epsilon: float
    total_delta: float
    user: str
    left: str
    right: str
    winner: str
    winner_values: Mapping[str, Sequence[str]]
    outcome: str
    loser: str
    event: str
    weight: str
    item: str
    correct: str
    ranking: str
    rank: str
    places: Sequence[str]
    contest: str
    kind: str
    layout: str
    epsilon: float
    delta: float
    rho: float
    unit: str
    adjacency: str
    noise: str
    max_contributions: int
    per_item_cap: int
    look: float | Mapping[str, Any]
    counts: float | Mapping[str, Any]
    mechanism: str
    already_private: bool
    method: str
    design: str
    pairs: PathLike | Sequence[Sequence[str]] | Mapping[str, Sequence[str]]
    ties: str
    unlisted: str
    not_ranked: Sequence[str | int]
    best: str
    missing: str
    booklets: Mapping[str, Sequence[str | int]]
    booklet: str
    words: Mapping[str, Sequence[str]]
    top_k: int
    about: Mapping[str, Any]
    model: Mapping[str, Any]
    spectral: Mapping[str, Any]
    groups: Mapping[str, Any]
    report: Mapping[str, Any]
    schedule: Mapping[str, Any]
    observability: Mapping[str, Any]
    retention: Mapping[str, Any]
    runner: str | Mapping[str, Any]
    memory_limit: int | str
    out: PathLike
    confidential: PathLike
    settings: Mapping[str, Any]


_COLUMNS = (
    *("user", "left", "right", "winner", "outcome", "loser", "event", "weight", "item", "correct"),
    *("ranking", "rank", "places", "contest", "winner_values", "booklet"),
)
_PRIVACY = (
    *("epsilon", "delta", "rho", "unit", "adjacency", "noise", "max_contributions"),
    *("per_item_cap", "look", "counts", "mechanism", "already_private"),
)
_OF_INPUT = (
    *("kind", "layout", "design", "pairs", "best", "ties", "words", "unlisted", "not_ranked"),
    *("missing", "booklets"),
)
_PLACES = {"out": "output", "confidential": "confidential"}
_ALONE = (
    *("name", "method", "top_k", "model", "spectral", "groups", "report", "schedule"),
    *("observability", "retention", "runner", "memory_limit"),
)
KEYS: dict[str, str] = {
    **{name: f"input.columns.{name}" for name in _COLUMNS},
    **{name: f"privacy.{name}" for name in _PRIVACY},
    **{name: f"input.{name}" for name in _OF_INPUT},
    **{name: name for name in _ALONE},
    **_PLACES,
    "total_epsilon": "ledger.epsilon",
    "total_delta": "ledger.delta",
    "about": "report.about",
}
_KEYWORDS = {key: keyword for keyword, key in KEYS.items()} | {
    "items.names": "items",
    "items.count": "items",
    "items.file": "items",
    "items.first_code": "items",
    "items.discover": "items",
    "ledger.path": "ledger",
}


def content_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Build the content of the equivalent YAML file, without the ledger's path.

    Args:
        asked: keywords, in plain types.

    Raises:
        ConfigError: a keyword is unknown, or a key is given twice.
    """
    for name in asked:
        if name not in Keywords.__annotations__:
            raise ConfigError(f"{name}: unknown keyword. {_advice(name)}")
    content: dict[str, Any] = asked.get("settings") or {}
    for name, key in KEYS.items():
        if name == "pairs" and isinstance(asked.get(name), Mapping):
            _put(content, "input.layout", "pairs-wide", name)
            key = "input.columns.pairs"
        if asked.get(name) is not None:
            _put(content, key, asked[name], name)
    if asked.get("items") is not None:
        _put(content, "items", _items_section(asked["items"]), "items")
    return content


def _items_section(items: str | int | list[str | int] | dict[str, Any]) -> dict[str, Any]:
    if isinstance(items, dict):
        return items
    if items == "discover":
        return {"discover": {}}
    kinds = {str: "file", int: "count", list: "names"}
    return {kinds[type(items)]: items}


def words_of_keywords(error: ConfigError, label: Path) -> ConfigError:
    """Return the same problems, with keywords in place of the keys of the YAML file."""
    lines = []
    for line in str(error).splitlines():
        key, colon, rule = line.removeprefix(f"{label}: ").partition(": ")
        lines.append(f"{_KEYWORDS.get(key, key)}{colon}{rule}")
    return type(error)("\n".join(lines))


def _advice(name: str) -> str:
    close = difflib.get_close_matches(name, Keywords.__annotations__, n=1)
    if close:
        return f"Did you mean {close[0]}?"
    return "Write further keys of the YAML file as settings={'section': {'key': value}}."


def _put(content: dict[str, Any], key: str, value: Any, keyword: str) -> None:
    *sections, last = key.split(".")
    for section in sections:
        content = content.setdefault(section, {})
        if not isinstance(content, dict):
            raise ConfigError(f"settings: {section} must hold keys")
    if last in content:
        raise ConfigError(f"{keyword}: is given twice, as keyword and in settings; remove one.")
    content[last] = value


LABEL = Path("rank")  # messages show this in place of a YAML file's name
IN_MEMORY = ("a table in memory",)  # stands for `input.paths` in the identity of a job
NO_LEDGER = (
    "ledger: missing. Name a file, such as ledger='arena.jsonl'; a new one is created. It"
    " adds up the privacy cost of all releases about these people and refuses one too many;"
    " with it, ranking the same table again spends nothing. For a simulation write ledger=None,"
    " unsafe=True: the release is then marked unsafe."
)
UNSAFE_WITHOUT_REASON = (
    "unsafe: needs ledger=None, seed=... or epsilon=math.inf, each of which makes a"
    " release that protects nobody; leave it out."
)
NO_FOLDERS = (
    "schedule.partition: selects folders, but a table in memory has none, so every night would rank"
    " all rows. Name the column of the time: schedule={'window': 'answered_at'}. Nothing was spent."
)
LOCAL_METHODS = {"comparisons": "debiased-rr", "responses": "spectral-rr"}
USUAL_DELTA = 1e-6
NO_NAME = "name: missing; add for example name='arena', the people whose budget is counted together"


def asked_of(
    asked: Mapping[str, Any], paths: list[str] | None, *, unsafe: bool, anyway: bool = False
) -> Survey:
    """Build the configuration of a job, and check every rule of the YAML file.

    Args:
        asked: the keywords.
        paths: files to read; None: a table in memory.
        unsafe: the caller allows a release without a lasting ledger.
        anyway: see `Survey`.

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
    survey = Survey(LABEL, config, counted=counted, anyway=anyway)
    for earlier in _of_earlier_versions(config, looks=looks, usual="method" not in asked):
        if _is_known_as(survey, earlier):
            survey.settle(earlier)
            break
    if not known and config.privacy.private:
        survey.settle(_with_total_of(survey.config, survey.calibrated.spend))
    return survey


def _unanswered(content: Mapping[str, Any]) -> Iterator[tuple[str, Question]]:
    """Yield arguments that only the caller knows, with the question that each decides.

    They are which number in the column of the result means left, and what a ranking says of the
    items that it does not list. The values that an earlier version took give the same job.
    """
    answers, privacy = content["input"], content["privacy"]
    columns = answers["columns"]
    if privacy.get("already_private"):
        return
    clear = {"winner", "pairs"} & columns.keys() or answers.get("words")
    if answers["kind"] == "comparisons" and not clear:
        sides = columns.get("left", "left"), columns.get("right", "right")
        yield "words", codes_of_result_question(columns.get("outcome", "outcome"), sides, NUMBERS)
    complete = all(path.lower().endswith(COMPLETE_ORDERS) for path in answers["paths"])
    may_be_short = answers["kind"] == "rankings" and privacy["unit"] == "user" and not complete
    if may_be_short and "unlisted" not in answers:
        yield "unlisted", unlisted_question()


def checked(
    content: dict[str, Any], *, in_memory: bool, ledger: Place | None = None
) -> SurveyConfig:
    """Check a configuration, with messages in the words of Python.

    Raises:
        ConfigError: the configuration breaks a rule.
    """
    try:
        keys = cast("Mapping[object, object]", content)
        # base folder of relative paths, if the content has none
        base = ledger.parent if isinstance(ledger, Path) else scratch()
        config = check_job(LABEL, keys, base)
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
        usual = "places" if "places" in columns else "long"
        answers.setdefault("layout", "list" if "ranking" in columns else usual)
    privacy = content.setdefault("privacy", {})
    unit = privacy.setdefault("unit", "user")
    if "method" not in content and kind in DEFAULT_METHODS:
        usual = DEFAULT_METHODS[kind]
        content["method"] = LOCAL_METHODS.get(kind, usual) if unit == "local" else usual


def add_look(content: dict[str, Any]) -> bool:
    """Add the pilot query that `rank` makes by default; return whether it was added.

    It is not with rho, a stream of nights or unit local, and not where the content names its own.
    """
    privacy, schedule = content["privacy"], content.get("schedule") or {}
    if privacy["unit"] == "local" or privacy.get("rho") is not None or "stream" in schedule:
        return False
    items = content.get("items")
    if "look" in privacy or (isinstance(items, dict) and "discover" in items):
        return False
    privacy["look"] = LOOK
    return True


def _of_earlier_versions(
    config: SurveyConfig, *, looks: bool, usual: bool
) -> Iterator[SurveyConfig]:
    """Yield what the same keywords meant in earlier versions, which a ledger may know the job as.

    Args:
        config: the same settings in today's form.
        looks: whether its pilot query was added; there was none.
        usual: whether its method was added; that of test answers was `spectral`.
    """
    jobs = [config]
    if usual and config.input.kind == "responses" and config.method == "auto":
        jobs.append(config.model_copy(update={"method": "spectral"}))
    yield from jobs[1:]
    if looks:
        yield from map(_without_look, jobs)


def _is_known_as(survey: Survey, earlier: SurveyConfig) -> bool:
    """Whether the ledger knows this job only as that of an earlier version."""
    known = {each.config_hash for each in survey.ledger.known().account.attempts}
    return known.isdisjoint(survey.config.job_hashes) and not known.isdisjoint(earlier.job_hashes)


def _without_look(config: SurveyConfig) -> SurveyConfig:
    privacy = config.privacy.model_copy(update={"look": None})
    return config.model_copy(update={"privacy": privacy})


def _kind(columns: Mapping[str, Any], answers: Mapping[str, Any]) -> str:
    if columns.keys() & {"ranking", "rank", "places"}:
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
    """Write the caller's or the ledger's total into the budget; return whether there was one."""
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
    """Return the configuration with this release's cost as the total budget."""
    # A total delta so large that it alone covers the release still needs some total epsilon.
    total = adaptive_total([spend], config.ledger.delta).epsilon or config.privacy.epsilon or 1.0
    section = config.ledger.model_copy(update={"epsilon": total})
    return config.model_copy(update={"ledger": section})


@cache
def scratch() -> Path:
    """Return a temporary folder of this process, for releases that no ledger counts."""
    folder = Path(tempfile.mkdtemp(prefix="hushrank-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def local_area(config: SurveyConfig) -> Path:
    """Return the local folder in which a table in memory is written for the reader."""
    area = config.confidential
    return scratch() if is_cloud(str(area)) else Path(str(area))
