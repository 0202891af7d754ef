"""What a reduction of privatised answers is asked to do. Without Beam, as `reduction_job`."""

from __future__ import annotations

from dataclasses import dataclass

from hushrank.pipelines.engine.memory_plan import DEFAULT_MEMORY
from hushrank.pipelines.engine.runner import HERE, Engine
from hushrank.privacy.bits_used import BitsUsed, Purpose
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import BitSource
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.epsilons import AnswerColumns, EpsilonSource, Shares
from hushrank.transforms.common.randomisation import LocalLaw, Randomisation
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.storage.files import InputFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceAnswers:
    """One reduction of a comparison log to sums of privatised answers.

    Attributes:
        files: what to read.
        columns: which column plays which role.
        catalogue: the public items.
        ties: `drop` or `random`; `drop` only hides ties where there can be none.
        epsilons: where they come from and between which bounds they lie.
        shares: how a person's epsilon becomes that of an answer.
        randomisation: the mechanism, and what the answers are summed to.
        already_private: the answers were privatised at the source with these epsilons.
        key: the run's secret; it decides which answers of a person stay.
        confidential: folder for everything that holds private data.
        fail_on_bad_rows: raise, before anything is released, if a row breaks a rule.
        law: how the workers must randomise; None: nobody states it.
        memory_limit, engine: as in `ReduceComparisons`.
    """

    files: tuple[InputFile, ...]
    columns: AnswerColumns
    catalogue: Catalogue
    ties: Ties
    epsilons: EpsilonSource
    shares: Shares
    randomisation: Randomisation
    already_private: bool
    key: SecretKey
    confidential: str
    fail_on_bad_rows: bool = False
    law: LocalLaw | None = None
    memory_limit: int = DEFAULT_MEMORY
    engine: Engine = HERE

    @property
    def bits(self) -> BitsUsed:
        """What may be drawn for it, whatever the rows are."""
        used = BitsUsed()
        if self.shares.meet:
            used |= BitsUsed.of(Purpose.ROW_CHOICE, [self.key.source])
        if self.ties is Ties.RANDOM:
            used |= BitsUsed.of(Purpose.COINS, [BitSource.SYSTEM])
        if not self.already_private:
            laplace = self.randomisation is Randomisation.LAPLACE
            drawn = BitSource.OPENDP if laplace else BitSource.SYSTEM
            used |= BitsUsed.of(Purpose.RANDOMISATION, [drawn])
        return used
