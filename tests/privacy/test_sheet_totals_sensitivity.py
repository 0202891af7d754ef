"""Sensitivity of totals of sheets, by enumeration of every pair of adjacent inputs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from hushrank.estimation.responses.sheet_totals import SheetShape
from hushrank.privacy.sensitivity import sheet_totals_sensitivity
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit

Booklets = tuple[tuple[int, ...], ...]


def params(items: int, adjacency: Adjacency, unit: Unit = Unit.USER) -> PrivacyParams:
    return PrivacyParams(unit=unit, adjacency=adjacency, epsilon=1.0, max_contributions=items)


def vectors(shape: SheetShape, groups: int = 1) -> NDArray[np.int64]:
    """What each possible person adds, sheets that are set aside among them; a row each."""
    found = [np.zeros(groups * shape.n_entries, np.int64)]
    for group, items in product(range(groups), shape.booklets):
        for answers in product((0, 1), repeat=len(items)):
            person = np.zeros(len(items), np.int64)
            own = shape.count(person, np.array(items), np.array(answers, np.uint8))
            found.append(np.zeros_like(found[0]))
            found[-1][group * shape.n_entries :][: shape.n_entries] = own
    return np.array(found)


def largest(rows: NDArray[np.int64], adjacency: Adjacency) -> tuple[int, int]:
    moves = rows if adjacency is Adjacency.ADD_REMOVE else (rows[:, None] - rows[None])
    moves = moves.reshape(-1, rows.shape[1])
    return int(np.abs(moves).sum(axis=1).max()), int((moves**2).sum(axis=1).max())


PLAIN: dict[str, tuple[int, Booklets, int]] = {
    "three items": (3, (), 1),
    "six items": (6, (), 1),
    "six items on knots": (6, (), 4),
    "five items, two groups": (5, (), 1),
    "two of four": (4, ((0, 1), (2, 3), (1, 2)), 1),
    "three of five, groups": (5, ((0, 1, 2), (2, 3, 4)), 2),
    "booklets of two sizes": (5, ((0, 1), (1, 2, 3, 4)), 1),
}


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(("answer", "sheet"), [(1, 1), (1, 4), (3, 2)])
@pytest.mark.parametrize("name", PLAIN)
def test_it_is_the_largest_move(name, answer, sheet, adjacency):
    n_items, booklets, step = PLAIN[name]
    shape = SheetShape(
        n_items=n_items,
        booklets=booklets or (tuple(range(n_items)),),
        step=step,
        answer_weight=answer,
        sheet_weight=sheet * step,
    )
    groups = 2 if "groups" in name else 1
    most = max(map(len, shape.booklets))
    bound = sheet_totals_sensitivity(params(most, adjacency), n_items, answer, sheet * step)
    assert largest(vectors(shape, groups), adjacency) == (bound.l1, bound.l2_squared)


def test_right_answers_alone_would_need_more():
    """The code 0 or 2 moves as far in one cell, and further between groups or from nobody."""
    shape = SheetShape(
        n_items=4, booklets=(tuple(range(4)),), step=1, answer_weight=1, sheet_weight=1
    )
    rows = vectors(shape, 2)
    for group in range(2):
        cells = slice(group * shape.n_entries, group * shape.n_entries + 4)
        here = rows[:, group * shape.n_entries + 4 :][:, :5].any(axis=1)
        rows[here, cells] += 1
    for adjacency, plain in ((Adjacency.ADD_REMOVE, 4), (Adjacency.REPLACE_ONE, 8)):
        bound = sheet_totals_sensitivity(params(4, adjacency), 4)
        of_sheets = 1 if adjacency is Adjacency.ADD_REMOVE else 2
        assert largest(rows, adjacency)[1] == plain * 4 + of_sheets > bound.l2_squared


def test_more_answers_than_items_cost_nothing():
    many, all_ = (params(k, Adjacency.REPLACE_ONE) for k in (1000, 5))
    assert sheet_totals_sensitivity(many, 5) == sheet_totals_sensitivity(all_, 5)


def test_what_cannot_be_is_refused():
    row = params(1, Adjacency.REPLACE_ONE, Unit.COMPARISON)
    with pytest.raises(ValueError, match="unit: user, got comparison"):
        sheet_totals_sensitivity(row, 4)
    for weights in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="must be >= 1"):
            sheet_totals_sensitivity(params(3, Adjacency.REPLACE_ONE), 4, *weights)
    with pytest.raises(ValueError, match="n_items must be >= 2"):
        sheet_totals_sensitivity(params(3, Adjacency.REPLACE_ONE), 1)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    ("n_items", "booklets", "groups", "bands"),
    [(4, (), 1, 2), (6, (), 1, 3), (4, (), 2, 2), (5, ((0, 1, 2, 3), (1, 2, 3, 4)), 1, 2)],
)
def test_bands_of_raw_scores_move_no_more(n_items, booklets, groups, bands, adjacency):
    """A sheet touches one entry of each of its items, in its own band."""
    shape = SheetShape(
        n_items=n_items,
        booklets=booklets or (tuple(range(n_items)),),
        step=1,
        answer_weight=2,
        sheet_weight=3,
        bands=bands,
    )
    l1, l2_squared = largest(vectors(shape, groups), adjacency)
    most = max(map(len, shape.booklets))
    bound = sheet_totals_sensitivity(params(most, adjacency), n_items, 2, 3)
    assert l1 == bound.l1
    assert l2_squared <= bound.l2_squared
    if adjacency is Adjacency.ADD_REMOVE:
        assert l2_squared == bound.l2_squared
