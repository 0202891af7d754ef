"""The central mechanisms on differential measurements: exact counts in, noisy counts out.

Noise goes on every entry of the public graph, whatever it counts. Erratum E5: the script of [NZ]
adds noise only where a count is not zero, so a zero that stays zero shows that nobody was right on
the one item and wrong on the other. That is not private at any epsilon.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Algorithm 2.
"""

from __future__ import annotations

import numpy as np

from hushrank.estimation.common.central_noise import Calibration, calibrate
from hushrank.estimation.responses.measurements import DifferentialMeasurements
from hushrank.privacy.measurement_sensitivity import measurement_sensitivity
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import PrivacyParams


def calibrate_measurements(
    params: PrivacyParams, n_items: int, n_edges: int, largest_degree: int | None = None
) -> Calibration:
    """Noise for the measurements on a graph of so many edges; from public parameters only.

    See [NZ] Lemma 4.1, with erratum E6 (`privacy.measurement_sensitivity`).
    """
    sensitivity = measurement_sensitivity(params, n_items, n_edges, largest_degree)
    return calibrate(params, sensitivity, "measurement_sensitivity")


def release_measurements(
    measurements: DifferentialMeasurements, calibration: Calibration, bits: RandomBits
) -> DifferentialMeasurements:
    """Add independent noise to both entries of every edge of the graph, zeros included.

    Guarantee: that for which `calibration` was made, for counts in which nobody has more than
    `max_contributions` answers, if `bits.safe`. Off the graph nothing is released: those entries
    are zero for everyone.

    Args:
        measurements: confidential counts.
        calibration: of `calibrate_measurements`, for this graph.
        bits: `system_bits()` in a release.

    Returns:
        Counts that may be published.

    Raises:
        ValueError: the counts had noise added already.
    """
    if not measurements.confidential:
        raise ValueError("counts have noise already: adding it again would not protect more")
    entries, noisy = measurements.graph.entries, np.zeros_like(measurements.y)
    noisy[entries] = add_noise(measurements.y[entries], calibration.law, bits)
    return DifferentialMeasurements(noisy, measurements.graph, confidential=False)
