"""A run on rows of a Beam transform: `hushrank.run(source=...)` and `input.source`."""

from __future__ import annotations

import json
import math
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq
import pytest

import hushrank as hr
from hushrank.flows.errors import ConfigError, HushrankError
from hushrank.flows.methods.registry import load_config
from hushrank.flows.release.provenance import row_source_of
from hushrank.verifier import verify_release
from tests.flows.conftest import InProcessReducer, Survey, answers

SECRET = "SECRET-4711"
TABLE = answers(120)
FILES = ("paths", "format")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read in this process, which saves the seconds that a child takes to start."""
    monkeypatch.setattr("hushrank.flows.interfaces.python.run.Reducer", InProcessReducer)


@pytest.fixture
def job(survey: Survey) -> Survey:
    """A job on rows with a public name, which Python passes."""
    return survey.set(input__paths=None, input__version="zoo 2026-11-26")


def rows() -> beam.PTransform:
    return beam.Create(TABLE.to_pylist())


def spent(job: Survey) -> list[float]:
    """Costs of the draws that the ledger counts."""
    entries = map(json.loads, job.ledger.read_text().splitlines())
    return [each["epsilon"] for each in entries if each.get("state") == "reserved"]


def test_the_same_version_is_the_same_release(job):
    first = hr.run(job.config, source=rows())
    assert first.safe
    again = hr.run(job.config, source=beam.Create([{"user": SECRET}]))
    without = hr.run(job.config)
    assert (again.id, again.spent, without.id, without.spent) == (first.id, None, first.id, None)
    other = hr.run(job.set(input__version="zoo 2026-11-27").config, source=rows())
    assert other.id != first.id
    assert other.spent is not None


def test_the_release_says_the_source_and_the_version(job):
    path = job.folder / "rows.parquet"
    pq.write_table(TABLE, path)
    job.set(input__source={"type": "ReadFromParquet", "config": {"path": str(path)}})
    release = hr.run(job.config)
    told = json.loads((release.folder / "release.json").read_text())
    assert told["source"] == {"type": "ReadFromParquet", "version": "zoo 2026-11-26"}
    certificate = (release.folder / "certificate.json").read_text()
    assert json.loads(certificate)["rows"]["settings"]["source"] == {"type": "ReadFromParquet"}
    assert str(path) not in "".join(
        each.read_text() for each in release.folder.iterdir() if each.is_file()
    )
    page = (release.folder / "report.html").read_text()
    assert "Version zoo 2026-11-26, read by Beam&#39;s ReadFromParquet." in page
    found = verify_release.verify(verify_release.read_folder(release.folder))
    assert found.code == 0
    assert any("the rows are version zoo 2026-11-26" in text for _, text in found.lines)


def test_two_names_never_read_one_version(job):
    hr.run(job.config, source=rows())
    job.set(name="others", output=str(job.folder / "out2"), confidential=str(job.folder / "work2"))
    with pytest.raises(HushrankError, match="has read the same input"):
        hr.run(job.config, source=rows())


def fail(row: dict[str, Any]) -> None:
    raise ValueError(f"{SECRET} {row}")


def test_a_source_that_fails_costs_nothing_and_tells_its_type_alone(job, capfd, caplog):
    with pytest.raises(ConfigError, match=r"PTransform raised ValueError\.") as caught:
        hr.run(job.config, source=rows() | beam.Map(fail))
    assert SECRET not in str(caught.value) + caplog.text + "".join(capfd.readouterr())
    left = [path for path in job.folder.rglob("*") if path.is_file()]
    assert not [path for path in left if SECRET.encode() in path.read_bytes()]
    assert hr.run(job.config, source=rows()).spent is not None


class Open(beam.PTransform):
    """A transform that holds an iterator."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = (row for row in [1])


@pytest.mark.parametrize(
    ("changes", "source", "message"),
    [
        ({}, [1], "must be a Beam PTransform that yields rows, got a list"),
        ({}, beam.Create, "must be a Beam PTransform that yields rows, got a type"),
        ({}, None, r"input\.source: missing; input\.version names rows"),
        ({}, Open(), "cannot be sent to the process that reads rows"),
        ({"input__version": None, "input__paths": ["x.csv"]}, beam.Create([1]), "other rows"),
        ({"input__source": {"type": "Create"}}, beam.Create([1]), "in place of input.source"),
        ({"input__paths": ["x.csv"]}, None, "but paths names files; remove one"),
        ({"input__version": None, "input__source": {"type": "Create"}}, None, "version: missing"),
        ({"input__version": "a\x1bb"}, None, "which nobody sees"),
        ({"input__version": "zoo {date:%d}"}, None, r"must write a night as \{date\}"),
        ({"input__format": "csv"}, None, "is for files, and a Beam transform"),
        ({"schedule": {"window": "time"}}, None, r"write \{date\} into input.version"),
        (
            {"input__source": {"type": "A", "config": {"x": math.nan}}},
            None,
            "must hold texts",
        ),
    ],
)
def test_what_does_not_fit_is_refused(job, changes, source, message):
    job.set(**changes)
    with pytest.raises(ConfigError, match=message):
        hr.run(job.config, source=source)
    assert not job.ledger.exists()


def test_a_night_has_a_version_of_its_own(job):
    folder = job.folder / "rows"
    folder.mkdir()
    for day in ("2026-11-20", "2026-11-21"):
        pq.write_table(TABLE, folder / f"{day}.parquet")
    job.set(
        input__version="zoo {date}",
        input__source={
            "type": "ReadFromParquet",
            "config": {"path": str(folder / "{date}.parquet")},
        },
    )
    first = hr.run(job.config, night="2026-11-20")
    second = hr.run(job.config, night="2026-11-21")
    assert first.id != second.id
    assert hr.run(job.config, night="2026-11-20").spent is None
    told = json.loads((second.folder / "release.json").read_text())
    assert told["source"]["version"] == "zoo 2026-11-21"


def test_no_text_of_a_configuration_shows_a_password(job):
    job.set(input__source={"type": "ReadFromJdbc", "config": {"password": SECRET}})
    config = load_config(job.config)
    assert SECRET not in repr(config) + config.model_dump_json()
    told = row_source_of(config, None)
    assert told is not None
    assert told.text == "version zoo 2026-11-26, read by Beam's ReadFromJdbc"


def test_the_job_keeps_its_identity_when_source_and_version_change(job):
    before = load_config(job.config).job_hashes
    job.set(input__version="zoo 2", input__source={"type": "ReadFromJdbc"})
    assert load_config(job.config).job_hashes == before


@pytest.mark.parametrize(
    "source",
    [
        {"type": "ReadFromNowhere", "config": {}},
        {"type": "WriteToText", "config": {"path": "secret"}},
        {"type": "ReadFromText", "config": {"pth": "secret"}},
    ],
    ids=lambda source: source["type"],
)
def test_a_source_that_reads_nothing_is_one_sentence_at_the_command_line(job, command, source):
    job.set(input__source=source, input__version="zoo")
    code, printed = command("run", job.config)
    assert code == 2
    (line,) = [line for line in printed.splitlines() if line.startswith("input.source: ")]
    assert line.startswith(f"input.source: {source['type']} could not be built (")
    assert line.endswith("Nothing was read or spent.")
    assert "secret" not in printed
    entries = [json.loads(line) for line in job.ledger.read_text().splitlines()]
    assert [each["event"] for each in entries][-1] == "cancel"  # and nothing was drawn
    assert "draw" not in {each["event"] for each in entries}
    assert not job.output.exists()
