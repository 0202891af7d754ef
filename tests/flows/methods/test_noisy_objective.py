"""`method: noisy-objective`: the perturbed likelihood with gaussian noise."""

from __future__ import annotations

import json

import pyarrow.parquet as pq

from tests.flows.conftest import answers

MODEL = {"expected_comparisons": 3000}


def test_it_is_the_gaussian_variant_of_perturbed_mle(survey, command):
    # Ants are then ahead by 9 standard deviations of what the noise does to scores.
    pq.write_table(answers(1000), survey.folder / "answers.parquet")
    survey.set(
        method="noisy-objective", model=MODEL, privacy__noise="gaussian", privacy__delta=1e-6
    )
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    release = json.loads((survey.output / "release.json").read_text())
    assert release["method"] == "noisy-objective"
    assert release["privacy"]["delta"] == 1e-6
    assert release["ranking"][0]["item"] == "ants"
    assert "Spent epsilon 2.00, delta 1e-06; zoo has epsilon" in printed


def test_laplace_noise_is_refused(survey, command):
    survey.set(method="noisy-objective", model=MODEL)
    code, printed = command("run", survey.config, "--direct")
    assert code == 2
    assert printed.partition("\n")[2].strip() == (
        f"{survey.config}: privacy.noise: must be gaussian with method: noisy-objective; write it,"
        " with a delta"
    )
