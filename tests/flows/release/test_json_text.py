"""JSON is strict, and a row of numbers is one line."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.flows.release.release import ENCODER, json_text

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
FINITE = SCALARS.filter(lambda value: not (isinstance(value, float) and math.isinf(value)))
VALUES = st.recursive(FINITE, lambda part: st.lists(part) | st.dictionaries(st.text(), part))


@given(VALUES)
def test_what_is_written_is_read_back(value):
    assert json.loads(json_text(value)) == value


def line_by_line(value: Any, margin: str = "") -> str:
    """The layout by its definition: the text of every part is made by itself."""
    inner = f"{margin}  "
    if isinstance(value, dict) and value:
        parts = (f"{inner}{ENCODER.encode(k)}: {line_by_line(v, inner)}" for k, v in value.items())
        return "{\n" + ",\n".join(parts) + f"\n{margin}}}"
    if isinstance(value, list) and value and isinstance(value[0], dict | list | str):
        return (
            "[\n"
            + ",\n".join(f"{inner}{line_by_line(part, inner)}" for part in value)
            + f"\n{margin}]"
        )
    return ENCODER.encode(value)


@given(VALUES)
def test_the_layout_is_that_of_every_part_by_itself(value):
    assert json_text(value) == line_by_line(value)


def test_rows_of_numbers_are_lines_and_keys_keep_their_order():
    assert json_text({"b": [[1, -2], [3, 4]], "a": ["x"], "c": {}}).splitlines() == [
        *("{", '  "b": [', "    [1,-2],", "    [3,4]", "  ],"),
        *('  "a": [', '    "x"', "  ],", '  "c": {}', "}"),
    ]


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_number_that_json_does_not_have_is_refused(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"a": [value]})
