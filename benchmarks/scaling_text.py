"""Text keys: people and items named by text, in Parquet and CSV, beside polars and DuckDB.

The logs hold what the integer logs of `scaling.py` hold (300 items, ten rows a person), but people
are named by UUIDs of 36 characters and items by short names, or both by 20-byte texts, or by
UUIDs that a Parquet file stores once each (dictionary-encoded, as data frames write categories).
Every run is a process of its own, timed after its imports. The sides take turns, so that other work
on the machine meets all of them; of each the least wall time and the least processor time are
printed, because other work only adds to either. All sides must count the same number of rows.

    python benchmarks/scaling_text.py [--data FOLDER] [--rows 2e6 20e6] [--repeats 3]
                                      [--logs uuid.parquet ...] [--only comparison|user]
                                      [--sides hushrank polars DuckDB] [--write docs]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scaling import (
    FILE_ROWS,
    MAX_CONTRIBUTIONS,
    MILLION,
    N_ITEMS,
    ROW_GROUP,
    ROWS_A_PERSON,
    StageClock,
    hushrank,
    warm,
)

LOGS = ("uuid.parquet", "uuid.csv", "text20.parquet", "text20.csv", "dictionary.parquet")
UNITS = {"comparison": None, "user": MAX_CONTRIBUTIONS}
HUSHRANK, POLARS, DUCKDB = SIDES = ("hushrank", "polars", "DuckDB")
WIDTHS = {"uuid": (36, 8), "text20": (20, 20), "dictionary": (36, 8)}  # bytes: person, item
BEGIN, END = "<!-- scaling of text: begin -->", "<!-- scaling of text: end -->"
COLUMNS = ("user", "item_i", "item_j", "outcome")

Work = Callable[[StageClock], int]


def item_names(keys: str) -> list[str]:
    """Names of the items, all of one width."""
    width = WIDTHS[keys][1]
    return [f"item {number:0{width - 5}d}" for number in range(N_ITEMS)]


def people_names(keys: str, n_people: int) -> Any:
    """The texts that name people, shape (n_people, width), uint8: random, different with near
    certainty, and the same wherever they are made."""
    import numpy as np

    rng, width = np.random.default_rng([n_people, len(keys)]), WIDTHS[keys][0]
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    names = digits[rng.integers(0, 16, (n_people, width), dtype=np.uint8)]
    if width == 36:
        names[:, [8, 13, 18, 23]] = ord("-")
        names[:, 14] = ord("4")
    return names


def make(log: str, rows: int, folder: Path) -> None:
    """A log, file by file; uniform people and pairs, the item with the smaller number wins more."""
    if folder.exists():
        return
    partial = folder.with_name(f".{folder.name}")
    partial.mkdir(parents=True, exist_ok=True)
    for part in range(-(-rows // FILE_ROWS)):
        arguments = ["--make", log, "--rows", str(rows), "--part", str(part)]
        command = [sys.executable, __file__, *arguments, "--data", str(partial)]
        subprocess.run(command, check=True)  # what a parent has had counts as its children's peak
    partial.rename(folder)


def make_part(log: str, rows: int, folder: Path, part: int) -> None:
    """One file of a log, a row group at a time."""
    import pyarrow.csv
    import pyarrow.parquet as pq

    keys, _, form = log.partition(".")
    path = folder / f"{part}.{form}"
    names = people_names(keys, max(rows // ROWS_A_PERSON, 1))
    schema = groups_of(keys, rows, 0, 1, names).schema
    unquoted = pyarrow.csv.WriteOptions(quoting_style="none")
    large = {"dictionary_pagesize_limit": 1 << 30} if keys == "dictionary" else {}
    with (
        pyarrow.csv.CSVWriter(path, schema, write_options=unquoted)
        if form == "csv"
        else pq.ParquetWriter(path, schema, **large)
    ) as writer:
        end = min((part + 1) * FILE_ROWS, rows)
        for start in range(part * FILE_ROWS, end, ROW_GROUP):
            group = groups_of(keys, rows, start, min(ROW_GROUP, end - start), names)
            writer.write_table(group.combine_chunks() if form == "csv" else group)


def groups_of(keys: str, rows: int, start: int, m: int, names: Any) -> Any:
    """The `m` rows of a log from `start` on."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng([rows, start])
    gaps = np.arange(-N_ITEMS, N_ITEMS) / N_ITEMS * 3
    left_wins = (256 / (1 + np.exp(gaps))).astype(np.uint16)
    left = rng.integers(0, N_ITEMS, m, dtype=np.int16)
    right = (left + rng.integers(1, N_ITEMS, m, dtype=np.int16)) % np.int16(N_ITEMS)
    won = rng.integers(0, 256, m, dtype=np.uint8) < left_wins[left - right + N_ITEMS]
    people = rng.integers(0, len(names), m)
    items = pa.array(item_names(keys))
    columns = [
        texts(names[people]), items.take(pa.array(left)), items.take(pa.array(right)),
        pa.array(2 * won.view(np.int8) - np.int8(1)),
    ]  # fmt: skip
    if keys == "dictionary":
        columns[:3] = [column.dictionary_encode() for column in columns[:3]]
    return pa.table(columns, names=list(COLUMNS))


