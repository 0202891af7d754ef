"""The report of a release: one self-contained HTML page that loads nothing from outside.

The page is complete without its script, which searches, filters and sorts the ranking.

The top of the page: what was asked, of whom and when, and what the method and epsilon mean. The
published files inside the report itself, for readers who only have the page.

References:
    W3C. Content Security Policy Level 3, section 2.3.1 (hash sources).
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2 import Environment, FileSystemBytecodeCache, FunctionLoader, StrictUndefined, Template
from jinja2.bccache import Bucket
from markupsafe import Markup

from hushrank.flows.config.language import Language
from hushrank.flows.config.method import AboutConfig, Sample
from hushrank.flows.ledger.entries import Balance
from hushrank.flows.ledger.texts import (
    alert_sentence,
    left_text,
    needed_text,
    rule_text,
    shared_text,
    since_first_text,
)
from hushrank.flows.release.archive import (
    DIF,
    EFFECTS,
    FIT,
    PRECINCTS,
    RANKING,
    RELEASE,
    SCORES,
    STEP_FILE,
)
from hushrank.flows.release.boards import effects_by_board
from hushrank.flows.release.publish import ranking_pieces, round_table
from hushrank.flows.release.release import Release
from hushrank.flows.release.released import effects_csv
from hushrank.flows.release.scale import DIFFICULTIES, WORDS
from hushrank.flows.release.sheet_report import dif_csv, fit_csv, scores_csv, step_rows, steps_csv
from hushrank.flows.release.wording import (
    MEANING_OF_VERY_LIKELY,
    RELIABLY,
    certainty,
    interval_headings,
    precision_sentence,
    robustness_sentences,
)
from hushrank.flows.report.figures import figures_of
from hushrank.flows.report.model_facts import (
    booklet_facts,
    difference_facts,
    effect_rows,
    fit_facts,
    personal_rows,
    presentation_of,
    step_facts,
    tie_facts,
    win_rates_of,
)
from hushrank.flows.report.sections import (
    board_tables,
    contents_of,
    headline,
    headline_names,
    history_figure,
    sure_table_of,
    table_of,
)
from hushrank.flows.report.slide import (
    Say,
    chart_of,
    chart_svg,
    in_english,
    of_answers,
    protected_in_short,
)
from hushrank.flows.report.svg import Shape, figure_style
from hushrank.flows.statement.record import Parameter, PrivacyRecord
from hushrank.flows.statement.sentences import chance_to_guess, delta_sentence, number
from hushrank.privacy.units import Adjacency, Bounding, Unit
from hushrank.transforms.common.plain_text import shown as visible
from hushrank.transforms.common.schema import Ties

if TYPE_CHECKING:
    from hushrank.flows.report.changes import Changes
    from hushrank.flows.report.languages import Translator


Row = tuple[str, str]  # a heading and a text

NOT_THE_PUBLIC = "These are the people who answered, not the public."
SAMPLES = {
    Sample.DRAWN: "A random sample was drawn of them, and these are the people who answered.",
    Sample.EVERYBODY: f"All of them were asked, and no sample was drawn. {NOT_THE_PUBLIC}",
    Sample.OPEN: f"Whoever wished could answer, and no sample was drawn. {NOT_THE_PUBLIC}",
    None: (
        "How these people were chosen is not stated, so read this as the people who answered, not"
        " the public."
    ),
}
HEADINGS = {
    "question": "Question",
    "who": "Who was asked",
    "how_recruited": "How they were invited",
    "dates": "When",
    "contact": "Contact",
}
CHANGED = (
    "Each answer was changed at random before it was counted. Everything here is computed from the"
    " changed answers alone."
)


def about_rows(release: Release) -> Iterator[Row]:
    """Yield what the operator states of the survey, and in the last line what is not stated."""
    about = release.about or AboutConfig()
    texts = {heading: getattr(about, key) for key, heading in HEADINGS.items()}
    yield from ((heading, text) for heading, text in texts.items() if text is not None)
    yield "How they were chosen", SAMPLES[about.sample]
    if release.source is not None:
        yield "Which answers", f"{release.source.text[:1].upper()}{release.source.text[1:]}."
    missing = [heading.lower() for heading, text in texts.items() if text is None]
    if missing:
        yield "Not stated", ", ".join(missing)


def made_rows(release: Release) -> Iterator[Row]:
    """Yield what was done to the answers, what epsilon promises and how delta may break that.

    Where people gave rankings, the caller puts that word in place of "answer".
    """
    privacy = release.privacy
    if privacy.mechanism == "none" or not release.safe:
        yield "What protects people", "Nothing: this release is a test and protects nobody."
        return
    how = CHANGED if privacy.unit is Unit.LOCAL else release.released.made.value
    yield "How it was made", how
    sure = chance_to_guess(float(privacy.epsilon), privacy.delta)
    yield (
        "What epsilon means",
        f"If you took part: somebody who must say which of two possible versions of"
        f" {_protected(release)} is the true one, and is right half of the time before, is right"
        f" at most {number(sure)} % of the time after seeing this page.",
    )
    if privacy.delta > 0:
        yield "What delta means", delta_sentence(privacy.delta, privacy.unit)


def _protected(release: Release) -> str:
    """Part of a person's rows that the stated epsilon covers."""
    privacy = release.privacy
    unbounded = privacy.unit is Unit.LOCAL and not any(
        name.startswith("epsilon_of_a_person") for name in privacy.parameters
    )
    one = privacy.unit is Unit.COMPARISON or unbounded
    return "any one answer of yours" if one else "all your answers together"


