"""Rankings that answer random pairs, from the command line: what is found, promised and refused."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from hushrank.privacy.local_source import privatize_ranking
from tests.flows.conftest import Survey
from tests.flows.scenarios.test_rankings import (
    BEST_FIRST,
    NAMES,
    ballots,
    consensus_of,
    long_form,
    refused,
    run,
    true_rankings,
)

__all__ = ["ballots"]  # the fixture
EPSILON = 6.0  # of answers from devices
PAIRS: dict[str, Any] = {"privacy__mechanism": "random-pairs", "privacy__epsilon": 5.0}


@pytest.mark.parametrize("hide", ["order", "items"])
@pytest.mark.parametrize("method", ["kemeny", "borda", "bradley-terry"])
def test_every_method_finds_the_order_and_the_whole_ranking_is_charged(
    ballots: Survey, command: Any, method: str, hide: str
) -> None:
    ballots.set(**PAIRS, method=method, privacy__hide=hide)
    if (method, hide) == ("bradley-terry", "items"):
        assert "privacy.hide: must be order with method: bradley-terry" in refused(ballots, command)
        return
    release, printed = run(ballots, command)
    assert [line["item"] for line in release["ranking"]] == BEST_FIRST
    assert all(line["low"] <= line["score"] <= line["high"] for line in release["ranking"])
    assert "Spent epsilon 5.00; zoo has epsilon 45.00 left" in printed
    privacy = release["privacy"]
    assert (privacy["epsilon"], privacy["mechanism"]) == (5.0, "random-pairs")
    assert privacy["parameters"]["pairs_answered"] == 2
    words = " ".join(privacy["statement"])
    assert "148 times as likely" in words
    assert "The budget is charged with it." in words
    assert ("put the same items in any other order" in words) == (hide == "order")
    assert ("ranked any other items, in any order" in words) == (hide == "items")
    assert ("Which items a person ranked" in privacy["not_protected"][0]) == (hide == "order")
    released = release["released"]
    assert released["kind"] == "private-pairs"
    assert sum(released["rankings"]) == 3_000
    assert (released["rankings"][0] == 3_000) == (hide == "items")
    report = (ballots.output / "report.html").read_text()
    assert "Who is above whom, in private answers" in report
    assert "Answers with … above" in report
    assert "local: each ranking, before it is counted" in report
    again, printed = run(ballots, command)
    assert "nothing was spent now" in printed
    assert again == release


def test_two_rankings_of_a_person_are_charged_and_fewer_pairs_may_be_asked(ballots, command):
    ballots.set(**PAIRS, privacy__max_contributions=2, privacy__pairs=1, method="borda")
    release, printed = run(ballots, command)
    assert "one random pair" in printed
    assert release["privacy"]["epsilon"] == 10.0
    assert release["privacy"]["parameters"]["epsilon_of_a_person_at_most"] == 10.0
    assert release["privacy"]["parameters"]["pairs_answered"] == 1


@pytest.mark.parametrize(
    ("epsilon", "method", "taken", "other"),
    [
        (2.5, "borda", "random-pairs", "mallows"),
        (15.0, "borda", "mallows", "random-pairs"),
        (10.0, "kemeny", "random-pairs", "mallows"),
        (10.0, "borda", "mallows", "random-pairs"),
    ],
)
def test_auto_takes_the_better_mechanism_at_the_same_loss(
    ballots, command, epsilon, method, taken, other
):
    ballots.set(privacy__mechanism="auto", privacy__epsilon=epsilon, method=method)
    release, printed = run(ballots, command)
    assert f"mechanism: auto took {taken}, because" in printed
    privacy = release["privacy"]
    assert privacy["mechanism"] == taken
    assert privacy["epsilon"] == pytest.approx(epsilon, rel=1e-12)
    assert privacy["epsilon"] <= epsilon
    assert f"{other} would need about" in privacy["parameters"]["mechanism_chosen"]
    assert any("chosen from public numbers" in words for words in privacy["statement"])
    assert [line["item"] for line in release["ranking"]] == BEST_FIRST


def test_auto_hides_items_with_pairs_alone(ballots, command):
    ballots.set(privacy__mechanism="auto", privacy__epsilon=30.0, privacy__hide="items")
    release, _ = run(ballots.set(method="borda"), command)
    assert release["privacy"]["mechanism"] == "random-pairs"


PRIVATIZE = [
    ((), "parquet", 3_000),
    (("--pairs", 2), "csv", 3_000),
    (("--hide", "items", "--items", "items.txt"), "jsonl", 3_000),
]


@pytest.mark.parametrize(("options", "ending", "people"), PRIVATIZE)
def test_what_privatize_writes_is_ranked_by_the_job_that_it_prints(
    ballots, command, options, ending, people
):
    (ballots.folder / "items.txt").write_text("\n".join(NAMES))
    options = [ballots.folder / each if each == "items.txt" else each for each in options]
    out = ballots.folder / f"private.{ending}"
    code, printed = command(
        "privatize", ballots.folder / "ballots.parquet", "--kind", "rankings", "--mechanism",
        "random-pairs", "--epsilon", 3, *options, "--out", out,
    )  # fmt: skip
    assert code == 0, printed
    assert ("The file does not hide which items a person ranked." in printed) == (
        "items" not in options
    )
    lines = yaml.safe_load(printed.partition("In the job that ranks it:\n")[2])
    lines["input"]["paths"] = [str(out)]
    ballots.set(**lines, method="borda")
    release, printed = run(ballots, command)
    assert [line["item"] for line in release["ranking"]] == BEST_FIRST
    assert sum(release["released"]["rankings"]) == people
    assert release["privacy"]["epsilon"] == 3.0
    assert "true rankings were never collected" in release["privacy"]["statement"][0]
    assert release["privacy"]["bits"] == {}
    assert "none is added: the rankings were privatised where they were given" in printed


@pytest.mark.parametrize("catalogue", [None, NAMES])
def test_answers_from_the_device_are_ranked(ballots, command, catalogue):
    """The documented function writes the rows."""
    with (ballots.folder / "answers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        numbered = [f"{name}_{k}" for k in (1, 2) for name in ("left", "right", "outcome")]
        writer.writerow([*numbered, *([] if catalogue else ["length"])])
        for order in true_rankings().tolist():
            ranking = [NAMES[item] for item in order[: 4 if catalogue else 5]]
            answers = privatize_ranking(ranking, EPSILON, 2, catalogue)
            length = [] if catalogue else [len(ranking)]
            writer.writerow([*(each for answer in answers for each in answer), *length])
    ballots.set(
        input={"kind": "rankings", "paths": ["answers.csv"], "layout": "pairs"},
        privacy={
            "unit": "local", "mechanism": "random-pairs", "pairs": 2, "epsilon": EPSILON,
            "already_private": True, "hide": "items" if catalogue else "order",
        },
        method="borda",
    )  # fmt: skip
    release, _ = run(ballots, command)
    assert [line["item"] for line in release["ranking"]][:2] == BEST_FIRST[:2]
    assert not list(ballots.work.rglob("rejects/*.parquet"))


def test_lists_that_are_too_short_for_an_answer_are_counted_and_say_nothing(ballots, command):
    short = long_form(true_rankings(500)[:, :1])
    pq.write_table(short, ballots.folder / "ballots.parquet")
    release, _ = run(ballots.set(**PAIRS), command)
    assert release["informative"] is False
    assert release["released"]["rankings"][1] == 500


MISTAKES = [
    ({**PAIRS, "privacy__pairs": 11}, "privacy.pairs: must be at most 10, the pairs of 5 items,"),
    ({"privacy__pairs": 1}, "privacy.pairs: is for mechanism: random-pairs; remove it"),
    ({"privacy__hide": "items"}, "privacy.hide: is for mechanism: random-pairs; remove it"),
    ({**PAIRS, "privacy__hide": "all"}, "privacy.hide: must be order or items, got 'all'"),
    (
        {**PAIRS, "model": {"weights": "equal"}},
        "model.weights: is for rankings whose epsilons differ; remove it",
    ),
    (
        {**PAIRS, "privacy__mechanism": "auto", "privacy__already_private": True},
        "privacy.mechanism: auto chooses before rankings are privatised",
    ),
    ({**PAIRS, "privacy__already_private": True}, "privacy.pairs: missing; already_private: true"),
    (
        {**PAIRS, "privacy__already_private": True, "privacy__pairs": 1},
        "input.layout: must be pairs with mechanism: random-pairs and already_private: true",
    ),
    ({**PAIRS, "input__layout": "pairs"}, "input.layout: pairs is for private answers; set"),
    (
        {**PAIRS, "input__columns": {"left": "a"}},
        "input.columns.left: belongs to layout: pairs; remove this line, or set that",
    ),
    (
        {**PAIRS, "input__layout": "pairs", "input__columns": {"user": "u"}},
        "input.columns.user: belongs to layout: long or list or wide or places or best-worst;",
    ),
    (
        {**PAIRS, "input__layout": "pairs", "privacy__already_private": True, "privacy__pairs": 1,
         "privacy__hide": "items", "input__columns": {"length": "n"}},
        "input.columns.length: is hidden by privacy.hide: items; remove it",
    ),
    (
        {**PAIRS, "input__layout": "pairs", "privacy__already_private": True, "privacy__pairs": 1,
         "privacy__max_contributions": 2},
        "privacy.max_contributions: not with input.layout: pairs, where each row counts as another",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_what_does_not_go_together_is_explained(ballots, command, changes, message):
    assert message in refused(ballots.set(**changes), command)
    assert not ballots.output.exists()


KIND = ("--kind", "rankings", "--epsilon", 1)
MISTAKEN_OPTIONS = [
    (("--pairs", 1), "--pairs, --hide and --items are for --mechanism random-pairs."),
    (("--mechanism", "random-pairs", "--pairs", 0), "--pairs must be 1 to 100, got 0"),
    (("--mechanism", "random-pairs", "--hide", "items"), "--hide items and --items, the file of"),
    (("--mechanism", "random-pairs", "--hide", "all"), "--hide must be order or items, got 'all'"),
    (
        ("--mechanism", "random-pairs", "--contest", "c"),
        "--contest does not work with --mechanism random-",
    ),
]


@pytest.mark.parametrize(("options", "message"), MISTAKEN_OPTIONS)
def test_mistaken_options_write_nothing(ballots, command, options, message):
    out = ballots.folder / "private.parquet"
    path = ballots.folder / "ballots.parquet"
    code, printed = command("privatize", path, *KIND, *options, "--out", out)
    assert code == 2
    assert printed.startswith(message)
    assert not out.exists()


def test_debian_elections_come_near_the_exact_consensus(ballots, command, real_data):
    """At a huge epsilon, with all pairs, the exact counts; at 4.5 with two, scores near them."""
    path = real_data / "rank_debian.parquet"
    ballots.set(
        **PAIRS,
        input__paths=[str(path)],
        input__columns={"contest": "contest"},
        input__contest=4,
        items={"count": 9},
        privacy__pairs=36,
        method="borda",
        ledger__epsilon=5000,
    ).set(privacy__epsilon=1440.0)  # 40 an answer: one in 10^17 is flipped
    release, _ = run(ballots, command)
    log = pq.read_table(path)
    wins, _ = consensus_of(log.filter(np.asarray(log["contest"]) == 4), 9)
    np.testing.assert_array_equal(release["released"]["wins"], 36 * wins)  # 36 in units of 1 / d
    few, _ = run(ballots.set(privacy__epsilon=4.5, privacy__pairs=None), command, "few")
    exact = {line["item"]: line["score"] for line in release["ranking"]}
    private = {line["item"]: line["score"] for line in few["ranking"]}
    scores = np.array([[exact[item], private[item]] for item in exact])
    assert np.corrcoef(scores.T)[0, 1] > 0.9
    covered = [line["low"] <= exact[line["item"]] <= line["high"] for line in few["ranking"]]
    assert sum(covered) >= 7
