"""Files of who counted in a stream: sorted columns, cut by pseudonym as the shuffle cuts rows.

The people of a night are 2^b shards, by the leading b bits of their pseudonyms, and a manifest that
is written once all shards are there: until then the night before is the last. A worker that meets
the rows of one partition reads the people of that partition, and nobody else's, and writes one
shard of the new night; a retry writes the same again.

The manifest names the stream, the night, the digest of every shard and the digest of the manifest
of the night before. So a file of another stream, an older copy and a damaged file are refused:
with an older copy a person could count once more than the terms allow.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.write import read_whole, write_whole
from hushrank.transforms.streams.participation import People
from hushrank.transforms.streams.stream_folder import (
    PEOPLE,
    check_stream,
    delete_nights,
    intact,
    night_name,
)

MANIFEST = "manifest.json"
_COLUMNS = ("first", "second", "last", "times")
_WORD_BITS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleOfNight:
    """Where the people of one night are; before the first night there is nobody.

    Attributes:
        folder: of the night.
        bits: there are 2^this shards.
        shards: the digest of each; none before the first night.
        n_people: all of them.
        digest: of the manifest; empty before the first night.
    """

    folder: str
    bits: int
    shards: tuple[str, ...]
    n_people: int
    digest: str

    def partition(self, number: int, bits: int) -> People:
        """Those of a partition: all whose pseudonyms begin with the `bits` bits of `number`.

        Raises:
            InputError: a shard is missing or is not the one that the manifest names.
        """
        if not self.shards:
            return People.nobody()
        if bits >= self.bits:
            wanted = range(number >> (bits - self.bits), (number >> (bits - self.bits)) + 1)
        else:
            wanted = range(number << (self.bits - bits), (number + 1) << (self.bits - bits))
        people = People.concatenate([self._shard(shard) for shard in wanted])
        start, end = edges_of(people, number, bits, bits)
        return people.between(start, end)

    def _shard(self, number: int) -> People:
        path = _shard_path(self.folder, number, self.bits)
        try:
            content = read_whole(path)
        except FileNotFoundError:
            content = b""
        if _digest(content) != self.shards[number]:
            raise InputError(
                f"{path}: is missing or is not what this stream wrote. Restore the folder"
                f" {self.folder} whole, from the time after its night; nothing was released."
            )
        table = pq.read_table(io.BytesIO(content))
        return People(*(table.column(name).to_numpy() for name in _COLUMNS))


def edges_of(people: People, number: int, bits: int, within: int) -> list[int]:
    """Where the parts of a partition begin and end among its people, sorted.

    Args:
        people: any that hold the partition.
        number: of the partition, among 2^`bits`.
        bits: as said.
        within: the partition has 2^(`within` - `bits`) parts.

    Returns:
        One number more than there are parts.
    """
    first, parts = number << (within - bits), 1 << (within - bits)
    starts = [part << (_WORD_BITS - within) for part in range(first, first + parts)]
    edges = np.searchsorted(people.first, np.array(starts, np.uint64)).tolist()
    last = first + parts
    if last >> within:  # beyond the last word there is
        return [*edges, len(people)]
    end = np.uint64(last << (_WORD_BITS - within))
    return [*edges, int(np.searchsorted(people.first, end))]


def open_people(folder: str, stream: str, night: int, digest: str | None = None) -> PeopleOfNight:
    """Those who counted up to `night`; nobody for night -1.

    Args:
        folder: of the stream.
        stream: what names it.
        night: the last one that they know.
        digest: of their manifest, where it was noted elsewhere.

    Raises:
        InputError: they are missing, or belong to another stream or another night, or are a copy
            of another time.
    """
    place = people_folder(folder, night)
    if night < 0:
        return PeopleOfNight(folder=place, bits=0, shards=(), n_people=0, digest="")
    path = f"{place}/{MANIFEST}"
    try:
        content = read_whole(path)
    except FileNotFoundError:
        raise InputError(
            f"{path} is missing: night {night + 1} of a stream must know who counted up to night"
            f" {night}, which was never finished or whose files are lost. Run the nights in order,"
            " the first one first; nothing was spent."
        ) from None
    with intact(path):
        manifest = json.loads(content)
        check_stream(path, manifest["stream"], stream)
        found = PeopleOfNight(
            folder=place,
            bits=manifest["bits"],
            shards=tuple(manifest["shards"]),
            n_people=manifest["people"],
            digest=_digest(content),
        )
    if manifest["night"] != night or (digest is not None and _digest(content) != digest):
        raise InputError(
            f"{path}: is an older copy, or another one, of who counted up to night {night}: with it"
            " people could count too often. Restore the one that belongs to the last night."
        )
    return found


def write_shard(folder: str, night: int, number: int, bits: int, people: People) -> None:
    """Write the people of one partition after `night`; a note of what was written comes last.

    Raises:
        OSError: it cannot be written.
    """
    place = people_folder(folder, night)
    content = _parquet(people)
    write_whole(_shard_path(place, number, bits), content)
    note = {"digest": _digest(content), "people": len(people)}
    write_whole(_note_path(place, number, bits), json.dumps(note).encode())


def finish_people(folder: str, stream: str, night: int, bits: int, before: str) -> PeopleOfNight:
    """Write the manifest of a night whose shards are all written.

    Args:
        folder: of the stream.
        stream: what names it.
        night: whose people they are.
        bits: there are 2^this shards.
        before: digest of the people of the night before; empty before the first night.

    Raises:
        InputError: a shard is missing: the reduction has not come to its end.
    """
    place = people_folder(folder, night)
    try:
        notes: list[dict[str, Any]] = [
            json.loads(read_whole(_note_path(place, number, bits))) for number in range(1 << bits)
        ]
    except FileNotFoundError:
        raise InputError(
            f"{place}: some people of night {night} are missing: run the night again."
        ) from None
    manifest = {
        "stream": stream,
        "night": night,
        "before": before,
        "bits": bits,
        "people": sum(note["people"] for note in notes),
        "shards": [note["digest"] for note in notes],
    }
    write_whole(f"{place}/{MANIFEST}", json.dumps(manifest).encode())
    return open_people(folder, stream, night)


def carry_people(folder: str, stream: str, night: int, before: str | None = None) -> PeopleOfNight:
    """The people after a night without a row: those of the night before.

    Args:
        folder: of the stream.
        stream: what names it.
        night: the one without a row.
        before: digest of the people of the night before, where it was noted elsewhere.

    Raises:
        InputError: as `open_people`.
    """
    found = open_people(folder, stream, night - 1, before)
    for number in range(1 << found.bits):
        people = found.partition(number, found.bits)
        write_shard(folder, night, number, found.bits, people)
    return finish_people(folder, stream, night, found.bits, found.digest)


def forget_people(folder: str, night: int) -> None:
    """Delete the people of all nights before `night`, which is released. To repeat is harmless."""
    delete_nights(folder, PEOPLE, night - 1)


def people_folder(folder: str, night: int) -> str:
    """Where the people after `night` are."""
    return f"{folder}/{PEOPLE}/{night_name(night)}"


def _shard_path(place: str, number: int, bits: int) -> str:
    return f"{place}/{bits}-{number:05d}.parquet"


def _note_path(place: str, number: int, bits: int) -> str:
    return f"{place}/{bits}-{number:05d}.json"


def _parquet(people: People) -> bytes:
    """Sorted first words as differences, which take 3 bytes less each of 10^8 people."""
    table = pa.table(dict(zip(_COLUMNS, people.columns, strict=True)))
    buffer = io.BytesIO()
    pq.write_table(
        table,
        buffer,
        compression="none",
        use_dictionary=["last", "times"],
        column_encoding={"first": "DELTA_BINARY_PACKED", "second": "PLAIN"},
        store_schema=False,
        write_statistics=False,
    )
    return buffer.getvalue()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
