"""Texts on a budget and on steps that the ledger refuses. Pure.

A needed amount is rounded up and a remaining amount is rounded down, so no text promises too much.

The ledger as a table for people: a row for each attempt, unsafe release and change of terms.
"""

from __future__ import annotations

import calendar
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from hushrank.flows.errors import NOTHING_SPENT
from hushrank.flows.ledger.account import Account, Attempt, Costs, Note, ReleaseState
from hushrank.flows.ledger.approval import TermsChange
from hushrank.flows.ledger.entries import (
    Accept,
    Access,
    Alert,
    Balance,
    BudgetTerms,
    Cancel,
    ChangeTerms,
    Commit,
    Draw,
    Limits,
    Open,
    Period,
    Protects,
    SharedInput,
    Stop,
    Unsafe,
)
from hushrank.privacy.accounting import Spend, epsilon_of
from hushrank.privacy.filters import SUM_SHARE, Rule, adaptive_total, first_cost, remaining_epsilon

_RULES = {
    Rule.SUM: "the costs add up",
    Rule.EQUAL_COSTS: "every cost counts like the first, and these compose optimally",
    Rule.GAUSSIAN: "Gaussian noise, composed adaptively",
    Rule.RENYI: "by R\u00e9nyi divergence",
    Rule.ONE: "a single release",
}


def needed_text(epsilon: float) -> str:
    """Round `epsilon` up: two decimals, or two digits if it is below 0.1."""
    return _rounded(epsilon, ROUND_CEILING)


def left_text(epsilon: float) -> str:
    """Round `epsilon` down: two decimals, or two digits if it is below 0.1."""
    return _rounded(epsilon, ROUND_FLOOR)


def _rounded(epsilon: float, rounding: str) -> str:
    if math.isinf(epsilon):
        return "infinity"
    exact = Decimal(f"{epsilon:.9g}")  # 0.1 + 0.2 reads as 0.30, not as 0.31
    decimals = max(2, 1 - exact.adjusted()) if exact else 2
    return f"{exact.quantize(Decimal(1).scaleb(-decimals), rounding):f}"


def spend_text(spend: Spend) -> str:
    """Text of a cost, such as `epsilon 2.00`, `epsilon 1.00, delta 1e-06` or `rho 0.1`."""
    if spend.rho is not None:
        return f"rho {spend.rho:.4g}"
    epsilon = f"epsilon {needed_text(spend.epsilon)}"
    return f"{epsilon}, delta {spend.delta:g}" if spend.delta else epsilon


def day_text(day: date, today: date) -> str:
    """Text of a day, such as `1 December`; with the year if it is not this year."""
    text = f"{day.day} {calendar.month_name[day.month]}"
    return text if day.year == today.year else f"{text} {day.year}"


def total_text(epsilon: float, delta: float) -> str:
    """Text of the epsilon of several releases; it says so if none holds at `delta`."""
    if math.isinf(epsilon):
        return f"more than any epsilon at delta {delta:g}"
    return f"epsilon {needed_text(epsilon)}"


def rule_text(rule: Rule) -> str:
    """Sentence on the rule by which a total holds."""
    return (
        "This total holds even if each epsilon was chosen after seeing earlier results"
        f" ({_RULES[rule]})."
    )


def alert_sentence(fraction: float) -> str:
    """Sentence for people when this fraction of a budget is reached; 1: used up."""
    if fraction == 1:
        return "one more release at this cost does not fit."
    return f"{fraction:.0%} of the budget is used."


