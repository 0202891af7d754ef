"""`method: one-shot` as a person runs it: a list, and not a word more."""

from __future__ import annotations

import json

import pytest

from hushrank.flows.methods.counts.one_shot import OneShot
from hushrank.flows.methods.registry import load_config
from hushrank.privacy.randomness import system_bits
from tests.flows.conftest import ITEMS
from tests.flows.methods.test_perturbed_mle import COUNTS


@pytest.fixture
def shot(survey):
    return survey.set(method="one-shot", top_k=2)


def test_a_run_releases_the_best_items_in_order(shot, command):
    code, printed = command("run", shot.config, "--direct")
    assert code == 0, printed
    release = json.loads((shot.output / "release.json").read_text())
    assert release["released"]["kind"] == "top-list"
    best = release["released"]["items"]
    assert len(best) == 2
    assert best[0] == "ants"
    assert release["top_k"] == best
    assert [line["rank"] for line in release["ranking"]] == [1, 2, 3.5, 3.5]
    assert {line["low"] for line in release["ranking"]} == {"-inf"}
    assert {line["rank_high"] for line in release["ranking"]} == {4}
    assert f"Best, in this order: {', '.join(best)}." in printed
    privacy = release["privacy"]
    assert privacy["parameters"] == {"k": 2}
    assert privacy["noise_scale"] == 2 * 5 / 2.0  # two ways, 5 rows, epsilon
    assert "the list is all that leaves" in " ".join(privacy["statement"])
    assert "<figure" not in (shot.output / "report.html").read_text()


def test_what_is_drawn_is_the_list_alone(shot):
    mechanism = OneShot().calibrate(load_config(shot.config))
    drawn = OneShot().draw({"counts": COUNTS.sum(axis=1)}, mechanism, system_bits())
    assert list(drawn) == ["items"]
    assert set(drawn["items"].tolist()) <= set(range(len(ITEMS)))
    assert len(drawn["items"]) == 2


def test_gaussian_noise_is_refused_with_a_way_out(shot, command):
    config = shot.set(privacy__noise="gaussian", privacy__delta=1e-7).config
    code, printed = command("run", config, "--direct")
    assert code == 2
    assert "privacy: method: one-shot: one-shot is pure DP: set noise: laplace" in printed
