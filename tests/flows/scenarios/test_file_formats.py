"""Files that people have, through the commands: proposed by `init`, ranked by `run`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyreadstat
import pytest
import yaml

from tests.flows.conftest import ITEMS, answers
from tests.written_files import BINARY, OF_PROGRAMS, WRITERS, write_workbook

NAMED = [*ITEMS]


def named(people: int = 40) -> pa.Table:
    """The answers with names of items and people."""
    table = answers(people)
    items = pa.array(NAMED)
    return pa.table(
        {
            "user": pc.binary_join_element_wise("ünal ", table["user"].cast("string"), ""),
            "item_i": items.take(table["item_i"].combine_chunks()),
            "item_j": items.take(table["item_j"].combine_chunks()),
            "outcome": table["outcome"].cast("int64"),
        }
    )


def exact(survey, command, **changes: Any) -> dict[str, Any]:
    """The counts of a run without privacy."""
    code, printed = command(
        "run", survey.set(privacy__epsilon="inf", **changes).config, "--direct", "--no-privacy"
    )
    assert code == 0, printed
    output = survey.folder / survey.settings["output"]
    released: dict[str, Any] = json.loads((output / "release.json").read_text())["released"]
    return released


@pytest.fixture
def counts(survey, command) -> dict[str, Any]:
    pq.write_table(named(), survey.folder / "answers.parquet")
    return exact(survey, command)


@pytest.mark.parametrize("name", [each for each in WRITERS if each != "rows.parquet"])
def test_every_format_is_ranked_like_parquet(survey, command, counts, name):
    WRITERS[name](named(), survey.folder / name)
    assert exact(survey, command, input__paths=[name], output=f"as {name}") == counts


@pytest.mark.parametrize("name", [*BINARY, *OF_PROGRAMS, "rows.csv.zst"])
def test_a_file_cut_short_spends_nothing(survey, command, name):
    path = survey.folder / name
    WRITERS[name](named(), path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    code, printed = command("run", survey.set(input__paths=[name]).config, "--direct")
    assert code != 0
    assert f"{path}: " in printed
    assert "Write it again." in printed
    assert "Traceback" not in printed
    assert survey.published() == []
    _, balance = command("ledger", "show", survey.config)
    assert "epsilon 5.00" in balance or "5.00" in balance


@pytest.mark.parametrize("name", ["exam.xlsx", "exam.sav"])
def test_a_file_of_a_teacher_comes_to_the_page_in_five_commands(
    tmp_path, monkeypatch, command, name
):
    """The difficulties are those of the same sheets as CSV."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    right = (rng.random((2000, 5)) < np.linspace(0.8, 0.3, 5)).astype(int)
    columns = {"pupil": np.arange(2000), **{f"Q{i + 1}": right[:, i] for i in range(5)}}
    rows = [[*map(int, row)] for row in zip(*columns.values(), strict=True)]
    Path("exam.csv").write_text(
        "\n".join(",".join(map(str, row)) for row in [columns, *rows]) + "\n"
    )
    if name == "exam.xlsx":
        write_workbook({"answers": [[*columns], *rows]}, Path(name))
    else:
        pyreadstat.write_sav(pd.DataFrame(columns), name)
    found = []
    for file in (name, "exam.csv"):
        job = Path(file).suffix[1:] + ".yaml"
        code, printed = command("init", file, "--out", job)
        assert code == 0, printed
        text = Path(job).read_text()
        chosen = {"missing": "wrong", "epsilon": "8.0", "max_contributions": "5"}
        for key, value in {**chosen, "words": "null"}.items():
            text = re.sub(rf"^  {key}:  .*", f"  {key}: {value}", text, flags=re.MULTILINE)
        Path(job).write_text(text)
        for step in ("validate", "run"):
            code, printed = command(step, job)
            assert code == 0, printed
        (release,) = Path("out").glob("*/release.json")
        told = json.loads(release.read_text())
        assert (release.parent / "report.html").exists()
        found.append({line["item"]: line["score"] for line in told["ranking"]})
        shutil.rmtree("out")
        shutil.rmtree(".hushrank")
    assert found[0].keys() == set(list(columns)[1:])
    for item, score in found[0].items():  # noise of epsilon 8
        assert score == pytest.approx(found[1][item], abs=0.3)


