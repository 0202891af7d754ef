"""Parts of two surveys are two inputs of one ledger, although size and time are the same."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows.collecting.contents import content_of
from hushrank.flows.collecting.server import place_of_parts
from hushrank.flows.collecting.spool import Spool
from hushrank.flows.ledger.keys import LedgerKey
from hushrank.flows.release.identity import Contents, input_names
from hushrank.transforms.storage.files import list_files
from hushrank.transforms.storage.places import parquet_bytes
from hushrank.transforms.storage.window import part_id, stated_id
from tests.flows.collecting.surveys import survey
from tests.flows.collecting.test_spool import group

KEY = LedgerKey(bytes(32), "")


def collected(folder, terms, name="campus", **changes):
    """The configuration of a survey that collected one answer, and the part that holds it."""
    folder.mkdir()
    config = survey(folder, name=name, **changes)
    place = place_of_parts(config, config.collect.folder, terms.night)
    spool = Spool(folder / "spool", replace(terms, form=content_of(config).form, place=place))
    spool.append(group(terms, 1))
    spool.seal()
    assert spool.write_parts() == 1
    (part,) = (folder / "answers").rglob("*.parquet")
    return config, part


def named(path):
    contents = Contents(KEY, path.parent)
    found = input_names([str(path.parent)], list_files([str(path)]), KEY, contents.of)
    assert found.contents
    return {*found.names, *found.older}


@pytest.fixture
def two(tmp_path, terms):
    parts = [collected(tmp_path / name, terms)[1] for name in ("first", "second")]
    first, second = (part.stat() for part in parts)
    assert (first.st_size, first.st_mtime_ns) == (second.st_size, second.st_mtime_ns)
    return parts


def test_parts_of_one_size_and_time_are_two_inputs(two):
    first, second = map(named, two)
    assert first.isdisjoint(second)


def test_a_copy_of_a_part_with_its_date_is_the_same_input(two, tmp_path):
    """Under another name, too."""
    other = tmp_path / "elsewhere" / "answers.parquet"
    other.parent.mkdir()
    shutil.copy2(two[0], other)
    assert named(two[0]) & named(other)
    assert named(two[1]).isdisjoint(named(other))


def test_the_id_of_a_part_is_in_its_name_and_its_metadata(two):
    for path in two:
        assert path.name == f"part-{part_id(str(path))}.parquet"
        (stated,) = pq.read_metadata(path).metadata.values()
        assert stated.decode().endswith(path.stem[5:])


def test_an_id_is_found_behind_many_columns_and_nowhere_else(tmp_path):
    wide = pa.table({f"column {number}": [number] for number in range(2_000)})
    stated, silent, folder, pipe = (tmp_path / name for name in ("with", "without", "dir", "pipe"))
    stated.write_bytes(parquet_bytes(wide, stated_id("0123456789abcdef")))
    silent.write_bytes(parquet_bytes(wide))
    folder.mkdir()
    os.mkfifo(pipe)
    assert part_id(str(stated)) == "0123456789abcdef"
    for path in (silent, folder, pipe, tmp_path / "missing"):
        assert part_id(str(path)) == ""


def test_two_surveys_of_one_night_and_one_ledger_are_both_ranked(tmp_path, terms, command):
    shared = {"path": str(tmp_path / "ledger" / "ledger.jsonl"), "epsilon": 100}
    for name in ("first", "second"):
        collected(tmp_path / name, terms, name, ledger=shared)
    for name in ("first", "second", "first"):
        config = tmp_path / name / "survey.yaml"
        code, printed = command("run", config, "--date", "2026-11-20", "--direct")
        assert code == 0, printed
