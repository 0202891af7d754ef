"""The random bits that a release was really drawn from; they decide whether it is safe.

Every place that draws records its purpose and the source of its bits. The records are combined and
stored with the result. They follow from the configuration and the code alone, so they reveal
nothing about anybody's rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from hushrank.privacy.randomness import SECURE, BitSource


class Purpose(StrEnum):
    """Decisions for which random bits are drawn."""

    NOISE = "noise"  # noise that is added to counts, or inside an optimisation
    RANDOMISATION = "randomisation"  # randomisation of single answers and rankings
    ROW_CHOICE = "row-choice"  # the choice of rows that count; the pseudonyms of people
    COINS = "coins"  # the winner of a tie


@dataclass(frozen=True, slots=True)
class BitsUsed:
    """The sources of bits for each purpose.

    Attributes:
        uses: every purpose that bits were drawn for, with every source that they came from.
    """

    uses: frozenset[tuple[Purpose, BitSource]] = frozenset()

    @classmethod
    def of(cls, purpose: Purpose, sources: Iterable[BitSource]) -> BitsUsed:
        """The record for one purpose; `sources` has the form of `RandomBits.used`."""
        return cls(frozenset((purpose, source) for source in sources))

    @classmethod
    def from_dict(cls, content: Mapping[str, Iterable[str]]) -> BitsUsed:
        """The inverse of `to_dict`.

        Raises:
            ValueError: a purpose or a source has an unknown name.
        """
        return cls(
            frozenset(
                (Purpose(purpose), BitSource(source))
                for purpose, sources in content.items()
                for source in sources
            )
        )

    def to_dict(self) -> dict[str, list[str]]:
        """Sources by purpose, both as text and in alphabetical order."""
        purposes = sorted({str(purpose) for purpose, _ in self.uses})
        return {
            name: sorted(str(source) for purpose, source in self.uses if purpose == name)
            for name in purposes
        }

    def __or__(self, other: BitsUsed) -> BitsUsed:
        return BitsUsed(self.uses | other.uses)

    @property
    def safe(self) -> bool:
        """Whether nobody can predict or repeat anything that was drawn."""
        return all(source in SECURE for _, source in self.uses)

    def covers(self, purpose: Purpose) -> bool:
        """Whether bits were drawn for `purpose`."""
        return any(own is purpose for own, _ in self.uses)
