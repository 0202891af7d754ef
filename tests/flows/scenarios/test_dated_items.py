"""A list of items for each night: the job stays the same, and each night ranks its own list."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.counts.noisy_pairs import MOST_ITEMS
from hushrank.flows.methods.registry import load_config
from hushrank.flows.run import run as running
from tests.flows.conftest import ITEMS, answers

FIRST, SECOND = date(2024, 11, 16), date(2024, 11, 17)
NIGHTS = (FIRST, SECOND)
WITHOUT_ANTS, WITHOUT_DOGS = ["bees", "cats", "dogs"], ["ants", "bees", "cats"]
BY_COLUMNS = (
    "item,name,from,until\nants,Ants,,2024-11-16\nbees,,,\ncats,,,\ndogs,Dogs,2024-11-17,\n"
)


@pytest.fixture
def nightly(survey):
    """Two nights of answers; ants are listed on the first, dogs on the second."""
    for seed, night in enumerate(NIGHTS):
        pq.write_table(with_names(answers(50, seed)), survey.folder / f"rows-{night}.parquet")
    write_lists(survey)
    return survey.set(
        input__paths=["rows-{date}.parquet"],
        items={"file": "items-{date}.txt"},
        ledger__epsilon=20,
        ledger__refresh=None,
    )


def with_names(rows: pa.Table) -> pa.Table:
    for place in (1, 2):
        names = pa.array(ITEMS).take(rows[place].combine_chunks())
        rows = rows.set_column(place, rows.column_names[place], names)
    return rows


def write_lists(survey, first=WITHOUT_DOGS, second=WITHOUT_ANTS) -> None:
    for night, names in zip(NIGHTS, (first, second), strict=True):
        (survey.folder / f"items-{night}.txt").write_text("\n".join(names))


def events(survey) -> list[str]:
    return [json.loads(line)["event"] for line in survey.ledger.read_text().splitlines()]


def released(survey) -> dict[str, set[str]]:
    """Items of the release of each night."""
    read = [json.loads((each / "release.json").read_text()) for each in survey.archived()]
    return {each["night"]: {line["item"] for line in each["ranking"]} for each in read}


def rank(command, survey, night=FIRST, *words) -> tuple[int, str]:
    code, printed = command("run", survey.config, "--date", night, "--direct", *words)
    return code, " ".join(printed.split())


@pytest.mark.parametrize("form", ["a file for each night", "columns from and until", "parquet"])
def test_each_night_ranks_its_list_as_one_job(nightly, command, form):
    if form != "a file for each night":
        (nightly.folder / "items.csv").write_text(BY_COLUMNS)
        nightly.set(items={"file": "items.csv"})
    if form == "parquet":
        table = pa.table(
            {
                "item": ITEMS,
                "from": pa.array([None, None, None, SECOND], pa.date32()),
                "until": ["2024-11-16", None, "", None],
            }
        )
        pq.write_table(table, nightly.folder / "items.parquet")
        nightly.set(items={"file": "items.parquet"})
    code, printed = command("backfill", nightly.config, "--from", FIRST, "--to", SECOND, "--direct")
    assert code == 0, printed
    found = {str(FIRST): set(WITHOUT_DOGS), str(SECOND): set(WITHOUT_ANTS)}
    assert released(nightly) == found
    jobs = {json.loads((each / "release.json").read_text())["job"] for each in nightly.archived()}
    assert len(jobs) == 1, "a list of another night made another job"
    code, printed = command("history", nightly.config, "--since", FIRST)
    assert code == 0, printed
    assert "ants went" in " ".join(printed.lower().split())
    assert "dogs came" in " ".join(printed.lower().split())
    before = nightly.ledger.read_bytes()
    for night in NIGHTS:
        assert rank(command, nightly, night)[0] == 0
    assert nightly.ledger.read_bytes() == before, "a night that was released was paid for again"


def test_a_changed_list_is_told_and_costs_only_if_it_is_asked_for(nightly, command):
    assert rank(command, nightly)[0] == 0
    write_lists(nightly, first=ITEMS)
    code, printed = rank(command, nightly)
    assert code == 0, printed
    assert f"Night {FIRST}: items.file lists other items now than those that release" in printed
    assert f"hushrank run --date {FIRST} --again ranks the night as it is now" in printed
    assert released(nightly) == {str(FIRST): set(WITHOUT_DOGS)}
    assert "other items now" in " ".join(command("history", nightly.config)[1].split())
    assert events(nightly).count("draw") == 1
    code, printed = rank(command, nightly, FIRST, "--again")
    assert code == 0, printed
    assert events(nightly).count("draw") == 2
    assert released(nightly)[str(FIRST)] == set(ITEMS)
    assert "other items now" not in rank(command, nightly)[1]


def test_another_list_over_the_same_rows_is_another_release(nightly):
    """Before it is drawn, too: what waits under one list is never taken for another."""
    from hushrank.flows.run.job import prepare_job, read_survey

    one = prepare_job(read_survey(nightly.config), night=FIRST)
    write_lists(nightly, first=ITEMS)
    other = prepare_job(read_survey(nightly.config), night=FIRST)
    assert one.config.job_hashes == other.config.job_hashes
    assert one.release_id != other.release_id
    write_lists(nightly)
    assert prepare_job(read_survey(nightly.config), night=FIRST).release_id == one.release_id


@pytest.mark.parametrize("now", ["another list", "no list"])
def test_what_was_drawn_is_published_under_the_names_of_then(nightly, command, monkeypatch, now):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(running, "estimate", killed)
        rank(command, nightly)
    assert events(nightly) == ["open", "reserve", "draw"]
    path = nightly.folder / f"items-{FIRST}.txt"
    if now == "another list":
        path.write_text("\n".join([*reversed(ITEMS), "eels"]))
    else:
        path.unlink()
    code, printed = rank(command, nightly)
    assert code == 0, printed
    assert released(nightly) == {str(FIRST): set(WITHOUT_DOGS)}
    assert events(nightly) == ["open", "reserve", "draw", "commit"]
    assert command("history", nightly.config, "--verify")[0] == 0


def test_a_night_without_a_list_is_refused_and_the_others_are_ranked(nightly, command):
    (nightly.folder / f"items-{FIRST}.txt").unlink()
    code, printed = command("backfill", nightly.config, "--from", FIRST, "--to", SECOND, "--direct")
    assert code == 2
    told = " ".join(printed.split())
    assert f"items-{FIRST}.txt: no such file; every night has a list of its own" in told
    assert released(nightly) == {str(SECOND): set(WITHOUT_ANTS)}
    assert events(nightly).count("reserve") == 1


@pytest.mark.parametrize("refused", NIGHTS, ids=["the first", "the newest"])
def test_a_list_that_the_method_refuses_stops_no_other_night(nightly, command, refused):
    long = [f"item {number}" for number in range(MOST_ITEMS + 1)]
    (nightly.folder / f"items-{refused}.txt").write_text("\n".join(long))
    nightly.set(method="noisy-pairs")
    code, printed = command("backfill", nightly.config, "--from", FIRST, "--to", SECOND, "--direct")
    assert code == 2
    assert f"takes at most {MOST_ITEMS} items" in " ".join(printed.split())
    assert [*released(nightly)] == [str(each) for each in NIGHTS if each != refused]
    assert events(nightly).count("reserve") == 1


@pytest.mark.parametrize("form", ["one item", "an item twice", "columns from and until"])
def test_a_newest_list_that_cannot_be_ranked_stops_no_night_before_it(nightly, command, form):
    twice = form == "an item twice"
    write_lists(nightly, second=["bees", "cats", "bees"] if twice else ["bees"])
    if form == "columns from and until":
        ended = "".join(f"{each},,{FIRST}\n" for each in ITEMS if each != "bees")
        (nightly.folder / "items.csv").write_text(f"item,from,until\nbees,,\n{ended}")
        nightly.set(items={"file": "items.csv"})
    code, printed = command("backfill", nightly.config, "--from", FIRST, "--to", SECOND, "--direct")
    assert code == 2
    told = " ".join(printed.split())
    assert f"(items of {SECOND})" in told
    assert ("bees" if twice else "a ranking needs at least 2 items, got 1") in told
    assert [*released(nightly)] == [str(FIRST)]
    assert events(nightly).count("reserve") == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"input__paths": ["answers.parquet"]},
            "items.file: lists items by night .* selects no nights",
        ),
        (
            {
                "schedule": {
                    "stream": {
                        "nights": 2,
                        "participations": 1,
                        "gap": 1,
                        "show": {"window": 1},
                        "first": "2024-11-16",
                    }
                }
            },
            "items.file: lists items by night, .* one list",
        ),
        ({"items__first_code": 0}, "first_code: a number would mean another item"),
        ({"items__file": "items-{date.txt"}, r"items.file: .* write {date}, or for example"),
    ],
)
def test_what_does_not_go_with_a_list_by_night(nightly, changes, says):
    nightly.set(**changes)
    with pytest.raises(ConfigError, match=says):
        load_config(nightly.config)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("ants,2024-11-17,2024-11-16", "item ants is listed from 2024-11-17 until 2024-11-16"),
        ("ants,,2024-11-16\nants,2024-11-16,", "two entries list item ants on the same nights"),
        ("ants,soon,", "item ants: from must be a date such as 2026-11-20, or empty, got 'soon'"),
        (
            "ants,,2024-11-15\nbees,,2024-11-15",
            "lists no item on 2024-11-16; correct its columns from and until",
        ),
        ("ants,,\nbees,2024-11-17,", "at least 2 items, got 1 .items of 2024-11-16."),
        (",,\nbees,,", "an item's name is empty"),
    ],
)
def test_wrong_nights_of_items_are_named(nightly, rows, says):
    (nightly.folder / "items.csv").write_text(f"item,from,until\n{rows}\n")
    nightly.set(items={"file": "items.csv"})
    with pytest.raises(ConfigError, match=f"items.file: .*{says}"):
        load_config(nightly.config).on_night(FIRST)


def test_an_item_may_come_back(nightly):
    (nightly.folder / "items.csv").write_text(
        "item,name,from,until\nants,Old ants,,2024-11-16\nants,New ants,2024-11-18,\nbees,,,\n"
        "cats,,,\n"
    )
    config = load_config(nightly.set(items={"file": "items.csv"}).config)
    lists = [config.on_night(date(2024, 11, day)).items for day in (16, 17, 18)]
    assert [each.catalogue.names for each in lists] == [
        ("ants", "bees", "cats"),
        ("bees", "cats"),
        ("ants", "bees", "cats"),
    ]
    assert [each.labels().get("ants") for each in lists] == ["Old ants", None, "New ants"]


def people_with_unlisted(printed: str) -> int:
    said = r"About ([\d,]+) people gave an answer with an item that is not listed"
    return int(re.findall(said, printed)[0].replace(",", ""))


def test_a_new_item_is_noticed_until_it_is_listed(nightly, command):
    """The pilot query counts people with items that the night's list does not have.

    Noise of scale 3.1 moves a count by 500 with a chance below e^-150.
    """
    rows = with_names(answers(4_000, seed=1))
    pq.write_table(rows, nightly.folder / f"rows-{FIRST}.parquet")
    nightly.set(privacy__look={"share": 0.2, "unlisted": True}, privacy__epsilon=4.0)
    code, printed = rank(command, nightly)
    assert code == 0, printed
    assert people_with_unlisted(printed) > 3_500
    write_lists(nightly, first=ITEMS)
    code, printed = rank(command, nightly, FIRST, "--again")
    assert code == 0, printed
    assert people_with_unlisted(printed) < 500


def test_without_a_night_the_newest_list_stands(nightly):
    """`plan` and `validate` need some list where no night was named."""
    assert load_config(nightly.config).items.catalogue.names == tuple(WITHOUT_ANTS)
    for night in NIGHTS:
        Path(nightly.folder / f"items-{night}.txt").unlink()
    with pytest.raises(ConfigError, match="no such file"):
        load_config(nightly.config)
