"""The header of a CSV file: public text, which names the columns."""

from __future__ import annotations

import csv

from hushrank.transforms.common.schema import InputError

HEADER_BYTES = 1 << 20  # a CSV header must end within the first MiB
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some programs begin UTF-8 text with it


def csv_header(path: str, head: bytes, delimiter: str = ",") -> list[str]:
    """Names of the columns, from the first line of a CSV file.

    Args:
        path: for the message.
        head: the first `HEADER_BYTES` of the file.
        delimiter: the character between columns.

    Raises:
        InputError: the first line is not a header.
    """
    line = next(iter(head.removeprefix(BYTE_ORDER_MARK).splitlines()), b"")
    if len(line) >= HEADER_BYTES - len(BYTE_ORDER_MARK):
        raise InputError(f"{path}: the header line is longer than 1 MiB. Write fewer columns.")
    try:
        names = next(csv.reader([line.decode()], strict=True, delimiter=delimiter), [])
    except UnicodeDecodeError:
        raise InputError(f"{path}: the header is not UTF-8 text. Save the file as UTF-8.") from None
    except csv.Error:  # the line may be a row, so it is not shown
        raise InputError(
            f"{path}: a column name has a line break, or a quote is not closed."
        ) from None
    if not any(names):
        raise InputError(f"{path}: no header line. The first line must name the columns.")
    return names
