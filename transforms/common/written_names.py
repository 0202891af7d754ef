"""Names of items as people write them, in a normal form by public rules. Pure."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hushrank.transforms.common.schema import BLANKS, is_text, to_text

MOST_CHARACTERS = 80  # a longer text is no name
# Control, format, private and unassigned characters, and separators of lines and paragraphs.
_HIDDEN = r"[\p{C}\p{Zl}\p{Zp}]"


@dataclass(frozen=True, slots=True)
class NameRules:
    """Public rules that say which texts are names.

    Attributes:
        deny: patterns of RE2; a text in whose normal form one occurs is no name.
    """

    deny: tuple[str, ...] = ()

    def names(self, column: pa.Array) -> pa.Array:
        """The normal form of each value, large_string; null where it is no name.

        It is in lower case and NFD, and its runs of blanks are one space each. No name is empty,
        NA or N/A, longer than 80 characters in that form, or holds a character that no reader sees.
        Not NFC, because `utf8_normalize` of Arrow 25 decomposes whatever it is asked for
        (apache/arrow, issue 51225); `shown_name` composes the few names that are published.

        Args:
            column: texts or integers, without a dictionary.
        """
        texts = to_text(column) if is_text(column.type) else column.cast(pa.large_string())
        spaced = pc.replace_substring_regex(texts, r"[\s\p{Zs}]+", " ")
        folded = pc.utf8_normalize(pc.utf8_lower(spaced), form="NFD")
        normal = pc.utf8_trim_whitespace(folded)
        refused = pc.or_(
            pc.is_in(normal, value_set=pa.array(BLANKS, pa.large_string())),
            pc.greater(pc.utf8_length(normal), MOST_CHARACTERS),
        )
        for pattern in (_HIDDEN, *self.deny):
            own = unicodedata.normalize("NFD", pattern)
            refused = pc.or_(refused, pc.match_substring_regex(normal, own))
        return pc.if_else(refused, pa.scalar(None, pa.large_string()), normal)


def shown_name(normal: str) -> str:
    """A published name as people read it: the normal form, composed."""
    return unicodedata.normalize("NFC", normal)


def require_pattern(pattern: str) -> None:
    """Raise ValueError if `pattern` is none of RE2."""
    try:
        NameRules((pattern,)).names(pa.array([""], pa.large_string()))
    except pa.ArrowInvalid:
        raise ValueError(f"{pattern!r} is no pattern of RE2; correct it") from None
