"""The `report` section: which methods have ratings, and what the others are told."""

from __future__ import annotations

import pytest

from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config

SIZE = {"expected_comparisons": 300}
ELO = {"report": {"scale": "elo"}}


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "noisy-pairs"},
        {"method": "perturbed-mle", "model": SIZE},
        {"method": "noisy-pairs", "model": {"link": "logistic"}},
    ],
)
def test_elo_is_for_scores_of_a_logistic_link_and_makes_no_other_job(survey, changes):
    plain = load_config(survey.set(**changes).config)
    rated = load_config(survey.set(**changes, **ELO).config)
    assert (plain.report.scale, rated.report.scale) == ("method", "elo")
    assert plain.job_hash() == rated.job_hash()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {},
            "elo needs one score of a logistic link for each item, which method: noisy-counts does"
            " not have; remove it",
        ),
        (
            {"method": "noisy-pairs", "model": {"link": "probit"}},
            "elo needs model.link: logistic, got probit; change one of the two",
        ),
    ],
)
def test_what_has_no_logistic_link_is_refused_in_one_line(survey, changes, said):
    with pytest.raises(ConfigError) as caught:
        load_config(survey.set(**changes, **ELO).config)
    (line,) = str(caught.value).splitlines()
    assert f"report.scale: {said}" in line
