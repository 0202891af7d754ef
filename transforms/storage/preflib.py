"""PrefLib files of rankings (`.soc`, `.soi`, `.toc`, `.toi`) as rows with one ranked item each.

After a header that names the items, a line `3: 2,{1,4}` holds the ballots of three people, who rank
item 2 first, then items 1 and 4 at the same rank. Here each ballot becomes a person, named by the
file and a running number, because PrefLib names nobody. So two ballots of one person in two files
count as two people.

Every line is checked against the format before it is parsed. Lines that break a rule are returned
separately; which lines these are is private, like the rest of a ballot. The items come from the
header alone, so they do not depend on anybody's ballot: they are public, as a catalogue must be.

References:
    [MW13] Mattei, Walsh. PrefLib: a library for preferences. 2013.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.transforms.common.schema import InputError, to_numpy

USER, ITEM, RANK = "user", "item", "rank"  # columns of the rows
SCHEMA = pa.schema([(USER, pa.string()), (ITEM, pa.string()), (RANK, pa.int64())])
KINDS = ("soc", "soi", "toc", "toi")  # strict or with ties, complete or incomplete
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some programs begin UTF-8 text with it
HEADER_BYTES = 1 << 20  # the header must end within the first MiB
BLOCK_BYTES = 1 << 20  # bytes of ballots parsed at a time
# More than any ballot has items, whose names must fit into the header: no ballot is cut in two.
BATCH_ROWS = 1 << 16
MOST_PEOPLE = 1_000_000  # most people of one line, if the header does not say how many voted
_LEAST_LINE, _ITEM_BYTES = 1 << 16, 32  # a line may be this long, or this long for each item

_GROUP = r"(\d{1,9}|\{\s*(\d{1,9}(\s*,\s*\d{1,9})*)?\s*\})"
_LINE = rf"^\s*\d{{1,9}}\s*:\s*({_GROUP}(\s*,\s*{_GROUP})*)?\s*,?\s*$"
_MALFORMED = "it is not `count: order`, as in 3: 2,{1,4}"
_LONG = "it is longer than any ballot on these items"
_CUT = "NUMBER VOTERS is not the number of ballots; it may be cut short"
_UNCOUNTED = (
    "NUMBER ALTERNATIVES must stand before the names of the items, as PrefLib writes it since 2022:"
    " it tells where the header ends, so that no ballot is read as a part of it"
)
_NUMBER_ALTERNATIVES = re.compile(rb"# NUMBER ALTERNATIVES: ([0-9]{1,9})\s*$")
_NAME = re.compile(r"# ALTERNATIVE NAME ([0-9]{1,9}): (.*)")
_KNOWN = "# ALTERNATIVE NAME 1: ..., as PrefLib writes it since 2022"

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Header:
    """Header of a file, before its ballots.

    Attributes:
        kind: one of `KINDS`.
        names: the items, in the order of their numbers.
        numbers: shape (items,), the numbers that ballots use, ascending.
        voters: number of people who voted; None: the header does not say.
        lines: number of lines of the header.
    """

    kind: str
    names: tuple[str, ...]
    numbers: Integers
    voters: int | None
    lines: int

    @property
    def most_line_bytes(self) -> int:
        """Most bytes of a valid line; a longer line is cut off there."""
        return max(_LEAST_LINE, _ITEM_BYTES * len(self.names))


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """Line that is not a ballot: its number, the rule that it breaks, and its content.

    Without a number the whole file breaks the rule, not one of its lines.
    """

    number: int | None
    rule: str
    text: str

    def __str__(self) -> str:
        return self.rule if self.number is None else f"line {self.number}: {self.rule}: {self.text}"


@dataclass(frozen=True, slots=True)
class Ballots:
    """Different ballots of a file, in order.

    Attributes:
        items: shape (sum of lengths,), codes in the order of the header's names, best first.
        ranks: same shape as `items`; 1 is best, tied items share a rank.
        lengths: shape (n,), how many items each ballot ranks.
        people: shape (n,), how many people cast it.
        refused: lines that are not ballots.
    """

    items: Integers
    ranks: Integers
    lengths: Integers
    people: Integers
    refused: tuple[RefusedLine, ...] = ()


def read_header(path: str, head: bytes) -> Header:
    """Read the header of a file.

    Args:
        path: path of the file; its ending states the kind, unless the header does.
        head: the beginning of the file.

    Raises:
        InputError: the file has no header in this format, or a header that contradicts itself.
    """
    whole = head if len(head) < HEADER_BYTES else head.rpartition(b"\n")[0]  # no cut line
    head_lines, counted = _header_lines(whole)
    lines = _text(path, b"\n".join(head_lines)).split("\n")
    ending = path.rpartition(".")[2].lower()
    names = {int(found[1]): found[2].strip() for found in map(_NAME.match, lines) if found}
    told = dict(line[2:].split(": ", 1) for line in lines if ": " in line)
    kind = told.get("DATA TYPE", ending).strip()
    try:
        voters, alternatives = (
            int(told.get(key, 0)) for key in ("NUMBER VOTERS", "NUMBER ALTERNATIVES")
        )
    except ValueError:
        raise _error(path, "a number in the header is not one") from None
    rule = _broken_rule(kind, ending, names, alternatives)
    if rule is not None:
        raise _error(path, rule)
    if not counted:
        raise _error(path, _UNCOUNTED)
    numbers = sorted(names)
    return Header(
        kind=kind,
        names=tuple(names[number] for number in numbers),
        numbers=np.array(numbers, np.int64),
        voters=voters or None,
        lines=len(lines),
    )


def _header_lines(head: bytes) -> tuple[list[bytes], bool]:
    """Return the lines with # up to the last name, and whether the number of names was stated
    before.

    If it was, a later ballot that begins with # is still a ballot and changes nothing for others.
    """
    start = head.removeprefix(BYTE_ORDER_MARK)
    lines = list(takewhile(lambda line: line.startswith(b"#"), start.split(b"\n")))
    names_left = -1
    for number, line in enumerate(lines, 1):
        if found := _NUMBER_ALTERNATIVES.match(line):
            names_left = int(found[1])
        elif line.startswith(b"# ALTERNATIVE NAME "):
            names_left -= 1
            if names_left == 0:
                return lines[:number], True
    return lines, False


def read_rows(
    path: str, stream: IO[bytes]
) -> Iterator[tuple[pa.RecordBatch, tuple[RefusedLine, ...]]]:
    """Yield one row for each item that a person ranks, in batches of about `BATCH_ROWS` rows.

    Rows of one person stand together, best first; tied items share a rank. A person who ranked
    nothing has no row.

    Args:
        path: path of the file, for the people's names and for messages.
        stream: the file from its beginning.

    Returns:
        Batches of `SCHEMA`, with people and items as dictionaries. Each batch comes with the lines
        that break a rule of the format or contradict the header; which lines these are is private.
        If no line does, but the header states another number of people, the last refused entry says
        so; an error would reveal that somebody's ballot is there.

    Raises:
        InputError: the file has no header in this format, or a header that contradicts itself.
    """
    head = stream.read(HEADER_BYTES)
    header = read_header(path, head)
    stream.seek(0)
    before, whole = 0, True
    for ballots in _ballots(stream, header):
        if ballots.refused:
            whole = False
            yield pa.RecordBatch.from_pylist([], SCHEMA), ballots.refused
        for batch, people in _rows(path, header, ballots, before):
            yield batch, ()
            before += people
    if whole and header.voters is not None and before != header.voters:
        yield pa.RecordBatch.from_pylist([], SCHEMA), (RefusedLine(None, _CUT, ""),)


def check_ballots(path: str, stream: IO[bytes]) -> None:
    """Refuse a file with an invalid line, or a file cut short; only for the ballots' holder.

    Raises:
        InputError: the file is invalid; the text has the number of the line, not its content.
    """
    header = read_header(path, stream.read(HEADER_BYTES))
    stream.seek(0)
    people = 0
    for ballots in _ballots(stream, header):
        for line in ballots.refused:
            raise refusal(path, line)
        people += int(ballots.people.sum())
    if header.voters is not None and people != header.voters:
        raise _error(path, _CUT)


def refusal(path: str, line: RefusedLine) -> InputError:
    """Build the error about an invalid line, for the holder of the ballots."""
    where = "" if line.number is None else f"line {line.number}: "
    return _error(path, f"{where}{line.rule}")


def _ballots(stream: IO[bytes], header: Header) -> Iterator[Ballots]:
    number, rest = 0, b""  # the number of lines that were read
    while block := stream.read(BLOCK_BYTES):
        whole, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            lines = _lines(whole)
            skipped = min(max(header.lines - number, 0), len(lines))
            yield parse_ballots(lines[skipped:], header, number + skipped)
            number += len(lines)
        rest = rest[: header.most_line_bytes + 1]
    if number >= header.lines:
        yield parse_ballots(_lines(rest), header, number)


def _lines(content: bytes) -> list[str]:
    """Split a file into lines; a line that is not UTF-8 gets a character that no ballot has."""
    return content.decode(errors="replace").split("\n")


def parse_ballots(lines: Sequence[str], header: Header, before: int = 0) -> Ballots:
    """Parse lines with one ballot each; skip blank lines.

    Args:
        lines: text after the header.
        header: header of the file.
        before: number of lines of the file that come before them.
    """
    texts = pa.array(lines, pa.large_string())
    filled = np.flatnonzero(to_numpy(pc.match_substring_regex(texts, r"\S")))
    texts, number = texts.take(pa.array(filled)), before + 1 + filled
    short = to_numpy(pc.less_equal(pc.binary_length(texts), header.most_line_bytes))
    formed = short & to_numpy(pc.match_substring_regex(texts, _LINE))
    rules = dict.fromkeys(np.flatnonzero(~formed).tolist(), _MALFORMED)
    rules |= dict.fromkeys(np.flatnonzero(~short).tolist(), _LONG)
    place = np.flatnonzero(formed)
    ballots = _parsed(texts.take(pa.array(place)), header)
    for found, rule in _broken(ballots, header):
        rules = dict.fromkeys(place[found].tolist(), rule) | rules  # reports the first rule
    if not rules:
        return ballots
    wrong = sorted(rules)
    if len(wrong) > len(formed) - len(place):  # parse the valid lines once more; this is rare
        ballots = _parsed(texts.take(pa.array(np.delete(np.arange(len(texts)), wrong))), header)
    told = (RefusedLine(int(number[at]), rules[at], texts[at].as_py().strip()) for at in wrong)
    return replace(ballots, refused=tuple(told))


def _parsed(texts: pa.Array, header: Header) -> Ballots:
    """Parse lines that have the form of a ballot: all their characters are ASCII.

    A number outside braces is a group of its own, and numbers inside share the group that begins at
    their brace. An item that the header does not name gets a code above all others.
    """
    parts = pc.split_pattern(texts, ":", max_splits=1)
    people = pc.utf8_trim_whitespace(pc.list_element(parts, 0)).cast(pa.int64())
    orders = ";".join(pc.list_element(parts, 1).to_pylist())
    characters = np.frombuffer(orders.encode(), np.uint8)
    at = np.arange(len(characters))
    digit = (characters >= ord("0")) & (characters <= ord("9"))
    first = digit & ~np.concatenate([[False], digit[:-1]])
    starts = np.flatnonzero(first)
    ends = np.flatnonzero(digit & ~np.concatenate([digit[1:], [False]]))
    number = np.cumsum(first)[digit] - 1
    worth = 10.0 ** (ends[number] - at[digit]) * (characters[digit] - ord("0"))
    alternatives = np.bincount(number, worth, len(starts)).astype(np.int64)  # 9 digits at most
    opened = np.maximum.accumulate(np.where(characters == ord("{"), at, -1))
    closed = np.maximum.accumulate(np.where(characters == ord("}"), at, -1))
    group = np.where(opened[starts] > closed[starts], opened[starts], starts)
    ballot = np.cumsum(characters == ord(";"))[starts]
    lengths = np.bincount(ballot, minlength=len(texts))
    place = np.minimum(np.searchsorted(header.numbers, alternatives), len(header.numbers) - 1)
    groups = np.cumsum(np.diff(group, prepend=-1) != 0)  # groups so far, in all ballots together
    before = np.concatenate([[0], groups])[np.cumsum(lengths) - lengths]
    return Ballots(
        items=np.where(header.numbers[place] == alternatives, place, len(header.numbers)),
        ranks=groups - np.repeat(before, lengths),
        lengths=lengths,
        people=to_numpy(people),
    )


def _broken(ballots: Ballots, header: Header) -> Iterator[tuple[Integers, str]]:
    """Yield the ballots that break each rule."""
    n_items, kind = len(header.names), header.kind
    ballot = np.repeat(np.arange(len(ballots.lengths)), ballots.lengths)
    yield np.flatnonzero(ballots.people < 1), "the count of people must be at least 1"
    above = "NUMBER VOTERS" if header.voters is not None else f"{MOST_PEOPLE:,}".replace(",", " ")
    too_many = np.flatnonzero(
        ballots.people > (MOST_PEOPLE if header.voters is None else header.voters)
    )
    yield too_many, f"the count of people is above {above}"
    yield ballot[ballots.items == n_items], "an item is not in the header"
    cells = np.sort(ballot * (n_items + 1) + ballots.items)  # unknown items share a code
    yield cells[1:][cells[1:] == cells[:-1]] // (n_items + 1), "an item occurs twice"
    if kind in ("soc", "toc"):
        missing = np.flatnonzero(ballots.lengths < n_items)
        yield missing, f"an item is missing, and {kind} is the kind that ranks all of them"
    if kind in ("soc", "soi"):
        tied = (np.diff(ballots.ranks) == 0) & (np.diff(ballot) == 0)
        yield ballot[1:][tied], f"items are tied, and {kind} is a kind without ties"


def _rows(
    path: str, header: Header, ballots: Ballots, before: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield rows of some people, and their number; `before` people came earlier."""
    names = pa.array(header.names, pa.string())
    last = np.cumsum(ballots.people)
    total = int(last[-1]) if len(last) else 0
    starts = np.cumsum(ballots.lengths) - ballots.lengths
    at_once = max(BATCH_ROWS // max(int(ballots.lengths.max(initial=1)), 1), 1)
    for start in range(0, total, at_once):
        person = np.arange(start, min(start + at_once, total))
        ballot = np.searchsorted(last, person, side="right")
        lengths = ballots.lengths[ballot]
        own = np.repeat(np.arange(len(person)), lengths)  # the person of each row
        within = np.arange(len(own)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        cells = starts[ballot][own] + within
        users = pc.binary_join_element_wise(
            f"{path}#", pa.array(person + before + 1).cast(pa.string()), ""
        )
        columns = {
            USER: _dictionary(own, users),
            ITEM: _dictionary(ballots.items[cells], names),
            RANK: pa.array(ballots.ranks[cells]),
        }
        yield pa.record_batch(columns), len(person)


def _dictionary(codes: Integers, values: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), values)


def _broken_rule(kind: str, ending: str, names: dict[int, str], alternatives: int) -> str | None:
    """Return the first rule that a header breaks."""
    if not names:
        return f"it does not begin with lines `{_KNOWN}`; download it again"
    if kind not in KINDS or (ending in KINDS and kind != ending):
        return f"its DATA TYPE must be its ending, one of {', '.join(KINDS)}"
    if len(names) < 2 or len(set(names.values())) < len(names) or not all(names.values()):
        return "ALTERNATIVE NAME must give two or more items, each its own name"
    if alternatives and alternatives != len(names):
        return "NUMBER ALTERNATIVES is not the number of lines ALTERNATIVE NAME"
    return None


def _text(path: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text. Save the file as UTF-8.") from None


def _error(path: str, rule: str) -> InputError:
    return InputError(f"{path}: not a PrefLib file of rankings: {rule}. Correct the file.")
