"""What changed between two releases of a population, and whether noise explains the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

import numpy as np

from hushrank.estimation.common.score_change import Intervals, ScoreChange, score_change
from hushrank.flows.release.boards import RankedItem
from hushrank.flows.release.release import Release, on_scale
from hushrank.flows.release.scale import WORDS, Scale, score_decimals, score_text
from hushrank.flows.release.statistics import ReleasedList
from hushrank.flows.release.wording import name_list, rank_interval

MOST_ROWS = 15  # most rows: changes beyond noise first, then the largest others
NORMAL_MECHANISMS = ("discrete-gaussian", "randomised-response")  # all others have Laplace tails


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """One item of the table.

    Attributes:
        before, now: its scores, with the unit.
        change: the difference with its sign, and its 95 % interval.
        ranks: both rank intervals, `2–3 → 1`.
        beyond: one word: whether noise explains the change.
    """

    item: str
    before: str
    now: str
    change: str
    interval: str
    ranks: str
    beyond: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The comparison of a release with the release before it.

    Attributes:
        since: the day of the earlier release.
        sentence: what changed, for a reader who reads no further.
        rows: rows of a table; empty if items cannot be compared one by one.
        left_out: how many items the table leaves out; none of them changed beyond noise unless the
            sentence says so.
    """

    since: str
    sentence: str
    rows: tuple[ChangeRow, ...]
    left_out: int


def changes_between(before: Release, release: Release) -> Changes:
    """Compare `release` with an earlier one of the same population, from published numbers only."""
    before = on_scale(before, release.scale)
    since = f"{before.day:%-d %B %Y}"
    if before.day == release.day:
        since += f", {before.created.astimezone(UTC):%H:%M} UTC"
    old, new = ({line.item: line for line in each.ranking} for each in (before, release))
    if (reason := _why_not(before, release)) is not None:
        return Changes(since=since, sentence=reason, rows=(), left_out=0)
    items = [line.item for line in release.ranking]
    found = score_change(
        _intervals([old[item] for item in items]),
        _intervals([new[item] for item in items]),
        normal=all(each.privacy.mechanism in NORMAL_MECHANISMS for each in (before, release)),
    )
    order = np.lexsort((-np.abs(found.change), ~found.beyond))[:MOST_ROWS]
    shown = sorted(order.tolist(), key=lambda i: (not found.beyond[i], i))
    decimals = score_decimals(release.scale, release.ranking)
    rows = tuple(
        _row(release.scale, old[items[i]], new[items[i]], found, i, decimals) for i in shown
    )
    return Changes(
        since=since,
        sentence=_sentence(release.scale, [new[item].shown for item in items], found),
        rows=rows,
        left_out=len(items) - len(rows),
    )


def _why_not(before: Release, release: Release) -> str | None:
    """Why scores cannot be compared, or a sentence on lists without scores; None if they can be."""
    if isinstance(release.released, ReleasedList) or isinstance(before.released, ReleasedList):
        return _lists(before, release)
    if before.scale is not release.scale or {line.item for line in before.ranking} != {
        line.item for line in release.ranking
    }:
        return "It ranked other items, or has another kind of score, so the two are not compared."
    if not (before.informative and release.informative):
        return "One of the two shows nothing but noise, so there is nothing to compare."
    return None


def _lists(before: Release, release: Release) -> str:
    if not (
        isinstance(release.released, ReleasedList) and isinstance(before.released, ReleasedList)
    ):
        return "One of the two has scores and the other has a list, so they are not compared."
    shown = before.shown() | release.shown()
    old, new = (
        [shown.get(item, item) for item in best]
        for best in (before.released.items, release.released.items)
    )
    came, went = ([*(set(a) - set(b))] for a, b in ((new, old), (old, new)))
    if not came and not went:
        same = "in the same order" if old == new else "in another order"
        return f"The same items were the best, {same}. A list cannot tell how much is noise."
    parts = [f"New on the list: {name_list(sorted(came))}."] if came else []
    parts += [f"No longer on it: {name_list(sorted(went))}."] if went else []
    return f"{' '.join(parts)} A list cannot tell whether that is more than noise."


def _intervals(lines: Sequence[RankedItem]) -> Intervals:
    scores, low, high = (
        np.array([getattr(line, name) for line in lines], np.float64)
        for name in ("score", "low", "high")
    )
    return Intervals(scores=scores, low=np.minimum(low, scores), high=np.maximum(high, scores))


def _sentence(scale: Scale, items: Sequence[str], found: ScoreChange) -> str:
    up, down = WORDS[scale].up_and_down
    parts = []
    for word, rises in ((up, True), (down, False)):
        moved = found.beyond & ((found.change > 0) == rises)
        names = [items[i] for i in np.flatnonzero(moved).tolist()]
        if names:
            parts.append(f"{name_list(names)} {'is' if len(names) == 1 else 'are'} clearly {word}.")
    if not parts:
        return "No change is larger than noise and chance explain."
    if found.beyond.all():
        return " ".join(parts)
    return f"{' '.join(parts)} Every other change can be noise."


def _row(
    scale: Scale, old: RankedItem, new: RankedItem, found: ScoreChange, i: int, decimals: int
) -> ChangeRow:
    unit = WORDS[scale].unit
    before, now = (f"{score_text(scale, line.score, decimals)}{unit}" for line in (old, new))
    low, high = (_signed(float(end[i]), decimals) for end in (found.low, found.high))
    ranks = rank_interval(new)
    if rank_interval(old) != ranks:
        ranks = f"{rank_interval(old)} → {ranks}"
    return ChangeRow(
        item=new.shown,
        before=before,
        now=now,
        change=_signed(float(found.change[i]), decimals),
        interval=f"{low} to {high}",
        ranks=ranks,
        beyond="yes" if found.beyond[i] else "no",
    )


def _signed(value: float, decimals: int) -> str:
    """A difference in the unit of the release; for shares, in percentage points."""
    if not np.isfinite(value):
        return "open"
    text = f"{value:+.{decimals}f}"
    return text if text.strip("+-0.") else text[1:]
