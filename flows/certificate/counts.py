"""What a certificate says of noise on counts, and inside a likelihood's optimisation."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Literal

from hushrank.estimation.common.central_noise import Calibration
from hushrank.flows.certificate.draws import (
    Cost,
    CountNoise,
    IntegerSensitivity,
    Law,
)
from hushrank.flows.certificate.formulas import (
    LINES,
    OF_COUNTED,
    Formula,
    bounds_of,
    counts_formula,
    plain_formula,
    rankings_formula,
    sides_of,
    stream_formula,
    weighted_formula,
)
from hushrank.flows.certificate.numbers import at_most, exact, text_of
from hushrank.flows.methods.base import Arrays
from hushrank.flows.methods.one_shot import OneShotMechanism
from hushrank.flows.methods.spectral import MeasurementMechanism
from hushrank.flows.methods.totals import TotalsMechanism
from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.flows.statement.rankings import RankingCountMechanism
from hushrank.privacy.accounting import Spend
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.row_weights import Counted
from hushrank.privacy.stream_encoder import ONE
from hushrank.privacy.units import NoiseKind, PrivacyParams

WHAT = {
    "win_counts_sensitivity": "wins of each item",
    "win_loss_sensitivity": "wins and losses of each item",
    "pair_counts_sensitivity": "the matrix of wins, item against item",
    "tie_counts_sensitivity": "three outcomes of each pair: either item won, or they tied",
    "outcomes_sensitivity": "wins of one item of each pair that was compared",
    "exposures_sensitivity": "how often each item was compared",
    "measurement_sensitivity": "on each pair of a public graph, who was right on one item only",
    "sheet_totals_sensitivity": "right less wrong answers of each item, and sheets by raw score",
    "ranking_sensitivity": "counts of rankings",
    "votes_sensitivity": "how many say that rows fit, and how many that they do not",
    "one_shot_sensitivity": "wins of each item, of which the best are named",
}
PER_ITEM = ("win_counts_sensitivity", "exposures_sensitivity", "one_shot_sensitivity")


def cost_of(spend: Spend, read: Callable[[float], str] = at_most) -> Cost:
    """What a draw costs, by default in the readings that noise is calibrated to."""
    return Cost(
        epsilon=read(spend.epsilon),
        delta=read(spend.delta),
        rho=None if spend.rho is None else read(spend.rho),
        l2_squared=spend.l2_squared,
    )


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
    law, sensitivity = calibration.law, calibration.sensitivity
    kind: Literal["discrete-laplace", "discrete-gaussian", "none"] = "none"
    if law.scale > 0:
        kind = "discrete-laplace" if law.kind is NoiseKind.LAPLACE else "discrete-gaussian"
    return CountNoise(
        mechanism=kind,
        what=what,
        entries=entries,
        derivation=formula.derivation,
        formula=formula.lines,
        inputs=formula.inputs,
        sensitivity=IntegerSensitivity(l1=sensitivity.l1, l2_squared=sensitivity.l2_squared),
        law=law_of(law, step),
        cost=cost_of(calibration.spend),
    )


def look_noise(calibration: Calibration, params: PrivacyParams) -> CountNoise:
    """Of the look at the rows that comes before the rest."""
    name = "votes_sensitivity"
    formula = plain_formula(name, {"sides": sides_of(params)})
    return count_noise(WHAT[name], 2, formula, calibration)


def is_explained(mechanism: CountMechanism, counted: Counted | None) -> bool:
    """Whether a formula restates its derivation; that of a method from elsewhere may have none."""
    of_rows = mechanism.stream is not None or mechanism.squares_divisor is not None
    return mechanism.calibration.derivation in LINES or (of_rows and counted is not None)


def noise_of_counts(mechanism: CountMechanism, counted: Counted | None) -> CountNoise:
    """Of counts of comparisons.

    Args:
        mechanism: what drew, one that `is_explained`.
        counted: which counts, of weighted rows and of a stream; None: of others.
    """
    n_items, calibration, params = mechanism.n_items, mechanism.calibration, mechanism.params
    row_weight = 1 if mechanism.ties is None else mechanism.ties.row_weight
    n_groups = 1 if mechanism.groups is None else len(mechanism.groups)
    stream, name = mechanism.stream, calibration.derivation
    if counted is not None and stream is not None:
        name = OF_COUNTED[counted]
        formula = stream_formula(name, params, n_items, row_weight, stream)
        entries = n_items if counted is Counted.WINS else n_items**2
        return count_noise(WHAT[name], entries, formula, calibration, Fraction(1, ONE))
    if counted is not None and mechanism.squares_divisor is not None:
        name = OF_COUNTED[counted]
        formula = weighted_formula(counted, params, n_items, row_weight)
        what = f"{WHAT[name]}, in thousandths, and the sum of squared weights"
        entries = (_entries(name, n_items, 1) or 0) + 1
        return count_noise(what, entries, formula, calibration)
    if name == "tie_counts_sensitivity":
        row_weight = 1
    formula = counts_formula(name, params, n_items, row_weight, n_groups)
    listed = mechanism.asked
    drawn = _entries(name, n_items, n_groups) if listed is None else 2 * len(listed)
    return count_noise(WHAT[name], drawn, formula, calibration)


def _entries(name: str, n_items: int, n_groups: int) -> int | None:
    """How many counts get noise; None where it depends on which pairs met."""
    pairs = n_items * (n_items - 1) // 2
    sizes = {
        **dict.fromkeys(PER_ITEM, n_items),
        "win_loss_sensitivity": 2 * n_items,
        "pair_counts_sensitivity": 2 * pairs,
        "tie_counts_sensitivity": 3 * pairs,
    }
    return n_groups * sizes[name] if name in sizes else None


def noise_of_rankings(mechanism: RankingCountMechanism) -> CountNoise:
    """Of counts of true rankings."""
    below = mechanism.n_items if mechanism.below else None
    formula = rankings_formula(mechanism.params, mechanism.longest, mechanism.weights, below=below)
    parts = ", ".join(f"{weight} x {part}" for part, weight in mechanism.weights.items())
    what = f"{WHAT['ranking_sensitivity']}: {parts}"
    return count_noise(what, None, formula, mechanism.calibration)


def noise_of_best(mechanism: OneShotMechanism) -> CountNoise:
    """Of counts that are never released, of which the best items are named."""
    counts = mechanism.counts
    row_weight = 1 if counts.ties is None else counts.ties.row_weight
    own = {**bounds_of(counts.params, counts.n_items), "row_weight": row_weight}
    own |= {"groups": 1, "k": mechanism.k}
    formula = plain_formula("one_shot_sensitivity", own)
    return count_noise(WHAT["one_shot_sensitivity"], counts.n_items, formula, counts.calibration)


def noise_of_measurements(mechanism: MeasurementMechanism, drawn: Arrays) -> CountNoise:
    """Of both counts of each pair of a public graph of test items, which is in `drawn`."""
    counts, graph = mechanism.counts, mechanism.graph
    degree = graph.n_items - 1 if graph.complete else graph.stored(drawn).largest_degree
    bounds = bounds_of(counts.params, counts.n_items)
    own = {name: bounds[name] for name in ("n", "L", "sides")}
    formula = plain_formula(
        "measurement_sensitivity", {**own, "edges": graph.n_edges, "degree": degree}
    )
    what = WHAT["measurement_sensitivity"]
    return count_noise(what, 2 * graph.n_edges, formula, counts.calibration)


def noise_of_totals(mechanism: TotalsMechanism) -> CountNoise:
    """Of right less wrong answers of each test item, and of sheets by raw score."""
    counts, shape, name = mechanism.counts, mechanism.shape, "sheet_totals_sensitivity"
    bounds = bounds_of(counts.params, counts.n_items)
    own = {key: bounds[key] for key in ("n", "L", "sides")}
    own |= {"answer_weight": shape.answer_weight, "sheet_weight": shape.sheet_weight}
    return count_noise(WHAT[name], shape.n_entries, plain_formula(name, own), counts.calibration)
