"""Lists stored one after the other in an array, with their lengths. Pure."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

MOST_BIT_ITEMS = 64  # so many items fit a set of one word

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Values = TypeVar("Values", Integers, NDArray[np.float64], NDArray[np.int16], Mask)


def take_lists(values: Values, lengths: Integers, rows: Integers) -> Values:
    """The values of the chosen lists, list by list."""
    if len(lengths) and (lengths == lengths[0]).all():  # the common case, in a fraction of the time
        return np.take(values.reshape(len(lengths), -1), rows, axis=0).ravel()
    starts = (np.cumsum(lengths) - lengths)[rows]
    chosen = lengths[rows]
    before = np.cumsum(chosen) - chosen
    return values[np.repeat(starts - before, chosen) + np.arange(int(chosen.sum()))]


def any_in_list(broken: Mask, lengths: Integers) -> Mask:
    """Whether each list has a broken item."""
    found = np.zeros(len(lengths), np.bool_)
    places = np.flatnonzero(broken)
    if len(places):
        found[np.searchsorted(np.cumsum(lengths), places, side="right")] = True
    return found


def repeats_item(items: Integers, lengths: Integers, n_items: int) -> Mask:
    """Whether each list holds an item twice; same shape as `lengths`."""
    repeats = np.zeros(len(lengths), np.bool_)
    held = np.flatnonzero(lengths)
    if not len(held):
        return repeats
    if n_items <= MOST_BIT_ITEMS:
        # A sum of k powers of two has k bits set exactly if they are distinct, because a carry,
        # inside the word or out of it, loses at least one bit.
        bits = np.left_shift(np.uint64(1), items.astype(np.uint64))
        total = np.add.reduceat(bits, (np.cumsum(lengths) - lengths)[held])
        repeats[held] = np.bitwise_count(total) != lengths[held]
        return repeats
    ranking = np.repeat(np.arange(len(lengths)), lengths)
    cells = np.sort(ranking * n_items + items)
    repeats[cells[1:][cells[1:] == cells[:-1]] // n_items] = True
    return repeats
