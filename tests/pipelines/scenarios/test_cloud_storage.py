"""Input and confidential area on `gs://`: the counts of the same local files.

Against three stores: an emulator that knows much of the API, and two that enforce generations, ours
and fake-gcs-server.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from google.cloud import storage

from hushrank.pipelines.reduce import reduce
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage import places
from hushrank.transforms.storage import split as text_files
from hushrank.transforms.storage.files import list_files, open_bytes
from hushrank.transforms.storage.places import CloudPath
from hushrank.transforms.storage.read import plan_files
from tests.cloud_emulator import cloud_emulator
from tests.fake_cloud_storage import fake_cloud_storage
from tests.go_cloud_storage import go_store
from tests.pipelines.reduce.test_reduce_comparisons import (
    a_job,
    a_log,
    counts_of,
    tally_of,
    write,
)

BUCKET = "survey"


@pytest.fixture(params=["emulator", "ours", "fake-gcs-server"])
def bucket(request, monkeypatch: pytest.MonkeyPatch) -> Iterator[storage.Bucket]:
    with contextlib.ExitStack() as running:
        if request.param == "ours":
            url = running.enter_context(fake_cloud_storage(BUCKET)).url
        elif request.param == "fake-gcs-server":
            url = running.enter_context(go_store(request.getfixturevalue("go_server"), BUCKET)).url
        else:
            url = running.enter_context(cloud_emulator(BUCKET))
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        yield storage.Client(project=None).bucket(BUCKET)


def upload(bucket: storage.Bucket, folder: Path, prefix: str) -> None:
    for path in folder.iterdir():
        bucket.blob(f"{prefix}/{path.name}").upload_from_filename(str(path))


@pytest.mark.slow
def test_cloud_objects_give_the_counts_of_local_files(tmp_path, bucket):
    write(a_log(), tmp_path / "local", 3, 100, 0)
    upload(bucket, tmp_path / "local", "answers")
    bucket.blob("answers/_temporary/part.parquet").upload_from_string(b"half")
    bucket.blob("answers/notes.txt").upload_from_string(b"not answers")
    local = a_job(tmp_path / "local", tmp_path / "w")
    expected = counts_of(tmp_path / "local", tmp_path / "w")
    for path in (f"gs://{BUCKET}/answers", f"gs://{BUCKET}/answers/*.parquet"):
        files = tuple(list_files([path]))
        assert len(files) == 3
        work = f"gs://{BUCKET}/work"
        reduce.run(dataclasses.replace(local, files=files, confidential=work))
        exact = CloudPath.parse(f"gs://{BUCKET}/work/exact.npz").read_bytes()
        np.testing.assert_array_equal(np.load(io.BytesIO(exact))["counts"], expected)


def put_text(folder: Path) -> None:
    """The log as CSV and as JSON Lines, with a line in each that is no row."""
    rows = a_log().to_pylist()
    header = ",".join(rows[0])
    lines = [",".join(map(str, row.values())) for row in rows]
    folder.mkdir()
    (folder / "a.csv").write_text("\r\n".join([header, *lines[:600], "x", *lines[600:], ""]))
    lines = [json.dumps(row) for row in rows]
    (folder / "b.jsonl").write_text("\n".join([*lines[:200], "{", *lines[200:]]))


@pytest.mark.parametrize("bucket", ["ours", "fake-gcs-server"], indirect=True)
def test_text_objects_that_are_cut_give_the_counts_of_whole_local_files(
    tmp_path, bucket, monkeypatch
):
    put_text(tmp_path / "local")
    upload(bucket, tmp_path / "local", "answers")
    local = a_job(tmp_path / "local", tmp_path / "w")
    expected = counts_of(tmp_path / "local", tmp_path / "w")
    monkeypatch.setattr(text_files, "SPAN_BYTES", 4_000)
    monkeypatch.setattr(places, "CHUNK_BYTES", 3_000)  # so that a part is several requests
    cut = dataclasses.replace(
        local,
        files=tuple(list_files([f"gs://{BUCKET}/answers"])),
        confidential=str(tmp_path / "cut"),
    )
    spans = [split.span for split in plan_files(cut.files, cut.columns)]
    assert len(spans) > 10
    assert None not in spans
    reduce.run(cut)
    counts = np.load(tmp_path / "cut" / "exact.npz")["counts"]
    np.testing.assert_array_equal(counts, expected)
    assert tally_of(tmp_path / "cut") == tally_of(tmp_path / "w")
    assert tally_of(tmp_path / "w")["rows_rejected"] == 2


NAMES = ("a.csv", "log/b.csv", "log/c.parquet", "log/deep/d.csv", "log/_e.csv", "logs/f.csv")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("log", ["log/b.csv", "log/c.parquet", "log/deep/d.csv"]),
        ("log/", ["log/b.csv", "log/c.parquet", "log/deep/d.csv"]),
        ("", ["a.csv", "log/b.csv", "log/c.parquet", "log/deep/d.csv", "logs/f.csv"]),
        ("a.csv", ["a.csv"]),
        ("*.csv", ["a.csv"]),
        ("log/?.csv", ["log/b.csv"]),
        ("l*/*.csv", ["log/_e.csv", "log/b.csv", "logs/f.csv"]),
        ("log/**/*.csv", ["log/_e.csv", "log/b.csv", "log/deep/d.csv"]),
        ("log/[b-c].*", ["log/b.csv", "log/c.parquet"]),
        ("log/[!b_]*", ["log/c.parquet"]),
    ],
)
def test_paths_name_objects_as_they_would_files(bucket, path, found):
    for name in NAMES:
        bucket.blob(name).upload_from_string(b"x")
    bucket.blob("log/").upload_from_string(b"")  # an empty folder, as consoles make it
    files = list_files([f"gs://{BUCKET}/{path}"])
    assert [file.path for file in files] == [f"gs://{BUCKET}/{name}" for name in found]
    assert all(file.size == 1 for file in files)


@pytest.mark.parametrize("path", ["nowhere", "nowhere/", "lo", "*.parquet"])
def test_a_path_that_names_nothing_is_refused(bucket, path):
    bucket.blob("log/b.csv").upload_from_string(b"x")
    with pytest.raises(InputError, match="no such file"):
        list_files([f"gs://{BUCKET}/{path}"])
    with pytest.raises(InputError, match=r"^gs://elsewhere/a: "):
        list_files(["gs://elsewhere/a"])


def test_a_file_that_is_gone_is_refused(bucket):
    with pytest.raises(InputError, match=r"^gs://survey/gone.csv: no such file"):
        open_bytes("gs://survey/gone.csv").__enter__()


def test_a_file_that_was_written_again_during_the_run_is_refused(bucket, tmp_path):
    write(a_log(), tmp_path / "local", 1, 100, 0)
    upload(bucket, tmp_path / "local", "answers")
    files = tuple(list_files([f"gs://{BUCKET}/answers"]))
    upload(bucket, tmp_path / "local", "answers")  # the same bytes, but nobody can know
    local = a_job(tmp_path / "local", tmp_path / "w")
    with pytest.raises(InputError, match="changed during the run"):
        reduce.run(dataclasses.replace(local, files=files))
