"""`hushrank attack`: the guess, the table, and what is refused."""

from __future__ import annotations

import math
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from hushrank.estimation.rankings.inference_attack import guess_ranking
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import seeded_bits

CITIES = ["Bern", "Kiev", "Oslo", "Rome"]
TRUTH = [2, 3, 0, 1]  # Oslo, Rome, Bern, Kiev


def synthetic(n: int, epsilon: float, seed: int = 0) -> np.ndarray:
    rows = synthetic_rankings(np.tile(TRUTH, n), np.full(n, 4), epsilon, seeded_bits(seed))
    return rows.reshape(n, 4)


def named(rows: np.ndarray) -> list[list[str]]:
    return [[CITIES[code] for code in row] for row in rows.tolist()]


def told(printed: str) -> tuple[str, float]:
    """The guess and its probability."""
    guess = re.search(r"Best guess of the true ranking: (.*)", printed)
    probability = re.search(r"right with probability (\S+),", printed)
    assert guess is not None
    assert probability is not None
    return guess[1], float(probability[1])


def table(printed: str) -> dict[int, float]:
    """Probability of the whole ranking by number of releases."""
    return {
        int(number): float(mean)
        for number, mean in re.findall(r"^ *(\d+) +[\d.e+]+ +([\d.e-]+)", printed, re.MULTILINE)
    }


def test_the_table_alone_grows_with_the_number_of_releases(command):
    code, printed = command(
        "attack", "--items", 3, "--epsilon", 2, "--releases", 30, "--simulations", 100
    )
    assert code == 0, printed
    found = table(printed)
    assert list(found) == [1, 2, 5, 10, 20, 30]
    unchanged = math.prod((1 - math.exp(-1)) / (1 - math.exp(-t)) for t in range(1, 4))
    assert found[1] == pytest.approx(unchanged, rel=0.01)  # as often as it comes out unchanged
    assert found[30] > 0.9 > found[5] > found[1]
    assert "each of 30 has epsilon (m - 1) / sqrt(N) = 0.365, the best guess" in printed
    assert "at worst is more: losses add up, to epsilon (m - 1) sqrt(N) = 11." in printed
    assert "(100 simulated people)" in printed


@pytest.mark.parametrize("form", ["list", "long", "csv", "preflib"])
def test_the_guess_is_that_of_the_likelihood_in_every_form(tmp_path, command, form):
    rows = synthetic(12, 1.0)
    expected = guess_ranking(rows, 1.0)
    path, options = tmp_path / f"released.{'csv' if form == 'csv' else 'parquet'}", ()
    if form == "list":
        pq.write_table(pa.table({"order": named(rows)}), path)
        options = ("--ranking", "order")
    elif form == "preflib":
        path = tmp_path / "released.soc"
        header = [f"# NUMBER ALTERNATIVES: {len(CITIES)}"]
        header += [f"# ALTERNATIVE NAME {k}: {city}" for k, city in enumerate(CITIES, 1)]
        lines = ["1: " + ",".join(str(code + 1) for code in row) for row in rows.tolist()]
        path.write_text("\n".join(header + lines))
    else:
        columns = {
            "user": np.repeat(np.arange(12), 4),
            "item": np.array(CITIES)[rows.ravel()],
            "rank": np.tile(np.arange(1, 5), 12),
        }
        scattered = pa.table(columns).take(np.random.default_rng(0).permutation(48))
        (pacsv.write_csv if form == "csv" else pq.write_table)(scattered, path)
    code, printed = command("attack", path, "--epsilon", 1, *options, "--simulations", 2)
    assert code == 0, printed
    assert printed.startswith("12 synthetic rankings of 4 items, each at epsilon 1.\n")
    guess, probability = told(printed)
    assert guess == " > ".join(CITIES[code] for code in expected.order)
    assert probability == pytest.approx(expected.probability, rel=0.01)
    assert max(table(printed)) == 100


