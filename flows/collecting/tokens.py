"""One-time tokens: a holder of one may send one batch of answers.

A token is 16 random bytes and the first 16 of their HMAC-SHA256 under the survey's key, so the
collector knows its own without a list. Of a used token it keeps 8 bytes of another HMAC, which tell
nobody without the key which token it was, and nothing says with which answers it came.

Tokens are no blind signatures. Whoever makes them and knows who got which, and sees requests as
they come, can link a person to the private answers of theirs. These stay private at their epsilon.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from pathlib import Path

from hushrank.flows.collecting.contents import Refused
from hushrank.flows.collecting.journal import MARK_BYTES
from hushrank.flows.errors import ConfigError
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.common.local_files import MostBytes
from hushrank.transforms.storage.cloud_storage import Place
from hushrank.transforms.storage.write import write_once

KEY_BYTES = 32
CHECK_BYTES = 4  # bytes of a key's digest, kept behind it
HALF = 16  # bytes: of a token's random part, and of its check
KEY_FILE = "tokens.key"
NO_TOKEN = "this token is none of this survey's; open the page by the link that you were sent"


class UnknownToken(Refused):
    """Error for a token that was not made with the survey's key."""


class TokenKey:
    """Secret of a survey's tokens."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def of(cls, confidential: Place, bits: RandomBits) -> TokenKey:
        """Read the key in the confidential folder; make one if there is none yet.

        Raises:
            ConfigError: the key cannot be read or written, or is damaged.
        """
        place = confidential / KEY_FILE
        try:
            made = bits.take(KEY_BYTES)
            known = write_once(str(place), (made + _check(made)).hex().encode(), MostBytes.KEY)
        except OSError as error:
            raise ConfigError(
                f"{place}: the key of the tokens cannot be read or written: {error.strerror}."
            ) from None
        try:
            content = bytes.fromhex(known.decode())
        except ValueError:
            content = b""
        key, check = content[:KEY_BYTES], content[KEY_BYTES:]
        if len(key) < KEY_BYTES or check not in (b"", _check(key)):  # older keys have no check
            raise ConfigError(
                f"{place}: this is no key of tokens. Put back the one that made the tokens; without"
                " it, delete the file and make new tokens."
            )
        return cls(key)

    def new(self, bits: RandomBits) -> str:
        """Make a token: 43 characters that an address may hold."""
        random = bits.take(HALF)
        return base64.urlsafe_b64encode(random + self._tag("check", random)[:HALF]).decode()[:43]

    def mark(self, token: str) -> bytes:
        """Mark that is stored of a used token.

        Raises:
            UnknownToken: the token was not made with this key.
        """
        try:
            content = base64.b64decode(token + "=", altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            content = b""
        random, check = content[:HALF], content[HALF:]
        if not hmac.compare_digest(self._tag("check", random)[:HALF], check):
            raise UnknownToken(NO_TOKEN)
        return self._tag("used", random)[:MARK_BYTES]

    def _tag(self, purpose: str, random: bytes) -> bytes:
        message = f"hushrank token {purpose}\0".encode() + random
        return hmac.new(self._key, message, hashlib.sha256).digest()


def _check(key: bytes) -> bytes:
    """Check value that shows whether a key is damaged."""
    return hashlib.sha256(key).digest()[:CHECK_BYTES]


def write_tokens(path: Path, key: TokenKey, count: int, bits: RandomBits, page: str = "") -> None:
    """Write new tokens to a new file, one on each line, each after the page's address if given.

    Raises:
        FileExistsError: `path` exists already.
        OSError: the file cannot be written.
    """
    if path.exists():
        raise FileExistsError(path)
    prefix = f"{page}#t=" if page else ""
    lines = "".join(f"{prefix}{key.new(bits)}\n" for _ in range(count))
    write_once(str(path), lines.encode())
