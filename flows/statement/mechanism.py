"""What a mechanism is, and those that draw counts: law, scale, cost, guarantee.

Mechanism of a release: calibrated once, stored with what was drawn, and stated.

A mechanism is a frozen object of public numbers. It draws the noise, and statement, record and
intervals are made from it, so that what is stated is what was drawn, whatever a later version of
the code would come to. It is stored as JSON (`flows.run.drawn`): the names of these classes' fields
are a file format. Each kind of method has its own class; the one of counts, which three methods
share, is here, and beside it what four methods build on it.

Privacy statement of noise on counts: of one release or a stream, with groups and designs.

A stated design is believed and not checked. Disjoint groups cost no more than one ranking.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration, law_of_sum
from hushrank.flows.config.comparisons import Design
from hushrank.flows.statement.night_words import (
    night_bounds,
    night_sentences,
    not_protected_on_nights,
    who_on_nights,
)
from hushrank.flows.statement.sentences import (
    CCW,
    CHANGE,
    GRAPH_NOT_PROTECTED,
    LAW_SOURCE,
    OUTCOMES_CHANGE,
    Guarantee,
    PrivacyStatement,
    against_what,
    compose_statement,
    graph_sentences,
    name_sentences,
    number,
)
from hushrank.privacy.accounting import Spend, epsilon_of, spend_of
from hushrank.privacy.noise import NoiseLaw, gaussian_law, laplace_law
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import Stream
from hushrank.privacy.stream_encoder import ONE
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.common.catalogue import Groups
from hushrank.transforms.common.schema import Ties

RHO_DELTA = 1e-6  # delta at which a guarantee that was given as rho is also shown as epsilon


class Mechanism(Protocol):
    """Facts that every mechanism states of itself."""

    @property
    def spend(self) -> Spend:
        """Cost of one draw."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CountMechanism:
    """Discrete noise on integer counts.

    Attributes:
        params: unit, adjacency, the budget that was asked for and the bounds that were enforced.
        guarantee: the guarantee in numbers, as it is stated.
        calibration: sensitivity, law of the noise and cost.
        n_items: size of the catalogue.
        ties: rule for comparisons without a winner; None if there are no comparisons.
        public_graph_statement: why who compared what is public, in the operator's words; None where
            it is protected.
        design: pairs that were asked about, as the operator states, if results rest on that.
        stream: the nights that the guarantee covers together, and how they are shown; `calibration`
            is then of all of them, in units of 2^-20 of a count. None: one release.
        squares_divisor: K of `privacy.row_weights`, by which the sum of squared weights is divided
            before it gets noise; None where rows have no weights, so that none is released.
        groups: the public groups that have counts of their own; None: there are none.
        asked: keys of the public pairs that have counts, as of `encode.pair_keys`; None: all pairs.
    """

    params: PrivacyParams
    guarantee: Guarantee
    calibration: Calibration
    n_items: int
    ties: Ties | None
    public_graph_statement: str | None = None
    design: Design | None = None
    stream: Stream | None = None
    squares_divisor: int | None = None
    groups: Groups | None = None
    asked: tuple[int, ...] | None = None

    @classmethod
    def of(
        cls,
        params: PrivacyParams,
        calibration: Calibration,
        n_items: int,
        ties: Ties | None,
        public_graph_statement: str | None = None,
        design: Design | None = None,
        stream: Stream | None = None,
        squares_divisor: int | None = None,
        groups: Groups | None = None,
    ) -> Self:
        """The mechanism that adds the calibrated noise.

        Raises:
            ValueError: the calibration is not the noise that `params` needs, or has less of it.
        """
        guarantee = _guarantee(params, calibration.sensitivity)
        _check_noise(params, guarantee, calibration)
        return cls(
            params=params,
            guarantee=guarantee,
            calibration=calibration,
            n_items=n_items,
            ties=ties,
            public_graph_statement=public_graph_statement,
            design=design,
            stream=stream,
            squares_divisor=squares_divisor,
            groups=groups,
        )

    @property
    def asked_matrix(self) -> NDArray[np.bool_] | None:
        """Whether each pair was asked about, shape (n, n), symmetric; None: nothing says so."""
        if self.asked is None:
            return None
        places, matrix = np.array(self.asked), np.zeros((self.n_items, self.n_items), np.bool_)
        matrix[places // self.n_items, places % self.n_items] = True
        return np.asarray(matrix | matrix.T)

    @property
    def law(self) -> NoiseLaw:
        """Law of the noise in each count."""
        return self.calibration.law

    @property
    def shown_variance(self) -> float:
        """Variance of a count's noise as shown; on the last night of a stream; of all groups."""
        stream = self.whole.stream
        if stream is None:
            return self.whole_law.variance
        return stream.shown_law(stream.terms.nights - 1).variance

    @property
    def whole_law(self) -> NoiseLaw:
        """Law of the noise in each count of all groups together."""
        return self.law if self.groups is None else law_of_sum(self.law, self.groups.summed)

    @property
    def whole(self) -> Self:
        """Mechanism for what is computed from sums over all groups, with these sums' noise."""
        law = self.whole_law
        return replace(
            self,
            groups=None,
            calibration=replace(self.calibration, law=law),
            stream=None if self.stream is None else replace(self.stream, law=law),
        )

    @property
    def sensitivity(self) -> Sensitivity:
        """Sensitivity of the counts as released, doubled where ties are split."""
        return self.calibration.sensitivity

    @property
    def spend(self) -> Spend:
        """Cost of one draw."""
        return self.calibration.spend

    @property
    def row_weight(self) -> int:
        """Amount that one row of weight 1 adds to the counts."""
        return self.params.units * (1 if self.ties is None else self.ties.row_weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismOnCounts:
    """Noise on counts, and beside it what a method adds: which numbers get it, say.

    Attributes:
        counts: the noise, and what it protects.
    """

    counts: CountMechanism

    @property
    def params(self) -> PrivacyParams:
        """The guarantee of the counts, and the bounds."""
        return self.counts.params

    @property
    def spend(self) -> Spend:
        """Cost of one draw."""
        return self.counts.spend


def _guarantee(params: PrivacyParams, sensitivity: Sensitivity) -> Guarantee:
    spend = spend_of(params, sensitivity.l2_squared)
    if params.rho is None:
        return Guarantee(epsilon=params.epsilon, delta=params.delta, rho=spend.rho)
    return Guarantee(epsilon=epsilon_of(spend, RHO_DELTA), delta=RHO_DELTA, rho=spend.rho)


def _check_noise(params: PrivacyParams, guarantee: Guarantee, calibration: Calibration) -> None:
    if guarantee.rho is None:
        needed = laplace_law(calibration.sensitivity, params.epsilon)
    else:
        needed = gaussian_law(calibration.sensitivity, guarantee.rho)
    law = calibration.law
    if law.kind is not needed.kind or law.scale < needed.scale:
        raise ValueError(f"the guarantee needs {needed}, but {law} would be added")


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
    """Yield what is stated of the design; nothing if no result rests on it."""
    if design is not None and design in STATED:
        yield STATED[design]


def group_sentences(mechanism: CountMechanism) -> Iterator[str]:
    """Yield sentences on groups; nothing if there are none."""
    if (groups := mechanism.groups) is None:
        return
    cost = "epsilon" if mechanism.guarantee.rho is None else "the budget"
    n, of, bounds = len(groups.names), "of this release", "The bound on a person's answers holds"
    if mechanism.stream is not None:
        of = "of all nights of the stream"
        bounds = "The bounds on a person's nights, and on their answers of a night, hold"
    across = f" {bounds} across all groups." if mechanism.params.unit is Unit.USER else ""
    kept, counts = f"apart for {n} groups", "one of them only"
    kept += " and for all other answers" * groups.others
    if groups.most is not None:
        kept = f"for {n} groups, which may overlap, and for all answers together"
        many = groups.most if groups.most > 1 else "one"
        counts = f"{many} of the groups at most and once in the whole"
    yield (
        f"Counts are kept {kept}. An answer counts in {counts}, and the noise hides a change of any"
        f" answers in any groups: {cost} is paid once for all rankings {of} together.{across}"
    )


ALL_NIGHTS = "this night and all others of the stream together"
THEOREM = (
    "hushrank's privacy/stream.py, after Choquette-Choo et al., (Amplified) banded matrix"
    " factorization (2023), and Kalinin and Lampert, Banded square root matrix factorization (2024)"
)


def stream_statement(
    entry: str, computed: str, mechanism: CountMechanism, stream: Stream
) -> PrivacyStatement:
    """The guarantee of all nights in words.

    Args:
        entry: words for one of the counts, after "every".
        computed: words for what is computed from them, and that nothing else was looked at.
        mechanism: the mechanism that draws them.
        stream: nights of the stream.
    """
    params, guarantee = mechanism.params, mechanism.guarantee
    change = CHANGE[params.unit, params.adjacency]
    return PrivacyStatement(
        sentences=(
            who_on_nights(params.adjacency, stream.terms),
            *name_sentences(params),
            *against_what(change, guarantee, ALL_NIGHTS),
            *night_sentences(stream.terms),
            *_stream_noise(entry, computed, mechanism, stream),
            *night_bounds(params, stream.terms),
        ),
        not_protected=tuple(not_protected_on_nights(params, guarantee, stream.terms)),
        theorem=f"{THEOREM}; {LAW_SOURCE[mechanism.law.kind]}.",
        erratum=None,
    )


def _stream_noise(
    entry: str, computed: str, mechanism: CountMechanism, stream: Stream
) -> Iterator[str]:
    law, terms = mechanism.law, stream.terms
    spread = ""
    if stream.encoder.bands > 1:
        spread = f", spread over {stream.encoder.bands} nights with public weights,"
    deviation, shown = math.sqrt(law.variance) / ONE, stream.shown_law(terms.nights - 1)
    whole = ""
    if mechanism.groups is not None and mechanism.groups.most is None:
        of_all = number(math.sqrt(mechanism.shown_variance))
        whole = f" in a group, and {of_all} in all groups together"
    yield (
        f"Each night every {entry}, zeros included{spread} got its own discrete"
        f" {law.kind.capitalize()} noise of standard deviation {number(deviation)}, drawn once."
        f" What is shown, {_shown(stream)}, is made of these noisy numbers alone, and its noise has"
        f" standard deviation {number(math.sqrt(shown.variance))} on the last night{whole};"
        f" {computed}."
    )
    if law.kind is NoiseKind.LAPLACE:
        yield (
            "Such a change moves the counts of all nights together by at most"
            f" {number(mechanism.sensitivity.l1 / ONE)} (l1 norm), and the scale of the noise is"
            " that, divided by epsilon."
        )
    elif mechanism.guarantee.rho is not None:
        moved = math.sqrt(mechanism.sensitivity.l2_squared) / ONE
        yield (
            "Such a change moves what the noise of all nights is added to by at most"
            f" {number(moved)} as a vector (l2 norm, the sensitivity). Epsilon and delta are those"
            " of discrete Gaussian noise of this scale. It also gives zCDP with rho = squared"
            f" sensitivity / (2 squared scale) = {number(mechanism.guarantee.rho)}."
        )
    yield from group_sentences(mechanism)
    yield from design_sentences(mechanism.design)
    if mechanism.ties is Ties.SPLIT:
        yield "A tie is half a win for each item; these numbers are in half wins."


def _shown(stream: Stream) -> str:
    window = stream.workload.window
    if window is None:
        return "all nights so far"
    return "the night alone" if window == 1 else f"the last {window} nights"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountWords:
    """Words that differ between statistics of counts.

    Attributes:
        entry: words for one count, after "Every".
        computed: words for what is computed from the counts, and that nothing else was looked at.
        algorithm: place where the algorithm is published, by unit.
        erratum_e1: the published algorithm for persons has erratum E1.
        errata: errata of the published algorithm for every unit; None: none but `erratum_e1`.
        rows: words for what rows count, at the end of the statement.
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
        words: words for the kind of counts.
        mechanism: the mechanism that drew the counts.
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
    if not params.private:  # then one sentence says all: nothing is protected
        return composed
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
        gives = (
            "Epsilon and delta are those of discrete Gaussian noise of this scale. It also gives"
        )
        if mechanism.params.discovery is not None:
            gives = "With the noise of the names it gives epsilon and delta; by itself it gives"
        yield (
            f"Such a change moves the counts by at most {number(math.sqrt(sensitivity.l2_squared))}"
            f" as a vector (l2 norm, the sensitivity). {gives} zCDP with"
            f" rho = squared sensitivity / (2 squared scale) = {number(guarantee.rho)}."
        )
    yield from group_sentences(mechanism)
    yield from design_sentences(mechanism.design)
    yield from _weights(mechanism)
    yield from _tie_sentences(mechanism)


def _tie_sentences(mechanism: CountMechanism) -> Iterator[str]:
    """Say what a tie adds to the counts, unless it is a row like the others or left out."""
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
    """Say which unit weighted counts have, and what else is released."""
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
