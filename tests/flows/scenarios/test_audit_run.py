"""Black-box audit of a whole run: two adjacent logs on disk in, released counts out.

The exact counts come from the real configuration and pipeline; then the method draws many times,
as a run would draw once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows.methods.registry import METHODS
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.pipelines.reduce import reduce
from hushrank.privacy.audit import audit_epsilon, one_by_one
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.units import NoiseKind
from tests.flows.conftest import Survey, answers
from tests.statistics import FALSE_POSITIVE_RATE

ROWS = 6  # L
HEAVY = 40  # rows of the person who changes: bounding must cut them to L
OURS, PUBLISHED = 10_000, 60_000  # trials: one draw at a time, and all at once


def exact_counts(survey: Survey, wins_of: int) -> np.ndarray:
    """Counts of a log in which person 999 makes item `wins_of` win over the other of 0 and 1."""
    person = pa.table(
        {
            "user": np.full(HEAVY, 999),
            "item_i": np.zeros(HEAVY, np.int64),
            "item_j": np.ones(HEAVY, np.int64),
            "outcome": np.full(HEAVY, 1 if wins_of == 0 else -1, np.int8),
        }
    )
    log = pa.concat_tables([answers(3), person])
    path = survey.folder / "answers.parquet"
    pq.write_table(log, path, row_group_size=7)
    job = prepare_job(read_survey(survey.config))
    folder = survey.folder / f"exact{wins_of}"
    key = SecretKey.draw(system_bits())
    reduction = METHODS[job.config.method].reduction(
        job.config, job.mechanism, job.files, key, str(folder)
    )
    reduce.run(reduction)
    return np.load(folder / "exact.npz")["counts"]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_run_keeps_its_epsilon_and_the_published_scale_does_not(survey, epsilon):
    survey.set(privacy__epsilon=epsilon, privacy__distinct_pairs=False)
    one, other = exact_counts(survey, 0), exact_counts(survey, 1)
    assert np.abs(one - other).sum() == 2 * ROWS, "the worst case, and bounded"
    job = prepare_job(read_survey(survey.config))

    @one_by_one
    def ours(counts):
        method = METHODS[job.config.method]
        return method.draw({"counts": counts}, job.mechanism, system_bits())["counts"]

    def as_published(counts, runs):  # Laplace(L / epsilon), erratum E1
        law = NoiseLaw(NoiseKind.LAPLACE, ROWS / epsilon)
        return add_noise(np.tile(counts, (runs, 1)), law, system_bits())

    def bound(release, trials):
        confidence = 1 - FALSE_POSITIVE_RATE
        return audit_epsilon(
            release, one, other, trials=trials, confidence=confidence
        ).epsilon_lower

    assert bound(ours, OURS) <= epsilon
    assert bound(as_published, PUBLISHED) > epsilon


def test_a_draw_of_counts_that_have_noise_already_is_refused(survey):
    job = prepare_job(read_survey(survey.config))
    noisy = {"counts": np.array([-5, 1, 2, 3])}
    with pytest.raises(ValueError, match="wins without noise cannot be negative"):
        METHODS[job.config.method].draw(noisy, job.mechanism, system_bits())
