"""Groups: what the three methods that release counts have in common where rows are in groups.

Each group's counts get noise of their own, and the whole is the sum of all groups, so with G groups
the variance of its noise is G times what it is without groups. Another way would draw the whole
apart, from a share q of the budget, and lean the sum and that on each other. The whole then has the
variance 1 / (q^2 + (1 - q)^2 / G), in that of a release without groups, with Laplace noise, and
1 / (q + (1 - q) / G) with Gaussian noise; the groups have (1 - q)^-2 and (1 - q)^-1. Half the
budget for the whole makes it better from 4 groups on (Laplace: 4 / (1 + 1 / G) against G) or from
2 (Gaussian: 2 / (1 + 1 / G)), and the noise of every group 4 or 2 times as large in variance.
Groups are what such a release is for, and they are smaller: all of the budget is theirs.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.matrices import integers_of
from hushrank.estimation.common.pooling import EvidenceAt, pool
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import Arrays, Attacked, Conclusion, attacked_counts
from hushrank.flows.methods.counts.streams import drawn_of_all, drawn_of_group, simulated_night
from hushrank.flows.methods.draws import Draw
from hushrank.flows.methods.formulas import Restated, noise_of_counts
from hushrank.flows.methods.reductions import CountedMethod
from hushrank.flows.release.boards import Board
from hushrank.flows.release.released import Released
from hushrank.flows.statement.counts import CountWords
from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.flows.statement.record import count_record
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.common.groups import Groups


def groups_of(config: SurveyConfig, cells: int, most: int) -> Groups | None:
    """The groups that a job counts apart; None: it has none.

    Args:
        config: the job.
        cells: counts of one group.
        most: counts that can be released.

    Raises:
        ConfigError: there would be more counts.
    """
    if config.groups is None:
        return None
    groups = config.groups.groups()
    if len(groups) * cells > most:
        raise ConfigError(
            f"groups.values: {len(groups)} groups of {cells:,} counts each are"
            f" {len(groups) * cells:,}, and method: {config.method} releases at most {most:,};"
            " rank fewer items or groups, or set method: noisy-counts"
        )
    return groups


class GroupedMethod(CountedMethod[CountMechanism]):
    """A method that releases counts, of all rows or of each group of them.

    Attributes:
        words: words for the counts, for the statement.
        restated: sensitivities of the counts, for certificates: see `noise_of_counts`.
        unit, reach: unit and reach of scores, as in `estimation.common.pooling`.
    """

    words: CountWords
    restated: tuple[Restated, ...] = ()
    unit: float = 1.0
    reach: float = np.inf

    def words_of(self, mechanism: CountMechanism) -> CountWords:
        """Return words for what the mechanism draws, where a method has several statistics."""
        return self.words

    @abstractmethod
    def draw_counts(self, exact: Arrays, mechanism: CountMechanism, bits: RandomBits) -> Arrays:
        """`draw` of one set of counts: of all rows, or of one group."""

    @abstractmethod
    def conclude_counts(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig
    ) -> Conclusion:
        """`conclude` of one set of counts."""

    @abstractmethod
    def board(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig, whole: Conclusion
    ) -> tuple[EvidenceAt, Released]:
        """Return one group's evidence about its scores, and its counts as they are published."""

    def draw(self, exact: Arrays, mechanism: CountMechanism, bits: RandomBits) -> Arrays:
        """Add noise to every count; with groups, to every count of every group."""
        if mechanism.groups is None:
            return self.draw_counts(exact, mechanism, bits)
        night = simulated_night(integers_of(exact["counts"]), mechanism, bits)
        if night is not None:
            return night
        of_group = replace(mechanism, groups=None)  # each touches its own rows: the same law
        drawn = [self.draw_counts({"counts": each}, of_group, bits) for each in exact["counts"]]
        return {name: np.stack([each[name] for each in drawn]) for name in drawn[0]}

    def conclude(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Rank all rows, and each group."""
        groups, whole = mechanism.groups, self.conclude_whole(drawn, mechanism, config)
        if groups is None:
            return whole
        of_group = replace(mechanism, groups=None)
        parts = [
            self.board(drawn_of_group(drawn, mechanism, k), of_group, config, whole)
            for k in range(len(groups))
        ]
        return replace(whole, boards=self._boards(groups, parts, whole.estimate.scores))

    def certified(self, mechanism: CountMechanism, drawn: Arrays) -> tuple[Draw, ...]:
        """Noise on every count, of which groups have their own."""
        found = noise_of_counts(mechanism, self.restated, self.counted)
        return super().certified(mechanism, drawn) if found is None else (found,)

    def attacked(self, mechanism: CountMechanism) -> Attacked:
        """Noise on counts."""
        return attacked_counts(mechanism)

    def conclude_whole(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Rank all rows."""
        if mechanism.groups is None:
            return self.conclude_counts(drawn, mechanism, config)
        whole = self.conclude_counts(drawn_of_all(drawn, mechanism), mechanism.whole, config)
        words = self.words_of(mechanism)
        privacy = count_record(words, mechanism, whole.privacy.parameters)
        return replace(whole, privacy=privacy)

    def _boards(
        self, groups: Groups, parts: list[tuple[EvidenceAt, Released]], scores: Floats
    ) -> tuple[Board, ...]:
        """Return the boards of all groups that have a name."""
        pooled = pool([at for at, _ in parts], scores, unit=self.unit, reach=self.reach)
        return tuple(
            Board(name=name, estimate=estimate, own=own, released=released)
            for name, estimate, own, (_, released) in zip(
                groups.names, pooled.estimates, pooled.own, parts, strict=False
            )
        )
