"""Private values are planted wherever a run reads; nothing that it writes elsewhere holds one.

Planted are a text in every column of the input, in bad rows and good ones, in a line that is no row
and in a column that nobody reads; and in place of each exact count, before its noise is drawn, one
that could not be there by chance. Searched is what is at the terminal, in logs, spans and Prefect's
database, and every file below the survey's folder but its input and its confidential area.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hushrank.flows.run import run as nightly
from hushrank.flows.run.context import Job
from hushrank.flows.watching.destinations import Traces
from hushrank.pipelines.reduce.reduction_job import EXACT_FILE, TALLY_FILE
from tests.flows.conftest import ITEMS, Survey, answers

NIGHT = "2026-11-20"
ROLES = ("user", "left", "right", "outcome", "event", "at", "comment")
CANARIES = tuple(f"canary-{role}-7391" for role in (*ROLES, "line", "key"))
FACTOR = 1_000_000_007  # exact counts are planted as multiples of it
EPSILON = 1e-9  # one of 12 released counts is one of 12 planted ones with probability 6 eps at most
PLANTED = "planted.json"  # in the confidential area: the exact numbers


def rows() -> list[dict[str, object]]:
    """Answers of one night, each column with its canary: in a good row where it can be."""
    found = [
        {**row, "event": f"e{number}", "at": f"{NIGHT}T12:00:00", "comment": "none"}
        for number, row in enumerate(answers(150).to_pylist())
    ]
    for row in found:
        row |= {"left": ITEMS[row.pop("item_i")], "right": ITEMS[row.pop("item_j")]}
        row["user"], row["outcome"] = f"u{row['user']}", str(row["outcome"])
    for number, (role, canary) in enumerate(zip(ROLES, CANARIES, strict=False)):
        found[7 * number][role] = canary  # each of another person
    return found


def write(path: Path) -> None:
    """The answers in the format that the ending says, with a line that is no row in text."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows()), path)
        return
    text = io.StringIO()
    if path.suffix == ".csv":
        writer = csv.DictWriter(text, list(rows()[0]))
        writer.writeheader()
        writer.writerows(rows())
        text.write("canary-line-7391,too short\n")
    else:
        lines = [{**row, "canary-key-7391": 1} if n == 5 else row for n, row in enumerate(rows())]
        text.write("".join(f"{json.dumps(line)}\n" for line in lines))
        text.write('{"comment": "canary-line-7391\n')
    path.write_text(text.getvalue())


def plant_exact(job: Job) -> None:
    """Replace the exact counts, before their noise is drawn, and the tallies of rows."""
    with np.load(job.work / EXACT_FILE) as stored:
        counts = stored["counts"] * FACTOR
    np.savez(job.work / EXACT_FILE, counts=counts)
    tally = json.loads((job.work / TALLY_FILE).read_text())
    tally = {name: FACTOR + 101 * place for place, name in enumerate(tally)}
    (job.work / TALLY_FILE).write_text(json.dumps(tally))
    sums = [counts.sum(), *(counts.sum(axis) for axis in range(counts.ndim))]
    numbers = np.concatenate([np.ravel(each) for each in (counts, *sums, list(tally.values()))])
    (job.work / PLANTED).write_text(json.dumps(sorted({int(n) for n in numbers if n})))


def with_planted_counts(reduce):
    """A step `reduce` after which the counts are the planted ones."""

    def reduce_and_plant(job, reducer):
        exact = reduce(job, reducer)
        plant_exact(job)
        return exact

    return reduce_and_plant


@pytest.fixture
def canaries(survey: Survey, monkeypatch) -> Survey:
    (survey.folder / "answers.parquet").unlink()
    (survey.folder / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(survey.folder / "tmp"))
    monkeypatch.setattr(nightly, "reduce", with_planted_counts(nightly.reduce))
    roles = {role: role for role in ("user", "left", "right", "outcome", "event")}
    return survey.set(
        input={"kind": "comparisons", "design": "balanced", "paths": ["input/*"], "columns": roles},
        schedule={"window": "at"},
        privacy__epsilon=EPSILON,
        observability={
            "log": "log.jsonl",
            "metrics": "m.prom",
            "support": "s",
            "traces": True,
            "lineage": {"file": "lineage.jsonl"},
        },
    )


def put(survey: Survey, ending: str) -> None:
    folder = survey.folder / "input"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    write(folder / f"answers.{ending}")


