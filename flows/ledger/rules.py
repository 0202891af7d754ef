"""Steps that the ledger refuses. Pure: the ledger's content in, nothing or a refusal out.

A budget holds for people, but a configuration only has a name for them: under six names somebody
could release the same file six times. So the ledger recognises inputs (`flows.ledger.keys`), and
lets two populations share an input only if the operator states that their people are different.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from hushrank.flows.errors import NOTHING_SPENT, BudgetRefused, LedgerError, Problem
from hushrank.flows.ledger.account import (
    MAY_FOLLOW,
    Account,
    Attempt,
    Costs,
    ReleaseState,
    Reservation,
    account_of,
    may_find_names,
    night_is_next,
)
from hushrank.flows.ledger.entries import (
    ALWAYS,
    BudgetTerms,
    Cancel,
    Chain,
    ChangeTerms,
    Commit,
    Draw,
    Entry,
    Event,
    Limits,
    Open,
    Period,
    Reserve,
    Seal,
    SharedInput,
    Statement,
    Stop,
)
from hushrank.flows.ledger.texts import (
    ahead_text,
    beyond_text,
    clock_text,
    day_text,
    lifetime_refusal_text,
    other_cost_text,
    other_guarantee_text,
    other_key_text,
    other_protection_text,
    other_terms_text,
    refusal_text,
    undrawn_text,
    unsealed_text,
    wrong_state_text,
)
from hushrank.privacy.accounting import Spend
from hushrank.privacy.filters import fits


@dataclass(frozen=True, slots=True)
class Sharing:
    """Another population that read an input of this population.

    Attributes:
        release_id: id of the last release of the population that read the input.
        stated: the operator states, for one of the two, that the people are others.
        costs: costs of the population in the given period; None if they cannot be added to those
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
        """Facts about the sharing that are shown to people."""
        return SharedInput(
            self.population,
            stated=self.stated,
            added=self.costs is not None,
            statement=self.statement,
        )


def sharing_of(
    entries: Sequence[Entry], terms: BudgetTerms, names: Collection[str], period: Period, place: str
) -> tuple[Sharing, ...]:
    """List the populations that share an input with that of `terms`, in the order of the ledger.

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
    """Costs that count in `period`, of this population and of those that share its input."""
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
            f" people already counted under {each.population}. Set name: {each.population}. If"
            " these are other people, although their answers are in the same files, add"
            f" other_people: [{each.population}] to section ledger."
            f" {NOTHING_SPENT}"
        )


def _held(account: Account) -> list[Attempt]:
    return [each for each in account.attempts if each.state is not ReleaseState.CANCELLED]


def _statement(
    own: Account, other: Account, population: str, terms: BudgetTerms
) -> Statement | None:
    """Return the first record of a statement, of either population, that still stands."""
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


MAX_CLOCK_LAG = timedelta(hours=1)  # machines that share a ledger may differ by this much
MAX_CLOCK_LEAD = timedelta(days=400)  # longer than the gap between two runs of a yearly survey
LAST_YEAR = 2261  # the last whole year that fits in 64 bits of nanoseconds since 1970

# the id is also the name of a lock file
_RELEASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def require_release_id(release_id: str) -> None:
    """Raise ValueError unless `release_id` is a valid id of a release."""
    if not _RELEASE_ID.fullmatch(release_id):
        raise ValueError(
            f"release_id must be 1 to 128 letters, digits, '.', '_' or '-', got {release_id!r}"
        )


def require_same_guarantee(account: Account, terms: BudgetTerms, place: str) -> None:
    """Raise LedgerError if `account` counts costs of another unit, or of another part of one."""
    opened, where = account.opened, f"{place}: {terms.population}"
    if opened is None:
        return
    for name, known, asked in (
        ("unit", opened.unit, terms.unit),
        ("adjacency", opened.adjacency, terms.adjacency),
    ):
        if known is not asked:
            raise LedgerError.at(where, other_guarantee_text(where, name, known, asked))
    if opened.protects is None or terms.protects is None:  # an older version did not record it
        return
    if opened.protects is not terms.protects:
        raise LedgerError.at(where, other_protection_text(where, opened.protects, terms.protects))


def own_terms(chain: Chain, account: Account, terms: BudgetTerms) -> BudgetTerms:
    """Return the terms that count: recorded ones if they belong to a key, else the configured
    ones."""
    if not chain.terms_key or account.terms is None:
        return terms
    return replace(terms, **Limits.of(account.terms)._asdict())


def entry_of_terms(
    terms: BudgetTerms, known: Open | ChangeTerms | None, named: str, reason: str
) -> list[Event]:
    """List the entry that sets `terms`, or none if they are `known` and no key is `named`."""
    limits = Limits.of(terms)
    if known is not None and Limits.of(known) == limits and not named:
        return []
    if known is not None:
        return [ChangeTerms(**limits._asdict(), terms_key=named, reason=reason)]
    return [
        Open(
            **limits._asdict(),
            unit=terms.unit,
            adjacency=terms.adjacency,
            protects=terms.protects,
            terms_key=named,
            reason=reason,
        )
    ]


def require_own_terms(chain: Chain, account: Account, terms: BudgetTerms, place: str) -> None:
    """Raise LedgerError if a job states other terms than a ledger whose terms belong to a key."""
    if not chain.terms_key:
        return
    where, known = f"{place}: {terms.population}", account.terms
    if known is None or Limits.of(terms) != Limits.of(known):
        raise LedgerError.at(where, other_terms_text(where, known, terms))


def require_clock(clock: datetime, last: datetime, terms: BudgetTerms, place: str) -> None:
    """Raise LedgerError if the budget renews and `clock` is far behind the `last` entry, in UTC."""
    if terms.refresh is not None and last - clock > MAX_CLOCK_LAG:
        raise LedgerError.at(place, clock_text(place, last, clock))


def require_near_year(clock: datetime, place: str) -> None:
    """Raise LedgerError if `clock` exceeds what libraries store as nanoseconds in 64 bits."""
    if clock.year > LAST_YEAR:
        raise LedgerError.at(place, beyond_text(place, clock))


def require_no_lead(clock: datetime, last: datetime | None, place: str) -> None:
    """Raise LedgerError if `clock` is years ahead of the `last` entry, in UTC."""
    if last is not None and clock - last > MAX_CLOCK_LEAD:
        raise LedgerError.at(place, ahead_text(place, last, clock))


def require_key(known: str, key: str, place: str) -> None:
    """Raise LedgerError if the names in the ledger are made with another key than `key`.

    Args:
        known: `LedgerKey.check` of the key that made the names; empty if there are no names.
        key: `LedgerKey.check` of the present key.
        place: place of the ledger.
    """
    if known not in ("", key):
        raise LedgerError.at(place, other_key_text(place))


def require_seal(chain: Chain, seal: Seal | None, place: str) -> None:
    """Raise LedgerError if the last line is signed and the next one would not be."""
    signature = chain.entries[-1].signature if chain.entries else None
    if signature is not None and seal is None:
        raise LedgerError.at(place, unsealed_text(place, signature))


def require_fit(
    spend: Spend, account: Account, period: Period, terms: BudgetTerms, today: date
) -> None:
    """Raise BudgetRefused unless `spend` fits beside what counts in `period`, and in all periods.

    Raises:
        ValueError: `spend` belongs to a release without privacy.
    """
    if math.isinf(spend.epsilon) or spend.rho == math.inf:
        raise ValueError("a release without privacy has no cost: record it as unsafe")
    spends, first = account.costs(period)
    if fits(spends, spend, terms.epsilon, terms.delta, first):
        return _require_fit_for_good(spend, account, terms)
    refusal = refusal_text(
        terms.population,
        spends,
        spend,
        first=first,
        epsilon=terms.epsilon,
        delta=terms.delta,
        until="" if period.end is None else day_text(period.end.date(), today),
    )
    undrawn = [
        attempt.release_id for attempt in account.counted(period) if attempt.drawn_at is None
    ]
    raise _refused(terms, refusal, undrawn)


def _refused(terms: BudgetTerms, text: str, undrawn: Sequence[str]) -> BudgetRefused:
    """Build the refusal of a cost that does not fit into a population's budget."""
    rule = text.removesuffix(NOTHING_SPENT).strip()
    problem = Problem(f"budget of {terms.population}", rule, undrawn_text(undrawn).strip())
    return BudgetRefused(text + undrawn_text(undrawn), problem)


