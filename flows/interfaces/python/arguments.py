"""Check of each argument of a public function before the function begins.

What may be passed follows from the annotation of its keyword. What fits is handed on in plain types
of Python, without subclasses: a scalar of numpy or Arrow as the value that it holds, a path as
text, a table of items as a list. So nothing behind the gate meets an object of the caller's own
class, which may raise anything when it is asked for its length, its text or whether it is true.

No message shows a value, because a caller who mistakes a keyword may pass a cell of the table.

An error is one sentence, without the traceback of hushrank's own code.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cache, wraps
from inspect import Parameter, Signature, cleandoc, signature
from types import GenericAlias, NoneType, UnionType
from typing import Any, ForwardRef, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa

from hushrank.flows.errors import (
    ConfigError,
    HushrankError,
    notes_of,
    problem_of_machine,
    refusal_of,
)
from hushrank.transforms.storage.places import CloudPath, is_cloud

MOST_BITS = 1024  # most bits of a whole number; a larger one has no float
MOST_NESTED = 32  # deepest nesting of lists and dicts; a list that contains itself stops here
_WORDS: dict[Any, str] = {
    str: "text",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    date: "a date without a time",
    NoneType: "None",
    os.PathLike: "a path",
    Iterable: "a list",
    Mapping: "a dict",
}


class _Unfit(Exception):  # noqa: N818 - another alternative of the annotation may fit
    """Error of a value without a plain form, or without one that the annotation allows."""


def check_arguments(
    function: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call in plain types.

    A keyword that the function does not have, or one too many, is left as it is: the call refuses
    it.

    Args:
        function: its annotations say what each argument may be; those of a `TypedDict` in `Unpack`
            allow None too, which means that the keyword is not given.
        given: the arguments by position.
        named: the arguments by keyword.

    Raises:
        ConfigError: a value does not fit; the text names the keyword.
    """
    places, rest, kinds = _kinds_of(function)
    names = [*places, *[rest] * (len(given) - len(places))]
    return (
        [_checked(name, value, kinds) for name, value in zip(names, given, strict=False)],
        {name: _checked(name, value, kinds) for name, value in named.items()},
    )


def plain_argument(name: str, value: object, annotation: Any) -> Any:
    """Return one value in the plain type that its annotation allows.

    Args:
        name: the keyword, for the message.
        value: value that the caller passed.
        annotation: a type, or a union of types.

    Raises:
        ConfigError: the value does not fit.
    """
    kinds = list(_alternatives(annotation))
    if Any in kinds:
        return value
    if any(_kind(each) is os.PathLike for each in kinds):
        # a path may be text, so text is checked as a path
        kinds = [each for each in kinds if each is not str]
    if type(value) in (set, frozenset) and any(_kind(each) is Iterable for each in kinds):
        raise ConfigError(
            f"{name}: a set has no order, so the same call would be another job tomorrow. Write"
            f" sorted({name}), or a list."
        )
    for each in kinds:
        try:
            return _fitted(name, value, each)
        except _Unfit:
            continue
    words = dict.fromkeys(_words(each) for each in kinds if each is not NoneType)
    wanted = " or ".join(words)
    raise ConfigError(f"{name}: must be {wanted}, got {_what(value)}. Nothing was read or spent.")


@cache
def _kinds_of(function: Callable[..., Any]) -> tuple[list[str], str, dict[str, Any]]:
    """Return the names of positional arguments, the name of `*args`, and each keyword's
    annotation."""
    kinds = get_type_hints(function)
    places, rest = [], ""
    for each in signature(function).parameters.values():
        if each.kind is Parameter.VAR_KEYWORD:
            kinds.pop(each.name, None)
            if keywords := _keywords_of(function):
                kinds |= {name: kind | None for name, kind in get_type_hints(keywords).items()}
        elif each.kind is Parameter.VAR_POSITIONAL:
            rest = each.name
        elif each.kind is not Parameter.KEYWORD_ONLY:
            places.append(each.name)
    return places, rest, kinds


def _checked(name: str, value: object, kinds: Mapping[str, Any]) -> Any:
    return plain_argument(name, value, kinds[name]) if name in kinds else value


def _alternatives(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) in (Union, UnionType):
        for each in get_args(annotation):
            yield from _alternatives(each)
    else:
        yield annotation


