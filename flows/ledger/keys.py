"""The secret keys of a ledger: one names releases and inputs, one signs releases and lines.

Secret key beside a ledger, which makes keyed names of confidential things.

The identity of a release or an input file is computed from the content and the paths of
confidential files. A plain hash would leak: somebody who knows all rows but one could try both
possible contents and learn from the published identity which one is true. So each name is an
HMAC-SHA256 under 32 random bytes from the operating system. They stand only in `ledger.jsonl.key`,
beside the ledger.

Without the key such a name looks random (HMAC is a pseudo-random function, [B06]). Each purpose has
a function of its own. What is named, `flows.identity` says.

Ed25519 keys that sign the lines of a ledger, its anchors and certificates of releases.

A private key is a PEM file (PKCS #8) that its owner alone can read; `openssl` reads it too. A
public key is a PEM file as well. A signature is 64 bytes and always the same for the same message
([J17]), so a run that is taken up again writes the same bytes. A signed line is a JSON object whose
last field signs the fields before it.

What a key signs begins differently for each purpose (`{"hushrank_ledger":`, `{"hushrank_anchor":`,
a certificate with another key), so no signature can be taken for one of another purpose.

Another store of keys, such as a KMS, needs a class with the members of `Signer`.

An anchor keeps heads: how far a ledger is. A head has the number, hash and date of a line, and
nothing else of the ledger. All that a line says is public or keyed, and the hash of a line covers
it, so a head holds no private data.

References:
    [B06] Bellare. New proofs for NMAC and HMAC: security without collision-resistance. 2006.
    [J17] Josefsson, Liusvaara. Edwards-Curve Digital Signature Algorithm (EdDSA). RFC 8032. 2017.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal, Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hushrank.flows.errors import NOTHING_SPENT, ConfigError, LedgerError
from hushrank.flows.ledger.local_file import create_private, read_private, require_own_folder
from hushrank.flows.terminal import signals_held
from hushrank.privacy.randomness import system_bits
from hushrank.transforms import system
from hushrank.transforms.common.local_files import MostBytes, open_to_read
from hushrank.transforms.storage.places import CloudPath, ObjectChanged, Place

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


SIGNATURE, APPROVAL = "signature", "approval"  # last fields of a signed JSON object
_TEXT = re.compile(rb'ed25519:([0-9a-f]{16}):([A-Za-z0-9+/]{86}==)"}')


class Verifier(Protocol):
    """Public key, as an interface."""

    @property
    def key_id(self) -> str:
        """Name of the key: 16 hexadecimal digits."""
        ...

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether the owner of the key signed `message`."""
        ...


class Signer(Verifier, Protocol):
    """Private key, wherever it is kept. Its methods raise LedgerError if they fail."""

    def sign(self, message: bytes) -> bytes:
        """Sign `message` with Ed25519: 64 bytes."""
        ...


def sealed(body: bytes, signer: Signer, field: str = SIGNATURE) -> bytes:
    """Return the JSON object `body` with a last field that signs it."""
    text = f"ed25519:{signer.key_id}:{base64.b64encode(signer.sign(body)).decode()}"
    return body[:-1] + f',"{field}":"{text}"}}'.encode()


@dataclass(frozen=True, slots=True)
class Signed:
    """Signed JSON object.

    Attributes:
        body: the object that was signed, without its signature.
        key_id: id of the key that signed, as the object says.
    """

    body: bytes
    key_id: str
    signature: bytes

    @classmethod
    def of(cls, content: bytes, field: str = SIGNATURE) -> Signed | None:
        """Take the signature off an object; None if it has none, or one in an unknown form."""
        body, _, ending = content.rpartition(f',"{field}":"'.encode())
        found = _TEXT.fullmatch(ending)
        if found is None:
            return None
        return cls(body + b"}", found[1].decode(), base64.b64decode(found[2]))

    def holds(self, key: Verifier) -> bool:
        """Whether that key signed the body."""
        return self.key_id == key.key_id and key.verifies(self.body, self.signature)


NO_LINE = "0" * 64  # the hash of an empty ledger
HEAD_START = b'{"hushrank_anchor":'


