"""A PrefLib file through the whole command line: proposed, run, and refused where it is wrong."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

HEADER = "# DATA TYPE: {kind}\n# NUMBER VOTERS: {voters}\n# NUMBER ALTERNATIVES: 3\n" + "".join(
    f"# ALTERNATIVE NAME {k}: {name}\n" for k, name in enumerate(("Ada", "Bo", "Cy"), 1)
)


@pytest.fixture
def election(tmp_path, monkeypatch):
    """Write a file of 300 people who nearly all prefer Cy to Ada to Bo."""
    monkeypatch.chdir(tmp_path)

    def write(*more: str, kind: str = "toi", voters: int = 300) -> None:
        ballots = ("200: 3,1,2", "60: 3,{1,2}", "40: 3", *more)
        text = HEADER.format(kind=kind, voters=voters) + "\n".join(ballots) + "\n"
        (tmp_path / f"board.{kind}").write_text(text)

    return write


def choose(job) -> None:
    """Fill in what `init` left to the person."""
    text = job.read_text().replace("  epsilon:  ", "  epsilon: 8", 1)
    job.write_text(text.replace("  unlisted:  ", "  unlisted: below", 1))


def test_what_init_proposes_runs_and_ranks(tmp_path, command, election):
    election()
    code, printed = command("init", "board.toi", "--out", "job.yaml")
    assert code == 0, printed
    assert "2 lines in it are marked CHOOSE (unlisted, epsilon)" in printed
    job = tmp_path / "job.yaml"
    choose(job)
    code, printed = command("run", job, "--direct")
    assert code == 0, printed
    (release,) = tmp_path.glob("out/board/release.json")
    published = json.loads(release.read_text())
    assert "Cy" in json.dumps(published["ranking"])
    assert "epsilon_of_a_person_at_most" not in published["privacy"]["parameters"]
    assert any("several rankings" in text for text in published["privacy"]["not_protected"])
    assert printed.index("Cy") < printed.index("Ada") < printed.index("Bo")
    assert "board.toi#" not in "".join(
        path.read_text(errors="replace") for path in tmp_path.glob("out/**/*") if path.is_file()
    )


@pytest.fixture
def job(tmp_path, command, election):
    """What init proposes for the election, with an epsilon."""
    election()
    command("init", "board.toi", "--out", "job.yaml")
    path = tmp_path / "job.yaml"
    choose(path)
    return path


def test_a_file_that_was_cut_can_stop_the_run_and_nothing_is_spent(
    tmp_path, command, election, job
):
    election(voters=301)
    job.write_text(job.read_text().replace("on_bad_rows: set-aside", "on_bad_rows: fail"))
    code, printed = command("run", job, "--direct")
    assert code == 2
    assert "some rows break a rule (on_bad_rows: fail)" in printed
    assert not list(tmp_path.glob("out/**/release.json"))
    code, printed = command("ledger", "show", job)
    assert "10.00 left of 10.00" in printed


def test_one_ballot_cannot_stop_the_run_by_its_count(tmp_path, command, election, job):
    election("999999999: 1,2", voters=300)
    code, printed = command("run", job, "--direct")
    assert code == 0, printed
    (rejects,) = tmp_path.glob("**/rejects/*.parquet")
    rule = "the count of people is above NUMBER VOTERS"
    assert pq.read_table(rejects)["line"].to_pylist() == [f"line 10: {rule}: 999999999: 1,2"]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("5: 1,4", "an item is not in the header"),
        ("five: 1", "it is not `count: order`, as in 3: 2,{1,4}"),
    ],
)
def test_no_message_names_a_ballot_that_breaks_a_rule(tmp_path, command, election, job, line, rule):
    election(line, voters=305)
    code, printed = command("run", job, "--direct")
    assert code == 0, printed
    assert "line 10" not in printed
    assert rule not in printed
    (rejects,) = tmp_path.glob("**/rejects/*.parquet")
    assert pq.read_table(rejects)["line"].to_pylist() == [f"line 10: {rule}: {line}"]


def test_a_ballot_that_breaks_a_rule_can_stop_the_run(tmp_path, command, election, job):
    election("5: 1,4", voters=305)
    job.write_text(job.read_text().replace("on_bad_rows: set-aside", "on_bad_rows: fail"))
    code, printed = command("run", job, "--direct")
    assert code == 2
    assert "some rows break a rule (on_bad_rows: fail)" in printed
    assert "line 10" not in printed
    assert not list(tmp_path.glob("out/**/release.json"))
    code, printed = command("ledger", "show", job)
    assert "10.00 left of 10.00" in printed
