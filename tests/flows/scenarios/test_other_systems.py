"""Whole runs in processes that lack what POSIX alone has, as on Windows and as on macOS.

Under Wine the same command ran on Windows' own Python (docs/installing.md); these tests need none.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hushrank.flows.release.archive import archived
from tests.flows.conftest import Survey, answers
from tests.foreign_system import foreign_system

TABLE = """
import pyarrow.parquet as pq
import hushrank as hr

if __name__ == "__main__":
    release = hr.rank(
        pq.read_table("answers.parquet"), left="item_i", right="item_j", outcome="outcome",
        words=dict(left=[1], right=[-1]), user="user", items=dict(names={items!r}, first_code=0),
        design="balanced", epsilon=2.0, max_contributions=6, confidential="of tables",
        ledger="of the ledger/ledger.jsonl", out="table", name="table",
    )
    print(release.ranking.num_rows)
"""


PATHS = """
import sys
from pathlib import Path
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config
from hushrank.flows.run.job import check_places

for name in sys.argv[1:]:
    try:
        check_places(load_config(Path(name)))
        print("taken")
    except ConfigError as error:
        print(" ".join(str(error).split()))
"""
UNFIT = [
    ({"input__paths": ["con.csv"]}, "Windows keeps the name con.csv for a device; rename it"),
    ({"output": "reports/Aux"}, "Windows keeps the name Aux for a device"),
    ({"confidential": "COM¹ .work"}, "Windows keeps the name COM¹ .work for a device"),
    ({"output": "out."}, "Windows leaves out the dot or blank at the end of 'out.'"),
    ({"ledger__path": "led /ledger.jsonl"}, "the dot or blank at the end of 'led '"),
    ({"ledger__path": "campus:ledger.jsonl"}, "behind the colon of campus:ledger.jsonl for no"),
    ({"observability": {"log": "NUL"}}, "Windows keeps the name NUL for a device"),
    ({"input__paths": ["C:/answers {date:%Y:%m:%d}.csv"]}, "taken"),
    ({"output": "o" * 90 + "/" + "p" * 90}, "this system opens at most 259, 120 of them for files"),
    ({"input__paths": ["a" * 150 + "/" + "b" * 120]}, "shorter path, or have the administrator"),
    ({"output": "console", "confidential": "com0"}, "taken"),
]


def python(
    survey, system: str, *words: object, console: str = "utf-8"
) -> subprocess.CompletedProcess[str]:
    """Run Python on a system, at a console of a code page that refuses what it does not have."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=survey.folder,
        env=os.environ | foreign_system(system) | {"PYTHONIOENCODING": f"{console}:strict"},
        capture_output=True,
        encoding=console,
        check=False,
    )


