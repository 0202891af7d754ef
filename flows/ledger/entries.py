"""The lines of a ledger: one JSON object each, chained by hashes. Pure: bytes to entries and back.

`hash` is the SHA-256 of the line without its `hash` field. `previous` is the `hash` of the line
above. So an edited, removed or moved line is found. The chain has no key: it shows accidents and
careless edits, but it does not stop a forger, who can compute all hashes again.

A line may have a field `signature` before its `hash`: `ed25519:<key id>:<base64>`, over the line
without these two fields. `previous` is signed too, so the signature of a line vouches for all lines
above it. `flows.ledger.keys` makes and checks signatures, `flows.ledger.approval` those of terms.

The privacy budget of a population: terms, periods, the cost of a release, and what is left. Pure;
every time is in UTC.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hushrank.flows.errors import LedgerError
from hushrank.privacy.accounting import Spend
from hushrank.privacy.filters import Rule
from hushrank.privacy.units import Adjacency, Unit

Refresh = Literal["daily", "weekly", "monthly", "yearly"]


@dataclass(frozen=True, slots=True)
class Period:
    """Half-open time span [start, end); None: no limit on that side."""

    start: datetime | None
    end: datetime | None


ALWAYS = Period(None, None)


def period_at(time: datetime, refresh: Refresh | None) -> Period:
    """Return the day, week from Monday, month or year that contains `time`; all time without
    `refresh`.

    Raises:
        ValueError: `time` carries no time zone.
    """
    if time.tzinfo is None:
        raise ValueError(f"a time needs a time zone, got {time.isoformat()}")
    if refresh is None:
        return ALWAYS
    day = time.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if refresh == "daily":
        return Period(day, day + timedelta(days=1))
    if refresh == "weekly":
        monday = day - timedelta(days=day.weekday())
        return Period(monday, monday + timedelta(weeks=1))
    if refresh == "monthly":
        first = day.replace(day=1)
        return Period(first, (first + timedelta(days=31)).replace(day=1))
    first = day.replace(month=1, day=1)
    return Period(first, first.replace(year=first.year + 1))


class Protects(StrEnum):
    """Part of a unit that every release of a population hides; costs of two parts do not add."""

    ROWS = "rows"  # everything, including who compared what
    OUTCOMES = "outcomes"  # who won; it is public who compared what
    ANSWER = "answer"  # one answer; nothing links it to a person, or bounds how many a person gives
    PERSON = "person"  # all local answers of one person


class Limits(NamedTuple):
    """Total of a budget: epsilon at a delta, its renewal, and the most over all periods."""

    epsilon: float
    delta: float
    refresh: Refresh | None
    lifetime_epsilon: float | None

    @classmethod
    def of(cls, terms: BudgetTerms | Open | ChangeTerms) -> Self:
        """Return the total of a budget, or of an entry that sets it."""
        return cls(terms.epsilon, terms.delta, terms.refresh, terms.lifetime_epsilon)


@dataclass(frozen=True, slots=True)
class BudgetTerms:
    """Largest privacy loss that one population may have in all its releases.

    Attributes:
        population: the name under which its releases are added up.
        epsilon: total in nats, finite and > 0, at `delta`.
        delta: in [0, 1); > 0 if releases use gaussian noise.
        refresh: period after which the total renews; None: never.
        unit: unit that every release of the population protects.
        adjacency: relation between two adjacent inputs of every release.
        protects: part of the unit that every release hides; None: not recorded.
        alerts: fractions of the total, in (0, 1], at which people are warned; 1: used up.
        other_people: populations that may read the same files, because they are other people.
        lifetime_epsilon: the most over all periods of a total that renews, at `delta`; None: no
            limit.

    Raises:
        ValueError: a field breaks one of these rules.
    """

    population: str
    epsilon: float
    delta: float
    refresh: Refresh | None
    unit: Unit
    adjacency: Adjacency
    protects: Protects | None = None
    alerts: tuple[float, ...] = ()
    other_people: tuple[str, ...] = ()
    lifetime_epsilon: float | None = None

    def __post_init__(self) -> None:
        if not self.population:
            raise ValueError("population must not be empty")
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError(f"epsilon must be finite and > 0, got {self.epsilon!r}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be at least 0 and below 1, got {self.delta!r}")
        if not all(0 < fraction <= 1 for fraction in self.alerts):
            raise ValueError(f"alerts must be above 0 and at most 1, got {self.alerts!r}")
        limit = self.lifetime_epsilon
        if limit is not None and not (math.isfinite(limit) and limit >= self.epsilon):
            raise ValueError(f"lifetime_epsilon must be finite and >= epsilon, got {limit!r}")


@dataclass(frozen=True, slots=True)
class Statement:
    """Statement of an operator that two populations consist of different people.

    Attributes:
        by: the account that recorded it.
        at: time of the line of the ledger that has it, UTC.
    """

    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class SharedInput:
    """Another population of the ledger that reads the same input.

    Attributes:
        stated: the operator states that this population consists of other people.
        added: whether its costs count in `Balance.shared_epsilon`; costs of another unit do not.
        statement: the first record of that statement; None: the ledger has none yet.
    """

    population: str
    stated: bool
    added: bool
    statement: Statement | None = None


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Total cost of the releases of all periods, for a budget that renews.

    Attributes:
        spent_epsilon: epsilon of all attempts that count, at `Balance.delta`; `inf`: none holds
            there.
        releases: number of attempts that count.
        limit: `BudgetTerms.lifetime_epsilon`.
    """

    spent_epsilon: float
    releases: int
    limit: float | None


