"""Method `spectral`: difficulties of test items from noisy pairwise measurements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration
from hushrank.estimation.responses.item_graph import (
    ItemGraph,
    booklet_graph,
    complete_graph,
    connecting_probability,
    degree_for,
    even_graph,
    noise_ratio,
    random_graph,
)
from hushrank.estimation.responses.measurements import (
    DifferentialMeasurements,
    calibrate_measurements,
    measurements_on,
    release_measurements,
)
from hushrank.estimation.responses.spectral_estimate import SpectralEstimate, estimate_difficulties
from hushrank.flows.config.method import (
    GraphKind,
    MethodFacts,
    Problems,
    Sections,
    SpectralConfig,
    SpectralEstimator,
)
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import (
    Arrays,
    Attacked,
    Conclusion,
    PlannedMethod,
    Terms,
    attacked_counts,
    without_noise,
)
from hushrank.flows.methods.draws import CountNoise
from hushrank.flows.methods.formulas import Restated, bounds_of, count_noise
from hushrank.flows.methods.reductions import reduce_test
from hushrank.flows.release.release import NOT_INFORMATIVE
from hushrank.flows.release.released import MOST_MEASURED, Figure, ReleasedRecord, require_noisy
from hushrank.flows.release.scale import Scale
from hushrank.flows.release.wording import name_list
from hushrank.flows.statement.mechanism import CountMechanism, MechanismOnCounts
from hushrank.flows.statement.record import Parameter, count_record
from hushrank.flows.statement.responses import measurement_words
from hushrank.pipelines.reduce.responses_job import ReduceResponses
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import RandomBits, seeded_bits
from hushrank.privacy.units import Unit
from hushrank.transforms.responses.answer_sheets import Missing
from hushrank.transforms.storage.files import InputFile

MOST_ITEMS = 5000  # a chain of more is not solved directly
UNCONFIRMED = "The {} cannot confirm one {} answer on {}, so {} difficulty has no {} bound."
SHRUNK = (
    "Because noise is large, difficulties were shrunk to {:.0%} of their raw values, which reduces"
    " their error. The intervals were not shrunk."
)
RAISED = (
    "Estimator chain raises negative noisy counts to 0, as the paper does, which draws difficulties"
    " together. The intervals do not rest on that; spectral.estimator: balance does not do it."
)
MOSTLY_KEPT = 0.9  # of the difficulties; below it a reader is told of the ridge
UNEVEN = 0.3  # relative spread of how often two items were answered together; above: a warning
SYSTEMATIC_GAPS = (
    "Some pairs of items were answered by one person far more often than others, by the released"
    " counts, as where people have booklets. The intervals take gaps to come by chance and hold"
    " less than 95 % so: name the booklets in input.booklets."
)
EDGES = "edges"  # of a sparse graph, beside what was drawn on it
NO_ANSWERS = (
    "Nothing can be learned from this release: nobody was right on one item and wrong on another."
)


RESTATED = Restated(
    proof="privacy.response_sensitivity.measurement_sensitivity",
    what="on each pair of a public graph, who was right on one item only",
    lines=(
        "answers = min(L, n)",
        "moved = min(answers ** 2 // 4, edges, answers // 2 * degree)",
        "l1 = sides * moved",
        "l2_squared = sides * moved",
    ),
)


class ReleasedMeasurements(ReleasedRecord):
    """Noisy counts of people right on one item and wrong on another, on the pairs of a graph.

    In `release.json` every row of the matrix is one line of integers, as in `ReleasedPairs`.

    Attributes:
        items: in catalogue order; rows and columns are in this order.
        pairs: row i holds the items j > i that are compared with i; null: every pair is.
        right_wrong: entry j of row i counts who was right on i and wrong on j, noise included; zero
            for pairs that are not compared. Null for more than `MOST_MEASURED` items.
    """

    shows = (Figure.ITEM_MAP,)
    kind: Literal["right-wrong-counts"] = "right-wrong-counts"
    items: tuple[str, ...]
    pairs: tuple[tuple[int, ...], ...] | None
    right_wrong: tuple[tuple[int, ...], ...] | None

    @classmethod
    def of(cls, measurements: DifferentialMeasurements, items: Sequence[str]) -> Self:
        """The record of noisy `measurements`.

        Raises:
            ValueError: they are confidential, or of another number of items.
        """
        require_noisy(measurements, items)
        low, high = measurements.graph.edges.T
        later = np.split(high, np.searchsorted(low, np.arange(1, len(items))))
        return cls.model_construct(  # checked above: millions of entries are not checked again
            items=tuple(items),
            pairs=None
            if measurements.graph.complete
            else tuple(tuple(row.tolist()) for row in later),
            right_wrong=tuple(map(tuple, measurements.y.tolist()))
            if len(items) <= MOST_MEASURED
            else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphChoice:
    """The public graph: everything that it is drawn from.

    Attributes:
        kind: all pairs, or some; never `auto`, but what that came to.
        n_items: size of the catalogue.
        n_edges: pairs of it.
        edge_probability: of a sparse graph; else None.
        seed: of a graph that is drawn, in hex: the job's identity, so anybody may draw it again.
        degree: of an even graph; else None.
        reason: why this one, in words, where the job leaves that open.
        booklets: codes of the items of each booklet of the test; empty: there are none.
    """

    kind: GraphKind
    n_items: int
    n_edges: int
    edge_probability: float | None
    seed: str
    degree: int | None = None
    reason: str = ""
    booklets: tuple[tuple[int, ...], ...] = ()

    @property
    def complete(self) -> bool:
        """Whether all pairs are compared."""
        return self.edge_probability is None and self.degree is None and not self.booklets

    def graph(self) -> ItemGraph:
        """Draw it: the same whenever the same code is asked.

        Raises:
            ValueError: another code drew another graph when the noise was calibrated.
        """
        if self.booklets:
            graph = booklet_graph(self.n_items, self.booklets)
        else:
            graph = _graph_of(self.n_items, self.edge_probability, self.degree, self.seed)
        if graph.n_edges != self.n_edges:
            raise ValueError(f"the graph has {graph.n_edges} pairs, not {self.n_edges} as stated")
        return graph

    def arrays(self) -> Arrays:
        """What is stored of it beside the noise, so that no later code has to draw it again."""
        return {} if self.complete else {EDGES: self.graph().edges}

    def stored(self, drawn: Arrays) -> ItemGraph:
        """The graph that `arrays` stored; drawn again where an earlier version stored none."""
        if EDGES not in drawn:
            return self.graph()
        return ItemGraph(self.n_items, drawn[EDGES])


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementMechanism(MechanismOnCounts):
    """Noise on both counts of every pair of a public graph.

    Attributes:
        graph: on which pairs.
    """

    graph: GraphChoice


def _problems_of_sections(config: Sections) -> Problems:
    rows, settings = config.input, config.spectral or SpectralConfig()
    if not isinstance(rows, ResponsesConfig):
        return
    for key, rule in rows.problems_of_key(config.items.catalogue):
        yield f"input.{key}", rule
    if rows.points is not None:
        yield "input.points", "is for method: totals, not spectral; write method: totals"
    if rows.booklets is None:
        if settings.graph is GraphKind.BOOKLETS:
            yield "spectral.graph", "booklets needs input.booklets; add them, or remove this line"
        return
    if settings.graph not in (GraphKind.AUTO, GraphKind.BOOKLETS):
        yield (
            "spectral.graph",
            "not beside input.booklets, which say which pairs are counted; remove this line",
        )
    most = config.privacy.max_contributions or 0
    for key, rule in rows.problems_of_booklets(config.items.catalogue, most):
        yield f"input.{key}", rule


class Spectral(PlannedMethod[MeasurementMechanism]):
    """Counts of Nguyen and Zhang, Algorithm 2: see `estimation.responses.spectral_estimate`."""

    facts = MethodFacts(
        name="spectral",
        summary="difficulties from noisy counts of pairs of test items",
        kind="responses",
        units=(Unit.USER,),
        reads=("spectral",),
        rules=_problems_of_sections,
    )
    mechanism = MeasurementMechanism
    plan_order = 1

    def suits(self, config: SurveyConfig) -> bool:
        """As for every method; items that give points are for `totals`."""
        return config.responses.points is None and super().suits(config)

    def calibrate(self, config: SurveyConfig) -> MeasurementMechanism:
        """Noise on every count of a pair of the graph."""
        problems = list(problems_of_sheets(config, "spectral", MOST_ITEMS))
        if problems:
            raise ConfigError("\n".join(problems))
        choice, params = graph_choice(config), config.privacy.params()
        calibration = calibrate_measurements(
            params, choice.n_items, choice.n_edges, choice.graph().largest_degree
        )
        counts = CountMechanism.of(params, calibration, choice.n_items, None)
        return MeasurementMechanism(counts=counts, graph=choice)

    def terms(self, mechanism: MeasurementMechanism) -> Terms:
        """Cost and noise."""
        choice = mechanism.graph
        where = f"on every count of {choice.n_edges:,} pairs of items"
        if choice.reason:
            where += f" (graph: {choice.kind}, because {choice.reason})"
        return Terms.of(mechanism.counts.calibration, where)

    def reduction(
        self,
        config: SurveyConfig,
        mechanism: MeasurementMechanism,
        files: tuple[InputFile, ...],
        key: SecretKey,
        folder: str,
    ) -> ReduceResponses:
        """Count, for each pair of items, who was right on the one and wrong on the other."""
        most = mechanism.counts.params.max_contributions
        return reduce_test(config, files, key, folder, max_answers=most)

    def draw(self, exact: Arrays, mechanism: MeasurementMechanism, bits: RandomBits) -> Arrays:
        """Add noise to both counts of every pair of the graph."""
        edges = mechanism.graph.arrays()
        measurements = measurements_on(mechanism.graph.stored(edges), exact["y"])
        noisy = release_measurements(measurements, mechanism.counts.calibration, bits)
        return {"y": noisy.y, **edges}

    def predicted_error(
        self, config: SurveyConfig, survey: PlannedSurvey, mechanism: MeasurementMechanism
    ) -> float | None:
        """Error of difficulties at best, for abilities and difficulties as far apart as supposed.

        With a answers about an item, and m neighbours of it that a person answers too, the counts
        in which it is right less those in which it is wrong have the derivative a m k in its
        difficulty; k is the mean slope of the logistic curve. One answer moves m of them, so their
        sum varies by a k m (m + 1); noise of variance v on 2 d counts adds 2 d v.
        """
        apart = survey.spread**2 + survey.ability_spread**2
        k = 0.25 / math.sqrt(1 + math.pi * apart / 8)  # by the normal curve nearest to the logistic
        a = survey.people * survey.answers / survey.n_items
        d = 2 * mechanism.graph.n_edges / mechanism.graph.n_items
        m = (survey.answers - 1) * d / (survey.n_items - 1)
        noise = 2 * d * mechanism.counts.law.variance
        return math.sqrt(noise + a * k * m * (m + 1)) / (a * m * k)

    def conclude(
        self, drawn: Arrays, mechanism: MeasurementMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Difficulties from the noisy counts."""
        graph, counts = mechanism.graph.stored(drawn), mechanism.counts
        measurements = DifferentialMeasurements(drawn["y"], graph, confidential=False)
        chain = _settings(config).estimator is SpectralEstimator.CHAIN
        found = estimate_difficulties(
            measurements,
            counts.law,
            counts.params.max_contributions,
            mechanism.graph.booklets,
            chain=chain,
        )
        names = config.items.catalogue.names
        words = measurement_words(
            graph,
            counts.sensitivity,
            config.responses.missing or Missing.UNSEEN,
            of_booklets=bool(mechanism.graph.booklets),
        )
        parameters = _parameters(mechanism.graph)
        parameters["estimator"] = _settings(config).estimator.value
        raised = (RAISED,) if chain and bool((drawn["y"] < 0).any()) else ()
        return Conclusion(
            estimate=found.estimate,
            privacy=count_record(words, counts, parameters),
            released=ReleasedMeasurements.of(measurements, names),
            scale=Scale.DIFFICULTY,
            warnings=(*_warnings(found, counts.calibration, names), *raised),
        )

    def simulated(self, config: SurveyConfig, survey: PlannedSurvey, replicate: int) -> Arrays:
        """Who was right on one item and wrong on another, in a simulated test."""
        booklets = config.responses.booklet_codes(config.items.catalogue)
        return {"y": survey.right_wrong(replicate, booklets)}

    def attacked(self, mechanism: MeasurementMechanism) -> Attacked:
        """Noise on the counts of the pairs of the graph."""
        still = replace(mechanism, counts=without_noise(mechanism.counts))
        return replace(attacked_counts(mechanism.counts), still=still)

    def certified(self, mechanism: MeasurementMechanism, drawn: Arrays) -> tuple[CountNoise]:
        """Noise on both counts of each pair of the public graph that is in `drawn`."""
        counts, graph = mechanism.counts, mechanism.graph
        degree = graph.n_items - 1 if graph.complete else graph.stored(drawn).largest_degree
        bounds = bounds_of(counts.params, counts.n_items)
        own = {name: bounds[name] for name in ("n", "L", "sides")}
        formula = RESTATED.formula({**own, "edges": graph.n_edges, "degree": degree})
        return (count_noise(RESTATED.what, 2 * graph.n_edges, formula, counts.calibration),)


