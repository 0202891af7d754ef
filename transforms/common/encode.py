"""Turn rows as people write them into codes: items through the catalogue, people into pseudonyms.

Pure: a batch in, a batch out. A row that breaks a rule is set aside with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.privacy.keyed_hash import Hashes, KeyedHash
from hushrank.privacy.units import UNITS
from hushrank.transforms.common.catalogue import (
    GROUP_RULES,
    UNKNOWN,
    Catalogue,
    Codes,
    GroupCodes,
    Groups,
    Naming,
    bare,
    bytes_of,
    integers_in,
    is_ascii,
)
from hushrank.transforms.common.schema import (
    ComparisonColumns,
    Words,
    by_distinct,
    is_text,
    numbers_of,
    to_numpy,
    to_text,
)

BAD_WEIGHT = np.int64(-1)

Units = NDArray[np.int64]
TIE_WORD = "tie"
BAD_OUTCOME = np.int8(-128)
AT_ONCE = 1 << 17  # names whose integers are looked for at once: it bounds the memory for that
# A label of a hash; `transforms.comparisons.bound` uses 0 to 3 and
# `transforms.comparisons.shuffle` uses 4.
_ABOVE_INT64 = 5
OUTCOME_TEXTS = {"1": 1, "+1": 1, "1.0": 1, "0": 0, "0.0": 0, "-0.0": 0, "-1": -1, "-1.0": -1}
Outcomes = NDArray[np.int8]
Mask = NDArray[np.bool_]
Rules = Sequence[tuple[str, Mask]]  # each rule, with a mask of the rows that break it
Rows = TypeVar("Rows")
UNLISTED_ITEM = "item not in the catalogue"
MALFORMED = "not a row of this format"


def weights_of(column: pa.Array, most: int) -> Units:
    """Weights in units of 1 / `UNITS`, the nearest, and at most `most`; shape (m,).

    `BAD_WEIGHT` for what is missing, no number, below 0 or infinite. A weight follows from its own
    bytes alone.

    Args:
        column: numbers, or texts of numbers.
        most: largest weight, in units.
    """
    values, _ = numbers_of(column)
    good = np.isfinite(values) & (values >= 0)
    units = np.rint(np.minimum(np.where(good, values, 0.0), most / UNITS) * UNITS)
    return np.where(good, np.minimum(units.astype(np.int64), most), BAD_WEIGHT)


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Valid comparisons, one row each.

    Attributes:
        left, right: shape (m,), int32, two different codes of the catalogue.
        outcome: shape (m,), int8: +1 left won, -1 right won, 0 tie.
        user, event: shape (m, 2), uint64 pseudonyms; None where the job does not need them.
        group: shape (m,), int16, codes of public groups; None where there are none.
        weight: shape (m,), what each row counts, in integer units; None: one comparison each.
        covariates: shape (m,), uint64 words of `estimation.common.covariates` as they speak for the
            left item; None where rows have none.
        sets: shape (m,), the groups in which a row counts, bit k for group k; None where groups do
            not overlap.
    """

    left: Codes
    right: Codes
    outcome: Outcomes
    user: Hashes | None = None
    event: Hashes | None = None
    group: GroupCodes | None = None
    weight: Units | None = None
    covariates: NDArray[np.uint64] | None = None
    sets: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.outcome)

    def take(self, rows: NDArray[np.int64] | Mask | slice) -> Comparisons:
        """The chosen rows, in the order of `rows`."""
        return Comparisons(
            self.left[rows],
            self.right[rows],
            self.outcome[rows],
            None if self.user is None else self.user[rows],
            None if self.event is None else self.event[rows],
            None if self.group is None else self.group[rows],
            None if self.weight is None else self.weight[rows],
            None if self.covariates is None else self.covariates[rows],
            None if self.sets is None else self.sets[rows],
        )


