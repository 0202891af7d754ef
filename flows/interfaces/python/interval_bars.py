"""A ranking with interval bars as HTML for a notebook: one table, which loads nothing."""

from __future__ import annotations

from html import escape

from hushrank.flows.release.axis import Axis, axis_of
from hushrank.flows.release.boards import Interval, RankedItem
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import WORDS, interval_text, score_decimals, score_text
from hushrank.flows.release.wording import certainty, rank_interval, verdict
from hushrank.transforms.common.plain_text import shown

MOST_ROWS = 60
ACCENT, BAND = "#00796b", "#80cbc4"
WIDTH, HEIGHT, DOT = 260, 16, 4  # of a bar and its dot, in pixels
_CELL = 'style="text-align:left;padding:2px 10px"'


def ranking_html(release: Release) -> str:
    """Verdict, warnings and the ranking; each row has a bar for the 95 % interval of its score.

    Bars show the intervals that hold for all items at once, where the release has them. Everything
    is drawn with inline style, so nothing of the notebook changes. Only what the release publishes
    is shown.
    """
    axis = axis_of(release.scale, [line.at_once for line in release.ranking])
    decimals = score_decimals(release.scale, release.ranking)
    lines = list(zip(release.places(), release.ranking, strict=True))
    rows = "".join(_row(release, axis, decimals, place, line) for place, line in lines[:MOST_ROWS])
    more = len(lines) - MOST_ROWS
    notes = [certainty(release), f"{more:,} more items in .ranking" if more > 0 else ""]
    privacy = release.privacy
    about = f"{release.name}, {release.day}, method {release.method}, epsilon {privacy.epsilon:g}"
    if not release.safe:
        about += ". UNSAFE: protects nobody"
    head = "".join(
        f"<th {_CELL}>{_safe(text)}</th>"
        for text in ("", "item", WORDS[release.scale].heading, "95 %", "", "rank")
    )
    seen = "" if release.look is None else f"<p><small>{_safe(release.look.seen)}</small></p>"
    return (
        f"<div>{seen}<p><b>{_safe(verdict(release))}</b></p>"
        f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
        + "".join(f"<p>{_safe(note)}</p>" for note in (*notes, *release.warnings) if note)
        + f"<p><small>{_safe(about)}</small></p></div>"
    )


def _row(release: Release, axis: Axis, decimals: int, place: str, line: RankedItem) -> str:
    scale = release.scale
    unit = WORDS[scale].unit
    shown_line = line.at_once
    texts = [
        place,
        line.shown,
        score_text(scale, line.score, decimals) + unit,
        interval_text(scale, shown_line, decimals) + unit,
    ]
    cells = "".join(f"<td {_CELL}>{_safe(text)}</td>" for text in texts)
    bar = _bar(axis, shown_line)
    return f"<tr>{cells}<td>{bar}</td><td {_CELL}>{_safe(rank_interval(line))}</td></tr>"


def _bar(axis: Axis, line: Interval) -> str:
    low, at, high = (
        WIDTH * axis.percent(value) / 100 for value in (line.low, line.score, line.high)
    )
    middle = HEIGHT / 2
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-hidden="true">'
        f'<rect x="{low:.1f}" y="{middle - 3}" width="{max(high - low, 1):.1f}" height="6" rx="3"'
        f' fill="{BAND}"/><circle cx="{at:.1f}" cy="{middle}" r="{DOT}" fill="{ACCENT}"/></svg>'
    )


def _safe(text: str) -> str:
    """The text as HTML, with hidden characters as their codes."""
    return escape(shown(text, lines=True))
