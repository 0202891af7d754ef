"""Memory of a ledger in the confidential area and in the archive of releases.

If a ledger is replaced by an older copy, together with all files beside it, the copy looks intact.
So each run records in the confidential area how far the ledger was (`ledgers.json`). Before a run
spends, it compares: the ledger must hold that line, and every release that the output folder keeps.
The comparison also detects a job whose `ledger.path` was changed. Unless the ledger was moved
along, such a job would begin a new budget for the same people.

If `confidential` and `output` were both changed or restored too, nothing is left to compare.

Recovery of a ledger that lost something: what is wrong, and what going on means.

Spends of the current period that the archive and the confidential area know are entered again,
and those of all periods if `ledger.lifetime_epsilon` limits them together.
Spends that they do not know are lost. Every action of a recovery is an entry of the ledger.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from pydantic import TypeAdapter, ValidationError

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import NOTHING_SPENT, ConfigError, LedgerError
from hushrank.flows.ledger.account import PAID, Account, Attempt, ReleaseState
from hushrank.flows.ledger.entries import (
    ALWAYS,
    Accept,
    BudgetTerms,
    Commit,
    Draw,
    Event,
    Period,
    Reserve,
    period_at,
)
from hushrank.flows.ledger.keys import InputNames
from hushrank.flows.ledger.ledger import MAX_TRIES, Book, Ledger
from hushrank.flows.ledger.rules import MAX_CLOCK_LAG, MAX_CLOCK_LEAD
from hushrank.flows.ledger.texts import minute_text
from hushrank.flows.release.archive import RELEASE, archived
from hushrank.flows.release.release import Release, load_release
from hushrank.flows.statement.record import Record
from hushrank.privacy.accounting import Spend
from hushrank.transforms.common.local_files import MostBytes
from hushrank.transforms.storage.places import Place, read_whole, write_whole

CHECKPOINT_FILE = "ledgers.json"


class Counted(Record):
    """An attempt at a release, or at a stream, that counted when the checkpoint was recorded."""

    release_id: str
    reserved_at: datetime
    spend: Spend
    stream: bool = False


class Checkpoint(Record):
    """Position that a ledger had reached, for one population.

    Attributes:
        ledger: place of the ledger.
        line, hash: number and hash of its last line.
        inputs: the last input, in plain words (`flows.ledger.keys`).
        counted: attempts that counted in the population's period, or in any period if a limit
            holds for all.
        includes: hashes of other checkpoints whose spends are entered in this ledger.
    """

    ledger: str
    population: str
    line: int
    hash: str
    inputs: tuple[str, ...] = ()
    counted: tuple[Counted, ...] = ()
    includes: tuple[str, ...] = ()


_CHECKPOINTS = TypeAdapter(tuple[Checkpoint, ...])


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A spend or release that a ledger should hold but does not.

    Attributes:
        text: the finding, without a full stop.
        population: the population that spent.
        counted: attempts that the ledger would have counted as drawn.
        published: lost attempts that the archive keeps.
        apart: whether it read no input of this job, so its people may be others.
        checkpoint: hash of the checkpoint that shows it; empty: the archive shows it.
    """

    text: str
    population: str
    counted: tuple[Counted, ...] = ()
    published: bool = False
    apart: bool = False
    checkpoint: str = ""


def keep_checkpoint(
    config: SurveyConfig,
    ledger: Ledger,
    inputs: tuple[str, ...] = (),
    entered: tuple[str, ...] = (),
) -> None:
    """Record in the confidential area how far the ledger is now.

    A checkpoint of a longer ledger stays: only that checkpoint shows that an older copy was put
        back. If two runs write at once, one checkpoint is lost, and the next run compares less.

    Args:
        config: configuration of the run.
        ledger: ledger of the run, after an entry was added.
        inputs: names of what the run reads; None: keep what the last checkpoint says.
        entered: hashes of the checkpoints whose spends were just entered in the ledger.

    Raises:
        OSError: the file cannot be written.
    """
    book, place = ledger.known(), str(config.ledger.path)
    found = checkpoints(config.confidential)
    mine = [each for each in found if (each.ledger, each.population) == (place, config.name)]
    if not all(_holds(book, each) or each.hash in entered for each in mine):
        return
    before = (checkpoint for each in mine for checkpoint in each.includes)
    now = Checkpoint(
        ledger=place,
        population=config.name,
        line=len(book.chain.entries),
        hash=book.chain.last_hash,
        inputs=inputs or tuple(name for each in mine for name in each.inputs),
        counted=tuple(
            map(_counted_attempt, book.account.counted(remembered(ledger.terms, book.now)))
        ),
        includes=tuple(dict.fromkeys([*before, *entered])),
    )
    _write(config.confidential, [*(each for each in found if each not in mine), now])


