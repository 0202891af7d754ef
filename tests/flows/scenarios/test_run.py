"""`hushrank run` from the configuration to the published folder, and what a second run does."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.pipelines.reduce import reduce
from hushrank.transforms.storage.spill_file import SpillFolder
from tests.flows.conftest import ITEMS, answers

FILES = ["certificate.json", "ranking.csv", "release.json", "report.html"]


def release_of(survey) -> dict:
    return json.loads((survey.output / "release.json").read_text())


def states_of(survey) -> list[str]:
    lines = [json.loads(line) for line in survey.ledger.read_text().splitlines()]
    return [line["event"] for line in lines]


def test_a_run_publishes_a_release_and_spends_once(survey, command):
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    assert survey.published() == FILES
    release = release_of(survey)
    assert release["safe"] is True
    assert [line["item"] for line in release["ranking"]] == ITEMS
    assert release["unit"] == "percent"
    mean = sum(line["score"] for line in release["ranking"]) / len(ITEMS)
    assert mean == pytest.approx(50, abs=1e-9)
    assert "Spent epsilon 2.00; zoo has epsilon 3.00 left of 5.00" in printed
    assert states_of(survey) == ["open", "reserve", "draw", "commit"]

    before = {name: (survey.output / name).read_bytes() for name in FILES}
    code, printed = command("run", survey.config, "--direct")
    assert code == 0
    assert "This release was drawn before: nothing was spent now." in printed
    assert {name: (survey.output / name).read_bytes() for name in FILES} == before
    assert states_of(survey) == ["open", "reserve", "draw", "commit"]


def test_release_json_keeps_its_contract(survey, command):
    command("run", survey.set(top_k=2).config, "--direct")
    release = release_of(survey)
    assert {
        "release_id",
        "created",
        "method",
        "ranking",
        "top_k",
        "privacy",
        "code_version",
        "safe",
    } <= release.keys()
    assert release["top_k"] == ITEMS[:2]
    assert {"item", "rank", "score", "low", "high", "rank_low", "rank_high"} <= release["ranking"][
        0
    ].keys()
    privacy = release["privacy"]
    assert privacy["unit"] == "user"
    assert privacy["adjacency"] == "replace-one"
    assert privacy["epsilon"] == 2.0
    assert privacy["delta"] == 0
    assert privacy["mechanism"] == "discrete-laplace"
    assert privacy["sensitivity"] == 10  # 4 items, all 6 pairs: 6 + 4, not 2 * 6
    assert privacy["noise_scale"] == 5
    assert privacy["max_contributions"] == 6
    assert privacy["not_protected"]


def test_the_published_folder_can_be_deleted_and_comes_back_for_free(survey, command):
    command("run", survey.config, "--direct")
    before = release_of(survey)
    shutil.rmtree(survey.output)
    code, printed = command("run", survey.config, "--direct")
    assert code == 0
    assert "nothing was spent now" in printed
    assert release_of(survey) == before


def test_another_output_folder_gets_the_same_release_for_free(survey, command):
    command("run", survey.config, "--direct")
    before = release_of(survey)
    code, _ = command("run", survey.set(output="elsewhere").config, "--direct")
    assert code == 0
    assert json.loads((survey.folder / "elsewhere" / "release.json").read_text()) == before
    assert states_of(survey).count("reserve") == 1


def test_new_answers_are_a_new_release_of_the_same_job(survey, command):
    command("run", survey.config, "--direct")
    before = release_of(survey)
    pq.write_table(answers(300, seed=1), survey.folder / "answers.parquet")
    code, printed = command("run", survey.config, "--direct")
    assert code == 0
    assert "Spent epsilon 2.00; zoo has epsilon 1.00 left of 5.00" in printed
    now = release_of(survey)["release_id"]
    assert now != before["release_id"]
    kept = [json.loads((folder / "release.json").read_text()) for folder in survey.archived()]
    assert {release["release_id"] for release in kept} == {now, before["release_id"]}


def test_over_budget_is_refused_before_a_row_is_read(survey, command, monkeypatch):
    def must_not_read(*_: object) -> None:
        raise AssertionError("a row was read")

    monkeypatch.setattr("hushrank.pipelines.reduce.reduce.run", must_not_read)
    code, printed = command("run", survey.set(privacy__epsilon=5.5).config, "--direct")
    assert code == 3
    assert "Budget: this run needs epsilon 5.50; zoo has 5.00 left until " in printed
    assert "Nothing was read or spent." in printed
    assert survey.published() == []


def test_exact_counts_are_gone_after_the_release_and_never_published(survey, command):
    command("run", survey.set(privacy__epsilon=0.01).config, "--direct")
    left = sorted(path.name for path in survey.work.rglob("*") if path.is_file())
    assert left == ["diagnostics.json", "drawn.npz", "ledgers.json"]
    (work,) = survey.work.glob("*/")
    exact = np.bincount(
        np.where(
            answers(200)["outcome"].to_numpy() > 0,
            answers(200)["item_i"].to_numpy(),
            answers(200)["item_j"].to_numpy(),
        ),
        minlength=4,
    )
    # At scale 1000 a draw is zero with probability 1 in 2000: all four in 6e-14.
    assert (np.load(work / "drawn.npz")["counts"] != exact).any()
    assert {path.stat().st_mode & 0o777 for path in (survey.work, work)} == {0o700}


def test_rows_that_waited_in_files_are_gone_after_the_release(survey, command, monkeypatch):
    """Rows of heavy people, which workers of an engine leave there."""
    counted = reduce.run

    def and_waited(job):
        SpillFolder(job.confidential).write([np.ones(3, np.uint64)])
        counted(job)

    monkeypatch.setattr(reduce, "run", and_waited)
    assert command("run", survey.config, "--direct")[0] == 0
    left = sorted(path.name for path in survey.work.rglob("*") if path.is_file())
    assert left == ["diagnostics.json", "drawn.npz", "ledgers.json"]


def test_without_privacy_the_release_is_unsafe_and_exact(survey, command):
    survey.set(privacy__epsilon="inf")
    code, printed = command("run", survey.config, "--direct")
    assert code == 2
    assert "privacy.epsilon: inf adds no noise, so it protects nobody" in printed
    code, printed = command("run", survey.config, "--direct", "--no-privacy")
    assert code == 0
    release = release_of(survey)
    assert release["safe"] is False
    assert release["privacy"]["epsilon"] == "inf"
    assert sum(release["released"]["wins"].values()) == 200 * 6
    assert states_of(survey) == ["open", "unsafe"]


def test_an_injected_seed_marks_the_release_unsafe_and_repeats_its_noise(survey, command):
    wins = []
    for output in ("one", "two"):
        work = f"work-{output}"
        survey.set(output=output, confidential=work)
        code, printed = command("run", survey.config, "--direct", "--unsafe-seed", 7)
        assert code == 0
        assert "A seed was injected" in printed
        release = json.loads((survey.folder / output / "release.json").read_text())
        assert release["safe"] is False
        wins.append(release["released"]["wins"])
    assert wins[0] == wins[1]
    assert states_of(survey) == ["open", "unsafe", "unsafe"]


def test_gaussian_noise_is_accounted_as_zcdp(survey, command):
    survey.set(privacy__noise="gaussian", privacy__delta=1e-7)
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    privacy = release_of(survey)["privacy"]
    assert privacy["mechanism"] == "discrete-gaussian"
    assert 0 < privacy["rho"] < 2
    assert privacy["delta"] == 1e-7


def test_all_rows_of_nobody_release_only_noise_and_say_so(survey, command):
    table = answers(50).set_column(0, "user", pa.nulls(300, pa.int64()))
    pq.write_table(table, survey.folder / "answers.parquet")
    # The total of the noise has to stay within 5 standard deviations: 3e-7 of a normal one, which
    # that of four Laplace draws is not.
    gaussian = {"privacy__noise": "gaussian", "privacy__delta": 1e-7}
    code, printed = command("run", survey.set(**gaussian).config, "--direct")
    assert code == 0
    assert "Nothing useful can be learned from this release" in printed
    assert release_of(survey)["informative"] is False


def test_validate_says_what_a_run_would_do_and_spends_nothing(survey, command):
    code, printed = command("validate", survey.config)
    assert code == 0
    assert "Valid. A run would:" in printed
    assert "discrete Laplace noise of scale 5" in printed
    assert "zoo has epsilon 5.00 left of 5.00" in printed
    assert "Nothing was read or spent." in printed
    assert not survey.ledger.exists()
    assert not survey.work.exists()


def test_ledger_show_lists_what_was_spent(survey, command):
    command("run", survey.config, "--direct")
    code, printed = command("ledger", "show", survey.config)
    assert code == 0
    assert "committed" in printed
    assert "zoo has epsilon 3.00 left of 5.00" in printed


def hushrank(
    *arguments: object, cwd: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hushrank.flows.interfaces.cli.main", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **(environment or {"PREFECT_HOME": str(cwd / "prefect")})},
        capture_output=True,
        text=True,
        timeout=840,
    )


STEPS = ("reserve", "reduce", "draw", "estimate", "publish", "commit")
TOLD = ["run started", *(f"step ended {step}" for step in STEPS), "run ended"]


def told_in(log: Path) -> list[str]:
    """What a log holds, in its order."""
    lines = map(json.loads, log.read_text().splitlines())
    return [" ".join(filter(None, (line["event"], line.get("step")))) for line in lines]


@pytest.mark.slow
def test_the_real_command_releases_directly_where_no_server_is_configured(survey):
    survey.set(observability={"log": "log.jsonl"})
    done = hushrank("run", "survey.yaml", cwd=survey.folder)
    assert done.returncode == 0, done.stderr
    assert survey.published() == FILES
    assert told_in(survey.folder / "log.jsonl") == TOLD
    assert not (survey.folder / "prefect").exists()


def artifacts_of(prefect_home: Path) -> dict[str, str]:
    """What the server keeps for people, by key."""
    with sqlite3.connect(prefect_home / "prefect.db") as database:
        wanted = "select key, data from artifact where key like 'hushrank-aviary-%'"
        return dict(database.execute(wanted))


@pytest.mark.slow
def test_the_real_command_releases_through_a_configured_server(survey, prefect_server):
    survey.set(name="aviary", observability={"log": "log.jsonl"})
    there = {"cwd": survey.folder, "environment": prefect_server.environment}
    done = hushrank("run", "survey.yaml", **there)
    assert done.returncode == 0, done.stderr
    assert survey.published() == FILES
    assert told_in(survey.folder / "log.jsonl") == TOLD
    assert f"shows each run at {prefect_server.url.removesuffix('/api')}/runs" in done.stdout
    assert "Spent epsilon 2" in done.stdout
    kept = artifacts_of(prefect_server.home)
    assert sorted(kept) == [
        f"hushrank-aviary-{what}" for what in ("plot", "ranking", "report", "summary")
    ]
    assert "ants" in kept["hushrank-aviary-ranking"]
    assert "Budget left" in kept["hushrank-aviary-summary"]
    assert (survey.output / "report.html").as_uri() in kept["hushrank-aviary-report"]
    again = hushrank(
        "run", "survey.yaml", "--direct", cwd=survey.folder
    )  # another way, one release
    assert "nothing was spent now" in again.stdout
    refused = hushrank("run", survey.set(privacy__epsilon=4.0, output="b").config, **there)
    assert refused.returncode == 3
    assert "Traceback" not in refused.stdout + refused.stderr
    storage = prefect_server.home / "storage"  # where Prefect pickles what a flow raises
    assert not [path for path in storage.rglob("*") if path.is_file()]