def texts(table: Any) -> Any:
    """Rows of bytes as strings."""
    import numpy as np
    import pyarrow as pa

    m, width = table.shape
    offsets = np.arange(m + 1, dtype=np.int32) * width
    return pa.StringArray.from_buffers(m, pa.py_buffer(offsets), pa.py_buffer(table.reshape(-1)))


def polars_side(unit: str, log: str, folder: Path) -> Work:
    """Wins of each item; of unit user in five random rows of each person, streaming."""
    import polars as pl

    files = f"{folder}/*.{log.partition('.')[2]}"
    scanned = pl.scan_csv(files) if log.endswith("csv") else pl.scan_parquet(files)
    winner = pl.when(pl.col("outcome") > 0).then("item_i").otherwise("item_j").alias("winner")
    if unit == "user":
        first = pl.col("winner").shuffle().head(MAX_CONTRIBUTIONS)
        rows = scanned.select("user", winner).group_by("user").agg(first)
        rows = rows.select("winner").explode("winner", empty_as_null=True)
    else:
        rows = scanned.select(winner)
    query = rows.group_by("winner").len()

    def work(clock: StageClock) -> int:
        counts = query.collect(engine="streaming")
        clock.end("all")
        return int(counts["len"].sum())

    return work


def duckdb_side(unit: str, log: str, folder: Path) -> Work:
    """Wins of each item; of unit user in five random rows of each person, by DuckDB's top-n."""
    import duckdb

    form = log.partition(".")[2]
    read = "read_csv" if form == "csv" else "read_parquet"
    winner = "CASE WHEN outcome > 0 THEN item_i ELSE item_j END"
    rows = f"SELECT {winner} AS winner FROM {read}('{folder}/*.{form}')"
    if unit == "user":
        kept = f"unnest(arg_max({winner}, random(), {MAX_CONTRIBUTIONS}))"
        rows = f"SELECT {kept} AS winner FROM {read}('{folder}/*.{form}') GROUP BY user"
    query = f"SELECT winner, count(*) FROM ({rows}) GROUP BY winner"

    def work(clock: StageClock) -> int:
        total = sum(wins for _, wins in duckdb.sql(query).fetchall())
        clock.end("all")
        return total

    return work


def hushrank_side(unit: str, log: str, folder: Path) -> Work:
    """Noisy wins of each item, from the files to what is released."""
    return hushrank(UNITS[unit], folder, tuple(item_names(log.partition(".")[0])))


