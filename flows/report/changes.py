"""Changes between two releases of a population, and whether noise explains them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date

import numpy as np

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.score_change import (
    Intervals,
    ScoreChange,
    error_correlation,
    sampling_correlation,
    score_change,
)
from hushrank.flows.errors import ConfigError
from hushrank.flows.release.boards import RankedItem
from hushrank.flows.release.linking import drift_rows, drift_sentence
from hushrank.flows.release.release import Release, on_scale
from hushrank.flows.release.scale import (
    DIFFICULTIES,
    UNBOUNDED,
    WORDS,
    Scale,
    score_decimals,
    score_text,
)
from hushrank.flows.release.stream import StreamRecord
from hushrank.flows.release.wording import name_list, rank_interval

ESTIMATOR = "design_of_chance_fits"  # the parameter that says how `noisy-pairs` made its scores
MOST_ROWS = 15  # most rows: changes beyond noise first, then the largest others
NORMAL_MECHANISMS = ("discrete-gaussian", "randomised-response")  # all others have Laplace tails


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """One item of the table.

    Attributes:
        before, now: scores of the item, with the unit.
        change: the difference with its sign, and its 95 % interval.
        ranks: both rank intervals, `2–3 → 1`.
        beyond: one word that says whether noise explains the change.
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
        sentence: changes in one sentence, for a reader who reads no further.
        rows: rows of a table; empty if items cannot be compared one by one.
        left_out: number of items that the table leaves out; none of them changed beyond noise
            unless the sentence says so.
        how: meaning of a change for nights of a stream; where the job changed, what; of two tests
            with items in common, which of them moved; else empty.
    """

    since: str
    sentence: str
    rows: tuple[ChangeRow, ...]
    left_out: int
    how: str = ""


OF_A_LINK = (Scale.LOG_ODDS, Scale.ELO, Scale.LAPLACE, Scale.PROBIT)  # scores have a common mean
OF_ONE_MEAN = (*OF_A_LINK, Scale.DIFFICULTY, Scale.POINT_DIFFICULTY)
MOST_APART = 1e-3  # means of the scores of two releases with the same zero: rounding


def changes_between(before: Release, release: Release, *, continued: bool = False) -> Changes:
    """Compare `release` with an earlier one of the same population, from published numbers only.

    Args:
        before: the earlier one.
        release: the later one.
        continued: whether `before` is of a job that this one supersedes.
    """
    broken = job_change(before, release) if continued else ""
    told = broken or _how(before, release) or _drift(before, release)
    before = on_scale(before, release.scale)
    since = day_text(before.day)
    if before.day == release.day:
        since += f", {before.created.astimezone(UTC):%H:%M} UTC"
    old, new = ({line.item: line for line in each.ranking} for each in (before, release))
    if (reason := _why_not(before, release)) is not None:
        return Changes(since=since, sentence=reason, rows=(), left_out=0, how=told)
    items = [line.item for line in release.ranking]
    found = score_change(
        _intervals([old[item] for item in items]),
        _intervals([new[item] for item in items]),
        normal=all(each.privacy.mechanism in NORMAL_MECHANISMS for each in (before, release)),
        correlation=_correlation(before, release, items),
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
        how=told,
    )


def _drift(before: Release, release: Release) -> str:
    """Say which items of a test moved; empty where the two scales cannot be put on one."""
    if not {before.scale, release.scale} <= {*DIFFICULTIES}:
        return ""
    try:
        return drift_sentence(drift_rows(before, release), before, release)
    except ConfigError:  # too few items in common, or a test that bounds not each of them
        return ""


def job_change(before: Release, release: Release) -> str:
    """Say what changed of the job, as far as releases show it, and what can be compared."""
    old, new = before.privacy, release.privacy
    moved = _came_and_went(before, release)
    facts = (
        ("method", before.method, release.method),
        ("epsilon", f"{old.epsilon:g}", f"{new.epsilon:g}"),
        ("delta", f"{old.delta:g}", f"{new.delta:g}"),
        ("unit", old.unit, new.unit),
        ("answers of a person at most", old.max_contributions, new.max_contributions),
        ("user names of a person at most", old.names_per_person or 1, new.names_per_person or 1),
    )
    parts = [f"{name} {a} became {b}" for name, a, b in facts if a != b]
    if before.ranking and release.ranking:
        parts += moved
    what = "; ".join(parts) or "something that releases do not show, such as its input"
    if moved:
        compared = "Ranks among the items of both may be read side by side, scores may not."
    elif before.scale is not release.scale:
        compared = "Their scores are of different kinds; ranks may be read side by side."
    else:
        compared = "Their scores can be compared, each with its own interval."
    return f"The job changed after that release: {what}. {compared}"


def _came_and_went(before: Release, release: Release) -> list[str]:
    """Say which items only one of two releases ranks; empty: both rank the same."""
    old, new = ({line.item: line.shown for line in each.ranking} for each in (before, release))
    moved = (("came", new, old), ("went", old, new))
    names = [(word, sorted(own[each] for each in own.keys() - other)) for word, own, other in moved]
    return [f"{name_list(found)} {word}" for word, found in names if found]


def _nights(before: Release, release: Release) -> tuple[StreamRecord, StreamRecord] | None:
    """Return the nights of one stream that the releases are; None: two streams, or none."""
    one, other = before.stream, release.stream
    if one is None or other is None or one.stream != other.stream:
        return None
    return one, other


def _correlation(before: Release, release: Release, items: Sequence[str]) -> Floats | float:
    """Correlation of the errors of the scores on two nights of a stream; 0 for other releases.

    0 as well where different estimators made the scores, whose errors need not be alike: then a
    change counts only if it is larger than two independent nights explain.
    """
    nights = _nights(before, release)
    if (
        nights is None
        or len({each.privacy.parameters.get(ESTIMATOR) for each in (before, release)}) > 1
    ):
        return 0.0
    shares = [{line.item: line.noise_share for line in each.ranking} for each in (before, release)]
    old, new = (np.array([each[item] for item in items], np.float64) for each in shares)
    if np.isnan(old).any() or np.isnan(new).any():
        return 0.0
    one, other = nights
    sampling = sampling_correlation(one.totals, other.totals)
    return error_correlation((old, new), one.noise_correlation(other), sampling)


def _how(before: Release, release: Release) -> str:
    """Say what a change between two nights of a stream is; empty for other releases."""
    if (nights := _nights(before, release)) is None:
        return ""
    one, other = nights
    both = max((min(one.night, other.night) - max(one.first_shown, other.first_shown)).days + 1, 0)
    compared = (
        f"Compared are the answers of {_span(one)} and those of {_span(other)}. A change is the"
        " difference between what these two would say if every night came out anew very often."
    )
    if not both:
        return f"{compared} No night is in both; the noise they have in common is allowed for."
    return (
        f"{compared} {both} night{' is' if both == 1 else 's are'} in both, with the same answers,"
        " so a change comes from the nights in one of them alone; that, and the noise they have in"
        " common, is allowed for."
    )


def stream_sentence(night: StreamRecord) -> str:
    """Say what a night of a stream shows, and what it cost."""
    shown = "That night alone is shown" if len(night.answers) == 1 else f"Shown are {_span(night)}"
    first = night.number == 1
    cost = "it was charged with this one" if first else "this one cost nothing more"
    return (
        f"Night {night.number} of {night.nights} of a stream, {day_text(night.night)}. {shown}."
        f" One budget pays for all nights until {day_text(night.last)}; {cost}."
    )


def _span(night: StreamRecord) -> str:
    if night.first_shown == night.night:
        return day_text(night.night)
    return f"{day_text(night.first_shown)} to {day_text(night.night)}"


def day_text(day: date) -> str:
    """18 November 2026."""
    return f"{day.day} {day:%B %Y}"


def _why_not(before: Release, release: Release) -> str | None:
    """Why scores cannot be compared, or a sentence on lists without scores; None if they can be."""
    if (before.released.best or release.released.best) is not None:
        return _lists(before, release)
    if before.scale is not release.scale:
        return "It has another kind of score, so the two are not compared."
    if moved := _came_and_went(before, release):
        return (
            f"It ranked other items: {'; '.join(moved)}. A score is counted from the mean of its"
            " list, so the two are not compared; ranks among the items of both may be read side by"
            " side."
        )
    if not (before.informative and release.informative):
        return "One of the two shows nothing but noise, so there is nothing to compare."
    zeros = [np.mean([line.score for line in each.ranking]) for each in (before, release)]
    if release.scale in OF_ONE_MEAN and abs(zeros[0] - zeros[1]) > MOST_APART:
        return (
            "Nothing limits how far some items lie from the others in one of the two, so the zero"
            " of its scores is another one, and the two are not compared."
        )
    return None


def _lists(before: Release, release: Release) -> str:
    told = before.released.best, release.released.best
    if told[0] is None or told[1] is None:
        return "One of the two has scores and the other has a list, so they are not compared."
    shown = before.shown() | release.shown()
    old, new = ([shown.get(item, item) for item in best] for best in told if best is not None)
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
        interval=UNBOUNDED if np.isinf(found.high[i]) else f"{low} to {high}",
        ranks=ranks,
        beyond="yes" if found.beyond[i] else "no",
    )


def _signed(value: float, decimals: int) -> str:
    """A difference in the unit of the release; for shares, in percentage points."""
    if not np.isfinite(value):
        return "open"
    text = f"{value:+.{decimals}f}"
    return text if text.strip("+-0.") else text[1:]
