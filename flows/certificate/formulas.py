"""Each sensitivity as assignments that anybody can evaluate, with the integers that go in.

A formula is written in Python's notation and needs `min`, `max`, `sum`, `len`, `range` and `isqrt`
only. It restates what a function of `hushrank.privacy` computes; that function's text proves it.
Names that formulas share:

    n            items of the catalogue
    L            the most rows of a unit
    c            the most of them in which the same item occurs; L where there is no such bound
    distinct     1: a unit's rows are on distinct pairs
    sides        1: a unit is added or removed; 2: it is replaced
    row_weight   what a row adds to a count
    groups       groups that have counts of their own
    add_up       1: what a replaced unit moves is the sum of two bundles' norms
    searched     what `privacy.staircases` finds by a search; empty: nothing is searched
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hushrank.privacy.ranking_sensitivity import Part, Weights
from hushrank.privacy.row_weights import SHARE, Counted, norms_add_up
from hushrank.privacy.sensitivity import searched_win_loss
from hushrank.privacy.stream import Stream
from hushrank.privacy.units import Adjacency, Bounding, NoiseKind, PrivacyParams

Inputs = dict[str, int | tuple[int, ...]]

ROWS = "rows = min(L, n * c // 2, n * (n - 1) // 2 if distinct else L)"
_CELLS = ("cell = min(c, 1 if distinct else rows)",)
_PAIRS = (
    ROWS,
    *_CELLS,
    "l1 = sides * row_weight * rows",
    "l2_squared = sides * row_weight ** 2 * rows * cell",
)
_WON = (
    "won = [min(rows, k * c, k * n - k * (k + 1) // 2 if distinct else rows)"
    " for k in range(n + 1)]",
    "winners = [n] if sides == 1 else [n, n] if groups > 1 else [n - n // 2, n // 2]",
    "squares = sum((won[k] - won[k - 1]) ** 2 for w in winners for k in range(1, w + 1))",
)
_EXPOSED = (
    "degrees = min(2 * rows ** 2, 2 * rows * c)",
    "star = rows * (2 * rows + (n - 2) * (n - 1)) // (n - 1)",
    "degrees = min(degrees, rows * (rows + 1), star) if distinct else degrees",
)
_TURNED = "distinct and sides == 2 and groups == 1"


@dataclass(frozen=True, slots=True)
class Formula:
    """A sensitivity that anybody can evaluate.

    Attributes:
        derivation: dotted name of the function that proves it.
        lines: assignments, the last ones to `l1` and `l2_squared`.
        inputs: what they start from.
    """

    derivation: str
    lines: tuple[str, ...]
    inputs: Inputs


LINES: dict[str, tuple[str, ...]] = {
    "win_counts_sensitivity": (
        ROWS,
        *_WON,
        "l1 = row_weight * sum(won[w] for w in winners)",
        "l2_squared = row_weight ** 2 * squares",
    ),
    "pair_counts_sensitivity": _PAIRS,
    "tie_counts_sensitivity": _PAIRS,
    "outcomes_sensitivity": (
        ROWS,
        *_CELLS,
        "l1 = row_weight * rows",
        "l2_squared = row_weight ** 2 * rows * cell",
    ),
    "exposures_sensitivity": (
        ROWS,
        *_EXPOSED,
        "most = [min(L, k * c // 2, k * (k - 1) // 2 if distinct or k < 2 else L)"
        " for k in range(n + 1)]",
        "apart = max(most[k] + most[n - k] for k in range(n + 1)) if sides == 2 else rows",
        "l1 = row_weight * 2 * apart",
        "l2_squared = sides * row_weight ** 2 * degrees",
    ),
    "win_loss_sensitivity": (
        ROWS,
        *_WON,
        *_EXPOSED,
        f"l1 = min(sides * 2 * rows, 4 * (n * n // 4) if {_TURNED} else sides * 2 * rows)",
        "alone = min(degrees, searched[0]) if searched else degrees",
        "between = min(2 * n * rows, 2 * n * (n * n - 1) // 3)",
        "between = searched[1] if searched else between",
        "l2_squared = min(sides * alone, 2 * squares)",
        f"l2_squared = min(l2_squared, between if {_TURNED} else l2_squared)",
        "l1 = row_weight * l1",
        "l2_squared = row_weight ** 2 * l2_squared",
    ),
    "one_shot_sensitivity": (
        ROWS,
        *_WON,
        "most = min(L, c, n - 1 if distinct else L)",
        "l1 = row_weight * min(sides * k * most, sum(won[w] for w in winners))",
        "l2_squared = l1 ** 2",
    ),
    "votes_sensitivity": ("l1 = sides", "l2_squared = sides"),
    "measurement_sensitivity": (
        "answers = min(L, n)",
        "moved = min(answers ** 2 // 4, edges, answers // 2 * degree)",
        "l1 = sides * moved",
        "l2_squared = sides * moved",
    ),
    "sheet_totals_sensitivity": (
        "items = min(L, n)",
        "l1 = sides * (answer_weight * items + sheet_weight)",
        "l2_squared = sides ** 2 * answer_weight ** 2 * items + sides * sheet_weight ** 2",
    ),
    "ranking_sensitivity": (
        "pairs = longest * (longest - 1) // 2",
        "second = longest * (longest ** 2 - 1) // 3",
        "fourth = longest * (longest ** 2 - 1) * (3 * longest ** 2 - 7) // 15",
        "once = above * pairs + places * longest + squares * second + nets * (longest ** 2 // 2)",
        "plain = above ** 2 * pairs + places ** 2 * longest + squares ** 2 * fourth",
        "signed = nets ** 2 * second",
        "l1 = L * (once + rankings)",
        "l1 = max(l1, 2 * L * once) if sides == 2 else l1",
        "l2_squared = L ** 2 * (plain + signed + rankings ** 2)",
        "l2_squared = max(l2_squared, 2 * L ** 2 * plain + 4 * L ** 2 * signed)"
        " if sides == 2 else l2_squared",
    ),
    "ranking_below_sensitivity": (
        "after = n - longest",
        "told = n * (n - 1) // 2 - after * (after - 1) // 2",
        "net = [n - 1 - 2 * p if p < longest else -longest for p in range(n)]",
        "first = sum(max(x, -x) for x in net)",
        "second = sum(x ** 2 for x in net)",
        "fourth = sum(x ** 4 for x in net)",
        "turned = [net[p] - net[n - 1 - p] for p in range(n)]",
        "plain1 = above * told + places * n + squares * second",
        "plain2 = above ** 2 * told + places ** 2 * n + squares ** 2 * fourth",
        "l1 = L * (plain1 + nets * first + rankings)",
        "change = L * (2 * plain1 + nets * sum(max(x, -x) for x in turned))",
        "l1 = max(l1, change) if sides == 2 else l1",
        "l2_squared = L ** 2 * (plain2 + nets ** 2 * second + rankings ** 2)",
        "change = L ** 2 * (2 * plain2 + nets ** 2 * sum(x ** 2 for x in turned))",
        "l2_squared = max(l2_squared, change) if sides == 2 else l2_squared",
    ),
    "gradient_sensitivity": (
        ROWS,
        "across = min(rows, c * (n // 2), n * n // 4 if distinct else rows)",
        "each = min(rows, c, n - 1 if distinct else rows)",
        "l1 = 2 * (kappa1 if public else sides * slope) * across",
        "l1 = min(l1, 2 * kappa1 * (n * n // 4)) if distinct and not public else l1",
        "l2_squared = 2 * across * each * (kappa1 if public else sides * slope) ** 2",
        "term = slope ** 2 * (2 if sides == 1 else 6 if even_curvature else 8)",
        "l2_squared = l2_squared if public else min(l2_squared, rows ** 2 * term)",
    ),
    "calibrate_covariates": (
        ROWS,
        "l1 = sides * rows * (2 + share * effects)",
    ),
    "calibrate_covariate_mle": (
        ROWS,
        "l1 = sides * rows * row_weight * units * moved",
        "l2_squared = l1 ** 2",
    ),
}
HOMES = {
    "privacy.sensitivity": (
        "win_counts_sensitivity",
        "pair_counts_sensitivity",
        "tie_counts_sensitivity",
        "outcomes_sensitivity",
        "exposures_sensitivity",
        "win_loss_sensitivity",
        "sheet_totals_sensitivity",
    ),
    "privacy.look": ("votes_sensitivity",),
    "privacy.measurement_sensitivity": ("measurement_sensitivity",),
    "privacy.ranking_sensitivity": ("ranking_sensitivity", "ranking_below_sensitivity"),
    "privacy.row_weights": ("weighted_sensitivity",),
    "privacy.stream": ("stream_sensitivity",),
    "privacy.gradient_sensitivity": ("gradient_sensitivity",),
    "privacy.covariate_perturbation": ("calibrate_covariates",),
    "estimation.comparisons.covariate_mle": ("calibrate_covariate_mle",),
    "estimation.comparisons.one_shot": ("one_shot_sensitivity",),
}
_HOME = {name: f"hushrank.{home}.{name}" for home, names in HOMES.items() for name in names}
OF_COUNTED = {
    Counted.WINS: "win_counts_sensitivity",
    Counted.PAIRS: "pair_counts_sensitivity",
    Counted.WIN_LOSS: "win_loss_sensitivity",
}
_WEIGHTED = (
    "l1 = most_units * l1",
    "l2_squared = most_units ** 2 * l2_squared",
    "total = most_units ** 2 * bundle",
    "room = l1 // share if laplace else isqrt(l2_squared // share)",
    "divisor = -(-total // room)",
    "free = 2 * most_units if laplace else 1 + isqrt(4 * total - 1)",
    "costs = not (add_up and free <= divisor)",
    "divisor = divisor if costs else free",
    "moved = -(-total // divisor) if costs else 0",
    "l1 = l1 + moved",
    "l2_squared = l2_squared + moved ** 2",
)
_STREAM = (
    "ends = [min(len(coefficients), nights - j * gap)"
    " for j in range(participations) if j * gap < nights]",
    "l1 = both * l1 * sum(sum(coefficients[:e]) for e in ends)",
    "l2_squared = both * l2_squared * sum(sum(x * x for x in coefficients[:e]) for e in ends)",
)


def bounds_of(params: PrivacyParams, n_items: int) -> Inputs:
    """The inputs that most formulas share."""
    cap = params.per_item_cap
    return {
        "n": n_items,
        "L": params.max_contributions,
        "c": params.max_contributions if cap is None else cap,
        "distinct": int(params.distinct_pairs),
        "sides": sides_of(params),
    }


def sides_of(params: PrivacyParams) -> int:
    """1: a unit is added or removed; 2: it is replaced."""
    return 1 if params.adjacency is Adjacency.ADD_REMOVE else 2


def plain_formula(derivation: str, inputs: Inputs) -> Formula:
    """A formula of `LINES`.

    Raises:
        KeyError: no formula restates that derivation.
    """
    return Formula(_HOME[derivation], LINES[derivation], inputs)


def counts_formula(
    derivation: str, params: PrivacyParams, n_items: int, row_weight: int, groups: int
) -> Formula:
    """Of counts of comparisons."""
    own: Inputs = {"row_weight": row_weight, "groups": groups}
    own |= _searched(derivation, params, n_items)
    return plain_formula(derivation, {**bounds_of(params, n_items), **own})


def _searched(derivation: str, params: PrivacyParams, n_items: int) -> Inputs:
    """What is found by a search, not by a formula."""
    if derivation != "win_loss_sensitivity":
        return {}
    plain = replace(params, bounding=Bounding.LEAVE_OUT, max_weight=None)
    return {"searched": searched_win_loss(plain, n_items) or ()}


def weighted_formula(
    counted: Counted, params: PrivacyParams, n_items: int, row_weight: int
) -> Formula:
    """Of counts of weighted rows and their sum of squares."""
    base = LINES[OF_COUNTED[counted]]
    before: tuple[str, ...] = (*base, "bundle = L")
    of_row: Inputs = {"row_weight": row_weight}
    if params.bounding is Bounding.WEIGHTS:
        cells = 2 if counted is Counted.WIN_LOSS else 1
        before = (
            *base,
            "bundle = l2_squared",
            f"l1 = both * {cells} * weight * (1 + isqrt(bundle * (n * (n - 1) // 2)))",
            "l2_squared = both * weight ** 2 * bundle",
        )
        of_row = {"sides": 1, "both": sides_of(params), "row_weight": 1, "weight": row_weight}
    own: Inputs = {
        **of_row,
        "groups": 1,
        "most_units": params.most_units,
        "share": SHARE,
        "laplace": int(params.noise is NoiseKind.LAPLACE),
        "add_up": int(norms_add_up(params, counted, n_items)),
    }
    own |= _searched(OF_COUNTED[counted], params, n_items)
    inputs = {**bounds_of(params, n_items), **own}
    return Formula(_HOME["weighted_sensitivity"], (*before, *_WEIGHTED), inputs)


def stream_formula(
    derivation: str, params: PrivacyParams, n_items: int, row_weight: int, stream: Stream
) -> Formula:
    """Of all nights of a stream: of one night under add-remove, times what C carries."""
    terms = stream.terms
    own: Inputs = {
        "sides": 1,
        "row_weight": row_weight,
        "groups": 1,
        "both": sides_of(params),
        "nights": terms.nights,
        "participations": terms.participations,
        "gap": terms.gap,
        "coefficients": stream.encoder.coefficients,
    }
    inputs = {**bounds_of(params, n_items), **own}
    return Formula(_HOME["stream_sensitivity"], (*LINES[derivation], *_STREAM), inputs)


def rankings_formula(
    params: PrivacyParams, longest: int, weights: Weights, *, below: int | None = None
) -> Formula:
    """Of counts of true rankings; `below`: as for `ranking_sensitivity`."""
    inputs: Inputs = {
        "L": params.max_contributions,
        "sides": sides_of(params),
        "longest": longest,
        **{str(part): weights.get(part, 0) for part in Part},
    }
    if below is None:
        return plain_formula("ranking_sensitivity", inputs)
    return plain_formula("ranking_below_sensitivity", {"n": below, **inputs})
