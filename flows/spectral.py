"""Method `spectral`: difficulties of test items from noisy pairwise measurements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.central_noise import Calibration
from hushrank.estimation.differential import DifferentialMeasurements, measurements_on
from hushrank.estimation.item_graph import (
    ItemGraph,
    complete_graph,
    connecting_probability,
    random_graph,
)
from hushrank.estimation.private_measurements import calibrate_measurements, release_measurements
from hushrank.estimation.spectral_estimate import SpectralEstimate, estimate_difficulties
from hushrank.flows.config import SurveyConfig
from hushrank.flows.config_spectral import GraphKind, SpectralConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.method import Arrays, Conclusion, Terms
from hushrank.flows.privacy_record import Parameter, count_record
from hushrank.flows.release import NOT_INFORMATIVE
from hushrank.flows.released import ReleasedMeasurements
from hushrank.flows.scale import Scale
from hushrank.flows.spectral_statement import measurement_words
from hushrank.flows.survey_reduction import reduce_test
from hushrank.flows.wording import name_list
from hushrank.pipelines.responses_job import ReduceResponses
from hushrank.privacy.randomness import RandomBits, seeded_bits
from hushrank.privacy.units import Unit
from hushrank.transforms.files import InputFile

MOST_ITEMS = 5000  # a chain of more is not solved directly
NO_ANSWERS = (
    "Nothing can be learned from this release: nobody was right on one item and wrong on another."
)


class Spectral:
    """Algorithm 2 of Nguyen and Zhang: see `estimation.spectral_estimate`."""

    def terms(self, config: SurveyConfig) -> Terms:
        """Cost and noise."""
        problems = list(_problems(config))
        if problems:
            raise ConfigError("\n".join(problems))
        graph = public_graph(config)
        calibration = calibrate_measurements(config.privacy.params(), graph)
        return Terms.of(calibration, f"on every count of {graph.n_edges:,} pairs of items")

    def reduction(
        self, config: SurveyConfig, files: tuple[InputFile, ...], key: bytes, folder: str
    ) -> ReduceResponses:
        """Count, for each pair of items, who was right on the one and wrong on the other."""
        most = config.privacy.params().max_contributions
        return reduce_test(config, files, key, folder, max_answers=most)

    def draw(self, exact: Arrays, config: SurveyConfig, bits: RandomBits) -> Arrays:
        """Add noise to both counts of every pair of the graph."""
        measurements = measurements_on(public_graph(config), exact["y"])
        noisy, _ = release_measurements(measurements, config.privacy.params(), bits)
        return {"y": noisy.y}

    def conclude(self, drawn: Arrays, config: SurveyConfig) -> Conclusion:
        """Difficulties from the noisy counts."""
        graph, params = public_graph(config), config.privacy.params()
        measurements = DifferentialMeasurements(drawn["y"], graph, confidential=False)
        calibration = calibrate_measurements(params, graph)
        found = estimate_difficulties(measurements, calibration.law, params.max_contributions)
        names = config.items.catalogue().names
        return Conclusion(
            estimate=found.estimate,
            privacy=count_record(
                measurement_words(graph, calibration.sensitivity),
                params,
                calibration.law,
                calibration.sensitivity,
                None,
                _parameters(config, graph),
            ),
            released=ReleasedMeasurements.of(measurements, names),
            scale=Scale.DIFFICULTY,
            warnings=tuple(_warnings(found, calibration, graph, names)),
        )


def _problems(config: SurveyConfig) -> Iterator[str]:
    privacy, n_items = config.privacy, len(config.items.catalogue())
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
    if n_items > MOST_ITEMS:
        yield f"items: must be at most {MOST_ITEMS} for method: spectral, got {n_items}"


def _settings(config: SurveyConfig) -> SpectralConfig:
    return config.spectral or SpectralConfig()


def public_graph(config: SurveyConfig) -> ItemGraph:
    """The public graph: the same whenever the same job asks, and without a look at the data."""
    settings, n_items = _settings(config), len(config.items.catalogue())
    if settings.graph is GraphKind.DENSE:
        return complete_graph(n_items)
    seed = int(config.job_hash(), 16)  # anybody may draw this graph again: it is no secret
    try:
        return random_graph(n_items, _edge_probability(settings, n_items), seeded_bits(seed))
    except ValueError as error:
        raise ConfigError(f"spectral.edge_probability: too small: {error}") from None


def _edge_probability(settings: SpectralConfig, n_items: int) -> float:
    return settings.edge_probability or connecting_probability(n_items)


def _parameters(config: SurveyConfig, graph: ItemGraph) -> dict[str, Parameter]:
    settings = _settings(config)
    parameters: dict[str, Parameter] = {"graph": settings.graph.value, "pairs": graph.n_edges}
    if settings.graph is GraphKind.SPARSE:
        parameters["edge_probability"] = _edge_probability(settings, graph.n_items)
    return parameters


def _warnings(
    found: SpectralEstimate, calibration: Calibration, graph: ItemGraph, names: Sequence[str]
) -> Iterator[str]:
    noisy = calibration.law.variance > 0
    if not found.estimate.informative:
        yield NOT_INFORMATIVE if noisy else NO_ANSWERS
        return
    linked = found.connection
    alone = linked.no_lower_limit & linked.no_upper_limit
    what = "released counts" if noisy else "counts"
    for where, said in (
        (alone, f"The {what} do not tell the difficulty of {{}}."),
        (
            linked.no_upper_limit & ~alone,
            f"The {what} do not show that anybody was right on {{}}: no limit to how hard that is.",
        ),
        (
            linked.no_lower_limit & ~alone,
            f"The {what} do not show that anybody was wrong on {{}}: no limit to how easy that is.",
        ),
    ):
        if where.any():
            yield said.format(_named(names, where))
    if found.n_clipped:
        yield (
            f"{found.n_clipped:,} of {2 * graph.n_edges:,} noisy counts are below zero and were"
            " raised to zero, which draws the difficulties together; the intervals allow for that."
        )


def _named(names: Sequence[str], where: NDArray[np.bool_]) -> str:
    return name_list([names[item] for item in np.flatnonzero(where).tolist()])