def problems_of_sheets(config: SurveyConfig, method: str, most_items: int) -> Iterator[str]:
    """Rules of a test whose people are protected, for a method of so many items at most."""
    privacy, n_items = config.privacy, len(config.items.catalogue.names)
    if privacy.unit is not Unit.USER:
        yield f"privacy.unit: {privacy.unit} is not for test answers; write unit: user"
        return
    if (privacy.max_contributions or 0) < 2:
        yield (
            "privacy.max_contributions: must be at least 2, because one answer has nothing to be"
            " compared with; raise it"
        )
    if privacy.per_item_cap is not None:
        yield "privacy.per_item_cap: is for comparisons; nobody answers an item twice. Remove it"
    if privacy.distinct_pairs:
        yield "privacy.distinct_pairs: is for comparisons; nobody answers an item twice. Remove it"
    if n_items > most_items:
        yield f"items: must be at most {most_items} for method: {method}, got {n_items}"


def _settings(config: SurveyConfig) -> SpectralConfig:
    return config.spectral or SpectralConfig()


def graph_choice(config: SurveyConfig) -> GraphChoice:
    """The public graph that the job asks for, chosen without a look at the data.

    Raises:
        ConfigError: no graph so sparse connects the items, or there are too few for the degree.
    """
    settings, n_items, seed = (
        _settings(config),
        len(config.items.catalogue.names),
        config.job_hash(),
    )
    kind, reason = settings.graph, ""
    if booklets := config.responses.booklet_codes(config.items.catalogue):
        return GraphChoice(
            kind=GraphKind.BOOKLETS,
            n_items=n_items,
            n_edges=booklet_graph(n_items, booklets).n_edges,
            edge_probability=None,
            seed=seed,
            booklets=booklets,
        )
    if kind is GraphKind.AUTO:
        kind = GraphKind.EVEN if config.takes_even_graph() else GraphKind.DENSE
        reason = _reason(config, n_items)
    probability = degree = None
    if kind is GraphKind.SPARSE:
        probability = settings.edge_probability or connecting_probability(n_items)
    if kind is GraphKind.EVEN:
        degree = settings.degree or degree_for(n_items, config.privacy.max_contributions or 2)
    try:
        n_edges = _graph_of(n_items, probability, degree, seed).n_edges
    except ValueError as error:
        key = "edge_probability: too small" if degree is None else "degree: too large"
        raise ConfigError(f"spectral.{key}: {error}") from None
    return GraphChoice(
        kind=kind,
        n_items=n_items,
        n_edges=n_edges,
        edge_probability=probability,
        seed=seed,
        degree=degree,
        reason=reason,
    )


