"""`release.json`: its keys, its numbers, and what it refuses to hold."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from hushrank.estimation.common.central_noise import Calibration
from hushrank.estimation.common.matrices import WinCounts
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.counts.noisy_counts import ReleasedCounts
from hushrank.flows.release.boards import GroupRanking
from hushrank.flows.release.publish import ranking_csv
from hushrank.flows.release.release import Release, build_release, load_release
from hushrank.flows.release.scale import Scale
from hushrank.flows.report.page import render_report
from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.privacy.accounting import Spend
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.common.schema import Ties
from tests.releases import ITEMS, SEEDED, make_release, provenance, user_params

GAUSSIAN = user_params(noise=NoiseKind.GAUSSIAN, delta=1e-6)


def written(release) -> dict:
    """What a script reads: strict JSON, without infinities."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(release.to_json(), parse_constant=refuse)


def test_keys_are_those_of_the_contract_in_a_fixed_order():
    content = written(make_release(n_top=2))
    assert list(content) == [
        *("release_id", "created", "name", "job", "method", "code_version", "safe"),
        *("informative", "warnings", "scale", "unit", "ranking", "top_k", "top"),
        *("errors", "privacy", "released"),
    ]
    assert list(content["ranking"][0]) == [
        *("item", "rank", "score", "low", "high", "rank_low", "rank_high", "group"),
        *("low_all", "high_all", "rank_low_all", "rank_high_all", "surely_above"),
        *("p_best", "p_top"),
        *("se", "se_noise", "se_chance"),
    ]
    assert list(content["privacy"]) == [
        *("unit", "adjacency", "epsilon", "delta", "rho", "mechanism", "noise_scale"),
        *("noise_variance", "sensitivity", "sensitivity_norm", "sensitivity_l1"),
        *("sensitivity_l2_squared", "max_contributions", "per_item_cap", "distinct_pairs"),
        *("names_per_person", "groups_per_answer"),
        *("ties", "parameters", "statement", "not_protected", "theorem", "erratum"),
        *("bits", "reconstructed"),
    ]


def test_numbers_are_those_of_the_counts_and_the_guarantee():
    release = make_release(n_top=2)
    content = written(release)
    wins = content["released"]["wins"]
    assert list(wins) == list(ITEMS)
    assert [line["item"] for line in content["ranking"]] == sorted(ITEMS, key=lambda i: -wins[i])
    assert [line["rank"] for line in content["ranking"]] == [1, 2, 3, 4, 5, 6]
    assert content["unit"] == "percent"
    assert sum(line["score"] for line in content["ranking"]) == pytest.approx(6 * 50)
    assert content["top_k"] == ["London", "Paris"]
    privacy = content["privacy"]
    assert (privacy["unit"], privacy["adjacency"]) == ("user", "replace-one")
    assert (privacy["epsilon"], privacy["delta"], privacy["rho"]) == (2.0, 0.0, None)
    assert (privacy["mechanism"], privacy["noise_scale"]) == ("discrete-laplace", 12.0)
    assert (privacy["sensitivity"], privacy["sensitivity_norm"]) == (24.0, "l1")
    assert privacy["noise_variance"] == pytest.approx(2 * 12**2, rel=1e-2)
    assert content["created"] == "2026-11-20T02:00:04Z"
    assert content["safe"] is True
    assert content["warnings"] == []


def test_top_k_is_absent_where_nobody_asked():
    assert "top_k" not in written(make_release())


def test_gaussian_noise_is_recorded_with_rho_and_the_l2_norm():
    privacy = written(make_release(params=GAUSSIAN))["privacy"]
    assert (privacy["mechanism"], privacy["sensitivity_norm"]) == ("discrete-gaussian", "l2")
    assert (privacy["epsilon"], privacy["delta"]) == (2.0, 1e-6)
    assert privacy["sensitivity"] == pytest.approx(math.sqrt(100))  # two times 5^2 + 4^2 + 3^2
    expected = privacy["sensitivity"] / math.sqrt(2 * privacy["rho"])
    assert privacy["noise_scale"] == pytest.approx(expected)


def test_a_guarantee_given_as_rho_is_told_as_epsilon_too():
    params = user_params(epsilon=math.inf, rho=0.1, noise=NoiseKind.GAUSSIAN)
    release = make_release(params=params)
    privacy = written(release)["privacy"]
    assert (privacy["rho"], privacy["delta"]) == (0.1, 1e-6)
    # rho + sqrt(4 rho ln(1/delta)) is valid and loose; the pure Gaussian mechanism is no better
    # than half of it.
    loose = 0.1 + math.sqrt(4 * 0.1 * math.log(1e6))
    assert loose / 2 < privacy["epsilon"] < loose
    assert release.safe


@pytest.mark.parametrize("noise", NoiseKind)
def test_without_noise_the_json_is_strict_and_the_release_is_unsafe(noise):
    release = make_release(params=user_params(epsilon=math.inf, noise=noise))
    content = written(release)
    assert content["privacy"]["epsilon"] == "inf"
    assert content["privacy"]["rho"] == ("inf" if noise is NoiseKind.GAUSSIAN else None)
    assert content["privacy"]["mechanism"] == "none"
    assert content["safe"] is False
    assert "Epsilon is infinite" in content["warnings"][0]
    assert list(content["released"]["wins"].values()) == [500, 1050, 560, 790, 770, 330]


