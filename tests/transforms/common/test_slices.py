"""A partition in shares: every row comes once, and rows of one number together."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.sorting import InSlices, hold


@dataclass(frozen=True)
class Numbers:
    """Rows that are a number each."""

    words: np.ndarray

    def take(self, rows):
        return Numbers(self.words[rows])

    @classmethod
    def concatenated(cls, parts):
        return cls(np.concatenate([part.words for part in parts]))


PIECES = st.lists(st.lists(st.integers(0, 20), max_size=9), min_size=1, max_size=9)


def shares_of(pieces: list[list[int]], most: int, decides) -> list[np.ndarray]:
    def piece(number: int) -> Numbers:
        return Numbers(np.array(pieces[number], np.uint64))

    shares = InSlices(list(map(len, pieces)), piece, most, decides)
    found = [share.words for share in shares]
    assert [share.words.tolist() for share in shares] == [words.tolist() for words in found]
    return found


@given(PIECES, st.integers(1, 30))
def test_rows_of_one_number_come_in_one_share(pieces, most):
    found = shares_of(pieces, most, lambda rows: rows.words)
    assert sorted(np.concatenate(found).tolist()) == sorted(itertools.chain(*pieces))
    numbers = [set(words.tolist()) for words in found]
    assert sum(map(len, numbers)) == len(set().union(*numbers))


@given(PIECES, st.integers(1, 30))
def test_pieces_whose_rows_decide_alone_stay_whole(pieces, most):
    found = shares_of(pieces, most, None)
    assert np.concatenate(found).tolist() == list(itertools.chain(*pieces))
    longest = max(map(len, pieces))
    assert max(map(len, found)) < most + longest or longest == 0


def test_what_is_held_goes_from_share_to_share_and_what_is_refused_comes_out():
    settled = [Sifted(number, tally={"seen": number}) for number in (3, 1, 2)]
    steps = hold(settled, lambda held, more: more if held is None else min(held, more))
    assert [next(steps).tally["seen"] for _ in settled] == [3, 1, 2]
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == 1


def test_no_slices_are_an_error():
    with pytest.raises(ValueError, match="no slices"):
        list(hold([], lambda held, more: more))
