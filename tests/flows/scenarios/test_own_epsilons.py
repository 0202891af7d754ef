"""Rankings and tests whose people chose their own epsilon, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.flows.conftest import Survey
from tests.flows.scenarios.test_rankings import (
    BEST_FIRST,
    NAMES,
    PEOPLE,
    ballots,
    refused,
    run,
)
from tests.flows.scenarios.test_rankings import true_rankings as rankings_of

TEST_ITEMS, TAKERS = 6, 8_000
__all__ = ["ballots"]  # the fixture
CHOSEN = np.resize([1.0, 2.0, 4.0, 8.0, 3.0], PEOPLE)  # 3 is no level, and counts as 2.828
LEVELS = {1.0: 600, 2.0: 600, 2.828: 600, 4.0: 600, 8.0: 600}
LISTS = {"kind": "rankings", "paths": ["lists.parquet"], "layout": "list",
         "columns": {"ranking": "ranking", "epsilon": "epsilon"}}  # fmt: skip


@pytest.fixture
def lists(ballots: Survey) -> Survey:
    orders = rankings_of()
    table = {"ranking": [[NAMES[item] for item in row] for row in orders], "epsilon": CHOSEN}
    pq.write_table(pa.table(table), ballots.folder / "lists.parquet")
    return ballots.set(input=LISTS, privacy=privacy("random-pairs"), method="borda")


def privacy(mechanism: str, **more: Any) -> dict[str, Any]:
    return {"unit": "local", "mechanism": mechanism, "epsilon_range": [1, 8], **more}


@pytest.mark.parametrize(
    ("mechanism", "method"),
    [("random-pairs", "borda"), ("mallows", "kemeny"), ("auto", "bradley-terry")],
)
def test_everybody_counts_at_their_own_epsilon(lists, command, mechanism, method):
    lists.set(privacy=privacy(mechanism), method=method)
    release, printed = run(lists, command)
    assert [line["item"] for line in release["ranking"]] == BEST_FIRST
    found = release["released"]
    assert {each["epsilon"]: sum(each["rankings"]) for each in found["by_epsilon"]} == LEVELS
    assert sum(found["rankings"]) == PEOPLE
    stated = release["privacy"]
    whole = 20.0 if mechanism == "mallows" else 8.0
    assert stated["epsilon"] == whole
    assert f"Spent epsilon {whole:.2f}" in printed
    assert stated["parameters"]["weights"] == "precision"
    assert stated["parameters"]["effective_rankings"] < PEOPLE
    assert any("rounded down to one of the public levels" in each for each in stated["statement"])
    assert any(each.startswith("Which epsilon a person chose") for each in stated["not_protected"])
    told = "People who chose more privacy"  # of 5 % of releases where they do not differ
    assert all(each.startswith(told) for each in release["warnings"])
    code, printed = command("verify", lists.output)
    assert code == 0, printed
    assert "Nothing is wrong." in printed


def test_equal_weights_count_all_alike(lists, command):
    release, _ = run(lists.set(model={"weights": "equal"}), command)
    assert release["privacy"]["parameters"]["weights"] == "equal"
    assert release["privacy"]["parameters"]["effective_rankings"] == PEOPLE


def test_people_who_chose_more_privacy_and_rank_otherwise_are_told_of(lists, command):
    rows = pq.read_table(lists.folder / "lists.parquet").to_pylist()
    for row in rows:
        if row["epsilon"] < 3:
            row["ranking"] = row["ranking"][::-1]
    pq.write_table(pa.Table.from_pylist(rows), lists.folder / "lists.parquet")
    release, printed = run(lists, command)
    assert "People who chose more privacy may answer differently" in release["warnings"][0]
    assert "model.weights: equal counts all alike" in " ".join(printed.split())
    release, _ = run(lists.set(model={"weights": "equal"}), command, "equal")
    assert not any("more privacy" in each for each in release["warnings"])


@pytest.mark.parametrize("mechanism", ["random-pairs", "mallows"])
def test_what_is_privatised_at_the_source_has_a_level_or_does_not_count(lists, command, mechanism):
    code, printed = command(
        "privatize", lists.folder / "lists.parquet", "--kind", "rankings", "--ranking", "ranking",
        "--mechanism", mechanism, "--epsilon-column", "epsilon", "--epsilon-range", 1, 8,
        "--out", lists.folder / "private.parquet",
    )  # fmt: skip
    assert code == 0, printed
    written = pq.read_table(lists.folder / "private.parquet")
    assert set(written["epsilon"].to_pylist()) == set(LEVELS)
    job = yaml.safe_load(printed.partition("In the job that ranks it:\n")[2])
    job["input"]["paths"] = ["private.parquet"]
    release, _ = run(lists.set(**job), command)
    assert [line["item"] for line in release["ranking"]] == BEST_FIRST
    found = release["released"]["by_epsilon"]
    assert {each["epsilon"]: sum(each["rankings"]) for each in found} == LEVELS
    moved = written.set_column(
        written.column_names.index("epsilon"), "epsilon",
        pa.array(np.where(np.array(written["epsilon"]) == 4, 3.9, np.array(written["epsilon"]))),
    )  # fmt: skip
    pq.write_table(moved, lists.folder / "private.parquet")
    release, _ = run(lists, command, "moved")
    assert sum(release["released"]["rankings"]) == PEOPLE - 600
    assert list(lists.work.rglob("rejects/*.parquet"))


@pytest.fixture
def sheets(tmp_path: Path) -> Survey:
    """Answers to six items, hardest first; people with a large epsilon are the abler ones."""
    rng = np.random.default_rng(1)
    ability = rng.normal(size=TAKERS)
    difficulty = np.linspace(2, -2, TEST_ITEMS)
    right = rng.random((TAKERS, TEST_ITEMS)) < 1 / (1 + np.exp(difficulty - ability[:, None]))
    table = {
        "user": np.repeat(np.arange(TAKERS), TEST_ITEMS),
        "item": np.tile(np.arange(TEST_ITEMS), TAKERS),
        "correct": right.ravel().astype(np.int8),
        "eps": np.repeat(np.where(ability > 0.5, 24.0, 6.5), TEST_ITEMS),
    }
    pq.write_table(pa.table(table), tmp_path / "sheets.parquet")
    settings = {
        "name": "exam",
        "input": {
            "kind": "responses",
            "paths": ["sheets.parquet"],
            "columns": {"epsilon": "eps"},
        },
        "items": {"count": TEST_ITEMS},
        "privacy": {
            "unit": "local",
            "epsilon_range": [6.0, 24.0],
            "budget": "per_user",
            "max_contributions": TEST_ITEMS,
        },
        "method": "spectral-rr",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 200},
    }
    return Survey(tmp_path, settings).set()


def test_test_answers_count_at_the_epsilon_of_their_person(sheets, command):
    release, printed = run(sheets, command)
    assert [line["item"] for line in release["ranking"]] == [str(k) for k in range(TEST_ITEMS)]
    assert "protects all answers of one person at epsilon 24, or less" in " ".join(printed.split())
    found, stated = release["released"], release["privacy"]
    levels = {each["epsilon"]: each["people"][-1] for each in found["by_epsilon"]}
    assert set(levels) == {6.0, 24.0}  # 6.5 is rounded down
    assert sum(levels.values()) == found["people"][-1] == TAKERS
    assert stated["parameters"]["epsilon_of_an_answer"] == (
        "6 to 24, divided by the person's answers"
    )
    assert any("rounded down to one of the public levels" in each for each in stated["statement"])
    assert (
        "Which epsilon a person chose: how many chose each is published."
        in (stated["not_protected"])
    )
    truth = np.linspace(2, -2, TEST_ITEMS)
    for line, score in zip(release["ranking"], truth, strict=True):
        # twice as far as an interval reaches: 1e-4 of right ones do; estimation has tests of cover
        reach = max(line["high"] - line["score"], line["score"] - line["low"])
        assert abs(line["score"] - score) < 2 * reach
    code, printed = command("verify", sheets.output)
    assert code == 0, printed
    assert "Nothing is wrong." in printed


TEST_MISTAKES = [
    ({"privacy__epsilon": 8.0}, "privacy: needs exactly one of privacy.epsilon"),
    ({"spectral": {"debiased": False}}, "spectral.debiased: false is the paper's baseline"),
    (
        {"method": "spectral",
         "privacy": {"unit": "user", "epsilon": 1.0, "max_contributions": 6}},
        "input.columns.epsilon: a personal epsilon only counts where",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), TEST_MISTAKES)
def test_what_does_not_go_with_an_own_epsilon_is_explained(sheets, command, changes, message):
    assert message in refused(sheets.set(**changes), command)
