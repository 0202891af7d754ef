"""The privacy statement of noise on integer counts: win counts and pair counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from hushrank.flows.statement.designs import design_sentences
from hushrank.flows.statement.grouped import group_sentences
from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.flows.statement.sentences import (
    CCW,
    GRAPH_NOT_PROTECTED,
    LAW_SOURCE,
    OUTCOMES_CHANGE,
    PrivacyStatement,
    compose_statement,
    graph_sentences,
    number,
)
from hushrank.flows.statement.stream import stream_statement
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.common.schema import Ties


@dataclass(frozen=True, slots=True, kw_only=True)
class CountWords:
    """What is particular to one statistic of counts.

    Attributes:
        entry: one of them, after "Every".
        computed: what is computed from them, and that nothing else was looked at.
        algorithm: where it is published, by unit.
        erratum_e1: the published algorithm for persons has erratum E1.
        errata: of the published algorithm, whatever is protected; None: none but `erratum_e1`.
        rows: what rows count, at the end of the statement.
    """

    entry: str
    computed: str
    algorithm: Mapping[Unit, str]
    erratum_e1: bool = False
    errata: str | None = None
    rows: tuple[str, ...] = ()


WIN_COUNTS = CountWords(
    entry="win count",
    computed=("the ranking, the shares and all intervals are computed from the noisy counts alone"),
    algorithm={
        Unit.COMPARISON: f"{CCW}, Algorithm 2 (noisy win counts, one comparison protected)",
        Unit.USER: f"{CCW}, Algorithm 3 (noisy win counts, one person protected)",
    },
    erratum_e1=True,
)
_NOISE_ON_A_VECTOR = (
    "Dwork, McSherry, Nissim and Smith, Calibrating noise to sensitivity in private data analysis"
    " (2006), on the wins and losses of each item"
)
WIN_LOSS_COUNTS = CountWords(
    entry="count of wins and every count of losses of an item",
    computed="the scores, the ranking and all intervals are computed from the noisy counts alone",
    algorithm=dict.fromkeys(Unit, _NOISE_ON_A_VECTOR),
)
_NOISE_ON_A_MATRIX = (
    "Dwork, McSherry, Nissim and Smith, Calibrating noise to sensitivity in private data analysis"
    " (2006), on the matrix of wins"
)
PAIR_COUNTS = CountWords(
    entry="entry of the matrix of wins (how often one item beat another)",
    computed="the scores, the ranking and all intervals are computed from the noisy matrix alone",
    algorithm=dict.fromkeys(Unit, _NOISE_ON_A_MATRIX),
)
TIE_COUNTS = CountWords(
    entry="count of an outcome of a pair (one item won, the other won, they tied)",
    computed=(
        "the scores, how often equals tie, the ranking and all intervals are computed from the"
        " noisy counts alone"
    ),
    algorithm=dict.fromkeys(Unit, f"{_NOISE_ON_A_MATRIX} and on the ties of each pair"),
)
OUTCOME_COUNTS = CountWords(
    entry=(
        "count of wins of a pair that was compared (how often the first of its two items beat the"
        " second)"
    ),
    computed=(
        "how often each pair was compared is public and released as it is, and the scores, the"
        " ranking and all intervals are computed from these two alone"
    ),
    algorithm=dict.fromkeys(Unit, f"{_NOISE_ON_A_MATRIX}, of which one entry a pair is secret"),
)


def count_statement(words: CountWords, mechanism: CountMechanism) -> PrivacyStatement:
    """Put the guarantee of noisy counts into words.

    Args:
        words: which counts.
        mechanism: what drew them.
    """
    params, law = mechanism.params, mechanism.law
    if mechanism.stream is not None:
        return stream_statement(words.entry, words.computed, mechanism, mechanism.stream)
    graph_statement = mechanism.public_graph_statement
    public = graph_statement is not None
    composed = compose_statement(
        params,
        mechanism.guarantee,
        noise=(*graph_sentences(graph_statement), *_noise(words, mechanism)),
        theorem=f"{words.algorithm[params.unit]}; {LAW_SOURCE[law.kind]}.",
        change=OUTCOMES_CHANGE[params.unit] if public else None,
        erratum=_erratum(params, law, mechanism.sensitivity) if words.erratum_e1 else words.errata,
        also_not_protected=GRAPH_NOT_PROTECTED if public else (),
    )
    return replace(composed, sentences=(*composed.sentences, *words.rows))


def _noise(words: CountWords, mechanism: CountMechanism) -> Iterator[str]:
    guarantee, law, sensitivity = mechanism.guarantee, mechanism.law, mechanism.sensitivity
    yield (
        f"Every {words.entry}, zeros included, got its own discrete {law.kind.capitalize()} noise"
        f" of scale {number(law.scale)} (standard deviation {number(math.sqrt(law.variance))});"
        f" {words.computed}."
    )
    if law.kind is NoiseKind.LAPLACE:
        yield (
            f"The scale is sensitivity / epsilon: such a change moves the counts by at most"
            f" {sensitivity.l1} altogether (l1 norm), and {sensitivity.l1} /"
            f" {number(guarantee.epsilon)} = {number(sensitivity.l1 / guarantee.epsilon)}."
        )
    elif guarantee.rho is not None:
        yield (
            f"Such a change moves the counts by at most {number(math.sqrt(sensitivity.l2_squared))}"
            " as a vector (l2 norm, the sensitivity). Epsilon and delta are those of discrete"
            " Gaussian noise of this scale. It also gives zCDP with"
            f" rho = squared sensitivity / (2 squared scale) = {number(guarantee.rho)}."
        )
    yield from group_sentences(mechanism)
    yield from design_sentences(mechanism.design)
    yield from _weights(mechanism)
    yield from _tie_sentences(mechanism)


def _tie_sentences(mechanism: CountMechanism) -> Iterator[str]:
    """What a tie is in the counts, where it is not a row like the others or left out."""
    if mechanism.ties is Ties.SPLIT and not mechanism.params.weighted:
        yield (
            "A tie is half a win for each item; the released counts are in half wins, and scale"
            " and sensitivity are too."
        )
    elif mechanism.ties is Ties.MODEL:
        yield (
            "A tie is an outcome of its own, and an answer counts in one of the three counts of"
            " its pair: the noise that hides who won hides whether an answer was a tie, too."
        )


def _weights(mechanism: CountMechanism) -> Iterator[str]:
    """In which unit weighted counts are, and what else is released."""
    params = mechanism.params
    if not params.weighted:
        return
    if params.max_weight is not None:
        yield (
            "An answer counts by its weight, a column of the input, and by"
            f" {params.max_weight:g} at most."
        )
    halves = ": a tie is half a win for each item" if mechanism.ties is Ties.SPLIT else ""
    yield (
        f"The released counts are in units of 1/{mechanism.row_weight:,} of an answer of weight"
        f" 1{halves}; scale and sensitivity are too. The sum of all squared weights got noise of"
        " the same scale, as one more number of the vector; it says how far chance reaches in the"
        " counts."
    )


def _erratum(params: PrivacyParams, law: NoiseLaw, sensitivity: Sensitivity) -> str | None:
    if (params.unit, params.adjacency) != (Unit.USER, Adjacency.REPLACE_ONE):
        return None
    used = f"{sensitivity.l1} (l1 norm)"
    if law.kind is NoiseKind.GAUSSIAN:
        used = f"{number(math.sqrt(sensitivity.l2_squared))} (l2 norm)"
    return (
        "E1: Algorithm 3 as published calibrates its noise to L, the most answers of a person. But"
        " replacing them can lower some counts by L and raise others by L, so that noise gives"
        f" 2 epsilon. The sensitivity used here is {used}."
    )
