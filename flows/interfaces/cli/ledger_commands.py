"""`hushrank ledger`: the budget spent, the budget left, and how many nights it lasts."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from hushrank.flows.interfaces.cli.arguments import AsJson, ConfigPath, ReleaseId
from hushrank.flows.terminal import Console, print_records

if TYPE_CHECKING:
    from hushrank.flows.config.survey import SurveyConfig
    from hushrank.flows.ledger.entries import Balance
    from hushrank.flows.ledger.forecast import Forecast, StreamForecast
    from hushrank.flows.ledger.ledger import Ledger
    from hushrank.privacy.accounting import Spend

NOTICED = 0.02  # of epsilon: a smaller difference is rounding
NOT_A_SUM = (
    "What is left is the epsilon of the largest further release with Laplace noise that the total"
    " allows. It need not add up to the total with what was spent, because costs compose."
)
Confirmed = Annotated[
    bool, typer.Option("--yes", help="Repair the ledger, and record that permanently.")
]
AnchorOption = Annotated[
    str | None,
    typer.Option("--anchor", metavar="PLACE", help="Compare with this anchor, e.g. a fresh clone."),
]
KeyOption = Annotated[
    Path | None,
    typer.Option("--public-key", metavar="FILE", help="Check signatures with this key (PEM)."),
]
OfficerKey = Annotated[
    Path | None,
    typer.Option("--terms-key", metavar="FILE", help="Private key, if the terms belong to one."),
]
OwnerKey = Annotated[
    Path, typer.Option("--terms-key", metavar="FILE", help="Private key to which the terms belong.")
]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; the text is published.")
]
Total = Annotated[
    float | None,
    typer.Option("--epsilon", help="The new total; by default the one in the YAML file."),
]
KeyOut = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="The new file for the key; it must not exist.")
]
RecordedIn = Annotated[
    Path | None,
    typer.Option("--survey", metavar="FILE", help="Job whose ledger records that it was made."),
]
TableOut = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="The table: .csv, .json or .parquet.")
]
LONGEST_REASON = 200  # characters


def show(config: ConfigPath, as_json: AsJson = False) -> None:
    """Show what a population has spent, on which releases, and what is left."""
    from hushrank.flows.display import show_balance
    from hushrank.flows.ledger.guards import Guards
    from hushrank.flows.ledger.inspection import guard_texts
    from hushrank.flows.ledger.texts import HISTORY_COLUMNS, needed_text, rule_text
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.run.context import ledger_of
    from hushrank.flows.run.job import inputs_of

    checked = load_config(config)
    guards = Guards.of(checked.ledger)
    ledger = ledger_of(checked, guards)
    rows, balance = ledger.history(), ledger.balance(inputs_of(checked, make_key=False))
    told = tuple(guard_texts(ledger, guards))
    if not as_json:
        print_records(Console(), HISTORY_COLUMNS, (row.cells() for row in rows))
        show_balance(Console(), balance)
        if balance.releases:
            left, total = balance.remaining_epsilon, balance.total
            if abs(left + balance.spent_epsilon - total) > NOTICED:
                Console().print(Text(NOT_A_SUM), soft_wrap=True)
            spent = f"Spent in total: epsilon {needed_text(balance.spent_epsilon)}."
            Console().print(Text(f"{spent} {rule_text(balance.rule)}"), soft_wrap=True)
        for text in told:
            Console().print(Text(text), soft_wrap=True)
        return
    from hushrank.flows.interfaces.documents.runs import (
        Budget,
        LedgerDocument,
        LedgerEntry,
        print_document,
    )

    entries = tuple(map(LedgerEntry.of, rows))
    print_document(LedgerDocument(entries=entries, budget=Budget.of(balance), guards=told))


def verify(config: ConfigPath, anchor: AnchorOption = None, public_key: KeyOption = None) -> None:
    """Check every line of the ledger, its signatures and its anchor, and all that a run checks.

    The command reports damaged, edited or missing lines, an older copy that was put back, and
    anything else for which a run would be refused: key, permissions, clock. With --public-key,
    somebody who has only the copy and that key can check it.
    """
    from hushrank.flows.assembly import check_ledger
    from hushrank.flows.ledger.guards import Guards
    from hushrank.flows.ledger.inspection import guard_texts
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.run.context import ledger_of
    from hushrank.flows.run.job import inputs_of

    checked = load_config(config)
    section = checked.ledger
    # the public key is enough to verify, so the private key may be missing
    if public_key is not None:
        section = section.model_copy(update={"signing_key": None, "terms_key": None})
    guards = Guards.of(section).for_reader(public_key).with_anchor(anchor)
    ledger, console = ledger_of(checked, guards), Console()
    ledger.balance()
    told = tuple(guard_texts(ledger, guards))
    if public_key is None:
        # opened as a run opens it
        ledger = ledger_of(checked, Guards.of(section).with_anchor(anchor))
        check_ledger(checked, ledger, inputs_of(checked, make_key=False))
    console.print(Text(f"{section.path}: every line is unchanged."), soft_wrap=True)
    for text in told:
        console.print(Text(text), soft_wrap=True)


def key(out: KeyOut, survey: RecordedIn = None) -> None:
    """Make a key that signs the ledger's lines or its terms, and print its public half."""
    if survey is not None:
        from hushrank.flows.methods.registry import load_config
        from hushrank.flows.run.context import record_access

        record_access(load_config(survey), "ledger key")
    from hushrank.flows.ledger.keys import make_key
    from hushrank.transforms.common.local_files import home_path

    typer.echo(make_key(home_path(out).absolute()), nl=False)


