"""`hushrank privatize --kind rankings` from the command line."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

LONG = {
    "voter": ["ann", "ann", "bob", "bob", "cid"],
    "candidate": ["x", "y", "y", "x", "y"],
    "place": [1, 2, 1, 2, 1],
}
COLUMNS = ("--user", "voter", "--item", "candidate", "--rank", "place")
HEADER = "# NUMBER ALTERNATIVES: 2\n# ALTERNATIVE NAME 1: x\n# ALTERNATIVE NAME 2: y\n"
PREFLIB = f"{HEADER}3: 2,1\n40: {{1,2}}\n"


@pytest.fixture
def ballots(tmp_path):
    path = tmp_path / "ballots.parquet"
    pq.write_table(pa.table(LONG), path)
    return path


@pytest.mark.parametrize("form", ["long", "list", "preflib"])
def test_what_it_prints_is_a_job_that_runs(tmp_path, command, survey, form):
    """The two lines for the job are taken as they are printed."""
    out = tmp_path / "private.parquet"
    many = {name: values * 40 for name, values in LONG.items()}
    many["voter"] = [f"{who}{row // 5}" for row, who in enumerate(many["voter"])]
    if form == "long":
        pq.write_table(pa.table(many), tmp_path / "in.parquet")
        arguments = (tmp_path / "in.parquet", "--kind", "rankings", *COLUMNS)
    elif form == "list":
        pq.write_table(pa.table({"order": [["x", "y"], ["y", "x"]] * 50}), tmp_path / "in.parquet")
        arguments = (tmp_path / "in.parquet", "--kind", "rankings", "--ranking", "order")
    else:
        (tmp_path / "in.toi").write_text(PREFLIB)
        arguments = (tmp_path / "in.toi", "--ties", "random")
    code, printed = command("privatize", *arguments, "--out", out, "--epsilon", 2)
    assert code == 0, printed
    lines = yaml.safe_load(printed.partition("In the job that ranks it:\n")[2])
    lines["input"]["paths"] = [str(out)]
    survey.set(**lines, items={"names": ["x", "y"]}, method="borda", distinct_pairs=None)
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    assert survey.published()


def test_nobodys_name_and_no_true_rank_is_in_the_file(tmp_path, command, ballots):
    out = tmp_path / "private.csv"
    code, printed = command(
        "privatize", ballots, "--kind", "rankings", *COLUMNS, "--out", out, "--epsilon", 1
    )
    assert code == 0, printed
    assert "Each ranking has a new number in place of a person." in printed
    assert "the exponent is epsilon m / 2" in printed
    text = out.read_text()
    assert text.splitlines()[0] == '"voter","candidate","place","epsilon"'
    assert not any(name in text for name in ("ann", "bob", "cid"))
    assert len(text.splitlines()) == 6


def test_reasons_for_leaving_out_are_told_without_counts(tmp_path, command):
    source, out = tmp_path / "in.toi", tmp_path / "private.parquet"
    source.write_text(PREFLIB)
    code, printed = command("privatize", source, "--out", out, "--epsilon", 1)
    assert code == 0, printed
    assert "Left out: the ranking puts two items at the same rank.\n" in printed
    assert not re.search(r"\b40\b", printed.replace(str(tmp_path), ""))
    assert len(pq.read_table(out)) == 3


KIND = ("--kind", "rankings")
EPSILON = ("--epsilon", 1)
MISTAKES = [
    ((), "Give exactly one of --epsilon, --epsilon-column and --epsilon-table."),
    (("--kind", "ballots", *EPSILON), "--kind must be comparisons or rankings, got 'ballots'"),
    ((*EPSILON, "--rank", "place"), "--rank is not for --kind comparisons; leave it out."),
    ((*KIND, *EPSILON, "--left", "a"), "--left is not for --kind rankings; leave it out."),
    (
        (*KIND, *EPSILON, "--mechanism", "gauss"),
        "--mechanism must be mallows, laplace-ranks or random-pairs, got 'gauss'",
    ),
    ((*KIND, *EPSILON, "--ties", "split"), "--ties must be refuse or random, got 'split'"),
    (
        (*KIND, "--epsilon-column", "e", "--epsilon-range", 1, 2, "--mechanism", "laplace-ranks"),
        "--mechanism laplace-ranks needs one --epsilon for all rankings.",
    ),
    (
        (*KIND, "--epsilon", 0),
        "--epsilon or --epsilon-range: need 0 < low <= high < inf, got 0.0 and 0.0",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes_are_named_and_nothing_is_written(tmp_path, command, ballots, arguments, message):
    out = tmp_path / "private.parquet"
    code, printed = command("privatize", ballots, "--out", out, *arguments)
    assert (code, printed.strip()) == (2, message)
    assert [path.name for path in tmp_path.iterdir()] == ["ballots.parquet"]


def test_files_and_columns_are_checked(tmp_path, command, ballots):
    out = tmp_path / "private.parquet"
    code, printed = command("privatize", ballots, *KIND, *EPSILON, "--out", out)
    assert code == 2
    assert "column user not found. Columns: voter, candidate, place." in printed
    code, printed = command(
        "privatize", ballots, *KIND, *EPSILON, "--ranking", "voter", "--out", out
    )
    assert code == 2
    assert "it must hold lists of items, best first" in printed
    code, printed = command(
        "privatize", ballots, *KIND, *EPSILON, "--ranking", "r", "--out", tmp_path / "x.csv"
    )
    assert (code, printed.strip()) == (
        2,
        f"--out must end in .parquet, .pq, because the new file has a list in each row, got"
        f" {tmp_path}/x.csv",
    )
    nowhere = tmp_path / "new" / "x.parquet"
    code, printed = command("privatize", ballots, *KIND, *COLUMNS, *EPSILON, "--out", nowhere)
    assert (code, printed.strip()) == (
        2,
        f"--out: {tmp_path}/new: no such folder. Make it, or name another.",
    )
    out.write_text("mine")
    code, printed = command("privatize", ballots, *KIND, *COLUMNS, *EPSILON, "--out", out)
    assert (code, printed.strip()) == (2, f"{out} exists already; name a new file.")
    assert out.read_text() == "mine"


def test_preflib_files_have_no_columns_and_name_their_faults(tmp_path, command):
    source, out = tmp_path / "in.toi", tmp_path / "private.parquet"
    source.write_text(PREFLIB + "2: 1,3\n")
    code, printed = command("privatize", source, "--out", out, *EPSILON, "--item", "x")
    assert (code, printed.strip()) == (
        2,
        "A PrefLib file has no columns: give --epsilon, and no options that name a column.",
    )
    code, printed = command("privatize", source, "--out", out, *EPSILON)
    assert (code, printed.strip()) == (
        2,
        f"{source}: not a PrefLib file of rankings: line 6: an item is not in the header. Correct"
        " the file.",
    )
    assert not out.exists()
