"""`hushrank run` on the tables and object stores where logs live, and what stops it there.

Iceberg has a catalog in SQLite, Delta its local folder, S3 a server of moto's, Azure a server of
azurite's where that is installed, and BigQuery a stand-in that speaks its two APIs.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.utils.config import Config

from hushrank.transforms.common import extras
from hushrank.transforms.tables import names
from tests.fake_bigquery import BigQuery, fake_bigquery
from tests.flows.conftest import Survey
from tests.ports import closed_port, free_port

Command = Callable[..., tuple[int, str]]
NIGHT = date(2026, 11, 20)


def rows_of(survey: Survey) -> pa.Table:
    """The answers of the survey, in types that every kind of table has."""
    rows = pq.read_table(survey.folder / "answers.parquet")
    return rows.cast(pa.schema([(name, pa.int64()) for name in rows.schema.names]))


def with_times(rows: pa.Table) -> pa.Table:
    """A third of the rows on the night before, a third on the night, a third after."""
    start = datetime(2026, 11, 19, 12, tzinfo=UTC)
    days = [start + timedelta(days=3 * place // len(rows)) for place in range(len(rows))]
    return rows.append_column("at", pa.array(days, pa.timestamp("us", "UTC")))


def ranks(survey: Survey, command: Command, left: str) -> None:
    """A run succeeds, and leaves `left` of the budget."""
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    assert f"zoo has epsilon {left} left of 5.00" in printed, printed


def refused(survey: Survey, command: Command, *arguments: object) -> str:
    """A run stops with one sentence and no traceback, and nothing is spent."""
    code, printed = command("run", survey.config, "--direct", *arguments)
    assert code != 0, printed
    assert "Traceback" not in printed
    assert not survey.published()
    lines = survey.ledger.read_text() if survey.ledger.exists() else ""
    assert '"commit"' not in lines
    assert '"draw"' not in lines
    return printed


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A catalog `lake`, which pyiceberg finds in its own file."""
    (tmp_path / ".pyiceberg.yaml").write_text(
        "catalog:\n  lake:\n"
        f"    uri: sqlite:///{tmp_path}/catalog.db\n    warehouse: file://{tmp_path}/warehouse\n"
    )
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    made = load_catalog("lake")
    made.create_namespace("arena")
    return made


