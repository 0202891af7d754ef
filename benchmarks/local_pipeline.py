"""Speed and memory of privatising and summing answers, an epsilon with each, from Parquet files.

The log is made once: 200 items, 50 answers a person, an epsilon a person as a column. Each run is a
process of its own, so that the peak memory is its own; time is measured after imports. Seconds of
processor time tell what it takes where other work keeps the machine busy.

    python benchmarks/local_pipeline.py [--answers N] [--data FOLDER] [--runs N] [--per-user]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from measuring import Taken, show, taken_apart, taken_by

N_ITEMS, ANSWERS_EACH, ROW_GROUP, FILE_ROWS = 200, 50, 1 << 20, 10_000_000


def make(folder: Path, answers: int) -> None:
    """Write the log unless it is there."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    if folder.exists():
        return
    partial = folder.with_name(f".{folder.name}")
    partial.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, answers, FILE_ROWS)):
        rng = np.random.default_rng([answers, number])
        m = min(FILE_ROWS, answers - start)
        left = rng.integers(0, N_ITEMS, m, dtype=np.int32)
        right = ((left + rng.integers(1, N_ITEMS, m)) % N_ITEMS).astype(np.int32)
        user = (np.arange(start, start + m) // ANSWERS_EACH).astype(np.int64)
        levels = np.random.default_rng(0).uniform(0.1, 4.0, answers // ANSWERS_EACH + 1)
        table = pa.table(
            {
                "user": user,
                "left": left,
                "right": right,
                "outcome": rng.choice(np.array([-1, 1], np.int8), m),
                "epsilon": levels[user],
            }
        )
        pq.write_table(table, partial / f"{number}.parquet", row_group_size=ROW_GROUP)
    partial.rename(folder)


def run(folder: Path, per_user: bool) -> Taken:
    """One reduction."""
    from hushrank.pipelines.reduce import reduce
    from hushrank.pipelines.reduce.private_job import ReduceAnswers
    from hushrank.privacy.keyed_hash import SecretKey
    from hushrank.privacy.randomness import system_bits
    from hushrank.transforms.common.catalogue import Catalogue
    from hushrank.transforms.common.epsilons import AnswerColumns, EpsilonSource, Shares
    from hushrank.transforms.common.randomisation import Randomisation
    from hushrank.transforms.common.schema import Ties
    from hushrank.transforms.storage.files import list_files

    with tempfile.TemporaryDirectory(dir=folder.parent) as confidential:
        job = ReduceAnswers(
            files=tuple(list_files([str(folder)])),
            columns=AnswerColumns(
                left="left",
                right="right",
                outcome="outcome",
                winner=None,
                user="user" if per_user else None,
                event=None,
                epsilon="epsilon",
            ),
            catalogue=Catalogue.of_count(N_ITEMS),
            ties=Ties.RANDOM,
            epsilons=EpsilonSource(low=0.1, high=4.0),
            shares=Shares(per_user=per_user),
            randomisation=Randomisation.WEIGHTED,
            already_private=False,
            key=SecretKey.draw(system_bits()),
            confidential=confidential,
        )
        return taken_by(lambda: reduce.run(job))


def main() -> None:
    """Make the log, run, print a line a run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--answers", type=int, default=100_000_000)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "hushrank-local")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--per-user", action="store_true", help="people meet to share an epsilon")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = options.data / f"{options.answers}-answers"
    if options.one:
        show(run(folder, options.per_user))
        return
    make(folder, options.answers)
    print(f"{options.answers:,} answers, {N_ITEMS} items; load {os.getloadavg()[0]:.1f} of 2 cores")
    for _ in range(options.runs):
        one = taken_apart("--one")
        print(
            f"{one.wall:6.1f} s  {options.answers / one.wall / 1e6:5.1f} M answers/s;"
            f"  {one.cpu:.1f} s of processor time;  {one.peak / 2**20:,.0f} MB peak"
        )


if __name__ == "__main__":
    main()
