"""Rules that pydantic words itself are told as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from pydantic import BaseModel, Field, ValidationError

from hushrank.flows.config.problems import config_error


class Job(BaseModel):
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")]


def test_a_pattern_with_braces_is_shown():
    with pytest.raises(ValidationError) as caught:
        Job(digest="no")
    told = str(config_error(Path("survey.yaml"), caught.value, Job))
    assert told == "survey.yaml: digest: String should match pattern ^[0-9a-f]{8}$, got 'no'"