@dataclass(frozen=True, slots=True)
class Sifted(Generic[Rows]):
    """The result of a check of rows: the valid rows, and the rows that broke a rule.

    Attributes:
        rows: the valid rows, in order.
        rejects: the other rows as read, with `reason`, the first rule that each broke; None: none.
        valid: mask of the valid rows among those that were read; None: all.
        places: places in the input of other rows that are set aside too; None: none.
        tally: confidential counts of other events.
        timeless: rows as read that were set aside before, because their time cannot be read; None:
            none.
    """

    rows: Rows
    rejects: pa.Table | None = None
    valid: Mask | None = None
    places: NDArray[np.int64] | None = None
    tally: dict[str, int] = field(default_factory=dict)
    timeless: pa.RecordBatch | None = None


def sift(batch: pa.RecordBatch, rules: Rules) -> tuple[Mask, pa.Table | None]:
    """A mask of the rows of `batch` that break no rule, and `Sifted.rejects` of the others."""
    broken = np.logical_or.reduce([mask for _, mask in rules])
    if not broken.any():
        return ~broken, None
    places = np.flatnonzero(broken)
    first = np.select([mask for _, mask in rules], np.arange(len(rules)))[places]
    reasons = pa.array([reason for reason, _ in rules], pa.string()).take(pa.array(first))
    rows = pa.Table.from_batches([batch]).take(pa.array(places))
    return ~broken, rows.append_column("reason", reasons)


def encode_comparisons(
    batch: pa.RecordBatch,
    columns: ComparisonColumns,
    catalogue: Catalogue,
    keyed_hash: KeyedHash | None,
    rules: Rules = (),
    groups: Groups | None = None,
    naming: Naming = Naming.BARE,
    asked: NDArray[np.int64] | None = None,
) -> Sifted[Comparisons]:
    """Encode one batch.

    Args:
        batch: a batch with the columns that `columns` names; of a form, as `answers_of_cells`
            returns it.
        columns: the role of each column.
        catalogue: the public items.
        keyed_hash: makes the pseudonyms of users and events; None: neither is needed.
        rules: further rules that rows must keep.
        groups: the public groups; needed where `columns` names a column of them.
        naming: rule by which names of users and events are hashed.
        asked: the public pairs that people were asked about (`input.pairs`, `model.exposures`), as
            `pair_keys` names them; a row on another pair breaks a rule. None: all pairs.
    """
    left = catalogue.codes(batch[columns.left])
    right = catalogue.codes(batch[columns.right])
    outcome = _outcomes(batch, columns, catalogue, left, right)
    user = event = None
    if keyed_hash is not None:
        user, event = (
            None if name is None else pseudonyms(batch[name], keyed_hash, naming)
            for name in (columns.user, columns.event)
        )
    group = weight = sets = None
    if columns.group is not None and groups is not None:
        group = groups.codes(batch[columns.group])
    if columns.sets is not None and groups is not None:
        from hushrank.transforms.common.group_sets import sets_of

        sets, broken = sets_of(batch, columns.sets, groups)
        rules = [*rules, *broken]
    if columns.weight is not None:
        weight = weights_of(batch[columns.weight], columns.most_units)
    rows = Comparisons(left, right, outcome, user, event, group, weight, sets=sets)
    if asked is not None:
        not_asked = ~np.isin(pair_keys(left, right, len(catalogue)), asked)
        unknown = (left == UNKNOWN) | (right == UNKNOWN) | (left == right)
        if (not_asked & ~unknown).any():
            rules = [*rules, ("pair is not one of the public pairs", not_asked & ~unknown)]
    if not rules and _all_valid(batch, columns, rows):
        return Sifted(rows)
    valid, rejects = sift(batch, [*rules, *_rules(batch, columns, rows)])
    return Sifted(rows.take(valid), rejects, valid)


def pair_keys(left: Codes, right: Codes, n_items: int) -> NDArray[np.int64]:
    """Return one integer for each unordered pair of codes, shape (m,)."""
    low, high = np.minimum(left, right), np.maximum(left, right)
    return low.astype(np.int64) * n_items + high


