"""The pipeline of test answers: the same measurements whatever the format, files and splits."""

from __future__ import annotations

import dataclasses
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from hushrank.estimation.responses.measurements import randomized_measurements
from hushrank.estimation.responses.spectral_estimate import FEWEST_PARTS
from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.responses_job import ReduceResponses
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomized_response import split_response
from hushrank.privacy.randomness import BitSource
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.randomisation import LocalAnswers
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.responses.answer_counts import PARTS
from hushrank.transforms.responses.answer_sheets import REPEATED, Duplicates
from hushrank.transforms.responses.responses import ResponseColumns, WideColumns
from hushrank.transforms.storage.files import list_files
from tests.flows.small_jobs import SMALL_JOBS

N_ITEMS, N_PEOPLE, K = 7, 60, 4
KEY = SecretKey(bytes(range(32)), BitSource.SEEDED)


def a_log(*, repeated: bool = False) -> pa.Table:
    """Answers of people who answered 1 to 7 items each; with `repeated`, some of them twice."""
    rng = np.random.default_rng(3)
    given = rng.random((N_PEOPLE, N_ITEMS)) < rng.uniform(0.3, 1, N_PEOPLE)[:, None]
    who, item = np.nonzero(given)
    if repeated:
        again = rng.integers(0, len(who), 80)
        who, item = np.append(who, who[again]), np.append(item, item[again])
    return pa.table(
        {
            "who": who,
            "item": item,
            "right": rng.integers(0, 2, len(who)).astype(np.int8),
            "time": rng.integers(0, 5, len(who)),
        }
    )


def a_job(folder: Path, work: Path, **changes) -> ReduceResponses:
    """A job on every file of `folder`; `changes` are of the job, but for `order`."""
    order = changes.pop("order", None)
    job = ReduceResponses(
        files=tuple(list_files([str(folder)])),
        columns=ResponseColumns(user="who", item="item", correct="right", order=order),
        catalogue=Catalogue.of_count(N_ITEMS),
        max_answers=K,
        duplicates=Duplicates.REFUSE,
        key=KEY,
        confidential=str(work),
    )
    return dataclasses.replace(job, **changes)


def y_of(folder: Path, work: Path, run=reduce.run, **changes) -> np.ndarray:
    run(a_job(folder, work, **changes))
    return np.load(work / "exact.npz")["y"]


def tally_of(work: Path) -> dict[str, int]:
    return json.loads((work / "diagnostics.json").read_text())


