"""Bytes of a column of texts, without a copy: for questions that numpy answers for all at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

LAST_OF_ASCII = 0x7F
Edges = NDArray[np.int32] | NDArray[np.int64]


def bytes_of(texts: pa.Array) -> tuple[Edges, NDArray[np.uint8]] | None:
    """Places where texts begin and end, shape (m + 1,), and the bytes that these count; no copy.

    None: the type is neither a string nor binary, plain or large. A null has no bytes.
    """
    large = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    if not (large or pa.types.is_string(texts.type) or pa.types.is_binary(texts.type)):
        return None
    _, offsets, content = texts.buffers()
    if offsets is None or not len(texts):
        return np.zeros(len(texts) + 1, np.int64), np.empty(0, np.uint8)
    edges: Edges = np.frombuffer(offsets, np.int64) if large else np.frombuffer(offsets, np.int32)
    octets = np.frombuffer(content or b"", np.uint8)
    return edges[texts.offset : texts.offset + len(texts) + 1], octets


def is_ascii(texts: pa.Array) -> bool:
    """Whether all bytes of texts are ASCII; False also if the type does not tell cheaply."""
    found = bytes_of(texts)
    if found is None:
        return False
    edges, octets = found
    used = octets[edges[0] : edges[-1]]
    return not len(used) or bool(used.max() <= LAST_OF_ASCII)