def refusal_text(
    population: str,
    spends: Sequence[Spend],
    spend: Spend,
    *,
    epsilon: float,
    delta: float,
    until: str,
    first: Spend | None = None,
) -> str:
    """Text that refuses `spend` beside `spends` under a total of (epsilon, delta).

    Args:
        population: name of the population whose budget it is.
        spends: costs that count already.
        spend: cost of this run; together with `spends` it exceeds the total.
        epsilon: total that is allowed.
        delta: delta at which epsilon is stated.
        until: day on which the budget renews, as text; empty if it never renews.
        first: the cost that was set aside first, if it is not the first of `spends` any more.
    """
    until = f" until {until}" if until else ""
    needed = epsilon_of(spend, delta)
    left = remaining_epsilon(spends, epsilon, delta, first)
    if math.isinf(needed):
        return (
            f"Budget: this run's guarantee needs a larger delta than {population} has ({delta:g})."
            f" Raise ledger.delta, or set noise: laplace, which needs none. {NOTHING_SPENT}"
        )
    earliest = first_cost(spends, first)
    if earliest is not None and (mixed := _mixed_text(population, spend, earliest, delta)):
        return f"Budget: {mixed}{until}. {NOTHING_SPENT}"
    if needed > left:
        return (
            f"Budget: this run needs epsilon {needed_text(needed)};"
            f" {population} has {left_text(left)} left{until}. {NOTHING_SPENT}"
        )
    # A pure release with this epsilon would fit; this cost has a delta, or it is gaussian noise.
    total = adaptive_total([*spends, spend], delta, earliest).epsilon
    brought = f"epsilon {needed_text(total)}" if math.isfinite(total) else "a larger delta"
    return (
        f"Budget: this run would bring {population} to {brought};"
        f" epsilon {left_text(epsilon)} at delta {delta:g} is allowed{until}. {NOTHING_SPENT}"
    )


def lifetime_refusal_text(
    population: str, costs: Costs, spend: Spend, *, limit: float, delta: float
) -> str:
    """Text that refuses `spend` beside all `costs` that ever counted under `lifetime_epsilon`.

    Args:
        population: name of the population whose budget it is.
        costs: costs of all periods.
        spend: cost of this run; together with `costs` it exceeds the limit.
        limit: the most over all periods.
        delta: delta at which epsilon is stated.
    """
    together = adaptive_total([*costs.spends, spend], delta, costs.first).epsilon
    total = total_text(together, delta)
    left = left_text(remaining_epsilon(costs.spends, limit, delta, costs.first))
    return (
        f"Budget: this run would bring all releases of {population} since the first one to"
        f" {total}, and ledger.lifetime_epsilon allows epsilon {left_text(limit)} at delta"
        f" {delta:g} over all periods; epsilon {left} of it is left, and it does not renew. Ask for"
        " less, or raise ledger.lifetime_epsilon, which permanently allows more loss."
        f" {NOTHING_SPENT}"
    )


def since_first_text(balance: Balance) -> str:
    """Text of the cost of all releases of a budget that renews; empty if it never renews."""
    found = balance.lifetime
    if found is None:
        return ""
    of = "" if found.limit is None else f" of {left_text(found.limit)}"
    releases = f"{found.releases} release{'' if found.releases == 1 else 's'}"
    return f"{total_text(found.spent_epsilon, balance.delta)}{of} by {releases}"


def shared_text(balance: Balance) -> str:
    """Text on populations that read the same input, the statements on their people, and their total
    loss if those are false; empty if there are none."""
    if not balance.shared:
        return ""
    names = ", ".join(each.population for each in balance.shared)
    begins = "" if balance.begun else f" With the name {balance.population} a new budget begins."
    left_out = ", ".join(each.population for each in balance.shared if not each.added)
    but = f" without {left_out}, which counts by another unit or adjacency" if left_out else ""
    total = total_text(balance.shared_epsilon, balance.delta)
    told = f"The same input is read as {names} too.{begins}"
    if not all(each.stated for each in balance.shared):
        untold = "unless they are different people, this is one budget, and runs are refused"
        return f"{told} Together they hold {total}{but}; {untold}."
    stated = " ".join(map(_statement_text, balance.shared))
    return (
        f"{told} {stated} Nobody checks that in the rows. If it is false, the people have lost"
        f" {total} together{but}."
    )


def _statement_text(other: SharedInput) -> str:
    """Text of who stated, and when, that the people of another population are others."""
    said = f"that the people of {other.population} are others (ledger.other_people)."
    if other.statement is None:
        return f"This job states {said}"
    day = other.statement.at.astimezone(UTC).date()
    return f"{other.statement.by} stated on {day} {said}"


