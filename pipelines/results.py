"""The last steps of every reduction: what it leaves in the confidential folder for the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from hushrank.pipelines.confidential_area import write_tally
from hushrank.pipelines.reduction_job import EXACT_FILE
from hushrank.transforms.engine import beam
from hushrank.transforms.write import npz_bytes, write_whole

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
    """What happened to how many rows -> `TALLY_FILE`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, tally: dict[str, int]) -> None:
        """Write `tally`."""
        write_tally(self._folder, tally)
