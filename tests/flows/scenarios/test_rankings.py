"""Rankings from the command line: consensus, guarantee, what is refused, and real ballots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.estimation.rankings.ranking_counts import pair_counts
from hushrank.estimation.rankings.ranking_estimates import borda_scores, kemeny
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import seeded_bits
from tests.flows.conftest import Survey

NAMES = ["ants", "bees", "cats", "dogs", "emus"]
CENTRE = [3, 0, 4, 1, 2]
BEST_FIRST = [NAMES[item] for item in CENTRE]
PEOPLE = 3_000


def true_rankings(people: int = PEOPLE) -> np.ndarray:
    """Rankings around `CENTRE`, shape (people, items)."""
    items = np.tile(CENTRE, people)
    drawn = synthetic_rankings(items, np.full(people, len(CENTRE)), 4.0, seeded_bits(9))
    return drawn.reshape(people, -1)


def long_form(rankings: np.ndarray) -> pa.Table:
    people, length = rankings.shape
    return pa.table(
        {
            "user": np.repeat(np.arange(people), length),
            "item": pa.array(np.array(NAMES)[rankings.ravel()]),
            "rank": np.tile(np.arange(1, length + 1), people),
        }
    )


@pytest.fixture
def ballots(tmp_path: Path) -> Survey:
    pq.write_table(long_form(true_rankings()), tmp_path / "ballots.parquet", row_group_size=5_000)
    settings = {
        "name": "zoo",
        "input": {"kind": "rankings", "paths": ["ballots.parquet"], "columns": {}},
        "items": {"names": NAMES},
        "privacy": {"unit": "local", "mechanism": "mallows", "epsilon": 2.0},
        "method": "kemeny",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 50},
    }
    return Survey(tmp_path, settings).set()


def run(ballots: Survey, command: Any, output: str = "out") -> tuple[dict, str]:
    code, printed = command("run", ballots.set(output=output).config, "--direct")
    assert code == 0, printed
    return json.loads((ballots.folder / output / "release.json").read_text()), printed


def refused(ballots: Survey, command: Any) -> str:
    code, printed = command("validate", ballots.config)
    assert code == 2, printed
    return printed.replace(f"{ballots.config}: ", "").strip()


@pytest.mark.parametrize("method", ["kemeny", "borda", "bradley-terry"])
def test_every_method_finds_the_order(ballots, command, method):
    release, printed = run(ballots.set(method=method, top_k=2), command)
    assert [line["item"] for line in release["ranking"]] == BEST_FIRST
    assert release["top_k"] == BEST_FIRST[:2]
    assert all(line["low"] <= line["score"] <= line["high"] for line in release["ranking"])
    assert release["scale"] == ("log-odds" if method == "bradley-terry" else "above-middle")
    assert "Spent epsilon 5.00; zoo has epsilon 45.00 left" in printed
    report = (ballots.output / "report.html").read_text()
    assert "Who is above whom, in private rankings" in report
    assert "Rankings with … above" in report
    again, printed = run(ballots, command)
    assert "nothing was spent now" in printed
    assert again == release


def test_both_guarantees_are_stated_and_the_larger_one_is_charged(ballots, command):
    release, _ = run(ballots.set(privacy__max_contributions=2), command)
    privacy = release["privacy"]
    assert (privacy["unit"], privacy["adjacency"]) == ("local", "replace-one")
    assert privacy["epsilon"] == 10.0  # 2 rankings, 2 * 5 / 2 each
    assert privacy["mechanism"] == "mallows"
    assert privacy["max_contributions"] == 2
    parameters = privacy["parameters"]
    assert parameters["epsilon_of_a_ranking"] == "2"
    assert parameters["epsilon_of_a_whole_ranking_at_most"] == 5.0
    assert parameters["epsilon_of_a_person_at_most"] == 10.0
    assert parameters["longest_ranking"] == 5
    assert parameters["proven_best"] is True
    words = " ".join(privacy["statement"])
    assert "put one item of their ranking at another place" in words
    assert "7.39 times as likely" in words
    assert "in any other order" in words
    assert "148 times as likely" in words
    assert "At most 2 rankings of each person count" in words
    assert "Which items a person ranked, and how many" in privacy["not_protected"][0]
    assert "same rank" in privacy["not_protected"][1]
    assert privacy["theorem"].endswith("Algorithm 1 and Lemmas 1 and 2 (with erratum E4).")
    assert privacy["erratum"].startswith("E4")
    report = (ballots.output / "report.html").read_text()
    assert "in any other order" in report
    assert "local: each ranking, before it is counted" in report
    assert "Rankings used per person, at most" in report


def test_a_shorter_longest_list_costs_less(ballots, command):
    three = long_form(true_rankings()[:, :3])
    pq.write_table(three, ballots.folder / "ballots.parquet")
    release, printed = run(ballots.set(input__max_length=3), command)
    assert release["privacy"]["epsilon"] == 3.0
    assert "all rankings of one person at epsilon 3, or less" in printed


def test_laplace_ranks_are_a_baseline_with_their_own_bound(ballots, command):
    pq.write_table(long_form(true_rankings(300)), ballots.folder / "ballots.parquet")
    ballots.set(model={"common_order": True})
    release, _ = run(ballots.set(privacy__mechanism="laplace-ranks", privacy__epsilon=8.0), command)
    privacy = release["privacy"]
    assert privacy["epsilon"] == 8.0 * 12 / 8
    assert privacy["mechanism"] == "laplace-ranks"
    assert "discrete Laplace noise of scale 2 (m - 1) / epsilon" in " ".join(privacy["statement"])
    assert privacy["erratum"] is None
    assert "no closed form is known" in release["warnings"][0]


def test_lists_in_json_lines_give_a_ranking_too(ballots, command):
    lines = [
        json.dumps({"who": f"p{number}", "order": [NAMES[item] for item in ranking]})
        for number, ranking in enumerate(true_rankings().tolist())
    ]
    (ballots.folder / "ballots.jsonl").write_text("\n".join(lines))
    ballots.set(
        input__paths=["ballots.jsonl"],
        input__layout="list",
        input__columns={"user": "who", "ranking": "order"},
    )
    release, _ = run(ballots, command)
    assert [line["item"] for line in release["ranking"]] == BEST_FIRST
    assert release["released"]["rankings"][5] == PEOPLE


def test_rankings_without_people_promise_nothing_about_all_of_a_person(ballots, command):
    lines = [json.dumps({"order": [NAMES[item] for item in each]}) for each in true_rankings(300)]
    (ballots.folder / "ballots.jsonl").write_text("\n".join(lines))
    by_people, _ = run(ballots.set(), command)
    assert "epsilon_of_a_person_at_most" in by_people["privacy"]["parameters"]
    unnamed = {"input__paths": ["ballots.jsonl"], "input__layout": "list"}
    ballots.set(**unnamed, input__columns={"ranking": "order"}, output="unnamed")
    code, printed = command("run", ballots.config, "--direct")
    assert code == 2
    assert "this one hides one answer of a person, however many there are." in printed
    release, printed = run(ballots.set(name="unnamed"), command, "unnamed")
    privacy = release["privacy"]
    assert "one ranking at epsilon 5, or less" in printed
    assert privacy["epsilon"] == 5.0
    assert "epsilon_of_a_person_at_most" not in privacy["parameters"]
    assert (
        "Each ranking in the input counts as the one ranking of another person."
        in privacy["statement"]
    )
    assert any("losses add up, unbounded" in text for text in privacy["not_protected"])


def test_a_csv_in_long_form_with_ties_needs_a_decision(ballots, command):
    rows = "".join(f"{user},{item},{1 + k // 2}\n" for user in range(200)
                   for k, item in enumerate(BEST_FIRST))  # fmt: skip
    (ballots.folder / "ballots.csv").write_text("user,item,rank\n" + rows)
    ballots.set(input__paths=["ballots.csv"], privacy__epsilon=9.0)
    release, _ = run(ballots, command)
    assert release["informative"] is False
    assert sum(release["released"]["rankings"]) == 0
    rejects = list(ballots.work.rglob("rejects/*.parquet"))
    assert {row["reason"] for path in rejects for row in pq.read_table(path).to_pylist()} == {
        "the ranking puts two items at the same rank"
    }
    release, _ = run(ballots.set(input__ties="random"), command, "random")
    assert release["released"]["rankings"][5] == 200
    assert not any("same rank" in sentence for sentence in release["privacy"]["not_protected"])


def test_an_epsilon_of_each_person_comes_from_a_table_or_a_column(ballots, command):
    table = ballots.folder / "epsilons.csv"
    table.write_text("user,epsilon\n" + "".join(f"{user},3.5\n" for user in range(PEOPLE)))
    ballots.set(
        privacy={
            "unit": "local", "mechanism": "mallows", "epsilon_table": "epsilons.csv",
            "epsilon_range": [1.0, 4.0],
        },
        method="borda",
    )  # fmt: skip
    release, _ = run(ballots, command)
    assert release["privacy"]["epsilon"] == 10.0
    parameters = release["privacy"]["parameters"]
    assert (parameters["epsilon_of_a_ranking"], parameters["debiased"]) == ("1 to 4", True)
    assert [line["item"] for line in release["ranking"]] == BEST_FIRST
    (level,) = release["released"]["by_epsilon"]
    assert level["epsilon"] == 3.175  # the largest of the 13 levels up to 3.5
    assert level["wins"] == release["released"]["wins"]


def test_rankings_privatised_at_the_source_pass_as_they_are(ballots, command):
    release, _ = run(ballots.set(privacy__already_private=True, model={"debiased": False}), command)
    rankings = true_rankings()
    wins = pair_counts(rankings.ravel(), np.full(PEOPLE, 5), 5)
    np.testing.assert_array_equal(release["released"]["wins"], wins)
    assert "true rankings were never collected" in release["privacy"]["statement"][0]


def test_debiasing_undoes_what_the_mechanism_does_to_scores(ballots, command):
    ballots.set(method="borda", privacy__epsilon=8.0, ledger__epsilon=500)
    plain, _ = run(ballots.set(model={"debiased": False}), command, "plain")
    undone, _ = run(ballots.set(model={"debiased": True}), command, "undone")
    chosen, _ = run(ballots.set(model={"debiased": "auto"}), command, "auto")
    rankings = true_rankings()
    truth = borda_scores(pair_counts(rankings.ravel(), np.full(PEOPLE, 5), 5)) / PEOPLE
    by_name = {line["item"]: line for line in undone["ranking"]}
    for name, score in zip(NAMES, truth, strict=True):
        line = by_name[name]
        assert abs(line["score"] - score) < 3 * (line["high"] - line["low"]) / 2
    assert plain["ranking"][0]["score"] < truth.max()
    assert plain["ranking"][0]["high"] == "inf"  # of a true score it is not known
    assert plain["privacy"]["parameters"]["debiased"] is False
    assert undone["privacy"]["parameters"]["debiased"] is True
    assert chosen["privacy"]["parameters"]["debiased"] is True
    assert not undone["warnings"]
    assert "model.debiased is false" in plain["warnings"][0]
    tiny, _ = run(ballots.set(privacy__epsilon=1e-4), command, "tiny")
    assert tiny["privacy"]["parameters"]["drawn_to_zero_by"] < 0.5
    assert tiny["warnings"][0].startswith("Undoing what the mechanism does to rankings leaves much")
    assert min(line["low"] for line in tiny["ranking"]) == -2.0  # half a list: all that is possible
    assert max(line["high"] for line in tiny["ranking"]) == 2.0
    ballots.set(model={"common_order": True})
    tiny, _ = run(ballots.set(method="kemeny"), command, "pairs")
    assert tiny["privacy"]["parameters"]["debiased"] is False
    assert "one ranking would count as thousands" in tiny["warnings"][0]


def test_an_order_that_was_not_undone_needs_the_statement_that_people_share_one(ballots, command):
    """Pairs cannot be undone at this epsilon, which only the counts show."""
    ballots.set(privacy__epsilon=1e-4)
    release, _ = run(ballots, command, "unstated")
    assert release["informative"] is False
    assert {line["rank"] for line in release["ranking"]} == {3.0}
    assert release["warnings"][0].startswith("No order is published: what the mechanism does")
    for number, model in enumerate(({"common_order": True}, {"debiased": False})):
        release, _ = run(ballots.set(model=model), command, f"stated{number}")
        assert sorted(line["rank"] for line in release["ranking"]) == [1, 2, 3, 4, 5]
        assert "two items can change places by that" in release["warnings"][0]


def test_pairs_are_undone_unless_the_order_is_stated_to_be_common(ballots, command):
    """Of 40 people undoing adds more chance than it takes away bias, in 19 of 20 draws."""
    pq.write_table(long_form(true_rankings(40)), ballots.folder / "ballots.parquet")
    undone, _ = run(ballots, command, "undone")
    assert undone["privacy"]["parameters"]["debiased"] is True
    ballots.set(model={"common_order": True})
    drawn = set()
    for number in range(4):  # all four are undone by chance less than once in 10^5 times
        stated, _ = run(ballots.set(top_k=number + 1), command, f"stated{number}")
        drawn.add(stated["release_id"])  # each is a job of its own, with a draw of its own
        if stated["privacy"]["parameters"]["debiased"] is False:
            assert len(drawn) == number + 1
            return
    pytest.fail("the order is stated to be common, and no draw of four was left as it is")


def test_true_rankings_are_nowhere_outside_the_confidential_area(ballots, command):
    """Everybody ranks alike, so exact counts are known; names are unmistakable."""
    canary = 98_765_432_109_000  # no other number begins with so many of its digits
    table = long_form(np.tile(CENTRE, (400, 1)))
    table = table.set_column(0, "user", pa.array(table["user"].to_numpy() + canary))
    pq.write_table(table, ballots.folder / "ballots.parquet")
    release, printed = run(ballots.set(privacy__epsilon=0.5), command)
    wins = np.array(release["released"]["wins"])
    assert 0 < wins[CENTRE[4], CENTRE[0]] < 400
    assert wins.max() < 400
    outside = [path for path in ballots.folder.rglob("*") if path.is_file()]
    outside = [path for path in outside if ballots.work not in path.parents]
    texts = [path.read_bytes() for path in outside if path.name != "ballots.parquet"]
    assert texts
    assert not any(str(canary)[:-3].encode() in text for text in [*texts, printed.encode()])
    assert not list(ballots.work.rglob("exact.npz"))


LIST = {"input__layout": "list", "input__columns": {"ranking": "ranking"}}
MISTAKES = [
    ({"privacy__unit": "comparison"}, "privacy.unit: must be user (noise is added to counts) or"),
    (
        {"method": "footrule"},
        "method: footrule adds noise after counting, which privacy.unit",
    ),
    ({"privacy__mechanism": None}, "privacy.mechanism: missing; add mechanism: mallows"),
    (
        {"privacy__mechanism": "laplace"},
        "privacy.mechanism: must be mallows, laplace-ranks, random-pairs or auto, got",
    ),
    ({"privacy__epsilon": None}, "privacy.epsilon_range: missing"),
    ({"privacy__budget": "per_user"}, "privacy.budget: has no meaning for rankings"),
    ({"input__columns": {"epsilon": "e"}}, "privacy: needs exactly one of privacy.epsilon"),
    ({"input__columns": {"ranking": "r"}}, "columns.ranking: belongs to layout: list"),
    ({"input__layout": "list", "input__columns": {"rank": "r"}}, "columns.rank: belongs to layout"),
    ({"input__columns": {"item": "x", "rank": "x"}}, "columns.rank: column x is item already"),
    ({"input__contest": 3}, "columns.contest: missing; contest chooses by it"),
    ({**LIST, "input__ties": "random"}, "ties: a ranking in a list has no ties"),
    (
        {"input__layout": "list", "input__columns": {"contest": "c"}},
        "columns.contest: changes nothing in layout: list",
    ),
    ({**LIST, "privacy__max_contributions": 2}, "privacy.max_contributions: needs input.columns"),
    ({"input__max_length": 1}, "input.max_length: must be >= 2"),
    ({"method": "noisy-counts"}, "method: noisy-counts is not for input.kind: rankings; write"),
    ({"model": {"link": "probit"}}, "model.link: is not used by method: kemeny"),
    ({"items": {"count": 501}}, "items: must be at most 500 with method: kemeny"),
    ({"items": {"count": 1001}, "method": "borda"}, "items: must be at most 1000 with input.kind"),
    (
        {"privacy__mechanism": "laplace-ranks", "model": {"debiased": True}},
        "model.debiased: cannot be: for pairs under mechanism laplace-ranks no closed form is",
    ),
    (
        {"privacy__mechanism": "laplace-ranks"},
        "model.common_order: missing, since the mechanism cannot be undone: for pairs under",
    ),
    (
        {"items": {"count": 100}, "method": "borda", "model": {"debiased": True}},
        "model.debiased: cannot be: for 100 items in lists of up to 100 it takes too many counts",
    ),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_what_does_not_go_together_is_explained(ballots, command, changes, message):
    assert message in refused(ballots.set(**changes), command)
    assert not ballots.output.exists()


def test_a_mechanism_of_rankings_is_not_for_comparisons(survey, command):
    code, printed = command("validate", survey.set(privacy__mechanism="mallows").config)
    assert code == 2
    assert "privacy.mechanism: is for input.kind: rankings; remove it" in printed


def test_a_column_that_holds_no_lists_is_named_with_the_fix(ballots, command):
    ballots.set(**{**LIST, "input__columns": {"ranking": "item"}})
    message = refused(ballots, command)
    assert "column item (input.columns.ranking) has type string; it must hold lists" in message
    assert "set input.layout: long" in message


def consensus_of(table: pa.Table, n_items: int) -> tuple[np.ndarray, Any]:
    """Exact pair counts of a real long-form log, and their Kemeny consensus."""
    frame = table.to_pandas().sort_values(["user", "rank"])
    lengths = frame.groupby("user", sort=False).size().to_numpy()
    wins = pair_counts(frame["item"].to_numpy(np.int64), lengths, n_items)
    return wins, kemeny(wins)


@pytest.mark.parametrize(("contest", "n_items"), [(4, 9), (0, 4)])
def test_debian_elections_at_a_large_epsilon_have_the_exact_consensus(
    ballots, command, real_data, contest, n_items
):
    log = pq.read_table(real_data / "rank_debian.parquet")
    ballots.set(
        input__paths=[str(real_data / "rank_debian.parquet")],
        input__columns={"contest": "contest"},
        input__contest=contest,
        items={"count": n_items},
        privacy__epsilon=400.0,
        ledger__epsilon=5000,
    )
    release, _ = run(ballots, command)
    chosen = log.filter(pa.compute.equal(log["contest"], contest))
    wins, exact = consensus_of(chosen, n_items)
    np.testing.assert_array_equal(release["released"]["wins"], wins)
    assert [int(line["item"]) for line in release["ranking"]] == exact.order.tolist()
    assert release["privacy"]["parameters"]["disagreements"] == pytest.approx(exact.disagreements)


def test_bean_varieties_at_a_large_epsilon_have_the_exact_scores(ballots, command, real_data):
    path = real_data / "rank_beans_nicaragua.parquet"
    ballots.set(
        input__paths=[str(path)],
        input__max_length=3,
        items={"count": 10},
        privacy__epsilon=200.0,
        method="borda",
        ledger__epsilon=5000,
    )
    release, _ = run(ballots, command)
    log = pq.read_table(path)
    wins, _ = consensus_of(log, 10)
    people = pa.compute.count_distinct(log["user"]).as_py()
    scores = {int(line["item"]): line["score"] for line in release["ranking"]}
    expected = borda_scores(wins) / people
    np.testing.assert_allclose([scores[item] for item in range(10)], expected, atol=1e-9)
    release, _ = run(ballots.set(method="bradley-terry", privacy__epsilon=10.0), command, "private")
    private = {int(line["item"]): line["score"] for line in release["ranking"]}
    drawn = np.array([private[item] for item in range(10)])
    # It is 0.997; Fisher's transform of 0.9 is 6 standard deviations below that.
    assert np.corrcoef(drawn, expected)[0, 1] > 0.9
