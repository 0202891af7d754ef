"""A support bundle: what a helper needs to know about a run, without any data.

This module lists the content piece by piece; it copies no file whole that rows could have reached.
About the confidential area the bundle says which of hushrank's own file names are there. About an
unforeseen error it says where in the code it arose, never its text, which may quote a row.
"""

from __future__ import annotations

import io
import json
import logging
import os
import platform
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError, HushrankError
from hushrank.flows.ledger.texts import HISTORY_COLUMNS
from hushrank.flows.methods.registry import load_config
from hushrank.flows.reading import ERROR_FILE
from hushrank.flows.run.confidential_folder import (
    COUNTING_FILE,
    DRAWN_FILE,
    NAMES_FILE,
    SPACE_FILE,
)
from hushrank.flows.run.context import ledger_of
from hushrank.flows.watching.events import RunEvent, software_versions
from hushrank.pipelines.reduce.reduction_job import BITS_FILE, EXACT_FILE, TALLY_FILE
from hushrank.transforms.common.local_files import MostBytes, open_to_read, read_local
from hushrank.transforms.storage.places import write_whole

OUR_FILES = (
    *(EXACT_FILE, BITS_FILE, DRAWN_FILE, NAMES_FILE, SPACE_FILE, COUNTING_FILE, TALLY_FILE),
    ERROR_FILE,
)
LOG_LINES = 200
MOST_OF_A_LOG = 1 << 20  # bytes that are read for these lines
MISTAKES = ("BudgetRefused", "ConfigError", "NightWithoutFiles", "KeyboardInterrupt")
EXPLANATION = """\
Made by `hushrank support`. It holds the software's versions, the configuration, the ledger's
history, the last lines of the runs' log, which of hushrank's own files are in the confidential
area, and where in the code an unforeseen error arose. It holds no row of the input, no count, no
answer, no text of an unforeseen error and no name of an item. The configuration names files,
columns and the population: look through it before you send the bundle outside.
"""

_FRAME = re.compile(r'^  File "(?P<path>[^"]+)", line (?P<line>\d+), in (?P<function>[\w<>]+)$')
_RELEASE = re.compile(r"[0-9a-f]{16}")


class SupportFolder:
    """Puts a bundle into a folder when a run fails and the user made no mistake."""

    def __init__(self, folder: Path, config: SurveyConfig) -> None:
        """Args: the folder for bundles, and the configuration of the job."""
        self._folder, self._config = folder, config

    def tell(self, event: RunEvent) -> None:
        """Write a bundle if the event is such a failure."""
        if event.event != "run failed" or event.error in MISTAKES:
            return
        path = self._folder / bundle_name(event.time)
        _write(path, _contents(self._config))
        logging.getLogger(__name__).warning("%s: a support bundle, without data", path)


def write_bundle(survey: Path, target: Path) -> None:
    """Write the bundle of the job that `survey` describes.

    Raises:
        ConfigError: the target exists already.
        OSError: the target cannot be written.
    """
    if target.exists():
        raise ConfigError(f"{target}: exists already; name another file with --to.")
    try:
        contents = dict(_contents(load_config(survey)))
    except HushrankError as error:
        contents = dict(_software()) | {"configuration-error.txt": f"{error}\n"}
    _write(target, contents.items())


def _write(target: Path, contents: Iterable[tuple[str, str]]) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in contents:
            bundle.writestr(name, content)
    write_whole(str(target), buffer.getvalue())


def bundle_name(now: datetime) -> str:
    """Name of a bundle's file."""
    return f"hushrank-support-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}.zip"


def _software() -> Iterator[tuple[str, str]]:
    yield "README.txt", EXPLANATION
    yield "versions.json", _json(software_versions() | {"platform": platform.platform()})


def _contents(config: SurveyConfig) -> Iterator[tuple[str, str]]:
    yield from _software()
    yield "configuration.json", _json(_configuration(config))
    yield "ledger.txt", _ledger(config)
    if isinstance(config.confidential, Path):
        yield "confidential-files.json", _json(_files(config.confidential))
        yield "code-places.json", _json(_code_places(config.confidential))
    if (log := config.observability.log) is not None and log.is_file():
        yield "log-tail.txt", _end_of(log)


def _configuration(config: SurveyConfig) -> dict[str, Any]:
    """The configuration as checked, with defaults; of the catalogue only the number of items."""
    content: dict[str, Any] = json.loads(config.model_dump_json(exclude={"items"}))
    content["items"] = {"count": len(config.items.catalogue.names)}
    if config.items.unknown:
        content["items"] = config.items.identity()
    return content


def _ledger(config: SurveyConfig) -> str:
    try:
        rows = [HISTORY_COLUMNS, *(row.cells() for row in ledger_of(config).history())]
    except HushrankError as error:
        return f"{error}\n"
    return "".join(" | ".join(row) + "\n" for row in rows)


def _files(confidential: Path) -> dict[str, list[str]]:
    """List, for each release, hushrank's files that exist. No sizes, because a size tells of rows.

    It leaves out whether there are rejects, because one person's row decides that.
    """
    if not confidential.is_dir():
        return {}
    releases = sorted(path for path in confidential.iterdir() if _RELEASE.fullmatch(path.name))
    return {path.name: [name for name in OUR_FILES if (path / name).exists()] for path in releases}


def _code_places(confidential: Path) -> dict[str, list[str]]:
    """List, for each release, the frames of an unforeseen error that are in installed files."""
    return {
        path.parent.name: list(_frames(_text_of(path)))
        for path in sorted(confidential.glob(f"*/{ERROR_FILE}"))
        if _RELEASE.fullmatch(path.parent.name)
    }


def _frames(text: str) -> Iterator[str]:
    """Lines `module file:line function`. A value cannot pass as one: the file must be real code."""
    for line in text.splitlines():
        frame = _FRAME.match(line)
        if frame is not None and _is_code(Path(frame["path"]), frame["function"]):
            place = "/".join(Path(frame["path"]).parts[-3:])
            yield f"{place}:{int(frame['line'])} {frame['function']}"


def _is_code(path: Path, function: str) -> bool:
    """Whether `path` is a Python file that has `function` in it."""
    if path.suffix != ".py" or not path.is_file():
        return False
    special = function in ("<module>", "<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>")
    return special or f"def {function}(" in _text_of(path)


def _text_of(path: Path) -> str:
    """A text of ours; empty if the file is not fit to be read."""
    with suppress(OSError):
        return read_local(path, MostBytes.SETTINGS).decode(errors="replace")
    return ""


def _end_of(log: Path) -> str:
    """The last lines of a log, however long it is."""
    with suppress(OSError), open_to_read(log) as file:
        start = max(0, file.seek(0, os.SEEK_END) - MOST_OF_A_LOG)
        file.seek(start)
        lines = file.read(MOST_OF_A_LOG).decode(errors="replace").splitlines(keepends=True)
        return "".join(lines[1 if start else 0 :][-LOG_LINES:])
    return ""


def _json(content: object) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
