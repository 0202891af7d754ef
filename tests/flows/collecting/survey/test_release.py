"""Answers that the JavaScript client privatised, ranked by Python: the scores are the true ones."""

from __future__ import annotations

import json
import subprocess
from importlib.resources import files
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.clients.programs import node_program
from tests.flows.conftest import Survey

LIBRARY = Path(str(files("hushrank.flows.collecting.survey").joinpath("files", "hushrank.js")))
NAMES = ["easy", "plain", "tricky", "hard"]
DIFFICULTIES = np.array([-1.5, -0.5, 0.5, 1.5])
PEOPLE, EPSILON = 4_000, 8.0
PRIVATISE = """
import { readFileSync } from "node:fs";
const { privatizeAnswer, shareOf } = await import(%s);
const epsilon = shareOf(%s, 4);
const truths = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(truths.map((truth) => privatizeAnswer(truth, epsilon))));
"""


@pytest.fixture
def exam(tmp_path: Path) -> Survey:
    """A test of which every answer was privatised in JavaScript, and its survey.yaml."""
    node = node_program()
    rng = np.random.default_rng(4)
    chance = 1 / (1 + np.exp(DIFFICULTIES - rng.normal(size=(PEOPLE, 1))))
    truths = (rng.random(chance.shape) < chance).astype(int).ravel()
    (tmp_path / "privatise.mjs").write_text(PRIVATISE % (json.dumps(LIBRARY.as_uri()), EPSILON))
    done = subprocess.run(
        [node, str(tmp_path / "privatise.mjs")],
        input=json.dumps(truths.tolist()),
        capture_output=True,
        text=True,
        check=True,
    )
    private = json.loads(done.stdout)
    assert 0.08 < (np.array(private) != truths).mean() < 0.16  # 1 / (e^2 + 1) = 0.119
    table = {
        "user": np.repeat(rng.permutation(PEOPLE), len(NAMES)),
        "item": np.array(NAMES)[np.tile(np.arange(len(NAMES)), PEOPLE)],
        "correct": private,
    }
    pq.write_table(pa.table(table), tmp_path / "answers.parquet")
    settings = {
        "name": "exam",
        "input": {"kind": "responses", "paths": ["answers.parquet"]},
        "items": {"names": NAMES},
        "privacy": {
            "unit": "local",
            "already_private": True,
            "epsilon": EPSILON,
            "max_contributions": 4,
        },
        "method": "spectral-rr",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 20},
        "collect": {"folder": "answers"},
    }
    return Survey(tmp_path, settings).set()


def test_difficulties_undo_the_flips_of_the_browser(exam, command):
    code, printed = command("run", exam.config, "--direct")
    assert code == 0, printed
    release = json.loads((exam.output / "release.json").read_text())
    assert [line["item"] for line in release["ranking"]] == NAMES[::-1]
    truth = dict(zip(NAMES, DIFFICULTIES, strict=True))
    for line in release["ranking"]:
        # JavaScript draws anew in every run. A score has a standard error of 0.07, so it is off by
        # more once in 10^9; half an interval is 0.15 at most, with a standard deviation of 0.023.
        assert abs(line["score"] - truth[line["item"]]) < 0.45
        assert line["high"] - line["low"] < 2 * 0.3
    assert release["privacy"]["epsilon"] == EPSILON
    assert "each where it was given" in release["privacy"]["statement"][0]
