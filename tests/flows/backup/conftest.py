"""Surveys that are moved: what is copied by hand, and what `hushrank restore` puts back."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_cloud_storage import Store, fake_cloud_storage
from tests.flows.conftest import Survey

LOCAL = {"output": "out", "confidential": "work", "ledger__path": "ledger.jsonl"}
CLOUD = {
    "output": "gs://released/zoo",
    "confidential": "gs://confidential/zoo",
    "ledger__path": "gs://budget/zoo/ledger.jsonl",
}
OTHER_CLOUD = {key: place.replace("gs://", "gs://other-") for key, place in CLOUD.items()}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    buckets = ("confidential", "released", "budget")
    others = (f"other-{bucket}" for bucket in buckets)
    with fake_cloud_storage(*buckets, *others, "backups") as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        yield store


def elsewhere(survey: Survey, name: str = "server", **places: str | None) -> Survey:
    """The input and the YAML file in another folder, and nothing of what was released."""
    folder = survey.folder / name / "home"
    folder.mkdir(parents=True)
    for path in survey.folder.glob("*.parquet"):
        shutil.copyfile(path, folder / path.name)
    return Survey(folder, copy.deepcopy(survey.settings)).set(**(places or LOCAL))


def everything(folder: Path) -> dict[str, bytes]:
    """All files below a folder, but for locks, by name."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
