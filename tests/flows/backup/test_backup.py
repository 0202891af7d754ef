"""A survey is backed up and goes on elsewhere: the next night is drawn and nothing is paid."""

from __future__ import annotations

import json
import shutil
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hushrank.flows.assembly import MEMORY
from hushrank.flows.backup import backup
from hushrank.flows.errors import BackupError
from hushrank.flows.nights.nights import lock_of_nights, prepare_night
from hushrank.flows.run import run
from hushrank.flows.run.confidential_folder import Exact
from hushrank.flows.run.context import Job, ledger_of
from hushrank.flows.run.job import read_survey
from hushrank.transforms.storage.places import CloudPath
from tests.flows.backup.conftest import CLOUD, LOCAL, OTHER_CLOUD, elsewhere, everything
from tests.flows.conftest import InProcessReducer, Survey
from tests.flows.scenarios.test_stream import DAYS, stream_of

DONE = 2  # nights before the backup


def ledger_text(survey: Survey) -> str:
    place = read_survey(survey.config).config.ledger.path
    return place.read_bytes().decode()


def draws(survey: Survey) -> int:
    return ledger_text(survey).count('"event":"draw"')


def paid(survey: Survey) -> list[dict]:
    lines = map(json.loads, ledger_text(survey).splitlines())
    return [line["spend"] for line in lines if line["event"] == "reserve" and not line.get("of")]


def night(command, survey: Survey, number: int) -> None:
    code, printed = command("run", survey.config, "--direct", "--date", DAYS[number])
    assert code == 0, printed


def checks(command, survey: Survey) -> None:
    """All that says whether releases and ledger are right."""
    config = read_survey(survey.config).config
    here = isinstance(config.output, Path)
    for words in (
        *([["verify", config.output, "--ledger", config.ledger.path]] if here else []),
        ["ledger", "verify", survey.config],
        ["history", survey.config, "--verify"],
        ["validate", survey.config],
    ):
        code, printed = command(*words)
        assert code == 0, (words, printed)


MOVES = {
    "here to there": (LOCAL, LOCAL, False),
    "here to the cloud": (LOCAL, CLOUD, True),
    "bucket to bucket": (CLOUD, OTHER_CLOUD, True),
    "the cloud to here": (CLOUD, LOCAL, False),
}


@pytest.mark.parametrize(("before", "after", "cloudy"), MOVES.values(), ids=MOVES)
def test_a_stream_goes_on_and_pays_nothing(survey, command, store, tmp_path, before, after, cloudy):
    here = stream_of(survey).set(**before, privacy__rho=0.5)
    for number in range(DONE):
        night(command, here, number)
    place = "gs://backups/zoo" if cloudy else tmp_path / "backups"
    code, printed = command("backup", here.config, place)
    assert code == 0, printed
    assert f"releases: {DONE}, active streams: 1." in printed
    there = elsewhere(here, **after)
    code, printed = command("restore", place, there.config)
    assert code == 0, printed
    assert ledger_text(there) == ledger_text(here)
    checks(command, there)
    code, printed = command("run", there.config, "--direct", "--date", DAYS[1])
    assert (code, "nothing was spent now" in printed) == (0, True), printed
    night(command, there, DONE)
    assert paid(there) == paid(here)  # one reservation of the stream, made before the move
    assert draws(there) == draws(here) + 1
    checks(command, there)


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def restored(command, survey: Survey, folder: Path) -> Survey:
    """The survey elsewhere, from a backup that is made now."""
    assert command("backup", survey.config, folder / "backups")[0] == 0
    there = elsewhere(survey)
    code, printed = command("restore", folder / "backups", there.config)
    assert code == 0, printed
    return there


@pytest.mark.parametrize("where", ["run.publish_release", "run.finish_drawn"])
def test_a_release_that_died_after_its_draw_is_published_elsewhere(
    survey, command, monkeypatch, tmp_path, where
):
    """Before it was published, or before its noise had its final name."""
    with monkeypatch.context() as patched:
        patched.setattr(f"hushrank.flows.run.{where}", stop)
        command("run", survey.config, "--direct")
    assert bool(list(survey.work.rglob("drawn.npz"))) == (where == "run.publish_release")
    there = restored(command, survey, tmp_path)
    code, printed = command("run", there.config, "--direct")
    assert (code, "nothing was spent now" in printed) == (0, True), printed
    assert draws(there) == 1
    checks(command, there)


