"""Parts of a table, whatever its kind."""

from __future__ import annotations

from typing import IO

from hushrank.transforms.common.schema import InputError
from hushrank.transforms.tables import bigquery, delta, iceberg
from hushrank.transforms.tables.names import (
    DataFile,
    DeltaName,
    IcebergName,
    ServedTable,
    table_name,
)


def parts_of(url: str, times: str | None) -> list[DataFile] | list[ServedTable]:
    """List the data files of the snapshot that `url` names, or the table whose rows a service
    sends.

    Args:
        url: see `names`.
        times: column of times, if only the rows of some day are wanted.

    Raises:
        InputError: the table cannot be read as it is.
    """
    try:
        name = table_name(url)
    except ValueError as error:
        raise InputError(f"input.paths: {error}") from None
    if isinstance(name, IcebergName):
        return iceberg.files_of(name, times)
    if isinstance(name, DeltaName):
        return delta.files_of(name, times)
    return [bigquery.served_table(name)]


def open_data_file(file: DataFile) -> IO[bytes] | None:
    """Open a data file that is not local through its catalog; None: open it as any other file.

    Raises:
        InputError: the file cannot be opened.
    """
    name = table_name(file.layout.table)
    return iceberg.open_file(file, name) if isinstance(name, IcebergName) else None


def check_same(table: DataFile | ServedTable) -> None:
    """Raise `InputError` if the state of a table changed; a snapshot's data files never do."""
    if isinstance(table, ServedTable):
        bigquery.check_unchanged(table)
