"""Seconds and bytes of a board of 300 items and 365 nights.

    python benchmarks/board_size.py FOLDER [--items 300] [--nights 365]

Writes an archive and its site into FOLDER. The archive has 12 different simulated releases, which
are published again and again under other days. They have no certificates: comparing those with
their releases takes some milliseconds a night more.
"""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import hushrank as hr
from hushrank.flows.release.archive import (
    RANKING,
    RELEASE,
    RELEASES,
    REPORT,
    folder_name,
    keep,
)
from hushrank.flows.release.publish import ranking_csv
from tests.releases import make_release

DIFFERENT = 12
FIRST = datetime(2026, 1, 1, 2, 0, tzinfo=UTC)


def main() -> None:
    """Write the archive, then the site, and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--nights", type=int, default=365)
    options = parser.parse_args()
    n, output = options.items, options.folder / "out"
    items = [f"model {at}" for at in range(n)]
    wins = [500 * n + 240 * at - 200 * (at % 2) for at in range(n)]
    made = [make_release(items=items, wins=wins, seed=seed + 1) for seed in range(DIFFERENT)]
    (output / RELEASES).mkdir(parents=True)
    for night in range(options.nights):
        own = {"release_id": f"{night:016x}", "created": FIRST + timedelta(days=night)}
        release = made[night % DIFFERENT].model_copy(update=own)
        contents = {
            RELEASE: release.to_json().encode(),
            RANKING: ranking_csv(release).encode(),
            REPORT: b"<!doctype html><title>report</title>",
        }
        keep(output / RELEASES / folder_name(release), contents)
    start, used = time.perf_counter(), time.process_time()
    site = hr.board(output, out=options.folder / "site")
    print(f"{time.perf_counter() - start:.1f} s, of which {time.process_time() - used:.1f} s busy")
    print(f"{site.files:,} files, {site.size / 1e6:.1f} MB, {site.releases:,} releases")


if __name__ == "__main__":
    main()
