"""The report of a release: one self-contained HTML page that asks for nothing from outside.

It is whole without its script, which searches, filters and sorts the ranking.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from hushrank.flows.guarantee.record import Parameter, PrivacyRecord
from hushrank.flows.guarantee.sentences import number
from hushrank.flows.ledger.budget import Balance
from hushrank.flows.ledger.budget_text import alert_sentence, left_text, needed_text
from hushrank.flows.release.axis import Axis, axis_of
from hushrank.flows.release.exact import exact_text
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import (
    MEAN_ELO,
    WORDS,
    Scale,
    interval_text,
    score_decimals,
    score_text,
)
from hushrank.flows.release.statistics import ReleasedRankings
from hushrank.flows.release.wording import rank_interval, verdict
from hushrank.flows.report.changes import changes_between
from hushrank.flows.report.downloads import downloads_of
from hushrank.flows.report.policy import policy_of
from hushrank.flows.report.win_rates import win_rates_of
from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms.common.plain_text import shown as visible
from hushrank.transforms.common.schema import Ties

LONG = 1000  # rankings beyond this show their best and worst, the rest on request
SHOWN_BEST, SHOWN_WORST = 50, 10
ROOM = 850_000  # bytes for files to download and the table on request; a page stays under 1 MB
ROW_BYTES = 120  # of a row of that table, but for the item's name
LINE_BYTES = 750  # of a line with its drawing and its exact values, but for the item's name
ROUNDING = 1e-9  # 0.3 / 0.1 is three
MOST_TEXTS = 4  # of ticks of the table's axis
AVERAGE = {Scale.WIN_SHARE: 50.0, Scale.ELO: MEAN_ELO}  # of items; 0 on other scales

UNIT_WORDS = {
    Unit.USER: "one person, all their answers",
    Unit.COMPARISON: "one answer",
    "local": "each answer, before it is counted",
}
PROTECTED = {Unit.USER: "each person", Unit.COMPARISON: "each answer", "local": "each answer"}
ADJACENCY_WORDS = {
    Adjacency.REPLACE_ONE: "replaced by any other",
    Adjacency.ADD_REMOVE: "left out or added",
}
TIES_WORDS = {
    Ties.DROP: "left out",
    Ties.SPLIT: "half a win each",
    Ties.RANDOM: "decided by a fair secret coin",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the ranking as it is shown.

    Attributes:
        identity: the item as in the rows, where people read a label instead; else empty.
        exact: score and interval with all digits.
        won: None where no count of wins is released.
        low, at, high: percent of the axis.
        goes_on: whether the interval leaves the axis at its lower end, and at its upper one.
    """

    place: str
    item: str
    identity: str
    exact: str
    score: str
    interval: str
    ranks: str
    won: str | None
    low: str
    at: str
    high: str
    goes_on: tuple[bool, bool]
    starts_group: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TickMark:
    """A mark of the axis: where, in percent, and its text, which may be empty.

    Attributes:
        middle: it is at the average item.
    """

    at: str
    text: str
    middle: bool


def render_report(
    release: Release, balance: Balance | None = None, before: Release | None = None
) -> str:
    """The page, as text. It shows nothing that is not in `release`, `balance` or `before`.

    Args:
        release: what to report on.
        balance: the budget after this release; None leaves that section out.
        before: the release before this one, to say what changed; None leaves that out.
    """
    from hushrank.flows.report.figures import figures_of  # matplotlib takes a second
    from hushrank.flows.report.style import without_styles

    rows = _rows(release)
    resources = files("hushrank.flows.report")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(
        resources.joinpath("report.html.jinja").read_text(encoding="utf-8")
    )
    downloads, rules = downloads_of(release), dict[str, str]()
    figures = figures_of(release)
    svgs = [Markup(without_styles(str(figure.svg), rules)) for figure in figures]
    room = ROOM - sum(map(len, [*svgs, *(download.address for download in downloads)]))
    whole = len(rows) <= LONG and len(_that_fit(rows, room, LINE_BYTES)) == len(rows)
    shown = rows if whole else rows[:SHOWN_BEST] + rows[-SHOWN_WORST:]
    style = resources.joinpath("report.css").read_text(encoding="utf-8")
    style += "".join(f".{name} {{ {declared} }}\n" for name, declared in rules.items())
    script = resources.joinpath("report.js").read_text(encoding="utf-8")
    page = template.render(
        release=release,
        privacy=release.privacy,
        created=f"{release.created.astimezone(UTC):%-d %B %Y, %H:%M} UTC",
        style=Markup(style),
        script=Markup(script),
        policy=policy_of(style, script),
        figures=figures,
        svgs=svgs,
        rates=win_rates_of(release),
        verdict=verdict(release),
        words=WORDS[release.scale],
        ticks=_ticks(release.scale, axis_of(release.scale, release.ranking)),
        counts=release.released.wins_by_item() is not None,
        protected=_of_kind(release, PROTECTED[release.privacy.unit]) if release.safe else "nobody",
        shown=shown,
        gap=SHOWN_BEST if len(shown) < len(rows) else None,
        full=_that_fit(rows, room, ROW_BYTES) if len(shown) < len(rows) else [],
        downloads=downloads,
        changes=None if before is None else changes_between(before, release),
        n_items=len(rows),
        facts=_privacy_facts(release),
        balance=balance,
        runs_left=None if balance is None else runs_left(release, balance),
        number=number,
        alert=alert_sentence,
        needed=needed_text,
        left=left_text,
    )
    return visible(page, lines=True)  # releases of older versions may name anything