class Head(BaseModel):
    """Last line of a ledger at one moment.

    Attributes:
        epoch: number of times that an operator accepted a ledger that did not go on from its anchor
            (`ledger recover`). Heads of an older epoch say nothing any more.
        position: number of the line, from 1; 0: the ledger was empty.
        hash: hash of the line.
        time: time of the line; None: there was no line.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hushrank_anchor: Literal[1] = 1
    epoch: int = Field(default=0, ge=0, le=9999)
    position: int = Field(ge=0, le=9_999_999_999)
    hash: str = Field(pattern="^[0-9a-f]{64}$")
    time: datetime | None = None

    @property
    def order(self) -> tuple[int, int]:
        """Sort key of heads; later heads have a greater one."""
        return self.epoch, self.position

    @property
    def name(self) -> str:
        """A file name that sorts as the heads do."""
        return f"{self.epoch:04d}-{self.position:010d}.json"

    def record(self, signer: Signer | None) -> bytes:
        """Write the head as one line for an anchor, signed if there is a key; always the same
        bytes."""
        body = json.dumps(self.model_dump(mode="json"), separators=(",", ":")).encode()
        return (body if signer is None else sealed(body, signer)) + b"\n"


@dataclass(frozen=True, slots=True)
class Anchored:
    """Head as an anchor holds it, with the id of the key that signed it, if any."""

    head: Head
    signed: Signed | None

    @classmethod
    def of(cls, record: bytes) -> Anchored:
        """Read a record.

        Raises:
            ValueError: `record` is no anchored head.
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
    """Return the head of a ledger that ends with `lines`, whole lines that may be unverified.

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
    """Reason why a ledger does not continue from `head`; None if it does."""
    lines = content.splitlines()
    if len(lines) < head.position:
        return f"has {len(lines)} lines, but had {head.position}"
    if head.position and not _has_hash(lines[head.position - 1], head.hash):
        return f"has another line {head.position} than it had"
    return None


def _has_hash(line: bytes, digest: str) -> bool:
    return line.endswith(b',"hash":"' + digest.encode() + b'"}')


KEY_ID_DIGITS = 16
MOST_BYTES = 4096  # a key file has about 120
MAKE_ONE = "hushrank ledger key --out FILE makes a key"


@dataclass(frozen=True, slots=True)
class PublicKey:
    """Public key that checks signatures."""

    key: Ed25519PublicKey

    @property
    def key_id(self) -> str:
        """First digits of the SHA-256 of the key's 32 bytes."""
        return hashlib.sha256(self._raw).hexdigest()[:KEY_ID_DIGITS]

    @property
    def text(self) -> str:
        """The key's 32 bytes in base64, as a line of a ledger names the key of its terms."""
        return base64.b64encode(self._raw).decode()

    @property
    def _raw(self) -> bytes:
        return self.key.public_bytes(Encoding.Raw, PublicFormat.Raw)

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether the owner of the private key signed `message`."""
        try:
            self.key.verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class KeySigner:
    """A private key from a file."""

    key: Ed25519PrivateKey

    @property
    def public(self) -> PublicKey:
        """Public half of the key."""
        return PublicKey(self.key.public_key())

    @property
    def key_id(self) -> str:
        """Id of the public half."""
        return self.public.key_id

    def sign(self, message: bytes) -> bytes:
        """Sign `message`: 64 bytes."""
        return self.key.sign(message)

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether this key signed `message`."""
        return self.public.verifies(message, signature)


def make_key(path: Path) -> str:
    """Make a private key in a new file for its owner alone.

    Returns:
        The public key, as PEM text.

    Raises:
        ConfigError: something is at `path`, or it cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        system.make_private_folder(path.parent)
        made = create_private(path, private)
    except OSError as error:
        raise ConfigError(
            f"--out: {path} cannot be written ({error.strerror or type(error).__name__}). Name"
            " another file."
        ) from None
    if not made:
        raise ConfigError(
            f"--out: {path} exists already. A key is never overwritten, because nothing more"
            " could be"
            " added to a ledger that it signed. Name another file."
        )
    return public_pem(KeySigner(key).public)


def public_pem(public: PublicKey) -> str:
    """Return the public key as PEM text."""
    return public.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def load_signer(path: Path, name: str = "ledger.signing_key") -> KeySigner:
    """Read a private key that the setting or option `name` names.

    Raises:
        LedgerError: there is no key, others can read it, or it is no Ed25519 key without a
            password.
    """
    key_text = _read(path, name, private=True)
    try:
        key = load_pem_private_key(key_text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: the key has a password
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise LedgerError(
            f"{name}: {path} is not a private Ed25519 key in PEM form without a"
            f" password. Put the right file there; {MAKE_ONE}. {NOTHING_SPENT}"
        )
    return KeySigner(key)


def load_public_key(path: Path, name: str = "--public-key") -> PublicKey:
    """Read a public key that the setting or option `name` names.

    Raises:
        LedgerError: there is no key, or it is no Ed25519 key.
    """
    key_text = _read(path, name, private=False)
    try:
        key = load_pem_public_key(key_text)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise LedgerError(
            f"{name}: {path} is not a public Ed25519 key in PEM form. hushrank ledger key"
            " printed it when it made the key. openssl pkey -in KEY -pubout prints it again."
        )
    return PublicKey(key)


def _read(path: Path, name: str, *, private: bool) -> bytes:
    try:
        with open_to_read(path, MostBytes.KEY) as file:
            found = system.access_of(path, os.fstat(file.fileno()))
            text = file.read(MOST_BYTES)
    except OSError as error:
        raise LedgerError(
            f"{name}: {path} cannot be read ({error.strerror or type(error).__name__}). Put the key"
            f" back, or correct its permissions. {NOTHING_SPENT}"
        ) from None
    if private and found.others_read:
        raise LedgerError(
            f"{name}: {path} can be read by other users of this machine, who could sign in your"
            f" place. Run: {found.to_close()}. {NOTHING_SPENT}"
        )
    return text
