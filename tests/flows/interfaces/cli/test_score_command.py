"""`hushrank score`: abilities of people whose sheets the caller holds; nothing is spent."""

from __future__ import annotations

import csv
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import expit

from hushrank.flows.release.release import load_release
from tests.flows.conftest import ITEMS
from tests.flows.every_method import survey_of
from tests.flows.forgeries import published, run

NOISELESS = {"privacy__epsilon": 20.0, "ledger__epsilon": 50.0}


def answers(people, seed=0):
    rng = np.random.default_rng(seed)
    ability = 1.3 * rng.normal(size=(people, 1))
    return (rng.random((people, 4)) < expit(ability - np.arange(4) + 1.5)).astype(np.int8)


@pytest.fixture(scope="module")
def test_of_four(tmp_path_factory):
    """A release of a test of four items with a row an answer."""
    survey = survey_of("totals", tmp_path_factory.mktemp("score") / "job").set(**NOISELESS)
    right = answers(2000)
    rows = {
        "user": np.repeat(np.arange(2000), 4),
        "item": np.tile(ITEMS, 2000),
        "correct": right.ravel(),
    }
    pq.write_table(pa.table(rows), survey.folder / "rows.parquet")
    run(survey)
    return survey


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_each_person_gets_the_ability_of_the_raw_score(test_of_four, command, tmp_path):
    sheets = tmp_path / "sheets.csv"
    lines = [f"{who},{item},{mark}" for who, marks in (("=A1", "1101"), ("bo", "0000"))
             for item, mark in zip(ITEMS, marks, strict=True)]  # fmt: skip
    lines += [f"blank,{item},1" for item in ITEMS[:3]]  # a sheet with a blank, which is set aside
    lines += [f"points,{item},2" for item in ITEMS]
    sheets.write_text("\n".join(["user,item,correct", *lines[::-1]]) + "\n")
    before = test_of_four.ledger.read_bytes()
    out = tmp_path / "abilities.csv"
    code, printed = command("score", sheets, "--release", test_of_four.output, "--out", out)
    assert code == 0, printed
    assert "Nothing was spent" in printed
    (test,) = load_release(test_of_four.output / "release.json").test
    found = {row["user"]: row for row in rows_of(out)}
    assert set(found) == {"'=A1", "bo", "blank", "points"}
    for who, score in (("'=A1", 3), ("bo", 0)):
        assert found[who]["score"] == str(score)
        assert float(found[who]["ability"]) == test.ability[score]
        assert float(found[who]["standard_error"]) == test.error[score]
    for who in ("blank", "points"):
        assert [found[who][name] for name in ("score", "ability", "standard_error")] == [""] * 3
    assert test_of_four.ledger.read_bytes() == before
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_sheets_of_booklets_have_the_abilities_of_theirs(command, tmp_path):
    booklets = {"A": ITEMS[:3], "B": ITEMS[1:]}
    survey = survey_of("totals", tmp_path / "job").set(
        input__booklets=booklets, input__missing="wrong", privacy__max_contributions=3, **NOISELESS
    )
    right, who = answers(3000), np.arange(3000)
    taken = np.where(who[:, np.newaxis] % 2 == 0, [0, 1, 2], [1, 2, 3])
    rows = {
        "user": np.repeat(who, 3),
        "item": np.array(ITEMS)[taken].ravel(),
        "correct": np.take_along_axis(right, taken, axis=1).ravel(),
    }
    pq.write_table(pa.table(rows), survey.folder / "rows.parquet")
    run(survey)
    sheets, out = tmp_path / "some.parquet", tmp_path / "abilities.csv"
    some = pa.table(rows).slice(0, 60).rename_columns(["pupil", "item", "correct"])
    pq.write_table(some, sheets)
    code, printed = command(
        "score", sheets, "--release", survey.config, "--out", out, "--user", "pupil"
    )
    assert code == 0, printed
    tests = {test.name: test for test in load_release(survey.output / "release.json").test}
    found = rows_of(out)
    assert len(found) == 20
    for row in found:
        person = int(row["pupil"])
        assert row["booklet"] == "AB"[person % 2]
        score = right[person, taken[person]].sum()
        assert int(row["score"]) == score
        assert float(row["ability"]) == tests[row["booklet"]].ability[score]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "there.csv"], "there.csv exists already; name a new file"),
        (["--out", "new.txt"], "--out new.txt: must end in"),
        (["--out", "nowhere/new.csv"], "nowhere: no such folder"),
        (["--out", "new.csv", "--user", "pupil"], "pupil"),
        (["--out", "new.csv", "--release", "counts"], "it has no abilities by raw score"),
        (["--out", "new.csv", "--release", "empty"], "holds no release.json"),
    ],
)
def test_what_cannot_be_done_is_said_and_leaves_nothing(
    test_of_four, command, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.csv").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "sheets.csv").write_text("user,item,correct\n1,ants,1\n")
    if "counts" in arguments:
        survey = survey_of("noisy-counts", tmp_path / "job")
        published("noisy-counts", tmp_path / "job")
        (tmp_path / "counts").symlink_to(survey.output)
    named = [] if "--release" in arguments else ["--release", test_of_four.output]
    code, printed = command("score", "sheets.csv", *named, *arguments)
    assert code != 0
    assert message in " ".join(printed.split())
    assert "Traceback" not in printed
    assert not (tmp_path / "new.csv").exists()
