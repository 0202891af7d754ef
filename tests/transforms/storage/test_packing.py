"""Packed files: their content is read, and read again from any place, however long it is."""

from __future__ import annotations

import gc
import gzip
import io
from collections.abc import Callable

import pyarrow as pa
import pytest

from hushrank.transforms.common.schema import ComparisonColumns, InputError
from hushrank.transforms.storage.files import check_files, list_files
from hushrank.transforms.storage.read import plan_files, read_batches
from hushrank.transforms.storage.text_lines import MOST_HEADER, unpacked
from tests.written_files import zstd

Pack = Callable[[bytes], bytes]
PACKS: dict[str, Pack] = {"gz": gzip.compress, "zst": zstd}
BUFFERS = (io.DEFAULT_BUFFER_SIZE, 1 << 16)
LENGTHS = [*range(11), *(buffer + more for buffer in BUFFERS for more in (-1, 0, 1))]
SKIPPABLE = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
COLUMNS = ComparisonColumns(
    user="user", left="left", right="right", outcome="outcome", winner=None, event=None
)


def text(length: int) -> bytes:
    return bytes(k * 31 % 251 for k in range(length))


def named(name: bytes, content: bytes) -> bytes:
    """A gzip file whose header holds the name of the file that was packed."""
    plain = gzip.compress(content)  # byte 3 holds the flags; 8 says that a name follows byte 9
    return plain[:3] + b"\x08" + plain[4:10] + name + b"\0" + plain[10:]


class Counted(io.BytesIO):
    """A file that counts how often it is read."""

    reads = 0

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        return super().read(size)


@pytest.mark.parametrize("before", [b"", gzip.compress(b"a,b\n", mtime=0)], ids=["first", "later"])
def test_a_long_name_in_a_header_is_not_read_to_its_end(before):
    packed = Counted(before + named(b"x" * 5_000_000, b"c,d\n"))
    with (
        pytest.raises(InputError, match=r"^x.gz: its gzip header holds .* more than 64 KiB"),
        unpacked("x.gz", packed) as stream,
    ):
        stream.read()
    assert packed.reads < 2 * MOST_HEADER


def test_a_name_in_a_header_is_nothing_to_complain_of():
    packed = io.BytesIO(named(b"x" * (MOST_HEADER - 1), b"a,b\n") * 2)
    with unpacked("x.gz", packed) as stream:
        assert stream.read() == b"a,b\n" * 2


@pytest.mark.parametrize("ending", PACKS)
@pytest.mark.parametrize("length", LENGTHS)
def test_content_is_read_again_from_any_place_twice(ending, length):
    content = text(length)
    packed = io.BytesIO(PACKS[ending](content))
    with unpacked(f"x.{ending}", packed) as stream:
        for place in (0, min(1, length), length // 2, length):
            assert stream.seek(place) == place
            assert stream.read() == content[place:]
            assert stream.read() == b""
            stream.seek(0)
            # What unpacked before must not close the file when it goes; it is not old.
            gc.collect(2 if place == length else 1)
            assert stream.read(place) == content[:place]
            assert stream.tell() == place
        stream.seek(0)
        assert stream.read(length + 1) == content
    with unpacked(f"x.{ending}", io.BytesIO(PACKS[ending](content))) as stream:
        assert stream.seek(length + 5) in (length, length + 5)  # beyond the end there is nothing
        assert stream.read() == b""
        stream.seek(0)
        assert stream.read() == content


@pytest.mark.parametrize("length", [0, 3, 10_000])
def test_frames_follow_each_other_also_empty_and_skippable_ones(length):
    content = text(length)
    frames = [
        zstd(b"") + zstd(content),
        SKIPPABLE + zstd(content) + SKIPPABLE,
        zstd(content[:2]) + zstd(b"") + SKIPPABLE + zstd(content[2:]) + zstd(b""),
    ]
    for packed in frames:
        with unpacked("x.zst", io.BytesIO(packed)) as stream:
            for _ in range(3):
                assert stream.read() == content
                stream.seek(0)
    members = gzip.compress(b"") + gzip.compress(content[:2]) + gzip.compress(content[2:])
    with unpacked("x.gz", io.BytesIO(members)) as stream:
        for _ in range(3):
            assert stream.read() == content
            stream.seek(0)


def rows_and_refused(path: str) -> tuple[int, int]:
    files = list_files([path])
    check_files(files, COLUMNS)
    batches = [batch for split in plan_files(files, COLUMNS) for batch in read_batches(split)]
    refused = sum(len(each.malformed) + sum(map(len, each.rejects)) for each in batches)
    return sum(len(batch.rows) for batch in batches), refused


@pytest.mark.parametrize("ending", PACKS)
@pytest.mark.parametrize("content", [b"\n", b"#\n", b"{}\n", b"x", b"{}", b""])
def test_a_tiny_file_is_read_as_it_is_unpacked(tmp_path, ending, content):
    plain = tmp_path / "plain" / "x.jsonl"
    plain.parent.mkdir()
    plain.write_bytes(content)
    packed = tmp_path / f"x.jsonl.{ending}"
    packed.write_bytes(PACKS[ending](content))
    assert rows_and_refused(str(packed)) == rows_and_refused(str(plain))


@pytest.mark.parametrize("name", ["x.jsonl", "x.ndjson", "x.csv"])
@pytest.mark.parametrize("ending", PACKS)
def test_a_packed_file_of_no_bytes_is_damaged(tmp_path, name, ending):
    """What is empty before it is packed is not empty afterwards."""
    path = tmp_path / f"{name}.{ending}"
    path.write_bytes(b"")
    with pytest.raises(InputError, match=r"the file is empty \(0 bytes\). Remove it, or write it"):
        list_files([str(path)])
    with pytest.raises(InputError, match=r"the file is empty \(0 bytes\). Remove it, or write it"):
        list_files([str(tmp_path)])
    for cut in range(1, 5):
        path.write_bytes(PACKS[ending](b"{}\n")[:cut])
        with pytest.raises(InputError, match=r"not a complete (gzip|zstd) file"):
            rows_and_refused(str(path))


def test_arrow_closes_the_file_below_what_unpacks_it():
    """The reason for the layer in between; if this fails, the layer can go."""
    below = io.BytesIO(zstd(b"content"))
    stream = pa.CompressedInputStream(below, "zstd")
    assert stream.read() == b"content"
    del stream
    gc.collect()
    assert below.closed
