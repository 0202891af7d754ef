"""The Beam that transforms and pipelines use.

It is Apache Beam, except in a process that called `in_process.choose` before it imported this
module. There it is the stand-in for small inputs, which saves the seconds of loading Apache Beam.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hushrank.transforms.engine import in_process

__all__ = ["GlobalWindows", "TaggedOutput", "beam"]

if TYPE_CHECKING or not in_process.is_chosen():
    import apache_beam as beam
    from apache_beam.pvalue import TaggedOutput
    from apache_beam.transforms.window import GlobalWindows
else:
    beam = in_process
    TaggedOutput, GlobalWindows = in_process.TaggedOutput, in_process.GlobalWindows