def _mixed_text(population: str, spend: Spend, first: Spend, delta: float) -> str:
    """Text of why costs with a delta and others have no common total; empty if they can have
    one."""
    costs = f"this run costs {spend_text(spend)}. The first cost that {population} set aside has"
    if first.delta and spend.rho is not None:
        return (
            f"{costs} a delta, and a cost in rho cannot be added to it. Set privacy.look,"
            " with which Gaussian noise costs epsilon and delta, or set noise: laplace"
        )
    most = float(SUM_SHARE) * delta
    if first.delta or not spend.delta > most:
        return ""
    return (
        f"{costs} no delta, so later costs together may have at most delta {most:.2g}. Set"
        f" privacy.delta to at most {most:.2g}, or set noise: laplace"
    )


def wrong_state_text(
    release_id: str, step: type[Draw | Stop | Commit | Cancel], state: ReleaseState
) -> str:
    """Text that refuses `step` after `state`."""
    drawn = state in (ReleaseState.FOUND, ReleaseState.DRAWN, ReleaseState.COMMITTED)
    if state is ReleaseState.STOPPED:
        return (
            f"Release {release_id}: its pilot query stopped it, which is recorded and paid"
            " for. Nothing was drawn now."
        )
    if step in (Draw, Stop) and drawn:
        return (
            f"Release {release_id}: its noise was drawn already, and a second draw would cost the"
            " budget again. Nothing was drawn now."
        )
    if step in (Draw, Stop):
        return (
            f"Release {release_id} holds no reservation ({state}),"
            " so no noise may be drawn for it. Run again from the start."
        )
    if step is Cancel and drawn:
        return (
            f"Release {release_id} cannot be cancelled:"
            " its noise was drawn, so its budget is spent."
        )
    if step is Cancel:
        return f"Release {release_id} cannot be cancelled: it holds no reservation."
    return f"Release {release_id} cannot be committed: no noise was drawn for it ({state})."


def drawn_before_text(release_id: str, drawn_at: datetime) -> str:
    """Text that refuses to reserve a release again although its noise exists."""
    return (
        f"Release {release_id}: its noise was drawn on {drawn_at:%Y-%m-%d} and is paid for;"
        " publish the stored result. Nothing was spent now."
    )


def other_cost_text(release_id: str, reserved: Spend, needed: Spend) -> str:
    """Text that refuses to reserve a release again at another cost."""
    return (
        f"Release {release_id} is reserved at another cost ({spend_text(reserved)});"
        f" this run needs {spend_text(needed)}. Cancel that reservation first. {NOTHING_SPENT}"
    )


NOT_ANOTHER_NAME = "Use another name only for other people: it begins a new budget."


def other_guarantee_text(where: str, name: str, known: str, asked: str) -> str:
    """Text that refuses a release whose unit or adjacency differs from that of its budget.

    Args:
        where: ledger and population.
        name: `unit` or `adjacency`.
        known: value in the ledger.
        asked: value in the configuration.
    """
    return (
        f"{where} counts its budget by {name} {known}, but the configuration has"
        f" privacy.{name}: {asked}. Costs under the two cannot be added up. Set {name}: {known}."
        f" {NOT_ANOTHER_NAME} {NOTHING_SPENT}"
    )


HIDES = {
    Protects.ROWS: "everything, who compared what included",
    Protects.OUTCOMES: "who won (public_graph: true)",
    Protects.ANSWER: "one answer of a person, however many there are",
    Protects.PERSON: "all answers of a person (budget: per-user, or max_contributions)",
}


def other_protection_text(where: str, known: Protects, asked: Protects) -> str:
    """Text that refuses a release that hides another part of a unit than its budget assumes."""
    return (
        f"{where} counts its budget for releases that hide {HIDES[known]}; this one hides"
        f" {HIDES[asked]}. Costs of the two cannot be added up. Set section privacy as it was."
        f" {NOT_ANOTHER_NAME} {NOTHING_SPENT}"
    )