@pytest.fixture
def iceberg(catalog: Catalog, survey: Survey) -> Survey:
    """The answers in two data files; after the first, a column was renamed and one added."""
    rows = rows_of(survey)
    table = catalog.create_table("arena.battles", rows.schema)
    table.append(rows[: len(rows) // 2])
    with table.update_schema() as change:
        change.rename_column("outcome", "result")
    renamed = rows.rename_columns(["user", "item_i", "item_j", "result"])
    table.append(renamed[len(rows) // 2 :])
    return survey.set(
        input__paths=["iceberg://lake/arena.battles"],
        input__columns={"left": "item_i", "right": "item_j", "outcome": "result"},
    )


def test_an_iceberg_table_is_ranked_once_for_each_snapshot(iceberg, catalog, command):
    """Files from before the renaming count too: their columns are found by their numbers."""
    ranks(iceberg, command, "3.00")
    release = (iceberg.output / "release.json").read_text()
    code, printed = command("run", iceberg.config, "--direct")
    assert code == 0, printed
    assert (iceberg.output / "release.json").read_text() == release
    assert iceberg.ledger.read_text().count('"commit"') == 1
    old = catalog.load_table("arena.battles").current_snapshot().snapshot_id
    table = catalog.load_table("arena.battles")
    table.append(table.scan().to_arrow()[:6])
    ranks(iceberg, command, "1.00")
    path = f"iceberg://lake/arena.battles?snapshot={old}"
    iceberg.set(input__paths=[path], output="old")
    _, printed = command("inspect", iceberg.config, "--yes-confidential")
    assert re.search(r"\b1\D?200\b", printed)
    assert not re.search(r"\b1\D?206\b", printed)


def test_nights_of_an_iceberg_table(survey, catalog, command):
    rows = with_times(rows_of(survey))
    table = catalog.create_table("arena.battles", rows.schema)
    third = len(rows) // 3
    for place in range(3):
        table.append(rows[place * third : (place + 1) * third])
    survey.set(
        input__paths=["iceberg://lake/arena.battles"],
        schedule={"window": "at", "timezone": "UTC"},
    )
    _, printed = command("inspect", survey.config, "--date", NIGHT, "--yes-confidential")
    assert re.search(rf"\b{third}\b", printed)
    code, printed = command("run", survey.config, "--direct", "--date", NIGHT)
    assert code == 0, printed
    assert "Spent epsilon" in printed


def test_rows_deleted_from_an_iceberg_table_are_not_read_again(iceberg, catalog, command):
    """pyiceberg writes no delete files, so one is put where a scan reports those of the table."""
    from pyiceberg.table import DataScan

    planned = DataScan.plan_files

    def with_deletes(scan: DataScan) -> list[Any]:
        tasks = list(planned(scan))
        for task in tasks[:1]:
            task.delete_files.add(task.file)
        return tasks

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DataScan, "plan_files", with_deletes)
        printed = refused(iceberg, command)
    assert "rows are deleted by delete files, which hushrank does not apply" in printed


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("iceberg://lake/arena.nothing", "no such table in catalog lake"),
        ("iceberg://nowhere/arena.battles", "no catalog nowhere is configured for pyiceberg"),
        ("iceberg://lake/arena.battles?snapshot=7", "the table has no such snapshot"),
        ("iceberg://battles", "must be iceberg://CATALOG/NAMESPACE.TABLE"),
        ("delta:nothing", "no such Delta table"),
        ("delta://lake/battles", "must be delta: and the folder of the table"),
        ("bigquery://arena.battles", "must be bigquery://PROJECT.DATASET.TABLE"),
        ("s3://lake/x?sig=abc", "must hold no signature"),
        ("s3://key:secret@lake/x", "without keys or passwords"),
        ("ftp://lake/x", "must be a local path or start with gs://, s3://"),
    ],
)
def test_a_table_that_is_not_there(iceberg, command, path, sentence):
    printed = refused(iceberg.set(input__paths=[path]), command)
    assert sentence in " ".join(printed.split())
    assert "secret@" not in printed
    assert "sig=" not in printed


def test_a_damaged_data_file(iceberg, command):
    (file, *_) = sorted((iceberg.folder / "warehouse").rglob("*.parquet"))
    content = file.read_bytes()
    file.write_bytes(content[:4] + bytes(len(content) // 2) + content[4 + len(content) // 2 :])
    printed = refused(iceberg, command)
    assert f"data file {file.name}" in " ".join(printed.split())
    file.unlink()
    assert f"data file {file.name}: no such file" in " ".join(refused(iceberg, command).split())


def test_a_missing_library_is_named_with_its_extra(iceberg, command, monkeypatch):
    monkeypatch.setattr(extras, "is_installed", lambda extra: False)
    for path, extra in [
        ("iceberg://lake/arena.battles", "iceberg"),
        ("delta:battles", "delta"),
        ("bigquery://p.arena.battles", "bigquery"),
        ("s3://lake/log", "s3"),
        ("abfs://lake/log", "azure"),
    ]:
        printed = refused(iceberg.set(input__paths=[path]), command)
        assert f"pip install 'hushrank[{extra}]'" in " ".join(printed.split())


def test_a_catalog_that_never_answers(iceberg, command, monkeypatch):
    """A port that accepts and stays silent; the wait is over when the patience is."""
    monkeypatch.setattr(names, "PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://user:hunter2@127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("PYICEBERG_CATALOG__SLOW__URI", uri)
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
        iceberg.set(input__paths=["iceberg://slow/arena.battles"])
        printed = refused(iceberg, command)
    assert "no answer within 0 seconds" in " ".join(printed.split())  # the server still waits
    assert "hunter2" not in printed


@pytest.fixture
def delta(survey: Survey) -> Survey:
    deltalake.write_deltalake(survey.folder / "battles", rows_of(survey), partition_by=["item_i"])
    return survey.set(input__paths=["delta:battles"])


def test_a_delta_table_is_ranked_once_for_each_version(delta, command):
    """Its files do not hold the column of the partition; the log does."""
    ranks(delta, command, "3.00")
    code, _ = command("run", delta.config, "--direct")
    assert code == 0
    assert delta.ledger.read_text().count('"commit"') == 1
    table = deltalake.DeltaTable(delta.folder / "battles")
    deltalake.write_deltalake(table, rows_of(delta)[:6], mode="append")
    ranks(delta, command, "1.00")
    delta.set(input__paths=["delta:battles?version=0"], output="old")
    _, printed = command("inspect", delta.config, "--yes-confidential")
    assert re.search(r"\b1\D?200\b", printed)
    assert not re.search(r"\b1\D?206\b", printed)


def test_rows_deleted_by_deletion_vectors_are_refused(delta, command, monkeypatch):
    protocol = deltalake.DeltaTable(delta.folder / "battles").protocol()
    with_vectors = type(protocol)(3, 7, ["deletionVectors"], ["deletionVectors"])
    monkeypatch.setattr(deltalake.DeltaTable, "protocol", lambda _: with_vectors)
    found = pa.table({"filepath": ["x"]})
    monkeypatch.setattr(deltalake.DeltaTable, "deletion_vectors", lambda _: found)
    assert "rows are deleted by deletion vectors" in refused(delta, command)
    monkeypatch.setattr(deltalake.DeltaTable, "deletion_vectors", lambda _: found[:0])
    ranks(delta, command, "3.00")


def test_the_folder_of_a_table_is_no_folder_of_files(delta, command):
    """It holds the files of older versions too, whose rows would count again."""
    printed = refused(delta.set(input__paths=["battles"]), command)
    assert "is the folder of a Delta table" in printed


def test_init_proposes_a_table(delta, iceberg, command, tmp_path):
    for place, source in enumerate([f"delta:{tmp_path}/battles", "iceberg://lake/arena.battles"]):
        code, printed = command("init", source, "--out", tmp_path / f"{place}.yaml")
        assert code == 0, printed
        written = (tmp_path / f"{place}.yaml").read_text()
        assert f"paths: [{source}]" in written.replace('"', "").replace("'", "")
        assert "item_i" in written


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "ENDPOINT_URL": f"http://{host}:{port}",
        "ACCESS_KEY_ID": "key",
        "SECRET_ACCESS_KEY": "hunter2",
        "DEFAULT_REGION": "us-east-1",
        "REGION": "us-east-1",
        "ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="lake")
    yield client
    server.stop()


def test_files_and_a_delta_table_in_s3(survey, bucket, command):
    half = len(rows_of(survey)) // 2
    for place, part in enumerate((rows_of(survey)[:half], rows_of(survey)[half:])):
        stream = io.BytesIO()
        pq.write_table(part, stream)
        bucket.put_object(Bucket="lake", Key=f"log/{place}.parquet", Body=stream.getvalue())
    bucket.put_object(Bucket="lake", Key="log/_started", Body=b"")
    ranks(survey.set(input__paths=["s3://lake/log"]), command, "3.00")
    command("run", survey.config, "--direct")
    assert survey.ledger.read_text().count('"commit"') == 1
    assert re.search(r"\S+:\d+ says arn:aws:sts::\d{12}:user/moto", survey.ledger.read_text())
    deltalake.write_deltalake("s3://lake/battles", rows_of(survey))
    survey.set(input__paths=["delta:s3://lake/battles"], output="of-delta")
    ranks(survey, command, "1.00")
    survey.set(input__paths=["s3://lake/log/*.csv"], output="of-csv")
    _, printed = command("run", survey.config, "--direct")
    assert "s3://lake/log/*.csv: no such file" in printed


def test_s3_without_an_answer(survey, command, monkeypatch, bucket):
    monkeypatch.setattr(names, "PATIENCE", 2.0)
    with closed_port() as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        printed = refused(survey.set(input__paths=["s3://lake/log"]), command)
    assert "s3://lake/log: " in printed
    assert "check them there" in " ".join(printed.split())
    assert "hunter2" not in printed


AZURITE = shutil.which("azurite-blob") or os.environ.get("AZURITE_BLOB")
AZURITE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A container `lake` of azurite's; its key is no secret, every copy of azurite has it."""
    if AZURITE is None:
        pytest.skip("needs azurite: npm install -g azurite, or AZURITE_BLOB=path of azurite-blob")
    from azure.storage.blob import BlobServiceClient

    port = free_port()
    command = [AZURITE, "--blobPort", str(port), "--location", str(tmp_path / "azurite")]
    with subprocess.Popen([*command, "--silent", "--skipApiVersionCheck"]) as server:
        text = (
            "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;"
            f"AccountKey={AZURITE_KEY};BlobEndpoint=http://127.0.0.1:{port}/devstoreaccount1;"
        )
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
        client = BlobServiceClient.from_connection_string(text, retry_total=10)
        yield client.create_container("lake")
        server.terminate()


def test_files_in_azure(survey, container, command):
    content = (survey.folder / "answers.parquet").read_bytes()
    container.upload_blob("log/answers.parquet", content)
    ranks(survey.set(input__paths=["abfs://lake/log"]), command, "3.00")
    code, _ = command("run", survey.config, "--direct")
    assert code == 0
    assert survey.ledger.read_text().count('"commit"') == 1


@pytest.fixture
def big(monkeypatch: pytest.MonkeyPatch) -> Iterator[BigQuery]:
    with fake_bigquery() as fake:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", fake.rest)
        monkeypatch.setenv("BIGQUERY_STORAGE_EMULATOR_HOST", fake.grpc)
        yield fake


NAME = "p.arena.battles"


def test_a_bigquery_table_is_ranked_once_for_each_state(survey, big, command):
    """A broken stream goes on behind its last row; rows of later states are not read."""
    now = datetime.now(UTC)
    big.write(NAME, rows_of(survey), now - timedelta(hours=3))
    big.breaks = 1
    survey.set(input__paths=[f"bigquery://{NAME}"])
    ranks(survey, command, "3.00")
    assert sorted(big.offsets) == [0, 100]
    (session,) = big.sessions
    assert set(session.read_options.selected_fields) == {"user", "item_i", "item_j", "outcome"}
    assert now - timedelta(hours=3, seconds=1) < session.table_modifiers.snapshot_time < now
    code, _ = command("run", survey.config, "--direct")
    assert code == 0
    assert len(big.sessions) == 1
    big.write(NAME, rows_of(survey)[:600], now - timedelta(hours=1))
    ranks(survey, command, "1.00")


def test_nights_of_a_bigquery_table(survey, big, command):
    """An old state has no moment to ask for; the service sends the rows of the night alone."""
    big.write(NAME, with_times(rows_of(survey)), datetime.now(UTC) - timedelta(days=30))
    survey.set(
        input__paths=[f"bigquery://{NAME}"], schedule={"window": "at", "timezone": "Europe/Berlin"}
    )
    code, printed = command("run", survey.config, "--direct", "--date", NIGHT)
    assert code == 0, printed
    (session,) = big.sessions
    assert not session.table_modifiers.snapshot_time
    assert session.read_options.row_restriction == (
        "(`at` >= TIMESTAMP '2026-11-19 23:00:00+00:00' AND"
        " `at` < TIMESTAMP '2026-11-20 23:00:00+00:00') OR `at` IS NULL"
    )
    assert len(big.streams) == 1
    assert {at.date() for rows in big.streams.values() for at in rows["at"].to_pylist()} == {NIGHT}


def test_what_bigquery_refuses(survey, big, command):
    now = datetime.now(UTC)
    big.write(NAME, rows_of(survey), now)
    survey.set(input__paths=["bigquery://p.arena.nothing"])
    assert "no such table" in refused(survey, command)
    survey.set(input__paths=[f"bigquery://{NAME}?time=2026-01-01T00:00:00Z"])
    assert "BigQuery refuses to read the table" in refused(survey, command)
    big.tables[NAME].kind = "VIEW"
    survey.set(input__paths=[f"bigquery://{NAME}"])
    assert "is a view; only tables are read" in refused(survey, command)


@pytest.mark.parametrize("table", ["delta", "iceberg"])
def test_a_window_names_a_column_of_the_table(table, request, command):
    survey = request.getfixturevalue(table)
    survey.set(schedule={"window": "when", "timezone": "UTC"})
    printed = " ".join(refused(survey, command, "--date", NIGHT).split())
    assert "when (schedule.window)" in printed


def test_a_table_goes_with_no_key_of_files(delta, command):
    printed = refused(delta.set(input__format="csv"), command)
    assert "a table says itself how it is stored; remove input.format" in " ".join(printed.split())
    delta.set(input__format=None, schedule={"partition": "item_i"})
    printed = refused(delta, command, "--date", NIGHT)
    assert "set schedule.window" in " ".join(printed.split())


def test_engines_that_cannot_reach_a_table(delta, command):
    where = {"project": "p", "region": "europe-west1", "temp_location": "gs://bucket/tmp"}
    where["image"] = "europe-docker.pkg.dev/p/r/hushrank"
    delta.set(runner={"kind": "dataflow", **where}, confidential="gs://bucket/work")
    assert "is not read with kind: dataflow" in " ".join(refused(delta, command).split())
