"""Alarms of a stream: items that pass each other, watched pairs, and where all of it is shown."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hushrank.flows.board.write import write_board
from hushrank.flows.config.row_rules import MOST_WATCHED
from hushrank.flows.release.alarms import bands_of
from hushrank.flows.release.boards import MOST_LISTED
from hushrank.flows.release.history import read_history
from hushrank.flows.release.release import load_release
from hushrank.flows.report.sections import ALL_NIGHTS, INTERVALS, ranks_over_time
from tests.flows.conftest import ITEMS, Survey
from tests.flows.forgeries import Forger
from tests.flows.scenarios.test_stream import DAYS, EMPTY, NIGHTS, release_of, run, stream_of

ANTS, BEES = 0, 1
TURN = 3  # from this night on bees beat ants
NAMED = [[ITEMS[BEES], ITEMS[ANTS]]]


def log_of(number: int) -> pa.Table:
    """Each night 200 other people compare each pair of items."""
    left, right = (np.repeat(each, 200) for each in np.triu_indices(len(ITEMS), 1))
    ants_and_bees = (left == ANTS) & (right == BEES)
    won = np.where(ants_and_bees, 1 if number < TURN else -1, np.tile([1, -1], len(left) // 2))
    users = len(left) * number + np.arange(len(left))
    return pa.table(
        {"user": users, "item_i": left, "item_j": right, "outcome": won.astype(np.int8)}
    )


@pytest.fixture(params=["noisy-counts", "noisy-pairs"])
def stream(survey: Survey, request: pytest.FixtureRequest) -> Survey:
    return watched(survey, request.param)


def watched(survey: Survey, method: str) -> Survey:
    return stream_of(survey, log_of, method=method).set(privacy__rho=2.0)


def run_all(command, survey: Survey, upto: int = NIGHTS) -> None:
    for number in range(upto):
        code, printed = run(command, survey, number)
        assert code == 0, printed


def alarms(survey: Survey, number: int) -> dict:
    return release_of(survey, number)["alarms"]


def test_bees_pass_ants_once_and_everything_says_so(stream, command, tmp_path):
    run_all(command, stream)
    told = [alarms(stream, number) for number in range(NIGHTS)]
    event = {"item": ITEMS[BEES], "passed": ITEMS[ANTS]}
    assert [event in each["passed"] for each in told].count(True) == 1
    place = [*combinations(sorted(ITEMS), 2)].index(tuple(sorted((ITEMS[ANTS], ITEMS[BEES]))))
    signs = [each["orders"][place] for each in told]
    assert {signs[TURN - 1], signs[-1]} == {">", "<"}
    assert all(each["pairs"] is None and each["number"] == 6 for each in told)

    _, printed = command("history", stream.config)
    said = f"{ITEMS[BEES]} passed {ITEMS[ANTS]}."
    assert printed.count(said) == 1
    assert f"any of the {NIGHTS} nights of the stream is wrong" in printed
    _, printed = command("history", stream.config, "--json")
    listed = json.loads(printed)["alarms"]
    assert [(each["item"], each["passed"]) for each in listed].count(tuple(event.values())) == 1

    night = next(number for number in range(NIGHTS) if event in told[number]["passed"])
    (folder,) = (stream.output / "releases").glob(f"{DAYS[night]}-*")
    assert said in (folder / "report.html").read_text()
    write_board([stream.output], tmp_path / "site")
    for name in ("index.html", "feed.xml", "feed.json"):
        assert said in (tmp_path / "site" / name).read_text()
    index = (tmp_path / "site" / "index.html").read_text()
    assert "on all nights of the stream at once" in index
    assert not Forger.of(stream).wrong()


def test_bands_of_the_picture_hold_on_all_nights(stream, command):
    run_all(command, stream, 2)
    releases = read_history([stream.output])
    drawn = ranks_over_time(releases, ".svg").decode()
    assert ALL_NIGHTS in drawn
    for release in releases:  # a point says the ranks of its band, not those of its night alone
        for item, (low, high) in bands_of(release).items():
            ends = f"{low}" if low == high else f"{low}–{high}"
            assert f"{release.shown()[item]}, {release.day}: rank {ends}<" in drawn
    alone = [each.model_copy(update={"stream": None}) for each in releases]
    assert INTERVALS in ranks_over_time(alone, ".svg").decode()


def with_pairs(survey: Survey, pairs: list[list[str]]) -> Survey:
    return survey.set(schedule__alarms={"pairs": pairs})


def test_named_pairs_are_the_only_ones_and_need_less(stream, command):
    run_all(command, with_pairs(stream, NAMED))
    told = alarms(stream, NIGHTS - 1)
    assert (told["pairs"], told["number"]) == (NAMED, 1)
    assert told["quantile"] < 3.0  # 6 nights, one pair; all six pairs need 3.2
    assert told["orders"] == ">"
    assert not Forger.of(stream).wrong()


def test_pairs_cannot_be_named_after_a_night_was_seen(stream, command):
    run_all(command, stream, 1)
    code, printed = run(command, with_pairs(stream, NAMED), 1)
    assert code == 2
    assert "schedule.alarms.pairs: the nights before this one watch all pairs" in printed
    assert "nothing was" in printed.lower()
    code, printed = command("validate", stream.config)
    assert code == 2
    assert "schedule.alarms.pairs" in printed


def test_pairs_that_were_named_stay_named(stream, command):
    run_all(command, with_pairs(stream, NAMED), 1)
    del stream.settings["schedule"]["alarms"]
    code, printed = run(command, stream.set(), 1)
    assert code == 2
    assert f"watch {ITEMS[BEES]}, {ITEMS[ANTS]}." in printed
    code, printed = run(command, with_pairs(stream, [NAMED[0][::-1]]), 1)  # the same pair
    assert code == 0, printed
    assert alarms(stream, 1)["pairs"] == NAMED


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ([["ants", "ants"]], "an item cannot pass itself"),
        ([["ants", "bees"], ["bees", "ants"]], "name each pair once"),
        ([["ants", "wolves"]], "wolves is none of the items"),
        ([], "alarms.pairs"),
    ],
)
def test_wrong_pairs_are_refused(survey, command, pairs, says):
    code, printed = command("validate", with_pairs(stream_of(survey), pairs).config)
    assert code == 2
    assert says in printed


def test_alarms_without_a_stream_are_refused(survey, command):
    code, printed = command("validate", survey.set(schedule={"alarms": {"pairs": NAMED}}).config)
    assert code == 2
    assert "is for schedule.stream" in printed


def test_as_many_items_are_watched_as_releases_have_errors_of():
    assert MOST_WATCHED == MOST_LISTED


def test_alarms_are_no_part_of_the_key_of_a_stream(stream, command):
    run_all(command, with_pairs(stream, NAMED), 1)
    named = load_release(stream.output / "release.json")
    assert named.stream is not None
    del stream.settings["schedule"]["alarms"]
    run_all(command, stream.set(output="out-2"), 1)
    other = load_release(Path(stream.folder) / "out-2" / "release.json")
    assert other.stream is not None
    assert other.stream.stream == named.stream.stream


@pytest.mark.parametrize(
    "change",
    [
        {"quantile": 1.0},
        {"orders": "<<<<<<"},
        {"number": 1},
        {"orders": "="},
        {"passed": [{"item": "dogs", "passed": "ants"}]},
        {"pairs": [["ants", "bees"], ["bees", "ants"]], "number": 2, "orders": "=="},
    ],
)
def test_the_verifier_finds_alarms_that_do_not_follow(survey, command, change):
    stream = watched(survey, "noisy-counts")
    run_all(command, stream, 2)
    forger = Forger.of(stream)
    assert not forger.wrong()
    for name, value in change.items():
        forger.tell(f"alarms.{name}", value)
    assert "alarms: " in forger.wrong()


def test_a_night_without_rows_is_watched_as_well(stream, command):
    run_all(command, stream, EMPTY + 1)
    assert len(alarms(stream, EMPTY)["orders"]) == 6


def test_small_texts_of_streams_are_right(survey, command, tmp_path):
    stream = watched(survey, "noisy-pairs")
    del stream.settings["schedule"]["stream"]["participations"]
    del stream.settings["schedule"]["stream"]["gap"]
    metered = {"rows": 9, "pair_gap": 2}
    code, printed = command("validate", stream.set(schedule__stream__participation=metered).config)
    assert code == 0, printed
    assert "at most 6 answers per person a night and 9 in the whole stream" in printed
    assert "one about the same two items in 2 nights" in printed
    run_all(command, stream, 1)
    _, printed = command("export", stream.config, "--out", tmp_path / "all.csv")
    assert "4 rows of 1 release." in printed
    _, printed = command("ledger", "show", stream.config)
    assert "need not add up to the total" in printed


def test_a_plan_of_a_week_shows_a_week_and_says_when_alarms_go_off(command):
    code, printed = command("plan", "--stream", 7, "--people", 6000, "--items", 8, "--habit", 0.14)
    assert code == 0, printed
    assert "{window: 28}" not in printed
    assert "1 nights" not in printed
    assert "if all 28 pairs are watched" in printed
    assert "shows it after about 6 nights" in printed  # three quarters of the window
