"""The ledger that a configuration names, with terms, key and anchor."""

from __future__ import annotations

from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.ledger.budget import BudgetTerms, Protects
from hushrank.flows.ledger.guards import Guards
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.statement.local import LocalGuarantee
from hushrank.privacy.units import Unit


def ledger_of(config: SurveyConfig, guards: Guards | None = None) -> Ledger:
    """The ledger that the configuration names.

    Args:
        config: the configuration.
        guards: key and anchor; None: those of the configuration.

    Raises:
        LedgerError: the key cannot be used.
    """
    guards = Guards.of(config.ledger) if guards is None else guards
    return guards.ledger(config.ledger.path, ledger_terms(config))


def ledger_terms(config: SurveyConfig) -> BudgetTerms:
    """The terms of the population's budget, as configured."""
    return BudgetTerms(
        population=config.name,
        epsilon=config.ledger.epsilon,
        delta=config.ledger.delta,
        refresh=config.ledger.refresh,
        unit=config.privacy.unit,
        adjacency=config.privacy.adjacency,
        protects=protects(config),
        alerts=config.ledger.alerts,
        other_people=config.ledger.other_people,
        lifetime_epsilon=config.ledger.lifetime_epsilon,
    )


def protects(config: SurveyConfig) -> Protects:
    """Part of a unit that the releases of `config` hide."""
    if config.privacy.unit is not Unit.LOCAL:
        if isinstance(config.input, RankingsConfig) and not config.input.names_people:
            return Protects.ANSWER
        return Protects.OUTCOMES if config.privacy.public_graph else Protects.ROWS
    bounded = LocalGuarantee.of(config).person is not None
    return Protects.PERSON if bounded else Protects.ANSWER
