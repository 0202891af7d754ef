"""No two places of a YAML file are one, or one in the other, if hushrank writes to either."""

from __future__ import annotations

import itertools
import os
import typing
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from hushrank.flows.config import section
from hushrank.flows.config.apart import (
    SURVEY_FILE,
    USES,
    NamedPlace,
    Use,
    check_files_apart,
    conflicts,
)
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config
from hushrank.transforms.storage.places import CloudPath
from tests.flows.bad_inputs.case import COMPARISONS, changed, write, yaml_text
from tests.flows.bad_inputs.test_corpus import snapshot

KINDS_OF_PLACE = {
    *(typing.get_args(section.AnyPlace)[1:]),
    *(typing.get_args(section.AnchorPlace)[1:]),
    *(typing.get_args(section.LocalPath)[1:]),
    *(typing.get_args(section.InputPath)[1:2]),
}
WRITTEN = [key for key, use in USES.items() if use not in (Use.INPUT, Use.READ)]
PAIRS = [
    pair
    for pair in itertools.combinations([SURVEY_FILE, *USES], 2)
    if set(pair) & set(WRITTEN) and set(pair) != {"input.paths", "collect.folder"}
]


def keys_of_places(annotation: Any, key: str = "", metadata: tuple[Any, ...] = ()) -> set[str]:
    """Dotted keys below an annotation whose values are places."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        found = set[str]()
        for name, field in annotation.model_fields.items():
            below = f"{key}.{name}".lstrip(".")
            found |= keys_of_places(field.annotation, below, tuple(field.metadata))
        return found
    own = {*metadata, *getattr(annotation, "__metadata__", ())}
    if any(each is kind for each in own for kind in KINDS_OF_PLACE):
        return {key}
    return set().union(*(keys_of_places(each, key) for each in typing.get_args(annotation)))


def named(key: str, place: Path | CloudPath) -> NamedPlace:
    use = USES.get(key, Use.READ)
    return NamedPlace(key, use, str(place) if use is Use.INPUT else place)


def found(*asked: NamedPlace) -> str:
    """What is wrong between two places, as one text; empty: nothing."""
    return "\n".join(f"{key}: {text}" for key, text in conflicts(asked))


def test_every_place_of_the_yaml_file_has_a_use():
    assert keys_of_places(SurveyConfig) == USES.keys()


@pytest.fixture
def links(tmp_path: Path) -> None:
    """Symbolic links, for which Windows wants a privilege and which Wine does not show."""
    try:
        (tmp_path / "link").symlink_to(tmp_path)
    except OSError:
        pytest.skip("this account may make no symbolic links")
    if os.path.realpath(tmp_path / "link") != os.path.realpath(tmp_path):
        pytest.skip("this system does not follow symbolic links")
    (tmp_path / "link").unlink()


def one_place_by_two_names(folder: Path) -> Iterator[tuple[Path | CloudPath, Path | CloudPath]]:
    """A place by itself, by links, through a folder that is a link, and in a bucket."""
    first = folder / "real" / "a.csv"
    first.parent.mkdir()
    yield first, first
    (folder / "soft.csv").symlink_to(first)  # which does not exist yet
    yield first, folder / "soft.csv"
    (folder / "linked").symlink_to(first.parent)
    yield first, folder / "linked" / "a.csv"
    first.write_text("")
    os.link(first, folder / "hard.csv")
    yield first, folder / "hard.csv"
    yield (CloudPath.parse("gs://survey/a.csv"),) * 2


def test_no_pair_of_places_is_one(tmp_path, links):
    for first, second in one_place_by_two_names(tmp_path):
        for one, other in (*PAIRS, *((other, one) for one, other in PAIRS)):
            said = found(named(one, first), named(other, second))
            uses = {USES.get(one), USES.get(other)}
            if uses != {Use.INPUT, Use.SHARED_FOLDER}:  # whose files are no answers
                assert one in said, (first, second)
                assert other in said, (first, second)


@pytest.mark.parametrize("outer", ["output", "confidential"])
@pytest.mark.parametrize("inner", [SURVEY_FILE, *USES])
def test_nothing_lies_in_a_folder_of_hushrank(tmp_path, outer, inner):
    if inner != outer:
        said = found(named(inner, tmp_path / "own" / "x" / "a.csv"), named(outer, tmp_path / "own"))
        assert inner in said
        assert outer in said


@pytest.mark.parametrize(
    ("paths", "key", "place", "read"),
    [
        ("data", "observability.log", "data/log.jsonl", True),
        ("data", "observability.log", "data/run.log", False),
        ("data", "observability.log", "data/.log.jsonl", False),
        ("data/*.csv", "observability.metrics", "data/m.csv", True),
        ("data/*.csv", "observability.metrics", "data/m.prom", False),
        ("data/*", "observability.metrics", "data/m.prom", True),
        ("*", "output", "out", True),
        ("*/*.csv", "output", "out", True),
        ("**/ranking.csv", "output", "deep/out", True),
        ("*/answers.csv", "output", "out", False),
        ("{date}/*.csv", "ledger.path", "2026-11-20/l.csv", True),
        ("2026/{date:%m}/", "observability.log", "2026/11/log.csv", True),
        (".", "output", "out", True),
        (".", "confidential", "work", True),
        (".", "confidential", ".hushrank/work", False),
        (".", "ledger.path", "ledger.jsonl", True),
        (".", "ledger.path", ".hushrank/ledger.jsonl", False),
        (".", "observability.support", "support", False),
        ("answers/{date}/*.parquet", "collect.folder", "answers", False),
    ],
)
def test_input_reads_nothing_that_is_written(tmp_path, paths, key, place, read):
    asked = (tmp_path / paths).as_posix()  # as the configuration writes it
    said = found(NamedPlace("input.paths", Use.INPUT, asked), named(key, tmp_path / place))
    assert (key in said and "input.paths" in said) == read


def test_input_in_a_bucket_is_compared_as_text():
    log = NamedPlace("ledger.path", Use.WRITTEN, CloudPath.parse("gs://bucket/data/ledger.jsonl"))
    for paths in (
        "gs://bucket/data",
        "gs://bucket/data/*.jsonl",
        "gs://bucket/**",
        "gs://bucket/data/ledger.jsonl",
    ):
        assert "ledger.path" in found(NamedPlace("input.paths", Use.INPUT, paths), log)
    for paths in (
        "gs://bucket/dat",
        "gs://other/data",
        "gs://bucket/data/*.csv",
        "s3://bucket/data",
    ):
        assert found(NamedPlace("input.paths", Use.INPUT, paths), log) == ""


def test_files_of_the_input_are_told_by_what_they_are(tmp_path, links):
    log, own = tmp_path / "log", tmp_path / "out"
    log.write_text("")
    own.mkdir()
    (own / "ranking.csv").write_text("")
    data = tmp_path / "data"
    data.mkdir()
    os.link(log, data / "hard.csv")
    (data / "soft.csv").symlink_to(own / "ranking.csv")
    (data / "good.csv").write_text("")
    asked = [named("observability.log", log), named("output", own)]
    check_files_apart(asked, [str(data / "good.csv")])
    for name, key in (("hard.csv", "observability.log"), ("soft.csv", "output")):
        with pytest.raises(ConfigError, match=f"{name} is a file of {key}"):
            check_files_apart(asked, [str(data / name)])


BASE = changed(
    COMPARISONS,
    {
        "items": {"file": "items.csv"},
        "ledger.signing_key": "key.pem",
        "ledger.terms_key": "officer.pub",
        "report": {"audit": "audit.json"},
        "observability": {
            "log": "log.jsonl",
            "metrics": "hushrank.prom",
            "lineage": {"file": "lineage.jsonl"},
            "support": "support",
        },
    },
)
KEYS = ("ledger.signing_key", "ledger.terms_key")
NAMED_HERE = {
    SURVEY_FILE: "survey.yaml",
    "input.paths": "answers.csv",
    "items.file": "items.csv",
    "ledger.signing_key": "key.pem",
    "ledger.terms_key": "officer.pub",
    "report.audit": "audit.json",
    "observability.log": "log.jsonl",
    "observability.metrics": "hushrank.prom",
    "observability.lineage.file": "lineage.jsonl",
    "observability.support": "support",
    "ledger.path": "ledger.jsonl",
    "output": "out",
    "confidential": "work",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "survey.yaml", yaml_text(BASE).encode())
    write(tmp_path / "answers.csv", b"user,left,right,outcome\n1,ants,bees,1\n")
    write(tmp_path / "items.csv", b"item\nants\nbees\ncats\ndogs\n")
    return tmp_path


def test_the_usual_places_are_apart(folder):
    load_config(folder / "survey.yaml")


def test_a_survey_names_both_settings_and_touches_nothing(folder):
    """All pairs that go into one survey; the second is set to the place of the first."""
    for one, other in itertools.permutations(NAMED_HERE, 2):
        if other not in WRITTEN or (other == "observability.support" and one == "input.paths"):
            continue
        write(folder / "survey.yaml", yaml_text(changed(BASE, {other: NAMED_HERE[one]})).encode())
        before = snapshot(folder)
        with pytest.raises(ConfigError) as refused:
            load_config(folder / "survey.yaml")
        if not {one, other} <= {"output", "confidential", "ledger.path", *KEYS}:
            assert one in str(refused.value)
        assert other in str(refused.value) or one in ("ledger.path", *KEYS)
        assert snapshot(folder) == before


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"output": "Out", "confidential": "out"}, "confidential"),
        ({"output": "out", "confidential": "OUT/work"}, "confidential"),
        ({"ledger.path": "OUT/ledger.jsonl"}, "ledger.path"),
        ({"observability": {"log": "Ä.jsonl", "metrics": "a\u0308.jsonl"}}, "metrics"),
        ({"observability": {"log": "SURVEY.yaml"}}, "observability.log"),
        ({"observability": {"log": "Ledger.JSONL"}}, "observability.log"),
        ({"input.paths": ["OUT/*.csv"]}, "input.paths"),
        ({"observability": {"log": "σας.jsonl", "metrics": "ΣΑΣ.jsonl"}}, "metrics"),
        ({"observability": {"log": "straße.jsonl", "metrics": "STRASSE.jsonl"}}, "metrics"),
        ({"output": "oﬃce", "confidential": "OFFICE"}, "confidential"),
    ],
)
def test_places_that_differ_in_case_alone_are_one_on_every_system(folder, changes, key):
    """The folder may be shared with Windows or macOS, where they are one file."""
    settings = changed(BASE, changes)
    write(folder / "survey.yaml", yaml_text(settings).encode())
    with pytest.raises(ConfigError) as refused:
        load_config(folder / "survey.yaml")
    assert key in str(refused.value)
    is_the_same_here = (folder / "SURVEY.YAML").exists()
    assert is_the_same_here or "case do not tell files apart" in str(refused.value)
    write(folder / "survey.yaml", yaml_text(changed(BASE, {"output": "Outer"})).encode())
    load_config(folder / "survey.yaml")


@pytest.mark.parametrize(
    ("pattern", "log"),
    [
        ("Ärzte*.csv", "a\u0308rzte.csv"),
        ("ß{date}.csv", "SS2026-11-20.csv"),
        ("x[Z-a].csv", "X_.csv"),
    ],
)
def test_a_pattern_finds_what_another_system_takes_for_the_same_name(folder, pattern, log):
    settings = changed(BASE, {"input.paths": [pattern], "observability": {"log": log}})
    write(folder / "survey.yaml", yaml_text(settings).encode())
    with pytest.raises(ConfigError, match=r"observability\.log: would be read as a file"):
        load_config(folder / "survey.yaml")


@pytest.mark.parametrize(
    ("folder", "written", "counts"),
    [
        ("/", "/data/x.csv", None),
        ("/", "data/x.csv", "data/x.csv"),
        ("/data", "/data/x.csv", "x.csv"),
    ],
)
def test_beside_a_survey_in_the_root_an_absolute_path_counts_as_it_is(folder, written, counts):
    counted: dict[str, str] = {}
    info = SimpleNamespace(context={section.FOLDER: Path(folder), section.COUNTED: counted})
    path = section.local_path(written, info)
    assert counted.get(str(path)) == counts


@pytest.mark.parametrize("place", ["survey.yaml", "answers.csv"])
def test_a_log_is_not_appended_to_what_is_read(folder, command, monkeypatch, place):
    monkeypatch.chdir(folder)
    settings = changed(COMPARISONS, {"observability": {"log": place}})
    write(folder / "survey.yaml", yaml_text(settings).encode())
    before = snapshot(folder)
    code, printed = command("run", "survey.yaml", "--direct")
    assert code == 2
    assert "observability.log" in printed
    assert snapshot(folder) == before
