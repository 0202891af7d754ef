"""Nights: what a date selects, backfill, catching up, and what is never spent twice."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.flows.assembly import run_job
from hushrank.flows.errors import (
    BudgetRefused,
    ConfigError,
    DrawError,
    NightWithoutFiles,
    PublishError,
    RunInProgress,
)
from hushrank.flows.methods.counts import noisy_counts
from hushrank.flows.nights.nights import (
    due_nights,
    job_to_check,
    one_at_a_time,
    prepare_night,
    rank_due,
    rank_nights,
)
from hushrank.flows.release.archive import archived
from hushrank.flows.run.confidential_folder import make_confidential
from hushrank.flows.run.context import ledger_of, stated_version
from hushrank.flows.run.job import prepare_job, read_survey
from tests.flows.conftest import SharedReducer, answers

FIRST = date(2024, 11, 16)
DAYS = [FIRST + timedelta(days=days) for days in range(5)]
NOW = datetime(2024, 11, 21, 2, tzinfo=UTC)  # the last night is that of the 20th


def execute(job):
    return run_job(job, SharedReducer())


def events(survey) -> list[dict]:
    return [json.loads(line) for line in survey.ledger.read_text().splitlines()]


def nights_drawn(survey) -> list[str]:
    """Nights in the order in which noise was drawn for them."""
    reserved = {e["release_id"]: e["night"] for e in events(survey) if e["event"] == "reserve"}
    return [reserved[e["release_id"]] for e in events(survey) if e["event"] == "draw"]


@pytest.fixture
def nightly(survey):
    """A folder for each night, the third of them without files; epsilon 2 a night of 20."""
    for seed, day in enumerate(DAYS):
        if seed != 2:
            folder = survey.folder / "log" / f"date={day}"
            folder.mkdir(parents=True)
            pq.write_table(answers(50, seed), folder / "part-0.parquet")
    return survey.set(
        input__paths=["log/date={date}/*.parquet"],
        schedule={"empty": "skip"},
        ledger__epsilon=20,
        ledger__refresh=None,
    )


def test_the_date_selects_files_by_path_or_partition_and_rows_by_time(nightly, command):
    by_path = prepare_job(read_survey(nightly.config), night=DAYS[1])
    assert [Path(file.path).parent.name for file in by_path.files] == ["date=2024-11-17"]
    nightly.set(input__paths=["log"], schedule={"partition": "date"})
    by_partition = prepare_job(read_survey(nightly.config), night=DAYS[1])
    assert [file.path for file in by_partition.files] == [by_path.files[0].path]
    nightly.set(input__paths=["log/{date:%Y}/{date:%m%d}.csv"], schedule={})
    with pytest.raises(NightWithoutFiles, match=r"Night 2024-11-17: .*log/2024/1117.csv: no such"):
        prepare_job(read_survey(nightly.config), night=DAYS[1])
    nightly.set(input__paths=["answers.parquet"])
    with pytest.raises(ConfigError, match="nothing selects the rows of 2024-11-17"):
        prepare_job(read_survey(nightly.config), night=DAYS[1])
    nightly.set(schedule={"window": "outcome", "epoch": "s"})
    with pytest.raises(ConfigError, match=r"ranks one night at a time. Say which: --date"):
        prepare_job(read_survey(nightly.config))
    assert not nightly.ledger.exists()


def test_a_configuration_of_nights_is_checked_by_the_next_night_that_has_files(nightly):
    survey = read_survey(nightly.config)
    assert job_to_check(survey, NOW).night == DAYS[-1]
    assert job_to_check(survey, NOW - timedelta(days=2)).night == DAYS[1]  # DAYS[2] has no files
    late = job_to_check(survey, NOW + timedelta(days=3))
    assert (late.night, len(late.files)) == (DAYS[-1], 1)
    list(rank_nights(survey, DAYS[:1], NOW, execute))  # then the second is due, and those after it
    assert job_to_check(survey, NOW).night == DAYS[1]


def test_validate_takes_a_correct_file_of_nights_with_and_without_files(nightly, command):
    """As it is before the first night, when there is nothing to read."""
    code, printed = command("validate", nightly.config)
    assert code == 0, printed  # it is years later: no file of the last nights is there
    assert "Valid. A run of night" in printed
    assert "no file yet" in printed
    assert "nor of the 7 nights before it: columns and formats were not checked" in printed
    lately = datetime.now(UTC).date() - timedelta(days=3)
    folder = nightly.folder / "log" / f"date={lately}"
    folder.mkdir()
    pq.write_table(answers(50), folder / "part-0.parquet")
    code, printed = command("validate", nightly.config)
    assert code == 0, printed
    assert f"Valid. A run of night {lately} would:" in printed
    assert "1 file," in printed
    assert "not checked" not in printed
    for setting in ({"partition": "date"}, {"window": "at"}):
        nightly.set(input__paths=["log"], schedule=setting)
        code, printed = command("validate", nightly.config)
        assert code == (0 if "partition" in setting else 2), printed
    assert "column at (schedule.window) not found" in printed  # of the files of the night
    assert not nightly.ledger.exists()


def test_validate_refuses_what_no_night_could_do(nightly, command):
    nightly.set(privacy__epsilon=21.0)
    assert command("validate", nightly.config)[0] == 3
    nightly.set(privacy__epsilon=2.0, output="work")
    code, printed = command("validate", nightly.config)
    assert code == 2
    assert "output" in printed


def test_rows_of_the_night_alone_are_counted(nightly, command):
    """Everybody prefers dogs in the night, and ants at any other time."""
    rows = answers(400)
    dogs = pa.array([-1] * len(rows), pa.int8())
    ants = pa.array([1] * len(rows), pa.int8())
    logs = []
    for day, outcome in zip(DAYS, (ants, dogs, ants, ants, ants), strict=True):
        at = pa.array([f"{day}T00:30:00+01:00"] * len(rows))  # the day before, in UTC
        logs.append(rows.set_column(3, "outcome", outcome).append_column("at", at))
    pacsv.write_csv(pa.concat_tables(logs), nightly.folder / "log.csv")
    nightly.set(input__paths=["log.csv"], schedule={"window": "at", "timezone": "Europe/Berlin"})
    code, printed = command("run", nightly.config, "--direct", "--date", DAYS[1])
    assert code == 0, printed
    release = json.loads((nightly.output / "release.json").read_text())
    assert release["night"] == "2024-11-17"
    assert release["ranking"][0]["item"] == "dogs"
    (tally,) = nightly.work.rglob("diagnostics.json")
    assert json.loads(tally.read_text())["rows_sent"] == len(rows)
    (folder,) = archived(nightly.output)
    assert folder.name.startswith("2024-11-17-")


def test_backfill_ranks_each_night_once_and_stops_when_the_budget_is_out(nightly, command):
    nightly.set(ledger__epsilon=5)
    code, printed = command(
        "backfill", nightly.config, "--from", DAYS[0], "--to", DAYS[4], "--direct"
    )
    assert code == 3
    assert "2024-11-16  released; spent epsilon 2.00." in printed
    assert "2024-11-18  skipped. Night 2024-11-18:" in printed
    assert "this run needs epsilon 2.00; zoo has 1.00 left." in printed
    assert "2 nights were not ranked: 2024-11-19 to 2024-11-20." in printed
    assert nights_drawn(nightly) == ["2024-11-16", "2024-11-17"]
    before = nightly.ledger.read_bytes()
    code, printed = command(
        "backfill", nightly.config, "--from", DAYS[0], "--to", DAYS[1], "--direct"
    )
    assert code == 0
    assert "2024-11-17  released before; nothing was spent" in printed
    assert nightly.ledger.read_bytes() == before
    assert len(archived(nightly.output)) == 2


def test_an_older_night_is_kept_and_the_newest_is_shown(nightly):
    list(rank_nights(read_survey(nightly.config), [DAYS[4], DAYS[0]], NOW, execute))
    shown = json.loads((nightly.output / "release.json").read_text())
    assert shown["night"] == "2024-11-20"
    assert [path.name[:10] for path in archived(nightly.output)] == ["2024-11-16", "2024-11-20"]


def test_a_night_is_released_once_though_rows_come_late(nightly, command):
    run = ("run", nightly.config, "--direct", "--date", DAYS[0])
    command(*run)
    late = nightly.folder / "log" / f"date={DAYS[0]}" / "late.parquet"
    pq.write_table(answers(10, 9), late)
    code, printed = command(*run)
    assert code == 0
    assert "nothing was spent now" in printed
    assert nights_drawn(nightly) == ["2024-11-16"]
    code, printed = command(*run, "--again")
    assert code == 0
    assert "Spent epsilon 2.00" in printed
    assert nights_drawn(nightly) == ["2024-11-16"] * 2
    code, printed = command("run", nightly.config, "--direct", "--again")
    assert code == 2
    assert "Say which: --date" in printed


def test_a_night_without_files_is_skipped_or_fails_and_costs_nothing(nightly, command):
    empty = ("backfill", nightly.config, "--from", DAYS[2], "--to", DAYS[3], "--direct")
    nightly.set(schedule={"empty": "fail"})
    code, printed = command(*empty)
    assert code == 2
    assert "2024-11-18  failed." in printed
    assert "2024-11-19  released" in printed  # it keeps no other night from being ranked
    assert nights_drawn(nightly) == ["2024-11-19"]
    nightly.set(schedule={"empty": "skip"})
    code, printed = command(*empty)
    assert code == 0
    assert "2024-11-18  skipped." in printed
    assert nights_drawn(nightly) == ["2024-11-19"]


def test_after_downtime_missed_nights_are_ranked_in_the_configured_order(nightly):
    assert [
        r.night for r in rank_due(read_survey(nightly.config), NOW - 4 * timedelta(days=1), execute)
    ] == [DAYS[0]]
    for order, due in (("oldest-first", DAYS[1:]), ("newest-first", DAYS[:0:-1])):
        nightly.set(schedule={"empty": "skip", "catch_up": order})
        job = prepare_job(read_survey(nightly.config), night=DAYS[1])
        assert due_nights(job.config, DAYS[4]) == due
    results = list(rank_due(read_survey(nightly.config), NOW, execute))
    assert [(r.night, str(r.status)) for r in results] == [
        (DAYS[4], "released"),
        (DAYS[3], "released"),
        (DAYS[2], "skipped"),
        (DAYS[1], "released"),
    ]
    assert [r.night for r in rank_due(read_survey(nightly.config), NOW, execute)] == [DAYS[2]]
    nightly.set(schedule={"empty": "skip", "catch_up_days": 1})
    assert due_nights(job.config, DAYS[4] + timedelta(days=2)) == [
        DAYS[4] + timedelta(days=2),
        DAYS[4] + timedelta(days=1),
        DAYS[2],
    ]


def test_catching_up_stops_when_the_budget_is_out(nightly):
    list(rank_nights(read_survey(nightly.config), DAYS[:1], NOW, execute))
    nightly.set(ledger__epsilon=6)
    with pytest.raises(BudgetRefused, match="Night 2024-11-20 was not ranked"):
        list(rank_due(read_survey(nightly.config), NOW, execute))
    assert nights_drawn(nightly) == ["2024-11-16", "2024-11-17", "2024-11-19"]


def test_a_night_that_is_not_over_is_refused(nightly):
    with pytest.raises(ConfigError, match="the last one that can be ranked is 2024-11-20"):
        prepare_night(read_survey(nightly.config), date(2024, 11, 21), NOW)
    nightly.set(schedule={"timezone": "America/Los_Angeles"})
    with pytest.raises(ConfigError, match="the last one that can be ranked is 2024-11-19"):
        prepare_night(
            read_survey(nightly.config), date(2024, 11, 20), NOW
        )  # there it is the 20th, 18:00


def test_a_night_whose_noise_cannot_be_fitted_does_not_hold_up_the_others(nightly, monkeypatch):
    rank = noisy_counts.rank_by_win_counts
    broken = []

    def fail_once(*arguments, **named):
        if not broken:
            broken.append(True)
            raise ConvergenceError("the fit did not converge")
        return rank(*arguments, **named)

    monkeypatch.setattr(noisy_counts, "rank_by_win_counts", fail_once)
    with pytest.raises(ConfigError, match=r"Night 2024-11-16: estimate: .* hushrank resume"):
        list(rank_nights(read_survey(nightly.config), DAYS[:2], NOW, execute))
    drawn = ["2024-11-16", "2024-11-17"]
    assert nights_drawn(nightly) == drawn
    (first,) = rank_nights(
        read_survey(nightly.config), DAYS[:1], NOW, execute
    )  # it is published after all
    assert str(first.status) == "released"
    assert nights_drawn(nightly) == drawn


def test_a_mechanism_that_fails_is_not_paid_for_every_night(nightly, command, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(noisy_counts, "release_win_counts", failing_draw)
        for _ in range(3):  # scheduled runs
            with pytest.raises(ConfigError, match=r"Night 2024-11-16: draw: "):
                list(rank_nights(read_survey(nightly.config), DAYS[:1], NOW, execute))
    assert nights_drawn(nightly) == ["2024-11-16"]
    with pytest.raises(ConfigError, match=r"run --date 2024-11-16 --again tries again and pays"):
        list(rank_nights(read_survey(nightly.config), DAYS[:2], NOW, execute))
    assert nights_drawn(nightly) == ["2024-11-16", "2024-11-17"]  # it holds up no other
    run = ("run", nightly.config, "--direct", "--date", DAYS[0])
    assert command(*run)[0] == 1
    code, printed = command(*run, "--again")
    assert code == 0, printed
    assert nights_drawn(nightly) == ["2024-11-16", "2024-11-17", "2024-11-16"]
    (result,) = rank_nights(read_survey(nightly.config), DAYS[:1], NOW, execute)
    assert str(result.status) == "released before"


def failing_draw(*_, **__):
    raise DrawError("draw: the fit did not converge")


def test_two_nights_do_not_overlap(nightly):
    ledger = ledger_of(prepare_job(read_survey(nightly.config), night=DAYS[0]).config)
    with one_at_a_time(ledger, "zoo"), pytest.raises(RunInProgress, match="Another night of zoo"):
        list(rank_nights(read_survey(nightly.config), DAYS[:1], NOW, execute))
    assert not nightly.ledger.exists()
    (result,) = rank_nights(read_survey(nightly.config), DAYS[:1], NOW, execute)
    assert result.outcome is not None


def test_what_a_killed_run_reserved_for_files_that_changed_is_given_back(nightly):
    stale = prepare_job(read_survey(nightly.config), night=DAYS[0])
    ledger = ledger_of(stale.config)
    ledger.reserve(
        stale.release_id,
        execute_spend(stale),
        config_hash=stale.config.job_hash(),
        night=stale.night,
    )
    left = [make_exact(stale, name) for name in ("exact.npz", ".space")]
    pq.write_table(answers(40, 9), stale.files[0].path)
    list(rank_nights(read_survey(nightly.config), DAYS[:1], NOW, execute))
    assert ledger.state(stale.release_id) == "cancelled"
    assert ledger.balance().releases == 1
    assert not any(path.exists() for path in left)


@pytest.fixture
def killed_again(nightly, command):
    """A job that was to rank a published night again, for late rows, and was killed."""
    list(rank_nights(read_survey(nightly.config), DAYS[:1], NOW, execute))
    late = nightly.folder / "log" / f"date={DAYS[0]}" / "late.parquet"
    pq.write_table(answers(10, 9), late)
    job = prepare_night(read_survey(nightly.config), DAYS[0], NOW, again=True)
    ledger_of(job.config).reserve(
        job.release_id,
        execute_spend(job),
        config_hash=job.config.job_hash(),
        night=job.night,
    )
    make_exact(job, "exact.npz")
    return job


def test_no_schedule_finishes_a_killed_run_that_was_to_rank_a_night_again(nightly, killed_again):
    assert DAYS[0] not in due_nights(killed_again.config, DAYS[4])
    list(rank_due(read_survey(nightly.config), NOW, execute))
    list(rank_nights(read_survey(nightly.config), DAYS[:1], NOW, execute))
    assert nights_drawn(nightly).count("2024-11-16") == 1
    ledger = ledger_of(killed_again.config)
    assert ledger.state(killed_again.release_id) == "reserved"
    assert killed_again.release_id in ledger.balance().undrawn


def test_what_was_paid_for_is_published_though_a_run_to_rank_the_night_again_was_killed(
    nightly, monkeypatch
):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    drawn = prepare_job(read_survey(nightly.config), night=DAYS[0])
    drawn.release_id  # noqa: B018 - named while its files are as they were
    with monkeypatch.context() as patch:
        patch.setattr("hushrank.flows.release.archive.write_file", fail)
        with pytest.raises(PublishError):
            list(rank_nights(read_survey(nightly.config), DAYS[:1], NOW, execute))
    pq.write_table(answers(40, 9), drawn.files[0].path)
    killed = prepare_night(read_survey(nightly.config), DAYS[0], NOW, again=True)
    ledger = ledger_of(killed.config)
    ledger.reserve(
        killed.release_id,
        execute_spend(killed),
        config_hash=killed.config.job_hash(),
        night=killed.night,
    )
    (result,) = rank_nights(read_survey(nightly.config), DAYS[:1], NOW, execute)
    assert result.outcome.spent is None
    assert ledger.state(drawn.release_id) == "committed"
    assert ledger.state(killed.release_id) == "cancelled"
    assert nights_drawn(nightly) == ["2024-11-16"]


def test_a_killed_run_of_a_night_again_is_finished_or_given_back_on_demand(
    nightly, command, killed_again
):
    run = ("run", nightly.config, "--direct", "--date", DAYS[0])
    ledger = ledger_of(killed_again.config)
    code, printed = command(*run)  # not again: the night is published
    assert code == 0
    assert "nothing was spent now" in printed
    assert ledger.state(killed_again.release_id) == "cancelled"
    assert not (killed_again.work / "exact.npz").exists()
    assert ledger.balance().releases == 1
    code, printed = command(*run, "--again")
    assert code == 0
    assert ledger.state(killed_again.release_id) == "committed"
    assert ledger.balance().releases == 2


def test_a_killed_run_of_a_night_again_is_given_back_when_its_files_change(
    nightly, command, killed_again
):
    killed_again.release_id  # noqa: B018 - named while its files are as they were
    pq.write_table(answers(40, 9), killed_again.files[0].path)
    ledger = ledger_of(killed_again.config)
    assert command("run", nightly.config, "--direct", "--date", DAYS[0], "--again")[0] == 0
    assert ledger.state(killed_again.release_id) == "cancelled"
    assert ledger.balance().releases == 2


def test_cancelling_what_a_killed_run_reserved_deletes_what_it_counted(nightly, command):
    stale = prepare_job(read_survey(nightly.config), night=DAYS[0])
    ledger = ledger_of(stale.config)
    ledger.reserve(stale.release_id, execute_spend(stale))
    left = make_exact(stale, "exact.npz")
    code, printed = command("ledger", "cancel", nightly.config, stale.release_id)
    assert code == 0, printed
    assert not left.exists()
    ledger.reserve(stale.release_id, execute_spend(stale))
    ledger.mark_drawn(stale.release_id)
    left = make_exact(stale, "exact.npz")
    assert command("ledger", "cancel", nightly.config, stale.release_id)[0] != 0
    assert left.exists()


def make_exact(job, name: str) -> Path:
    """A file of counts without noise, as a run that died has left it."""
    make_confidential(job.config.confidential, job.release_id)
    path = job.work / name
    path.write_bytes(b"counts without noise")
    return path


def execute_spend(job):
    return job.terms.spend


def test_resume_publishes_what_is_paid_for(nightly, command, monkeypatch):
    release_id = prepare_job(read_survey(nightly.config), night=DAYS[0]).release_id

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("hushrank.flows.release.archive.write_file", fail)
        code, _ = command("run", nightly.config, "--direct", "--date", DAYS[0])
    assert code == 1
    for path in (nightly.folder / "log").rglob("*.parquet"):
        path.unlink()  # nothing is read again
    code, printed = command("ledger", "show", nightly.config)
    assert f"hushrank resume {release_id}" in printed
    drawn_by = stated_version()
    for name in (
        "context.code_version",
        "run.stated_version",
    ):
        monkeypatch.setattr(f"hushrank.flows.run.{name}", lambda: "99.9.9")
    code, printed = command("resume", release_id, nightly.config)
    assert code == 0, printed
    assert "nothing was spent now" in printed
    assert "hushrank resume" not in printed
    released = json.loads((nightly.output / "release.json").read_text())
    assert released["night"] == "2024-11-16"
    assert released["code_version"] == drawn_by
    assert [e["event"] for e in events(nightly)] == ["open", "reserve", "draw", "commit"]
    assert "hushrank resume" not in command("ledger", "show", nightly.config)[1]


def test_resume_refuses_what_it_cannot_publish(nightly, command):
    code, printed = command("resume", "0123456789abcdef", nightly.config)
    assert code == 2
    assert "is not in the ledger" in printed
    command("run", nightly.config, "--direct", "--date", DAYS[0])
    job = prepare_job(read_survey(nightly.config), night=DAYS[0])
    nightly.set(top_k=1)
    code, printed = command("resume", job.release_id, nightly.config)
    assert code == 2
    assert "is another configuration than the one that release" in printed
    nightly.set(top_k=None)
    (noisy,) = nightly.work.rglob("drawn.npz")
    noisy.unlink()
    code, printed = command("resume", job.release_id, nightly.config)
    assert code == 2
    assert "holds no drawn.npz" in printed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": {"timezone": "Mars"}}, "schedule.timezone: must be the name of a time zone"),
        ({"schedule": {"epoch": "s"}}, "schedule.epoch: is about the column schedule.window"),
        ({"schedule": {"empty": "skp"}}, "schedule.empty: must be skip or fail, got 'skp'. Did"),
        ({"input__paths": ["a/{date:%m%d}"]}, "input.paths: .*two nights would read the same"),
        ({"input__paths": ["a/{date:%Y%-m%-d}"]}, "input.paths: .*two nights would read the same"),
        ({"input__paths": ["a/{dat}/{date:}"]}, "input.paths: .*write {date}, or for example"),
        ({"input__paths": ["{date:%Y/%m}/{date:%-d}*"]}, "input.paths: .*files of others too; gi"),
        ({"input__paths": ["{date:%Y/%m}/*{date:%-d}.csv"]}, "input.paths: .*files of others too"),
        ({"input__paths": ["{date:%Y-%-j}**/x.csv"]}, "input.paths: .*files of others too; give"),
        ({"schedule": {"lag_days": 0}}, "schedule.lag_days: must be at least 1: a night is releas"),
    ],
)
def test_a_mistake_in_the_schedule_is_named_with_its_fix(nightly, command, changes, message):
    nightly.set(**changes)
    with pytest.raises(ConfigError, match=message):
        prepare_job(read_survey(nightly.config), night=DAYS[0])


@pytest.mark.parametrize(
    "path",
    ["{date}*", "*{date:%d}*/{date:%Y%m}", "{date:%Y/%-m/%-d}/*", "{date:%Y-%-m-%-d}-part*.csv"],
)
def test_patterns_of_which_no_two_nights_match_the_same_files_are_taken(nightly, path):
    nightly.set(input__paths=[path])
    with pytest.raises(NightWithoutFiles):
        prepare_job(read_survey(nightly.config), night=DAYS[0])


def test_dates_on_the_command_line_are_checked(nightly, command):
    code, printed = command("run", nightly.config, "--direct", "--date", "20.11.2026")
    assert code == 2
    assert "--date: must be a date such as 2026-11-20, got '20.11.2026'" in printed
    code, printed = command("backfill", nightly.config, "--from", DAYS[1], "--to", DAYS[0])
    assert code == 2
    assert "--to 2024-11-16 is before --from 2024-11-17" in printed
