"""Words of a column and their meaning: public settings, never learned from rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """Texts and the values that they mean; case and surrounding blanks do not count.

    Attributes:
        meanings: pairs of a text and its value; no text occurs twice.
    """

    meanings: tuple[tuple[str, int], ...]