def _require_fit_for_good(spend: Spend, account: Account, terms: BudgetTerms) -> None:
    """Raise BudgetRefused unless `spend` fits beside all that ever counted."""
    limit, costs = terms.lifetime_epsilon, account.costs(ALWAYS)
    if limit is None or fits(costs.spends, spend, limit, terms.delta, costs.first):
        return
    refusal = lifetime_refusal_text(terms.population, costs, spend, limit=limit, delta=terms.delta)
    counted = account.counted(ALWAYS)
    undrawn = [attempt.release_id for attempt in counted if attempt.drawn_at is None]
    raise _refused(terms, refusal, undrawn)


def repeated(attempt: Attempt, spend: Spend) -> Reservation:
    """Return the reservation that `attempt` is; LedgerError if it has another cost than `spend`."""
    release_id, number = attempt.release_id, attempt.number
    if attempt.spend != spend:
        raise LedgerError(other_cost_text(release_id, attempt.spend, spend))
    return Reservation(release_id, number, spend, attempt.reserved_at, repeated=True)


def require_part(spend: Spend, reserved: Spend) -> None:
    """Raise ValueError unless the pilot query's cost is a part of what is `reserved`."""
    pure = spend.rho is None and spend.delta == 0 and reserved.rho is None
    if not (pure and spend.epsilon <= reserved.epsilon):
        raise ValueError(f"a pilot query that costs {spend} is not a part of {reserved}")


def attempt_for(step: Draw | Stop | Commit | Cancel, account: Account) -> Attempt:
    """Return the attempt at a release that takes `step`; LedgerError if none may."""
    latest, state = account.attempt(step.release_id), account.state(step.release_id)
    out_of_turn = isinstance(step, Draw) and latest is not None and not _is_due(step, account)
    if latest is None or state not in MAY_FOLLOW[type(step)] or out_of_turn:
        raise LedgerError(wrong_state_text(step.release_id, type(step), state))
    return latest


def _is_due(step: Draw, account: Account) -> bool:
    """Whether it is the turn of this draw: of a night, or of names before their ranking."""
    latest = account.attempt(step.release_id)
    if latest is None or (step.names and not may_find_names(latest)):
        return False
    return not latest.of or night_is_next(account, latest.of, latest.night)


def given_back_with(account: Account, attempt: Attempt) -> list[Cancel]:
    """List the cancellations that follow from one: a stream and its first night go together."""
    if attempt.stream is not None:
        found = account.nights_of(attempt.release_id).values()
        together = [each for each in found if each.state is ReleaseState.RESERVED]
    else:
        stream = account.attempt(attempt.of) if attempt.of else None
        first = stream is not None and stream.state is ReleaseState.RESERVED
        together = [stream] if stream is not None and first else []
    return [Cancel(release_id=each.release_id, attempt=each.number) for each in together]