def test_an_injected_seed_marks_the_release_unsafe():
    release = make_release(bits=SEEDED)
    assert not release.safe
    assert "A seed was injected" in release.warnings[0]


def test_noise_that_hides_everything_is_said():
    release = make_release(wins=[1] * 6)
    assert not release.informative
    assert "Nothing useful can be learned" in release.warnings[0]
    exact = make_release(wins=[0] * 6, params=user_params(epsilon=math.inf))
    assert "no comparison has a winner" in exact.warnings[1]


def test_unit_comparison_bounds_nobody():
    params = PrivacyParams(unit=Unit.COMPARISON, adjacency=Adjacency.ADD_REMOVE, epsilon=1.0)
    assert written(make_release(params=params))["privacy"]["max_contributions"] is None


def test_split_ties_are_released_in_half_wins():
    release = make_release(ties=Ties.SPLIT)
    assert written(release)["released"]["row_weight"] == 2
    assert release.released.wins_by_item()["London"] == release.released.wins["London"] / 2
    assert release.privacy.noise_scale == 24.0


def test_equal_items_share_the_mean_rank():
    release = make_release(wins=[500, 700, 700, 10, 10, 10], params=user_params(epsilon=math.inf))
    assert [line.rank for line in release.ranking] == [1.5, 1.5, 3, 5, 5, 5]
    assert release.places() == ["1=", "1=", "3", "4=", "4=", "4="]


@pytest.mark.parametrize(
    "params", [None, GAUSSIAN, user_params(epsilon=math.inf, noise=NoiseKind.GAUSSIAN)]
)
@pytest.mark.parametrize("n_top", [None, 3])
def test_what_is_written_is_read_back(tmp_path, params, n_top):
    release = make_release(params=params, n_top=n_top)
    path = tmp_path / "release.json"
    path.write_text(release.to_json(), encoding="utf-8")
    assert load_release(path) == release
    assert load_release(path).to_json() == release.to_json()


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"release_id": 3}', "not json"])
def test_a_file_that_is_no_release_is_refused(tmp_path, content):
    path = tmp_path / "release.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match="is not a release of hushrank, or was changed"):
        load_release(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_release(tmp_path / "release.json")


def test_exact_counts_are_never_released():
    exact = WinCounts(np.array([5, 3], np.int64))
    with pytest.raises(ValueError, match="only noisy counts can be released"):
        ReleasedCounts.of(exact, ["a", "b"])


def test_items_and_estimate_of_different_sizes_are_refused():
    noisy = WinCounts(np.array([5, 3], np.int64), confidential=False)
    estimate = rank_by_win_counts(noisy, NoiseLaw(NoiseKind.LAPLACE, 0.0))
    released = ReleasedCounts.of(noisy, ["a", "b"])
    with pytest.raises(ValueError, match="got 3 items, but an estimate of 2"):
        build_release(
            *(provenance(), ["a", "b", "c"], estimate),
            *(make_release().privacy, released, Scale.WIN_SHARE),
        )


@pytest.mark.parametrize(
    "law",
    [
        NoiseLaw(NoiseKind.LAPLACE, math.nextafter(12.0, 0)),
        NoiseLaw(NoiseKind.LAPLACE, 7.5),  # L / epsilon: the scale of erratum E1
        NoiseLaw(NoiseKind.LAPLACE, 0.0),
        NoiseLaw(NoiseKind.GAUSSIAN, 1000.0),
    ],
)
def test_less_noise_than_the_guarantee_needs_is_refused(law):
    calibration = Calibration(Sensitivity(24, 150), "", law, Spend(epsilon=2.0))
    with pytest.raises(ValueError, match="the guarantee needs"):
        CountMechanism.of(user_params(), calibration, 6, Ties.DROP)


def test_groups_keep_what_the_ranking_of_all_together_does_not_say():
    """Where noise drowns the whole, a group may still have probabilities to be the best."""
    release = make_release()
    said = tuple(replace(line, p_best=0.25) for line in release.ranking)
    unsaid = tuple(replace(line, p_best=None) for line in release.ranking)
    group = GroupRanking(
        name="en", own=1.0, informative=True, ranking=said, released=release.released
    )
    grouped = release.model_copy(update={"ranking": unsaid, "groups": (group,)})
    document = json.loads(grouped.to_json())
    assert all("p_best" not in line for line in document["ranking"])
    assert [line["p_best"] for line in document["groups"][0]["ranking"]] == [0.25] * len(said)
    assert Release.model_validate(document).to_json() == grouped.to_json()
    header, *rows = csv.reader(io.StringIO(ranking_csv(grouped)))
    probabilities = [row[header.index("p_best")] for row in rows]
    assert probabilities == [""] * len(said) + ["0.250000"] * len(said)
    (table,) = re.findall(r'<table class="brief">.*?</table>', render_report(grouped), re.DOTALL)
    head, *lines = table.split("<tr")[1:]
    assert {line.count("<td") for line in lines} == {head.count("<th ")}
