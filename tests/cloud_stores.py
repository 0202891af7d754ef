"""Tests on two servers of Cloud Storage that were written apart: our own, and one in Go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.fake_cloud_storage import Store, fake_cloud_storage
from tests.go_cloud_storage import GoStore, go_store

OURS, GO = "ours", "fake-gcs-server"

# For tests with a fixture `store`, which `asked_store` makes; they tell it nothing but `put`.
on_both_servers = pytest.mark.parametrize("store", [OURS, GO], indirect=True)
on_the_go_server = pytest.mark.parametrize("store", [GO], indirect=True)


def asked_store(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, *buckets: str
) -> AbstractContextManager[Store | GoStore]:
    """The server that a test asks for; without a word, our own."""
    return cloud_store(getattr(request, "param", OURS), request, monkeypatch, *buckets)


class OwnTime:
    """In place of the clock of retries: it goes on only as they sleep, which takes no time."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds


def lose_patience_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's client gives a store up after as many tries as ever, but without waiting."""
    clock = OwnTime()
    for module in ("retry_base", "retry_unary"):
        monkeypatch.setattr(f"google.api_core.retry.{module}.time", clock)


@contextmanager
def cloud_store(
    server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, *buckets: str
) -> Iterator[Store | GoStore]:
    """A server with these empty buckets, which Google's client then finds."""
    if server == OURS:
        with fake_cloud_storage(*buckets) as ours:
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", ours.url)
            yield ours
        return
    with go_store(request.getfixturevalue("go_server"), *buckets) as other:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", other.url)
        yield other
