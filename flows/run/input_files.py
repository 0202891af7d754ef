"""The input files of a job, and the rows of them that belong to a night."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from hushrank.flows.config.apart import check_files_apart, named_places
from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.items import ItemsConfig
from hushrank.flows.config.schedule import path_on
from hushrank.flows.config.section import FORM
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError, HushrankError, NightWithoutFiles
from hushrank.flows.reading import Reader
from hushrank.transforms.common.plain_text import short_list
from hushrank.transforms.common.schema import MOST_COLUMNS, RANKING, InputError, is_list
from hushrank.transforms.storage.files import (
    FileFormat,
    InputFile,
    NoFilesError,
    Service,
    list_files,
    partitions_of,
)
from hushrank.transforms.storage.read import read_heads
from hushrank.transforms.storage.split import Head
from hushrank.transforms.tables.names import BeamSource


@contextmanager
def told_as_input() -> Iterator[None]:
    """Raise as ConfigError what the files of a job, or of a stream, are refused with."""
    try:
        yield
    except InputError as error:
        raise ConfigError.from_input(error) from None


def input_of(
    path: Path,
    config: SurveyConfig,
    night: date | None,
    held: tuple[InputFile, ...] | None = None,
    source: BeamSource | None = None,
) -> tuple[tuple[InputFile, ...], tuple[InputFile, ...]]:
    """The input files, and further tables that decide; none is opened.

    Args:
        path: the YAML file, for messages.
        config: the configuration.
        night: the day whose rows to rank; None if the configuration selects no nights.
        held: copies of tables in memory, in place of the files that paths name; None: none.
        source: a Beam transform that Python passed; None: none.

    Raises:
        NightWithoutFiles: an input path names no file of that night.
        ConfigError: the night does not suit the configuration, or a file is empty or of an
            unknown format.
    """
    check_night(path, config, night)
    try:
        files = files_of(config, night, held, source)
        if held is None:
            local = (file.path for file in files if os.path.isabs(file.path))
            check_files_apart(named_places(config), local)
        return files, tables_of(path, config)
    except NoFilesError as error:
        if night is not None:
            raise NightWithoutFiles(f"Night {night}: {error}") from None
        raise ConfigError.from_input(error) from None
    except InputError as error:
        raise ConfigError.from_input(error) from None


def heads_of(files: Sequence[InputFile], config: SurveyConfig, reader: Reader) -> tuple[Head, ...]:
    """Return headers and footers, for whoever cuts the files; they show whether a file can be read.

    Args:
        files: files of the job.
        config: configuration of the job.
        reader: the child process that opens them.

    Raises:
        ConfigError: a file breaks a rule, or its parser.
        ReadingError: the child ended otherwise.
    """
    if not files:
        return ()
    columns = config.columns()
    heads = reader.call(read_heads, files, columns, memory=config.memory_limit)
    if config.items.codes_unclear:
        _refuse_codes(files, heads, config)
    return heads


DAMAGED = (
    "{} of {} files cannot be read whole. Write them again, or leave them out of input.paths; a run"
    " would stop at the first of them. Nothing was reserved or spent."
)


def check_whole(
    files: Sequence[InputFile], config: SurveyConfig, reader: Reader, say: Callable[[str], None]
) -> None:
    """Decode all pages of all files, in parallel, and refuse those that cannot be read.

    Args:
        files: files of the job; what a service sends is not read.
        config: configuration of the job.
        reader: the child process that opens them.
        say: gets a sentence on each damaged file, in the order of `files`.

    Raises:
        ConfigError: at least one file is damaged; it has a problem for each.
    """
    checked = [file for file in files if not isinstance(file.format, Service)]
    found = dict(_damage_of(checked, config, reader))
    sentences = [found[file] for file in checked if file in found]
    for sentence in sentences:
        say(sentence)
    if sentences:
        text = DAMAGED.format(f"{len(sentences):,}", f"{len(checked):,}")
        raise ConfigError(
            text, *(ConfigError.from_input(InputError(each)).problems[0] for each in sentences)
        )


def _damage_of(
    files: Sequence[InputFile], config: SurveyConfig, reader: Reader
) -> list[tuple[InputFile, str]]:
    """Each damaged file with a sentence; a file that ends its parser is read again by itself."""
    from hushrank.transforms.storage.damage import find_damage  # no run needs it

    if not files:
        return []
    limit = config.memory_limit
    workers = config.runner.engine().workers_within(limit)
    try:
        return reader.call(find_damage, files, config.columns(), workers, memory=limit)
    except HushrankError as error:
        if len(files) == 1:
            return [(files[0], f"{error}")]
    alone = [file for file in files if file.name in reader.open_files] or files
    rest = [file for file in files if file not in alone]
    found = [each for file in alone for each in _damage_of([file], config, reader)]
    return found + _damage_of(rest, config, reader)


KEYS_NOT_CHECKED = (
    "The keys {} of JSON Lines are not checked here, because which keys there are depends on the"
    " rows. Compare them with those that hushrank init or inspect shows: if no row has a key, no"
    " row counts."
)


FIELDS_NOT_CHECKED = (
    "The fields {} of the Beam transform's rows are not checked here, because which fields there"
    " are depends on the rows: if no row has a field, no row counts, which a pilot query"
    " (privacy.look) notices."
)


def column_notes(
    config: SurveyConfig, files: Sequence[InputFile], heads: Sequence[Head] | None
) -> tuple[str, ...]:
    """Return notes on the columns that a job reads, from the heads of its files alone.

    The keys of JSON Lines stand in rows, so none of them is named that the job does not name.
    """
    if heads is None:
        return ()
    names, formats = dict[str, None](), {file.format for file in files}
    for file, head in zip(files, heads, strict=True):
        if file.format not in (FileFormat.JSONL, FileFormat.PREFLIB, Service.BEAM):
            names |= dict.fromkeys(head.schema.names)
    notes = [note] if (note := columns_note(config, list(names))) else []
    for format_, note in ((FileFormat.JSONL, KEYS_NOT_CHECKED), (Service.BEAM, FIELDS_NOT_CHECKED)):
        if format_ in formats:
            notes.append(note.format(short_list(config.columns().names(), MOST_COLUMNS)))
    return tuple(notes)


def columns_note(config: SurveyConfig, names: Sequence[str]) -> str:
    """Say how many of the columns `names` a job reads, and which not; empty if it reads all."""
    window = config.schedule.window
    read = {*config.columns().names(), *((window,) if window else ())}
    unread = [name for name in names if name not in read]
    if not unread:
        return ""
    what = f"{len(config.items.catalogue.names):,} items"
    if config.items.unknown:
        what = "items that people name"
    return (
        f"{len(names) - len(unread)} of {len(names)} columns are read, for {what}."
        f" Not read: {short_list(unread, MOST_COLUMNS)}."
    )


_OF_ITEMS = ("left", "right", "item", RANKING)  # roles of columns that name items


def _refuse_codes(files: Sequence[InputFile], heads: Sequence[Head], config: SurveyConfig) -> None:
    """Refuse integers in columns of items; of PrefLib files the header says what they mean."""
    named = [name for role, name in config.columns().roles() if role in _OF_ITEMS]
    rows = config.input
    if isinstance(rows, InputConfig) and not (rows.told and (rows.told.left or rows.told.right)):
        named += [each for each in (rows.columns.winner,) if each is not None]  # else words tell
    for file, head in zip(files, heads, strict=True):
        for name in named:
            type_ = head.schema.field(name).type
            held = type_.value_type if is_list(type_) else type_
            if pa.types.is_integer(held) and file.format is not FileFormat.PREFLIB:
                raise ConfigError(_codes_unclear(file, name, config.items))


def _codes_unclear(file: InputFile, column: str, items: ItemsConfig) -> str:
    """The refusal of whole numbers for names, with both readings and how to write each."""
    names = items.catalogue.names
    if items.dated:
        return (
            f"{file.name}: column {column} holds whole numbers and the items are names, so nothing"
            " says which item 1 is. Write names into the rows, or the numbers into column item of"
            " items.file and names into its column name. Nothing was spent."
        )
    in_memory = bool(file.digest)
    one, zero = (
        f"items={{'names': [...], 'first_code': {code}}}"
        if in_memory
        else f"items.first_code: {code}"
        for code in (1, 0)
    )
    return (
        f"{'the table' if in_memory else file.name}: column {column} holds whole numbers and the"
        f" items are names, so nothing says which item 1 is: write {one} if it is {names[0]}, or"
        f" {zero} if it is {names[1]}; for other numbers name a file of items with columns item and"
        " name. Nothing was spent."
    )


def files_of(
    config: SurveyConfig,
    night: date | None,
    held: tuple[InputFile, ...] | None = None,
    source: BeamSource | None = None,
) -> tuple[InputFile, ...]:
    """The files to read and the rows of them; only of `night` if the configuration selects nights.

    Raises:
        NoFilesError: a path names no file.
        InputError: a file is empty, or of an unknown format.
    """
    if held is not None:
        window = None if night is None else config.schedule.window_on(night)
        return tuple(replace(file, window=window) for file in held)
    if config.input.version is not None:
        paths = config.input.paths if night is None else [path_on(config.input.paths[0], night)]
        source = source or _source_of(config, night)
        return tuple(replace(file, table=source) for file in list_files(paths))
    if night is None:
        return tuple(_as_stated(config, list_files(config.input.paths, config.input.format)))
    paths = [path_on(path, night) for path in config.input.paths]
    partition, window = (config.schedule.partition_on(night), config.schedule.window_on(night))
    times = None if window is None else window.column
    files = list_files(paths, config.input.format, partition, times)
    return tuple(replace(file, window=window) for file in _as_stated(config, files))


def _source_of(config: SurveyConfig, night: date | None) -> BeamSource | None:
    """The Beam transform that the configuration names, with the night in its settings."""
    stated = config.input.source
    if stated is None:
        return None
    settings = stated.config if night is None else _on_night(stated.config, night)
    return BeamSource(stated.type, json.dumps(settings))


def _on_night(value: Any, night: date) -> Any:
    """Settings of a transform with {date} filled in, in every text."""
    if isinstance(value, str):
        return path_on(value, night)
    if isinstance(value, list):
        return [_on_night(each, night) for each in value]
    if isinstance(value, dict):
        return {name: _on_night(each, night) for name, each in value.items()}
    return value


def _as_stated(config: SurveyConfig, files: Iterable[InputFile]) -> Iterator[InputFile]:
    """The files with what the configuration says about their form."""
    rows = config.input
    form = {name: getattr(rows, name) for name in FORM}
    if form["delimiter"] == "tab":
        form["delimiter"] = "\t"
    for file in files:
        if file.table is not None and rows.partitions:
            raise InputError(
                f"{file.name}: input.partitions names columns that folders tell; a table has its"
                " own, so remove it."
            )
        yield replace(file, **form, partitions=partitions_of(file.path, rows.partitions))


def check_night(path: Path, config: SurveyConfig, night: date | None) -> None:
    """Raise ConfigError if a night is missing, or given although none can be selected."""
    if config.nightly and night is None:
        raise ConfigError(
            f"{path}: ranks one night at a time. Say which: --date 2026-11-20; or run hushrank"
            " catch-up, which ranks every night that is due."
        )
    if night is not None and not config.nightly:
        raise ConfigError(
            f"{path}: nothing selects the rows of {night}. Write {{date}} into input.paths, or set"
            " schedule.partition or schedule.window; or leave the date out."
        )


def tables_of(path: Path, config: SurveyConfig) -> tuple[InputFile, ...]:
    """The file of epsilons, if the job names one.

    Raises:
        ConfigError: the file does not exist.
        InputError: the file is empty, or has an unknown format.
    """
    table = config.privacy.epsilon_table
    if table is None:
        return ()
    if not table.exists():
        raise ConfigError(
            f"{path}: privacy.epsilon_table: {table}: no such file; relative paths start at the"
            " YAML file"
        )
    return tuple(list_files([str(table)]))
