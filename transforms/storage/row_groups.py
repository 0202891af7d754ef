"""Which row groups of a Parquet file hold no row of a night, by their statistics. Pure.

References:
    [Parquet] Apache Parquet. Parquet Format: parquet.thrift, `LogicalType`. 2023.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.transforms.storage.window import Window

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


def misses_night(footer: pq.FileMetaData, group: int, window: Window, times: pa.Field) -> bool:
    """Whether the statistics of a row group show that all its times lie outside `window`.

    Args:
        footer: of the file.
        group: number of the row group.
        window: the night.
        times: the column of times, with the type in which its rows are read.
    """
    metadata = footer.row_group(group)
    columns = [metadata.column(place) for place in range(metadata.num_columns)]
    found = [column for column in columns if column.path_in_schema == times.name]
    known = found[0].statistics if len(found) == 1 else None
    # Rows without a time are set aside, so a group with such rows must be read.
    if known is None or not known.has_min_max or known.null_count != 0:
        return False
    kind = _stored_times(json.loads(known.logical_type.to_json()), times.type)
    return kind is not None and window.misses(known.min_raw, known.max_raw, kind)


def _stored_times(logical: Mapping[str, Any], read: pa.DataType) -> pa.DataType | None:
    """The type of stored times or dates, by their logical type in [Parquet]; None: another one.

    A file may be written with a note that times are to be read in another unit than it stores.
    """
    if logical["Type"] == "Date" and pa.types.is_date(read):
        return pa.date32()
    if logical["Type"] == "Timestamp" and pa.types.is_timestamp(read):
        return pa.timestamp(_UNITS[logical["timeUnit"]], read.tz)
    return None
