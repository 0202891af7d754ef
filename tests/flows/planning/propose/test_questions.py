"""What `init` cannot know is a question: in the file, in the terminal and in Python.

Each log here once gave a ranking that was turned round, or that missed an item, without a word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import hushrank as hr
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config
from hushrank.flows.planning.propose.proposal import ask_for_answers, propose_config
from hushrank.flows.planning.propose.questions import best_question, items_question
from tests.flows.planning.propose.test_shapes import (
    COMPARED,
    ITEMS,
    compared,
    filled,
    ranked,
    write_csv,
)

PEOPLE = 400
VOTES = Path("votes.csv")


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def votes(left: str, right: str) -> list[dict[str, str]]:
    """Oslo wins most often; `left` and `right` are the codes of the result."""
    return [
        {"rater": f"u{person}", "model_a": a, "model_b": b, "answer": left if won == a else right}
        for person, a, b, won in compared()
        if won is not None
    ]


def shorts(path: Path) -> tuple[str, ...]:
    return propose_config(path, Path("survey.yaml")).choices


@pytest.mark.parametrize(("left", "right"), [("0", "1"), ("1", "0")])
def test_a_result_of_0_and_1_is_asked_for_and_the_best_item_leads_either_way(command, left, right):
    write_csv(VOTES, votes(left, right))
    code, printed = command("init", VOTES)
    assert code == 0, printed
    assert "which value means that left won" in printed
    words = f'{{left: ["{left}"], right: ["{right}"]}}'
    asked = Path("survey.yaml").read_text()
    assert f"{words} if {left} means that model_a won, {right} that model_b won" in asked
    ranked(command, COMPARED | {"words": words}, "Oslo")


def test_python_has_no_default_for_what_the_result_means():
    asked = {"name": "a", "left": "model_a", "right": "model_b", "outcome": "answer"}
    with pytest.raises(ConfigError) as caught:
        hr.rank(votes("0", "1"), **asked, ledger="ledger.jsonl", epsilon=1.0)
    first, *others = str(caught.value).split("\n")
    assert first.startswith(
        "words: missing; which value of answer means that model_a won, and which that model_b won?"
        " words={'left': ['1'], 'right': ['0']} if 1 means that model_a won"
    )
    assert any(each.startswith("items: missing") for each in others)  # all at once
    assert not Path("ledger.jsonl").exists()


def ballots(best: str) -> Iterator[dict[str, int]]:
    """Codes 1 to 3 of the items, the best first; `rank` counts down where the highest is best."""
    for person in range(PEOPLE):
        for code in (1, 2, 3):
            rank = code if best == "lowest" else 4 - code
            yield {"voter": person, "candidate": code, "rank": rank}


@pytest.mark.parametrize("best", ["lowest", "highest"])
def test_codes_from_1_and_the_best_rank_are_asked_for_in_the_terminal(command, monkeypatch, best):
    write_csv(Path("ballots.csv"), list(ballots(best)))
    typed = iter(["middle", best, "none", "unknown", ", ".join(ITEMS), "1", "8"])
    monkeypatch.setattr("builtins.input", lambda _: next(typed))
    code, printed = command("init", "ballots.csv", "--ask")
    assert code == 0, printed
    assert "Answer with lowest or highest." in printed
    text = Path("survey.yaml").read_text()
    assert "CHOOSE" not in text
    code, printed = command("run", "--direct", "survey.yaml")
    assert code == 0, printed
    assert f"{ITEMS[0]} leads." in printed
    certificate = json.loads(Path("out/ballots/certificate.json").read_text())
    settings = certificate["rows"]["settings"]
    assert (settings["best"], settings["first_code"]) == (best, 1)
    code, printed = command("verify", "out/ballots")
    assert code == 0, printed


def test_input_that_ends_early_writes_nothing(command, monkeypatch):
    def end(_: str) -> str:
        raise EOFError

    write_csv(Path("ballots.csv"), list(ballots("lowest")))
    monkeypatch.setattr("builtins.input", end)
    code, printed = command("init", "ballots.csv", "--ask")
    assert code == 2
    assert "the input ended before all questions were answered; survey.yaml was not written" in (
        " ".join(printed.split())
    )
    assert not Path("survey.yaml").exists()

    def interrupt(_: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupt)
    code, _ = command("init", "ballots.csv", "--ask")
    assert code != 0
    assert not Path("survey.yaml").exists()
    Path("survey.yaml").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        ask_for_answers(Path("ballots.csv"), Path("survey.yaml"), None, print, end)


def test_answers_are_written_as_yaml():
    assert best_question().value_of(" Highest ") == "highest"
    assert best_question().value_of("1") is None
    items = items_question("ranked")
    for typed, value in (
        ("London, St. Gallen", '{names: [London, "St. Gallen"]}'),
        ("6", "{count: 6}"),
        ("items.txt", "{file: items.txt}"),
        ("{count: 6}", "{count: 6}"),
        ("  ", None),
        ("London", None),  # one name is no ranking
    ):
        assert items.value_of(typed) == value


REFUSED = (
    "column candidate holds whole numbers and the items are names, so nothing says which item 1"
    " is: write items.first_code: 1 if it is Oslo, or items.first_code: 0 if it is Bern"
)


def test_integers_for_names_are_refused_until_it_is_said_which_is_the_first(command):
    """Parquet and a table in memory state the type; read as places from 0, all names are wrong."""
    table = pa.Table.from_pylist(list(ballots("lowest")))
    pq.write_table(table, "ballots.parquet")
    text = propose_config(Path("ballots.parquet"), Path("survey.yaml")).text
    choices = {
        "best": "lowest",
        "not_ranked": "[]",
        "unlisted": "unknown",
        "names": "[Oslo, Bern, Rome]",
        "epsilon": "8",
    }
    Path("survey.yaml").write_text(
        re.sub(r"(?m)^  first_code:.*\n", "", filled(text, choices | {"first_code": "1"}))
    )
    for name in ("validate", "run"):
        code, printed = command(name, "survey.yaml")
        assert code == 2
        assert REFUSED in " ".join(printed.split())
    assert not Path(".hushrank/ledger.jsonl").exists()
    asked = {"name": "a", "user": "voter", "item": "candidate", "rank": "rank", "epsilon": 8.0}
    asked |= {"noise": "gaussian", "delta": 1e-6, "max_contributions": 1, "ledger": "a.jsonl"}
    with pytest.raises(ConfigError, match="unlisted='below' if it is worse than those listed"):
        hr.rank(table, items={"names": ITEMS, "first_code": 1}, **asked)
    asked["unlisted"] = "below"
    with pytest.raises(ConfigError, match="1} if it is Oslo"):
        hr.rank(table, items=ITEMS, **asked)
    release = hr.rank(table, items={"names": ITEMS, "first_code": 1}, **asked)
    assert release.ranking["item"][0].as_py() == "Oslo"


def test_integers_that_name_the_winner_are_refused_too(command):
    """They count from 1 here; read as places from 0, the wrong item leads."""
    rows = [
        {"u": person, "a": ITEMS[0], "b": ITEMS[1], "winner": 1 + person % 2}
        for person in range(PEOPLE)
    ]
    pq.write_table(pa.Table.from_pylist(rows), "votes.parquet")
    text = propose_config(Path("votes.parquet"), Path("survey.yaml")).text
    job = yaml.safe_load(re.sub(r"# CHOOSE.*", "", text))
    job["input"] |= {"design": "balanced"}
    job["input"]["columns"] = {"user": "u", "left": "a", "right": "b", "winner": "winner"}
    job["input"].pop("words", None)
    job["privacy"] |= {"epsilon": 8, "max_contributions": 1}
    for first, code in ((None, 2), (1, 0)):
        job["items"] = {"names": list(ITEMS)} | ({} if first is None else {"first_code": first})
        Path("survey.yaml").write_text(yaml.safe_dump(job))
        found, printed = command("validate", "survey.yaml")
        assert found == code, printed
        assert ("column winner holds whole numbers" in printed) == (code == 2)


def test_a_column_that_is_empty_in_the_rows_read_is_an_item_or_a_question():
    rows = [
        {"voter": f"v{n}", "Ada": 1, "Bo": 2, "Cleo": 3, "Dan": "", "age": 2 + 9 * n}
        for n in range(5)
    ]
    write_csv(Path("wide.csv"), rows)
    proposal = propose_config(Path("wide.csv"), Path("survey.yaml"))
    assert "whether empty columns are items" in proposal.choices
    assert "Nothing is known of Dan" in proposal.summary
    answers = iter(["lowest", "0", "below", "yes", "2"])
    asked = ask_for_answers(
        Path("wide.csv"), Path("survey.yaml"), None, lambda _: None, lambda _: next(answers)
    )
    Path("survey.yaml").write_text(asked.text)
    assert load_config(Path("survey.yaml")).items.names == ("Ada", "Bo", "Cleo", "Dan")
    write_csv(Path("series.csv"), [{"voter": n, "q1": 1, "q2": 2, "q3": 3, "q4": ""} for n in "ab"])
    assert "    - q4" in propose_config(Path("series.csv"), Path("survey.yaml")).text
    write_csv(Path("zeros.csv"), [{"voter": n, "A": 1, "B": 2, "C": 3, "D": 0} for n in "ab"])
    text = propose_config(Path("zeros.csv"), Path("survey.yaml")).text
    assert "{names: [A, B, C, D]} if so" in text
    assert "The ranks that were read hold 0" in text
    assert load_config(Path("survey.yaml")).rankings.not_ranked == ("0",)


def test_no_count_and_no_guess_becomes_the_person():
    rows = [{"Ada": 1, "Bo": 2, "Cleo": 3, "Freq": 30}]
    write_csv(Path("counts.csv"), rows)
    with pytest.raises(ConfigError, match="column Freq seems to say how many people gave"):
        propose_config(Path("counts.csv"), Path("survey.yaml"))
    pair = {"user_id": "u", "client": "c", "a": "x", "b": "y", "winner": "x"}
    write_csv(Path("two.csv"), [pair])
    text = propose_config(Path("two.csv"), Path("survey.yaml")).text
    assert "user_id and client may both name people" in text.lower()
    test = {"CandidateID": "c1", "q1": 1, "q2": 0, "q3": 1}
    write_csv(Path("test.csv"), [test])
    assert "user: CandidateID" in propose_config(Path("test.csv"), Path("survey.yaml")).text


def test_an_empty_winner_is_asked_for_and_may_be_a_tie():
    row = {"visitor": "v", "model_a": "A", "model_b": "B", "winner": "A"}
    write_csv(VOTES, [row, row | {"winner": ""}])
    assert "what an empty winner means" in shorts(VOTES)
    write_csv(VOTES, [row])
    assert "what an empty winner means" not in shorts(VOTES)
    for of_ties in ("both_equal", "Tie", "isDraw", "is_tied"):
        write_csv(VOTES, [row | {of_ties: "false"}])
        (asked,) = (
            each
            for each in propose_config(VOTES, Path("survey.yaml")).questions
            if each.key == "input.words"
        )
        assert asked.because == f"column {of_ties} seems to say where nobody won"


RANKED = ("which rank is the best", "which rank means not ranked", "unlisted")
ASKED = {
    "01": [*RANKED, "epsilon"],
    "02c": [*RANKED, "whether empty columns are items", "epsilon"],
    "49f": [*RANKED, "the items", "the number of the first item", "epsilon"],
}


@pytest.mark.parametrize("case", ASKED)
def test_files_that_once_were_guessed_wrong(case, real_data):
    assert list(shorts(real_data / "cases" / case / "ballots.csv")) == ASKED[case]
