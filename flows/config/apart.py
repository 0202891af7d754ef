"""Rule that places of the YAML file must be apart: hushrank never writes what it reads."""

from __future__ import annotations

import glob
import itertools
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from enum import Enum
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

from hushrank.flows.config.method import Problems, Sections
from hushrank.flows.config.section import (
    GIT_PREFIX,
    anchor_place,
    check_can_be_written,
)
from hushrank.flows.errors import ConfigError
from hushrank.transforms.storage.files import is_input_name
from hushrank.transforms.storage.places import CloudPath, Place, is_cloud
from hushrank.transforms.tables.names import DELTA, MAGIC, as_regex


class Use(Enum):
    """Use that hushrank makes of a place."""

    INPUT = "reads the rows of these files, folders and patterns"
    READ = "reads this file"
    WRITTEN = "writes this file; some it reads again"
    OWN_FOLDER = "writes and reads this folder, in which nothing else may be"
    SHARED_FOLDER = "puts files with names of their own into this folder"


USES = {  # every place that a YAML file can name, by dotted key
    "input.paths": Use.INPUT,
    "items.file": Use.READ,
    "privacy.epsilon_table": Use.READ,
    "model.exposures": Use.READ,
    "model.item_features": Use.READ,
    "input.pairs": Use.READ,
    "report.audit": Use.READ,
    "ledger.signing_key": Use.READ,
    "ledger.terms_key": Use.READ,
    "collect.texts": Use.READ,
    "collect.pairs": Use.READ,
    "runner.job_server_jar": Use.READ,
    "runner.wheel": Use.READ,
    "runner.binary": Use.READ,
    "supersedes": Use.READ,
    "output": Use.OWN_FOLDER,
    "confidential": Use.OWN_FOLDER,
    "ledger.path": Use.WRITTEN,
    "ledger.anchor": Use.WRITTEN,
    "observability.log": Use.WRITTEN,
    "observability.metrics": Use.WRITTEN,
    "observability.lineage.file": Use.WRITTEN,
    "observability.support": Use.SHARED_FOLDER,
    "collect.folder": Use.SHARED_FOLDER,
    "runner.spill": Use.SHARED_FOLDER,
}
SURVEY_FILE = "the YAML file"
BESIDE_LEDGER = (".length", ".key", ".lock", ".runs")
ANCHOR_IN_GIT = "hushrank-anchor.jsonl"
# Files of a run in its own folder; an input pattern may match files in their place.
_LEFT_BEHIND = {
    "output": ("release.json", "ranking.csv", "releases/2026-11-20-0123456789abcdef/ranking.csv"),
    "confidential": ("0123456789abcdef/rejects/part.parquet", "ledgers.json"),
}
_DATE = re.compile(r"\{date(?::([^{}]+))?\}")
ANY_NIGHT = date(2026, 11, 20)  # other dates differ only in their digits
_NO_CASE = " (upper and lower case do not tell files apart on Windows and macOS)"
_NEVER = "hushrank must never write where it reads; name another place"


def contains(outer: Place, inner: Place) -> bool:
    """Whether `inner` is `outer` or is in it, with links followed."""
    if isinstance(outer, CloudPath):
        return isinstance(inner, CloudPath) and outer.contains(inner)
    return isinstance(inner, Path) and is_in_folder(real_path(inner), real_path(outer))


def folded(path: Path | str) -> str:
    """Return the text by which macOS and Windows tell files apart: without case, with slashes.

    Folders may be shared with those systems, so two places whose texts are equal are one place.
    As on macOS, ß is SS, ς is σ, and ﬁ is fi; Windows takes fewer for equal.
    """
    text = path.as_posix() if isinstance(path, Path) else path
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def is_in_folder(inner: Path, outer: Path) -> bool:
    """Whether `inner` is `outer` or is in it on some system, with no links followed."""
    return PurePosixPath(folded(inner)).is_relative_to(folded(outer))


def real_path(path: Path) -> Path:
    """Return the path with its links followed, as far as they lead to a file."""
    return Path(os.path.realpath(path))


