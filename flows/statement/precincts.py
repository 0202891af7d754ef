"""Mechanism and words of first places by public precinct."""

from __future__ import annotations

from dataclasses import dataclass

from hushrank.flows.statement.mechanism import CountWords
from hushrank.flows.statement.rankings import (
    ALGORITHM,
    RankingCountMechanism,
    ranking_count_record,
)
from hushrank.flows.statement.record import PrivacyRecord
from hushrank.privacy.units import Unit
from hushrank.transforms.common.catalogue import Groups


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecinctMechanism(RankingCountMechanism):
    """Discrete noise on first places by public precinct.

    Attributes:
        precincts: the public groups that rankings come from.
        districts: number of the district of each of them, other places included; -1: it is in
            none; empty: there are no districts.
    """

    precincts: Groups
    districts: tuple[int, ...] = ()

    @property
    def n_districts(self) -> int:
        """Number of districts."""
        return len({*self.districts} - {-1})


def precinct_record(mechanism: PrecinctMechanism) -> PrivacyRecord:
    """The record of a released table of first places."""
    elsewhere = " and elsewhere" * mechanism.precincts.others
    number = mechanism.n_districts
    districts = f", in each of {number:,} districts" if number else ""
    words = CountWords(
        entry=(
            "count of first places (in how many rankings an item is the best that counts, in each"
            f" of {len(mechanism.precincts.names):,} public precincts{elsewhere}{districts} and in"
            " all together)"
        ),
        computed=(
            "the totals, the table that adds up and all intervals are computed from the noisy"
            " counts alone"
        ),
        algorithm={Unit.USER: ALGORITHM},
    )
    cost = "epsilon" if mechanism.guarantee.rho is None else "the budget"
    last = (
        "A ranking counts in one precinct only, and the noise hides a change of any rankings of a"
        f" person in any precincts: {cost} is paid once for the whole table."
    )
    return ranking_count_record(words, mechanism, {}, last)
