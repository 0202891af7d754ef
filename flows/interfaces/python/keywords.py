"""Keywords of Python and the keys of the YAML file that they stand for."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.python.ledger import Ledger

PathLike: TypeAlias = str | os.PathLike[str]
Items: TypeAlias = Iterable[str | int] | Mapping[str, Any] | int | str | os.PathLike[str]


class Keywords(TypedDict, total=False):
    """What `rank`, `plan` and `inspect` take by keyword; each stands for a key of the YAML file.

    Attributes:
        name: the population, the people whose budget is counted together.
        items: all that can be ranked: names, how many there are, or a file. It must not be made
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
        loser: with `winner`, the column of the item that lost, instead of `left` and `right`.
        event: the column of the identity of an answer, so that copies count once.
        weight: the column of how much an answer counts.
        item: the column of a test item, or of a ranked item.
        correct: the column of 1, right, or 0, wrong.
        ranking: the column of lists of items, best first.
        rank: the column of an item's rank, a number; see `best`.
        contest: the column of the contest of a ranking.
        kind: comparisons, responses or rankings; by default what the columns say.
        layout: wide, where each item has a column; by default what the columns say.
        epsilon, delta, rho: the guarantee.
        unit: what is protected: user (the default), comparison or local.
        adjacency: replace-one (the default) or add-remove.
        noise: laplace (the default) or gaussian.
        max_contributions: the most answers of one person that count.
        per_item_cap: of a person's answers, the most in which one item occurs.
        look: the share of epsilon that pays for the pilot query, which tells through noise whether
            rows are read as meant; or {"share": 0.02, "people": how many were asked}. `rank` takes
            0.02 unless this is None; with `rho`, a stream, unit local or `unsafe` there is none.
        mechanism: how rankings are privatised, under unit local.
        already_private: under unit local: the answers were privatised at the source.
        method: how the ranking is computed.
        design: which pairs were asked about: balanced, random or any.
        pairs: the pairs that people were asked about, if these are not all: a list of pairs of
            items, or a CSV file with the columns left and right.
        best: which rank is the best: lowest (the default; 1 is the first place) or highest.
        ties: what becomes of ties.
        unlisted: below, if the items that a ranking does not list are below those it lists, as on
            most ballots, else unknown; without a default for rankings, but for PrefLib's complete
            orders.
        not_ranked: cells in place of a rank that say that an item was not ranked.
        missing: what a blank of a test means: unseen (the default), wrong or set-aside.
        booklets: the items of each booklet of a test, as a dict of lists.
        booklet: the column of the booklet that a person had.
        words: what the values of the result stand for, such as {"left": 1, "right": 0}; without a
            default where `outcome` is given.
        top_k: how many of the best items to name.
        about: what was asked, of whom and when, for the page: a dict with keys such as title,
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
    mechanism: str
    already_private: bool
    method: str
    design: str
    pairs: PathLike | Sequence[Sequence[str]]
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
    *("ranking", "rank", "contest", "winner_values", "booklet"),
)
_PRIVACY = (
    *("epsilon", "delta", "rho", "unit", "adjacency", "noise", "max_contributions"),
    *("per_item_cap", "look", "mechanism", "already_private"),
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
    "ledger.path": "ledger",
}


def content_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the YAML file that would say the same; the ledger's path is left out.

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
        if asked.get(name) is not None:
            _put(content, key, asked[name], name)
    if asked.get("items") is not None:
        _put(content, "items", _items_section(asked["items"]), "items")
    return content


def _items_section(items: str | int | list[str | int] | dict[str, Any]) -> dict[str, Any]:
    if isinstance(items, dict):
        return items
    kinds = {str: "file", int: "count", list: "names"}
    return {kinds[type(items)]: items}


def words_of_keywords(error: ConfigError, label: Path) -> ConfigError:
    """The same problems, with keywords in place of the keys of the YAML file."""
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
