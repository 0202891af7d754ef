"""How a result, a rank and a number in place of a name are read, as the configuration says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config

ARENA = {"left": "model_a", "right": "model_b", "winner": "winner"}


def job(folder: Path, items: Any = None, **rows: Any) -> SurveyConfig:
    """A job on comparisons, or on rankings if `rows` says so, with these keys of `input`."""
    kind = rows.pop("kind", "comparisons")
    settings = {
        "name": "zoo",
        "input": {"kind": kind, "paths": ["answers.csv"], **rows},
        "items": items or {"names": ["ants", "bees", "cats"]},
        "privacy": {"unit": "user", "epsilon": 2.0, "max_contributions": 1},
        "method": "noisy-pairs" if kind == "comparisons" else "borda",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 5, "delta": 1e-6},
    }
    path = folder / "survey.yaml"
    path.write_text(yaml.safe_dump(settings))
    return load_config(path)


def meanings(folder: Path, **rows: Any) -> dict[str, int]:
    config = job(folder, **rows)
    words = config.comparisons.meanings(config.items.catalogue.names)
    assert words is not None
    return dict(words.meanings)


@pytest.mark.parametrize("key", ["words", "winner_values"])
def test_words_add_to_the_names_of_the_columns(tmp_path, key):
    """A file with words for ties alone once lost all rows that say model_a or model_b."""
    words = {"tie": ["both_bad"]}
    rows = {"columns": ARENA | ({key: words} if key == "winner_values" else {})}
    rows |= {key: words} if key == "words" else {}
    found = meanings(tmp_path, **rows)
    assert found == {"both_bad": 0, "model_a": 1, "model_b": -1, "tie": 0}


def test_words_that_contradict_the_names_of_the_columns_replace_them(tmp_path):
    swapped = meanings(tmp_path, columns=ARENA, words={"left": "Model_B", "tie": "tie"})
    assert swapped == {"Model_B": 1, "tie": 0}
    agreed = meanings(tmp_path, columns=ARENA, words={"left": "A", "right": "model_b"})
    assert agreed == {"A": 1, "model_b": -1, "model_a": 1, "tie": 0}


def test_an_empty_cell_may_be_a_tie_and_nothing_else(tmp_path):
    words = {"tie": ["tie", ""]}
    assert meanings(tmp_path, columns=ARENA, words=words)[""] == 0
    config = job(tmp_path, columns=ARENA, words=words)
    said = config.comparisons.spelled_out(("ants", "bees", "cats"))
    assert "tie or an empty cell for a tie" in said
    with pytest.raises(ConfigError, match="must not be empty"):
        job(tmp_path, columns=ARENA, words={"left": [""], "tie": "tie"})


def test_a_key_that_reads_rows_as_no_key_does_leaves_the_job_as_it_is(tmp_path):
    """Else an upgrade, or an answer to a question, would pay for the same release again."""
    names = ["ants", "bees", "cats"]
    plain = job(tmp_path).job_hash()
    assert job(tmp_path, {"names": names, "first_code": 0}).job_hash() == plain
    assert job(tmp_path, {"names": names, "first_code": 1}).job_hash() != plain
    signs = {"left": "1", "right": "-1", "tie": "0"}
    signed = job(tmp_path, words=signs)
    assert signed.job_hash() == plain
    assert signed.columns().words is None  # read by sign, so +1 and 1.0 are numbers as before
    assert job(tmp_path, words=signs | {"left": "-1", "right": "1"}).job_hash() != plain
    ranked = job(tmp_path, kind="rankings").job_hash()
    assert job(tmp_path, kind="rankings", best="lowest").job_hash() == ranked
    assert job(tmp_path, kind="rankings", best="highest").job_hash() != ranked


def test_words_that_say_what_none_say_leave_the_job_as_it_is(tmp_path):
    """Of an earlier version both hashes are known: it hashed such words."""
    plain = job(tmp_path, columns=ARENA)
    own = {"left": "model_a", "right": "Model_B", "tie": "tie"}
    for words in (own, {"tie": "tie"}):
        told = job(tmp_path, columns=ARENA, words=words)
        assert told.job_hash() == plain.job_hash()
        assert told.job_hash(by_words=True) != plain.job_hash()
        assert told.job_hash(by_words=True) in told.job_hashes
    assert job(tmp_path, columns=ARENA | {"winner_values": own}).job_hash() == plain.job_hash()
    assert job(tmp_path, columns=ARENA, words={"tie": "even"}).job_hash() != plain.job_hash()
    wide = {"kind": "rankings", "layout": "wide"}
    numbered = {"names": ["ants", "bees", "cats"], "first_code": 1}
    assert job(tmp_path, numbered, **wide).job_hash() == job(tmp_path, **wide).job_hash()


@pytest.mark.parametrize(
    ("items", "rows", "says"),
    [
        ({"names": [7, 9], "first_code": 1}, {}, "items.first_code: names are whole numbers"),
        ({"count": 3, "first_code": 0}, {}, "items.first_code: names are whole numbers"),
        (None, {"kind": "rankings", "layout": "list", "best": "highest"}, "input.best: is for"),
    ],
)
def test_a_key_that_says_nothing_is_refused(tmp_path, items, rows, says):
    with pytest.raises(ConfigError, match=says):
        job(tmp_path, items, **rows)