@dataclass(frozen=True)
class NamedPlace:
    """Place that the YAML file names.

    Attributes:
        key: the dotted key that names it.
        use: use that hushrank makes of it.
        place: the place; of the input the text as configured.
    """

    key: str
    use: Use
    place: Place | str

    @property
    def is_written(self) -> bool:
        """Whether hushrank writes there."""
        return self.use not in (Use.INPUT, Use.READ)

    @cached_property
    def real(self) -> Place | None:
        """Return the place with links followed; for an input path, its beginning; None: a table."""
        place = _base_of(self.place) if isinstance(self.place, str) else self.place
        return real_path(place) if isinstance(place, Path) else place

    @cached_property
    def number(self) -> tuple[int, int] | None:
        """Device and inode number, which hard links share; None: nothing is there."""
        if isinstance(self.real, Path):
            with suppress(OSError):
                found = os.stat(self.real)
                return found.st_dev, found.st_ino
        return None

    def is_at(self, other: NamedPlace) -> bool:
        """Whether both are the same place, on some system."""
        if isinstance(self.real, Path) and isinstance(other.real, Path):
            same = folded(self.real) == folded(other.real)
        else:
            same = self.real is not None and self.real == other.real
        return same or (self.number is not None and self.number == other.number)

    def is_in(self, other: NamedPlace) -> bool:
        """Whether the place is `other`, or below it."""
        if isinstance(other.real, CloudPath):
            return isinstance(self.real, CloudPath) and other.real.contains(self.real)
        if isinstance(self.real, Path) and isinstance(other.real, Path):
            return is_in_folder(self.real, other.real)
        return False


def named_places(config: object, survey: Path | None = None) -> list[NamedPlace]:
    """List every place that a configuration names, and the places beside them that hushrank makes.

    Args:
        config: the configuration, whose attributes are the keys of the file.
        survey: the YAML file; None, or a path at which there is no file: it has none.
    """
    found = [NamedPlace(SURVEY_FILE, Use.READ, survey)] if survey and survey.is_file() else []
    for key, use in USES.items():
        value = config
        for name in key.split("."):
            value = getattr(value, name, None)
        if use is Use.INPUT and isinstance(value, tuple):
            found += [NamedPlace(key, use, text) for text in value]
        elif isinstance(value, tuple):
            paths = (place for place in value if isinstance(place, Path | CloudPath))
            found += [NamedPlace(key, use, place) for place in paths]
        elif isinstance(value, str):
            found += [NamedPlace(key, use, place) for place in _places_of_anchor(value)]
        elif isinstance(value, Path | CloudPath):
            beside = BESIDE_LEDGER if key == "ledger.path" else ()
            others = (value.parent / f"{value.name}{ending}" for ending in beside)
            found += [NamedPlace(key, use, place) for place in (value, *others)]
    return found


def _places_of_anchor(anchor: str) -> list[Place]:
    place = anchor_place(anchor)
    if anchor.startswith(GIT_PREFIX):
        return [place / ANCHOR_IN_GIT]
    return [place] if isinstance(place, CloudPath) else [place, place.parent / f"{place.name}.lock"]


def conflicts(places: Sequence[NamedPlace]) -> Iterator[tuple[str, str]]:
    """Yield key and text of each pair of places in which hushrank would write what it reads.

    Two places that are only read may be one. Links are followed, hard links too.
    """
    seen = set[tuple[str, str]]()
    for one, other in itertools.combinations(places, 2):
        if one.key == other.key or (one.key, other.key) in seen:
            continue
        if not one.is_written and not other.is_written:
            continue
        inner, outer = (other, one) if other.is_written else (one, other)
        for clash in (_clash(inner, outer), _clash(outer, inner)):
            if clash is not None:
                seen.add((one.key, other.key))
                yield clash
                break