def change_texts(changes: Sequence[TermsChange]) -> tuple[str, ...]:
    """Sentences on who set the terms of a population: how they were opened, if with approval, and
    each change."""
    texts = []
    for before, each in zip((None, *changes), changes, strict=False):
        now = limits_text(Limits.of(each.what))
        approved = f", approved with key {each.approved_by}" if each.approved_by else ""
        by = f"by {each.operator}{approved}"
        if before is None:
            done = f"opened at {now}, {by}" if each.approved_by else ""
        elif Limits.of(before.what) == Limits.of(each.what):
            done = f"left at {now} and given to another key, {by}"
        else:
            done = f"changed from {limits_text(Limits.of(before.what))} to {now}, {by}"
        reason = f" Reason: {each.what.reason}" if each.what.reason else ""
        texts += [f"{each.time:%Y-%m-%d}: {done}.{reason}"] if done else []
    return tuple(texts)


def limits_text(limits: Limits) -> str:
    """Text of the total of a budget."""
    renewal = f", {limits.refresh}" if limits.refresh else ""
    most = limits.lifetime_epsilon
    for_good = "" if most is None else f", epsilon {most:g} over all periods"
    return f"epsilon {limits.epsilon:g}, delta {limits.delta:g}{renewal}{for_good}"


def other_terms_text(where: str, known: Open | ChangeTerms | None, asked: BudgetTerms) -> str:
    """Text that refuses a job whose terms the holder of the terms' key has not set."""
    recorded = (
        "has no budget" if known is None else f"has a budget of {limits_text(Limits.of(known))}"
    )
    return (
        f"{where} {recorded}, and this job states {limits_text(Limits.of(asked))}. The terms belong"
        " to the holder of a key: write those of the ledger into section ledger, or let the"
        f" holder set others with hushrank ledger terms. {NOTHING_SPENT}"
    )


def changed_meanwhile_text(place: str, population: str) -> str:
    """Text that refuses a change of terms that somebody else changed since they were shown."""
    return (
        f"{place}: the terms of {population} were changed since they were shown. Look at them"
        " (hushrank ledger show) and run this again. Nothing was changed."
    )


def clock_text(place: str, last: datetime, clock: datetime) -> str:
    """Text that refuses a clock far behind the last entry."""
    return (
        f"{place}: the last entry is dated {minute_text(last)}, but this machine's clock says"
        f" {minute_text(clock)}. Set the clock right. If the entry's date is wrong instead,"
        f" hushrank ledger recover corrects it. {NOTHING_SPENT}"
    )


def beyond_text(place: str, clock: datetime) -> str:
    """Text that refuses a clock beyond the dates that can be stored."""
    return (
        f"{place}: this machine's clock says {minute_text(clock)}, which is beyond the dates that"
        f" hushrank can store. Set the clock right. {NOTHING_SPENT}"
    )


def ahead_text(place: str, last: datetime, clock: datetime) -> str:
    """Text that refuses a clock that is so far ahead of the last entry that it is probably
    wrong."""
    return (
        f"{place}: this machine's clock says {minute_text(clock)}, more than a year after the last"
        f" entry ({minute_text(last)}). Entries dated by a wrong clock would keep budget from other"
        " machines for years. Set the clock right; if it is right, run hushrank ledger recover once"
        f" and then this again. {NOTHING_SPENT}"
    )


def other_key_text(place: str) -> str:
    """Text that refuses a key that did not make the names in the entries."""
    return (
        f"{place}.key is not the key that this ledger was written with, so hushrank cannot tell"
        " which inputs were read before. Put back the one that stood beside the ledger. If it is"
        " lost, hushrank ledger recover continues with this one, and states the consequences."
        f" {NOTHING_SPENT}"
    )


def unsealed_text(place: str, signature: str) -> str:
    """Text that refuses to add lines without a signature to a signed ledger."""
    return (
        f"{place} is signed (key {signature.split(':')[1]}), and this job names no key, so it"
        f" cannot add to it. Set ledger.signing_key to the file of that key. {NOTHING_SPENT}"
    )