MOST_BYTES = 300_000  # most bytes of one file in the page; a page stays under 1 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A link to a file.

    Attributes:
        name: name of the file.
        what: description of its content, in a few words.
        address: content as a `data:` address; or `name`, if it lies beside the page.
        inside: whether the page holds it.
    """

    name: str
    what: str
    address: str
    inside: bool


def downloads_of(release: Release) -> list[Download]:
    """The ranking, effects of covariates and abilities as tables, and the release as JSON.

    A file that is too large for the page is linked; it lies beside the page. The certificate does
    too, because it names the digest of the page.
    """
    what, pieces = "the ranking, for a spreadsheet", ranking_pieces(release)
    table = _download(RANKING, what, "text/csv", pieces)
    more = []
    if release.effects is not None:
        what = "what position and features do, for a spreadsheet"
        more = [
            _download(
                EFFECTS,
                what,
                "text/csv",
                [effects_csv(effects_by_board(release.effects, release.groups))],
            )
        ]
    if release.test is not None:
        what = "abilities by raw score, for a spreadsheet"
        more.append(_download(SCORES, what, "text/csv", [scores_csv(release.test)]))
        if steps := step_rows(release.test):
            what = "step difficulties, for a spreadsheet"
            more.append(_download(STEP_FILE, what, "text/csv", [steps_csv(steps)]))
    if release.dif is not None:
        what = "items by group, for a spreadsheet"
        more.append(_download(DIF, what, "text/csv", [dif_csv(release.dif)]))
    if release.fit is not None:
        what = "how well items fit, for a spreadsheet"
        more.append(_download(FIT, what, "text/csv", [fit_csv(release.fit)]))
    if release.precincts is not None:
        from hushrank.flows.release.precincts import precincts_csv

        what, rows = (
            "votes by precinct, for maps",
            precincts_csv(release.precincts, release.released),
        )
        more.append(_download(PRECINCTS, what, "text/csv", [rows]))
    for name, text in round_table(release).items():
        more.append(_download(name, "all rounds, for a spreadsheet", "text/csv", [text]))
    pieces = release.json_pieces()
    whole = _download(RELEASE, "all that was released", "application/json", pieces)
    return [table, *more, whole]


def charts_of(release: Release, say: Say = in_english) -> list[Download]:
    """Links to charts of the ranking for slides, which the script offers as PNG too."""
    links = []
    for shape in Shape:
        svg = chart_svg(chart_of(release, shape, say=say)).encode()
        address = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
        name, what = f"ranking-{shape}.svg", f"a {shape} chart for slides"
        links.append(Download(name=name, what=what, address=address, inside=True))
    return links


def _download(name: str, what: str, kind: str, pieces: Iterable[str]) -> Download:
    """A link to a file of these `pieces`, of which only as many are made as fit into the page."""
    text = bytearray()
    for piece in pieces:
        text += piece.encode()
        if len(text) > MOST_BYTES:
            break
    address = f"data:{kind};charset=utf-8;base64,{base64.b64encode(text).decode()}"
    inside = len(address) <= MOST_BYTES
    return Download(name=name, what=what, address=address if inside else name, inside=inside)


COMPILED = Path(__file__).parent / "__pycache__"
ROOM = 850_000  # bytes for downloads, figures and tables; a page stays under 1 MB
LONG_NAME = 30  # characters; the column of longer names is wider
PERCENT = re.compile("(?<=[0-9]) %")  # a number and its sign stay on one line
ROUNDING = 1e-9  # makes 0.3 / 0.1 three

UNIT_WORDS = {
    Unit.USER: "one person, all their answers",
    Unit.COMPARISON: "one answer",
    "local": "each answer, before it is counted",
}
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
    language: Language = Language.ENGLISH,
) -> str:
    """The page as text. It shows only what is in its arguments.

    Args:
        release: the release to report.
        balance: the budget after this release; None leaves that section out.
        before: the release before this one, to show what changed; None leaves that out.
        earlier: earlier nights of its stream, the first one first, to show ranks over time.
        continued: whether `before` is of a job that this one supersedes.
        language: language of its sentences; all but English need the extra `languages`.
    """
    over_time = history_figure(release, earlier)
    figures = [*([] if over_time is None else [over_time]), *figures_of(release)]
    translator = None if language is Language.ENGLISH else translator_for(release, language)
    downloads = downloads_of(release)
    charts = charts_of(release, in_english if translator is None else translator.say)
    room = ROOM - sum(len(figure.svg) for figure in figures)
    room -= sum(len(each.address) for each in (*downloads, *charts))
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
        given=of_answers(release, "answers"),
        protected=protected_in_short(release),
        downloads=downloads,
        charts=charts,
        changes=_changes(before, release, continued=continued),
        n_items=len(release.ranking),
        facts=_privacy_facts(release),
        balance=balance,
        **_words_of_budget(release, balance),
    )
    page = visible(page, lines=True)  # in older releases names may hold any character
    if translator is not None:
        page = translator.whole_page(page)
    return PERCENT.sub("\N{NO-BREAK SPACE}%", page)


def translator_for(release: Release, language: Language) -> Translator:
    """Make what translates the release's page and charts; only then Babel is loaded."""
    from hushrank.flows.report.languages import translator_of

    return translator_of(release, language, headline_names(release))


