"""Difficulties of test items by the public graph on which answers are counted.

Root mean square error of `spectral` on simulated tests, mean over replicates, and the share of 95 %
intervals that hold the truth. To guess that all items are alike has an error of about 1.

    python -m benchmarks.item_graphs
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import link_named
from hushrank.estimation.responses.item_graph import (
    ItemGraph,
    complete_graph,
    connecting_probability,
    degree_for,
    even_graph,
    even_graph_pays,
    random_graph,
)
from hushrank.estimation.responses.measurements import (
    calibrate_measurements,
    measurements_on,
    release_measurements,
)
from hushrank.estimation.responses.spectral_estimate import estimate_difficulties
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

REPLICATES = 5
EPSILON, DELTA = 2.0, 1e-6


@dataclass(frozen=True, slots=True)
class InventedTest:
    """A simulated test of m items, of which each person answers some at random."""

    items: int
    answers: int
    people: int
    noise: NoiseKind

    def params(self) -> PrivacyParams:
        """Privacy of one person with all answers, at the benchmark's epsilon."""
        return PrivacyParams(
            unit=Unit.USER,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=EPSILON,
            delta=DELTA if self.noise is NoiseKind.GAUSSIAN else 0.0,
            noise=self.noise,
            max_contributions=self.answers,
        )

    def survey(self) -> PlannedSurvey:
        """The simulated survey."""
        return PlannedSurvey(
            n_items=self.items,
            people=self.people,
            answers=self.answers,
            distinct=True,
            link=link_named("logistic"),
        )

    def graphs(self, seed: int) -> dict[str, ItemGraph]:
        """The graphs that are compared."""
        degree = degree_for(self.items, self.answers)
        return {
            "dense": complete_graph(self.items),
            "even": even_graph(self.items, degree, seeded_bits(seed)),
            "sparse": random_graph(
                self.items, connecting_probability(self.items), seeded_bits(seed)
            ),
        }


TESTS = (
    InventedTest(30, 8, 2_000, NoiseKind.LAPLACE),
    InventedTest(30, 8, 5_000, NoiseKind.LAPLACE),
    InventedTest(300, 20, 5_000, NoiseKind.GAUSSIAN),
    InventedTest(300, 20, 20_000, NoiseKind.GAUSSIAN),
    InventedTest(300, 20, 20_000, NoiseKind.LAPLACE),
    InventedTest(300, 150, 20_000, NoiseKind.LAPLACE),
    InventedTest(600, 600, 5_000, NoiseKind.GAUSSIAN),
    InventedTest(600, 600, 20_000, NoiseKind.LAPLACE),
)


def measured(
    test: InventedTest,
    y: NDArray[np.int64],
    truth: NDArray[np.float64],
    graph: ItemGraph,
    seed: int,
) -> list[float]:
    """Error, and the share of intervals that hold the truth; NaN where nothing was learned."""
    calibration = calibrate_measurements(
        test.params(), graph.n_items, graph.n_edges, graph.largest_degree
    )
    released = release_measurements(measurements_on(graph, y), calibration, seeded_bits(seed))
    found = estimate_difficulties(released, calibration.law, test.answers).estimate
    error = float(np.sqrt(np.square(found.scores - truth).mean()))
    if not found.informative:
        return [error, np.nan]
    return [error, float(((found.low <= truth) & (truth <= found.high)).mean())]


def main() -> None:
    """Print a line for each test and graph."""
    print("items  answers  people  noise     graph    error  held")
    for test in TESTS:
        survey, rows = test.survey(), {"dense": [], "even": [], "sparse": []}
        for replicate in range(REPLICATES):
            y, truth = survey.right_wrong(replicate), survey.truth(replicate)
            for name, graph in test.graphs(replicate).items():
                rows[name].append(measured(test, y, truth, graph, replicate))
        auto = "even" if even_graph_pays(test.params(), test.items) else "dense"
        for name, found in rows.items():
            error = np.mean([each for each, _ in found])
            held = [each for _, each in found if not np.isnan(each)]
            share = f"{np.mean(held):.0%}" if held else "says nothing"
            print(
                f"{test.items:5d}  {test.answers:7d}  {test.people:6d}  {test.noise:9s}"
                f" {name:6s}{'*' if name == auto else ' '}  {error:.2f}  {share}",
                flush=True,
            )


if __name__ == "__main__":
    main()
