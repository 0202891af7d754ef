"""`hushrank run` with every place in Cloud Storage: input, confidential area, output and ledger."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np
import pytest
from google.cloud import storage

from hushrank.flows.errors import LedgerError
from hushrank.flows.run.confidential_folder import finish_drawn, store_unmarked
from hushrank.pipelines.engine.runner import MemoryPlan
from hushrank.transforms.storage.places import CloudPath
from tests.fake_cloud_storage import Fault, Store, fake_cloud_storage
from tests.flows.conftest import ITEMS, Survey, answers

FILES = ["SHA256SUMS", "certificate.json", "ranking.csv", "release.json", "report.html"]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with fake_cloud_storage("answers", "confidential", "released", "budget") as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        yield store


def in_the_cloud(survey: Survey, *buckets: str) -> Survey:
    """The survey with nothing but its configuration on this machine."""
    given, confidential, released, budget = buckets
    source = survey.folder / "answers.parquet"
    CloudPath.parse(f"gs://{given}/survey/answers.parquet").write(source.read_bytes())
    source.unlink()
    return survey.set(
        input__paths=[f"gs://{given}/survey"],
        confidential=f"gs://{confidential}/zoo",
        output=f"gs://{released}/zoo",
        ledger__path=f"gs://{budget}/zoo/ledger.jsonl",
    )


@pytest.fixture
def cloud(survey, store) -> Survey:
    return in_the_cloud(survey, "answers", "confidential", "released", "budget")


def events(store: Store) -> list[str]:
    lines = store.content("budget", "zoo/ledger.jsonl").splitlines()
    return [json.loads(line)["event"] for line in lines]


def released(store: Store) -> dict[str, bytes]:
    return {name: store.content("released", name) for name in store.names("released")}


def test_a_run_publishes_once_and_leaves_nothing_here(cloud, command, store):
    here = sorted(cloud.folder.iterdir())
    code, printed = command("run", cloud.config, "--direct")
    assert code == 0, printed
    assert "Spent epsilon 2.00; zoo has epsilon 3.00 left of 5.00" in printed
    assert events(store) == ["open", "reserve", "draw", "commit"]
    published = released(store)
    (folder,) = {name.rpartition("/")[0] for name in published}
    assert sorted(name.rpartition("/")[2] for name in published) == FILES
    assert f"Report: gs://released/{folder}/report.html" in printed
    release = json.loads(published[f"{folder}/release.json"])
    assert [line["item"] for line in release["ranking"]] == ITEMS
    assert folder == f"zoo/releases/{release['created'][:10]}-{release['release_id']}"
    assert sorted(cloud.folder.iterdir()) == here
    code, printed = command("ledger", "verify", cloud.config)
    assert "gs://budget/zoo/ledger.jsonl: every line is unchanged." in printed
    code, printed = command("history", cloud.config)
    assert code == 0, printed
    assert release["release_id"] in printed

    code, printed = command("run", cloud.config, "--direct")
    assert code == 0, printed
    assert "This release was drawn before: nothing was spent now." in printed
    assert released(store) == published
    assert events(store) == ["open", "reserve", "draw", "commit"]


def test_exact_counts_are_gone_and_were_never_released(cloud, command, store):
    command("run", cloud.set(privacy__epsilon=0.01).config, "--direct")
    left = [name.rpartition("/")[2] for name in store.names("confidential")]
    assert left == ["diagnostics.json", "drawn.npz", "ledgers.json"]
    (drawn,) = (name for name in store.names("confidential") if name.endswith("drawn.npz"))
    table = answers(200)
    winners = np.where(table["outcome"].to_numpy() > 0, table["item_i"], table["item_j"])
    noisy = np.load(io.BytesIO(store.content("confidential", drawn)))["counts"]
    # At scale 1000 a draw is zero with probability 1 in 2000: all four in 6e-14.
    assert (noisy != np.bincount(winners, minlength=4)).any()


def test_validate_reads_and_writes_nothing(cloud, command, store):
    before = {name: dict(objects) for name, objects in store.buckets.items()}
    code, printed = command("validate", cloud.config)
    assert code == 0, printed
    assert "publish    gs://released/zoo" in printed
    assert store.buckets == before


def test_new_answers_are_released_beside_the_old(cloud, command, store):
    command("run", cloud.config, "--direct")
    before = released(store)
    part = store.content("answers", "survey/answers.parquet")
    store.put("answers", "survey/answers.parquet", part, {})  # written again: nobody can know
    code, printed = command("run", cloud.config, "--direct")
    assert code == 0, printed
    assert "Spent epsilon 2.00; zoo has epsilon 1.00 left of 5.00" in printed
    after = released(store)
    assert after.keys() > before.keys()
    assert {name: after[name] for name in before} == before
    code, printed = command("run", cloud.config, "--direct")
    assert code == 0
    assert released(store) == after


@pytest.mark.parametrize("file", ["report.html", "release.json", "SHA256SUMS"])
def test_a_store_that_fails_while_publishing_costs_nothing_more(cloud, command, store, file):
    store.faults.append(Fault("POST", file, 403))
    code, printed = command("run", cloud.config, "--direct")
    assert code == 1
    assert "nothing was published: no permission" in printed
    half = released(store)
    code, printed = command("run", cloud.config, "--direct")
    assert code == 0, printed
    assert "nothing was spent now" in printed
    assert {name: released(store)[name] for name in half} == half  # never replaced
    assert sorted(name.rpartition("/")[2] for name in released(store)) == FILES
    assert events(store) == ["open", "reserve", "draw", "commit"]
    assert command("run", cloud.config, "--direct")[0] == 0  # and the digests are right


def test_a_published_release_that_was_changed_is_noticed(cloud, command, store):
    command("run", cloud.config, "--direct")
    (report,) = (name for name in store.names("released") if name.endswith("report.html"))
    store.put("released", report, b"<p>All is well", {})
    code, printed = command("run", cloud.config, "--direct")
    assert code != 0
    assert f"gs://released/{report}: was changed after it was published." in printed


@pytest.mark.parametrize("name", ["zoo/thesis.docx", "zoo/releases.txt"])
def test_an_output_that_holds_something_else_is_refused(cloud, command, store, name):
    store.put("released", name, b"years of work", {})
    code, printed = command("run", cloud.config, "--direct")
    assert code == 2
    assert f"gs://released/zoo: holds {name.removeprefix('zoo/')}, which is not part" in printed
    assert store.names("budget") == []


def test_an_output_of_another_job_is_refused(cloud, command, store):
    command("run", cloud.config, "--direct")
    code, printed = command("run", cloud.set(top_k=2).config, "--direct")
    assert code == 2
    assert "output gs://released/zoo: holds the release of another job" in printed
    assert events(store).count("reserve") == 1


def test_a_ledger_out_of_reach_stops_the_run_before_a_row_is_read(cloud, command, store):
    store.faults.append(Fault("GET", "ledger.jsonl", 403, times=9))
    code, printed = command("run", cloud.config, "--direct")
    assert code == 2
    assert "gs://budget/zoo/ledger.jsonl: the ledger cannot be read (no permission)" in printed
    assert "Traceback" not in printed
    assert store.names("confidential") == []


@pytest.mark.parametrize("bucket", ["answers", "confidential", "released", "budget"])
def test_a_bucket_that_is_not_there_costs_nothing(cloud, command, store, bucket):
    del store.buckets[bucket]
    code, printed = command("run", cloud.config, "--direct")
    assert code in (1, 2), printed
    assert f"gs://{bucket}/" in printed
    assert "no such" in printed or "cannot be listed" in printed
    assert "Traceback" not in printed
    assert bucket == "budget" or store.names("budget") == []


def test_noise_that_another_run_has_stored_is_not_replaced(store):
    work = CloudPath.parse("gs://confidential/zoo/a")
    finish_drawn(work, store_unmarked(work, b"noise"))
    with pytest.raises(LedgerError, match=r"drawn.npz: another run took this release over"):
        finish_drawn(work, store_unmarked(work, b"other noise"))
    assert store.content("confidential", "zoo/a/drawn.npz") == b"noise"


@pytest.mark.parametrize("created", [False, True], ids=["before", "after"])
def test_noise_that_was_marked_is_published_by_the_next_run(
    cloud, command, store, monkeypatch, created
):
    """The run stops once the ledger has counted it: before it creates `drawn.npz`, or after."""

    def stop(work: CloudPath, digest: str) -> None:
        if created:
            (unmarked,) = (each.path for each in work.objects() if ".drawn.npz." in str(each.path))
            (work / "drawn.npz").create(unmarked.read_bytes())
        raise OSError(errno.EIO, os.strerror(errno.EIO), "network")

    with monkeypatch.context() as patch:
        patch.setattr("hushrank.flows.run.run.finish_drawn", stop)
        assert command("run", cloud.config, "--direct")[0] == 1
    assert events(store) == ["open", "reserve", "draw"]
    (unmarked,) = (name for name in store.names("confidential") if ".drawn.npz." in name)
    noise = store.content("confidential", unmarked)
    code, printed = command("run", cloud.config, "--direct")
    assert code == 0, printed
    assert "nothing was spent now" in printed
    assert events(store) == ["open", "reserve", "draw", "commit"]
    folder = unmarked.rpartition("/")[0]
    assert store.content("confidential", f"{folder}/drawn.npz") == noise
    assert unmarked not in store.names("confidential")


@pytest.mark.slow
def test_the_command_itself_against_the_emulator(survey, emulator):
    in_the_cloud(survey, "survey", "survey/c", "survey/r", "survey/l")
    command = [
        sys.executable,
        "-m",
        "hushrank.flows.interfaces.cli.main",
        "run",
        str(survey.config),
        "--direct",
    ]
    runs = [
        subprocess.run(command, capture_output=True, text=True, timeout=840, env=os.environ)
        for _ in range(2)
    ]
    assert runs[0].returncode == 0, runs[0].stderr
    assert "Spent epsilon 2.00; zoo has epsilon 3.00 left of 5.00" in runs[0].stdout
    assert "Report: gs://survey/r/zoo/releases/" in runs[0].stdout
    assert runs[1].returncode == 0, runs[1].stderr
    assert "nothing was spent now" in runs[1].stdout
    names = [blob.name for blob in storage.Client(project=None).list_blobs("survey")]
    assert sum(name.startswith("r/zoo/releases/") for name in names) == len(FILES)
    assert not [name for name in names if name.endswith(("exact.npz", ".lease", ".space"))]


def little_memory(*_: int) -> MemoryPlan:
    return MemoryPlan(waiting_bytes=1 << 10, rows_at_once=150)


def test_rows_that_do_not_fit_into_memory_wait_on_a_disk_that_was_named(
    cloud, command, store, tmp_path, monkeypatch
):
    monkeypatch.setattr(MemoryPlan, "of", little_memory)
    # Beam logs the error too, and a handler of another test may have a stream that is closed.
    monkeypatch.setattr(logging, "raiseExceptions", False)
    code, printed = command("run", cloud.config, "--direct")
    said = " ".join(printed.split())
    assert code == 2
    assert "memory_limit: rows that wait for other rows of their person need more memory" in said
    assert "runner: {kind: local, spill: /a/folder}" in said
    assert "Traceback" not in printed
    assert "draw" not in events(store)
    scratch = tmp_path / "scratch" / "deep"
    made = []
    temporary_file = tempfile.TemporaryFile

    def watched(*arguments, **options):
        made.append(options["dir"])
        return temporary_file(*arguments, **options)

    monkeypatch.setattr("hushrank.pipelines.reduce.kind.tempfile.TemporaryFile", watched)
    spilling = cloud.set(runner={"kind": "local", "spill": str(scratch)})
    code, printed = command("run", spilling.config, "--direct")
    assert code == 0, printed
    assert events(store)[-2:] == ["draw", "commit"]
    assert made == [str(scratch)]
    assert list(scratch.iterdir()) == []
    assert scratch.stat().st_mode & 0o077 == 0


def test_a_disk_that_cannot_be_used_is_named(cloud, command, store, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    spilling = cloud.set(runner={"kind": "local", "spill": str(tmp_path / "file")})
    code, printed = command("run", spilling.config, "--direct")
    assert code == 2
    assert f"runner.spill: {tmp_path / 'file'}: rows cannot wait there" in " ".join(printed.split())
    assert "draw" not in events(store)
