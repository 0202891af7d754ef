"""Messages have an end, however long a name is and however many things are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer
from typer.core import TyperGroup

import hushrank
from hushrank.flows.errors import ConfigError, HushrankError
from hushrank.flows.interfaces.cli.main import app
from hushrank.transforms.common.plain_text import (
    MOST_CHARACTERS,
    MOST_LINES,
    MOST_OF_A_NAME,
    short,
    short_list,
    short_message,
)
from hushrank.transforms.common.schema import InputError
from tests.flows.bad_inputs.case import (
    COMPARISONS,
    RUN,
    VALIDATE,
    Case,
    both,
    changed,
    file,
    job,
    write,
)
from tests.flows.bad_inputs.values import DATAFLOW, FLINK

PROGRESS_LINES, PROGRESS = 4, 400  # lines and characters on what was begun, before the message
LONG = "n" * 4_000
WORDS = "of many words " * 300
HIDDEN = "\x1b" * 4_000
MEGABYTE = "n" * 1_000_000
HUGE = "n" * 100_000
HEADER = b"user,left,right,outcome\n"
MANY_COLUMNS = ",".join(f"column{n}" for n in range(20_000))
KEYS = {
    **{f"input.columns.{name}": COMPARISONS for name in ("user", "left", "event", "weight")},
    **dict.fromkeys(("name", "method", "output", "confidential", "runner.kind"), COMPARISONS),
    **dict.fromkeys(("ledger.path", "ledger.anchor", "ledger.signing_key"), COMPARISONS),
    **dict.fromkeys(("items.file", "input.kind", "input.design", "input.ties"), COMPARISONS),
    **dict.fromkeys(("schedule.timezone", "schedule.window", "memory_limit"), COMPARISONS),
    **dict.fromkeys(("privacy.epsilon", "observability.log", LONG), COMPARISONS),
    **dict.fromkeys(("runner.job_server", "runner.master"), FLINK),
    **dict.fromkeys(("runner.project", "runner.image", "runner.temp_location"), DATAFLOW),
}
LISTS = {
    "input.paths": [LONG, f"bigquery://{LONG}", f"delta://{LONG}", f"gs://{LONG}", f"{LONG}/*.csv"],
    "items.names": [["ants", MEGABYTE], ["ants", WORDS, WORDS], ["ants", HIDDEN], [HUGE] * 2],
}


def cases() -> Iterator[Case]:
    """What is refused when a survey is read, and when its files are."""
    for key, settings in KEYS.items():
        for name, value in (("long", LONG), ("words", WORDS), ("hidden", HIDDEN)):
            yield Case(key[:30], name, job(changed(settings, {key: value})), VALIDATE)
    for key, values in LISTS.items():
        for number, value in enumerate(values):
            listed = value if isinstance(value, list) else [value]
            yield Case(key, f"{number}", job(changed(COMPARISONS, {key: listed})), RUN)
    unknown = {f"unknown{n}": n for n in range(300)}
    yield Case("many", "unknown-keys", job({**COMPARISONS, **unknown}), VALIDATE, "more problems")
    many = {"items.names": [n + 0.5 for n in range(10_000)]}
    yield Case("many", "problems", job(changed(COMPARISONS, many)), VALIDATE, "more problems")
    same = {"items.names": ["ants"] * 2_000}
    yield Case("many", "same-items", job(changed(COMPARISONS, same)), VALIDATE)
    columns = {"groups": {"column": LONG, "values": [LONG, WORDS]}}
    yield Case("columns", "groups", job(changed(COMPARISONS, columns)), RUN)
    table = f"left,right,{MANY_COLUMNS}\n".encode() + b"," * 20_001 + b"\n"
    yield Case("columns", "many", file("answers.csv", table), RUN)
    long_names = f"{HUGE},{HUGE}b\n1,2\n".encode()
    yield Case("columns", "long", file("answers.csv", long_names), RUN)
    twice = both(
        job(changed(COMPARISONS, {"input.columns.user": LONG})),
        file("answers.csv", f"{LONG},{LONG},left,right,outcome\n1,1,a,b,1\n".encode()),
    )
    yield Case("columns", "twice", twice, RUN)
    yield Case("yaml", "key", file("survey.yaml", f"{HUGE}: 1\n".encode()), VALIDATE)
    yield Case("yaml", "text", file("survey.yaml", HUGE.encode()), VALIDATE)
    yield Case("yaml", "unclosed", file("survey.yaml", b'name: "' + HUGE.encode()), VALIDATE)
    yield Case("yaml", "anchor", file("survey.yaml", f"name: *{HUGE}\n".encode()), VALIDATE)
    yield Case("yaml", "tag", file("survey.yaml", f"name: !{HUGE} x\n".encode()), VALIDATE)


def words_of_commands() -> Iterator[tuple[str, ...]]:
    """Every command with huge arguments, and with each of its options huge."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    for path, command in commands_of(group, ()):
        kinds = [(each, each.param_type_name) for each in command.params]
        places = [LONG for each, kind in kinds if kind == "argument" and each.nargs == 1]
        needed = [
            word
            for each, kind in kinds
            if kind == "option" and each.required
            for word in (each.opts[0], *["1"] * each.nargs)
        ]
        if places:
            yield (*path, *places, *needed)
        yield (*path, *places, *needed, LONG, LONG)
        yield (*path, f"--{LONG}")
        for each, kind in kinds:
            if kind == "option" and not each.is_flag and not each.count:  # type: ignore[attr-defined]
                yield (*path, *places, *needed, each.opts[0], *[LONG] * each.nargs)
    yield (LONG,)
    yield ("ledger", LONG)


