"""The verifier's list of fields is that of the code which writes them, in both directions."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.methods.registry import facts_of_methods
from hushrank.flows.release.provenance import LIBRARIES
from hushrank.flows.release.release import Release, schema
from hushrank.flows.release.released import ReleasedRecord, all_records
from hushrank.flows.release.scale import UNITS
from hushrank.flows.trust.certificate.build import (
    BOUNDED,
    BUDGET_BEFORE,
    FAILS,
    LEDGER_NOT_PROVED,
    LOCAL_NOT_PROVED,
    NIGHTS_BEFORE,
    NOT_PROVED,
    ONE_LINE,
    OWN_BYTES,
    POST_PROCESSING,
    ROW_RULES,
    SET_ASIDE,
    SPANS_LINES,
    WEIGHED,
)
from hushrank.flows.trust.certificate.model import Certificate
from hushrank.privacy.randomness import BitSource, Purpose
from hushrank.verifier import verify_release as verifier

LEFT_OUT = {"paths"}  # of the settings: they may name what is private
FROM_ITEMS = {"first_code"}  # a key of section items that says how rows are read


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that a field may hold, in whatever collection."""
    if annotation is ReleasedRecord:
        return [*all_records().values()]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Literal, None):
        return []
    inner = get_args(annotation)
    if get_origin(annotation) is Annotated:
        inner = inner[:1]
    return [model for each in inner for model in models_in(each)]


def forms_in(form: str) -> list[str]:
    """The objects that a form names."""
    inner = form.rstrip("~").strip("[]{}").split("*")[0].strip("[]{}~")
    inner = inner.removeprefix("item:")
    return [inner] if inner in verifier.FORMS else []


def compare(model: type[BaseModel], form: str, seen: set[tuple[str, str]]) -> None:
    """That a model and a form have the same fields, and so have all that are inside."""
    if (model.__name__, form) in seen:
        return
    seen.add((model.__name__, form))
    fields = {name: field for name, field in model.model_fields.items() if not field.exclude}
    known = verifier.fields_of(form)
    further = FROM_ITEMS if set(fields) >= LEFT_OUT else set()
    assert set(fields) - LEFT_OUT | further == set(known), (model.__name__, form)
    for name, field in fields.items():
        if name in LEFT_OUT:
            continue
        inner, form_of_field = models_in(field.annotation), known[name][0]
        forms = forms_in(form_of_field)
        if len(inner) == 1 and forms:
            compare(inner[0], forms[0], seen)
        elif form_of_field.strip("[]~").startswith("<"):
            tag, _ = verifier.TAGGED[form_of_field.strip("[]~")]
            kinds = {kind: each for each in inner for kind in kinds_of(each, tag)}
            assert set(kinds) - {"other"} == verifier.TAGGED[form_of_field.strip("[]~")][1]
            for kind, each in kinds.items():
                if kind != "other":  # of a method from elsewhere, which nobody can verify
                    compare(each, kind, seen)
        if form_of_field.endswith("~"):
            nullable = {types.NoneType} & set(get_args(field.annotation))
            assert nullable or get_origin(field.annotation) not in (Union, types.UnionType), name


def kinds_of(model: type[BaseModel], tag: str) -> tuple[str, ...]:
    """The values of the field by which a model is known."""
    return get_args(model.model_fields[tag].annotation)


@pytest.mark.parametrize(
    ("model", "form"),
    [
        (Release, "release.json"),
        (Certificate, "certificate.json"),
        (InputConfig, "comparisons"),
        (RankingsConfig, "rankings"),
        (ResponsesConfig, "responses"),
    ],
)
def test_every_field_that_is_written_is_known_and_no_other(model, form):
    seen: set[tuple[str, str]] = set()
    if form in ("release.json", "certificate.json"):
        compare_documents(model, form, seen)
    else:
        compare(model, form, seen)


def compare_documents(model: type[BaseModel], form: str, seen: set[tuple[str, str]]) -> None:
    """A document, whose settings have models of their own and whose parameters have none."""
    settings = verifier.TAGGED.pop("<settings>")
    verifier.TAGGED["<settings>"] = (settings[0], set())
    try:
        compare(model, form, seen)
    finally:
        verifier.TAGGED["<settings>"] = settings


def test_words_and_names_that_are_written_are_known():
    rules = {*ROW_RULES.values(), ONE_LINE, SPANS_LINES, SET_ASIDE, FAILS, OWN_BYTES}
    rules |= {BOUNDED, WEIGHED}
    assert rules < {*verifier.RULES}
    assert {POST_PROCESSING, NIGHTS_BEFORE, BUDGET_BEFORE} == {*verifier.FREE_OF_COST}
    known = {*verifier.NOT_PROVED, verifier.IF_PRIVATISED, verifier.IF_COUNTED}
    assert {*NOT_PROVED, LOCAL_NOT_PROVED, LEDGER_NOT_PROVED} <= known
    assert set(verifier.fields_of("libraries")) == {*LIBRARIES}
    assert set(facts_of_methods()) == set(verifier.KIND_OF)
    assert set(verifier.fields_of("bits")) == {*map(str, Purpose)}
    assert all(verifier.SIMPLE["source"](str(each)) for each in BitSource)
    assert {str(scale): str(unit) for scale, unit in UNITS.items()} == verifier.UNIT_OF


def test_the_schema_of_releases_is_closed_and_published(checkout: Path):
    text = (checkout / "docs" / "release.schema.json").read_text()
    assert text == schema()
    found = json.loads(text)
    for described in (found, *found["$defs"].values()):
        if described.get("type") == "object":
            assert described["additionalProperties"] is False
