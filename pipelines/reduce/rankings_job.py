"""Job of a reduction of rankings. Without Beam, like `reduction_job`."""

from __future__ import annotations

from dataclasses import dataclass

from hushrank.pipelines.reduce.reduction_job import LocalReduction, Reduction
from hushrank.privacy.random_pairs import RandomPairs
from hushrank.privacy.randomness import BitSource, BitsUsed, Purpose
from hushrank.transforms.common.randomisation import RankingLevels, RankingMechanism
from hushrank.transforms.rankings.person_features import PersonFeatures, Profiled, SetOfRankings
from hushrank.transforms.rankings.ranking_columns import (
    AS_GIVEN,
    ListColumns,
    OneRowColumns,
    PairColumns,
    RankColumns,
    RankReading,
)


def features_of(
    columns: RankColumns | ListColumns | OneRowColumns | PairColumns,
) -> Profiled | None:
    """What rankings are kept apart by: features of people, or groups; None: by nothing."""
    return None if isinstance(columns, RankColumns) else columns.features


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceRankings(LocalReduction):
    """Reduction of rankings to counts of private ones.

    Attributes:
        columns: roles of the columns; they say in which form the rankings are.
        contest: contest whose rankings alone count; None: all do.
        max_length: m, the most items of a ranking that counts.
        max_rankings: the most rankings of one person that count.
        break_ties: put tied items in random order; False: rankings with ties are set aside.
        mechanism: mechanism that privatises a ranking.
        by_place: keep pairs apart by place, for debiasing.
        pairs: the law of `random-pairs`; None: another mechanism.
        levels: the levels of epsilon, if rankings have their own; None: all have the same.
        reading: meaning of ranks beside their order.
    """

    columns: RankColumns | ListColumns | OneRowColumns | PairColumns
    contest: str | None
    max_length: int
    max_rankings: int
    break_ties: bool
    mechanism: RankingMechanism
    by_place: bool
    pairs: RandomPairs | None = None
    reading: RankReading = AS_GIVEN
    levels: RankingLevels | None = None

    @property
    def laws_of_pairs(self) -> tuple[RandomPairs, ...]:
        """The law of `random-pairs` at each level; empty: another mechanism."""
        if self.pairs is None:
            return ()
        return (self.pairs,) if self.levels is None else self.levels.pairs

    @property
    def features(self) -> PersonFeatures | None:
        """Public features of people, by which counts are kept apart; None: none are read."""
        found = features_of(self.columns)
        return found if isinstance(found, PersonFeatures) else None

    @property
    def apart(self) -> bool:
        """Whether counts are kept apart by level of epsilon, or by the features of people."""
        return self.levels is not None or self.features is not None

    @property
    def meets_owners(self) -> bool:
        return self.columns.user is not None

    @property
    def bits(self) -> BitsUsed:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRankings(Reduction):
    """Reduction of rankings to counts of true ones, to which noise is added afterwards.

    Attributes:
        columns, contest, max_length, max_rankings, reading: as in `ReduceRankings`.
        break_ties: as there; the key decides the coins, and which rankings of a person count.
        below: items that a ranking leaves out count as below those it lists.
        first_places: count only the first item of a ranking, apart for each group of the columns.
        rounds: count what all rounds of an instant runoff follow from, instead of pairs and places.
    """

    columns: RankColumns | ListColumns | OneRowColumns
    contest: str | None
    max_length: int
    max_rankings: int
    break_ties: bool
    below: bool = False
    rounds: bool = False
    reading: RankReading = AS_GIVEN
    first_places: bool = False

    @property
    def groups(self) -> int:
        """How many groups have counts of their own; 0: rankings are in no groups."""
        found = features_of(self.columns)
        return 0 if found is None else found.profiles

    @property
    def overlap(self) -> bool:
        """Whether groups overlap, so that the last one that is counted is the whole."""
        return isinstance(features_of(self.columns), SetOfRankings)

    @property
    def meets_owners(self) -> bool:
        """Also where nobody is named, if ties are broken: equal rankings are then numbered."""
        return self.columns.user is not None or self.break_ties

    @property
    def bits(self) -> BitsUsed:
        """Bits of the reduction: all come from the key."""
        used = BitsUsed()
        if self.columns.user is not None:
            used |= BitsUsed.of(Purpose.ROW_CHOICE, [self.key.source])
        if self.break_ties:
            used |= BitsUsed.of(Purpose.COINS, [self.key.source])
        return used
