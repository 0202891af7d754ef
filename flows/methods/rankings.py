"""Methods `kemeny`, `borda` and `bradley-terry` for either unit, and `footrule` for unit `user`."""

from __future__ import annotations

from dataclasses import replace

from hushrank.flows.methods import private_rankings as private
from hushrank.flows.methods import trusted_rankings as trusted
from hushrank.flows.methods.by_unit import ByUnit
from hushrank.privacy.units import Unit


def _either(local: private.PrivateRankings, central: trusted.TrustedRankings) -> ByUnit:
    facts = replace(local.facts, summary=central.facts.summary, units=(Unit.USER, Unit.LOCAL))
    return ByUnit(facts=facts, local=local, trusted=central)


METHODS = (
    _either(private.KEMENY, trusted.KEMENY),
    _either(private.BORDA, trusted.BORDA),
    _either(private.BRADLEY_TERRY, trusted.BRADLEY_TERRY),
    trusted.FOOTRULE,
)
