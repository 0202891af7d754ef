"""Releases that earlier versions wrote still verify, and still say what they said.

`older/format_1.tar.xz` holds a release of most kinds, with its ledger, as the first version with
this format wrote it. When a later version writes other fields or words, its releases get a file
beside it; these stay.
"""

from __future__ import annotations

import tarfile
from collections import defaultdict
from pathlib import Path

import pytest

from hushrank.flows.release.release import Release
from hushrank.verifier.verify_release import verify

OLDER = sorted((Path(__file__).parent / "older").glob("*.tar.xz"))


def releases() -> dict[str, dict[str, bytes]]:
    """Files by name, of each release by the name of its kind."""
    found: dict[str, dict[str, bytes]] = defaultdict(dict)
    for archive in OLDER:
        with tarfile.open(archive) as tar:
            for member in tar:
                folder, _, name = member.name.rpartition("/")
                content = tar.extractfile(member)
                assert content is not None
                found[folder][name] = content.read()
    return found


RELEASES = releases()


def test_there_are_releases_of_earlier_versions_of_every_statistic():
    kinds = {
        Release.model_validate_json(f["release.json"]).released.kind for f in RELEASES.values()
    }
    assert len(RELEASES) >= 27
    assert len(kinds) == 16


@pytest.mark.parametrize("name", RELEASES)
def test_an_older_release_verifies(name):
    files = dict(RELEASES[name])
    found = verify(files, files.pop("ledger.jsonl"))
    assert found.good, [text for kind, text in found.lines if kind == "WRONG"]
