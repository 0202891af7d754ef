"""Strict JSON in a readable layout: one line for each key and each row of a table of numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

INDENT = "  "
SCALARS = frozenset((str, int, float, bool, type(None)))
ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def json_text(value: Any) -> str:
    """Write dicts, lists and scalars as strict JSON; keys keep their order.

    Raises:
        ValueError: a number is infinite or not a number; JSON has no such numbers.
    """
    return "".join(json_pieces(value))


def json_pieces(value: Any, margin: str = "") -> Iterator[str]:
    """The text of `json_text` in pieces, so that a long one need not be in memory.

    Args:
        value: as in `json_text`. An iterator is written as the list of what it yields, which is one
            dict, list or text at least.
        margin: what stands in front of the value's last line.

    Raises:
        ValueError: as in `json_text`.
    """
    inner = margin + INDENT
    if isinstance(value, dict) and value:
        if SCALARS.issuperset(map(type, value.values())):
            yield f"{{\n{inner}{_encoder(inner).encode(value)[1:-1]}\n{margin}}}"
            return
        parts = ((f"{inner}{ENCODER.encode(key)}: ", part) for key, part in value.items())
        yield from _lines("{}", parts, inner, margin)
    elif isinstance(value, Iterator) or (
        isinstance(value, list) and value and isinstance(value[0], dict | list | str)
    ):
        yield from _lines("[]", ((inner, part) for part in value), inner, margin)
    else:
        yield ENCODER.encode(value)


def _lines(
    brackets: str, parts: Iterable[tuple[str, Any]], inner: str, margin: str
) -> Iterator[str]:
    before = f"{brackets[0]}\n"
    for start, part in parts:
        yield before + start
        yield from json_pieces(part, inner)
        before = ",\n"
    yield f"\n{margin}{brackets[1]}"


@cache
def _encoder(inner: str) -> json.JSONEncoder:
    """Writes a dict of scalars with each key on a line of its own, without a step in Python."""
    return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(f",\n{inner}", ": "))
