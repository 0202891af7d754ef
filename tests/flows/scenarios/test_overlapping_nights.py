"""Groups that overlap in a stream of nights: an answer counts in several, and once in the whole."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

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
    stream_of,
)
from tests.flows.scenarios.test_stream_groups import shown

NAMES = ["coding", "hard", "math"]
GROUPS = {"column": "tags", "values": NAMES, "most": 2, "others": "whole"}
SETS = [[], ["coding"], ["hard", "coding"], ["math", "coding", "hard"], ["other"]]


def log_of(number: int) -> pa.Table:
    """Each of thirty people answers on about half of the nights, about prompts of any set."""
    rng = np.random.default_rng(number)
    users = np.repeat(np.flatnonzero(rng.random(30) < 0.5), 2)
    left = rng.integers(0, 2, len(users))
    return pa.table(
        {
            "user": users,
            "item_i": left,
            "item_j": left + 1,
            "outcome": rng.choice(np.array([1, -1], np.int8), len(users)),
            "tags": [SETS[place] for place in rng.integers(len(SETS), size=len(users))],
        }
    )


def expected() -> np.ndarray:
    """Wins that each night shows, of each group and then of all: by hand, person by person."""
    last: dict[int, int] = {}
    times: dict[int, int] = {}
    wins = np.zeros((NIGHTS, len(NAMES) + 1, len(ITEMS), len(ITEMS)))
    for number in range(NIGHTS):
        tonight = set()
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
            listed = [place for place, name in enumerate(NAMES) if name in row["tags"]]
            wins[number, [*listed[: GROUPS["most"]], len(NAMES)], better, worse] += 1
    shown = [wins[max(0, night - WINDOW + 1) : night + 1].sum(axis=0) for night in range(NIGHTS)]
    return np.array(shown)


@pytest.fixture
def stream(survey: Survey) -> Survey:
    return stream_of(survey, log_of, groups=dict(GROUPS))


@pytest.mark.parametrize("method", ["noisy-counts", "noisy-pairs"])
def test_every_night_counts_an_answer_in_its_groups_and_once_in_the_whole(stream, command, method):
    if method == "noisy-pairs":
        stream.set(method=method, input__design="any")
    code, printed = command(
        "backfill", stream.config, "--direct", "--from", DAYS[0], "--to", DAYS[-1]
    )
    assert code == 0, printed
    assert drawn(stream) == NIGHTS
    for number, wins in enumerate(expected()):
        wanted = wins if method == "noisy-pairs" else wins.sum(axis=-1)
        release = release_of(stream, number)
        boards = {group["name"]: group for group in release["groups"]}
        assert list(boards) == NAMES
        assert release["privacy"]["groups_per_answer"] == GROUPS["most"]
        for place, name in enumerate(NAMES):
            assert shown(boards[name]["released"]["wins"]) == pytest.approx(wanted[place], abs=0.3)
            assert boards[name]["own"] == 1.0
        assert shown(release["released"]["wins"]) == pytest.approx(wanted[-1], abs=0.3)
        assert len(release["stream"]["noisy"]) == wanted.size
        assert sum(release["stream"]["answers"]) == pytest.approx(wanted[-1].sum(), abs=1)


@pytest.mark.parametrize(
    ("method", "terms"),
    [
        ("noisy-pairs", {"participation": {"rows": 4, "pair_gap": 2}}),
        ("noisy-counts", {"participation": {"rows": 3, "gap": 2}}),
        ("noisy-counts", {"participations": 3, "gap": 2}),
    ],
    ids=["rows on pairs", "rows", "nights"],
)
def test_the_nights_of_each_form_of_terms_are_verified(stream, command, method, terms):
    section = {"nights": NIGHTS, **terms, "show": {"window": 3}}
    of_night = 1 if method == "noisy-counts" and "participation" in terms else 6
    stream.set(
        method=method,
        input__design="any" if method == "noisy-pairs" else "balanced",
        privacy__rho=0.5,
        privacy__max_contributions=of_night,
        schedule={"empty": "skip", "stream": {**section, "first": DAYS[0]}},
    )
    for number in range(2):
        code, printed = run(command, stream, number)
        assert code == 0, printed
        code, printed = command("verify", stream.output)
        assert code == 0, printed
        assert "fails" not in printed


def test_a_night_says_what_groups_that_overlap_cost(stream, command):
    stream.set(privacy__rho=50.0)
    assert run(command, stream, 0)[0] == 0
    cost = spent(stream)
    code, printed = run(command, stream, 1)
    assert code == 0, printed
    assert spent(stream) == cost > 0
    said = " ".join(release_of(stream, 1)["privacy"]["statement"])
    assert "Counts are kept for 3 groups, which may overlap, and for all answers together." in said
    assert "the budget is paid once for all rankings of all nights of the stream together" in said
    assert "The bounds on a person's nights, and on their answers of a night, hold across" in said
    assert "in a group, and" not in said  # the whole has the noise of a group
    html = (stream.output / "report.html").read_text()
    for words in ("Groups share answers", "Since the release of", "of a shown count"):
        assert words in html


def test_a_plan_of_such_a_job_tells_errors_by_group(stream, command):
    budget = {"rho": None, "epsilon": 2.0, "delta": 1e-6}
    stream.set(**{f"privacy__{key}": value for key, value in budget.items()})
    code, printed = command("plan", stream.config, "--people", "2000", "--json")
    assert code == 0, printed
    assert len(json.loads(printed[printed.index("{") :])["groups"]) == len(NAMES)