def text_of_rejects(malformed: tuple[str, ...], schema: pa.Schema) -> pa.Table:
    """Lines that are not rows at all, in the form of `Sifted.rejects`."""
    columns = {field.name: pa.nulls(len(malformed), field.type) for field in schema}
    columns["line"] = pa.array(malformed, pa.string())
    columns["reason"] = pa.array([MALFORMED] * len(malformed), pa.string())
    return pa.table(columns)


def _all_valid(batch: pa.RecordBatch, columns: ComparisonColumns, rows: Comparisons) -> bool:
    """Whether every row is valid, by a few passes over whole columns: the common case."""
    answers = columns if not columns.pairs else replace(columns, pairs=())
    of_groups = {columns.group} if columns.sets is None else {*columns.sets.names()}
    if any(batch[name].null_count for name in answers.names() if name not in of_groups):
        return False
    if missing(batch, columns.user).any() or missing(batch, columns.event).any():
        return False
    if rows.group is not None and (rows.group < 0).any():
        return False
    if rows.weight is not None and (rows.weight == BAD_WEIGHT).any():
        return False
    return len(rows) == 0 or not (
        rows.left.min() < 0
        or rows.right.min() < 0
        or rows.outcome.min() < -1
        or (rows.left == rows.right).any()
    )


def _rules(batch: pa.RecordBatch, columns: ComparisonColumns, rows: Comparisons) -> Rules:
    bad_outcome = rows.outcome == BAD_OUTCOME
    no_outcome = _null(batch, columns.outcome) | _null(batch, columns.winner)
    return [
        ("null user", missing(batch, columns.user)),
        ("null event", missing(batch, columns.event)),
        ("null item", missing(batch, columns.left) | missing(batch, columns.right)),
        (UNLISTED_ITEM, (rows.left == UNKNOWN) | (rows.right == UNKNOWN)),
        ("item against itself", rows.left == rows.right),
        ("null outcome", no_outcome & bad_outcome),
        ("outcome is not +1, -1 or 0", bad_outcome & (columns.winner is None)),
        ("winner is neither of the two items", bad_outcome),
        *_rules_of_groups(rows),
        *_rules_of_weights(batch, columns, rows),
    ]


def _rules_of_weights(
    batch: pa.RecordBatch, columns: ComparisonColumns, rows: Comparisons
) -> Rules:
    if rows.weight is None:
        return ()
    return [
        ("null weight", missing(batch, columns.weight)),
        ("weight is no number from 0 on", rows.weight == BAD_WEIGHT),
    ]


def _rules_of_groups(rows: Comparisons) -> Rules:
    if rows.group is None:
        return ()
    return [(rule, rows.group == code) for rule, code in GROUP_RULES]


def _null(batch: pa.RecordBatch, name: str | None) -> Mask:
    if name is None or batch[name].null_count == 0:
        return np.zeros(len(batch), np.bool_)
    return to_numpy(pc.is_null(batch[name]))


def missing(batch: pa.RecordBatch, name: str | None) -> Mask:
    """Mask of nulls and of empty texts; a CSV file writes a null as an empty text."""
    null = _null(batch, name)
    if name is None or not is_text(batch[name].type):
        return null
    empty: Mask = by_distinct(batch[name], _is_empty, np.False_)
    return null | empty


def _is_empty(texts: pa.Array) -> Mask:
    lengths = pc.binary_length(bare(texts.cast(pa.large_binary())))
    return to_numpy(pc.fill_null(pc.equal(lengths, 0), False))


