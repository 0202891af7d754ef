"""The central mechanisms on differential measurements: exact counts in, noisy counts out.

Noise goes on every entry of the public graph, whatever it counts. Erratum E5: the script of [NZ]
adds noise only where a count is not zero, so a zero that stays zero shows that nobody was right on
the one item and wrong on the other. That is not private at any epsilon.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Algorithm 2.
"""

from __future__ import annotations

import numpy as np

from hushrank.estimation.central_noise import Calibration, calibrate
from hushrank.estimation.differential import DifferentialMeasurements
from hushrank.estimation.item_graph import ItemGraph
from hushrank.privacy.differential import measurement_sensitivity
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import PrivacyParams


def calibrate_measurements(params: PrivacyParams, graph: ItemGraph) -> Calibration:
    """Noise for the measurements on `graph`; it depends on public parameters only.

    See [NZ] Lemma 4.1, with erratum E6 (`privacy.differential`).
    """
    return calibrate(params, measurement_sensitivity(params, graph.n_items, graph.n_edges))


def release_measurements(
    measurements: DifferentialMeasurements, params: PrivacyParams, bits: RandomBits
) -> tuple[DifferentialMeasurements, Calibration]:
    """Add independent noise to both entries of every edge of the graph, zeros included.

    Guarantee: that of `params`, for counts in which nobody has more than `max_contributions`
    answers, if `bits.safe`. Off the graph nothing is released: those entries are zero for everyone.

    Args:
        measurements: confidential counts.
        params: unit `user`, adjacency, budget and enforced bound on answers.
        bits: `system_bits()` in a release.

    Returns:
        Counts that may be published, and how they were made so.

    Raises:
        ValueError: the counts had noise added already.
    """
    if not measurements.confidential:
        raise ValueError("counts have noise already: adding it again would not protect more")
    graph = measurements.graph
    calibration = calibrate_measurements(params, graph)
    noisy = np.zeros_like(measurements.y)
    noisy[graph.entries] = add_noise(measurements.y[graph.entries], calibration.law, bits)
    return DifferentialMeasurements(noisy, graph, confidential=False), calibration
