"""`method: perturbed-mle` as a person runs it: scores and nothing else."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hushrank.flows.methods.registry import METHODS, load_config
from hushrank.privacy.randomness import system_bits
from tests.flows.conftest import ITEMS

N = len(ITEMS)
COUNTS = np.array([[0, 90, 80, 95], [10, 0, 70, 60], [20, 30, 0, 55], [5, 40, 45, 0]], np.int64)


@pytest.fixture
def mle(survey):
    return survey.set(method="perturbed-mle", model={"expected_comparisons": 600})


def published(survey) -> dict:
    return json.loads((survey.output / "release.json").read_text())


def test_a_run_releases_scores_and_nothing_else(mle, command):
    code, printed = command("run", mle.config, "--direct")
    assert code == 0, printed
    release = published(mle)
    assert release["released"].keys() == {"kind", "scores", "exposures"}
    assert release["released"]["exposures"] is None
    scores = release["released"]["scores"]
    assert list(scores) == ITEMS
    assert sum(scores.values()) == pytest.approx(0, abs=1e-9)
    assert {line["item"]: line["score"] for line in release["ranking"]} == scores
    assert release["ranking"][0]["item"] == "ants"
    assert release["scale"] == "log-odds"
    assert release["ranking"][0]["low"] < scores["ants"] < release["ranking"][0]["high"]
    header = (mle.output / "ranking.csv").read_text().splitlines()[0]
    assert header == (
        "rank,item,score,low,high,rank_low,rank_high,group,unit,low_all,high_all,rank_low_all,"
        "rank_high_all,surely_above,p_best,p_top_3,se"
    )
    assert "Noisy wins" not in (mle.output / "report.html").read_text()


def test_the_exact_counts_are_gone_once_the_noise_is_drawn(mle, command):
    command("run", mle.config, "--direct")
    left = {path.name for path in mle.work.rglob("*") if path.is_file()}
    assert "exact.npz" not in left
    (drawn,) = mle.work.rglob("drawn.npz")
    with np.load(drawn) as stored:
        assert set(stored.files) == {"scores", "created", "code_version", "law"}
        assert stored["scores"].shape == (N,)


def test_all_of_epsilon_is_charged_the_last_digits_included(mle, command):
    _, printed = command("run", mle.config, "--direct")
    assert "Spent epsilon 2.00; zoo has epsilon 3.00 left of 5.00" in printed
    parameters = published(mle)["privacy"]["parameters"]
    assert parameters["epsilon_out"] == pytest.approx(0.02)
    assert parameters["epsilon_by_the_proof"] <= 2.0 + 1e-9
    reserved = [json.loads(line) for line in mle.ledger.read_text().splitlines()]
    (spend,) = [line["spend"] for line in reserved if "spend" in line]
    assert spend == {"epsilon": 2.0, "delta": 0.0, "rho": None, "l2_squared": 1}


def test_exposures_that_are_released_have_noise_of_the_stated_scale(survey):
    """160 draws: their mean size is within 40 % of the scale but with a probability of 1e-6."""
    config = load_config(survey.set(method="perturbed-mle").config)
    method = METHODS["perturbed-mle"]
    mechanism, exact = method.calibrate(config), COUNTS.sum(axis=0) + COUNTS.sum(axis=1)
    drawn = [method.draw({"counts": COUNTS}, mechanism, system_bits()) for _ in range(40)]
    errors = np.abs([each["exposures"] - mechanism.ties.row_weight * exact for each in drawn])
    assert errors.mean() == pytest.approx(mechanism.exposures.law.scale, rel=0.4)
    parts = (mechanism.exposures.spend.epsilon, mechanism.params.epsilon)
    assert sum(parts) <= config.privacy.epsilon
    assert sum(parts) == pytest.approx(config.privacy.epsilon)


def test_gaussian_noise_costs_epsilon_and_delta(mle, command):
    config = mle.set(privacy__noise="gaussian", privacy__delta=1e-7).config
    code, printed = command("run", config, "--direct")
    assert code == 0, printed
    privacy = published(mle)["privacy"]
    assert (privacy["epsilon"], privacy["delta"], privacy["rho"]) == (2.0, 1e-7, None)
    assert privacy["mechanism"] == "objective-perturbation-gaussian"


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        (
            {"model": {"expected_comparisons": 600, "gamma": 0.01}},
            "model.gamma: ridge 0.01 is too small: at epsilon 1.98 these bounds and constants:",
        ),
        (
            {"privacy": {"unit": "comparison", "noise": "gaussian", "rho": 0.1}},
            "privacy.rho: method: perturbed-mle gives epsilon and delta, not rho; write epsilon",
        ),
        (
            {"items": {"count": 100_001}},
            "items: method: perturbed-mle takes at most 100000 items, got 100001;",
        ),
    ],
)
def test_what_cannot_be_private_is_refused_before_anything_is_read(mle, command, changes, rule):
    code, printed = command("run", mle.set(**changes).config, "--direct")
    assert code == 2
    assert f"{mle.config}: {rule}" in printed
    assert not mle.ledger.exists()


def test_a_public_graph_is_quoted_in_the_release(mle, command):
    stated = "every student was shown all pairs"
    public = {"privacy__public_graph": True, "privacy__public_graph_statement": stated}
    config = mle.set(**public, input__ties="split").config
    command("run", config, "--direct")
    privacy = published(mle)["privacy"]
    assert f"“{stated}”" in " ".join(privacy["statement"])
    assert privacy["parameters"]["public_graph"] is True
    assert stated in (mle.output / "report.html").read_text()


@pytest.mark.parametrize("times", [10**3, 10**9, 10**15])
def test_no_number_of_rows_makes_a_release_fail(mle, times):
    """Six hundred comparisons of an item are expected; here there are up to 10^17."""
    method, config = METHODS["perturbed-mle"], load_config(mle.config)
    mechanism = method.calibrate(config)
    drawn = method.draw({"counts": times * COUNTS}, mechanism, system_bits())
    conclusion = method.conclude(drawn, mechanism, config)
    assert np.argmax(conclusion.estimate.scores) == 0
    assert np.isfinite(conclusion.estimate.scores).all()


@pytest.mark.parametrize("model", [{"gamma": 40.0}, {"c0": 2.0}, {}])
def test_gamma_does_not_depend_on_the_answers(mle, model):
    config = load_config(mle.set(model={"expected_comparisons": 600} | model).config)
    method = METHODS["perturbed-mle"]
    mechanism, gammas = method.calibrate(config), set()
    for factor in (1, 50):
        drawn = method.draw({"counts": factor * COUNTS}, mechanism, system_bits())
        gammas.add(method.conclude(drawn, mechanism, config).privacy.parameters["gamma"])
    (gamma,) = gammas
    if "gamma" in model:
        assert gamma == 40.0
    if "c0" in model:
        assert gamma == pytest.approx(2 * np.sqrt(600 * np.log(N)))


def test_much_too_little_epsilon_is_called_uninformative(mle, command):
    _, printed = command("run", mle.set(privacy__epsilon=0.001).config, "--direct")
    assert "Nothing useful can be learned from this release" in printed
    assert published(mle)["informative"] is False


def test_without_privacy_it_is_the_penalised_estimate(mle, command):
    config = mle.set(privacy__epsilon="inf").config
    code, printed = command("run", config, "--direct", "--no-privacy")
    assert code == 0, printed
    release = published(mle)
    assert release["safe"] is False
    assert release["privacy"]["mechanism"] == "none"


def write_design(survey, text: str):
    (survey.folder / "shown.csv").write_text(text)
    return survey.set(method="perturbed-mle", model={"exposures": "shown.csv"})


ITEMS_FILE = "item,exposure\n" + "".join(f"{item},600\n" for item in ITEMS)
PAIRS_FILE = "left,right,comparisons\n" + "".join(
    f"{a},{b},200\n" for k, a in enumerate(ITEMS) for b in ITEMS[k + 1 :]
)


@pytest.mark.parametrize(("text", "of"), [(ITEMS_FILE, "items"), (PAIRS_FILE, "pairs")])
def test_public_exposures_cost_nothing(survey, command, text, of):
    code, printed = command("run", write_design(survey, text).config, "--direct")
    assert code == 0, printed
    release = published(survey)
    assert release["informative"]
    assert release["released"]["exposures"] == dict.fromkeys(ITEMS, 600.0)
    privacy = release["privacy"]
    assert privacy["parameters"]["stated_exposures"] == of
    assert "exposures_epsilon" not in privacy["parameters"]
    said = " ".join(privacy["statement"])
    assert "was stated by the operator as a public fact that nobody counted in the answers" in said
    mechanism = METHODS["perturbed-mle"].calibrate(load_config(survey.config))
    assert mechanism.params.epsilon == mechanism.spend.epsilon == 2.0
    assert mechanism.exposures is None


def test_other_numbers_make_another_job_and_another_name_of_the_file_does_not(survey):
    job = load_config(write_design(survey, ITEMS_FILE).config).job_hash()
    (survey.folder / "moved.csv").write_text(ITEMS_FILE)
    assert load_config(survey.set(model={"exposures": "moved.csv"}).config).job_hash() == job
    other = write_design(survey, ITEMS_FILE.replace("600", "500"))
    assert load_config(other.config).job_hash() != job


@pytest.mark.parametrize(
    ("text", "changes", "rule"),
    [
        ("item,exposure\nants,1\n", {}, "shown.csv: item 'bees' is missing; add a line for every"),
        ("item,exposure\nants,x\n", {}, "shown.csv: line 2: exposure must be a number >= 0, got"),
        (ITEMS_FILE, {"model__expected_comparisons": 5}, "follows from model.exposures; remove"),
        (ITEMS_FILE, {"method": "noisy-pairs"}, "is not used by method: noisy-pairs; remove it"),
        (
            ITEMS_FILE,
            {"privacy__public_graph": True, "privacy__public_graph_statement": "all met"},
            "is public already with public_graph: true; remove one of them",
        ),
    ],
)
def test_exposures_that_cannot_be_are_refused(survey, command, text, changes, rule):
    code, printed = command("run", write_design(survey, text).set(**changes).config, "--direct")
    assert code == 2
    assert rule in " ".join(printed.split())
    assert not survey.ledger.exists()


def test_a_plan_invents_the_public_design(survey, command):
    often = ITEMS_FILE.replace("ants,600", "ants,1500")
    drawn = {"unit": "user", "epsilon": 2.0, "max_contributions": 2}  # of 6 pairs
    config = write_design(survey, often).set(input__design="random", privacy=drawn).config
    code, printed = command("plan", config, "--people", 300, "--epsilon", 2)
    assert code == 0, printed
    assert "shown.csv" in printed
    assert "is shown 1.0 times" not in printed
