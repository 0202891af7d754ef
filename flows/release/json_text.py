"""Strict JSON in a readable layout: one line for each key and each row of a table of numbers."""

from __future__ import annotations

import json
from typing import Any

INDENT = "  "
ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def json_text(value: Any, margin: str = "") -> str:
    """Write dicts, lists and scalars as strict JSON; keys keep their order.

    Raises:
        ValueError: a number is infinite or not a number; JSON has no such numbers.
    """
    inner = margin + INDENT
    if isinstance(value, dict) and value:
        lines = [f"{inner}{_scalar(key)}: {json_text(part, inner)}" for key, part in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{margin}}}"
    if isinstance(value, list) and value and isinstance(value[0], dict | list | str):
        lines = [f"{inner}{json_text(part, inner)}" for part in value]
        return "[\n" + ",\n".join(lines) + f"\n{margin}]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    return ENCODER.encode(value)  # `json.dumps` would make a new encoder for every line
