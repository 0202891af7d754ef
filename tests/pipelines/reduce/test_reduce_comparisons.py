"""The Beam pipeline: the same counts whatever the format, the files and the splits."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.reduction_job import ReduceComparisons, Statistic
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import BitSource
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.schema import ComparisonColumns, InputError, Ties
from hushrank.transforms.comparisons.bound import CONFLICT, Bounds
from hushrank.transforms.storage.files import list_files
from tests.flows.small_jobs import SMALL_JOBS
from tests.statistics import FALSE_POSITIVE_RATE, binomial_p_value

N_ITEMS, N_USERS, N_ROWS = 6, 40, 1000
KEY = SecretKey(bytes(range(32)), BitSource.SEEDED)
COLUMNS = {"left": "a", "right": "b", "outcome": "y", "winner": None}


def a_log(seed=1) -> pa.Table:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, N_ITEMS, N_ROWS)
    b = (a + rng.integers(1, N_ITEMS, N_ROWS)) % N_ITEMS
    user = rng.integers(0, N_USERS, N_ROWS) ** 2 // N_USERS  # some people answer often
    outcome = rng.integers(-1, 2, N_ROWS)
    event = rng.integers(0, 300, N_ROWS)
    return pa.table({"who": user, "a": a, "b": b, "y": outcome.astype(np.int8), "id": event})


def a_schema(user: pa.DataType) -> pa.Schema:
    schema = a_log().schema
    return schema.set(schema.get_field_index("who"), pa.field("who", user))


def a_job(folder: Path, work: Path, **changes) -> ReduceComparisons:
    """A job on every file of `folder`; `changes` are of `Bounds`, of the columns or of the job."""
    bounds = {"n_items": N_ITEMS, "ties": Ties.SPLIT, "max_contributions": 5}
    columns = {**COLUMNS, "user": "who", "event": None}
    job = {"statistic": Statistic.WIN_COUNTS}
    for name, value in changes.items():
        part = bounds if name in Bounds.__slots__ else columns if name in columns else job
        part[name] = value
    return ReduceComparisons(
        files=tuple(list_files([str(folder)])),
        columns=ComparisonColumns(**columns),
        catalogue=Catalogue.of_count(N_ITEMS),
        bounds=Bounds(**bounds),
        key=KEY,
        confidential=str(work),
        **job,
    )


def counts_of(folder: Path, work: Path, run=reduce.run, **changes) -> np.ndarray:
    run(a_job(folder, work, **changes))
    return np.load(work / "exact.npz")["counts"]


def tally_of(work: Path) -> dict[str, int]:
    return json.loads((work / "diagnostics.json").read_text())


def write(log: pa.Table, folder: Path, files: int, row_group: int, seed: int) -> None:
    """The same rows, shuffled, cut into unequal files and row groups."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    log = log.take(rng.permutation(len(log)))
    cuts = [0, *sorted(rng.integers(0, len(log), files - 1)), len(log)]
    for number, (start, end) in enumerate(itertools.pairwise(cuts)):
        pq.write_table(log[start:end], folder / f"{number}.parquet", row_group_size=row_group)


@pytest.fixture
def one_file(tmp_path) -> Path:
    write(a_log(), tmp_path / "one", 1, 10_000, 0)
    return tmp_path / "one"


