"""How far a ledger is: what an anchor keeps of it. Pure: bytes in, heads and findings out.

A head has the number, hash and date of a line, and nothing else of the ledger. All that a line says
is public or keyed, and the hash of a line covers it, so a head holds no private data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hushrank.flows.ledger.signatures import Signed, Signer, Verifier, sealed

NO_LINE = "0" * 64  # the hash of an empty ledger
HEAD_START = b'{"hushrank_anchor":'


class Head(BaseModel):
    """The last line of a ledger at one moment.

    Attributes:
        epoch: how often an operator accepted a ledger that did not go on from its anchor
            (`ledger recover`). Heads of an older epoch say nothing any more.
        position: number of the line, from 1; 0: the ledger was empty.
        hash: of the line.
        time: of the line; None: there was no line.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hushrank_anchor: Literal[1] = 1
    epoch: int = Field(default=0, ge=0, le=9999)
    position: int = Field(ge=0, le=9_999_999_999)
    hash: str = Field(pattern="^[0-9a-f]{64}$")
    time: datetime | None = None

    @property
    def order(self) -> tuple[int, int]:
        """Later heads have a greater one."""
        return self.epoch, self.position

    @property
    def name(self) -> str:
        """A file name that sorts as the heads do."""
        return f"{self.epoch:04d}-{self.position:010d}.json"

    def record(self, signer: Signer | None) -> bytes:
        """One line for an anchor, signed if there is a key; the same whoever writes it."""
        body = json.dumps(self.model_dump(mode="json"), separators=(",", ":")).encode()
        return (body if signer is None else sealed(body, signer)) + b"\n"


@dataclass(frozen=True, slots=True)
class Anchored:
    """A head as an anchor holds it, with the key that signed it, if one did."""

    head: Head
    signed: Signed | None

    @classmethod
    def of(cls, record: bytes) -> Anchored:
        """Read a record.

        Raises:
            ValueError: it is none.
        """
        text = record.removesuffix(b"\n")
        signed = Signed.of(text)
        if not text.startswith(HEAD_START):
            raise ValueError("no head of a ledger")
        try:
            return cls(Head.model_validate_json(text if signed is None else signed.body), signed)
        except ValidationError as error:
            raise ValueError("no head of a ledger") from error

    def holds(self, key: Verifier) -> bool:
        """Whether that key signed the head."""
        return self.signed is not None and self.signed.holds(key)


def head_of(lines: bytes) -> Head:
    """The head of a ledger that ends with `lines`, whole lines that need not be verified yet.

    Raises:
        ValueError: the last line is none of a ledger.
    """
    last = lines.removesuffix(b"\n").rpartition(b"\n")[2]
    if not last:
        return Head(position=0, hash=NO_LINE)
    try:
        fields = json.loads(last)
        return Head(position=fields["seq"], hash=fields["hash"], time=fields["time"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError("no line of a ledger") from error


def differs(head: Head, content: bytes) -> str | None:
    """Why a ledger does not go on from `head`; None: it does."""
    lines = content.splitlines()
    if len(lines) < head.position:
        return f"has {len(lines)} lines, but had {head.position}"
    if head.position and not _has_hash(lines[head.position - 1], head.hash):
        return f"has another line {head.position} than it had"
    return None


def _has_hash(line: bytes, digest: str) -> bool:
    return line.endswith(b',"hash":"' + digest.encode() + b'"}')
