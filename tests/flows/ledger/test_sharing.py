"""One input under several names is one budget, unless the operator says that the people differ."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest

import hushrank as hr
from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.keys import MOST_FILES, InputNames, LedgerKey
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.operator import operator_name
from hushrank.flows.ledger.texts import shared_text
from hushrank.flows.release.identity import input_names
from hushrank.privacy.accounting import Spend
from hushrank.privacy.units import Unit
from hushrank.transforms.storage.files import FileFormat, InputFile
from tests.ledgers import NOW, Clock, terms_of

KEY = LedgerKey(bytes(32), "")
NAMES = [f"zoo-{number}" for number in range(6)]


def named(*names: str) -> InputNames:
    return InputNames("key", names)


def ledger_as(tmp_path, population: str, *others: str, **changes) -> Ledger:
    terms = terms_of(population=population, other_people=others, **changes)
    return Ledger(tmp_path / "ledger.jsonl", terms, clock=Clock())


def released(command, survey, name: str) -> tuple[int, str]:
    return command("run", survey.set(name=name, output=f"out-{name}").config, "--direct")


def test_six_names_over_one_file_are_one_budget(survey, command):
    survey.set(ledger__epsilon=2.0)
    assert released(command, survey, NAMES[0])[0] == 0
    for name in NAMES[1:]:
        code, printed = released(command, survey, name)
        assert code == 2
        assert "zoo-0 has read the same input (release " in printed
        assert f"so the name {name} would open a second budget" in printed
        assert "Set name: zoo-0." in printed
        assert not (survey.folder / f"out-{name}").exists()
        code, printed = command("validate", survey.config)
        assert code == 2
        assert "would open a second budget" in printed
        code, printed = command("ledger", "show", survey.config)
        assert code == 0
        assert "The same input is read as zoo-0 too." in printed
        assert "epsilon 2.00; unless they are different people, this is one budget" in printed
    assert survey.ledger.read_text().count('"event":"draw"') == 1


def moved(folder) -> None:
    (folder / "answers.parquet").rename(folder / "moved.parquet")


def copied(folder) -> None:
    shutil.copyfile(folder / "answers.parquet", folder / "moved.parquet")  # with a new date


def linked(folder) -> None:
    (folder / "moved.parquet").symlink_to(folder / "answers.parquet")


def hard_linked(folder) -> None:
    os.link(folder / "answers.parquet", folder / "moved.parquet")


@pytest.mark.parametrize("away", [moved, copied, linked, hard_linked])
def test_the_same_file_is_known_again_elsewhere(survey, command, away):
    assert released(command, survey, "zoo")[0] == 0
    away(survey.folder)
    survey.set(input__paths=["moved.parquet"])
    code, printed = released(command, survey, "park")
    assert code == 2
    assert "zoo has read the same input" in printed


def test_new_rows_in_the_same_place_are_known_again(survey, command):
    assert released(command, survey, "zoo")[0] == 0
    (survey.folder / "answers.parquet").touch()
    assert released(command, survey, "park")[0] == 2


def test_another_file_is_another_input(survey, command):
    assert released(command, survey, "zoo")[0] == 0
    answers = pq.read_table(survey.folder / "answers.parquet")
    pq.write_table(answers, survey.folder / "others.parquet", compression="zstd")
    survey.set(input__paths=["others.parquet"])
    assert released(command, survey, "park")[0] == 0  # a copy packed anew: the docs say so


def test_the_operator_may_state_that_the_people_are_others(survey, command):
    assert released(command, survey, "zoo")[0] == 0
    survey.set(name="park", output="park", ledger__other_people=["zoo"])
    code, printed = command("validate", survey.config)
    assert code == 0
    assert (
        "The same input is read as zoo too. With the name park a new budget begins. This job states"
        " that the people of zoo are others (ledger.other_people). Nobody checks that in the rows."
        " If it is false, the people have lost epsilon 2.00 together."
    ) in printed
    code, printed = command("run", survey.config, "--direct")
    assert code == 0
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    told = (
        f"The same input is read as zoo too. {operator_name()} stated on {today} that the people"
        " of zoo are others (ledger.other_people). Nobody checks that in the rows. If it is false,"
        " the people have lost epsilon 4.00 together."
    )
    assert told in printed
    assert told in (survey.folder / "park" / "report.html").read_text()
    assert told in command("ledger", "show", survey.config)[1]
    assert told in repr(hr.Ledger(survey.ledger, "park"))
    budget = json.loads(command("ledger", "show", survey.config, "--json")[1])["budget"]
    assert budget["spent_with_shared"] == 4.0
    (stated,) = budget["other_people"]
    assert (stated["population"], stated["by"]) == ("zoo", operator_name())
    assert stated["at"].startswith(today)
    survey.set(name="zoo", output="zoo", ledger__other_people=None, privacy__epsilon=1.0)
    code, printed = command("run", survey.config, "--direct")  # park has said it for both
    assert code == 0
    assert "have lost epsilon 5.00 together" in printed


def test_what_all_lost_counts_past_periods_and_the_first_statement_that_stands(tmp_path):
    clock = Clock()
    first, second = (
        Ledger(
            tmp_path / "ledger.jsonl",
            terms_of(population=name, other_people=others, refresh="daily"),
            clock=clock,
            operator=operator,
        )
        for name, others, operator in (("a", (), "anna"), ("b", ("a",), "bert"))
    )
    first.reserve("1", Spend(epsilon=1.0), inputs=named("x"))
    first.mark_drawn("1")
    for day in (1, 2):
        clock.now += timedelta(days=1)
        second.reserve(f"b-{day}", Spend(epsilon=1.5), inputs=named("x"))
        second.mark_drawn(f"b-{day}")
    for ledger in (first, second):
        balance = ledger.balance()
        assert balance.shared_epsilon == 4.0
        (other,) = balance.shared
        assert (other.statement.by, other.statement.at) == ("bert", NOW + timedelta(days=1))
    assert "bert stated on 2026-11-22 that the people of b are others" in shared_text(
        first.balance()
    )


def test_whoever_withdraws_the_statement_is_refused(tmp_path):
    ledger_as(tmp_path, "a").reserve("1", Spend(epsilon=1.0), inputs=named("x"))
    ledger_as(tmp_path, "b", "a").reserve("2", Spend(epsilon=1.0), inputs=named("x"))
    ledger_as(tmp_path, "a").check(Spend(epsilon=1.0), named("x"))  # b has said it for both
    for names in (named("x"), named("y")):  # once the people are the same, they stay so
        with pytest.raises(LedgerError, match=r"a has read the same input \(release 1, 2026"):
            ledger_as(tmp_path, "b", "c").reserve("3", Spend(epsilon=1.0), inputs=names)


def test_what_was_given_back_shares_nothing(tmp_path):
    first = ledger_as(tmp_path, "a")
    first.reserve("1", Spend(epsilon=1.0), inputs=named("x"))
    first.cancel("1")
    ledger_as(tmp_path, "b").check(Spend(epsilon=1.0), named("x"))


def test_costs_of_another_unit_are_told_and_not_added(tmp_path):
    ledger_as(tmp_path, "a").reserve("1", Spend(epsilon=1.0), inputs=named("x"))
    other = ledger_as(tmp_path, "b", "a", unit=Unit.COMPARISON)
    other.reserve("2", Spend(epsilon=4.0), inputs=named("x"))
    balance = other.balance()
    (shared,) = balance.shared
    assert (shared.population, shared.stated, shared.added) == ("a", True, False)
    assert balance.shared_epsilon == 4.0


def test_a_name_cannot_be_other_people_than_itself(survey, command):
    survey.set(ledger__other_people=["zoo"])
    code, printed = command("validate", survey.config)
    assert code == 2
    assert "ledger.other_people: must not name zoo itself; remove it" in printed


def _content(file: InputFile) -> str:
    return f"bytes of {file.size}"


def test_of_many_files_enough_names_are_kept_to_know_a_part_again():
    files = [InputFile(f"/data/{n}.csv", n + 1, f"{n}", FileFormat.CSV) for n in range(2000)]
    whole = input_names(["/data"], files, KEY, _content)
    assert len(whole.names) <= 2 * MOST_FILES + 1
    for part in (files[:100], files[900:1000], files[::20], files[:1]):
        found = input_names(["/other/*.csv"], part, KEY, _content)
        shares = not set(found.names).isdisjoint(whole.names)
        assert shares or len(part) == 1  # one of 2 000 may be missed
    assert whole.names == input_names(["/data"], files[::-1], KEY, _content).names


def test_names_of_files_say_nothing_without_the_key(survey, command):
    released(command, survey, "zoo")
    content = survey.ledger.read_text()
    assert "answers" not in content
    other = LedgerKey(b"\1" * 32, "")
    files = [InputFile("/a.csv", 1, "1", FileFormat.CSV)]
    pairs = itertools.product(
        *(input_names(["/a"], files, key, _content).names for key in (KEY, other))
    )
    assert all(one != two for one, two in pairs)