def commands_of(group: TyperGroup, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands_of(command, (*path, name))
        else:
            yield (*path, name), command


def check_end(text: str) -> None:
    assert text.strip()
    assert len(text) <= MOST_CHARACTERS + PROGRESS
    assert len(text.splitlines()) <= MOST_LINES + PROGRESS_LINES
    assert "Traceback" not in text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path / "answers.csv", HEADER + b"p,ants,bees,1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    job(COMPARISONS)(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.key)
def test_a_refusal_with_huge_names_has_an_end(case, folder, command):
    case.prepare(folder)
    code, printed = command(*case.command)
    assert code in (1, 2), printed[-500:]
    check_end(printed)
    assert case.says in printed


def test_a_refusal_of_huge_arguments_has_an_end(folder, command):
    for words in words_of_commands():
        code, printed = command(*words)
        without_survey = words[0] == "support"  # a bundle, of what can be read
        assert code in (1, 2) or without_survey, [word[:30] for word in words]
        check_end(printed)


def test_a_table_with_huge_names_is_refused_with_an_end(folder):
    right = {"left": "left", "right": "right", "outcome": "outcome", "user": "user"}
    wide = pd.DataFrame([[1] * 20_000], columns=MANY_COLUMNS.split(","))
    huge = pd.DataFrame({MEGABYTE: [1], WORDS * 300: [2]})
    for table, columns in (
        (wide, right),
        (huge, right),
        (huge, right | {"user": MEGABYTE}),
        (wide, {f"unknown{n}": "x" for n in range(5_000)}),
        (wide, {MEGABYTE: "x"}),
        ([MEGABYTE], right),
        ([{MEGABYTE: 1}], right | {"weight": WORDS}),
    ):
        with pytest.raises(ConfigError) as caught:
            hushrank.inspect(table, items=["ants", "bees"], epsilon=1.0, **columns)
        assert len(str(caught.value)) <= MOST_CHARACTERS
        assert len(repr(caught.value)) <= 2 * MOST_CHARACTERS


@pytest.mark.parametrize("kind", [HushrankError, InputError])
@pytest.mark.parametrize("end", ["Nothing was spent.", "Nothing\nwas spent."])
def test_an_error_itself_keeps_its_first_and_last_words(kind, end):
    for middle in (MEGABYTE, WORDS * 300, HIDDEN, "line\n" * 50_000, f"{WORDS}\n" * 12):
        text = str(kind(f"survey.yaml: no such item {middle} {end}"))
        assert text.startswith("survey.yaml: no such item ")
        assert text.endswith("was spent.")
        assert len(text) <= MOST_CHARACTERS
        assert len(text.splitlines()) <= MOST_LINES
        assert str(kind(text)) == text


def test_what_is_short_is_as_it_was():
    text = "one line\n  and another\twith a tab" + "\nline" * (MOST_LINES - 2)
    assert short_message(text) == text
    assert short("a name") == "a name"
    assert short_list(["a", "b"]) == "a, b"
    assert short_list([str(n) for n in range(1_000)], 2) == "0, 1 and 998 more"
    assert short("x" * 1_000).count("x") == MOST_OF_A_NAME
    assert short_message("line\n" * 99 + "end").splitlines()[-2:] == [
        "… and 89 more lines …",
        "end",
    ]
