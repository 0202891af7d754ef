"""Sensitivities as assignments that anybody can evaluate, with the integers that go in.

A formula is written in Python's notation and needs `min`, `max`, `sum`, `len`, `range` and `isqrt`
only. It restates what a function of `hushrank.privacy` computes; that function's text proves it.
A method restates its own sensitivities; what several of them share is here. Names that formulas
share:

    n            items of the catalogue
    L            the most rows of a unit
    c            the most of them in which the same item occurs; L where there is no such bound
    distinct     1: a unit's rows are on distinct pairs
    unlisted     1: a pilot query also counts who names an item that is not listed
    sides        1: a unit is added or removed; 2: it is replaced
    row_weight   what a row adds to a count
    groups       groups that have counts of their own
    add_up       1: what a replaced unit moves is the sum of two bundles' norms
    overlap      the most groups in which a row counts beside the whole; left out where groups do
                 not overlap
    names        user names of a person, which are protected together; left out where it is 1
    searched     what `privacy.sensitivity` finds by a search; empty: nothing is searched
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from hushrank.estimation.common.central_noise import Calibration
from hushrank.flows.methods.draws import (
    CountNoise,
    IntegerSensitivity,
    Law,
    NameThreshold,
    at_most,
    cost_of,
    exact,
    text_of,
)
from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.flows.statement.sentences import counted_text
from hushrank.privacy.accounting import Spend
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.row_weights import SHARE, Counted, norms_add_up
from hushrank.privacy.stream import Stream
from hushrank.privacy.stream_encoder import ONE, RowTerms, SquareTerms
from hushrank.privacy.units import Adjacency, Bounding, Discovery, NoiseKind, PrivacyParams, Query

if TYPE_CHECKING:  # loaded for jobs that find names alone
    from hushrank.privacy.discovered_names import NamesMechanism

Inputs = dict[str, int | tuple[int, ...]]

ROWS = "rows = min(L, n * c // 2, n * (n - 1) // 2 if distinct else L)"
ONE_CELL = ("cell = min(c, 1 if distinct else rows)",)
CELLS_OF_PAIRS = (
    ROWS,
    *ONE_CELL,
    "l1 = sides * row_weight * rows",
    "l2_squared = sides * row_weight ** 2 * rows * cell",
)
WON = (
    "won = [min(rows, k * c, k * n - k * (k + 1) // 2 if distinct else rows)"
    " for k in range(n + 1)]",
    "winners = [n] if sides == 1 else [n, n] if groups > 1 else [n - n // 2, n // 2]",
    "squares = sum((won[k] - won[k - 1]) ** 2 for w in winners for k in range(1, w + 1))",
)
EXPOSED = (
    "degrees = min(2 * rows ** 2, 2 * rows * c)",
    "star = rows * (2 * rows + (n - 2) * (n - 1)) // (n - 1)",
    "degrees = min(degrees, rows * (rows + 1), star) if distinct else degrees",
)
TURNED = "distinct and sides == 2 and groups == 1"


@dataclass(frozen=True, slots=True)
class Formula:
    """A sensitivity that anybody can evaluate.

    Attributes:
        derivation: dotted name of the function that proves it.
        lines: assignments, the last ones to `l1` and `l2_squared`.
        inputs: integers that the assignments start from.
    """

    derivation: str
    lines: tuple[str, ...]
    inputs: Inputs

    def in_groups(self, most: int | None) -> Formula:
        """Return the formula where a row counts in `most` groups and in the whole; None: this."""
        if most is None:
            return self
        inputs: Inputs = {**self.inputs, "overlap": most}
        return replace(self, lines=(*self.lines, *OVERLAPPING), inputs=inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restated:
    """A function that proves a sensitivity, restated as assignments.

    Attributes:
        proof: dotted name of the proof in hushrank.
        lines: as of `Formula`.
        what: the vector that gets noise, in words.
        entries: number of counts of the vector, by the number of items; None: it is not public.
        searched: result of a search, not of a formula; None: nothing is searched.
    """

    proof: str
    lines: tuple[str, ...]
    what: str = ""
    entries: Callable[[int], int] | None = None
    searched: Callable[[PrivacyParams, int], tuple[int, ...] | None] | None = None

    @property
    def name(self) -> str:
        """Name of the function, as calibrations store it."""
        return self.proof.rpartition(".")[2]

    def formula(self, inputs: Inputs) -> Formula:
        """The formula with these inputs."""
        return Formula(f"hushrank.{self.proof}", self.lines, inputs)

    def of_counts(
        self, params: PrivacyParams, n_items: int, row_weight: int, groups: int
    ) -> Formula:
        """The formula of counts of comparisons."""
        own: Inputs = {"row_weight": row_weight, "groups": groups}
        return self.formula(
            {**bounds_of(params, n_items), **own, **self._searched(params, n_items)}
        )

    def of_weighted_rows(
        self, counted: Counted, params: PrivacyParams, n_items: int, row_weight: int
    ) -> Formula:
        """The formula of counts of weighted rows and their sum of squares."""
        before: tuple[str, ...] = (*self.lines, "bundle = L")
        of_row: Inputs = {"row_weight": row_weight}
        if params.bounding is Bounding.WEIGHTS:
            cells = 2 if counted is Counted.WIN_LOSS else 1
            before = (
                *self.lines,
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
            **self._searched(params, n_items),
        }
        inputs = {**bounds_of(params, n_items), **own}
        derivation = "hushrank.privacy.row_weights.weighted_sensitivity"
        return Formula(derivation, (*before, *WEIGHTED_ROWS), inputs)

    def of_nights(
        self, params: PrivacyParams, n_items: int, row_weight: int, stream: Stream
    ) -> Formula:
        """The formula of a stream: one night under add-remove, times what its encoder carries.

        Where rows are metered, one row in place of one night; likewise squares.
        """
        terms = stream.terms
        derivation = "hushrank.privacy.stream.stream_sensitivity"
        if isinstance(terms, RowTerms):
            of_rows: Inputs = {
                "row_weight": row_weight,
                "both": sides_of(params),
                "rows": terms.rows,
                "coefficients": stream.encoder.coefficients,
            }
            return Formula(derivation, ALL_ROWS, of_rows)
        if isinstance(terms, SquareTerms):
            of_squares: Inputs = {
                "row_weight": row_weight,
                "both": sides_of(params),
                "squares": terms.squares,
                "coefficients": stream.encoder.coefficients,
            }
            return Formula(derivation, ALL_SQUARES, of_squares)
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
        inputs = {**bounds_of(params, n_items), **own, **self._searched(params, n_items)}
        return Formula(derivation, (*self.lines, *ALL_NIGHTS), inputs)

    def _searched(self, params: PrivacyParams, n_items: int) -> Inputs:
        if self.searched is None:
            return {}
        plain = replace(params, bounding=Bounding.LEAVE_OUT, max_weight=None)
        return {"searched": self.searched(plain, n_items) or ()}


WEIGHTED_ROWS = (
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
ALL_NIGHTS = (
    "ends = [min(len(coefficients), nights - j * gap)"
    " for j in range(participations) if j * gap < nights]",
    "l1 = both * l1 * sum(sum(coefficients[:e]) for e in ends)",
    "l2_squared = both * l2_squared * sum(sum(x * x for x in coefficients[:e]) for e in ends)",
)
OVERLAPPING = ("l1 = (overlap + 1) * l1", "l2_squared = (overlap + 1) * l2_squared")
ALL_NAMES = ("l1 = names * l1", "l2_squared = names ** 2 * l2_squared")
ALL_ROWS = (
    "l1 = both * row_weight * rows * sum(coefficients)",
    "l2_squared = both * row_weight ** 2 * rows * sum(x * x for x in coefficients)",
)

ALL_SQUARES = tuple(line.replace("rows", "squares") for line in ALL_ROWS)


VOTES = Restated(
    proof="privacy.pilot_query.votes_sensitivity",
    what="how many say that rows fit, and how many that they do not",
    entries=lambda _: 2,
    lines=("l1 = sides", "l2_squared = sides"),
)


VOTES_AND_ITEMS = replace(
    VOTES,
    what=f"{VOTES.what}, and how many name an item that is not listed",
    entries=lambda _: 3,
    lines=("l1 = sides + unlisted", "l2_squared = sides + unlisted"),
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


def law_of(law: NoiseLaw, step: Fraction | int = 1) -> Law:
    """A law of integers, each worth `step`."""
    return Law(kind=law.kind.value, scale=exact(law.scale), step=text_of(step))


def count_noise(
    what: str,
    entries: int | None,
    formula: Formula,
    calibration: Calibration,
    step: Fraction | int = 1,
) -> CountNoise:
    """Noise that was calibrated to the sensitivity that `formula` comes to."""
    law, sensitivity, names = calibration.law, calibration.sensitivity, calibration.names
    inputs: Inputs = formula.inputs if names == 1 else {**formula.inputs, "names": names}
    kind: Literal["discrete-laplace", "discrete-gaussian", "none"] = "none"
    if law.scale > 0:
        kind = "discrete-laplace" if law.kind is NoiseKind.LAPLACE else "discrete-gaussian"
    return CountNoise(
        mechanism=kind,
        what=what,
        entries=entries,
        derivation=formula.derivation,
        formula=formula.lines if names == 1 else (*formula.lines, *ALL_NAMES),
        inputs=inputs,
        sensitivity=IntegerSensitivity(l1=sensitivity.l1, l2_squared=sensitivity.l2_squared),
        law=law_of(law, step),
        cost=cost_of(calibration.spend),
    )


def noise_of_look(calibration: Calibration, params: PrivacyParams) -> CountNoise:
    """Noise of the look at the rows that comes before the rest."""
    restated, own = VOTES, Inputs(sides=sides_of(params))
    if params.look_unlisted:
        restated, own = VOTES_AND_ITEMS, {**own, "unlisted": 1}
    entries = 2 + params.look_unlisted
    return count_noise(restated.what, entries, restated.formula(own), calibration)


QUERIES = {  # of the certificate, by the name of the proof
    "people_sensitivity": Restated(
        proof="privacy.private_counts.people_sensitivity",
        entries=lambda _: 1,
        lines=("l1 = numbers", "l2_squared = numbers"),
    ),
    "answers_sensitivity": Restated(
        proof="privacy.private_counts.answers_sensitivity",
        entries=lambda _: 1,
        lines=("l1 = L", "l2_squared = L ** 2"),
    ),
    "contradictions_sensitivity": Restated(
        proof="privacy.private_counts.contradictions_sensitivity",
        entries=lambda _: 2,
        lines=("l1 = sides", "l2_squared = sides"),
    ),
}


def noise_of_query(calibration: Calibration, params: PrivacyParams) -> CountNoise:
    """Noise of a query beside the ranking."""
    restated = QUERIES[calibration.derivation]
    query = Query(calibration.derivation.removesuffix("_sensitivity"))
    inputs: Inputs = {"numbers": 1}
    if query is Query.ANSWERS:
        inputs = {"L": params.max_contributions}
    elif query is Query.CONTRADICTIONS:
        inputs = {"sides": sides_of(params)}
    entries = None if restated.entries is None else restated.entries(0)
    what = counted_text(query, params.names_per_person)
    return count_noise(what, entries, restated.formula(inputs), calibration)


NAMES = Restated(
    proof="privacy.discovered_names.names_sensitivity",
    what="the weights that people give the names that they wrote",
    lines=("l1 = sides * c * isqrt(2 ** 40 // c)", "l2_squared = sides * 2 ** 40"),
)


def noise_of_names(names: NamesMechanism, terms: Discovery, sides: int) -> NameThreshold:
    """Noise and threshold of the names that are released before their ranking."""
    formula = NAMES.formula({"sides": sides, "c": terms.most_names})
    spend = Spend(rho=terms.rho, l2_squared=names.sensitivity.l2_squared)
    cost = cost_of(spend).model_copy(update={"delta": at_most(terms.delta_names)})
    return NameThreshold(
        mechanism="gaussian-threshold",
        what=NAMES.what,
        derivation=formula.derivation,
        formula=formula.lines,
        inputs=formula.inputs,
        sensitivity=IntegerSensitivity(
            l1=names.sensitivity.l1, l2_squared=names.sensitivity.l2_squared
        ),
        law=law_of(names.law, Fraction(1, ONE)),
        threshold=names.threshold,
        cost=cost,
    )


def noise_of_counts(
    mechanism: CountMechanism, restated: Sequence[Restated], counted: Counted | None = None
) -> CountNoise | None:
    """Noise on counts of comparisons; None: nothing here restates what it is calibrated to.

    Args:
        mechanism: mechanism that drew.
        restated: the sensitivities of its method, first that of weighted rows and of streams.
        counted: counts of weighted rows and of a stream; None: others.
    """
    n_items, calibration, params = mechanism.n_items, mechanism.calibration, mechanism.params
    row_weight = 1 if mechanism.ties is None else mechanism.ties.row_weight
    n_groups = 1 if mechanism.groups is None else len(mechanism.groups)
    most = None if mechanism.groups is None else mechanism.groups.most
    if counted is not None and mechanism.stream is not None:
        formula = restated[0].of_nights(params, n_items, row_weight, mechanism.stream)
        formula = formula.in_groups(most)
        entries = {Counted.WINS: 1, Counted.WIN_LOSS: 2}.get(counted, n_items) * n_items
        return count_noise(restated[0].what, entries, formula, calibration, Fraction(1, ONE))
    if counted is not None and mechanism.squares_divisor is not None:
        formula = restated[0].of_weighted_rows(counted, params, n_items, row_weight)
        what = f"{restated[0].what}, in thousandths, and the sum of squared weights"
        size = restated[0].entries
        return count_noise(what, 1 + (0 if size is None else size(n_items)), formula, calibration)
    own = next((each for each in restated if each.name == calibration.derivation), None)
    if own is None:
        return None
    formula = own.of_counts(params, n_items, row_weight, n_groups)
    formula = formula.in_groups(most)
    drawn = None if own.entries is None else n_groups * own.entries(n_items)
    if mechanism.asked is not None:
        drawn = 2 * len(mechanism.asked)
    return count_noise(own.what, drawn, formula, calibration)
