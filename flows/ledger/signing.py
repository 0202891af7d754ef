"""Ed25519 keys that sign the lines of a ledger, its anchors and certificates of releases.

A private key is a PEM file (PKCS #8) that its owner alone can read; `openssl` reads it too. A
public key is a PEM file as well. A signature is 64 bytes and always the same for the same message
([J17]), so a run that is taken up again writes the same bytes.

What a key signs begins differently for each purpose (`{"hushrank_ledger":`, `{"hushrank_anchor":`,
a certificate with another key), so no signature can be taken for one of another purpose.

Another store of keys, such as a KMS, needs a class with the members of `signatures.Signer`.

References:
    [J17] Josefsson, Liusvaara. Edwards-Curve Digital Signature Algorithm (EdDSA). RFC 8032. 2017.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

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

from hushrank.flows.errors import NOTHING_SPENT, ConfigError, LedgerError
from hushrank.flows.ledger.local_file import OPEN_TO_READ, create_private
from hushrank.transforms.common.local_files import MostBytes, open_to_read
from hushrank.transforms.storage.write import OWNER_ONLY_FOLDER

KEY_ID_DIGITS = 16
MOST_BYTES = 4096  # a key file has about 120
MAKE_ONE = "hushrank ledger key --out FILE makes one"


@dataclass(frozen=True, slots=True)
class PublicKey:
    """What signatures are checked with."""

    key: Ed25519PublicKey

    @property
    def key_id(self) -> str:
        """The first digits of the SHA-256 of the key's 32 bytes."""
        raw = self.key.public_bytes(Encoding.Raw, PublicFormat.Raw)
        return hashlib.sha256(raw).hexdigest()[:KEY_ID_DIGITS]

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
        """The public half."""
        return PublicKey(self.key.public_key())

    @property
    def key_id(self) -> str:
        """As of the public half."""
        return self.public.key_id

    def sign(self, message: bytes) -> bytes:
        """The signature, 64 bytes."""
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
        path.parent.mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
        made = create_private(path, private)
    except OSError as error:
        raise ConfigError(
            f"--out: {path} cannot be written ({error.strerror or type(error).__name__}). Name"
            " another file."
        ) from None
    if not made:
        raise ConfigError(
            f"--out: {path} exists already. A key is never overwritten: what it signed could not be"
            " added to any more. Name another file."
        )
    return public_pem(KeySigner(key).public)


def public_pem(public: PublicKey) -> str:
    """The public key as PEM text."""
    return public.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def load_signer(path: Path) -> KeySigner:
    """Read a private key.

    Raises:
        LedgerError: there is none, others can read it, or it is no Ed25519 key without a password.
    """
    key_text = _read(path, "ledger.signing_key", private=True)
    try:
        key = load_pem_private_key(key_text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it has a password
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise LedgerError(
            f"ledger.signing_key: {path} is no private Ed25519 key in PEM form without a password."
            f" Put the right file there; {MAKE_ONE}. {NOTHING_SPENT}"
        )
    return KeySigner(key)


def load_public_key(path: Path) -> PublicKey:
    """Read a public key.

    Raises:
        LedgerError: there is none, or it is no Ed25519 key.
    """
    key_text = _read(path, "--public-key", private=False)
    try:
        key = load_pem_public_key(key_text)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise LedgerError(
            f"--public-key: {path} is no public Ed25519 key in PEM form. hushrank ledger key"
            " printed it when it made the key; openssl pkey -in KEY -pubout prints it again."
        )
    return PublicKey(key)


def _read(path: Path, name: str, *, private: bool) -> bytes:
    try:
        with open_to_read(path, MostBytes.KEY) as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(MOST_BYTES)
    except OSError as error:
        raise LedgerError(
            f"{name}: {path} cannot be read ({error.strerror or type(error).__name__}). Put the key"
            f" back, or correct its permissions. {NOTHING_SPENT}"
        ) from None
    if private and mode & OPEN_TO_READ:
        raise LedgerError(
            f"{name}: {path} can be read by other users of this machine, who could sign in your"
            f" place. Run: chmod 600 {path}. {NOTHING_SPENT}"
        )
    return text
