"""A job of many files as an engine with many workers carries it out, on this machine.

The steps are those of the graph that an engine gets (`pipelines.reduce.reduce`), one bundle after
the other: each of `--workers` reads its share of the files in `--bundles` bundles; shuffle blocks
    are pickled and wait on disk, as in an engine's shuffle; each worker then bounds its share of
    the partitions, and sends its partial sum in blocks (`dense_total`). For each stage the script
    says seconds by the clock and of processor time, the peak memory, open files, and what is sent.
    Pairs of 3 000 items are counted, the most that are dense; people give ten rows on average, of
    which five count. `--plan-rows` cuts the job as if it had so many rows. `--check` compares the
    counts with the local engine's, bit for bit.

    python benchmarks/many_workers.py [--rows 1e7] [--files 10000] [--workers 64] [--bundles 4]
                                      [--plan-rows 1e10] [--check] [--data FOLDER]
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pickle
import re
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

N_ITEMS, ROWS_A_PERSON, MAX_CONTRIBUTIONS = 3000, 10, 5
LOOK_EVERY = 64  # shuffle blocks, at open files


def make(rows: int, files: int, folder: Path) -> None:
    """A log of uniform people and pairs in so many Parquet files, of which the left item wins."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    if folder.exists():
        return
    partial = folder.with_name(f".{folder.name}")
    partial.mkdir(parents=True, exist_ok=True)
    n_people = max(rows // ROWS_A_PERSON, 1)
    for part in range(files):
        rng, m = np.random.default_rng([rows, files, part]), rows // files + (part < rows % files)
        left = rng.integers(0, N_ITEMS, m, dtype=np.int16)
        columns = {
            "user": rng.integers(0, n_people, m),
            "item_i": left,
            "item_j": (left + rng.integers(1, N_ITEMS, m, dtype=np.int16)) % np.int16(N_ITEMS),
            "outcome": np.ones(m, np.int8),
        }
        pq.write_table(pa.table(columns), partial / f"{part:05}.parquet", compression="none")
    partial.rename(folder)


def the_job(folder: Path | None, confidential: str, runner: Any, n_items: int = N_ITEMS) -> Any:
    """Counts of pairs, for an engine or for this machine; without a folder, of no files."""
    from hushrank.pipelines.engine.runner import Engine
    from hushrank.pipelines.reduce.reduction_job import ReduceComparisons, Statistic
    from hushrank.privacy.keyed_hash import SecretKey
    from hushrank.privacy.randomness import BitSource
    from hushrank.transforms.common.catalogue import Catalogue
    from hushrank.transforms.common.schema import ComparisonColumns, Ties
    from hushrank.transforms.comparisons.bound import Bounds
    from hushrank.transforms.storage.files import list_files

    return ReduceComparisons(
        files=() if folder is None else tuple(list_files([str(folder)])),
        columns=ComparisonColumns(
            left="item_i", right="item_j", outcome="outcome", winner=None, user="user", event=None
        ),
        catalogue=Catalogue.of_count(n_items),
        bounds=Bounds(n_items=n_items, ties=Ties.DROP, max_contributions=MAX_CONTRIBUTIONS),
        statistic=Statistic.PAIR_COUNTS,
        key=SecretKey(bytes(range(32)), BitSource.SEEDED),
        confidential=confidential,
        engine=Engine(runner),
    )


class Shuffle:
    """Elements by key, pickled, in one file: what an engine keeps between two steps."""

    def __init__(self, file: io.BufferedRandom) -> None:
        self._file = file
        self._places: dict[Any, list[tuple[int, int]]] = {}
        self.elements, self.bytes, self.largest = 0, 0, 0

    def send(self, key: Any, value: Any) -> None:
        """Keep one element."""
        content = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        self._places.setdefault(key, []).append((self.bytes, len(content)))
        self._file.write(content)
        self.elements, self.bytes = self.elements + 1, self.bytes + len(content)
        self.largest = max(self.largest, len(content))

    @property
    def keys(self) -> list[Any]:
        """All of them, in order."""
        self._file.flush()
        return sorted(self._places)

    @property
    def largest_group(self) -> int:
        """Bytes of the elements of one key, the most."""
        return max(sum(size for _, size in places) for places in self._places.values())

    def of(self, key: Any) -> Iterator[Any]:
        """The elements of one key, one after the other."""
        for place, size in self._places[key]:
            yield pickle.loads(os.pread(self._file.fileno(), size, place))


@dataclass
class Stages:
    """What each stage took, printed as it ends."""

    taken: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A stage begins now."""
        Path("/proc/self/clear_refs").write_text(
            "5", encoding="utf-8"
        )  # the peak starts again at what is used now
        self._wall, self._cpu, self._files = time.perf_counter(), time.process_time(), 0

    def look(self) -> None:
        """Count the open files."""
        self._files = max(self._files, len(os.listdir("/proc/self/fd")))

    def end(self, stage: str, **more: int) -> None:
        """A stage ends."""
        self.look()
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        found = {
            "stage": stage,
            "wall_s": round(time.perf_counter() - self._wall, 1),
            "cpu_s": round(time.process_time() - self._cpu, 1),
            "peak_mb": int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024 // 10**6,
            "open_files": self._files,
            **more,
        }
        self.taken.append(found)
        print(json.dumps(found), flush=True)
        self.begin()


def bundle_of(fn: Any, elements: Iterable[Any]) -> Iterator[Any]:
    """All that a bundle of these elements gives, on a worker to which its step was sent."""
    from hushrank.transforms.engine.in_process import outputs_of_bundle

    return outputs_of_bundle(pickle.loads(pickle.dumps(fn)), elements)


def shares(elements: list[Any], parts: int) -> Iterator[list[Any]]:
    """The elements, dealt out evenly; none is empty."""
    for part in range(min(parts, len(elements))):
        yield elements[part::parts]


def carry_out(job: Any, options: argparse.Namespace, folder: Path, stages: Stages) -> Any:
    """The counts, and a file for each shuffle in `folder`."""
    from apache_beam.pvalue import TaggedOutput

    from hushrank.pipelines.reduce import reduce
    from hushrank.transforms.storage.spill_file import SpillFolder

    kind = reduce.kind_of(job)
    splits = kind.splits()
    stages.end("plan: read footers", files=len(job.files), splits=len(splits))
    planned = round(options.plan_rows or sum(split.rows for split in splits))
    with ExitStack() as open_files:
        met, blocks, sums = (
            Shuffle(open_files.enter_context(open(folder / name, "w+b")))
            for name in ("shuffle_blocks", "blocks", "sums")
        )
        heavy = SpillFolder(job.confidential)  # nobody is here
        read, encode = reduce._ReadSplit(len(splits)), reduce._Encode(kind, planned, heavy)
        for share in shares(list(enumerate(splits)), options.workers * options.bundles):
            for output in bundle_of(encode, bundle_of(read, share)):
                if not isinstance(output, TaggedOutput):
                    met.send(*output)
                    if met.elements % LOOK_EVERY == 0:
                        stages.look()
        sent = {"shuffle_blocks": met.elements, "partitions": len(met.keys), "bytes": met.bytes}
        stages.end("read, encode, send", **sent, largest_partition=met.largest_group)
        bound, partial = reduce._Bound(kind, heavy), reduce._Partial(kind.combine())
        for share in shares(met.keys, options.workers):
            groups = ((key, met.of(key)) for key in share)
            rows = (r for r in bundle_of(bound, groups) if not isinstance(r, TaggedOutput))
            for number, block in bundle_of(partial, rows):
                blocks.send(number, block)
            stages.look()
        sent = {"blocks": blocks.elements, "places": len(blocks.keys), "bytes": blocks.bytes}
        stages.end("bound, partial sums", **sent, largest_place=blocks.largest_group)
        for key in blocks.keys:
            for number, total in reduce._AddBlocks().process((key, blocks.of(key))):
                sums.send(number, total)
        stages.end("add blocks", blocks=sums.elements, bytes=sums.bytes)
        (counts,) = reduce._Total(kind.combine()).process((0, sums.of(0)))
        stages.end("total", rows_kept=int(counts.sum()), bytes=counts.nbytes)
    return counts


def check(job: Any, counts: Any) -> None:
    """Compare with what the local engine counts; raises `SystemExit` if one bit differs."""
    import numpy as np

    from hushrank.pipelines.reduce import reduce
    from hushrank.pipelines.reduce.reduction_job import EXACT_FILE

    reduce.run(job)
    with np.load(f"{job.confidential}/{EXACT_FILE}") as arrays:
        if not np.array_equal(arrays["counts"], counts):
            raise SystemExit("the local engine counts otherwise")
    print("the local engine counts the same", flush=True)


def main() -> None:
    """Make the files, carry the job out, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--plan-rows", type=float, help="cut the job as if it had so many")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--bundles", type=int, default=4, help="of files, that a worker reads")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir(), "hushrank-bench"))
    options = parser.parse_args()
    from hushrank.pipelines.engine.runner import Runner
    from hushrank.pipelines.reduce import reduce

    rows_in = reduce._rows_in
    log = options.data / f"many-{round(options.rows)}-{options.files}"
    stages = Stages()
    make(round(options.rows), options.files, log)
    stages.end("make the files")
    with tempfile.TemporaryDirectory(dir=options.data) as folder:
        confidential = f"{folder}/confidential"
        job = the_job(log, confidential, Runner.FLINK)
        counts = carry_out(job, options, Path(folder), stages)
        reduce._rows_in = rows_in
        if options.check:
            stages.begin()
            check(the_job(log, confidential, Runner.LOCAL), counts)
            stages.end("the local engine")


if __name__ == "__main__":
    main()
