"""Sensitivities of counts of rankings as formulas, which certificates state."""

from __future__ import annotations

from dataclasses import replace

from hushrank.flows.methods.formulas import Formula, Inputs, Restated, sides_of
from hushrank.privacy.ranking_sensitivity import LEVELS, Part, Weights
from hushrank.privacy.units import PrivacyParams

# A group changes by `comes` if all lists come, go or move there, by `turns` if others replace them.
NORMS = (("l1", "comes", "turns"), ("l2_squared", "comes2", "turns2"))
DISJOINT = tuple(
    f"{norm} = max({turns}, (2 if groups > 1 else 1) * {comes}) if sides == 2 else {comes}"
    for norm, comes, turns in NORMS
)
OVERLAPPING = tuple(
    f"{norm} = max(max((c + 1) * {turns} + min(2 * (overlap - c), groups - 1 - c) * {comes}"
    f" for c in range(overlap + 1)) if sides == 2 else 0, (overlap + 1) * {comes})"
    for norm, comes, turns in NORMS
)
RESTATED = Restated(
    proof="privacy.ranking_sensitivity.ranking_sensitivity",
    what="counts of rankings",
    lines=(
        "pairs = longest * (longest - 1) // 2",
        "second = longest * (longest ** 2 - 1) // 3",
        "fourth = longest * (longest ** 2 - 1) * (3 * longest ** 2 - 7) // 15",
        "once = above * pairs + places * longest + squares * second + nets * (longest ** 2 // 2)",
        "plain = above ** 2 * pairs + places ** 2 * longest + squares ** 2 * fourth",
        "signed = nets ** 2 * second",
        "comes = L * (once + rankings)",
        "turns = 2 * L * once",
        "comes2 = L ** 2 * (plain + signed + rankings ** 2)",
        "turns2 = 2 * L ** 2 * plain + 4 * L ** 2 * signed",
    ),
)
RESTATED_BELOW = Restated(
    proof="privacy.ranking_sensitivity.ranking_below_sensitivity",
    what="counts of rankings",
    lines=(
        "after = n - longest",
        "told = n * (n - 1) // 2 - after * (after - 1) // 2",
        "net = [n - 1 - 2 * p if p < longest else -longest for p in range(n)]",
        "first = sum(max(x, -x) for x in net)",
        "second = sum(x ** 2 for x in net)",
        "fourth = sum(x ** 4 for x in net)",
        "turned = [net[p] - net[n - 1 - p] for p in range(n)]",
        "plain1 = above * told + places * n + squares * second",
        "plain2 = above ** 2 * told + places ** 2 * n + squares ** 2 * fourth",
        "comes = L * (plain1 + nets * first + rankings)",
        "turns = L * (2 * plain1 + nets * sum(max(x, -x) for x in turned))",
        "comes2 = L ** 2 * (plain2 + nets ** 2 * second + rankings ** 2)",
        "turns2 = L ** 2 * (2 * plain2 + nets ** 2 * sum(x ** 2 for x in turned))",
    ),
)

RESTATED_MARGINS = Restated(
    proof="privacy.ranking_sensitivity.ranking_below_sensitivity",
    what="margins of rankings",
    lines=(
        "after = n - longest",
        "told = n * (n - 1) // 2 - after * (after - 1) // 2",
        "mixed = sum(min(longest, n - 1 - p) for p in range(longest))",
        "comes = L * (margins * told + rankings)",
        "turns = 2 * L * margins * told",
        "comes2 = L ** 2 * (margins ** 2 * told + rankings ** 2)",
        "turns2 = 2 * L ** 2 * margins ** 2 * (told + mixed)",
    ),
)


RESTATED_ROUNDS = Restated(
    proof="privacy.ranking_sensitivity.ranking_below_sensitivity",
    what="counts of the rounds of an instant runoff",
    lines=(
        "l1 = sides * L * rounds * (n - 1)",
        "l2_squared = sides * (L * rounds) ** 2 * (n - 1)",
    ),
)
OF_THEIR_OWN = (Part.MARGINS, Part.ROUNDS, *LEVELS)  # parts whose formulas no other part is in


def rankings_formula(
    params: PrivacyParams,
    longest: int,
    weights: Weights,
    *,
    below: int | None = None,
    n_groups: int = 1,
    overlap: int | None = None,
) -> Formula:
    """The formula of counts of true rankings; other arguments as for `ranking_sensitivity`."""
    inputs: Inputs = {
        "L": params.max_contributions,
        "sides": sides_of(params),
        "groups": n_groups,
        **({} if overlap is None else {"overlap": overlap}),
        "longest": longest,
        **{str(part): weights.get(part, 0) for part in Part if part not in OF_THEIR_OWN},
    }
    if Part.ROUNDS in weights and below is not None:
        return RESTATED_ROUNDS.formula({"n": below, **inputs, "rounds": weights[Part.ROUNDS]})
    own: Inputs = {} if below is None else {"n": below}
    restated = RESTATED
    if below is not None:
        restated = RESTATED_MARGINS if Part.MARGINS in weights else RESTATED_BELOW
    if Part.MARGINS in weights:
        inputs |= {"margins": weights[Part.MARGINS]}
    formula = restated.formula({**own, **inputs})
    ends = DISJOINT if overlap is None else OVERLAPPING
    return replace(formula, lines=(*formula.lines, *ends))
