"""Names of items as people write them, in a normal form by public rules. Pure."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hushrank.transforms.common.schema import BLANKS, is_text, to_text

MOST_CHARACTERS = 80  # a longer text is no name
# All but letters, marks, numbers, punctuation, symbols and blanks: control, format, private and
# unassigned characters (RE2 has no class of the last), separators of lines and paragraphs. And
# letters, marks and symbols that look like nothing: joiners, fillers, further variation selectors.
_HIDDEN = (
    r"[^\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}]|[\x{34F}\x{115F}\x{1160}\x{17B4}\x{17B5}\x{180B}-\x{180F}"
    r"\x{2800}\x{3164}\x{FFA0}\x{E0100}-\x{E01EF}]"
)
_SELECTORS = r"[\x{FE00}-\x{FE0F}]"  # keyboards put them behind symbols: drawn plain, or in colour


@dataclass(frozen=True, slots=True)
class NameRules:
    """Public rules that say which texts are names.

    Attributes:
        deny: patterns of RE2, in any case; a text in whose normal form one occurs is no name.
    """

    deny: tuple[str, ...] = ()

    def names(self, column: pa.Array) -> pa.Array:
        """The normal form of each value, large_string; null where it is no name.

        It is in lower case and NFD, without U+FE00 to U+FE0F (which choose how the character before
        them is drawn), and its runs of blanks are one space each. No name is empty,
        NA or N/A, longer than 80 characters in that form, or holds a character that no reader sees.
        Not NFC, because `utf8_normalize` of Arrow 25 decomposes whatever it is asked for
        (apache/arrow, issue 51225); `shown_name` composes the few names that are published.

        Args:
            column: texts or integers, without a dictionary.
        """
        texts = to_text(column) if is_text(column.type) else column.cast(pa.large_string())
        plain = pc.replace_substring_regex(texts, _SELECTORS, "")
        spaced = pc.replace_substring_regex(plain, r"[\s\p{Zs}]+", " ")
        folded = pc.utf8_normalize(pc.utf8_lower(spaced), form="NFD")
        normal = pc.utf8_trim_whitespace(folded)
        refused = pc.or_(
            pc.is_in(normal, value_set=pa.array(BLANKS, pa.large_string())),
            pc.greater(pc.utf8_length(normal), MOST_CHARACTERS),
        )
        for pattern in (_HIDDEN, *self.deny):
            own = unicodedata.normalize("NFD", pattern)
            found = pc.match_substring_regex(normal, own, ignore_case=True)
            refused = pc.or_(refused, found)
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
