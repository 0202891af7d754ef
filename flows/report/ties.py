"""How often items tie, on the page of a report."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushrank.estimation.ties.tie_models import TieModel
from hushrank.flows.release.release import Release
from hushrank.flows.release.ties import tie_sentence

NAMES = {TieModel.DAVIDSON: "Davidson (1970)", TieModel.RAO_KUPPER: "Rao and Kupper (1967)"}
MEANINGS = {
    TieModel.DAVIDSON: "Scores are log odds of the comparisons that do not end in a tie.",
    TieModel.RAO_KUPPER: (
        "An item wins against another one where chance adds up to more than log theta on top of"
        " what its score lacks."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TieFacts:
    """Texts as they are shown.

    Attributes:
        sentence: how often equals tie.
        model: of ties, and its source.
        symbol: of its parameter.
        parameter, interval: its estimate.
        meaning: what scores are in this model.
    """

    sentence: str
    model: str
    symbol: str
    parameter: str
    interval: str
    meaning: str


def tie_facts(release: Release) -> TieFacts | None:
    """The facts of ties; None where the release does not model them."""
    ties = release.ties
    if ties is None:
        return None
    return TieFacts(
        sentence=tie_sentence(ties),
        model=NAMES[ties.model],
        symbol=ties.model.symbol,
        parameter=_number(ties.parameter),
        interval=f"{_number(ties.low)} to {_number(ties.high)}",
        meaning=MEANINGS[ties.model],
    )


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "∞"