def test_one_person_in_several_releases_with_epsilons_of_their_own(tmp_path, command):
    nights, epsilons = [], [0.5, 3.0, 1.0]
    rows = np.concatenate([synthetic(1, epsilon, seed=5) for epsilon in epsilons])
    for night, (row, epsilon) in enumerate(zip(rows, epsilons, strict=True)):
        nights.append(tmp_path / f"night{night}.parquet")
        people = {"user": ["bob", "ann"], "epsilon": [epsilon, epsilon]}
        orders = [["Kiev", "Bern"], named(row[None])[0]]
        pq.write_table(pa.table(people | {"ranking": orders}), nights[-1])
    options = ("--ranking", "ranking", "--person", "ann", "--epsilon-column", "epsilon")
    code, printed = command("attack", *nights, *options)
    assert code == 0, printed
    assert printed.startswith("3 synthetic rankings of 4 items, at epsilons 0.5 to 3.\n")
    expected = guess_ranking(rows, np.array(epsilons))
    guess, probability = told(printed)
    assert guess == " > ".join(CITIES[code] for code in expected.order)
    assert probability == pytest.approx(expected.probability, rel=0.01)
    assert "simulated people" not in printed  # there is no one epsilon for a table


def test_a_column_tells_the_rankings_of_a_person_apart(tmp_path, command):
    rows = synthetic(3, 4.0)
    path = tmp_path / "nights.parquet"
    columns = {
        "user": ["ann"] * 12,
        "night": np.repeat(["mon", "tue", "wed"], 4),
        "item": np.array(CITIES)[rows.ravel()],
        "rank": np.tile(np.arange(1, 5), 3),
    }
    pq.write_table(pa.table(columns), path)
    code, printed = command(
        "attack", path, "--epsilon", 4, "--contest", "night", "--simulations", 2
    )
    assert code == 0, printed
    assert printed.startswith("3 synthetic rankings of 4 items")


MISTAKES = [
    ((), "Give exactly one of --epsilon and --epsilon-column."),
    (("--epsilon", 1), "Give files of synthetic rankings, or --items and --epsilon."),
    (("--epsilon", -1, "--items", 3), "--epsilon must be finite and > 0, got -1"),
    (("--epsilon", 1, "--items", 21), "the attack takes 2 to 20 items, got 21."),
    (("--epsilon", 1, "--items", 1), "the attack takes 2 to 20 items, got 1."),
    (("--epsilon", 1, "--items", 3, "--releases", -2), "--releases must be at least 1, got -2"),
    (
        ("--epsilon", 1, "--items", 3, "--simulations", 1),
        "--simulations must be at least 2, got 1",
    ),
    (
        ("lists", "--epsilon", 1, "--items", 3),
        "--items applies only without files; leave it out.",
    ),
    (("absent.parquet", "--epsilon", 1), "{folder}/absent.parquet: no such file."),
    (
        ("lists", "--ranking", "ranking", "--epsilon", 1),
        "The rankings hold different items, so they are not synthetic rankings of one. Name whose"
        " they are with --user and --person, and give files of one contest.",
    ),
    (
        ("lists", "--ranking", "ranking", "--epsilon", 1, "--person", "eve"),
        "There is no ranking of eve in the files.",
    ),
    (
        ("lists", "--ranking", "ranking", "--epsilon-column", "eps", "--person", "ann"),
        "{folder}/lists.parquet: an epsilon is not finite and > 0. Correct the file.",
    ),
    (
        ("tied", "--epsilon", 1),
        "{folder}/tied.parquet: the ranking puts two items at the same rank. Correct the file.",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes_are_named(tmp_path, command, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    lists = {"user": ["ann", "bob"], "ranking": [["x", "y"], ["x", "z"]], "eps": [0.0, 1.0]}
    pq.write_table(pa.table(lists), "lists.parquet")
    tied = {"user": [1, 1], "item": ["x", "y"], "rank": [1, 1]}
    pq.write_table(pa.table(tied), "tied.parquet")
    files = {"lists": "lists.parquet", "tied": "tied.parquet"}
    code, printed = command("attack", *(files.get(each, each) for each in arguments))
    assert code == 2
    assert printed.startswith(message.format(folder=tmp_path)), printed
