"""Public features of people, or groups, beside their rankings: which profile a row has. Pure.

A profile is one combination of the values that the configuration lists, so what a row means follows
from the row and public settings alone. A number between two listed values counts as the nearer one;
a word must be listed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.transforms.common.catalogue import (
    GROUP_RULES,
    SEVERAL_WRITTEN,
    UNLISTED_GROUP,
    Groups,
)
from hushrank.transforms.common.encode import Rules
from hushrank.transforms.common.group_sets import NO_FLAG, sets_of
from hushrank.transforms.common.schema import (
    PERSON_FEATURE,
    GroupSets,
    by_distinct,
    is_text,
    numbers_of,
    to_numpy,
    to_text,
)
from hushrank.transforms.common.written_lists import NO_LIST

NO_VALUE = "a feature of the person is missing, or is none of its values"

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonFeature:
    """One public feature of people.

    Attributes:
        name: column of the feature.
        numbers: values of the feature, ascending, at least two; empty: it is a word.
        words: values of the feature, at least two; the others are compared with the first.
    """

    name: str
    numbers: tuple[float, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Number of values of the feature."""
        return len(self.numbers) or len(self.words)

    @property
    def titles(self) -> tuple[str, ...]:
        """Names of the numbers that it is in a score: itself, or one for each further word."""
        return (self.name,) if self.numbers else tuple(f"{self.name}={w}" for w in self.words[1:])

    def codes(self, column: pa.Array) -> Integers:
        """Place of each row's value among those listed; -1 where it is none of them."""
        if self.numbers:
            values, middles = numbers_of(column)[0], np.array(self.numbers)
            within = (values >= middles[0]) & (values <= middles[-1])
            cuts = (middles[1:] + middles[:-1]) / 2
            return np.where(within, np.searchsorted(cuts, values), -1)
        known = pa.array(self.words, pa.large_string())

        def places(texts: pa.Array) -> Integers:
            words = to_text(texts) if is_text(texts.type) else texts.cast(pa.large_string())
            found = pc.index_in(pc.utf8_trim_whitespace(words), value_set=known)
            return np.asarray(to_numpy(pc.fill_null(found, -1)), np.int64)

        return by_distinct(column, places, np.int64(-1))

    def encoded(self, codes: Integers) -> Floats:
        """Return the values at `codes` as they enter a score, shape (rows, titles).

        A number is 0 in the middle of its range and 1 at its upper end; a word is 1 in its own
        column, and the first is 0 in all.
        """
        if self.numbers:
            values = _scaled(np.array(self.numbers), self.numbers[0], self.numbers[-1])
            return np.asarray(values[codes][:, np.newaxis])
        return np.eye(self.size)[:, 1:][codes]

    def of_person(self, value: object) -> Floats:
        """Return one person's value as it enters a score, shape (titles,); it need not be listed.

        Raises:
            ValueError: the value is outside the range of the numbers, or none of the words.
        """
        if not self.numbers:
            if (word := str(value).strip()) not in self.words:
                raise ValueError(f"{self.name} must be one of {', '.join(self.words)}")
            return np.asarray(self.encoded(np.array([self.words.index(word)]))[0])
        low, high = self.numbers[0], self.numbers[-1]
        try:
            number = float(str(value))
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            raise ValueError(f"{self.name} must be a number from {low:g} to {high:g}")
        return np.array([_scaled(number, low, high)])


def _scaled(values: Any, low: float, high: float) -> Any:
    """0 in the middle of a range, 1 at its upper end."""
    return (values - (low + high) / 2) / ((high - low) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonFeatures:
    """All public features of people, and the profiles that they make.

    Attributes:
        features: one feature or more.
    """

    broken: ClassVar[tuple[str, ...]] = (NO_VALUE,)
    features: tuple[PersonFeature, ...]

    @property
    def names(self) -> list[str]:
        """The columns of the features."""
        return [each.name for each in self.features]

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        return [(PERSON_FEATURE, name) for name in self.names]

    @property
    def titles(self) -> tuple[str, ...]:
        """Names of the numbers that a person's features are in a score."""
        return tuple(title for each in self.features for title in each.titles)

    @property
    def profiles(self) -> int:
        """Number of profiles."""
        return math.prod(each.size for each in self.features)

    def profiles_of(self, batch: pa.RecordBatch) -> Integers:
        """Profile of each row; -1 where a feature has none of its values."""
        codes = [each.codes(batch[each.name]) for each in self.features]
        place = np.zeros(len(batch), np.int64)
        for feature, code in zip(self.features, codes, strict=True):
            place = place * feature.size + code
        return np.where((np.stack(codes) < 0).any(axis=0), -1, place)

    def encoded(self) -> Floats:
        """Features of each profile as they enter a score, shape (profiles, titles)."""
        return np.hstack(
            [each.encoded(code) for each, code in zip(self.features, self._codes(), strict=True)]
        )

    def values(self) -> list[dict[str, float | str]]:
        """The features of each profile, by name."""
        listed = [each.numbers or each.words for each in self.features]
        rows = np.stack(self._codes(), axis=1).tolist()
        return [
            {name: values[code] for name, values, code in zip(self.names, listed, row, strict=True)}
            for row in rows
        ]

    def _codes(self) -> list[Integers]:
        sizes = tuple(each.size for each in self.features)
        return [*np.unravel_index(np.arange(self.profiles), sizes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOfRankings:
    """The public group of each ranking, such as a precinct; its profile is the group's code.

    Attributes:
        column: column that names the group.
        groups: groups that there are.
    """

    broken: ClassVar[tuple[str, ...]] = tuple(rule for rule, _ in GROUP_RULES)  # of -1, -2
    column: str
    groups: Groups

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        return [("group", self.column)]

    @property
    def profiles(self) -> int:
        """Number of groups that have counts of their own."""
        return len(self.groups)

    def profiles_of(self, batch: pa.RecordBatch) -> Integers:
        """Group of each row; below 0 where it is none of those that count."""
        return self.groups.codes(batch[self.column]).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOfRankings:
    """The public groups of each ranking, where they overlap; its profile is the set, as a word.

    Attributes:
        columns: where a row says in which groups it is.
        groups: groups that there are.
    """

    broken: ClassVar[tuple[str, ...]] = (UNLISTED_GROUP, NO_FLAG, NO_LIST, SEVERAL_WRITTEN)
    columns: GroupSets
    groups: Groups

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        return self.columns.roles()

    @property
    def profiles(self) -> int:
        """Number of groups that have counts of their own, the whole among them."""
        return len(self.groups)

    def profiles_of(self, batch: pa.RecordBatch) -> Integers:
        """Set of each row; -1 - r where it breaks rule r of `broken`."""
        words, rules = sets_of(batch, self.columns, self.groups)
        found = words.astype(np.int64)  # at most 63 groups, so none is negative
        for rule, mask in rules:
            found[mask] = -1 - self.broken.index(rule)
        return found


Profiled = PersonFeatures | GroupOfRankings | SetOfRankings


def groups_of_rankings(
    column: str | None, sets: GroupSets | None, groups: Groups
) -> GroupOfRankings | SetOfRankings:
    """The groups of rankings: of one `column`, or of the columns of `sets`, if groups overlap."""
    if sets is not None:
        return SetOfRankings(columns=sets, groups=groups)
    return GroupOfRankings(column=column or "", groups=groups)


def rules_of_profiles(features: Profiled | None, profile: Integers | None) -> Rules:
    """The rules that rows without a profile break; none where no features are read."""
    if features is None or profile is None:
        return ()
    return [(rule, profile == -1 - place) for place, rule in enumerate(features.broken)]
