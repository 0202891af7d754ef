"""Files of who counted in a stream: sorted columns, cut by pseudonym as the shuffle cuts rows.

    people/00041/<attempt>/2-00003-<digest>.parquet    one of the 2^2 shards of an attempt
    people/00041/<digest>.json                         the manifest of an attempt that was finished

The people of a night are 2^b shards, by the leading b bits of their pseudonyms. A worker that meets
the rows of one partition reads the people of that partition, and nobody else's, writes one shard of
the new night and hands on its digest beside the rows that count. So the digests that reach the
manifest belong to the rows that were counted, whatever else a retry, a second copy of the worker or
an attempt that outlived its run has written: their shards have other names.

The manifest names the stream, the night, the attempt, the digest of every shard and the manifest of
the night before. Its own name is its digest, which the counts of the attempt name in turn
(`transforms.streams.released_files`) and, once the noise is drawn, the release and the ledger. So a
file of another attempt, another stream or an older copy, and a damaged file, are refused: with them
a person could count once more than the terms allow.

The sensitivity of a stream rests on a rule for the nights that count. A person's night counts if
(1) it is at least `gap` nights after the last one that counted and (2) fewer than `participations`
counted before. So it depends on the nights on which this person had rows and on the public terms
alone: not on anybody else's rows, files, order or retries. A night that does not count leaves no
trace: the gap is measured from the last night that did. A stream that counts rows has the rule of
`transforms.streams.row_meter`; its files also hold the pairs of items of a person's last nights.
One that counts squares has the rule of `transforms.streams.square_meter`.

People are sorted by their pseudonym, so they are joined by binary
search, a partition at a time.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.privacy.stream_encoder import Terms
from hushrank.transforms.common.schema import InputError, to_numpy
from hushrank.transforms.common.sorting import Mask, Order, Words, new_run, number_runs
from hushrank.transforms.storage.places import write_whole
from hushrank.transforms.streams.recent_pairs import Nights, RecentPairs
from hushrank.transforms.streams.stream_folder import (
    PEOPLE,
    check_stream,
    delete_nights,
    delete_others,
    files_of,
    intact,
    night_name,
    nights_of,
    read_kept,
)

Owners = tuple[Words, Words]  # the two words of each pseudonym

BYTES_A_PERSON = 20  # in memory
_COLUMNS = ("first", "second", "last", "times")
_PAIRS, _NIGHTS = "pairs", "nights"  # lists, in a stream that counts rows
_WORD_BITS = 64


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """People who counted before, sorted by pseudonym, each once. Confidential, like exact counts.

    Attributes:
        first, second: the words of the pseudonym, under the stream's own key.
        last: the last night that counted, from 0.
        times: number of nights that counted, at least 1; in a stream that counts rows or squares,
            what was used of the person's allowance.
        recent: pairs of items on which their rows counted lately; None: the stream counts nights.
    """

    first: Words
    second: Words
    last: Nights
    times: Nights
    recent: RecentPairs | None = None

    @classmethod
    def nobody(cls) -> People:
        """Return the people before the first night: none."""
        none = np.empty(0, np.uint64)
        return cls(none, none, none.astype(np.uint16), none.astype(np.uint16))

    def __len__(self) -> int:
        return len(self.first)

    @property
    def columns(self) -> tuple[Words, Words, Nights, Nights]:
        """Return the four columns that every stream has."""
        return self.first, self.second, self.last, self.times

    def counted_on(self, night: int) -> People:
        """Return the people for whom `night` is the last that counted, without their pairs."""
        places = np.flatnonzero(self.last == night)
        first, second, last, times = self.columns
        return People(first[places], second[places], last[places], times[places])

    def between(self, start: int, end: int) -> People:
        """Return the people at places `start` to before `end`."""
        recent = None if self.recent is None else self.recent.between(start, end)
        first, second, last, times = self.columns
        own = slice(start, end)
        return People(first[own], second[own], last[own], times[own], recent)

    def find(self, owners: Owners) -> tuple[Order, Mask]:
        """Find the place of each owner among the people, if there or not; and whether they are."""
        return _find(self, owners)

    def require_before(self, night: int) -> None:
        """Raise `ValueError` where the people know `night` or a later one."""
        if len(self) and int(self.last.max()) >= night:
            raise ValueError(f"the state of people is not from before night {night}")

    @classmethod
    def concatenate(cls, parts: Sequence[People]) -> People:
        """Join all of `parts`, which are in order and share nobody."""
        if not parts:
            return cls.nobody()
        columns = map(np.concatenate, zip(*(part.columns for part in parts), strict=True))
        recent = None
        if any(part.recent is not None for part in parts):
            recent = RecentPairs.concatenate(
                [part.recent or RecentPairs.of_nobody(len(part)) for part in parts]
            )
        first, second, last, times = columns
        return cls(first, second, last, times, recent)


def with_owners(people: People, owners: Owners) -> tuple[People, Order]:
    """Add those of `owners` who are not there, with 0 in every column but the pseudonym.

    Args:
        people: any people; their recent pairs are left out.
        owners: pseudonyms, sorted, each once.

    Returns:
        The people with them, sorted; and the place there of each person who was there before.
    """
    place, known = _find(people, owners)
    added = place[~known]
    after = People(
        np.insert(people.first, added, owners[0][~known]),
        np.insert(people.second, added, owners[1][~known]),
        np.insert(people.last, added, np.uint16(0)),
        np.insert(people.times, added, np.uint16(0)),
    )
    places = np.arange(len(people))
    return after, places + np.searchsorted(added, places, side="right")


def take_part(people: People, owners: Owners, night: int, terms: Terms) -> tuple[Mask, People]:
    """Decide who of tonight's people counts, and who has counted after it.

    Args:
        people: people after the night before, or a part of them that holds everybody of `owners`
            who counted before.
        owners: pseudonyms of those with rows tonight, sorted, each once.
        night: number of the night, from 0.
        terms: k and b.

    Returns:
        Of each of `owners` whether the night counts; and `people` after it, sorted.

    Raises:
        ValueError: the night is not one of the stream, or `people` know it already.
    """
    terms.check_night(night)
    people.require_before(night)
    place, known = _find(people, owners)
    there = place[known]
    counts = np.ones(len(known), np.bool_)
    late_enough = night - people.last[there].astype(np.int64) >= terms.gap
    counts[known] = late_enough & (people.times[there] < terms.participations)
    again = place[known & counts]
    last, times = people.last.copy(), people.times.copy()
    last[again] = night
    times[again] += np.uint16(1)
    new = ~known
    after = People(
        np.insert(people.first, place[new], owners[0][new]),
        np.insert(people.second, place[new], owners[1][new]),
        np.insert(last, place[new], np.uint16(night)),
        np.insert(times, place[new], np.uint16(1)),
    )
    return counts, after


def _find(people: People, owners: Owners) -> tuple[Order, Mask]:
    """Find the place of each owner among `people`, if there or not; and whether it is there."""
    place = np.searchsorted(people.first, owners[0])
    if not len(people):
        return place, np.zeros(len(place), np.bool_)
    while True:
        here = np.minimum(place, len(people) - 1)
        shared = (place < len(people)) & (people.first[here] == owners[0])
        before = shared & (people.second[here] < owners[1])
        if not before.any():
            return place, shared & (people.second[here] == owners[1])
        place = place + before  # two pseudonyms share their first word


def is_among(people: People, owners: Owners) -> Mask:
    """Mark the owners that are among `people`."""
    return _find(people, owners)[1]


@dataclass(frozen=True, slots=True)
class Distinct:
    """The owners of some rows, sorted, each once.

    Attributes:
        owners: pseudonyms of the owners.
        number: number of the owner of each row.
    """

    owners: Owners
    number: Order


def distinct(rows: Owners) -> Distinct:
    """The owners of rows with these pseudonyms.

    Only the owners are sorted: there are fewer of them than of rows.
    """
    found = pa.array(rows[0]).dictionary_encode()
    code, first = to_numpy(found.indices), to_numpy(found.dictionary)
    second = np.empty_like(first)
    second[code] = rows[1]
    if np.any(np.take(second, code) != rows[1]):
        return _distinct_of_both(rows)
    order = np.argsort(first)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return Distinct((first[order], second[order]), np.take(number, code))


def _distinct_of_both(rows: Owners) -> Distinct:
    """The owners where two of them share their first word."""
    order = np.lexsort((rows[1], rows[0]))
    first, second = rows[0][order], rows[1][order]
    new = new_run(first, second)
    number = np.empty(len(order), np.int64)
    number[order] = number_runs(new)
    return Distinct((first[new], second[new]), number)


@dataclass(frozen=True, slots=True)
class Shard:
    """File of one partition.

    Attributes:
        number: number of the partition.
        digest: digest of the file.
        n_people: number of people in it.
    """

    number: int
    digest: str
    n_people: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleOfNight:
    """Files with the people of one night; before the first night there is nobody.

    Attributes:
        folder: folder of the attempt.
        bits: there are 2^this shards.
        shards: the digest of each; none before the first night.
        n_people: number of all people.
        digest: digest of the manifest; empty before the first night.
        before: digest of the manifest of the night before; empty on the first night.
    """

    folder: str
    bits: int
    shards: tuple[str, ...]
    n_people: int
    digest: str
    before: str

    @property
    def paths(self) -> list[str]:
        """Paths of all shards."""
        named = enumerate(self.shards)
        return [_shard_path(self.folder, number, self.bits, digest) for number, digest in named]

    def partition(self, number: int, bits: int) -> People:
        """Read a partition: all people whose pseudonyms begin with the `bits` bits of `number`.

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
        path = _shard_path(self.folder, number, self.bits, self.shards[number])
        try:
            content = read_kept(path)
        except FileNotFoundError:
            content = b""
        if _digest(content) != self.shards[number]:
            raise InputError(
                f"{path}: is missing or is not what this stream wrote. Restore the folder"
                f" {self.folder} whole, from the time after its night; nothing was released."
            )
        table = pq.read_table(io.BytesIO(content))
        people = People(*(table.column(name).to_numpy() for name in _COLUMNS))
        return replace(people, recent=_recent_of(table))


