"""Releases about different people are combined into one ranking, by precision."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import hushrank as hr
from benchmarks import holders
from hushrank.estimation.common.pair_separation import ScoreErrors
from hushrank.estimation.common.pooled_scores import NotLinked, PartScores, pool_scores
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.units import NoiseKind
from tests.flows.conftest import answers
from tests.flows.every_method import survey_of
from tests.flows.forgeries import run

ROOT = Path(__file__).parents[3]
GAUSSIAN, LAPLACE = NoiseKind.GAUSSIAN, NoiseKind.LAPLACE
FALSE_ALARM = 5.0  # standard errors: a chance of 6e-7 that a right law fails


def _part(items, centre, covariance, kind=GAUSSIAN) -> PartScores:
    return PartScores(
        items=items,
        errors=ScoreErrors(np.array(centre, float), np.array(covariance, float)),
        kind=kind,
    )


def test_equal_releases_halve_the_variance_and_a_precise_one_decides_more():
    one = _part([0, 1, 2], [2.0, 0.5, -1.0], np.eye(3))
    both = pool_scores([one, one], 3)
    differences = np.eye(3) - 1 / 3
    assert np.allclose(both.estimate.scores, one.errors.centre)
    assert np.allclose(both.estimate.errors.covariance, differences / 2)
    assert both.shares.tolist() == pytest.approx([0.5, 0.5])
    assert both.chance == pytest.approx(1.0)
    other = _part([0, 1, 2], [-2.0, 0.5, 3.0], 9 * np.eye(3))
    mixed = pool_scores([one, other], 3)
    assert mixed.shares.tolist() == pytest.approx([0.9, 0.1])
    wanted = 0.9 * (one.errors.centre - 0.5) + 0.1 * (other.errors.centre - 0.5) + 0.5
    assert np.allclose(mixed.estimate.scores, wanted)


def test_items_that_some_releases_miss_are_linked_by_others_or_refused():
    left, right = _part([0, 1], [1.0, 0.0], np.eye(2)), _part([1, 2], [3.0, 1.0], np.eye(2))
    chain = pool_scores([left, right], 3).estimate.scores
    assert np.allclose(np.diff(chain), [-1.0, -2.0])  # no loop, so each difference is its own
    with pytest.raises(NotLinked):
        pool_scores([left, _part([2, 3], [1.0, 0.0], np.eye(2))], 4)


def test_a_precise_release_is_not_hidden_by_many_that_say_nothing():
    precise, vague = np.eye(3), 900.0 * np.eye(3)
    alone = pool_scores([_part([0, 1, 2], [1, 0, 0], precise, LAPLACE)] * 2, 3).estimate
    many = [_part([0, 1, 2], [1, 0, 0], precise, LAPLACE)] * 2
    many += [_part([0, 1, 2], [1, 0, 0], vague, LAPLACE)] * 30
    assert np.allclose(pool_scores(many, 3).estimate.at_once.high, alone.at_once.high, atol=0.05)
    unequal = [_part([0, 1], [1, 0], 1e-9 * np.eye(2)), _part([1, 2], [1, 0], np.eye(2))]
    assert np.allclose(np.diff(pool_scores(unequal, 3).estimate.scores), -1)


@pytest.mark.parametrize("kind", [GAUSSIAN, LAPLACE])
def test_intervals_hold_and_a_forgotten_error_is_caught(kind):
    """Correlated errors of unequal size; one release misses an item."""
    rng, replicates = np.random.default_rng(4), 1_500
    truth = np.array([1.5, 0.4, -0.3, -1.6])
    mixing = [rng.normal(size=(m, m)) * size for m, size in ((4, 0.3), (3, 0.8), (4, 0.5))]
    places = [[0, 1, 2, 3], [0, 2, 3], [3, 1, 0, 2]]
    held = {1.0: 0, 0.5: 0}
    for _ in range(replicates):
        drawn = []
        for at, mix in zip(places, mixing, strict=True):
            size = len(at)
            noise = (
                rng.normal(size=size)
                if kind is GAUSSIAN
                else rng.laplace(scale=np.sqrt(0.5), size=size)
            )
            drawn.append((at, truth[at] + mix @ noise, mix @ mix.T))
        for share in held:
            found = pool_scores([_part(a, c, share * s, kind) for a, c, s in drawn], 4).estimate
            centred = truth - truth.mean() + found.scores.mean()
            held[share] += int(((found.low <= centred) & (centred <= found.high)).sum())
    rates = {share: hits / (4 * replicates) for share, hits in held.items()}
    error = np.sqrt(0.95 * 0.05 / replicates)  # items of one draw hang together
    assert rates[1.0] > 0.95 - FALSE_ALARM * error
    assert rates[1.0] < (0.95 + FALSE_ALARM * error if kind is GAUSSIAN else 1.0)
    assert rates[0.5] < 0.95 - FALSE_ALARM * error


@pytest.fixture
def regions(tmp_path, survey):
    """Three surveys about the same items: north and south agree, west ranks them upside down."""
    folders = {}
    for number, name in enumerate(("north", "south", "west")):
        table = answers(400, seed=number)
        if name == "west":
            turned = np.negative(table["outcome"].to_numpy())
            table = table.set_column(3, "outcome", [turned])
        pq.write_table(table, survey.folder / "answers.parquet")
        run(
            survey.set(
                name=name,
                method="noisy-pairs",
                output=f"out-{name}",
                ledger__path=f"{name}.jsonl",
                confidential=f"work-{name}",
            )
        )
        folders[name] = survey.folder / f"out-{name}"
    return folders


def test_regions_are_pooled_from_the_command_line_and_from_python(regions, command, tmp_path):
    north, south, west = regions.values()
    code, printed = command("pool", str(north), str(south), "--to", str(tmp_path / "both"))
    assert code == 0, printed
    words = " ".join(printed.split())
    assert "epsilon 4.00 together" in words
    assert "How much each release decides: north" in words
    written = json.loads((tmp_path / "both" / "pooled.json").read_text())
    pooled = hr.pool([north, south / "release.json"])
    assert json.loads(pooled.to_json()) == written
    assert sum(part["share"] for part in written["parts"]) == pytest.approx(1.0, abs=1e-5)
    for line in pooled.ranking:
        alone = [_line(hr.read_release(place), line.item) for place in (north, south)]
        assert line.high - line.low < min(each.high - each.low for each in alone)
        assert min(e.score for e in alone) - 0.2 < line.score < max(e.score for e in alone) + 0.2
    assert pooled.chance > 0.001
    assert [part["certified"] for part in written["parts"]] == [True, True]
    assert "Checked against its certificate: north, south." in words
    unlike = hr.pool([north, west])
    assert unlike.chance < 1e-6
    assert any("do not rank alike" in each for each in unlike.warnings)


def _line(release, item):
    return next(line for line in release.record.ranking if line.item == item)


def test_what_cannot_be_pooled_is_refused_in_a_sentence(regions, command, tmp_path):
    north, south, _ = regions.values()
    counts = survey_of("noisy-counts", tmp_path / "counts").set(
        privacy__epsilon=400.0, ledger__epsilon=900.0
    )
    run(counts)
    for places, message in (
        ([north], "name 2 to 1,000 releases, got 1"),
        ([north, north], "is the same release as"),
        ([north, counts.output], "its scores are"),
        ([north, tmp_path / "nothing"], "cannot be read"),
    ):
        code, printed = command("pool", *map(str, places))
        assert code == 2
        assert message in " ".join(printed.split())
    changed = json.loads((south / "release.json").read_text())
    del changed["errors"]
    (south / "release.json").write_text(json.dumps(changed))
    with pytest.raises(hr.ConfigError, match="cannot be weighed"):
        hr.pool([north, south])


def test_a_release_that_its_certificate_does_not_know_is_refused(regions, command):
    north, south, _ = regions.values()
    told = json.loads((south / "release.json").read_text())
    told["ranking"][0]["score"] += 0.5
    (south / "release.json").write_text(json.dumps(told))
    code, printed = command("pool", str(north), str(south))
    words = " ".join(printed.split())
    assert code == 2
    assert f"{south}/release.json: is not what its certificate says: " in words
    assert "Traceback" not in printed


def test_a_release_without_its_certificate_is_pooled_with_a_warning(regions):
    north, south, _ = regions.values()
    (south / "certificate.json").unlink()
    pooled = hr.pool([north, south])
    assert [part.certified for part in pooled.parts] == [True, False]
    missing = [each for each in pooled.warnings if "came without a certificate" in each]
    assert len(missing) == 1
    assert "of south " in missing[0]


def test_the_page_shows_what_each_way_of_combining_holders_costs():
    """The table is that of `benchmarks/holders.py`, and draws have the errors that it states."""
    page = (ROOT / "docs" / "choosing.md").read_text()
    for line in holders.table():
        assert line in page
    rng, people, n_holders, runs = np.random.default_rng(5), 200, 10, 4_000
    law, of_an_item = holders.noise_law(), holders.appearances(people * n_holders)
    for draws in (1, n_holders):
        wins = rng.binomial(int(of_an_item), 0.5, runs)
        noise = add_noise(np.zeros(runs * draws, np.int64), law, system_bits())
        shares = (wins + noise.reshape(draws, runs).sum(axis=0)) / of_an_item
        # Of 4,000 draws the standard deviation is off by 2 %: five of these, a chance below 1e-6.
        assert np.std(shares) == pytest.approx(holders.error(2_000, draws), rel=0.12)
    kept = np.tanh(holders.EPSILON / holders.ANSWERS / 2)  # 1 - 2 / (1 + e^(epsilon of an answer))
    at_source = rng.binomial(int(of_an_item), 0.5, runs) / of_an_item / kept
    assert np.std(at_source) == pytest.approx(holders.error_at_source(2_000), rel=0.12)
