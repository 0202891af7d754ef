"""What a statement says where who compared what is public, and only who won is protected."""

from __future__ import annotations

from collections.abc import Iterator

from hushrank.privacy.units import Unit

# How two adjacent inputs differ then, as the start of a sentence.
OUTCOMES_CHANGE = {
    Unit.COMPARISON: "If one comparison had ended otherwise",
    Unit.USER: "If one person had answered otherwise, about the same pairs of items",
}
# Rows without a valid outcome are set aside, so they are missing in what is said to be public.
GRAPH_NOT_PROTECTED = (
    "Which items each person compared, and so which questions they left unanswered: the operator"
    " states that this is public.",
)


def graph_sentences(stated: str | None) -> Iterator[str]:
    """What is public, quoting why in the operator's words; nothing where `stated` is None."""
    if stated is not None:
        yield (
            "Only who won is protected, not who compared what. That this is public is stated by"
            f" the operator: “{stated}”."
        )
