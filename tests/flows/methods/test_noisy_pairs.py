"""`method: noisy-pairs` as a person runs it: the matrix, what is fitted to it, the heatmap."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

import hushrank as hr
from hushrank.estimation.common.links import LINKS
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons.model_selection import link_of_counts
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.counts.noisy_pairs import NoisyPairs
from hushrank.flows.methods.registry import load_config
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import seeded_bits, system_bits
from hushrank.privacy.units import NoiseKind
from tests.flows.conftest import ITEMS, answers

N = len(ITEMS)


def exact_matrix(people: int = 200) -> np.ndarray:
    """Counted by hand from the survey's answers."""
    table = answers(people)
    wins = np.zeros((N, N), np.int64)
    columns = (table[name].to_numpy() for name in ("item_i", "item_j", "outcome"))
    for left, right, outcome in zip(*columns, strict=True):
        winner, loser = (left, right) if outcome == 1 else (right, left)
        wins[winner, loser] += 1
    return wins


@pytest.fixture
def pairs(survey):
    return survey.set(method="noisy-pairs")


def published(survey) -> dict:
    return json.loads((survey.output / "release.json").read_text())


def test_a_run_releases_the_matrix_with_noise_and_scores_from_it(pairs, command):
    # Ants are then ahead by 31 standard deviations of what the noise does to scores.
    pq.write_table(answers(1000), pairs.folder / "answers.parquet")
    code, printed = command("run", pairs.config, "--direct")
    assert code == 0, printed
    release = published(pairs)
    assert release["released"]["kind"] == "pair-counts"
    assert release["released"]["items"] == ITEMS
    noisy = np.array(release["released"]["wins"])
    assert not np.diagonal(noisy).any()
    difference = (noisy - exact_matrix(1000))[~np.eye(N, dtype=bool)]
    assert difference.any()
    assert np.abs(difference).max() < 6 * 30  # Laplace of scale 6: beyond 30 scales once in 10^12
    assert release["scale"] == "log-odds"
    assert release["ranking"][0]["item"] == "ants"
    assert sum(line["score"] for line in release["ranking"]) == pytest.approx(0, abs=1e-9)
    privacy = release["privacy"]
    assert (privacy["sensitivity"], privacy["noise_scale"]) == (12, 6)  # 2 L, and that over 2
    assert isinstance(privacy["parameters"].pop("design_of_chance_fits"), bool)
    assert privacy["parameters"] == {
        "link": "logistic",
        "pairs": 6,
        "pairs_left_out_of_the_fit": 0,
    }
    assert "Every entry of the matrix of wins" in " ".join(privacy["statement"])
    assert "Spent epsilon 2" in printed
    assert not list(pairs.work.rglob("exact.npz"))


def test_gaussian_noise_uses_distinct_pairs(pairs, command):
    command("run", pairs.set(privacy__noise="gaussian", privacy__delta=1e-6).config, "--direct")
    privacy = published(pairs)["privacy"]
    assert privacy["mechanism"] == "discrete-gaussian"
    assert privacy["sensitivity_l2_squared"] == 2 * 6  # 2 L, not 2 L^2
    assert privacy["noise_scale"] == pytest.approx(np.sqrt(12 / (2 * privacy["rho"])))


def test_the_report_shows_the_matrix_for_eyes_and_for_readers(pairs, command):
    command("run", pairs.config, "--direct")
    page = (pairs.output / "report.html").read_text()
    assert "Who beat whom, with noise" in page
    assert "Heatmap of the matrix of wins, best first: how often the item of the row" in page
    figure = re.search(r'aria-labelledby="matrix".*?</section>', page, re.DOTALL)[0]
    noisy = np.array(published(pairs)["released"]["wins"])
    shown = re.findall(r'class="mid[^"]*">(-?[\d,]+)</text></g>', figure)
    assert sorted(map(int, shown)) == sorted(noisy[~np.eye(N, dtype=bool)].tolist())


def test_pairs_that_are_all_noise_stay_out_where_two_hold_all_comparisons(pairs, command):
    # Counts of 833 scales of the noise: of 1 500 draws none failed at a tenth of that.
    many = answers(5000)
    low, high = (np.sort([many["item_i"], many["item_j"]], axis=0)[end] for end in (0, 1))
    alone = many.filter((low % 2 == 0) & (high == low + 1))  # no chance: two pairs of four items
    pq.write_table(alone, pairs.folder / "answers.parquet")  # nobody saw any other
    more = {"names": [*ITEMS, "emus", "foxes", "geese", "hares"], "first_code": 0}
    code, _ = command("run", pairs.set(items=more).config, "--direct")
    assert code == 0
    parameters = published(pairs)["privacy"]["parameters"]
    assert parameters["design_of_chance_fits"] is False
    assert parameters["pairs_left_out_of_the_fit"] == 26