def minute_text(time: datetime) -> str:
    """Format a moment in UTC, to the minute."""
    return f"{time:%Y-%m-%d %H:%M} UTC"


def undrawn_text(release_ids: Sequence[str]) -> str:
    """Hint to add to a refusal if reservations hold part of the budget; empty if none do."""
    if not release_ids:
        return ""
    return (
        f" Reserved, but never drawn: {', '.join(release_ids)};"
        " cancel those that no run uses any more."
    )


HISTORY_COLUMNS = ("time (UTC)", "release", "state", "cost", "counts now", "by", "note")


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """Row for an attempt at a release, a change of terms, an alert, or an unsafe release.

    Attributes:
        time: time of the record; for an attempt, time of the reservation.
        release_id: empty for terms.
        spend: cost; None if nothing is charged.
        counts_now: whether it uses budget of the current period.
        operator: account that ran it, and its names elsewhere (`operator_name`).
        note: the terms, why a release is unsafe, or the night, the attempt and what to do.
    """

    time: datetime
    release_id: str
    state: str
    spend: Spend | None
    counts_now: bool
    operator: str
    note: str

    def cells(self) -> tuple[str, ...]:
        """Cells of the row as text, in the order of `HISTORY_COLUMNS`."""
        return (
            f"{self.time:%Y-%m-%d %H:%M:%S}",
            self.release_id,
            self.state,
            "" if self.spend is None else spend_text(self.spend),
            "yes" if self.counts_now else "no",
            self.operator,
            self.note,
        )


def history_of(account: Account, period: Period) -> tuple[HistoryRow, ...]:
    """List all rows of `account` in the order of the ledger, as of `period`."""
    rows = {attempt.seq: _attempt_row(attempt, period) for attempt in account.attempts}
    rows |= {note.seq: _note_row(note) for note in account.notes}
    return tuple(rows[seq] for seq in sorted(rows))


def _attempt_row(attempt: Attempt, period: Period) -> HistoryRow:
    return HistoryRow(
        time=attempt.reserved_at,
        release_id=attempt.release_id,
        state=attempt.state.value,
        spend=None if attempt.of else attempt.spend,
        counts_now=attempt.counts_in(period),
        operator=attempt.operator,
        note="; ".join(_remarks(attempt)),
    )


def _remarks(attempt: Attempt) -> Iterator[str]:
    if attempt.stream is not None:
        span = attempt.stream
        nights = "night" if span.nights == 1 else "nights"
        yield f"stream of {span.nights} {nights}, {span.first} to {span.last}"
    if attempt.night is not None:
        yield f"night {attempt.night}"
    if attempt.of:
        yield f"paid by {attempt.of}"
    if attempt.number > 1:
        yield f"attempt {attempt.number}"
    if attempt.state is ReleaseState.STOPPED:
        yield "stopped by the pilot query; the rest was given back"
    if attempt.state is ReleaseState.FOUND:
        yield "names of items were drawn; running the job again goes on with them"
    if attempt.state is ReleaseState.DRAWN:
        yield f"not published: hushrank resume {attempt.release_id}"


def _note_row(note: Note) -> HistoryRow:
    what = note.what
    if isinstance(what, Unsafe):
        release_id, state, text = what.release_id, "UNSAFE", what.why
    elif isinstance(what, Alert):
        release_id, state = "", "alert"
        text = f"{what.fraction:.0%} of epsilon {what.epsilon:g} used"
    elif isinstance(what, Accept):
        release_id, state, text = "", "recovery", what.why
    elif isinstance(what, Access):
        release_id, state = "", "access"
        text = what.command + ("" if what.night is None else f", night {what.night}")
    else:
        release_id, state = "", "terms"
        text = limits_text(Limits.of(what)) + (f": {what.reason}" if what.reason else "")
    return HistoryRow(
        time=note.time,
        release_id=release_id,
        state=state,
        spend=None,
        counts_now=False,
        operator=note.operator,
        note=text,
    )
