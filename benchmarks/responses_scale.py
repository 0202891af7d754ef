"""Time and memory of reducing test answers, from Parquet in long form to measurements.

200 items, 20 random ones answered by each person. The log is either sorted by person, as answer
sheets are filed, or scattered: the answers of a file in random order. Every run is a process of its
own, so that the peak memory is its own. Files are made once and read once before the first run.

    python benchmarks/responses_scale.py [--data FOLDER] [--millions 0.5 1 2] [--order sorted]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from measuring import Taken, show, taken_apart, taken_by

N_ITEMS, ANSWERS, MAX_ANSWERS = 200, 20, 20
FILES, ROW_GROUP, PEOPLE_AT_ONCE = 8, 1 << 20, 50_000
ORDERS = ("sorted", "scattered")


def make(people: int, order: str, folder: Path) -> None:
    """Answers by the Rasch model; person numbers ascend through the files."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    difficulty = np.linspace(-2, 2, N_ITEMS)
    folder.mkdir(parents=True)
    for part in range(FILES):
        rng = np.random.default_rng([people, part])
        first, last = (people * edge // FILES for edge in (part, part + 1))
        tables = []
        for start in range(first, last, PEOPLE_AT_ONCE):
            n = min(PEOPLE_AT_ONCE, last - start)
            item = rng.random((n, N_ITEMS), np.float32).argpartition(ANSWERS, axis=1)[:, :ANSWERS]
            ability = rng.standard_normal((n, 1))
            right = rng.random(item.shape) < 1 / (1 + np.exp(difficulty[item] - ability))
            columns = {
                "user": np.repeat(np.arange(start, start + n), ANSWERS),
                "item": item.ravel().astype(np.int32),
                "correct": right.ravel().astype(np.int8),
            }
            tables.append(pa.table(columns))
        table = pa.concat_tables(tables)
        if order == "scattered":
            table = table.take(rng.permutation(len(table)))
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=ROW_GROUP)


def reduce(folder: Path) -> Taken:
    """Reduce the log once."""
    from hushrank.pipelines.reduce.reduce import run
    from hushrank.pipelines.reduce.responses_job import ReduceResponses
    from hushrank.privacy.keyed_hash import SecretKey
    from hushrank.privacy.randomness import system_bits
    from hushrank.transforms.common.catalogue import Catalogue
    from hushrank.transforms.responses.answer_sheets import Duplicates
    from hushrank.transforms.responses.responses import ResponseColumns
    from hushrank.transforms.storage.files import list_files

    with tempfile.TemporaryDirectory() as work:
        job = ReduceResponses(
            files=tuple(list_files([str(folder)])),
            columns=ResponseColumns(user="user", item="item", correct="correct"),
            catalogue=Catalogue.of_count(N_ITEMS),
            max_answers=MAX_ANSWERS,
            duplicates=Duplicates.REFUSE,
            key=SecretKey.draw(system_bits()),
            confidential=work,
        )
        return taken_by(lambda: run(job))


def main() -> None:
    """Measure every size and order that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=Path(tempfile.gettempdir()) / "hushrank-sheets"
    )
    parser.add_argument("--millions", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--order", choices=ORDERS, nargs="+", default=ORDERS)
    parser.add_argument("--reduce", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.reduce is not None:
        show(reduce(options.reduce))
        return
    print(f"{N_ITEMS} items, {ANSWERS} answers each\norder        people  seconds  us/answer  peak")
    for order in options.order:
        for millions in options.millions:
            people = round(millions * 10**6)
            folder = options.data / f"{people}-{order}"
            if not folder.exists():
                make(people, order, folder)
            for path in folder.iterdir():
                path.read_bytes()
            taken = taken_apart("--reduce", str(folder))
            micros, peak = taken.wall / people / ANSWERS * 1e6, taken.peak / 2**30
            print(
                f"{order:<9}{people:>12,}{taken.wall:>9.1f}{micros:>11.3f}{peak:>6.2f} GiB",
                flush=True,
            )


if __name__ == "__main__":
    main()