def _reason(config: SurveyConfig, n_items: int) -> str:
    """What an even graph would do to the noise, in words; nothing where there is no choice."""
    if config.privacy.unit is not Unit.USER or n_items < 4:
        return ""
    degree = degree_for(n_items, config.privacy.max_contributions or 2)
    ratio = math.sqrt(noise_ratio(config.privacy.params(), n_items, degree))
    return (
        f"the noise in a difficulty with all pairs is {ratio:.2g} times that on an even graph of"
        f" degree {degree}"
    )


def _graph_of(n_items: int, probability: float | None, degree: int | None, seed: str) -> ItemGraph:
    if degree is not None:
        return even_graph(n_items, degree, _bits(seed))
    if probability is not None:
        return random_graph(n_items, probability, _bits(seed))
    return complete_graph(n_items)


def _bits(seed: str) -> RandomBits:
    return seeded_bits(int(seed, 16))


def _parameters(choice: GraphChoice) -> dict[str, Parameter]:
    parameters: dict[str, Parameter] = {"graph": choice.kind.value, "pairs": choice.n_edges}
    if choice.edge_probability is not None:
        parameters["edge_probability"] = choice.edge_probability
    if choice.degree is not None:
        parameters["degree"] = choice.degree
    if choice.booklets:
        parameters["booklets"] = len(choice.booklets)
    if choice.reason:
        parameters["graph_chosen_because"] = choice.reason
    return parameters


