"""Reader of YAML files as a person means them, which remembers the line of every key.

Plain scalars have their meaning in YAML 1.2, not in the library's YAML 1.1: `yes`, `no`, `12:30`
and `2026-11-20` are text (here `007` is too), `1e-6` is a number. So an item called `No` stays an
item, and a small delta stays a number. A key that stands twice is refused; YAML libraries keep the
last one. Also refused is what no configuration needs and what can harm its reader: tags
(`!!int abc`), endless nesting, numbers of more than 64 bits, and characters that control a
terminal.

A file that breaks rules gives one line for each: `file: key: rule; fix`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.dataclasses import is_pydantic_dataclass
from pydantic_core import ErrorDetails, PydanticCustomError

from hushrank.flows.errors import ConfigError, Problem
from hushrank.transforms.common.local_files import MostBytes, UnfitFile, read_local
from hushrank.transforms.common.plain_text import MOST_LINES, hidden_character, short

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
    """Build the problem of a rule that is broken at a key of a YAML file.

    Args:
        path: the file.
        key: dotted; empty: the file itself.
        text: rule and fix, with a semicolon between them.
        line: line of the key, from 1.
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
    """Collect all problems that `error` holds, in the words of this module.

    Args:
        path: the YAML file, as the person named it.
        error: raised by `model`.
        model: the root model, for its keys and their examples.
        lines: lines of the keys of the file, by their dotted names.
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
    """Suggest the key that was meant: a similar one beside it, or the same one in another place."""
    key = str(location[-1])
    siblings = list(_model_at(location[:-1], model).model_fields)
    close = difflib.get_close_matches(key, siblings, n=1)
    if close:
        return f"Did you mean {close[0]}?"
    here = _dotted(_without_tags(location, model))
    named = [name for name in _dotted_keys(model, "") if name.rpartition(".")[2] == key]
    if here in named:
        return f"Only another kind of this section has it. Known here: {', '.join(siblings)}."
    if named:
        return f"Did you mean {min(named, key=lambda name: name.count('.'))}?"
    return f"Known here: {', '.join(siblings)}."


def _dotted_keys(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for key, field in model.model_fields.items():
        yield f"{prefix}{key}"
        for nested in nested_models(field.annotation):
            yield from _dotted_keys(nested, f"{prefix}{key}.")


def _model_at(location: Location, model: type[BaseModel]) -> type[BaseModel]:
    """Return the model that a location leads to; in a section with kinds, the tag decides."""
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
    """Return the location as in the file, without pydantic's tag of sections with kinds."""
    for place, part in enumerate(location[:-1]):
        nested = nested_models(_annotation((part,), model)) if isinstance(part, str) else []
        if not nested:
            break
        if len(nested) > 1:
            return (*location[: place + 1], *location[place + 2 :])
        (model,) = nested
    return location


def _without_alternative(location: Location, model: type[BaseModel]) -> Location:
    """Return the location without the type that pydantic adds for a key of several types."""
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
    """List the models that a key may hold; there are several if their `kind` distinguishes them.

    A dataclass of pydantic, which documents have, counts as a model. So does a model of which the
    key holds a list.
    """
    if isinstance(annotation, type) and not get_args(annotation):
        known = issubclass(annotation, BaseModel) or bool(is_pydantic_dataclass(annotation))
        return [annotation] if known else []
    return [model for each in get_args(annotation) for model in nested_models(each)]


def kind_of(model: type[BaseModel]) -> str:
    """Value of `kind` that selects `model` among the kinds of a section."""
    (tag,) = get_args(model.model_fields[TAG].annotation)
    return str(tag)


def _example(location: Location, model: type[BaseModel]) -> str | None:
    """Example `key: value` as it may stand in the file; None below a list or a free key."""
    if not location or isinstance(location[-1], int):
        return None
    try:
        examples = _model_at(location[:-1], model).model_fields[location[-1]].examples
    except KeyError:
        return None
    return f"{location[-1]}: {examples[0]}" if examples else None


def _dotted(location: Location) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{short(part)}" for part in location)
    text = "".join(parts)
    return text.removeprefix(".")


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
    """Error for a valid YAML node that no configuration needs, with its line."""

    def __init__(self, problem: str, mark: yaml.Mark) -> None:
        super().__init__(f"line {mark.line + 1}: {problem}")


class _Loader(yaml.SafeLoader):
    """Safe loader of YAML with the scalars above."""

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
    """Pair `key: value` of the file."""

    name: str  # dotted
    line: int  # counted from 1
    value: yaml.Node


def read_yaml(path: Path, open_keys: Collection[str] = ()) -> dict[object, object]:
    """Read the mapping in the file at `path`.

    Args:
        path: path of the file.
        open_keys: dotted keys that may be marked CHOOSE and have no value.

    Raises:
        ConfigError: the file cannot be read, is empty or far too large, is not valid YAML, uses
            YAML that no configuration needs, holds a key twice, is no mapping, or has lines marked
            CHOOSE without a value.
    """
    return yaml_content(path, _read_text(path), open_keys)


def yaml_content(path: Path, text: str, open_keys: Collection[str] = ()) -> dict[object, object]:
    """Return the mapping in a text that is, or would become, the file at `path`.

    Raises:
        ConfigError: as for `read_yaml`.
    """
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
    """Line of each dotted key, for a message; empty if the file cannot be read (again)."""
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
    """Yield every key of `node` and of mappings inside it; `seen` stops at a cyclic alias."""
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
        empty = key.value.tag == _NULL_TAG and key.value.value == ""  # a written null is an answer
        if mark and empty and key.name not in open_keys:
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
    if "escape" in problem:
        return "write a text with a backslash, such as a path of Windows, in single quotes: 'C:\\a'"
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
