"""Facts of a stream of nights, for the table of a report."""

from __future__ import annotations

import math

from hushrank.flows.release.boards import GroupRanking
from hushrank.flows.release.stream import MeteredSquares, StreamRecord
from hushrank.flows.statement.sentences import number


def stream_facts(
    night: StreamRecord, groups: tuple[GroupRanking, ...] | None
) -> list[tuple[str, str]]:
    """Terms of a stream, and the noise in what this night shows."""
    of = "" if groups is None else " of a group"
    noise = f"Noise standard deviation of a shown count{of}"
    return [
        ("Stream", night.stream),
        ("Nights of the stream", f"{night.nights}, from {night.first} to {night.last}"),
        *_terms_of(night),
        ("Nights shown together", "all so far" if night.window is None else f"{night.window}"),
        ("Nights over which a night is spread", f"{night.bands}"),
        (noise, number(math.sqrt(night.shown_variance))),
    ]


def _terms_of(night: StreamRecord) -> list[tuple[str, str]]:
    """Terms that say what of a person counts."""
    metered = night.participation
    if metered is None:
        return [
            ("Nights that count per person, at most", f"{night.participations}"),
            ("Nights from one of them to the next, at least", f"{night.gap}"),
        ]
    if isinstance(metered, MeteredSquares):
        return _terms_of_squares(metered)
    refill = [] if metered.refill is None else [("More of them a night", f"{metered.refill:g}")]
    return [
        ("Answers that count per person on all nights, at most", f"{metered.rows}"),
        ("Of them on the first night, at most", f"{metered.burst}"),
        *refill,
        ("Nights in which the same two items count once per person", f"{metered.pair_gap}"),
    ]


def _terms_of_squares(metered: MeteredSquares) -> list[tuple[str, str]]:
    """Terms of an allowance of squares."""
    refill = [] if metered.refill is None else [("More of it a night", f"{metered.refill:g}")]
    return [
        (
            "Allowance per person on all nights, of which n answers take n² + n",
            f"{metered.squares}",
        ),
        ("Of it on the first night", f"{metered.burst}"),
        *refill,
        ("Nights from one that counts to the next, at least", f"{metered.gap}"),
    ]
