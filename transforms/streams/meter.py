"""Meter of the rows of some people on one night of a stream that counts rows or squares of rows.

What counts depends on one person's rows and on public terms alone: not on anybody else's rows, nor
on files, order, engines or retries. First `apart` leaves out rows that are too near those of nights
before, then the bounding step keeps at most L rows of a person on distinct pairs
(`transforms.comparisons.bound`), and of these `admit` takes the first ones, in the secret order in
which they were chosen, as far as the person's allowance goes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.stream_encoder import MeteredTerms
from hushrank.transforms.common.sorting import Mask, new_run, place_in_run
from hushrank.transforms.streams.people_files import Owners, People, distinct
from hushrank.transforms.streams.recent_pairs import Pairs

T = TypeVar("T", bound=MeteredTerms)


@dataclass(slots=True)
class Meter(ABC, Generic[T]):
    """Meter of the rows of some people on one night. Confidential.

    Attributes:
        before: the people after the night before; everybody of the rows who counted is there.
        night: number of the night, from 0.
        terms: rules for the rows that count.
        excluded: name in the tally of the rows that `apart` leaves out.
    """

    excluded: ClassVar[str]

    before: People
    night: int
    terms: T
    _begun: bool = field(default=False, init=False)
    _after: People | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Raises `ValueError` if the night is not one of the stream or the people know it."""
        self.terms.check_night(self.night)
        self.before.require_before(self.night)

    @abstractmethod
    def apart(self, owners: Owners, pairs: Pairs) -> Mask:
        """Mark the rows that no row of the nights before excludes; any part of the night's rows may
        be given.

        Args:
            owners: pseudonym of each row.
            pairs: number of the two items of each row.
        """

    @abstractmethod
    def rows_within(self, left: NDArray[np.int64]) -> NDArray[np.int64]:
        """Most rows of a night for which so much of the allowance is enough."""

    @abstractmethod
    def with_rows(self, owners: Owners, pairs: Pairs) -> People:
        """Return the people after a night on which rows of these owners and pairs count."""

    def begin(self) -> None:
        """Say that these people have rows tonight, so that `after` waits for `admit`."""
        self._begun = True

    @property
    def after(self) -> People:
        """The people after the night; without `begin`, after a night without rows of theirs.

        Raises:
            ValueError: the rows were not metered.
        """
        if self._after is None and self._begun:
            raise ValueError("the rows of these people were not metered")
        if self._after is None:
            none = np.empty(0, np.uint64)
            self._after = self.with_rows((none, none), none.astype(np.uint32))
        return self._after

    def admit(self, owners: Owners, pairs: Pairs) -> Mask:
        """Mark the rows that the allowance has room for, and remember the people after the night.

        Args:
            owners, pairs: as for `apart`, of all rows that the bounding step keeps: each person's
                neighbours, in the order of the choice.

        Raises:
            ValueError: it was called before.
        """
        if self._after is not None:
            raise ValueError("the rows of these people were metered before")
        found = distinct(owners)
        place, known = self.before.find(found.owners)
        used = np.zeros(len(known), np.int64)
        used[known] = self.before.times[place[known]]
        room = self.rows_within(self.terms.allowance(self.night) - used)
        admitted = place_in_run(new_run(found.number)) < room[found.number]
        first, second = owners
        self._after = self.with_rows((first[admitted], second[admitted]), pairs[admitted])
        return admitted
