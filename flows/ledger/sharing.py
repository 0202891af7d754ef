"""Populations of one ledger that read the same input, and so may be the same people. Pure.

A budget holds for people, but a configuration only has a name for them: under six names somebody
could release the same file six times. So the ledger recognises inputs (`flows.ledger.key`)
and lets two populations share an input only if the operator states that their people are others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date

from hushrank.flows.errors import NOTHING_SPENT, LedgerError
from hushrank.flows.ledger.account import Account, Attempt, Costs, ReleaseState, account_of
from hushrank.flows.ledger.budget import BudgetTerms, SharedInput, Statement
from hushrank.flows.ledger.entries import Entry, Reserve
from hushrank.flows.ledger.budget import Period


@dataclass(frozen=True, slots=True)
class Sharing:
    """Another population that read an input of this population.

    Attributes:
        release_id: its last release that read the input.
        stated: the operator states, for one of the two, that the people are others.
        costs: its costs that count in the given period; None if its costs cannot be added to those
            of this population.
        statement: the first record of that statement; None: the ledger has none.
        since: number of the line that set the first of its costs aside; 0: there are none.
    """

    population: str
    release_id: str
    day: date
    stated: bool
    costs: Costs | None
    statement: Statement | None
    since: int = 0

    @property
    def told(self) -> SharedInput:
        """For people."""
        return SharedInput(
            self.population,
            stated=self.stated,
            added=self.costs is not None,
            statement=self.statement,
        )


def sharing_of(
    entries: Sequence[Entry], terms: BudgetTerms, names: Collection[str], period: Period, place: str
) -> tuple[Sharing, ...]:
    """The populations that share an input with that of `terms`, in the order of the ledger.

    Args:
        entries: all entries of the ledger.
        terms: terms of this population.
        names: names of the input that it is about to read.
        period: decides which costs count.
        place: place of the ledger, for messages.

    Raises:
        LedgerError: an entry cannot follow the ones before it.
    """
    recorded = (entry for entry in entries if isinstance(entry.what, Reserve) and entry.what.inputs)
    populations = dict.fromkeys(entry.population for entry in recorded)
    if not populations:
        return ()
    own = account_of(entries, terms.population, place)
    read = {*names, *(name for each in _held(own) for name in each.inputs)}
    found = []
    for population in populations:
        if population == terms.population:
            continue
        account = account_of(entries, population, place)
        shared = [each for each in _held(account) if not read.isdisjoint(each.inputs)]
        if shared:
            statement = _statement(own, account, population, terms)
            found.append(_sharing(population, account, shared[-1], terms, period, statement))
    return tuple(found)


def together_with(account: Account, period: Period, shared: Sequence[Sharing]) -> Costs:
    """What counts in `period` of this population and of those that share its input."""
    own, first = account.costs(period), account.first(period)
    begun = [] if first is None else [(first.seq, own.first)]
    spends = list(own.spends)
    for each in shared:
        if each.costs is not None:
            spends.extend(each.costs.spends)
            begun.append((each.since, each.costs.first))
    earliest = min((each for each in begun if each[0]), key=lambda each: each[0], default=(0, None))
    return Costs(tuple(spends), earliest[1])


def require_own_people(shared: Sequence[Sharing], terms: BudgetTerms, place: str) -> None:
    """Raise LedgerError if another population read the input and may be the same people."""
    for each in shared:
        if each.stated:
            continue
        raise LedgerError(
            f"{place}: {each.population} has read the same input (release {each.release_id},"
            f" {each.day}), so the name {terms.population} would open a second budget for"
            f" people already counted under {each.population}. Set name: {each.population}. If the"
            " people are others, although they are in the same files, add other_people:"
            f" [{each.population}] to section ledger."
            f" {NOTHING_SPENT}"
        )


def _held(account: Account) -> list[Attempt]:
    return [each for each in account.attempts if each.state is not ReleaseState.CANCELLED]


def _statement(
    own: Account, other: Account, population: str, terms: BudgetTerms
) -> Statement | None:
    """The first record of a statement, of either population, that still stands."""
    lines: list[Attempt] = []
    if population in terms.other_people:
        lines += [each for each in _held(own) if population in each.others]
    if _states(other, terms.population):
        lines += [each for each in _held(other) if terms.population in each.others]
    if not lines:
        return None
    first = min(lines, key=lambda each: each.seq)
    return Statement(by=first.operator, at=first.reserved_at)


def _states(account: Account, name: str) -> bool:
    """Whether the last reservation of `account` names population `name` in `other_people`."""
    held = _held(account)
    return bool(held) and name in held[-1].others


def _sharing(
    population: str,
    account: Account,
    last: Attempt,
    terms: BudgetTerms,
    period: Period,
    statement: Statement | None,
) -> Sharing:
    opened, costs, first = account.opened, None, account.first(period)
    same = opened is not None and (opened.unit, opened.adjacency) == (terms.unit, terms.adjacency)
    if same and opened is not None and opened.protects in (None, terms.protects):
        costs = account.costs(period)
    return Sharing(
        population=population,
        release_id=last.release_id,
        day=last.reserved_at.date(),
        stated=population in terms.other_people or _states(account, terms.population),
        costs=costs,
        statement=statement,
        since=0 if first is None else first.seq,
    )
