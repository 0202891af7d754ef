"""Which code made a release."""

from __future__ import annotations

from importlib.metadata import version


def code_version() -> str:
    """Version of the installed distribution. It enters the release key: new code, new release."""
    return version("hushrank")