def test_folders_are_groups(survey, command):
    for language, seed in (("de", 0), ("fr", 1)):
        folder = survey.folder / f"log/language={language}"
        folder.mkdir(parents=True)
        own = answers(30, seed)
        pq.write_table(
            own.set_column(0, "user", pc.add(own["user"], 1000 * seed)), folder / "a.parquet"
        )
    groups = {"column": "language", "values": ["de", "fr"]}
    told = {"input__paths": ["log"], "input__partitions": ["language"]}
    code, printed = command("run", survey.set(groups=groups, **told).config, "--direct")
    assert code == 0, printed
    text = (survey.output / "release.json").read_text()
    assert '"de"' in text
    code, printed = command("validate", survey.set(input__partitions=["lang"]).config)
    assert code != 0
    assert "no folder lang=… in the path" in printed
    code, printed = command("validate", survey.set(input__partitions=["user"]).config)
    assert "a folder named after a person shows that this person took part" in printed


# --- what a winner is called


def battles(people: int, words: dict[int, Any], type_: pa.DataType | None = None) -> pa.Table:
    table = named(people)
    winner = pa.array([words[each] for each in table["outcome"].to_pylist()], type_)
    renamed = table.rename_columns(["judge", "model_a", "model_b", "winner"])
    return renamed.set_column(3, "winner", winner)


WORDS = [
    ("model_a", "model_b"),
    ("left", "right"),
    ("A", "B"),
    ("a", "b"),
    (1, 2),
    ("1", "2"),
    (True, False),
]


def filled(path: Path, **choices: Any) -> dict[str, Any]:
    """What `init` proposed, with the lines marked CHOOSE filled in; strictly by the keys."""
    proposed = yaml.safe_load(path.read_text())
    for key, value in choices.items():
        *parents, last = key.split("__")
        section = proposed
        for parent in parents:
            section = section[parent]
        section[last] = value
    settings: dict[str, Any] = proposed
    return settings


@pytest.mark.parametrize("words", WORDS)
def test_init_knows_the_words_of_a_winner_and_every_row_counts(survey, command, words):
    pq.write_table(battles(40, {1: words[0], -1: words[1]}), survey.folder / "answers.parquet")
    proposal = survey.folder / "proposed.yaml"
    code, printed = command("init", survey.folder / "answers.parquet", "--out", proposal)
    assert code == 0, printed
    choices = {}
    if words[0] in (1, "1", True):  # codes, which say nothing of the side
        choices["input__words"] = {"left": words[0], "right": words[1]}
    settings = filled(
        proposal,
        **choices,
        input__design="balanced",
        items={"names": ITEMS},
        privacy__max_contributions=6,
        privacy__look=None,
        method="noisy-counts",
        output="out",
    )
    del settings["privacy"]["look"]
    survey.settings = settings
    assert sum(exact(survey, command)["wins"].values()) == 240


@pytest.mark.parametrize(
    ("values", "columns"),
    [
        ({1: "model_a", -1: "model_b"}, {}),  # the names of the columns need no setting
        ({1: "L", -1: "R"}, {"winner_values": {"left": "l", "right": ["r", "x"]}}),
        ({1: "L", -1: "R"}, {"words": {"left": "l", "right": "r"}}),
    ],
)
def test_a_column_winner_may_hold_words(survey, command, values, columns):
    pq.write_table(battles(40, values), survey.folder / "answers.parquet")
    roles = {"user": "judge", "left": "model_a", "right": "model_b", "winner": "winner"}
    words = columns.pop("words", None)
    survey.set(input__columns=roles | columns, input__words=words)
    assert sum(exact(survey, command)["wins"].values()) == 240
    _, printed = command("inspect", survey.config, "--yes-confidential")
    assert "240" in printed


def test_true_and_false_need_words(survey, command):
    pq.write_table(battles(10, {1: True, -1: False}), survey.folder / "answers.parquet")
    roles = {"user": "judge", "left": "model_a", "right": "model_b", "outcome": "winner"}
    code, printed = command("validate", survey.set(input__columns=roles).config)
    assert code != 0
    assert "input.words: {left: true, right: false}" in printed
    words = {"left": True, "right": False}
    assert sum(exact(survey, command, input__words=words)["wins"].values()) == 60