def export(config: ConfigPath, out: TableOut) -> None:
    """Write the whole ledger as one table for an auditor: terms, costs, methods, nights.

    It has a row for each release, change of terms, alert and repair of every population of the
    ledger, with who did it. Methods are those of releases in the output folder of this job. The
    table holds what the ledger holds, and nothing of any row. Reads no rows and spends nothing.
    """
    from hushrank.flows.interfaces.cli.history_commands import write_whole
    from hushrank.flows.ledger.export import ledger_table
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.release.archive import archived, load_archived
    from hushrank.flows.release.history import export_bytes
    from hushrank.flows.run.context import ledger_of

    checked = load_config(config)
    chain = ledger_of(checked).book().chain
    releases = map(load_archived, archived(checked.output))
    methods = {release.release_id: release.method for release in releases}
    table = ledger_table(chain, str(checked.ledger.path), methods)
    write_whole(out, export_bytes(table, out))
    Console().print(Text(f"Wrote {out}: {table.num_rows:,} rows."), soft_wrap=True)


def terms(config: ConfigPath, terms_key: OwnerKey, reason: Reason, epsilon: Total = None) -> None:
    """Open a budget or change its total, as the holder of the key to which the terms belong.

    With ledger.terms_key in the YAML file, only this command opens or changes the budget; a run
    with other terms is refused. The new total is --epsilon; delta, refresh and lifetime_epsilon are
    those of the YAML file. Report, certificate and verifier show each change, who made it and why.
    To hand the terms over, set ledger.terms_key to the new public key and use the old private key.
    """
    from hushrank.flows.errors import ConfigError
    from hushrank.flows.ledger.entries import Limits
    from hushrank.flows.ledger.guards import Guards
    from hushrank.flows.ledger.texts import limits_text
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.run.context import ledger_of, with_total

    checked = with_total(load_config(config), epsilon)
    ledger = ledger_of(checked, Guards.of(checked.ledger).with_officer(terms_key))
    book = ledger.book()
    if checked.ledger.terms_key is None and not book.chain.terms_key:
        raise ConfigError(
            f"{config}: ledger.terms_key is missing, so the terms would belong to nobody. Set it to"
            " the file of the public key that hushrank ledger key printed. Nothing was changed."
        )
    before = book.account.terms
    known = "nobody has opened it" if before is None else limits_text(Limits.of(before))
    changed = ledger.set_terms(reason_of(reason), before)
    console, now = Console(), limits_text(Limits.of(ledger.terms))
    if not changed:
        console.print(Text(f"Budget of {checked.name}: {now} already. Nothing was changed."))
        return
    console.print(Text(f"Budget of {checked.name} before: {known}. Now: {now}."), soft_wrap=True)
    if epsilon is not None:
        text = f"Write epsilon: {epsilon:g} into section ledger of {config}: a run with another"
        console.print(Text(f"{text} total is refused."), soft_wrap=True)


def reason_of(text: str) -> str:
    """Check the reason of a change, which is published.

    Raises:
        ConfigError: it is empty, too long, or has a character that shows as nothing.
    """
    from hushrank.flows.errors import ConfigError
    from hushrank.transforms.common.plain_text import hidden_character

    reason = text.strip()
    if not reason or len(reason) > LONGEST_REASON or hidden_character(reason) is not None:
        raise ConfigError(
            f"--reason: must be 1 to {LONGEST_REASON} visible characters on one line. Nothing was"
            " changed."
        )
    return reason


def cancel(config: ConfigPath, release_id: ReleaseId) -> None:
    """Give back the budget that a dead run reserved before it drew any noise."""
    from hushrank.flows.display import show_balance
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.nights.nights import cancel as give_back
    from hushrank.flows.run.context import ledger_of

    checked = load_config(config)
    ledger = ledger_of(checked)
    give_back(checked, ledger, release_id)
    show_balance(Console(), ledger.balance())


