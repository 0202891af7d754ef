"""How a ledger recognises an input that it saw before, even under another population's name.

For each input the ledger keeps: the configured paths (so it recognises the next night's file in the
same place), the real path of each file, and the size and modification time of each local file. A
file keeps these when it is moved, linked, or copied with its dates (`cp -p`, `rsync -a`). No row is
read, because a refusal must not depend on rows. So the ledger does not recognise a copy with a new
date in another place, nor a part of the rows in a file of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hushrank.flows.ledger.key import LedgerKey, Purpose
from hushrank.transforms.storage.cloud_storage import is_cloud
from hushrank.transforms.storage.files import InputFile

MOST_FILES = 256  # most files whose names are kept; see `InputNames`


@dataclass(frozen=True, slots=True)
class InputNames:
    """What a reservation records about its input.

    If there are more than `MOST_FILES` files, the smallest names are kept. Without the key this is
    a random choice. Two inputs that share a part f of all their files are then recognised as
    sharing some, except with probability (1 - f)^256.

    Attributes:
        key: shows whether two of these objects were made with one key (`LedgerKey.check`).
        names: keyed names, ascending.
        plain: the texts that were named; only for the confidential area.
    """

    key: str
    names: tuple[str, ...]
    plain: tuple[str, ...] = ()


def input_names(paths: Sequence[str], files: Iterable[InputFile], key: LedgerKey) -> InputNames:
    """Compute the names of an input under the key of its ledger.

    Args:
        paths: paths as configured, absolute, patterns included.
        files: the files that these paths name now.
        key: the ledger's key.
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
