"""A journal keeps what was appended, whatever is torn off its end."""

from __future__ import annotations

import os
import struct
import zlib

import numpy as np
import pytest

from hushrank.flows.collecting.journal import MOST_JOURNAL, Group, Journal, read_journal
from hushrank.flows.collecting.protocol import Role, RowForm

FORM = RowForm((("left", Role.ITEM), ("epsilon", Role.EPSILON)), ("ants", "bees"))


def rows(n, seed=0):
    made = np.zeros(n, FORM.dtype)
    made["left"] = np.arange(n) % 2
    made["epsilon"] = seed + np.arange(n)
    return made.tobytes()


GROUPS = (
    Group(rows(3), (b"12345678",), ()),
    Group(rows(1, 10), (b"abcdefgh", b"bbbbbbbb"), (b"tokentok",)),
    Group(rows(2, 20)),
)


@pytest.fixture
def written(tmp_path):
    """A journal of three groups, and its size after its head and after each of them."""
    journal = Journal.create(tmp_path / "journal", FORM)
    sizes = [journal.size]
    for group in GROUPS:
        journal.append(group)
        sizes.append(journal.size)
    journal.close()
    return journal.path, sizes


def test_what_was_appended_is_read(written):
    path, sizes = written
    content = read_journal(path)
    assert content.form == FORM
    assert content.groups == GROUPS
    assert content.size == sizes[-1] == path.stat().st_size
    assert not content.torn
    assert not content.damaged


def test_a_torn_end_loses_the_torn_group_alone(written):
    """Cut off after every byte."""
    path, sizes = written
    whole = path.read_bytes()
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        content = read_journal(path)
        if end < sizes[0]:
            assert content is None
            continue
        kept = sum(size <= end for size in sizes[1:])
        assert content.groups == GROUPS[:kept]
        assert content.size == sizes[kept]
        assert content.torn == (end > sizes[kept])
        assert not content.damaged


def test_a_file_that_grew_before_its_content_came_ends_in_zeros(written):
    path, _ = written
    path.write_bytes(path.read_bytes() + bytes(100))
    content = read_journal(path)
    assert content.groups == GROUPS
    assert not content.torn
    assert not content.damaged


def test_a_disk_that_damages_a_group_is_noticed(written):
    """Every byte of the second group but its length, which says where the third begins."""
    path, sizes = written
    whole = path.read_bytes()
    for at in range(sizes[1] + 4, sizes[2]):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 64]) + whole[at + 1 :])
        content = read_journal(path)
        assert content.groups == GROUPS[:1]
        assert content.damaged


def test_no_flipped_bit_goes_unnoticed(written):
    """Each bit after the first line: groups are missing then, and the content says so."""
    path, _ = written
    whole = path.read_bytes()
    for at in range(8 * 19, 8 * len(whole)):
        flipped = bytearray(whole)
        flipped[at // 8] ^= 1 << at % 8
        path.write_bytes(flipped)
        try:
            content = read_journal(path)
        except ValueError:
            continue
        assert content is None or (content.groups != GROUPS and (content.torn or content.damaged))


def test_what_is_whole_but_was_not_written_here_is_refused(written, tmp_path):
    path, sizes = written
    head, whole = path.read_bytes()[: sizes[0]], path.read_bytes()
    records = [b"x", GROUPS[0].to_bytes()[:-1], bytes([255]) * 20]
    heads = [b"[]", b"{}", b'{"columns": [], "items": [], "longest": 0}', b"\xff", b"[" * 9999]
    contents = [head + record(each) for each in records]
    contents += [whole[:19] + record(each) + record(GROUPS[0].to_bytes()) for each in heads]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is damaged"):
            read_journal(path)
    os.truncate(path, MOST_JOURNAL + 1)
    with pytest.raises(ValueError, match="is larger than 1024 MiB"):
        read_journal(path)


def record(content):
    return struct.pack("<II", len(content), zlib.crc32(content)) + content


def test_what_is_no_journal_is_refused(tmp_path):
    path = tmp_path / "journal"
    path.write_bytes(b"something else altogether, and long enough to be a head")
    with pytest.raises(ValueError, match="not a journal"):
        read_journal(path)


def test_a_journal_goes_on_where_its_whole_groups_end(written):
    path, sizes = written
    path.write_bytes(path.read_bytes()[: sizes[2] + 5])
    content = read_journal(path)
    journal = Journal(path, content.form, content.size)
    journal.append(GROUPS[2])
    journal.close()
    assert read_journal(path).groups == GROUPS