def numbers_in(survey: Survey) -> list[int]:
    """Those that `plant_exact` planted."""
    return [n for path in survey.work.rglob(PLANTED) for n in json.loads(path.read_text())]


def holds_planted(text: str, numbers: list[int]) -> bool:
    """Whether a text holds a planted value; numbers in any of the ways that they are written."""
    plain = re.sub(r"(?<=\d)[,.' \u00a0\u202f](?=\d{3}(?!\d))", "", text)
    found = {int(digits) for each in (text, plain) for digits in re.findall(r"\d{8,18}", each)}
    return any(canary in text for canary in CANARIES) or not found.isdisjoint(numbers)


def leaks(survey: Survey) -> list[Path]:
    """Files with a planted value, outside the input and the confidential area."""
    private, numbers = (survey.folder / "input", survey.work), numbers_in(survey)
    outside = (
        path
        for path in survey.folder.rglob("*")
        if path.is_file() and not any(path.is_relative_to(folder) for folder in private)
    )
    return [path for path in outside if any(holds_planted(t, numbers) for t in texts_of(path))]


def texts_of(path: Path) -> Iterator[str]:
    """What is in a file, also in what it lets people download."""
    for text in plain_texts_of(path):
        yield text
        for part in re.findall(r"base64,([A-Za-z0-9+/=]+)", text):
            whole = part[: len(part) // 4 * 4]  # a page of a database may cut it
            yield base64.b64decode(whole).decode(errors="replace")


def plain_texts_of(path: Path) -> Iterator[str]:
    """Its bytes, members, tables."""
    content = path.read_bytes()
    yield content.decode(errors="replace")
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as members:
            yield from (members.read(name).decode(errors="replace") for name in members.namelist())
    if content.startswith(b"SQLite format 3"):
        with sqlite3.connect(path) as database:
            yield "\n".join(database.iterdump())
    if path.suffix == ".parquet":
        yield json.dumps(pq.read_table(path).to_pylist(), default=str)


def assert_all_were_there(survey: Survey, ending: str) -> None:
    """The canaries are in the rejects or in good rows, and the counts in place of the exact."""
    (source,) = (survey.folder / "input").iterdir()
    there = next(texts_of(source)) if ending != "parquet" else " ".join(texts_of(source))
    skipped = {"csv": ("key",), "jsonl": (), "parquet": ("line", "key")}[ending]
    assert all(canary in there or canary.split("-")[1] in skipped for canary in CANARIES)
    (rejects,) = {path.parent for path in survey.work.rglob("rejects/*")}
    refused = " ".join(text for path in rejects.iterdir() for text in texts_of(path))
    for role in ("left", "right", "outcome", "at", *({"line"} - {*skipped})):
        assert f"canary-{role}-7391" in refused
    assert len(numbers_in(survey)) >= 5


@pytest.mark.parametrize(
    ("method", "ending"),
    [
        ("noisy-counts", "csv"),
        ("noisy-counts", "jsonl"),
        ("noisy-pairs", "parquet"),
        ("noisy-pairs", "csv"),
    ],
)
def test_nothing_planted_leaves_the_confidential_area(
    canaries, command, monkeypatch, caplog, method, ending
):
    exporter = InMemorySpanExporter()
    monkeypatch.setattr("hushrank.flows.watching.destinations.Traces", lambda: Traces(exporter))
    put(canaries.set(method=method), ending)
    run = ("run", canaries.config, "--direct", "--date", NIGHT, "--anyway")
    told = []
    for arguments in (
        run,
        run,  # publishes nothing new
        ("ledger", "show", canaries.config),
        ("history", canaries.config),
        *(
            (*words, "--json")
            for words in (run, ("validate", run[1], "--anyway"), ("history", *run[1:2]))
        ),
        ("ledger", "show", canaries.config, "--json"),
        ("export", canaries.config, "--out", canaries.folder / "all.parquet"),
        ("support", canaries.config, "--to", canaries.folder / "bundle.zip"),
    ):
        code, printed = command(*arguments)
        assert code == 0, printed
        told.append(printed)
    assert_all_were_there(canaries, ending)
    spans = [span.to_json() for span in exporter.get_finished_spans()]
    assert spans
    assert not [t for t in (*told, *spans, caplog.text) if holds_planted(t, numbers_in(canaries))]
    assert {"log.jsonl", "m.prom", "all.parquet", "bundle.zip", "ledger.jsonl", "out"} <= {
        path.name for path in canaries.folder.iterdir()
    }
    assert leaks(canaries) == []


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_nothing_planted_is_told_of_a_run_that_fails(canaries, command, caplog, ending):
    put(canaries.set(input__on_bad_rows="fail"), ending)
    run = ("run", canaries.config, "--direct", "--date", NIGHT, "--anyway")
    code, refused = command(*run)
    assert code == 2
    assert "some rows break a rule" in refused
    canaries.set(input__on_bad_rows=None, input__columns__left="absent")
    code, missing = command(*run)
    if ending == "jsonl":  # that no row has a key is something that rows say
        assert code == 0
    else:
        assert code == 2
        assert "column absent not found" in missing
    assert not [text for text in (refused, missing, caplog.text) if holds_planted(text, [])]
    assert leaks(canaries) == []


@pytest.mark.parametrize("method", ["noisy-counts", "noisy-pairs"])
def test_counts_without_noise_would_be_found(canaries, command, method):
    put(canaries.set(method=method, privacy__epsilon=float("inf")), "csv")
    command("run", canaries.config, "--direct", "--date", NIGHT, "--no-privacy")
    names = {path.name for path in leaks(canaries)}
    assert names >= {"release.json", "report.html"}


def put_into(path: Path, before: str, text: str) -> None:
    """Hide `text` in a file as a leak would."""
    if path.name == "db":
        path.unlink(missing_ok=True)
        with sqlite3.connect(path) as database:
            database.execute("create table log (message)")
            database.execute("insert into log values (?)", (text,))
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
            bundle.writestr("inside", text)
    elif path.suffix == ".html":
        inside = base64.b64encode(f"a,{text}\n".encode()).decode()
        path.write_text(f'{before}<a href="data:text/csv;base64,{inside}">')
    else:
        path.write_text(f"{before}{text}\n")


def test_the_search_finds_what_is_planted(canaries, command):
    put(canaries, "csv")
    command("run", canaries.config, "--direct", "--date", NIGHT, "--anyway")
    number = numbers_in(canaries)[-1]
    for place in ("out/report.html", "log.jsonl", "tmp/left", "new.zip", "db"):
        path = canaries.folder / place
        before = path.read_text() if path.exists() else ""
        for text in (*CANARIES, str(number), f"{number:,}", f"{number:,}".replace(",", "\u202f")):
            put_into(path, before, text)
            assert leaks(canaries) == [path], text
        path.write_text(before)


PLANTED_RUN = """
import sys
from hushrank.flows.run import run as nightly
from tests.flows.scenarios.test_canary import with_planted_counts
if __name__ == "__main__":
    nightly.reduce = with_planted_counts(nightly.reduce)
    from hushrank.flows.interfaces.cli.main import main
    main(sys.argv[1:])
"""


@pytest.mark.slow
def test_nothing_planted_is_in_prefects_database_or_told_by_the_child(canaries, prefect_home):
    """The real command: its child process, the server that it starts, artifacts, events and logs.

    The database holds parameters, states and what Prefect knows of results, too.
    """
    put(canaries.set(observability=None, ledger__alerts=[1e-12]), "csv")
    home = shutil.copytree(prefect_home, canaries.folder / "prefect")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            PLANTED_RUN,
            "backfill",
            str(canaries.config),
            *("--from", NIGHT, "--to", NIGHT),
            "--anyway",
        ],
        cwd=os.getcwd(),
        env={**os.environ, "PREFECT_HOME": str(home), "TMPDIR": str(canaries.folder / "tmp")},
        capture_output=True,
        text=True,
        timeout=840,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"shows each run at http://127\.0\.0\.1:\d+/runs", done.stdout)
    with sqlite3.connect(home / "prefect.db") as database:
        (artifacts,) = database.execute("select count(*) from artifact").fetchone()
        (flow,) = database.execute("select state_type, parameters from flow_run")
        tasks = [name for (name,) in database.execute("select name from task_run")]
        results = database.execute("select count(*) from task_run_state where data is not null")
        assert results.fetchone() == (0,)
        (alerts,) = database.execute(
            "select count(*) from events where event = 'hushrank.budget.alert'"
        ).fetchone()
    assert artifacts >= 4
    assert flow == ("COMPLETED", "{}")
    assert sorted(tasks) == ["commit", "draw", "estimate", "publish", "reduce", "reserve"]
    assert alerts == 1
    assert not [path for path in (home / "storage").rglob("*") if path.is_file()]
    assert_all_were_there(canaries, "csv")
    assert not holds_planted(done.stdout + done.stderr, numbers_in(canaries))
    assert leaks(canaries) == []
