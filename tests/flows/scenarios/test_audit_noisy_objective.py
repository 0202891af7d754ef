"""Black-box audit of `noisy-objective`: two adjacent logs on disk in, released scores out.

Where one comparison pulls with nearly all its force, since item 1 beat item 0 a hundred thousand
times, the mechanism is a Gaussian one in one dimension, and its loss exceeds epsilon with nearly
the delta that is stated: at a delta of a tenth an audit sees it. The bound of a correct mechanism
is below epsilon with probability 1 - 10^-6.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.estimation.comparisons import perturbed_mle
from hushrank.flows.methods.registry import METHODS
from hushrank.flows.run.confidential_folder import load_arrays
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.pipelines.reduce import reduce
from hushrank.privacy.audit import audit_epsilon, one_by_one
from hushrank.privacy.exact_minimiser import gridded
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import system_bits
from tests.flows.conftest import Survey
from tests.statistics import FALSE_POSITIVE_RATE

EPSILON, DELTA = 3.0, 0.1
OFTEN = 100_000
FEW, MANY = 3_000, 7_000  # trials; with many, half the noise escapes less than once in 10^6
SETTINGS = {
    "name": "zoo",
    "input": {
        "kind": "comparisons",
        "columns": {"left": "item_i", "right": "item_j"},
        "design": "random",
        "paths": ["rows.parquet"],
    },
    "items": {"count": 2},
    "privacy": {
        "unit": "comparison",
        "adjacency": "add-remove",
        "noise": "gaussian",
        "epsilon": EPSILON,
        "delta": DELTA,
    },
    "model": {"expected_comparisons": OFTEN, "gamma": 20.0},
    "method": "noisy-objective",
    "output": "out",
    "confidential": "work",
    "ledger": {"path": "ledger.jsonl", "epsilon": 100, "delta": 0.5},
}


def found(folder: Path, trials: int) -> float:
    """Largest epsilon at `DELTA` that the released scores prove."""
    config, exact = Survey(folder, SETTINGS).set().config, []
    for upsets in (1, 0):
        wins = np.repeat(np.array([1, -1], np.int8), [upsets, OFTEN])  # of item 0 over item 1
        items = {"item_i": np.zeros(len(wins), np.int64), "item_j": np.ones(len(wins), np.int64)}
        pq.write_table(pa.table({**items, "outcome": wins}), folder / "rows.parquet")
        job = prepare_job(read_survey(config, anyway=True))
        method, key = METHODS[job.config.method], SecretKey.draw(job.bits())
        work = folder / f"work{upsets}"
        reduce.run(method.reduction(job.config, job.mechanism, job.files, key, str(work)))
        exact.append(load_arrays(work / "exact.npz"))

    @one_by_one
    def release(arrays):
        return method.draw(arrays, job.mechanism, system_bits())["scores"][:1]

    return audit_epsilon(
        release,
        *exact,
        trials=trials,
        confidence=1 - FALSE_POSITIVE_RATE,
        delta=DELTA,
    ).epsilon_lower


@pytest.mark.slow
def test_it_keeps_its_epsilon_and_spends_much_of_it(tmp_path):
    assert EPSILON / 4 < found(tmp_path, FEW) <= EPSILON


@pytest.mark.slow
def test_half_the_noise_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(perturbed_mle, "gridded", lambda kind, scale: gridded(kind, scale / 2))
    assert found(tmp_path, MANY) > EPSILON
