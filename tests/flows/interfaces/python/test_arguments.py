"""Every keyword of every public function: a wrong value is refused by name, and nothing happens.

Functions and keywords are found by inspection, so a new one is tried too. `hushrank.privacy` and
`hushrank.estimation` are not: they are libraries of pure functions, which raise ValueError.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hushrank
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import HushrankError
from hushrank.flows.interfaces.python.configuration import Keywords
from hushrank.flows.release.release import Release as Record
from hushrank.pipelines.inspect.inspect_log import Look
from hushrank.transforms.common.plain_text import MOST_CHARACTERS, MOST_LINES

NAN, INFINITY = float("nan"), float("inf")


class Raising:
    """An object that raises whatever it is asked."""

    def _raise(self, *_: Any) -> Any:
        raise RuntimeError("a cell of the table")

    __str__ = __repr__ = __len__ = __bool__ = __iter__ = __eq__ = __hash__ = __getattr__ = _raise
    __float__ = __int__ = __index__ = __fspath__ = __contains__ = __getitem__ = __lt__ = _raise


class RaisingList(list):  # type: ignore[type-arg]
    __iter__ = __len__ = __bool__ = __getitem__ = __repr__ = Raising._raise


class RaisingDict(dict):  # type: ignore[type-arg]
    __iter__ = __len__ = __bool__ = items = keys = __repr__ = Raising._raise


class RaisingPath(os.PathLike):  # type: ignore[type-arg]
    __fspath__ = __repr__ = Raising._raise


ITSELF: list[Any] = []
ITSELF.append(ITSELF)
FIT_NOWHERE: dict[str, Any] = {  # for no keyword but a table
    "object": object(),
    "class": int,
    "function": len,
    "complex": 1j,
    "bytes": b"x",
    "NA": pd.NA,
    "NaT": pd.NaT,
    "null": pa.scalar(None),
    "numpy-nat": np.datetime64("NaT"),
    "now": datetime.now(),
    "timestamp": pd.Timestamp(0),
    "huge": 10**5000,
    "nul": "a\0b",
    "surrogate": "a\udc80b",
    "empty-text": "",
    "nan": NAN,
    "numpy-nan": np.float32(NAN),
    "signal": Decimal("sNaN"),
    "raising": Raising(),
    "raising-list": RaisingList([1]),
    "raising-dict": RaisingDict(a=1),
    "raising-path": RaisingPath(),
    "set": {"a", "b"},
    "list-of-itself": ITSELF,
    "dict-of-object": {"a": object()},
    "dict-of-numbers": {object(): 1},
    "missing-cell": {"a": pd.NA},
    "masked": np.ma.masked,
}
FIT_SOMEWHERE: dict[str, Any] = {
    "none": None,
    "text": "x",
    "long-text": "x" * 100_000,
    "cloud": "gs://",
    "long-cloud": f"gs://b/{'x' * 5000}",
    "zero": 0,
    "minus": -1,
    "large": 2**70,
    "fraction": Fraction(1, 3),
    "decimal": Decimal("0.5"),
    "half": 5.5,
    "infinity": INFINITY,
    "minus-infinity": -INFINITY,
    "true": True,
    "numpy-bool": np.bool_(True),
    "numpy-int": np.int64(3),
    "numpy-float": np.float32(0.5),
    "numpy-text": np.str_("x"),
    "array": np.array([1.5, 2.5]),
    "array-of-nothing": np.array([]),
    "zero-dimensional": np.array(3),
    "arrow": pa.scalar(3),
    "list": [],
    "list-of-mixed": [1, "x", None],
    "list-of-numbers": [1, 2],
    "list-of-nan": [NAN],
    "dict": {},
    "dict-of-text": {"x": "y"},
    "dict-of-long": {"x" * 5000: {"y" * 5000: "z" * 5000}},
    "date": date(2026, 1, 1),
    "path": Path("x"),
    "long-path": Path("x" * 4000),
    "no-path": Path("/dev/null/x"),
    "generator": range(3),
    "cells": pd.DataFrame({5.5: [1, 2]}),
}
COLUMNS = {"left": "a", "right": "b", "winner": "w", "user": "u"}
TABLE = pd.DataFrame({"a": ["x", "y"], "b": ["y", "x"], "w": ["x", "x"], "u": ["p", "q"]})
JOB = COLUMNS | {"items": ["x", "y"], "epsilon": 1.0, "max_contributions": 20}
SURVEY = """
name: arena
input: {{kind: comparisons, paths: [answers.csv], columns: {columns}}}
items: {{names: [x, y]}}
privacy: {{unit: user, epsilon: 1.0, max_contributions: 20}}
ledger: {{path: ledger.jsonl, epsilon: 1.0}}
method: auto
output: out
confidential: work
"""
# A call that is right, for each function; what stands alone takes its only argument from the test.
CALLS: dict[str, dict[str, Any]] = {
    "rank": {"answers": TABLE, "ledger": "l.jsonl", "name": "arena", **JOB},
    "run": {"survey": "survey.yaml", "unsafe": False},
    "plan": {"people": 20, "epsilons": [1.0], "target": "top=0.9", **JOB},
    "inspect": {"answers": TABLE, **JOB},
    "estimate": {"matrices": "pairs.csv"},
    "pool": {},
    "next_pairs": {"release": "out"},
    "board": {"out": "site"},
    "privatize": {"answers": TABLE, "epsilon": 1.0, **COLUMNS},
    "read_release": {},
    "history": {},
    "Ledger.__init__": {"path": "none.jsonl"},
    "Ledger.terms_for": {},
    "Release.__init__": {"record": Record.model_construct(), "folder": Path("x")},
    "Release.of": {},
    "Release.rank_for": {"features": {"age": 1}},
    "Release.drift_from": {},
    "Release.report": {},
    "Report.__init__": {"path": Path("x"), "html": "x"},
    "History.__init__": {"releases": ()},
    "Table.__init__": {},
    "Plan.__init__": {},
    "Inspection.__init__": {  # what is no look is refused, whatever the others are
        "config": SurveyConfig.model_construct(),
        "night": None,
        "found": Look.__new__(Look),
    },
}
# What a message calls an argument instead, or what it names first.
FURTHER_NAMES = {
    **{"answers": ("the table",), "two_towers": ("features",)},
    **dict.fromkeys(("out", "url"), ("sources",)),  # there are none
    **dict.fromkeys(("more", "top"), ("out: cannot be read",)),  # of the release
}


class Reached(Exception):  # noqa: N818
    """The arguments were taken, and the work would begin."""


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in hushrank.__all__:
        value = getattr(hushrank, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value) and not issubclass(value, Exception):
            for member in vars(value):
                method = inspect.unwrap(getattr(value, member))
                public = member == "__init__" or not member.startswith("_")
                if public and inspect.isroutine(method) and len(keywords_of(method)):
                    yield f"{name}.{member}", getattr(value, member)


def keywords_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Keyword -> annotation."""
    function = inspect.unwrap(function)
    function = getattr(function, "__func__", function)
    kinds = get_type_hints(function)
    kinds.pop("return", None)
    if any(get_args(kind) == (Keywords,) for kind in kinds.values()):
        del kinds["asked"]
        kinds |= {name: kind | None for name, kind in get_type_hints(Keywords).items()}
    return kinds