def edges_of(people: People, number: int, bits: int, within: int) -> list[int]:
    """Find where the parts of a partition begin and end among its people, sorted.

    Args:
        people: any that hold the partition.
        number: number of the partition, among 2^`bits`.
        bits: number of leading bits.
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


def open_people(folder: str, stream: str, night: int, digest: str) -> PeopleOfNight:
    """Return the people who counted up to `night`, by that attempt; nobody for night -1.

    Args:
        folder: folder of the stream.
        stream: name of the stream.
        night: the last one that they know.
        digest: digest of their manifest.

    Raises:
        InputError: the people are missing, or belong to another stream or another night, or are a
            copy of another time.
    """
    place = people_folder(folder, night)
    if night < 0:
        return PeopleOfNight(folder=place, bits=0, shards=(), n_people=0, digest="", before="")
    path = _manifest_path(folder, night, digest)
    try:
        content = read_kept(path)
    except FileNotFoundError:
        raise InputError(
            f"{path} is missing: it says who counted up to the night before, which was never"
            " finished, or whose files are lost or an older copy. Restore the folder of the stream"
            " as it was after its last night; nothing was spent."
        ) from None
    with intact(path):
        manifest = json.loads(content)
        check_stream(path, manifest["stream"], stream)
        found = PeopleOfNight(
            folder=f"{place}/{manifest['attempt']}",
            bits=manifest["bits"],
            shards=tuple(manifest["shards"]),
            n_people=manifest["people"],
            digest=digest,
            before=manifest["before"],
        )
    if _digest(content) != digest or manifest["night"] != night:
        raise InputError(
            f"{path}: is an older copy, or another one, of who counted up to night {night}: with it"
            " people could count too often. Restore the one that belongs to the last night."
        )
    return found


def write_shard(
    folder: str, night: int, attempt: str, number: int, bits: int, people: People
) -> Shard:
    """Write the people of one partition after `night`.

    Raises:
        OSError: the shard cannot be written.
    """
    content = _parquet(people)
    shard = Shard(number, _digest(content), len(people))
    place = f"{people_folder(folder, night)}/{attempt}"
    write_whole(_shard_path(place, number, bits, shard.digest), content)
    return shard


def finish_people(
    folder: str, stream: str, night: int, attempt: str, shards: Sequence[Shard], before: str
) -> PeopleOfNight:
    """Write the manifest of an attempt at a night, all of whose shards are written.

    Args:
        folder: folder of the stream.
        stream: name of the stream.
        night: night of the people.
        attempt: names this attempt and no other.
        shards: shards of all partitions, each once, in any order.
        before: digest of the people of the night before; empty before the first night.

    Raises:
        InputError: a shard is missing: the reduction has not come to its end.
    """
    ordered = sorted(shards, key=lambda shard: shard.number)
    bits = max(len(ordered).bit_length() - 1, 0)
    place = f"{people_folder(folder, night)}/{attempt}"
    paths = {_shard_path(place, each.number, bits, each.digest) for each in ordered}
    numbers = [shard.number for shard in ordered]
    if numbers != list(range(1 << bits)) or not paths <= set(files_of(place)):
        raise InputError(f"{place}: some people of night {night} are missing: run the night again.")
    manifest = {
        "stream": stream,
        "night": night,
        "attempt": attempt,
        "before": before,
        "bits": bits,
        "people": sum(shard.n_people for shard in ordered),
        "shards": [shard.digest for shard in ordered],
    }
    content = json.dumps(manifest).encode()
    digest = _digest(content)
    write_whole(_manifest_path(folder, night, digest), content)
    return open_people(folder, stream, night, digest)


def carry_people(folder: str, stream: str, night: int, attempt: str, before: str) -> PeopleOfNight:
    """The people after a night without a row: those of the night before.

    Args:
        folder: folder of the stream.
        stream: name of the stream.
        night: the one without a row.
        attempt: names this attempt and no other.
        before: digest of the people of the night before; empty before the first night.

    Raises:
        InputError: as `open_people`.
    """
    found = open_people(folder, stream, night - 1, before)
    shards = [
        write_shard(folder, night, attempt, number, found.bits, found.partition(number, found.bits))
        for number in range(1 << found.bits)
    ]
    return finish_people(folder, stream, night, attempt, shards, found.digest)


def forget_people(folder: str, stream: str, night: int, digest: str) -> None:
    """Delete the people of all nights and attempts but the one that counted. It may be repeated.

    Args:
        folder: folder of the stream.
        stream: name of the stream.
        night: a night that was released; where a later one has begun, all people of both stay.
        digest: digest of its people.

    Raises:
        InputError: the people of the night are not those of the digest; they were not deleted.
    """
    delete_nights(folder, PEOPLE, night - 1)
    if {each for each, _ in nights_of(folder, PEOPLE)} != {night}:
        return
    found = open_people(folder, stream, night, digest)
    needed = {*found.paths, _manifest_path(folder, night, digest)}
    delete_others(people_folder(folder, night), needed)


def people_folder(folder: str, night: int) -> str:
    """Return the folder of the people after `night`."""
    return f"{folder}/{PEOPLE}/{night_name(night)}"


def _manifest_path(folder: str, night: int, digest: str) -> str:
    return f"{people_folder(folder, night)}/{digest}.json"


def _shard_path(place: str, number: int, bits: int, digest: str) -> str:
    return f"{place}/{bits}-{number:05d}-{digest}.parquet"


def _parquet(people: People) -> bytes:
    """Sorted first words as differences, which take 3 bytes less each of 10^8 people."""
    columns: dict[str, object] = dict(zip(_COLUMNS, people.columns, strict=True))
    if (recent := people.recent) is not None:
        edges = pa.array(np.append(0, np.cumsum(recent.sizes, dtype=np.int64)), pa.int64())
        columns |= {
            _PAIRS: pa.LargeListArray.from_arrays(edges, recent.pairs),
            _NIGHTS: pa.LargeListArray.from_arrays(edges, recent.nights),
        }
    table = pa.table(columns)
    buffer = pa.BufferOutputStream()
    pq.write_table(
        table,
        buffer,
        compression="none",
        use_dictionary=["last", "times", f"{_NIGHTS}.list.element"],
        column_encoding={"first": "DELTA_BINARY_PACKED", "second": "PLAIN"},
        store_schema=False,
        write_statistics=False,
    )
    content: bytes = buffer.getvalue().to_pybytes()
    return content


def _recent_of(table: pa.Table) -> RecentPairs | None:
    """The recent pairs in the file of a shard; None: its stream counts nights."""
    if _PAIRS not in table.column_names:
        return None
    pairs, nights = (table.column(name).combine_chunks() for name in (_PAIRS, _NIGHTS))
    return RecentPairs(
        pairs.value_lengths().to_numpy(zero_copy_only=False).astype(np.uint16),
        pairs.flatten().to_numpy(zero_copy_only=False).astype(np.uint32),
        nights.flatten().to_numpy(zero_copy_only=False).astype(np.uint16),
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
