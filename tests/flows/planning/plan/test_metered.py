"""The plan of a stream that meters rows: figures of a year, and what the command prints."""

from __future__ import annotations

import json
import math

import pytest
import yaml

from hushrank.flows.config.schedule import StreamConfig
from hushrank.flows.interfaces.cli.main import main
from hushrank.flows.planning.plan.metered import (
    pair_variances,
    plan_pairs,
    plan_squares,
    win_loss_variances,
)
from hushrank.flows.planning.plan.stream import StreamRequest
from hushrank.pipelines.simulate.simulate_nights import Habit, simulate_answers, simulate_rows
from hushrank.privacy.accounting import rho_of
from hushrank.privacy.stream_encoder import RowTerms, SquareTerms, Terms, Workload
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

WEEKLY = (Habit(share=1.0, chance=1 / 7),)
BY_NIGHTS = Terms(nights=365, participations=52, gap=7)
BY_ROWS = RowTerms(nights=365, rows=60, gap=28, burst=20)


def request(**changes) -> StreamRequest:
    given = {
        "nights": 365, "workload": Workload(28), "habits": WEEKLY, "people": 5_000, "items": 20,
        "answers": 5, "epsilon": 1.0, "delta": 1e-6, "adjacency": Adjacency.ADD_REMOVE,
    }  # fmt: skip
    return StreamRequest(**{**given, **changes})


@pytest.mark.parametrize(
    ("terms", "noise"),
    [
        (BY_NIGHTS, 44.6),
        (Terms(nights=365, participations=12, gap=28), 19.0),
        (BY_ROWS, 19.0),
        (RowTerms(nights=365, rows=120, gap=28, burst=30), 26.8),
    ],
)
def test_noise_of_a_year_in_units_of_one_row(terms, noise):
    variances, _ = pair_variances(request(), terms)
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.ADD_REMOVE, epsilon=1.0, delta=1e-6,
        noise=NoiseKind.GAUSSIAN, max_contributions=5,
    )  # fmt: skip
    unit = math.sqrt(1 / (2 * rho_of(params, 60)))
    assert math.sqrt(variances.mean()) / unit == pytest.approx(noise, rel=0.01)


def test_somebody_who_answers_weekly_loses_nothing_by_rows_and_half_by_nights():
    """400 people; the standard error of each mean is below 0.4 rows."""
    by_nights = simulate_answers(WEEKLY, BY_NIGHTS, 400, 0)
    by_rows = simulate_rows(WEEKLY, BY_ROWS, 400, 1, 20, 0)
    assert by_nights.counted.sum() / 400 == pytest.approx(28, abs=1)
    assert by_rows.there.sum() / 400 == pytest.approx(52, abs=1.6)
    assert by_rows.share_counted > 0.9  # few pairs of 20 items come again within 28 nights
    assert simulate_rows(WEEKLY, BY_ROWS, 400, 1, 200, 0).share_counted > 0.98


def test_rows_used_up_do_not_count():
    found = simulate_rows((Habit(share=1.0, chance=1.0),), BY_ROWS, 50, 5, 100, 0)
    assert found.counted.sum() == 50 * 60
    assert found.counted[182:].sum() / found.counted.sum() > 0.3  # the burst leaves some for later


def test_weekly_people_are_noticed_sooner_by_rows():
    found = plan_pairs(request(answers=1), 60)
    assert isinstance(found[0].terms, RowTerms)
    assert [each.noticed for each in found] == sorted(each.noticed for each in found)
    assert {each.bands for each in found} == {7, 14, 28}


@pytest.mark.parametrize(
    ("terms", "noise"),
    [
        (SquareTerms(nights=365, squares=60, gap=28, burst=20), 19.0),
        (SquareTerms(nights=365, squares=120, gap=28, burst=40), 26.8),
        (Terms(nights=365, participations=12, gap=28), 46.5),  # 12 nights of 5^2 + 5 squares
    ],
)
def test_noise_of_wins_and_losses_of_a_year_in_units_of_one_square(terms, noise):
    variances, _ = win_loss_variances(request(), terms)
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.ADD_REMOVE, epsilon=1.0, delta=1e-6,
        noise=NoiseKind.GAUSSIAN, max_contributions=5,
    )  # fmt: skip
    unit = math.sqrt(1 / (2 * rho_of(params, 60)))
    assert math.sqrt(variances.mean()) / unit == pytest.approx(noise, rel=0.01)


def test_many_rows_of_a_night_use_up_squares_and_one_row_a_week_does_not():
    terms = SquareTerms(nights=365, squares=104, gap=7, burst=35)
    weekly = simulate_rows(WEEKLY, terms, 400, 1, 20, 0)
    assert weekly.counted.sum() / 400 == pytest.approx(28, abs=1)  # nights that are 7 apart
    daily = simulate_rows((Habit(share=1.0, chance=1.0),), terms, 50, 5, 20, 0)
    assert daily.counted.sum(axis=1).max() <= 50 * 5
    assert daily.counted[182:].sum() > 0  # the burst leaves some for later
    found = plan_squares(request(), 120)
    assert [each.noticed for each in found] == sorted(each.noticed for each in found)
    assert {type(each.terms) for each in found} == {Terms, SquareTerms}


def test_nothing_is_noticed_without_answers():
    found = plan_pairs(request(people=2, habits=(Habit(share=1.0, chance=0.001),)), 60)
    assert all(each.noticed == pytest.approx(1) for each in found)


def test_the_command_prints_the_lines_for_the_file(command, capsys):
    words = ["plan", "--stream", "60", "--rows", "30", "--habit", "0.14", "--people", "2000"]
    code, told = command(*words)
    assert code == 0
    (line,) = (each for each in told.splitlines() if "participation:" in each)
    stream = yaml.safe_load(line.replace("DATE", "'2026-11-20'"))["schedule"]["stream"]
    assert StreamConfig(**stream).terms.rows == 30
    assert "30 answers, on one pair" in told
    main([*words, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert {each["rows"] for each in document["pairs"]} == {30, None}


def test_the_command_prints_the_lines_for_squares(command, capsys):
    words = ["plan", "--stream", "60", "--squares", "30", "--habit", "0.14", "--people", "2000"]
    code, told = command(*words)
    assert code == 0
    (line,) = (each for each in told.splitlines() if "participation:" in each)
    stream = yaml.safe_load(line.replace("DATE", "'2026-11-20'"))["schedule"]["stream"]
    terms = StreamConfig(**stream).terms
    assert isinstance(terms, SquareTerms)
    assert (terms.squares, terms.burst) == (30, 10)
    assert f"30 squares, {terms.gap} nights apart" in told
    main([*words, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["pairs"] == []
    assert {each["squares"] for each in document["win_loss"]} == {30, None}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rows", 30), "--rows needs --stream NIGHTS"),
        (("--squares", 30), "--squares needs --stream NIGHTS"),
        (("--stream", 60, "--squares", 40_000, "--habit", "0.1"), "squares must be between"),
        (("--stream", 60, "--rows", 40_000, "--habit", "0.1"), "rows must be between"),
        (("--stream", 60, "--rows", 9, "--delta", 0, "--habit", "0.1"), "needs a delta above 0"),
    ],
)
def test_mistakes_are_named(command, words, message):
    code, printed = command("plan", *words)
    assert code == 2
    assert message in " ".join(printed.split())
