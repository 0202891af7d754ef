"""Ledger at a place, with the key and the anchor that a configuration names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hushrank.flows.config.privacy import LedgerConfig
from hushrank.flows.config.section import GIT_PREFIX, anchor_place
from hushrank.flows.errors import NOTHING_SPENT, ConfigError, LedgerError
from hushrank.flows.ledger.entries import BudgetTerms
from hushrank.flows.ledger.keys import (
    KeySigner,
    PublicKey,
    Signer,
    Verifier,
    load_public_key,
    load_signer,
    sealed,
)
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.local_file import LedgerBackend, LedgerFile
from hushrank.transforms.common.local_files import home_path
from hushrank.transforms.storage.places import CloudPath, Place, is_cloud

if TYPE_CHECKING:
    from hushrank.flows.ledger.anchor import Anchor


@dataclass(frozen=True, slots=True)
class Guards:
    """Key and anchor by which changes of a ledger are noticed.

    Attributes:
        key: checks signatures; None: they are not checked.
        signer: signs new lines; None: they are not signed.
        anchor: the second place; None: there is none.
        terms_key: key to which the terms must belong; None: the job names none.
        officer: private key of the holder of the terms; None: it is not at hand.
    """

    key: Verifier | None = None
    signer: Signer | None = None
    anchor: Anchor | None = None
    terms_key: PublicKey | None = None
    officer: KeySigner | None = None

    @classmethod
    def of(cls, config: LedgerConfig) -> Guards:
        """Build the guards that a configuration names.

        Raises:
            LedgerError: a key cannot be used, or one key is to sign lines and terms.
        """
        anchor = None if config.anchor is None else anchor_at(config.anchor)
        terms = config.terms_key
        owner = None if terms is None else load_public_key(terms, "ledger.terms_key")
        if config.signing_key is None:
            return cls(anchor=anchor, terms_key=owner)
        signer = load_signer(config.signing_key)
        if owner is not None and owner.key_id == signer.key_id:
            raise LedgerError(
                f"ledger.terms_key: {terms} is the public half of ledger.signing_key, which every"
                f" run has, so every run could change the terms. Make another key for the officer"
                f" alone: hushrank ledger key --out FILE. {NOTHING_SPENT}"
            )
        return cls(signer, signer, anchor, owner)

    def with_officer(self, path: Path | None) -> Guards:
        """Return a copy for the holder of the private key in a file; None: the same guards.

        Raises:
            LedgerError: the key cannot be used, or is the one that signs lines.
        """
        if path is None:
            return self
        officer = load_signer(path, "--terms-key")
        if self.signer is not None and self.signer.key_id == officer.key_id:
            raise LedgerError(
                f"--terms-key: {path} is ledger.signing_key, which every run has. Name the"
                f" officer's own key. {NOTHING_SPENT}"
            )
        return replace(self, officer=officer)

    def with_anchor(self, anchor: str | None) -> Guards:
        """Return a copy with another anchor, relative to the working directory; None: the same
        anchor.

        Raises:
            ConfigError: `anchor` names no place.
        """
        return self if anchor is None else replace(self, anchor=anchor_at(_absolute(anchor)))

    def for_reader(self, public_key: Path | None) -> Guards:
        """Return a copy for a reader, who signs nothing, with another key if one is given.

        Raises:
            LedgerError: the key cannot be used.
        """
        key = self.key if public_key is None else load_public_key(public_key)
        return replace(self, key=key, signer=None)

    def around(self, place: Place) -> LedgerBackend:
        """Return the backend of the ledger at `place`, with these guards."""
        inner: LedgerBackend
        if isinstance(place, CloudPath):
            from hushrank.flows.ledger.cloud_object import LedgerObject

            inner = LedgerObject(place)
        else:
            inner = LedgerFile(place)
        if self.key is None and self.anchor is None:
            return inner
        from hushrank.flows.ledger.anchor import GuardedLedger

        return GuardedLedger(inner, key=self.key, signer=self.signer, anchor=self.anchor)

    def ledger(self, place: Place, terms: BudgetTerms, beside: Sequence[str] = ()) -> Ledger:
        """Open the ledger at `place` for one population.

        Args:
            place: file or object of the ledger.
            terms: terms of the population.
            beside: other paths and URLs of the job, whose accounts are recorded too.
        """
        seal = None if self.signer is None else partial(sealed, signer=self.signer)
        return Ledger(
            self.around(place),
            terms,
            seal=seal,
            terms_key=self.terms_key,
            officer=self.officer,
            places=(f"{place}", *beside),
        )


def anchor_at(anchor: str) -> Anchor:
    """Open the anchor that a configuration names."""
    from hushrank.flows.ledger.anchor import FileAnchor, ObjectAnchor

    place = anchor_place(anchor)
    if isinstance(place, CloudPath):
        return ObjectAnchor(place)
    if not anchor.startswith(GIT_PREFIX):
        return FileAnchor(place)
    from hushrank.flows.ledger.git_anchor import GitAnchor

    return GitAnchor(place)


def _absolute(anchor: str) -> str:
    """Return the absolute form of an anchor from a command line or a Python program."""
    if is_cloud(anchor):
        try:
            CloudPath.parse(anchor)
        except ValueError as error:
            raise ConfigError(f"anchor: {error}") from None
        return anchor
    prefix = GIT_PREFIX if anchor.startswith(GIT_PREFIX) else ""
    return f"{prefix}{home_path(anchor.removeprefix(GIT_PREFIX)).absolute()}"
