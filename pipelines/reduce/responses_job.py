"""What a reduction of test answers is asked to do. Without Beam, as `reduction_job`."""

from __future__ import annotations

from dataclasses import dataclass

from hushrank.pipelines.engine.memory_plan import DEFAULT_MEMORY
from hushrank.pipelines.engine.runner import HERE, Engine
from hushrank.privacy.bits_used import BitsUsed, Purpose
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import BitSource
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.randomisation import LocalAnswers
from hushrank.transforms.responses.answer_sheets import Duplicates
from hushrank.transforms.responses.response_columns import ResponseColumns, WideColumns
from hushrank.transforms.storage.files import InputFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceResponses:
    """One reduction of test answers to pairwise differential measurements.

    Attributes:
        files: what to read.
        columns: which column plays which role.
        catalogue: the public items.
        max_answers: K, the most answers of one person that count.
        duplicates: which of several answers of one person to one item counts.
        key: the run's secret; it and the rows decide which answers are kept.
        confidential: folder for everything that holds private data.
        fail_on_bad_rows: raise, before any noise could be drawn, if a row breaks a rule.
        local: randomise answers before they are counted; None: count them exactly.
        memory_limit, engine: as in `ReduceComparisons`.
    """

    files: tuple[InputFile, ...]
    columns: ResponseColumns | WideColumns
    catalogue: Catalogue
    max_answers: int
    duplicates: Duplicates
    key: SecretKey
    confidential: str
    fail_on_bad_rows: bool = False
    local: LocalAnswers | None = None
    memory_limit: int = DEFAULT_MEMORY
    engine: Engine = HERE

    @property
    def bits(self) -> BitsUsed:
        """What may be drawn for it, whatever the rows are."""
        used = BitsUsed.of(Purpose.ROW_CHOICE, [self.key.source])
        if self.local is not None:
            used |= BitsUsed.of(Purpose.RANDOMISATION, [BitSource.SYSTEM])
        return used
