"""What a reduction is asked to do. Without Beam, so that whoever asks need not load the engine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hushrank.pipelines.engine.memory_plan import DEFAULT_MEMORY
from hushrank.pipelines.engine.runner import HERE, Engine
from hushrank.privacy.bits_used import BitsUsed, Purpose
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.schema import ComparisonColumns, Ties
from hushrank.transforms.comparisons.bound import Bounds
from hushrank.transforms.storage.files import InputFile

EXACT_FILE, TALLY_FILE, REJECTS_FOLDER = "exact.npz", "diagnostics.json", "rejects"
BITS_FILE = "bits.json"  # which random bits made the exact arrays; it stays and goes with them


class Statistic(StrEnum):
    """What the log is reduced to."""

    WIN_COUNTS = "win-counts"
    PAIR_COUNTS = "pair-counts"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceComparisons:
    """One reduction of a comparison log.

    Attributes:
        files: what to read.
        columns: which column plays which role.
        catalogue: the public items.
        bounds: what one person may contribute; `max_contributions` None for unit `comparison`.
        statistic: what to count.
        key: the run's secret; it and the rows decide which rows are kept, and tied ones' coins.
        confidential: folder for everything that holds private data.
        fail_on_bad_rows: raise, before any noise could be drawn, if a row breaks a rule.
        memory_limit: bytes that the reduction may take on one machine, about; the rest of what it
            must remember waits in a file in `confidential`.
        engine: where the graph runs.
    """

    files: tuple[InputFile, ...]
    columns: ComparisonColumns
    catalogue: Catalogue
    bounds: Bounds
    statistic: Statistic
    key: SecretKey
    confidential: str
    fail_on_bad_rows: bool = False
    memory_limit: int = DEFAULT_MEMORY
    engine: Engine = HERE

    @property
    def meets_owners(self) -> bool:
        """Whether one owner's rows must meet: to be bounded, merged or given repeatable coins."""
        return (
            self.bounds.max_contributions is not None
            or self.columns.event is not None
            or self.bounds.ties is Ties.RANDOM
        )

    @property
    def bits(self) -> BitsUsed:
        """What may be drawn for it, whatever the rows are: all from the key."""
        if not self.meets_owners:
            return BitsUsed()
        used = BitsUsed.of(Purpose.ROW_CHOICE, [self.key.source])
        if self.bounds.ties is Ties.RANDOM:
            used |= BitsUsed.of(Purpose.COINS, [self.key.source])
        return used
