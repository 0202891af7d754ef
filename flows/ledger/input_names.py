"""By what a ledger knows an input again, whatever the population that reads it is called.

Of an input these are kept: its paths as they are configured (so that next night's file of the same
place is known), the real path of each file, and each local file's size with its modification time,
which a file keeps that is moved, linked, or copied with its dates (`cp -p`, `rsync -a`). No row is
read: what a run refuses must not depend on rows. So a copy with a new date, in another place, is
not known again, and neither is a part of the rows in a file of their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hushrank.flows.ledger.key import LedgerKey, Purpose
from hushrank.transforms.storage.cloud_storage import is_cloud
from hushrank.transforms.storage.files import InputFile

MOST_FILES = 256  # of which names are kept; see `InputNames`


@dataclass(frozen=True, slots=True)
class InputNames:
    """What a reservation records of its input.

    Of more than `MOST_FILES` files those with the smallest names are kept, which is a choice at
    random to all that have not the key. Two inputs that share a part f of all their files are then
    told to share some but for a probability of (1 - f)^256.

    Attributes:
        key: tells whether two of these are of one key (`LedgerKey.check`).
        names: keyed names, ascending.
        plain: what they are names of; for the confidential area alone.
    """

    key: str
    names: tuple[str, ...]
    plain: tuple[str, ...] = ()


def input_names(paths: Sequence[str], files: Iterable[InputFile], key: LedgerKey) -> InputNames:
    """The names of an input under the key of its ledger.

    Args:
        paths: as configured, absolute, with their patterns.
        files: what these name now.
        key: of the ledger.
    """
    found = list(files)
    local = [file for file in found if not is_cloud(file.path)]
    kinds = (
        {f"paths {path}" for path in paths},
        {
            f"file {file.path if is_cloud(file.path) else os.path.realpath(file.path)}"
            for file in found
        },
        {f"copy {file.size} {file.version}" for file in local},
    )
    chosen: dict[str, str] = {}
    for texts in kinds:
        named = sorted((key.tag(Purpose.INPUT, text), text) for text in texts)
        chosen |= dict(named[:MOST_FILES])
    names = tuple(sorted(chosen))
    return InputNames(key.check, names, tuple(chosen[name] for name in names))
