"""Which rules of elections a job asks for, and their winners from noisy counts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from hushrank.estimation.rankings.election_rules import Margins, Result, positional_results
from hushrank.estimation.rankings.noisy_rankings import NoisyRankings, calibrate_rankings
from hushrank.estimation.rankings.precinct_tables import NoisyPrecincts
from hushrank.flows.config.rankings import MOST_CANDIDATES, USUAL_RULES, approval_rules
from hushrank.flows.methods.base import SureVotes
from hushrank.flows.release.election import CHANCE_STEPS, ElectionRecord, RoundRecord, RuleResult
from hushrank.flows.statement.rankings import RankingCountMechanism
from hushrank.privacy.ranking_sensitivity import Part, level_weights

OF_PARTS = {
    Part.ABOVE: USUAL_RULES["pairs"],
    Part.MARGINS: USUAL_RULES["pairs"],
    Part.PLACES: USUAL_RULES["places"],
}


def election_record(
    counts: NoisyRankings, items: Sequence[str], asked: Collection[str] | None
) -> ElectionRecord | None:
    """Winners by each rule; None if the counts allow none that is asked for, or of many items.

    Args:
        counts: of pairs, of places or of nets.
        items: names of the catalogue.
        asked: which rules; None: all usual ones that the counts allow.
    """
    if Part.ROUNDS in counts.weights:
        return _of_rounds(counts, items, asked)
    usual = next((rules for part, rules in OF_PARTS.items() if part in counts.weights), ())
    rules = [str(rule) for rule in usual if asked is None or rule in asked]
    if Part.PLACES in counts.weights and asked is not None:
        rules += [rule for rule in approval_rules(counts.longest) if rule in asked]
    if not rules or len(items) > MOST_CANDIDATES:
        return None
    if Part.PLACES in counts.weights:
        found = positional_results(counts, rules)
        return ElectionRecord(rules=tuple(rule_record(each, items) for each in found))
    margins = Margins.of(counts)
    most = CHANCE_STEPS - 1 if margins.deviation else CHANCE_STEPS  # noise leaves none certain
    chances = np.minimum(np.floor(margins.chances() * CHANCE_STEPS), most) / CHANCE_STEPS
    return ElectionRecord(
        margin_deviation=margins.deviation,
        sure_from=margins.sure_from,
        chances=dict(zip(items, chances.tolist(), strict=True)),
        rules=tuple(rule_record(margins.result(rule), items) for rule in rules),
    )


def _of_rounds(
    counts: NoisyRankings, items: Sequence[str], asked: Collection[str] | None
) -> ElectionRecord:
    """The winner of an instant runoff, and what each round shows."""
    from hushrank.estimation.rankings.instant_runoff import RULE, Rounds

    found = Rounds.of(counts.parts[Part.ROUNDS], counts.law)
    outs = found.order[:0:-1].tolist()
    records = (
        RoundRecord(
            out=items[out],
            possible=tuple(items[i] for i in np.flatnonzero(may_leave).tolist()),
            reached=reached,
        )
        for out, may_leave, reached in zip(
            outs, found.possible, found.reached[:-1].tolist(), strict=True
        )
    )
    rules = (rule_record(found.result(), items),) if asked is None or RULE in asked else ()
    return ElectionRecord(rules=rules, rounds=tuple(records))


def rule_record(found: Result, items: Sequence[str]) -> RuleResult:
    """The winners by one rule, by name."""
    winners, possible = (
        tuple(items[i] for i in np.flatnonzero(who).tolist())
        for who in (found.winners, found.possible)
    )
    return RuleResult(rule=found.rule, winners=winners, possible=possible, sure=found.sure)


def sure_votes(mechanism: RankingCountMechanism) -> SureVotes | None:
    """What a release of pairs, or of first places by precinct, will state; None: of many items."""
    n, params, longest = mechanism.n_items, mechanism.params, mechanism.longest
    if n > MOST_CANDIDATES:
        return None
    sizes = {Part.MARGINS: (n * (n - 1) // 2,), Part.ABOVE: (n, n)}
    parts = {str(part): np.zeros(sizes.get(part, (n,)), np.int64) for part in mechanism.weights}
    counts = NoisyRankings(parts, mechanism.weights, mechanism.law, longest, mechanism.below)
    weights = level_weights(params, districts=False)
    table = NoisyPrecincts({}, weights, calibrate_rankings(params, longest, weights).law)
    margins = Margins.of(counts)
    return SureVotes(
        margin=margins.sure_from,
        true_margin=margins.called_from,
        precinct=table.reach(Part.PRECINCTS),
        total=table.reach(Part.TOTALS),
    )
