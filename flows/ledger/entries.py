"""The lines of a ledger: one JSON object each, chained by hashes. Pure: bytes to entries and back.

`hash` is the SHA-256 of the line without its `hash` field. `previous` is the `hash` of the line
above. So an edited, removed or moved line is found. The chain has no key: it shows accidents and
careless edits, but it does not stop a forger, who can compute all hashes again.

A line may have a field `signature` before its `hash`: `ed25519:<key id>:<base64>`, over the line
without these two fields. `previous` is signed too, so the signature of a line vouches for all lines
above it. `flows.integrity` makes and checks signatures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.budget import Protects, Refresh
from hushrank.privacy.accounting import Spend
from hushrank.privacy.units import Adjacency, Unit

VERSION: Literal[1] = 1
LINE_START = b'{"hushrank_ledger":'  # start of every line, in every version
RESTORE = (
    "Put back an unchanged copy of the ledger and never edit it;"
    " without a copy, count this budget as spent."
)
_NO_PREVIOUS = "0" * 64
_HASH_FIELD = b',"hash":"'
# fields left out of lines that do not need them
_LEFT_OUT = ("stream", "of", "people", "lifetime_epsilon")

# function that adds the signature as the last field of a JSON object
Seal = Callable[[bytes], bytes]


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Open(_Wire):
    """The first entry of a population. Its unit, adjacency and `protects` never change.

    Attributes:
        protects: part of the unit that is hidden; None in entries of versions that did not record
            it.
        lifetime_epsilon: the most over all periods; None: no limit.
    """

    event: Literal["open"] = "open"
    epsilon: float
    delta: float
    refresh: Refresh | None
    unit: Unit
    adjacency: Adjacency
    protects: Protects | None = None
    lifetime_epsilon: float | None = None


class ChangeTerms(_Wire):
    """The operator changed the total or its renewal; what was spent stays spent."""

    event: Literal["terms"] = "terms"
    epsilon: float
    delta: float
    refresh: Refresh | None
    lifetime_epsilon: float | None = None


class StreamSpan(_Wire):
    """Change of the total or its renewal by the operator; past spending stays spent.

    Attributes:
        nights: number of nights.
        first: date of the first.
    """

    nights: int
    first: date

    @property
    def last(self) -> date:
        """Date of the last night."""
        return self.first + timedelta(days=self.nights - 1)


class Reserve(_Wire):
    """Budget set aside for one attempt at a release, or for a stream of nights.

    A stream is reserved under an id of its own. Its nights are releases that cost nothing.

    Attributes:
        night: the day whose answers are ranked; None: the configuration selects no night.
        key: check value of the key that made the names below; empty in older entries.
        inputs: keyed names of the input files (`flows.ledger.key`).
        others: populations that the operator states to consist of other people.
        stream: the nights that this pays for, where it reserves a stream.
        of: id of the stream that pays for it, where it reserves a night of one.
    """

    event: Literal["reserve"] = "reserve"
    release_id: str
    attempt: int
    spend: Spend
    config_hash: str
    night: date | None = None
    key: str = ""
    inputs: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    stream: StreamSpan | None = None
    of: str = ""


class Draw(_Wire):
    """The point of no return, written before anybody can see the noise.

    Attributes:
        result: SHA-256 of the file with the noisy result; None if the mechanism failed, and in
            entries of versions that did not record it.
        people: digest of the file of who counted, of a night of a stream; the next night must find
            that file.
    """

    event: Literal["draw"] = "draw"
    release_id: str
    attempt: int
    result: str | None = None
    people: str = ""


class Stop(_Wire):
    """A noisy look at the rows was drawn, and the run stops there: the point of no return.

    Attributes:
        spend: cost of the pilot query; the rest of the reservation is given back.
        result: digest, as in `Draw`.
    """

    event: Literal["stop"] = "stop"
    release_id: str
    attempt: int
    spend: Spend
    result: str | None = None


class Commit(_Wire):
    """The release was published."""

    event: Literal["commit"] = "commit"
    release_id: str
    attempt: int


class Cancel(_Wire):
    """The reservation was given back before any noise was drawn."""

    event: Literal["cancel"] = "cancel"
    release_id: str
    attempt: int


class Unsafe(_Wire):
    """A release that no budget covers: it has no noise, or its noise has an injected seed."""

    event: Literal["unsafe"] = "unsafe"
    release_id: str
    why: str


class Alert(_Wire):
    """People were told that this fraction of a total of `epsilon` is used; once a period."""

    event: Literal["alert"] = "alert"
    fraction: float
    epsilon: float


class Accept(_Wire):
    """The operator saw what is wrong with the ledger and goes on (`ledger recover`).

    Attributes:
        why: fault of the ledger, in words.
        key: new names are made with this key from here on; empty: the key stays as it was.
        clock: the date of this entry is right, and every later date above it is wrong.
        releases: published releases of past periods that the ledger lacks and may lack.
    """

    event: Literal["accept"] = "accept"
    why: str
    releases: tuple[str, ...] = ()
    key: str = ""
    clock: bool = False


Event = Open | ChangeTerms | Reserve | Draw | Stop | Commit | Cancel | Unsafe | Alert | Accept


class Entry(_Wire):
    """One line of the ledger: who recorded what, when, about which population.

    In the file the fields of `what` stand next to the other fields.
    """

    hushrank_ledger: Literal[1] = VERSION
    seq: int
    time: datetime
    population: str
    operator: str
    previous: str
    signature: str | None = None
    what: Annotated[Event, Field(discriminator="event")]


@dataclass(frozen=True, slots=True)
class Chain:
    """The verified entries of a ledger and the hash of its last line."""

    entries: tuple[Entry, ...]
    last_hash: str

    def hash_of(self, line: int) -> str | None:
        """Hash of the line with that number, counted from 1; None if there is no such line."""
        if line == len(self.entries):
            return self.last_hash
        return self.entries[line].previous if 0 < line < len(self.entries) else None

    @property
    def key(self) -> str:
        """Check value of the key that made the names in it; empty if it has no names."""
        return next(filter(None, (_key(entry.what) for entry in reversed(self.entries))), "")


def _key(what: Event) -> str:
    return what.key if isinstance(what, Reserve | Accept) else ""


def read_chain(content: bytes, place: str) -> Chain:
    """Read the entries of a ledger and verify every line.

    Args:
        content: all lines, each with its newline.
        place: where the lines come from, for messages.

    Raises:
        LedgerError: the content is not a ledger, has another version, or was changed since it was
            written; the text names the line.
    """
    entries: list[Entry] = []
    previous = _NO_PREVIOUS
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    for number, line in enumerate(lines, start=1):
        where = f"{place}: line {number}"
        fields = _fields(line, where, number)
        entry, digest = _verified(line, fields, where)
        if entry.previous != previous or entry.seq != number:
            raise LedgerError(
                f"{where} does not follow the line above it:"
                f" a line was removed, added or moved. {RESTORE}"
            )
        entries.append(entry)
        previous = digest
    return Chain(tuple(entries), previous)


def write_lines(
    chain: Chain,
    events: Sequence[Event],
    *,
    population: str,
    operator: str,
    time: datetime,
    seal: Seal | None = None,
) -> bytes:
    """The lines that add `events` to `chain`, each signed if there is a key."""
    lines = []
    previous = chain.last_hash
    for seq, event in enumerate(events, start=len(chain.entries) + 1):
        entry = Entry(
            seq=seq,
            time=time,
            population=population,
            operator=operator,
            previous=previous,
            what=event,
        )
        body = _body(entry) if seal is None else seal(_body(entry))
        previous = hashlib.sha256(body).hexdigest()
        lines.append(body[:-1] + _HASH_FIELD + previous.encode() + b'"}\n')
    return b"".join(lines)


def without_hash(line: bytes) -> bytes:
    """A line as it was before its hash was added."""
    return line.removesuffix(b"\n").rpartition(_HASH_FIELD)[0] + b"}"


def _body(entry: Entry) -> bytes:
    what = entry.what.model_dump(mode="json")
    told = {name: value for name, value in what.items() if value or name not in _LEFT_OUT}
    fields = entry.model_dump(mode="json", exclude={"what", "signature"}) | told
    return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode()


def _fields(line: bytes, where: str, number: int) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or not line.startswith(LINE_START):
        if number == 1:
            raise LedgerError(
                f"{where} is not an entry of a hushrank ledger. If this file never was a ledger,"
                f" correct ledger.path. {RESTORE}"
            )
        raise LedgerError(f"{where} is damaged: it is not an entry of a ledger. {RESTORE}")
    version = fields["hushrank_ledger"]
    if version != VERSION:
        raise LedgerError(
            f"{where} is of ledger version {str(version)[:20]}, but this hushrank reads version"
            f" {VERSION}. Use the hushrank that wrote it, or a newer one."
        )
    return fields


def _verified(line: bytes, fields: dict[str, Any], where: str) -> tuple[Entry, str]:
    body, _, ending = line.rpartition(_HASH_FIELD)
    digest = hashlib.sha256(body + b"}").hexdigest()
    if ending != digest.encode() + b'"}':
        raise LedgerError(
            f"{where} was changed after it was written: its hash does not match. {RESTORE}"
        )
    header = {name: fields.pop(name, None) for name in Entry.model_fields.keys() - {"what"}}
    del fields["hash"]
    try:
        return Entry.model_validate({**header, "what": fields}), digest
    except ValidationError as error:
        field = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise LedgerError(f"{where} is not an entry of a ledger: see {field}. {RESTORE}") from None
