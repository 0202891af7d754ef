"""The `collect` section: what it needs of other sections, and what a page asks at most."""

from __future__ import annotations

import math
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
import yaml

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config

ALREADY = {"unit": "local", "already_private": True}
RANGE = ALREADY | {"epsilon_range": [0.5, 4]}
COMPARISONS: dict[str, Any] = {
    "input": {"kind": "comparisons", "paths": ["answers/*"], "columns": {"epsilon": "epsilon"}},
    "privacy": RANGE,
    "method": "debiased-rr",
}
TRUE_ANSWERS = {
    "input": COMPARISONS["input"] | {"ties": "random"},
    "privacy": {"unit": "local", "epsilon_range": [0.5, 4]},
    "method": "debiased-rr",
}
MALLOWS = {
    "input": {
        "kind": "rankings",
        "layout": "list",
        "paths": ["answers/*"],
        "columns": {"epsilon": "epsilon"},
    },
    "privacy": RANGE | {"mechanism": "mallows"},
    "method": "borda",
}
PAIRS = {
    "input": {"kind": "rankings", "layout": "pairs", "paths": ["answers/*"]},
    "privacy": ALREADY | {"mechanism": "random-pairs", "epsilon": 2.0, "pairs": 1},
    "method": "borda",
}
TESTS = {
    "input": {"kind": "responses", "paths": ["answers/*"]},
    "privacy": ALREADY | {"epsilon": 3.0, "max_contributions": 5},
    "method": "spectral-rr",
}


def of_levels(kind: dict[str, Any], columns: dict[str, str]) -> dict[str, Any]:
    """The same kind, where people choose among levels of epsilon."""
    privacy = kind["privacy"] | {"epsilon": None, "epsilon_levels": [0.5, 2]}
    return kind | {"input": kind["input"] | {"columns": columns}, "privacy": privacy}


ABOUT = {"organisation": "University of Example", "contact": "survey@example.org"}


def load(folder: Path, kind: dict[str, Any], n_items: int = 5, **collect: Any) -> SurveyConfig:
    content = {
        "name": "campus",
        "items": {"count": n_items},
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 100},
        "collect": {"folder": "answers", **collect},
        **kind,
    }
    path = folder / "survey.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_config(path)


@pytest.mark.parametrize(
    ("kind", "collect", "ranks", "answers"),
    [
        (COMPARISONS, {}, False, 10),
        (COMPARISONS, {"questions": 3}, False, 3),
        (COMPARISONS, {"ask": "ranking"}, True, 2),
        (COMPARISONS, {"ask": "ranking", "shown": 3, "questions": 9}, True, 3),
        (MALLOWS, {"shown": 4}, True, 1),
        (PAIRS, {}, True, 1),
        (TESTS, {"no_is_right": ["2"]}, False, 5),
    ],
)
def test_what_a_page_asks(tmp_path, kind, collect, ranks, answers):
    config = load(tmp_path, kind, **collect)
    assert config.collect is not None
    assert config.collect.ranks(config.input) is ranks
    assert config.collect.answers_of_a_person(config.input, 5) == answers


