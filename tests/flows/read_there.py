"""What tests have a child do with files; importing it loads no tests and no engine."""

from __future__ import annotations

import resource
from collections.abc import Sequence

from hushrank.transforms.common.local_files import being_read
from hushrank.transforms.common.schema import ComparisonColumns
from hushrank.transforms.storage.files import InputFile, list_files, parquet_footer
from hushrank.transforms.storage.read import plan_files, read_batches
from hushrank.transforms.system import MemoryBound


def read_footers_whole(files: Sequence[InputFile]) -> None:
    for file in files:
        with being_read(file.name):
            footer = parquet_footer(file)
            for group in range(footer.num_row_groups):
                for place in range(footer.num_columns):
                    footer.row_group(group).column(place)


def read_whole(path: str) -> int:
    """Number of rows."""
    files = list_files([path])
    columns = ComparisonColumns(
        left="item_i", right="item_j", outcome="outcome", winner=None, user="user", event=None
    )
    splits = plan_files(files, columns)
    return sum(len(batch.rows) for split in splits for batch in read_batches(split))


def data_limit() -> tuple[int, int]:
    """The limit, and what is taken of it."""
    return resource.getrlimit(resource.RLIMIT_DATA)[0], MemoryBound()._taken
