"""Speed of privatising and counting rankings from Parquet files, and what debiasing gains.

Claim: at least 1 M rankings of 10 items a second through the pipeline, in list form: read, checked,
met by person, bounded, privatised with bits of the operating system, and counted. Beside it, the
same work by a Python loop over rankings, on fewer of them and already in memory. Each run is a
process of its own; time is measured after imports. Seconds of processor time tell what it takes
where other work keeps the machine busy.

Then: how far the shares of rankings with one item above another are from the true ones, counted in
private rankings as they are and with the mechanism undone.

    python benchmarks/rankings_pipeline.py [--rankings N] [--data FOLDER] [--runs N]
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from bisect import bisect_right
from itertools import accumulate, combinations
from pathlib import Path
from random import SystemRandom

from measuring import Taken, seconds, show, taken_apart, taken_by

N_ITEMS, EPSILON, ROW_GROUP, FILE_ROWS = 10, 1.0, 1 << 17, 2_000_000
LOOPED = 20_000  # rankings of the Python loop
FORMS = ("list form, nobody meets", "list form, by person", "long form, by person")
GAIN_RANKINGS, GAIN_EPSILONS = 200_000, (1.0, 3.0, 10.0, 30.0)


def make(folder: Path, rankings: int) -> None:
    """Write the rankings in both forms unless they are there."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    if folder.exists():
        return
    partial = folder.with_name(f".{folder.name}")
    for form in ("list", "long"):
        (partial / form).mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, rankings, FILE_ROWS)):
        n = min(FILE_ROWS, rankings - start)
        random = np.random.default_rng([rankings, number])
        orders = np.argsort(random.random((n, N_ITEMS)), axis=1).astype(np.int32)
        users = np.arange(start, start + n)
        offsets = pa.array(np.arange(n + 1, dtype=np.int32) * N_ITEMS)
        lists = pa.ListArray.from_arrays(offsets, pa.array(orders.ravel()))
        pq.write_table(
            pa.table({"user": users, "ranking": lists}),
            partial / "list" / f"{number}.parquet",
            row_group_size=ROW_GROUP,
        )
        pq.write_table(
            pa.table(
                {
                    "user": np.repeat(users, N_ITEMS),
                    "item": orders.ravel(),
                    "rank": np.tile(np.arange(1, N_ITEMS + 1, dtype=np.int16), n),
                }
            ),
            partial / "long" / f"{number}.parquet",
            row_group_size=8 * ROW_GROUP,
        )
    partial.rename(folder)


def run(folder: Path, form: str) -> Taken:
    """One reduction."""
    from hushrank.pipelines.reduce import reduce
    from hushrank.pipelines.reduce.rankings_job import ReduceRankings
    from hushrank.privacy.keyed_hash import SecretKey
    from hushrank.privacy.randomness import system_bits
    from hushrank.transforms.common.catalogue import Catalogue
    from hushrank.transforms.common.epsilons import EpsilonSource
    from hushrank.transforms.common.randomisation import RankingMechanism
    from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns
    from hushrank.transforms.storage.files import list_files

    columns: ListColumns | RankColumns = RankColumns(user="user", item="item", rank="rank")
    if form.startswith("list"):
        columns = ListColumns(ranking="ranking", user="user" if "person" in form else None)
    with tempfile.TemporaryDirectory(dir=folder.parent) as confidential:
        job = ReduceRankings(
            files=tuple(list_files([str(folder / form[:4])])),
            columns=columns,
            catalogue=Catalogue.of_count(N_ITEMS),
            contest=None,
            max_length=N_ITEMS,
            max_rankings=1,
            break_ties=False,
            epsilons=EpsilonSource(low=EPSILON, high=EPSILON, value=EPSILON),
            mechanism=RankingMechanism.MALLOWS,
            already_private=False,
            by_place=True,
            key=SecretKey.draw(system_bits()),
            confidential=confidential,
        )
        return taken_by(lambda: reduce.run(job))