def _clash(inner: NamedPlace, outer: NamedPlace) -> tuple[str, str] | None:
    """Problem if `inner` is `outer`, is in it, or would be read as part of it; None: there is
    none."""
    if outer.use is Use.INPUT:
        if inner.key == "collect.folder" or not _is_read(inner, outer):
            return None
        asked = f"{outer.key} ({outer.place}){_case_of(inner.real, outer.real)}"
        return inner.key, f"would be read as a file of {asked}; {_NEVER}"
    if inner.use is Use.INPUT:
        own = outer.use is Use.OWN_FOLDER
        if not own or not (inner.is_in(outer) or inner.is_at(outer)):
            return None
        own_folder = f"{outer.key}{_case_of(inner.real, outer.real)}"
        return (
            inner.key,
            f"({inner.place}) is in {own_folder}, which only hushrank writes; {_NEVER}",
        )
    if inner.is_at(outer):
        case = _case_of(inner.real, outer.real)
        return inner.key, f"and {outer.key} are one place{case}; {_NEVER}"
    if outer.use is Use.SHARED_FOLDER or not inner.is_in(outer):
        return None
    case = _case_of(inner.real, outer.real)
    return inner.key, f"is in {outer.key}{case}, in which nothing else may be; name another place"


def _case_of(one: Place | None, other: Place | None) -> str:
    """Note on two places of which one is in the other only where case tells no files apart."""
    if not (isinstance(one, Path) and isinstance(other, Path)):
        return ""
    pairs = [(real_path(a), real_path(b)) for a, b in ((one, other), (other, one))]
    exactly = any(PurePosixPath(a.as_posix()).is_relative_to(b.as_posix()) for a, b in pairs)
    return _NO_CASE if not exactly and any(is_in_folder(*pair) for pair in pairs) else ""


def _base_of(path: str) -> Place | None:
    """Return the place at which an input path begins, before its first wildcard; None: a table."""
    path = _without_table(path)
    magic = MAGIC.search(path.replace("{date", "*"))
    start = path if magic is None else f"{path[: magic.start()].rpartition('/')[0]}/"
    if is_cloud(path):
        with suppress(ValueError):  # listing the files reports this error
            return CloudPath.parse(start)
    return Path(start) if os.path.isabs(path) else None


def _without_table(path: str) -> str:
    """Return the folder of a Delta table; another path unchanged."""
    return path.removeprefix(DELTA).partition("?version=")[0] if path.startswith(DELTA) else path


def _pattern_of(path: str, form: Callable[[str], str] = str) -> str:
    """Build the regular expression of the names that an input path matches on any night.

    Args:
        path: the input path.
        form: form in which names are matched; each text of the path is brought into it.
    """
    text, *others = _DATE.split(path)
    parts = [as_regex(form(text))]
    for code, text in zip(others[::2], others[1::2], strict=True):
        example = re.escape(form(ANY_NIGHT.strftime(code or "%Y-%m-%d")))
        parts += [re.sub(r"\d+", r"\\d+", example), as_regex(form(text))]
    return "".join(parts)


def _is_read(written: NamedPlace, rows: NamedPlace) -> bool:
    """Whether an input path matches a file that hushrank writes."""
    place, real, base = written.place, written.real, rows.real
    if isinstance(place, str) or real is None or base is None or written.use is Use.SHARED_FOLDER:
        return False  # files of a shared folder do not have an input's extension
    pattern = _without_table(str(rows.place))
    if MAGIC.search(pattern) is None and "{date" not in pattern:
        if rows.is_at(written):
            return True
        if isinstance(base, Path) and base.is_file():
            return False
        pattern = glob.escape(base.as_posix() if isinstance(base, Path) else str(base))
    is_local = isinstance(base, Path)
    names = _LEFT_BEHIND.get(written.key, ("",))
    files = [each / name if name else each for each in {place, real} for name in names]
    texts = [each.as_posix() if isinstance(each, Path) else str(each) for each in files]
    # As they are written too: folding may empty a range, as that of [Z-a].
    for form in (str, folded) if is_local else (str,):
        with suppress(re.error):  # listing the files reports this error
            wanted = re.compile(_pattern_of(pattern, form), re.IGNORECASE if is_local else 0)
            if any(_stands_for(wanted, form(text)) for text in texts):
                return True
    return False


