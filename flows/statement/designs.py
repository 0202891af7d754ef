"""What a release says of the design that the operator states: it is believed, and not checked."""

from __future__ import annotations

from collections.abc import Iterator

from hushrank.flows.config.comparisons import Design

STATED = {
    Design.BALANCED: (
        "The operator states that every pair of items was asked about equally often. Shares"
        " and ranks rest on that: where it is not so, an item that was shown more often ranks"
        " higher for that reason alone."
    ),
    Design.RANDOM: (
        "The operator states that chance decided which items met, though some were shown more often"
        " than others. Scores and intervals rest on that: where strong items met strong ones more"
        " often than weak ones did, scores lie too near each other."
    ),
}


def design_sentences(design: Design | None) -> Iterator[str]:
    """What is stated of the design; nothing where no result rests on it."""
    if design is not None and design in STATED:
        yield STATED[design]
