"""`hushrank init`: propose a configuration from a file's column names and its first rows.

No value of a row enters the proposal. The catalogue in particular must come from the person: a list
of the items that occur would depend on who answered what.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.flows.config.items_file import PREFLIB_ENDINGS, read_item_names
from hushrank.flows.errors import ConfigError
from hushrank.flows.propose.columns import ColumnGuess, Row, guess_columns, items_seen
from hushrank.flows.propose.rankings import RankingGuess, guess_rankings
from hushrank.flows.propose.texts import choose, line, scalar
from hushrank.transforms.common.encode import TIE_WORD
from hushrank.transforms.common.plain_text import hidden_character
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage import preflib
from hushrank.transforms.storage.files import FileFormat, InputFile, column_names_of, list_files

HEAD_ROWS = 5

_ROLES = {
    "user": "whose answer it is",
    "left": "one of the two items compared",
    "right": "the other one",
    "outcome": "1: left won, -1: right won, 0: a tie",
    "winner": f"the item that won, or the word {TIE_WORD}",
    "event": "identity of the answer: a second copy is not counted",
}
_RANKING_ROLES = {
    "user": "whose ranking it is",
    "item": "what was ranked",
    "rank": "a number; the smallest is the best",
    "ranking": "a list of items, best first",
    "contest": "which of a person's rankings it is",
}


@dataclass(frozen=True, slots=True)
class ConfigProposal:
    """A YAML file to complete.

    Attributes:
        text: the file.
        summary: what was read and what it looks like, for the person.
        choices: what its lines marked CHOOSE ask for.
    """

    text: str
    summary: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lines:
    """What of a proposed file is own to a kind of input.

    Attributes:
        kind: of the input.
        input: further lines of the section `input`.
        done: what happens to items.
        items: the file that names them; None: the person has to choose.
        privacy: lines of that section.
        method: the name of one.
        budget: total epsilon of the ledger.
    """

    kind: str
    input: tuple[str, ...]
    done: str
    privacy: tuple[str, ...]
    method: str
    budget: str
    items: str | None = None


def propose_config(source: Path, target: Path) -> ConfigProposal:
    """Propose a configuration for the log `source`, to be written to `target`.

    Reads the header and at most `HEAD_ROWS` rows.

    Args:
        source: a local Parquet, CSV, JSON Lines or PrefLib file.
        target: where the YAML file will be: relative paths in it start there.

    Raises:
        ConfigError: `source` cannot be read.
    """
    columns, rows = _read_head(source)
    if source.suffix.lower() in PREFLIB_ENDINGS:
        return _preflib_proposal(source, target)
    guess, rankings = guess_columns(columns, rows), guess_rankings(columns, rows)
    if rankings is not None:
        text = "\n".join(_file_lines(source, target, _rankings_lines(rankings))) + "\n"
        summary = _told(len(rows), "rankings", rankings.known(), rankings.items_seen(rows))
        return ConfigProposal(text, summary, ("the items", "epsilon"))
    choices = (*(f"the column {role}" for role in guess.unknown()), "the items", "epsilon")
    text = "\n".join(_file_lines(source, target, _comparisons_lines(columns, guess))) + "\n"
    return ConfigProposal(text, _summary(columns, rows, guess), choices)


def _preflib_proposal(source: Path, target: Path) -> ConfigProposal:
    """A file whose header names the items; strict kinds have no ties to decide about."""
    ties = "random" if source.suffix.lower().startswith(".t") else "refuse"
    guess = RankingGuess(layout="long", user="user", item="item", rank="rank")
    own = replace(_rankings_lines(guess, ties), items=_path(source, target))
    summary = (
        "I read the header and the first ballots only. A PrefLib file of rankings: each ballot"
        f" counts as another person's.\n{len(read_item_names(source))} items found in the header,"
        " which does not depend on the ballots."
    )
    return ConfigProposal("\n".join(_file_lines(source, target, own)) + "\n", summary, ("epsilon",))


def write_proposal(proposal: ConfigProposal, target: Path) -> str:
    """Write the proposed file, never over another one; return what to tell the person.

    Raises:
        ConfigError: `target` exists, or cannot be written.
    """
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(proposal.text)
    except FileExistsError:
        raise ConfigError(
            f"{target}: exists already and was not changed; remove it or name another file"
        ) from None
    except OSError as error:
        raise ConfigError(f"{target}: cannot be written ({error.strerror})") from None
    marked = (
        "1 line in it is"
        if len(proposal.choices) == 1
        else (f"{len(proposal.choices)} lines in it are")
    )
    return (
        f"{proposal.summary}\nWrote {target}; {marked} marked CHOOSE"
        f" ({', '.join(proposal.choices)}). Next: hushrank validate {target}"
    )


def _read_head(source: Path) -> tuple[list[str], list[Row]]:
    if source.is_dir():
        raise ConfigError(f"{source}: is a folder; name one of the files in it")
    if not source.is_file():
        raise ConfigError(f"{source}: no such file; name a local Parquet, CSV or JSON Lines file")
    try:
        file = list_files([str(source)])[0]
        columns = column_names_of(file)
    except InputError as error:
        raise ConfigError(str(error)) from None
    for column in columns:
        if hidden := hidden_character(column, lines=True):
            raise ConfigError(
                f"{source}: the name of a column holds the character {hidden}, which nobody sees;"
                " rename that column"
            )
    if len(columns) == 1 and ";" in columns[0]:
        raise ConfigError(f"{source}: columns are separated by semicolons; save it with commas")
    try:
        rows = list(islice(_rows(file), HEAD_ROWS))
    except InputError as error:
        raise ConfigError(str(error)) from None
    except (
        pa.ArrowException,
        OSError,
        OverflowError,
        RecursionError,
        ValueError,
        csv.Error,
    ):  # their texts may quote a row
        raise ConfigError(f"{source}: damaged, not readable as {file.format}") from None
    return columns, rows


def _rows(file: InputFile) -> Iterator[Row]:
    if file.format is FileFormat.PARQUET:
        with pq.ParquetFile(file.path) as parquet:
            for batch in parquet.iter_batches(HEAD_ROWS):
                yield from batch.to_pylist()
    elif file.format is FileFormat.PREFLIB:
        with open(file.path, "rb") as stream:
            for batch, refused in preflib.read_rows(file.path, stream):
                if refused:
                    raise preflib.refusal(file.path, refused[0])
                yield from batch.slice(0, HEAD_ROWS).to_pylist()
    else:
        with open(file.path, encoding="utf-8-sig", errors="replace", newline="") as lines:
            if file.format is FileFormat.CSV:
                yield from csv.DictReader(lines)
            else:
                yield from (_json_row(line) for line in lines if line.strip())


def _json_row(line: str) -> Row:
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("a line of JSON Lines must hold an object")
    return row


def _summary(columns: list[str], rows: list[Row], guess: ColumnGuess) -> str:
    missing = ""
    if guess.unknown():
        keys = " and ".join(f"input.columns.{role}" for role in guess.unknown())
        missing = (
            f"Could not tell which column is {' or '.join(guess.unknown())}."
            f" Columns: {', '.join(columns)}. Set {keys}.\n"
        )
    return _told(len(rows), "comparisons", guess.known(), items_seen(rows, guess), missing)


def _told(
    n_rows: int, kind: str, roles: dict[str, str], seen: int | None, missing: str = ""
) -> str:
    known = ", ".join(f"{role}={column}" for role, column in roles.items())
    looks = f" Looks like {kind}: {known}." if known else ""
    found = "" if seen is None else f"{seen} items found in those rows; "
    return (
        f"I read the header and {n_rows} row{'s' * (n_rows != 1)} only.{looks}\n{missing}"
        f"{found}the full list of items must come from you,"
        " because it must not depend on the answers."
    )


def _file_lines(source: Path, target: Path, own: _Lines) -> Iterator[str]:
    """The whole file: what every job has, around what is `own` to a kind of input."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", source.stem).strip("._-")[:100] or "survey"
    path = _path(source, target)
    yield f"# Proposed by hushrank init from the header and the first {HEAD_ROWS} rows of a file."
    yield "# The lines marked CHOOSE need a value from you. Paths start at the folder of this file."
    yield ""
    yield line("name", scalar(name), "the people whose privacy budget is counted together")
    yield ""
    yield "input:"
    yield line("  kind", own.kind)
    yield line("  paths", f"[{scalar(path)}]", "files, folders, or patterns: survey/*.parquet")
    yield from own.input
    yield line("  on_bad_rows", "set-aside", "or fail; such rows go to the confidential folder")
    yield ""
    if own.items is None:
        yield choose(
            "items",
            f"all that can be {own.done}, for example {{names: [London, Paris]}} or {{file:"
            " items.txt}",
        )
    else:
        yield line("items", f"{{file: {scalar(own.items)}}}", "as its header names them")
    yield ""
    yield "privacy:"
    yield from own.privacy
    yield ""
    yield line("method", own.method)
    yield line("output", scalar(f"out/{name}"), "what may be shown, and nothing else")
    yield line("confidential", ".hushrank/work", "what must not be shown: keep it private")
    yield "ledger:"
    yield line("  path", ".hushrank/ledger.jsonl", "what was spent; never delete it")
    yield line("  epsilon", own.budget, "the most that may ever be spent on these people")
    yield line("runner", "local")


