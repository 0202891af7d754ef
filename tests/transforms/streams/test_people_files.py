"""People are found again as they were written, and nobody else's, older or damaged ones are."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from hushrank.transforms.common.schema import InputError
from hushrank.transforms.streams.people_files import (
    People,
    PeopleOfNight,
    Shard,
    carry_people,
    edges_of,
    finish_people,
    forget_people,
    open_people,
    people_folder,
    write_shard,
)

STREAM = "a stream"


def some_people(count: int = 500, seed: int = 0) -> People:
    rng = np.random.default_rng(seed)
    first = np.sort(rng.integers(0, 2**64, count, dtype=np.uint64))
    first[0], first[-1] = 0, 2**64 - 1
    second = rng.integers(0, 2**64, count, dtype=np.uint64)
    last, times = rng.integers(0, 90, count), rng.integers(1, 12, count)
    return People(first, second, last.astype(np.uint16), times.astype(np.uint16))


def same(one: People, other: People) -> bool:
    pairs = zip(one.columns, other.columns, strict=True)
    return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in pairs)


def written(folder, people: People, night=0, bits=2, before="", attempt="a") -> PeopleOfNight:
    shards = shards_of(folder, people, night, bits, attempt)
    return finish_people(str(folder), STREAM, night, attempt, shards, before)


def shards_of(folder, people: People, night: int, bits: int, attempt: str) -> list[Shard]:
    parts = [people.between(*edges_of(people, n, bits, bits)) for n in range(1 << bits)]
    place = (str(folder), night, attempt)
    return [write_shard(*place, n, bits, part) for n, part in enumerate(parts)]


@pytest.mark.parametrize("bits", [0, 1, 3])
def test_people_are_found_again_however_partitions_are_cut(tmp_path, bits):
    people = some_people()
    found = written(tmp_path, people, bits=bits)
    assert found.n_people == len(people)
    assert found == open_people(str(tmp_path), STREAM, 0, found.digest)
    for wanted in (0, 1, 2, 3, 5):
        parts = [found.partition(number, wanted) for number in range(1 << wanted)]
        assert same(People.concatenate(parts), people)
        for number, part in enumerate(parts):
            if wanted:
                assert set((part.first >> np.uint64(64 - wanted)).tolist()) <= {number}


def test_edges_cut_a_partition_into_its_buckets():
    people = some_people()
    for number in range(4):
        edges = edges_of(people, number, 2, 5)
        assert len(edges) == 9
        for bucket, (start, end) in enumerate(itertools.pairwise(edges)):
            leading = people.first[start:end] >> np.uint64(59)
            assert set(leading.tolist()) <= {number * 8 + bucket}
        assert edges[-1] - edges[0] == np.sum(people.first >> np.uint64(62) == number)


def test_nobody_counted_before_the_first_night(tmp_path):
    found = open_people(str(tmp_path), STREAM, -1, "")
    assert len(found.partition(3, 2)) == found.n_people == 0
    assert found.digest == ""


def test_a_night_without_rows_hands_people_on(tmp_path):
    first = written(tmp_path, some_people())
    second = carry_people(str(tmp_path), STREAM, 1, "b", first.digest)
    assert same(second.partition(0, 0), some_people())
    assert second.digest != first.digest
    none = carry_people(str(tmp_path / "other"), STREAM, 0, "b", "")
    assert none.n_people == 0
    assert len(none.partition(0, 0)) == 0


def test_people_of_nights_before_are_forgotten(tmp_path):
    before = ""
    for night in range(3):
        before = written(tmp_path, some_people(seed=night), night, before=before).digest
    for _ in range(2):  # again after a crash
        forget_people(str(tmp_path), STREAM, 2, before)
        assert [path.name for path in (tmp_path / "people").iterdir()] == ["00002"]
    open_people(str(tmp_path), STREAM, 2, before)


def test_attempts_that_do_not_count_are_forgotten_and_cannot_be_taken_for_the_one(tmp_path):
    """Also a shard that a second copy of a worker wrote for another reading of the rows."""
    late = [written(tmp_path, some_people(seed=seed), attempt=f"late {seed}") for seed in (1, 2)]
    one = written(tmp_path, some_people())
    twin = written(tmp_path, some_people(), attempt="twin")
    assert twin.digest != one.digest  # of the same people
    write_shard(str(tmp_path), 0, "a", 0, 2, some_people(30))
    assert same(one.partition(0, 0), some_people())
    (tmp_path / "people/00000/a/.2-00000.parquet.0123").write_bytes(b"half")
    for _ in range(2):
        forget_people(str(tmp_path), STREAM, 0, one.digest)
    left = {str(path) for path in (tmp_path / "people").rglob("*") if path.is_file()}
    assert left == {*one.paths, str(tmp_path / "people/00000" / f"{one.digest}.json")}
    assert same(one.partition(0, 0), some_people())
    for other in (*late, twin):
        with pytest.raises(InputError, match="never finished, or whose files are lost"):
            open_people(str(tmp_path), STREAM, 0, other.digest)


def test_people_of_a_night_whose_next_has_begun_stay(tmp_path):
    first = written(tmp_path, some_people())
    second = written(tmp_path, some_people(seed=1), 1, before=first.digest)
    forget_people(str(tmp_path), STREAM, 0, first.digest)
    assert open_people(str(tmp_path), STREAM, 0, first.digest) == first
    assert open_people(str(tmp_path), STREAM, 1, second.digest) == second


def test_another_streams_people_are_refused(tmp_path):
    found = written(tmp_path, some_people())
    with pytest.raises(InputError, match="belongs to another stream"):
        open_people(str(tmp_path), "another", 0, found.digest)


def test_a_night_that_was_never_finished_is_refused(tmp_path):
    with pytest.raises(InputError, match="Restore the folder of the stream as it was"):
        open_people(str(tmp_path), STREAM, 3, "0" * 64)
    shards = shards_of(tmp_path, some_people(), 0, 1, "a")
    place = (str(tmp_path), STREAM, 0)
    for given in ([], shards[:1], [*shards, shards[0]], [shards[0], shards[0]]):
        with pytest.raises(InputError, match="are missing: run the night again"):
            finish_people(*place, "a", given, "")
    with pytest.raises(InputError, match="are missing: run the night again"):
        finish_people(*place, "b", shards, "")  # they are another attempt's
    Path(finish_people(*place, "a", shards[::-1], "").paths[1]).unlink()
    with pytest.raises(InputError, match="are missing: run the night again"):
        finish_people(*place, "a", shards, "")


def test_an_older_copy_is_refused(tmp_path):
    first = written(tmp_path, some_people())
    second = written(tmp_path, some_people(seed=1), 1, before=first.digest)
    folders = [Path(people_folder(str(tmp_path), night)) for night in (0, 1)]
    shutil.rmtree(folders[1])
    shutil.copytree(folders[0], folders[1])  # the backup of the night before
    with pytest.raises(InputError, match="lost or an older copy"):
        open_people(str(tmp_path), STREAM, 1, second.digest)
    with pytest.raises(InputError, match="is an older copy"):
        open_people(str(tmp_path), STREAM, 1, first.digest)
    (folders[1] / f"{first.digest}.json").rename(folders[1] / f"{second.digest}.json")
    with pytest.raises(InputError, match="is an older copy"):
        open_people(str(tmp_path), STREAM, 1, second.digest)


def test_another_attempt_at_the_night_is_refused_under_the_name_of_the_one_that_counts(tmp_path):
    found = written(tmp_path, some_people())
    other = written(tmp_path, some_people(seed=1), attempt="b")
    folder = Path(people_folder(str(tmp_path), 0))
    (folder / f"{other.digest}.json").replace(folder / f"{found.digest}.json")
    with pytest.raises(InputError, match="is an older copy, or another one"):
        open_people(str(tmp_path), STREAM, 0, found.digest)


@pytest.mark.parametrize("damage", ["older", "cut", "missing"])
def test_a_shard_that_the_stream_did_not_write_is_refused(tmp_path, damage):
    found = written(tmp_path, some_people())
    shard, after = map(Path, found.paths[1:3])
    if damage == "missing":
        shard.unlink()
    elif damage == "cut":
        shard.write_bytes(shard.read_bytes()[:-1])
    else:
        shutil.copy(after, shard)
    assert len(found.partition(0, 2))  # others are as they were
    with pytest.raises(InputError, match="is not what this stream wrote"):
        found.partition(1, 2)


def test_the_manifest_says_which_night_came_before(tmp_path):
    first = written(tmp_path, some_people())
    second = written(tmp_path, some_people(seed=1), 1, before=first.digest)
    manifest = json.loads((tmp_path / "people/00001" / f"{second.digest}.json").read_text())
    assert manifest["before"] == second.before == first.digest


def test_files_are_their_owners_alone(tmp_path):
    written(tmp_path, some_people())
    for path in (tmp_path / "people").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


def test_bytes_of_a_person(tmp_path):
    """Of many people: 8 for the second word, 5 to 6 for the first, 2 for the nights."""
    people = some_people(100_000)
    (shard,) = written(tmp_path, people, bits=0).paths
    size = Path(shard).stat().st_size
    assert size / len(people) < 16.5
