"""Turn a file of answers into a file of privatised answers; the holder of the answers runs this.

Each row of the new file has the two items, the privatised outcome and its epsilon, and nothing
else: no person, no time, no order (rows are shuffled). A job reads it with `already_private: true`.
The whole file is held in memory, about 100 bytes a row.

Work on files of answers in the process that reads them, without loading Beam.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hushrank.pipelines.simulate.simulate import new_row_file
from hushrank.privacy.keyed_hash import KEY_BYTES, KeyedHash
from hushrank.privacy.randomness import RandomBits, system_bits
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import text_of_rejects
from hushrank.transforms.common.epsilons import (
    AnswerBudget,
    AnswerColumns,
    EpsilonSource,
    read_epsilon_table,
)
from hushrank.transforms.common.randomisation import Randomisation
from hushrank.transforms.common.schema import InputError, Ties, is_text, items_in
from hushrank.transforms.comparisons.privatize import (
    Answers,
    People,
    divide_epsilons_of_kept,
    encode_answers,
    first_answers,
    privatize,
)
from hushrank.transforms.engine import in_process
from hushrank.transforms.storage.files import FileFormat, InputFile, check_files
from hushrank.transforms.storage.read import plan_splits, read_batches
from hushrank.transforms.storage.split import Split

if TYPE_CHECKING:
    from hushrank.pipelines.privatize.rankings_file import SyntheticRankings


OUTCOME, EPSILON = "outcome", "epsilon"  # columns of the new file if the old one has none


def privatize_file(
    source: InputFile,
    target: Path,
    format_: FileFormat,
    columns: AnswerColumns,
    epsilons: EpsilonSource,
    budget: AnswerBudget,
    bits: RandomBits,
) -> tuple[str, ...]:
    """Write the answers of `source` to `target`, each flipped with its own epsilon.

    Guarantee: each answer is epsilon-DP with the epsilon in its row. With `budget.per_user` all
    answers of a person together are epsilon-DP with the person's epsilon. A fair coin first decides
    each tie.

    Args:
        source: a log of comparisons.
        target: a new file.
        format_: format of the new file.
        columns: columns of `source`; the user is read if people must meet or have a table.
        epsilons: the source of epsilons, and their bounds.
        budget: rule by which the epsilon of an answer follows from a person's epsilon.
        bits: `system_bits()` for real answers.

    Returns:
        Why rows were left out, each reason once.

    Raises:
        InputError: the file cannot be read, or holds no answer.
        FileExistsError: `target` exists already.
    """
    if target.exists():  # checked before the work
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    schema = check_files([source], columns)[source.path]
    splits = plan_splits(source, schema, columns)
    catalogue, as_text = _items(splits, columns)
    keyed_hash = KeyedHash(bits.take(KEY_BYTES))
    answers, reasons = _answers(splits, columns, catalogue, epsilons, keyed_hash, bits, budget)
    if budget.max_contributions is not None:
        kept = first_answers(answers, budget.max_contributions, keyed_hash)
        answers, _ = divide_epsilons_of_kept(kept, per_user=budget.per_user)
    elif budget.per_user:
        answers = People.of([answers]).divided(answers)
    answers = answers.take(np.argsort(bits.words(len(answers))))
    table = _table(answers, columns, catalogue, as_text=as_text, bits=bits)
    with new_row_file(target, table.schema, format_) as write:
        write(table)
    return tuple(sorted(reasons))


def _items(splits: list[Split], columns: AnswerColumns) -> tuple[Catalogue, bool]:
    """The items that occur, and whether the file names them by text.

    A name with a hidden character is not an item, so its rows are left out.
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
    budget: AnswerBudget,
) -> tuple[Answers, set[str]]:
    table = None if epsilons.table is None else read_epsilon_table(epsilons.table)
    parts, reasons = [], set[str]()
    for split in splits:
        for batch in read_batches(split):
            encoded = encode_answers(
                batch.rows, columns, catalogue, epsilons, table,
                keyed_hash if budget.meet else None, Ties.RANDOM, bits,
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


def write_private_answers(*asked: Any) -> tuple[str, ...]:
    """Call `privatize_file` with bits of the system; its other arguments, result and errors."""
    in_process.choose()  # no graph runs here
    return privatize_file(*(*asked, system_bits()))


def write_private_rankings(*asked: Any) -> tuple[str, ...]:
    """Call `privatize_ranking_file` with bits of the system."""
    in_process.choose()
    from hushrank.pipelines.privatize.rankings_file import privatize_ranking_file

    return privatize_ranking_file(*(*asked, system_bits()))


def collect_synthetic_rankings(*asked: Any) -> SyntheticRankings:
    """Call `collect_rankings`, which draws nothing."""
    in_process.choose()
    from hushrank.pipelines.privatize.rankings_file import collect_rankings

    return collect_rankings(*asked)
