"""The files in a spool: their names, and what they hold if they are as they were written.

Nothing that comes back damaged or from elsewhere stops the collector unless answers would be
counted wrongly; each such file is named to the operator, in one sentence without its content.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from hushrank.flows.collecting.journal import (
    MARK_BYTES,
    MOST_JOURNAL,
    JournalContent,
    cut,
    marks_in,
    read_journal,
    remove,
)
from hushrank.flows.errors import ConfigError
from hushrank.transforms.common.local_files import MostBytes, read_local
from hushrank.transforms.storage.write import write_whole

OPEN, SEALED, DAMAGED, USED = ".journal", ".sealed", ".damaged", ".tokens"
_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})\.([0-9a-f]{16})(?:\.([0-9a-f]{8}))?")

Tell = Callable[[str], None]  # prints a sentence for the operator


@dataclass(frozen=True)
class SpoolName:
    """The night and the id of a journal, as the names of its files say them.

    Attributes:
        check: of the content, in the name of a file of tokens; empty: the name states none.
    """

    night: date
    id: str
    check: str = ""

    @classmethod
    def of(cls, name: str) -> SpoolName | None:
        """What a name without its ending says; None: it is no name of ours."""
        found = _NAME.fullmatch(name)
        try:
            return found and cls(date.fromisoformat(found[1]), found[2], found[3] or "")
        except ValueError:  # such as 2026-13-01
            return None

    def path(self, folder: Path, ending: str) -> Path:
        """The file of that name."""
        check = f".{self.check}" if self.check else ""
        return folder / f"{self.night.isoformat()}.{self.id}{check}{ending}"


class SpoolFiles:
    """The files of one spool."""

    def __init__(self, folder: Path, survey: str, tell: Tell) -> None:
        """
        Args:
            folder: where they are.
            survey: name of the survey whose answers they hold.
            tell: speaks to the operator.
        """
        self._folder, self._survey, self._tell = folder, survey, tell

    def named(self, ending: str) -> list[tuple[Path, SpoolName]]:
        """Our files with this ending, in the order of their names."""
        found = []
        for name in sorted(os.listdir(self._folder)):
            stem, own = os.path.splitext(name)
            path = self._folder / name
            if own == ending and (said := SpoolName.of(stem)) and path.is_file():
                found.append((path, said))
        return found

    def name_strange(self) -> None:
        """Name each file that ends like ours and is not ours."""
        for name in os.listdir(self._folder):
            path, (stem, ending) = self._folder / name, os.path.splitext(name)
            if ending in (OPEN, SEALED, USED) and not (SpoolName.of(stem) and path.is_file()):
                self._tell(
                    f"{path}: is no file of this collector, so it was left as it is. If it came"
                    " from a copy of this folder, give it the name it had there; else remove it."
                )

    def used_tokens(self) -> Iterator[bytes]:
        """Marks of the tokens in all files of used tokens.

        Raises:
            ConfigError: one of the files is damaged.
        """
        for path, name in self.named(USED):
            yield from _used_in(path, name.check)

    def journals(self) -> Iterator[JournalContent]:
        """What all journals hold that can be read.

        Raises:
            ConfigError: one has answers of another survey.
        """
        for path, _ in (*self.named(SEALED), *self.named(OPEN)):
            if (content := self.journal(path)) is not None:
                yield content

    def journal(self, path: Path) -> JournalContent | None:
        """What a journal holds; a damaged one is set apart, and said to be so.

        Raises:
            ConfigError: it has answers of another survey.
        """
        try:
            content = read_journal(path)
        except ValueError:
            self.set_apart(path)
            return None
        if content is None:
            self._tell(
                f"{path}: ends before its first answer, as a collector leaves it that is killed"
                " when it begins a journal; it was deleted."
            )
            remove(path)
        elif content.form.survey not in ("", self._survey):
            raise ConfigError(
                f"{path}: holds answers of another survey, {content.form.survey[:80]}. Name another"
                " folder with --spool, or write them with that survey's file and --seal first."
            )
        elif content.damaged:
            kept = path.with_suffix(DAMAGED)
            write_whole(str(kept), read_local(path, MOST_JOURNAL))
            cut(path, content.size)
            self._tell(
                f"{kept}: the disk has damaged this file of answers; those before the damage are"
                " kept."
            )
        elif content.torn:
            cut(path, content.size)
            self._tell(
                f"{path}: its end is torn, as a killed collector leaves it; answers there were not"
                " acknowledged, unless the disk has damaged this file. They were cut off."
            )
        return content

    def set_apart(self, path: Path) -> None:
        """Rename a journal that cannot be read, and say so."""
        kept = path.with_suffix(DAMAGED)
        path.rename(kept)
        self._tell(
            f"{kept}: the disk has damaged this file of answers; none can be read. If there is a"
            f" good copy, put it back as {path.name} and start again."
        )


def check_of(marks: bytes) -> str:
    """What the name of a file of used tokens says of its content."""
    return f"{zlib.crc32(marks):08x}"


def _used_in(path: Path, check: str) -> tuple[bytes, ...]:
    """The marks in a file of used tokens.

    Raises:
        ConfigError: it is not as it was written.
    """
    content = read_local(path, MostBytes.RECORDS)
    marks = marks_in(content)
    whole = content and not len(content) % MARK_BYTES and list(marks) == sorted(marks)
    if not whole or (check and check_of(content) != check):
        raise ConfigError(
            f"{path}: this file of used tokens is damaged, so a token could be used again. Put it"
            " back from a copy; without one, remove it, and whoever answered then may answer again."
        )
    return marks
