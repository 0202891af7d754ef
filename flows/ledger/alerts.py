"""When people are warned that a budget runs out. Pure: an account in, fractions out.

A fraction below 1 is reached when the composed epsilon of the period's attempts is that share of
the total; 1 is reached when one more release like the last one does not fit, in the period or in
all periods together, but not while the last one is a stream, whose nights to come are paid for. An
alert is an entry
of the ledger, so people get each alert once a period, whichever run or machine notices it first. A
raised total starts the alerts again.
"""

from __future__ import annotations

from hushrank.flows.ledger.account import Account, ReleaseState
from hushrank.flows.ledger.budget import BudgetTerms
from hushrank.flows.ledger.entries import Alert
from hushrank.flows.ledger.budget import ALWAYS, Period
from hushrank.privacy.filters import adaptive_total, fits

ROUNDING = 1e-9  # so that 0.3 of 3 reaches 0.9 despite float rounding


def reached(terms: BudgetTerms, account: Account, period: Period) -> tuple[float, ...]:
    """The fractions of `terms.alerts` that what counts in `period` has reached, ascending."""
    counted = account.counted(period)
    if not (terms.alerts and counted):
        return ()
    spends, first = account.costs(period)
    spent = adaptive_total(spends, terms.delta, first).epsilon
    more, limit, ever = spends[-1], terms.lifetime_epsilon, account.costs(ALWAYS)
    fit = fits(spends, more, terms.epsilon, terms.delta, first) and (
        limit is None or fits(ever.spends, more, limit, terms.delta, ever.first)
    )
    used_up = counted[-1].state is not ReleaseState.RUNNING and not fit
    return tuple(
        fraction
        for fraction in sorted(set(terms.alerts))
        if spent >= fraction * terms.epsilon * (1 - ROUNDING) or (fraction == 1 and used_up)
    )


def new_alerts(terms: BudgetTerms, account: Account, period: Period) -> tuple[float, ...]:
    """The reached fractions that nobody was told about in this period at this total."""
    told = {
        note.what.fraction
        for note in account.notes
        if isinstance(note.what, Alert)
        and note.what.epsilon == terms.epsilon
        and (period.start is None or note.time >= period.start)
    }
    found = reached(terms, account, period)
    return tuple(fraction for fraction in found if fraction not in told)
