"""`hushrank simulate` as a person types it."""

from __future__ import annotations

import pyarrow.csv as pacsv
import pytest
import typer
from typer.testing import CliRunner

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.cli.simulate_command import simulate
from hushrank.flows.methods.registry import load_config

APP = typer.Typer()
APP.command()(simulate)


def run(*arguments):
    """Result of the command; what it raises is raised here."""
    return CliRunner().invoke(APP, [str(one) for one in arguments], catch_exceptions=False)


def test_the_defaults_make_a_survey_that_can_be_run(tmp_path):
    folder = tmp_path / "trial"
    result = run(folder, "--people", 40)
    assert result.exit_code == 0
    assert result.stdout == (
        f"Wrote the answers of 40 simulated people to {folder}/survey\n"
        f"and the true scores to {folder}/truth.csv.\n"
        f"Next: hushrank run {folder}/survey.yaml\n"
    )
    assert len(load_config(folder / "survey.yaml").items.catalogue) == 50


def test_every_option_reaches_the_log(tmp_path):
    result = run(
        *(tmp_path / "trial", "--items", 3, "--people", 200, "--comparisons", 20, "--varying"),
        *("--heavy-share", 0.5, "--heavy-factor", 3, "--repeated-pairs", "--link", "probit"),
        *("--spread", 2, "--ties", 0.4, "--named", "--events", "--epsilon", 0.5, "--epsilon", 2),
        *("--files", 1, "--format", "csv", "--seed", 9),
    )
    assert result.exit_code == 0
    log = pacsv.read_csv(tmp_path / "trial" / "survey" / "part-00000.csv").to_pydict()
    assert list(log) == ["user", "item_i", "item_j", "outcome", "event", "epsilon"]
    assert set(log["item_i"]) == {"item-0", "item-1", "item-2"}
    assert set(log["epsilon"]) == {0.5, 2.0}
    assert 0.3 < log["outcome"].count(0) / len(log["user"]) < 0.5
    assert 30 < len(log["user"]) / 200 < 50  # mean 40, and more than three distinct pairs


def test_a_simulated_test_can_be_run(tmp_path):
    folder = tmp_path / "trial"
    result = run(
        *(folder, "--kind", "responses", "--items", 4, "--people", 100, "--answers", 3),
        *("--ability-spread", 0.5, "--named", "--format", "csv", "--files", 2),
    )
    assert "and the true difficulties to" in result.stdout
    config = load_config(folder / "survey.yaml")
    assert (config.method, config.privacy.max_contributions) == ("spectral", 3)
    logs = [pacsv.read_csv(path) for path in sorted((folder / "survey").iterdir())]
    assert [log.column_names for log in logs] == [["user", "item", "correct"]] * 2
    assert sum(map(len, logs)) == 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--people", 0], "people must be between 1 and 1099511627776, got 0."),
        (["--link", "cauchy"], "link must be one of logistic, probit, laplace; got 'cauchy'."),
        (["--format", "xml"], "format must be parquet, csv or jsonl, got 'xml'"),
        (["--kind", "rankings"], "kind must be comparisons or responses, got 'rankings'"),
        (["--answers", 3], "--answers does not apply to --kind comparisons; leave it out"),
        (
            ["--kind", "responses", "--ties", 0.1],
            "--ties does not apply to --kind responses; leave it",
        ),
        (
            ["--kind", "responses", "--items", 5, "--answers", 6],
            "answers must be between 1 and 5, got 6. Nothing was written.",
        ),
        (["--files", 900], "files must be between 1 and 500 "),
    ],
)
def test_a_mistake_is_explained(options, message, tmp_path):
    with pytest.raises(ConfigError) as caught:
        run(tmp_path / "trial", *options)
    assert str(caught.value).startswith(message)
    assert not (tmp_path / "trial").exists()


def test_a_folder_in_use_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(ConfigError, match=r"not an empty folder; name a new one\. Nothing was"):
        run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_an_object_store_is_refused(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="only to a local folder, not to an object store"):
        run("gs://bucket/trial")
    assert not list(tmp_path.iterdir())