def remembered(terms: BudgetTerms, now: datetime) -> Period:
    """The span whose spends a recovery enters again: all time, if a limit holds for all periods."""
    return ALWAYS if terms.lifetime_epsilon is not None else period_at(now, terms.refresh)


def add_checkpoints(area: Place, content: bytes) -> None:
    """Add the checkpoints in `content`, a copy of `CHECKPOINT_FILE`, to those of a confidential
    area.

    Raises:
        LedgerError: the file in the area is damaged.
        OSError: the file cannot be written.
    """
    found = checkpoints(area)
    more = [each for each in _CHECKPOINTS.validate_json(content) if each not in found]
    if more:
        _write(area, [*found, *more])


def checkpoints(area: Place) -> tuple[Checkpoint, ...]:
    """Return all checkpoints that runs have left in a confidential area.

    Raises:
        LedgerError: the file is damaged.
        OSError: the file cannot be read.
    """
    path = area / CHECKPOINT_FILE
    try:
        return _CHECKPOINTS.validate_json(read_whole(path, MostBytes.RECORDS))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except (ValidationError, IsADirectoryError):
        raise LedgerError(
            f"{path}: is damaged. It says how far the ledger was; put it back, or delete it if the"
            f" ledger is the newest. {NOTHING_SPENT}"
        ) from None


def forgotten(
    config: SurveyConfig, ledger: Ledger, inputs: tuple[str, ...], *, whole: bool = True
) -> list[Forgotten]:
    """Spends and releases that the confidential area or the archive know, but `ledger` does not.

    Args:
        config: configuration of the run.
        ledger: ledger of the run, before the run spends.
        inputs: names of what the run reads, in plain words.
        whole: refuse a ledger whose end is missing.
    """
    book = ledger.known() if whole else ledger.book(whole=False)
    found = list(_by_checkpoint(config, book, inputs))
    lost = list(_unknown(config, book))
    if lost:
        names = ", ".join(release.release_id for release in lost[:3])
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        counted = tuple({each.release_id: each for each in map(_counted, lost)}.values())
        text = f"{config.output} keeps releases of {config.name} that it never paid: {names}{more}"
        found.append(Forgotten(text, config.name, counted, published=True))
    return found


def require_remembered(config: SurveyConfig, ledger: Ledger, inputs: tuple[str, ...]) -> None:
    """Raise LedgerError if the ledger lacks an earlier spend on these people."""
    found = forgotten(config, ledger, inputs)
    if not found:
        return
    names = sorted({each.population for each in found} - {config.name})
    others = f"; or, if its people are others, set other_people: {names}" if names else ""
    if any(each.apart for each in found):
        others += f"; or, if these are other people than {config.name} there, give this job another"
        others += " name, or a confidential folder of its own"
    raise LedgerError(
        f"{config.ledger.path}: this would open a second budget for the same people:"
        f" {'; '.join(each.text for each in found)}. An older copy of the ledger was put back, or"
        " ledger.path was changed. Put the newest ledger there, with the files beside it; or run"
        f" hushrank ledger recover, which enters what is known to be spent{others}."
        f" {NOTHING_SPENT}"
    )


def _by_checkpoint(
    config: SurveyConfig, book: Book, inputs: tuple[str, ...]
) -> Iterator[Forgotten]:
    paid = (attempt for attempt in book.account.attempts if attempt.state in PAID)
    known = Counter(map(_counted_attempt, paid))  # a reserved attempt may be drawn by now
    concerns = [
        each for each in checkpoints(config.confidential) if _concerns(each, config, inputs)
    ]
    included = {checkpoint for each in concerns for checkpoint in each.includes}
    for each in concerns:
        own, entered = each.ledger == str(config.ledger.path), each.hash in included
        if _holds(book, each) or (entered and not own):
            continue
        lost = () if entered else tuple((Counter(each.counted) - known).elements())
        apart = not own and set(inputs).isdisjoint(each.inputs)
        if own:
            text = f"it had {each.line} lines or more, but it no longer holds them"
        else:
            on = "" if apart else " on this input"
            text = f"{each.population} spent{on} under {each.ledger}"
        yield Forgotten(text, each.population, lost, apart=apart, checkpoint=each.hash)


def _holds(book: Book, checkpoint: Checkpoint) -> bool:
    """Whether the ledger continues from where it was when the checkpoint was recorded."""
    return book.chain.hash_of(checkpoint.line) == checkpoint.hash


def _concerns(checkpoint: Checkpoint, config: SurveyConfig, inputs: tuple[str, ...]) -> bool:
    if checkpoint.population == config.name:
        return True
    if checkpoint.ledger == str(config.ledger.path):  # this ledger names its own inputs
        return False
    shared = not set(inputs).isdisjoint(checkpoint.inputs)
    return shared and checkpoint.population not in config.ledger.other_people


