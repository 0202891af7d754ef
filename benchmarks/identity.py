"""What it costs to name an input by its content: the share of a first run, and of a second one.

A log of `scaling.py` as Parquet, and the same rows as CSV. For each, in one process after its
imports: the keyed digest of all files, then the reduction of unit user, as a run does both. Files
are in the page cache, which flatters neither: both read all that they need from it.

    python benchmarks/identity.py [--data FOLDER] [--millions 100]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def main() -> None:
    """Make the logs, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "identity")
    parser.add_argument("--millions", type=int, default=100)
    options = parser.parse_args()

    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq
    import scaling

    rows = options.millions * scaling.MILLION
    parquet, text = options.data / f"{rows}", options.data / f"{rows}-csv"
    scaling.make(rows, parquet)
    if not text.exists():
        text.mkdir()
        for path in parquet.glob("*.parquet"):
            with pq.ParquetFile(path) as file:
                target = text / f"{path.stem}.csv"
                with pacsv.CSVWriter(target, file.schema_arrow) as writer:
                    for batch in file.iter_batches(1 << 20):
                        writer.write_batch(batch)
    for folder in (parquet, text):
        measure(folder)


def measure(folder: Path) -> None:
    """Digest and reduce one log."""
    import scaling

    from hushrank.flows.ledger.keys import KEY_BYTES, LedgerKey
    from hushrank.flows.release.identity import Contents, meant_by
    from hushrank.transforms.storage.files import list_files

    files = list_files([str(folder)])
    size = sum(file.size for file in files) / 1e9
    with tempfile.TemporaryDirectory() as area:
        seconds = []
        for _ in range(2):
            started = time.perf_counter()
            meant_by(Contents(LedgerKey(bytes(KEY_BYTES), ""), Path(area)), files)
            seconds.append(time.perf_counter() - started)
    work = scaling.hushrank(scaling.MAX_CONTRIBUTIONS, folder)
    started = time.perf_counter()
    work(scaling.StageClock())
    reduced = time.perf_counter() - started
    share = seconds[0] / (seconds[0] + reduced)
    print(
        f"{folder.name}: {size:.2f} GB, digest {seconds[0]:.2f} s ({size / seconds[0]:.1f} GB/s),"
        f" reduction {reduced:.1f} s: {share:.0%} of both; named again {seconds[1] * 1e3:.0f} ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
