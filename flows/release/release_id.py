"""The id of a job's release: the same for the same job, content and night, and else another.

The id is a keyed name under the ledger's secret (`flows.ledger.key`), because it is published and
the content is confidential. Place and date of files, and the version of hushrank, do not enter it.
A fresh draw of a release that was drawn before has a number besides, from 1.

Version 0.1.0 made ids from absolute paths, sizes and modification times, and from its own number;
and before ledgers had keys, without one. A release that the ledger knows by such an id keeps it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import date

from hushrank.flows.ledger.account import UNKNOWN, Account, ReleaseState
from hushrank.flows.ledger.key import TAG_DIGITS, LedgerKey, Purpose
from hushrank.transforms.storage.files import InputFile

OLDER_VERSION = "0.1.0"  # the only one whose number entered ids


def described(
    job_hash: str,
    contents: Sequence[str],
    tables: Sequence[str],
    *,
    night: date | None,
    seed: int | None,
) -> str:
    """What a release is, as one text.

    Args:
        job_hash: of the configuration.
        contents: of the input files, sorted.
        tables: of the file of epsilons, if there is one.
        night: the day whose rows are ranked; None: no nights are selected.
        seed: of a test or simulation; None: none.
    """
    told = {
        "job": job_hash,
        "input": contents,
        "tables": tables,
        "night": None if night is None else night.isoformat(),
        "seed": seed,
    }
    return json.dumps(told, sort_keys=True)


def known_or_new(
    account: Account, key: LedgerKey, text: str, older: Iterable[str], *, again: bool
) -> str:
    """The id under which the ledger knows a release, or that of its first draw or of a fresh one.

    Args:
        account: the population's.
        key: of the ledger.
        text: what the release is (`described`).
        older: ids that it would have had in earlier versions.
        again: whether a fresh draw is wanted. A draw that was asked for before and is not
            published yet is taken up.
    """
    first = key.tag(Purpose.RELEASE, text)
    fresh = next((each for each in (first, *older) if account.state(each) not in UNKNOWN), first)
    drawn: list[str] = []
    while (attempt := account.attempt(fresh)) is not None and attempt.drawn_at is not None:
        drawn.append(fresh)
        fresh = key.tag(Purpose.RELEASE, f"{text} again {len(drawn)}")
    if not drawn:
        return fresh
    waits = account.state(drawn[-1]) is ReleaseState.DRAWN
    return fresh if again and not waits else drawn[-1]


def ids_of_old(
    key: LedgerKey,
    job_hash: str,
    files: Iterable[InputFile],
    tables: Iterable[InputFile],
    night: date | None,
) -> tuple[str, str]:
    """The ids that a release had in version 0.1.0, with the ledger's key and without one.

    Args:
        key: of the ledger.
        job_hash: with absolute paths.
        files: the input, sorted by path.
        tables: the file of epsilons, if there is one.
        night: as in `described`.
    """
    told: dict[str, object] = {
        "job": job_hash,
        "code": OLDER_VERSION,
        "input": [_old_identity(file) for file in files],
        "seed": None,
    }
    if named := [_old_identity(file) for file in tables]:
        told["tables"] = named
    if night is not None:
        told["night"] = night.isoformat()
    text = json.dumps(told, sort_keys=True)
    return (
        key.tag(Purpose.RELEASE, text),
        hashlib.sha256(text.encode()).hexdigest()[:TAG_DIGITS],
    )


def _old_identity(file: InputFile) -> list[str | int]:
    return ["table", file.digest] if file.digest else [file.path, file.size, file.version]
