"""The spool: journals of answers that wait for the end of their night, and what becomes of them.

A folder on a local disk, of one process. A journal is `NIGHT.ID.journal` while answers are added to
it, and `NIGHT.ID.sealed` from the end of its night on, or once it is full. Its part is named by
NIGHT and ID. So a process that dies anywhere writes the same part again, or finds it written, and
no answer is in two parts:

    append, append, ... | rename to .sealed | write the part, once | keep marks of tokens | delete

Answers that a process finds when it starts go to their own night for `GRACE` after its end.
Later, that night may be ranked already, and they go to the present one.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from hushrank.flows.collect.forms import RowForm
from hushrank.flows.collect.journal import (
    Group,
    Journal,
    JournalContent,
    marks_in,
    read_journal,
    remove,
)
from hushrank.flows.collect.parts import PlaceOfPart, hide_time, write_part
from hushrank.flows.errors import ConfigError
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.storage.write import (
    OWNER_ONLY_FILE,
    TEMPORARY_NAME,
    flush_folder,
    make_folder,
    write_whole,
)

GRACE = timedelta(hours=1)
MOST_BYTES = 64 << 20  # of a journal: three million comparisons
MOST_PROCESSES = 64  # that share a folder of spools
OPEN, SEALED, DAMAGED, USED = ".journal", ".sealed", ".damaged", ".tokens"

Clock = Callable[[], datetime]  # the present moment, with its time zone
Tell = Callable[[str], None]  # prints a sentence for the operator


@dataclass(frozen=True)
class _Name:
    """The night and the id of a journal, as its file's name says them."""

    night: date
    id: str

    @classmethod
    def of(cls, path: Path) -> _Name:
        night, _, id_ = path.stem.partition(".")
        return cls(date.fromisoformat(night), id_)

    def path(self, folder: Path, ending: str) -> Path:
        return folder / f"{self.night.isoformat()}.{self.id}{ending}"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What all spools of a survey have in common.

    Attributes:
        form: of the answers that come now.
        place: where parts go.
        zone: in which a night begins and ends.
        clock: the time.
        bits: for the order of answers in a part.
        tell: speaks to the operator.
        most_bytes: a journal of this size is full.
    """

    form: RowForm
    place: PlaceOfPart
    zone: ZoneInfo
    clock: Clock
    bits: RandomBits
    tell: Tell
    most_bytes: int = MOST_BYTES

    @property
    def night(self) -> date:
        """The night to which an answer belongs that comes now."""
        return self.clock().astimezone(self.zone).date()


class Spool:
    """The journals of one process. One thread appends and turns; another may write parts.

    Attributes:
        folder: where they are.
        broken: whether the last group could not be kept.
    """

    def __init__(self, folder: Path, terms: Terms) -> None:
        """Take the spool in `folder`, and bring in order what a killed process left there.

        Raises:
            BlockingIOError: another process has it.
            OSError: it cannot be used.
        """
        make_folder(folder)
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, OWNER_ONLY_FILE)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise
        self.folder, self._terms, self.broken = folder, terms, False
        self._journal = self._recovered()

    def close(self) -> None:
        """Let go of the folder; the journals stay for the next process."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        os.close(self._lock)

    def append(self, group: Group) -> None:
        """Keep a group: on disk when this returns.

        Raises:
            OSError: it may be kept or not; a later group may succeed.
        """
        self.turn()
        try:
            if self._journal is None:
                name = _Name(self._terms.night, self._terms.bits.take(8).hex())
                path = name.path(self.folder, OPEN)
                self._journal = Journal.create(path, self._terms.form)
            self._journal.append(group)
        except OSError:
            self.broken = True
            self._set_apart()
            raise
        self.broken = False

    def turn(self) -> None:
        """Seal the journal if its night is over or it is full.

        Raises:
            OSError: it cannot be renamed.
        """
        if self._journal is None:
            return
        over = _Name.of(self._journal.path).night != self._terms.night
        if over or self._journal.size >= self._terms.most_bytes:
            self.seal()

    def seal(self) -> None:
        """Seal the journal whether or not its night is over.

        Raises:
            OSError: it cannot be renamed.
        """
        if self._journal is not None:
            path = self._journal.path
            self._journal.close()
            self._journal = None
            path.rename(path.with_suffix(SEALED))
            flush_folder(self.folder)

    def write_parts(self) -> int:
        """Write the parts of all sealed journals, and delete these; how many there were.

        Raises:
            OSError: a part cannot be written; its journal stays.
        """
        sealed = self._files(SEALED)
        flush_folder(self.folder)  # a part comes after the name that it follows from
        for path in sealed:
            name, content = _Name.of(path), self._read(path)
            if content is not None and content.rows:
                place = self._terms.place(name.night, name.id)
                write_part(place, content.rows, content.form, self._terms.bits)
                hide_time(place, name.night, self._terms.zone)
            if content is not None and (tokens := _tokens(content)):
                write_whole(str(name.path(self.folder, USED)), b"".join(sorted(tokens)))
            remove(path)
        return len(sealed)

    def used_tokens(self) -> Iterator[bytes]:
        """Marks of all tokens that came with an answer that was kept."""
        for path in self._files(USED):
            yield from marks_in(path.read_bytes())
        for content in self._contents():
            yield from _tokens(content)

    def submissions(self) -> Iterator[bytes]:
        """Marks of the submissions in all journals."""
        for content in self._contents():
            for group in content.groups:
                yield from group.submissions

    def _contents(self) -> Iterator[JournalContent]:
        for path in (*self._files(SEALED), *self._files(OPEN)):
            if (content := self._read(path)) is not None:
                yield content

    def waiting(self) -> int:
        """Bytes in journals."""
        sizes = []
        for path in (*self._files(SEALED), *self._files(OPEN)):
            with suppress(FileNotFoundError):
                sizes.append(path.stat().st_size)
        return sum(sizes)

    def _set_apart(self) -> None:
        """Cut off what a failed group left, and append nothing more to this journal."""
        if self._journal is not None:
            with suppress(OSError):
                os.truncate(self._journal.path, self._journal.size)
            self.seal()

    def _recovered(self) -> Journal | None:
        """The journal to go on with, if there is one."""
        for path in self.folder.iterdir():
            if TEMPORARY_NAME.fullmatch(path.name):  # of marks that were being written
                path.unlink()
        found: Journal | None = None
        for path in self._files(OPEN):
            content, name = self._read(path), _Name.of(path)
            if content is None:
                remove(path)
            elif (
                found is None
                and name.night == self._terms.night
                and content.form == self._terms.form
            ):
                found = Journal(path, content.form, content.size)
            else:
                night = name.night if self._in_time(name.night) else self._terms.night
                path.rename(_Name(night, name.id).path(self.folder, SEALED))
                flush_folder(self.folder)
        return found

    def _in_time(self, night: date) -> bool:
        """Whether answers of `night` that were found now may still be that night's."""
        end = datetime.combine(night + timedelta(days=1), time(), self._terms.zone)
        return night <= self._terms.night and self._terms.clock() - end <= GRACE

    def _read(self, path: Path) -> JournalContent | None:
        """What a journal holds; a damaged one is set apart, and said to be so."""
        try:
            content = read_journal(path)
        except ValueError:
            kept = path.with_suffix(DAMAGED)
            path.rename(kept)
            self._terms.tell(
                f"{kept}: the disk has damaged this file of answers; none can be read."
            )
            return None
        if content is not None and content.damaged:
            kept = path.with_suffix(DAMAGED)
            kept.write_bytes(path.read_bytes())
            os.truncate(path, content.size)
            self._terms.tell(
                f"{kept}: the disk has damaged this file of answers; those before the damage are"
                " kept."
            )
        return content

    def _files(self, ending: str) -> list[Path]:
        return sorted(self.folder.glob(f"*{ending}"))


