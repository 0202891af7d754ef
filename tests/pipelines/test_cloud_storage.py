"""Input from `gs://`, against an emulator of Cloud Storage: the counts of the same local files."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import google.auth
import numpy as np
import pytest
from gcp_storage_emulator.server import create_server
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from hushrank.pipelines import reduce_comparisons
from hushrank.pipelines.reduction_job import ReduceComparisons
from hushrank.transforms.files import list_files
from hushrank.transforms.schema import InputError
from tests.pipelines.test_reduce_comparisons import a_job, a_log, counts_of, write

BUCKET = "survey"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[storage.Bucket]:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    server = create_server("localhost", port, in_memory=True, default_bucket=BUCKET)
    server.start()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://localhost:{port}")
    anybody = AnonymousCredentials()
    monkeypatch.setattr(google.auth, "default", lambda *_, **__: (anybody, "test"))
    yield storage.Client(project="test", credentials=anybody).bucket(BUCKET)
    server.stop()


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
    for path in (f"gs://{BUCKET}/answers/", f"gs://{BUCKET}/answers/*.parquet"):
        files = tuple(list_files([path]))
        assert len(files) == 3
        fields = {name: getattr(local, name) for name in local.__slots__}
        remote = fields | {"files": files, "confidential": str(tmp_path / "cloud")}
        reduce_comparisons.run(ReduceComparisons(**remote))
        found = np.load(tmp_path / "cloud" / "exact.npz")["counts"]
        np.testing.assert_array_equal(found, expected)

    with pytest.raises(InputError, match=r"^gs://survey/nowhere/: no such file"):
        list_files([f"gs://{BUCKET}/nowhere/"])
