"""A stream whose folder is on `gs://`: what is shown, what is drawn once, and what is left."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
from google.cloud import storage

from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.stream_nights import count_empty_night, count_night, forget_night
from hushrank.privacy.randomness import seeded_bits
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.streams.people_files import open_people
from hushrank.transforms.streams.released_files import draw_night, drawn_night, shown_of
from hushrank.transforms.streams.stream_folder import begin
from tests.fake_cloud_storage import fake_cloud_storage
from tests.pipelines.reduce.test_reduce_comparisons import N_ITEMS, a_job
from tests.pipelines.reduce.test_reduce_stream import ALL
from tests.pipelines.reduce.test_stream_nights import NAME, TERMS, inputs, night_of, the_stream

BUCKET = "survey"
PLACE = f"gs://{BUCKET}/area/stream"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[storage.Bucket]:
    with fake_cloud_storage(BUCKET) as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        yield storage.Client(project=None).bucket(BUCKET)


def names(bucket: storage.Bucket) -> set[str]:
    return {blob.name.removeprefix("area/stream/") for blob in bucket.list_blobs()}


def test_a_stream_in_the_cloud(tmp_path, bucket):
    expected, stream = inputs(tmp_path), the_stream()
    key = begin(PLACE, NAME, seeded_bits(1))
    assert begin(PLACE, NAME, seeded_bits(2)) == key
    before = ""
    for night in range(TERMS.nights):
        local = night_of(tmp_path / "unused", 0, seeded_bits(1))
        changes = {"folder": PLACE, "key": key, "night": night, "before": before}
        of_stream = dataclasses.replace(local, **changes)
        if night == 2:
            count_empty_night(of_stream, (N_ITEMS,), stream)
        else:
            job = a_job(tmp_path / f"in{night}", tmp_path / f"w{night}", max_contributions=ALL)
            count_night(dataclasses.replace(job, stream=of_stream), stream, reduce.run)
        drawn = draw_night(PLACE, NAME, night, stream, seeded_bits(3))
        again = draw_night(PLACE, NAME, night, stream, seeded_bits(4))
        np.testing.assert_array_equal(drawn.released, again.released)
        if night == 1:
            assert open_people(PLACE, NAME, 1, drawn.people).n_people > 0
        shown = shown_of(PLACE, NAME, night, stream, drawn, pairs=False)
        forget_night(PLACE, NAME, night, stream, drawn)
        forget_night(PLACE, NAME, night, stream, drawn)
        assert shown.cells == pytest.approx(expected[night])
        before = drawn.people
        if night == 1:
            kept = {"key.json", "cells/00001.npz", f"people/00001/{drawn.people}.json"}
            kept |= {"shown/00001.npz"}
            assert kept <= names(bucket)
            assert not any("/00000" in name for name in names(bucket) - {"released/00000.npz"}
                           if not name.startswith("people/00001"))  # fmt: skip
            with pytest.raises(InputError, match="another stream"):
                drawn_night(PLACE, "other", 0, stream)
    assert names(bucket) == {f"released/{night:05d}.npz" for night in range(TERMS.nights)}