def die_at_night(survey: Survey, number: int) -> Job:
    """A night is reserved and counted, and then its machine loses its power."""
    checked = read_survey(survey.config)
    job = prepare_night(checked, DAYS[number], datetime.now(UTC))
    run.reserve(job, MEMORY)
    run.reduce(job, InProcessReducer().run)
    return job


def test_a_night_whose_noise_was_stored_before_its_mark_is_not_drawn_again(
    survey, command, monkeypatch, tmp_path
):
    """What is stored first is the night's noise; its release elsewhere shows that very noise."""
    here = stream_of(survey)
    night(command, here, 0)
    job = die_at_night(here, 1)
    with monkeypatch.context() as patched:
        patched.setattr("hushrank.flows.run.run.store_unmarked", stop)
        with pytest.raises(KeyboardInterrupt):
            run.draw(job, Exact(job.work))
    (noise,) = here.work.glob("stream-*/released/00001.npz")
    there = restored(command, here, tmp_path)
    night(command, there, 1)
    (again,) = there.work.glob("stream-*/released/00001.npz")
    assert again.read_bytes() == noise.read_bytes()
    assert draws(there) == 2


def test_exact_counts_of_a_run_that_died_are_not_copied(survey, command, tmp_path):
    here = stream_of(survey)
    night(command, here, 0)
    die_at_night(here, 1)
    assert list(here.work.glob("stream-*/cells/00001.npz"))
    there = restored(command, here, tmp_path)
    names = everything(tmp_path / "backups")
    assert [name for name in names if "/people/00000/" in name]
    kinds = ("exact.npz", "diagnostics.json", "bits.json", "rejects", "counting", "/00001")
    assert [name for name in names if any(kind in name for kind in kinds)] == []
    night(command, there, 1)
    assert paid(there) == paid(here)


