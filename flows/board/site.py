"""The files of a board: pages without scripts, a table of all numbers, feeds, a widget.

No page asks another host for anything: its policy forbids it, and all links lead into the site.
Names of items are text in every page, and never part of an address: the page of an item is named by
a digest of it, so it keeps its address when other items come or go.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from datetime import UTC, date
from functools import partial
from importlib.resources import files
from statistics import median
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from hushrank.flows.board.archive import Archive, PastRelease, Shown
from hushrank.flows.config.language import Language
from hushrank.flows.ledger.texts import needed_text
from hushrank.flows.release.boards import RankedItem
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import WORDS, interval_text, score_decimals, score_text
from hushrank.flows.release.wording import range_text, rank_interval, verdict
from hushrank.flows.report.changes import changes_between, day_text
from hushrank.flows.report.model_facts import effect_rows, tie_facts
from hushrank.flows.report.page import policy_of
from hushrank.flows.report.slide import PROTECTED
from hushrank.flows.report.svg import figure_style
from hushrank.transforms.common.plain_text import shown as visible

if TYPE_CHECKING:
    from hushrank.flows.report.languages import Translator

INDEX, DATA, ATOM, FEED, WIDGET = "index.html", "data.json", "feed.xml", "feed.json", "widget.html"
MOST_ENTRIES, MOST_ROWS, IN_WIDGET = 50, 30, 10
FEW_POINTS = 40  # of a line in the table
WIDTH, HEIGHT = 720.0, 220.0
PROVISIONAL = 2.0  # times the typical width of an interval
BANDS = (
    "Bands: the ranks that each release states for all items at once, with 95 % confidence. That is"
    " a statement about each release by itself, not about all {} of them together: on average up to"
    " one release in twenty has a rank outside its band."
)
ALL_NIGHTS = (
    "Bands: ranks that hold for all items and on all nights of the stream at once, with 95 %"
    " confidence, if answers are independent."
)
ALONE = (
    "Bands: the 95 % interval of each rank, of each release and item by itself; of all of them"
    " together some miss."
)


def site_files(
    archive: Archive, url: str = "", language: Language = Language.ENGLISH
) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file of the site.

    Args:
        archive: the releases.
        url: address where the site will be, with a slash at its end; empty: links are relative.
    """
    shared, names = _shared(archive, url), _names(archive)
    page = partial(_page, _translator(archive, names, language))
    yield INDEX, page("index.html.jinja", **shared, **_ranking_page(archive, archive.last, INDEX))
    groups = [*archive.last.boards()]
    for number, (_, board) in enumerate(groups, start=1):
        name = _group_file(number)
        yield name, page("index.html.jinja", **shared, **_ranking_page(archive, board, name))
    yield WIDGET, page("widget.html.jinja", **shared, rows=_rows(archive.last)[:IN_WIDGET])
    for item, name in names.items():
        yield item_file(item), page("item.html.jinja", **shared, **_item_page(archive, item, name))
    yield DATA, _data(archive, names)
    yield ATOM, _atom(archive, url)
    yield FEED, _feed(archive, url)
    for name, content in archive.files.items():
        yield f"release/{name}", content


def item_file(item: str) -> str:
    """File name of an item's page."""
    return f"item-{hashlib.sha256(item.encode()).hexdigest()[:16]}.html"


def _group_file(number: int) -> str:
    return f"group-{number}.html"


def _names(archive: Archive) -> dict[str, str]:
    """Text that people read for each item, those of the last release first."""
    names = {line.item: line.shown for line in archive.last.ranking}
    return names | {item: item for each in archive.past for item in each.items if item not in names}


def _translator(archive: Archive, names: dict[str, str], language: Language) -> Translator | None:
    """What translates the pages; None: they are English."""
    if language is Language.ENGLISH:
        return None
    from hushrank.flows.report.languages import translator_of

    return translator_of(archive.last, language, [*names, *names.values()])


def _page(translator: Translator | None, template: str, **values: Any) -> bytes:
    page = visible(_ENVIRONMENT.get_template(template).render(**values), lines=True)
    if translator is not None:
        translator.missing.clear()  # a page counts what it lacks itself
        page = translator.whole_page(page)
    return page.encode()


def _resource(name: str) -> str:
    return files("hushrank.flows.board").joinpath(name).read_text(encoding="utf-8")


_ENVIRONMENT = Environment(
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    loader=FunctionLoader(_resource),
)


def _shared(archive: Archive, url: str) -> dict[str, Any]:
    """What several pages say."""
    last, style = archive.last, figure_style() + _resource("board.css")
    alone = any(each.alone for each in archive.past)
    streams = {each.stream for each in archive.past}
    bands = ALONE if alone else BANDS.format(f"{len(archive.past):,}")
    if len(streams) == 1 and None not in streams:
        bands = ALL_NIGHTS
    return {
        "heading": last.heading,
        "question": last.about and last.about.question,
        "day": day_text(last.day),
        "style": Markup(style),
        "policy": policy_of(style, ""),
        "epsilon": needed_text(last.privacy.epsilon),
        "protected": PROTECTED[last.privacy.unit],
        "bands": bands,
        "url": url,
    }


