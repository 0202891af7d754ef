"""The same job again spends nothing: after a new file date, a copy, a move, an upgrade."""

from __future__ import annotations

import csv
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import hushrank as hr
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.release.identity import Contents
from hushrank.flows.run import run
from tests.flows.conftest import ITEMS, InProcessReducer, Survey, answers
from tests.ledgers import terms_of


def draws(survey: Survey) -> int:
    return survey.ledger.read_text().count('"event":"draw"')


def newer_date(survey: Survey, monkeypatch: pytest.MonkeyPatch) -> Survey:
    (survey.folder / "answers.parquet").touch()
    return survey


def newer_version(survey: Survey, monkeypatch: pytest.MonkeyPatch) -> Survey:
    for name in ("code_version", "stated_version"):
        monkeypatch.setattr(f"hushrank.flows.run.context.{name}", lambda: "99.9.9")
    return survey


def copied(survey: Survey, monkeypatch: pytest.MonkeyPatch) -> Survey:
    other = survey.folder.with_name(f"{survey.folder.name}-copy")
    shutil.copytree(survey.folder, other, copy_function=shutil.copyfile)
    for path in (other / "ledger.jsonl.key", other / "ledger.jsonl"):
        path.chmod(0o600)
    for path in other.rglob("*"):
        if path.is_dir():
            path.chmod(0o700)
    return Survey(other, survey.settings)


def moved(survey: Survey, monkeypatch: pytest.MonkeyPatch) -> Survey:
    return Survey(survey.folder.rename(f"{survey.folder}-moved"), survey.settings)


def written_otherwise(survey: Survey, monkeypatch: pytest.MonkeyPatch) -> Survey:
    return survey.set(input__paths=[str(survey.folder / "answers.parquet")])


CHANGES = [newer_date, newer_version, copied, moved, written_otherwise]


@pytest.mark.parametrize("change", CHANGES)
def test_the_same_job_again_spends_nothing(survey, command, monkeypatch, change):
    survey.set(ledger__epsilon=3.0)  # a second draw would not even fit
    assert command("run", survey.config, "--direct")[0] == 0
    (first,) = survey.archived()
    again = change(survey, monkeypatch)
    code, printed = command("validate", again.config)
    assert code == 0, printed
    assert f"The ledger knows this job with this input as release {first.name[11:]}" in printed
    code, printed = command("run", again.config, "--direct")
    assert code == 0, printed
    assert "nothing was spent now" in printed
    assert draws(again) == 1


@pytest.mark.parametrize("change", CHANGES)
def test_what_died_before_it_was_published_is_found_again(survey, command, monkeypatch, change):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(run, "publish_release", stop)
        command("run", survey.config, "--direct")
    again = change(survey, monkeypatch)
    code, printed = command("run", again.config, "--direct")
    assert code == 0, printed
    assert "nothing was spent now" in printed
    assert draws(again) == 1


def test_words_that_an_earlier_version_hashed_are_the_same_job(survey, command, monkeypatch):
    survey.set(input__words={"left": 1, "right": -1, "tie": 0})
    hashed = SurveyConfig.job_hash
    with monkeypatch.context() as earlier:
        earlier.setattr(SurveyConfig, "job_hash", lambda job, **_: hashed(job, by_words=True))
        assert command("run", survey.config, "--direct")[0] == 0
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    assert draws(survey) == 1


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pq.write_table(answers(60, 1), "answers.parquet")
    return tmp_path


JOB = {
    **{"left": "item_i", "right": "item_j", "outcome": "outcome", "user": "user"},
    "words": {"left": 1, "right": -1, "tie": 0},
    **{
        "items": {"names": ITEMS, "first_code": 0},
        "epsilon": 2.0,
        "max_contributions": 6,
        "design": "balanced",
    },
    **{"name": "zoo", "ledger": "zoo.jsonl", "progress": False},
}


@pytest.mark.parametrize("how", ["a table", "a file", "a file by its whole path"])
def test_from_python_too(stored, monkeypatch, how):
    rows = {
        "a table": pq.read_table("answers.parquet"),
        "a file": "answers.parquet",
        "a file by its whole path": str(stored / "answers.parquet"),
    }[how]
    first = hr.rank(rows, **JOB)
    (stored / "answers.parquet").touch()
    newer_version(None, monkeypatch)
    (stored / "below").mkdir()
    monkeypatch.chdir(stored / "below")
    if how == "a file":
        rows = "../answers.parquet"
    second = hr.rank(rows, **{**JOB, "ledger": "../zoo.jsonl"})
    assert second.id == first.id


def test_a_copy_under_another_name_is_refused(survey, command):
    assert command("run", survey.config, "--direct")[0] == 0
    shutil.copyfile(survey.folder / "answers.parquet", survey.folder / "copy.parquet")
    survey.set(name="other", output="other", input__paths=["copy.parquet"])
    for name in (["validate"], ["run", "--direct"]):
        code, printed = command(*name, survey.config)
        assert code == 2
        assert "zoo has read the same input" in printed


