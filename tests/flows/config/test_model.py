"""The `model` section and the public graph: what each method takes, and what a person reads."""

from __future__ import annotations

import pytest

from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config
from hushrank.privacy.objective_perturbation import Constants
from tests.flows.conftest import Survey

SIZE = {"expected_comparisons": 300}
MLE = {"method": "perturbed-mle", "model": {"expected_comparisons": 300}}


def refused(survey: Survey, **changes) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(survey.set(**changes).config)
    return str(caught.value).replace(str(survey.config), "survey.yaml")


def test_defaults_are_logistic_and_tight(survey):
    model = load_config(survey.set(**MLE).config).model
    assert (model.link, model.constants) == ("logistic", Constants.TIGHT)
    assert (model.gamma, model.expected_comparisons, model.c0) == (None, 300, None)


def test_everything_can_be_set(survey):
    model = load_config(
        survey.set(
            method="perturbed-mle",
            model={"link": "laplace", "constants": "paper", "gamma": 50} | SIZE,
        ).config
    ).model
    assert (model.link, model.constants, model.gamma) == ("laplace", Constants.PAPER, 50)


@pytest.mark.parametrize("key", ["link", "constants", "gamma", "expected_comparisons", "c0"])
def test_a_key_that_the_method_does_not_read_is_refused(survey, key):
    value = {"link": "logistic", "constants": "tight"}.get(key, 2.0)
    said = refused(survey, model={key: value})
    assert said == (f"survey.yaml: model.{key}: is not used by method: noisy-counts; remove it")


def test_probit_is_refused_with_the_reason_and_another_way(survey):
    said = refused(survey, method="perturbed-mle", model={"link": "probit"} | SIZE)
    assert said == (
        "survey.yaml: model.link: probit cannot be private with this method: one"
        " comparison can move its gradient without limit, so no noise hides it. Write logistic or"
        " laplace, or set method: noisy-pairs"
    )


def test_noisy_pairs_takes_any_link(survey):
    config = load_config(survey.set(method="noisy-pairs", model={"link": "probit"}).config)
    assert config.model.link == "probit"


def test_the_ridge_of_the_paper_needs_a_size(survey):
    said = refused(survey, method="perturbed-mle", model={"c0": 2})
    assert said.startswith("survey.yaml: model.c0: chooses gamma by model.expected_comparisons;")


def test_gamma_and_what_would_choose_it_exclude_each_other(survey):
    said = refused(survey, method="perturbed-mle", model={"gamma": 50, "c0": 2} | SIZE)
    assert said == "survey.yaml: model.c0: sets gamma, which is also given; remove one of them"


def test_a_public_graph_needs_the_operators_word(survey):
    said = refused(survey, **MLE, privacy__public_graph=True)
    assert said.startswith("survey.yaml: privacy.public_graph_statement: missing; with")
    told = {"privacy__public_graph_statement": "all were asked about all pairs"}
    config = survey.set(**told, input__ties="split").config
    assert load_config(config).privacy.public_graph


def test_the_word_alone_is_refused_and_so_is_hiding_what_is_public(survey):
    said = refused(survey, **MLE, privacy__public_graph_statement="all were asked")
    assert "public_graph_statement: needs public_graph: true" in said
    said = refused(survey, privacy__public_graph=True, privacy__adjacency="add-remove")
    assert "public_graph: says that who compared what is public, and adjacency" in said


def test_a_public_graph_helps_no_other_method(survey):
    said = refused(
        survey, privacy__public_graph=True, privacy__public_graph_statement="all were asked"
    )
    assert said == (
        "survey.yaml: privacy.public_graph: changes nothing with method: noisy-counts; remove it"
    )


def test_one_shot_needs_to_know_how_many(survey):
    said = refused(survey, method="one-shot")
    assert said.startswith("survey.yaml: top_k: missing; method: one-shot finds that many items.")


def test_the_model_is_part_of_the_jobs_identity(survey):
    hashes = {
        load_config(survey.set(method="perturbed-mle", model=model | SIZE).config).job_hash()
        for model in ({"gamma": 50}, {"gamma": 51}, {"gamma": 50, "constants": "paper"})
    }
    assert len(hashes) == 3


def test_a_public_graph_must_not_depend_on_outcomes(survey):
    public = {"privacy__public_graph": True, "privacy__public_graph_statement": "all were asked"}
    said = refused(survey, **MLE, **public, input__ties="drop")
    assert "input.ties: must be split or random with public_graph: true" in said
    said = refused(survey, input__ties="split", input__columns__event="id")
    assert "input.columns.event: not with public_graph: true" in said


def test_merging_copies_moves_more_than_one_replaced_comparison_may(survey):
    privacy = {"unit": "comparison", "adjacency": "replace-one", "epsilon": 1}
    said = refused(survey, privacy=privacy, input__columns__event="id")
    assert "input.columns.event: under unit: comparison needs adjacency: add-remove" in said
