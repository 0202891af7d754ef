"""The report of a release: one self-contained HTML page that loads nothing from outside.

The page is complete without its script, which searches, filters and sorts the ranking.

References:
    W3C. Content Security Policy Level 3, section 2.3.1 (hash sources).
"""

from __future__ import annotations

import base64
import hashlib
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2 import (
    Environment,
    FileSystemBytecodeCache,
    FunctionLoader,
    StrictUndefined,
    Template,
)
from jinja2.bccache import Bucket
from markupsafe import Markup

from hushrank.flows.ledger.budget import Balance
from hushrank.flows.ledger.texts import (
    alert_sentence,
    left_text,
    needed_text,
    rule_text,
    shared_text,
    since_first_text,
)
from hushrank.flows.release.boards import GroupRanking
from hushrank.flows.release.release import Release
from hushrank.flows.release.robustness import robustness_sentences
from hushrank.flows.release.scale import DIFFICULTIES, WORDS
from hushrank.flows.release.stream import StreamRecord
from hushrank.flows.release.wording import (
    MEANING_OF_VERY_LIKELY,
    RELIABLY,
    certainty,
    verdict,
)
from hushrank.flows.report.about import about_rows, made_rows
from hushrank.flows.report.downloads import downloads_of
from hushrank.flows.report.figures import figures_of
from hushrank.flows.report.model_facts import (
    booklet_facts,
    difference_facts,
    effect_rows,
    fit_facts,
    personal_rows,
    step_facts,
    tie_facts,
)
from hushrank.flows.report.over_time import history_figure
from hushrank.flows.report.rows import board_tables, table_of
from hushrank.flows.report.sure import sure_table_of
from hushrank.flows.report.svg import figure_style
from hushrank.flows.report.win_rates import win_rates_of
from hushrank.flows.statement.record import Parameter, PrivacyRecord
from hushrank.flows.statement.sentences import number
from hushrank.privacy.units import Adjacency, Bounding, Unit
from hushrank.transforms.common.plain_text import shown as visible
from hushrank.transforms.common.schema import Ties

if TYPE_CHECKING:
    from hushrank.flows.report.changes import Changes

COMPILED = Path(__file__).parent / "__pycache__"
ROOM = 850_000  # bytes for downloads, figures and tables; a page stays under 1 MB
ROUNDING = 1e-9  # so that 0.3 / 0.1 is three

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
    Ties.MODEL: "an outcome of their own",
}


def render_report(
    release: Release,
    balance: Balance | None = None,
    before: Release | None = None,
    earlier: Sequence[Release] = (),
    *,
    continued: bool = False,
) -> str:
    """The page as text. It shows only what is in its arguments.

    Args:
        release: the release to report.
        balance: the budget after this release; None leaves that section out.
        before: the release before this one, to show what changed; None leaves that out.
        earlier: earlier nights of its stream, the first one first, to show ranks over time.
        continued: whether `before` is of a job that this one supersedes.
    """
    over_time = history_figure(release, earlier)
    figures = [*([] if over_time is None else [over_time]), *figures_of(release)]
    downloads = downloads_of(release)
    room = ROOM - sum(len(figure.svg) for figure in figures)
    room -= sum(len(each.address) for each in downloads)
    style = figure_style() + _resource("report.css")
    script = _resource("report.js")
    created = release.created.astimezone(UTC)
    page = _template().render(
        release=release,
        privacy=release.privacy,
        created=f"{created.day} {created:%B %Y, %H:%M} UTC",
        style=Markup(style),
        script=Markup(script),
        policy=policy_of(style, script),
        figures=figures,
        rates=win_rates_of(release),
        sure=sure_table_of(release),
        about=[*about_rows(release), *_made(release)],
        **_words_of(release),
        **_tables(release, room),
        counts=release.released.wins_by_item() is not None,
        protected=_protected(release),
        downloads=downloads,
        changes=_changes(before, release, continued=continued),
        n_items=len(release.ranking),
        facts=_privacy_facts(release),
        balance=balance,
        since_first="" if balance is None else since_first_text(balance),
        shared="" if balance is None else shared_text(balance),
        runs_left=None if balance is None else runs_left(release, balance),
        number=number,
        alert=alert_sentence,
        needed=needed_text,
        left=left_text,
        rule=rule_text,
    )
    return visible(page, lines=True)  # in older releases names may hold any character


def _changes(before: Release | None, release: Release, *, continued: bool) -> Changes | None:
    """What changed since `before`; only then its module is loaded."""
    if before is None:
        return None
    from hushrank.flows.report.changes import changes_between

    return changes_between(before, release, continued=continued)


def _of_some(release: Release) -> dict[str, Any]:
    """Words that few releases have, whose modules are loaded only for them."""
    found: dict[str, Any] = {"stream": None, "election": None, "votes": None}
    found["robust"] = [*robustness_sentences(release, release.shown())]
    if release.stream is not None:
        from hushrank.flows.report.changes import stream_sentence

        found["stream"] = stream_sentence(release.stream)
    if release.election is not None:
        from hushrank.flows.report.elections import election_facts

        found["election"] = election_facts(release)
    if release.precincts is not None:
        from hushrank.flows.report.elections import votes_facts

        found["votes"] = votes_facts(release)
    return found


