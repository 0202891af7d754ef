"""Texts for the terminal. Public facts only: never a count of rows or people."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import TypeVar

from rich.progress import Progress as Spinner
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from hushrank.flows.ledger.entries import Balance
from hushrank.flows.ledger.streams import FREE
from hushrank.flows.ledger.texts import (
    alert_sentence,
    day_text,
    left_text,
    shared_text,
    since_first_text,
    spend_text,
)
from hushrank.flows.planning.plan.survey import worth_note, worth_of
from hushrank.flows.progress import Lines, Progress
from hushrank.flows.reading import Reader
from hushrank.flows.release.archive import PRECINCTS, RANKING, REPORT, SCORES, STEP_FILE
from hushrank.flows.release.boards import RankedItem
from hushrank.flows.release.election import election_lines
from hushrank.flows.release.release import Release
from hushrank.flows.release.released import effect_sentences, sentence_of, tie_sentence
from hushrank.flows.release.scale import WORDS, interval_text, score_decimals, score_text, with_unit
from hushrank.flows.release.sheet_report import (
    BookletRecord,
    differences_sentence,
    fit_sentence,
    reliability_sentences,
    slopes_sentence,
    step_rows,
)
from hushrank.flows.release.wording import (
    certainty,
    chance_text,
    groups_note,
    interval_headings,
    precision_sentence,
    rank_interval,
    robustness_sentences,
    verdict,
)
from hushrank.flows.run.context import Job, ledger_terms
from hushrank.flows.run.input_files import column_notes
from hushrank.flows.run.job import engine_notes, input_notes, look_notes, readings
from hushrank.flows.run.stages import STEPS, Outcome, Step
from hushrank.flows.statement.sentences import delta_sentence
from hushrank.flows.terminal import Console
from hushrank.privacy.accounting import Spend
from hushrank.privacy.units import Unit

T = TypeVar("T")

STEP_WIDTH = 10
TIMES_NOT_CHECKED = (
    "Column {} (schedule.window) should hold {}. A row whose time cannot be read counts in no"
    " night."
)
NO_FILES_YET = (
    "No file of the last night is there, nor of the {days} nights before it: columns and formats"
    " were not checked. hushrank validate --date checks another night's files."
)
ALL_WHOLE = "All files were read to their end ({}), and none is damaged."
MOST_ROWS = 25  # rows of the ranking that are shown; ranking.csv has all


class StepDisplay:
    """Shows each step with a running clock while it lasts, and how long it took.

    Of files that are read it shows how many, on a terminal as they are read, elsewhere in a line
    now and then.
    """

    def __init__(self, console: Console, job: Job, reader: Reader | None = None) -> None:
        """Args: where to show it; the job; the process that reads; None: nothing is read."""
        self._console = console
        self._job = job
        self._reader = reader

    def perform(self, step: Step, action: Callable[[], T]) -> T:
        """Do `action` and show it."""
        label = f"{step.name:<{STEP_WIDTH}} {step.says(self._job)}".rstrip()
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
        started = time.monotonic()
        with Spinner(
            *columns,
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        ) as progress:
            task = progress.add_task(label, total=None)
            with self._watched(label, lambda text: progress.update(task, description=text)):
                result = action()
        took = Text(f"  {time.monotonic() - started:.1f} s", style="dim")
        self._console.print(Text(f"  {label}") + took, soft_wrap=True)
        return result

    @contextmanager
    def _watched(self, label: str, show: Callable[[str], None]) -> Iterator[None]:
        """Show in this block how far the reading is, in place of the label or below it."""
        if self._reader is None:
            yield
            return
        told = Progress(self._job.files)
        if self._console.is_terminal:
            self._reader.watch = lambda *done: show(f"{label}  {told.text(*done)}")
        else:
            self._reader.watch = Lines(told, self._say_line).told
        try:
            yield
        finally:
            self._reader.watch = None

    def _say_line(self, line: str) -> None:
        self._console.print(Text(f"  {'':<{STEP_WIDTH}} {line}"), soft_wrap=True)


def show_outcome(console: Console, outcome: Outcome) -> None:
    """Print the verdict, the ranking, where the report is, and what all that cost."""
    release = outcome.release
    console.print()
    if release.look is not None:
        console.print(Text(release.look.seen), soft_wrap=True)
    console.print(Text(verdict(release), style="bold"))
    console.print(ranking_table(release))
    if len(release.ranking) > MOST_ROWS:
        console.print(Text(f"All {len(release.ranking):,} items are in {RANKING}."), soft_wrap=True)
    if where := groups_note(release):
        console.print(Text(where), soft_wrap=True)
    for note in reading_notes(release):
        console.print(Text(note, style="dim"), soft_wrap=True)
    if expected := expected_error(release):
        console.print(Text(expected), soft_wrap=True)
    for warning in release.warnings:
        console.print(Text(f"Note: {warning}", style="yellow"))
    if outcome.late:
        console.print(Text(outcome.late, style="yellow"), soft_wrap=True)
    show_alerts(console, outcome)
    console.print(Text(f"Report: {outcome.folder / REPORT}"), soft_wrap=True)
    console.print(Text(_cost_of(outcome)), soft_wrap=True)
    if shared := shared_text(outcome.balance):
        console.print(Text(shared, style="yellow"), soft_wrap=True)
    show_delta(console, release.privacy.delta, release.privacy.unit)
    show_unpublished(console, outcome.balance, shown=release.release_id)


def show_alerts(console: Console, outcome: Outcome) -> None:
    """Warn of each fraction of the budget that this run was the first to reach."""
    for fraction in outcome.alerts:
        console.print(Text(alert_text(outcome.balance, fraction), style="yellow"), soft_wrap=True)


def show_unpublished(console: Console, balance: Balance, shown: str = "") -> None:
    """Name what is paid for and waits to be published, besides the release `shown`."""
    for release_id in balance.unpublished:
        if release_id != shown:  # a balance from just before its publication lists it too
            waiting = (
                f"Release {release_id} is paid for and not published, unless its run still goes"
                f" on: hushrank resume {release_id}"
            )
            console.print(Text(waiting, style="yellow"), soft_wrap=True)


def alert_text(balance: Balance, fraction: float) -> str:
    """A warning that a fraction of the budget is used."""
    left = balance_text(balance, datetime.now(UTC).date())
    return f"Budget alert: {alert_sentence(fraction)} {left}"


def expected_error(release: Release) -> str:
    """Say how exact privatised answers are, before scores are fitted; empty if there are none."""
    known = release.privacy.parameters
    if "predicted_largest_error" not in known:
        return ""
    total = f", G = {known['information_G']:.4g} over people" if "information_G" in known else ""
    return (
        f"Information of a pair {known['information_per_pair']:.4g}{total}: by that alone, the"
        f" largest error of a score is about {known['predicted_largest_error']:.2g}."
    )


def show_checks(console: Console, job: Job, balance: Balance, *, whole: bool = False) -> None:
    """Print what a run of `job` would do; `whole`: its files were read to their end before."""
    night = "" if job.night is None else f" of night {job.night}"
    console.print(Text(f"Valid. A run{night} would:", style="bold"))
    for step in STEPS:
        console.print(Text(f"  {step.name:<{STEP_WIDTH}} {step.says(job)}"), soft_wrap=True)
    show_balance(console, balance)
    show_delta(console, job.terms.spend.delta, job.config.privacy.unit)
    for note in check_notes(job, whole=whole):
        console.print(Text(note), soft_wrap=True)
    if whole:
        console.print(Text(ALL_WHOLE.format(f"{len(job.files):,}")), soft_wrap=True)
    console.print("Nothing was counted or spent." if whole else "Nothing was read or spent.")


def show_delta(console: Console, delta: float, unit: Unit) -> None:
    """Say in words what a delta above 0 allows."""
    if delta > 0:
        console.print(Text(delta_sentence(delta, unit)), soft_wrap=True)


def check_notes(job: Job, *, whole: bool = False) -> tuple[str, ...]:
    """Say what could not be checked of `job` before it runs, and what speaks against running it.

    Args:
        job: the job.
        whole: its files were read to their end before, which tells nothing about their rows.
    """
    from hushrank.flows.ledger.forecast import yearly_text

    notes = []
    if not job.files:
        notes.append(NO_FILES_YET.format(days=job.config.schedule.catch_up_days))
    unread = "No row was looked at." if whole else "No data was read."
    notes += [f"{unread} {each.text}" for each in readings(job)]
    if note := worth_note(job.config, worth_of(job.config, job.drawn_by)):
        notes.append(note)
    if (lost := yearly_text(ledger_terms(job.config), datetime.now(UTC).date())) and job.safe:
        notes.append(lost)
    if (times := job.config.schedule.times_in_words) != "":
        told = TIMES_NOT_CHECKED.format(job.config.schedule.window, times)
        notes.append(f"{unread} {told}")
    columns = column_notes(job.config, job.files, job.heads)
    return *notes, *engine_notes(job), *look_notes(job), *columns, *input_notes(job)


def show_balance(console: Console, balance: Balance) -> None:
    """Print what is left of a population's budget, and what needs somebody's attention."""
    console.print(Text(balance_text(balance, datetime.now(UTC).date())), soft_wrap=True)
    if balance.alert is not None:
        console.print(Text(alert_text(balance, balance.alert), style="yellow"), soft_wrap=True)
    show_unpublished(console, balance)
    if shared := shared_text(balance):
        console.print(Text(shared, style="yellow"), soft_wrap=True)
    if balance.unsafe:
        warning = f"{balance.unsafe} unsafe releases bypassed the guarantee; no budget covers them."
        console.print(Text(warning, style="red"), soft_wrap=True)


def balance_text(balance: Balance, today: date) -> str:
    """Say what is left of a population's budget, and what all its periods cost together."""
    until = "" if balance.renews_on is None else f" until {day_text(balance.renews_on, today)}"
    left, total = left_text(balance.remaining_epsilon), left_text(balance.total)
    for_good = f" Since the first release: {ever}." if (ever := since_first_text(balance)) else ""
    return f"{balance.population} has epsilon {left} left of {total}{until}.{for_good}"


