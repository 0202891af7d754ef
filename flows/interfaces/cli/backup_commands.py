"""`hushrank backup` and `hushrank restore`: a copy from which a survey continues on any machine.

`hushrank clean`: files that the confidential area has kept longer than configured.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.cli.arguments import ConfigPath
from hushrank.flows.terminal import Console
from hushrank.transforms import system
from hushrank.transforms.common.local_files import home_path

if TYPE_CHECKING:
    from hushrank.flows.config.survey import SurveyConfig
    from hushrank.flows.ledger.ledger import Ledger
    from hushrank.transforms.storage.places import Place


BackupPlace = Annotated[
    str, typer.Argument(metavar="PLACE", help="A folder for backups, local or gs://.")
]
RestorePlace = Annotated[
    str,
    typer.Argument(
        metavar="PLACE", help="A backup, or a folder of backups, whose newest one is taken."
    ),
]
Wait = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="How long to wait for runs to end.")
]


def backup(config: ConfigPath, place: BackupPlace, wait: Wait = 0.0) -> None:
    """Copy ledger, keys, results, streams and archive, all of one moment, into a new folder.

    No night and no release may be in the middle meanwhile. Input files are not copied. The copy is
    confidential.
    """
    from hushrank.flows.backup.backup import back_up
    from hushrank.flows.methods.registry import load_config
    from hushrank.transforms.storage.places import CloudPath

    checked = load_config(config)
    made = back_up(config, checked, _place_argument(place), datetime.now(UTC), wait)
    _say(
        f"Backed up {checked.name} to {made.folder}: ledger to line {made.manifest.line}, releases:"
        f" {made.releases}, active streams: {made.streams}."
    )
    who = (
        "Only the access rules of the bucket decide who can open it."
        if isinstance(made.folder, CloudPath)
        else "Only your account can open it."
    )
    _say(
        "Protect it like the answers: it holds the keys, unpublished noise, and, for streams,"
        f" the people who counted. {who}"
    )


def restore(place: RestorePlace, config: ConfigPath) -> None:
    """Put a backup back where the YAML file says, on this machine or another; spends nothing.

    Everything is checked first. What is newer there is never replaced. To repeat it does no harm.
    """
    from hushrank.flows.backup.backup import restore as put_back
    from hushrank.flows.methods.registry import load_config

    checked = load_config(config)
    made = put_back(_place_argument(place), checked)
    _say(
        f"Restored {checked.name} from {made.folder}, of {made.manifest.made:%Y-%m-%d %H:%M:%S}"
        f" UTC: ledger to line {made.manifest.line} in {checked.ledger.path}."
    )
    _say(
        "It lacks what was spent after that moment. From now on only one copy may continue: stop"
        " the nightly runs of every other copy."
    )


def _place_argument(text: str) -> Place:
    """Return the place that is named; a relative path starts at the working directory.

    Raises:
        ConfigError: the text is neither a local path nor a gs:// folder.
    """
    from hushrank.transforms.storage.places import CLOUD_PREFIX, CloudPath, is_cloud

    try:
        if is_cloud(text) and (place := CloudPath.parse(text)).key:
            return place
    except ValueError as error:
        raise ConfigError(f"PLACE: {error}") from None
    if "://" in text or not text:
        raise ConfigError(
            f"PLACE: must be a local folder or {CLOUD_PREFIX}bucket/folder, got {text!r}"
        )
    if unfit := system.unfit_name(text):
        raise ConfigError(f"PLACE: {text}: {unfit}; name another place.")
    return Path(os.path.abspath(home_path(text)))


def _say(text: str) -> None:
    Console().print(Text(text), soft_wrap=True)


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
    from hushrank.flows.run.context import ledger_of, record_access
    from hushrank.transforms.storage.places import is_cloud

    checked, now = load_config(config), datetime.now(UTC)
    ledger = ledger_of(checked)
    if end_stream is not None:
        _end(checked, ledger, end_stream, really=really)
        return
    by_a_rule = is_cloud(str(checked.confidential)) and not really
    found = [] if by_a_rule else overdue(checked, ledger, now)
    if really and found:
        record_access(checked, "clean --delete")
        found = delete(checked, ledger, now)
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
    from hushrank.flows.run.context import record_access

    if really:
        end_stream(config, ledger, stream_id, really=False)  # raises what is wrong with the id
        record_access(config, f"clean --end-stream {stream_id} --delete")
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
