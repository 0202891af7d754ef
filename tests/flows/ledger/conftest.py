"""A ledger of one population, by a clock that tests set; with a key and an anchor of each kind."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hushrank.flows.ledger.anchor import Anchor
from hushrank.flows.ledger.guards import Guards, anchor_at
from hushrank.flows.ledger.keys import load_signer, make_key
from hushrank.flows.ledger.ledger import Ledger
from tests.fake_cloud_storage import Store, fake_cloud_storage
from tests.ledgers import Clock, terms_of

AUTHOR = ("-c", "user.name=t", "-c", "user.email=t@example.org")


def make_repository(folder: Path) -> Path:
    """A repository with a first commit and an author of its own."""
    folder.mkdir(parents=True)
    for arguments in (
        ("init", "--quiet"),
        ("config", "user.name", "anchor"),
        ("config", "user.email", "anchor@example.org"),
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    return folder


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with fake_cloud_storage("far") as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        yield store


@pytest.fixture(params=["file", "object", "git"])
def anchor(request: pytest.FixtureRequest, tmp_path: Path) -> Anchor:
    if request.param == "file":
        (tmp_path / "mount").mkdir()
        return anchor_at(str(tmp_path / "mount" / "anchor.jsonl"))
    if request.param == "object":
        request.getfixturevalue("store")
        return anchor_at("gs://far/campus")
    return anchor_at(f"git:{make_repository(tmp_path / 'repository')}")


@pytest.fixture
def signing(tmp_path: Path) -> Guards:
    make_key(tmp_path / "key.pem")
    signer = load_signer(tmp_path / "key.pem")
    return Guards(signer, signer)


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Ledger]:
    """The ledger with the given guards; a new object each time, as in another process."""

    def ledger(guards: Guards, **changes: object) -> Ledger:
        (tmp_path / "budget").mkdir(exist_ok=True, mode=0o700)
        return guards.ledger(tmp_path / "budget" / "ledger.jsonl", terms_of(**changes))

    return ledger


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(path, clock) -> Ledger:
    return Ledger(path, terms_of(), clock=clock, operator="anna")
