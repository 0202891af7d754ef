"""Job of a reduction of privatised answers. Without Beam, like `reduction_job`."""

from __future__ import annotations

from dataclasses import dataclass

from hushrank.estimation.fit.chosen_epsilons import EpsilonBins, Weighing
from hushrank.pipelines.reduce.reduction_job import LocalReduction
from hushrank.privacy.randomness import BitSource, BitsUsed, Purpose
from hushrank.transforms.common.epsilons import AnswerBudget, AnswerColumns
from hushrank.transforms.common.randomisation import Randomisation
from hushrank.transforms.common.schema import Ties


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceAnswers(LocalReduction):
    """Reduction of a comparison log to sums of privatised answers.

    Attributes:
        ties: `drop` or `random`; `drop` only hides ties where there can be none.
        budget: rule by which a person's epsilon becomes that of an answer.
        randomisation: the mechanism, and what the answers are summed to.
        epsilon_cap: answers of larger epsilons pull as one of this epsilon; None: no cap.
    """

    columns: AnswerColumns
    ties: Ties
    budget: AnswerBudget
    randomisation: Randomisation
    epsilon_cap: float | None = None

    @property
    def weighing(self) -> Weighing:
        """Weights of answers. Their epsilons are counted where people chose them."""
        epsilons, cap = self.epsilons, self.epsilon_cap
        weighted = self.randomisation is Randomisation.WEIGHTED
        if not weighted or self.budget.per_user or epsilons.low == epsilons.high:
            return Weighing(cap)
        return Weighing(cap, EpsilonBins(epsilons.low, epsilons.high, cap))

    @property
    def meets_owners(self) -> bool:
        return self.budget.meet

    @property
    def bits(self) -> BitsUsed:
        used = BitsUsed()
        if self.budget.meet:
            used |= BitsUsed.of(Purpose.ROW_CHOICE, [self.key.source])
        if self.ties is Ties.RANDOM:
            used |= BitsUsed.of(Purpose.COINS, [BitSource.SYSTEM])
        if not self.already_private:
            laplace = self.randomisation is Randomisation.LAPLACE
            drawn = BitSource.OPENDP if laplace else BitSource.SYSTEM
            used |= BitsUsed.of(Purpose.RANDOMISATION, [drawn])
        return used
