"""Draws of random numbers, as a certificate states them: one class for each kind of mechanism.

Numbers that a checker computes with are exact: integers, or fractions as text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from hushrank.privacy.accounting import Spend, decimal_value, smaller_reading
from hushrank.transforms.common.randomisation import LocalLaw

INFINITE = "inf"
MOST_LISTED = 1_000  # numbers of answers of a person whose thresholds are listed

# A fraction that is at least 0, in lowest terms, such as `7/10` or `2/1`; or `inf`.
Rational = Annotated[str, Field(pattern=r"^(inf|(0|[1-9][0-9]*)/[1-9][0-9]*)$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]  # SHA-256, in hex
Size = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


def text_of(value: Fraction | int) -> str:
    """The text of a fraction."""
    exact = Fraction(value)
    return f"{exact.numerator}/{exact.denominator}"


def exact(value: float) -> str:
    """The exact value of a float."""
    return INFINITE if math.isinf(value) else text_of(Fraction(value))


def as_shown(value: float) -> str:
    """The exact value of the decimals that a float is shown with: of 0.1 it is 1/10."""
    return INFINITE if math.isinf(value) else text_of(Fraction(decimal_value(value)))


def at_most(value: float) -> str:
    """The less of `exact` and `as_shown`: noise is calibrated to it, so both hold."""
    return INFINITE if math.isinf(value) else text_of(smaller_reading(value))


class Part(BaseModel):
    """A part of a certificate: frozen, of exact types, and closed to unknown fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Cost(Part):
    """Cost, at most: epsilon and delta, or rho of zCDP beside `epsilon` 0.

    Attributes:
        epsilon, delta: `inf` where nothing is protected.
        rho: rho of discrete Gaussian noise, squared l2 sensitivity / (2 squared scale); else null.
        l2_squared: the squared l2 sensitivity for which `rho` became (epsilon, delta), or 1.
    """

    epsilon: Rational
    delta: Rational
    rho: Rational | None = None
    l2_squared: Count = 1


class Law(Part):
    """Law of an integer k: P(k) ~ exp(-|k| / scale), or exp(-k^2 / (2 scale^2)) for `gaussian`.

    Attributes:
        scale: 0: no noise at all.
        step: worth of 1.
    """

    kind: Literal["laplace", "gaussian"]
    scale: Rational
    step: Rational = "1/1"


class IntegerSensitivity(Part):
    """Sensitivity of integers between adjacent inputs: l1 norm and squared l2 norm."""

    l1: Size
    l2_squared: Size


class CountNoise(Part):
    """Independent noise on each entry of a vector of integers.

    The claim: `law.scale` >= l1 / epsilon (Laplace), or its square >= l2_squared / (2 rho).

    Attributes:
        what: the vector.
        entries: number of integers that get noise; null where that number is not public.
        derivation: function of `hushrank.privacy` whose text proves the sensitivity.
        formula: assignments in Python's notation that lead from `inputs` to `l1` and `l2_squared`.
        inputs: integers, and lists of integers.
        sensitivity: result of the formula.
        cost: cost of this draw.
    """

    mechanism: Literal["discrete-laplace", "discrete-gaussian", "none"]
    what: str
    entries: Count | None = None
    derivation: str
    formula: tuple[str, ...]
    inputs: dict[str, int | tuple[int, ...]]
    sensitivity: IntegerSensitivity
    law: Law
    cost: Cost


class NameThreshold(Part):
    """Gaussian noise on the weights of all names that people wrote; the large ones are published.

    Attributes:
        entries: null, for how many names were written is not public.
        threshold: least noisy weight that is published, in steps of the law.
        cost: rho of the noise, and the most probability with which a name of one person alone is
            published, as delta.
        what, derivation, formula, inputs, sensitivity, law: as of `CountNoise`.
    """

    mechanism: Literal["gaussian-threshold"]
    what: str
    entries: Count | None = None
    derivation: str
    formula: tuple[str, ...]
    inputs: dict[str, int | tuple[int, ...]]
    sensitivity: IntegerSensitivity
    law: Law
    threshold: Count
    cost: Cost


class Loss(Part):
    """Bounds of the loss -log F of one comparison.

    Attributes:
        link: F.
        slope: largest (log F)'.
        kappa1: largest (log F)'(d) + (log F)'(-d).
        kappa2: largest -(log F)''.
        even_curvature: -(log F)'' is an even function, as that of the logistic link is.
    """

    link: str
    slope: Rational
    kappa1: Rational
    kappa2: Rational
    even_curvature: bool


