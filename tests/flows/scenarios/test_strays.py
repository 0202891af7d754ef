"""Exact counts that a job on another engine writes when nobody needs them any more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hushrank.flows.run.confidential_folder import (
    DRAWN_FILE,
    delete_strays,
    forget_exact,
    make_confidential,
    releases_with_strays,
)
from hushrank.flows.run.context import Job, ledger_of
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.flows.run.run import reduce
from hushrank.pipelines.engine.runner import Engine, Runner
from hushrank.pipelines.reduce.kind import execute
from hushrank.pipelines.reduce.reduction_job import EXACT_FILE, TALLY_FILE, is_reduced
from hushrank.privacy.accounting import Spend
from hushrank.transforms.storage.places import CloudPath
from tests.flows.conftest import InProcessReducer

UUID = "0123456789abcdef" * 2
LATE = (EXACT_FILE, f".{EXACT_FILE}.{UUID}", f"..space.{UUID}")  # whole, or its writer was killed


def another(survey, epsilon: float = 1.0) -> Path:
    """The configuration of another release of the same population."""
    return survey.set(privacy__epsilon=epsilon, output=f"out-{epsilon}").config


def come_late(job: Job) -> list[Path]:
    for name in LATE:
        (job.work / name).write_bytes(b"counts without noise")
    return [job.work / name for name in LATE]


def test_what_comes_after_the_release_is_deleted_by_the_next_run_of_any(survey, command):
    job = prepare_job(read_survey(survey.config))
    assert command("run", survey.config, "--direct")[0] == 0
    drawn = (job.work / DRAWN_FILE).read_bytes()
    for epsilon in (2.0, 1.0):  # the same release, and another
        late = come_late(job)
        survey.set(privacy__epsilon=epsilon, output="out" if epsilon == 2.0 else "other")
        assert command("run", survey.config, "--direct")[0] == 0
        assert not any(path.exists() for path in late)
    assert (job.work / DRAWN_FILE).read_bytes() == drawn
    assert (job.work / TALLY_FILE).exists()


def test_what_comes_after_the_run_gave_up_is_deleted(survey, command, monkeypatch):
    job = prepare_job(read_survey(survey.config))

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hushrank.flows.run.run.npz_bytes", interrupt)
        assert command("run", survey.config, "--direct")[0] == 130
    late = come_late(job)
    assert command("run", another(survey), "--direct")[0] == 0
    assert not any(path.exists() for path in late)


def test_a_run_in_progress_sees_to_its_own(survey, command):
    job = prepare_job(read_survey(survey.config))
    assert command("run", survey.config, "--direct")[0] == 0
    late = come_late(job)
    with ledger_of(job.config).run_lock(job.release_id):
        assert command("run", another(survey), "--direct")[0] == 0
        assert all(path.exists() for path in late)


def prepared(survey) -> Job:
    """A job that another process counts, without a reservation, or whose run was killed."""
    job = prepare_job(read_survey(survey.config))
    reduce(job, InProcessReducer().run)
    return job


def test_counts_that_are_needed_still_are_kept_and_taken_up(survey, command, monkeypatch):
    job = prepared(survey)
    counts = (job.work / EXACT_FILE).read_bytes()
    assert command("run", another(survey), "--direct")[0] == 0
    assert (job.work / EXACT_FILE).read_bytes() == counts

    def on_flink(_, job):
        execute(replace(job, engine=Engine(Runner.FLINK)), must_not_run)

    monkeypatch.setattr(InProcessReducer, "run", on_flink)
    code, printed = command(
        "run", survey.set(privacy__epsilon=2.0, output="out").config, "--direct"
    )
    assert code == 0, printed
    assert not list(survey.work.rglob(EXACT_FILE))


def must_not_run(*_, **__):
    raise AssertionError("rows are read again")


def test_what_comes_after_giving_up_is_not_taken_up(survey):
    job = prepared(survey)
    forget_exact(job.work)
    come_late(job)
    make_confidential(job.config.confidential, job.release_id)
    assert not is_reduced(str(job.work))
    (job.work / EXACT_FILE).write_bytes(b"later still")  # without the tally that belongs to it
    assert not is_reduced(str(job.work))


def test_a_refused_run_keeps_what_another_process_prepared(survey, command):
    survey.set(ledger__epsilon=2.0)
    assert command("run", another(survey, 1.5), "--direct")[0] == 0
    survey.set(privacy__epsilon=1.0, output="out")
    job = prepared(survey)
    counts = (job.work / EXACT_FILE).read_bytes()
    code, printed = command("run", survey.config, "--direct")
    assert code == 3, printed
    assert (job.work / EXACT_FILE).read_bytes() == counts
    assert is_reduced(str(job.work))


def test_a_run_at_another_cost_leaves_the_reservation_of_the_first(survey, command):
    job = prepare_job(read_survey(survey.config))
    ledger = ledger_of(job.config)
    ledger.reserve(job.release_id, Spend(epsilon=0.5))
    code, printed = command("run", survey.config, "--direct")
    assert code == 2
    assert "Cancel that reservation first" in printed
    assert ledger.state(job.release_id) == "reserved"


def test_strays_in_cloud_storage(emulator):
    area, release = CloudPath.parse("gs://survey/work"), "0123456789abcdef"
    work = area / release
    make_confidential(area, release)
    for place in (work / EXACT_FILE, work / "rejects" / EXACT_FILE, area / "other" / EXACT_FILE):
        place.write(b"counts")
    assert releases_with_strays(area) == []
    delete_strays(work)
    assert (work / EXACT_FILE).exists()  # a run that counts needs it
    forget_exact(work)
    assert not (work / EXACT_FILE).exists()
    (work / EXACT_FILE).write(b"counts")
    assert releases_with_strays(area) == [release]
    delete_strays(work)
    assert sorted(str(each.path) for each in area.objects()) == [
        f"gs://survey/work/{release}/rejects/{EXACT_FILE}",
        f"gs://survey/work/other/{EXACT_FILE}",
    ]
