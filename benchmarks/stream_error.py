"""What one budget for a year of nights gains over a budget a night: the noise in what is shown.

Printed: root mean square over 365 nights of the noise in a shown cell, in units of the noise that
a single release of one night has under the same rho; each person may count on k nights, at least b
nights apart. "Measured" draws the whole stream and takes the error of what is shown.

    python benchmarks/stream_error.py
"""

from __future__ import annotations

import math

import numpy as np
from scipy.signal import lfilter

from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import relative_error, released_night, stream_of
from hushrank.privacy.stream_encoder import Terms, Workload
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

NIGHTS, CELLS, RHO = 365, 4_000, 0.5
ONE_RELEASE = math.sqrt(1 / (2 * RHO))  # its standard deviation, of a sensitivity of 1
WORKLOADS = {"last 28 days": Workload(28), "all so far": Workload(None)}
PATTERNS = ((52, 7), (26, 14), (12, 28))  # k, b


def measured(workload: Workload, terms: Terms, bands: int) -> float:
    """The same number from noise drawn by the stream itself."""
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.ADD_REMOVE,
        epsilon=math.inf,
        rho=RHO,
        noise=NoiseKind.GAUSSIAN,
    )
    stream = stream_of(params, Sensitivity(1, 1), terms, workload, bands)
    nothing, bits = np.zeros(CELLS, np.int64), seeded_bits(bands)
    nights = np.stack([released_night(stream, [nothing], bits) for _ in range(NIGHTS)])
    shown = lfilter(
        workload.column(NIGHTS), stream.encoder.coefficients, nights.astype(float), axis=0
    )
    return float(np.sqrt(np.square(shown).mean())) / ONE_RELEASE


def main() -> None:
    """Print the table."""
    print("shown          nights of a person    caps alone    with the encoder    measured")
    for name, workload in WORKLOADS.items():
        terms = Terms(nights=NIGHTS, participations=NIGHTS, gap=1)
        today = relative_error(workload, terms, 1)
        print(f"{name:14} {'every night':20} {today:11.1f}")
        for times, gap in PATTERNS:
            terms = Terms(nights=NIGHTS, participations=times, gap=gap)
            bands = workload.most_bands(terms)
            caps, encoder = (relative_error(workload, terms, each) for each in (1, bands))
            pattern = f"{times}, {gap} apart"
            drawn = measured(workload, terms, bands)
            print(f"{name:14} {pattern:20} {caps:11.1f} {encoder:18.1f} {drawn:13.1f}")


if __name__ == "__main__":
    main()