class Cover(Part):
    """Rounding and noise that make a computed minimiser as private as the exact one.

    Attributes:
        tolerance: norm of the gradient that the computed point does not exceed.
        values: number of values that are rounded.
        apart: the integers that are rounded to differ by so much in l1 at most.
        law: law of the noise on them.
        epsilon: cost of the noise.
    """

    tolerance: Rational
    values: Count
    apart: Count
    law: Law
    epsilon: Rational


class ObjectiveNoise(Part):
    """Noise inside an optimisation whose minimiser is released.

    The claim, for Laplace noise: sensitivity / scale + determinant_epsilon + cover.epsilon is at
    most `cost.epsilon`.

    Attributes:
        what: the numbers that are released.
        derivation, formula, inputs: as of counts; they lead to `l1`, the gradient's change in
            units of the loss's slope where that is 1, and to `rows`.
        loss: loss of one comparison.
        norm: norm in which the gradient's change is measured.
        sensitivity: largest such change.
        scale: scale of the noise, before it is put on a grid.
        ridge: weight of the penalty.
        share: effects of covariates have scale / share and ridge / share; 1 where there are none.
        determinant_epsilon: part of epsilon that the curvature takes.
        constants: `tight`, what the proof needs; `paper`, what the papers print.
        public_graph: whether it is public who compared what.
        laws: laws of the noise on its grids: of scores, and of effects if there are any.
        cover: null without privacy.
        cost: cost of the minimiser with its cover.
    """

    mechanism: Literal["objective-perturbation-laplace", "objective-perturbation-gaussian"]
    what: str
    derivation: str
    formula: tuple[str, ...]
    inputs: dict[str, int | tuple[int, ...]]
    loss: Loss
    norm: Literal["l1", "l2"]
    sensitivity: Rational
    scale: Rational
    ridge: Rational
    share: Rational
    determinant_epsilon: Rational
    constants: Literal["tight", "paper"]
    public_graph: bool
    laws: tuple[Law, ...]
    cover: Cover | None
    cost: Cost


class Threshold(Part):
    """Threshold: the answer is changed where a uniform 64-bit word is below it.

    The claim, of an answer with two values: 2^64 - threshold <= e^epsilon threshold.

    Attributes:
        epsilon: epsilon of one answer.
        answers: number of a person's answers among which epsilon was split; 1: it was not.
        threshold: the threshold, from 1 to 2^63.
    """

    epsilon: Rational
    answers: Count
    threshold: Count


class FlippedAnswers(Part):
    """Randomised response: each answer is flipped by itself, before it is counted.

    Attributes:
        budget: whether an epsilon is of one answer, or split among the answers of a person.
        at_source: answers came privatised; then thresholds are what they should have been.
        thresholds: thresholds at the smallest and the largest epsilon that is accepted; under
            `per_user` at each number of answers of a person.
        most_answers: most answers of one person that count; null: nothing bounds them.
        cost: cost that the ledger is charged, for all answers of a person where these are bounded.
    """

    mechanism: Literal["randomised-response"]
    what: str
    derivation: str
    budget: Literal["per_answer", "per_user"]
    at_source: bool
    thresholds: tuple[Threshold, ...]
    most_answers: Count | None
    cost: Cost


class NoisyAnswers(Part):
    """Discrete Laplace noise on each answer, before it is counted.

    Attributes:
        grid: an answer of 1 is that many steps.
        laws: laws at the smallest and the largest epsilon that is accepted.
        epsilons: these two.
        budget, at_source, most_answers, cost: as of flipped answers.
    """

    mechanism: Literal["laplace-response"]
    what: str
    derivation: str
    budget: Literal["per_answer", "per_user"]
    at_source: bool
    grid: Count
    epsilons: tuple[Rational, ...]
    laws: tuple[Law, ...]
    most_answers: Count | None
    cost: Cost


class Insertions(Part):
    """Weights w_0 ... w_(m-1) of repeated insertion: w_d <= e^(epsilon / (m - 1)) w_(d+1).

    Attributes:
        epsilon: epsilon of a ranking in which one item moves.
        weights: never rising, the last one at least 1.
    """

    epsilon: Rational
    weights: tuple[int, ...]


