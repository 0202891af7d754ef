"""Groups in a stream of nights: a ranking of each group and of all every night, paid for once."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from hushrank.privacy.stream_encoder import Encoder, Workload, decoding
from tests.flows.conftest import ITEMS, Survey
from tests.flows.scenarios.test_stream import (
    DAYS,
    EMPTY,
    GAP,
    NIGHTS,
    TIMES,
    WINDOW,
    drawn,
    release_of,
    run,
    spent,
    stream_folder,
    stream_of,
)

NAMES = ["en", "de"]
ELSEWHERE = "fr"  # counts in the whole only
LANGUAGES = [*NAMES, ELSEWHERE]


def log_of(number: int) -> pa.Table:
    """Each of thirty people answers on about half of the nights, in any language each time."""
    rng = np.random.default_rng(number)
    users = np.repeat(np.flatnonzero(rng.random(30) < 0.5), 2)
    left = rng.integers(0, 2, len(users))
    return pa.table(
        {
            "user": users,
            "item_i": left,
            "item_j": left + 1,
            "outcome": rng.choice(np.array([1, -1], np.int8), len(users)),
            "language": rng.choice(LANGUAGES, len(users)),
        }
    )


def expected() -> Iterator[np.ndarray]:
    """Wins that each night shows, shape (languages, n, n): by hand, person by person."""
    last: dict[int, int] = {}
    times: dict[int, int] = {}
    nights = []
    for number in range(NIGHTS):
        wins, tonight = np.zeros((len(LANGUAGES), len(ITEMS), len(ITEMS))), set()
        for row in log_of(number).to_pylist() if number != EMPTY else ():
            user = row["user"]
            if user not in tonight:
                if user in last and (number - last[user] < GAP or times[user] == TIMES):
                    continue
                tonight.add(user)
                last[user], times[user] = number, times.get(user, 0) + 1
            better, worse = row["item_i"], row["item_j"]
            if row["outcome"] < 0:
                better, worse = worse, better
            wins[LANGUAGES.index(row["language"]), better, worse] += 1
        nights.append(wins)
        yield np.sum(nights[-WINDOW:], axis=0)


@pytest.fixture
def stream(survey: Survey) -> Survey:
    groups = {"column": "language", "values": NAMES, "others": "whole"}
    return stream_of(survey, log_of, groups=groups)


def shown(wins: dict | list) -> np.ndarray:
    return np.array(list(wins.values()) if isinstance(wins, dict) else wins)


@pytest.mark.parametrize("method", ["noisy-counts", "noisy-pairs"])
def test_every_night_shows_every_group_and_the_whole_for_one_budget(stream, command, method):
    if method == "noisy-pairs":
        stream.set(method=method, input__design="any")
    code, printed = command(
        "backfill", stream.config, "--direct", "--from", DAYS[0], "--to", DAYS[-1]
    )
    assert code == 0, printed
    assert drawn(stream) == NIGHTS
    noisy = []
    for number, wins in enumerate(expected()):
        wanted = wins if method == "noisy-pairs" else wins.sum(axis=-1)
        release = release_of(stream, number)
        boards = {group["name"]: group for group in release["groups"]}
        assert list(boards) == NAMES
        assert shown(release["released"]["wins"]) == pytest.approx(wanted.sum(axis=0), abs=0.3)
        told = release["stream"]
        noisy.append(np.array(told["noisy"]).reshape(wanted.shape))
        kernel = decoding(Workload(WINDOW), Encoder(tuple(told["coefficients"])), NIGHTS)
        again = np.sum([kernel[number - each] * y for each, y in enumerate(noisy)], axis=0)
        for group, name in enumerate(NAMES):
            of_group = shown(boards[name]["released"]["wins"])
            assert of_group == pytest.approx(wanted[group], abs=0.2)
            off = slice(None) if of_group.ndim == 1 else ~np.eye(len(ITEMS), dtype=bool)
            # What is shown follows from the noisy numbers that every night publishes.
            assert of_group[off] == pytest.approx(again[group][off], abs=1e-5)
            assert {line["item"] for line in boards[name]["ranking"]} == set(ITEMS)
        assert sum(told["answers"]) == pytest.approx(wanted.sum(), abs=1)
    kept = [path.name for path in stream_folder(stream).glob("shown/*")]
    assert kept == []  # the stream has ended


def test_a_night_says_what_groups_cost_and_the_next_one_what_changed(stream, command):
    stream.set(privacy__rho=50.0)
    assert run(command, stream, 0)[0] == 0
    cost = spent(stream)
    code, printed = run(command, stream, 1)
    assert code == 0, printed
    assert "Of en and de there is one each in the report" in printed
    assert spent(stream) == cost > 0
    release = release_of(stream, 1)
    said = " ".join(release["privacy"]["statement"])
    assert "Counts are kept apart for 2 groups and for all other answers." in said
    assert "the budget is paid once for all rankings of all nights of the stream together" in said
    assert "The bounds on a person's nights, and on their answers of a night, hold across" in said
    assert "in a group, and" in said
    html = (stream.output / "report.html").read_text()
    for words in ("Ranking by group", "Since the release of", "of a shown count of a group"):
        assert words in html
    assert (stream.output / "ranking.csv").read_text().count(",de\n") == len(ITEMS)
    code, printed = command("history", stream.config)
    assert code == 0, printed
    assert "total of the stream, charged once" in printed


def test_other_groups_are_another_stream(stream, command):
    assert run(command, stream, 0)[0] == 0
    cost = spent(stream)
    stream.set(groups__values=["de", "en"], output="second")
    code, printed = run(command, stream, 1)
    assert code == 2, printed
    assert f"{DAYS[0]} comes first" in printed
    assert spent(stream) == cost


def test_a_night_whose_noise_is_stored_is_taken_up_with_its_groups(stream, command, monkeypatch):
    from hushrank.flows.ledger.ledger import Ledger

    stream.set(privacy__rho=0.5)
    with monkeypatch.context() as dying:
        dying.setattr(Ledger, "mark_drawn", lambda *_: exec("raise KeyboardInterrupt"))
        assert run(command, stream, 0)[0] == 130
    noise = np.load(stream_folder(stream) / "released" / "00000.npz")["released"]
    assert noise.shape == (len(LANGUAGES), len(ITEMS))
    code, printed = run(command, stream, 0)
    assert code == 0, printed
    assert release_of(stream, 0)["stream"]["noisy"] == noise.ravel().tolist()
    assert drawn(stream) == 1


def test_a_plan_of_such_a_job_tells_errors_by_group(stream, command):
    budget = {"rho": None, "epsilon": 2.0, "delta": 1e-6}
    stream.set(**{f"privacy__{key}": value for key, value in budget.items()})
    code, printed = command("plan", stream.config, "--people", "2000", "--json")
    assert code == 0, printed
    boards = json.loads(printed[printed.index("{") :])["groups"]
    assert len(boards) == len(NAMES)
