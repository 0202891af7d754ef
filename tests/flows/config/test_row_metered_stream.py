"""`schedule.stream.participation`: a person's rows are counted in place of nights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import calibrate, load_config
from hushrank.privacy.stream_encoder import ONE, RowTerms, SquareTerms, Terms
from tests.flows.config.test_survey import write

STREAM = {
    "nights": 365,
    "participation": {"rows": 60, "pair_gap": 28},
    "show": {"window": 28},
    "first": "2026-11-20",
}
GAUSSIAN = {"unit": "user", "noise": "gaussian", "rho": 0.1, "max_contributions": 15}
USUAL = {"input.paths": ["survey/{date}.parquet"], "privacy": GAUSSIAN, "method": "noisy-pairs"}
SQUARES = {"method": "win-loss", "input.design": "random"}
ONE_ROW = {"method": "noisy-counts", "privacy": GAUSSIAN | {"max_contributions": 1}}


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def job(changes: dict[str, Any] | None = None, **stream: Any) -> Path:
    content = {key: value for key, value in (STREAM | stream).items() if value is not None}
    return write(USUAL | {"schedule": {"stream": content}} | (changes or {}))


def test_rows_are_counted_with_a_third_of_them_at_first():
    config = load_config(job())
    assert config.schedule.stream.terms == RowTerms(nights=365, rows=60, gap=28, burst=20)
    mechanism = calibrate(config).mechanism
    squares = sum(each**2 for each in mechanism.stream.encoder.coefficients)
    assert mechanism.stream.encoder.bands == 28
    assert mechanism.sensitivity.l2_squared == 2 * 60 * squares  # replace-one
    assert squares > ONE**2


@pytest.mark.parametrize("most", [1, 15])
def test_the_bound_of_a_night_is_not_in_the_noise(most):
    privacy = {"privacy": GAUSSIAN | {"max_contributions": most}}
    found = calibrate(load_config(job(privacy))).mechanism.sensitivity
    assert found == calibrate(load_config(job())).mechanism.sensitivity


def test_laplace_noise_takes_the_sum_of_all_rows():
    laplace = {"privacy": {"unit": "user", "epsilon": 1.0, "max_contributions": 3}}
    mechanism = calibrate(load_config(job(laplace))).mechanism
    assert mechanism.stream.encoder.bands == 1
    assert mechanism.sensitivity.l1 == 2 * 60 * ONE
    assert mechanism.spend.epsilon == 1.0


def test_pairs_are_distinct_without_a_word():
    assert load_config(job()).privacy.distinct_pairs
    with pytest.raises(ConfigError, match=r"privacy.distinct_pairs: must be true with schedule"):
        load_config(job({"privacy": GAUSSIAN | {"distinct_pairs": False}}))


def test_one_row_a_night_is_a_night():
    config = load_config(job(ONE_ROW, participation={"rows": 30, "gap": 7}))
    assert config.schedule.stream.terms == Terms(nights=365, participations=30, gap=7)
    assert calibrate(config).mechanism.stream.encoder.bands == 7


@pytest.mark.parametrize(
    ("changes", "participation", "says"),
    [
        ({"method": "noisy-counts"}, STREAM["participation"], "does not bound what a person moves"),
        ({"method": "noisy-counts"}, {"rows": 9, "gap": 7}, "max_contributions: 1"),
        ({}, {"rows": 9, "gap": 7}, "is for method: noisy-counts with privacy.max_contributions"),
        ({"method": "one-shot", "top_k": 2}, {"rows": 9, "gap": 7}, "is for method: noisy-counts"),
        (SQUARES, STREAM["participation"], "write squares and gap"),
        (SQUARES, {"rows": 9, "gap": 7}, "for method: win-loss squares and gap"),
        ({}, {"squares": 9, "gap": 7}, "with squares is for method: win-loss"),
        ({"method": "noisy-counts"}, {"squares": 9, "gap": 7}, "is for method: win-loss"),
    ],
)
def test_rows_are_metered_where_that_bounds_what_a_person_moves(changes, participation, says):
    with pytest.raises(ConfigError, match=r"schedule.stream") as refused:
        load_config(job(changes, participation=participation))
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        ({"participation": {"rows": 0, "pair_gap": 7}}, "participation.rows: must be >= 1"),
        ({"participation": {"rows": 9, "pair_gap": 0}}, "participation.pair_gap: must be >= 1"),
        ({"participation": {"rows": 9}}, "participation.pair_gap: name either pair_gap"),
        ({"participation": {"rows": 9, "pair_gap": 7, "gap": 7}}, "name either pair_gap"),
        (
            {"participation": {"rows": 9, "pair_gap": 7, "burst": 10}},
            "participation.burst: must be at most rows (9), got 10",
        ),
        ({"participation": {"rows": 9, "gap": 7, "burst": 3}}, "burst: goes with pair_gap"),
        ({"participation": {"gap": 7}}, "rows: name either rows or squares (method: win-loss)"),
        ({"participation": {"rows": 9, "squares": 9, "gap": 7}}, "name either rows or squares"),
        ({"participation": {"squares": 9}}, "gap: squares take gap, such as gap: 28"),
        ({"participation": {"squares": 9, "gap": 7, "pair_gap": 7}}, "gap: squares take gap"),
        ({"participation": {"squares": 1, "gap": 7}}, "participation.squares: must be >= 2"),
        (
            {"participation": {"squares": 9, "gap": 7, "burst": 10}},
            "burst: must be at most squares (9), got 10",
        ),
        (
            {"participation": {"squares": 9, "gap": 7, "burst": 1}},
            "burst: must be at least 2, which is what one row uses, got 1",
        ),
        (
            {"participation": {"squares": 9, "gap": 7}, "bands": 8, "show": "cumulative"},
            "bands: must be at most gap (7), got 8: the bands of two nights of one person",
        ),
        (
            {"nights": "endless", "participation": {"squares": 9, "gap": 7}},
            "participation.refill: missing; with nights: endless say by how much",
        ),
        (
            {"nights": "endless", "participation": {"squares": 9, "gap": 7, "refill": 10}},
            "participation.refill: must be at most squares (9), got 10",
        ),
        (
            {"nights": "endless", "participation": {"rows": 9, "pair_gap": 7, "refill": 9.5}},
            "participation.refill: must be at most rows (9), got 9.5",
        ),
        ({"bands": 29, "show": "cumulative"}, "bands: must be at most pair_gap (28), got 29"),
        ({"gap": 7}, "gap: not with participation"),
        ({"nights": "endless"}, "participation.refill: missing; with nights: endless say"),
        (
            {"participation": {"rows": 9, "pair_gap": 7, "refill": 0.2}},
            "participation.refill: goes with nights: endless and pair_gap",
        ),
        (
            {"nights": "endless", "participation": {"rows": 9, "gap": 7, "refill": 0.2}},
            "participation.refill: goes with nights: endless and pair_gap",
        ),
        (
            {"nights": "endless", "participation": None, "participations": 3, "gap": 7}
            | {"show": "cumulative"},
            "show: must be a window such as {window: 28} with nights: endless",
        ),
        ({"nights": "forever"}, "nights: "),
        ({"participation": None}, "participations: missing"),
        ({"participation": None, "participations": 3}, "gap: missing"),
    ],
)
def test_bad_terms_are_refused(stream, says):
    with pytest.raises(ConfigError) as refused:
        load_config(job(**stream))
    assert says in str(refused.value)


def test_squares_are_counted_with_a_third_of_them_at_first():
    config = load_config(job(SQUARES, participation={"squares": 60, "gap": 28}))
    terms = SquareTerms(nights=365, squares=60, gap=28, burst=20)
    assert config.schedule.stream.terms == terms
    assert config.privacy.distinct_pairs
    mechanism = calibrate(config).mechanism
    squares = sum(each**2 for each in mechanism.stream.encoder.coefficients)
    assert mechanism.stream.encoder.bands == 28
    assert mechanism.sensitivity.l2_squared == 2 * 60 * squares  # replace-one
    few = load_config(job(SQUARES, participation={"squares": 3, "gap": 28}))
    assert few.schedule.stream.terms.burst == 2  # what one row uses
    split = {**SQUARES, "input.ties": "split"}
    halves = calibrate(load_config(job(split, participation={"squares": 60, "gap": 28}))).mechanism
    assert halves.sensitivity.l2_squared == 4 * mechanism.sensitivity.l2_squared


def test_pairs_are_distinct_where_squares_are_counted():
    changes = {**SQUARES, "privacy": GAUSSIAN | {"distinct_pairs": False}}
    with pytest.raises(ConfigError, match=r"privacy.distinct_pairs: must be true with schedule"):
        load_config(job(changes, participation={"squares": 60, "gap": 28}))


def test_nights_of_wins_and_losses_count_as_nights_too():
    """A night of 15 rows on any pairs moves 2 x 15^2."""
    config = load_config(job(SQUARES, participation=None, participations=12, gap=28))
    mechanism = calibrate(config).mechanism
    squares = sum(each**2 for each in mechanism.stream.encoder.coefficients)
    assert mechanism.sensitivity.l2_squared == 2 * 12 * 2 * 15**2 * squares


def test_every_term_of_squares_makes_another_stream():
    usual = {"squares": 60, "gap": 28}
    first = load_config(job(SQUARES, participation=usual)).job_hash()
    for changed in ({"squares": 61}, {"gap": 27}, {"burst": 21}):
        assert load_config(job(SQUARES, participation={**usual, **changed})).job_hash() != first


def test_an_endless_stream_has_a_lifetime_of_rows_that_comes_bit_by_bit():
    refilled = {"rows": 60, "pair_gap": 28, "burst": 20, "refill": 0.1}
    config = load_config(job(nights="endless", participation=refilled))
    terms = config.schedule.stream.terms
    assert terms == RowTerms(nights=1 << 15, rows=60, gap=28, burst=20, refill=0.1)
    assert [terms.allowance(night) for night in (0, 9, 10, 30, 399, 400, 32767)] == [
        *(20, 20, 21, 23, 59, 60, 60)
    ]
    year = calibrate(load_config(job())).mechanism
    endless = calibrate(config).mechanism
    assert endless.sensitivity == year.sensitivity
    last = endless.stream.variances[[364, 3649, 32767]]
    assert last == pytest.approx(year.stream.variances[-1], rel=0.01)  # it does not grow


def test_a_stream_with_an_end_keeps_its_key():
    """Streams of before there was `refill` go on."""
    section = load_config(job()).schedule.stream
    participation = {"rows": 60, "pair_gap": 28, "burst": None, "gap": None}
    assert section.identity()["participation"] == participation


def test_every_term_makes_another_stream():
    first = load_config(job()).job_hash()
    for changed in ({"rows": 61}, {"pair_gap": 27}, {"burst": 21}):
        participation = {"rows": 60, "pair_gap": 28, **changed}
        assert load_config(job(participation=participation)).job_hash() != first
