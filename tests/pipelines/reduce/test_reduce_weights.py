"""Reductions of rows with weights: the same counts however the input is cut, and bad weights."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.pipelines.engine.runner import MemoryPlan
from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.reduction_job import Statistic
from hushrank.privacy.row_weights import Counted, RowFactors
from hushrank.privacy.units import UNITS, Adjacency, Bounding, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.common.schema import Ties
from tests.pipelines.reduce.test_reduce_comparisons import N_ITEMS, a_job, a_log, tally_of, write

PARAMS = PrivacyParams(
    unit=Unit.USER,
    adjacency=Adjacency.REPLACE_ONE,
    epsilon=1.0,
    delta=1e-6,
    noise=NoiseKind.GAUSSIAN,
    max_contributions=3,
    distinct_pairs=True,
    bounding=Bounding.WEIGHTS,
)
FACTORS = {
    "max_contributions": 3,
    "distinct_pairs": True,
    "factors": RowFactors(PARAMS, Counted.PAIRS, N_ITEMS),
}
SURVEY = {"weight": "w", "most_units": 2_000}
SETTINGS = {
    "heavy users": {**FACTORS, "statistic": Statistic.PAIR_COUNTS},
    "survey": {**SURVEY, "ties": Ties.DROP},
    "both": {**SURVEY, **FACTORS, "ties": Ties.RANDOM},
    "events": {**SURVEY, **FACTORS, "event": "id"},
    "comparison": {**SURVEY, "max_contributions": None, "user": None, "ties": Ties.DROP},
}


def log_with_weights() -> pa.Table:
    weights = np.random.default_rng(9).choice([0.0, 0.5, 1.0, 1.75, 4.0], len(a_log()))
    return a_log().append_column("w", pa.array(weights))


def reduced(folder, work, **changes):
    """Counts and sum of squares."""
    columns = {name: changes.pop(name) for name in tuple(changes) if name in SURVEY}
    job = a_job(folder, work, **changes)
    reduce.run(replace(job, columns=replace(job.columns, **columns)))
    with np.load(work / "exact.npz") as arrays:
        return arrays["counts"], int(arrays["squares"][0])


@pytest.mark.parametrize("setting", SETTINGS)
def test_weighted_counts_do_not_depend_on_files_and_pieces(tmp_path, setting, monkeypatch):
    changes = SETTINGS[setting]
    write(log_with_weights(), tmp_path / "one", 1, 10_000, 0)
    expected, squares = reduced(tmp_path / "one", tmp_path / "w", **changes)
    assert expected.sum() > 0
    assert squares > 0
    write(log_with_weights(), tmp_path / "many", 5, 60, 1)
    monkeypatch.setattr("hushrank.pipelines.reduce.kind.ENCODE_ROWS", 100)
    monkeypatch.setattr("hushrank.pipelines.reduce.reduce.CHUNK_ROWS", 200)
    monkeypatch.setattr("hushrank.transforms.comparisons.shuffle.BUCKET_ROWS", 60)
    plan = MemoryPlan(waiting_bytes=1 << 20, rows_at_once=40)  # so that buckets come in pieces
    monkeypatch.setattr(MemoryPlan, "of", lambda *_: plan)
    found = reduced(tmp_path / "many", tmp_path / "v", **changes)
    np.testing.assert_array_equal(found[0], expected)
    assert found[1] == squares


def test_every_row_of_a_heavy_user_counts_with_the_root(tmp_path):
    (tmp_path / "in").mkdir()
    pairs = [(a, b) for a in range(N_ITEMS) for b in range(a)]
    log = {"who": [1] * 15 + [2] * 2, "a": [a for a, _ in pairs] + [1, 2]}
    log |= {"b": [b for _, b in pairs] + [0, 0], "y": [1] * 17, "id": range(17)}
    pq.write_table(pa.table({k: list(v) for k, v in log.items()}), tmp_path / "in" / "0.parquet")
    counts, squares = reduced(tmp_path / "in", tmp_path / "w", **SETTINGS["heavy users"])
    each = int(UNITS * np.sqrt(3 / 15))
    assert counts.sum() == 2 * (15 * each + 2 * UNITS)  # ties are split
    assert squares == 15 * each**2 + 2 * UNITS**2
    assert 15 * each**2 <= 3 * UNITS**2


def test_a_bad_weight_sets_its_row_aside_with_the_reason(tmp_path):
    (tmp_path / "in").mkdir()
    texts = ["1", " 0.5", "9", "0", "", "-1", "nan", "inf", "1e400", "much", "-0.0"]
    lines = "".join(f"p{k},0,1,1,{text}\n" for k, text in enumerate(texts))
    (tmp_path / "in" / "log.csv").write_text(f"who,a,b,y,w\n{lines}")
    counts, squares = reduced(tmp_path / "in", tmp_path / "w", **SETTINGS["survey"])
    assert counts.tolist() == [3_500, 0, 0, 0, 0, 0]
    assert squares == 1_000**2 + 500**2 + 2_000**2
    rejects = pa.concat_tables(map(pq.read_table, (tmp_path / "w" / "rejects").iterdir()))
    reasons = sorted(
        zip(rejects["w"].to_pylist(), rejects["reason"].to_pylist(), strict=True), key=str
    )
    bad = "weight is no number from 0 on"
    wanted = [(text, bad) for text in ("-1", "1e400", "inf", "much", "nan")]
    assert reasons == sorted([*wanted, (None, "null weight")], key=str) or reasons == sorted(
        [*wanted, ("", "null weight")], key=str
    )
    assert tally_of(tmp_path / "w")["units_kept"] == 3_500


def test_copies_of_an_event_with_other_weights_contradict_each_other(tmp_path):
    (tmp_path / "in").mkdir()
    log = {"who": [1, 1, 2, 2], "a": [0] * 4, "b": [1] * 4, "y": [1] * 4, "id": [5, 5, 6, 6]}
    table = pa.table({**log, "w": [1.0, 1.5, 1.0, 1.0]})
    pq.write_table(table, tmp_path / "in" / "0.parquet")
    counts, _ = reduced(tmp_path / "in", tmp_path / "w", **SURVEY, event="id", ties=Ties.DROP)
    assert counts.tolist() == [1_000, 0, 0, 0, 0, 0], "person 2 counts once, person 1 not at all"
    assert tally_of(tmp_path / "w")["conflicting_rows"] == 2


@pytest.mark.parametrize("name", ["counts", "squares"])
def test_lost_weights_stop_the_run(tmp_path, name, monkeypatch):
    write(log_with_weights(), tmp_path / "one", 1, 10_000, 0)
    whole = "hushrank.transforms.comparisons.aggregate._WeightedFn.extract_output"

    def short(self, sums):
        found = {"counts": sums[:-1].reshape(self.counts_shape), "squares": sums[-1:]}
        found[name].flat[0] -= 1
        return found

    monkeypatch.setattr(whole, short)
    with pytest.raises(RuntimeError, match="the engine lost or repeated rows"):
        reduced(tmp_path / "one", tmp_path / "w", **SETTINGS["both"])
    assert json.loads((tmp_path / "w" / "diagnostics.json").read_text())["units_kept"] > 0
