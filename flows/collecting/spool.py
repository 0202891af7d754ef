"""Spool: journals of answers that wait for the end of their night, and the parts that they become.

A folder on a local disk, of one process. A journal is `NIGHT.ID.journal` while answers are added to
it, and `NIGHT.ID.sealed` from the end of its night on, or once it is full. Its part is named by
NIGHT and ID. So a process that dies anywhere writes the same part again, or finds it written, and
no answer is in two parts:

    append, append, ... | rename to .sealed | write the part, once | keep marks of tokens | delete

Answers that a process finds when it starts go to their own night for `GRACE` after its end.
Later, that night may be ranked already, and they go to the present one.

If the disk refuses a group, its journal is let go at once and what the group left there is cut off.
No other group is kept before that is done, so an answer that was refused and sent again counts
once. A journal that an error left open is sealed by the next pass, `tend`, of the same process.

A file that comes back damaged or from elsewhere stops the collector only if answers would be
counted wrongly; each such file is named to the operator, in one sentence without its content.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from hushrank.flows.collecting.body import PlaceOfPart, hide_time, write_part
from hushrank.flows.collecting.journal import (
    MARK_BYTES,
    MOST_JOURNAL,
    Group,
    Journal,
    JournalContent,
    cut,
    marks_in,
    read_journal,
    remove,
)
from hushrank.flows.collecting.protocol import RowForm
from hushrank.flows.errors import ConfigError
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms import system
from hushrank.transforms.common.local_files import MostBytes, open_local, read_local
from hushrank.transforms.storage.places import (
    OWNER_ONLY_FILE,
    TEMPORARY_NAME,
    flush_folder,
    make_folder,
    write_whole,
)

OPEN, SEALED, DAMAGED, USED = ".journal", ".sealed", ".damaged", ".tokens"
_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})\.([0-9a-f]{16})(?:\.([0-9a-f]{8}))?")

Tell = Callable[[str], None]  # prints a sentence for the operator


@dataclass(frozen=True)
class SpoolName:
    """Night and id of a journal, as the names of its files state them.

    Attributes:
        check: check of the content, in the name of a file of tokens; empty: the name states none.
    """

    night: date
    id: str
    check: str = ""

    @classmethod
    def of(cls, name: str) -> SpoolName | None:
        """Parse a name without its extension; None: it is not a name of ours."""
        found = _NAME.fullmatch(name)
        try:
            return found and cls(date.fromisoformat(found[1]), found[2], found[3] or "")
        except ValueError:  # such as 2026-13-01
            return None

    def path(self, folder: Path, ending: str) -> Path:
        """Return the file of that name."""
        check = f".{self.check}" if self.check else ""
        return folder / f"{self.night.isoformat()}.{self.id}{check}{ending}"


class SpoolFiles:
    """Files of one spool."""

    def __init__(self, folder: Path, survey: str, tell: Tell) -> None:
        """
        Args:
            folder: folder of the spools.
            survey: name of the survey whose answers they hold.
            tell: speaks to the operator.
        """
        self._folder, self._survey, self._tell = folder, survey, tell

    def named(self, ending: str) -> list[tuple[Path, SpoolName]]:
        """List our files with this extension, in the order of their names."""
        found = []
        for name in sorted(os.listdir(self._folder)):
            stem, own = os.path.splitext(name)
            path = self._folder / name
            if own == ending and (said := SpoolName.of(stem)) and path.is_file():
                found.append((path, said))
        return found

    def name_strange(self) -> None:
        """Report each file that has our extension, but is not ours."""
        for name in os.listdir(self._folder):
            path, (stem, ending) = self._folder / name, os.path.splitext(name)
            if ending in (OPEN, SEALED, USED) and not (SpoolName.of(stem) and path.is_file()):
                self._tell(
                    f"{path}: is not a file of this collector, so it was left unchanged. If it came"
                    " from a copy of this folder, give it the name it had there; otherwise delete"
                    " it."
                )

    def used_tokens(self) -> Iterator[bytes]:
        """Yield the marks of the tokens in all files of used tokens.

        Raises:
            ConfigError: a file is damaged.
        """
        for path, name in self.named(USED):
            yield from _used_in(path, name.check)

    def journals(self) -> Iterator[JournalContent]:
        """Yield the content of all readable journals.

        Raises:
            ConfigError: a journal has answers of another survey.
        """
        for path, _ in (*self.named(SEALED), *self.named(OPEN)):
            if (content := self.journal(path)) is not None:
                yield content

    def journal(self, path: Path) -> JournalContent | None:
        """Read a journal; set a damaged one apart, and report that.

        Raises:
            ConfigError: the journal has answers of another survey.
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
        """Rename a journal that cannot be read, and report that."""
        kept = path.with_suffix(DAMAGED)
        path.rename(kept)
        self._tell(
            f"{kept}: the disk has damaged this file of answers; none can be read. If there is a"
            f" good copy, put it back as {path.name} and start again."
        )


def check_of(marks: bytes) -> str:
    """Check value of the content, for the name of a file of used tokens."""
    return f"{zlib.crc32(marks):08x}"


