"""Speed of reading text: comparisons in CSV and JSON Lines, as jobs read and encode them.

    python benchmarks/read_text.py [--rows 1000000] [--runs 5] [--forms plain.csv ...]

Each form is read several times in one process, which is warm; the least time on processors is
printed, because whatever else the machine does only adds to it. In the last forms some people are
named by integers and others by text, so Arrow cannot take all lines at once.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measuring import seconds

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import encode_comparisons
from hushrank.transforms.common.schema import ComparisonColumns
from hushrank.transforms.storage.files import list_files
from hushrank.transforms.storage.read import plan_files, read_batches

N_ITEMS = 300
CATALOGUE = Catalogue(tuple(f"item {number}" for number in range(N_ITEMS)))
COLUMNS = ComparisonColumns(
    user="user", left="left", right="right", outcome="outcome", winner=None, event=None
)
KEYED_HASH = KeyedHash(bytes(32))


def rows(n_rows: int) -> Iterator[tuple[str, str, str, int]]:
    """Rows that are the same wherever they are made."""
    rng = np.random.default_rng(0)
    people, left = rng.integers(0, n_rows // 10, n_rows), rng.integers(0, N_ITEMS, n_rows)
    right = (left + rng.integers(1, N_ITEMS, n_rows)) % N_ITEMS
    outcome = rng.choice([-1, 1], n_rows)
    for who, a, b, won in zip(*(c.tolist() for c in (people, left, right, outcome)), strict=True):
        yield f"person {who}", f"item {a}", f"item {b}", won


def write(folder: Path, n_rows: int) -> list[Path]:
    """The same rows in every form."""
    table, names = list(rows(n_rows)), ("user", "left", "right", "outcome")
    header = ",".join(names)
    forms = {
        "plain.csv": [header, *(f"{u},{a},{b},{y}" for u, a, b, y in table)],
        "quoted.csv": [header, *(f'"{u}","{a}","{b}","{y}"' for u, a, b, y in table)],
        "objects.jsonl": [json.dumps(dict(zip(names, row, strict=True))) for row in table],
    }
    for odd in (1000, 2):
        forms[f"one odd in {odd}.jsonl"] = [
            json.dumps(dict(zip(names, row, strict=True)) | ({} if number % odd else {"user": 7}))
            for number, row in enumerate(table)
        ]
    for name, lines in forms.items():
        Path(folder, name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [folder / name for name in forms]


def read(path: Path) -> int:
    """How many rows are valid, after reading and encoding all."""
    valid = 0
    for split in plan_files(list_files([str(path)]), COLUMNS):
        for batch in read_batches(split):
            valid += len(encode_comparisons(batch.rows, COLUMNS, CATALOGUE, KEYED_HASH).rows)
    return valid


def main() -> None:
    """Print a line for each form."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--forms", nargs="*", default=[], help="of these names only")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for path in write(Path(folder), arguments.rows):
            if arguments.forms and path.name not in arguments.forms:
                continue
            valid = read(path)
            best = min(seconds(lambda path=path: read(path), arguments.runs, time.process_time))
            megabytes = path.stat().st_size / 1e6
            print(f"{path.name:24} {megabytes:6.1f} MB {valid:,} valid rows {best:6.3f} s")


if __name__ == "__main__":
    main()
