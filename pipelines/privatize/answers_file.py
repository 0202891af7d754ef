"""A file of answers in, a file of privatised answers out: what whoever holds the answers runs.

The new file has the two items, the privatised outcome and its epsilon in each row, and nothing
else: no person, no time, no order (rows are shuffled). A job takes it with `already_private: true`.
The whole file is held in memory, about 100 bytes a row.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from hushrank.pipelines.simulate.row_files import new_row_file
from hushrank.privacy.keyed_hash import KEY_BYTES, KeyedHash
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import text_of_rejects
from hushrank.transforms.common.epsilons import (
    AnswerColumns,
    EpsilonSource,
    Shares,
    read_epsilon_table,
)
from hushrank.transforms.common.randomisation import Randomisation
from hushrank.transforms.common.schema import InputError, Ties, is_text, items_in
from hushrank.transforms.comparisons.privatize import privatize
from hushrank.transforms.comparisons.true_answers import (
    Answers,
    People,
    encode_answers,
    first_answers,
    share_epsilons_of_kept,
)
from hushrank.transforms.storage.files import FileFormat, InputFile, check_files
from hushrank.transforms.storage.read import Split, plan_splits, read_batches

OUTCOME, EPSILON = "outcome", "epsilon"  # columns of the new file, where the old one has none


def privatize_file(
    source: InputFile,
    target: Path,
    format_: FileFormat,
    columns: AnswerColumns,
    epsilons: EpsilonSource,
    shares: Shares,
    bits: RandomBits,
) -> tuple[str, ...]:
    """Write the answers of `source` to `target`, each flipped with its own epsilon.

    Guarantee: each answer is epsilon-DP with the epsilon in its row; under `shares.per_user` all
    answers of a person together are so with the person's. A tie is decided by a fair coin first.

    Args:
        source: a log of comparisons.
        target: a new file.
        format_: of the new file.
        columns: of `source`; the user's is read where people must meet or have a table.
        epsilons: where they come from, and their bounds.
        shares: how a person's epsilon becomes that of an answer.
        bits: `system_bits()` in earnest.

    Returns:
        Why rows were left out, each reason once.

    Raises:
        InputError: the file cannot be read, or holds no answer.
        FileExistsError: `target` is there already.
    """
    if target.exists():  # before the work
        raise FileExistsError(target)
    schema = check_files([source], columns)[source.path]
    splits = plan_splits(source, schema, columns)
    catalogue, as_text = _items(splits, columns)
    keyed_hash = KeyedHash(bits.take(KEY_BYTES))
    answers, reasons = _answers(splits, columns, catalogue, epsilons, keyed_hash, bits, shares)
    if shares.max_contributions is not None:
        kept = first_answers(answers, shares.max_contributions, keyed_hash)
        answers, _ = share_epsilons_of_kept(kept, per_user=shares.per_user)
    elif shares.per_user:
        answers = People.of([answers]).share(answers)
    answers = answers.take(np.argsort(bits.words(len(answers))))
    table = _table(answers, columns, catalogue, as_text=as_text, bits=bits)
    with new_row_file(target, table.schema, format_) as write:
        write(table)
    return tuple(sorted(reasons))


def _items(splits: list[Split], columns: AnswerColumns) -> tuple[Catalogue, bool]:
    """The items that occur, and whether the file names them by text.

    A name that does not show as what it is is no item, so its rows are left out.
    """
    sides = (columns.left, columns.right)
    names: set[str] = set()
    for split in splits:
        for batch in read_batches(split):
            names |= items_in(batch.rows[side] for side in sides)
    if len(names) < 2:
        raise InputError(f"{splits[0].file.path}: fewer than two items occur. Nothing was written.")
    as_text = any(is_text(splits[0].schema.field(side).type) for side in sides)
    return Catalogue(tuple(sorted(names))), as_text


def _answers(
    splits: list[Split],
    columns: AnswerColumns,
    catalogue: Catalogue,
    epsilons: EpsilonSource,
    keyed_hash: KeyedHash,
    bits: RandomBits,
    shares: Shares,
) -> tuple[Answers, set[str]]:
    table = None if epsilons.table is None else read_epsilon_table(epsilons.table)
    parts, reasons = [], set[str]()
    for split in splits:
        for batch in read_batches(split):
            encoded = encode_answers(
                batch.rows, columns, catalogue, epsilons, table,
                keyed_hash if shares.meet else None, Ties.RANDOM, bits,
            )  # fmt: skip
            parts.append(encoded.rows)
            rejects = [*batch.rejects]
            if encoded.rejects is not None:
                rejects.append(encoded.rejects)
            if batch.malformed:
                rejects.append(text_of_rejects(batch.malformed, split.schema))
            for rejected in rejects:
                reasons.update(rejected["reason"].unique().to_pylist())
    if not sum(map(len, parts)):
        raise InputError(f"{splits[0].file.path}: no row is an answer. Nothing was written.")
    return Answers.concatenated(parts), reasons


def _table(
    answers: Answers,
    columns: AnswerColumns,
    catalogue: Catalogue,
    *,
    as_text: bool,
    bits: RandomBits,
) -> pa.Table:
    private = privatize(answers, Randomisation.WEIGHTED, bits)
    names = pa.array(catalogue.names, pa.string())
    low, high = np.divmod(private.cell, len(catalogue))
    sides = [names.take(pa.array(codes)) for codes in (low, high)]
    if not as_text:
        sides = [side.cast(pa.int64()) for side in sides]
    outcome = np.where(private.value > 0, np.int8(1), np.int8(-1))
    return pa.table(
        {
            columns.left: sides[0],
            columns.right: sides[1],
            columns.outcome or OUTCOME: pa.array(outcome),
            columns.epsilon or EPSILON: pa.array(private.epsilon),
        }
    )
