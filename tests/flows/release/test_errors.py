"""The covariance of the scores in a release: of which items, in which unit, and judged by whom."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from hushrank.estimation.common.estimate import Estimate, estimate_of
from hushrank.estimation.common.pair_separation import ScoreErrors
from hushrank.flows.release.boards import MOST_LISTED, ReleasedErrors
from hushrank.flows.release.release import Release, build_release, on_scale
from hushrank.flows.release.scale import ELO_A_LOGIT, Scale
from hushrank.verifier.verify_release import Findings, check_errors
from tests.estimation.common.test_all_at_once import normal_separation
from tests.releases import make_release, provenance

SCORES = np.array([-2.0, 3.0, -1.0])
COVARIANCE = np.array([[0.5, -0.1, 0.0], [-0.1, 0.25, 0.0], [0.0, 0.0, 0.125]])


def estimate(covariance: np.ndarray = COVARIANCE) -> Estimate:
    full = covariance if covariance.ndim == 2 else np.diag(covariance)
    separation = normal_separation(SCORES, full, "joint")
    errors = ScoreErrors(1.5 * SCORES, covariance)
    return estimate_of(SCORES, SCORES - 9, SCORES + 9, separation, errors=errors)


def release_of(found: Estimate, scale: Scale = Scale.LOG_ODDS) -> Release:
    plain = make_release()
    items = ["a", "b", "c"]
    released = plain.released.model_copy(update={"wins": dict.fromkeys(items, 1)})
    return build_release(provenance(), items, found, plain.privacy, released, scale)


def findings(content: dict) -> list[tuple[str, str]]:
    say = Findings()
    check_errors(content, say)
    return say.lines


def content_of(release: Release) -> dict:
    return json.loads(release.to_json())


def test_lines_are_those_of_the_ranking_up_to_the_diagonal():
    errors = release_of(estimate()).errors
    assert errors.centre == (4.5, -1.5, -3.0)  # b, c, a
    assert errors.covariance == ((0.25,), (0.0, 0.125), (-0.1, 0.0, 0.5))
    independent = release_of(estimate(np.array([0.5, 0.25, 0.125]))).errors
    assert independent.covariance == ((0.25,), (0.0, 0.125), (0.0, 0.0, 0.5))


def test_errors_are_in_the_unit_of_the_scores():
    release = release_of(estimate())
    elo = on_scale(release, Scale.ELO).errors
    assert elo.centre[0] == pytest.approx(1000 + 4.5 * ELO_A_LOGIT)
    assert elo.covariance[0][0] == pytest.approx(0.25 * ELO_A_LOGIT**2, rel=1e-5)
    back = on_scale(on_scale(release, Scale.ELO), Scale.LOG_ODDS).errors
    assert back.covariance[2] == pytest.approx(release.errors.covariance[2], rel=1e-5)
    percent = release_of(estimate(), Scale.WIN_SHARE).errors
    assert percent.centre[0] == 500
    assert percent.covariance[2] == (-1000, 0, 5000)


def test_errors_that_are_not_known_or_of_too_many_items_are_left_out():
    assert "errors" not in content_of(release_of(replace(estimate(), errors=None)))
    assert "errors" not in content_of(release_of(replace(estimate(), informative=False)))
    endless = ScoreErrors(SCORES, np.diag([1.0, np.inf, 1.0]))
    assert ReleasedErrors.of(replace(estimate(), errors=endless), Scale.LOG_ODDS) is None
    n = MOST_LISTED + 1
    scores, ones = np.arange(n) - (n - 1) / 2, np.ones(n, np.int64)
    many = Estimate(
        scores=scores,
        low=scores,
        high=scores,
        rank=np.arange(n, 0, -1.0),
        rank_low=ones,
        rank_high=n * ones,
        groups=ones,
        errors=ScoreErrors(scores, np.ones(n)),
    )
    assert ReleasedErrors.of(many, Scale.LOG_ODDS) is None


def test_the_verifier_finds_the_orders_in_the_errors():
    content = content_of(release_of(estimate()))
    assert [kind for kind, _ in findings(content)] == ["holds", "holds", "holds"]
    assert findings({**content, "errors": None}) == []  # as before there was such a field


@pytest.mark.parametrize(
    ("line", "place", "value", "text"),
    [
        (2, 2, -1.0, "lower lines of a covariance"),
        (2, 0, 9.0, "lower lines of a covariance"),
        (1, None, [0.0], "lower lines of a covariance"),
        (0, 0, 100.0, "too large for the sure order of b and c, b and a"),
        (1, 1, 1e-5, "too small for score or interval of c"),
    ],
)
def test_the_verifier_finds_errors_that_cannot_be(line, place, value, text):
    content = content_of(release_of(estimate()))
    if place is None:
        content["errors"]["covariance"][line] = value
    else:
        content["errors"]["covariance"][line][place] = value
    wrong = [said for kind, said in findings(content) if kind == "WRONG"]
    assert len(wrong) == 1
    assert text in wrong[0]


def test_the_verifier_finds_other_numbers_in_the_place_of_centres():
    content = content_of(release_of(estimate()))
    content["errors"]["centre"] = [4521.0, 312.0, 117.0]
    assert ("WRONG", "release.json: errors: too small for score or interval of b, c, a") in (
        findings(content)
    )
