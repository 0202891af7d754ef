"""Arrow files: no value of a row, however it is stored, is a matter of another row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.transforms.common.encode import pseudonyms
from hushrank.transforms.common.epsilons import read_epsilon_table
from tests.transforms.row_kinds import HASH, KINDS, Kept, kept

dictionary = pa.DictionaryArray.from_arrays
DATES = pa.array([20_777 * 86_400_000 + extra for extra in (0, 5, 0)], pa.int64())
UNITS = np.array([10, 0, 10**9, 0, 10, 0], np.int64)  # three integers of 128 bits
DECIMALS = pa.Array.from_buffers(pa.decimal128(3, 1), 3, [None, pa.py_buffer(UNITS)])


def kept_of(folder: Path, kind: str, **columns: pa.Array) -> Kept:
    """What is kept of three rows, on London against Paris."""
    common = {"left": ["London"] * 3, "right": ["Paris"] * 3, "outcome": [1] * 3}
    table = pa.table({"user": pa.array(["ann", "ben", "cat"]), **common, **columns})
    path = folder / "answers.arrow"
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    return kept(path, KINDS[kind])


def people(found: Kept) -> set[tuple[int, int]]:
    return {owner for owner, *_ in found.elements()}


def hashes(names: pa.Array) -> set[tuple[int, int]]:
    return {tuple(pair) for pair in pseudonyms(names, HASH).tolist()}


FIRST_AND_LAST = hashes(pa.array(["ann", "cat"]))


@pytest.mark.parametrize(
    ("user", "names"),
    [
        (dictionary([0, 1, 2], pa.array([7.0, 2.5, 8.0])), pa.array([7, 8])),
        (dictionary([0, 1, 2], pa.array([7, None, 8])), pa.array([7, 8])),
        (dictionary([0, 1, 2], pa.array(["7", None, "8"])), pa.array([7, 8])),
        (
            pa.array([b"ann", b"\xff", b"cat"], pa.binary_view()).view(pa.string_view()),
            pa.array(["ann", "cat"]),
        ),
    ],
)
def test_who_has_no_name_is_set_aside_alone(tmp_path: Path, user: pa.Array, names: pa.Array):
    assert people(kept_of(tmp_path, "comparisons", user=user)) == hashes(names)


def test_a_bad_row_leaves_dictionaries_of_numbers_alone(tmp_path: Path):
    long = pa.array(["ann", "b" * 5000, "cat"])
    outcome = dictionary([0, 0, 0], pa.array([1]))
    assert people(kept_of(tmp_path, "comparisons", user=long, outcome=outcome)) == FIRST_AND_LAST


def test_a_date_within_a_day_is_a_matter_of_its_own_row(tmp_path: Path):
    found = kept_of(tmp_path, "in a window", at=DATES.view(pa.date64()))
    assert people(found) >= FIRST_AND_LAST


def test_a_decimal_beyond_its_digits_is_a_matter_of_its_own_row(tmp_path: Path):
    found = kept_of(tmp_path, "weighted comparisons", weight=DECIMALS)
    assert people(found) >= FIRST_AND_LAST


def test_a_table_of_epsilons_may_name_people_in_a_view_of_texts(tmp_path: Path):
    path = tmp_path / "epsilons.parquet"
    names = pa.array(["7", "ann"]).cast(pa.string_view())
    pq.write_table(pa.table({"user": names, "epsilon": [1.0, 2.0]}), path)
    values, known = read_epsilon_table(str(path)).of(pa.array([7, 8]))
    assert values[0] == 1.0
    assert known.tolist() == [True, False]
