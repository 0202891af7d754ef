"""A PrefLib file through the whole command line: proposed, run, and refused where it is wrong."""

from __future__ import annotations

import json

import pytest

HEADER = "# DATA TYPE: {kind}\n# NUMBER VOTERS: {voters}\n" + "".join(
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


def test_what_init_proposes_runs_and_ranks(tmp_path, command, election):
    election()
    code, printed = command("init", "board.toi", "--out", "job.yaml")
    assert code == 0, printed
    assert "1 line in it is marked CHOOSE (epsilon)" in printed
    job = tmp_path / "job.yaml"
    job.write_text(job.read_text().replace("  epsilon:  ", "  epsilon: 8", 1))
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


@pytest.mark.parametrize(
    ("more", "voters", "rule"),
    [
        (("5: 1,4",), 305, "line 9: an item is not in the header"),
        (("five: 1",), 305, "line 9: it is not `count: order`, as in 3: 2,{1,4}"),
        ((), 301, "NUMBER VOTERS is not the number of ballots; it may be cut short"),
    ],
)
def test_a_wrong_file_is_refused_and_nothing_is_spent(
    tmp_path, command, election, more, voters, rule
):
    election()
    command("init", "board.toi", "--out", "job.yaml")
    job = tmp_path / "job.yaml"
    job.write_text(job.read_text().replace("  epsilon:  ", "  epsilon: 8", 1))
    election(*more, voters=voters)
    code, printed = command("run", job, "--direct")
    assert code == 2
    assert f"board.toi: not a PrefLib file of rankings: {rule}. Correct the file." in printed
    assert not list(tmp_path.glob("out/**/release.json"))
    code, printed = command("ledger", "show", job)
    assert "50.00 left of 50.00" in printed
