"""YAML as people write it: what a scalar means, and what each way to get it wrong says."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrank.flows.config.yaml_file import read_yaml
from hushrank.flows.errors import ConfigError


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(text: str) -> dict[object, object]:
    Path("survey.yaml").write_text(text, encoding="utf-8")
    return read_yaml(Path("survey.yaml"))


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("0", 0),
        ("1.0e-6", 1e-6),
        ("1e-6", 1e-6),
        ("2.", 2.0),
        (".5", 0.5),
        ("-.5", -0.5),
        (".inf", math.inf),
        ("-.inf", -math.inf),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("007", "007"),
        ("+5", "+5"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2026-11-20", "2026-11-20"),
        ("inf", "inf"),
        ("nan", "nan"),
        ("0x10", "0x10"),
        ("'3'", "3"),
        ('"true"', "true"),
        ("<<", "<<"),
    ],
)
def test_a_scalar_means_what_it_looks_like(scalar, value):
    read_back = read(f"key: {scalar}\n")["key"]
    assert (read_back, type(read_back)) == (value, type(value))


def test_nan_is_a_number():
    value = read("key: .nan")["key"]
    assert isinstance(value, float)
    assert math.isnan(value)


@settings(deadline=None)  # it writes files
@given(st.integers(-(2**63), 2**63 - 1))
def test_an_integer_that_is_read_as_one_is_written_back_the_same(value):
    path = Path("integer.yaml")
    path.write_text(f"key: {value}")
    assert read_yaml(path)["key"] == value


MISTAKES = [
    ("", "the file is empty; `hushrank init` writes one to start from"),
    ("# nothing\n", "the file is empty; `hushrank init` writes one to start from"),
    ("- a\n", "must hold lines such as `name: my-survey`, one key each"),
    ("just text\n", "must hold lines such as `name: my-survey`, one key each"),
    (
        "name: x\n\tkind: y\n",
        "line 2, column 1: not valid YAML (found character '\\t' that cannot start any token);"
        " indent with spaces, not with tabs",
    ),
    (
        'name: "x\nkind: y\n',
        "line 3, column 1: not valid YAML (found unexpected end of stream);"
        " close the quotation mark",
    ),
    (
        'input: {paths: ["C:\\Users\\Ann Lee\\votes.csv"]}\n',
        "line 1, column 22: not valid YAML (expected escape sequence of 8 hexadecimal numbers, but"
        " found 's'); write a text with a backslash, such as a path of Windows, in single quotes:"
        " 'C:\\a'",
    ),
    (
        "input: {paths: [a, b\nitems: 3\n",
        "line 2, column 6: not valid YAML (expected ',' or ']', but got ':');"
        " close the bracket, and put a comma between entries",
    ),
    (
        "name: x: y\n",
        "line 1, column 8: not valid YAML (mapping values are not allowed here);"
        " put text that contains a colon in quotes, and check the colons and indents above",
    ),
    (
        "paths: [*.csv]\n",
        "line 1, column 10: not valid YAML"
        " (expected alphabetic or numeric character, but found '.'); put the text in quotes",
    ),
    (
        "name: @x\n",
        "line 1, column 7: not valid YAML (found character '@' that cannot start any token);"
        " put the text in quotes",
    ),
    (
        "name: !!python/object:os.system x\n",
        "line 1: a tag (!) has no meaning here; remove it",
    ),
    ("a: !!int abc\n", "line 1: a tag (!) has no meaning here; remove it"),
    (
        "a: " + "[" * 50_000 + "]" * 50_000,
        "line 1: more than 20 sections or lists within each other; close one, or put the text in"
        " quotes",
    ),
    (
        "".join(f"k{number}: {{}}\n" for number in range(20_000)),
        "line 10001: more than 10,000 keys; name a job's YAML file, and put a long list of items"
        " into a file of its own (items.file)",
    ),
    (
        "a: 1\nb: 9223372036854775808\n",
        "line 2: a whole number of more than 64 bits; write a smaller one, or put a name in quotes",
    ),
    (
        "a: 1" + "0" * 400,
        "line 1: a whole number of more than 64 bits; write a smaller one, or put a name in quotes",
    ),
    ('"\\ud800": 1\n', "line 1: holds the character \\ud800, which nobody sees; remove it"),
    ('a: "\\e[31m"\n', "line 1: holds the character \\x1b, which nobody sees; remove it"),
    (
        "a: 1\n---\nb: 1\n",
        "line 2, column 1: not valid YAML (but found another document);"
        " check the indentation and that every key ends with a colon and a space",
    ),
    ("a: \x01\n", "holds a character that YAML does not allow; save it as plain UTF-8 text"),
    (
        "privacy: {epsilon: 1, epsilon: 2}\n",
        "privacy.epsilon: stands 2 times (lines 1, 1); keep one of them",
    ),
    (
        "privacy:\n  epsilon: 1\n  delta: 0\n  epsilon: 2\n",
        "privacy.epsilon: stands 2 times (lines 2, 4); keep one of them",
    ),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_says_where_and_how_to_fix_it(text, message):
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert str(caught.value) == f"survey.yaml: {message}"


def test_the_same_key_in_two_sections_is_no_duplicate():
    assert read("a: {x: 1}\nb: {x: 1}\n") == {"a": {"x": 1}, "b": {"x": 1}}


def test_a_cyclic_alias_ends():
    content = read("a: &loop {b: *loop}\n")
    assert isinstance(content["a"], dict)
    assert content["a"]["b"] is content["a"]


def test_lines_marked_choose_without_a_value_are_named_all_at_once():
    text = (
        "items:   # CHOOSE: the list, for example {names: [London, Paris]}\n"
        "privacy:\n  unit: user\n  epsilon:  # CHOOSE: 1 is strong\n"
    )
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert str(caught.value).split("\n") == [
        "survey.yaml: items: line 1 is marked CHOOSE and has no value yet;"
        " the list, for example {names: [London, Paris]}",
        "survey.yaml: privacy.epsilon: line 4 is marked CHOOSE and has no value yet; 1 is strong",
    ]


def test_a_line_marked_choose_may_keep_its_mark_once_it_has_a_value():
    text = "items:  # CHOOSE: the list\n  names: [London, Paris]\nepsilon: 2  # CHOOSE: a number\n"
    assert read(text) == {"items": {"names": ["London", "Paris"]}, "epsilon": 2}
    assert read("words: null  # CHOOSE: null if so\n") == {"words": None}


def test_a_key_without_a_value_and_without_the_mark_is_left_to_its_own_rule():
    assert read("refresh:  # CHOOSEN long ago\n") == {"refresh": None}


def test_files_that_cannot_be_read(tmp_path):
    Path("binary.yaml").write_bytes(b"\xff\xfe\x00")
    for name, message in [
        ("none.yaml", "no such file; `hushrank init answers.csv` writes survey.yaml"),
        (str(tmp_path), "is a folder; name the YAML file in it"),
        ("binary.yaml", "is not UTF-8 text; save it as UTF-8"),
    ]:
        with pytest.raises(ConfigError) as caught:
            read_yaml(Path(name))
        assert str(caught.value) == f"{name}: {message}"


def test_a_byte_order_mark_is_ignored():
    Path("bom.yaml").write_bytes(b"\xef\xbb\xbfname: x\n")
    assert read_yaml(Path("bom.yaml")) == {"name": "x"}
