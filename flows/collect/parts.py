"""A part: the answers of one sealed journal, in random order, in a Parquet file of their night."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date, datetime, time
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from hushrank.flows.collect.forms import RowForm
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.storage.cloud_storage import CloudPath, Place
from hushrank.transforms.storage.write import parquet_bytes, write_once

PlaceOfPart = Callable[[date, str], Place]  # of a night, and of the id of a journal


def write_part(place: Place, rows: bytes, form: RowForm, bits: RandomBits) -> None:
    """Write the rows of a journal, shuffled, to `place`, unless that exists already.

    The order of the rows is a uniformly random one, up to the chance that two of 2^64 sorted words
    coincide, and has nothing to do with when they came. A part appears whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    records = form.records(rows)
    shuffled = records[np.argsort(bits.words(len(records)))]
    write_once(str(place), parquet_bytes(form.table(shuffled)))


def hide_time(place: Place, night: date, zone: ZoneInfo) -> None:
    """Give a local file the first moment of its night as its time; a bucket keeps its own time.

    Raises:
        OSError: the file is not there any more.
    """
    if not isinstance(place, CloudPath):
        first = datetime.combine(night, time(), zone).timestamp()
        os.utime(Path(place), (first, first))