SETTINGS = {
    "bounded": {},
    "pairs": {"statistic": Statistic.PAIR_COUNTS, "ties": Ties.RANDOM},
    "distinct": {"distinct_pairs": True, "ties": Ties.RANDOM},
    "capped": {"per_item_cap": 2, "ties": Ties.DROP},
    "events": {"event": "id", "ties": Ties.DROP},
    "comparison": {"max_contributions": None, "user": None},
    "comparison with coins": {"max_contributions": None, "user": None, "ties": Ties.RANDOM},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_counts_are_bit_identical_however_the_input_is_split(
    tmp_path, one_file, setting, monkeypatch
):
    changes = SETTINGS[setting]
    expected = counts_of(one_file, tmp_path / "w", SMALL_JOBS.run, **changes)
    tally = tally_of(tmp_path / "w")
    assert expected.sum() > 0
    for seed, (files, row_group) in enumerate([(1, 7), (5, 60), (40, 10_000)]):
        folder = tmp_path / f"split{seed}"
        write(a_log(), folder, files, row_group, seed)
        monkeypatch.setattr("hushrank.transforms.storage.split.BATCH_ROWS", [13, 100, 1][seed])
        monkeypatch.setattr("hushrank.pipelines.reduce.kind.ENCODE_ROWS", [7, 1000, 5][seed])
        monkeypatch.setattr("hushrank.pipelines.reduce.reduce.CHUNK_ROWS", [30, 200, 9][seed])
        monkeypatch.setattr("hushrank.transforms.comparisons.shuffle.BUCKET_ROWS", 50 * seed + 10)
        monkeypatch.setattr(
            "hushrank.transforms.comparisons.shuffle.MAX_LOCAL_PARTITION_BITS", seed
        )
        found = counts_of(folder, tmp_path / f"w{seed}", **changes)
        np.testing.assert_array_equal(found, expected)
        assert tally_of(tmp_path / f"w{seed}") == tally


def test_another_key_keeps_other_rows(tmp_path, one_file):
    job = a_job(one_file, tmp_path / "w", ties=Ties.DROP)
    one = counts_of(one_file, tmp_path / "w", ties=Ties.DROP)
    reduce.run(dataclasses.replace(job, key=SecretKey(bytes(32), BitSource.SEEDED)))
    assert (np.load(tmp_path / "w" / "exact.npz")["counts"] != one).any()


def test_counts_agree_with_counting_row_by_row(tmp_path, one_file):
    wins = np.zeros((N_ITEMS, N_ITEMS), np.int64)
    for row in a_log().to_pylist():
        winner, loser = (row["a"], row["b"]) if row["y"] > 0 else (row["b"], row["a"])
        wins[winner, loser] += 2 if row["y"] else 1
        wins[loser, winner] += 0 if row["y"] else 1
    without_bounds = {"max_contributions": None, "user": None}
    pairs = counts_of(one_file, tmp_path / "p", statistic=Statistic.PAIR_COUNTS, **without_bounds)
    np.testing.assert_array_equal(pairs, wins)
    np.testing.assert_array_equal(
        counts_of(one_file, tmp_path / "w", **without_bounds), wins.sum(1)
    )


def test_no_user_counts_more_than_the_bound(tmp_path, one_file):
    decided = Counter(row["who"] for row in a_log().to_pylist() if row["y"])
    counts = counts_of(one_file, tmp_path / "w", ties=Ties.DROP)
    assert counts.sum() == sum(min(times, 5) for times in decided.values())
    assert tally_of(tmp_path / "w")["owners"] == len(decided)


def test_csv_and_json_lines_give_the_counts_of_parquet(tmp_path, one_file):
    text = a_log()
    expected = counts_of(one_file, tmp_path / "w", user=None, max_contributions=None)
    (tmp_path / "csv").mkdir()
    pyarrow.csv.write_csv(text, tmp_path / "csv" / "log.csv")
    (tmp_path / "jsonl").mkdir()
    lines = "\n".join(json.dumps(row) for row in text.to_pylist())
    (tmp_path / "jsonl" / "log.jsonl").write_text(lines)
    for form in ("csv", "jsonl"):
        found = counts_of(tmp_path / form, tmp_path / f"w{form}", user=None, max_contributions=None)
        np.testing.assert_array_equal(found, expected)


def bad_rows() -> str:
    return "\n".join(
        [
            "who,a,b,y",
            "ann,0,1,1",
            "ann,0,1,+1",
            ",0,1,1",
            "ann,,1,1",
            "ann,0,9,1",
            "ann,2,2,1",
            "ann,0,1,",
            "ann,0,1,5",
            "ann,0,1",
            "bob,1,0,-1",
        ]
    )


def test_rows_that_break_a_rule_are_set_aside_with_the_reason(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "log.csv").write_text(bad_rows())
    counts = counts_of(tmp_path / "in", tmp_path / "w", ties=Ties.DROP)
    assert counts.tolist() == [3, 0, 0, 0, 0, 0]
    rejects = pa.concat_tables(
        [pq.read_table(path) for path in (tmp_path / "w" / "rejects").iterdir()],
        promote_options="default",
    )
    assert sorted(rejects["reason"].to_pylist()) == sorted(
        [
            "null user",
            "null item",
            "item not in the catalogue",
            "item against itself",
            "null outcome",
            "outcome is not +1, -1 or 0",
            "not a row of this format",
        ]
    )
    assert "ann,0,1" in rejects["line"].to_pylist()
    assert tally_of(tmp_path / "w")["rows_rejected"] == 7
    assert tally_of(tmp_path / "w")["rows_read"] == 10


def test_lines_that_are_no_rows_are_all_kept_where_batches_hold_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr("hushrank.transforms.storage.split.BLOCK_BYTES", 64)
    (tmp_path / "in").mkdir()
    row = json.dumps({"who": "ann", "a": 0, "b": 1, "y": 1})
    lines = [f"broken line {number}" for number in range(40)]
    (tmp_path / "in" / "log.jsonl").write_text("\n".join([row, *lines, row, *lines, ""]))
    counts_of(tmp_path / "in", tmp_path / "w")
    rejects = pa.concat_tables(map(pq.read_table, (tmp_path / "w" / "rejects").iterdir()))
    assert sorted(rejects["line"].to_pylist()) == sorted(2 * lines)
    assert tally_of(tmp_path / "w")["rows_rejected"] == 80


def test_on_bad_rows_fail_stops_and_says_where_the_rows_are(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "log.csv").write_text(bad_rows())
    with pytest.raises(InputError) as error:
        counts_of(tmp_path / "in", tmp_path / "w", fail_on_bad_rows=True)
    assert str(error.value) == (
        "input: some rows break a rule (on_bad_rows: fail). They are in"
        f" {tmp_path}/w/rejects with the reason; nothing was released or spent."
    )


def test_conflicting_copies_of_an_event_are_set_aside(tmp_path):
    (tmp_path / "in").mkdir()
    table = pa.table(
        {"who": [1, 1, 1], "a": [0, 0, 2], "b": [1, 1, 3], "y": [1, -1, 1], "id": [5, 5, 5]}
    )
    pq.write_table(table, tmp_path / "in" / "log.parquet")
    counts = counts_of(tmp_path / "in", tmp_path / "w", event="id", ties=Ties.DROP)
    assert counts.tolist() == [0, 0, 1, 0, 0, 0]
    (rejects,) = (tmp_path / "w" / "rejects").iterdir()
    table = pq.read_table(rejects).drop_columns(["source"])
    assert table.to_pylist() == [
        {"a": 0, "b": 1, "y": outcome, "who": 1, "id": 5, "reason": CONFLICT} for outcome in (1, -1)
    ]
    assert tally_of(tmp_path / "w")["conflicting_rows"] == 2


def test_conflicting_copies_keep_every_column_whatever_file_they_came_from(tmp_path, monkeypatch):
    monkeypatch.setattr("hushrank.transforms.storage.split.BATCH_ROWS", 4)
    monkeypatch.setattr("hushrank.pipelines.reduce.kind.ENCODE_ROWS", 3)
    event = np.arange(60) % 30  # each twice, in different files
    a = np.where(event % 3 == 2, 99, event % 3)  # 99 is no item: these rows break another rule
    outcome = np.random.default_rng(5).integers(-1, 2, 60)
    people = [f"p{number}" for number in event]
    log = pa.table({"who": people, "a": a, "b": [3] * 60, "y": outcome, "id": event})
    write(log, tmp_path / "in", files=4, row_group=7, seed=0)
    reduce.run(a_job(tmp_path / "in", tmp_path / "w", event="id"))

    rejects = pa.concat_tables(map(pq.read_table, (tmp_path / "w" / "rejects").iterdir()))
    found = rejects.filter(pc.equal(rejects["reason"], CONFLICT)).select(log.column_names)
    agree = np.repeat((outcome[:30] == outcome[30:])[None], 2, axis=0).reshape(-1)
    expected = log.filter(pa.array(~agree & (a != 99)))
    assert len(expected) > 10
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))