def modes(folder: Path) -> set[str]:
    return {f"{path.stat().st_mode & 0o777:o}" for path in folder.rglob("*")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "consoles"), [("windows", ("cp437", "cp1252")), ("macos", ("utf-8", "utf-8"))]
)
def test_a_run_draws_once_and_its_files_are_private_on_another_system(survey, system, consoles):
    survey.set(confidential="Ännes work", ledger__path="Ännes ledger/ledger.jsonl")
    survey.set(items__names=["Łódź", "日本", *survey.settings["items"]["names"][2:]])
    command = ("-m", "hushrank", "run", survey.config)
    first, second = (python(survey, system, *command, console=each) for each in consoles)
    assert first.returncode == second.returncode == 0, first.stdout + first.stderr
    assert "Re-running returns the same result at no cost" in first.stdout
    assert "nothing was spent" in second.stdout
    for done in (first, second):
        assert ("Łódź" in done.stdout) is (system == "macos")
        assert (r"\u0141ód\u017a" in done.stdout) is (system == "windows")
    shown = (survey.output / "release.json").read_bytes()
    pq.write_table(answers(210), survey.folder / "answers.parquet")
    third = python(survey, system, *command)
    assert third.returncode == 0, third.stderr
    assert (survey.output / "release.json").read_bytes() != shown  # it took the first one's place
    work, ledger = survey.folder / "Ännes work", survey.folder / "Ännes ledger"
    said = [" ".join((each.stdout + each.stderr).split()) for each in (first, second, third)]
    told = ["On Windows, memory_limit stops no process that reads files" in each for each in said]
    assert told == [system == "windows", False, False]
    assert modes(work) | modes(ledger) <= {"600", "700"}
    lines = (ledger / "ledger.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines].count("draw") == 2
    assert len(archived(survey.output)) == 2
    assert not [path for path in work.rglob("*") if "exact" in path.name]


@pytest.mark.engine
@pytest.mark.parametrize("system", ["windows", "macos"])
def test_nights_by_prefect_and_beam_are_drawn_once_on_another_system(survey, on_prefect, system):
    nights = ["2026-11-19", "2026-11-20"]
    for seed, night in enumerate(nights):
        pq.write_table(answers(50, seed), survey.folder / f"{night}.parquet")
    survey.set(
        name=f"on-{system}",
        input__paths=["{date}.parquet"],
        runner={"kind": "local", "beam": True},
        confidential="Ännes work",
        ledger__path="Ännes ledger/ledger.jsonl",
    )
    backfill = ("backfill", survey.config, "--from", nights[0], "--to", nights[1], "--prefect")
    first, second = (python(survey, system, "-m", "hushrank", *backfill) for _ in range(2))
    assert first.returncode == second.returncode == 0, first.stdout + first.stderr
    assert [f"{night}  released; spent" in first.stdout for night in nights] == [True, True]
    assert second.stdout.count("released before; nothing was spent") == 2
    runs = on_prefect.flow_runs(flow_runs={"name": {"like_": f"on-{system}-"}})
    assert [each["state_type"] for each in runs] == ["COMPLETED"] * 2
    work, ledger = survey.folder / "Ännes work", survey.folder / "Ännes ledger"
    assert modes(work) | modes(ledger) <= {"600", "700"}
    lines = (ledger / "ledger.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines].count("draw") == 2
    assert [folder.name[:10] for folder in archived(survey.output)] == nights
    assert not [path for path in work.rglob("*") if "exact" in path.name]


@pytest.mark.slow
def test_a_table_in_memory_leaves_no_rows_on_windows(survey):
    script = survey.folder / "script.py"
    script.write_text(TABLE.format(items=survey.settings["items"]["names"]))
    done = python(survey, "windows", script)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) == len(survey.settings["items"]["names"])
    private = survey.folder / "of tables"
    assert modes(survey.folder / "of the ledger") <= {"600", "700"}
    assert modes(private) <= {"600", "700"}
    assert not list((private / "tables").iterdir())


def test_names_that_windows_cannot_have_are_refused_there(survey):
    texts = []
    for number, (changes, _) in enumerate(UNFIT):
        own = Survey(survey.folder, copy.deepcopy(survey.settings)).set(**changes)
        own.config.rename(survey.folder / f"{number}.yaml")
        texts.append(f"{number}.yaml")
    done = python(survey, "windows", "-c", PATHS, *texts)
    assert done.returncode == 0, done.stderr
    for line, (_, said) in zip(done.stdout.splitlines(), UNFIT, strict=True):
        assert said in line
        assert line == "taken" or not survey.ledger.exists()


def test_places_of_the_command_line_are_refused_there_too(survey):
    code = """
import sys
from pathlib import Path
from hushrank.flows.config.section import check_can_be_made, check_can_be_written
from hushrank.flows.interfaces.cli.backup_commands import _place_argument

for check in (_place_argument, lambda name: check_can_be_made("--out", Path(name).absolute()),
              lambda name: check_can_be_written("--out", Path(name))):
    for name in ("nul", "con.csv", "out/a:b.csv", "right.csv"):
        try:
            check(name)
            print("taken")
        except Exception as error:
            print(type(error).__name__, error)
"""
    done = python(survey, "windows", "-c", code)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    for first in (0, 4, 8):
        refused = said[first : first + 3]
        assert all(line.startswith("ConfigError ") for line in refused)
        words = zip(refused, ("name nul for", "name con.csv for", "of a:b.csv"), strict=True)
        assert all(word in line for line, word in words)
        assert said[first + 3] == "taken"


def test_a_folder_that_others_can_open_is_refused_with_the_command_of_windows(survey):
    survey.work.mkdir()
    survey.work.chmod(0o755)
    done = python(survey, "windows", "-m", "hushrank", "run", survey.config)
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert "is open to other users of this machine" in said
    closing = '/inheritance:r /remove:g "*S-1-1-0" /grant:r "OFFICE\\ann:(OI)(CI)F"'
    assert f'Run: icacls "{survey.work}" {closing}' in said