def _ranking_page(archive: Archive, board: Release, file: str) -> dict[str, Any]:
    """What the page of all, or of a group, says besides."""
    last, whole = archive.last, file == INDEX
    lines = {} if not whole else {line.item: _line(archive, line.item) for line in board.ranking}
    rows = _rows(board, lines)
    tabs: list[dict[str, Any]] = (
        [{"name": "All", "file": INDEX, "all": True}] if last.groups else []
    )
    for number, group in enumerate(last.groups or (), start=1):
        tabs.append({"name": group.name, "file": _group_file(number), "all": False})
    return {
        "file": file,
        "tabs": tabs,
        "says": verdict(board),
        "changes": _changes(archive) if whole else None,
        "passed": _alarms(archive) if whole else [],
        "warnings": last.warnings,
        "rows": rows,
        "together": board.says("low_all"),
        "provisional": any(row["provisional"] for row in rows),
        "over_time": whole and len(archive.past) > 1,
        "score_heading": WORDS[board.scale].heading,
        "effects": effect_rows(board),
        "ties": tie_facts(last) if whole else None,
        "budget": _budget_text(archive),
        "certificate": "certificate.json" in archive.files,
        "releases": len(archive.past),
        "left_out": archive.left_out,
    }


def _changes(archive: Archive) -> Any:
    if archive.before is None:
        return None
    continued = archive.before.job != archive.last.job
    return changes_between(archive.before, archive.last, continued=continued)


def _alarms(archive: Archive) -> list[dict[str, str]]:
    """Items that passed each other, the last ones first."""
    found = [
        {"day": day_text(each.day), "says": says} for each in archive.past for says in each.passed
    ]
    return found[::-1][:MOST_ENTRIES]


def _budget_text(archive: Archive) -> str:
    budget = archive.budget
    if budget is None:
        return "No certificate of the last release states a ledger, so nothing is said of it here."
    period = "" if budget.refresh is None else f" of the {budget.refresh} period"
    return (
        f"After this release epsilon {budget.left:.4g} of {budget.epsilon:.4g}{period} was left, as"
        " its certificate states. Releases since then, and budget set aside for them, are not in"
        " it."
    )


def _rows(board: Release, lines: dict[str, Markup] | None = None) -> list[dict[str, Any]]:
    decimals = score_decimals(board.scale, board.ranking)
    unsure = _provisional(board.ranking)
    unit = WORDS[board.scale].unit
    return [
        {
            "rank": rank_interval(line),
            "name": line.shown,
            "file": item_file(line.item),
            "score": f"{score_text(board.scale, line.score, decimals)}{unit}",
            "interval": interval_text(board.scale, line, decimals),
            "provisional": line.item in unsure,
            "line": (lines or {}).get(line.item, ""),
        }
        for line in board.ranking
    ]


def _provisional(ranking: Sequence[RankedItem]) -> set[str]:
    """Items of an interval with an open end, or far wider than that of the typical item."""
    widths = {line.item: line.high - line.low for line in ranking}
    typical = median(widths.values())
    return {
        item
        for item, width in widths.items()
        if not math.isfinite(width) or width > PROVISIONAL * typical
    }


def _item_page(archive: Archive, item: str, name: str) -> dict[str, Any]:
    last = archive.last
    decimals, scale = score_decimals(last.scale, last.ranking), last.scale
    held = [(each, each.items[item]) for each in archive.past if item in each.items]
    now = next((line for line in last.ranking if line.item == item), None)
    said = "It is not in the last release."
    if now is not None:
        said = f"Rank {rank_interval(now)} of {len(last.ranking)} on {day_text(last.day)}."
        if item in _provisional(last.ranking):
            said += " Provisional: the interval of its score is still wide."
    return {
        "name": name,
        "now": said,
        "chart": _chart(archive, item, name) if len(held) > 1 else "",
        "past": [
            {
                "day": day_text(each.day),
                "rank": f"{of_item.rank:g}",
                "ranks": range_text(of_item.low, of_item.high),
                "score": score_text(scale, of_item.score, decimals) if each.scale is scale else "–",
            }
            for each, of_item in reversed(held[-MOST_ROWS:])
        ],
    }