def test_a_new_release_of_known_input_says_so_before_it_costs(survey, command):
    assert command("run", survey.config, "--direct")[0] == 0
    (first,) = survey.archived()
    survey.set(privacy__epsilon=1.0, output="second", ledger__epsilon=10.0)
    told = f"The ledger knows this input as release {first.name[11:]} of"
    for name in (["validate"], ["run", "--direct"]):
        code, printed = command(*name, survey.config)
        assert code == 0
        assert told in printed
        assert "; this release costs another epsilon 1.00." in printed


def test_a_fresh_draw_is_asked_for_and_says_what_it_costs(survey, command):
    survey.set(ledger__epsilon=10.0)
    code, printed = command("run", survey.config, "--direct", "--again")
    assert code == 0  # nothing was drawn before: a release as any other
    assert "costs another" not in printed  # the report may say "another item"
    first = json.loads((survey.output / "release.json").read_text())
    code, printed = command("run", survey.config, "--direct", "--again")
    assert code == 0
    assert "this draw costs another epsilon 2.00." in printed
    second = json.loads((survey.output / "release.json").read_text())
    assert first["release_id"] != second["release_id"]
    assert draws(survey) == 2
    code, printed = command("run", survey.config, "--direct")  # the newest is found again
    assert (code, "nothing was spent now" in printed) == (0, True)
    assert json.loads((survey.output / "release.json").read_text()) == second
    assert command("verify", survey.output, "--ledger", survey.ledger)[0] == 0


def test_a_fresh_draw_that_died_before_it_was_published_is_not_drawn_again(
    survey, command, monkeypatch
):
    survey.set(ledger__epsilon=10.0)
    command("run", survey.config, "--direct")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(run, "publish_release", stop)
        command("run", survey.config, "--direct", "--again")
    assert draws(survey) == 2
    code, printed = command("run", survey.config, "--direct", "--again")
    assert (code, "nothing was spent now" in printed) == (0, True)
    assert draws(survey) == 2


def test_a_fresh_draw_is_of_a_release_that_a_ledger_counts(survey, command):
    for flags in (["--unsafe-seed", 7], ["--no-privacy"]):
        code, printed = command("run", survey.config, "--direct", "--again", *flags)
        assert (code, "--again makes a release that the ledger counts" in printed) == (2, True)


def test_a_file_that_changes_between_its_digest_and_its_rows_costs_nothing(
    survey, command, monkeypatch
):
    """Its size and its modification time stay, so only the digest tells."""
    path, compare = survey.folder / "answers.parquet", Contents.require_unchanged

    def changed(contents: Contents) -> None:
        content, status = bytearray(path.read_bytes()), path.stat()
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        compare(contents)

    monkeypatch.setattr(Contents, "require_unchanged", changed)
    code, printed = command("run", survey.config, "--direct")
    assert (code, "changed during the run" in printed) == (2, True)
    assert draws(survey) == 0
    assert "epsilon 5.00" in command("ledger", "show", survey.config)[1]


def at_once(jobs: list[dict]) -> list[hr.Release | hr.HushrankError]:
    """What `hr.rank` returns or raises in a thread for each of the jobs."""

    def rank(job: dict) -> hr.Release | hr.HushrankError:
        try:
            return hr.rank(pq.read_table("answers.parquet"), **job)
        except hr.HushrankError as error:
            return error

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(rank, jobs))


def test_threads_that_ask_for_one_release_get_its_one_draw(stored):
    found = at_once([JOB] * 4)
    assert len({release.id for release in found}) == 1
    assert (stored / "zoo.jsonl").read_text().count('"event":"draw"') == 1


def test_threads_that_ask_for_different_releases_get_them(stored):
    jobs = [{**JOB, "epsilon": each, "total_epsilon": 20.0} for each in (1.0, 2.0)]
    found = at_once([{**job, "out": f"out-{place}"} for place, job in enumerate(jobs)])
    assert [getattr(each, "epsilon", each) for each in found] == [1.0, 2.0]


def test_whoever_does_not_wait_is_told_that_another_is_at_it(stored, monkeypatch):
    monkeypatch.setattr("hushrank.flows.interfaces.python.run.Reducer", InProcessReducer)
    release = hr.rank("answers.parquet", **JOB)
    ledger = Ledger(stored / "zoo.jsonl", terms_of())
    shutil.rmtree(stored / "out")
    with ledger.run_lock(release.id), pytest.raises(hr.RunInProgress, match="Another run of"):
        hr.rank("answers.parquet", wait=0, **JOB)
    assert hr.rank("answers.parquet", wait=0, **JOB).id == release.id