def _outcomes(
    batch: pa.RecordBatch,
    columns: ComparisonColumns,
    catalogue: Catalogue,
    left: Codes,
    right: Codes,
) -> Outcomes:
    """+1, 0 or -1 for each row; `BAD_OUTCOME` if there is no outcome."""
    if columns.winner is not None:
        winner = batch[columns.winner]
        return _outcomes_of_winners(winner, catalogue, left, right, columns.words)
    column = batch[columns.outcome]
    if columns.words is not None:
        return values_of_words(column, columns.words, BAD_OUTCOME)
    if is_text(column.type):
        return by_distinct(column, _outcomes_of_texts, BAD_OUTCOME)
    values = to_numpy(pc.fill_null(column, 2) if column.null_count else column)
    integers = np.issubdtype(values.dtype, np.integer)
    if integers and len(values) and values.min() >= -1 and values.max() <= 1:
        return values.astype(np.int8, copy=False)
    valid = (values == 1) | (values == 0) | (values == -1)
    return np.where(valid, values, BAD_OUTCOME).astype(np.int8)


def _outcomes_of_texts(texts: pa.Array) -> Outcomes:
    """Look up texts of one or two ASCII characters, which nearly all outcomes are, in a table."""
    found = bytes_of(texts) if len(texts) > len(_outcomes_by_bytes()) else None
    if found is None or texts.null_count or not is_ascii(texts):
        return _outcomes_by_rule(texts)
    edges, octets = found
    lengths = edges[1:] - edges[:-1]
    if lengths.min() < 1 or lengths.max() > 2:
        return _outcomes_by_rule(texts)
    places = (lengths.astype(np.int16) - 1) << 14
    places |= octets[edges[:-1]].astype(np.int16) << 7
    places |= octets[edges[1:] - 1]
    return np.take(_outcomes_by_bytes(), places)


@cache
def _outcomes_by_bytes() -> Outcomes:
    """The outcome of every text of one or two ASCII characters.

    The place of a text is its last character + 2^7 of its first + 2^14 if it has two.
    """
    single, either = [chr(octet) for octet in range(1 << 7)], []
    for length in (1, 2):
        either += [(a + b)[-length:] for a in single for b in single]
    return _outcomes_by_rule(pa.array(either, pa.large_string()))


def _outcomes_by_rule(texts: pa.Array) -> Outcomes:
    known = pa.array(list(OUTCOME_TEXTS), pa.large_string())
    found = pc.fill_null(pc.index_in(to_text(texts), value_set=known, skip_nulls=True), -1)
    values = np.array([*OUTCOME_TEXTS.values(), BAD_OUTCOME], np.int8)
    return np.take(values, to_numpy(found))


def values_of_words(column: pa.Array, words: Words, unknown: np.int8) -> NDArray[np.int8]:
    """The value of each text of `column`, shape (m,); a number counts as it is written.

    A null is an empty text, as in a CSV file. It has a value only if `words` names the empty text.

    Args:
        column: text or numbers.
        words: the meaning of each text.
        unknown: the value for every other text.
    """
    of_empty = dict(words.meanings).get("", unknown)

    def values(distinct: pa.Array) -> NDArray[np.int8]:
        texts = to_text(distinct) if is_text(distinct.type) else distinct.cast(pa.large_string())
        texts = pc.fill_null(texts, "") if texts.null_count else texts
        known = to_text(pa.array([word for word, _ in words.meanings], pa.large_string()))
        found = pc.index_in(pc.utf8_lower(texts), value_set=pc.utf8_lower(known), skip_nulls=True)
        meant = np.array([*(value for _, value in words.meanings), unknown], np.int8)
        return np.take(meant, to_numpy(pc.fill_null(found, -1)))

    return by_distinct(column, values, np.int8(of_empty))


def _outcomes_of_winners(
    column: pa.Array, catalogue: Catalogue, left: Codes, right: Codes, words: Words | None
) -> Outcomes:
    winner = catalogue.codes(column)
    left_won, right_won = winner == left, winner == right
    # Not by `where`, because the processor would mispredict every other outcome.
    outcome: Outcomes = np.subtract(left_won, right_won, dtype=np.int8)
    neither = ~(left_won | right_won)
    if neither.any():
        outcome[neither] = BAD_OUTCOME
        told = neither & (winner == UNKNOWN)
        words = Words(((TIE_WORD, 0),)) if words is None else words
        outcome[told] = values_of_words(column, words, BAD_OUTCOME)[told]
    return outcome


