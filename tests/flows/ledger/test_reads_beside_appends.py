"""A read beside appends of others finds a ledger that nothing is missing of, whenever they come."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hushrank.flows.ledger.cloud_object import LedgerObject
from hushrank.flows.ledger.entries import LINE_START
from hushrank.flows.ledger.local_file import LedgerFile
from hushrank.transforms.storage.places import CloudPath
from tests.cloud_stores import OURS, cloud_store

LINE = LINE_START + b'1,"seq":1}\n'
Backend = LedgerFile | LedgerObject


@pytest.fixture(params=["file", OURS])
def backend_of(request, tmp_path, monkeypatch) -> Iterator[Callable[[str], Backend]]:
    """Backends of a ledger by its name."""
    if request.param == "file":
        yield lambda name: LedgerFile(Path(tmp_path, name))
        return
    with cloud_store(request.param, request, monkeypatch, "budget"):
        yield lambda name: LedgerObject(CloudPath.parse(f"gs://budget/{name}"))


@pytest.mark.parametrize("before", [0, 1])
def test_no_append_of_others_looks_like_a_loss(backend_of, before):
    """Some come before and after each look for the recorded length, at any place of the read."""
    for counts in itertools.product(range(2), repeat=4):
        name = "-".join(map(str, counts))
        reader, other, left = backend_of(name), backend_of(name), list(counts)

        def append(times: int, other: Backend = other) -> None:
            for _ in range(times):
                assert other.append(other.read().token, LINE)

        def looked(
            look: Callable[[], int | None] = reader._recorded_length, left: list[int] = left
        ) -> int | None:
            append(left.pop(0) if left else 0)
            found = look()
            append(left.pop(0) if left else 0)
            return found

        append(before)
        reader._recorded_length = looked
        snapshot = reader.read()
        assert snapshot.loss is None, counts
        assert snapshot.content == LINE * (len(snapshot.content) // len(LINE))
