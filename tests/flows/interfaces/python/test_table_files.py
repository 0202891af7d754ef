"""The copy of a table is its owner's alone, and goes with the run that made it."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.python.tables import FOLDER, ROWS_AT_ONCE, table_file
from hushrank.flows.ledger.keys import KEY_BYTES, LedgerKey
from hushrank.flows.release.identity import Contents, input_names

KEY, OTHER_KEY = LedgerKey(bytes(KEY_BYTES), ""), LedgerKey(bytes([1] * KEY_BYTES), "")
TABLE = pa.table({"user": [1, 2, 3], "winner": ["a", "b", None]})
ROLES = [("user", "user"), ("winner", "winner")]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_its_owner_can_open_it(tmp_path: Path):
    area = tmp_path / "new" / "work"
    with table_file(TABLE.to_batches(), ROLES, area, KEY) as file:
        path = Path(file.path)
        assert (mode(area), mode(area / FOLDER), mode(path)) == (0o700, 0o700, 0o600)
        assert pq.read_table(path) == TABLE
    assert not path.exists()


def test_its_identity_is_that_of_its_rows_under_the_key(tmp_path: Path):
    identities = []
    for table, key in ((TABLE, KEY), (TABLE.take([2, 0, 1]), KEY), (TABLE, OTHER_KEY)):
        with table_file(table.to_batches(), ROLES, tmp_path, key) as file:
            identities.append(Contents(key, tmp_path).of(file))
            names = input_names(["anywhere"], [file], key, Contents(key, tmp_path).of)
            assert names.plain == (f"table {file.digest}",)  # neither path nor size nor date
    same, moved, other = identities
    assert same == moved != other


def test_many_small_batches_become_few_row_groups(tmp_path: Path):
    batches = pa.table({"user": range(4000), "winner": ["a"] * 4000}).to_batches(10)
    with table_file(batches, ROLES, tmp_path, KEY) as file:
        assert pq.read_metadata(file.path).num_row_groups == 1
    assert ROWS_AT_ONCE > 4000


def broken() -> Iterator[pa.RecordBatch]:
    yield from TABLE.to_batches()
    raise ConfigError("no more")


def test_a_table_that_breaks_off_leaves_nothing(tmp_path: Path):
    with pytest.raises(ConfigError, match="no more"), table_file(broken(), ROLES, tmp_path, KEY):
        raise AssertionError
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_the_next_run_deletes_what_a_killed_one_left_and_nothing_else(tmp_path: Path):
    with table_file(TABLE.to_batches(), ROLES, tmp_path, KEY) as running:
        left = tmp_path / FOLDER / "left.parquet"
        fresh = tmp_path / FOLDER / "fresh.parquet"
        for path in (left, fresh):
            path.write_bytes(b"rows")
        long_ago = time.time() - 3600
        for path in (left, Path(running.path)):
            os.utime(path, (long_ago, long_ago))
        with table_file(TABLE.to_batches(), ROLES, tmp_path, KEY):
            assert not left.exists()  # its writer is dead
            assert fresh.exists()  # its writer may be about to lock it
            assert Path(running.path).exists()  # its writer holds it


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(ConfigError, match="the table cannot be written there"),
        table_file(TABLE.to_batches(), ROLES, tmp_path / "file", KEY),
    ):
        raise AssertionError