class SyntheticRankings(Part):
    """Synthetic rankings of the same items that replace each ranking: the Mallows mechanism.

    Attributes:
        longest: m, the most items of a ranking.
        tables: tables of rankings of m items, at the smallest and the largest epsilon.
        whole_ranking: epsilon m / 2, what a whole ranking loses.
        most_rankings: most rankings of one person that count.
        at_source, cost: as of flipped answers.
    """

    mechanism: Literal["mallows"]
    what: str
    derivation: str
    at_source: bool
    longest: Count
    tables: tuple[Insertions, ...]
    whole_ranking: Rational
    most_rankings: Count
    cost: Cost


class NoisyRanks(Part):
    """Rankings sorted by ranks with discrete Laplace noise.

    Attributes:
        grid: a rank is that many steps.
        sensitivity: sensitivity of all ranks of a ranking, in steps, where one item moves.
        epsilons, laws: values at the smallest and the largest epsilon.
        longest, whole_ranking, most_rankings, at_source, cost: as of synthetic rankings.
    """

    mechanism: Literal["laplace-ranks"]
    what: str
    derivation: str
    at_source: bool
    longest: Count
    grid: Count
    sensitivity: IntegerSensitivity
    epsilons: tuple[Rational, ...]
    laws: tuple[Law, ...]
    whole_ranking: Rational
    most_rankings: Count
    cost: Cost


class PairLevel(Part):
    """Private answers to pairs of the rankings of one level of epsilon.

    Attributes:
        epsilon, pairs, threshold: as of all answers to random pairs.
    """

    epsilon: Rational
    pairs: Count
    threshold: Count


class RandomPairAnswers(Part):
    """Private answers to a few random pairs of a ranking.

    The claim: with o = 1 (`order`) or 2 (`items`) other answers, and T the threshold,
    2^64 - o T <= e^(epsilon / pairs) T.

    Attributes:
        hide: the order of the ranked items, or also which items were ranked.
        pairs: d, the most answers of one ranking.
        epsilon: epsilon of a whole ranking.
        threshold: T; the true answer becomes each other one where a 64-bit word falls below T, or
            below 2 T.
        levels: each level of epsilon, if rankings have their own; `epsilon`, `pairs` and
            `threshold` are those of the largest; null: all have the same.
        most_rankings, at_source, cost: as of synthetic rankings.
    """

    mechanism: Literal["random-pairs"]
    what: str
    derivation: str
    at_source: bool
    hide: Literal["order", "items"]
    pairs: Count
    epsilon: Rational
    threshold: Count
    levels: tuple[PairLevel, ...] | None = None
    most_rankings: Count
    cost: Cost


class Unexplained(Part):
    """A mechanism that is no part of hushrank, of which only the cost is known here."""

    mechanism: Literal["other"]
    what: str
    derivation: str
    cost: Cost


Draw = Annotated[
    CountNoise
    | NameThreshold
    | ObjectiveNoise
    | FlippedAnswers
    | NoisyAnswers
    | SyntheticRankings
    | NoisyRanks
    | RandomPairAnswers
    | Unexplained,
    Field(discriminator="mechanism"),
]


def cost_of(spend: Spend, read: Callable[[float], str] = at_most) -> Cost:
    """Return the cost of a draw, by default in the readings that noise is calibrated to."""
    return Cost(
        epsilon=read(spend.epsilon),
        delta=read(spend.delta),
        rho=None if spend.rho is None else read(spend.rho),
        l2_squared=spend.l2_squared,
    )


class _Range(Protocol):
    """A guarantee whose epsilons have a range."""

    @property
    def low(self) -> float:
        """The smallest epsilon."""
        ...

    @property
    def high(self) -> float:
        """The largest epsilon."""
        ...


def ends(guarantee: _Range) -> tuple[float, ...]:
    """The smallest and the largest epsilon; once where they are equal."""
    low, high = guarantee.low, guarantee.high
    return (low,) if low == high else (low, high)


def ends_of_law(law: LocalLaw) -> list[tuple[float, int | float]]:
    """Return each epsilon with its number; once where both are equal."""
    return list(dict(zip(law.epsilons, law.numbers, strict=True)).items())


def laplace_laws(law: LocalLaw) -> tuple[Law, ...]:
    """Laws of noise, of a law whose numbers are scales."""
    return tuple(Law(kind="laplace", scale=exact(scale)) for _, scale in ends_of_law(law))
