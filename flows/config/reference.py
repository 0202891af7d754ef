"""Reference of the YAML file: every key, taken from the models that check the configuration.

Types, defaults and bounds come from the models. The meaning of a key comes from the `Attributes`
section of its model's docstring.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hushrank.flows.config.method import Methods
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.config.yaml_file import TAG, kind_of, nested_models
from hushrank.transforms.storage.places import CloudPath

_TYPES = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "`true` or `false`",
    Path: "path",
    CloudPath: "`gs://` path",
    Any: "any value",
    date: "date",
    datetime: "time",
}
_ATTRIBUTE = re.compile(r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", flags=re.MULTILINE)
_BOUNDS = {"gt": "> {:.15g}", "ge": "≥ {:.15g}", "lt": "< {:.15g}", "le": "≤ {:.15g}"}

METHOD = ("", "method")  # section and key that names a method


@dataclass(frozen=True, slots=True)
class KeyReference:
    """One key of the file.

    Attributes:
        name: name of the key in the file, without its section.
        type: the type of its value.
        required: whether it must be given.
        default: value of the key if it is left out.
        rule: bounds of the value alone; may be empty.
        meaning: effect of the key, with the rules between it and other keys.
        example: a value that may stand in the file; None: no example is given.
    """

    name: str
    type: str
    required: bool
    default: str
    rule: str
    meaning: str
    example: str | None


@dataclass(frozen=True, slots=True)
class SectionReference:
    """The keys of one section.

    Attributes:
        name: dotted place in the file; empty for the top.
        kind: value of the key `kind` for which the section looks like this; None: always.
        summary: subject of the section.
        keys: keys in the order of the model.
    """

    name: str
    kind: str | None
    summary: str
    keys: tuple[KeyReference, ...]

    @property
    def title(self) -> str:
        """Heading in Markdown."""
        name = f"`{self.name}`" if self.name else "Top of the file"
        return f"{name}, kind `{self.kind}`" if self.kind else name


def sections_of(
    model: type[BaseModel] = SurveyConfig, name: str = "", kind: str | None = None
) -> Iterator[SectionReference]:
    """Yield the section of `model` and the sections inside it, each before its own subsections.

    Args:
        model: model of a section.
        name: dotted place of the section in the file.
        kind: see `SectionReference`.
    """
    summary, meanings = documented(model)
    keys = tuple(
        _key(key, field, meanings.get(key, field.description or ""))
        for key, field in model.__pydantic_fields__.items()
    )
    yield SectionReference(name, kind, summary, keys)
    for key, field in model.__pydantic_fields__.items():  # also the fields of a dataclass
        nested = nested_models(field.annotation)
        for section in nested:
            inner_kind = kind_of(section) if len(nested) > 1 else kind
            yield from sections_of(section, f"{name}.{key}".removeprefix("."), inner_kind)


def documented(model: type[BaseModel]) -> tuple[str, dict[str, str]]:
    """First paragraph of a model's docstring, and the text for each name in its `Attributes`.

    A model that extends another one only documents what it adds.
    """
    meanings: dict[str, str] = {}
    for each in reversed(model.__mro__):
        _, _, attributes = inspect.cleandoc(each.__doc__ or "").partition("\nAttributes:\n")
        for names, text in _ATTRIBUTE.findall(attributes.partition("\n\n")[0]):
            worded = re.sub(r"\bNone\b", "left out", " ".join(text.split()))
            meanings |= dict.fromkeys(names.split(", "), worded)
    summary, _, _ = inspect.cleandoc(model.__doc__ or "").partition("\n\n")
    return " ".join(summary.split()), meanings


def config_reference(methods: Methods) -> str:
    """Build the reference in Markdown: a table for each section, and a table of methods."""
    sections = [line for section in sections_of() for line in _section_lines(section, methods)]
    return "\n".join((*sections, *_method_lines(methods)))


def _method_lines(methods: Methods) -> Iterator[str]:
    yield from ("## Methods", "")
    yield "What each `method` takes, and which of the keys that not every method uses."
    yield from ("", "| method | takes | meaning |", "|---|---|---|")
    for name, each in methods.items():
        takes = f"`{each.kind}`; unit {_choice([unit.value for unit in each.units])}"
        words = f"{each.summary[:1].upper()}{each.summary[1:]}."
        if each.baseline:
            words += " A baseline, for comparison."
        if each.requires:
            words += f" Requires {_listed(each.requires)}."
        if each.reads:
            words += f" Uses {_listed(each.reads)}."
        yield f"| `{name}` | {takes} | {words} |"
    yield ""


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(f"`{key}`" for key in sorted(keys))


def _section_lines(section: SectionReference, methods: Methods) -> Iterator[str]:
    yield from (f"## {section.title}", "", section.summary, "")
    yield "| key | value | meaning |"
    yield "|---|---|---|"
    for key in section.keys:
        required = "**required**" if key.required else f"default: {key.default}"
        kind = _choice(list(methods)) if (section.name, key.name) == METHOD else key.type
        value = "; ".join(part for part in (kind, key.rule, required) if part)
        example = f" Example: `{key.name}: {key.example}`" if key.example else ""
        cells = (f"`{key.name}`", value, f"{key.meaning}{example}")
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
    yield ""


def _key(name: str, field: FieldInfo, meaning: str) -> KeyReference:
    sentence = meaning[:1].upper() + meaning[1:]
    if name == TAG and not sentence:
        sentence = "Decides which other keys the section has"
    if sentence and not sentence.endswith("."):
        sentence += "."
    return KeyReference(
        name=name,
        type=_type(field.annotation),
        required=field.is_required(),
        default=_default(field),
        rule=", ".join(dict.fromkeys(_rules(field))),
        meaning=sentence,
        example=str(field.examples[0]) if field.examples else None,
    )


def _type(annotation: Any) -> str:
    if nested_models(annotation):
        return "section"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(_type(each) for each in arguments if each is not type(None))
    if origin is Literal:
        return _choice([str(each) for each in arguments])
    if origin is dict:
        return f"map: {' to '.join(map(_type, arguments))}"
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return f"list: {_type(arguments[0])}"
        return f"list of {len(arguments)}: {_type(arguments[0])}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _choice([str(member.value) for member in annotation])
    return _TYPES[annotation]


def _choice(values: list[str]) -> str:
    quoted = [f"`{value}`" for value in values]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else quoted[0]


def _default(field: FieldInfo) -> str:
    value = None if field.is_required() else field.get_default(call_default_factory=True)
    if value is None or value == ():
        return "none"
    if isinstance(value, BaseModel):
        return "its defaults"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _rules(constrained: Any) -> Iterator[str]:
    """Yield the bounds of a field or an annotated type in words, including those of inner types."""
    for constraint in getattr(constrained, "metadata", ()):
        for name, words in _BOUNDS.items():
            if (bound := getattr(constraint, name, None)) is not None:
                yield words.format(bound)
        if getattr(constraint, "allow_inf_nan", None) is False:
            yield "finite"
        if getattr(constraint, "min_length", None):
            yield "not empty"
        if pattern := getattr(constraint, "pattern", None):
            yield f"matches `{pattern}`"
        yield from _rules(constraint) if getattr(constraint, "metadata", None) else ()
    annotation = getattr(constrained, "annotation", constrained)
    for inner in get_args(annotation):
        if get_origin(inner) is Annotated or get_args(inner):
            yield from _rules(_Constrained(inner))


class _Constrained:
    """Inner type with its annotations."""

    def __init__(self, annotation: Any) -> None:
        annotated = get_origin(annotation) is Annotated
        self.metadata = get_args(annotation)[1:] if annotated else ()
        self.annotation = get_args(annotation)[0] if annotated else annotation
