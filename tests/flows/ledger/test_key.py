"""Release ids and all that names confidential files are keyed by a secret beside the ledger."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from blake3 import blake3

from hushrank.flows import assembly
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.keys import (
    KEY_BYTES,
    InputNames,
    LedgerKey,
    Purpose,
    find_key,
    key_path,
    ledger_key,
)
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.local_file import create_private
from hushrank.flows.release.identity import described, ids_of_old
from hushrank.flows.run.context import Job
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.privacy.accounting import Spend
from hushrank.transforms.storage.places import CloudPath
from tests.fake_cloud_storage import fake_cloud_storage
from tests.flows.conftest import answers
from tests.ledgers import Clock, terms_of

NO_LINKS = ("EPERM", "ENOTSUP", "ENOSYS", "EINVAL", "EXDEV", "EMLINK", "EIO")
OLD_LEDGER = Path(__file__).with_name("ledger_before_keys.jsonl")


def guesses(job: Job) -> set[str]:
    """Digests that whoever knows all rows, and so all sizes and dates, can compute."""
    contents = [Path(file.path).read_bytes() for file in job.files]
    plain = [blake3(content).hexdigest() for content in contents]
    told = described(job.config.job_hash(), plain, [], night=None, seed=None)
    known = [told, *plain, *(content.hex() for content in contents)]
    known += [json.dumps([file.path, file.size, file.version]) for file in job.files]
    digests = {hashlib.sha256(text.encode()).hexdigest()[:16] for text in known}
    return digests | {each[:16] for each in plain} | set(ids_before(job)[1:])


def ids_before(job: Job) -> tuple[str, str]:
    """The ids of version 0.1.0, with a key and without one."""
    by_place = job.config.job_hash(by_place=True)
    key = ledger_key(job.config.ledger.path)
    return ids_of_old(key, by_place, job.files, job.tables, job.night)


def test_nothing_published_is_a_digest_that_can_be_guessed(survey, command):
    assert command("run", survey.config, "--direct")[0] == 0
    found = guesses(prepare_job(read_survey(survey.config)))
    published = [path for path in survey.output.rglob("*") if path.is_file()]
    assert len(published) > 3
    for path in published:
        assert not any(guess in path.read_text() + str(path) for guess in found), path


def test_ids_are_of_the_ledger_and_of_the_input(survey):
    job = prepare_job(read_survey(survey.config))
    assert job.release_id == prepare_job(read_survey(survey.config)).release_id
    other = prepare_job(read_survey(survey.set(ledger__path="others/ledger.jsonl").config))
    assert other.release_id != job.release_id
    survey.set(ledger__path="ledger.jsonl")
    (survey.folder / "answers.parquet").touch()
    assert prepare_job(read_survey(survey.config)).release_id == job.release_id
    pq.write_table(answers(50, 9), survey.folder / "answers.parquet")
    assert prepare_job(read_survey(survey.config)).release_id != job.release_id


def test_the_key_is_for_its_owner_alone_and_made_once(tmp_path):
    ledger = tmp_path / "folder" / "ledger.jsonl"
    assert find_key(ledger) is None
    assert not ledger.parent.exists()
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: ledger_key(ledger).value, range(32)))
    assert len(keys) == 1
    assert [path.name for path in ledger.parent.iterdir()] == ["ledger.jsonl.key"]
    assert stat.S_IMODE((ledger.parent / "ledger.jsonl.key").stat().st_mode) == 0o600
    assert len(ledger_key(ledger).value) == KEY_BYTES
    assert ledger_key(tmp_path / "second.jsonl") != ledger_key(ledger)


def test_purposes_and_keys_have_functions_of_their_own():
    one, two = LedgerKey(bytes(KEY_BYTES), ""), LedgerKey(b"\1" * KEY_BYTES, "")
    assert len({key.tag(purpose, "a") for key in (one, two) for purpose in Purpose}) == 2 * len(
        Purpose
    )
    assert "value" not in repr(one)


@pytest.mark.parametrize("content", [b"", b"ab" * 31, b"\xff" * 64, b"not hexadecimal"])
def test_a_damaged_key_is_refused(tmp_path, content):
    ledger = tmp_path / "ledger.jsonl"
    ledger_key(ledger)
    (tmp_path / "ledger.jsonl.key").write_bytes(content)
    with pytest.raises(LedgerError, match="is not a ledger key"):
        ledger_key(ledger)


def test_a_key_that_others_can_read_or_that_is_a_link_is_refused(tmp_path):
    ledger, path = tmp_path / "ledger.jsonl", tmp_path / "ledger.jsonl.key"
    ledger_key(ledger)
    path.chmod(0o640)
    with pytest.raises(LedgerError, match=f"Run: chmod 600 {path}"):
        ledger_key(ledger)
    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LedgerError, match="must be a file, not a link"):
        ledger_key(ledger)


def test_a_file_system_without_links_gets_a_key_too(tmp_path, monkeypatch):
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refused)
    ledger = tmp_path / "ledger.jsonl"
    assert ledger_key(ledger) == ledger_key(ledger)
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.jsonl.key"]


def test_a_key_in_cloud_storage_is_made_once(monkeypatch):
    ledger = CloudPath.parse("gs://budget/campus/ledger.jsonl")
    with fake_cloud_storage("budget") as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        assert find_key(ledger) is None
        with ThreadPoolExecutor(4) as pool:
            keys = set(pool.map(lambda _: ledger_key(ledger).value, range(8)))
        assert keys == {ledger_key(ledger).value}


def test_another_key_than_the_ledger_was_written_with_is_refused(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl", terms_of(), clock=Clock())
    ledger.reserve("a", Spend(epsilon=1.0), inputs=InputNames("one", ("aa",)))
    with pytest.raises(LedgerError, match="is not the key that this ledger was written with"):
        ledger.check(Spend(epsilon=1.0), InputNames("two", ("aa",)))
    ledger.check(Spend(epsilon=1.0), InputNames("one", ("aa",)))


def test_a_lost_key_is_refused_and_recovered(survey, command):
    command("run", survey.config, "--direct")
    (survey.folder / "ledger.jsonl.key").unlink()
    survey.set(privacy__epsilon=1.0, output="second")
    for name in (["validate"], ["run", "--direct"]):
        code, printed = command(*name, survey.config)
        assert code == 2
        assert "is not the key that this ledger was written with" in printed
    code, printed = command("ledger", "recover", survey.config)
    assert code == 0
    assert "Wrong: the key beside the ledger is not the one" in printed
    assert command("ledger", "recover", survey.config, "--yes")[0] == 0
    assert command("validate", survey.config)[0] == 0


# Releases from before there were keys


def test_an_old_ledger_is_read_as_it_was(tmp_path):
    path = tmp_path / "ledger.jsonl"
    shutil.copy(OLD_LEDGER, path)
    Path(f"{path}.length").write_text(f"{path.stat().st_size}\n")
    ledger = Ledger(path, terms_of(), clock=Clock(datetime(2026, 11, 21, tzinfo=UTC)))
    balance = ledger.balance()
    assert (balance.spent_epsilon, balance.unpublished) == (3.0, ("0011223344556677",))
    assert [row.state for row in ledger.history()] == ["terms", "committed", "drawn"]
    ledger.check(Spend(epsilon=1.0), InputNames("any key", ("aa",)))
    ledger.commit("0011223344556677")
    assert ledger.nights(["ab" * 32]) == {}
    assert path.read_bytes().startswith(OLD_LEDGER.read_bytes())


@pytest.fixture(params=["keyed", "without a key"])
def old_release(request, survey, command, monkeypatch) -> str:
    """A release of version 0.1.0, or of one whose ledgers had no secret."""
    keyed = request.param == "keyed"
    job = prepare_job(read_survey(survey.config))
    id_ = ids_before(job)[0 if keyed else 1]
    with monkeypatch.context() as patch:
        patch.setattr(Job, "release_id", id_)
        patch.setattr(SurveyConfig, "job_hashes", property(lambda config: (config.job_hash(),)))
        by_place = SurveyConfig.job_hash
        patch.setattr(SurveyConfig, "job_hash", lambda config: by_place(config, by_place=True))
        if not keyed:
            patch.setattr(Job, "inputs", InputNames("", ()))
            patch.setattr(assembly, "MEMORY", replace(assembly.MEMORY, keep=lambda *_: None))
        assert command("run", survey.config, "--direct")[0] == 0
    if not keyed:
        (survey.folder / "ledger.jsonl.key").unlink()
    return id_


def test_a_release_of_before_is_the_same_release_still(survey, command, old_release):
    code, printed = command("run", survey.config, "--direct")
    assert code == 0
    assert "nothing was spent now" in printed
    assert prepare_job(read_survey(survey.config)).release_id == old_release
    assert old_release in command("history", survey.output)[1]
    assert command("export", survey.output, "--out", survey.folder / "all.csv")[0] == 0
    assert old_release in (survey.folder / "all.csv").read_text()
    assert command("history", "--verify", survey.output)[0] == 0


def test_a_release_of_before_is_resumed(survey, command, old_release):
    shutil.rmtree(survey.output)
    lines = survey.ledger.read_text().splitlines(keepends=True)
    survey.ledger.write_text("".join(lines[:-1]))  # as if the run had died before it published
    Path(f"{survey.ledger}.length").write_text(f"{survey.ledger.stat().st_size}\n")
    assert command("resume", old_release, survey.config)[0] == 0
    assert survey.archived()[0].name.endswith(old_release)


def test_a_new_release_of_an_old_ledger_has_a_keyed_id(survey, command, old_release):
    survey.set(privacy__epsilon=1.0, output="second")
    assert command("run", survey.config, "--direct")[0] == 0
    job = prepare_job(read_survey(survey.config))
    assert job.release_id not in ids_before(job)


def fail_to_link(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def link(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)


@pytest.mark.parametrize("name", NO_LINKS)
def test_a_key_is_made_once_where_hard_links_do_not_exist(tmp_path, monkeypatch, name):
    fail_to_link(monkeypatch, getattr(errno, name))
    path = tmp_path / "ledger.jsonl"
    assert ledger_key(path) == ledger_key(path)
    kept = create_private(key_path(path), b"another")
    assert (kept, len(find_key(path).value)) == (False, KEY_BYTES)
    assert [each.name for each in tmp_path.iterdir()] == ["ledger.jsonl.key"]


@pytest.mark.parametrize("name", ["ENOSPC", "EDQUOT", "EACCES", "EROFS"])
def test_a_key_that_cannot_be_linked_for_another_reason_is_not_made(tmp_path, monkeypatch, name):
    fail_to_link(monkeypatch, getattr(errno, name))
    with pytest.raises(LedgerError, match=os.strerror(getattr(errno, name))):
        ledger_key(tmp_path / "ledger.jsonl")
    assert not list(tmp_path.iterdir())