def loop(rankings: list[list[int]]) -> dict[tuple[int, int], int]:
    """Repeated insertion and pair counts one ranking, item and pair at a time."""
    random = SystemRandom()
    q = math.exp(EPSILON / (N_ITEMS - 1))
    sums = [list(accumulate(q**k for k in range(t))) for t in range(1, N_ITEMS + 1)]
    wins: dict[tuple[int, int], int] = {}
    for true in rankings:
        private: list[int] = []
        for item, own in zip(true, sums, strict=True):
            private.insert(bisect_right(own, random.random() * own[-1]), item)
        for pair in combinations(private, 2):
            wins[pair] = wins.get(pair, 0) + 1
    return wins


def print_baseline() -> None:
    """Rate of the Python loop."""
    rankings = [list(range(N_ITEMS)) for _ in range(LOOPED)]
    (taken,) = seconds(lambda: loop(rankings), 1, time.process_time)
    rate = LOOPED / taken / 1e6
    print(f"Python loop, in memory, {LOOPED:,} rankings: {rate:.3f} M rankings/s of processor time")


def print_gain() -> None:
    """Root mean square error of pair shares, plain and debiased, over two camps of people."""
    import numpy as np

    from hushrank.estimation.rankings.ranking_counts import count_rankings
    from hushrank.estimation.rankings.ranking_evidence import (
        LARGEST_ENTRY,
        RankingEvidence,
        debiased_evidence,
        largest_entry,
        plain_evidence,
        undoing_pays,
    )
    from hushrank.privacy.mallows import synthetic_rankings
    from hushrank.privacy.randomness import system_bits

    def counts(items):
        return count_rankings(items, lengths, N_ITEMS, N_ITEMS, by_place=True)

    def error(evidence: RankingEvidence) -> float:
        share = (evidence.wins - truth.wins) / GAIN_RANKINGS
        return float(np.sqrt(np.square(share[np.triu_indices(N_ITEMS, 1)]).mean()))

    random = np.random.default_rng(0)
    camps = np.array([random.permutation(N_ITEMS), random.permutation(N_ITEMS)])
    true = camps[(random.random(GAIN_RANKINGS) < 0.3).astype(int)].ravel()
    lengths = np.full(GAIN_RANKINGS, N_ITEMS)
    truth = plain_evidence(counts(true))
    print(f"\n{GAIN_RANKINGS:,} rankings, two camps: error of a share of a pair")
    print("epsilon    plain   debiased   auto takes")
    for epsilon in GAIN_EPSILONS:
        found = counts(synthetic_rankings(true, lengths, epsilon, system_bits()))
        plain = plain_evidence(found)
        if largest_entry(found, epsilon) > LARGEST_ENTRY:
            print(f"{epsilon:7g}   {error(plain):.4f}   not possible   plain")
            continue
        debiased = debiased_evidence(found, epsilon)
        taken = "debiased" if undoing_pays(plain, debiased) else "plain"
        print(f"{epsilon:7g}   {error(plain):.4f}   {error(debiased):.4f}     {taken}")


def main() -> None:
    """Make the rankings, run, print a line a run, the baseline, and the gain."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rankings", type=int, default=10_000_000)
    place = Path(tempfile.gettempdir()) / "hushrank-rankings"
    parser.add_argument("--data", type=Path, default=place)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--one", choices=FORMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = options.data / f"{options.rankings}-rankings"
    if options.one:
        show(run(folder, options.one))
        return
    make(folder, options.rankings)
    cores = os.cpu_count()
    print(
        f"{options.rankings:,} rankings of {N_ITEMS} items; load {os.getloadavg()[0]:.1f} of"
        f" {cores} cores; claim: 1 M rankings/s in list form"
    )
    for form in FORMS * options.runs:
        one = taken_apart("--one", form)
        speed, cpu_speed = (options.rankings / took / 1e6 for took in (one.wall, one.cpu))
        print(
            f"{form:24}  {one.wall:6.1f} s  {speed:5.2f} M rankings/s;  {one.cpu:5.1f} s of"
            f" processor time, {cpu_speed:.2f} M/s of it;  {one.peak / 2**20:,.0f} MB peak"
        )
    print_baseline()
    print_gain()


if __name__ == "__main__":
    main()
