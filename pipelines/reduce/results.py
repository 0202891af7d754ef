"""The last steps of every reduction: what it leaves in the confidential folder for the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from hushrank.pipelines.reduce.confidential_area import write_bits, write_tally
from hushrank.pipelines.reduce.reduction_job import EXACT_FILE
from hushrank.privacy.bits_used import BitsUsed
from hushrank.transforms.common.bits_tally import split_bits
from hushrank.transforms.engine.beam import beam
from hushrank.transforms.storage.write import npz_bytes, write_whole

Arrays = dict[str, NDArray[Any]]


class WriteArrays(beam.DoFn):
    """The one result -> `EXACT_FILE`, whole; a retry overwrites."""

    def __init__(self, folder: str, arrays_of: Callable[[Any], Arrays]) -> None:
        self._folder = folder
        self._arrays_of = arrays_of

    def process(self, result: Any) -> None:
        """Write the arrays of `result`."""
        write_whole(f"{self._folder}/{EXACT_FILE}", npz_bytes(**self._arrays_of(result)))


class WriteTally(beam.DoFn):
    """What was drawn from which bits -> `BITS_FILE`; what happened to the rows -> `TALLY_FILE`."""

    def __init__(self, folder: str, bits: BitsUsed) -> None:
        """Args: the confidential folder; what may be drawn, whatever the rows are."""
        self._folder = folder
        self._bits = bits

    def process(self, tally: dict[str, int]) -> None:
        """Write both."""
        drawn, rows = split_bits(tally)
        write_bits(self._folder, self._bits | drawn)
        write_tally(self._folder, rows)
