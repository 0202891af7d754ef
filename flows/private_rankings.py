"""Methods on rankings that are privatised one by one: `kemeny`, `borda` and `bradley-terry`.

As in `flows.local_responses`, what the reduction leaves is private already and waits in the
confidential area until the ledger has recorded the release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hushrank.estimation.consensus import Consensus
from hushrank.estimation.debiased import estimate_from
from hushrank.estimation.estimate import Estimate
from hushrank.estimation.ranking_counts import MOST_BY_PLACE, RankingCounts, n_place_pairs
from hushrank.estimation.ranking_estimates import (
    borda_estimate,
    fit_bradley_terry,
    kemeny_estimate,
)
from hushrank.estimation.ranking_evidence import (
    LARGEST_ENTRY,
    RankingEvidence,
    debiased_evidence,
    largest_entry,
    plain_evidence,
    undoing_pays,
)
from hushrank.flows.config import Method, SurveyConfig
from hushrank.flows.config_input import BadRows
from hushrank.flows.config_rankings import RankingTies
from hushrank.flows.errors import ConfigError
from hushrank.flows.method import Arrays, Conclusion, Terms
from hushrank.flows.privacy_record import Parameter
from hushrank.flows.ranking_statement import RankingGuarantee, ranking_record
from hushrank.flows.released import ReleasedRankings
from hushrank.flows.scale import Scale
from hushrank.pipelines.rankings_job import ReduceRankings
from hushrank.privacy.accounting import Spend
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.files import InputFile
from hushrank.transforms.randomisation import RankingMechanism

MOST_KEMENY_ITEMS = 500  # above that the local search takes minutes
NOT_INFORMATIVE = (
    "Nothing useful can be learned from this release: too few rankings put items of the catalogue"
    " above each other."
)


@dataclass(frozen=True, slots=True)
class _Ranked:
    """What a method makes of the evidence."""

    estimate: Estimate
    scale: Scale
    parameters: dict[str, Parameter]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Which evidence is used, and why not the debiased one; empty: it is, or nobody asked."""

    evidence: RankingEvidence
    debiased: bool
    reason: str = ""


class PrivateRankings:
    """See `estimation.ranking_estimates`."""

    def terms(self, config: SurveyConfig) -> Terms:
        """Cost and noise."""
        n_items = len(config.items.catalogue())
        if config.method is Method.KEMENY and n_items > MOST_KEMENY_ITEMS:
            raise ConfigError(
                f"items: must be at most {MOST_KEMENY_ITEMS} with method: kemeny, got {n_items};"
                " set method: borda"
            )
        if config.model.debiased is True and (reason := _impossible(config)):
            raise ConfigError(f"model.debiased: cannot be: {reason}; write auto or false")
        guarantee = RankingGuarantee.of(config)
        noise = "each ranking replaced by a synthetic one, before counting"
        if guarantee.already_private:
            noise = "none is added: the rankings were privatised where they were given"
        whole = "one ranking" if guarantee.unnamed else "all rankings of one person"
        noise += (
            f" (protects one moved item at epsilon {guarantee.high:g}, or less; {whole} at epsilon"
            f" {guarantee.person:g}, or less)"
        )
        return Terms(spend=Spend(epsilon=guarantee.person), noise=noise)

    def reduction(
        self, config: SurveyConfig, files: tuple[InputFile, ...], key: bytes, folder: str
    ) -> ReduceRankings:
        """Privatise each ranking and count."""
        rankings, guarantee = config.rankings, RankingGuarantee.of(config)
        return ReduceRankings(
            files=files,
            columns=rankings.ranking_columns(),
            catalogue=config.items.catalogue(),
            contest=rankings.contest,
            max_length=guarantee.max_length,
            max_rankings=guarantee.max_rankings,
            break_ties=rankings.ties is RankingTies.RANDOM,
            epsilons=config.privacy.local_epsilons(),
            mechanism=guarantee.mechanism,
            already_private=guarantee.already_private,
            by_place=config.model.debiased is not False and not _impossible(config),
            key=key,
            confidential=folder,
            fail_on_bad_rows=rankings.on_bad_rows is BadRows.FAIL,
        )

    def draw(self, exact: Arrays, config: SurveyConfig, bits: RandomBits) -> Arrays:
        """Let out what is private already: see the module's text."""
        return exact

    def conclude(self, drawn: Arrays, config: SurveyConfig) -> Conclusion:
        """Rank by the counts."""
        counts = RankingCounts(**drawn)
        chosen = _choose(counts, config)
        ranked = _METHODS[config.method](chosen.evidence, config)
        parameters = {"debiased": chosen.debiased, **ranked.parameters}
        warnings = (*_doubt(chosen, config.method), *ranked.warnings)
        if not ranked.estimate.informative:
            warnings = (NOT_INFORMATIVE,)
        return Conclusion(
            estimate=ranked.estimate,
            privacy=ranking_record(config, parameters),
            released=ReleasedRankings.of(counts, config.items.catalogue().names),
            scale=ranked.scale,
            warnings=warnings,
        )