def _unknown(config: SurveyConfig, book: Book) -> Iterator[Release]:
    """Releases in the archive that a ledger paid for, but not this one."""
    for folder in archived(config.output):
        release_id = folder.name[11:]
        if book.account.state(release_id) in PAID or release_id in book.account.accepted:
            continue
        with suppress(ConfigError):  # `hushrank history --verify` reports unreadable ones
            release = load_release(folder / RELEASE)
            if _is_of_spent_stream(release, book):
                continue
            if release.safe and release.name == config.name:
                yield release


def _is_of_spent_stream(release: Release, book: Book) -> bool:
    """Whether the ledger holds the cost of the release's stream and draws no more nights of it."""
    if release.stream is None:
        return False
    name, account = release.stream.stream, book.account
    over = account.state(name) in PAID and account.state(name) is not ReleaseState.RUNNING
    return over or name in account.accepted


def _counted_attempt(attempt: Attempt) -> Counted:
    return Counted(
        release_id=attempt.release_id,
        reserved_at=attempt.reserved_at,
        spend=attempt.spend,
        stream=attempt.stream is not None,
    )


def _counted(release: Release) -> Counted:
    told = release.privacy
    spend = (
        Spend(epsilon=float(told.epsilon), delta=told.delta)
        if told.rho is None
        else Spend(rho=float(told.rho), l2_squared=told.sensitivity_l2_squared or 1)
    )
    stream = release.stream
    return Counted(
        release_id=release.release_id if stream is None else stream.stream,
        reserved_at=release.created,
        spend=spend,
        stream=stream is not None,
    )


def _write(area: Place, kept: list[Checkpoint]) -> None:
    content = [each.model_dump(mode="json") for each in kept]
    write_whole(str(area / CHECKPOINT_FILE), f"{json.dumps(content, indent=1)}\n".encode())


@dataclass(frozen=True, slots=True)
class LostRelease:
    """An attempt at a release that a ledger should hold but does not.

    Attributes:
        reserved_at: time when its budget was reserved, or when the release was made.
        published: whether an archive keeps the release.
        stream: whether it is a stream of nights, of which this is one night or more.
    """

    release_id: str
    spend: Spend
    reserved_at: datetime
    published: bool
    stream: bool = False


def lost_once(found: Iterable[Sequence[LostRelease]]) -> tuple[LostRelease, ...]:
    """Lost attempts of several findings, each attempt once, the earliest first.

    If the attempts at a release are known, the one that an archive keeps is the last of them.
    """
    each_once: Counter[LostRelease] = Counter()
    for lost in found:
        each_once |= Counter(lost)
    ordered = sorted(each_once.elements(), key=lambda each: each.reserved_at)
    attempts = [each for each in ordered if not each.published]
    last = {each.release_id: place for place, each in enumerate(attempts)}
    for kept in (each for each in ordered if each.published):
        if kept.release_id not in last:
            attempts.append(kept)
            continue
        place = last[kept.release_id]
        made = max(kept.reserved_at, attempts[place].reserved_at)  # this may be in a later period
        attempts[place] = replace(attempts[place], reserved_at=made, published=True)
    return tuple(attempts)


def split_lost(
    lost: Sequence[LostRelease], account: Account, period: Period
) -> tuple[list[Event], tuple[str, ...]]:
    """Entries for attempts that count in `period`, and the ids of those that no longer count."""
    current = [each for each in lost if _is_of(each, period)]
    entered: dict[str, list[LostRelease]] = {each.release_id: [] for each in current}
    for each in current:
        entered[each.release_id].append(each)
    past = (each.release_id for each in lost if each.release_id not in entered)
    events = (_entered(attempts, account) for attempts in entered.values())
    return list(chain.from_iterable(events)), tuple(dict.fromkeys(past))


def _is_of(each: LostRelease, period: Period) -> bool:
    return period.start is None or each.reserved_at >= period.start


def _entered(attempts: Sequence[LostRelease], account: Account) -> Iterator[Event]:
    """Enter attempts at one release as drawn now, because nobody can prove that they were not."""
    latest = account.attempt(attempts[0].release_id)
    if attempts[0].stream:
        yield from _ended(attempts[0], latest)
        return
    number = 0 if latest is None else latest.number
    reserved = latest is not None and latest.state is ReleaseState.RESERVED
    for each in attempts:
        if not reserved:
            number += 1
            yield Reserve(
                release_id=each.release_id, attempt=number, spend=each.spend, config_hash=""
            )
        yield Draw(release_id=each.release_id, attempt=number)
        reserved = False
    if attempts[-1].published:
        yield Commit(release_id=attempts[-1].release_id, attempt=number)