@pytest.mark.parametrize(
    ("kind", "collect", "refused"),
    [
        (TRUE_ANSWERS, {}, "collect: the page sends answers that were privatised"),
        (COMPARISONS, {"url": "http://example.org/a"}, "collect.url: must be an https://"),
        (COMPARISONS, {"url": "javascript:alert(1)"}, "collect.url: must be"),
        (COMPARISONS, {"url": "https://a.org/b; script-src *"}, "collect.url: must be"),
        (
            COMPARISONS,
            {"url": "https://a.org/b"},
            "collect.about: missing; a page on the web says who asks before it asks",
        ),
        (COMPARISONS, {"about": {"contact": "a@b.org"}}, "collect.about.organisation: missing"),
        (
            COMPARISONS,
            {"about": ABOUT | {"privacy_notice": "javascript:alert(1)"}},
            "collect.about.privacy_notice: must be an https:// address",
        ),
        (
            COMPARISONS,
            {"about": ABOUT | {"closes": "soon"}},
            "collect.about.closes: must be a date",
        ),
        (COMPARISONS, {"shown": 3}, "collect.shown: applies only to rankings"),
        (COMPARISONS, {"start_epsilon": 5.0}, "collect.start_epsilon: is 5, outside"),
        (
            COMPARISONS | {"privacy": ALREADY | {"epsilon_levels": [0.5, 1, 2, 4]}},
            {"start_epsilon": 3.0},
            "collect.start_epsilon: is 3, which is none of privacy.epsilon_levels [0.5, 1, 2, 4]",
        ),
        (
            COMPARISONS | {"privacy": ALREADY | {"epsilon_levels": [0.5, 2, 1]}},
            {},
            "privacy.epsilon_levels: must ascend, got [0.5, 2, 1]",
        ),
        (
            COMPARISONS | {"privacy": ALREADY | {"epsilon_levels": [0.5, math.nan, 2]}},
            {},
            "privacy.epsilon_levels: must ascend, got [0.5, nan, 2]",
        ),
        (
            of_levels(PAIRS, {"epsilon": "epsilon"}),
            {},
            "privacy.epsilon_levels: not with collect for test answers and for mechanism: random",
        ),
        (
            of_levels(TESTS, {"epsilon": "epsilon"}),
            {},
            "privacy.epsilon_levels: not with collect for test answers and for mechanism: random",
        ),
        (
            COMPARISONS | {"privacy": RANGE | {"epsilon_levels": [0.5, 2]}},
            {},
            "privacy.epsilon_range: says another epsilon than epsilon_levels",
        ),
        (
            COMPARISONS | {"privacy": ALREADY | {"epsilon_levels": [0.5, 1e9]}},
            {},
            "privacy.epsilon_levels: must be within",
        ),
        (
            COMPARISONS,
            {"no_is_right": ["2"]},
            "collect.no_is_right: applies only to input.kind: responses",
        ),
        (COMPARISONS, {"languages": ["<b>"]}, "collect.languages[0]"),
        (
            COMPARISONS | {"privacy": RANGE | {"max_contributions": 2}},
            {},
            "privacy.max_contributions: not with collect",
        ),
        (MALLOWS, {"questions": 3}, "collect.questions: of rankings is privacy.pairs"),
        (MALLOWS, {"ask": "ranking"}, "collect.ask: applies only to input.kind: comparisons"),
        (MALLOWS, {"shown": 6}, "collect.shown: must be at most the number of items (5)"),
        (PAIRS, {"start_epsilon": 1.0}, "collect.start_epsilon: has no effect"),
        (TESTS, {"no_is_right": ["9"]}, "collect.no_is_right: 9 is not an item"),
        (
            TESTS | {"privacy": ALREADY | {"epsilon": 3.0, "max_contributions": 4}},
            {},
            "collect.questions: must be at most privacy.max_contributions (4)",
        ),
    ],
)
def test_what_does_not_go_together(tmp_path, kind, collect, refused):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, kind, **collect)
    assert f"survey.yaml: {refused}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nobody_puts_a_long_catalogue_in_order(tmp_path):
    with pytest.raises(ConfigError, match="31 items are too many to put in order"):
        load(tmp_path, MALLOWS, n_items=31)


def test_the_section_makes_no_other_job(tmp_path):
    hashes = {load(tmp_path, TESTS, questions=n, tokens=n > 2).job_hash() for n in (2, 3)}
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("zone", "closing"),
    [
        ("UTC", "2027-01-01T00:00:00+00:00"),
        ("Europe/Berlin", "2026-12-31T23:00:00+00:00"),
        ("America/New_York", "2027-01-01T05:00:00+00:00"),
    ],
)
def test_a_survey_closes_at_the_end_of_its_last_day(tmp_path, zone, closing):
    kind = COMPARISONS | {"schedule": {"timezone": zone}}
    config = load(tmp_path, kind, about=ABOUT | {"closes": "2026-12-31"})
    assert config.collect is not None
    found = config.collect.closing(config.schedule)
    assert found is not None
    assert found.astimezone(UTC).isoformat() == closing
    open_ended = load(tmp_path, kind, about=ABOUT)
    assert open_ended.collect is not None
    assert open_ended.collect.closing(open_ended.schedule) is None
    assert config.job_hashes == open_ended.job_hashes
