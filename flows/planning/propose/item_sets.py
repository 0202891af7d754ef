"""Guess whether rows hold choices of the best and the worst of a set of items (MaxDiff). Pure.

A row is one set, or holds all sets of a person: `best1`, `worst1`, `best2`, `worst2`. Which items a
set showed is in columns of the file, or in a design that only the holder of the survey knows. It is
never taken from the choices, which are answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hushrank.flows.planning.propose.names import (
    Row,
    flow,
    line,
    numbered_column,
    scalar,
    text_of,
    words_of,
)
from hushrank.flows.planning.propose.people import guess_user
from hushrank.flows.planning.propose.questions import Question
from hushrank.flows.planning.propose.rankings import RankingGuess, numbered_series
from hushrank.transforms.rankings.ranking_columns import ItemSet

_EMPTY = ("", "NA")  # cells that hold no choice
_BEST, _WORST = {"best", "most"}, {"worst", "least"}  # words of the names of two columns


def guess_best_worst(columns: Sequence[str], rows: Sequence[Row]) -> RankingGuess | None:
    """Read rows as choices of the best and the worst of items that other columns show (MaxDiff).

    Without this, the order in which items were shown could pass for a ranking. So it takes two
    columns whose names say best and worst, and a numbered series that holds both choices of every
    row.

    Args:
        columns: names, in the order of the file.
        rows: the first few rows; values as text, numbers, lists or None.
    """
    best = [column for column in columns if _BEST & {*words_of(column)}]
    worst = [column for column in columns if _WORST & {*words_of(column)}]
    if len(best) == len(worst) > 1:
        return _several_sets(columns, rows, best, worst)
    if len(best) != 1 or len(worst) != 1 or best == worst:
        return None
    chosen = [*best, *worst]
    for shown in numbered_series([column for column in columns if column not in chosen]):
        cells = [{text_of(row.get(column)) for column in shown} for row in rows]
        picks = [{text_of(row.get(column)) for column in chosen} - {""} for row in rows]
        if any(picks) and all(pick <= among for pick, among in zip(picks, cells, strict=True)):
            return RankingGuess(
                layout="best-worst",
                user=guess_user(columns, rows, [*chosen, *shown]),
                best=best[0],
                worst=worst[0],
                shown=tuple(shown),
                coded=numbered_column(rows, shown),
            )
    return None


def _several_sets(
    columns: Sequence[str], rows: Sequence[Row], best: Sequence[str], worst: Sequence[str]
) -> RankingGuess | None:
    """Read rows as several sets each; None: no number tells which choices are of one set."""
    of_worst = {_bare(column, _WORST): column for column in worst}
    pairs = [(column, of_worst.get(_bare(column, _BEST))) for column in best]
    if len(of_worst) < len(worst):
        return None
    free = [column for column in columns if column not in (*best, *worst)]
    sets = []
    for chosen in pairs:
        if chosen[1] is None:
            return None
        shown = _shown_of(free, rows, chosen[0], chosen[1])
        sets.append(ItemSet(best=chosen[0], worst=chosen[1], shown=shown))
    if len({bool(each.shown) for each in sets}) > 1:
        sets = [ItemSet(best=each.best, worst=each.worst) for each in sets]
    held = [name for each in sets for name in each.columns]
    return RankingGuess(
        layout="best-worst",
        user=guess_user(columns, rows, held, row_a_person=True),
        sets=tuple(sets),
        coded=numbered_column(rows, held),
    )


def _bare(column: str, words: set[str]) -> tuple[str, ...]:
    """Words of a name of a choice, but for those that say which choice it is."""
    return tuple(word for word in words_of(column) if word not in words)


def _shown_of(free: Sequence[str], rows: Sequence[Row], best: str, worst: str) -> tuple[str, ...]:
    """Columns of the items that a set showed: its number first, and both choices of each row."""
    numbers = [word for word in words_of(best) if word.isdigit()]
    mine = [
        column
        for column in free
        if [word for word in words_of(column) if word.isdigit()][:-1] == numbers
    ]
    cells = [{text_of(row.get(column)) for column in mine} for row in rows]
    picks = [{text_of(row.get(column)) for column in (best, worst)} - {*_EMPTY} for row in rows]
    held = all(pick <= among for pick, among in zip(picks, cells, strict=True))
    return tuple(mine) if len(mine) >= 2 and any(picks) and held else ()


def items_questions(guess: RankingGuess) -> tuple[Question, ...]:
    """Ask for the items of each set whose columns are missing."""
    return tuple(
        Question(
            key=f"input.columns.sets.{number}.items",
            short=f"the items of the set with {each.best}",
            asks=f"the items that everybody saw in the set with {scalar(each.best)}, from the"
            " design and never from the answers, for example [London, Paris, Rome]; if people saw"
            " different ones, write shown: and the columns that name them",
        )
        for number, each in enumerate(guess.sets)
        if not each.shown
    )


def shown_lines(guess: RankingGuess) -> Iterator[str]:
    """Yield the columns of the items shown, or of each of several sets."""
    if guess.shown:
        yield line("    shown", flow(guess.shown), "the items shown, best and worst among them")
    asked = {each.key: each for each in items_questions(guess)}
    if guess.sets:
        yield line("    sets", "", "the sets that a row holds").rstrip()
    for number, each in enumerate(guess.sets):
        yield line("      - best", scalar(each.best))
        yield line("        worst", scalar(each.worst))
        question = asked.get(f"input.columns.sets.{number}.items")
        shown = flow(each.shown)
        yield line("        shown", shown) if question is None else question.line


def columns_of_ranking(guess: RankingGuess) -> list[str]:
    """Columns of ranks, places or choices, which are no column of people."""
    ranked = [*guess.places, *guess.shown, *(column for column, _ in guess.items)]
    ranked += [name for each in guess.sets for name in each.columns]
    return [*ranked, *(name for name in (guess.best, guess.worst) if name is not None)]
