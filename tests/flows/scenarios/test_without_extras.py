"""The core where no extra is installed: what works, and how what does not is refused.

A finder hides the libraries of all extras from a process and from its children.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest
import yaml

from hushrank.flows.config.runner import DataflowRunner
from hushrank.flows.errors import ConfigError
from hushrank.flows.run import context, job
from hushrank.transforms.common import extras
from hushrank.transforms.common.extras import EXTRAS, is_installed
from tests.flows.conftest import ITEMS, answers

HIDE = """
import sys

HIDDEN = {hidden!r}


class Hides:
    def find_spec(self, name, path=None, target=None):
        if any(name == each or name.startswith(each + ".") for each in HIDDEN):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Hides())
"""
PROGRAM = """
import contextlib, io, json, sys
from pathlib import Path

import hushrank
from hushrank.flows.interfaces.cli.main import main


def files():
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


found = []
for words in json.load(sys.stdin):
    before, printed, code = files(), io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main(words)
        except SystemExit as stop:
            code = int(stop.code or 0)
    found.append([code, printed.getvalue(), files() == before, sorted(sys.modules)])
json.dump(found, sys.stdout)
"""
DATAFLOW = {
    "kind": "dataflow",
    "project": "p",
    "region": "r",
    "temp_location": "gs://bucket/tmp",
    "image": "example.org/hushrank:0.1.0",
}
# What needs an extra: the extra, the words after `hushrank`, changes of the job.
JOB = "survey.yaml"
REFUSED: list[tuple[str, list[str], dict[str, Any]]] = [
    ("report", ["plan", JOB, "--people", "50", "--plot", "plan.png"], {}),
    ("report", ["history", JOB, "--plot", "ranks.png"], {}),
    ("report", ["export", JOB, "--out", "ranking.png"], {}),
    ("languages", ["run", JOB, "--direct"], {"report": {"language": "de"}}),
    ("collect", ["app", "--no-browser"], {}),
    ("pdf", ["export", JOB, "--out", "ranking.pdf"], {}),
    ("reproduce", ["reproduce", "ccw", "--quick"], {}),
    ("collect", ["collect", JOB], {}),
    ("collect", ["survey", "demo", "new"], {}),
    ("otel", ["run", JOB, "--direct"], {"observability": {"traces": True}}),
    ("s3", ["init", "s3://bucket/log"], {}),
    ("azure", ["init", "abfs://bucket/log"], {}),
    ("iceberg", ["init", "iceberg://lake/arena.battles"], {}),
    ("delta", ["init", "delta:battles"], {}),
    ("bigquery", ["init", "bigquery://p.arena.battles"], {}),
    ("sheets", ["init", "exam.xlsx"], {}),
]


def hidden_in(folder: Path, tmp: Path, commands: list[list[str]]) -> Any:
    """Run commands in one process without extras; code, text, whether no file changed, modules."""
    hidden = [module for extra in EXTRAS.values() for module in extra.modules]
    tmp.mkdir()
    (tmp / "sitecustomize.py").write_text(HIDE.format(hidden=hidden))
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        env=kept | {"PYTHONPATH": str(tmp), "COLUMNS": "400"},
        input=json.dumps(commands),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def hidden(survey, tmp_path, tmp_path_factory):
    """Run commands beside the survey."""
    return lambda commands: hidden_in(tmp_path, tmp_path_factory.mktemp("hide") / "site", commands)


def test_the_core_ranks_csv_and_parquet_and_draws(survey, hidden):
    survey.set(input__paths=["answers.parquet"])
    pyarrow.csv.write_csv(answers(200), survey.folder / "answers.csv")
    other = survey.settings | {"input": survey.settings["input"] | {"paths": ["answers.csv"]}}
    other |= {"output": "out2", "name": "farm", "ledger": {"path": "farm.jsonl", "epsilon": 5}}
    (survey.folder / "other.yaml").write_text(yaml.safe_dump(other))
    pictures = [
        ["export", JOB, "--out", "page.html"],
        ["history", JOB, "--plot", "ranks.svg"],
        ["plan", JOB, "--people", "50", "--epsilon", "1", "--plot", "plan.svg"],
    ]
    runs = [["run", JOB], ["run", "other.yaml", "--direct"]]
    told = hidden([["--help"], *runs, *pictures])
    (code, text, _, loaded), *runs = told[:3]
    for name, tag in (("page.html", "figure"), ("ranks.svg", "svg"), ("plan.svg", "svg")):
        assert f"<{tag}" in (survey.folder / name).read_text()
    assert code == 0
    assert "--help" in text
    assert not {"numpy", "pyarrow", "pydantic", "apache_beam"} & set(loaded)  # help is quick
    for (code, text, *_), folder in zip(runs, ("out", "out2"), strict=True):
        assert code == 0, text
        files = sorted(path.name for path in (survey.folder / folder).iterdir())
        assert files == [
            *("certificate.json", "ranking.csv", "release.json", "releases", "report.html")
        ]
        assert "pip install" not in text
        release = json.loads((survey.folder / folder / "release.json").read_text())
        assert [line["item"] for line in release["ranking"]] == ITEMS
        page = (survey.folder / folder / "report.html").read_text()
        assert "<figure" in page
        for sentence in release["privacy"]["not_protected"]:
            assert sentence.split("'")[0][:60] in page


def test_what_needs_an_extra_is_refused_before_anything_is_written(survey, hidden):
    """Each with its sentence and exit code 2; no ledger, no key, no folder."""
    for each in (extra for extra in EXTRAS if extra != "gcp"):
        assert is_installed(each), f"{each} would be refused anyway"
        assert any(extra == each for extra, *_ in REFUSED)
    (survey.folder / "exam.xlsx").write_bytes(b"PK")
    base, commands = survey.settings, []
    for number, (_, words, changes) in enumerate(REFUSED):
        survey.settings = json.loads(json.dumps(base))
        name = f"job{number}.yaml"
        (survey.folder / name).write_text(survey.set(**changes).config.read_text())
        commands.append([name if word == JOB else word for word in words])
    assert not survey.ledger.exists()
    for (extra, words, *_), (code, text, untouched, _) in zip(
        REFUSED, hidden(commands), strict=True
    ):
        assert f"pip install 'hushrank[{extra}]'" in text, (words, text)
        assert code == 2, (words, text)
        assert untouched, (words, text)
        assert "Traceback" not in text
    assert not survey.ledger.exists()


def test_dataflow_is_refused_where_its_client_is_missing(monkeypatch):
    class Places:
        """As much of a configuration as is read before the engine."""

        class privacy:  # noqa: N801
            private = True

        output = None
        supersedes = ()
        runner = DataflowRunner(**DATAFLOW)
        job_hashes = ("",)

    monkeypatch.setattr(job, "check_output", lambda *_, **__: None)
    monkeypatch.setattr(context, "audited_pairs", lambda _: None)
    monkeypatch.setattr(extras, "is_installed", lambda extra: extra != "gcp")
    with pytest.raises(ConfigError, match=r"runner: dataflow: needs .*hushrank\[gcp\]"):
        job.check_places(Places())
