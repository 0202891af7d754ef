"""Files as people have them, from `init` to the page: the right answer, or one clear sentence."""

from __future__ import annotations

import csv
import json
import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, permutations
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from hushrank.flows.planning.propose.proposal import propose_config

NAMES = ("Ada", "Bo", "Cleo", "Dan")
Lines = Sequence[str]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of this file are written, and write, beside the survey."""
    monkeypatch.chdir(tmp_path)


def table(header: str, cells: Callable[[int], Sequence[object]], rows: int = 8) -> Lines:
    """A header, and rows with a number in front."""
    return [header, *(",".join(map(str, [number, *cells(number)])) for number in range(rows))]


def order(number: int, names: Sequence[str] = NAMES) -> list[str]:
    """One of the rankings of these names, another one in each row."""
    return list(list(permutations(names))[number % 6])


PAIRS = [f"{a}{{}}{b}" for a, b in combinations("ABC", 2)]
WORDS = "hold places in words"
WHOLE = "seems to hold a whole ranking"
A_PAIR = "it has a column for each pair of items"
CLEAR = "Choice_{}_1:City, Auditor:{}:Number of Winners 1:{}:NON"

NOT_READ: dict[str, tuple[Lines, str]] = {
    "grid": (
        table(
            "id,Rank [Ada],Rank [Bo],Rank [Cleo]",
            lambda n: order(n, ("1st choice", "2nd choice", "3rd choice")),
        ),
        WORDS,
    ),
    "long-of-words": (
        table(
            "voter,candidate,rank", lambda n: [NAMES[n % 4], ("1st", "2nd", "3rd", "4th")[n % 4]]
        ),
        "column rank holds places in words",
    ),
    "grid-of-words": (
        table("id,Ada,Bo,Cleo", lambda n: order(n, ["First", "Second", "Third"])),
        WORDS,
    ),
    "semicolons": (table("voter,ranking", lambda n: [";".join(order(n))]), WHOLE),
    "greater": (table("voter,ballot", lambda n: [" > ".join(order(n))]), WHOLE),
    "arrows": (table("voter,ranking", lambda n: [" → ".join(order(n))]), WHOLE),
    "equals": (
        table("voter,vote", lambda n: ["{}>{}={}>{}".format(*order(n))]),
        WHOLE,
    ),
    "commas": (table("voter,ballot", lambda n: [f'"{", ".join(order(n))}"']), WHOLE),
    "json": (
        table("voter,ballot", lambda n: ['"' + json.dumps(order(n)).replace('"', '""') + '"']),
        WHOLE,
    ),
    "pairs": (
        table(f"id,{','.join(PAIRS).format(*'...')}", lambda n: [f"no. {n % 2}", "first", "x"]),
        A_PAIR,
    ),
    "clear-ballot": (
        table(
            "BallotID," + ",".join(f'"{CLEAR.format(n, k, n)}"' for n in (1, 2) for k in (1, 2)),
            lambda n: [1, 0, 0, 1],
        ),
        "cast vote records of Clear Ballot",
    ),
    "cells": (
        table(
            "id," + ",".join(f"{n}_{k}" for n in "ABC" for k in (1, 2, 3)),
            lambda n: [int(place == k) for place in order(n, "123") for k in "123"],
        ),
        "it has a cell for each item and rank",
    ),
    "notes": (
        table("row,noteId,raterParticipantId,helpful,notHelpful", lambda n: [n % 3, n, 1, 0]),
        "ratings of notes",
    ),
    "ratings": (table("row,userId,movieId,rating", lambda n: [n % 3, n, 1 + n % 5]), "ratings of"),
    "counts": (
        table("row,home.team,away.team,home.wins,away.wins", lambda n: ["A", "B", n, 3]),
        "seem to hold wins or points of each side",
    ),
    "scores": (
        table("row,left,right,left_score,right_score", lambda n: ["A", "B", n % 3 + 1, 3]),
        "columns left_score and right_score seem to hold wins or points",
    ),
    "other-words": (table("id,Top pick,Runner up,Then,Last", order), "no name says which place"),
    "bars": (
        [line.replace(",", "|") for line in table("id,a,b,won", lambda n: "ABA")],
        "columns seem to be separated by |",
    ),
    "no-header": (table("u8,A,B,A", lambda n: "ABA"), "the first line seems to be a row"),
    "twice": (table("user,left,right,won,won", lambda n: "ABAA"), "column won occurs twice"),
    "sep": (["sep=,", "user,left,right,winner", "u,A,B,A"], "begins with sep="),
    "comment": (["# made 2026-11-01", "user,left,right,winner", "u,A,B,A"], "begins with #"),
    "title": (["Results", "", "user,left,right,winner", "u,A,B,A"], "seems to be a title"),
    "title-cells": (["Results;;;", "u;l;r;winner", "u;A;B;A", "v;A;B;B"], "seems to be a title"),
}


@pytest.mark.parametrize("form", NOT_READ)
def test_a_form_that_is_not_read_gets_one_sentence_and_no_file(command, form):
    lines, told = NOT_READ[form]
    Path("file.csv").write_text("\n".join(lines) + "\n")
    code, printed = command("init", "file.csv")
    assert code == 2
    assert printed.startswith("file.csv: ")
    assert told in " ".join(printed.split())
    assert "Traceback" not in printed
    assert [path.name for path in Path().iterdir()] == ["file.csv"]


def test_objects_in_cells_are_named(command):
    Path("v.jsonl").write_text('{"voter": 1, "ranks": {"Ada": 1, "Bo": 2}}\n' * 3)
    code, printed = command("init", "v.jsonl")
    assert (code, "column ranks holds objects, which are not read" in printed) == (2, True)


def test_a_list_of_two_beside_the_winner_is_no_ranking(command):
    Path("v.jsonl").write_text('{"user": "u", "pair": ["A", "B"], "winner": "B"}\n' * 3)
    code, printed = command("init", "v.jsonl")
    assert (code, "pair seems to list the items that were compared" in printed) == (2, True)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(command, encoding, ending):
    text = "user,left,right,winner\nu,A,B,A\n" if ending == "csv" else '{"user": 1}\n'
    Path(f"file.{ending}").write_bytes(text.encode(encoding))
    code, printed = command("init", f"file.{ending}")
    assert (code, "this is UTF-16 text" in printed) == (2, True)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("v.csv", "user,left,right,winner\n9.91214E+15,A,B,A\n9.91215E+15,A,B,B\n"),
        ("v.jsonl", '{"user": 9912140633506420.0, "left": "A", "right": "B", "winner": "A"}\n'),
    ],
)
def test_ids_that_were_rounded_are_refused_before_anything_is_spent(command, file, text):
    Path(file).write_text(text)
    code, printed = command("init", file)
    assert code == 2
    assert "column user holds numbers that were rounded" in " ".join(printed.split())
    assert "99121" not in printed


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_columns_that_are_not_read_are_named(command, ending):
    """Keys of JSON Lines stand in rows: only the holder of the rows is shown them, by `inspect`."""
    rows = [
        {"user": f"u{n}", "note": "hi", "left": "A", "right": "B", "winner": "A"}
        for n in range(300)
    ]
    file = f"v.{ending}"
    if ending == "csv":
        lines = [",".join(each) for each in (rows[0].keys(), *(row.values() for row in rows))]
        Path(file).write_text("\n".join(lines) + "\n")
    elif ending == "jsonl":
        Path(file).write_text("\n".join(map(json.dumps, rows)) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist(rows), file)
    ranked(command, file, design="any", items="A, B", max_contributions="1")
    of_columns = "4 of 5 columns are read, for 2 items. Not read: note."
    of_keys = "The keys left, right, winner, user of JSON Lines are not checked here"
    for name, *how in (("validate",), ("run", "--direct", "--again")):
        code, printed = command(name, *how, "survey.yaml")
        assert code == 0, printed
        assert (of_columns in printed) == (ending != "jsonl")
        assert (of_keys in printed) == (ending == "jsonl")
        assert ("note" in printed) == (ending != "jsonl")
    assert of_columns in command("inspect", "survey.yaml", "--yes-confidential")[1]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("none", "(input.best), and 0 is a number too. An item is not ranked only if its cell is"),
        ("0", "(input.best). An item is not ranked only if its cell is empty, NA or 0."),
    ],
)
def test_validate_says_which_cells_are_not_ranked(command, given, told):
    Path("b.csv").write_text("\n".join([",".join(NAMES), *zeros()]) + "\n")
    ranked(command, "b.csv", best="lowest", not_ranked=given, unlisted="below")
    _, printed = command("validate", "survey.yaml")
    assert told in " ".join(printed.split())


def test_a_run_says_what_numbers_mean_where_the_file_does_not_choose(command):
    Path("b.csv").write_text("\n".join([",".join(NAMES), *zeros()]) + "\n")
    ranked(command, "b.csv", best="lowest", not_ranked="0", unlisted="below")
    survey = Path("survey.yaml")
    told = "0 is a number too. An item is not ranked only if its cell is empty or NA."
    assert told not in " ".join(command("run", "--direct", "survey.yaml")[1].split())
    lines = survey.read_text().splitlines()
    kept = [
        line for line in lines if not line.strip().startswith(("best:", "not_ranked:", "output:"))
    ]
    survey.write_text("\n".join([*kept, "output: again"]) + "\n")
    assert told in " ".join(command("run", "--direct", "survey.yaml")[1].split())
    assert "what that person ranked is then exposed" in Path("again", "report.html").read_text()


POINTS = {"kind": "responses", "columns": {"user": "id", "item": "item", "correct": "resp"}}
VOTES = {
    "kind": "comparisons",
    "columns": {"user": "id", "left": "a", "right": "b", "winner": "chosen"},
    "design": "random",
    "ties": "split",
}
RANKS = {"kind": "rankings", "columns": {"user": "id", "item": "item", "rank": "rank"}}
NOT_CHOSEN = [
    (
        POINTS,
        {"words": {"right": [1, 2], "wrong": [0]}},
        "spectral",
        "such as 2 points, is",
    ),
    (VOTES, {"words": {"tie": ["", "tie"]}}, "win-loss", "an empty cell too: input.words can call"),
    (
        VOTES | {"columns": {"user": "id", "left": "a", "right": "b", "outcome": "resp"}},
        {"words": {"left": [1], "right": [0]}},
        "win-loss",
        "Column resp should hold 1 (left won), -1 (right won) or 0 (a tie)",
    ),
    (RANKS, {"best": "lowest", "not_ranked": ["0"]}, "kemeny", "0 is a number too"),
    (RANKS, {"unlisted": "below"}, "borda", "as in elections, write below"),
]


@pytest.mark.parametrize(("rows", "chosen", "method", "told"), NOT_CHOSEN)
def test_a_run_says_what_it_takes_values_for_where_nobody_chose(
    command, rows, chosen, method, told
):
    lines = ["id,item,resp,a,b,chosen,rank"]
    for person in range(60):
        lines += [f"{person},A,1,A,B,A,1", f"{person},B,0,A,B,B,2", f"{person},C,1,B,C,,3"]
    Path("rows.csv").write_text("\n".join(lines) + "\n")
    for words in ({}, chosen):
        job = {
            "name": "people",
            "input": {"paths": ["rows.csv"], **rows, **words},
            "items": {"names": ["A", "B", "C"]},
            "privacy": {"unit": "user", "epsilon": 8, "max_contributions": 3},
            "method": method,
            "output": f"out/{len(words)}",
            "confidential": ".hushrank/work",
            "ledger": {"path": ".hushrank/ledger.jsonl", "epsilon": 100},
        }
        if rows is RANKS:
            job["privacy"]["max_contributions"] = 1
        Path("job.yaml").write_text(yaml.safe_dump(job))
        code, printed = command("run", "--direct", "--anyway", "job.yaml")
        assert code == 0, printed
        assert (told in " ".join(printed.split())) == (not words)


def test_the_highest_rank_may_be_best_beside_not_ranked_and_overvotes(command):
    """Points: Dan has most. A 0 is no points; a tie ends the ballot before it."""
    ballots = ["1,2,3,4"] * 150 + ["0,0,1,2"] * 60 + ["2,2,3,4"] * 60
    Path("b.csv").write_text("\n".join([",".join(NAMES), *ballots]) + "\n")
    places, _ = ranked(command, "b.csv", best="highest", not_ranked="0", unlisted="below")
    assert places == ["Dan", "Cleo", "Bo", "Ada"]
    text = Path("survey.yaml").read_text().replace("  ties:", "  overvotes: exhaust\n  ties:")
    Path("survey.yaml").write_text(text.replace("out/b", "out/c"))
    code, printed = command("run", "--direct", "survey.yaml")
    assert code == 0, printed
    lines = json.loads(Path("out/c/release.json").read_text())["ranking"]
    of = {each["item"]: each["score"] for each in lines}
    # 60 more ballots count, of which each puts Dan and Cleo above the two that are tied.
    assert abs(of["Dan"] - 1.5) < 0.05
    assert abs(of["Ada"] - (-1.5 * 150 - 60 - 60) / 270) < 0.1
    Path("survey.yaml").write_text(text.replace("  ties:", "  skipped: exhaust\n  ties:"))
    code, printed = command("validate", "survey.yaml")
    assert code == 2
    assert "it cannot stand beside best: highest" in " ".join(printed.split())


MAINE = "Rep. to Congress {} Choice District 2"
NEW_YORK = '"DEM Mayor Choice {} of 3 Citywide (026916)"'
# Headers of tables with a column for each place, and the columns of places among them.
IN_PLACES = {
    "voter,1st,2nd,3rd,4th": (order, 4),
    "voter,Choice 1,Choice 2,Choice 3,Choice 4": (order, 4),
    "voter,first,second,third,fourth": (order, 4),
    "voter,First choice,Second choice,Third choice": (lambda n: order(n)[:3], 3),
    "id,Q1[1],Q1[2],Q1[3],Q1[4]": (order, 4),
    "voter,1st,2nd,3rd": (lambda n: order(n, "123"), 3),
    "CastVoteRecordID,Precinct,Rank 1,Rank 2,Rank 3": (
        lambda n: [n % 2, "Ada" if n else "overvote", "Ada", "undervote" if n % 2 else "Bo"],
        3,
    ),
    "Cast Vote Record," + ",".join(map(MAINE.format, ("1st", "2nd", "3rd"))): (
        lambda n: order(n)[:3],
        3,
    ),
    "Cast Vote Record," + ",".join(map(NEW_YORK.format, "123")): (lambda n: order(n)[:3], 3),
}


@pytest.mark.parametrize("header", IN_PLACES)
def test_a_column_for_each_place_is_recognised_and_the_rules_are_asked(header):
    cells, places = IN_PLACES[header]
    Path("cvr.csv").write_text("\n".join(table(header, cells)) + "\n")
    proposal = propose_config(Path("cvr.csv"), Path("survey.yaml"))
    rows = yaml.safe_load(proposal.text)["input"]
    assert rows["layout"] == "places"
    names = next(csv.reader([header]))
    assert rows["columns"]["places"] == names[-places:]
    asked = [each.key for each in proposal.questions]
    assert {"input.overvotes", "input.skipped", "input.repeated", "input.unlisted"} < {*asked}
    assert f"a column a place ({names[-places]} to {names[-1]})" in proposal.summary


READ = {
    "items-called-as-columns": table("user,a,b,winner", lambda n: [*"ab", "ab"[n % 2]]),
    "items-in-letters": table("Person,Links,Rechts,Gewinner", lambda n: [*"AB", "AB"[n % 2]]),
    "truth-of-one-side": table("uid,a,b,b_won", lambda n: [*"ab", n % 2 == 0]),
    "ticks": table("id,Q1,Q2,Q3", lambda n: ["✓✗"[n % 2], "✓", "✗"]),
    "a-test-of-pairs-of-numbers": table("id,Q1_1,Q1_2,Q2_1,Q2_2", lambda n: [1, n % 2, 0, 1]),
    "a-test-beside-a-list": table("id,Q1,Q2,Q3,langs", lambda n: [1, n % 2, 0, "de;en"]),
    "ranks-of-a-series": table("id,Q3_1,Q3_2,Q3_3", lambda n: order(n, "123")),
    "best-and-worst": table(
        "user,item1,item2,item3,best,worst", lambda n: [*order(n, "ABC"), "A", "B"]
    ),
}


@pytest.mark.parametrize("form", READ)
def test_a_form_that_is_read_is_not_refused(command, form):
    Path("file.csv").write_text("\n".join(READ[form]) + "\n")
    code, printed = command("init", "file.csv")
    assert code == 0, printed


def ranked(command, file: str, **answers: str) -> tuple[list[str], dict[str, float]]:
    """Answer what `init` asks by the last word of its key; return the places and the scores."""
    proposal = propose_config(Path(file), Path("survey.yaml"))
    asked = {each.key: each for each in proposal.questions}
    given = {"epsilon": "20", **answers}
    values = {key: each.value_of(given[key.split(".")[-1]]) for key, each in asked.items()}
    assert None not in values.values(), values
    text = proposal.answered(values).text.replace("  epsilon: 10 ", "  epsilon: 100 ")
    Path("survey.yaml").write_text(text)
    code, printed = command("run", "--direct", "survey.yaml")
    assert code == 0, printed
    output = Path(yaml.safe_load(text)["output"])
    lines = json.loads((output / "release.json").read_text())["ranking"]
    return [each["item"] for each in lines], {each["item"]: each["score"] for each in lines}


def zeros() -> Iterator[str]:
    """Ballots of which most put Ada first; a quarter leaves Ada out, as 0 or as -."""
    for number in range(400):
        yield "1,2,3,4" if number % 4 or number < 5 else ("0,1,2,3", "-,1,2,3")[number % 8 // 4]


@pytest.mark.parametrize("given", ["none", "all"])
def test_a_rank_that_means_not_ranked_is_never_silently_the_best(command, given):
    Path("b.csv").write_text("\n".join([",".join(NAMES), *zeros()]) + "\n")
    _, scores = ranked(command, "b.csv", best="lowest", not_ranked=given, unlisted="below")
    # Last in a quarter of the ballots if 0 and - mean not ranked.
    expected = 1.5 * 0.75 - 1.5 * 0.25
    assert (abs(scores["Ada"] - expected) < 0.1) == (given == "all")


CODES = {  # header of the result, cells for a win of the left and the right, answer to words
    "zero-left": ("pref", ("0", "1"), "0/1"),
    "one-left": ("said", ("1", "0"), "1/0"),
    "floats": ("y1", ("1.0", "0.0"), "1/0"),
    "truths": ("said", ("False", "True"), "false/true"),
    "letters": ("pref", ("L", "R"), "l/r"),
    "signs": ("said", ("-1", "1"), "-1/1"),
    "halves": ("result", ("1", "0"), "1/0"),
    "scale": ("preference", ("2", "5"), "{left: [1, 2], right: [4, 5], tie: [3]}"),
    "unclear": ("y1,y2", ("0,1", "1,0"), "0/1"),
}


@pytest.mark.parametrize("coded", CODES)
def test_codes_of_a_result_are_asked_about_and_never_turned_round(command, coded):
    """The side alternates and a third of the left wins is 1 step nearer: A wins three of four."""
    column, (left, right), answer = CODES[coded]
    lines = [f"person,option_1,option_2,{column}"]
    for number in range(400):
        items, won = ("A", "B")[:: (-1) ** number], (left, right)[(number % 8 < 6) == number % 2]
        cell = "0.5" if coded == "halves" and number in (1, 2) else won
        lines.append(f"u{number},{','.join(items)},{cell}")
    Path("v.csv").write_text("\n".join(lines) + "\n")
    given = {"outcome": "y1"} if coded == "unclear" else {}
    given |= {"words": answer, "design": "any", "items": "A, B", "max_contributions": "1"}
    places, scores = ranked(command, "v.csv", **given)
    assert places == ["A", "B"]
    assert abs(scores["A"] - 0.55) < 0.15  # half of log 3


def test_a_row_a_ballot_and_an_item_is_long_form(command):
    rows = [f"{n},{name},{place}" for n in range(200) for place, name in enumerate(NAMES, 1)]
    Path("b.csv").write_text("\n".join(["ballot,candidate,rank", *rows]) + "\n")
    places, _ = ranked(
        command,
        "b.csv",
        user="ballot",
        best="lowest",
        not_ranked="none",
        unlisted="below",
        items=", ".join(NAMES),
    )
    assert places == list(NAMES)


def test_cells_with_line_breaks_count(command):
    lines = ["user,prompt,left,right,winner"]
    for number in range(600):
        code = number % 5 < 3
        prompt = '"def f(x):\n    return x"' if code else "hello"
        lines.append(f"u{number},{prompt},A,B,{'B' if code else 'A'}")
    Path("v.csv").write_text("\n".join(lines) + "\n")
    given = {"design": "any", "items": "A, B", "max_contributions": "1"}
    places, scores = ranked(command, "v.csv", multiline="true", **given)
    assert places == ["B", "A"]
    assert abs(scores["B"] - 0.2) < 0.1


def test_a_decomposed_name_is_the_same_name(command):
    names = ["Jäger", "Müller", "Schröder"]
    rows = [
        f"v{n},{unicodedata.normalize('NFD', name)},{place}"
        for n in range(200)
        for place, name in enumerate(names, 1)
    ]
    Path("b.csv").write_text("\n".join(["voter,candidate,rank", *rows]) + "\n")
    places, scores = ranked(
        command,
        "b.csv",
        best="lowest",
        not_ranked="none",
        unlisted="unknown",
        items=", ".join(names),
    )
    assert places == names
    assert scores["Jäger"] > 0.9


def test_a_person_with_blanks_around_the_id_counts_once(command):
    """One person has written three times as many rows as all others, under one name or three."""
    draw = random.Random(1)
    rows = [f"{draw.choice(['ann', 'ann ', ' ann'])},A,B,B" for _ in range(1_800)]
    rows += [f"u{number},A,B,A" for number in range(600)]
    Path("v.csv").write_text("\n".join(["user,left,right,winner", *rows]) + "\n")
    given = {"design": "any", "items": "A, B", "max_contributions": "200"}
    _, scores = ranked(command, "v.csv", **given)
    # 600 against 200 rows of ann; against 600 rows if ann were three people.
    assert scores["A"] > 0.35