def _made(release: Release) -> Iterator[tuple[str, str]]:
    """What was done to what people gave, in words."""
    return ((heading, _of_kind(release, text)) for heading, text in made_rows(release))


def _tables(release: Release, room: int) -> dict[str, Any]:
    """The table of the ranking and those of groups, in so many bytes together."""
    for_boards = room // 2 if release.groups else 0
    return {
        "table": table_of(release, room - for_boards),
        "boards": board_tables(release, for_boards),
    }


def _protected(release: Release) -> str:
    return _of_kind(release, PROTECTED[release.privacy.unit]) if release.safe else "nobody"


def _words_of(release: Release) -> dict[str, Any]:
    """The sentences about the ranking, and which columns it has."""
    return {
        "better": "harder" if release.scale in DIFFICULTIES else "better",
        "certainty": certainty(release),
        "at_once": release.says("low_all"),
        "probabilities": release.says("p_best"),
        "reliably": RELIABLY,
        "very_likely": MEANING_OF_VERY_LIKELY,
        **_of_some(release),
        "effects": effect_rows(release),
        "personal": personal_rows(release),
        "ties": tie_facts(release),
        "test": booklet_facts(release),
        "steps": step_facts(release),
        "dif": difference_facts(release),
        "fit": fit_facts(release),
        "verdict": verdict(release),
        "words": WORDS[release.scale],
    }


def _resource(name: str) -> str:
    return files("hushrank.flows.report").joinpath(name).read_text(encoding="utf-8")


class _Compiled(FileSystemBytecodeCache):
    """The compiled template, beside Python's own compiled modules: compiling takes 0.1 s."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Store the template, if Python may store its modules there."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                super().dump_bytecode(bucket)


@cache
def _template(folder: Path = COMPILED) -> Template:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(_resource),
        bytecode_cache=_Compiled(str(folder), f"jinja-{jinja2.__version__}-%s.cache"),
    )
    return environment.get_template("report.html.jinja")


def runs_left(release: Release, balance: Balance) -> int | None:
    """At least how many more runs at this cost fit; None if costs do not simply add up."""
    privacy = release.privacy
    pure = privacy.delta == 0 and privacy.rho is None and math.isfinite(privacy.epsilon)
    if release.stream is not None:
        return None  # a night costs nothing
    if not (pure and release.safe and privacy.unit is not Unit.LOCAL):
        return None
    return math.floor(balance.remaining_epsilon / privacy.epsilon + ROUNDING)


def _privacy_facts(release: Release) -> list[tuple[str, str]]:
    """The names and values of the table of the guarantee."""
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
        (_of_kind(release, _used(privacy)), privacy.max_contributions),
        ("Answers per person on one item, at most", privacy.per_item_cap),
        ("Answers per person on one pair, at most", 1 if privacy.distinct_pairs else None),
        ("Ties", None if privacy.ties is None else TIES_WORDS[privacy.ties]),
        ("Unit of the released counts", _unit_of_counts(release)),
        *((_heading(name), _value(value)) for name, value in privacy.parameters.items()),
        *([] if release.stream is None else _stream_facts(release.stream, release.groups)),
    ]
    return [(name, str(value)) for name, value in facts if value is not None]


def _used(privacy: PrivacyRecord) -> str:
    if privacy.parameters.get("bounding") == Bounding.WEIGHTS:
        return "Answers per person that count in full, at most"
    return "Answers used per person, at most"


def _stream_facts(
    night: StreamRecord, groups: tuple[GroupRanking, ...] | None
) -> list[tuple[str, str]]:
    """Terms of a stream, and the noise in what this night shows."""
    of = "" if groups is None else " of a group"
    noise = f"Noise standard deviation of a shown count{of}"
    return [
        ("Stream", night.stream),
        ("Nights of the stream", f"{night.nights}, from {night.first} to {night.last}"),
        ("Nights that count per person, at most", f"{night.participations}"),
        ("Nights from one of them to the next, at least", f"{night.gap}"),
        ("Nights shown together", "all so far" if night.window is None else f"{night.window}"),
        ("Nights over which a night is spread", f"{night.bands}"),
        (noise, number(math.sqrt(night.shown_variance))),
    ]


def _of_kind(release: Release, words: str) -> str:
    """The words for answers; for rankings instead if people gave rankings."""
    if not release.released.ballots:
        return words
    words = words.replace("answered", "ranked")
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
    if units := release.privacy.parameters.get("units_of_a_comparison"):
        return f"1/{units:,} of a win of weight 1"
    halves = release.privacy.ties is Ties.SPLIT and release.released.wins_by_item() is not None
    return "half wins" if halves else None


def _heading(name: str) -> str:
    text = name.replace("_", " ")
    return f"{text[0].upper()}{text[1:]}"


def _value(value: Parameter) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else number(value)


def policy_of(style: str, script: str) -> str:
    """The content-security policy of a page with this one `style` and this one `script` element.

    No attribute may hold style or script, nothing is fetched, no form is sent, and no base element
    changes links. So even a name that became markup could do nothing.

    Args:
        style, script: the exact text of the element.
    """
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}';"
        " base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
