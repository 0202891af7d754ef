"""Which files a survey goes on from, and what they are called in a backup.

Copied are: the ledger and its key; the noisy results and the streams that the ledger knows; the
record of how far the ledger was (`ledgers.json`); the archive of releases; and the YAML file, for
people. Not copied are: input files, rejected rows, row counts, digests of inputs, and exact counts,
but for those of earlier nights from which a stream draws its later ones. Nor is the key that signs
a ledger: whoever had the copy could sign in its owner's place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.ledger.account import Account, Attempt
from hushrank.flows.ledger.key import key_path
from hushrank.flows.recovery.witness import WITNESS_FILE
from hushrank.flows.release.archive import ALL_FILES, SUMS, archived
from hushrank.flows.run.confidential_folder import (
    DRAWN_FILE,
    FAILED_FILE,
    is_unfinished,
    names_by_release,
    unmarked_path,
)
from hushrank.flows.run.stream_night import stream_folder
from hushrank.transforms.storage.cloud_storage import Place
from hushrank.transforms.storage.write import read_whole
from hushrank.transforms.streams.stream_folder import needed_later

LEDGER, KEY = "ledger.jsonl", "ledger.jsonl.key"
YAML, AREA, ARCHIVE = "survey.yaml", "confidential", "output"

Files = Iterator[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class KeptBefore:
    """What a ledger must hold that is read after it was seen.

    Attributes:
        releases: folders of the archive.
        witness: the record of how far the ledger was; empty: there is none.
    """

    releases: Sequence[Place]
    witness: bytes

    @classmethod
    def of(cls, config: SurveyConfig) -> KeptBefore:
        """What there is now."""
        found = dict(_existing(config.confidential, AREA, [WITNESS_FILE]))
        return cls(archived(config.output), found.get(f"{AREA}/{WITNESS_FILE}", b""))


def contents_of(
    path: Path,
    config: SurveyConfig,
    before: KeptBefore,
    lines: bytes,
    accounts: Sequence[Account],
) -> Files:
    """Name and content of every file of a backup.

    Args:
        path: the YAML file.
        config: its content.
        before: what was seen before the ledger was read.
        lines: of the ledger.
        accounts: of all populations in it, of the same moment.

    Raises:
        OSError: a file cannot be read.
    """
    yield LEDGER, lines
    with suppress(FileNotFoundError):  # only a ledger of an early version has none
        yield KEY, read_whole(key_path(config.ledger.path))
    yield YAML, read_whole(path)
    if before.witness:
        yield f"{AREA}/{WITNESS_FILE}", before.witness
    yield from _of_area(config.confidential, accounts)
    for folder in before.releases:
        yield from _existing(folder, f"{ARCHIVE}/{folder.name}", (*ALL_FILES, SUMS))


def _of_area(area: Place, accounts: Sequence[Account]) -> Files:
    names = names_by_release(area)
    for account in accounts:
        for attempt in map(account.attempt, account.latest):
            if attempt is not None and attempt.stream is not None:
                drawn = account.nights_drawn.get(attempt.release_id, 0)
                yield from _of_stream(area, attempt.release_id, drawn)
            elif attempt is not None and attempt.release_id in names:
                yield from _of_release(area, attempt, names[attempt.release_id])


def _of_release(area: Place, attempt: Attempt, names: set[str]) -> Files:
    """What was drawn for a release; under its temporary name, if a run died after the mark."""
    work = area / attempt.release_id
    wanted = [name for name in (DRAWN_FILE, FAILED_FILE) if name in names]
    if attempt.result is not None and is_unfinished(work, attempt.result):
        wanted.append(unmarked_path(work, attempt.result).name)
    yield from _existing(work, f"{AREA}/{attempt.release_id}", wanted)


def _of_stream(area: Place, stream_id: str, drawn: int) -> Files:
    folder = stream_folder(area, stream_id)
    inside = folder[len(str(area)) + 1 :]
    for name in needed_later(folder, drawn):
        yield f"{AREA}/{inside}/{name}", read_whole(f"{folder}/{name}")


def _existing(folder: Place, name: str, names: Sequence[str]) -> Files:
    """Those files of a folder that exist; `hushrank clean` may delete one meanwhile."""
    for each in names:
        with suppress(FileNotFoundError):
            yield f"{name}/{each}", read_whole(folder / each)
