"""Ids of the parts that the collector writes: they tell apart what size and date do not.

All parts of a night carry its first moment as their time, and parts with few answers often have one
size. So each has a random id, in its name and in its Parquet metadata, and a copy under another
name keeps it.
"""

from __future__ import annotations

import os
import re
import stat

_KEY = "hushrank part"
_STATED = re.compile(rb"hushrank part ([0-9a-f]{16})\b")
_TAIL_BYTES = 1 << 16  # metadata stand at the end of a footer, and few bytes a column follow


def stated_id(id_: str) -> dict[str, str]:
    """The Parquet metadata of a part with this id, which has 16 hexadecimal digits."""
    return {_KEY: f"{_KEY} {id_}"}


def part_id(path: str) -> str:
    """The id that a local Parquet file states; empty if it states none or cannot be read.

    The end of the file is searched as bytes: nothing is parsed, so a damaged file does no harm.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return ""
            tail = os.pread(descriptor, _TAIL_BYTES, max(found.st_size - _TAIL_BYTES, 0))
        finally:
            os.close(descriptor)
    except OSError:  # whoever reads its rows says so
        return ""
    stated = _STATED.search(tail)
    return "" if stated is None else stated[1].decode()
