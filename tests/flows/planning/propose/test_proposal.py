"""`hushrank init`: the transcript, what is never read, and that a completed proposal is valid."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config
from hushrank.flows.planning.propose.proposal import (
    ConfigProposal,
    Kind,
    kind_named,
    propose_config,
    write_proposal,
)
from hushrank.transforms.common.plain_text import hidden_character

ROWS = [
    {"student": "s1", "a": "London", "b": "Paris", "choice": "Paris"},
    {"student": "s1", "a": "London", "b": "Rome", "choice": "London"},
    {"student": "s2", "a": "Oslo", "b": "Bern", "choice": "tie"},
    {"student": "s2", "a": "Oslo", "b": "Lyon", "choice": "Oslo"},
    {"student": "s3", "a": "Bern", "b": "Lyon", "choice": "Lyon"},
]
SIXTH = {"student": "s4", "a": "Atlantis", "b": "Utopia", "choice": "neither"}
TARGET = Path("survey.yaml")
CHOSEN = {
    "design": "balanced",
    "items": "{count: 6}",
    "epsilon": "2",
    "max_contributions": "15",
}


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_csv(path: Path, rows: list[dict[str, str | None]]) -> Path:
    lines = [",".join(rows[0]), *(",".join(value or "" for value in row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_json_lines(path: Path, rows: list[dict[str, str | None]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_parquet(path: Path, rows: list[dict[str, str | None]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def choose(text: str, choices: dict[str, str]) -> str:
    """`text` with the CHOOSE lines filled in by key."""
    for key, value in choices.items():
        text, times = re.subn(rf"(?m)^( *{key}:) +# CHOOSE.*$", rf"\1 {value}", text)
        assert times == 1
    return text


WRITERS = [
    ("answers.csv", write_csv),
    ("answers.jsonl", write_json_lines),
    ("answers.parquet", write_parquet),
]


@pytest.mark.parametrize(("name", "write"), WRITERS)
def test_the_transcript(name, write):
    proposal = propose_config(write(Path(name), [*ROWS, SIXTH]), TARGET)
    assert proposal.summary == (
        "I read the header and at most 5 rows. Looks like comparisons:"
        " user=student, left=a, right=b, winner=choice.\n"
        "List every item yourself: a list taken from the answers would"
        " leak who answered."
    )
    assert write_proposal(proposal, TARGET) == (
        f"{proposal.summary}\n"
        "Wrote survey.yaml; 4 lines in it are marked CHOOSE (the design, the items, epsilon,"
        " answers a person). Next: fill in what is marked (hushrank plan survey.yaml --people N"
        " says what each epsilon is worth), then hushrank validate survey.yaml"
    )
    assert TARGET.read_text() == proposal.text
    assert proposal.text.count("# CHOOSE") == 4


@pytest.mark.parametrize(("name", "write"), WRITERS)
def test_no_value_of_a_row_enters_the_proposal(name, write):
    values = [f"secret{number}" for number in range(4)]
    row = dict(zip(ROWS[0], [values[0], values[1], values[2], values[1]], strict=True))
    proposal = propose_config(write(Path(name), [row]), TARGET)
    assert "winner: choice" in proposal.text
    assert "secret" not in proposal.text + proposal.summary


def test_the_sixth_row_is_not_looked_at():
    head = write_csv(Path("answers.csv"), ROWS).read_bytes()
    Path("answers.csv").write_bytes(head + b'"never closed \xff\x00')
    expected = propose_config(write_csv(Path("whole.csv"), ROWS), TARGET).summary
    assert propose_config(Path("answers.csv"), TARGET).summary == expected
    lines = write_json_lines(Path("answers.jsonl"), ROWS).read_bytes()
    Path("answers.jsonl").write_bytes(lines + b"{not json \xff")
    assert propose_config(Path("answers.jsonl"), TARGET).summary == expected


def test_an_unfilled_proposal_names_its_lines():
    write_proposal(propose_config(write_csv(Path("answers.csv"), ROWS), TARGET), TARGET)
    with pytest.raises(ConfigError) as caught:
        load_config(TARGET)
    assert str(caught.value).split("\n") == [
        "survey.yaml: input.design: line 17 is marked CHOOSE and has no value yet; which pairs"
        " were people asked about? balanced (every pair asked equally often); random (random pairs,"
        " some items shown more); any (not sure, or the same pair judged several times on purpose,"
        " or a schedule such as a league; list the pairs in input.pairs if few were asked)",
        "survey.yaml: items: line 21 is marked CHOOSE and has no value yet; all that can be"
        " compared, for example {names: [London, Paris]}, {file: items.txt}, or {count: 6} for the"
        " numbers 0 to 5",
        "survey.yaml: privacy.epsilon: line 28 is marked CHOOSE and has no value yet;"
        " smaller protects more; 1 is strong, 2 to 4 is usual",
        "survey.yaml: privacy.max_contributions: line 31 is marked CHOOSE and has no value yet; how"
        " many answers of one person count at most, from how the survey was made and never counted"
        " in the answers: 10 is within 15 % of the best error for nearly all surveys with this"
        " noise; write fewer if people were asked fewer, and with noise: laplace the fewest that"
        " anybody was asked",
    ]


def test_a_filled_proposal_is_valid(tmp_path):
    proposal = propose_config(write_csv(Path("answers.csv"), ROWS), TARGET)
    TARGET.write_text(choose(proposal.text, CHOSEN))
    config = load_config(TARGET)
    columns = config.comparison_columns()
    assert (columns.user, columns.left, columns.right) == ("student", "a", "b")
    assert (columns.winner, columns.outcome) == ("choice", None)
    assert config.input.paths == (f"{tmp_path}/answers.csv",)
    assert (config.name, config.output) == ("answers", tmp_path / "out/answers")
    assert (config.privacy.epsilon, config.ledger.epsilon) == (2.0, 10.0)
    assert (config.privacy.noise, config.privacy.distinct_pairs) == ("gaussian", True)
    assert (config.privacy.delta, config.ledger.delta) == (1e-6, 1e-5)
    assert "# refresh: monthly renews this total; lifetime_epsilon: 50 limits all" in proposal.text


def test_what_cannot_be_guessed_is_asked_for():
    source = Path("odd.csv")
    source.write_text("who,a,b,when,verdict\n1,x,y,z,?\n")
    proposal = propose_config(source, TARGET)
    assert proposal.summary.split("\n")[:2] == [
        "I read the header and at most 5 rows. Looks like comparisons: left=a, right=b.",
        "Could not tell which column is user or outcome. Columns: who, a, b, when, verdict."
        " Set input.columns.user and input.columns.outcome. hushrank needs one column that names"
        " the winner (or holds 1, -1 or 0, or words: input.words); if yours is split over several"
        " columns or scores, combine them first. Counts of wins cannot be read: each answer needs"
        " a row of its own, or nobody is protected.",
    ]
    asked = ("the column user", "the column outcome", "which value means that left won")
    assert proposal.choices == (*asked, "the design", "the items", "epsilon", "answers a person")
    choices = CHOSEN | {"user": "who", "outcome": "verdict", "words": "null"}
    TARGET.write_text(choose(proposal.text, choices))
    assert load_config(TARGET).input.columns.outcome == "verdict"
    del choices["outcome"]
    TARGET.write_text(choose(proposal.text, choices))
    with pytest.raises(ConfigError) as caught:
        load_config(TARGET)
    assert str(caught.value) == (
        "survey.yaml: input.columns.outcome: line 13 is marked CHOOSE and has no value yet;"
        " 1: left won, -1: right won, 0: a tie; one of who, a, b, when, verdict. Or write winner:"
        " and the column of the winning item. Where scores or several columns say who won, first"
        " make one column of them"
    )


def test_without_a_column_of_people_single_answers_can_be_protected():
    row = {"a": "x", "b": "y", "outcome": "-1"}
    proposal = propose_config(write_csv(Path("a.csv"), [row]), TARGET)
    assert proposal.choices[0] == "the column user"
    line = next(line for line in proposal.text.splitlines() if line.startswith("    user:"))
    assert line.endswith(
        "Does no column say so? Remove this line, max_contributions and distinct_pairs, and write"
        " unit: comparison, which protects single answers and not people"
    )
    text = proposal.text.replace(line + "\n", "").replace("unit: user", "unit: comparison")
    text = re.sub(r"  (max_contributions|distinct_pairs):.*\n", "", text)
    TARGET.write_text(choose(text, {"design": "any", "items": "{names: [x, y]}", "epsilon": "1"}))
    assert load_config(TARGET).comparison_columns().user is None


def test_a_header_without_rows_still_gives_a_proposal():
    source = Path("empty.csv")
    source.write_text("user,left,right,outcome\n")
    proposal = propose_config(source, TARGET)
    assert proposal.summary.startswith(
        "I read the header and at most 5 rows. Looks like comparisons:"
        " user=user, left=left, right=right.\nCould not tell which column is outcome."
    )


def test_paths_start_at_the_folder_of_the_yaml_file(tmp_path):
    folder = tmp_path / "jobs"
    folder.mkdir()
    write_csv(Path("answers.csv"), ROWS)
    for source, written in [
        (Path("answers.csv"), '"../answers.csv"'),
        (tmp_path / "answers.csv", f"{tmp_path}/answers.csv"),
    ]:
        target = folder / "survey.yaml"
        text = propose_config(source, target).text
        assert f"paths: [{written}]" in text
        target.write_text(choose(text, CHOSEN))
        assert load_config(target).input.paths == (str(tmp_path / "answers.csv"),)


letters = st.characters().filter(lambda each: hidden_character(each, lines=True) is None)
texts = st.text(letters, min_size=1, max_size=20)


@settings(deadline=None)  # it writes files
@given(person=texts, other=texts)
def test_any_column_name_survives_the_yaml_file(person, other):
    """Quotes, colons, line ends, `# CHOOSE`: in a value (left, right) and in a comment (first)."""
    left, right = f"{other}_left", f"{other}_right"
    source, target = Path("any.parquet"), Path("any.yaml")
    pq.write_table(pa.table({f"{person}\n{person}": ["?"], left: ["x"], right: ["y"]}), source)
    proposal = propose_config(source, target)
    choices = CHOSEN | {"user": "u", "outcome": "o", "words": "{left: [l], right: [r]}"}
    target.write_text(choose(proposal.text, choices), encoding="utf-8")
    columns = load_config(target).input.columns
    assert (columns.left, columns.right) == (left, right)


def test_a_column_name_that_a_terminal_would_obey_is_not_proposed():
    pq.write_table(pa.table({"user": ["x"], "le\x1b[2Jft": ["x"]}), "any.parquet")
    with pytest.raises(ConfigError) as caught:
        propose_config(Path("any.parquet"), Path("any.yaml"))
    assert str(caught.value) == (
        "any.parquet: the name of a column contains the invisible character \\x1b; rename"
        " that column"
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "a.csv: the file is empty (0 bytes). Remove it, or write it again."),
        (
            "a.parquet",
            b"PAR1 and no more",
            "a.parquet: not a complete Parquet file (truncated or damaged). Write it again.",
        ),
        (
            "a.csv.gz",
            b"\x1f\x8b",
            "a.csv.gz: not a complete gzip file (truncated or damaged). Write it again.",
        ),
        (
            "a.ods",
            b"PK",
            "a.ods: is a spreadsheet; save it as .xlsx, or as CSV (UTF-8, columns separated by"
            " commas)",
        ),
        (
            "a.xlsx",
            b"PK",
            "a.xlsx: not a readable Excel file (.xlsx): truncated, damaged, or with a password."
            " Write it again.",
        ),
        (
            "a.sav",
            b"$FL2",
            "a.sav: not a complete SPSS file (truncated or damaged). Write it again.",
        ),
        ("a.jsonl", b'{"user": 1}\n[1]\n', "a.jsonl: damaged, not readable as jsonl"),
        ("a.jsonl", b'{"user": 1}\n{secret\n', "a.jsonl: damaged, not readable as jsonl"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_without_quoting_it(name, content, message):
    Path(name).write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        propose_config(Path(name), TARGET)
    assert str(caught.value) == message


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for source, message in [
        (
            Path("no.csv"),
            "no.csv: no such file; name a local Parquet, CSV or JSON Lines file, or a folder of"
            " such files",
        ),
        (
            tmp_path,
            f"{tmp_path}: holds no file of a format that is read; name a folder that does",
        ),
    ]:
        with pytest.raises(ConfigError) as caught:
            propose_config(source, TARGET)
        assert str(caught.value) == message


def test_an_address_without_a_bucket_is_refused_and_not_quoted(command):
    code, printed = command("init", "s3://b/secret")
    assert code == 2
    assert "An object's address must be s3://BUCKET/NAME" in " ".join(printed.split())
    assert "secret" not in printed


def test_a_folder_may_hold_one_file():
    Path("logs").mkdir()
    write_csv(Path("logs/answers.csv"), ROWS)
    proposal = propose_config(Path("logs"), TARGET)
    assert proposal.summary.startswith("I read the header and at most 5 rows of logs/answers.csv.")
    assert "  paths: [logs] " in proposal.text
    assert "\nschedule:" not in proposal.text


def test_an_existing_file_is_never_overwritten():
    TARGET.write_text("mine")
    proposal = ConfigProposal(text="new", summary="", questions=())
    with pytest.raises(ConfigError) as caught:
        write_proposal(proposal, TARGET)
    assert str(caught.value) == (
        "survey.yaml: exists already and was not changed; remove it or name another file"
    )
    assert TARGET.read_text() == "mine"


def test_a_folder_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match=r"^no/survey\.yaml: cannot be written \(No such file"):
        write_proposal(ConfigProposal("", "", ()), Path("no/survey.yaml"))


def test_a_preflib_file_names_its_items_and_leaves_two_choices(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    header = "# NUMBER VOTERS: 5\n# NUMBER ALTERNATIVES: 2\n"
    header += "# ALTERNATIVE NAME 1: Ada\n# ALTERNATIVE NAME 2: Bo\n"
    Path("board.toi").write_text(header + "3: {2,1}\n2: 1\n")
    proposal = propose_config(Path("board.toi"), Path("survey.yaml"))
    assert proposal.choices == ("unlisted", "epsilon")
    assert "2 items found in the header" in proposal.summary
    text = choose(proposal.text, {"unlisted": "below", "epsilon": "2.0"})
    Path("survey.yaml").write_text(text)
    config = load_config(Path("survey.yaml"))
    assert config.items.catalogue.names == ("Ada", "Bo")
    assert config.rankings.ties == "random"
    Path("board.soc").write_text(header + "3: 2,1\n2: 1,2\n")
    complete = propose_config(Path("board.soc"), Path("survey.yaml"))
    assert complete.choices == ("epsilon",)  # each order lists all items
    assert "unlisted" not in complete.text
    Path("board.toi").write_text(header + "5: 1,3\n")
    with pytest.raises(ConfigError, match=r"line 5: an item is not in the header"):
        propose_config(Path("board.toi"), Path("survey.yaml"))


def test_the_design_is_asked_for():
    proposal = propose_config(write_csv(Path("answers.csv"), ROWS), TARGET)
    assert proposal.choices == ("the design", "the items", "epsilon", "answers a person")
    assert (
        "  design:                        # CHOOSE: which pairs were people asked about? balanced"
        " (every pair asked equally often); random (random pairs, some items shown more); any (not"
        " sure, or"
    ) in proposal.text


def test_the_person_may_say_the_kind():
    source = write_csv(Path("odd.csv"), [{"one": "x", "two": "y"}])
    for kind, layout in ((Kind.RESPONSES, "long"), (Kind.RANKINGS, "long")):
        proposal = propose_config(source, TARGET, kind)
        assert f"  kind: {kind} " in proposal.text
        assert f"  layout: {layout} " in proposal.text
        assert proposal.choices[0] == "the column user"
    assert kind_named(None) is None
    assert kind_named("rankings") is Kind.RANKINGS
    with pytest.raises(ConfigError) as caught:
        kind_named("tests")
    assert str(caught.value) == ("--kind must be comparisons, responses, rankings, got 'tests'")


def test_where_the_kind_is_unclear_it_is_asked_for():
    proposal = propose_config(write_csv(Path("odd.csv"), [{"this": "x", "that": "y"}]), TARGET)
    assert proposal.choices[0] == "the kind"
    assert proposal.summary.split("\n")[:2] == [
        "I read the header and at most 5 rows.",
        "Could not tell whether these are comparisons, test answers or rankings. The file is"
        " written for comparisons; for the others: hushrank init odd.csv --kind responses, or"
        " --kind rankings.",
    ]
    columns = {"user": "this", "left": "that", "right": "three", "outcome": "four"}
    TARGET.write_text(choose(proposal.text, CHOSEN | columns | {"kind": "comparisons"}))
    assert load_config(TARGET).input.columns.right == "three"
