"""What a row means follows from its own bytes and the configuration, whatever stands beside it.

A file is read line by line in effect: what is kept of it is what is kept of each line alone, added
up. So replacing one line by any bytes moves every count by what that line alone can, and leaves the
rows of everybody else as they were.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, seed, settings
from hypothesis import strategies as st

from hushrank.transforms.storage import split
from tests.transforms.row_kinds import KINDS, Kept, Row, RowKind, kept, owner_of

BLOCKS = (64, 300, 1 << 24)  # bytes read at once
N_HONEST = 12
EXAMPLES = 12  # of each case; `benchmarks/fuzz_rows.py` tries as many as there is time for
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["1", "-1.0", 1.0, 1e300, 2**63, "tie", "NA", "true", "2026-11-20", "1e5"])
)
VALUES = st.recursive(
    SCALARS,
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=2), each, max_size=2)
    ),
    max_leaves=4,
)
PIECES = st.sampled_from(
    [
        *(
            b'"',
            b'""',
            b"{",
            b"}",
            b"[",
            b"]",
            b"\\",
            b",",
            b";",
            b":",
            b"\x00",
            b"\xff",
            b"\xef\xbb\xbf",
        ),
        *(b"{}", b"null", b"true", b"1e400", b"NaN", b"-Inf", b"\\ud800", b"\\u0000", b"9" * 400),
        *(b"\t", b" ", b"\x0b", b"\x85", b"\xc3\xa9", b"'", b"=", b"-0.0", b"[" * 300, b'"x":'),
    ]
)


def in_json(row: Row) -> bytes:
    return json.dumps(row).encode()


def in_csv(row: Row, delimiter: str = ",") -> bytes:
    return delimiter.join("" if value is None else str(value) for value in row.values()).encode()


@dataclass(frozen=True)
class TextFormat:
    """How rows are written, and how a file of them begins and its lines end."""

    ending: str
    line: Callable[[Row], bytes]
    has_header: bool
    line_end: bytes = b"\n"
    delimiter: str = ","

    def write(self, path: Path, kind: RowKind, lines: list[bytes]) -> Path:
        header = [self.delimiter.join(kind.row(0)).encode()] if self.has_header else []
        path.write_bytes(self.line_end.join([*header, *lines, b""]) or b"\n")
        return path

    def kept(self, path: Path, kind: RowKind, lines: list[bytes]) -> Kept:
        """What is kept of a file of these lines."""
        return kept(self.write(path, kind, lines), kind, delimiter=self.delimiter)


FORMATS = {
    "json": TextFormat("jsonl", in_json, has_header=False),
    "json with carriage returns": TextFormat("jsonl", in_json, has_header=False, line_end=b"\r\n"),
    "csv": TextFormat("csv", in_csv, has_header=True),
    "csv with carriage returns": TextFormat("csv", in_csv, has_header=True, line_end=b"\r\n"),
    "csv with semicolons": TextFormat(
        "csv", lambda row: in_csv(row, ";"), has_header=True, delimiter=";"
    ),
}
CASES = [
    (format_, kind) for format_ in FORMATS for kind in KINDS if kind != "lists" or "json" in format_
]


def one_line(content: bytes) -> bytes:
    return content.replace(b"\r", b"").replace(b"\n", b"")


@st.composite
def lines_of_others(draw: st.DrawFn, kind: RowKind, line_of: Callable[[Row], bytes]) -> bytes:
    """Any bytes, a row with any values, or a good row in which pieces went wrong."""
    how = draw(st.integers(0, 3))
    if how == 0:
        return one_line(draw(st.binary(max_size=60)))
    row = kind.row(draw(st.integers(0, 9))) | {"user": "eve"}
    for name in draw(st.lists(st.sampled_from(sorted(row)), max_size=2)):
        row[name] = draw(VALUES if how < 3 else SCALARS)
    try:
        line = line_of(row)
    except UnicodeEncodeError:
        return b"\xed\xa0\x80"
    for _ in range(draw(st.integers(0, 3)) if how == 2 else 0):
        place = draw(st.integers(0, len(line)))
        cut = draw(st.integers(0, 2))
        line = line[:place] + draw(PIECES) + line[place + cut :]
    return one_line(line)


def search(path: Path, format_: str, kind: str, examples: int, seed_: int | None = None) -> None:
    """Look for lines that change what is read of others.

    Args:
        path: where files are written; its ending is replaced.
        format_, kind: of `FORMATS` and `KINDS`.
        examples: how many files to try.
        seed_: of the search; None: another one each time.

    Raises:
        AssertionError: there are such lines; hypothesis prints the shortest that it finds.
    """
    writer, rows = FORMATS[format_], KINDS[kind]
    good = [writer.line(rows.row(n)) for n in range(N_HONEST)]
    path = path.with_suffix(f".{writer.ending}")
    owners = {owner_of(n) for n in range(N_HONEST)}
    expected = writer.kept(path, rows, good)
    assert {entry[0] for entry in expected} <= owners
    assert len(expected) >= N_HONEST / 4

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(
        st.lists(
            st.tuples(st.integers(0, N_HONEST), lines_of_others(rows, writer.line)), max_size=3
        ),
        st.sampled_from(BLOCKS),
    )
    @example([(0, b'"'), (6, b'{"x":'), (6, b"}")], 1 << 24)
    @example([(0, b"{}{}"), (5, b'{"x":'), (6, b"}")], 64)
    def check(others: list[tuple[int, bytes]], block: int) -> None:
        lines = list(good)
        alone: Counter[tuple[object, ...]] = Counter()
        # Only at the start of a file does a byte order mark say that text begins.
        others = [(place, line.removeprefix(b"\xef\xbb\xbf")) for place, line in others]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(split, "BLOCK_BYTES", block)
            for place, line in others:
                lines.insert(place, line)
                of_line = writer.kept(path, rows, [line])
                assert of_line.total() <= rows.most
                alone += of_line
            found = writer.kept(path, rows, lines)
        assert found == expected + alone

    (check if seed_ is None else seed(seed_)(check))()


@pytest.mark.parametrize(("format_", "kind"), CASES)
def test_a_file_is_read_as_each_of_its_lines_alone(tmp_path, format_, kind):
    """Every format, kind and column; the bytes of others may be any."""
    search(tmp_path / "rows", format_, kind, EXAMPLES)


ATTACKS = {  # on one file of 300 rows, each a line or lines of one person
    "a text for a number": [b'{"user": "eve", "left": "0", "right": 1, "outcome": "1"}'],
    "a position for a name": [b'{"user": 5, "left": 0, "right": 1, "outcome": 1}'],
    "a truth": [b'{"user": true, "left": 0, "right": 1, "outcome": true}'],
    "an object": [b'{"user": {"u": 1}, "left": [0], "right": {}, "outcome": []}'],
    "nothing but nulls": [b'{"user": null, "left": null, "right": null, "outcome": null}'],
    "no object": [b"null"],
    "no text": [b"\xff\xfe\x00"],
    "an open quote": [b'"'],
    "a wrap": [b'{"user": "eve", "x":', b"}"],
    "a wrap that adds up": [b'{"x":{"y":{}', b"{}{}{}"],
    "depth": [b"[" * 200_000],
    "length": [b"x" * (1 << 21)],
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("format_", ["json", "csv", "csv with semicolons"])
@pytest.mark.parametrize("places", [(0, 1), (150, 151), (10, 290)])
def test_no_line_moves_the_rows_of_others(tmp_path, attack, format_, places):
    writer, rows = FORMATS[format_], KINDS["comparisons"]
    good = [writer.line(rows.row(n)) for n in range(300)]
    path = tmp_path / f"x.{writer.ending}"
    expected = writer.kept(path, rows, good)
    assert expected.total() == 300
    lines = list(good)
    for place, line in zip(places, ATTACKS[attack], strict=False):
        lines.insert(place, line)
    found = writer.kept(path, rows, lines)
    assert found & expected == expected
    assert (found - expected).total() <= len(ATTACKS[attack])


def test_a_quoted_name_with_a_line_end_needs_multiline(tmp_path):
    writer, rows = FORMATS["csv"], KINDS["comparisons"]
    line = b'"eve\nof two lines",London,Paris,1'
    path = writer.write(tmp_path / "x.csv", rows, [writer.line(rows.row(0)), line])
    assert kept(path, rows).total() == 1
    assert kept(path, rows, multiline=True).total() == 2