def test_a_backup_is_for_its_owner_alone(survey, command, tmp_path):
    command("run", survey.config, "--direct")
    place = tmp_path / "new" / "backups"
    code, printed = command("backup", survey.config, place)
    assert code == 0
    assert "Protect it like the answers: it holds the keys" in printed
    for path in (place, *place.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_a_place_that_others_can_open_is_refused(survey, command, tmp_path):
    command("run", survey.config, "--direct")
    place = tmp_path / "open"
    place.mkdir(mode=0o755)
    code, printed = command("backup", survey.config, place)
    assert (code, f"Run: chmod 700 {place}" in printed) == (2, True)
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("inside", ["out", "out/backups", "work/backups", "."])
def test_a_place_beside_what_it_copies_is_refused(survey, command, inside):
    command("run", survey.config, "--direct")
    before = everything(survey.folder)
    code, printed = command("backup", survey.config, survey.folder / inside)
    assert (code, "lie in one another" in printed) == (2, True)
    assert everything(survey.folder) == before


def test_a_survey_without_a_release_has_nothing_to_back_up(survey, command, tmp_path):
    code, printed = command("backup", survey.config, tmp_path / "backups")
    assert (code, "holds no line yet" in printed) == (2, True)
    assert not (tmp_path / "backups").exists()


def test_a_backup_waits_for_a_run_or_is_refused(survey, command, tmp_path):
    command("run", survey.config, "--direct")
    ledger = ledger_of(read_survey(survey.config).config)
    with ledger.run_lock(lock_of_nights("zoo")):
        code, printed = command("backup", survey.config, tmp_path / "backups")
        assert (code, "A run is in progress (nights-of-zoo)" in printed) == (2, True)
        assert not (tmp_path / "backups").exists()
    ledger.reserve("abc", read_survey(survey.config).calibrated.spend)
    with ledger.run_lock("abc"):  # a run that is not of a schedule
        code, printed = command("backup", survey.config, tmp_path / "backups")
        assert (code, "A run is in progress (abc)" in printed) == (2, True)
    begun, end = threading.Event(), threading.Event()

    def hold() -> None:
        with ledger.run_lock("abc"):
            begun.set()
            end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    threading.Timer(0.3, end.set).start()
    code, printed = command("backup", survey.config, tmp_path / "backups", "--wait", 600)
    thread.join()
    assert code == 0, printed


def test_a_release_that_begins_meanwhile_is_not_half_in_the_copy(
    survey, command, monkeypatch, tmp_path
):
    """It is drawn and published between the reading of the ledger and the copying of files."""
    command("run", survey.set(ledger__epsilon=10.0).config, "--direct")
    lines, copy = ledger_text(survey), backup.contents_of

    def meanwhile(*given: Any) -> Iterator[tuple[str, bytes]]:
        command("run", survey.config, "--direct", "--again")
        return copy(*given)

    monkeypatch.setattr(backup, "contents_of", meanwhile)
    there = restored(command, survey, tmp_path)
    assert draws(survey) == 2
    assert ledger_text(there) == lines
    assert len(there.archived()) == 1
    checks(command, there)


def test_an_anchor_goes_along_and_a_signing_key_does_not(survey, command, tmp_path):
    for name in ("disk", "server-disk"):
        (tmp_path / name).mkdir()
    command("ledger", "key", "--out", tmp_path / "key.pem")
    anchor = str(tmp_path / "disk" / "anchor")
    survey.set(ledger__path="budget/ledger.jsonl", ledger__signing_key="key.pem")
    survey.set(ledger__anchor=anchor)
    command("run", survey.config, "--direct")
    code, printed = command("backup", survey.config, tmp_path / "backups")
    assert code == 0, printed
    there = elsewhere(survey, ledger__anchor=str(tmp_path / "server-disk" / "anchor"))
    assert not any(b"PRIVATE" in each for each in everything(tmp_path / "backups").values())
    code, printed = command("restore", tmp_path / "backups", there.config)
    assert (code, "ledger.signing_key: " in printed) == (2, True), printed
    assert not (there.folder / "budget").exists()
    shutil.copy(tmp_path / "key.pem", there.folder)
    code, printed = command("restore", tmp_path / "backups", there.config)
    assert code == 0, printed
    heads = (tmp_path / name / "anchor" for name in ("disk", "server-disk"))
    first, second = (head.read_text().splitlines()[-1] for head in heads)
    assert second == first
    checks(command, there)
    unsigned = elsewhere(survey, "unsigned", ledger__signing_key=None, ledger__anchor=None)
    code, printed = command("restore", tmp_path / "backups", unsigned.config)
    assert (code, "All was put back, but a run would be refused:" in printed) == (2, True)


def test_each_backup_has_a_folder_of_its_own(survey, command, tmp_path):
    command("run", survey.config, "--direct")
    config = read_survey(survey.config).config
    for minute in (1, 2):
        now = datetime(2026, 11, 20, 3, minute, tzinfo=UTC)
        backup.back_up(survey.config, config, tmp_path / "backups", now)
    names = sorted(path.name for path in (tmp_path / "backups").iterdir())
    assert names == ["zoo-2026-11-20T030100Z", "zoo-2026-11-20T030200Z"]
    code, printed = command("restore", tmp_path / "backups", elsewhere(survey).config)
    assert (code, f"from {tmp_path}/backups/{names[1]}" in printed) == (0, True)
    one = elsewhere(survey, "one")
    code, printed = command("restore", tmp_path / "backups" / names[0], one.config)
    assert (code, names[0] in printed) == (0, True)


def test_backups_of_one_second_do_not_replace_each_other(survey, command, tmp_path, store):
    command("run", survey.config, "--direct")
    config, now = read_survey(survey.config).config, datetime(2026, 11, 20, 3, tzinfo=UTC)
    for place in (tmp_path / "backups", CloudPath.parse("gs://backups/zoo")):
        backup.back_up(survey.config, config, place, now)
        with pytest.raises(BackupError, match="never replaced"):
            backup.back_up(survey.config, config, place, now)
