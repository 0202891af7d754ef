"""What a run asks a store for: each footer once, side by side, before anything is reserved."""

from __future__ import annotations

import io
import pickle
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from hushrank.flows.run import run
from hushrank.flows.run.context import Job
from hushrank.flows.run.input_files import heads_of
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.pipelines.reduce import reduce
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.transforms.storage.places import CloudPath
from hushrank.transforms.storage.read import plan_files, read_batches
from tests.fake_cloud_storage import Store, fake_cloud_storage
from tests.flows.conftest import InProcessReader, Survey, answers

FILES, TOGETHER = 16, 4
PATIENCE = 600  # seconds
A_FOOTER = 2  # requests: what the object is now, and its end


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with fake_cloud_storage("answers") as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        yield store


@pytest.fixture
def cloud(survey, store) -> Survey:
    """The survey with its rows in files of a bucket, each of several row groups."""
    rows = answers(200)
    part = -(-len(rows) // FILES)
    for number in range(FILES):
        stream = io.BytesIO()
        mine = rows.slice(number * part, part).replace_schema_metadata({"file": f"{number}"})
        pq.write_table(mine, stream, row_group_size=part // 3)
        CloudPath.parse(f"gs://answers/log/{number:02d}.parquet").write(stream.getvalue())
    return survey.set(input__paths=["gs://answers/log"])


def of_files(store: Store, start: int, end: int | None = None) -> Counter[str]:
    """How often each file was asked for."""
    return Counter(name for _, name in store.requests[start:end] if name.endswith(".parquet"))


def looked_at(survey) -> Job:
    """Its job with what footers say."""
    job = prepare_job(read_survey(survey.config))
    return replace(job, heads=heads_of(job.files, job.config, InProcessReader()))


def asked_by_reading(store: Store, job: Job) -> Counter[str]:
    """What reading all rows takes, without a look at a footer before."""
    splits = plan_files(job.files, job.config.columns(), job.heads)
    before = len(store.requests)
    for split in splits:
        assert list(read_batches(split))
    return of_files(store, before)


def test_a_run_asks_for_footers_before_it_reserves_and_then_for_rows_alone(
    cloud, command, store, monkeypatch
):
    reading = asked_by_reading(store, looked_at(cloud))
    start, reserved = len(store.requests), []
    together = threading.Barrier(TOGETHER, timeout=PATIENCE)

    def hold(name: str) -> None:
        if not reserved:
            together.wait()  # one after the other, none would be answered

    def reserve(*arguments):
        reserved.append(len(store.requests))
        return steps_reserve(*arguments)

    steps_reserve = run.reserve
    monkeypatch.setattr(run, "reserve", reserve)
    monkeypatch.setattr(store, "hold", hold)
    code, printed = command("run", cloud.config, "--direct")
    assert code == 0, printed
    (at_reservation,) = reserved
    assert set(of_files(store, start, at_reservation).values()) == {A_FOOTER}
    assert of_files(store, at_reservation) == reading


def test_a_job_that_nobody_looked_at_is_cut_the_same(cloud, store):
    job = looked_at(cloud)
    columns = job.config.columns()
    assert len(job.heads) == FILES
    assert plan_files(job.files, columns) == plan_files(job.files, columns, job.heads)


def test_what_footers_say_is_in_no_text_and_no_worker_gets_it_twice(cloud, store, tmp_path):
    job = looked_at(cloud)
    reduction = job.reduction(SecretKey.draw(job.bits()), tmp_path)
    sent = pickle.loads(pickle.dumps(reduction))
    assert sent.heads == job.heads
    assert "RowGroup" not in f"{job} {reduction}"
    kind, splits = reduce._planned(sent)
    assert kind.job == replace(sent, heads=None)
    assert sum(split.rows for split in splits) == len(answers(200))


def test_heads_of_ten_thousand_files_are_small(cloud, store):
    """Equal schemas are sent once, whatever the notes of the writer are."""
    job = looked_at(cloud)
    one, all_ = (len(pickle.dumps(job.heads[:number])) for number in (1, FILES))
    assert (all_ - one) / (FILES - 1) * 10_000 < 1e6