def _warnings(
    found: SpectralEstimate, calibration: Calibration, names: Sequence[str]
) -> Iterator[str]:
    noisy = calibration.law.variance > 0
    if not found.estimate.informative:
        yield NOT_INFORMATIVE if noisy else NO_ANSWERS
        return
    linked = found.connection
    alone = linked.no_lower_limit & linked.no_upper_limit
    what = "noisy counts" if noisy else "counts"
    if alone.any():
        yield f"The {what} cannot determine the difficulty of {named_items(names, alone)}."
    for where, answer, bound in (
        (linked.no_upper_limit & ~alone, "correct", "upper"),
        (linked.no_lower_limit & ~alone, "wrong", "lower"),
    ):
        if where.any():
            whose = "its" if where.sum() == 1 else "their"
            yield UNCONFIRMED.format(what, answer, named_items(names, where), whose, bound)
    if found.uneven > UNEVEN:
        yield SYSTEMATIC_GAPS
    if found.kept < MOSTLY_KEPT:
        yield SHRUNK.format(found.kept)


def named_items(names: Sequence[str], where: NDArray[np.bool_]) -> str:
    """Names of the items where `where` is true, the first few if they are many."""
    return name_list([names[item] for item in np.flatnonzero(where).tolist()])


METHODS = (Spectral(),)
