"""Which mechanism privatises an answer. Without Beam: whoever asks need not load the engine."""

from __future__ import annotations

from enum import StrEnum


class Randomisation(StrEnum):
    """How an answer is privatised and what it then adds to the sums of its pair."""

    WEIGHTED = (
        "weighted"  # randomised response, debiased, weighted by what its epsilon lets through
    )
    COUNTED = "counted"  # randomised response, counted as if it were the answer
    LAPLACE = "laplace"  # Laplace noise on the answer
