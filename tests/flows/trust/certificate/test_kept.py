"""The certificate in the archive: made of what is kept, and shown with its own release."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from hushrank.flows.release.archive import CERTIFICATE, SUMS, check_intact, keep
from hushrank.flows.release.publish import publish
from hushrank.transforms.storage.places import CloudPath
from tests.fake_cloud_storage import fake_cloud_storage
from tests.releases import make_release, page

PAGE = page("<!doctype html><title>report</title>")
FIRST = make_release(release_id="first", seed=1)
SECOND = make_release(release_id="second", seed=2)


def certify(files: Mapping[str, bytes]) -> dict[str, bytes]:
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return {CERTIFICATE: json.dumps(digests).encode()}


@pytest.mark.parametrize("killed_at", ["release.json", CERTIFICATE, SUMS])
def test_in_cloud_storage_it_is_of_what_a_killed_run_has_left(killed_at, monkeypatch):
    """The page of the run that goes on is another; that of the killed one stays."""

    class Killed(BaseException):
        pass

    create = CloudPath.create

    def until(path: CloudPath, content: bytes) -> None:
        if path.name == killed_at:
            raise Killed
        create(path, content)

    first = {"report.html": b"first page", "ranking.csv": b"1", "release.json": b"{}"}
    second = {**first, "report.html": b"second page"}
    with fake_cloud_storage("zoo") as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        folder = CloudPath.parse("gs://zoo/out/releases/2026-11-20-abc")
        monkeypatch.setattr(CloudPath, "create", until)
        with pytest.raises(Killed):
            keep(folder, first, certify)
        monkeypatch.setattr(CloudPath, "create", create)
        keep(folder, second, certify)
        check_intact(folder)
        assert (folder / "report.html").read_bytes() == b"first page"
        assert (folder / CERTIFICATE).read_bytes() == certify(first)[CERTIFICATE]


def test_a_certificate_gives_way_with_its_release(tmp_path: Path):
    """To a later release without one, as an earlier version would publish it."""
    output = tmp_path / "out"
    publish(FIRST, output, PAGE, certify)
    assert (output / CERTIFICATE).exists()
    later = SECOND.model_copy(update={"created": SECOND.created + timedelta(days=1)})
    publish(later, output, PAGE)
    assert not (output / CERTIFICATE).exists()
    assert {path.name for path in output.iterdir()} == {
        *("ranking.csv", "release.json", "report.html", "releases")
    }


def test_an_edited_certificate_is_found(tmp_path: Path):
    output = tmp_path / "out"
    publish(FIRST, output, PAGE, certify)
    (folder,) = (output / "releases").iterdir()
    (folder / CERTIFICATE).chmod(0o644)
    (folder / CERTIFICATE).write_bytes(b"{}")
    with pytest.raises(Exception, match=f"{CERTIFICATE}: was changed after it was published"):
        check_intact(folder)