def test_a_log_without_a_valid_row_gives_zeros(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "log.csv").write_text("who,a,b,y\nann,0,0,1\n")
    with pq.ParquetWriter(tmp_path / "in" / "log.parquet", a_schema(pa.string())):
        pass  # not even a row group
    for name, changes in (("w", {}), ("v", SETTINGS["comparison"])):
        counts = counts_of(tmp_path / "in", tmp_path / name, **changes)
        assert counts.tolist() == [0] * N_ITEMS
        assert tally_of(tmp_path / name)["rows_rejected"] == 1


def test_a_file_that_is_damaged_inside_is_named_and_no_row_of_it(tmp_path, one_file):
    (file,) = one_file.iterdir()
    content = bytearray(file.read_bytes())
    content[100:400] = b"\xff" * 300
    file.write_bytes(content)
    with pytest.raises(InputError) as error:
        counts_of(one_file, tmp_path / "w")
    assert str(error.value) == f"{file}: damaged, not readable as parquet. Write it again."


def test_everything_confidential_is_readable_by_its_owner_only(tmp_path, one_file):
    counts_of(one_file, tmp_path / "w")
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "w").rglob("*") if path.is_file()}
    assert modes == {0o600}


@pytest.mark.parametrize("ties", [Ties.SPLIT, Ties.RANDOM])
@pytest.mark.parametrize("outcomes", [(1, 1, 1, 1), (0, 1, -1, 0), (0, 0, 0, 0)])
def test_which_pairs_count_does_not_depend_on_outcomes(tmp_path, ties, outcomes):
    """A public graph shows how often each pair counts: of 4 000 people with four rows each, two.

    False positives: 1e-6 for each pair; a pair that counts 20 % too seldom is noticed.
    """
    people, pairs = 4_000, [(0, 1), (2, 3), (4, 5), (1, 4)]
    left, right = np.tile(pairs, (people, 1)).T
    log = {"who": np.repeat(np.arange(people), 4), "a": left, "b": right}
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({**log, "y": np.tile(outcomes, people)}), tmp_path / "in/one.parquet")
    wins = counts_of(
        tmp_path / "in",
        tmp_path / "w",
        statistic=Statistic.PAIR_COUNTS,
        ties=ties,
        max_contributions=2,
    )
    met = (wins + wins.T) // ties.row_weight
    assert met.sum() == 2 * 2 * people
    for pair in pairs:
        assert binomial_p_value(int(met[pair]), people, 0.5) > FALSE_POSITIVE_RATE
        assert binomial_p_value(int(0.8 * met[pair]), people, 0.5) < FALSE_POSITIVE_RATE
