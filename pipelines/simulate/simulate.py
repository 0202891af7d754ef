"""Write a simulated survey log of any size, with its true scores and a job file that ranks it.

This needs no Beam: nothing has to be combined, and one process writes millions of rows a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from hushrank.pipelines.simulate.simulated_folder import (
    Progress,
    Simulated,
    deal_log,
    simulated_folder,
    write_side_files,
)
from hushrank.pipelines.simulate.simulated_rows import (
    Columns,
    SimulationSpec,
    comparison_blocks,
    n_blocks,
)
from hushrank.transforms.storage.files import FileFormat


def simulate_comparisons(
    spec: SimulationSpec,
    out: Path,
    *,
    files: int | None = None,
    format_: FileFormat = FileFormat.PARQUET,
    progress: Progress | None = None,
) -> Simulated:
    """Write the survey that `spec` describes into the folder `out`, made if it does not exist.

    Memory does not grow with the number of rows. An error half-way leaves the folder empty.

    Args:
        spec: items, people and how they answer; the rows depend on nothing else.
        out: a new or empty folder.
        files: number of files the rows are dealt to; None: 8, or one a person if there are fewer.
        format_: format of those files.
        progress: called from time to time with the share that is done.

    Raises:
        ValueError: `files` is not between 1 and both 500 and the number of people.
        FileExistsError: `out` is not empty, or is a file.
    """
    with simulated_folder(out, spec.people, files, format_) as written:
        deal_log(_tables(spec), n_blocks(spec), schema_of(spec), written.log, format_, progress)
        scores = spec.true_scores().tolist()
        write_side_files(written, spec.item_ids(), scores, job_of(spec, format_))
    return written


def _tables(spec: SimulationSpec) -> Iterator[pa.Table]:
    ids = pa.array(spec.item_ids()) if spec.named else None
    return (table_of(columns, ids) for columns in comparison_blocks(spec))


def schema_of(spec: SimulationSpec) -> pa.Schema:
    """Schema of the files of a log."""
    item = pa.string() if spec.named else pa.int32()
    types = {"user": pa.int64(), "item_i": item, "item_j": item, "outcome": pa.int8()}
    if spec.events:
        types["event"] = pa.int64()
    if spec.epsilons:
        types["epsilon"] = pa.float64()
    return pa.schema(types)


def table_of(columns: Columns, ids: pa.Array | None) -> pa.Table:
    """The columns as Arrow arrays; if `ids` is given, items by name."""
    arrays = {name: pa.array(column) for name, column in columns.items()}
    if ids is not None:
        for name in ("item_i", "item_j"):
            arrays[name] = ids.take(arrays[name])
    return pa.table(arrays)


def job_of(spec: SimulationSpec, format_: FileFormat) -> dict[str, Any]:
    """A job that ranks the log; relative paths start at the folder of the job file."""
    columns = {"user": "user", "left": "item_i", "right": "item_j", "outcome": "outcome"}
    if spec.events:
        columns["event"] = "event"
    return {
        "name": "simulated-survey",
        "input": {
            "kind": "comparisons",
            "paths": [f"survey/*.{format_.value}"],
            "columns": columns,
            "design": "balanced",
            "ties": "drop",
        },
        "items": {"file": "items.csv"},
        "privacy": {
            "unit": "user",
            "adjacency": "replace-one",
            "epsilon": 2.0,
            "max_contributions": spec.comparisons,
            "distinct_pairs": spec.distinct_pairs,
        },
        "method": "noisy-counts",
        "output": "out",
        "confidential": ".hushrank/work",
        "ledger": {
            "path": ".hushrank/ledger.jsonl",
            "epsilon": 10.0,
            "delta": 1e-6,
            "refresh": "monthly",
        },
        "runner": "local",
    }
