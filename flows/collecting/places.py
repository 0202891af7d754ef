"""Places of a survey's parts: where they wait, and where the night of the same file reads them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit

from hushrank.flows.collecting.body import PlaceOfPart
from hushrank.flows.config.apart import NamedPlace, Use, conflicts, named_places
from hushrank.flows.config.schedule import date_formats, reads
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.transforms.storage.cloud_storage import Place
from hushrank.transforms.storage.files import FileFormat

SPOOL = "collector"  # folder in the confidential area


def place_of_parts(config: SurveyConfig, folder: Place, night: date) -> PlaceOfPart:
    """Return the place of a journal's part, by its night and id; the night reads it there.

    Args:
        config: the survey.
        folder: `collect.folder`.
        night: any, to try the paths with.

    Raises:
        ConfigError: no night would read such a file.
    """
    schedule = config.schedule
    if schedule.window is not None:
        raise ConfigError(
            "schedule.window: answers that are collected have no time; remove it, and write {date}"
            " in input.paths or schedule.partition: date."
        )
    if config.input.format not in (None, FileFormat.PARQUET):
        raise ConfigError("input.format: the collector writes Parquet; remove this line.")
    for form in _forms(config):

        def place(night: date, id_: str, form: str = form) -> Place:
            found = folder
            for part in (*night.strftime(form).split("/"), f"part-{id_}.parquet"):
                found = found / part
            return found

        if reads(config.input.paths, str(place(night, "0")), night):
            return place
    raise ConfigError(
        f"input.paths: none matches the collector's files, such as {place(night, 'ID')}. Write"
        f" for example {folder}/{{date}}/*.parquet"
    )


def _forms(config: SurveyConfig) -> Iterator[str]:
    """Yield the names that a folder may have for its night, as formats of `strftime`."""
    if config.schedule.partition is not None:
        yield f"{config.schedule.partition}=%Y-%m-%d"
        return
    yield "%Y-%m-%d"
    yield from date_formats(config.input.paths)


def spool_folder(config: SurveyConfig, chosen: Path | None) -> Path:
    """Return the folder of the journals: the chosen one, or one in the confidential area.

    Raises:
        ConfigError: no folder was chosen, and that area is not on this machine; or the folder that
            was chosen is, or holds, another place of the survey.
    """
    if chosen is not None:
        others = (each for each in named_places(config) if each.key != "confidential")
        spool = NamedPlace("--spool", Use.OWN_FOLDER, chosen.absolute())
        for key, why in conflicts([*others, spool]):
            raise ConfigError(f"{key}: {why}. Nothing was written.")
        return chosen
    if not isinstance(config.confidential, Path):
        raise ConfigError(
            f"confidential: {config.confidential} is not on this machine, and answers wait on a"
            " local disk until the end of their night. Name a folder with --spool."
        )
    return config.confidential / SPOOL


def path_of(url: str) -> str:
    """Return the path of `collect.url`, which may be an address or stand beside the page."""
    path = urlsplit(url).path if "://" in url else url
    return f"/{path.lstrip('/')}"
