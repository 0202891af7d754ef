"""PrefLib files of rankings as rows."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrank.transforms.common.schema import InputError
from hushrank.transforms.rankings.ranking_columns import RankColumns
from hushrank.transforms.storage import preflib
from hushrank.transforms.storage.files import FileFormat, check_files, list_files
from hushrank.transforms.storage.preflib import check_ballots, parse_ballots, read_header, read_rows
from hushrank.transforms.storage.read import plan_splits, read_batches

COLUMNS = RankColumns(user="user", item="item", rank="rank")
NAMES = ("Ada", "Bo", "Cy, the third", "Dé")
TIES = ["2: 2,{1,4}", "", "1: 3, 1", "3:4", "1: {3,2},{},1,4", "2: 2,{1,4}"]


def text(kind: str, ballots: list[str], voters: int | None = None, **changed: str) -> str:
    header = {
        "FILE NAME": f"00001-00000001.{kind}",
        "TITLE": "Board",
        "DATA TYPE": kind,
        "NUMBER ALTERNATIVES": "4",
        "NUMBER VOTERS": str(voters or sum(int(b.split(":")[0]) for b in ballots if b)),
        "NUMBER UNIQUE ORDERS": str(len(ballots)),
        **{f"ALTERNATIVE NAME {k}": name for k, name in enumerate(NAMES, 1)},
    } | changed
    return "\n".join([*(f"# {key}: {value}" for key, value in header.items()), *ballots]) + "\n"


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., Path]:
    def write(content: str | bytes, kind: str = "toi") -> Path:
        path = tmp_path / f"board.{kind}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def rows_and_refused(path: Path) -> tuple[list[tuple[str, str, int]], list[str]]:
    """As a job reads them."""
    files = list_files([str(path)])
    schemas = check_files(files, COLUMNS)
    found, refused = [], []
    for split in plan_splits(files[0], schemas[files[0].path], COLUMNS):
        for batch in read_batches(split):
            refused += batch.malformed
            columns = (batch.rows[name].to_pylist() for name in ("user", "item", "rank"))
            found += list(zip(*columns, strict=True))
    return found, refused


def rows(path: Path) -> list[tuple[str, str, int]]:
    found, refused = rows_and_refused(path)
    assert not refused
    return found


def test_every_person_of_a_line_has_rows_and_ties_share_a_rank(put) -> None:
    path = put(text("toi", TIES))
    assert list_files([str(path)])[0].format is FileFormat.PREFLIB
    first = [("Bo", 1), ("Ada", 2), ("Dé", 2)]
    orders = [
        first,
        first,
        [("Cy, the third", 1), ("Ada", 2)],
        *[[("Dé", 1)]] * 3,
        [("Cy, the third", 1), ("Bo", 1), ("Ada", 2), ("Dé", 3)],  # an empty group has no rank
        first,
        first,
    ]
    expected = [
        (f"{path}#{person}", item, rank)
        for person, order in enumerate(orders, 1)
        for item, rank in order
    ]
    assert rows(path) == expected


def test_a_file_is_read_the_same_in_small_pieces(put, monkeypatch) -> None:
    ballots = [f"{1 + k % 3}: {1 + k % 4},{1 + (k + 1) % 4}" for k in range(200)]
    path = put(text("soi", ballots), "soi")
    whole = rows(path)
    monkeypatch.setattr(preflib, "BLOCK_BYTES", 64)
    monkeypatch.setattr(preflib, "BATCH_ROWS", 10)
    assert rows(path) == whole
    assert len(whole) == 2 * sum(1 + k % 3 for k in range(200))
    sizes = [len(batch) for batch, _ in read_rows(str(path), io.BytesIO(path.read_bytes()))]
    assert max(sizes) <= 10


def test_millions_of_people_of_one_line_come_in_batches(monkeypatch) -> None:
    monkeypatch.setattr(preflib, "BATCH_ROWS", 1 << 16)
    content = text("soc", ["300000: 4,3,2,1"]).encode()
    people = set()
    for batch, _ in read_rows("big.soc", io.BytesIO(content)):
        assert len(batch) <= 1 << 16
        assert batch["item"].to_pylist()[:4] == [NAMES[3], NAMES[2], NAMES[1], NAMES[0]]
        assert len(batch["user"].dictionary) == len(batch) // 4
        people.update(batch["user"].dictionary.to_pylist())
    assert people == {f"big.soc#{k}" for k in range(1, 300_001)}


def test_line_ends_and_marks_of_other_systems(put) -> None:
    plain = rows(put(text("toi", TIES)))
    for content in (
        text("toi", TIES).replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + text("toi", TIES).encode(),
        text("toi", TIES).rstrip("\n").encode(),
    ):
        assert rows(put(content)) == plain


def test_nobody_ranked_anything(put) -> None:
    assert rows(put(text("toi", ["3:", "2: "]))) == []


def test_random_ballots_come_out_as_they_were_written() -> None:
    """Each order of items and ties, and how many people gave it, for 300 random ballots."""
    random = np.random.default_rng(0)
    written: dict[str, tuple[int, list[list[int]]]] = {}  # text of an order -> people, its groups
    for _ in range(300):
        items = (random.permutation(4)[: random.integers(1, 5)] + 1).tolist()
        cut = int(random.integers(0, len(items) + 1))
        groups = [[item] for item in items[:cut]] + ([items[cut:]] if cut < len(items) else [])
        order = ", ".join(
            str(group[0]) if len(group) == 1 else "{" + ", ".join(map(str, group)) + "}"
            for group in groups
        )
        written[order] = (int(random.integers(1, 9)), groups)
    header = read_header("x.toi", text("toi", []).encode())
    ballots = parse_ballots([f"{n}: {order}" for order, (n, _) in written.items()], header)
    assert len(written) > 50
    assert ballots.people.tolist() == [people for people, _ in written.values()]
    starts = np.cumsum(ballots.lengths) - ballots.lengths
    for start, length, (_, groups) in zip(starts, ballots.lengths, written.values(), strict=True):
        own = slice(start, start + length)
        flat = [(item - 1, rank) for rank, group in enumerate(groups, 1) for item in group]
        assert list(zip(ballots.items[own], ballots.ranks[own], strict=True)) == flat


START = "not a PrefLib file of rankings: "
HEADER_LINES = 10
WRONG_LINES = [
    ("toi", "2; 1,2", "it is not `count: order`, as in 3: 2,{1,4}"),
    ("toi", "2: 1,x", "it is not `count: order`, as in 3: 2,{1,4}"),
    ("toi", "2: 1,{2,3", "it is not `count: order`, as in 3: 2,{1,4}"),
    ("toi", "2: 1 3", "it is not `count: order`, as in 3: 2,{1,4}"),
    ("toi", "# TITLE: late", "it is not `count: order`, as in 3: 2,{1,4}"),
    ("toi", "99999999999999999999: 1", "it is not `count: order`, as in 3: 2,{1,4}"),
    ("toi", "999999999: 1,2,3", "the count of people is above NUMBER VOTERS"),
    ("toi", "2: 1" + " " * 70_000, "it is longer than any ballot on these items"),
    ("toi", "2: 1,\ufeff2", "it is not `count: order`, as in 3: 2,{1,4}"),
    ("toi", "0: 1,2", "the count of people must be at least 1"),
    ("toi", "2: 1,5", "an item is not in the header"),
    ("toi", "2: 1,0", "an item is not in the header"),
    ("toi", "2: 1,{2,1}", "an item occurs twice"),
    ("toc", "2: 1,2,3", "an item is missing, and toc is the kind that ranks all of them"),
    ("soi", "2: 1,{2,3}", "items are tied, and soi is a kind without ties"),
]


@pytest.mark.parametrize(("kind", "line", "rule"), WRONG_LINES)
def test_a_line_that_breaks_a_rule_comes_back_apart(put, kind, line, rule) -> None:
    before, after = ["5: 1,2,3,4", "", "1: 4,3,2,1"], ["2: 1,2,4,3"]
    found, refused = rows_and_refused(put(text(kind, [*before, line, *after], voters=8), kind))
    assert refused == [f"line {HEADER_LINES + 4}: {rule}: {line.strip()}"]
    content = text(kind, [*before, line, *after], voters=8).encode()
    with pytest.raises(InputError) as told:  # for whoever holds the file
        check_ballots("x", io.BytesIO(content))
    assert str(told.value) == f"x: {START}line {HEADER_LINES + 4}: {rule}. Correct the file."
    assert found == rows(put(text(kind, [*before, *after]), kind))


def test_lines_that_break_several_rules_are_told_apart(put, monkeypatch) -> None:
    lines = [line for kind, line, _ in WRONG_LINES if kind == "toi"] * 2
    good = [f"{1 + k}: {1 + k % 4},{1 + (k + 1) % 4}" for k in range(len(lines))]
    mixed = [line for pair in zip(lines, good, strict=True) for line in pair]
    people = sum(range(1, 1 + len(good)))
    path = put(text("toi", mixed, voters=people))
    whole = rows_and_refused(path)
    assert all(
        told.endswith(f": {line.strip()}") for told, line in zip(whole[1], lines, strict=True)
    )
    assert whole[0] == rows(put(text("toi", good)))
    monkeypatch.setattr(preflib, "BLOCK_BYTES", 64)
    assert rows_and_refused(put(text("toi", mixed, voters=people))) == whole


KNOWN = "lines `# ALTERNATIVE NAME 1: ..., as PrefLib writes it since 2022`"
WRONG_HEADERS = [
    ("4\n1,Ada\n2,Bo\n", f"it does not begin with {KNOWN}; download it again"),
    ("\n" + text("toi", TIES), f"it does not begin with {KNOWN}; download it again"),
    (
        text("toi", TIES, **{"ALTERNATIVE NAME 2": "Ada"}),
        "ALTERNATIVE NAME must give two or more items, each its own name",
    ),
    (
        text("toi", TIES, **{"ALTERNATIVE NAME 2": " "}),
        "ALTERNATIVE NAME must give two or more items, each its own name",
    ),
    (
        text("toi", TIES, **{"NUMBER ALTERNATIVES": "5"}),
        "NUMBER ALTERNATIVES is not the number of lines ALTERNATIVE NAME",
    ),
    (text("toi", TIES, **{"NUMBER VOTERS": "many"}), "a number in the header is not one"),
    (
        text("toi", TIES, **{"DATA TYPE": "cat"}),
        "its DATA TYPE must be its ending, one of soc, soi, toc, toi",
    ),
    (text("soi", ["1: 1"]), "its DATA TYPE must be its ending, one of soc, soi, toc, toi"),
]


@pytest.mark.parametrize(("content", "rule"), WRONG_HEADERS)
def test_a_header_that_breaks_a_rule_is_refused_before_a_ballot_is_read(put, content, rule) -> None:
    path = put(content)
    with pytest.raises(InputError) as refused:
        check_files(list_files([str(path)]), COLUMNS)
    assert str(refused.value) == f"{path}: {START}{rule}. Correct the file."


def test_a_file_that_was_cut_is_noticed(put) -> None:
    path = put(text("toi", TIES, voters=100))
    found, refused = rows_and_refused(path)
    assert refused == ["NUMBER VOTERS is not the number of ballots; it may be cut short"]
    assert found == rows(put(text("toi", TIES)))
    with pytest.raises(InputError, match=r"NUMBER VOTERS is not the number of ballots"):
        check_ballots("x", io.BytesIO(text("toi", TIES, voters=100).encode()))


@pytest.mark.parametrize("block", [64, 1 << 20])
def test_one_line_of_any_bytes_leaves_the_other_ballots(put, monkeypatch, block) -> None:
    monkeypatch.setattr(preflib, "BLOCK_BYTES", block)
    before, after = [], ["5: 1,2,3,4", "1: 4,3,2,1", "2: 1,2,4,3"]
    plain = rows(put(text("toi", [*before, *after])))
    start, end = text("toi", before, voters=8).encode(), ("\n".join(after) + "\n").encode()
    for line in (
        b"# NUMBER VOTERS: 1",
        b"# ALTERNATIVE NAME 5: Eve",
        b"\xff\xfe",
        b"3: 1,\xe9",
        b"\x00",
        b"3: " + b"{" * 3_000,
        b"1" * 300_000,
    ):
        found, refused = rows_and_refused(put(start + line + b"\n" + end))
        assert [row[1:] for row in found] == [row[1:] for row in plain]
        assert len(refused) == 1


@pytest.mark.parametrize("number", ["", "# NUMBER ALTERNATIVES: 2\n"])
def test_a_header_that_does_not_say_where_it_ends_is_refused(put, number):
    """A ballot such as `# ALTERNATIVE NAME 2: Z` would rename an item for everybody."""
    names = "# ALTERNATIVE NAME 1: A\n# ALTERNATIVE NAME 2: B\n"
    path = put(f"# DATA TYPE: toi\n{names}{number}2: 1,2\n")
    with pytest.raises(InputError, match="NUMBER ALTERNATIVES must stand before the names"):
        rows(path)


MARKS = st.sampled_from(["1", "2", "4", "9", "0", ",", ":", " ", "{", "}", "#", "\r", "\x00", "é"])
LINES = st.one_of(
    st.binary(max_size=12),
    st.lists(MARKS, max_size=12).map(lambda marks: "".join(marks).encode()),
    st.tuples(st.integers(0, 2**70), st.permutations([1, 2, 3, 4, 5])).map(
        lambda told: f"{told[0]}: {','.join(map(str, told[1][:3]))}".encode()
    ),
).filter(lambda line: b"\n" not in line)


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(preflib.KINDS), line=LINES, place=st.integers(0, 4))
def test_one_line_of_any_bytes_adds_no_more_than_the_header_allows(kind, line, place) -> None:
    """The others keep their ballots, in order; what a ballot means follows from its own bytes."""
    others = [f"{k}: {order}" for k, order in enumerate(("1,2,3,4", "4,3,2,1", "2,1,4,3"), 1)] + [
        ""
    ]
    header, lines = text(kind, others, voters=9).encode(), [each.encode() for each in others]
    start = header[: -len("\n".join(others)) - 1]

    def orders_in(lines: list[bytes]) -> list[tuple[tuple[str, int], ...]]:
        people: dict[str, list[tuple[str, int]]] = {}
        for batch, _ in read_rows(f"x.{kind}", io.BytesIO(start + b"\n".join(lines))):
            for row in batch.to_pylist():
                people.setdefault(row["user"], []).append((row["item"], row["rank"]))
        return [tuple(order) for order in people.values()]

    def without(found: list[tuple[tuple[str, int], ...]], before: int) -> list[Any]:
        more = len(found) - len(plain)
        assert 0 <= more <= 9
        return found[:before] + found[before + more :]

    plain = orders_in(lines)
    found = orders_in([*lines[:place], line, *lines[place:]])
    assert without(found, sum(range(1, min(place, 3) + 1))) == plain


def test_a_line_stands_for_a_bounded_number_where_the_header_counts_nobody() -> None:
    header = text("toi", [], **{"NUMBER VOTERS": "0"})
    content = header.encode() + b"999999999: 1,2\n1000000: 2,1\n"
    batches = list(read_rows("x.toi", io.BytesIO(content)))
    assert sum(len(batch) for batch, _ in batches) == 2 * preflib.MOST_PEOPLE
    (refused,) = (line for _, lines in batches for line in lines)
    assert refused.rule == "the count of people is above 1 000 000"


def test_other_encodings_are_refused(put) -> None:
    with pytest.raises(InputError, match="not UTF-8 text"):
        check_files(list_files([str(put(text("toi", TIES).encode("latin-1")))]), COLUMNS)


def test_real_ballots_come_back_from_a_file_of_them(put, real_data: Path) -> None:
    """A Debian election, written as PrefLib would and read again."""
    import pyarrow.parquet as pq

    table = pq.read_table(real_data / "rank_debian.parquet").to_pylist()
    contest = table[0]["contest"]
    people: dict[int, dict[int, list[int]]] = {}
    for row in table:
        if row["contest"] == contest:
            people.setdefault(row["user"], {}).setdefault(row["rank"], []).append(row["item"])
    items = sorted({item for ranks in people.values() for tied in ranks.values() for item in tied})
    orders = [
        ",".join(
            "{" + ",".join(str(items.index(item) + 1) for item in tied) + "}"
            for _, tied in sorted(ranks.items())
        )
        for ranks in people.values()
    ]
    names = {f"ALTERNATIVE NAME {k}": f"n{k}" for k in range(1, len(items) + 1)}
    header = text("toi", [], **{"NUMBER ALTERNATIVES": str(len(items))}, **names)
    kept = [line for line in header.splitlines() if "NUMBER VOTERS" not in line]
    found = rows(put("\n".join([*kept, *(f"1: {order}" for order in orders)]) + "\n"))
    assert len(found) == sum(len(t) for ranks in people.values() for t in ranks.values())
    for number, ranks in enumerate(people.values(), 1):
        dense = [
            sorted(f"n{items.index(item) + 1}" for item in t) for _, t in sorted(ranks.items())
        ]
        own = [row for row in found if row[0].endswith(f"#{number}")]
        read = [sorted(item for _, item, rank in own if rank == k + 1) for k in range(len(dense))]
        assert read == dense
        if number == 50:
            break
