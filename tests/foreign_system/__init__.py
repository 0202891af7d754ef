"""Processes that lack what POSIX alone has: see `sitecustomize.py` beside this."""

from __future__ import annotations

from pathlib import Path


def foreign_system(name: str) -> dict[str, str]:
    """Variables with which a Python process starts as one of `windows` or `macos`."""
    return {"HUSHRANK_AS": name, "PYTHONPATH": str(Path(__file__).parent)}