def test_a_job_that_supersedes_another_goes_on_with_its_history(survey, command):
    """The page, the list, its JSON and the export know both, and say what changed."""
    survey.set(ledger__epsilon=10.0)
    assert command("run", survey.config, "--direct")[0] == 0
    names = [*ITEMS, "emus"]
    survey.set(output="second", supersedes=["out"], privacy__epsilon=1.0, items__names=names)
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    change = (
        "The job changed after that release: epsilon 2 became 1; emus came. Ranks among the items"
        " of both may be read side by side, scores may not."
    )
    assert change in (survey.folder / "second" / "report.html").read_text()
    code, printed = command("history", survey.config)
    assert (code, change in " ".join(printed.split())) == (0, True), printed
    document = json.loads(command("history", survey.config, "--json")[1])
    (told,) = document["job_changes"]
    assert [each["release_id"] for each in document["releases"]][1] == told["before"]
    assert told["says"] == change
    table = survey.folder / "all.csv"
    assert command("export", survey.config, "--out", table)[0] == 0
    with table.open(newline="") as file:
        assert len({row["job"] for row in csv.DictReader(file)}) == 2


def test_a_job_supersedes_only_what_has_releases_and_is_not_its_own(survey, command):
    survey.set(supersedes=["nothing"])
    code, printed = command("validate", survey.config)
    assert (code, "supersedes: " in printed and "holds no release" in printed) == (2, True)
    survey.set(supersedes=["out"])
    code, printed = command("validate", survey.config)
    assert (code, "are one place" in printed) == (2, True)


def test_a_copy_in_a_folder_that_tells_a_column_is_refused_too(survey, command):
    assert command("run", survey.config, "--direct")[0] == 0
    (survey.folder / "copy" / "x=1").mkdir(parents=True)
    shutil.copyfile(survey.folder / "answers.parquet", survey.folder / "copy" / "x=1" / "a.parquet")
    survey.set(
        name="other", output="other", input__paths=["copy/*/*.parquet"], input__partitions=["x"]
    )
    code, printed = command("validate", survey.config)
    assert (code, "zoo has read the same input" in printed) == (2, True)


def test_rows_that_are_read_otherwise_are_another_release(survey, command):
    """The same bytes, first as JSON Lines, of which no row is right, and then as CSV."""
    pacsv.write_csv(answers(200), survey.folder / "answers.jsonl")
    survey.set(input__paths=["answers.*"], ledger__epsilon=10.0)
    (survey.folder / "answers.parquet").unlink()
    assert command("run", survey.config, "--direct")[0] == 0
    (survey.folder / "answers.jsonl").rename(survey.folder / "answers.csv")
    code, printed = command("run", survey.config, "--direct")
    assert (code, "Spent epsilon 2.00" in printed) == (0, True), printed


def test_a_link_to_the_folder_is_the_same_job(survey, command):
    survey.set(input__paths=[str(survey.folder / "answers.parquet")])
    assert command("run", survey.config, "--direct")[0] == 0
    link = survey.folder / "link"
    link.symlink_to(survey.folder)
    code, printed = command("run", link / survey.config.name, "--direct")
    assert (code, "nothing was spent now" in printed) == (0, True), printed


def test_a_relative_path_in_python_is_what_it_says(tmp_path, monkeypatch):
    """The folder is moved; the ledger is elsewhere."""
    monkeypatch.setattr("hushrank.flows.interfaces.python.run.Reducer", InProcessReducer)
    job = {**JOB, "ledger": str(tmp_path / "budget" / "zoo.jsonl")}
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    pq.write_table(answers(60, 1), "answers.parquet")
    first = hr.rank("answers.parquet", **job)
    (tmp_path / "project").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    assert hr.rank("answers.parquet", **job).id == first.id


def test_a_table_that_the_ledger_knows_is_told_before_it_costs(stored, monkeypatch, caplog):
    monkeypatch.setattr("hushrank.flows.interfaces.python.run.Reducer", InProcessReducer)
    table = pq.read_table("answers.parquet")
    first = hr.rank(table, **JOB)
    hr.rank(table, **{**JOB, "epsilon": 1.0, "total_epsilon": 9.0, "out": "second"})
    assert f"The ledger knows this input as release {first.id}" in caplog.text


def test_validate_says_what_a_run_will_do_with_a_draw_that_is_lost(survey, command):
    assert command("run", survey.config, "--direct")[0] == 0
    (drawn,) = survey.work.glob("*/drawn.npz")
    drawn.unlink()
    shutil.rmtree(survey.output)
    code, printed = command("validate", survey.config)
    assert (code, "and what was drawn is lost: a run stops there" in printed) == (0, True)
    code, printed = command("run", survey.config, "--direct")
    assert (code, "it is published again" in printed) == (1, False)
