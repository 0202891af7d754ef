"""Small surveys that collect answers, and what respondents send to them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.registry import load_config
from hushrank.pipelines.simulate.simulate_responses import Population, new_submission

ITEMS = ["ants", "bees", "cats", "dogs", "eels", "foxes"]
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)

Content = dict[str, Any]


def survey(folder: Path, **changes: Any) -> SurveyConfig:
    """The configuration of a survey on comparisons in `folder`, whose file is written, too."""
    content: Content = {
        "name": "campus",
        "input": {
            "kind": "comparisons",
            "paths": ["answers/{date}/*.parquet"],
            "columns": {"left": "left", "right": "right", "outcome": "outcome", "epsilon": "eps"},
        },
        "items": {"names": ITEMS},
        "privacy": {"unit": "local", "already_private": True, "epsilon_range": [0.5, 4]},
        "method": "debiased-rr",
        "collect": {"folder": "answers"},
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger/ledger.jsonl", "epsilon": 100},
    } | changes
    path = folder / "survey.yaml"
    path.write_text(yaml.safe_dump(content))
    return load_config(path)


def people(**changes: Any) -> Population:
    """Who answers that survey."""
    terms: Content = {
        "survey": "campus",
        "items": ITEMS,
        "scores": np.linspace(1, -1, len(ITEMS)),
        "epsilons": [0.5, 1.0, 2.0, 4.0],
        "answers": 3,
        "seed": 1,
    }
    return Population(**(terms | changes))


def body(answers: list[Content], kind: str = "comparisons", **changes: Any) -> Content:
    """What a page sends."""
    said: Content = {"schema": 1, "survey": "campus", "kind": kind}
    return said | {"submission": new_submission(), "answers": answers} | changes


def comparison(**changes: Any) -> Content:
    """One right answer."""
    return {"left": "ants", "right": "bees", "outcome": 1, "epsilon": 1.5} | changes


def encoded(content: Content) -> bytes:
    """As JSON."""
    return json.dumps(content).encode()


def parts(folder: Path) -> pa.Table:
    """All rows of all parts in `folder`, in the order of the parts' names."""
    return pa.concat_tables([pq.read_table(path) for path in sorted(folder.rglob("*.parquet"))])
