"""A part: the answers of one sealed journal, in random order, in a Parquet file of their night."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, time
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from hushrank.flows.collecting.forms import RowForm
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.storage.cloud_storage import CloudPath, Place
from hushrank.transforms.storage.matches import stated_id
from hushrank.transforms.storage.write import (
    TEMPORARY_NAME,
    is_stale,
    parquet_bytes,
    write_once,
)

PlaceOfPart = Callable[[date, str], Place]  # of a night, and of the id of a journal
_PART = re.compile(r"part-[0-9a-f]{16}\.parquet")


_PARQUET = b"PAR1"  # a whole file begins and ends with it


def write_part(place: Place, id_: str, rows: bytes, form: RowForm, bits: RandomBits) -> None:
    """Write the rows of a journal, shuffled, to `place`, unless that exists already.

    Args:
        place: of the part.
        id_: of the journal and its part, random.
        rows: records.
        form: of the rows.
        bits: for their order.

    The order of the rows is a uniformly random one, up to the chance that two of 2^64 sorted words
    coincide, and has nothing to do with when they came. A part appears whole or not at all.

    Raises:
        OSError: it cannot be written, or what is there is no whole part.
        ValueError, IndexError, TypeError: the rows do not fit their form.
    """
    records = form.records(rows)
    shuffled = records[np.argsort(bits.words(len(records)))]
    content = parquet_bytes(form.table(shuffled), stated_id(id_))
    _forget_half_written(place)
    found = write_once(str(place), content)
    if not (len(found) > 8 and found.startswith(_PARQUET) and found.endswith(_PARQUET)):
        raise OSError(errno.EIO, f"{place} is damaged; delete it, and it is written again")


def _forget_half_written(place: Place) -> None:
    """Delete what dead processes left: of this part, which only we write, and old ones of others.

    Raises:
        OSError: one cannot be deleted.
    """
    if isinstance(place, CloudPath):  # an object appears whole or not at all
        return
    with suppress(FileNotFoundError):  # there is no folder yet
        for name in os.listdir(place.parent):
            temporary = TEMPORARY_NAME.fullmatch(name)
            left = temporary is not None and _PART.fullmatch(temporary["name"])
            path = place.parent / name
            if left and (left[0] == place.name or is_stale(path)):
                path.unlink(missing_ok=True)


def hide_time(place: Place, night: date, zone: ZoneInfo) -> None:
    """Give a local file the first moment of its night as its time; a bucket keeps its own time.

    Raises:
        OSError: the file is not there any more.
    """
    if not isinstance(place, CloudPath):
        first = datetime.combine(night, time(), zone).timestamp()
        os.utime(Path(place), (first, first))