def recover(config: ConfigPath, yes: Confirmed = False, terms_key: OfficerKey = None) -> None:
    """Repair a ledger that lost lines, whose key is lost, or whose dates are wrong.

    Without --yes the command only says what is wrong and what it would do. First put back the
    newest copy of the ledger, if there is one: spending that no copy records counts as not spent.
    If the terms of the budget belong to a key (ledger.terms_key), only its holder repairs it.
    """
    from hushrank.flows.assembly import check_ledger
    from hushrank.flows.display import show_balance
    from hushrank.flows.ledger.guards import Guards
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.run.confidential_folder import check_confidential
    from hushrank.flows.run.context import ledger_of
    from hushrank.flows.run.job import inputs_of
    from hushrank.flows.trust.recovery import findings, recover_ledger

    checked = load_config(config)
    if yes:  # this writes a checkpoint there
        check_confidential(checked.confidential)
    ledger = ledger_of(checked, Guards.of(checked.ledger).with_officer(terms_key))
    if yes:
        ledger.require_officer(ledger.book(whole=False))
    inputs = inputs_of(checked, make_key=yes)
    found, console = findings(checked, ledger, inputs), Console()
    for finding in found:
        console.print(Text(f"Wrong: {finding.text}."), soft_wrap=True)
        console.print(Text(f"  {finding.effect}."), soft_wrap=True)
    if not found:
        # otherwise a run would be refused; this raises the reason
        check_ledger(checked, ledger, inputs)
        console.print(Text(f"{checked.ledger.path}: nothing is wrong."), soft_wrap=True)
    elif not yes:
        console.print("Nothing was changed. To do this, run the command again with --yes.")
    else:
        recover_ledger(checked, ledger, inputs, found)
        console.print(Text(f"{checked.ledger.path}: the repair is recorded."), soft_wrap=True)
        show_balance(console, ledger.balance())


def forecast(config: ConfigPath, as_json: AsJson = False) -> None:
    """Say how many more nights fit into the budget, and on which day it runs out.

    Counts the nights of schedule.cron, or one night a day without it, at the cost that the
    configuration states. For a stream of nights, it says until when the nights are paid for. Reads
    no rows and spends nothing.
    """
    from hushrank.flows.display import show_balance
    from hushrank.flows.run.context import ledger_of
    from hushrank.flows.run.job import read_survey

    survey = read_survey(config, anyway=True)  # this spends nothing
    checked, ledger = survey.config, ledger_of(survey.config)
    spend, balance = survey.calibrated.spend, ledger.balance()
    found: Forecast | StreamForecast
    if checked.schedule.stream is not None:
        found, text = _of_stream(checked, ledger, spend)
    else:
        found, text = _of_nights(checked, ledger, spend, balance)
    console = Console()
    if as_json:
        document = {"population": checked.name, "spend": spend.to_dict(), **asdict(found)}
        console.print(json.dumps(document, default=str), soft_wrap=True, markup=False)
        return
    console.print(Text(text), soft_wrap=True)
    show_balance(console, balance)


def _of_stream(config: SurveyConfig, ledger: Ledger, spend: Spend) -> tuple[StreamForecast, str]:
    """Forecast for a stream of nights: the day until which nights are paid for, and its text."""
    from hushrank.flows.ledger.forecast import forecast_of_stream, stream_text
    from hushrank.flows.ledger.texts import spend_text
    from hushrank.flows.run.stream_turns import has_closed, span_of, standing_of

    account, span = ledger.book().account, span_of(config)
    standing, ended = standing_of(account, config), has_closed(account, config)
    spends, first = ledger.costs()
    found = forecast_of_stream(
        ledger.terms,
        spends,
        spend,
        span,
        standing,
        ended=ended,
        first=first,
        ever=ledger.costs(ever=True),
    )
    return found, stream_text(config.name, spend_text(spend), found)


def _of_nights(
    config: SurveyConfig, ledger: Ledger, spend: Spend, balance: Balance
) -> tuple[Forecast, str]:
    """Forecast for nights of equal cost: how many fit into the budget, and its text."""
    from hushrank.flows.ledger.forecast import (
        ONE_A_DAY,
        demand_by_day,
        demand_by_schedule,
        forecast_text,
    )
    from hushrank.flows.ledger.forecast import forecast as forecast_of
    from hushrank.flows.ledger.texts import spend_text
    from hushrank.flows.nights.nights import due_nights

    now = datetime.now(UTC)
    due = 0
    if config.nightly:
        due = len(due_nights(config, config.schedule.last_night(now)))
    calendar = (now, due, balance.renews_on)
    scheduled = demand_by_schedule(config.schedule, *calendar, nightly=config.nightly)
    spends, first = ledger.costs()
    found = forecast_of(
        ledger.terms,
        spends,
        spend,
        first=first,
        demand=demand_by_day(*calendar) if scheduled is None else scheduled,
        renews_on=balance.renews_on,
        pace=ONE_A_DAY if scheduled is None else f'With cron "{config.schedule.cron}"',
        ever=ledger.costs(ever=True),
    )
    return found, forecast_text(config.name, spend_text(spend), found)
