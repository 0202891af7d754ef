"""`hushrank run` on tables and objects where logs live: Iceberg, Delta, S3."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from tests.flows.conftest import Survey

PEOPLE = 200
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A catalog `lake` in SQLite, as pyiceberg finds it in its own file."""
    (tmp_path / ".pyiceberg.yaml").write_text(
        "catalog:\n  lake:\n"
        f"    uri: sqlite:///{tmp_path}/catalog.db\n    warehouse: file://{tmp_path}/warehouse\n"
    )
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setattr(
        "pyiceberg.catalog._ENV_CONFIG",
        __import__("pyiceberg.utils.config", fromlist=["Config"]).Config(),
    )
    made = load_catalog("lake")
    made.create_namespace("arena")
    return made


@pytest.fixture
def iceberg(catalog: Catalog, survey: Survey) -> Survey:
    """The survey with its answers in an Iceberg table of two data files."""
    rows = pq.read_table(survey.folder / "answers.parquet")
    table = catalog.create_table("arena.battles", rows.schema)
    table.append(rows[: len(rows) // 2])
    table.append(rows[len(rows) // 2 :])
    (survey.folder / "answers.parquet").unlink()
    return survey.set(input__paths=["iceberg://lake/arena.battles"])


def spent(survey: Survey, command: Command) -> str:
    return command("ledger", "show", survey.config)[1]


def run_twice(survey: Survey, command: Command) -> None:
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    assert "Spent epsilon 2.00; zoo has epsilon 3.00 left of 5.00" in printed
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    assert "no budget" in printed.lower() or "Spent epsilon" not in printed


def test_a_run_on_an_iceberg_table(iceberg, command):
    run_twice(iceberg, command)


@pytest.fixture
def delta(survey: Survey) -> Survey:
    rows = pq.read_table(survey.folder / "answers.parquet")
    deltalake.write_deltalake(survey.folder / "battles", rows)
    (survey.folder / "answers.parquet").unlink()
    return survey.set(input__paths=["delta:battles"])


def test_a_run_on_a_delta_table(delta, command):
    run_twice(delta, command)


@pytest.fixture
def bucket(monkeypatch):
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for k, v in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(k, v)
    client = boto3.client("s3")
    client.create_bucket(Bucket="lake")
    yield client
    server.stop()


def test_a_run_on_s3(survey, bucket, command):
    bucket.put_object(
        Bucket="lake",
        Key="log/answers.parquet",
        Body=(survey.folder / "answers.parquet").read_bytes(),
    )
    survey.set(input__paths=["s3://lake/log"])
    run_twice(survey, command)


def test_a_run_on_delta_in_s3(survey, bucket, command):
    rows = pq.read_table(survey.folder / "answers.parquet")
    deltalake.write_deltalake("s3://lake/t/battles", rows, partition_by=["item_i"])
    survey.set(input__paths=["delta:s3://lake/t/battles"])
    run_twice(survey, command)


def test_a_run_on_bigquery(survey, monkeypatch, command):
    from tests.fake_bigquery import fake_bigquery

    rows = pq.read_table(survey.folder / "answers.parquet")
    rows = rows.cast(pa.schema([(n, pa.int64()) for n in rows.schema.names]))
    with fake_bigquery() as fake:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", fake.rest)
        monkeypatch.setenv("BIGQUERY_STORAGE_EMULATOR_HOST", fake.grpc)
        fake.write("p.arena.battles", rows, datetime.now(UTC) - timedelta(hours=1))
        survey.set(input__paths=["bigquery://p.arena.battles"])
        fake.breaks = 1
        run_twice(survey, command)
        print(fake.offsets, fake.sessions)