# --- exports of forms and of statistics programs

RANKED = ["London", "Paris", "Rome"]
RANKS = [("1", "2", "3"), ("2", "1", "3"), ("1", "", "2"), ("3", "1", "2")] * 20


def header_of(kind: str) -> list[str]:
    """The header of an export, in its own shape."""
    if kind == "r":
        return ['"id","London","Paris","Rome","age"']
    if kind == "forms":
        asked = ",".join(f'"Rank these cities [{name}]"' for name in RANKED)
        return [f'"Timestamp","Email Address",{asked},"Your age?"']
    asked = ",".join(f'"Please rank.\nBest first. - {name}"' for name in RANKED)
    ids = ",".join(f'"{{""ImportId"":""QID3_{k}""}}"' for k in (1, 2, 3))
    date = '{""ImportId"":""startDate"",""timeZone"":""America/Denver""}'
    return [
        "StartDate,ResponseId,Q3_1,Q3_2,Q3_3,Q4",
        f'"Start Date","Response ID",{asked},"Your age?"',
        f'"{date}","{{""ImportId"":""_recordId""}}",{ids},"{{""ImportId"":""QID4_TEXT""}}"',
    ]


def row_of(kind: str, number: int, ranks: tuple[str, ...]) -> str:
    who = {"r": f'"p{number}"', "forms": f"2026/11/20 9:00:00 AM GMT+1,p{number}@example.org"}
    own = who.get(kind, f"2026-11-20 09:00:00,R_{number:04d}")
    shown = [rank or ("NA" if kind == "r" else "") for rank in ranks]
    return ",".join([own, *shown, str(20 + number)])


@pytest.mark.parametrize("kind", ["r", "forms", "qualtrics"])
@pytest.mark.parametrize("ties", ["refuse", "random"])
def test_a_wide_export_of_ranks_is_proposed_and_ranked(survey, command, kind, ties):
    lines = [row_of(kind, number, ranks) for number, ranks in enumerate(RANKS)]
    lines.append(row_of(kind, 500, ("1", "1", "2")))
    lines.append(row_of(kind, 501, ("1", "second", "3")))
    lines.append(row_of(kind, 502, ("", "", "")))
    source = survey.folder / "export.csv"
    source.write_text("\r\n".join([*header_of(kind), *lines]) + "\r\n")
    proposal = survey.folder / "proposed.yaml"
    code, printed = command("init", source, "--out", proposal)
    assert code == 0, printed
    assert "with a row a ranking and a column an item" in printed
    choices = {
        "input__best": "lowest",
        "input__ties": ties,
        "input__not_ranked": [],
        "input__unlisted": "unknown",
    }
    if kind != "forms":  # an id may be that of a row: the person is asked for
        choices["input__columns__user"] = "id" if kind == "r" else "ResponseId"
    settings = filled(proposal, method="borda", output="out", **choices)
    assert settings["items"] == {"names": RANKED}
    assert settings["input"].get("header_rows", 1) == (3 if kind == "qualtrics" else 1)
    survey.settings = settings
    released = exact(survey, command)
    _, printed = command("inspect", survey.config, "--yes-confidential")
    assert "a rank is not a number" in printed
    assert "no item has a rank" in printed
    assert ("the ranking puts two items at the same rank" in printed) == (ties == "refuse")
    long = [
        {"user": number, "item": name, "rank": int(rank)}
        for number, ranks in enumerate(RANKS)
        for name, rank in zip(RANKED, ranks, strict=True)
        if rank
    ]
    pq.write_table(pa.Table.from_pylist(long), survey.folder / "long.parquet")
    survey.set(input={"kind": "rankings", "paths": ["long.parquet"]}, output="long")
    as_long = exact(survey, command)
    if ties == "refuse":
        assert released == as_long
    else:
        assert released != as_long


