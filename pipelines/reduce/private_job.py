"""What a reduction of privatised answers is asked to do. Without Beam, as `reduction_job`."""

from __future__ import annotations

from dataclasses import dataclass

from hushrank.pipelines.reduce.reduction_job import LocalReduction
from hushrank.privacy.bits_used import BitsUsed, Purpose
from hushrank.privacy.randomness import BitSource
from hushrank.transforms.common.epsilons import AnswerColumns, Shares
from hushrank.transforms.common.randomisation import Randomisation
from hushrank.transforms.common.schema import Ties


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceAnswers(LocalReduction):
    """One reduction of a comparison log to sums of privatised answers.

    Attributes:
        ties: `drop` or `random`; `drop` only hides ties where there can be none.
        shares: how a person's epsilon becomes that of an answer.
        randomisation: the mechanism, and what the answers are summed to.
    """

    columns: AnswerColumns
    ties: Ties
    shares: Shares
    randomisation: Randomisation

    @property
    def bits(self) -> BitsUsed:
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
