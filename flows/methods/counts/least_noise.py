"""Choice of the method on comparisons with least noise, of those that are right for the design.

All of it follows from public facts: the design, the catalogue, epsilon and the bounds. What is
compared is the variance of the privacy noise in an item's net wins, its wins less half its
comparisons: what scores are made of, whatever the method. Chance in who answered what is the same
for all.

    noisy-counts    wins, of noise v, less half the comparisons, which a balanced design gives: v
    win-loss        (wins - losses) / 2, each of noise v: v / 2
    noisy-pairs     (wins - losses) / 2 over n - 1 opponents, each cell of noise v: (n - 1) v / 2
    perturbed-mle   the noise w inside the likelihood: its variance

`noisy-counts` takes for granted how often an item was shown. Where each person is asked about L of
the P pairs, all equally likely, an item is in a share p = 2 / n of the answers, and chance in that
adds to its wins

    c = (1 - p) (P - L) / (P - 1)   (with repeated pairs 1 - p)

times what chance in who won adds: nothing where everybody is asked about every pair. How much the
latter is follows from the number of answers, which is not public. A ranking is wanted where answers
are so many that it is about as much as the noise: so `noisy-counts` is charged c times the least
variance of the other methods. (docs/frontier.md, A: order right by tau = 0.953 with `win-loss`,
0.935 with `noisy-counts`; 6 items, L = 10 of 15 pairs: 9 and 11 pairs sure.)

The likelihood that `noisy-pairs` fits may need less than its formula says, down to a quarter where
exposures are unequal (frontier, B), and more where they are equal (10 items, A): the formula is in
between. The matrix shows more than scores (who beats whom, cycles), so it is taken where it is
nearly as good.

With groups, counts of each group have noise of the same law, so the whole has as many times its
variance as there are groups, whatever the method: what is least for one group is least for all
cells. Each mechanism is calibrated for groups, so its law has what groups cost it. `perturbed-mle`
ranks groups only where rows have covariates. It alone takes these, with groups or without.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.row_rules import (
    problems_of_asked,
    problems_of_covariates,
    problems_of_ties,
    problems_of_weights,
)
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import GROUPS, Choice, PlannedMethod
from hushrank.flows.methods.counts.noisy_counts import NoisyCounts
from hushrank.flows.methods.counts.noisy_pairs import NoisyPairs
from hushrank.flows.methods.counts.win_loss import WinLoss
from hushrank.flows.methods.likelihood.perturbed_mle import MLE
from hushrank.flows.statement.mechanism import Mechanism

NEARLY = 1.15  # times the least variance: `noisy-pairs`, which tells most, may have it
PAIRS = NoisyPairs()
CANDIDATES = (PAIRS, NoisyCounts(), WinLoss(), MLE)
DOUBTED = " (and chance in how often an item was shown, which it does not see)"
BECAUSE = {
    Design.BALANCED: "every pair of items was asked about equally often (input.design: balanced)",
    Design.RANDOM: "chance decided which items met (input.design: random)",
    Design.ANY: "nothing is known of which items met (input.design: any)",
}
LISTED = "input.pairs lists the pairs that were asked about"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A method that suits the configuration.

    Attributes:
        method: the method.
        mechanism: mechanism by which it draws; None: it is rejected without being calibrated.
        variance: variance of the privacy noise in an item's net wins, in comparisons; at least this
            much where there is no mechanism.
        doubt: c, how much chance in totals adds that the method does not see.
    """

    method: PlannedMethod[Any]
    mechanism: Mechanism | None
    variance: float
    doubt: float = 0.0

    @property
    def noise(self) -> str:
        """The standard error of a win count, and whose it is."""
        at_least = "" if self.mechanism else "at least "
        return f"{at_least}{math.sqrt(self.variance):.3g} ({self.method.facts.name})"


def of_least_noise(config: SurveyConfig) -> Choice:
    """The candidate of least noise, and why.

    Raises:
        ConfigError: no candidate suits the configuration; its text is that of the last one.
    """
    found: list[Candidate] = []
    refused = None
    for method in CANDIDATES:
        if config.groups is not None and not method.facts.uses(GROUPS):
            continue
        try:
            found.append(_candidate(method, config, found))
        except ConfigError as error:
            refused = error
    if not found:
        raise refused or ConfigError("method: auto found none; name one")
    best = _best(found)
    return Choice(best.method, _reason(best, found, config), best.mechanism)


def _candidate(
    method: PlannedMethod[Any], config: SurveyConfig, others: list[Candidate]
) -> Candidate:
    """Calibrate the method, unless it has more noise than one of the others, whatever its law.

    That other one sees all chance in its counts, so neither the best nor what the doubts of a
    method are measured by depends on by how much.
    """
    facts, known = method.facts, {each.facts.name: each.facts for each in CANDIDATES}
    broken = (
        *facts.rules(config),
        *problems_of_weights(config, facts),
        *problems_of_covariates(config, facts, known),
        *problems_of_ties(config, facts, known),
        *problems_of_asked(config, facts, known),
    )
    problems = [f"{key}: {rule}" for key, rule in broken]
    if problems:
        raise ConfigError("\n".join(problems))
    at_least = method.least_noise_in_net_wins(config)
    if any(not each.doubt and each.variance < at_least for each in others):
        return Candidate(method, None, at_least)
    mechanism = method.calibrate(config)
    variance = method.noise_in_net_wins(mechanism)
    if variance is None:
        raise TypeError(f"{method.facts.name} is no candidate of auto")
    counted = method.facts.design is Design.BALANCED
    return Candidate(method, mechanism, variance, _chance_in_totals(config) if counted else 0.0)


def _best(found: list[Candidate]) -> Candidate:
    least = min((each.variance for each in found if not each.doubt), default=0.0)

    def loss(each: Candidate) -> float:
        return each.variance + each.doubt * least

    best = min(found, key=loss)
    pairs = (each for each in found if each.method is PAIRS)
    return next((each for each in pairs if loss(each) <= NEARLY * loss(best)), best)


def _chance_in_totals(config: SurveyConfig) -> float:
    """c, of how often an item is shown, in a design in which all pairs are equally likely."""
    n_items, privacy = len(config.items.catalogue.names), config.privacy
    n_pairs = n_items * (n_items - 1) // 2
    others = 1 - 2 / n_items
    if not privacy.distinct_pairs:
        return others
    left_out = max(0, n_pairs - (privacy.max_contributions or 0))
    return others * left_out / max(n_pairs - 1, 1)


def _reason(best: Candidate, found: list[Candidate], config: SurveyConfig) -> str:
    design, listed = config.comparisons.design, config.asked_design()
    noise = ", ".join(
        each.noise + DOUBTED * (each.doubt > 0 and each is not best)
        for each in sorted(found, key=lambda each: (each is not best, each.variance))
    )
    because = BECAUSE[design] if listed is None else LISTED
    return f"{because}; standard error of a win count: {noise}"