def _tokens(content: JournalContent) -> list[bytes]:
    return [token for group in content.groups for token in group.tokens]


@contextmanager
def spools_can_be_used(folder: Path) -> Iterator[None]:
    """Say plainly which folder cannot be used, and why.

    Raises:
        ConfigError: the block raised OSError.
    """
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{folder}: answers cannot be kept here: {error.strerror}. Name another folder with"
            " --spool, or correct what is there."
        ) from None


def take_spool(folder: Path, terms: Terms, most: int = MOST_PROCESSES) -> Spool:
    """The first of the spools `folder`/0, `folder`/1, ... that no other process has.

    Raises:
        ConfigError: the folder cannot be used, or `most` processes have spools in it.
    """
    with spools_can_be_used(folder):
        for number in range(most):
            with suppress(BlockingIOError):
                return Spool(folder / str(number), terms)
    others = "another collector uses it" if most == 1 else f"{most} collectors use it"
    raise ConfigError(f"{folder}: {others}. Stop one, or name another folder with --spool.")


def seal_spools(folder: Path, terms: Terms) -> int:
    """Write what waits in spools that no process has into parts; how many parts there were.

    Raises:
        ConfigError: a spool cannot be read, or a part cannot be written.
    """
    written = 0
    with spools_can_be_used(folder):
        for own in sorted(path.parent for path in folder.glob("*/lock")):
            with suppress(BlockingIOError), closing(Spool(own, terms)) as spool:
                spool.seal()
                written += spool.write_parts()
    return written