MAKERS: dict[str, Callable[[str, str, Path], Work]] = {
    HUSHRANK: hushrank_side,
    POLARS: polars_side,
    DUCKDB: duckdb_side,
}


def run_here(options: argparse.Namespace) -> None:
    """In the child: do the work of one side, and print what it took."""
    work = MAKERS[options.side](options.only, options.logs[0], options.data)
    clock = StageClock()
    counted = work(clock)
    wall, cpu = (sum(float(s[what]) for s in clock.stages) for what in ("wall", "cpu"))
    peak = max(float(stage["peak"]) for stage in clock.stages)
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak, "counted": counted}))


def run_apart(side: str, unit: str, log: str, folder: Path) -> dict[str, float]:
    """In the parent: run `side` in a new process."""
    command = [sys.executable, __file__, "--side", side, "--only", unit, "--logs", log]
    command += ["--data", str(folder)]
    child = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(child.stdout.splitlines()[-1])
    return found


HEADER = """\
| rows | log | unit | what | wall s | CPU s | peak MB | wall: hushrank / it | CPU: hushrank / it |
|---:|---|---|---|---:|---:|---:|---:|---:|"""


def measure(options: argparse.Namespace) -> list[str]:
    """Lines of the table, each printed when it is known."""
    lines = []
    for rows in map(int, sorted(options.rows)):
        for log in options.logs:
            folder = options.data / f"scaling-{rows}-{log}"
            make(log, rows, folder)
            warm(folder)
            for unit in UNITS if options.only is None else (options.only,):
                best = rivals(options, unit, log, folder)
                lines += [line(rows, log, unit, side, best) for side in best]
                print(*lines[-len(best) :], sep="\n", flush=True)
    return lines


def rivals(
    options: argparse.Namespace, unit: str, log: str, folder: Path
) -> dict[str, dict[str, float]]:
    """What each side takes at least; the sides take turns."""
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in options.sides}
    for _ in range(options.repeats):
        for side, mine in runs.items():
            mine.append(run_apart(side, unit, log, folder))
    if len({run["counted"] for mine in runs.values() for run in mine}) != 1:
        raise SystemExit(f"{folder}: the sides counted different numbers of rows")
    return {
        side: {what: min(run[what] for run in mine) for what in mine[0]}
        for side, mine in runs.items()
    }


def line(rows: int, log: str, unit: str, side: str, best: dict[str, dict[str, float]]) -> str:
    """One row of the table."""
    its, ours = best[side], best.get(HUSHRANK)
    ratios = ["", ""]
    if ours is not None and side != HUSHRANK:
        ratios = [f"{ours[what] / its[what]:.2f}" for what in ("wall", "cpu")]
    numbers = [f"{its['wall']:.2f}", f"{its['cpu']:.2f}", f"{its['peak'] / 1e6:.0f}", *ratios]
    return "| " + " | ".join([f"{rows / MILLION:g} M", log, unit, side, *numbers]) + " |"


def write(lines: list[str], folder: Path) -> None:
    """Put the table into benchmarks.md, between its two marks."""
    page = folder / "benchmarks.md"
    before, _, rest = page.read_text().partition(BEGIN)
    table = "\n".join([HEADER, *lines])
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}")


def parsed() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir(), "hushrank-bench"))
    parser.add_argument("--rows", type=float, nargs="+", default=[2e6, 20e6])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--logs", nargs="+", choices=LOGS, default=LOGS)
    parser.add_argument("--only", choices=UNITS, help="of the units")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--write", type=Path, help="folder of benchmarks.md")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--make", choices=LOGS, help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure, print, and write where asked to; in a child make a file or run one side."""
    options = parsed()
    if options.make:
        make_part(options.make, int(options.rows[0]), options.data, options.part)
    elif options.side:
        run_here(options)
    else:
        print(HEADER, flush=True)
        lines = measure(options)
        if options.write is not None:
            write(lines, options.write)


if __name__ == "__main__":
    main()
