"""`hushrank plan --stream`: what is stated is what a stream of those people would come to."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import yaml
from scipy.signal import lfilter

from hushrank.flows.config.privacy import PrivacyConfig
from hushrank.flows.config.schedule import StreamConfig
from hushrank.flows.interfaces.cli.main import main
from hushrank.flows.interfaces.documents.plans import StreamDocument
from hushrank.flows.planning.plan.stream import (
    CAPS,
    COMPOSITION,
    ENCODER,
    StreamRequest,
    even_share_error,
    habits_of,
    plan_stream,
)
from hushrank.pipelines.simulate.simulate_nights import Habit, simulate_answers
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import encoded_night, stream_of
from hushrank.privacy.stream_encoder import Terms, Workload
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

WEEKLY = (Habit(1.0, 1 / 7),)


def a_request(**changes) -> StreamRequest:
    asked = {
        "nights": 60, "workload": Workload(14), "habits": WEEKLY, "people": 4_000, "items": 10,
        "answers": 2, "epsilon": 1.0, "delta": 1e-6, **changes,
    }  # fmt: skip
    return StreamRequest(**asked)


def test_the_stated_error_is_that_of_a_simulated_stream():
    """The recommended setting, drawn: 40 streams of these people, every item equally likely."""
    request = a_request()
    plan = plan_stream(request)
    best = plan.recommended
    assert best.way == ENCODER
    terms = Terms(nights=60, participations=best.participations, gap=best.gap)
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, delta=1e-6,
        noise=NoiseKind.GAUSSIAN, max_contributions=2,
    )  # fmt: skip
    stream = stream_of(params, Sensitivity(2, 4), terms, request.workload, best.bands)
    squares = []
    column = request.workload.column(60)
    for seed in range(40):
        random = np.random.default_rng([7, seed])
        counted = 2 * simulate_answers(WEEKLY, terms, 4_000, seed).counted[:, 0]
        wins = random.multinomial(counted, np.full(10, 0.1))
        recent = [list(wins[max(0, t + 1 - stream.encoder.bands) : t + 1][::-1]) for t in range(60)]
        exact = np.stack([encoded_night(stream.encoder, each) for each in recent])
        noisy = add_noise(exact, stream.law, seeded_bits(seed))
        shown = lfilter(column, stream.encoder.coefficients, noisy.astype(float), axis=0)
        total = np.convolve(counted, column)[:60, None]
        squares.append(((shown / total - 0.1) ** 2)[30:].mean())
    assert math.sqrt(np.mean(squares)) == pytest.approx(best.error, rel=0.05)


def test_settings_are_in_order_and_differ_as_they_should():
    plan = plan_stream(a_request())
    errors = [each.error for each in plan.settings]
    assert errors == sorted(errors)
    assert plan.recommended is plan.settings[0]
    today = plan.best_of(COMPOSITION, NoiseKind.GAUSSIAN)
    assert (today.participations, today.gap, today.bands, today.counted) == (60, 1, 1, 1.0)
    assert plan.best_of(CAPS, NoiseKind.LAPLACE).counted < 1
    assert plan.best_of(ENCODER, NoiseKind.LAPLACE) is None
    assert all(each.participations * each.gap >= 60 for each in plan.settings)
    capped = [each for each in plan.settings if each.way == CAPS and each.noise_kind == "gaussian"]
    by_gap = sorted(capped, key=lambda each: each.gap)
    assert [each.counted for each in by_gap] == sorted((e.counted for e in by_gap), reverse=True)
    assert [each.noise for each in by_gap] == sorted((e.noise for e in by_gap), reverse=True)


def test_people_who_answer_every_night_need_no_caps():
    plan = plan_stream(a_request(habits=(Habit(1.0, 1.0),)))
    assert plan.recommended.way == COMPOSITION


def test_delta_0_is_laplace_alone():
    plan = plan_stream(a_request(delta=0.0))
    assert {each.noise_kind for each in plan.settings} == {NoiseKind.LAPLACE}


def test_a_plan_that_learns_nothing_recommends_nothing():
    plan = plan_stream(a_request(people=3, epsilon=0.01))
    assert not plan.informative
    assert plan.recommended.error == pytest.approx(even_share_error(10))


def test_the_command_says_what_to_take_and_what_it_leaves_out(command):
    words = ("plan", "--stream", 60, "--show", 14, "--habit", "0.14", "--people", 4000)
    code, printed = command(*words)
    assert code == 0
    assert printed.count("<- recommended") == 1
    assert "of the answers are left out" in printed
    assert "No answer was read; nothing was spent." in printed
    code, printed = command("plan", "--stream", 60, "--habit", "1")
    assert "Use no caps" in printed
    assert "A stream gains nothing then" in printed
    code, printed = command("plan", "--stream", 30, "--habit", "0.1", "--people", 2)
    assert "calling all items equal" in printed
    assert "recommended" not in printed


@pytest.mark.parametrize("show", ["14", "night", "all"])
@pytest.mark.parametrize("delta", ["1e-6", "0"])
def test_the_lines_for_the_file_are_a_stream_of_what_was_planned(command, show, delta):
    words = ("plan", "--stream", 60, "--show", show, "--habit", "0.14", "--delta", delta)
    _, printed = command(*words, "--people", 4000, "--max-contributions", 3)
    lines = printed.split("In the survey's YAML file:\n")[1].splitlines()[:2]
    content = yaml.safe_load("\n".join(lines).replace("DATE", "2026-11-20"))
    privacy = PrivacyConfig(**content["privacy"])
    assert (privacy.epsilon, privacy.delta, privacy.max_contributions) == (1.0, float(delta), 3)
    stream = StreamConfig(**{**content["schedule"]["stream"], "first": "2026-11-20"})
    assert stream.nights == 60
    assert stream.show.window == {"14": 14, "night": 1, "all": None}[show]
    assert f"Count {stream.participations} nights per person, at least {stream.gap}" in printed
    assert f"and use {stream.bands or 1} band" in printed


def test_the_document_holds_what_is_printed(capsys):
    words = ["plan", "--stream", "60", "--show", "all", "--habit", "0.14:1", "--habit", "0.9:1"]
    main([*words, "--json"])
    found = json.loads(capsys.readouterr().out)
    StreamDocument.model_validate_json(json.dumps(found), strict=False)
    assert found["window"] is None
    assert found["recommended"] == found["settings"][0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a.yaml", "--stream", 9, "--habit", "1"), "--stream excludes a YAML file"),
        (("--stream", 9), "name at least one"),
        (("--stream", 0, "--habit", "1"), "nights must be at least 1 and at most 1100"),
        (("--stream", 9, "--habit", "2"), "--habit 2: must be a chance"),
        (("--stream", 9, "--habit", "x"), "--habit x: must be a chance"),
        (("--stream", 9, "--habit", "1", "--show", "week"), "--show week: must be"),
        (("--stream", 9, "--habit", "1", "--show", "0"), "window must be >= 1"),
        (("--stream", 9, "--habit", "1", "--epsilon", "x"), "--epsilon x: must be"),
        (("--stream", 9, "--habit", "1", "--epsilon", "0"), "finite epsilon > 0"),
        (("--stream", 9, "--habit", "1", "--delta", "1"), "delta of at least 0"),
        (("--stream", 9, "--habit", "1", "--people", 1, "--people", 2), "--people: with --stream"),
        (("--stream", 9, "--habit", "1", "--items", 1), "items must be at least 2"),
    ],
)
def test_mistakes_are_named(command, words, message):
    code, printed = command("plan", *words)
    assert code == 2
    assert message in " ".join(printed.split())


def test_habits_as_they_are_typed():
    assert habits_of(["0.5", "0.1:3"]) == (Habit(1.0, 0.5), Habit(3.0, 0.1))


def test_groups_are_planned_by_their_answers():
    """A group of half of the answers has the error of half as many people under the same noise."""
    shares = (1.0, 1.0, 2.0)
    plan = plan_stream(a_request(people=8_000, group_shares=shares))
    half = plan_stream(a_request(people=4_000, seed=0))
    best = plan.recommended
    small, other, large = best.group_errors
    assert small == other > large
    assert best.error == pytest.approx(math.sqrt(small**2 / 2 + large**2 / 2))
    same = {(each.gap, each.bands, each.noise_kind): each for each in half.settings}
    alone = same[best.gap, best.bands, best.noise_kind]
    assert (large, best.noise) == (pytest.approx(alone.error, rel=0.02), alone.noise)


def test_groups_are_told(command, capsys):
    asked = ("plan", "--stream", 60, "--habit", "0.14", "--items", 10)
    shares = ("--group-share", "3", "--group-share", "1")
    code, printed = command(*asked, *shares)
    assert code == 0
    assert "Error by group, of its own answers alone: 75% of the answers: " in printed
    main([*map(str, asked), *shares, "--json"])
    document = StreamDocument.model_validate_json(capsys.readouterr().out, strict=False)
    assert document.group_shares == (0.75, 0.25)
    large, small = document.recommended.group_errors
    assert large < document.recommended.error < small
