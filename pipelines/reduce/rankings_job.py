"""What a reduction of rankings is asked to do. Without Beam, as `reduction_job`."""

from __future__ import annotations

from dataclasses import dataclass

from hushrank.pipelines.engine.memory_plan import DEFAULT_MEMORY
from hushrank.pipelines.engine.runner import HERE, Engine
from hushrank.privacy.bits_used import BitsUsed, Purpose
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import BitSource
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.common.randomisation import LocalLaw, RankingMechanism
from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns
from hushrank.transforms.storage.files import InputFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceRankings:
    """One reduction of rankings to counts of private ones.

    Attributes:
        files: what to read.
        columns: which column plays which role; they say in which form the rankings are.
        catalogue: the public items.
        contest: only rankings of this contest count; None: all do.
        max_length: m, the most items of a ranking that counts.
        max_rankings: the most rankings of one person that count.
        break_ties: put tied items in random order; False: rankings with ties are set aside.
        epsilons: where they come from and between which bounds they lie.
        mechanism: how a ranking is privatised.
        already_private: the rankings were privatised at the source with these epsilons.
        by_place: keep pairs apart by place, for debiasing.
        key: the run's secret, for pseudonyms.
        confidential: folder for everything that holds private data.
        fail_on_bad_rows: raise, before anything is released, if a row breaks a rule.
        law: how the workers must randomise; None: nobody states it.
        memory_limit, engine: as in `ReduceComparisons`.
    """

    files: tuple[InputFile, ...]
    columns: RankColumns | ListColumns
    catalogue: Catalogue
    contest: str | None
    max_length: int
    max_rankings: int
    break_ties: bool
    epsilons: EpsilonSource
    mechanism: RankingMechanism
    already_private: bool
    by_place: bool
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
        if self.columns.user is not None:
            used |= BitsUsed.of(Purpose.ROW_CHOICE, [self.key.source, BitSource.SYSTEM])
        if self.break_ties:
            used |= BitsUsed.of(Purpose.COINS, [BitSource.SYSTEM])
        if not self.already_private:
            drawn = [BitSource.SYSTEM]
            if self.mechanism is RankingMechanism.LAPLACE_RANKS:
                drawn.append(BitSource.OPENDP)
            used |= BitsUsed.of(Purpose.RANDOMISATION, drawn)
        return used
