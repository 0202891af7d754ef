"""Differential measurements: the definition, exactly, however people are split into blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hushrank.estimation.responses import measurements as differential
from hushrank.estimation.responses.item_graph import ItemGraph, complete_graph
from hushrank.estimation.responses.measurements import (
    DifferentialMeasurements,
    item_tiles,
    joint_answers_of_answers,
    measurements_of_answers,
    measurements_of_block,
    measurements_on,
)

MISSING, WRONG, RIGHT = 0, 1, 2
PATH = ItemGraph(4, np.array([[0, 1], [1, 2], [2, 3]]))


@st.composite
def sheets(draw: st.DrawFn, max_people: int = 150, max_items: int = 7) -> NDArray[np.int64]:
    """Answer sheets, shape (people, m), often of more people than a word has bits."""
    shape = (draw(st.integers(0, max_people)), draw(st.integers(2, max_items)))
    seed = draw(st.integers(0, 2**32 - 1))
    weights = np.array(draw(st.sampled_from([(1, 1, 1), (8, 1, 1), (0, 1, 3), (5, 0, 1)])))
    return np.random.default_rng(seed).choice(3, shape, p=weights / weights.sum())


def by_definition(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum over people of A_li A_lj X_li (1 - X_lj), one person and one pair at a time."""
    y = np.zeros((table.shape[1],) * 2, np.int64)
    for sheet in table:
        for i, answer in enumerate(sheet):
            for j, other in enumerate(sheet):
                y[i, j] += answer == RIGHT and other == WRONG
    return y


def wide(table: NDArray[np.int64]) -> NDArray[np.int64]:
    return measurements_of_block(table == RIGHT, table != MISSING)


