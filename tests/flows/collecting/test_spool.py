"""Every answer that was kept is in exactly one part, wherever a process dies."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import binomtest

from hushrank.flows.collecting import spool as spools
from hushrank.flows.collecting.body import write_part
from hushrank.flows.collecting.journal import Group, Journal
from hushrank.flows.collecting.spool import Spool, seal_spools, take_spool
from hushrank.flows.errors import ConfigError
from hushrank.transforms.storage.places import CloudPath
from tests.flows.collecting.surveys import NOON, parts

FALSE_POSITIVE_RATE = 1e-6
DAY = timedelta(days=1)


def group(terms, *numbers):
    """One answer for each number, which its epsilon shows."""
    rows = np.zeros(len(numbers), terms.form.dtype)
    rows["right"], rows["outcome"], rows["eps"] = 1, 1, numbers
    marks = [int(number).to_bytes(8, "little") for number in numbers]
    return Group(rows.tobytes(), marks, [mark[::-1] for mark in marks])


def found(tmp_path):
    """The numbers in all parts, by night."""
    nights = sorted((tmp_path / "answers").glob("*"))
    return {night.name: sorted(parts(night)["eps"].to_pylist()) for night in nights}


def test_a_night_becomes_one_part_when_it_is_over(tmp_path, terms, time):
    spool = Spool(tmp_path / "spool", terms)
    spool.append(group(terms, 1, 2))
    spool.append(group(terms, 3))
    spool.turn()
    assert spool.write_parts() == 0
    time.now += DAY
    spool.turn()
    assert spool.write_parts() == 1
    assert found(tmp_path) == {"2026-11-20": [1, 2, 3]}
    assert not list(spool.folder.glob("*.sealed")) + list(spool.folder.glob("*.journal"))
    assert len(list((tmp_path / "answers").rglob("*.parquet"))) == 1


def test_a_part_has_the_columns_of_the_night_and_no_time_but_its_own(tmp_path, terms):
    spool = Spool(tmp_path / "spool", terms)
    spool.append(group(terms, 1, 2))
    spool.seal()
    spool.write_parts()
    (path,) = (tmp_path / "answers").rglob("*.parquet")
    assert parts(tmp_path).column_names == ["left", "right", "outcome", "eps"]
    assert datetime.fromtimestamp(path.stat().st_mtime, UTC) == NOON.replace(hour=0)
    names = set(parts(tmp_path)["left"].to_pylist())
    assert names == {"ants"}
    assert "12:" not in str(pq.read_metadata(path).metadata)


def test_the_order_of_a_part_is_not_that_of_arrival(tmp_path, terms):
    """Each of two answers comes first equally often: 200 parts; 0.7 would be found."""
    rows, first = group(terms, 1, 2).rows, 0
    for number in range(200):
        place = tmp_path / f"{number}.parquet"
        write_part(place, 16 * "0", rows, terms.form, terms.bits)
        first += pq.read_table(place, columns=["eps"])["eps"].to_pylist()[0] == 1
    assert binomtest(first, 200, 0.5).pvalue > FALSE_POSITIVE_RATE


def test_used_tokens_are_stored_in_no_order_of_arrival(tmp_path, terms):
    """In the file of a sealed journal, of all its groups; two orders leave the same bytes."""
    left = []
    for name, order in (("one", range(1, 40)), ("other", range(39, 0, -1))):
        spool = Spool(tmp_path / name, terms)
        for number in order:
            spool.append(group(terms, number))
        spool.seal()
        spool.write_parts()
        (path,) = spool.folder.glob("*.tokens")
        left.append(path.read_bytes())
        names = {each.name for each in spool.folder.iterdir()}
        assert names == {"lock", path.name}, "something else stays that knows an order"
    assert left[0] == left[1]
    marks = [left[0][at : at + 8] for at in range(0, len(left[0]), 8)]
    assert marks == sorted(marks)
    assert len(marks) == 39


def killed(spool):
    """What the end of its process does to a spool."""
    os.close(spool._lock)


class Killed(BaseException):
    """The process ends here."""


STEPS = [  # all that touches the disk, from an appended group to a part
    (spools.Journal, "create"),
    (spools.Journal, "append"),
    (spools, "flush_folder"),
    (spools, "write_part"),
    (spools, "hide_time"),
    (spools, "write_whole"),
    (spools, "remove"),
]


def a_night(terms, tmp_path, time, kept):
    """One process: two groups tonight, one tomorrow, and parts whenever they are due."""
    spool = Spool(tmp_path / "spool", terms)
    try:
        for numbers in ((1, 2), (3,)):
            spool.append(group(terms, *numbers))
            kept += numbers
        time.now += timedelta(hours=12, minutes=30)
        spool.turn()
        spool.write_parts()
        spool.append(group(terms, 4))
        kept += [4]
        time.now += DAY
        spool.turn()
        spool.write_parts()
    finally:
        killed(spool)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("owner", "step"), STEPS, ids=[step for _, step in STEPS])
def test_a_process_that_dies_at_any_step_loses_nothing_that_it_kept(
    tmp_path, terms, time, monkeypatch, owner, step, after
):
    """Before and after the first, second, ... time that the step is taken; then a new process."""
    real = getattr(owner, step)
    for turn in itertools.count():
        folder, calls, kept = tmp_path / str(turn), itertools.count(), []
        folder.mkdir()
        time.now = NOON
        own = replace(terms, place=lambda night, id_, at=folder: at / "answers" / str(night) / id_)

        def dies(*arguments, calls=calls, turn=turn):
            now = next(calls) == turn
            if now and not after:
                raise Killed
            result = real(*arguments)
            if now:
                raise Killed
            return result

        monkeypatch.setattr(owner, step, dies)
        died = False
        try:
            a_night(own, folder, time, kept)
        except Killed:
            died = True
        monkeypatch.setattr(owner, step, real)
        spool = Spool(folder / "spool", own)
        tokens = set(spool.used_tokens())
        spool.seal()
        spool.write_parts()
        spool.close()
        tables = [pq.read_table(path) for path in (folder / "answers").rglob("*") if path.is_file()]
        numbers = sorted(number for table in tables for number in table["eps"].to_pylist())
        assert len(numbers) == len(set(numbers))
        assert set(kept) <= set(numbers) <= {1, 2, 3, 4}
        assert {int.from_bytes(token, "big") for token in tokens} == set(numbers)
        if not died:
            assert turn > 0
            return


def test_answers_found_soon_after_their_night_are_still_its_own(tmp_path, terms, time):
    one_group_and_killed(tmp_path, terms)
    time.now = NOON + timedelta(hours=12, minutes=59)
    assert seal_again(tmp_path, terms) == {"2026-11-20": [1]}


def test_answers_found_later_are_of_the_night_they_are_found_in(tmp_path, terms, time):
    """Their own night may be ranked by then, and would not be read again."""
    one_group_and_killed(tmp_path, terms)
    time.now = NOON + timedelta(hours=14)
    assert seal_again(tmp_path, terms) == {"2026-11-21": [1]}


def one_group_and_killed(tmp_path, terms):
    spool = Spool(tmp_path / "spool", terms)
    spool.append(group(terms, 1))
    killed(spool)


def seal_again(tmp_path, terms):
    seal_spools(tmp_path, terms)
    return found(tmp_path)


def test_a_restart_goes_on_with_the_journal_of_the_night(tmp_path, terms, time):
    one_group_and_killed(tmp_path, terms)
    again = Spool(tmp_path / "spool", terms)
    again.append(group(terms, 2))
    assert len(list(again.folder.glob("*.journal"))) == 1
    assert sorted(again.submissions()) == [n.to_bytes(8, "little") for n in (1, 2)]
    again.seal()
    again.write_parts()
    assert found(tmp_path) == {"2026-11-20": [1, 2]}


def test_another_catalogue_begins_another_journal(tmp_path, terms):
    one_group_and_killed(tmp_path, terms)
    other = replace(terms, form=replace(terms.form, items=("bees", "ants", "wasps")))
    spool = Spool(tmp_path / "spool", other)
    spool.append(group(other, 2))
    spool.seal()
    spool.write_parts()
    rows = parts(tmp_path / "answers").to_pylist()
    assert {row["eps"]: row["left"] for row in rows} == {1: "ants", 2: "bees"}


def test_a_full_journal_is_sealed_and_the_night_goes_on(tmp_path, terms):
    spool = Spool(tmp_path / "spool", replace(terms, most_bytes=600))
    for number in range(40):
        spool.append(group(terms, number))
    assert spool.write_parts() > 1
    spool.seal()
    spool.write_parts()
    assert found(tmp_path) == {"2026-11-20": list(range(40))}


def test_a_full_disk_refuses_one_group_and_keeps_all_others(tmp_path, terms, monkeypatch):
    spool = Spool(tmp_path / "spool", terms)
    spool.append(group(terms, 1))
    real = Journal.append

    def half(journal, group):
        os.write(journal._descriptor, b"torn")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Journal, "append", half)
    with pytest.raises(OSError, match="No space"):
        spool.append(group(terms, 2))
    assert spool.broken
    monkeypatch.setattr(Journal, "append", real)
    spool.append(group(terms, 3))
    assert not spool.broken
    spool.seal()
    spool.write_parts()
    assert found(tmp_path) == {"2026-11-20": [1, 3]}


def test_a_damaged_journal_is_set_apart_and_named(tmp_path, terms, said):
    spool = Spool(tmp_path / "spool", terms)
    for number in (1, 2, 3):
        spool.append(group(terms, number))
    (path,) = spool.folder.glob("*.journal")
    content = bytearray(path.read_bytes())
    content[-60] ^= 1
    path.write_bytes(content)
    killed(spool)
    assert seal_again(tmp_path, terms) == {"2026-11-20": [1]}
    assert len(said) == 1
    assert "damaged" in said[0]
    assert list(spool.folder.glob("*.damaged"))


def test_parts_go_to_a_bucket(tmp_path, terms, emulator):
    bucket = CloudPath.parse("gs://survey/answers")
    own = replace(terms, place=lambda night, id_: bucket / str(night) / f"part-{id_}.parquet")
    spool = Spool(tmp_path / "spool", own)
    spool.append(group(terms, 1, 2))
    spool.seal()
    assert spool.write_parts() == 1
    (listed,) = bucket.objects()
    assert listed.path.key.startswith("answers/2026-11-20/part-")


def test_processes_share_a_folder_but_no_spool(tmp_path, terms):
    first, second = (take_spool(tmp_path / "spool", terms) for _ in range(2))
    assert [first.folder.name, second.folder.name] == ["0", "1"]
    first.append(group(terms, 1))
    second.append(group(terms, 2))
    with pytest.raises(ConfigError, match="another collector uses it"):
        take_spool(tmp_path / "spool", terms, most=1)
    second.close()
    assert seal_spools(tmp_path / "spool", terms) == 1  # of the one that is not in use
    assert found(tmp_path) == {"2026-11-20": [2]}
    first.close()
    assert seal_spools(tmp_path / "spool", terms) == 1
    assert found(tmp_path) == {"2026-11-20": [1, 2]}


def test_a_folder_that_cannot_be_used_is_named(tmp_path, terms):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="answers cannot be kept here"):
        take_spool(tmp_path / "file" / "spool", terms)