def test_without_privacy_the_matrix_is_exact_and_unsafe(pairs, command):
    command("run", pairs.set(privacy__epsilon="inf").config, "--direct", "--no-privacy")
    release = published(pairs)
    assert release["safe"] is False
    np.testing.assert_array_equal(release["released"]["wins"], exact_matrix())


def test_too_many_items_are_refused_before_anything_is_read(pairs, command):
    code, printed = command("run", pairs.set(items={"count": 2001}).config, "--direct")
    assert code == 2
    said = " ".join(printed.split())
    assert "items: method: noisy-pairs hides which pairs were compared, so it puts noise" in said
    assert "at most 2000 items, got 2001. Where anybody may know who compared what" in said
    assert "privacy.public_graph: true allows 100000; else set method: perturbed-mle" in said
    assert not pairs.ledger.exists()


def test_two_thousand_items_are_allowed(pairs):
    config = load_config(pairs.set(items={"count": 2000}).config)
    assert NoisyPairs().calibrate(config).spend.epsilon == 2.0
    with pytest.raises(ConfigError, match="takes at most 2000"):
        NoisyPairs().calibrate(load_config(pairs.set(items={"count": 2001}).config))


def test_what_is_drawn_carries_noise_and_nothing_else_leaves(pairs):
    mechanism = NoisyPairs().calibrate(load_config(pairs.config))
    exact = {"counts": exact_matrix()}
    for bits in (system_bits(), seeded_bits(1)):
        drawn = NoisyPairs().draw(exact, mechanism, bits)
        assert list(drawn) == ["wins"]
        assert not np.array_equal(drawn["wins"], exact["counts"])


def test_the_link_is_chosen_by_what_is_released_and_the_release_says_so(pairs, command):
    pq.write_table(answers(1000), pairs.folder / "answers.parquet")
    pairs.set(model={"link": "auto"})
    assert command("run", pairs.config, "--direct")[0] == 0
    release = published(pairs)
    parameters = release["privacy"]["parameters"]
    assert parameters["link_chosen_by_likelihood"] is True
    wins = np.array(release["released"]["wins"])
    law = NoiseLaw(NoiseKind.LAPLACE, release["privacy"]["noise_scale"])
    link = link_of_counts(PairCounts(wins, 1, False), law, [*LINKS.values()])
    assert parameters["link"] == link.name  # anybody can choose it again
    assert command("verify", pairs.output)[0] == 0
    pairs.set(groups={"column": "team", "values": ["red", "blue"]})
    code, printed = command("validate", pairs.config)
    assert code == 2
    assert "model.link: auto does not go with groups" in " ".join(printed.split())
    code, printed = command("validate", pairs.set(groups=None, method="win-loss").config)
    assert code == 2
    assert "model.link: auto is for methods" in " ".join(printed.split())


def test_rank_centrality_is_named_and_anybody_gets_it_from_the_counts(pairs, command):
    pq.write_table(answers(1000), pairs.folder / "answers.parquet")
    design = {"input__design": "balanced"}
    assert command("run", pairs.set(**design).config, "--direct")[0] == 0
    refitted = hr.estimate(pairs.output, estimator="spectral")
    assert refitted.model == {"estimator": "spectral"}
    wins = published(pairs)["released"]["wins"]
    pairs.set(model={"estimator": "spectral"}, output="spectral")
    assert command("run", pairs.config, "--direct")[0] == 0
    release = json.loads((pairs.folder / "spectral" / "release.json").read_text())
    assert release["privacy"]["parameters"]["estimator"] == "spectral"
    assert any("those of Rank Centrality" in each for each in release["warnings"])
    assert command("verify", pairs.folder / "spectral")[0] == 0
    fitted, noise = hr.estimate(pairs.folder / "spectral", estimator="spectral"), 6.0
    scores = {line["item"]: line["score"] for line in release["ranking"]}
    assert {line.item: line.score for line in fitted.ranking} == pytest.approx(scores, abs=1e-12)
    assert np.abs(np.array(wins) - release["released"]["wins"]).max() < 12 * 30 * noise
    for change, said in (
        ({"input__design": "any"}, "spectral needs a design in which chance decided"),
        ({"model": {"estimator": "spectral", "link": "probit"}}, "needs model.link: logistic"),
        ({"groups": {"column": "team", "values": ["a", "b"]}}, "does not go with groups"),
        ({"method": "win-loss"}, "model.estimator: is not used by method: win-loss"),
    ):
        code, printed = command("validate", pairs.set(**design).set(**change).config)
        assert code == 2
        assert said in " ".join(printed.split())