FUNCTIONS = dict(public_functions())
KEYWORDS = [(name, word) for name, each in FUNCTIONS.items() for word in keywords_of(each)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the calls, where reading rows ends the call."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "survey.yaml").write_text(SURVEY.format(columns=COLUMNS).replace("'", ""))
    (tmp_path / "answers.csv").write_text("a,b,w,u\nx,y,x,p\n")
    (tmp_path / "pairs.csv").write_text("left,right,left_wins,right_wins\nx,y,60,40\n")
    for place in (
        "run.running",
        "planning.held",
        "planning.inspect_job",
        "planning.Inspection.show",
    ):
        monkeypatch.setattr(f"hushrank.flows.interfaces.python.{place}", reached)
    monkeypatch.setattr("hushrank.flows.planning.plan.plan.accuracy_of", reached)
    monkeypatch.setattr(Look, "rows", property(reached), raising=False)
    return tmp_path


def reached(*_: Any, **__: Any) -> Any:
    raise Reached


def called(name: str, word: str, value: object) -> HushrankError | None:
    """The refusal of a call with one argument changed; None: it was taken."""
    function, asked = FUNCTIONS[name], {**CALLS[name], word: value}
    parameters = inspect.signature(function).parameters
    is_starred = word in parameters and parameters[word].kind is inspect.Parameter.VAR_POSITIONAL
    given = [asked.pop(word)] if is_starred else []
    if name.endswith("__init__"):
        home = getattr(hushrank, name.partition(".")[0])
        function = home
    elif name.startswith("Release."):
        release = Record.model_construct(name="arena", personal=None, scale="log-odds")
        function = getattr(hushrank.Release(release, Path("x")), name.partition(".")[2])
    elif name.startswith("Ledger."):
        function = getattr(hushrank.Ledger("none.jsonl"), name.partition(".")[2])
    try:
        function(*given, **asked)
    except HushrankError as error:
        return error
    except Reached:
        return None
    return None


@pytest.mark.parametrize(("name", "word"), KEYWORDS, ids=[f"{a}-{b}" for a, b in KEYWORDS])
def test_no_value_gets_past_the_gate_but_one_that_fits(name, word, folder):
    before = sorted(folder.rglob("*"))
    kind = keywords_of(FUNCTIONS[name])[word]
    for label, value in (FIT_NOWHERE | FIT_SOMEWHERE).items():
        if value is None and (NoneType in get_args(kind) or kind is Any):
            continue
        error = called(name, word, value)
        if error is None:
            assert label in FIT_SOMEWHERE or kind is Any, label
            for new in set(folder.rglob("*")) - set(before):
                new.unlink()
            continue
        text = str(error)
        assert any(each in text for each in told_by(word, value)), (label, text)
        assert len(text) <= MOST_CHARACTERS, label
        assert len(text.splitlines()) <= MOST_LINES, label
        assert "a cell of the table" not in text
        assert sorted(folder.rglob("*")) == before, label


def told_by(word: str, value: object) -> list[str]:
    """What a refusal may name: the keyword, a key of a section, or a path that does not exist."""
    if type(value) is dict:
        return [word, *FURTHER_NAMES.get(word, ()), *(str(key)[:10] for key in value)]
    if isinstance(value, str | Path):
        return [word, *FURTHER_NAMES.get(word, ()), str(value)[:10]]
    return [word, *FURTHER_NAMES.get(word, ())]
