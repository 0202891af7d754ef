"""Read a YAML file so that what a person wrote is what is meant, with the line of every key.

Plain scalars mean what they mean in YAML 1.2, not in the YAML 1.1 of the library: `yes`, `no`,
`12:30` and `2026-11-20` are text (here `007` is too), `1e-6` is a number. So an item called `No`
stays an item, and a small delta stays a number. A key that stands twice, of which YAML libraries
keep the last, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from hushrank.flows.errors import ConfigError

_CHOOSE = re.compile(r"#\s*CHOOSE\b:?\s*(?P<what>.*)")
_NULL_TAG = "tag:yaml.org,2002:null"

_SCALARS = {
    "tag:yaml.org,2002:bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "tag:yaml.org,2002:int": (r"0|-?[1-9][0-9]*", "-0123456789"),
    "tag:yaml.org,2002:float": (
        r"-?([0-9]+\.[0-9]*([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.[0-9]+|\.inf)|\.nan",
        "-.0123456789",
    ),
    _NULL_TAG: (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
}


class _Loader(yaml.SafeLoader):
    """The safe loader, with the scalars above in place of its own."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML reads its table from the class

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        return float(self.construct_scalar(node).replace(".inf", "inf").replace(".nan", "nan"))


for _tag, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), list(_first))
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)


@dataclass(frozen=True, slots=True)
class _Key:
    """One `key: value` of the file."""

    name: str  # dotted
    line: int  # from 1
    value: yaml.Node


def read_yaml(path: Path, open_keys: Collection[str] = ()) -> dict[object, object]:
    """The mapping that `path` holds.

    Args:
        path: of the file.
        open_keys: dotted keys that may be marked CHOOSE and have no value.

    Raises:
        ConfigError: the file cannot be read, is empty, is not YAML, holds a key twice, is no
            mapping, or has lines marked CHOOSE that still have no value.
    """
    text = _read_text(path)
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            raise ConfigError(
                f"{path}: the file is empty; `hushrank init` writes one to start from"
            )
        content: object = loader.construct_document(root)
    except yaml.YAMLError as error:
        raise ConfigError(_syntax_problem(path, error, text)) from None
    if not isinstance(root, yaml.MappingNode) or not isinstance(content, dict):
        raise ConfigError(f"{path}: must hold lines such as `name: my-survey`, one key each")
    keys = list(_keys(root, "", set()))
    _refuse_duplicates(path, keys)
    _refuse_unchosen(path, keys, text.splitlines(), open_keys)
    return content


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file; `hushrank init answers.csv` writes survey.yaml"
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder; name the YAML file in it") from None
    except PermissionError:
        raise ConfigError(f"{path}: no permission to read it") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text; save it as UTF-8") from None


def _keys(node: yaml.MappingNode, prefix: str, seen: set[int]) -> Iterator[_Key]:
    """Every key of `node` and of the mappings in it; `seen` ends the walk of a cyclic alias."""
    if id(node) in seen:
        return
    seen.add(id(node))
    for key, value in node.value:
        found = _Key(f"{prefix}{key.value}", key.start_mark.line + 1, value)
        yield found
        if isinstance(value, yaml.MappingNode):
            yield from _keys(value, f"{found.name}.", seen)


def _refuse_duplicates(path: Path, keys: list[_Key]) -> None:
    lines: dict[str, list[str]] = {}
    for key in keys:
        lines.setdefault(key.name, []).append(str(key.line))
    problems = [
        f"{path}: {name}: stands {len(where)} times (lines {', '.join(where)}); keep one of them"
        for name, where in lines.items()
        if len(where) > 1
    ]
    if problems:
        raise ConfigError("\n".join(problems))


def _refuse_unchosen(
    path: Path, keys: list[_Key], lines: list[str], open_keys: Collection[str]
) -> None:
    problems = []
    for key in keys:
        mark = _CHOOSE.search(lines[key.line - 1])
        if mark and key.value.tag == _NULL_TAG and key.name not in open_keys:
            problems.append(
                f"{path}: {key.name}: line {key.line} is marked CHOOSE and has no value yet;"
                f" {mark['what']}"
            )
    if problems:
        raise ConfigError("\n".join(problems))


def _syntax_problem(path: Path, error: yaml.YAMLError, text: str) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        return f"{path}: holds a character that YAML does not allow; save it as plain UTF-8 text"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"{path}: not valid YAML"
    mark = error.problem_mark
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    return (
        f"{path}: line {mark.line + 1}, column {mark.column + 1}: not valid YAML"
        f" ({error.problem}); {_syntax_hint(line, error)}"
    )


def _syntax_hint(line: str, error: yaml.MarkedYAMLError) -> str:
    problem, context = error.problem or "", error.context or ""
    if "\t" in line:
        return "indent with spaces, not with tabs"
    if "quoted" in context:
        return "close the quotation mark"
    if "flow" in context:
        return "close the bracket, and put a comma between entries"
    if "alias" in context or "tag" in problem or "cannot start any token" in problem:
        return "put the text in quotes"
    if "mapping values" in problem:
        return "put text that contains a colon in quotes, and check the colons and indents above"
    return "check the indentation and that every key ends with a colon and a space"
