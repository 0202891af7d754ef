"""Words of a column and what they stand for: public settings, never learned from rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """Texts and the values that they stand for; case and blanks around them do not count.

    Attributes:
        meanings: pairs of a text and its value; no text stands there twice.
    """

    meanings: tuple[tuple[str, int], ...]
