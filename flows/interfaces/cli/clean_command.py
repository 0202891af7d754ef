"""`hushrank clean`: files that the confidential area has kept longer than configured."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from hushrank.flows.interfaces.cli.arguments import ConfigPath
from hushrank.flows.terminal import Console

if TYPE_CHECKING:
    from hushrank.flows.config.survey import SurveyConfig
    from hushrank.flows.ledger.ledger import Ledger

Delete = Annotated[
    bool, typer.Option("--delete", help="Delete the files; otherwise they are only listed.")
]


EndStream = Annotated[
    str | None,
    typer.Option(
        "--end-stream",
        metavar="STREAM",
        help="With --delete: end the stream with this id, so that no further night is drawn.",
    ),
]


def clean(config: ConfigPath, really: Delete = False, end_stream: EndStream = None) -> None:
    """List, or delete, what the confidential area has kept for longer than section retention says.

    Files of a release that is not published yet always stay. The command spends nothing, and what
    was spent stays in the ledger.
    """
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.nights.retention import BY_A_RULE, delete, kept_streams, overdue
    from hushrank.flows.run.budget import ledger_of
    from hushrank.transforms.storage.cloud_storage import is_cloud

    checked, now = load_config(config), datetime.now(UTC)
    ledger = ledger_of(checked)
    if end_stream is not None:
        _end(checked, ledger, end_stream, really=really)
        return
    by_a_rule = is_cloud(str(checked.confidential)) and not really
    found = [] if by_a_rule else (delete if really else overdue)(checked, ledger, now)
    for each in found:
        verb = "Deleted" if really else "Would delete"
        _say(f"{verb} {each.path}, of {each.since.date()}")
    streams = kept_streams(checked, ledger, now)
    for stream in streams:
        _say(
            f"{stream.folder} still records who counted in stream {stream.stream_id}, which was to"
            f" end on {stream.span.last}: {stream.drawn} of {stream.span.nights} nights were drawn."
            f" hushrank clean --end-stream {stream.stream_id} --delete ends it and deletes this"
            " record."
        )
    if by_a_rule:
        _say(f"{checked.confidential} {BY_A_RULE} Such a rule must spare folders of streams.")
    elif not found and not streams:
        _say("No file is older than section retention allows.")
    elif found and not really:
        _say("Nothing was deleted. hushrank clean --delete deletes these files.")


def _end(config: SurveyConfig, ledger: Ledger, stream_id: str, *, really: bool) -> None:
    from hushrank.flows.nights.retention import end_stream

    stream = end_stream(config, ledger, stream_id, really=really)
    drawn = f"{stream.drawn} of {stream.span.nights} nights were drawn"
    if really:
        _say(
            f"Stream {stream_id} has ended: {drawn}. The record of who counted"
            " and all exact counts are deleted; the nights already drawn and their cost stay."
        )
        return
    _say(
        f"Stream {stream_id}, to {stream.span.last}: {drawn}. Ending it deletes its key, the"
        f" record of who counted, and all exact counts in {stream.folder}. No further night can be"
        " drawn, and its cost stays in the ledger. Nothing was changed yet; to end it, run"
        f" --end-stream {stream_id} --delete."
    )


def _say(text: str) -> None:
    Console().print(Text(text), soft_wrap=True)
