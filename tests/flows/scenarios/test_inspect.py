"""`hushrank inspect`: it sees what a run sees, shows it at a terminal alone, and leaves nothing."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hushrank.flows.interfaces.cli.inspect_command import NO_TERMINAL, YES
from hushrank.flows.run.job import job_to_inspect, prepare_job, read_survey
from hushrank.pipelines.engine.runner import MemoryPlan
from hushrank.pipelines.inspect.inspect_log import look
from hushrank.pipelines.reduce.kind import Kind
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import system_bits
from hushrank.transforms.comparisons.bound import CONFLICT
from tests.flows.conftest import ITEMS, answers
from tests.flows.every_method import VARIANTS, rows_for, survey_of
from tests.flows.small_jobs import SMALL_JOBS

PEOPLE = 60


KEPT = ("rows_kept", "answers_kept", "rankings_kept")


def wild_rows(settings: dict[str, Any], seed: int = 3) -> pa.Table:
    """Rows as in `rows_for`, some people with many, some rows that break a rule."""
    rng = np.random.default_rng(seed)
    kind, table = settings["input"]["kind"], rows_for(settings, PEOPLE)
    twice = table.take(rng.integers(0, len(table), len(table) // 2))
    table = pa.concat_tables([table, twice])
    if kind == "comparisons":
        return _with(table, rng, {"outcome": [0, 7], "item_i": [9], "user": [None]})
    if kind == "responses":
        return _with(table, rng, {"item": ["wasps", None], "user": [None]})
    if "person_features" in settings["input"]:
        return _with(table, rng, {"age": [19, 61, None], "region": ["east"], "user": [None]})
    if "groups" in settings:
        return _with(table, rng, {"region": ["east", None], "user": [None]})
    return _with(table, rng, {"item": ["wasps"], "rank": [1, None]})


def _with(table: pa.Table, rng: np.random.Generator, values: dict[str, list]) -> pa.Table:
    """Some of the rows have one of these values instead."""
    for name, column in values.items():
        place = table.schema.get_field_index(name)
        for value in column:
            mask = pa.array(rng.random(len(table)) < 0.05)
            changed = pc.if_else(mask, pa.scalar(value, table.schema.field(name).type), table[name])
            table = table.set_column(place, name, changed)
    return table


def wild_survey(name: str, folder: Path):
    survey = survey_of(name, folder)
    pq.write_table(wild_rows(survey.settings), folder / "rows.parquet", row_group_size=40)
    return survey


def reduction_of(survey, folder: Path):
    job = prepare_job(read_survey(survey.config))
    return job.reduction(SecretKey.draw(system_bits()), str(folder))


@pytest.mark.parametrize("name", VARIANTS)
def test_a_look_counts_what_a_run_counts(name, tmp_path):
    survey, work = wild_survey(name, tmp_path), tmp_path / "reduced"
    job = reduction_of(survey, work)
    found = look(job)
    assert not work.exists()
    SMALL_JOBS.run(job)
    tally = json.loads((work / "diagnostics.json").read_text())
    reasons: Counter[str] = Counter()
    for path in (work / "rejects").iterdir():
        reasons.update(pq.read_table(path)["reason"].to_pylist())
    assert found.set_aside == reasons
    assert len(reasons) >= 2
    assert found.rows == tally["rows_read"] > 0
    counted = [tally[key] for key in KEPT if key in tally]
    assert [found.kept] == (counted or [found.encoded])  # nobody met, and coins decided ties
    if found.people is not None:
        assert sum(size * people for size, people in found.people.items()) == found.contributions


BALLOTS = ["ants>bees>cats", "ants>bees", "bees>cats", "dogs"]


def write_ballots(folder: Path, layout: str) -> dict[str, str]:
    """Write `BALLOTS` in `layout` to `rows.parquet`, and return the columns of people and ranks."""
    ballots = [ballot.split(">") for ballot in BALLOTS]
    user, columns = list(range(len(ballots))), {"user": "user"}
    if layout == "list":
        table, columns = {"user": user, "choice": ballots}, {"user": "user", "ranking": "choice"}
    elif layout == "long":
        rows = [
            {"user": person, "item": item, "rank": rank}
            for person, ballot in enumerate(ballots)
            for rank, item in enumerate(ballot)
        ]
        table, columns = (
            pa.Table.from_pylist(rows).to_pydict(),
            {
                "user": "user",
                "item": "item",
                "rank": "rank",
            },
        )
    else:
        ranks = {
            item: [ballot.index(item) + 1 if item in ballot else None for ballot in ballots]
            for item in ITEMS
        }
        table = {"user": user, **ranks}
    pq.write_table(pa.table({**table, "weather": ["rain"] * len(table["user"])}), folder)
    return columns


@pytest.mark.parametrize("name", ["borda, auto, hidden items", "kemeny"])
@pytest.mark.parametrize("layout", ["list", "long", "wide"])
def test_it_shows_lengths_of_ballots_and_columns_that_are_not_read(name, layout, tmp_path, command):
    survey = survey_of(name, tmp_path)
    survey.set(input__layout=layout)
    survey.set(input__columns=write_ballots(tmp_path / "rows.parquet", layout))
    found = look(reduction_of(survey, tmp_path / "w"))
    assert found.lengths == {1: 1, 2: 2, 3: 1}
    printed = " ".join(command("inspect", survey.config, YES)[1].split())
    assert "number of items in a valid ranking" in printed
    assert "2 2 50.0 %" in printed
    assert "Not read: weather." in printed


@pytest.mark.parametrize("name", ["noisy-counts", "rr-counts", "spectral", "kemeny"])
def test_in_little_memory_the_input_is_read_more_often_and_the_look_is_the_same(
    name, tmp_path, monkeypatch
):
    job = reduction_of(wild_survey(name, tmp_path), tmp_path / "reduced")
    once = look(job)
    assert once.passes == 1
    monkeypatch.setattr(Kind, "memory", MemoryPlan(waiting_bytes=3_000, rows_at_once=30))
    monkeypatch.setattr("hushrank.transforms.comparisons.shuffle.BUCKET_ROWS", 8)
    often = look(job)
    assert often.passes > 2
    for field in (
        "rows",
        "rejected",
        "refused",
        "ties",
        "contributions",
        "people",
        "merged",
        "lengths",
    ):
        assert getattr(often, field) == getattr(once, field)
    assert (often.kept, often.dropped) == (once.kept, once.dropped)
    np.testing.assert_array_equal(often.appearances, once.appearances)


def test_numbers_are_those_of_the_file(survey):
    table = wild_rows({"input": {"kind": "comparisons"}})
    pq.write_table(table, survey.folder / "answers.parquet")
    survey.set(privacy__distinct_pairs=None, privacy__max_contributions=4)
    found = look(reduction_of(survey, survey.work))
    rows = table.to_pandas()
    valid = rows[rows.user.notna() & (rows.item_i < 4) & rows.outcome.isin([-1, 0, 1])]
    valid = valid[valid.item_i != valid.item_j]
    decided = valid[valid.outcome != 0]
    sizes = decided.user.value_counts()
    assert (found.rows, found.encoded) == (len(rows), len(valid))
    assert found.ties == len(valid) - len(decided) > 0
    shown = np.bincount(valid.item_i, minlength=4) + np.bincount(valid.item_j, minlength=4)
    np.testing.assert_array_equal(found.appearances, shown)
    assert found.people == Counter(sizes.tolist())
    assert found.dropped == int((sizes - 4).clip(lower=0).sum())
    assert found.kept == int(sizes.clip(upper=4).sum())
    middle = sorted(sizes)[-(-len(sizes) // 2) - 1]
    assert found.quantiles([0.0, 0.5, 1.0]) == [sizes.min(), middle, sizes.max()]


def test_copies_of_an_event_and_contradictions_are_told_apart(survey):
    table = pa.table(
        {
            "user": [1, 1, 1, 1, 1],
            "item_i": [0, 0, 0, 0, 1],
            "item_j": [1, 1, 1, 1, 2],
            "outcome": [1, 1, 1, -1, 1],
            "id": [5, 5, 6, 6, 7],
        }
    )
    pq.write_table(table, survey.folder / "answers.parquet")
    survey.set(input__columns__event="id", privacy__distinct_pairs=None)
    found = look(reduction_of(survey, survey.work))
    assert found.set_aside == {CONFLICT: 2}
    assert (found.contributions, found.merged, found.dropped, found.kept) == (5, 1, 0, 2)


def test_without_a_unit_of_people_they_are_not_read(survey):
    survey.set(privacy={"unit": "comparison", "epsilon": 1.0})
    found = look(reduction_of(survey, survey.work))
    assert found.people is None
    assert (found.kept, found.contributions) == (1200, 1200)


def all_files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_prints_and_leaves_nothing(survey, command):
    pq.write_table(wild_rows({"input": {"kind": "comparisons"}}), survey.folder / "answers.parquet")
    survey.set(
        observability={"log": "log.jsonl", "metrics": "metrics.prom"}, privacy__max_contributions=4
    )
    before = all_files(survey.folder)
    code, printed = command("inspect", survey.config, YES)
    assert code == 0
    assert all_files(survey.folder) == before
    assert sorted(path.name for path in survey.folder.iterdir()) == [
        "answers.parquet",
        "survey.yaml",
    ]
    assert printed.count("CONFIDENTIAL") == 2
    for text in ("null user", "dropped by the bounds", "people; comparisons of a person", "ties"):
        assert text in printed
    assert "must not decide epsilon" in " ".join(printed.split())


def test_it_asks_nothing_of_the_ledger(survey, command):
    """Neither an empty budget nor a damaged ledger keeps the holder from looking."""
    survey.ledger.write_text("no ledger\n")
    assert command("inspect", survey.config, YES)[0] == 0
    assert survey.ledger.read_text() == "no ledger\n"


def test_a_pipe_gets_nothing_before_it_is_asked_for(survey, command):
    (survey.folder / "answers.parquet").write_bytes(b"not read")
    code, printed = command("inspect", survey.config)
    assert (code, " ".join(printed.split())) == (2, NO_TERMINAL)


def test_no_setting_of_colours_makes_a_pipe_a_terminal(survey):
    words = [sys.executable, "-m", "hushrank", "inspect", str(survey.config)]
    told = subprocess.run(
        words,
        capture_output=True,
        text=True,
        env={**os.environ, "FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"},
    )
    assert (told.returncode, told.stdout) == (2, "")


def test_a_terminal_is_answered(survey, tmp_path_factory):
    parent, child = pty.openpty()
    told = tmp_path_factory.mktemp("told") / "imports"
    words = [sys.executable, "-X", "importtime", "-m", "hushrank", "inspect", str(survey.config)]
    with (
        told.open("w") as stderr,
        subprocess.Popen(words, stdout=child, stderr=stderr, text=True) as process,
    ):
        os.close(child)
        printed = b""
        try:
            while part := os.read(parent, 65536):
                printed += part
        except OSError:  # the terminal is closed
            pass
    os.close(parent)
    loaded = [line.rpartition("|")[2].strip() for line in told.read_text().splitlines()]
    assert process.returncode == 0
    assert b"1,200" in printed
    assert "hushrank.pipelines.inspect.found" in loaded
    reads = "hushrank.pipelines.inspect.inspect_log"  # the child loads it
    assert not {reads, "prefect", "apache_beam", "hushrank.flows.watching.observer"} & set(loaded)


def test_one_night(survey, command):
    survey.set(input__paths=["log-{date}.parquet"])
    for day, people in (("2024-11-16", 3), ("2024-11-17", 5)):
        pq.write_table(answers(people), survey.folder / f"log-{day}.parquet")
    code, printed = command("inspect", survey.config, YES, "--date", "2024-11-17")
    assert code == 0
    assert "5 people" in printed
    assert "night 2024-11-17" in printed
    assert command("inspect", survey.config, YES, "--date", "2024-11-18")[0] == 2
    code, printed = command("inspect", survey.config, YES)
    assert (code, "--date" in printed) == (2, True)


def test_an_unforeseen_error_does_not_quote_a_row(survey, command, monkeypatch):
    def fails(*_: object) -> None:
        raise KeyError("ann, who answered ants")

    monkeypatch.setattr("hushrank.pipelines.inspect.inspect_log.look", fails)
    code, printed = command("inspect", survey.config, YES)
    assert code == 1
    assert "KeyError" in printed
    assert "ann" not in printed


@pytest.mark.parametrize(("shown_more", "verdict"), [(1, "is consistent with"), (3, "looks wrong")])
def test_it_doubts_a_balanced_design(survey, command, shown_more, verdict):
    table = answers(200)
    of_ants = table.filter(pc.equal(table["item_i"], 0))
    pq.write_table(
        pa.concat_tables([table, *[of_ants] * (shown_more - 1)]), survey.folder / "answers.parquet"
    )
    printed = command("inspect", survey.config, YES)[1]
    assert f"input.design: balanced {verdict}" in " ".join(printed.split())


def test_of_few_rows_it_does_not_judge_the_design(survey, command):
    pq.write_table(answers(5), survey.folder / "answers.parquet")
    assert "Too few valid rows to tell" in command("inspect", survey.config, YES)[1]


def test_a_log_whose_words_do_not_fit_is_explained(survey, command):
    table = answers(20)
    words = pa.array(["model_a"] * len(table))
    place = table.schema.get_field_index("outcome")
    pq.write_table(table.set_column(place, "outcome", words), survey.folder / "answers.parquet")
    printed = command("inspect", survey.config, YES)[1]
    assert "outcome is not +1, -1 or 0" in printed
    assert "columns, words or items do not match" in " ".join(printed.split())
    assert ITEMS[0] not in printed  # there is no exposure to show


def test_a_wide_test_counts_people_as_rows_and_cells_as_answers(tmp_path, command):
    survey = survey_of("spectral", tmp_path)
    table = {"user": [1, 2, 2, None], **{name: [1, 0, 1, 1] for name in ITEMS}}
    pq.write_table(pa.table(table), tmp_path / "rows.parquet")
    survey.set(input__layout="wide", input__columns={"user": "user"})
    job = job_to_inspect(read_survey(survey.config), None)
    found = look(job.reduction(SecretKey.draw(system_bits()), str(tmp_path / "w")))
    assert (found.rows, found.set_aside) == (4, {"null user": 1})
    assert (found.contributions, found.kept, found.refused.total()) == (12, 4, 8)
    assert not found.refuses_rows
    assert found.people == {4: 1, 8: 1}
