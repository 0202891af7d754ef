"""What a job of up to 10^10 rows sends and holds on an engine, and costs: arithmetic, and no run.

How a job is cut is asked of the code itself; bytes of a shuffle block are those of one that is made
and pickled here. Processor time a row is that of a thousand million rows on one machine; what a
shuffle block costs besides is that of `many_workers.py`, all of whose time is divided by its
shuffle blocks, which are so small that rows hardly count. docs/benchmarks.md has both. Prices are
those of `hushrank plan --engine dataflow`. Dataflow bills what is written to its shuffle and what
is read from it, and takes less for the first 5 TB of a month: that reduction is left out.

    python benchmarks/ten_billion.py [--items 3000] [--files 10000] [--write docs]
"""

from __future__ import annotations

import argparse
import math
import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from many_workers import MAX_CONTRIBUTIONS, ROWS_A_PERSON, the_job

from hushrank.flows.planning.plan.engine_cost import (
    DISK_GB_A_VCPU,
    GB_A_VCPU,
    PRICES,
    SECONDS_A_BLOCK,
    WRITTEN_AND_READ,
)
from hushrank.pipelines.engine.runner import Runner
from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.dense_total import BLOCK_CELLS
from hushrank.transforms.comparisons.shuffle import WORDS, OwnedRows, Partitioning, pack

CPU_A_ROW = 0.255e-6  # seconds, of rows of numbers
BEGIN, END = "<!-- ten billion: begin -->", "<!-- ten billion: end -->"


@dataclass(frozen=True)
class Estimate:
    """A job on paper.

    Attributes:
        rows, items: of the input, and of the catalogue.
        partitions, chunk_rows: how the launcher cuts it.
        shuffle blocks: at most, where each of so many files is a bundle of its own.
        shuffle block_bytes: of the largest shuffle blocks, as the engine stores them.
    """

    rows: int
    items: int
    partitions: int
    chunk_rows: int
    shuffle_blocks: int
    shuffle_block_bytes: float

    @classmethod
    def of(cls, rows: int, items: int, files: int) -> Estimate:
        """By the code that cuts jobs."""
        kind = reduce.kind_of(the_job(None, "nowhere", Runner.DATAFLOW, items))
        cut: Partitioning = kind.partitions(rows)
        partitions = 1 << cut.partition_bits
        chunk = min(
            reduce.chunk_rows(kind, rows), max(rows // files, 1)
        )  # what a bundle has, if less
        shuffle_blocks = math.ceil(rows / chunk) * partitions
        return cls(
            rows, items, partitions, chunk, shuffle_blocks, bytes_of_shuffle_blocks(chunk, cut)
        )

    @property
    def shuffle_bytes(self) -> float:
        """Of rows, and of the blocks of partial sums."""
        return self.shuffle_blocks * self.shuffle_block_bytes + self.block_bytes

    @property
    def block_bytes(self) -> float:
        """Of partial sums, one a partition: a byte a cell, or three a cell that was met."""
        cells = self.items**2
        kept = self.rows * min(1, MAX_CONTRIBUTIONS / ROWS_A_PERSON) / self.partitions
        met = cells * -math.expm1(-kept / cells)
        return self.partitions * min(3 * met, cells)

    @property
    def at_once(self) -> float:
        """Bytes of the partial sums that one worker would have to add, were they not in blocks."""
        return 8.0 * self.items**2 * self.partitions

    @property
    def in_blocks(self) -> float:
        """Bytes that a worker holds at most of sums: a partial one, a place, or the total twice."""
        cells = self.items**2
        return max(16 * cells, 4 * min(BLOCK_CELLS, cells) * self.partitions)

    @property
    def hours(self) -> float:
        """Of processors."""
        return (self.rows * CPU_A_ROW + self.shuffle_blocks * SECONDS_A_BLOCK) / 3600

    @property
    def dollars(self) -> tuple[float, float]:
        """Of workers, and of the shuffle, which is written and read."""
        memory, disk = GB_A_VCPU * PRICES["memory-gb-hour"], DISK_GB_A_VCPU * PRICES["disk-gb-hour"]
        workers = self.hours * (PRICES["vcpu-hour"] + memory + disk)
        shuffle = WRITTEN_AND_READ * self.shuffle_bytes / 1e9 * PRICES["shuffle-gb"]
        return workers, shuffle

    def line(self) -> str:
        """Of the table."""
        workers, shuffle = self.dollars
        return (
            f"| 10^{math.log10(self.rows):.0f} | 10^{math.log10(self.rows / ROWS_A_PERSON):.0f}"
            f" | {self.items} | {self.partitions} | {self.shuffle_blocks / 1e6:.2f} M"
            f" | {self.shuffle_block_bytes / 1e3:.1f} kB | {self.shuffle_bytes / 1e9:.1f} GB"
            f" | {self.at_once / 1e9:.2f} GB | {self.in_blocks / 1e9:.2f} GB"
            f" | {self.hours:.2f} | {workers:.2f} + {shuffle:.2f} |"
        )


def bytes_of_shuffle_blocks(rows: int, cut: Partitioning) -> float:
    """Mean size of the shuffle blocks of so many rows, as the engine stores them."""
    words = np.random.default_rng(1).integers(0, 2**63, (WORDS, rows), dtype=np.uint64)
    words[0] <<= np.uint64(1)  # pseudonyms: all bits of the first word are used
    sizes = [
        len(pickle.dumps(shuffle_block)) for _, shuffle_block in pack(OwnedRows(words), cut, None)
    ]
    return sum(sizes) / (1 << cut.partition_bits)


HEADER = (
    "| rows | people | items | partitions | shuffle blocks | each | shuffle | sums added at once"
    " | in blocks | vCPU hours | USD: workers + shuffle |\n"
    "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def main() -> None:
    """Print the table; write it where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, nargs="+", default=[300, 3000])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--write", type=Path, help="folder of benchmarks.md")
    options = parser.parse_args()
    sizes = [(rows, items) for rows in (10**8, 10**9, 10**10) for items in options.items]
    table = "\n".join([HEADER, *(Estimate.of(*size, options.files).line() for size in sizes)])
    print(table)
    if options.write is not None:
        page = options.write / "benchmarks.md"
        before, _, rest = page.read_text().partition(BEGIN)
        page.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