def _words_of_budget(release: Release, balance: Balance | None) -> dict[str, Any]:
    """The sentences about the budget, and how its numbers are written."""
    return {
        "since_first": "" if balance is None else since_first_text(balance),
        "shared": "" if balance is None else shared_text(balance),
        "runs_left": None if balance is None else runs_left(release, balance),
        "number": number,
        "alert": alert_sentence,
        "needed": needed_text,
        "left": left_text,
        "rule": rule_text,
    }


def _changes(before: Release | None, release: Release, *, continued: bool) -> Changes | None:
    """Return the changes since `before`; only then their module is loaded."""
    if before is None:
        return None
    from hushrank.flows.report.changes import changes_between

    return changes_between(before, release, continued=continued)


def _of_some(release: Release) -> dict[str, Any]:
    """Words that few releases have, whose modules are loaded only for them."""
    found: dict[str, Any] = {"stream": None, "alarms": [], "election": None, "votes": None}
    found["robust"] = [*robustness_sentences(release, release.shown())]
    if release.stream is not None:
        from hushrank.flows.release.alarms import alarm_sentences
        from hushrank.flows.report.changes import stream_sentence

        found["alarms"] = [*alarm_sentences(release)]
        found["stream"] = stream_sentence(release.stream)
    if release.election is not None:
        from hushrank.flows.report.elections import election_facts

        found["election"] = election_facts(release, grouped=bool(release.groups))
    if release.precincts is not None:
        from hushrank.flows.report.elections import votes_facts

        found["votes"] = votes_facts(release)
    return found


