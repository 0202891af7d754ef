"""The reference of the YAML file holds every key of the models, with what they really demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from typer.testing import CliRunner

from hushrank.flows.config.reference import (
    KeyReference,
    SectionReference,
    config_reference,
    sections_of,
)
from hushrank.flows.config.section import Section
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.interfaces.cli.main import app
from hushrank.flows.methods.registry import facts_of_methods

SECTIONS, METHODS = list(sections_of()), facts_of_methods()


class Inner(Section):
    """What is inside.

    Attributes:
        size, weight: how much; None: no bound.
        kind: here | there.
    """

    size: Annotated[int, Field(ge=2)] | None = None
    weight: float = Field(default=0.5, gt=0, lt=1, allow_inf_nan=False, examples=["0.25"])
    kind: Literal["a", "b"] = "a"


class Outer(Section):
    """All of it.

    More words.

    Attributes:
        names: of everybody,
            one each
    """

    names: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    inner: Inner = Field(default_factory=Inner)
    silent: bool = False


def test_every_key_of_the_models_is_in_the_reference():
    """Against the JSON schema, which pydantic makes and not this project."""
    schema = TypeAdapter(SurveyConfig).json_schema()
    defined = {
        name: part["properties"] for name, part in schema["$defs"].items() if "properties" in part
    }
    known = {frozenset(key.name for key in section.keys) for section in SECTIONS}
    assert {frozenset(properties) for properties in defined.values()} <= known
    assert frozenset(schema["properties"]) in known
    assert len(defined) > 10


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_every_key_says_what_it_means(section: SectionReference):
    assert section.summary.endswith(".")
    assert [key.name for key in section.keys if not key.meaning.endswith(".")] == []
    assert len({key.name for key in section.keys}) == len(section.keys)


def test_sections_have_their_dotted_names_and_kinds():
    names = {(section.name, section.kind) for section in SECTIONS}
    assert {("", None), ("privacy", None), ("input", "comparisons")} <= names
    assert ("input.columns", "responses") in names


def test_a_key_is_described_by_its_model():
    outer, inner = sections_of(Outer)
    assert outer.summary == "All of it."
    assert outer.keys[0] == KeyReference(
        name="names",
        type="list: text",
        required=True,
        default="none",
        rule="not empty",
        meaning="Of everybody, one each.",
        example=None,
    )
    assert (outer.keys[1].type, outer.keys[1].default) == ("section", "its defaults")
    assert outer.keys[2].meaning == ""  # which the test above finds
    size, weight, kind = inner.keys
    assert (size.default, size.rule, size.meaning) == (
        "none",
        "≥ 2",
        "How much; left out: no bound.",
    )
    assert (weight.default, weight.rule) == ("`0.5`", "> 0, < 1, finite")
    assert (weight.meaning, weight.example) == (size.meaning, "0.25")
    assert (kind.type, kind.default) == ("`a` or `b`", "`a`")


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_required_keys_are_those_without_which_the_model_refuses(section: SectionReference):
    model = model_of(section)
    with pytest.raises(ValidationError) as refused:
        model.model_validate({"unknown": 0})
    missing = {
        problem["loc"][0] for problem in refused.value.errors() if problem["type"] == "missing"
    }
    assert {key.name for key in section.keys if key.required} == missing


def model_of(section: SectionReference) -> type[BaseModel]:
    """The model with exactly the keys of `section`."""
    wanted = [key.name for key in section.keys]
    models = [SurveyConfig, *descendants(Section)]
    return next(model for model in models if list(model.model_fields) == wanted)


def descendants(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in model.__subclasses__():
        yield each
        yield from descendants(each)


def test_bars_do_not_break_the_tables():
    lines = [line for line in config_reference(METHODS).splitlines() if line.startswith("|")]
    assert len(lines) == sum(len(section.keys) + 2 for section in SECTIONS) + len(METHODS) + 2
    assert {line.count("|") for line in lines} == {4}


def test_the_command_prints_it():
    printed = CliRunner().invoke(app, ["reference"])
    assert printed.exit_code == 0
    assert printed.stdout == config_reference(METHODS)