@dataclass(frozen=True, slots=True)
class Balance:
    """The budget of the current period.

    Attributes:
        total: epsilon allowed, at `delta`.
        spent_epsilon: epsilon of all counted attempts together, although each may have been chosen
            in view of earlier results.
        remaining_epsilon: the most that one more release with laplace noise may cost, by the total
            of the period and by that of all periods.
        releases: number of attempts that count.
        undrawn: releases that hold budget but have not drawn noise.
        unsafe: number of releases that no budget covers, over all time.
        renews_on: the first day of the next period, UTC; None: never.
        unpublished: releases whose noise was drawn but that are not published, over all time.
        alert: the largest fraction of `BudgetTerms.alerts` that is reached; None: none is.
        shared: other populations that read the same input.
        shared_epsilon: epsilon of all releases of all these populations, in all periods, as if they
            were the same people.
        begun: whether the population has an entry in the ledger.
        lifetime: total over all periods; None: the budget never renews, so the period is all time.
        rule: the rule by which `spent_epsilon` holds.
        changes: a sentence for each change of the total, oldest first.
    """

    population: str
    total: float
    delta: float
    spent_epsilon: float
    remaining_epsilon: float
    releases: int
    undrawn: tuple[str, ...]
    unsafe: int
    renews_on: date | None
    unpublished: tuple[str, ...] = ()
    alert: float | None = None
    shared: tuple[SharedInput, ...] = ()
    shared_epsilon: float = 0.0
    begun: bool = True
    lifetime: Lifetime | None = None
    rule: Rule = Rule.SUM
    changes: tuple[str, ...] = ()


VERSION: Literal[1] = 1
LINE_START = b'{"hushrank_ledger":'  # start of every line, in every version
RESTORE = (
    "Put back an unchanged copy of the ledger and never edit it;"
    " without a copy, count this budget as spent."
)
_NO_PREVIOUS = "0" * 64
_HASH_FIELD = b',"hash":"'
# fields left out of lines that do not need them
_LEFT_OUT = (
    *("stream", "of", "people", "names", "lifetime_epsilon"),
    *("terms_key", "reason", "approval"),
)

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
        terms_key: public key to which the terms of the ledger belong from here on, 32 bytes in
            base64; empty: they belong to whom they did before.
        reason: reason for the terms, in the officer's words.
        approval: signature of the holder of the key (`flows.ledger.approval`).
    """

    event: Literal["open"] = "open"
    epsilon: float
    delta: float
    refresh: Refresh | None
    unit: Unit
    adjacency: Adjacency
    protects: Protects | None = None
    lifetime_epsilon: float | None = None
    terms_key: str = ""
    reason: str = ""
    approval: str = ""


class ChangeTerms(_Wire):
    """Change of the total, its renewal or its owner; past spending stays spent.

    Attributes:
        terms_key, reason, approval: as in `Open`.
    """

    event: Literal["terms"] = "terms"
    epsilon: float
    delta: float
    refresh: Refresh | None
    lifetime_epsilon: float | None = None
    terms_key: str = ""
    reason: str = ""
    approval: str = ""


class StreamSpan(_Wire):
    """Nights in a row that one reservation pays for.

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
        inputs: keyed names of the input files (`flows.ledger.keys`).
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
        names: names of items were drawn, in the file `result`; the draw of their ranking follows.
    """

    event: Literal["draw"] = "draw"
    release_id: str
    attempt: int
    result: str | None = None
    people: str = ""
    names: bool = False


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
        approval: signature of the holder of the key of the terms, where they belong to one.
    """

    event: Literal["accept"] = "accept"
    why: str
    releases: tuple[str, ...] = ()
    key: str = ""
    clock: bool = False
    approval: str = ""


class Access(_Wire):
    """Somebody used a command that shows or deletes confidential data, or makes keys.

    Attributes:
        command: the command, in words that no row decides.
        config_hash: hash of the configuration, as in `Reserve`.
        night: the day whose rows it read; None: all rows, or none.
    """

    event: Literal["access"] = "access"
    command: str
    config_hash: str
    night: date | None = None


Event = (
    Open | ChangeTerms | Reserve | Draw | Stop | Commit | Cancel | Unsafe | Alert | Accept | Access
)


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

    @property
    def terms_key(self) -> str:
        """Public key to which the terms of the ledger belong; empty: to nobody."""
        named = (
            entry.what.terms_key
            for entry in reversed(self.entries)
            if isinstance(entry.what, Open | ChangeTerms)
        )
        return next(filter(None, named), "")


def _key(what: Event) -> str:
    return what.key if isinstance(what, Reserve | Accept) else ""


def read_chain(content: bytes, place: str) -> Chain:
    """Read the entries of a ledger and verify every line.

    Args:
        content: all lines, each with its newline.
        place: source of the lines, for messages.

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
    approve: Seal | None = None,
) -> bytes:
    """The lines that add `events` to `chain`, each signed if there is a key.

    `approve` signs the lines that set terms or repair the ledger, for the holder of the terms' key.
    """
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
        body = _body(entry)
        if approve is not None and isinstance(event, Open | ChangeTerms | Accept):
            body = approve(body)
        body = body if seal is None else seal(body)
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