def _stands_for(wanted: re.Pattern[str], file: str) -> bool:
    """Whether a pattern matches `file`, or a folder above it whose files are all read."""
    if wanted.fullmatch(file):
        return not file.rpartition("/")[2].startswith(".")
    parts = file.split("/")
    return any(
        is_input_name(PurePosixPath(*parts[end:]))
        for end in range(1, len(parts))
        if wanted.fullmatch("/".join(parts[:end]) or "/")
    )


def check_files_apart(places: Sequence[NamedPlace], files: Iterable[str]) -> None:
    """Refuse input files that hushrank would write to, through whichever links they are found.

    Args:
        places: places of the configuration.
        files: paths of the local input files that were found.

    Raises:
        ConfigError: a file that is read is also written, or lies in a folder of hushrank's own.
    """
    numbers = {each.number: each.key for each in places if each.use is Use.WRITTEN}
    own = [each for each in places if each.use is Use.OWN_FOLDER]
    folders = [(each.key, folded(each.real)) for each in own if isinstance(each.real, Path)]
    real = cache(lambda path: folded(real_path(Path(path))))
    for file in files:
        where = real(file) if os.path.islink(file) else real(os.path.dirname(file))
        inside = (key for key, folder in folders if f"{where}/".startswith(f"{folder}/"))
        with suppress(OSError):
            found = os.stat(file)
            if key := numbers.get((found.st_dev, found.st_ino)) or next(inside, None):
                raise ConfigError(
                    f"input.paths: {file} is a file of {key}; {_NEVER}. Nothing was read or spent."
                )


def check_written_places(config: Sections) -> None:
    """Refuse a file of section `observability` if its place is taken by something else.

    Raises:
        ConfigError: a place is a folder, a FIFO, a device or a socket.
    """
    for named in named_places(config):
        if named.use is Use.WRITTEN and named.key.startswith("observability."):
            check_can_be_written(named.key, Path(str(named.place)))


def problems_of_places(config: Sections, survey: Path | None) -> Problems:
    """Yield key and text of the rules that places break together.

    Args:
        config: the sections.
        survey: the YAML file; None: there is none.
    """
    special = [*_problems_of_places(config), *_problems_of_guards(config)]
    yield from special
    if not special:  # otherwise one fault would be reported twice
        yield from conflicts(named_places(config, survey))


def _problems_of_places(config: Sections) -> Problems:
    output, confidential, ledger = config.output, config.confidential, config.ledger.path
    if contains(output, confidential) or contains(confidential, output):
        yield (
            "confidential",
            f"and output must not contain each other{_case_of(output, confidential)}; name"
            " separate folders",
        )
    if contains(output, ledger):
        yield (
            "ledger.path",
            f"must not be in output{_case_of(ledger, output)}, which holds files that may be"
            " published; move it",
        )
    if contains(confidential, ledger):
        yield (
            "ledger.path",
            f"must not be in confidential{_case_of(ledger, confidential)}: clearing that folder"
            " would delete the record of spending; move it",
        )
    if config.name in config.ledger.other_people:
        yield "ledger.other_people", f"must not name {config.name} itself; remove it"


def _problems_of_guards(config: Sections) -> Problems:
    """Yield the broken rules for places that show whether somebody changed the ledger."""
    ledger, guards = config.ledger.path, config.ledger
    anchor = None if guards.anchor is None else anchor_place(guards.anchor)
    for key, place in (
        ("signing_key", guards.signing_key),
        ("terms_key", guards.terms_key),
        ("anchor", anchor),
    ):
        if place is None:
            continue
        if contains(config.output, place) or contains(config.confidential, place):
            yield f"ledger.{key}", "must be neither in output nor in confidential; move it"
    if isinstance(ledger, CloudPath) and isinstance(anchor, CloudPath):
        if ledger.bucket == anchor.bucket:
            yield (
                "ledger.anchor",
                "is in the bucket of the ledger; somebody who can restore an older ledger can"
                " write there;"
                " name another bucket",
            )
    elif anchor is not None and contains(ledger.parent, anchor):
        yield (
            "ledger.anchor",
            "is in the folder of the ledger, and a copy of that folder would bring both back; name"
            " a place on another disk or host",
        )
