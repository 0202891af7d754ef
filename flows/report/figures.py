"""The figures that the report of a release shows: its released statistic names them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.flows.release.boards import RankedItem
from hushrank.flows.release.release import Release
from hushrank.flows.release.released import Figure
from hushrank.flows.release.scale import WORDS, Axis, Scale, axis_of, round_marks, score_text
from hushrank.flows.release.wording import exact_text, name_list
from hushrank.flows.report.drawings import (
    Cell,
    IntervalRow,
    bars,
    intervals,
    matrix,
)
from hushrank.privacy.units import NoiseKind, Unit
from hushrank.transforms.common.schema import Ties

if TYPE_CHECKING:
    from hushrank.flows.release.private_sums import ChosenEpsilons

MOST_NAMED = 60  # most items for which each row has its name
MOST, BEST = 400, 360  # most items drawn; a longer ranking shows so many of its best, and its worst
MOST_IN_MATRIX = 25  # items of a matrix; a longer ranking shows its best
MARGIN = 0.03  # part of an axis of counts between its last mark and its edge
MOST_GROUPS = 8  # most sets of items that a caption names
CONFIDENCE = "With 95 % confidence."
ASSUMED_COUNTS = (
    " How often each item was compared is not released: it is taken to be what the configuration"
    " expects, and an item that was compared less often has a wider interval than is shown."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFigure:
    """A section of the report.

    Attributes:
        identifier: identifier of its heading, unique in the page.
        title: heading of the figure.
        svg: the drawing.
        caption: text on how to read it.
        table: the same numbers for readers who do not see it, the first row the header; empty if
            another table of the page has them.
    """

    identifier: str
    title: str
    svg: Markup
    caption: str
    table: tuple[tuple[str, ...], ...] = ()


def figures_of(release: Release) -> list[ReportFigure]:
    """The figures of a release, in the order of the page."""
    drawn = (FIGURES[each](release) for each in release.released.shows)
    return [figure for figure in drawn if figure is not None]


def win_counts_figure(release: Release) -> ReportFigure:
    """The win counts, and the intervals that hold the exact ones."""
    wins = release.released.wins_by_item()
    if wins is None:
        raise ValueError(f"a release of {release.released.kind} has no win counts to draw")
    exact = release.privacy.mechanism == "none"
    first, last = release.ranking[0], release.ranking[-1]
    description = (
        f"Plot of the win counts with their intervals, best on top: from {first.shown} with"
        f" {wins[first.item]:,} to {last.shown} with {wins[last.item]:,}. The"
        " ranking table has the same numbers."
    )
    dots = (
        "Dots are the win counts as they were counted: no noise was added."
        if exact
        else "Dots are the win counts as released, noise included. The wide band is the privacy"
        " noise alone: the exact count lies in it."
    )
    chance = " The thin line adds chance in who answered what." if release.informative else ""
    return ReportFigure(
        identifier="counts",
        title="Win counts" if exact else "Noisy win counts",
        svg=_win_counts(release, wins, description),
        caption=f"{dots}{chance} {CONFIDENCE}{_left_out(release)}",
    )


def scores_figure(release: Release) -> ReportFigure:
    """The scores and their intervals."""
    words, (first, last) = WORDS[release.scale], (release.ranking[0], release.ranking[-1])
    best, worst = (score_text(release.scale, line.score, 2) for line in (first, last))
    description = (
        f"Plot of the scores with their intervals, {words.first} on top: from {first.shown} at"
        f" {best}{words.unit} to {last.shown} at {worst}{words.unit}. The ranking table has the"
        " same numbers."
    )
    band = "The band is where the score lies, given the noise and chance in who answered what."
    assumed = ASSUMED_COUNTS if release.released.assumes_exposures else ""
    return ReportFigure(
        identifier="scores",
        title="Scores",
        svg=_scores(release, description),
        caption=(
            f"Dots are the scores. {band} {CONFIDENCE}{_open_ends(release)}{assumed}"
            f"{_left_out(release)}"
        ),
    )


def _drawn(release: Release) -> list[tuple[int, RankedItem]]:
    """The lines of the ranking that have a row, with their numbers: all, or both ends."""
    lines = [*enumerate(release.ranking, start=1)]
    return lines if len(lines) <= MOST else lines[:BEST] + lines[BEST - MOST :]


def _in_rows(
    release: Release,
    axis: Axis,
    rows: Sequence[IntervalRow],
    words: str,
    description: str,
    **more: Any,
) -> Markup:
    """The drawing of the rows of `_drawn`."""
    return intervals(
        rows,
        axis,
        words=words,
        description=description,
        numbers=None if len(rows) <= MOST_NAMED else [number for number, _ in _drawn(release)],
        cut=BEST if len(rows) < len(release.ranking) else None,
        **more,
    )


def _scores(
    release: Release,
    description: str,
    stripes: Sequence[tuple[int, int]] = (),
    zero: float | None = None,
) -> Markup:
    """Dots at the scores, the first item on top, with the interval of each alone."""
    rows = [
        IntervalRow(
            name=line.shown,
            title=exact_text(release, line),
            at=line.score,
            band=(line.low, line.high),
        )
        for _, line in _drawn(release)
    ]
    axis = axis_of(release.scale, release.ranking)
    words = WORDS[release.scale].plot
    return _in_rows(release, axis, rows, words, description, stripes=stripes, zero=zero)


def _sets(release: Release) -> list[tuple[int, int]]:
    """First and last row of each set of items that share a place."""
    found, first = [], 0
    for _, group in groupby(_drawn(release), key=lambda each: each[1].group):
        size = len(list(group))
        if size > 1:
            found.append((first, first + size - 1))
        first += size
    return found


def _win_counts(release: Release, wins: dict[str, int | float], description: str) -> Markup:
    """Dots at the counts; the wide band is the privacy noise, the thin line adds chance."""
    drawn, half = _drawn(release), noise_half_width(release)
    asked = 2 * sum(wins.values()) / len(wins)  # comparisons of an item, as the scores assume
    chance = release.informative and release.scale is Scale.WIN_SHARE
    rows = [
        IntervalRow(
            name=line.shown,
            title=exact_text(release, line),
            at=wins[line.item],
            band=(wins[line.item] - half, wins[line.item] + half) if half > 0 else None,
            thin=(line.low / 100 * asked, line.high / 100 * asked) if chance else None,
        )
        for _, line in drawn
    ]
    ends = [end for row in rows for part in (row.band, row.thin, (row.at,)) for end in part or ()]
    low, high = min(ends), max(ends)
    margin = MARGIN * (high - low) or 1.0
    marks, decimals = round_marks(low - margin, high + margin)
    ticks = tuple((at, f"{at:,.{decimals}f}") for at in marks)
    axis = Axis(low - margin, high + margin, ticks)
    words = "comparisons won" + ", noise included" * (release.privacy.mechanism != "none")
    return _in_rows(release, axis, rows, words, description)


def noise_half_width(release: Release) -> float:
    """Half width of the 95 % interval of an exact count around the noisy one, in comparisons."""
    privacy = release.privacy
    if privacy.mechanism == "none" or release.noise_variance is None:
        return 0.0
    kind = NoiseKind(privacy.mechanism.removeprefix("discrete-"))
    deviations = float(quantile(np.array(1.0), LEVEL / 2, kind, n_draws=1))
    units = getattr(release.released, "row_weight", (privacy.ties or Ties.DROP).row_weight)
    return deviations * math.sqrt(release.noise_variance) / units


def _shown_items(release: Release) -> list[str]:
    """The items that a matrix shows: all, or the best if there are many."""
    return [line.item for line in release.ranking[:MOST_IN_MATRIX]]


def _matrix(release: Release, wins: Floats, verb: str, description: str) -> Markup:
    """Rows and columns by rank; the more often a row beat a column, the stronger the colour.

    Pairs that were never compared have no cell.
    """
    items, labels = _shown_items(release), release.shown()
    most = max(float(np.nanmax(wins)), 1.0)

    def cell(row: int, column: int) -> Cell | None:
        won = float(wins[row, column])
        if row == column or math.isnan(won):
            return None
        return Cell(
            strength=min(max(won / most, 0.0), 1.0),
            number=f"{won:,.0f}",
            title=f"{labels[items[row]]} {verb} {labels[items[column]]}: {won:,g}",
        )

    among = range(len(items))
    cells = [[cell(row, column) for column in among] for row in among]
    return matrix([labels[item] for item in items], cells, description)


def heatmap_figure(release: Release) -> ReportFigure | None:
    """The noisy matrix of wins; None where no pair met that could be shown."""
    pairs, shown = release.released, _shown_items(release)
    wins = pairs.among(shown)
    if wins is None or np.isfinite(wins).sum() <= len(shown):  # the diagonal alone
        return None
    exact = release.privacy.mechanism == "none"
    labels = release.shown()
    which = "" if len(shown) == len(release.ranking) else f" of the best {len(shown)} items"
    counted = "as counted" if exact else "noise included"
    description = (
        f"Heatmap of the matrix of wins{which}, best first: how often the item of the row beat the"
        f" item of the column, {counted}, from {labels[shown[0]]} to {labels[shown[-1]]}."
        " The table below it has the same numbers."
    )
    negative = "" if exact else " Noise can make a count negative; such cells stay blank."
    if pairs.public_totals:
        negative += " So do pairs that nobody compared."
    return ReportFigure(
        identifier="matrix",
        title="Who beat whom" if exact else "Who beat whom, with noise",
        svg=_matrix(release, wins, "over", description),
        caption=(
            f"The matrix that was released{which}, best first. The stronger the colour of a cell,"
            " the more often the item of its row beat the item of its column."
            f"{negative} The whole matrix is in release.json."
        ),
        table=_matrix_table(
            release, wins, "Wins of … over", int(getattr(pairs, "row_weight", 1) > 1)
        ),  # half wins
    )


def _matrix_table(
    release: Release, wins: Floats, corner: str, decimals: int = 0
) -> tuple[tuple[str, ...], ...]:
    shown, labels = _shown_items(release), release.shown()
    rows = (
        (labels[name], *("–" if math.isnan(won) else f"{won:,.{decimals}f}" for won in row))
        for name, row in zip(shown, wins.tolist(), strict=True)
    )
    return ((corner, *(labels[name] for name in shown)), *rows)


def above_figure(release: Release) -> ReportFigure | None:
    """Draw how often one item is above another in rankings, or answers; None: not counted."""
    rankings, shown, labels = release.released.ballots, _shown_items(release), release.shown()
    above = release.released.among(shown)
    if above is None:
        return None
    changed = release.privacy.unit is Unit.LOCAL  # before they were counted: counts have no noise
    noise = "" if changed or release.privacy.mechanism == "none" else ", with noise"
    which = "" if len(shown) == len(release.ranking) else f" of the best {len(shown)} items"
    description = (
        f"Heatmap{which}, best first: in how many {rankings} the item of the row is above the"
        f" item of the column, from {labels[shown[0]]} to {labels[shown[-1]]}."
        " The table below it has the same numbers."
    )
    return ReportFigure(
        identifier="matrix",
        title=f"Who is above whom, in {rankings}",
        svg=_matrix(release, above, "above", description),
        caption=(
            f"Counted in {rankings}{noise}{which}, best first. The stronger a cell, the more of"
            " them have the item of its row above the item of its column. All counts are in"
            " release.json."
        ),
        table=_matrix_table(release, above, f"{rankings.split()[-1].capitalize()} with … above"),
    )


def item_map_figure(release: Release) -> ReportFigure:
    """The difficulties on one axis, and which items are in no sure order."""
    first, last = release.ranking[0], release.ranking[-1]
    hardest, easiest = (score_text(release.scale, line.score, 2) for line in (first, last))
    description = (
        f"Item map: the difficulties with their intervals, hardest on top, from {first.shown} at"
        f" {hardest} to {last.shown} at {easiest}. The ranking table has the same numbers."
    )
    exact = release.privacy.mechanism == "none"
    because = "chance in who answered" if exact else "the noise and chance in who answered"
    return ReportFigure(
        identifier="item-map",
        title="Item map",
        svg=_scores(release, description, _sets(release), zero=0.0),
        caption=(
            f"Dots are the difficulties; harder items are further right and further up. The band is"
            f" where a difficulty lies, given {because}. {CONFIDENCE}{_open_ends(release)}"
            f" {_not_ordered(release)}{_left_out(release)}"
        ),
    )


def chosen_figure(release: Release) -> ReportFigure | None:
    """Draw the epsilons that people chose; None where they had no choice, or it was not counted."""
    chosen: ChosenEpsilons | None = getattr(release.released, "chosen", None)
    if chosen is None:
        return None
    bins = _bins(chosen)
    most = max(bins, key=lambda each: each[2])
    description = (
        f"Plot of the epsilons that people chose, from {chosen.low:g} to {chosen.high:g}: most"
        f" answers, {most[3]:.0f} %, have one between {most[0]:.3g} and {most[1]:.3g}. The table"
        " below it has the same numbers."
    )
    counts = (
        "less noise it has. Here all answers count alike (model.weights: equal), so the ranking is"
        " that of all people whose answers count."
        if release.privacy.parameters.get("weights") == "equal"
        else "less noise it has, and the more it counts. So if people who chose more privacy prefer"
        " other items, the ranking leans to the others."
    )
    rows = (
        (f"{low:.3g} to {high:.3g}", f"{answers:,}", f"{share:.1f} %", f"{known:.1f} %")
        for low, high, answers, share, known in bins
    )
    return ReportFigure(
        identifier="chosen",
        title="Which epsilons people chose",
        svg=_chosen(chosen, bins, description),
        caption=(
            "Pale bars are shares of the answers, strong bars what these answers add to what is"
            f" known about the scores: the larger an answer's epsilon, the {counts}"
            " If 1 % of the answers were dishonest, shares of wins"
            f" would move by at most about {chosen.weight_of_lies:.1f} percentage points."
        ),
        table=(("epsilon", "answers", "of all", "of what is known"), *rows),
    )


def _bins(chosen: ChosenEpsilons) -> list[tuple[float, float, int, float, float]]:
    """Ends, answers, share of answers and share of information of each bin, in percent."""
    edges = np.linspace(chosen.low, chosen.high, len(chosen.answers) + 1).tolist()
    everyone = sum(chosen.answers)
    return [
        (low, high, answers, 100 * answers / everyone, 100 * known)
        for low, high, answers, known in zip(
            edges[:-1], edges[1:], chosen.answers, chosen.information, strict=True
        )
    ]


def _chosen(
    chosen: ChosenEpsilons,
    bins: Sequence[tuple[float, float, int, float, float]],
    description: str,
) -> Markup:
    """Two bars for each bin: its share of the answers, and of what is known about the scores."""
    groups = [
        (
            f"epsilon {low:.3g} to {high:.3g}: {answers:,} answers,"
            f" {known:.1f} % of what is known about the scores",
            (share, known),
        )
        for low, high, answers, share, known in bins
    ]
    highest = max(max(values) for _, values in groups)
    up, decimals = round_marks(0, highest, 4)
    marks, digits = round_marks(chosen.low, chosen.high)
    across = [(at, f"{at:.{digits}f}") for at in marks]
    return bars(
        groups,
        (("soft", "answers"), ("cell", "what is known about the scores")),
        Axis(chosen.low, chosen.high, tuple(across)),
        Axis(0, highest, tuple((at, f"{at:.{decimals}f} %") for at in up)),
        "epsilon",
        description,
    )


def _open_ends(release: Release) -> str:
    axis = axis_of(release.scale, release.ranking)
    if all(axis.low <= line.low and line.high <= axis.high for line in release.ranking):
        return ""
    return " A band with an arrow goes on, or has no end, on that side."


def _not_ordered(release: Release) -> str:
    """Say which items share a place."""
    groups: dict[int, list[str]] = {}
    for line in release.ranking:
        groups.setdefault(line.group, []).append(line.shown)
    shared = [name_list(names) for names in groups.values() if len(names) > 1]
    if not shared:
        return "Every item has a place of its own."
    more = len(shared) - MOST_GROUPS
    rest = f"; and {more} more such sets, see the places in the ranking" if more > 0 else ""
    return f"In no sure order (shaded): {'; '.join(shared[:MOST_GROUPS])}{rest}."


def _left_out(release: Release) -> str:
    drawn = len(_drawn(release))
    if drawn == len(release.ranking):
        return "" if drawn <= MOST_NAMED else " Point at a row to see whose it is."
    words = WORDS[release.scale]
    return (
        f" Drawn are the {words.first} and, below the dotted line, the {words.last}: {drawn} of"
        f" {len(release.ranking):,}."
    )


FIGURES: dict[Figure, Callable[[Release], ReportFigure | None]] = {
    Figure.WIN_COUNTS: win_counts_figure,
    Figure.SCORES: scores_figure,
    Figure.WINS: heatmap_figure,
    Figure.ABOVE: above_figure,
    Figure.ITEM_MAP: item_map_figure,
    Figure.CHOSEN: chosen_figure,
}