def long_form(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    person, item = np.nonzero(table)
    return person, item, (table[person, item] == RIGHT).astype(np.uint8)


@given(sheets())
@settings(deadline=None)
def test_wide_and_long_form_are_the_definition(table: NDArray[np.int64]) -> None:
    expected = by_definition(table)
    assert (wide(table) == expected).all()
    y = measurements_of_answers(*long_form(table), table.shape[1])
    assert y.dtype == np.int64
    assert (y == expected).all()


@given(sheets(), st.lists(st.integers(0, 150), max_size=4), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_every_split_and_order_of_people_gives_the_same_bits(
    table: NDArray[np.int64], cuts: list[int], shuffler: object
) -> None:
    n_items = table.shape[1]
    whole = wide(table)
    blocks = np.split(table, sorted(min(cut, len(table)) for cut in cuts))
    shuffler.shuffle(blocks)
    assert (sum(wide(block) for block in blocks) == whole).all()
    parts = [measurements_of_answers(*long_form(block), n_items) for block in blocks]
    assert (np.sum(parts, axis=0) == whole).all()


@given(sheets(), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_rows_may_come_in_any_order_and_people_have_any_code(
    table: NDArray[np.int64], seed: int
) -> None:
    random = np.random.default_rng(seed)
    person, item, correct = long_form(table)
    code = random.permutation(10**12 + np.arange(len(table)) * 7919)
    order = random.permutation(len(person))
    y = measurements_of_answers(
        code[person][order] if len(person) else person, item[order], correct[order], table.shape[1]
    )
    assert (y == wide(table)).all()


@pytest.mark.parametrize("work_per_pair", [0, 10**9])  # always sparse, always packed
def test_sparse_and_packed_products_agree(
    work_per_pair: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(differential, "WORK_PER_PAIR", work_per_pair)
    monkeypatch.setattr(differential, "CELLS_AT_ONCE", 1000)
    monkeypatch.setattr(differential, "PEOPLE_AT_ONCE", 300)
    monkeypatch.setattr(differential, "WORDS_AT_ONCE", 3)
    monkeypatch.setattr(differential, "PEOPLE_TURNED", 64)
    table = np.random.default_rng(0).choice(3, (2000, 11), p=(0.6, 0.2, 0.2))
    y = measurements_of_answers(*long_form(table), 11)
    joint = joint_answers_of_answers(*np.nonzero(table), 11)
    answered = (table != MISSING).astype(np.int64)
    assert (joint == answered.T @ answered).all()
    right, wrong = ((table == value).astype(np.int64) for value in (RIGHT, WRONG))
    assert (y == right.T @ wrong).all()
    assert (wide(table) == y).all()


@given(sheets(max_people=40), st.integers(1, 8))
@settings(deadline=None)
def test_tiles_cover_the_matrix_once(table: NDArray[np.int64], side: int) -> None:
    n_items = table.shape[1]
    expected = wide(table)
    from_long, covered = np.zeros_like(expected), np.zeros_like(expected)
    for rows, columns in item_tiles(n_items, side):
        covered[rows, columns] += 1
        from_long[rows, columns] = measurements_of_answers(
            *long_form(table), n_items, rows, columns
        )
    assert (covered == 1).all()
    assert (from_long == expected).all()


@given(sheets())
@settings(deadline=None)
def test_joint_answers_count_pairs_of_answers(table: NDArray[np.int64]) -> None:
    answered = table != MISSING
    joint = joint_answers_of_answers(*np.nonzero(table), table.shape[1])
    assert (joint == answered.astype(np.int64).T @ answered.astype(np.int64)).all()
    assert (wide(table) + wide(table).T <= joint).all()


def test_an_item_answered_twice_is_refused() -> None:
    item, correct = np.array([0, 1, 0]), np.array([1, 0, 1], np.uint8)
    with pytest.raises(ValueError, match="twice") as refusal:
        measurements_of_answers(np.array([77, 77, 77]), item, correct, 3)
    assert "77" not in str(refusal.value)
    assert measurements_of_answers(np.array([7, 7, 8]), item, correct, 3).sum() == 1


@pytest.mark.parametrize(
    ("item", "correct", "message"),
    [
        ([0, 3], [0, 1], "between 0 and 2"),
        ([-1, 1], [0, 1], "between 0 and 2"),
        ([0, 1], [0, 2], "0 and 1"),
        ([0, 1, 2], [0, 1], "one shape"),
    ],
)
def test_bad_answers_are_refused(item: list[int], correct: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measurements_of_answers(np.zeros(2, int), np.array(item), np.array(correct, np.uint8), 3)


def test_bad_tables_are_refused() -> None:
    answered = np.zeros((2, 3), np.bool_)
    with pytest.raises(ValueError, match="right only where"):
        measurements_of_block(~answered, answered)
    with pytest.raises(ValueError, match="boolean"):
        measurements_of_block(np.zeros((2, 3)), answered)
    with pytest.raises(ValueError, match="side"):
        item_tiles(5, 0)


def test_measurements_hold_only_what_lies_on_the_graph() -> None:
    y = np.arange(16).reshape(4, 4)
    on_path = measurements_on(PATH, y)
    assert on_path.confidential
    assert on_path.n_items == 4
    assert (on_path.y == np.where(PATH.mask(), y, 0)).all()
    assert (measurements_on(complete_graph(4), y).y == y - np.diag(np.diag(y))).all()
    with pytest.raises(ValueError, match="shape"):
        measurements_on(PATH, y[:3, :3])


@pytest.mark.parametrize(
    ("entry", "value", "message"), [((0, 2), 1, "off the graph"), ((0, 1), -1, "negative")]
)
def test_malformed_measurements_are_refused(
    entry: tuple[int, int], value: int, message: str
) -> None:
    y = np.zeros((4, 4), np.int64)
    y[entry] = value
    with pytest.raises(ValueError, match=message):
        DifferentialMeasurements(y, PATH)


def test_only_noisy_measurements_may_be_negative() -> None:
    y = np.zeros((4, 4), np.int64)
    y[0, 1] = -3
    assert DifferentialMeasurements(y, PATH, confidential=False).y[0, 1] == -3
    with pytest.raises(ValueError, match="int64"):
        DifferentialMeasurements(y.astype(np.float64), PATH, confidential=False)
