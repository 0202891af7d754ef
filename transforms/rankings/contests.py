"""Which rows of a log of rankings belong to a contest. Pure: a batch in, a batch out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hushrank.transforms.common.encode import Mask
from hushrank.transforms.common.schema import by_distinct, is_text, to_numpy, to_text


def of_contest(batch: pa.RecordBatch, name: str, contest: str) -> pa.RecordBatch:
    """The rows of one contest, named as text."""

    def is_it(contests: pa.Array) -> Mask:
        return to_numpy(pc.fill_null(pc.equal(contest_names(contests), contest), False))

    return batch.filter(pa.array(by_distinct(batch[name], is_it, np.False_)))


def contest_names(column: pa.Array) -> pa.Array:
    """Contests as text, so that files which name them by integers and by text agree."""
    if pa.types.is_dictionary(column.type):
        names = contest_names(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, names)
    return to_text(column) if is_text(column.type) else column.cast(pa.large_string())