def _kind(annotation: Any) -> Any:
    """Return the key of `_WORDS` for an alternative of an annotation, or the class itself."""
    origin = get_origin(annotation) or annotation
    if isinstance(origin, type) and origin not in _WORDS:
        if issubclass(origin, Mapping):
            return Mapping
        if issubclass(origin, Iterable) and isinstance(annotation, GenericAlias):
            return Iterable
    return origin


def _words(annotation: Any) -> str:
    kind = _kind(annotation)
    return _WORDS.get(kind) or f"a {kind.__name__}"


def _fitted(name: str, value: Any, annotation: Any) -> Any:
    """Convert a value to the plain type of one alternative.

    Raises:
        _Unfit: the value has no fitting form.
    """
    kind = _kind(annotation)
    if kind is Iterable:
        if not _is_list(value):
            raise _Unfit
        (element,) = get_args(annotation)
        entries = enumerate(_entries(name, lambda: value))
        return [plain_argument(f"{name}[{place}]", each, element) for place, each in entries]
    if kind is os.PathLike:
        return _path(name, value)
    if kind is Mapping or kind not in _WORDS:
        if not issubclass(type(value), kind):
            raise _Unfit
        return _yaml_value(name, value, MOST_NESTED) if kind is Mapping else value
    found = _scalar(name, value)
    if type(found) is not kind and not (kind is float and type(found) is int):
        raise _Unfit
    return found


def _scalar(name: str, value: Any) -> Any:
    """Convert a value to text, bool, number, date or None, of exactly that type.

    Raises:
        _Unfit: the value is none of these, or a null of another library.
        ConfigError: the value is a text that no file can hold, or a number without an end.
    """
    if value is None:
        return None
    value = _unwrapped(value)
    kind = type(value)
    if kind in (bool, date):
        return value
    if issubclass(kind, str):
        return _text(name, str.__str__(value))
    if issubclass(kind, float):
        number = float.__float__(value)
        if math.isnan(number):
            raise _Unfit
        return number
    if issubclass(kind, int):
        whole = int.__index__(value)
        if whole.bit_length() > MOST_BITS:
            raise ConfigError(f"{name}: must be a number of at most {MOST_BITS} bits.")
        return whole
    if kind in (Decimal, Fraction):
        try:
            return _scalar(name, float(value))
        except (ValueError, OverflowError):  # a signalling NaN, or a number that is too large
            raise _Unfit from None
    raise _Unfit


def _unwrapped(value: Any) -> Any:
    """Take the Python value out of a scalar of numpy or Arrow."""
    try:
        if issubclass(type(value), pa.Scalar):
            return value.as_py()
        if (type(value) is np.ndarray and value.ndim == 0) or issubclass(type(value), np.generic):
            return value.item()
    except (ValueError, OverflowError):  # a time that Python cannot hold
        raise _Unfit from None
    return value


def _text(name: str, text: str) -> str:
    if not text:
        raise ConfigError(f"{name}: must not be empty.")
    if "\0" in text:
        raise ConfigError(f"{name}: must not hold the character \\x00.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{name}: must be text that UTF-8 can write.") from None
    return text


def _path(name: str, value: Any) -> str:
    if not issubclass(type(value), str | os.PathLike):
        raise _Unfit
    try:
        path = os.fspath(value)
    except Exception:  # a path of the caller's own class may raise anything
        raise _Unfit from None
    if not issubclass(type(path), str):
        raise _Unfit
    text = _text(name, str.__str__(path))
    if is_cloud(text):
        try:
            CloudPath.parse(text)
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from None
    return text


def _entries(name: str, taken: Callable[[], Iterable[Any]]) -> list[Any]:
    """Take the entries of a list, an array, a column or a dict of any library, in order."""
    try:
        return list(taken())
    except MemoryError:
        raise
    except Exception as error:  # an object of the caller's own class may raise anything
        raise ConfigError(
            f"{name}: taking its entries ended with {type(error).__name__}. Pass a list, or a dict"
            " where keys are needed. Nothing was spent."
        ) from None


def _yaml_value(name: str, value: Any, deeper: int) -> Any:
    """Convert a value of a section to the types of a YAML file: lists, dicts and scalars."""
    if not deeper:
        raise ConfigError(f"{name}: is nested too deeply; it may hold itself.")
    kind = type(value)
    if issubclass(kind, Mapping):
        pairs = _entries(name, lambda: value.items())
        return {_key(name, key): _yaml_value(name, each, deeper - 1) for key, each in pairs}
    if issubclass(kind, os.PathLike):
        return _path(name, value)
    if _is_list(value) and hasattr(kind, "__len__") and not issubclass(kind, set | frozenset):
        return [_yaml_value(name, each, deeper - 1) for each in _entries(name, lambda: value)]
    try:
        return _scalar(name, value)
    except _Unfit:
        raise ConfigError(
            f"{name}: must hold text, numbers, dates, lists and dicts, as a YAML file does; one of"
            f" its values is {_what(value)}. Nothing was spent."
        ) from None


