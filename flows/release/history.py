"""The releases of a population, and all their rankings as one table."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ArchiveError, ConfigError
from hushrank.flows.release.archive import (
    ALL_FILES,
    RELEASE,
    SUMS,
    archived,
    damages,
    files_of,
    find_archived,
    load_archived,
)
from hushrank.flows.release.boards import STANDARD_ERRORS
from hushrank.flows.release.release import Release, load_release
from hushrank.flows.release.sheet_report import difference_rows, score_rows
from hushrank.flows.statement.record import finite_or_text
from hushrank.transforms.common.local_files import MostBytes
from hushrank.transforms.common.plain_text import short_list, write_cell
from hushrank.transforms.storage.places import CloudPath, Place, is_cloud, read_whole

SCHEMA = pa.schema(
    [
        ("day", pa.date32()),
        ("created", pa.timestamp("s", tz="UTC")),
        ("release_id", pa.string()),
        ("name", pa.string()),
        ("method", pa.string()),
        ("epsilon", pa.float64()),
        ("delta", pa.float64()),
        ("safe", pa.bool_()),
        ("item", pa.string()),
        ("rank", pa.float64()),
        ("score", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("rank_low", pa.int64()),
        ("rank_high", pa.int64()),
        ("group", pa.int64()),
        ("noisy_wins", pa.float64()),
        ("label", pa.string()),
        ("unit", pa.string()),
        ("low_all", pa.float64()),
        ("high_all", pa.float64()),
        ("rank_low_all", pa.int64()),
        ("rank_high_all", pa.int64()),
        ("surely_above", pa.string()),
        ("p_best", pa.float64()),
        ("p_top", pa.float64()),
        ("top", pa.int64()),
        ("job", pa.string()),
        *((name, pa.float64()) for name in STANDARD_ERRORS),
    ]
)


def outputs_of(sources: Iterable[str], load_config: Callable[[Path], SurveyConfig]) -> list[Place]:
    """Output folders: those of YAML files, earlier jobs first, and those that are named directly.

    Raises:
        ConfigError: a YAML file breaks a rule, or a folder does not exist.
    """
    outputs: list[Place] = []
    for source in sources:
        if is_cloud(source):
            outputs.append(_cloud_path(source))
        elif source.endswith((".yaml", ".yml")):
            config = load_config(Path(source))
            outputs += [*config.supersedes, config.output]
        elif Path(source).is_dir():
            outputs.append(Path(source))
        else:
            raise ConfigError(f"{source}: is neither a YAML file of a job nor a folder of releases")
    return outputs


def with_own_words(
    release: Release, sources: Iterable[str], load_config: Callable[[Path], SurveyConfig]
) -> Release:
    """The release with `report.about` as the YAML file of its job says it today.

    What was published stays as it is; a page that is drawn again shows the corrected text.

    Args:
        release: the release as it was published.
        sources: YAML files and folders; without the file of its job nothing changes.
        load_config: reads a YAML file.

    Raises:
        ConfigError: a YAML file breaks a rule.
    """
    for source in sources:
        if source.endswith((".yaml", ".yml")) and not is_cloud(source):
            config = load_config(Path(source))
            if release.job in config.job_hashes:
                return release.model_copy(update={"about": config.report.about})
    return release


def read_history(outputs: Sequence[Place]) -> list[Release]:
    """Return all releases in the folders, the earliest first, each once.

    Raises:
        ConfigError: there is no release, or they belong to several populations.
        ArchiveError: a release was changed after it was published.
    """
    releases = {
        release.release_id: release
        for output in outputs
        for release in map(load_archived, archived(output))
    }
    if not releases:
        raise ConfigError(
            f"{', '.join(map(str, outputs))}: holds no release yet."
            " Next: hushrank run, or hr.run in Python"
        )
    names = sorted({release.name for release in releases.values()})
    if len(names) > 1:
        raise ConfigError(
            f"{', '.join(map(str, outputs))}: hold releases of several populations"
            f" ({short_list(names)}); name those of one"
        )
    return sorted(releases.values(), key=lambda release: release.moment)


def changed_jobs(
    outputs: Sequence[Place], releases: Sequence[Release]
) -> list[tuple[Release, Release]]:
    """Return pairs of consecutive releases of which the later is of another folder and job."""
    home = {folder.name[11:]: output for output in outputs for folder in archived(output)}
    return [
        (before, release)
        for before, release in itertools.pairwise(releases)
        if before.job != release.job and home[before.release_id] != home[release.release_id]
    ]


def apart(releases: Sequence[Release]) -> tuple[list[Release], list[Release]]:
    """Split releases into those to show and the unsafe ones to leave out.

    Releases that protect people are never mixed with releases that protect nobody. If all are
    unsafe, all are shown.
    """
    safe = [release for release in releases if release.safe]
    unsafe = [release for release in releases if not release.safe]
    return (safe, unsafe) if safe else (unsafe, [])


def one_release(releases: Sequence[Release], release_id: str) -> Release:
    """The release whose id begins with `release_id`.

    Raises:
        ConfigError: no release has such an id, or several have.
    """
    found = [release for release in releases if release.release_id.startswith(release_id)]
    if len(found) != 1:
        what = "no release has" if not found else f"{len(found)} releases have"
        raise ConfigError(
            f"--release {release_id}: {what} an identity that begins so. `hushrank history` lists"
            " them"
        )
    return found[0]


def problems_of(
    outputs: Sequence[Place], check: Callable[[Place], Iterator[str]] | None = None
) -> list[str]:
    """Everything that is not as published, in the archives and in the copies above them.

    Args:
        outputs: output folders.
        check: yields further faults of a release whose files are as published, from its folder.
    """
    problems = [problem for output in outputs for problem in damages(output, check)]
    for output in outputs:
        if not (output / RELEASE).exists():
            continue
        try:
            shown = load_release(output / RELEASE)
        except ConfigError as error:
            problems.append(str(error))
            continue
        kept = find_archived(output, shown.release_id)
        if kept is None:
            problems.append(f"{output}: shows release {shown.release_id}, which it does not keep.")
            continue
        problems += [
            f"{output / name}: differs from {kept / name}, which it is a copy of. Copy it again."
            for name in files_of(kept)
            if _content(output / name) not in (_content(kept / name), None)
        ]
    return problems


def ranking_table(releases: Sequence[Release]) -> pa.Table:
    """Return a table with one row for each item of each release, in the columns of `SCHEMA`."""
    return pa.Table.from_pylist(
        [row for release in releases for row in _rows(release)], schema=SCHEMA
    )


def _rows(release: Release) -> Iterable[dict[str, object]]:
    wins = release.released.wins_by_item() or {}
    shared = {
        "day": release.day,
        "created": release.created,
        "release_id": release.release_id,
        "job": release.job,
        "name": release.name,
        "method": release.method,
        "epsilon": release.privacy.epsilon,
        "delta": release.privacy.delta,
        "safe": release.safe,
        "unit": release.unit,
        "top": release.top,
    }
    for line in release.ranking:
        yield {**shared, **line.content(), "noisy_wins": wins.get(line.item)}


ABILITIES = pa.schema(
    [
        ("day", pa.date32()),
        ("release_id", pa.string()),
        ("name", pa.string()),
        ("booklet", pa.string()),
        ("score", pa.int32()),
        ("ability", pa.float64()),
        ("standard_error", pa.float64()),
    ]
)


def abilities_table(releases: Iterable[Release]) -> pa.Table:
    """A row for each raw score of each booklet; releases without abilities have none."""
    rows = (
        (release.day, release.release_id, release.name, *row)
        for release in releases
        for row in score_rows(release.test or ())
    )
    return _table_of(rows, ABILITIES)


DIF = pa.schema(
    [
        ("day", pa.date32()),
        ("release_id", pa.string()),
        ("name", pa.string()),
        ("group", pa.string()),
        ("against", pa.string()),
        ("item", pa.string()),
        *((name, pa.float64()) for name in ("difference", "standard_error", "low", "high", "z")),
        ("size", pa.string()),
        ("differs", pa.bool_()),
    ]
)


def dif_table(releases: Iterable[Release]) -> pa.Table:
    """A row for each item and pair of groups; releases without groups of people have none."""
    rows = (
        (release.day, release.release_id, release.name, *row)
        for release in releases
        for row in difference_rows(release.dif or ())
    )
    return _table_of(rows, DIF)


def _table_of(rows: Iterable[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _csv(table: pa.Table) -> bytes:
    """Columns with commas; a number that is infinite is empty, as in `ranking.csv`."""
    texts = {field.name for field in table.schema if pa.types.is_string(field.type)}
    for name in {"item", "label", "booklet", "group", "against", "board", "other"} & texts:
        cells = (None if text is None else write_cell(text) for text in table[name].to_pylist())
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(cells, pa.string()))
    for place, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            infinite = pa.compute.fill_null(pa.compute.is_inf(table[place]), False)
            numbers = pa.compute.if_else(infinite, pa.scalar(None, field.type), table[place])
            table = table.set_column(place, field, numbers)
    text = io.BytesIO()
    pa.csv.write_csv(table, text)
    return text.getvalue()


def _parquet(table: pa.Table) -> bytes:
    content = io.BytesIO()
    pa.parquet.write_table(table, content)
    return content.getvalue()


def _json(table: pa.Table) -> bytes:
    """A list of objects, one for each row; infinite numbers are the text "inf" or "-inf"."""
    rows = [
        {
            name: finite_or_text(value) if isinstance(value, float) else value
            for name, value in row.items()
        }
        for row in table.to_pylist()
    ]
    return (json.dumps(rows, default=str, ensure_ascii=False, indent=1) + "\n").encode()


WRITERS: dict[str, Callable[[pa.Table], bytes]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".json": _json,
}


def export_bytes(table: pa.Table, target: Path) -> bytes:
    """The table in the format that the ending of `target` names.

    Raises:
        ConfigError: the ending names no format.
    """
    writer = WRITERS.get(target.suffix)
    if writer is None:
        raise ConfigError(f"--out {target}: must end in {', '.join(WRITERS)}")
    return writer(table)


def _content(path: Place) -> bytes | None:
    try:
        return read_whole(path, MostBytes.RELEASE)
    except FileNotFoundError:
        return None
    except IsADirectoryError:  # in its place
        return b""
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be read: {error.strerror}") from error


def release_files(
    source: str, load_config: Callable[[Path], SurveyConfig]
) -> tuple[dict[str, bytes], bytes | None]:
    """The files of one release by name, and the lines of its ledger where a YAML file names it.

    Args:
        source: a folder of one release; an output folder, of which the release on top is taken, or
            else the last one that is kept; a `release.json`; or the YAML file of a job.
        load_config: reads a YAML file.

    Raises:
        ConfigError: there is no release, or it cannot be read.
    """
    ledger = None
    if source.endswith((".yaml", ".yml")):
        config = load_config(Path(source))
        place: Place = config.output
        ledger = bytes_of(str(config.ledger.path), "ledger.path")
    else:
        place = _cloud_path(source) if is_cloud(source) else Path(source)
        place = place.parent if place.name == RELEASE else place
    files = files_in(place)
    if RELEASE not in files and (kept := archived(place)):
        files = files_in(kept[-1])
    if RELEASE not in files:
        raise ConfigError(
            f"{source}: holds no release.json. Name the folder of a release, its release.json, or"
            " the YAML file of its job"
        )
    return files, ledger


def bytes_of(source: str, what: str) -> bytes:
    """The content of a file or an object.

    Raises:
        ConfigError: the file cannot be read; the text begins with `what`.
    """
    place = _cloud_path(source) if is_cloud(source) else Path(source)
    try:
        return read_whole(place, MostBytes.RECORDS)
    except OSError as error:
        raise ConfigError(f"{what} {source}: cannot be read: {error.strerror}") from None


def files_in(place: Place) -> dict[str, bytes]:
    """The files of a release that lie in a folder, by name."""
    found: dict[str, bytes] = {}
    for name in (*ALL_FILES, SUMS):
        try:
            found[name] = read_whole(place / name, MostBytes.RELEASE)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise ConfigError(f"{place / name}: cannot be read: {error.strerror}") from None
    return found


def _cloud_path(source: str) -> CloudPath:
    try:
        return CloudPath.parse(source)
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None
