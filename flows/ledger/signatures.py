"""JSON objects whose last field signs the fields before it. Pure: bytes in, bytes out."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Protocol

_FIELD = b',"signature":"'
_TEXT = re.compile(rb'ed25519:([0-9a-f]{16}):([A-Za-z0-9+/]{86}==)"}')


class Verifier(Protocol):
    """A public key."""

    @property
    def key_id(self) -> str:
        """Names the key: 16 hexadecimal digits."""
        ...

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether the owner of the key signed `message`."""
        ...


class Signer(Verifier, Protocol):
    """A private key, wherever it is kept. Its methods raise LedgerError if they fail."""

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature of `message`: 64 bytes."""
        ...


def sealed(body: bytes, signer: Signer) -> bytes:
    """The JSON object `body` with a last field `signature`."""
    text = f"ed25519:{signer.key_id}:{base64.b64encode(signer.sign(body)).decode()}"
    return body[:-1] + _FIELD + text.encode() + b'"}'


@dataclass(frozen=True, slots=True)
class Signed:
    """A JSON object that was signed.

    Attributes:
        body: what was signed: the object without its signature.
        key_id: of the key that signed, as the object says.
    """

    body: bytes
    key_id: str
    signature: bytes

    @classmethod
    def of(cls, content: bytes) -> Signed | None:
        """Take the signature off an object; None: it has none, or one in no known form."""
        body, _, ending = content.rpartition(_FIELD)
        found = _TEXT.fullmatch(ending)
        if found is None:
            return None
        return cls(body + b"}", found[1].decode(), base64.b64decode(found[2]))

    def holds(self, key: Verifier) -> bool:
        """Whether that key signed the body."""
        return self.key_id == key.key_id and key.verifies(self.body, self.signature)
