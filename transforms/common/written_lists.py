"""Lists that a cell of text holds, as Python, JSON or PostgreSQL write them. Pure.

    ['coding', 'hard']    ["coding","hard"]    [coding, hard]    {coding,hard}    ['coding' 'hard']

A cell is read by its own bytes alone. An element is a text in quotes, or a bare word without
quotes, commas and brackets.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

SEPARATOR = "[]"  # value of groups.separator where cells hold such lists
NO_LIST = "the cell of groups holds no list"

_QUOTED = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
_WORD = r"""[^\s,'"\[\](){}\\]+"""
_ELEMENT = rf"(?:{_QUOTED}|{_WORD}(?: +{_WORD})*)"
_NEXT = rf"(?:\s*,\s*{_ELEMENT}|\s+(?:{_QUOTED}))"  # numpy writes no commas
_LIST = rf"(?s)^[\[({{]\s*(?:{_ELEMENT}{_NEXT}*\s*,?)?\s*[\])}}]$"
_ENDS = r"(?s)^[\[({]\s*|\s*,?\s*[\])}]$"
_AROUND = r"""(?s)^(?:"(.*)"|'(.*)')$"""
_CUT = "\x1f"  # no name of a group holds it
# A bare word in brackets, such as [deleted] or (not set), may be a name.
_OBVIOUS = r"""(?s)^[\[{].*['",].*[\]}]$"""

Mask = NDArray[np.bool_]


def are_lists(texts: pa.Array) -> Mask:
    """Whether each text, without blanks around it, is a list; of any form."""
    return _matches(texts, _LIST)


def are_surely_lists(texts: pa.Array) -> Mask:
    """Whether each text is a list with quotes or commas, which hardly is a name in brackets."""
    return _matches(texts, _OBVIOUS) & _matches(texts, _LIST)


def elements_of(texts: pa.Array) -> pa.Array:
    """The elements of texts that are lists, without their quotes; escapes stay as they are.

    Returns:
        A list for each text. An empty list has one empty element.
    """
    inside = pc.replace_substring_regex(texts, _ENDS, "")
    cut = pc.replace_substring_regex(inside, rf"(?s)({_ELEMENT})\s*,?\s*", rf"\1{_CUT}")
    lists = pc.split_pattern(pc.utf8_rtrim(cut, _CUT), _CUT)
    bare = pc.replace_substring_regex(lists.flatten(), _AROUND, r"\1\2")
    return pa.ListArray.from_arrays(lists.offsets, bare)


def spellings(name: str) -> tuple[str, ...]:
    """How a list may write a name between its quotes: as it is, as in JSON, as in Python."""
    return name, json.dumps(name)[1:-1], repr(name)[1:-1]


def _matches(texts: pa.Array, pattern: str) -> Mask:
    found = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
    return np.asarray(found.to_numpy(zero_copy_only=False))
