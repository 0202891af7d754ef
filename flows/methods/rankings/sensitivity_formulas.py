"""Sensitivities of counts of rankings as formulas, which certificates state."""

from __future__ import annotations

from hushrank.flows.methods.formulas import Formula, Inputs, Restated, sides_of
from hushrank.privacy.ranking_sensitivity import LEVELS, Part, Weights
from hushrank.privacy.units import PrivacyParams

GOES = "goes = 2 if sides == 2 and groups > 1 else 1"  # groups that change if all lists move
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
        GOES,
        "l1 = goes * L * (once + rankings)",
        "l1 = max(l1, 2 * L * once) if sides == 2 else l1",
        "l2_squared = goes * L ** 2 * (plain + signed + rankings ** 2)",
        "l2_squared = max(l2_squared, 2 * L ** 2 * plain + 4 * L ** 2 * signed)"
        " if sides == 2 else l2_squared",
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
        GOES,
        "l1 = goes * L * (plain1 + nets * first + rankings)",
        "change = L * (2 * plain1 + nets * sum(max(x, -x) for x in turned))",
        "l1 = max(l1, change) if sides == 2 else l1",
        "l2_squared = goes * L ** 2 * (plain2 + nets ** 2 * second + rankings ** 2)",
        "change = L ** 2 * (2 * plain2 + nets ** 2 * sum(x ** 2 for x in turned))",
        "l2_squared = max(l2_squared, change) if sides == 2 else l2_squared",
    ),
)

RESTATED_MARGINS = Restated(
    proof="privacy.ranking_sensitivity.ranking_below_sensitivity",
    what="margins of rankings",
    lines=(
        "after = n - longest",
        "told = n * (n - 1) // 2 - after * (after - 1) // 2",
        "mixed = sum(min(longest, n - 1 - p) for p in range(longest))",
        GOES,
        "l1 = goes * L * (margins * told + rankings)",
        "l1 = max(l1, 2 * L * margins * told) if sides == 2 else l1",
        "l2_squared = goes * L ** 2 * (margins ** 2 * told + rankings ** 2)",
        "change = 2 * L ** 2 * margins ** 2 * (told + mixed)",
        "l2_squared = max(l2_squared, change) if sides == 2 else l2_squared",
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
) -> Formula:
    """The formula of counts of true rankings; `below`, `n_groups`: as for `ranking_sensitivity`."""
    inputs: Inputs = {
        "L": params.max_contributions,
        "sides": sides_of(params),
        "groups": n_groups,
        "longest": longest,
        **{str(part): weights.get(part, 0) for part in Part if part not in OF_THEIR_OWN},
    }
    if below is None:
        return RESTATED.formula(inputs)
    if Part.ROUNDS in weights:
        return RESTATED_ROUNDS.formula({"n": below, **inputs, "rounds": weights[Part.ROUNDS]})
    if Part.MARGINS in weights:
        return RESTATED_MARGINS.formula({"n": below, **inputs, "margins": weights[Part.MARGINS]})
    return RESTATED_BELOW.formula({"n": below, **inputs})