def test_items_and_columns_of_a_wide_export_must_fit(survey, command):
    (survey.folder / "wide.csv").write_text("id,Q1,Q2\na,1,2\n")
    rows = {"kind": "rankings", "paths": ["wide.csv"], "layout": "wide", "columns": {"user": "id"}}
    survey.set(input=rows, items={"names": ["x", "y"]}, method="borda", privacy__noise="gaussian")
    survey.set(privacy__delta=1e-6, privacy__distinct_pairs=None, privacy__max_contributions=1)
    _, printed = command("validate", survey.config)
    assert "say under input.columns.items which column is whose" in printed
    _, printed = command(
        "validate", survey.set(input__columns__items={"Q1": "x", "Q2": "z"}).config
    )
    assert "input.columns.items: z is not one of items" in printed
    assert "input.columns.items: item y has no column" in printed
    _, printed = command(
        "validate", survey.set(input__columns__items={"id": "x", "Q2": "y"}).config
    )
    assert "column id is user already" in printed
    code, printed = command(
        "validate", survey.set(input__columns__items={"Q1": "x", "Q2": "y"}).config
    )
    assert code == 0, printed


def test_excel_in_western_europe(survey, command):
    """Semicolons, decimal commas, Windows-1252 or a byte order mark."""
    table = named(40).to_pydict()
    lines = ["Prüfer;links;rechts;Ergebnis;Gewicht"]
    for row in zip(*table.values(), strict=True):
        lines.append(";".join([*map(str, row), "1,5"]))
    text = "\r\n".join(lines) + "\r\n"
    weights = {"input__columns__weight": "Gewicht", "privacy__max_weight": 2}
    found = []
    for encoding, told in (("cp1252", "windows-1252"), ("utf-8-sig", None)):
        source = survey.folder / f"{encoding}.csv"
        source.write_bytes(text.encode(encoding))
        proposal = survey.folder / f"{encoding}.yaml"
        code, printed = command("init", source, "--kind", "comparisons", "--out", proposal)
        assert code == 0, printed
        proposed = yaml.safe_load(proposal.read_text())["input"]
        assert proposed.get("encoding") == told
        assert (proposed["delimiter"], proposed["decimal"]) == (";", ",")
        columns = {"user": "Prüfer", "left": "links", "right": "rechts", "outcome": "Ergebnis"}
        survey.set(input__columns=columns, input__paths=[source.name], output=encoding)
        for key in ("encoding", "delimiter", "decimal"):
            survey.set(**{f"input__{key}": proposed.get(key)})
        found.append(exact(survey, command, **weights))
        assert sum(found[-1]["wins"].values()) == 360_000  # 240 rows of weight 1.5, in thousandths
    assert found[0] == found[1]
    _, printed = command("validate", survey.set(input__delimiter=None).config)
    assert "a comma stands between columns already" in printed


# --- best and worst of a set


