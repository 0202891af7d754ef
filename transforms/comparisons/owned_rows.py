"""Comparisons with the person each belongs to, packed into a few words a row for the shuffle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Flag, auto

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.covariates import turned
from hushrank.privacy.keyed_hash import Hashes, KeyedHash
from hushrank.transforms.common.encode import Comparisons, Outcomes
from hushrank.transforms.common.groups import GroupCodes
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.common.sorting import Mask, Order, Words

# of the hash that makes owners of pairs; `transforms.comparisons.bound` has labels 0 to 3
OWNER_LABEL = 4
WORDS, WORDS_WITH_EVENT = 3, 6  # a row: owner, owner, content; then event, event, place
# One more word, the last one, is the row's weight or its covariates, as the job has it.
# Group, low item, high item and outcome + 1 share the content word.
_ITEM_BITS, _OUTCOME_BITS = 27, 2  # the group has the 8 bits above them
_UNGROUPED = np.uint64((1 << (2 * _ITEM_BITS + _OUTCOME_BITS)) - 1)


class Carried(Flag):
    """What rows say beside their pair and its outcome."""

    NOTHING = 0
    GROUPS = auto()
    WEIGHTS = auto()  # in the word after all others
    COVARIATES = auto()  # likewise: no job has both


@dataclass(frozen=True, slots=True)
class OwnedRows:
    """Comparisons in canonical orientation, with the person to whom each belongs.

    Attributes:
        words: shape (3, m), or (6, m) if rows carry an event, and one more if they have weights or
            covariates (no job has both). A
            word is a row of this array: one `take` moves them all, and each is contiguous for
            everything else.
    """

    words: Words

    def __len__(self) -> int:
        return len(self.words[0])

    @property
    def owner(self) -> Hashes:
        """Shape (m, 2), pseudonyms."""
        return np.stack([self.words[0], self.words[1]], axis=1)

    @property
    def owner_words(self) -> tuple[Words, Words]:
        """`owner`, word by word: there without a copy."""
        return self.words[0], self.words[1]

    @property
    def content(self) -> Words:
        """In which group, what was compared and the outcome, in one word."""
        content: Words = self.words[2]
        return content

    @property
    def pair(self) -> Words:
        """A number for each pair of items, the same in every group."""
        return (self.content & _UNGROUPED) >> np.uint64(_OUTCOME_BITS)

    @property
    def group(self) -> GroupCodes:
        """Code of each row's group; 0 where there are none."""
        return _group_of(self.content)

    @property
    def outcome(self) -> Outcomes:
        """+1 the lower item won, -1 the higher item won, 0 tie."""
        return _outcome_of(self.content)

    @property
    def event(self) -> Hashes | None:
        """Shape (m, 2), pseudonyms; None: rows carry no event."""
        has_event = len(self.words) >= WORDS_WITH_EVENT
        return np.stack([self.words[3], self.words[4]], axis=1) if has_event else None

    @property
    def more(self) -> Words | None:
        """Weights, or covariates as they speak for the lower item, shape (m,); None: neither."""
        without = len(self.words) in (WORDS, WORDS_WITH_EVENT)
        return None if without else self.words[-1]

    @property
    def place(self) -> Words:
        """Where a row that carries an event was read; no decision may depend on it."""
        place: Words = self.words[5]
        return place

    @classmethod
    def concatenate(cls, parts: Sequence[OwnedRows]) -> OwnedRows:
        """All rows of `parts`; there is at least one."""
        if len(parts) == 1:
            return cls(parts[0].words)
        return cls(np.concatenate([part.words for part in parts], axis=1))

    def take(self, rows: Order) -> OwnedRows:
        """The chosen rows, in that order."""
        return OwnedRows(np.take(self.words, rows, axis=1))

    def filter(self, keep: Mask) -> OwnedRows:
        """The rows where `keep` is true, in the order they are in."""
        return self.take(np.flatnonzero(keep))

    def comparisons(self, carried: Carried = Carried.NOTHING) -> Comparisons:
        """The rows without owners, low item on the left, and what else they say."""
        return comparisons_of(self.content, self.more, carried)


def comparisons_of(
    content: Words, more: Words | None = None, carried: Carried = Carried.NOTHING
) -> Comparisons:
    """What two words of `OwnedRows` say, low item on the left."""
    one_item = (1 << _ITEM_BITS) - 1
    low = (content >> (_ITEM_BITS + _OUTCOME_BITS) & one_item).astype(np.int32)
    high = (content >> _OUTCOME_BITS & one_item).astype(np.int32)
    return Comparisons(
        low,
        high,
        _outcome_of(content),
        group=_group_of(content) if Carried.GROUPS in carried else None,
        weight=more.view(np.int64) if more is not None and Carried.WEIGHTS in carried else None,
        covariates=more if Carried.COVARIATES in carried else None,
    )


def _group_of(content: Words) -> GroupCodes:
    return (content >> (2 * _ITEM_BITS + _OUTCOME_BITS)).astype(np.int16)


def _outcome_of(content: Words) -> Outcomes:
    return (content & 3).astype(np.int8) - np.int8(1)


def own(
    rows: Comparisons,
    ties: Ties,
    keyed_hash: KeyedHash,
    place: NDArray[np.int64] | None = None,
    n_covariates: int = 0,
) -> OwnedRows:
    """Put rows in canonical orientation with their owner: the user, or else the pair itself.

    Args:
        rows: valid comparisons; those that tied are left out under `Ties.DROP`.
        ties: what becomes of ties.
        keyed_hash: the run's secret hash.
        place: where each row was read; needed where `rows` carry events.
        n_covariates: how many covariates they have.
    """
    if ties is Ties.DROP and not rows.outcome.all():
        decided = np.flatnonzero(rows.outcome)
        rows, place = rows.take(decided), None if place is None else place[decided]
    swapped = (rows.left > rows.right).view(np.int8)
    outcome = rows.outcome * (1 - 2 * swapped)
    more = rows.covariates if rows.weight is None else rows.weight.view(np.uint64)
    n_words = words_of_row(event=rows.event is not None, more=more is not None)
    words = np.empty((n_words, len(rows)), np.uint64)
    content = words[2]
    content[:] = np.minimum(rows.left, rows.right)
    content <<= _ITEM_BITS
    content += np.maximum(rows.left, rows.right).astype(np.uint64)
    owner = keyed_hash.of_tuples(OWNER_LABEL, (content,)) if rows.user is None else rows.user
    words[:2] = owner.T
    content <<= _OUTCOME_BITS
    content |= (outcome + 1).view(np.uint8)
    if rows.group is not None:
        content |= rows.group.astype(np.uint64) << (2 * _ITEM_BITS + _OUTCOME_BITS)
    if rows.event is not None:
        if place is None:
            raise ValueError("rows that carry an event must say where they were read")
        words[3:5], words[5] = rows.event.T, place.view(np.uint64)
    if rows.covariates is not None:
        more = np.where(swapped != 0, turned(rows.covariates, n_covariates), rows.covariates)
    if more is not None:
        words[-1] = more
    return OwnedRows(words)


def words_of_row(*, event: bool, more: bool) -> int:
    """How many words a row has."""
    return (WORDS_WITH_EVENT if event else WORDS) + more
