"""What docs/python.md says of each public name, from its signature and docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import hushrank
from hushrank.flows.interfaces.python.configuration import Keywords

_PLAIN = (bool, int, float, str, tuple)
_SECTIONS = ("Args:", "Returns:", "Raises:", "Warns:", "Attributes:", "References:", "Guarantee:")


def python_reference() -> str:
    """Every name of `hushrank`, `hushrank.privacy` and `hushrank.estimation`."""
    lines = ["## Keywords", "", *_described(Keywords), ""]
    for title, module in (
        ("hushrank", hushrank),
        ("hushrank.privacy", hushrank.privacy),
        ("hushrank.estimation", hushrank.estimation),
    ):
        lines += [f"## `{title}`", ""]
        for name, value in public_members(module):
            lines += [*_entry(title, name, value), ""]
    return "\n".join(lines)


def public_members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Names of a module and what they name, without other modules."""
    for name in dir(module):
        if not name.startswith("_") and not isinstance(value := getattr(module, name), ModuleType):
            yield name, value


def _entry(title: str, name: str, value: Any) -> Iterator[str]:
    yield from (f"### `{name}`", "")
    if callable(value) and not _is_enum(value):
        yield from ("```python", f"{title}.{name}{_signature(value)}", "```", "")
    yield from _described(value)
    if inspect.isclass(value) and title == "hushrank":
        yield from _members(value)


def _is_enum(value: Any) -> bool:
    return hasattr(value, "__members__")


def _signature(value: Any) -> str:
    """Names and defaults; types only where they are short enough to help."""
    if inspect.isclass(value) and issubclass(value, Exception):
        return "(text)"
    parameters = inspect.signature(inspect.unwrap(value)).parameters.values()
    return str(inspect.Signature([_untyped(each) for each in parameters]))


class _Elided:
    """A default that is no plain value."""

    def __repr__(self) -> str:
        return "..."


def _untyped(parameter: inspect.Parameter) -> inspect.Parameter:
    default = parameter.default
    plain = default is parameter.empty or isinstance(default, _PLAIN) or default is None
    return parameter.replace(annotation=parameter.empty, default=default if plain else _Elided())


def _members(value: type) -> Iterator[str]:
    for name, member in vars(value).items():
        text = inspect.getdoc(member)
        if (
            name.startswith("_")
            or not text
            or not (isinstance(member, property) or callable(member))
        ):
            continue
        call = "" if isinstance(member, property) else "()"
        yield f"- `.{name}{call}`: {' '.join(text.split())}"


def _described(value: Any) -> Iterator[str]:
    """The docstring as Markdown: lists of arguments become bullet points."""
    listing = False
    for line in (inspect.getdoc(inspect.unwrap(value)) or "").splitlines():
        head = line.strip()
        if head in _SECTIONS:
            listing = True
            yield from ("", f"**{head}**", "")
        elif listing and re.match(r"    [\w*][\w*, .]*:( |$)", line):
            names, _, text = head.partition(":")
            yield f"- `{names}`: {text.strip()}"
        elif listing and line.startswith("    "):
            yield f"  {head}"
        else:
            listing = False
            yield line