def best_and_worst(people: int, sets: int, scores: dict[str, float], seed: int = 0) -> pa.Table:
    """Choices by the MaxDiff model: P(best i, worst j) is in proportion to exp(u_i - u_j)."""
    rng = np.random.default_rng(seed)
    names, rows = list(scores), []
    for person in range(people):
        for _ in range(sets):
            shown = rng.choice(names, 4, replace=False)
            u = np.array([scores[name] for name in shown])
            weight = np.exp(u[:, None] - u[None, :])
            np.fill_diagonal(weight, 0)
            cell = rng.choice(16, p=weight.ravel() / weight.sum())
            rows.append([f"p{person}", *shown, shown[cell // 4], shown[cell % 4]])
    columns = ["respondent", "item1", "item2", "item3", "item4", "best", "worst"]
    return pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))


def test_best_and_worst_are_one_comparison_with_twice_the_score(survey, command):
    """Given which two items were chosen, who is best is logistic in twice the difference."""
    scores = {"ants": 0.8, "bees": 0.4, "cats": 0.0, "dogs": -0.4, "emus": -0.8}
    path = survey.folder / "maxdiff.csv"
    table = best_and_worst(400, 6, scores)
    WRITERS["rows.csv"](table, path)
    proposal = survey.folder / "proposed.yaml"
    code, printed = command("init", path, "--out", proposal, "--kind", "comparisons")
    assert code == 0, printed
    assert "winner=best, loser=worst" in printed
    assert "best and worst of a set count as one comparison" in printed
    survey.settings = filled(
        proposal,
        input__design="any",
        items={"names": list(scores)},
        privacy__epsilon=8.0,
        privacy__max_contributions=6,
        method="noisy-pairs",
        output="out",
    )
    survey.settings["model"] = {"link": "logistic"}
    code, printed = command("run", survey.set().config, "--direct")
    assert code == 0, printed
    ranking = json.loads((survey.output / "release.json").read_text())["ranking"]
    found = {each["item"]: each["score"] for each in ranking}
    assert list(found) == list(scores)
    slope = np.polyfit(list(scores.values()), [found[name] for name in scores], 1)[0]
    assert slope == pytest.approx(2, abs=0.25)  # 7 standard errors, of 2 400 comparisons


@pytest.mark.parametrize("old", ["beans_nicaragua", "debian"])
def test_real_rankings_in_a_wide_table_count_as_in_a_long_one(survey, command, real_data, old):
    """As R users have them: a row a person, a column an item, empty where it was not ranked."""
    long = pq.read_table(real_data / f"rank_{old}.parquet")
    if "contest" in long.schema.names:
        chosen = long["contest"][0]
        long = long.filter(pc.equal(long["contest"], chosen)).drop(["contest"])
    items = sorted(set(long["item"].to_pylist()))
    ranks: dict[Any, dict[str, Any]] = {}
    for row in long.to_pylist():
        ranks.setdefault(row["user"], {})[f"v{row['item']}"] = row["rank"]
    columns = [f"v{item}" for item in items]
    wide = [{"id": user} | {name: own.get(name) for name in columns} for user, own in ranks.items()]
    pq.write_table(long, survey.folder / "long.parquet")
    WRITERS["rows.csv"](pa.Table.from_pylist(wide), survey.folder / "wide.csv")
    rows = {"kind": "rankings", "paths": ["long.parquet"]}
    survey.set(input=rows, items={"names": [str(item) for item in items]}, method="borda")
    survey.set(privacy__distinct_pairs=None, privacy__max_contributions=1)
    as_long = exact(survey, command, output="long")
    of_item = {f"v{item}": str(item) for item in items}
    told = {"layout": "wide", "columns": {"user": "id", "items": of_item}}
    survey.set(input={"kind": "rankings", "paths": ["wide.csv"], **told})
    assert exact(survey, command, output="wide") == as_long


def test_real_battles_in_words_count_as_in_signs(survey, command, real_data):
    signs = pq.read_table(real_data / "pair_llmfao.parquet")
    items = {"count": 1 + max(pc.max(signs[name]).as_py() for name in ("item_i", "item_j"))}
    words = {1: "Model_A", -1: "model_b", 0: "tie (bothbad)"}
    winner = pa.array([words[each] for each in signs["outcome"].to_pylist()])
    pairs = [signs[name].cast(pa.int64()) for name in ("user", "item_i", "item_j")]
    battles = pa.table([*pairs, winner], ["judge", "model_a", "model_b", "winner"])
    WRITERS["rows.avro"](battles, survey.folder / "rows.avro")
    pq.write_table(signs, survey.folder / "signs.parquet")
    bounds = {"privacy__distinct_pairs": None, "privacy__max_contributions": 400}
    told = {"items": items, "input__ties": "split", **bounds}
    by_sign = exact(survey, command, input__paths=["signs.parquet"], output="signs", **told)
    told = {"conversation_a": [{"role": "user", "content": 'a "quote", ] and }'}], "turn": 1}
    rows = [
        told | row | {"tstamp": 1682351591.1322 + k} for k, row in enumerate(battles.to_pylist())
    ]
    (survey.folder / "rows.json").write_text(json.dumps(rows))
    values = {"winner_values": {"left": "model_a", "right": "model_b", "tie": "tie (bothbad)"}}
    roles = {"user": "judge", "left": "model_a", "right": "model_b", "winner": "winner"}
    for name in ("rows.avro", "rows.json"):
        survey.set(input__columns=roles | values, input__paths=[name], output=f"words-{name}")
        assert exact(survey, command) == by_sign
