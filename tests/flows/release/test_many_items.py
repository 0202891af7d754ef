"""A ranking of very many items: nothing of it is held or made more often than it must be."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from hushrank.flows.errors import ConfigError
from hushrank.flows.release import archive, release
from hushrank.flows.release.archive import release_before
from hushrank.flows.release.publish import publish
from hushrank.flows.release.release import Release, json_text, load_head, load_release
from hushrank.flows.report import page as downloads
from hushrank.flows.report import sections
from hushrank.flows.report.page import ROOM
from hushrank.flows.report.sections import LONG, ROW_BYTES, table_of
from tests.releases import make_release, page

FEW = make_release()
N_ITEMS = 20_000


def of_many_items() -> Release:
    """A release of as many lines as no page shows, without working out who is better than whom."""
    wins = dict.fromkeys((f"item {k}" for k in range(N_ITEMS)), 5)
    first = FEW.ranking[0]
    ranking = tuple(replace(first, item=item, rank=place) for place, item in enumerate(wins, 1))
    released = FEW.released.model_copy(update={"wins": wins})
    return FEW.model_copy(update={"ranking": ranking, "released": released})


MANY = of_many_items()


def test_a_line_of_the_ranking_takes_only_what_its_fields_take():
    assert not hasattr(MANY.ranking[0], "__dict__")
    loaded = Release.model_validate_json(FEW.to_json())
    assert not hasattr(loaded.ranking[0], "__dict__")
    with pytest.raises(ValueError, match=r"Unexpected keyword"):
        Release.model_validate_json(FEW.to_json().replace('"score"', '"scores"', 1))


def test_the_page_makes_only_the_rows_that_fit(monkeypatch):
    made = []
    exact = sections.exact_text
    monkeypatch.setattr(sections, "exact_text", lambda *of: made.append(of) or exact(*of))
    table = table_of(MANY, ROOM)
    assert len(table.full) > LONG
    assert len(made) <= ROOM // ROW_BYTES + 100


def test_of_a_file_that_the_page_does_not_hold_only_the_beginning_is_made():
    endless = downloads._download("release.json", "all", "text/json", itertools.repeat("x" * 99))
    assert (endless.address, endless.inside) == ("release.json", False)


def test_the_text_of_a_release_comes_in_pieces():
    pieces = list(MANY.json_pieces())
    assert max(map(len, pieces)) < 600_000  # the counts are one
    assert len(pieces) > N_ITEMS
    dumped = MANY.model_dump(mode="json")
    content = json.loads("".join(pieces))
    assert content["released"] == dumped["released"]
    assert content["ranking"][7] == {
        name: value for name, value in dumped["ranking"][7].items() if MANY.says(name)
    }


@pytest.fixture
def only_heads(monkeypatch):
    """Every release is one of many items, which must not be read whole."""
    monkeypatch.setattr(release, "HEAD_BYTES", 1_500)
    monkeypatch.setattr(release, "load_release", None)


def test_to_publish_another_release_only_the_head_of_the_one_before_is_read(tmp_path, only_heads):
    output = tmp_path / "out"
    for release_id in ("first", "second"):
        publish(make_release(release_id=release_id), output, page("<!doctype html>"))
    assert load_head(output / "release.json").release_id == "second"
    with pytest.raises(ConfigError, match="holds the release of another job"):
        publish(make_release(job="cd" * 32), output, page("<!doctype html>"))


def test_the_head_says_what_the_whole_says(tmp_path: Path, monkeypatch):
    path = tmp_path / "release.json"
    path.write_text(FEW.to_json(), encoding="utf-8")
    monkeypatch.setattr(release, "HEAD_BYTES", 1_500)
    head, whole = load_head(path), load_release(path)
    assert not isinstance(head, Release)
    for name in ("release_id", "created", "night", "job", "safe", "day"):
        assert getattr(head, name) == getattr(whole, name)


@pytest.mark.parametrize("damage", ["cut", "compact", "no ranking"])
def test_a_file_that_is_not_as_it_was_written_is_read_whole(tmp_path, monkeypatch, damage):
    path, text = tmp_path / "release.json", FEW.to_json()
    changed = {
        "cut": text[:-100],
        "compact": json.dumps(json.loads(text)),
        "no ranking": text.replace('"ranking"', '"order"', 1),
    }
    path.write_text(changed[damage], encoding="utf-8")
    monkeypatch.setattr(release, "HEAD_BYTES", 1_500)
    if damage == "compact":
        assert load_head(path) == FEW
        return
    with pytest.raises(ConfigError, match="is not a release of hushrank, or was changed"):
        load_head(path)


def test_a_release_of_too_many_items_is_compared_with_no_other(tmp_path, monkeypatch):
    output = tmp_path / "out"
    publish(make_release(release_id="first"), output, page("<!doctype html>"))
    later = make_release(release_id="second").model_copy(
        update={"created": FEW.created.replace(hour=23)}
    )
    assert release_before(later, output) is not None
    monkeypatch.setattr(archive, "MOST_COMPARED", len(later.ranking) - 1)
    monkeypatch.setattr(archive, "load_archived", None)
    assert release_before(later, output) is None


def test_iterators_are_written_as_lists():
    lines = [{"a": 1, "b": "x"}, {"a": 2.5, "b": None}]
    assert json_text({"lines": iter(lines), "n": [1, 2]}) == json_text(
        {"lines": lines, "n": [1, 2]}
    )
