"""Simulated test answers: the design that was asked for, and the Rasch model."""

from __future__ import annotations

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import expit
from scipy.stats import norm

from hushrank.pipelines.simulate import simulate_responses as module
from hushrank.pipelines.simulate.simulate_responses import (
    ResponsesSpec,
    answer_blocks,
    simulate_responses,
)

FALSE_POSITIVE_RATE = 1e-6
SPEC = ResponsesSpec(items=9, people=500, answers=4, seed=2)


def rows_of(table: pa.Table) -> list[tuple]:
    return sorted(zip(*table.to_pydict().values(), strict=True))


def test_everybody_answers_so_many_items_none_twice(monkeypatch):
    monkeypatch.setattr(module, "BLOCK_ANSWERS", 300)
    blocks = list(answer_blocks(SPEC))
    assert len(blocks) == SPEC.n_blocks == 7
    table = pa.concat_tables(blocks)
    pairs = set(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True))
    assert len(pairs) == len(table) == 2000
    assert np.bincount(table["user"]).tolist() == [4] * 500


def test_the_files_hold_the_rows_and_the_truth_is_beside_them(tmp_path):
    written = simulate_responses(SPEC, tmp_path / "out", files=3)
    table = pa.concat_tables([pq.read_table(path) for path in written.log])
    assert rows_of(table) == rows_of(pa.concat_tables(answer_blocks(SPEC)))
    truth = [float(row["score"]) for row in csv.DictReader(written.truth.open())]
    np.testing.assert_array_equal(truth, SPEC.difficulties())
    assert sum(truth) == pytest.approx(0, abs=1e-12)


def test_answers_follow_the_rasch_model_with_harder_items_larger():
    """Share right of each item against its chance; a spread of difficulties 20 % off is caught."""
    spec = ResponsesSpec(items=5, people=40_000, answers=5, ability_spread=0.0, spread=2.0, seed=5)
    table = pa.concat_tables(answer_blocks(spec))
    right = np.bincount(table["item"], weights=table["correct"])

    def p_value(difficulties):
        chance = expit(-difficulties)
        z = (right - spec.people * chance) / np.sqrt(spec.people * chance * (1 - chance))
        return 2 * len(z) * norm.sf(np.abs(z).max())

    assert p_value(spec.difficulties()) > FALSE_POSITIVE_RATE
    assert p_value(1.2 * spec.difficulties()) < FALSE_POSITIVE_RATE
    assert p_value(-spec.difficulties()) < FALSE_POSITIVE_RATE


@pytest.mark.parametrize(
    ("field", "value"), [("items", 1), ("people", 0), ("answers", 10), ("spread", -1), ("seed", -1)]
)
def test_a_field_out_of_range_is_named(field, value):
    fields = {"items": 9, "people": 10, "answers": 4} | {field: value}
    with pytest.raises(ValueError, match=f"^{field} must be between .*, got {value}$"):
        ResponsesSpec(**fields)