def pseudonyms(column: pa.Array, keyed_hash: KeyedHash, naming: Naming = Naming.BARE) -> Hashes:
    """128-bit keyed hash of each name; that of a null means nothing (its row is set aside).

    A name is one value whatever its type (`transforms.common.catalogue`): integers of every width,
    and the texts and bytes that are their canonical decimals, have one hash. All other texts have
    the hash of their bytes. ASCII blanks around a text do not count, but for streams that began so.

    The map from bare names to inputs of the hash is injective. Each text of digits that
    `integers_in` finds is the only one of its integer, so as a number it is the input of no other
    text; all other texts stay what they are. Inputs of the hash have a kind, so an integer, a text
    and a tuple are never the same one. Modulo 2^64 an integer above 2^63 - 1 equals a negative one,
    so it is hashed again, in a tuple. With `Naming.TEXTS` the input is the text itself: an integer
    has one decimal, and int64 and uint64 write the same one.

    Args:
        column: integers, texts or bytes, plain or with a dictionary.
        keyed_hash: the run's or the stream's.
        naming: `NUMBERS` or `TEXTS` for streams that began so.
    """
    if pa.types.is_dictionary(column.type):
        return by_distinct(
            column, lambda values: pseudonyms(values, keyed_hash, naming), np.uint64(0)
        )
    if naming is Naming.TEXTS:
        texts = column if is_text(column.type) else column.cast(pa.large_string())
        return hashes_by_type(texts, keyed_hash)
    if not is_text(column.type):
        return hashes_by_type(column, keyed_hash)
    texts = pc.fill_null(column.cast(pa.large_binary()), b"")
    if naming is Naming.BARE:
        texts = bare(texts)
    hashes = np.empty((len(texts), 2), np.uint64)
    for first in range(0, len(texts), AT_ONCE):
        some, into = texts.slice(first, AT_ONCE), hashes[first : first + AT_ONCE]
        places, integers, above = integers_in(some)
        if len(places) < len(some):
            into[:] = _hashes_of_texts(some, keyed_hash)
        into[places] = _hashes_of_integers(integers.view(np.int64), above, keyed_hash)
    return hashes


def hashes_by_type(column: pa.Array, keyed_hash: KeyedHash) -> Hashes:
    """128-bit keyed hash of each integer, text or value of bytes; a 7 and a "7" differ."""
    if pa.types.is_dictionary(column.type):
        return by_distinct(column, lambda values: hashes_by_type(values, keyed_hash), np.uint64(0))
    if is_text(column.type):
        texts = pc.fill_null(column.cast(pa.large_binary()), b"")
        return _hashes_of_texts(texts, keyed_hash)
    values = to_numpy(pc.fill_null(column, 0) if column.null_count else column)
    above = values >= 1 << 63 if values.dtype == np.uint64 else np.zeros(len(values), np.bool_)
    return _hashes_of_integers(values.astype(np.int64, copy=False), above, keyed_hash)


def _hashes_of_texts(texts: pa.Array, keyed_hash: KeyedHash) -> Hashes:
    """Args: large binary, without nulls."""
    _, offsets, content = texts.buffers()
    return keyed_hash.of_strings(
        np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1],
        np.frombuffer(content or b"", np.uint8),
    )


def _hashes_of_integers(values: NDArray[np.int64], above: Mask, keyed_hash: KeyedHash) -> Hashes:
    """Args: integers modulo 2^64, as int64; which of them are 2^63 or more."""
    hashes = keyed_hash.of_integers(values)
    places = np.flatnonzero(above)
    if len(places):
        hashes[places] = keyed_hash.of_tuples(_ABOVE_INT64, hashes[places])
    return hashes