def _ended(lost: LostRelease, latest: Attempt | None) -> Iterator[Event]:
    """Enter a stream as spent, and end it: nobody can prove which of its nights were drawn."""
    if latest is None or latest.state is ReleaseState.CANCELLED:
        number = 1 if latest is None else latest.number + 1
        yield Reserve(release_id=lost.release_id, attempt=number, spend=lost.spend, config_hash="")
        yield Draw(release_id=lost.release_id, attempt=number)
        yield Commit(release_id=lost.release_id, attempt=number)
    elif latest.state in (ReleaseState.RESERVED, ReleaseState.RUNNING):
        yield Draw(release_id=lost.release_id, attempt=latest.number)


@dataclass(frozen=True, slots=True)
class Finding:
    """Fault of a ledger.

    Attributes:
        text: the fault; `effect`: what going on means. Neither ends with a full stop.
        lost: attempts that the ledger should have counted.
        checkpoint: hash of the checkpoint that shows it (`checkpoint`); empty: none does.
    """

    text: str
    effect: str
    lost: tuple[LostRelease, ...] = ()
    checkpoint: str = ""


def findings(config: SurveyConfig, ledger: Ledger, inputs: InputNames) -> list[Finding]:
    """Everything wrong with a ledger that an operator may accept.

    Args:
        config: configuration of a job that uses the ledger.
        ledger: the job's ledger.
        inputs: names of the job's input, under the present key.

    Raises:
        LedgerError: something is wrong that only another copy of the ledger can repair.
    """
    lost = forgotten(config, ledger, inputs.plain, whole=False)
    return [*_of_the_ledger(ledger, inputs.key), *map(_of, lost)]


def recover_ledger(
    config: SurveyConfig, ledger: Ledger, inputs: InputNames, found: Sequence[Finding]
) -> None:
    """Record `found` in the ledger, with all spends that are known, and go on with the ledger."""
    lost = lost_once(finding.lost for finding in found)
    why = "; ".join(finding.text for finding in found)
    _accept(ledger, why, inputs.key, lost)
    entered = tuple(finding.checkpoint for finding in found if finding.checkpoint)
    keep_checkpoint(config, ledger, inputs.plain, entered)


def _of_the_ledger(ledger: Ledger, key: str) -> Iterator[Finding]:
    """Findings in the ledger itself; `key` is the `LedgerKey.check` of the key beside it."""
    book, clock = ledger.book(whole=False), ledger.clock()
    if book.snapshot.loss is not None:
        yield from (Finding(text, effect) for text, effect in book.snapshot.findings)
    if book.chain.key not in ("", key):
        yield Finding(
            "the key beside the ledger is not the one that made the names in it",
            "The ledger recognises earlier inputs only after they are read again",
        )
    if book.last is None:
        return
    if book.last - clock > MAX_CLOCK_LAG:
        yield Finding(
            f"its last entry is dated {minute_text(book.last)}, and this machine's clock says"
            f" {minute_text(clock)}",
            "Entries with a later date than now will count in the current period",
        )
    if clock - book.last > MAX_CLOCK_LEAD:
        yield Finding(
            f"this machine's clock says {clock:%Y-%m-%d}, and the last entry is of"
            f" {book.last:%Y-%m-%d}",
            "The ledger will accept this clock as right",
        )


def _of(each: Forgotten) -> Finding:
    lost = tuple(
        LostRelease(one.release_id, one.spend, one.reserved_at, each.published, one.stream)
        for one in each.counted
    )
    known = (
        "Those that count in the current period, or all if ledger.lifetime_epsilon is set, will be"
        " entered as spent, at their stated cost"
        if lost
        else "Spends of that time that are not recorded here count as not spent"
    )
    return Finding(each.text, known, lost, each.checkpoint)


def _accept(ledger: Ledger, why: str, key: str, lost: Sequence[LostRelease]) -> None:
    book = ledger.book(whole=False)
    ledger.require_officer(book)
    if book.snapshot.loss is not None:
        ledger.backend.accept_loss()
    for _ in range(MAX_TRIES):
        book, now = ledger.book(), ledger.clock().replace(microsecond=0)
        ledger.require_officer(book)
        wrong = book.last is not None and book.last - now > MAX_CLOCK_LAG
        time = now if wrong else book.now
        counted, past = split_lost(lost, book.account, remembered(ledger.terms, time))
        accepted = Accept(why=why, key=key, clock=wrong, releases=past)
        if ledger.append(book, [*ledger.terms_events(book), accepted, *counted], time):
            return
    raise ledger.too_busy()
