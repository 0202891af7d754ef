"""Ranks over time: a figure of the page of a stream, and a picture of its own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import date, timedelta

from markupsafe import Markup

from hushrank.flows.release.axis import Axis, round_marks
from hushrank.flows.release.release import Release
from hushrank.flows.release.wording import rank_interval
from hushrank.flows.report.drawings import Curve, curves
from hushrank.flows.report.figures import CONFIDENCE, ReportFigure
from hushrank.flows.report.svg import WIDTH, drawing, element, picture_bytes, text
from hushrank.transforms.common.plain_text import short

MOST_LINES = 10  # items drawn: the first of the last release
MOST_POINTS = 40  # most releases for which each rank has a mark
MOST_DAYS = 6  # most steps between the days that the axis names
MARGIN = 0.03  # part of the axis between its ends and the first and the last release
EPOCH = date(1970, 1, 1)  # start of the axis of days


def history_figure(release: Release, earlier: Sequence[Release]) -> ReportFigure | None:
    """Ranks over the nights of a stream; None where there is nothing to draw."""
    nights = [each for each in (*earlier, release) if each.informative]
    if len(nights) < 2 or not release.informative:
        return None
    first, best = nights[0].day, release.ranking[:MOST_LINES]
    which = f"the best {len(best)} items" if len(best) < len(release.ranking) else "all items"
    description = (
        f"Plot of the ranks of {which} from {first} to {release.day}, rank 1 on top, with the ranks"
        f" that each can have. Last of all {best[0].shown} has rank {rank_interval(best[0])}."
    )
    height, drawn = _ranks_over_time(nights)
    return ReportFigure(
        identifier="over-time",
        title="Ranks over time",
        svg=drawing("curves", height, description, drawn),
        caption=(
            f"The ranks of {which} on the last {len(nights)} nights that say anything; the band of"
            f" an item shows the ranks that it can have. {CONFIDENCE} Nights next to each other"
            " share most of their answers and part of their noise: what changed since the last one"
            " is tested above."
        ),
    )


def ranks_over_time(
    releases: Sequence[Release], suffix: str, breaks: Collection[str] = ()
) -> bytes:
    """A picture of its own: a line for each item, rank 1 on top, with 95 % intervals.

    Args:
        releases: releases of one population, the earliest first.
        suffix: `.svg` or `.png`.
        breaks: ids of releases before which the job changed: a line stands there.
    """
    height, drawn = _ranks_over_time(releases, breaks)
    heading = f"{short(releases[-1].heading)}: {len(releases)} releases"
    body = element("g", drawn, transform="translate(0 30)")
    whole = drawing("curves", height + 34, heading, text(heading, 0, 14, "title"), body)
    return picture_bytes(whole, WIDTH, suffix)


def _ranks_over_time(
    releases: Sequence[Release], breaks: Collection[str] = ()
) -> tuple[float, Markup]:
    """The height of the drawing, and what is in it."""
    places, last = _places_in_time(releases), releases[-1]
    best = last.ranking[:MOST_LINES]
    lines = [{line.item: line for line in release.ranking} for release in releases]
    drawn = []
    for line in best:
        held = [
            (x, each[line.item]) for x, each in zip(places, lines, strict=True) if line.item in each
        ]
        said = [
            f"{line.shown}, {EPOCH + timedelta(math.floor(x))}: rank {rank_interval(each)}"
            for x, each in held
        ]
        drawn.append(
            Curve(
                name=line.shown,
                title=said[-1],
                points=[(x, each.rank, words) for (x, each), words in zip(held, said, strict=True)],
                area=[(each.rank_low, each.rank_high) for _, each in held],
            )
        )
    lowest = max(len(best), *(line.rank_high for line in best))
    height = max(36 * len(best), 120.0)
    marks = [at for at in round_marks(1, max(lowest, 2))[0] if at >= 1 and at == round(at)]
    up = Axis(lowest + 0.5, 0.5, tuple((at, f"{at:.0f}") for at in sorted({1.0, *marks})))
    between = [
        (places[place - 1] + places[place]) / 2
        for place, release in enumerate(releases)
        if release.release_id in breaks and place
    ]
    body = curves(
        drawn,
        _axis_of_time(releases, places),
        up,
        height=height,
        width=WIDTH,
        words="rank, with 95 % interval",
        marks=between,
        points=len(releases) <= MOST_POINTS,
    )
    return height + 72, body


def _places_in_time(releases: Sequence[Release]) -> list[float]:
    """Places of releases on the axis of days; several of one day stand beside each other."""
    days = [release.day for release in releases]
    found, same = [], Counter(days)
    seen: Counter[date] = Counter()
    for day in days:
        found.append((day - EPOCH).days + seen[day] / same[day])
        seen[day] += 1
    return found


def _axis_of_time(releases: Sequence[Release], places: Sequence[float]) -> Axis:
    """The axis of days, which names the last one and some before it."""
    first, last = places[0], places[-1]
    margin = MARGIN * max(last - first, 1.0)
    days: list[int] = []
    for place in reversed(places):
        day = math.floor(place)
        if not days or days[0] - day >= (last - first) / MOST_DAYS > 0:
            days.insert(0, day)
    years = len({release.day.year for release in releases}) > 1
    dates = [EPOCH + timedelta(day) for day in days]
    texts = [f"{date.day} {date:{'%b %Y' if years else '%b'}}" for date in dates]
    return Axis(first - margin, last + margin, tuple(zip(map(float, days), texts, strict=True)))
