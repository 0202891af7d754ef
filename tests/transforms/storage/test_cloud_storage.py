"""Objects against a store that enforces generation matches, and that fails on demand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hushrank.transforms.storage.places import ABSENT, CloudPath, ObjectChanged
from tests.cloud_stores import asked_store, lose_patience_at_once, on_both_servers
from tests.fake_cloud_storage import Fault, Store
from tests.go_cloud_storage import GoStore
from tests.ports import closed_port

PLACE = CloudPath.parse("gs://survey/area/counts.npz")


@pytest.fixture
def store(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Store | GoStore]:
    with asked_store(request, monkeypatch, "survey") as store:
        yield store


@pytest.mark.parametrize(
    ("url", "bucket", "name"),
    [
        ("gs://survey", "survey", ""),
        ("gs://survey/", "survey", ""),
        ("gs://my.survey_1/a b/ü", "my.survey_1", "a b/ü"),
        ("gs://survey/a/b/", "survey", "a/b"),
    ],
)
def test_urls(url, bucket, name):
    path = CloudPath.parse(url)
    assert (path.bucket, path.key) == (bucket, name)
    assert str(path) == url.removesuffix("/")


@pytest.mark.parametrize(
    "url", ["gs://", "gs:///a", "s3://survey/a", "gs://survey//a", "gs://survey/../a", "gs://s/./a"]
)
def test_what_is_no_url_is_refused(url):
    with pytest.raises(ValueError, match="must "):
        CloudPath.parse(url)


def test_names_and_parents():
    path = CloudPath.parse("gs://survey/a/b.json")
    assert path.name == "b.json"
    assert str(path.parent) == "gs://survey/a"
    assert str(path.parent.parent) == "gs://survey"
    assert path.parent / "b.json" == path


def test_a_folder_contains_what_is_below_it_and_itself():
    folder = CloudPath.parse("gs://survey/a")
    assert folder.contains(folder)
    assert folder.contains(folder / "b" / "c")
    assert not folder.contains(CloudPath.parse("gs://survey/ab"))
    assert not folder.contains(CloudPath.parse("gs://other/a/b"))
    assert CloudPath.parse("gs://survey").contains(folder)


@on_both_servers
@pytest.mark.parametrize("content", [b"", b"\x00\r\n--\r\n\r\n", b"x" * 9_000_000])
def test_what_was_written_is_read(store, content):
    assert PLACE.read() is None
    assert PLACE.generation() == ABSENT
    written = PLACE.write(content, metadata={"who": "anna"})
    assert PLACE.read() == written
    assert PLACE.read_bytes() == content
    with PLACE.open() as stream:
        assert stream.read() == content
        assert stream.seek(0) == 0


@on_both_servers
@pytest.mark.parametrize("length", [3, 9_000_000])  # sent in one request, or in several
def test_a_write_replaces_only_the_generation_that_it_names(store, length):
    first = PLACE.write(b"1" * length, replaces=ABSENT)
    with pytest.raises(ObjectChanged):
        PLACE.write(b"2" * length, replaces=ABSENT)
    second = PLACE.write(b"2" * length, replaces=first.generation)
    with pytest.raises(ObjectChanged):
        PLACE.write(b"3" * length, replaces=first.generation)
    assert PLACE.read_bytes() == b"2" * length
    PLACE.delete(second.generation)
    PLACE.delete()
    assert not PLACE.exists()
    with pytest.raises(FileNotFoundError):
        PLACE.read_bytes()


def test_a_delete_names_its_generation(store):
    """fake-gcs-server 1.56.1 deletes whatever it names (its issue 1282), so ours alone tells."""
    first = PLACE.write(b"one")
    PLACE.write(b"two")
    with pytest.raises(ObjectChanged):
        PLACE.delete(first.generation)
    assert PLACE.read_bytes() == b"two"


@on_both_servers
def test_an_object_is_created_once(store):
    PLACE.create(b"noise")
    PLACE.create(b"noise")
    with pytest.raises(ObjectChanged):
        PLACE.create(b"other noise")
    assert PLACE.read_bytes() == b"noise"


def test_creating_survives_a_lost_answer(store):
    store.faults.append(Fault("POST", "counts.npz", "lost"))
    PLACE.create(b"noise")
    assert PLACE.read_bytes() == b"noise"
    assert store.requests.count(("POST", "area/counts.npz")) == 2


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_passing_failures_are_tried_again(store, status):
    store.faults += [Fault("POST", "counts.npz", status), Fault("GET", "counts.npz", status)]
    PLACE.write(b"content")
    assert PLACE.read_bytes() == b"content"


@on_both_servers
def test_a_folder_lists_its_objects_and_nothing_else(store):
    folder = CloudPath.parse("gs://survey/area")
    for name in ("b", "a/c", "a/"):
        store.put("survey", f"area/{name}", b"1", {})
    store.put("survey", "areas/d", b"1", {})
    assert [str(found.path) for found in folder.objects()] == [
        "gs://survey/area/a/c",
        "gs://survey/area/b",
    ]
    assert [found.size for found in folder.objects("a/")] == [1]


def test_without_permission(store):
    store.faults += [Fault("GET", "counts.npz", 403), Fault("POST", "counts.npz", 403)]
    with pytest.raises(PermissionError, match=r"no permission: 'gs://survey/area/counts.npz'"):
        PLACE.read()
    with pytest.raises(PermissionError):
        PLACE.write(b"content")


@on_both_servers
def test_a_bucket_that_is_not_there(store):
    with pytest.raises(FileNotFoundError, match="no such object or bucket"):
        CloudPath.parse("gs://nowhere/a").write(b"content")


def test_a_store_that_stays_down_is_given_up(store, monkeypatch):
    lose_patience_at_once(monkeypatch)
    store.faults.append(Fault("GET", "counts.npz", 503, times=99))
    with pytest.raises(OSError, match="Cloud Storage does not answer as it should: RetryError"):
        PLACE.read()


def test_nobody_listens(monkeypatch):
    lose_patience_at_once(monkeypatch)
    with closed_port() as port:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
        with pytest.raises(OSError, match="Cloud Storage does not answer") as caught:
            PLACE.read()
    assert caught.value.filename == str(PLACE)