def _path(source: Path, target: Path) -> str:
    return str(source) if source.is_absolute() else os.path.relpath(source, target.parent)


def _comparisons_lines(columns: list[str], guess: ColumnGuess) -> _Lines:
    return _Lines(
        kind="comparisons",
        input=(
            "  columns:",
            *_column_lines(columns, guess),
            line("  ties", "drop", "or split (half a win each), or random (a fair coin)"),
        ),
        done="compared",
        privacy=(
            line("  unit", "user", "protects all answers of one person"),
            line(
                "  adjacency",
                "replace-one",
                "hides what a person answered; add-remove: also whether",
            ),
            choose("  epsilon", "smaller protects more; 1 is strong, 2 to 4 is usual"),
            line("  max_contributions", "10", "the most answers of one person that count"),
        ),
        method="noisy-counts",
        budget="10",
    )


def _rankings_lines(guess: RankingGuess, ties: str = "refuse") -> _Lines:
    meaning = "refuse: set aside; random: a secret coin puts tied items in order"
    bound = line("  max_contributions", "1", "the most rankings of one person that count")
    return _Lines(
        kind="rankings",
        input=(
            line("  layout", guess.layout, "long: a row a ranked item; list: a row a ranking"),
            "  columns:",
            *(
                line(f"    {role}", scalar(column), _RANKING_ROLES[role])
                for role, column in guess.known().items()
            ),
            *((line("  ties", ties, meaning),) if guess.layout == "long" else ()),
        ),
        done="ranked",
        privacy=(
            line("  unit", "local", "each ranking is privatised before it is counted"),
            line("  mechanism", "mallows"),
            choose(
                "  epsilon",
                "for one moved item; a whole ranking of m items costs m / 2 times as much",
            ),
            *((bound,) if guess.user is not None else ()),
        ),
        method="borda",
        budget="50",
    )


def _column_lines(columns: list[str], guess: ColumnGuess) -> Iterator[str]:
    known, unknown = guess.known(), guess.unknown()
    for role, meaning in _ROLES.items():
        if role in known:
            yield line(f"    {role}", scalar(known[role]), meaning)
        elif role in unknown:
            other = " (or write winner: and the column of the winning item)"
            one_of = ", ".join(map(scalar, columns))
            yield choose(
                f"    {role}", f"{meaning}{other if role == 'outcome' else ''}; one of {one_of}"
            )