def _made(release: Release) -> Iterator[tuple[str, str]]:
    """Return what was done to what people gave, in words."""
    return ((heading, of_answers(release, text)) for heading, text in made_rows(release))


def _tables(release: Release, room: int) -> dict[str, Any]:
    """The table of the ranking and those of groups, in so many bytes together."""
    for_boards = room // 2 if release.groups else 0
    return {
        "table": table_of(release, room - for_boards),
        "boards": board_tables(release, for_boards),
    }


def _words_of(release: Release) -> dict[str, Any]:
    """The sentences about the ranking, and which columns it has."""
    return {
        "better": "harder" if release.scale in DIFFICULTIES else "better",
        "certainty": " ".join(filter(None, (certainty(release), precision_sentence(release)))),
        "at_once": release.says("low_all"),
        "intervals": interval_headings(release),
        "contents": contents_of,
        "long_names": any(len(line.shown) > LONG_NAME for line in release.ranking),
        "probabilities": release.says("p_best"),
        "reliably": RELIABLY,
        "very_likely": MEANING_OF_VERY_LIKELY,
        **_of_some(release),
        "effects": effect_rows(release),
        "personal": personal_rows(release),
        "ties": tie_facts(release),
        "presentation": presentation_of(release),
        "test": booklet_facts(release),
        "steps": step_facts(release),
        "dif": difference_facts(release),
        "fit": fit_facts(release),
        "verdict": headline(release),
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
    """Count at least how many more runs at this cost fit; None if costs do not simply add up."""
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
        ("Protected unit", f"{privacy.unit}: {of_answers(release, UNIT_WORDS[privacy.unit])}"),
        ("Adjacency", _named(privacy.adjacency, ADJACENCY_WORDS)),
        ("Epsilon", number(privacy.epsilon)),
        ("Delta", number(privacy.delta)),
        ("Rho (zCDP)", _number(privacy.rho)),
        ("Mechanism", privacy.mechanism),
        ("Noise scale", _number(privacy.noise_scale)),
        ("Noise standard deviation", _root(privacy.noise_variance)),
        ("Sensitivity", _sensitivity(privacy)),
        (of_answers(release, _used(privacy)), privacy.max_contributions),
        ("Answers per person on one item, at most", privacy.per_item_cap),
        ("Answers per person on one pair, at most", 1 if privacy.distinct_pairs else None),
        ("User names per person, at most", privacy.names_per_person),
        ("Groups per answer, at most", privacy.groups_per_answer),
        ("Ties", None if privacy.ties is None else TIES_WORDS[privacy.ties]),
        ("Unit of the released counts", _unit_of_counts(release)),
        *((_heading(name), _value(value)) for name, value in privacy.parameters.items()),
        *_of_stream(release),
    ]
    return [(name, str(value)) for name, value in facts if value is not None]


def _of_stream(release: Release) -> list[tuple[str, object]]:
    if release.stream is None:
        return []
    from hushrank.flows.report.stream_facts import stream_facts

    return [*stream_facts(release.stream, release.groups)]


def _used(privacy: PrivacyRecord) -> str:
    if privacy.parameters.get("bounding") == Bounding.WEIGHTS:
        return "Answers per person that count in full, at most"
    return "Answers used per person, at most"


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
    changes links. The only pictures are `data:` addresses, from which the script draws a chart as
    PNG. So even a name that became markup could do nothing.

    Args:
        style, script: the exact text of the element.
    """
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
