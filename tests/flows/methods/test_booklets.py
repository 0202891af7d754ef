"""Booklets and blanks of a test: from the file to the page, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from hushrank.flows.methods.registry import load_config
from hushrank.verifier import verify_release
from tests.flows.conftest import Survey

NAMES = [f"q{number}" for number in range(6)]
DIFFICULTIES = np.linspace(-1.25, 1.25, 6)
BOOKLETS = {"A": NAMES[:4], "B": NAMES[2:]}
PEOPLE = 3000


def answers(
    *, skipped: float = 0.0, asked: NDArray[np.bool_] | None = None
) -> list[list[int | None]]:
    """A sheet for each person, who had a booklet; a share of the wrong answers is left blank."""
    rng = np.random.default_rng(1)
    right = rng.random((PEOPLE, 6)) < 1 / (1 + np.exp(DIFFICULTIES - rng.normal(size=(PEOPLE, 1))))
    if asked is None:
        asked = np.zeros((PEOPLE, 6), bool)
        asked[: PEOPLE // 3, :4] = asked[PEOPLE // 3 :, 2:] = True
    asked = asked & (right | (rng.random(asked.shape) >= skipped))
    rows = zip(right.tolist(), asked.tolist(), strict=True)
    return [[int(r) if a else None for r, a in zip(*row, strict=True)] for row in rows]


def wide(sheets: list[list[int | None]], **more: list[Any]) -> pa.Table:
    columns = dict(zip(NAMES, map(list, zip(*sheets, strict=True)), strict=True))
    return pa.table({"user": list(range(len(sheets))), **columns, **more})


@pytest.fixture
def exam(tmp_path: Path) -> Survey:
    pq.write_table(wide(answers()), tmp_path / "answers.parquet")
    settings = {
        "name": "exam",
        "input": {"kind": "responses", "layout": "wide", "paths": ["answers.parquet"]},
        "items": {"names": NAMES},
        "privacy": {
            **{"unit": "user", "epsilon": 4.0, "noise": "gaussian", "delta": 1e-6},
            "max_contributions": 4,
        },
        "method": "spectral",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 9, "delta": 1e-5},
    }
    return Survey(tmp_path, settings).set()


def release_of(exam: Survey) -> dict[str, Any]:
    return json.loads((exam.output / "release.json").read_text())


def check_verifies(folder: Path) -> None:
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    found = verify_release.verify(files)
    assert found.good, [text for kind, text in found.lines if kind == "WRONG"]


def scores(release: dict[str, Any]) -> list[float]:
    found = {line["item"]: line["score"] for line in release["ranking"]}
    return [found[name] for name in NAMES]


def test_only_pairs_that_share_a_booklet_get_noise_and_the_release_verifies(exam, command):
    code, printed = command("run", exam.set(input__booklets=BOOKLETS).config, "--direct")
    assert code == 0, printed
    release = release_of(exam)
    of_graph = {"graph": "booklets", "pairs": 11, "booklets": 2}
    assert release["privacy"]["parameters"] == {**of_graph, "estimator": "balance"}
    assert release["privacy"]["sensitivity_l2_squared"] == 8  # 2 floor(4^2 / 4)
    never = np.array(release["released"]["right_wrong"])[:2, 4:]  # items of A alone, of B alone
    assert not never.any()
    assert np.abs(np.array(scores(release)) - DIFFICULTIES).max() < 0.3
    statement = " ".join(release["privacy"]["statement"])
    assert "of items that share one of the test's public booklets" in statement
    assert "An item that a person left out is taken as not asked, by chance." in statement
    check_verifies(exam.output)
    assert "left out is taken as not asked" in (exam.output / "report.html").read_text()


def test_what_a_blank_means_decides_and_the_page_says_it(exam, command):
    """Half of the wrong answers to every item are left blank: only `wrong` brings them back."""
    pq.write_table(wide(answers(skipped=0.5)), exam.folder / "answers.parquet")
    told = {
        "wrong": "counts as a wrong answer",
        "set-aside": "who left an item out does not count",
    }
    counts = {}
    for number, (missing, sentence) in enumerate(told.items()):
        job = exam.set(input__booklets=BOOKLETS, input__missing=missing, output=f"out{number}")
        code, printed = command("run", job.config, "--direct")
        assert code == 0, printed
        release = json.loads((exam.folder / f"out{number}" / "release.json").read_text())
        assert sentence in " ".join(release["privacy"]["statement"])
        check_verifies(exam.folder / f"out{number}")
        counts[missing] = np.array(release["released"]["right_wrong"]).sum()
    whole = sum(None not in sheet[:4] or None not in sheet[2:] for sheet in answers(skipped=0.5))
    assert whole < PEOPLE / 2
    assert counts["set-aside"] < 0.6 * counts["wrong"]


def test_a_file_without_the_keys_stays_the_same_job(exam):
    plain = load_config(exam.config).job_hash()
    assert load_config(exam.set(input__missing="unseen").config).job_hash() == plain
    assert load_config(exam.set(input__missing="wrong").config).job_hash() != plain


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"input__booklets": {"A": NAMES[:4]}}, "input.booklets: must be 2 to 1,000, got 1"),
        ({"input__booklets": {"A": NAMES[:4], "B": []}}, "B needs at least two items"),
        ({"input__booklets": {"A": NAMES[:3], "B": NAMES[3:]}}, "without a common item"),
        ({"input__booklets": {"A": NAMES[:4], "B": [*NAMES[3:5], "q9"]}}, "not one of items"),
        ({"input__booklets": {"A": NAMES[:3], "B": NAMES[2:5]}}, "no booklet has q5"),
        ({"input__booklets": {"A": NAMES, "B": NAMES[2:]}}, "nobody can tell which"),
        (
            {"input__booklets": {"A": NAMES[:4], "A ": NAMES[2:]}},
            "input.booklets: A is the name of two, as blanks around it do not count; rename one",
        ),
        ({"input__booklets": BOOKLETS, "privacy__max_contributions": 6}, "write 4 there"),
        ({"input__booklets": BOOKLETS, "spectral": {"graph": "even"}}, "remove this line"),
        ({"spectral": {"graph": "booklets"}}, "needs input.booklets"),
        ({"input__columns": {"user": "user", "booklet": "form"}}, "input.booklets: missing"),
    ],
)
def test_booklets_that_cannot_be_are_refused(exam, command, changes, said):
    code, printed = command("validate", exam.set(**changes).config)
    assert code == 2
    assert said in printed
    assert "Traceback" not in printed


def test_a_column_may_name_the_booklet(exam, command):
    """Without it a sheet that answers common items alone fits both booklets."""
    sheets = answers()
    form = ["1"] * (PEOPLE // 3) + ["2"] * (PEOPLE - PEOPLE // 3)
    form[0] = "3"  # of no booklet: this sheet is set aside
    pq.write_table(wide(sheets, form=form), exam.folder / "answers.parquet")
    job = exam.set(
        input__booklets={"1": NAMES[:4], "2": NAMES[2:]},
        input__columns={"user": "user", "booklet": "form"},
    )
    code, printed = command("inspect", job.config, "--yes-confidential")
    assert code == 0, printed
    assert "booklet is not one of input.booklets  1" in printed
    code, printed = command("run", job.config, "--direct")
    assert code == 0, printed
    assert np.abs(np.array(scores(release_of(exam))) - DIFFICULTIES).max() < 0.3


def test_booklets_that_nobody_named_are_warned_of_from_the_released_counts(exam, command):
    booklets = {"A": NAMES[:3], "B": NAMES[2:5], "C": [NAMES[4], NAMES[5], NAMES[0]]}
    sheets = []
    for person, sheet in enumerate(answers(asked=np.ones((PEOPLE, 6), bool))):
        own = booklets["ABC"[person % 3]]
        sheets.append([mark if q in own else None for q, mark in zip(NAMES, sheet, strict=True)])
    pq.write_table(wide(sheets), exam.folder / "answers.parquet")
    exam.set(privacy__max_contributions=3)
    code, printed = command("run", exam.config, "--direct")
    assert code == 0, printed
    assert "name the booklets in input.booklets" in " ".join(printed.split())
    code, printed = command(
        "run", exam.set(input__booklets=booklets, output="out2").config, "--direct"
    )
    assert code == 0, printed
    assert "name the booklets" not in " ".join(printed.split())


def test_that_nothing_was_learned_about_most_items_is_said_first_on_page_and_in_terminal(
    exam, command
):
    """Everybody is right on four of six items, so that nothing limits how easy they are."""
    sheets = [
        [mark if number < 2 else 1 for number, mark in enumerate(sheet)]
        for sheet in answers()
        if sheet[0] is not None
    ]
    pq.write_table(wide(sheets), exam.folder / "answers.parquet")
    code, printed = command("run", exam.set(privacy__max_contributions=6).config, "--direct")
    assert code == 0, printed
    assert "Nothing was learned about most items." in printed
    release = release_of(exam)
    assert any("of 6 intervals have an open end" in text for text in release["warnings"])
    page = (exam.output / "report.html").read_text()
    assert "Nothing was learned about most items." in page
    check_verifies(exam.output)


def test_plan_invents_people_with_booklets(exam, command):
    code, printed = command("plan", exam.set(input__booklets=BOOKLETS).config, "--people", "2000")
    assert code == 0, printed
    assert "spectral" in printed