def _is_list(value: Any) -> bool:
    """Whether a value is a list, an array or a column of any library."""
    kind = type(value)
    if issubclass(kind, str | bytes | bytearray | Mapping | pa.Scalar):
        return False
    return hasattr(kind, "__iter__") and not (kind is np.ndarray and not value.ndim)


def _key(name: str, key: object) -> str:
    try:
        return str(_scalar(name, key))
    except _Unfit:
        raise ConfigError(f"{name}: its keys must be text; one is {_what(key)}.") from None


def _what(value: object) -> str:
    """Describe a value without showing it."""
    kind = type(value)
    if issubclass(kind, float) and math.isnan(value):  # type: ignore[arg-type]
        return "not-a-number"
    if value is None or kind in (bool, str, int, float):
        return _WORDS[kind] if kind is not bool else str(value)
    if issubclass(kind, datetime):
        return "a date with a time (its .date() has none)"
    return "a class" if issubclass(kind, type) else f"an object of type {kind.__name__}"


P = ParamSpec("P")
R = TypeVar("R")

AFTER_RELEASING = (
    "What was reserved but not drawn is given back; if noise was drawn already, the same call"
    " publishes that release without spending again."
)
NOTHING_SPENT = "Nothing was spent."


def plainly(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a public function, and turn errors into hushrank's own.

    `flows.interfaces.python.arguments` checks the arguments before the function begins. Errors of
    the machine, such as a full disk, become a HushrankError, and traces of hushrank's own code
    are left out. A fault in the program keeps its traceback.
    """
    return _raising_plainly(function, NOTHING_SPENT)


def releasing(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function that reserves budget as `plainly` does, with errors that mention the
    budget."""
    return _raising_plainly(function, AFTER_RELEASING)


def _raising_plainly(function: Callable[P, R], after: str) -> Callable[P, R]:
    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given, named = check_arguments(function, args, kwargs)
            return function(*given, **named)
        except HushrankError as error:
            error.__context__ = None  # a library's own error may quote a row
            raise error.with_traceback(None) from None
        except KeyboardInterrupt as stop:
            if not notes_of(stop):
                stop.add_note(after)
            raise
        except (OSError, MemoryError, RecursionError) as error:
            if refusal := refusal_of(error):
                raise refusal from None
            said = f"{problem_of_machine(error)} {notes_of(error) or after}"
            raise HushrankError(said) from None

    if keywords := _keywords_of(function):
        call.__signature__ = _spelled_out(function, keywords)  # type: ignore[attr-defined]
        call.__doc__ = _with_keywords(function, keywords)
    return call


def _keywords_of(function: Callable[..., Any]) -> type | None:
    """The `TypedDict` of a function's `**keywords`; None: it has none."""
    for each in signature(function).parameters.values():
        if each.kind is Parameter.VAR_KEYWORD:
            return next(iter(get_args(get_type_hints(function).get(each.name))), None)
    return None


def _spelled_out(function: Callable[..., Any], keywords: type) -> Signature:
    """The signature with each keyword by name, which `help` and completion show."""
    own = signature(function)
    named = [each for each in own.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    named += [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=_as_written(kind))
        for name, kind in keywords.__annotations__.items()
        if name not in own.parameters
    ]
    return own.replace(parameters=named)


def _as_written(kind: Any) -> str:
    text = kind.__forward_arg__ if isinstance(kind, ForwardRef) else f"{kind}"
    return text if text.endswith("| None") else f"{text} | None"


def _with_keywords(function: Callable[..., Any], keywords: type) -> str:
    """The docstring, with what the class of keywords says of each in place of `**asked`."""
    _, _, listed = cleandoc(keywords.__doc__ or "").partition("Attributes:\n")
    own = cleandoc(function.__doc__ or "")
    return re.sub(
        r"^    \*\*\w+:.*\n(?:     .*\n)*", lambda _: f"{listed}\n", own, flags=re.MULTILINE
    )
