"""Messages for a YAML file that breaks rules: one line for each, `file: key: rule; fix`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, get_args

from pydantic import BaseModel, ValidationError
from pydantic.dataclasses import is_pydantic_dataclass
from pydantic_core import ErrorDetails, PydanticCustomError

from hushrank.flows.errors import ConfigError, Problem
from hushrank.transforms.common.plain_text import MOST_LINES, short

Location = tuple[str | int, ...]

_ADVICE = re.compile(r"\. (?P<fix>(Did you mean|Known here).*)", re.DOTALL)
TAG = "kind"  # the key that says which of several models a section follows
_RULES = "rules"  # the error type under which `refuse` passes problems through pydantic
_EXPECTED = {
    "string_type": "must be text",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "model_type": "must hold keys",
    "is_instance_of": "must be a path",
    "string_too_short": "must not be empty",
    "finite_number": "must be finite",
    "greater_than": "must be > {gt:.15g}",
    "greater_than_equal": "must be >= {ge:.15g}",
    "less_than": "must be < {lt:.15g}",
    "less_than_equal": "must be <= {le:.15g}",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
    "int_parsing_size": "must be a whole number of at most 64 bits",
    "string_too_long": "must be at most {max_length} characters",
}


def refuse(*problems: tuple[str, str]) -> NoReturn:
    """Fail the validation of a model, with problems of its keys.

    Args:
        problems: key below the model (dotted; empty: the model itself), and rule with fix.
    """
    raise PydanticCustomError(_RULES, "broken rules", {"problems": problems})


def problem_of_key(path: Path, key: str, text: str, line: int | None = None) -> Problem:
    """What breaks a rule at a key of a YAML file.

    Args:
        path: the file.
        key: dotted; empty: the file itself.
        text: rule and fix, with a semicolon between them.
        line: of the key, from 1.
    """
    rule, _, fix = text.partition("; ")
    if fix[:1].isupper():  # the sentence would change
        rule, fix = text, ""
    if advice := _ADVICE.search(rule):
        rule, fix = rule[: advice.start()], advice["fix"] + (f"; {fix}" if fix else "")
    return Problem(f"{path}: {key}" if key else f"{path}", rule, fix, line)


def config_error(
    path: Path, error: ValidationError, model: type[BaseModel], lines: Mapping[str, int]
) -> ConfigError:
    """All problems that `error` holds, in the words of this module.

    Args:
        path: the YAML file, as the person named it.
        error: raised by `model`.
        model: the root model, for its keys and their examples.
        lines: of the keys of the file, by their dotted names.
    """
    problems: dict[Problem, None] = {}
    more = set[Location]()  # places of problems that are only counted: a text costs a look at keys
    for details in error.errors(include_url=False):
        if len(problems) <= MOST_LINES:
            for key, text in _problems(details, model):
                line = lines.get(key, lines.get(key.partition("[")[0]))
                problems[problem_of_key(path, key, text, line)] = None
        else:
            more.add(details["loc"])
    told, many = list(problems), len(problems) + len(more)
    if many > MOST_LINES:
        told = told[: MOST_LINES - 1]
        told.append(
            Problem(f"{path}", f"{many - len(told)} more problems", "put these right first")
        )
    return ConfigError("", *told)


def _problems(details: ErrorDetails, model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    details["loc"] = _without_alternative(details["loc"], model)
    location = _without_tags(details["loc"], model)
    if details["type"] == _RULES:
        for key, text in details["ctx"]["problems"]:
            yield _dotted((*location, key) if key else location), text
    elif not (details["type"] == "too_short" and details["input"]):  # else its entries are reported
        yield from _worded(details, location, model)


def _worded(
    details: ErrorDetails, location: Location, model: type[BaseModel]
) -> Iterator[tuple[str, str]]:
    kind = details["type"]
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        tags = [kind_of(each) for each in nested_models(_annotation(location, model))]
        location = (*location, TAG)
        if kind == "union_tag_not_found":
            yield _dotted(location), f"missing; add for example {TAG}: {tags[0]}"
            return
        found = details["ctx"]["tag"]
        close = difflib.get_close_matches(found, tags, n=1)
        advice = f". Did you mean {close[0]}?" if close else ""
        yield _dotted(location), f"must be {' or '.join(tags)}, got {_shown(found)}{advice}"
    else:
        yield _dotted(location), _problem(details, details["loc"], model)


def _problem(details: ErrorDetails, location: Location, model: type[BaseModel]) -> str:
    kind = details["type"]
    if kind in ("extra_forbidden", "invalid_key"):
        return f"unknown key. {_advice_on_key(location, model)}"
    example = _example(location, model)
    if kind == "missing":
        return f"missing; add for example {example}" if example else "missing"
    if kind == "too_short":
        return f"is empty; write for example {example}"
    rule = details["msg"]  # pydantic's own words, in which braces may be a pattern's
    if kind in _EXPECTED:
        rule = _EXPECTED[kind].format(**details.get("ctx", {}))
    rule = rule.replace("'", "")
    return f"{rule}, got {_shown(details['input'])}{_fix(details, example)}"


def _fix(details: ErrorDetails, example: str | None) -> str:
    expected = details.get("ctx", {}).get("expected")
    if expected is not None:
        known = str(expected).replace("'", "").replace(" or ", ", ").split(", ")
        close = difflib.get_close_matches(str(details["input"]), known, n=1)
        return f". Did you mean {close[0]}?" if close else ""
    if details["type"] == "string_type" and example is None:
        return "; put it in quotes"
    return f"; write for example {example}" if example else ""


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "keys" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return str(value).lower()
    return short(repr(value))


def _advice_on_key(location: Location, model: type[BaseModel]) -> str:
    """The key that was meant: a similar one beside it, or the same one in another place."""
    key = str(location[-1])
    siblings = list(_model_at(location[:-1], model).model_fields)
    close = difflib.get_close_matches(key, siblings, n=1)
    if close:
        return f"Did you mean {close[0]}?"
    here = _dotted(_without_tags(location, model))  # another kind of this section may have the key
    elsewhere = [
        name for name in _dotted_keys(model, "") if name.rpartition(".")[2] == key and name != here
    ]
    if elsewhere:
        return f"Did you mean {min(elsewhere, key=lambda name: name.count('.'))}?"
    return f"Known here: {', '.join(siblings)}."


def _dotted_keys(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for key, field in model.model_fields.items():
        yield f"{prefix}{key}"
        for nested in nested_models(field.annotation):
            yield from _dotted_keys(nested, f"{prefix}{key}.")


def _model_at(location: Location, model: type[BaseModel]) -> type[BaseModel]:
    """The model that a location leads to; the tag decides in a section that has kinds."""
    parts = iter(location)
    for part in parts:
        if isinstance(part, int):  # an entry of a list of sections
            continue
        nested = nested_models(model.model_fields[str(part)].annotation)
        if not nested:
            raise KeyError(part)
        tag = next(parts, None) if len(nested) > 1 else None
        model = next(
            (each for each in nested if tag is not None and kind_of(each) == tag), nested[0]
        )
    return model


def _without_tags(location: Location, model: type[BaseModel]) -> Location:
    """The location as in the file, without the tag that pydantic adds in sections with kinds."""
    for place, part in enumerate(location[:-1]):
        nested = nested_models(_annotation((part,), model)) if isinstance(part, str) else []
        if not nested:
            break
        if len(nested) > 1:
            return (*location[: place + 1], *location[place + 2 :])
        (model,) = nested
    return location


def _without_alternative(location: Location, model: type[BaseModel]) -> Location:
    """The location of the key, without the type that pydantic adds for a key of several types."""
    try:
        if isinstance(location[-1], str):
            _model_at(location[:-1], model)
    except (KeyError, IndexError):
        return location[:-1]
    return location


def _annotation(location: Location, model: type[BaseModel]) -> Any:
    """Type of the key at the end of `location`."""
    return _model_at(location[:-1], model).model_fields[str(location[-1])].annotation


def nested_models(annotation: Any) -> list[type[BaseModel]]:
    """The models that a key may hold; several where their `kind` tells them apart.

    A dataclass of pydantic, which documents have, counts as a model.
    """
    candidates: tuple[Any, ...] = (annotation, *get_args(annotation))
    return [
        each
        for each in candidates
        if isinstance(each, type)
        and (issubclass(each, BaseModel) or bool(is_pydantic_dataclass(each)))
    ]


def kind_of(model: type[BaseModel]) -> str:
    """The value of `kind` that selects `model` among the kinds of a section."""
    (tag,) = get_args(model.model_fields[TAG].annotation)
    return str(tag)


def _example(location: Location, model: type[BaseModel]) -> str | None:
    """`key: value` as it may stand in the file; None for an entry of a list."""
    if not location or isinstance(location[-1], int):
        return None
    examples = _model_at(location[:-1], model).model_fields[location[-1]].examples
    return f"{location[-1]}: {examples[0]}" if examples else None


def _dotted(location: Location) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{short(part)}" for part in location)
    text = "".join(parts)
    return text.removeprefix(".")