def _rows(release: Release) -> list[Row]:
    scale, wins = release.scale, release.released.wins_by_item()
    axis, decimals = axis_of(scale, release.ranking), score_decimals(scale, release.ranking)
    halves = release.privacy.ties is Ties.SPLIT
    rows, group = [], None
    for place, line in zip(release.places(), release.ranking, strict=True):
        score = f"{score_text(scale, line.score, decimals)}{WORDS[scale].unit}"
        rows.append(
            Row(
                place=place,
                item=line.shown,
                identity=line.item if line.item != line.shown else "",
                exact=exact_text(release, line),
                score=score if release.informative else "unknown",
                interval=interval_text(scale, line, decimals),
                ranks=rank_interval(line),
                won=None if wins is None else f"{wins[line.item]:,.{1 if halves else 0}f}",
                low=f"{axis.percent(line.low):.1f}",
                at=f"{axis.percent(line.score):.1f}",
                high=f"{axis.percent(line.high):.1f}",
                goes_on=(line.low < axis.low, line.high > axis.high),
                starts_group=line.group != group,
            )
        )
        group = line.group
    return rows


def _ticks(scale: Scale, axis: Axis) -> list[TickMark]:
    """The marks, of which every other one has a text where there are many."""
    every = 1 if len(axis.ticks) <= MOST_TEXTS else 2
    return [
        TickMark(
            at=f"{axis.percent(value):.1f}",
            text=text if place % every == 0 else "",
            middle=math.isclose(value, AVERAGE.get(scale, 0.0), abs_tol=ROUNDING),
        )
        for place, (value, text) in enumerate(axis.ticks)
    ]


def runs_left(release: Release, balance: Balance) -> int | None:
    """At least so many more runs at the cost of this one; None where they do not simply add up."""
    privacy = release.privacy
    pure = privacy.delta == 0 and privacy.rho is None and math.isfinite(privacy.epsilon)
    if not (pure and release.safe and privacy.unit is not Unit.LOCAL):
        return None
    return math.floor(balance.remaining_epsilon / privacy.epsilon + ROUNDING)


def _that_fit(rows: list[Row], left: int, each: int) -> list[Row]:
    """The first rows, as many as stay within `left` bytes of `each` and their names."""
    for position, row in enumerate(rows):
        left -= each + sum(len(str(escape(text)).encode()) for text in (row.item, row.identity))
        if left < 0:
            return rows[:position]
    return rows


def _privacy_facts(release: Release) -> list[tuple[str, str]]:
    """What the table of the guarantee says: name and value."""
    privacy = release.privacy
    facts = [
        ("Protected unit", f"{privacy.unit}: {_of_kind(release, UNIT_WORDS[privacy.unit])}"),
        ("Adjacency", _named(privacy.adjacency, ADJACENCY_WORDS)),
        ("Epsilon", number(privacy.epsilon)),
        ("Delta", number(privacy.delta)),
        ("Rho (zCDP)", _number(privacy.rho)),
        ("Mechanism", privacy.mechanism),
        ("Noise scale", _number(privacy.noise_scale)),
        ("Noise standard deviation", _root(privacy.noise_variance)),
        ("Sensitivity", _sensitivity(privacy)),
        (_of_kind(release, "Answers used per person, at most"), privacy.max_contributions),
        ("Answers per person on one item, at most", privacy.per_item_cap),
        ("Answers per person on one pair, at most", 1 if privacy.distinct_pairs else None),
        ("Ties", None if privacy.ties is None else TIES_WORDS[privacy.ties]),
        ("Unit of the released counts", _unit_of_counts(release)),
        *((_heading(name), _value(value)) for name, value in privacy.parameters.items()),
    ]
    return [(name, str(value)) for name, value in facts if value is not None]


def _of_kind(release: Release, words: str) -> str:
    """The words for answers, or where rankings were asked for, for rankings."""
    if not isinstance(release.released, ReleasedRankings):
        return words
    return words.replace("answer", "ranking").replace("Answer", "Ranking")


def _named(adjacency: Adjacency | None, words: dict[Adjacency, str]) -> str | None:
    return None if adjacency is None else f"{adjacency}: {words[adjacency]}"


def _number(value: float | None) -> str | None:
    return None if value is None else number(value)


def _root(variance: float | None) -> str | None:
    return None if variance is None else number(math.sqrt(variance))


def _sensitivity(privacy: PrivacyRecord) -> str | None:
    if privacy.sensitivity is None:
        return None
    return f"{number(privacy.sensitivity)} ({privacy.sensitivity_norm} norm)"


def _unit_of_counts(release: Release) -> str | None:
    halves = release.privacy.ties is Ties.SPLIT and release.released.wins_by_item() is not None
    return "half wins" if halves else None


def _heading(name: str) -> str:
    text = name.replace("_", " ")
    return f"{text[0].upper()}{text[1:]}"


def _value(value: Parameter) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else number(value)
