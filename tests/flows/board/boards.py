"""Archives of releases, for boards: written as a run writes them, without their certificates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hushrank.flows.release.archive import (
    RANKING,
    RELEASE,
    RELEASES,
    REPORT,
    folder_name,
    keep,
)
from hushrank.flows.release.publish import ranking_csv
from hushrank.flows.release.release import Release
from tests.releases import make_release

FIRST = datetime(2026, 1, 1, 2, 0, tzinfo=UTC)
ITEMS = ("ants", "bees", "</script><b>cats", 'd"ogs & co')


def archive_of(output: Path, releases: Sequence[Release]) -> Path:
    """Publish releases in an output folder."""
    (output / RELEASES).mkdir(parents=True)
    for release in releases:
        contents = {
            RELEASE: release.to_json().encode(),
            RANKING: ranking_csv(release).encode(),
            REPORT: b"<!doctype html><title>report</title>",
        }
        keep(output / RELEASES / folder_name(release), contents)
    return output


def nights(number: int, items: Sequence[str] = ITEMS, **changes) -> list[Release]:
    """Releases of consecutive nights, the first item mostly best."""
    n = len(items)
    wins = [600 * n - 500 * at for at in range(n)]
    return [
        make_release(
            items=items,
            wins=wins,
            seed=night + 1,
            release_id=f"{night:016x}",
            created=FIRST + timedelta(days=night),
            **changes,
        )
        for night in range(number)
    ]
