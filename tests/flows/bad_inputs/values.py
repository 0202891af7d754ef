"""Bad values of every key of the YAML file: each key of the models with each value that it refuses.

The keys come from the models, so that a new key is in the corpus as soon as it exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.config.yaml_file import nested_models
from tests.flows.bad_inputs.case import COMPARISONS, ITEMS, Case, Literal, changed, job

RESPONSES = changed(
    COMPARISONS,
    {
        "input": {
            "kind": "responses",
            "paths": ["answers.csv"],
            "columns": {"user": "user", "item": "left", "correct": "outcome"},
        },
        "method": "spectral",
    },
)
RANKINGS = changed(
    COMPARISONS,
    {
        "input": {
            "kind": "rankings",
            "paths": ["answers.csv"],
            "columns": {"user": "user", "item": "left", "rank": "outcome"},
        },
        "privacy": {"unit": "local", "epsilon": 2.0, "mechanism": "mallows"},
        "method": "borda",
    },
)
PERTURBED = changed(
    COMPARISONS, {"method": "perturbed-mle", "model": {"expected_comparisons": 500}}
)
FLINK = changed(COMPARISONS, {"runner": {"kind": "flink", "job_server": "localhost:8099"}})
DATAFLOW = changed(
    COMPARISONS,
    {
        "runner": {
            "kind": "dataflow",
            "project": "p",
            "region": "r",
            "temp_location": "gs://bucket/tmp",
            "image": "example.org/h:1",
        }
    },
)
BASES = {
    "comparisons": (
        COMPARISONS,
        ("", "items", "privacy", "ledger", "schedule", "observability", "retention"),
    ),
    "input": (COMPARISONS, ("input", "input.columns")),
    "perturbed": (PERTURBED, ("model",)),
    "responses": (RESPONSES, ("input", "input.columns", "spectral")),
    "rankings": (RANKINGS, ("input", "input.columns", "privacy")),
    "flink": (FLINK, ("runner",)),
    "dataflow": (DATAFLOW, ("runner",)),
}
# What no key takes.
NOWHERE = {
    "tag": Literal("!!int abc"),
    "object": Literal("!!python/object:os.system x"),
    "400-digits": Literal("1" + "0" * 400),
    "5000-digits": Literal("9" * 5000),
    "65-bits": Literal("18446744073709551616"),
    "escape": Literal('"a\\e[31mb"'),
    "surrogate": Literal('"\\ud800"'),
    "nul": Literal('"a\\0b"'),
    "nested": Literal("[[[[1]]]]"),
    "deep": Literal("[" * 3000 + "]" * 3000),
    "unknown-alias": Literal("*nobody"),
    "binary": Literal("!!binary aGVsbG8="),
}
MAY_BE_EMPTY = ("ledger.alerts", "ledger.other_people")
TEXT = {"number": 1.5, "section": {"a": 1}, "list": [[1]], "true": True, "empty": ""}
NUMBER = {
    "text": "many",
    "negative": -1,
    "huge": Literal("1.0e308"),
    "tiny-negative": Literal("-1.0e-320"),
    "section": {"a": 1},
    "list": [1],
    "nan": Literal(".nan"),
    "minus-infinity": Literal("-.inf"),
    "overflow": Literal("1.0e999"),
    "true": True,
}
TINY = {"tiny": Literal("1.0e-320"), "zero": 0}
YES_OR_NO = {"text": "perhaps", "number": 2, "list": [True], "section": {"a": 1}}
SECTION = {"text": "many", "number": 2, "list": [1], "unknown": {"aa": 1, "bb": 2}}
LIST = {"number": 1.5, "section": {"a": 1}, "nested": [[1]], "nulls": [None], "true": True}
LONG = "x" * 5000


def value_cases() -> Iterator[Case]:
    """Every key with every value that it must refuse."""
    for base, (settings, sections) in BASES.items():
        for dotted, annotation in _keys(SurveyConfig, "", settings):
            section, _, key = dotted.rpartition(".")
            if section in sections and dotted != "schedule.partition":
                for name, value in _refused_by(dotted, annotation).items():
                    changes = {dotted: value}
                    yield Case(
                        f"value-{base}",
                        f"{dotted}-{name}",
                        job(changed(settings, changes)),
                        says="line " if name in NOWHERE and name != "nested" else key,
                    )


def _keys(
    model: type[BaseModel], prefix: str, settings: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    for key, field in model.model_fields.items():
        if key == "kind":
            continue
        yield f"{prefix}{key}", field.annotation
        inside = settings.get(key)
        nested = nested_models(field.annotation)
        kind = inside.get("kind") if isinstance(inside, dict) else None
        for each in nested:
            if len(nested) == 1 or kind in get_args(each.model_fields["kind"].annotation):
                yield from _keys(
                    each, f"{prefix}{key}.", inside if isinstance(inside, dict) else {}
                )


def _refused_by(dotted: str, annotation: Any) -> dict[str, Any]:
    leaves = _leaves(annotation)
    if nested_models(annotation):
        values: dict[str, Any] = {**SECTION}
        if dotted == "runner":
            del values["text"], values["unknown"]
            values["unknown-kind"] = "hadoop"
    elif tuple in leaves or any(str(each).startswith("tuple") for each in leaves):
        values = {**LIST, "empty": []} if dotted not in MAY_BE_EMPTY else {**LIST}
    elif bool in leaves:
        values = {**YES_OR_NO}
    elif float in leaves:
        values = {**NUMBER, **TINY}
        if dotted in ("privacy.delta", "ledger.delta"):
            del values["zero"]
        elif dotted in ("runner.max_hours",):
            del values["tiny"]
    elif int in leaves:
        values = {**NUMBER, "fraction": 1.5, "zero": 0, "63-bits": 2**63 - 1}
        if dotted == "schedule.catch_up_days" or dotted.startswith("retention."):
            del values["zero"]
        if dotted == "memory_limit":
            values["letters"] = "2 GiG"
            values["digits"] = "9" * 400 + " GiB"
    else:
        values = {**TEXT, "long": LONG}
        if dotted in ("observability.log_format", "method", "name", "schedule.timezone"):
            values["word"] = "No such thing"
        if dotted == "input.contest":
            del values["long"]
    return {**values, **NOWHERE}


def _leaves(annotation: Any) -> set[Any]:
    inner = get_args(annotation)
    if not inner or str(annotation).startswith("tuple"):
        return {annotation}
    return {leaf for each in inner for leaf in _leaves(each)}


PAIRS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("output-in-confidential", {"output": "work/out"}, "confidential"),
    ("ledger-in-output", {"ledger.path": "out/ledger.jsonl"}, "ledger.path"),
    ("ledger-in-confidential", {"ledger.path": "work/ledger.jsonl"}, "ledger.path"),
    ("no-items", {"items": {}}, "items"),
    ("one-item", {"items.names": ["ants"]}, "items"),
    ("same-item-twice", {"items.names": ["ants", " ants"]}, "ants"),
    ("both-item-forms", {"items": {"names": ITEMS, "count": 4}}, "items"),
    ("hidden-item", {"items.names": ["ants", Literal('"be\\nes"')]}, "nobody sees"),
    ("turned-item", {"items.names": ["ants", Literal('"\\u202ebees"')]}, "nobody sees"),
    ("long-item", {"items.names": ["ants", "b" * 5000]}, "shorten"),
    ("both-rho-and-epsilon", {"privacy.rho": 0.1, "privacy.noise": "gaussian"}, "rho"),
    ("gaussian-without-delta", {"privacy.noise": "gaussian"}, "delta"),
    ("laplace-with-delta", {"privacy.delta": 1e-6}, "delta"),
    ("no-bound", {"privacy.max_contributions": None}, "max_contributions"),
    ("top-k-of-all", {"top_k": 4}, "top_k"),
    ("local-method", {"method": "debiased-rr"}, "method"),
    ("epsilon-infinity", {"privacy.epsilon": "inf"}, "inf"),
    ("two-nights-one-file", {"input.paths": ["{date:%m}.csv"]}, "paths"),
    ("date-unclosed", {"input.paths": ["{date.csv"]}, "paths"),
    ("night-without-date", {"schedule": {"partition": "date"}}, "--date"),
    ("epoch-alone", {"schedule": {"epoch": "ms"}}, "epoch"),
    ("tiny-rho", {"privacy": {"unit": "comparison", "noise": "gaussian", "rho": 1e-300}}, "rho"),
    ("huge-rho", {"privacy": {"unit": "comparison", "noise": "gaussian", "rho": 1e300}}, "rho"),
    (
        "tiny-delta",
        {"privacy": {"unit": "comparison", "noise": "gaussian", "epsilon": 1, "delta": 1e-320}},
        "delta",
    ),
)


def pair_cases() -> Iterator[Case]:
    """Keys that do not go together."""
    for name, changes, says in PAIRS:
        yield Case("together", name, job(changed(COMPARISONS, changes)), says=says)
    for column in ("user", "left", "right", "outcome"):
        for name, value in {"absent": "nowhere", "of-another": "left", "long": LONG}.items():
            if (column, value) != ("left", "left"):
                changes = {f"input.columns.{column}": value}
                if (column, value) == ("right", "left"):
                    changes["input.columns.left"] = "left"
                settings = changed(COMPARISONS, changes)
                yield Case("column", f"{column}-{name}", job(settings), says="column")
