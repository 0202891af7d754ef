"""Which figures the report of a release shows, by the kind of its released statistics.

A method that releases another kind adds a function here, under the type of its record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from hushrank.flows.release.axis import axis_of
from hushrank.flows.release.effects import ReleasedEffects
from hushrank.flows.release.private_sums import ReleasedPairAnswers, ReleasedSums
from hushrank.flows.release.public_pairs import ReleasedOutcomes
from hushrank.flows.release.ranking_counts import ReleasedAbove, ReleasedNets, ReleasedPlaces
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import WORDS, score_text
from hushrank.flows.release.statistics import (
    ReleasedCounts,
    ReleasedList,
    ReleasedMeasurements,
    ReleasedPairs,
    ReleasedRandomized,
    ReleasedRankings,
    ReleasedScores,
)
from hushrank.flows.release.ties import ReleasedTies
from hushrank.flows.release.win_loss import ReleasedWinLoss
from hushrank.flows.release.wording import name_list, rank_interval
from hushrank.flows.report.chosen_plot import bins_of, chosen_svg
from hushrank.flows.report.heatmap import Matrix, heatmap_svg, shown_items
from hushrank.flows.report.history_plot import MOST_LINES, ranks_over_time_svg
from hushrank.flows.report.item_map import item_map_svg
from hushrank.flows.report.plots import MOST_NAMED, drawn_lines, scores_svg, win_counts_svg

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
        title: its heading.
        svg: the drawing.
        caption: how to read it.
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
    figures = FIGURES[type(release.released)]
    drawn = (figure(release) for figure in figures)
    return [figure for figure in drawn if figure is not None]


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
    return ReportFigure(
        identifier="over-time",
        title="Ranks over time",
        svg=Markup(ranks_over_time_svg(nights, description)),
        caption=(
            f"The ranks of {which} on the last {len(nights)} nights that say anything; bands and"
            f" bars are the ranks that an item can have. {CONFIDENCE} Nights next to each other"
            " share most of their answers and part of their noise: what changed since the last one"
            " is tested above."
        ),
    )


def _met(release: Release) -> bool:
    """Whether there is a pair to show in a heatmap."""
    pairs = release.released
    if not isinstance(pairs, ReleasedOutcomes):
        return True
    if pairs.pairs is None:
        return False
    shown = pairs.among(shown_items(release))
    return bool(np.isfinite(shown).sum() > len(shown))


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
        svg=Markup(win_counts_svg(release, wins, description)),
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
    released = release.released
    expected = isinstance(released, ReleasedScores) and released.exposures is None
    assumed = ASSUMED_COUNTS if expected else ""
    return ReportFigure(
        identifier="scores",
        title="Scores",
        svg=Markup(scores_svg(release, description)),
        caption=f"Dots are the scores. {band} {CONFIDENCE}{assumed}{_left_out(release)}",
    )


def heatmap_figure(release: Release) -> ReportFigure | None:
    """The noisy matrix of wins; None where no pair met that could be shown."""
    pairs = release.released
    if not isinstance(pairs, ReleasedPairs | ReleasedOutcomes | ReleasedTies):
        raise ValueError(f"a release of {pairs.kind} has no matrix to draw")
    if not _met(release):
        return None
    exact, shown = release.privacy.mechanism == "none", shown_items(release)
    labels = release.shown()
    which = "" if len(shown) == len(release.ranking) else f" of the best {len(shown)} items"
    counted = "as counted" if exact else "noise included"
    description = (
        f"Heatmap of the matrix of wins{which}, best first: how often the item of the row beat the"
        f" item of the column, {counted}, from {labels[shown[0]]} to {labels[shown[-1]]}."
        " The table below it has the same numbers."
    )
    negative = "" if exact else " Noise can make a count negative; such cells stay blank."
    if isinstance(pairs, ReleasedOutcomes):
        negative += " So do pairs that nobody compared."
    return ReportFigure(
        identifier="matrix",
        title="Who beat whom" if exact else "Who beat whom, with noise",
        svg=Markup(heatmap_svg(release, pairs, description)),
        caption=(
            f"The matrix that was released{which}, best first. The stronger the colour of a cell,"
            " the more often the item of its row beat the item of its column."
            f"{negative} The whole matrix is in release.json."
        ),
        table=_matrix_table(
            release, pairs, "Wins of … over", int(getattr(pairs, "row_weight", 1) > 1)
        ),  # half wins
    )


def _matrix_table(
    release: Release, pairs: Matrix, corner: str, decimals: int = 0
) -> tuple[tuple[str, ...], ...]:
    shown, labels = shown_items(release), release.shown()
    rows = (
        (labels[name], *("–" if math.isnan(won) else f"{won:,.{decimals}f}" for won in row))
        for name, row in zip(shown, pairs.among(shown).tolist(), strict=True)
    )
    return ((corner, *(labels[name] for name in shown)), *rows)


def above_figure(release: Release) -> ReportFigure:
    """How often one item is ranked above another in the private rankings, or answers."""
    pairs = release.released
    if not isinstance(pairs, ReleasedRankings | ReleasedAbove | ReleasedPairAnswers):
        raise ValueError(f"a release of {pairs.kind} has no rankings to draw")
    rankings, noise = _rankings_words(release)
    shown, labels = shown_items(release), release.shown()
    which = "" if len(shown) == len(release.ranking) else f" of the best {len(shown)} items"
    description = (
        f"Heatmap{which}, best first: in how many {rankings} the item of the row is above the"
        f" item of the column, from {labels[shown[0]]} to {labels[shown[-1]]}."
        " The table below it has the same numbers."
    )
    return ReportFigure(
        identifier="matrix",
        title=f"Who is above whom, in {rankings}",
        svg=Markup(heatmap_svg(release, pairs, description)),
        caption=(
            f"Counted in {rankings}{noise}{which}, best first. The stronger a cell, the more of"
            " them have the item of its row above the item of its column. All counts are in"
            " release.json."
        ),
        table=_matrix_table(release, pairs, f"{rankings.split()[-1].capitalize()} with … above"),
    )


def _rankings_words(release: Release) -> tuple[str, str]:
    """What was counted, and which noise the counts have."""
    if isinstance(release.released, ReleasedRankings):
        return "private rankings", ""
    if isinstance(release.released, ReleasedPairAnswers):
        return "private answers", ""
    exact = release.privacy.mechanism == "none"
    return "rankings", "" if exact else ", with noise"


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
        svg=Markup(item_map_svg(release, description)),
        caption=(
            f"Dots are the difficulties; harder items are further right and further up. The band is"
            f" where a difficulty lies, given {because}. {CONFIDENCE}{_open_ends(release)}"
            f" {_not_ordered(release)}{_left_out(release)}"
        ),
    )


def chosen_figure(release: Release) -> ReportFigure | None:
    """Which epsilons people chose; None where they had no choice, or it was not counted."""
    chosen = release.released.chosen if isinstance(release.released, ReleasedSums) else None
    if chosen is None:
        return None
    bins = bins_of(chosen)
    most = max(bins, key=lambda each: each[2])
    description = (
        f"Plot of the epsilons that people chose, from {chosen.low:g} to {chosen.high:g}: most"
        f" answers, {most[3]:.0f} %, have one between {most[0]:.3g} and {most[1]:.3g}. The table"
        " below it has the same numbers."
    )
    rows = (
        (f"{low:.3g} to {high:.3g}", f"{answers:,}", f"{share:.1f} %", f"{known:.1f} %")
        for low, high, answers, share, known in bins
    )
    return ReportFigure(
        identifier="chosen",
        title="Which epsilons people chose",
        svg=Markup(chosen_svg(release, chosen, description)),
        caption=(
            "Pale bars are shares of the answers, strong bars what these answers add to what is"
            " known about the scores: the larger an answer's epsilon, the less noise it has. If 1 %"
            " of the answers were dishonest, shares of wins would move by at most about"
            f" {chosen.weight_of_lies:.1f} percentage points."
        ),
        table=(("epsilon", "answers", "of all", "of what is known"), *rows),
    )


def _open_ends(release: Release) -> str:
    axis = axis_of(release.scale, release.ranking)
    if all(axis.low <= line.low and line.high <= axis.high for line in release.ranking):
        return ""
    return " A band with an arrow goes on, or has no end, on that side."


def _not_ordered(release: Release) -> str:
    """Which items share a place."""
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
    drawn = len(drawn_lines(release))
    if drawn == len(release.ranking):
        return "" if drawn <= MOST_NAMED else " Point at a line to see whose it is."
    words = WORDS[release.scale]
    return (
        f" Drawn are the {words.first} and, below the dotted line, the {words.last}: {drawn} of"
        f" {len(release.ranking):,}."
    )


FIGURES: dict[type[Any], tuple[Callable[[Release], ReportFigure | None], ...]] = {
    ReleasedCounts: (win_counts_figure,),
    ReleasedWinLoss: (scores_figure,),
    ReleasedPairs: (scores_figure, heatmap_figure),
    ReleasedOutcomes: (scores_figure, heatmap_figure),
    ReleasedTies: (scores_figure, heatmap_figure),
    ReleasedScores: (scores_figure,),
    ReleasedEffects: (scores_figure,),
    ReleasedSums: (scores_figure, chosen_figure),
    ReleasedMeasurements: (item_map_figure,),
    ReleasedRandomized: (item_map_figure,),
    ReleasedRankings: (scores_figure, above_figure),
    ReleasedPairAnswers: (scores_figure, above_figure),
    ReleasedAbove: (scores_figure, above_figure),
    ReleasedNets: (scores_figure,),
    ReleasedPlaces: (scores_figure,),
    ReleasedList: (),
}
