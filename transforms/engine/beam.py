"""The Beam that transforms and pipelines use.

It is Apache Beam, except in a process that called `in_process.choose` before it imported this
module. There it is the stand-in, which saves the seconds of loading Apache Beam.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hushrank.transforms.engine import in_process

__all__ = ["GlobalWindows", "TaggedOutput", "beam"]


@contextmanager
def _unheard() -> Iterator[None]:
    """Drop what nobody has asked to log: Beam warns at loading that BigQuery's client is missing.

    It does so wherever the extra `gcp` is not installed, and no job here uses that client.
    """
    root, nobody = logging.getLogger(), logging.NullHandler()
    root.addHandler(nobody)
    try:
        yield
    finally:
        root.removeHandler(nobody)


if TYPE_CHECKING or not in_process.is_chosen():
    with _unheard():
        import apache_beam as beam
    from apache_beam.pvalue import TaggedOutput
    from apache_beam.transforms.window import GlobalWindows
else:
    beam = in_process
    TaggedOutput, GlobalWindows = in_process.TaggedOutput, in_process.GlobalWindows
