"""Read a YAML file as a person means it, and remember the line of every key.

Plain scalars have their meaning in YAML 1.2, not in the library's YAML 1.1: `yes`, `no`, `12:30`
and `2026-11-20` are text (here `007` is too), `1e-6` is a number. So an item called `No` stays an
item, and a small delta stays a number. A key that stands twice is refused; YAML libraries keep the
last one. Also refused is what no configuration needs and what can harm its reader: tags
(`!!int abc`), endless nesting, numbers of more than 64 bits, and characters that control a
terminal.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from hushrank.flows.config.problems import problem_of_key
from hushrank.flows.errors import ConfigError, Problem
from hushrank.transforms.common.local_files import MostBytes, UnfitFile, read_local
from hushrank.transforms.common.plain_text import hidden_character

MOST_LEVELS = 20  # most nested sections and lists; a job has four
MOST_KEYS = 10_000  # most keys; only `items` of wide rankings has more than a few dozen
INTEGERS = range(-(2**63), 2**63)

_CHOOSE = re.compile(r"#\s*CHOOSE\b:?\s*(?P<what>.*)")
_NULL_TAG = "tag:yaml.org,2002:null"
_INTEGER_TAG = "tag:yaml.org,2002:int"

_SCALARS = {
    "tag:yaml.org,2002:bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    _INTEGER_TAG: (r"0|-?[1-9][0-9]*", "-0123456789"),
    "tag:yaml.org,2002:float": (
        r"-?([0-9]+\.[0-9]*([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.[0-9]+|\.inf)|\.nan",
        "-.0123456789",
    ),
    _NULL_TAG: (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
}


class _Refused(Exception):  # noqa: N818 - it never leaves this module
    """A valid YAML node that no configuration needs: what is wrong, and its line."""

    def __init__(self, problem: str, mark: yaml.Mark) -> None:
        super().__init__(f"line {mark.line + 1}: {problem}")


class _Loader(yaml.SafeLoader):
    """The safe loader, with the scalars above instead of its own."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML reads its table from the class

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._levels = self._keys = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node as the library does, but limit how deep the file can nest.

        Raises:
            _Refused: the node has a tag, is too deep, is a key too many, or cannot be shown.
        """
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self._keys += parent is not None and index is None  # the library has no index for a key
        if self._keys > MOST_KEYS:
            raise _Refused(
                f"more than {MOST_KEYS:,} keys; name a job's YAML file, and put a long list of"
                " items into a file of its own (items.file)",
                event.start_mark,
            )
        if getattr(event, "tag", None) is not None:
            raise _Refused("a tag (!) has no meaning here; remove it", event.start_mark)
        if self._levels == MOST_LEVELS:
            raise _Refused(
                f"more than {MOST_LEVELS} sections or lists within each other; close one, or put"
                " the text in quotes",
                event.start_mark,
            )
        self._levels += 1
        node = super().compose_node(parent, index)
        self._levels -= 1
        if isinstance(node, yaml.ScalarNode):
            _check_scalar(node)
        return node

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        return float(self.construct_scalar(node).replace(".inf", "inf").replace(".nan", "nan"))


for _tag, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), list(_first))
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)


def _check_scalar(node: yaml.ScalarNode) -> None:
    hidden = hidden_character(node.value, lines=True)
    if hidden is not None:
        raise _Refused(
            f"holds the character {hidden}, which nobody sees; remove it", node.start_mark
        )
    if node.tag == _INTEGER_TAG and (len(node.value) > 20 or int(node.value) not in INTEGERS):
        raise _Refused(
            "a whole number of more than 64 bits; write a smaller one, or put a name in quotes",
            node.start_mark,
        )


@dataclass(frozen=True, slots=True)
class _Key:
    """One `key: value` of the file."""

    name: str  # dotted
    line: int  # from 1
    value: yaml.Node


def read_yaml(path: Path, open_keys: Collection[str] = ()) -> dict[object, object]:
    """The mapping that `path` holds.

    Args:
        path: path of the file.
        open_keys: dotted keys that may be marked CHOOSE and have no value.

    Raises:
        ConfigError: the file cannot be read, is empty or far too large, is not valid YAML, uses
            YAML that no configuration needs, holds a key twice, is no mapping, or has lines marked
            CHOOSE without a value.
    """
    text = _read_text(path)
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            fix = "`hushrank init` writes one to start from"
            raise ConfigError("", Problem(f"{path}", "the file is empty", fix))
        content: object = loader.construct_document(root)
    except _Refused as error:
        raise ConfigError(f"{path}: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError("", _syntax_problem(path, error, text)) from None
    if not isinstance(root, yaml.MappingNode) or not isinstance(content, dict):
        raise ConfigError(f"{path}: must hold lines such as `name: my-survey`, one key each")
    keys = list(_keys(root, "", set()))
    _refuse_duplicates(path, keys)
    _refuse_unchosen(path, keys, text.splitlines(), open_keys)
    return content


def lines_of_keys(path: Path) -> dict[str, int]:
    """The line of each dotted key, for a message; empty where the file cannot be read (again)."""
    try:
        root = _Loader(_read_text(path)).get_single_node()
    except (ConfigError, _Refused, yaml.YAMLError):
        return {}
    if not isinstance(root, yaml.MappingNode):
        return {}
    return {key.name: key.line for key in _keys(root, "", set())}


def _read_text(path: Path) -> str:
    try:
        content = read_local(path, MostBytes.SETTINGS)
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        fix = "`hushrank init answers.csv` writes survey.yaml"
        raise ConfigError("", Problem(f"{path}", "no such file", fix)) from None
    except IsADirectoryError:
        problem = Problem(f"{path}", "is a folder", "name the YAML file in it")
        raise ConfigError("", problem) from None
    except PermissionError:
        raise ConfigError("", Problem(f"{path}", "no permission to read it")) from None
    except UnicodeDecodeError:
        problem = Problem(f"{path}", "is not UTF-8 text", "save it as UTF-8")
        raise ConfigError("", problem) from None
    except UnfitFile as error:
        raise ConfigError(
            f"{path}: {error.strerror}; name a job's YAML file, and put a long list of items into a"
            " file of its own (items.file)"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the name
        raise ConfigError(f"{path}: cannot be read ({_reason(error)}); name another file") from None


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "no name of a file"


def _keys(node: yaml.MappingNode, prefix: str, seen: set[int]) -> Iterator[_Key]:
    """Every key of `node` and of mappings inside it; `seen` stops at a cyclic alias."""
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
        problem_of_key(
            path,
            name,
            f"stands {len(where)} times (lines {', '.join(where)}); keep one of them",
            int(where[1]),
        )
        for name, where in lines.items()
        if len(where) > 1
    ]
    if problems:
        raise ConfigError("", *problems)


def _refuse_unchosen(
    path: Path, keys: list[_Key], lines: list[str], open_keys: Collection[str]
) -> None:
    problems = []
    for key in keys:
        mark = _CHOOSE.search(lines[key.line - 1])
        if mark and key.value.tag == _NULL_TAG and key.name not in open_keys:
            rule = f"line {key.line} is marked CHOOSE and has no value yet"
            problems.append(Problem(f"{path}: {key.name}", rule, mark["what"], key.line))
    if problems:
        raise ConfigError("", *problems)


def _syntax_problem(path: Path, error: yaml.YAMLError, text: str) -> Problem:
    if isinstance(error, yaml.reader.ReaderError):
        rule = "holds a character that YAML does not allow"
        return Problem(f"{path}", rule, "save it as plain UTF-8 text")
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return Problem(f"{path}", "not valid YAML")
    mark = error.problem_mark
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    place = f"{path}: line {mark.line + 1}, column {mark.column + 1}"
    rule = f"not valid YAML ({error.problem})"
    return Problem(place, rule, _syntax_hint(line, error), mark.line + 1)


def _syntax_hint(line: str, error: yaml.MarkedYAMLError) -> str:
    problem, context = error.problem or "", error.context or ""
    if "\t" in line:
        return "indent with spaces, not with tabs"
    if "quoted" in context:
        return "close the quotation mark"
    if "flow" in context and "{date}" in line:
        return "put names with {date} in quotes"
    if "flow" in context:
        return "close the bracket, and put a comma between entries"
    if "alias" in context or "tag" in problem or "cannot start any token" in problem:
        return "put the text in quotes"
    if "mapping values" in problem:
        return "put text that contains a colon in quotes, and check the colons and indents above"
    return "check the indentation and that every key ends with a colon and a space"
