"""A population's budget, from Python."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa

from hushrank.flows.display import balance_text
from hushrank.flows.errors import ConfigError, LedgerError
from hushrank.flows.interfaces.python.arguments import plainly
from hushrank.flows.interfaces.python.table import Table
from hushrank.flows.ledger.account import ReleaseState, account_of
from hushrank.flows.ledger.approval import read_approved
from hushrank.flows.ledger.entries import Balance, BudgetTerms, Open, Refresh
from hushrank.flows.ledger.guards import Guards
from hushrank.flows.ledger.keys import load_signer
from hushrank.flows.ledger.ledger import Ledger as Books
from hushrank.flows.ledger.texts import shared_text
from hushrank.transforms.common.local_files import home_path
from hushrank.transforms.common.plain_text import short_list
from hushrank.transforms.storage.places import CloudPath, is_cloud

ENTRIES = pa.schema(
    [
        ("time", pa.timestamp("s", tz="UTC")),
        ("release_id", pa.string()),
        ("state", pa.string()),
        ("epsilon", pa.float64()),
        ("delta", pa.float64()),
        ("rho", pa.float64()),
        ("counts_now", pa.bool_()),
        ("operator", pa.string()),
        ("note", pa.string()),
    ]
)


class Ledger:
    """The file in which a privacy budget is counted.

    Args:
        path: a local path or gs:// URL; it is made by the first release.
        name: the population; needed where the file counts several.
        epsilon: the most that all its releases may cost together; None: as recorded.
        delta: delta at which that total is stated.
        refresh: period after which the total renews: daily, weekly, monthly or yearly.
        lifetime_epsilon: the most over all periods of a total that renews; None: as recorded.
        signing_key: file of the key that signs its lines; a signed ledger takes no line without.
        anchor: a second place that knows how far the ledger was (docs/backup.md).

    Raises:
        ConfigError: an argument is of another type, or out of range.
    """

    @plainly
    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        refresh: str | None = None,
        lifetime_epsilon: float | None = None,
        signing_key: str | os.PathLike[str] | None = None,
        anchor: str | os.PathLike[str] | None = None,
    ) -> None:
        text = os.fspath(path)
        self.path: Path | CloudPath = (
            CloudPath.parse(text) if is_cloud(text) else home_path(text).absolute()
        )
        for key, value in (("epsilon", epsilon), ("lifetime_epsilon", lifetime_epsilon)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ConfigError(f"{key}: must be finite and > 0, got {value!r}")
        if delta is not None and not 0 <= delta < 1:
            raise ConfigError(f"delta: must be at least 0 and below 1, got {delta!r}")
        if refresh is not None and refresh not in get_args(Refresh):
            raise ConfigError(f"refresh: must be {' or '.join(get_args(Refresh))}")
        self.name = name
        self._terms = {
            "epsilon": epsilon,
            "delta": delta,
            "refresh": refresh,
            "lifetime_epsilon": lifetime_epsilon,
        }
        named = {"signing_key": signing_key, "anchor": anchor}
        self.guard_keys = {key: os.fspath(value) for key, value in named.items() if value}

    @property
    @plainly
    def populations(self) -> tuple[str, ...]:
        """Names of the populations that the ledger counts.

        Raises:
            LedgerError: the ledger is damaged.
        """
        return tuple(dict.fromkeys(entry.population for entry in self._entries()))

    @property
    @plainly
    def balance(self) -> Balance:
        """Budget spent and budget left.

        Raises:
            ConfigError: there is no such ledger, or it counts several populations.
            LedgerError: the ledger is damaged.
        """
        return self._books().balance()

    @property
    @plainly
    def remaining(self) -> float:
        """Largest epsilon that one more release may cost; raises as `balance`."""
        return self._books().balance().remaining_epsilon

    @property
    @plainly
    def entries(self) -> Table:
        """Every release and change of terms, oldest first; raises as `balance`."""
        rows = [
            {
                "time": row.time,
                "release_id": row.release_id or None,
                "state": row.state,
                "epsilon": None if row.spend is None else row.spend.epsilon,
                "delta": None if row.spend is None else row.spend.delta,
                "rho": None if row.spend is None else row.spend.rho,
                "counts_now": row.counts_now,
                "operator": row.operator,
                "note": row.note,
            }
            for row in self._books().history()
        ]
        return Table(pa.Table.from_pylist(rows, schema=ENTRIES))

    @plainly
    def verify(self) -> int:
        """Check that every line is as it was written.

        Returns:
            How many lines there are.

        Raises:
            LedgerError: a line was changed, removed or added; the text names it.
        """
        return sum(1 for _ in self._entries())

    @plainly
    def terms_for(self, name: str) -> dict[str, Any]:
        """Return the terms of a population's budget: those given here, or else the recorded
        ones."""
        given = {key: value for key, value in self._terms.items() if value is not None}
        terms = account_of(self._entries(), name, str(self.path)).terms
        if terms is None:
            return given
        recorded: dict[str, Any] = {"epsilon": terms.epsilon, "delta": terms.delta}
        if terms.refresh is not None:
            recorded["refresh"] = str(terms.refresh)
        if terms.lifetime_epsilon is not None:
            recorded["lifetime_epsilon"] = terms.lifetime_epsilon
        return {**recorded, **given}

    def _guards(self) -> Guards:
        """Return key and anchor, with paths relative to the working directory.

        Raises:
            ConfigError, LedgerError: the ledger's key, anchor or memory cannot be used.
        """
        named = self.guard_keys
        key = named.get("signing_key")
        signer = None if key is None else load_signer(home_path(key).absolute())
        return Guards(signer, signer).with_anchor(named.get("anchor"))

    def _entries(self) -> Iterator[Any]:
        backend = self._guards().around(self.path)
        snapshot = backend.read()
        if snapshot.loss is not None:
            raise LedgerError(snapshot.loss)
        yield from read_approved(snapshot.content, backend.place).entries

    def _books(self) -> Books:
        """Open the ledger with the recorded terms of its population."""
        name = self.name or self._only_name()
        account = account_of(self._entries(), name, str(self.path))
        opened = account.opened
        if not isinstance(opened, Open):
            known = short_list(self.populations) or "none"
            raise ConfigError(f"{self.path}: counts no population {name}. It counts: {known}.")
        given = {"delta": 0.0, "refresh": None, "lifetime_epsilon": None, **self.terms_for(name)}
        limit = given["lifetime_epsilon"]
        if limit is not None and (given["refresh"] is None or limit < given["epsilon"]):
            raise ConfigError(
                f"lifetime_epsilon: {limit:g} is the most over all periods of a total that renews,"
                f" and at least that total (epsilon, {given['epsilon']:g}). Give both, or neither."
            )
        held = [each for each in account.attempts if each.state is not ReleaseState.CANCELLED]
        terms = BudgetTerms(
            population=name,
            other_people=held[-1].others if held else (),
            unit=opened.unit,
            adjacency=opened.adjacency,
            protects=opened.protects,
            **given,
        )
        return self._guards().ledger(self.path, terms)

    def _only_name(self) -> str:
        names = self.populations
        if len(names) != 1:
            what = f"counts {short_list(names)}" if names else "has no entry yet"
            raise ConfigError(f"{self.path}: {what}. Name the population: Ledger(path, 'arena').")
        return names[0]

    def __repr__(self) -> str:
        """Text of the remaining budget."""
        from datetime import UTC, datetime

        try:
            balance = self.balance
        except (ConfigError, LedgerError) as error:
            return f"Ledger: {error}"
        texts = (balance_text(balance, datetime.now(UTC).date()), shared_text(balance))
        return " ".join(text for text in texts if text)
