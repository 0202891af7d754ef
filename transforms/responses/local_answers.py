"""How test answers are randomised before they are counted. Without Beam."""

from __future__ import annotations

from dataclasses import dataclass

from hushrank.privacy.randomized_response import SplitResponse


@dataclass(frozen=True, slots=True)
class LocalAnswers:
    """How answers are randomised.

    Attributes:
        response: the chances of a flip, for up to K answers of a person.
        debiased: undo the flips in the sums; False is the paper's baseline.
    """

    response: SplitResponse
    debiased: bool