def _drawn(
    points: Sequence[tuple[date, Shown]], first: date, span: int, size: tuple[float, ...]
) -> Markup:
    """The band and the line of an item's ranks in a box of `size`: width, height, lowest rank."""
    width, height, lowest = size

    def down(rank: float) -> float:
        return (rank - 0.5) / lowest * height

    places = [((day - first).days / span * width, each) for day, each in points]
    upper = [f"{x:.0f},{down(each.low - 0.4):.1f}" for x, each in places]
    lower = [f"{x:.0f},{down(each.high + 0.4):.1f}" for x, each in reversed(places)]
    line = [f"{x:.0f},{down(each.rank):.1f}" for x, each in places]
    return Markup('<polygon class="band" points="{}"/><polyline class="rank" points="{}"/>').format(
        " ".join(upper + lower), " ".join(line)
    )


def _points(archive: Archive, item: str) -> list[tuple[date, Shown]]:
    return [(each.day, each.items[item]) for each in archive.past if item in each.items]


def _line(archive: Archive, item: str) -> Markup:
    """A small line without words: the page of the item says what it shows."""
    points = _points(archive, item)
    step = -(-len(points) // FEW_POINTS)
    kept = points[::-1][::step][::-1]  # with the last one
    first = archive.past[0].day
    span = max((archive.past[-1].day - first).days, 1)
    body = _drawn(kept, first, span, (120, 26, _lowest(archive)))
    return Markup('<svg viewBox="0 0 120 26" aria-hidden="true">{}</svg>').format(body)


def _lowest(archive: Archive) -> float:
    return float(max(len(each.items) for each in archive.past))


def _chart(archive: Archive, item: str, name: str) -> Markup:
    points, first, last = _points(archive, item), archive.past[0].day, archive.past[-1].day
    lowest, span = _lowest(archive), max((last - first).days, 1)
    body = _drawn(points, first, span, (WIDTH, HEIGHT, lowest))
    words = (
        f"Ranks of {name} from {day_text(points[0][0])} to {day_text(points[-1][0])}:"
        f" first {points[0][1].rank:g}, last {points[-1][1].rank:g}."
    )
    return Markup(
        '<svg viewBox="-30 -8 760 250" role="img" aria-label="{}">'
        '<path class="edge" d="M0 0V220H720"/>{}'
        '<text x="-8" y="10" text-anchor="end">1</text>'
        '<text x="-8" y="220" text-anchor="end">{}</text><text x="0" y="238">{}</text>'
        '<text x="720" y="238" text-anchor="end">{}</text></svg>'
    ).format(words, body, f"{lowest:.0f}", day_text(first), day_text(last))


def _data(archive: Archive, names: dict[str, str]) -> bytes:
    """The numbers of all releases: a list of each kind, in the order of `items`."""
    releases = [
        {
            "release_id": each.release_id,
            "day": f"{each.day}",
            "epsilon": each.epsilon,
            "scale": each.scale.value,
            **{
                name: [_number(each.items.get(item), name) for item in names]
                for name in ("rank", "low", "high", "score")
            },
        }
        for each in archive.past
    ]
    content = {
        "schema": 1,
        "population": archive.last.name,
        "items": [{"item": item, "name": name} for item, name in names.items()],
        "releases": releases,
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _number(found: Shown | None, name: str) -> float | None:
    return None if found is None else float(f"{getattr(found, name):.6g}")


def _entries(archive: Archive) -> Sequence[PastRelease]:
    return archive.past[::-1][:MOST_ENTRIES]


def _summary(entry: PastRelease) -> str:
    """What a feed says of a release: its alarms first."""
    return " ".join((*entry.passed, entry.says))


def _atom(archive: Archive, url: str) -> bytes:
    """Atom (RFC 4287)."""
    heading, entries = escape(archive.last.heading), _entries(archive)
    each = "".join(
        f"<entry><id>urn:hushrank:release:{escape(entry.release_id)}</id>"
        f"<title>{heading}, {day_text(entry.day)}</title>"
        f"<updated>{entry.created.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}</updated>"
        f'<link href="{escape(url)}{INDEX}"/><summary>{escape(_summary(entry))}</summary></entry>\n'
        for entry in entries
    )
    text = (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">'
        f"<id>urn:hushrank:population:{escape(archive.last.name)}</id><title>{heading}</title>"
        f"<updated>{entries[0].created.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}</updated>"
        f'<author><name>{heading}</name></author><link rel="self" href="{escape(url)}{ATOM}"/>\n'
        f"{each}</feed>\n"
    )
    return visible(text, lines=True).encode()


def _feed(archive: Archive, url: str) -> bytes:
    """JSON Feed 1.1 (jsonfeed.org)."""
    content: dict[str, Any] = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": archive.last.heading,
        "items": [
            {
                "id": entry.release_id,
                "url": f"{url}{INDEX}",
                "title": day_text(entry.day),
                "content_text": _summary(entry),
                "date_published": f"{entry.created.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            }
            for entry in _entries(archive)
        ],
    }
    if url:
        content |= {"home_page_url": url, "feed_url": f"{url}{FEED}"}
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()