def _cost_of(outcome: Outcome) -> str:
    left = balance_text(outcome.balance, datetime.now(UTC).date())
    if not outcome.release.safe:
        return "Unsafe release: it counts against no budget, and the ledger notes it for good."
    if outcome.spent is None:
        return f"This release was drawn before: nothing was spent now. {left}"
    if outcome.spent == FREE and outcome.release.stream is not None:
        told_of = outcome.release.stream
        return (
            f"Nothing was spent: this is night {told_of.number} of {told_of.nights} that one budget"
            f" pays for. {left} Re-running returns the same result at no cost."
        )
    privacy = outcome.release.privacy
    told = outcome.spent  # Gaussian noise was asked for as rho, or as epsilon and delta
    if told.rho is not None and privacy.epsilon is not None:
        told = Spend(epsilon=float(privacy.epsilon), delta=privacy.delta)
    why = " Its noise was drawn before and not kept, so it was paid for again." * outcome.again
    return f"Spent {spend_text(told)}; {left}{why} Re-running returns the same result at no cost."


def ranking_table(release: Release) -> Table:
    """The ranking, or its best items, as rich shows a table."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("place")
    table.add_column("item")
    table.add_column(WORDS[release.scale].heading.lower(), justify="right")
    at_once = release.says("low_all")
    for heading in () if release.is_order else interval_headings(release):
        table.add_column(heading)
    table.add_column("rank" if at_once else "rank, 95 %")
    if release.says("p_best"):
        table.add_column(f"P({WORDS[release.scale].first})", justify="right")
    decimals = score_decimals(release.scale, release.ranking)
    for place, line in list(zip(release.places(), release.ranking, strict=True))[:MOST_ROWS]:
        table.add_row(place, Text(line.shown), *_cells(release, line, decimals))
    more = len(release.ranking) - MOST_ROWS
    if more > 0:
        table.add_row("…", f"{more} more")
    return table


def _cells(release: Release, line: RankedItem, decimals: int) -> tuple[str, ...]:
    scale = release.scale
    cells = [score_text(scale, line.score, decimals)]
    if not release.is_order:
        cells.append(interval_text(scale, line, decimals))
    if release.says("low_all") and not release.is_order:
        cells.append(interval_text(scale, line.at_once, decimals))
    cells = [with_unit(scale, cell) for cell in cells] + [rank_interval(line)]
    return (*cells, chance_text(line.p_best)) if release.says("p_best") else tuple(cells)


def _of_people(release: Release) -> Iterator[str]:
    """Yield what the pilot query and counts beside the ranking say of people and answers."""
    if release.look is not None and not release.look.warnings:
        yield f"{release.look.sentence} {release.look.of_items}".rstrip()
    yield from release.count_sentences


def reading_notes(release: Release) -> Iterator[str]:
    """Yield what intervals, places and probabilities mean; nothing if a release has none."""
    yield from _of_people(release)
    if release.ties is not None and release.informative:
        yield tie_sentence(release.ties)
    if release.election is not None:
        yield from election_lines(release.election, release.shown())
        if release.election.rounds is not None:
            from hushrank.flows.release.rounds import round_lines, rounds_of

            yield from round_lines(rounds_of(release), release.shown())
    if release.precincts is not None:
        from hushrank.flows.release.precincts import precincts_sentence

        yield f"{precincts_sentence(release.precincts)} The table: {PRECINCTS}."
    yield from filter(None, [precision_sentence(release), *map(sentence_of, release.effects or ())])
    yield from robustness_sentences(release, release.shown())
    yield from _of_alarms(release)
    if release.test is not None:
        yield from _of_test(release.test)
    for pair in release.dif or ():
        yield differences_sentence(pair, release.shown())
    if release.fit is not None:
        yield fit_sentence(release.fit, release.shown())
        if (slopes := slopes_sentence(release.fit, release.shown())) is not None:
            yield slopes
    if release.personal is not None and release.informative:
        yield from effect_sentences(release.personal)
    if not (sure := certainty(release)):
        return
    yield sure
    if release.is_order:
        yield (
            "A score here is a place in the order and no measurement, so it has no interval; the"
            " ranks say where each item may be."
        )
        return
    yield (
        "'95 % alone' covers that one score; '95 % all at once' covers every score simultaneously."
        " Items whose joint intervals do not overlap never share a place."
    )


def _of_alarms(release: Release) -> Iterator[str]:
    """Yield what alarms say, on nights on which an item passed another one."""
    if release.alarms is not None and release.alarms.passed:
        from hushrank.flows.release.alarms import alarm_sentences

        yield from alarm_sentences(release)


def _of_test(booklets: Sequence[BookletRecord]) -> Iterator[str]:
    if len(booklets) == 1:
        yield " ".join(reliability_sentences(booklets[0]))
    yield f"Abilities by raw score, with standard errors: {SCORES}."
    if step_rows(booklets):
        yield f"Difficulties of steps from one point to the next, with intervals: {STEP_FILE}."
