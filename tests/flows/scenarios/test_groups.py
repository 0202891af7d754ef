"""Groups from the YAML file to the page: a ranking of each language and of all, at one epsilon."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows.methods.counts.least_noise import NEARLY
from hushrank.flows.methods.counts.noisy_counts import NoisyCounts
from hushrank.flows.methods.counts.noisy_pairs import NoisyPairs
from hushrank.flows.methods.counts.win_loss import WinLoss
from hushrank.flows.methods.registry import METHODS, load_config
from hushrank.flows.planning.plan.plan import group_errors
from hushrank.flows.planning.plan.survey import Setting
from hushrank.flows.planning.plan.world import World
from tests.flows.conftest import ITEMS

ORDERS = {"en": [3, 2, 1, 0], "de": [0, 1, 2, 3], "no": [3, 2, 1, 0]}  # strength of each item
SIZES = {"en": 6_000, "de": 3_000, "no": 300, "fr": 500}


def votes(seed: int = 0) -> pa.Table:
    """Votes of people in four languages; of Norwegian ones there are few."""
    random, parts = np.random.default_rng(seed), []
    for group, size in SIZES.items():
        strength = np.array(ORDERS.get(group, [0, 0, 0, 0]))
        left = random.integers(4, size=size)
        right = (left + random.integers(1, 4, size=size)) % 4
        won = random.random(size) < 1 / (1 + np.exp(strength[right] - strength[left]))
        parts.append(
            pa.table(
                {
                    "user": random.integers(3_000, size=size),
                    "item_i": left,
                    "item_j": right,
                    "outcome": np.where(won, 1, -1).astype(np.int8),
                    "language": [group] * size,
                }
            )
        )
    return pa.concat_tables(parts)


@pytest.fixture
def grouped(survey):
    pq.write_table(votes(), survey.folder / "answers.parquet", row_group_size=2_000)
    return survey.set(
        groups={"column": "language", "values": ["en", "de", "no"]},
        input__design="balanced",
        privacy__distinct_pairs=False,
        privacy__max_contributions=5,
    )


@pytest.mark.parametrize("method", ["noisy-counts", "win-loss", "noisy-pairs"])
def test_every_group_and_the_whole_are_ranked_and_epsilon_is_paid_once(grouped, command, method):
    code, printed = command("run", grouped.set(method=method).config, "--direct")
    assert code == 0, printed
    assert "Of en, de and no there is one each in the report, ranking.csv" in printed
    assert "Spent epsilon 2.00; zoo has epsilon 3.00 left of 5.00" in printed
    release = json.loads((grouped.output / "release.json").read_text())
    boards = {group["name"]: group for group in release["groups"]}
    assert list(boards) == ["en", "de", "no"]
    for name, best in (("en", ITEMS[0]), ("de", ITEMS[3])):  # of 300 votes chance may decide
        assert boards[name]["ranking"][0]["item"] == best
    assert [len(board["ranking"]) for board in boards.values()] == [4, 4, 4]
    assert boards["no"]["own"] < boards["en"]["own"] <= 1
    widths = {
        name: np.mean([line["high"] - line["low"] for line in board["ranking"]])
        for name, board in boards.items()
    }
    assert widths["en"] < widths["no"]
    assert release["privacy"]["epsilon"] == 2
    (sentence,) = (each for each in release["privacy"]["statement"] if "3 groups" in each)
    assert "epsilon is paid once for all rankings" in sentence
    assert "holds across all groups" in sentence

    # The whole is the sum of the groups' noisy counts: nothing else was drawn.
    whole, parts = release["released"], [board["released"] for board in boards.values()]
    total = np.sum([np.array(as_numbers(part["wins"])) for part in parts], axis=0)
    assert np.array_equal(total, as_numbers(whole["wins"]))

    rows = list(csv.DictReader((grouped.output / "ranking.csv").open()))
    assert [row["board"] for row in rows] == [""] * 4 + ["en"] * 4 + ["de"] * 4 + ["no"] * 4
    first = boards["de"]["ranking"][0]
    assert (rows[8]["item"], float(rows[8]["score"])) == (
        first["item"],
        pytest.approx(first["score"], abs=1e-6),
    )
    report = (grouped.output / "report.html").read_text()
    assert "Ranking by group" in report
    assert all(f">{name}</summary>" in report for name in boards)


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("design", ["balanced", "random", "any"])
def test_auto_takes_the_method_of_least_noise_once_groups_are_paid_for(grouped, design, distinct):
    """Groups double the noise of wins of distinct pairs, and leave that of pairs as it is."""
    grouped.set(input__design=design, privacy__distinct_pairs=distinct)
    noise = {}
    for method in (NoisyCounts(), WinLoss(), NoisyPairs()):
        config = load_config(grouped.set(method="auto").config)
        if not any(method.facts.rules(config)):
            noise[method.facts.name] = method.noise_in_net_wins(method.calibrate(config))
    choice = METHODS["auto"].resolve(config)
    chosen = choice.method.facts.name
    sees_all = {name: noise[name] for name in noise if name != "noisy-counts"}
    assert noise[chosen] <= NEARLY * min(sees_all.values())
    assert "perturbed-mle" not in choice.reason
    assert all(name in choice.reason for name in noise)


def test_auto_ranks_every_group(grouped, command):
    code, printed = command("run", grouped.set(method="auto").config, "--direct")
    assert code == 0, printed
    release = json.loads((grouped.output / "release.json").read_text())
    assert [group["name"] for group in release["groups"]] == ["en", "de", "no"]
    assert release["method"] in ("noisy-counts", "win-loss", "noisy-pairs")


def as_numbers(wins):
    return list(wins.values()) if isinstance(wins, dict) else wins


def test_others_count_in_the_whole_only_or_are_set_aside(grouped, command):
    grouped.set(privacy__epsilon="inf")
    totals = {}
    for others in ("set-aside", "whole"):
        grouped.set(groups__others=others, output=f"out-{others}")
        code, printed = command("run", grouped.config, "--direct", "--no-privacy")
        assert code == 0, printed
        release = json.loads((grouped.folder / f"out-{others}" / "release.json").read_text())
        assert len(release["groups"]) == 3
        boards = sum(sum(group["released"]["wins"].values()) for group in release["groups"])
        totals[others] = (sum(release["released"]["wins"].values()), boards)
    assert totals["set-aside"][0] == totals["set-aside"][1]
    assert totals["whole"][0] > totals["whole"][1]


def test_elo_moves_every_board(grouped, command):
    grouped.set(method="win-loss", report={"scale": "elo"})
    assert command("run", grouped.config, "--direct")[0] == 0
    release = json.loads((grouped.output / "release.json").read_text())
    for group in release["groups"]:
        assert np.mean([line["score"] for line in group["ranking"]]) == pytest.approx(1000)


def test_groups_are_part_of_the_job(grouped):
    hashes = set()
    for values in (["en", "de"], ["de", "en"], ["en", "de", "no"]):
        hashes.add(load_config(grouped.set(groups__values=values).config).job_hash())
    hashes.add(load_config(grouped.set(groups__column="user_language").config).job_hash())
    assert len(hashes) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "perturbed-mle"}, "groups: with method: perturbed-mle"),
        ({"groups__values": ["en"]}, "groups.values: one group is the whole"),
        ({"groups__values": ["en", "en"]}, "groups.values: group en occurs 2 times"),
        ({"groups__column": "item_i"}, "groups.column: item_i is input.columns.left already"),
        ({"groups__other": "whole"}, "groups.other: unknown key. Did you mean others?"),
        ({"groups__column": "lang"}, "column lang not found"),
        (
            {
                "method": "noisy-pairs",
                "privacy__public_graph": True,
                "privacy__public_graph_statement": "all pairs",
                "input__ties": "random",
            },
            "groups: not with privacy.public_graph",
        ),
    ],
)
def test_what_groups_do_not_go_with_is_refused(grouped, command, changes, message):
    code, printed = command("run", grouped.set(**changes).config, "--direct")
    assert code != 0
    assert message in " ".join(printed.split())
    assert not grouped.output.exists()


def test_plan_tells_the_errors_of_groups(grouped, command):
    config = load_config(grouped.set(method="win-loss").config)
    setting = Setting(method="win-loss", epsilon=1.0, people=2_000, answers=5)
    (large, _), (middle, _), (small, order) = group_errors(config, setting, World(shares=(8, 3, 1)))
    assert large < middle < small < 0.5
    assert 0.5 < order < 1
    code, printed = command(
        "plan", grouped.config, "--people", "200", "--group-share", "8", "--group-share", "3"
    )
    assert code != 0
    assert "2 shares are given, and the job has 3 groups" in " ".join(printed.split())


def test_real_votes_in_three_parts_agree_with_their_own_votes(survey, command, real_data):
    """CEMS by the number of the student: parts of one survey, the last of few students.

    Chance alone tells such parts apart. Of 18 shares without noise nearly all are to be held.
    """
    table = pq.read_table(real_data / "pair_cems.parquet")
    number = np.unique(table["user"].to_numpy(), return_inverse=True)[1]
    part = np.where(number % 15 == 0, "few", np.where(number % 2 == 0, "even", "odd"))
    pq.write_table(table.append_column("part", pa.array(part)), survey.folder / "answers.parquet")
    survey.set(
        groups={"column": "part", "values": ["even", "odd", "few"]},
        items={"count": 6},
        method="noisy-counts",
        privacy__max_contributions=15,
        privacy__epsilon=4.0,
    )
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    private = json.loads((survey.output / "release.json").read_text())
    survey.set(privacy__epsilon="inf", output="exact")
    code, printed = command("run", survey.config, "--direct", "--no-privacy")
    assert code == 0, printed
    exact = json.loads((survey.folder / "exact" / "release.json").read_text())
    held, own = [], {}
    for noisy, true in zip(private["groups"], exact["groups"], strict=True):
        wins = true["released"]["wins"]
        total, own[noisy["name"]] = sum(wins.values()), noisy["own"]
        shares = {item: 50 + 100 * (6 * won / (2 * total) - 0.5) for item, won in wins.items()}
        held += [line["low"] <= shares[line["item"]] <= line["high"] for line in noisy["ranking"]]
    assert sum(held) >= 15
    assert own["few"] < own["even"] < 0.95
    best = {line["item"] for line in private["ranking"][:1]}
    assert all(board["ranking"][0]["item"] in best for board in private["groups"])
