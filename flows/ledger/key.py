"""Secret key beside a ledger, which makes keyed names of confidential things.

The identity of a release or an input file is computed from the content and the paths of
confidential files. A plain hash would leak: somebody who knows all rows but one could try both
possible contents and learn from the published identity which one is true. So each name is an
HMAC-SHA256 under 32 random bytes from the operating system. They stand only in `ledger.jsonl.key`,
beside the ledger.

Without the key such a name looks random (HMAC is a pseudo-random function, [B06]). Each purpose has
a function of its own. What is named, `flows.identity` says.

References:
    [B06] Bellare. New proofs for NMAC and HMAC: security without collision-resistance. 2006.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.local_file import create_private, read_private, require_own_folder
from hushrank.flows.signals import signals_held
from hushrank.privacy.randomness import system_bits
from hushrank.transforms import system
from hushrank.transforms.storage.cloud_storage import CloudPath, ObjectChanged, Place

KEY_BYTES = 32
MOST_FILES = 256  # most files whose names are kept; see `InputNames`
TAG_DIGITS = 16  # 64 bits, so two names of one ledger practically never coincide


class Purpose(StrEnum):
    """Kind of thing that is named; the same text has another name for each kind."""

    RELEASE = "release id"
    INPUT = "input"
    CHECK = "key check"
    STREAM = "stream"
    ROWS = "rows of a table"
    CONTENT = "content of a file"
    DIGEST = "remembered digest"


@dataclass(frozen=True, slots=True)
class LedgerKey:
    """Secret of one ledger.

    Attributes:
        value: `KEY_BYTES` bytes.
        path: path of the key, for messages.
    """

    value: bytes = field(repr=False)
    path: str

    def tag(self, purpose: Purpose, text: str) -> str:
        """Return the name of `text`: `TAG_DIGITS` hexadecimal digits."""
        message = f"hushrank {purpose}\0{text}".encode("utf-8", "surrogateescape")
        return hmac.new(self.value, message, hashlib.sha256).hexdigest()[:TAG_DIGITS]

    def derived(self, purpose: Purpose) -> bytes:
        """Derive another key of `KEY_BYTES` bytes, for a separate keyed hash."""
        return hmac.new(self.value, f"hushrank key {purpose}".encode(), hashlib.sha256).digest()

    @property
    def check(self) -> str:
        """Check value that the ledger records, to recognise the same key later."""
        return self.tag(Purpose.CHECK, "")


def key_path(ledger: Place) -> Place:
    """Path of a ledger's key."""
    suffixed = f"{ledger}.key"
    return CloudPath.parse(suffixed) if isinstance(ledger, CloudPath) else Path(suffixed)


def find_key(ledger: Place) -> LedgerKey | None:
    """Read the key of a ledger; None if it has none yet.

    Raises:
        LedgerError: others can read or replace the key, or it is damaged or unreachable.
    """
    path = key_path(ledger)
    try:
        if isinstance(path, CloudPath):
            found = path.read()
            text = None if found is None else found.content
        else:
            require_own_folder(path)
            text = read_private(path, 4 * KEY_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, "read", error) from error
    return None if text is None else LedgerKey(_parsed(path, text), str(path))


def ledger_key(ledger: Place) -> LedgerKey:
    """Read the key of a ledger; make and store one if it has none yet.

    If several processes make one at the same time, they all get the same key.

    Raises:
        LedgerError: `find_key` fails, or the key cannot be written.
    """
    known = find_key(ledger)
    if known is not None:
        return known
    path, text = key_path(ledger), f"{system_bits().take(KEY_BYTES).hex()}\n".encode()
    try:
        if isinstance(path, CloudPath):
            path.create(text)
        else:
            system.make_private_folder(path.parent)
            with signals_held():
                create_private(path, text)
    except ObjectChanged:
        pass  # another process was faster, and its key counts
    except OSError as error:
        raise _unusable(path, "written", error) from error
    made = find_key(ledger)
    if made is None:
        raise LedgerError(f"{path}: the key of the ledger was removed just now. Run again.")
    return made


def _parsed(path: Place, text: bytes) -> bytes:
    try:
        value = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        value = b""
    if len(value) != KEY_BYTES:
        raise LedgerError(
            f"{path}: is not a ledger key ({2 * KEY_BYTES} hexadecimal digits). Put back the"
            f" one that stood beside the ledger; {WITHOUT_KEY}. Nothing was spent."
        )
    return value


WITHOUT_KEY = (
    "if it is lost, delete this file and run hushrank ledger recover, which states the consequences"
)


def _unusable(path: Place, what: str, error: OSError) -> LedgerError:
    reason = error.strerror or type(error).__name__
    return LedgerError(
        f"{path}: the key of the ledger cannot be {what} ({reason})."
        " It must be a file, not a link, and belong to your account. Correct its permissions,"
        " or ledger.path. Nothing was spent."
    )


@dataclass(frozen=True, slots=True)
class InputNames:
    """Keyed names that a reservation records about its input.

    If there are more than `MOST_FILES` files, the smallest names are kept. Without the key this is
    a random choice. Two inputs that share a part f of all their files are then recognised as
    sharing some, except with probability (1 - f)^256.

    Attributes:
        key: shows whether two of these objects were made with one key (`LedgerKey.check`).
        names: keyed names, ascending.
        plain: the texts that were named, those of `older` too; only for the confidential area.
        contents: names that stand for the content of a file, wherever it lies; a part of `names`.
        older: names that earlier versions recorded of the same input, by which their entries know
            it; they are not recorded again.
    """

    key: str
    names: tuple[str, ...]
    plain: tuple[str, ...] = ()
    contents: frozenset[str] = frozenset()
    older: tuple[str, ...] = ()
