"""Rows with weights from the YAML file to the release, and an audit of what is drawn from them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows.methods.registry import METHODS
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.pipelines.reduce import reduce
from hushrank.privacy.audit import audit_epsilon, one_by_one
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.row_weights import FACTOR_BITS
from hushrank.transforms.common.encode import weights_of
from tests.flows.conftest import ITEMS, Survey, answers
from tests.statistics import FALSE_POSITIVE_RATE, discrete_gaussian_pmf, law_p_value

PAIRS = np.array(np.triu_indices(len(ITEMS), 1))
GAUSSIAN = {"noise": "gaussian", "delta": 1.0e-6}
HEAVY = {"privacy__bounding": "weights", "privacy__max_contributions": 2}
WEIGHTS = {"input__columns__weight": "w", "privacy__max_weight": 1.5}
TRIALS = 3_000


def weighted(survey: Survey, **changes: object) -> Survey:
    """The survey with Gaussian noise, answers that have weights, and heavy users."""
    log = answers(200)
    weights = np.random.default_rng(3).choice([0.5, 1.0, 1.25], len(log))
    pq.write_table(log.append_column("w", pa.array(weights)), survey.folder / "answers.parquet")
    noise = {f"privacy__{key}": value for key, value in GAUSSIAN.items()}
    settings = {**noise, "method": "noisy-pairs", **HEAVY, **WEIGHTS, **changes}
    return survey.set(**settings)


@pytest.mark.usefixtures("drawn_figures")
@pytest.mark.parametrize("method", ["noisy-pairs", "noisy-counts", "win-loss"])
@pytest.mark.parametrize("ties", ["drop", "split"])
def test_a_job_with_weights_releases_says_and_ranks(survey, command, method, ties):
    weighted(survey, method=method, input__ties=ties)
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    release = json.loads((survey.output / "release.json").read_text())
    privacy = release["privacy"]
    units = 2_000 if ties == "split" else 1_000
    assert release["released"]["row_weight"] == units
    parameters = privacy["parameters"]
    assert parameters["bounding"] == "weights"
    assert parameters["max_weight"] == 1.5
    assert parameters["units_of_a_comparison"] == units
    assert 0 < parameters["design_effect"] <= 1.5
    assert release["ranking"][0]["item"] == "ants"
    text = " ".join(privacy["statement"])
    assert "All answers of each person count, at most one on each pair of items." in text
    assert "An answer counts by its weight, a column of the input, and by 1.5 at most." in text
    assert f"in units of 1/{units:,} of an answer of weight 1" in text
    page = (survey.output / "report.html").read_text()
    assert f"1/{units:,} of a win of weight 1" in page
    assert "Answers per person that count in full, at most" in page
    assert "all answers of a person count, and less each where more than 2" in printed


def test_weights_alone_go_with_laplace_noise_and_one_comparison(survey, command):
    weighted(survey, privacy__noise=None, privacy__delta=None, privacy__bounding=None)
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    person = {"privacy__max_contributions": None, "privacy__distinct_pairs": None}
    folder = {"output": "rows", "ledger__path": "other.jsonl", "confidential": "rows-work"}
    survey.set(name="rows", privacy__unit="comparison", **folder, **person)
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    release = json.loads((survey.folder / "rows" / "release.json").read_text())
    assert release["privacy"]["sensitivity_l1"] == 2 * 1_500  # squares cost nothing


REFUSED = [
    ({"privacy__noise": "laplace", "privacy__delta": None}, "bounding: weights needs noise: gauss"),
    ({"privacy__distinct_pairs": False}, "bounding: weights needs distinct_pairs: true"),
    ({"method": "perturbed-mle"}, "bounding: weights does not go with method: perturbed-mle"),
    ({"method": "auto"}, "bounding: weights does not go with method: auto"),
    ({"privacy__max_weight": None}, "max_weight: missing; input.columns.weight needs the largest"),
    ({"input__columns__weight": None}, "max_weight: bounds input.columns.weight; add that"),
    ({"privacy__max_weight": 1.23456}, "max_weight: must be from 1 to 30 with at most 3 decimals"),
    ({"privacy__max_weight": 31}, "max_weight"),
    (
        {"method": "perturbed-mle", "privacy__bounding": None},
        "input.columns.weight: method: perturbed-mle counts every row once",
    ),
    (
        {"privacy__public_graph": True, "privacy__public_graph_statement": "all were asked"},
        "bounding: not with public_graph: true",
    ),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_weights_do_not_go_with_is_refused(survey, command, changes, message):
    weighted(survey, **changes)
    code, printed = command("validate", survey.config)
    assert code == 2
    assert message in " ".join(printed.split())


def test_auto_takes_a_method_that_takes_weights_of_a_survey(survey, command):
    weighted(survey, method="auto", privacy__bounding=None, input__design="any")
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    assert json.loads((survey.output / "release.json").read_text())["method"] == "noisy-pairs"


def exact_arrays(survey: Survey, won: bool, folder: str) -> dict[str, np.ndarray]:
    """Arrays of a log in which person 999 answers all pairs, the lower item winning or losing."""
    person = pa.table(
        {
            "user": np.full(len(PAIRS[0]), 999),
            "item_i": PAIRS[0],
            "item_j": PAIRS[1],
            "outcome": np.full(len(PAIRS[0]), 1 if won else -1, np.int8),
            "w": np.full(len(PAIRS[0]), 4.0),
        }
    )
    others = answers(3).append_column("w", pa.array(np.ones(18)))
    pq.write_table(pa.concat_tables([others, person]), survey.folder / "answers.parquet")
    job = prepare_job(read_survey(survey.config, anyway=True))
    place, key = str(survey.folder / folder), SecretKey.draw(system_bits())
    method = METHODS[job.config.method]
    reduce.run(method.reduction(job.config, job.mechanism, job.files, key, place))
    with np.load(f"{place}/exact.npz") as arrays:
        return dict(arrays)


def unclipped(column, most):
    return weights_of(column, 1_000 * most)


def no_factor(factors, rows):
    return np.full(len(rows), 1 << FACTOR_BITS)


BUGS = {
    "W not clipped": ("hushrank.transforms.common.encode.weights_of", unclipped),
    "no factor": ("hushrank.privacy.row_weights.RowFactors.of", no_factor),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", [None, *BUGS])
def test_an_audit_of_the_run_passes_it_and_finds_planted_bugs(survey, monkeypatch, bug):
    epsilon, delta = 1.0, 0.01
    guarantee = {"privacy__epsilon": epsilon, "privacy__delta": delta, "ledger__delta": 0.1}
    weighted(survey, privacy__max_contributions=1, **guarantee)
    if bug is not None:
        monkeypatch.setattr(*BUGS[bug])
    one, other = (exact_arrays(survey, won, f"exact{won}") for won in (True, False))
    job = prepare_job(read_survey(survey.config, anyway=True))
    method = METHODS[job.config.method]

    @one_by_one
    def release(exact):
        drawn = method.draw(exact, job.mechanism, system_bits())
        return np.concatenate([drawn["wins"].ravel(), drawn["squares"]])

    confidence = 1 - FALSE_POSITIVE_RATE
    found = audit_epsilon(release, one, other, trials=TRIALS, confidence=confidence, delta=delta)
    if bug is None:
        change = one["counts"] - other["counts"]
        assert 0.99 < np.square(change).sum() / (2 * 1_500**2) <= 1, "the worst case, and bounded"
        assert found.epsilon_lower <= epsilon
    else:
        assert found.epsilon_lower > epsilon


def test_the_noise_has_the_law_that_is_stated_on_counts_and_on_the_squares(survey):
    weighted(survey)
    job = prepare_job(read_survey(survey.config))
    method, mechanism = METHODS[job.config.method], job.mechanism
    divisor, n = mechanism.squares_divisor, len(ITEMS)
    exact = {"counts": np.zeros((n, n), np.int64), "squares": np.array([7 * divisor + 1])}
    drawn = [method.draw(exact, mechanism, system_bits()) for _ in range(600)]
    cells = ~np.eye(n, dtype=bool)
    noise = {
        "counts": np.concatenate([each["wins"][cells] for each in drawn]),
        "squares": np.concatenate([each["squares"] - 7 for each in drawn]),
    }
    for sample in noise.values():
        scale = mechanism.law.scale
        assert law_p_value(sample, discrete_gaussian_pmf(scale)) > FALSE_POSITIVE_RATE
        wrong = 1.6 if len(sample) < 1_000 else 1.15
        for factor in (wrong, 1 / wrong):
            assert law_p_value(sample, discrete_gaussian_pmf(factor * scale)) < FALSE_POSITIVE_RATE


def test_a_look_comes_before_weighted_rows_and_bad_weights_are_bad_rows(survey, command):
    weighted(survey, privacy__look=0.05)
    path = survey.folder / "answers.parquet"
    log = pq.read_table(path)
    log = log.set_column(4, "w", pa.array([-1.0] * 400 + [1.0] * (len(log) - 400)))
    pq.write_table(log, path)
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    reasons = {
        reason
        for file in (survey.work).rglob("rejects/*.parquet")
        for reason in pq.read_table(file)["reason"].to_pylist()
    }
    assert reasons == {"weight is no number from 0 on"}
    seen = json.loads((survey.output / "release.json").read_text())["look"]
    assert seen["unfit"] > 0
