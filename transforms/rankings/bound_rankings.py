"""Keep at most so many rankings of each person, chosen at random. Pure."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

import numpy as np

from hushrank.privacy.keyed_hash import Hashes
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.slices import hold
from hushrank.transforms.common.sorting import Order, Words, new_run, number_runs, sort_by
from hushrank.transforms.rankings.rankings import Pieces, Rankings, owners

Priorities = Callable[[Rankings], Hashes]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Rankings with the random bits that decide which are kept: the smallest."""

    rankings: Rankings
    priority: Hashes


def bound_rankings(
    slices: Iterable[Sifted[Rankings]], most: int, bits: RandomBits
) -> Generator[Sifted[None], None, Rankings]:
    """Keep at most `most` rankings of each person, chosen uniformly at random over all slices.

    A ranking gets 128 random bits when its slice comes; those with the smallest stay.

    Args:
        slices: at least one; a person's rankings may be in all of them.
        most: of one person.
        bits: decide which.

    Returns:
        What was refused of each slice is yielded; the rankings that are kept are returned.
    """
    return (yield from bound_by(slices, most, lambda rankings: bits.words((len(rankings), 2))))


def bound_by(
    slices: Iterable[Sifted[Rankings]], most: int, priorities: Priorities
) -> Generator[Sifted[None], None, Rankings]:
    """The same, with 128 bits for each ranking from `priorities`, whatever they are made of."""

    def keep(held: _Drawn | None, more: Rankings) -> _Drawn:
        rankings, priority = more, priorities(more)
        if held is not None:
            rankings = Rankings.concatenated([held.rankings, more])
            priority = np.concatenate([held.priority, priority])
        kept = _first_of_owners(rankings, most, priority)
        if len(kept) == len(rankings):
            return _Drawn(rankings, priority)
        return _Drawn(rankings.take(kept), priority[kept])

    held = yield from hold(slices, keep)
    return held.rankings


def _first_of_owners(rankings: Rankings, most: int, priority: Hashes) -> Order:
    """Places, ascending, of each person's `most` rankings with the smallest `priority`."""
    owner = owners(rankings)
    leading = np.sort(owner[:, 0])
    if (leading[1:] != leading[:-1]).all():  # nobody has two
        return np.arange(len(owner))
    order = sort_by(owner, priority)
    owner = owner[order]
    first = new_run(owner[:, 0], owner[:, 1])
    starts = np.flatnonzero(first)
    position = np.arange(len(order)) - starts[number_runs(first)]
    return np.sort(order[position < most])


def ranking_numbers(pieces: Pieces) -> Words:
    """A number for each piece; pieces of one ranking have the same."""
    numbers: Words = pieces.contest ^ owners(pieces.rankings)[:, 0]
    return numbers
