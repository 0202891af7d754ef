"""The mechanism that privatises an answer or a ranking, and its exact law. Without Beam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hushrank.privacy.laplace_baselines import rank_law, response_law
from hushrank.privacy.mallows import MOST_ITEMS, insertion_weights
from hushrank.privacy.random_pairs import RandomPairs, law_of_epsilon
from hushrank.privacy.randomized_response import (
    PersonalResponse,
    SplitResponse,
    flip_thresholds,
)
from hushrank.privacy.units import Levels

OTHER_LAW = (
    "this worker would randomise by another law than the run states: both must have the same"
    " version of hushrank"
)


class Randomisation(StrEnum):
    """Mechanism that privatises an answer, and what an answer adds to the sums of its pair."""

    WEIGHTED = "weighted"  # randomised response, debiased, weighted by its information
    COUNTED = "counted"  # randomised response, counted like a true answer
    LAPLACE = "laplace"  # Laplace noise on the answer


class RankingMechanism(StrEnum):
    """Mechanism that privatises a ranking."""

    MALLOWS = "mallows"  # replaced by a synthetic one of the same items
    LAPLACE_RANKS = "laplace-ranks"  # likewise; a baseline
    RANDOM_PAIRS = "random-pairs"  # private answers to a few pairs of its items


@dataclass(frozen=True, slots=True)
class LocalAnswers:
    """Settings by which answers are randomised.

    Attributes:
        response: the chance of a flip, for up to K answers of a person.
        debiased: undo the flips in the sums; False is the paper's baseline.
        already_private: the answers were flipped so at the source, and are summed as they are.
    """

    response: SplitResponse | PersonalResponse
    debiased: bool
    already_private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingLevels:
    """The levels of epsilon at which rankings are privatised, each with its law.

    Attributes:
        levels: the epsilons of the rows, ascending.
        epsilons: the epsilon of the mechanism at each level.
        pairs: the law of `random-pairs` at each level; empty: another mechanism.
    """

    levels: Levels
    epsilons: Levels
    pairs: tuple[RandomPairs, ...] = ()


@dataclass(frozen=True, slots=True)
class LocalLaw:
    """The law at both ends of the range of epsilons that a job accepts.

    Attributes:
        quantity: name of what the numbers measure.
        epsilons: the smallest and the largest epsilon.
        numbers: one number for each epsilon.
    """

    quantity: str
    epsilons: tuple[float, float]
    numbers: tuple[int | float, int | float]

    def require(self, found: LocalLaw) -> None:
        """Refuse to draw if the law of this code differs from this stated law.

        Raises:
            RuntimeError: `found`, the law that the caller's code computes, differs.
        """
        if found != self:
            raise RuntimeError(OTHER_LAW)


def law_of_answers(randomisation: Randomisation, low: float, high: float) -> LocalLaw:
    """The law of single answers at epsilons from `low` to `high`.

    Raises:
        ValueError: an epsilon is not finite and positive, or too small.
    """
    ends = (low, high)
    if randomisation is Randomisation.LAPLACE:
        scales = (response_law(low).scale, response_law(high).scale)
        return LocalLaw("scale of the noise, in steps of its grid", ends, scales)
    at_low, at_high = flip_thresholds(np.array(ends)).tolist()
    return LocalLaw("threshold of a flip, of 2^64", ends, (at_low, at_high))


def law_of_rankings(mechanism: RankingMechanism, low: float, high: float, longest: int) -> LocalLaw:
    """The law of synthetic rankings of `longest` items at epsilons from `low` to `high`.

    Raises:
        ValueError: an epsilon is not finite and positive, or too small.
    """
    ends = (low, high)
    if mechanism is RankingMechanism.LAPLACE_RANKS:
        scales = (rank_law(longest, low).scale, rank_law(longest, high).scale)
        return LocalLaw("scale of the noise, in steps of its grid", ends, scales)
    weights = insertion_weights(np.array(ends), min(longest, MOST_ITEMS))
    at_low, at_high = weights[-1].tolist()
    return LocalLaw("smallest weight of an insertion, of 2^44", ends, (at_low, at_high))


def law_of_pairs(laws: Sequence[RandomPairs]) -> LocalLaw:
    """The law of private answers to random pairs, as this code computes it.

    Args:
        laws: law of each level of epsilon, ascending; one, where all rankings have the same.

    Raises:
        ValueError: an epsilon is not finite and positive.
        RuntimeError: this code computes another law than one of `laws`.
    """
    own = [law_of_epsilon(law.epsilon, law.pairs, law.hide) for law in laws]
    if own != list(laws):
        raise RuntimeError(OTHER_LAW)
    ends = (own[0].epsilon, own[-1].epsilon)
    thresholds = (own[0].threshold, own[-1].threshold)
    return LocalLaw("threshold of an answer, of 2^64", ends, thresholds)
