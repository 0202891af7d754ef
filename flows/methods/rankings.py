"""Methods `kemeny`, `borda` and `bradley-terry` for either unit, and `footrule` for unit `user`.

One name stands for two methods: the unit of privacy says which of them ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hushrank.flows.config.method import MethodFacts
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods import private_rankings as private
from hushrank.flows.methods import trusted_rankings as trusted
from hushrank.flows.methods.base import Choice, Method, PlannedMethod, RankingMethod
from hushrank.privacy.units import Unit


@dataclass(frozen=True, kw_only=True)
class ByUnit(Method):
    """Rank by private rankings under unit `local`, else by noisy counts of true ones.

    Attributes:
        facts: of both; of either unit.
        local, trusted: the methods, of the same name.
    """

    facts: MethodFacts
    local: PlannedMethod[Any]
    trusted: PlannedMethod[Any]

    def resolve(self, config: SurveyConfig) -> Choice:
        """The method for the unit that the configuration states."""
        return Choice(self.local if config.privacy.unit is Unit.LOCAL else self.trusted)

    @property
    def ways(self) -> tuple[RankingMethod[Any], ...]:
        """Both."""
        return self.local, self.trusted

    @property
    def plan_order(self) -> int | None:
        """That of both."""
        return self.trusted.plan_order


def _either(local: private.PrivateRankings, central: trusted.TrustedRankings) -> ByUnit:
    facts = replace(local.facts, summary=central.facts.summary, units=(Unit.USER, Unit.LOCAL))
    return ByUnit(facts=facts, local=local, trusted=central)


METHODS = (
    _either(private.KEMENY, trusted.KEMENY),
    _either(private.BORDA, trusted.BORDA),
    _either(private.BRADLEY_TERRY, trusted.BRADLEY_TERRY),
    trusted.FOOTRULE,
)