def write(log: pa.Table, folder: Path, files: int = 1, row_group: int = 10_000, seed=None) -> Path:
    """The rows, shuffled if there is a seed, cut into unequal files and row groups."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    if seed is not None:
        log = log.take(rng.permutation(len(log)))
    cuts = [0, *sorted(rng.integers(0, len(log), files - 1)), len(log)]
    for number, (start, end) in enumerate(pairwise(cuts)):
        pq.write_table(log[start:end], folder / f"{number}.parquet", row_group_size=row_group)
    return folder


def y_by_loops(rows: list[dict]) -> np.ndarray:
    y = np.zeros((N_ITEMS, N_ITEMS), np.int64)
    for one in rows:
        for other in rows:
            if one["who"] == other["who"] and one["right"] and not other["right"]:
                y[one["item"], other["item"]] += 1
    return y


SETTINGS = {
    "sampled": {},
    "all answers": {"max_answers": N_ITEMS},
    "refused": {"repeated": True},
    "first": {"repeated": True, "order": "time", "duplicates": Duplicates.FIRST},
    "last": {"repeated": True, "order": "time", "duplicates": Duplicates.LAST},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_measurements_are_bit_identical_however_the_input_is_split(tmp_path, setting, monkeypatch):
    changes = dict(SETTINGS[setting])
    log = a_log(repeated=changes.pop("repeated", False))
    expected = y_of(write(log, tmp_path / "one"), tmp_path / "w", SMALL_JOBS.run, **changes)
    tally = tally_of(tmp_path / "w")
    assert expected.sum() > 0
    for seed, (files, row_group) in enumerate([(1, 7), (5, 60), (30, 10_000)]):
        folder = write(log, tmp_path / f"split{seed}", files, row_group, seed)
        monkeypatch.setattr("hushrank.transforms.storage.split.BATCH_ROWS", [13, 100, 1][seed])
        partition = "hushrank.pipelines.reduce.reduce_responses.PARTITION_ANSWERS"
        monkeypatch.setattr(partition, 40 * seed + 20)
        found = y_of(folder, tmp_path / f"w{seed}", **changes)
        np.testing.assert_array_equal(found, expected)
        assert tally_of(tmp_path / f"w{seed}") == tally


def test_measurements_agree_with_counting_pair_by_pair(tmp_path):
    log = a_log()
    y = y_of(write(log, tmp_path / "in"), tmp_path / "w", max_answers=N_ITEMS)
    np.testing.assert_array_equal(y, y_by_loops(log.to_pylist()))


def test_nobody_moves_more_than_the_sensitivity_allows(tmp_path):
    """Of one person: at most floor(K^2 / 4) ones, and none in both entries of a pair."""
    log = a_log()
    for who in range(8):
        rows = log.filter(pa.compute.equal(log["who"], who))
        y = y_of(write(rows, tmp_path / f"in{who}"), tmp_path / f"w{who}", SMALL_JOBS.run)
        assert y.sum() <= K**2 // 4
        assert y.max() <= 1
        assert not (y & y.T).any()


def test_the_sample_ignores_whether_answers_were_right(tmp_path):
    log = a_log()
    right = log.column("right").to_numpy()
    kept = []
    for flipped in (right, 1 - right):
        changed = log.set_column(2, "right", pa.array(flipped))
        folder = write(changed, tmp_path / f"in{len(kept)}")
        kept.append(y_of(folder, tmp_path / f"w{len(kept)}"))
    np.testing.assert_array_equal(kept[0], kept[1].T)


def test_another_key_keeps_other_answers(tmp_path):
    folder = write(a_log(), tmp_path / "in")
    another = SecretKey(b"\x01" * 32, BitSource.SEEDED)
    one, other = (y_of(folder, tmp_path / f"w{key.value[0]}", key=key) for key in (KEY, another))
    assert (one != other).any()


def wide_table(log: pa.Table) -> pa.Table:
    cells = np.full((N_PEOPLE, N_ITEMS), None, object)
    cells[log["who"].to_numpy(), log["item"].to_numpy()] = log["right"].to_numpy()
    columns = {str(item): pa.array(cells[:, item], pa.int8()) for item in range(N_ITEMS)}
    return pa.table({"who": np.arange(N_PEOPLE)} | columns)


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_a_wide_table_gives_the_measurements_of_the_long_one(tmp_path, form, monkeypatch):
    log = a_log()
    expected = y_of(write(log, tmp_path / "long"), tmp_path / "w", max_answers=N_ITEMS)
    table = wide_table(log)
    folder = tmp_path / "wide"
    folder.mkdir()
    if form == "parquet":
        pq.write_table(table, folder / "a.parquet", row_group_size=9)
    elif form == "csv":
        pyarrow.csv.write_csv(table, folder / "a.csv")
    else:
        lines = "\n".join(json.dumps(row) for row in table.to_pylist())
        (folder / "a.jsonl").write_text(lines)
    monkeypatch.setattr("hushrank.transforms.storage.split.BATCH_ROWS", 20)
    wide = WideColumns(user="who", items=Catalogue.of_count(N_ITEMS).names)
    y = y_of(folder, tmp_path / "ww", columns=wide, max_answers=N_ITEMS)
    np.testing.assert_array_equal(y, expected)


BAD_LOG = """who,item,right
ann,0,1
ann,1,false
,0,1
ann,,1
ann,99,1
ann,2,
ann,3,maybe
ann,4
bob,5,1
bob,5,1
bob,6,0
"""


def test_rows_that_break_a_rule_are_set_aside_with_the_reason(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "log.csv").write_text(BAD_LOG)
    y = y_of(tmp_path / "in", tmp_path / "w")
    assert np.argwhere(y).tolist() == [[0, 1]]
    rejects = pa.concat_tables(
        [pq.read_table(path) for path in (tmp_path / "w" / "rejects").iterdir()],
        promote_options="default",
    )
    assert sorted(rejects["reason"].to_pylist()) == sorted(
        [
            "null user",
            "null item",
            "item not in the catalogue",
            "null answer",
            "answer is neither 0 nor 1",
            "not a row of this format",
            *[REPEATED] * 2,
        ]
    )
    tally = tally_of(tmp_path / "w")
    assert (tally["rows_read"], tally["rows_rejected"], tally["answers_kept"]) == (11, 8, 3)


def test_on_bad_rows_fail_stops_and_says_where_the_rows_are(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "log.csv").write_text(BAD_LOG)
    with pytest.raises(InputError) as error:
        y_of(tmp_path / "in", tmp_path / "w", fail_on_bad_rows=True)
    assert str(error.value) == (
        "input: some rows break a rule (on_bad_rows: fail). They are in"
        f" {tmp_path}/w/rejects with the reason; nothing was released or spent."
    )


def test_everything_confidential_is_readable_by_its_owner_only(tmp_path):
    y_of(write(a_log(repeated=True), tmp_path / "in"), tmp_path / "w")
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "w").rglob("*") if path.is_file()}
    assert modes == {0o600}


@pytest.mark.parametrize("debiased", [True, False])
def test_answers_randomised_at_a_huge_epsilon_give_the_exact_measurements(tmp_path, debiased):
    folder = write(a_log(), tmp_path / "in", files=3, row_group=20, seed=1)
    y = y_of(folder, tmp_path / "w", max_answers=N_ITEMS)
    local = LocalAnswers(split_response(1e6, N_ITEMS), debiased)
    reduce.run(a_job(folder, tmp_path / "l", max_answers=N_ITEMS, local=local))
    stored = np.load(tmp_path / "l" / "exact.npz")
    assert stored["sums"].shape == (PARTS, N_ITEMS, N_ITEMS)
    np.testing.assert_array_equal(stored["sums"].sum(axis=0), y << 30)
    assert np.count_nonzero(stored["people"].sum(axis=1)) > FEWEST_PARTS


def test_randomised_sums_differ_from_run_to_run_but_not_in_who_answered(tmp_path):
    """Coins come from the operating system, also under one key; who answered how much does not."""
    folder = write(a_log(), tmp_path / "in")
    found = []
    for run in range(2):
        work = tmp_path / f"w{run}"
        local = LocalAnswers(split_response(1.0, N_ITEMS), debiased=False)
        reduce.run(a_job(folder, work, local=local))
        found.append(dict(np.load(work / "exact.npz")))
    assert (found[0]["sums"] != found[1]["sums"]).any()
    np.testing.assert_array_equal(found[0]["people"], found[1]["people"])
    assert found[0]["people"].sum() == len(set(a_log()["who"].to_pylist()))


def test_answers_that_are_private_already_are_not_randomised_again(tmp_path):
    """They are summed as they came: every run gives what the answers of each person say."""
    folder = write(a_log(), tmp_path / "in")
    response = split_response(1.0, N_ITEMS)
    local = LocalAnswers(response, debiased=True, already_private=True)
    reduce.run(a_job(folder, tmp_path / "w", max_answers=N_ITEMS, local=local))
    who, item, right, _ = (column.to_numpy() for column in a_log().columns)
    whole = randomized_measurements(
        who.astype(np.int64), item.astype(np.int64), right.astype(np.uint8), N_ITEMS, response
    )
    stored = np.load(tmp_path / "w" / "exact.npz")
    np.testing.assert_array_equal(stored["sums"].sum(axis=0), whole.sums)
    np.testing.assert_array_equal(stored["people"].sum(axis=0), whole.people)
