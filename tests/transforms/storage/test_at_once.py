"""Questions to remote places wait together; answers and errors come as one after the other."""

from __future__ import annotations

import io
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.transforms.common.schema import ComparisonColumns
from hushrank.transforms.storage.files import list_files
from hushrank.transforms.storage.places import CloudPath
from hushrank.transforms.storage.read import plan_files
from hushrank.transforms.tables.names import AT_ONCE, in_order
from tests.fake_cloud_storage import fake_cloud_storage

COLUMNS = ComparisonColumns(
    left="left", right="right", outcome="outcome", winner=None, user="user", event=None
)
FILES, GROUPS, TOGETHER = 20, 3, 4


def test_remote_places_are_asked_together_and_answer_in_order():
    together = threading.Barrier(AT_ONCE, timeout=600)  # nobody passes before all have come

    def ask(place: int) -> int:
        together.wait()
        return place

    assert list(in_order(ask, range(2 * AT_ONCE), remote=True)) == list(range(2 * AT_ONCE))


@pytest.mark.parametrize("remote", [True, False])
def test_the_first_place_in_order_that_fails_is_the_one_that_is_told(remote):
    failed_later = threading.Event()

    def ask(place: int) -> int:
        if place == 1:
            if remote:
                failed_later.wait(600)
            raise ValueError("place 1")
        if place == 2:
            failed_later.set()
            raise ValueError("place 2")
        return place

    answers = in_order(ask, range(100), remote=remote)
    assert next(answers) == 0
    with pytest.raises(ValueError, match="place 1"):
        next(answers)


def test_each_footer_is_read_once_and_those_of_a_store_together(monkeypatch):
    rows = pa.table({"left": [0, 1, 2], "right": [1, 2, 0], "outcome": [1] * 3, "user": [1] * 3})
    stream = io.BytesIO()
    pq.write_table(rows, stream, row_group_size=1)
    with fake_cloud_storage("survey") as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        for number in range(FILES):
            CloudPath.parse(f"gs://survey/log/{number:02d}.parquet").write(stream.getvalue())
        files = list_files(["gs://survey/log"])
        together = threading.Barrier(TOGETHER, timeout=600)
        store.hold = lambda name: together.wait() and None  # one by one, none is answered
        before = len(store.requests)
        splits = plan_files(files, COLUMNS)
        asked = len(store.requests) - before
    assert [split.file for split in splits] == files
    assert {split.row_groups for split in splits} == {tuple(range(GROUPS))}
    assert {split.rows for split in splits} == {GROUPS}
    assert asked <= 2 * FILES  # one for the object, one for its footer
