"""What `hushrank restore` refuses, with nothing written, and what it takes up when it died."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hushrank.flows.assembly import check_ledger
from hushrank.flows.backup import backup as module
from hushrank.flows.errors import HushrankError
from hushrank.flows.run.context import ledger_of
from hushrank.flows.run.job import inputs_of, read_survey
from tests.fake_cloud_storage import Fault
from tests.flows.backup.conftest import CLOUD, elsewhere, everything
from tests.flows.conftest import Survey
from tests.flows.scenarios.test_stream import DAYS, stream_of


def backed_up(command, survey: Survey, place: Path) -> Path:
    """One release, and its backup."""
    assert command("run", survey.config, "--direct")[0] == 0
    assert command("backup", survey.config, place)[0] == 0
    (folder,) = place.iterdir()
    return folder


def refused(command, place: Path, survey: Survey) -> str:
    """What is said, once it was checked that nothing was written."""
    before = everything(survey.folder)
    code, printed = command("restore", place, survey.config)
    assert code == 2, printed
    assert everything(survey.folder) == before
    return printed


@pytest.mark.parametrize("damage", ["changed", "cut", "missing"])
def test_a_damaged_backup_is_refused(survey, command, tmp_path, damage):
    folder = backed_up(command, survey, tmp_path / "backups")
    there = elsewhere(survey)
    for name, content in everything(folder).items():
        path = folder / name
        path.unlink()
        if damage != "missing":
            path.write_bytes(content[:-1] if damage == "cut" else content[:-1] + b"?")
        said = refused(command, folder, there)
        assert "Nothing was put back." in said
        path.write_bytes(content)
    assert command("restore", folder, there.config)[0] == 0


def test_a_restore_that_dies_is_repeated_and_no_run_gets_ahead_of_it(
    survey, command, monkeypatch, tmp_path
):
    """The disk is full at each flush in turn. A half restore lets no run spend."""
    folder = backed_up(command, survey, tmp_path / "backups")
    whole, flush = survey.ledger.read_bytes(), os.fsync
    for fails_at in range(40):
        there, left = elsewhere(survey, str(fails_at)), iter(range(fails_at))
        config = read_survey(there.config).config

        def full(descriptor: int, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            flush(descriptor)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            try:
                module.restore(folder, config)
                break
            except (OSError, HushrankError):
                pass
        begun = (there.work / "ledgers.json").exists()
        if begun and (not there.ledger.exists() or there.ledger.read_bytes() != whole):
            with pytest.raises(HushrankError, match="would open a second budget"):
                check_ledger(config, ledger_of(config), inputs_of(config, make_key=False))
        assert command("restore", folder, there.config)[0] == 0
        assert there.ledger.read_bytes() == whole
        assert everything(there.output) == everything(survey.output)
    assert fails_at > 10
    code, printed = command("run", there.config, "--direct")
    assert (code, "nothing was spent now" in printed) == (0, True)


@pytest.mark.parametrize(
    "ending", ["ledgers.json", "drawn.npz", "release.json", "SHA256SUMS", "ledger.jsonl"]
)
def test_a_store_that_fails_is_asked_again(survey, command, store, tmp_path, ending):
    folder = backed_up(command, survey, tmp_path / "backups")
    there = elsewhere(survey, **CLOUD)
    store.faults.append(Fault("POST", ending, 403))
    code, printed = command("restore", folder, there.config)
    assert (code, "no permission" in printed) == ((2 if ending == "ledger.jsonl" else 1), True)
    assert "zoo/ledger.jsonl" not in store.names("budget")
    code, printed = command("restore", folder, there.config)
    assert code == 0, printed
    assert store.content("budget", "zoo/ledger.jsonl") == survey.ledger.read_bytes()
    code, printed = command("run", there.config, "--direct")
    assert (code, "nothing was spent now" in printed) == (0, True), printed


@pytest.mark.parametrize("place", ["s3://bucket/a", "gs://bucket", "gs://bucket/../a", ""])
def test_a_place_that_is_none_is_refused(survey, command, place):
    for words in (["backup", survey.config, place], ["restore", place, survey.config]):
        code, printed = command(*words)
        assert (code, printed.startswith("PLACE: must")) == (2, True)


def test_to_repeat_it_changes_nothing(survey, command, tmp_path):
    folder = backed_up(command, survey, tmp_path / "backups")
    there = elsewhere(survey)
    assert command("restore", folder, there.config)[0] == 0
    before = everything(there.folder)
    assert command("restore", folder, there.config)[0] == 0
    assert everything(there.folder) == before


def test_an_older_backup_never_replaces_a_newer_ledger(survey, command, tmp_path):
    survey.set(ledger__epsilon=10.0)
    folder = backed_up(command, survey, tmp_path / "backups")
    command("run", survey.config, "--direct", "--again")
    said = refused(command, folder, survey)
    assert "holds all lines of the backup's ledger and 3 more" in said
    assert "hushrank ledger recover" in said


def test_a_ledger_that_was_cut_off_is_not_taken_for_an_older_one(survey, command, tmp_path):
    survey.set(ledger__epsilon=10.0)
    folder = backed_up(command, survey, tmp_path / "backups")
    command("run", survey.config, "--direct", "--again")
    survey.ledger.write_bytes(b"".join(survey.ledger.read_bytes().splitlines(keepends=True)[:2]))
    assert "bytes at its end are missing" in refused(command, folder, survey)


def test_an_older_backup_is_noticed_by_what_is_newer_beside_it(survey, command, tmp_path):
    """The ledger is lost, and its folder; `ledger recover` enters what the rest knows."""
    survey.set(ledger__path="budget/ledger.jsonl", ledger__epsilon=10.0)
    folder = backed_up(command, survey, tmp_path / "backups")
    command("run", survey.config, "--direct", "--again")
    shutil.rmtree(survey.folder / "budget")
    assert "is older than" in refused(command, folder, survey)
    (survey.folder / "budget").mkdir(mode=0o700)
    for name in ("ledger.jsonl", "ledger.jsonl.key"):
        shutil.copy(folder / name, survey.folder / "budget" / name)
    code, printed = command("ledger", "recover", survey.config, "--yes")
    assert code == 0, printed
    assert "zoo has epsilon 6.00 left of 10.00" in printed
    assert command("validate", survey.config)[0] == 0


def test_an_older_backup_is_noticed_by_the_archive_alone(survey, command, tmp_path):
    survey.set(ledger__epsilon=10.0)
    folder = backed_up(command, survey, tmp_path / "backups")
    command("run", survey.config, "--direct", "--again")
    there = elsewhere(survey)
    shutil.copytree(survey.output, there.output)
    assert "keeps releases of zoo that it never paid" in refused(command, folder, there)


def test_an_older_backup_is_noticed_by_the_anchor(survey, command, tmp_path):
    """All is put back, and no run goes on before an operator has accepted that."""
    (tmp_path / "disk").mkdir()
    anchor = str(tmp_path / "disk" / "anchor")
    survey.set(ledger__path="budget/l.jsonl", ledger__anchor=anchor, ledger__epsilon=10.0)
    folder = backed_up(command, survey, tmp_path / "backups")
    command("run", survey.config, "--direct", "--again")
    there = elsewhere(survey, ledger__anchor=anchor)
    code, printed = command("restore", folder, there.config)
    assert code == 2
    assert "All was put back, but a run would be refused:" in printed
    assert "hushrank ledger recover" in printed
    lines = (there.folder / "budget" / "l.jsonl").read_bytes()
    assert command("run", there.config, "--direct")[0] == 2
    assert (there.folder / "budget" / "l.jsonl").read_bytes() == lines


def test_an_older_backup_never_replaces_the_noise_of_a_night(survey, command, tmp_path):
    here = stream_of(survey)
    assert command("run", here.config, "--direct", "--date", DAYS[0])[0] == 0
    assert command("backup", here.config, tmp_path / "old")[0] == 0
    assert command("run", here.config, "--direct", "--date", DAYS[1])[0] == 0
    assert command("backup", here.config, tmp_path / "new")[0] == 0
    there = elsewhere(here)
    assert command("restore", tmp_path / "old", there.config)[0] == 0
    (stream,) = there.work.glob("stream-*")
    (newer,) = here.work.glob("stream-*/released/00001.npz")
    shutil.copy(newer, stream / "released")
    assert "the noise of this night is not in the backup" in refused(
        command, tmp_path / "old", there
    )
    (stream / "released" / "00001.npz").unlink()
    code, printed = command("restore", tmp_path / "new", there.config)  # a copy that is kept up
    assert code == 0, printed
    assert command("run", there.config, "--direct", "--date", DAYS[2])[0] == 0


@pytest.mark.parametrize("what", ["drawn.npz", "key", "release.json"])
def test_what_is_otherwise_there_is_never_replaced(survey, command, tmp_path, what):
    folder = backed_up(command, survey, tmp_path / "backups")
    there = elsewhere(survey)
    if what == "key":
        path = Path(f"{there.ledger}.key")
    else:
        (source,) = (each for each in folder.rglob(what))
        inside = source.relative_to(folder)
        path = {"drawn.npz": there.work, "release.json": there.output / "releases"}[what]
        path = path.joinpath(*inside.parts[1:])
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent.parent == there.work:
        there.work.chmod(0o700)
    path.write_bytes(b"other")
    path.chmod(0o600)
    assert f"{path}" in refused(command, folder, there)


def test_another_ledger_is_never_replaced(survey, command, tmp_path):
    folder = backed_up(command, survey, tmp_path / "backups")
    there = elsewhere(survey)
    assert command("run", there.config, "--direct")[0] == 0
    assert "is another ledger than that of the backup" in refused(command, folder, there)


def test_a_ledger_that_begins_meanwhile_is_kept(survey, command, monkeypatch, tmp_path):
    folder = backed_up(command, survey, tmp_path / "backups")
    there, put = elsewhere(survey), module._put_archive

    def meanwhile(*given: Any) -> None:
        put(*given)
        config = read_survey(there.config).config
        ledger_of(config).reserve("abc", read_survey(there.config).calibrated.spend)

    monkeypatch.setattr(module, "_put_archive", meanwhile)
    code, printed = command("restore", folder, there.config)
    assert (code, "another process wrote to it just now" in printed) == (2, True)
    assert '"release_id":"abc"' in there.ledger.read_text()
    assert '"event":"draw"' not in there.ledger.read_text()


def test_another_job_or_population_is_refused(survey, command, tmp_path):
    folder = backed_up(command, survey, tmp_path / "backups")
    there = elsewhere(survey).set(privacy__epsilon=1.0)
    assert "is of another job than this YAML file" in refused(command, folder, there)
    there.set(privacy__epsilon=2.0, name="other")
    assert "is a backup of zoo, and the YAML file is of other" in refused(command, folder, there)


def test_a_confidential_folder_that_others_can_open_is_refused(survey, command, tmp_path):
    folder = backed_up(command, survey, tmp_path / "backups")
    there = elsewhere(survey)
    there.work.mkdir(mode=0o755)
    assert "is open to other users of this machine" in refused(command, folder, there)


def test_the_manifest_says_what_it_is_of_and_nothing_private(survey, command, tmp_path):
    folder = backed_up(command, survey, tmp_path / "backups")
    told = json.loads((folder / "manifest.json").read_text())
    assert told.keys() == {
        *("hushrank_backup", "made", "code_version", "population", "job", "ledger", "line"),
        *("hash", "anchor", "files"),
    }
    assert (folder / "survey.yaml").read_bytes() == survey.config.read_bytes()