def _impossible(config: SurveyConfig) -> str:
    """Why the mechanism cannot be undone, from the configuration alone; empty: it can."""
    if config.privacy.mechanism is RankingMechanism.LAPLACE_RANKS:
        return "of mechanism laplace-ranks no closed form is known"
    if config.privacy.epsilon is None:
        return "rankings have different epsilons"
    n_items, longest = len(config.items.catalogue()), RankingGuarantee.of(config).max_length
    if n_place_pairs(longest) * n_items**2 > MOST_BY_PLACE:
        return (
            f"for {n_items} items in lists of up to {longest} it takes too many counts (a smaller"
            " input.max_length would help)"
        )
    return ""


def _choose(counts: RankingCounts, config: SurveyConfig) -> _Chosen:
    """Plain or debiased evidence, as the configuration and the released counts decide."""
    plain, epsilon = plain_evidence(counts), config.privacy.epsilon
    if config.model.debiased is False:
        return _Chosen(plain, False, "model.debiased is false")
    if reason := _impossible(config):
        return _Chosen(plain, False, reason)
    if epsilon is None or counts.by_place is None:
        raise ValueError("counts by place are missing, and the configuration asks for them")
    if largest_entry(counts, epsilon) > LARGEST_ENTRY:
        return _Chosen(plain, False, "at this epsilon one ranking would count as thousands")
    debiased = debiased_evidence(counts, epsilon)
    if config.model.debiased == "auto" and not undoing_pays(plain, debiased):
        return _Chosen(plain, False, "it would add more chance than it takes away bias")
    return _Chosen(debiased, True)


def _doubt(chosen: _Chosen, method: Method) -> tuple[str, ...]:
    if chosen.debiased:
        return ()
    effect = "scores and their intervals are too near 0"
    if method is Method.KEMENY:
        effect = "close items are harder to tell apart"
    return (
        f"Private rankings are counted as they are: that draws every pair towards 50 %, so {effect}"
        f". It was not undone: {chosen.reason}.",
    )


def _kemeny(evidence: RankingEvidence, config: SurveyConfig) -> _Ranked:
    estimate, consensus = kemeny_estimate(evidence)
    parameters: dict[str, Parameter] = {
        "disagreements": consensus.disagreements,
        "fewest_possible_disagreements": consensus.lower_bound,
        "proven_best": consensus.optimal,
    }
    return _Ranked(estimate, Scale.ABOVE_MIDDLE, parameters, _not_proven(consensus))


def _not_proven(consensus: Consensus) -> tuple[str, ...]:
    if consensus.optimal:
        return ()
    return (
        "The order is the best that a local search found: pairs contradict it"
        f" {consensus.disagreements:,.6g} times, and no order does with fewer than"
        f" {consensus.lower_bound:,.6g}.",
    )


def _borda(evidence: RankingEvidence, config: SurveyConfig) -> _Ranked:
    return _Ranked(borda_estimate(evidence), Scale.ABOVE_MIDDLE, {})


def _bradley_terry(evidence: RankingEvidence, config: SurveyConfig) -> _Ranked:
    fit = fit_bradley_terry(evidence, config.model.ridge)
    return _Ranked(estimate_from(fit), Scale.LOG_ODDS, {"ridge": fit.ridge})


_METHODS: dict[Method, Callable[[RankingEvidence, SurveyConfig], _Ranked]] = {
    Method.KEMENY: _kemeny,
    Method.BORDA: _borda,
    Method.BRADLEY_TERRY: _bradley_terry,
}
