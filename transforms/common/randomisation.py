"""Which mechanism privatises an answer or a ranking. Without Beam, so that naming one is quick."""

from __future__ import annotations

from enum import StrEnum


class Randomisation(StrEnum):
    """How an answer is privatised and what it then adds to the sums of its pair."""

    WEIGHTED = (
        "weighted"  # randomised response, debiased, weighted by what its epsilon lets through
    )
    COUNTED = "counted"  # randomised response, counted as if it were the answer
    LAPLACE = "laplace"  # Laplace noise on the answer


class RankingMechanism(StrEnum):
    """How a ranking is replaced by a private synthetic one of the same items."""

    MALLOWS = "mallows"
    LAPLACE_RANKS = "laplace-ranks"  # a baseline
