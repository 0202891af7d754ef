"""How test answers are randomised before they are counted. Without Beam."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocalAnswers:
    """How answers are randomised.

    Attributes:
        epsilon: of a person, split evenly over their answers.
        debiased: undo the flips in the sums; False is the paper's baseline.
    """

    epsilon: float
    debiased: bool
