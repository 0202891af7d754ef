"""The ledger that a configuration names, with the terms of its population."""

from __future__ import annotations

from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.guarantee.local import LocalGuarantee
from hushrank.flows.ledger.budget import BudgetTerms, Protects
from hushrank.flows.ledger.cloud_object import LedgerObject
from hushrank.flows.ledger.ledger import Ledger
from hushrank.privacy.units import Unit
from hushrank.transforms.storage.cloud_storage import CloudPath


def ledger_of(config: SurveyConfig) -> Ledger:
    """The ledger that the configuration names."""
    terms = BudgetTerms(
        population=config.name,
        epsilon=config.ledger.epsilon,
        delta=config.ledger.delta,
        refresh=config.ledger.refresh,
        unit=config.privacy.unit,
        adjacency=config.privacy.adjacency,
        protects=protects(config),
        alerts=config.ledger.alerts,
        other_people=config.ledger.other_people,
    )
    place = config.ledger.path
    return Ledger(LedgerObject(place) if isinstance(place, CloudPath) else place, terms)


def protects(config: SurveyConfig) -> Protects:
    """What of a unit the releases of `config` hide."""
    if config.privacy.unit is not Unit.LOCAL:
        if isinstance(config.input, RankingsConfig) and not config.input.names_people:
            return Protects.ANSWER
        return Protects.OUTCOMES if config.privacy.public_graph else Protects.ROWS
    bounded = LocalGuarantee.of(config).person is not None
    return Protects.PERSON if bounded else Protects.ANSWER