def _used_in(path: Path, check: str) -> tuple[bytes, ...]:
    """Read the marks in a file of used tokens.

    Raises:
        ConfigError: the file is not as it was written.
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


GRACE = timedelta(hours=1)
MOST_BYTES = 64 << 20  # bytes of a journal: three million comparisons
MOST_PROCESSES = 64  # processes that share a folder of spools

Clock = Callable[[], datetime]  # the present moment, with its time zone


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Settings that all spools of a survey share.

    Attributes:
        form: form of the answers that come now.
        place: function that says where parts go.
        zone: time zone in which a night begins and ends.
        clock: the time.
        bits: bits for the order of answers in a part.
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
        """Night to which an answer belongs that arrives now."""
        return self.clock().astimezone(self.zone).date()


class Spool:
    """Journals of one process. One thread appends and tends; another may write parts.

    Attributes:
        folder: folder of the spools.
        broken: whether the last group could not be kept.
        parts: number of parts that this process wrote.
    """

    def __init__(self, folder: Path, terms: Terms) -> None:
        """Take the spool in `folder`, and repair what a killed process left there.

        Raises:
            BlockingIOError: another process has it.
            OSError: the folder cannot be used.
        """
        make_folder(folder)
        self.folder, self._terms, self.broken, self.parts = folder, terms, False, 0
        self._files = SpoolFiles(folder, terms.form.survey, terms.tell)
        self._journal: Journal | None = None
        self._refused: tuple[Path, int] | None = None  # a journal, and its size without refused
        self._lock = open_local(folder / "lock", os.O_RDWR | os.O_CREAT, mode=OWNER_ONLY_FILE)
        try:
            system.lock_at_once(self._lock)
            self._recover()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the folder; the journals stay for the next process."""
        self._let_go()
        try:
            self._cut_refused()
        except OSError as error:
            self._terms.tell(
                f"{self.folder}: answers that were refused cannot be cut off a journal:"
                f" {error.strerror}. If they are not sent again, they count nevertheless."
            )
        with suppress(OSError):
            os.close(self._lock)

    def append(self, group: Group) -> None:
        """Store a group; it is on disk when this returns.

        Raises:
            OSError: the group is not kept, and will not be counted; a later group may be kept.
        """
        try:
            self._cut_refused()
            self._keep(group)
        except OSError as error:
            if not self.broken:
                self._terms.tell(
                    f"{self.folder}: answers cannot be kept: {error.strerror}. They are refused"
                    " until a write succeeds; one is tried every few seconds."
                )
            self.broken = True
            raise
        if self.broken:
            self._terms.tell(f"{self.folder}: answers can be kept again.")
        self.broken = False

    def tend(self) -> None:
        """Seal due journals; while answers cannot be stored, try a write.

        Raises:
            OSError: a journal cannot be sealed.
        """
        if self.broken:
            with suppress(OSError):  # the journal is still broken, which was said
                self.append(Group(b""))
        self.turn()

    def turn(self) -> None:
        """Seal the journal if its night is over or it is full, and those that errors left open.

        Raises:
            OSError: a journal cannot be renamed.
        """
        self._seal_left(self._let_go() if self._is_due() else None)

    def seal(self) -> None:
        """Seal all journals, even if their night is not over.

        Raises:
            OSError: a journal cannot be renamed.
        """
        self._seal_left(self._let_go())

    def write_parts(self) -> int:
        """Write the parts of all sealed journals, delete these, and return their number.

        Raises:
            OSError, ConfigError: the first error among journals that cannot become parts; these
                stay.
        """
        sealed, before = self._files.named(SEALED), self.parts
        failures: list[OSError | ConfigError] = []
        for name in os.listdir(self.folder):
            if TEMPORARY_NAME.fullmatch(name):  # marks that a process died or failed in writing
                (self.folder / name).unlink(missing_ok=True)
        flush_folder(self.folder)  # a part comes after the name that it follows from
        for path, own in sealed:
            try:
                self.parts += self._write_part(path, own)
            except (OSError, ConfigError) as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return self.parts - before

    def used_tokens(self) -> Iterator[bytes]:
        """Yield the marks of all tokens whose answers were stored.

        Raises:
            ConfigError: a file of them is damaged.
        """
        yield from self._files.used_tokens()
        for content in self._files.journals():
            yield from content.tokens

    def contents(self) -> Iterator[tuple[str, JournalContent]]:
        """Yield the id and the content of each readable journal.

        Raises:
            ConfigError: one has answers of another survey.
        """
        for path, name in (*self._files.named(SEALED), *self._files.named(OPEN)):
            if (content := self._files.journal(path)) is not None:
                yield name.id, content

    def submissions(self) -> Iterator[bytes]:
        """Yield the marks of the submissions in all journals.

        Raises:
            ConfigError: a journal has answers of another survey.
        """
        for content in self._files.journals():
            for group in content.groups:
                yield from group.submissions

    def waiting(self) -> int:
        """Number of bytes in journals."""
        sizes = []
        for path, _ in (*self._files.named(SEALED), *self._files.named(OPEN)):
            with suppress(FileNotFoundError):
                sizes.append(path.stat().st_size)
        return sum(sizes)

    def _keep(self, group: Group) -> None:
        if self._is_due():
            with suppress(OSError):  # the next pass seals it
                self.turn()
        if self._journal is None:
            name = SpoolName(self._terms.night, self._terms.bits.take(8).hex())
            self._journal = Journal.create(name.path(self.folder, OPEN), self._terms.form)
        try:
            self._journal.append(group)
        except OSError:
            self._refused = self._journal.path, self._journal.size
            let_go = self._let_go()
            with suppress(OSError):  # the next group or pass tries again
                self._cut_refused()
                self._seal_left(let_go)
            raise

    def _is_due(self) -> bool:
        """Whether the journal's night is over, or the journal is full."""
        if self._journal is None:
            return False
        full = self._journal.size >= self._terms.most_bytes
        return full or self._journal.path.name[:10] != self._terms.night.isoformat()

    def _let_go(self) -> Path | None:
        """Close the journal for appending, and return its path."""
        journal, self._journal = self._journal, None
        if journal is None:
            return None
        journal.close()
        return journal.path

    def _cut_refused(self) -> None:
        """Cut off the bytes of a refused group.

        Raises:
            OSError: the group may be there still, so nothing may be kept: its sender would send it
                again.
        """
        if self._refused is not None:
            cut(*self._refused)
            self._refused = None

    def _seal_left(self, let_go: Path | None) -> None:
        """Seal all journals except the open one, and one from which refused answers must be cut.

        Args:
            let_go: the one that was open until now; others were left by an error.

        Raises:
            OSError: the first error among journals that cannot be renamed.
        """
        kept = (self._journal and self._journal.path, self._refused and self._refused[0])
        left = [each for each in self._files.named(OPEN) if each[0] not in kept]
        failures = []
        for path, name in left:
            own = path == let_go or self._in_time(name.night)
            night = name.night if own else self._terms.night
            try:
                path.rename(SpoolName(night, name.id).path(self.folder, SEALED))
            except OSError as error:
                failures.append(error)
                continue
            if path != let_go:
                self._terms.tell(
                    f"{path}: was left by an error or by a collector that ended; its"
                    f" answers go to the part of {night}."
                )
        if left:
            flush_folder(self.folder)
        if failures:
            raise failures[0]

    def _recover(self) -> None:
        """Continue the journal of this night, if there is one; the first pass seals others."""
        self._files.name_strange()
        for path, own in self._files.named(OPEN):
            if own.night == self._terms.night and self._journal is None:
                content = self._files.journal(path)
                if content is not None and content.form == self._terms.form:
                    with suppress(OSError):  # the journal is sealed, and another one begins
                        self._journal = Journal(path, content.form, content.size)

    def _write_part(self, path: Path, name: SpoolName) -> bool:
        """Write the part of a sealed journal, unless it is there, and delete the journal.

        Returns:
            Whether the journal had answers.

        Raises:
            OSError, ConfigError: the part cannot be written, and the journal stays.
        """
        content = self._files.journal(path)
        if content is None:
            return False
        if content.rows:
            place = self._terms.place(name.night, name.id)
            try:
                write_part(place, name.id, content.rows, content.form, self._terms.bits)
            except (ValueError, IndexError, TypeError):  # whole, but written by another program
                self._files.set_apart(path)
                return False
            hide_time(place, name.night, self._terms.zone)
        if content.tokens:
            marks = b"".join(sorted(content.tokens))
            used = SpoolName(name.night, name.id, check_of(marks))
            write_whole(str(used.path(self.folder, USED)), marks)
        remove(path)
        return bool(content.rows)

    def _in_time(self, night: date) -> bool:
        """Whether answers of `night` that were found now may still belong to that night."""
        end = datetime.combine(night + timedelta(days=1), time(), self._terms.zone)
        return night <= self._terms.night and self._terms.clock() - end <= GRACE


@contextmanager
def spools_can_be_used(folder: Path) -> Iterator[None]:
    """Report a folder that cannot be used, and the reason.

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
    """Take the first of the spools `folder`/0, `folder`/1, ... that no other process has.

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
    """Write waiting answers in unused spools into parts; return the number of parts.

    Raises:
        ConfigError: there is no spool, one cannot be read, or a part cannot be written.
    """
    written, found = 0, False
    with spools_can_be_used(folder):
        for own in sorted(folder.iterdir()) if folder.is_dir() else ():
            if not (own / "lock").exists():
                continue
            found = True
            try:
                spool = Spool(own, terms)
            except BlockingIOError:
                terms.tell(
                    f"{own}: a collector uses it, so its answers were not written. Stop it first."
                )
                continue
            with closing(spool):
                spool.seal()
                written += spool.write_parts()
    if not found:
        raise ConfigError(
            f"{folder}: no collector has kept answers here, so there is nothing to write. Name its"
            " folder with --spool."
        )
    return written
