"""What a certificate says of the ledger: the line of the release, and totals up to it. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import repeat

from hushrank.flows.certificate.counts import cost_of
from hushrank.flows.certificate.draws import Cost
from hushrank.flows.certificate.model import (
    Budget,
    LedgerPart,
    Position,
    SameInput,
    Spends,
    Total,
)
from hushrank.flows.certificate.numbers import INFINITE, as_shown, text_of
from hushrank.flows.ledger.account import Attempt, Costs, account_of
from hushrank.flows.ledger.entries import Chain
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.period import ALWAYS, period_at
from hushrank.flows.ledger.sharing import Sharing, sharing_of, together_with
from hushrank.privacy.accounting import Spend, composed_epsilon
from hushrank.privacy.decimals import decimal_value
from hushrank.privacy.filters import adaptive_total


def ledger_part(ledger: Ledger, release_id: str) -> LedgerPart | None:
    """What the ledger held when a release was set aside, that release counted.

    It is computed from the lines up to the release's own, so it never changes afterwards. None: the
    ledger does not know the release.

    Raises:
        LedgerError: the ledger is damaged or cannot be read.
    """
    book = ledger.known()
    attempt = book.account.attempt(release_id)
    return None if attempt is None else _part(book.chain, ledger, attempt)


def _part(chain: Chain, ledger: Ledger, attempt: Attempt) -> LedgerPart | None:
    terms, place = ledger.terms, ledger.backend.place
    entries = chain.entries[: attempt.seq]
    account = account_of(entries, terms.population, place)
    own = account.attempt(attempt.release_id)
    if own is None or account.terms is None:
        return None
    budget, period = account.terms, period_at(entries[-1].time, account.terms.refresh)
    limit = budget.lifetime_epsilon
    then = replace(terms, other_people=own.others)  # what the release's own line says
    now, ever = (sharing_of(entries, then, own.inputs, span, place) for span in (period, ALWAYS))
    return LedgerPart(
        population=terms.population,
        protects=None if terms.protects is None else terms.protects.value,
        unit=terms.unit.value,
        adjacency=terms.adjacency.value,
        attempt=own.number,
        entry=_position(chain, own),
        paid_by=_position(chain, account.attempt(own.of) or own),
        budget=Budget(
            epsilon=as_shown(budget.epsilon),
            delta=as_shown(budget.delta),
            refresh=budget.refresh,
            lifetime_epsilon=None if limit is None else as_shown(limit),
        ),
        period_start=period.start,
        period_end=period.end,
        period=total(account.costs(period), budget.delta, budget.epsilon),
        lifetime=total(account.costs(ALWAYS), budget.delta),
        same_input=tuple(map(_same_input, now, ever, repeat(budget.delta))),
        together=total(together_with(account, ALWAYS, ever), budget.delta) if ever else None,
    )


def _position(chain: Chain, attempt: Attempt) -> Position:
    entry = chain.entries[attempt.seq - 1]
    return Position(
        line=attempt.seq,
        hash=chain.hash_of(attempt.seq) or "",
        previous=entry.previous,
        time=entry.time,
    )


def _same_input(now: Sharing, ever: Sharing, delta: float) -> SameInput:
    """Another population that had read the same input: its costs of the period, and of all time."""
    made = ever.statement
    return SameInput(
        population=now.population,
        stated_other_people=now.stated,
        period=None if now.costs is None else total(now.costs, delta),
        lifetime=None if ever.costs is None else total(ever.costs, delta),
        stated_by=None if made is None else made.by,
        stated_at=None if made is None else made.at,
    )


def total(costs: Costs, delta: float, limit: float = math.inf) -> Total:
    """What releases cost together, at `delta`; releases that cost nothing are left out.

    A version whose totals held only for costs that were fixed before may have let them pass under
    `limit`. Where they are above it by the rules of today, the total is that version's.
    """
    counts = Counter(spend for spend in costs.spends if spend != Spend())
    found = adaptive_total(costs.spends, delta, costs.first)
    fixed = found.epsilon if found.epsilon <= limit else composed_epsilon(costs.spends, delta)
    older = fixed <= limit < found.epsilon
    paid = tuple(
        Spends(
            times=times,
            epsilon=as_shown(spend.epsilon),
            delta=as_shown(spend.delta),
            rho=None if spend.rho is None else as_shown(spend.rho),
            l2_squared=spend.l2_squared,
        )
        for spend, times in counts.items()
    )
    return Total(
        spends=paid,
        sum=_sum(counts),
        epsilon=as_shown(fixed if older else found.epsilon),
        delta=as_shown(delta),
        rule=None if older else found.rule.value,
        first=None if older or costs.first is None else cost_of(costs.first, as_shown),
    )


def _sum(counts: Counter[Spend]) -> Cost:
    rhos = [(spend.rho, times) for spend, times in counts.items() if spend.rho is not None]
    return Cost(
        epsilon=_added((spend.epsilon, times) for spend, times in counts.items()),
        delta=_added((spend.delta, times) for spend, times in counts.items()),
        rho=_added(rhos) if rhos else None,
    )


def _added(parts: Iterable[tuple[float, int]]) -> str:
    """The sum of decimals, each so many times."""
    found = Fraction(0)
    for value, times in parts:
        if as_shown(value) == INFINITE:
            return INFINITE
        found += times * decimal_value(value)
    return text_of(found)
