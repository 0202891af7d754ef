"""What a ledger records about an input, to recognise it under another population's name too.

For each input the ledger keeps keyed names: of the configured paths, so it recognises the next
night's file in the same place; of the real path of each file; and of the content of each file
(`contents`), so it recognises a copy, wherever it lies and whatever its date. A copy that was
packed anew, written again or cut is not recognised: no row is parsed, because a refusal must not
depend on rows.

Versions before these recorded for a local file its size and modification time instead of its
content, with the id of a part that a collector wrote. Entries of theirs are recognised by that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from hushrank.flows.ledger.key import MOST_FILES, InputNames, LedgerKey, Purpose
from hushrank.flows.release.identity import is_plain
from hushrank.transforms.storage.files import FileFormat, InputFile, is_remote
from hushrank.transforms.storage.matches import part_id


def input_names(
    paths: Sequence[str],
    files: Sequence[InputFile],
    key: LedgerKey,
    content: Callable[[InputFile], str | None],
) -> InputNames:
    """Compute the names of an input under the key of its ledger.

    Args:
        paths: paths as configured, absolute, patterns included; of tables in memory nothing.
        files: the files that these paths name now, or copies of tables.
        key: the ledger's key.
        content: names the content of a file; None: it is not known.
    """
    tables = {f"table {file.digest}" for file in files if file.digest}
    found = [file for file in files if not file.digest]
    places = (
        set[str]() if tables else {f"paths {path}" for path in paths},
        {
            f"file {file.path if is_remote(file.path) else os.path.realpath(file.path)}"
            for file in found
        },
    )
    named = {f"content {each}" for each in map(content, found) if each is not None}
    contents = _fewest(key, named) | _fewest(key, tables)
    copies = {
        f"copy {file.size} {file.version} {_part_of(file)}".rstrip()
        for file in found
        if is_plain(file)
    }
    chosen = dict(contents)
    for texts in places:
        chosen |= _fewest(key, texts)
    names = tuple(sorted(chosen))
    return InputNames(
        key.check,
        names,
        (*(chosen[name] for name in names), *sorted(copies)),
        frozenset(contents),
        tuple(_fewest(key, copies)),
    )


def _fewest(key: LedgerKey, texts: Iterable[str]) -> dict[str, str]:
    """Name and text of those that a ledger keeps, which has a bound on their number."""
    return dict(sorted((key.tag(Purpose.INPUT, text), text) for text in texts)[:MOST_FILES])


def _part_of(file: InputFile) -> str:
    return part_id(file.path) if file.format is FileFormat.PARQUET else ""
