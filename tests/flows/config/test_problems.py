"""Rules that pydantic words itself are told as they are."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import BaseModel, Field, ValidationError

from hushrank.flows.config.yaml_file import config_error
from hushrank.transforms.common.plain_text import MOST_LINES


class Job(BaseModel, extra="forbid"):
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")]


def test_a_pattern_with_braces_is_shown():
    with pytest.raises(ValidationError) as caught:
        Job(digest="no")
    told = str(config_error(Path("survey.yaml"), caught.value, Job, {}))
    assert told == "survey.yaml: digest: String should match pattern ^[0-9a-f]{8}$, got 'no'"


def test_only_problems_that_are_shown_are_put_into_words(monkeypatch):
    searched = []

    def close_matches(word, known, **how):
        searched.append(word)
        return []

    monkeypatch.setattr(difflib, "get_close_matches", close_matches)
    with pytest.raises(ValidationError) as caught:
        Job(digest="0" * 8, **{f"key_{number}": 1 for number in range(1_000)})
    lines = str(config_error(Path("survey.yaml"), caught.value, Job, {})).splitlines()
    assert searched == [f"key_{number}" for number in range(MOST_LINES + 1)]
    assert len(lines) == MOST_LINES
    assert lines[-1] == "survey.yaml: 989 more problems; put these right first"
