"""Plan of a stream of nights, given how often people answer: caps, bands and composition.

Every setting gives the same guarantee to one person on all nights together. The settings differ in
which answers count and in how the noise of nights hangs together. People are simulated from the
habits that the operator states; no answer is read.

The error of an item's share of the wins has two parts: the noise in a shown cell and the sampling
of the answers that count, which caps make fewer. On night t, with N_t answers in what is shown,

    error_t^2 = (variance of the noise + N_t p (1 - p)) / N_t^2,  p = 1 / items.

The stated error is the root mean square over the second half of the nights, and is no less than
sqrt(p (1 - p)), that of saying nothing. With groups N_t is that of a group, whose counts get the
noise, and the stated error is the root mean square over answers, each with the error of its group.

What it leaves out: if people who answer often, and lose most, prefer other items, shares move.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.night_orders import all_nights_quantile
from hushrank.pipelines.simulate.simulate_nights import Habit, simulate_answers
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import Stream, stream_of
from hushrank.privacy.stream_encoder import Terms, Workload
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

COMPOSITION, CAPS, ENCODER = "every night counts", "caps", "caps and encoder"
GAPS = (2, 3, 4, 5, 7, 10, 14, 21, 28, 42, 56, 91, 182)
MOST_SIMULATED = 4_000  # most people that are simulated; more are scaled up from them
MOST_NIGHTS = 1_100  # three years


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """Request for the plan of a stream.

    Attributes:
        nights: T, at most `MOST_NIGHTS`.
        workload: nights that are shown each night.
        habits: habits by which people answer.
        people: number of people.
        items: number of items that are ranked, >= 2.
        answers: number of a person's answers that count on one night, >= 1.
        epsilon, delta: guarantee of the whole stream; delta 0 is pure: Laplace noise alone.
        adjacency: adjacency of the guarantee.
        seed: seed of the simulated people.
        group_shares: share of the answers of each group, relative numbers > 0; empty: there
            are no groups.

    Raises:
        ValueError: a field is out of range.
    """

    nights: int
    workload: Workload
    habits: tuple[Habit, ...]
    people: int
    items: int
    answers: int
    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    seed: int = 0
    group_shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name, least, most in (
            ("nights", 1, MOST_NIGHTS),
            ("people", 1, None),
            ("items", 2, None),
            ("answers", 1, None),
        ):
            value = getattr(self, name)
            if value < least or (most is not None and value > most):
                limit = f"at least {least}" + (f" and at most {most}" if most else "")
                raise ValueError(f"{name} must be {limit}, got {value!r}")
        if not self.habits:
            raise ValueError("habits: name at least one, such as 0.14 for people who answer weekly")
        if not (math.isfinite(self.epsilon) and self.epsilon > 0 and 0 <= self.delta < 1):
            raise ValueError(
                "need a finite epsilon > 0 and a delta of at least 0 and below 1, got"
                f" {self.epsilon!r} and {self.delta!r}"
            )
        if not all(math.isfinite(share) and share > 0 for share in self.group_shares):
            raise ValueError("shares of groups must be > 0; they are relative numbers")
        if len(self.group_shares) == 1:
            raise ValueError("one group is the whole; give shares of at least two groups, or none")

    @property
    def parts(self) -> tuple[float, ...]:
        """Share of the answers of each group; without groups, one share of all."""
        shares = self.group_shares or (1.0,)
        return tuple(share / sum(shares) for share in shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSetting:
    """One way to release the nights, and its accuracy.

    Attributes:
        way: every night counts, caps, or caps and encoder.
        noise_kind: kind of the noise.
        participations, gap, bands: k, b and those of the encoder.
        noise: root mean square over nights of the noise in a shown cell, in answers.
        counted: share of people's answers that count.
        error: error of an item's share of the wins, see the module.
        group_errors: errors of each group; empty: there are no groups.
    """

    way: str
    noise_kind: NoiseKind
    participations: int
    gap: int
    bands: int
    noise: float
    counted: float
    error: float
    group_errors: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """All sensible settings, the one with the smallest error first.

    Attributes:
        request: the request that was planned.
        settings: sorted by `error`.
    """

    request: StreamRequest
    settings: tuple[StreamSetting, ...]

    @property
    def recommended(self) -> StreamSetting:
        """Setting with the smallest error."""
        return self.settings[0]

    def best_of(self, way: str, kind: NoiseKind) -> StreamSetting | None:
        """Setting with the smallest error among those of one way and one noise."""
        mine = (each for each in self.settings if (each.way, each.noise_kind) == (way, kind))
        return next(mine, None)

    @property
    def informative(self) -> bool:
        """Whether the recommended setting says more than that all items are equal."""
        return self.recommended.error < 0.999 * even_share_error(self.request.items)


def plan_stream(request: StreamRequest) -> StreamPlan:
    """Try composition, and caps of several gaps with and without the encoder.

    A person may count as often as fits, so that the last nights have answers as the first ones do.
    """
    settings = []
    for gap in (1, *(gap for gap in GAPS if gap <= request.nights)):
        terms = Terms(nights=request.nights, participations=-(-request.nights // gap), gap=gap)
        people = min(request.people, MOST_SIMULATED)
        answers = simulate_answers(request.habits, terms, people, request.seed)
        scale = request.answers * request.people / people
        wins = answers.counted.sum(axis=1) * scale
        settings += [
            _setting(request, terms, kind, bands, wins, answers.share_counted)
            for kind, bands in _ways(request, terms)
        ]
    return StreamPlan(request, tuple(sorted(settings, key=lambda each: each.error)))


def even_share_error(items: int) -> float:
    """Error of a share if all items are called equal."""
    return math.sqrt((items - 1) / items**2)


def _ways(request: StreamRequest, terms: Terms) -> list[tuple[NoiseKind, int]]:
    """List the noise and bands to try; few bands are better if each night shows little else."""
    ways = [(NoiseKind.LAPLACE, 1)]
    if request.delta > 0:
        most = request.workload.most_bands(terms)
        bands = {1, most, *(2**power for power in range(1, most.bit_length()) if 2**power < most)}
        ways += [(NoiseKind.GAUSSIAN, each) for each in sorted(bands)]
    return ways


def _setting(
    request: StreamRequest,
    terms: Terms,
    kind: NoiseKind,
    bands: int,
    counted: NDArray[np.float64],
    share: float,
) -> StreamSetting:
    variances = _stream(request, terms, kind, bands).variances
    way = COMPOSITION if terms.gap == 1 else CAPS if bands == 1 else ENCODER
    errors = [_error(part * counted, variances, request) for part in request.parts]
    return StreamSetting(
        way=way,
        noise_kind=kind,
        participations=terms.participations,
        gap=terms.gap,
        bands=bands,
        noise=math.sqrt(float(variances.mean())),
        counted=share,
        error=math.sqrt(float(np.square(errors) @ request.parts)),
        group_errors=tuple(errors) if request.group_shares else (),
    )


def _stream(request: StreamRequest, terms: Terms, kind: NoiseKind, bands: int) -> Stream:
    """Build the stream of win counts: a person moves one of them by all answers of a night."""
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=request.adjacency,
        epsilon=request.epsilon,
        delta=0.0 if kind is NoiseKind.LAPLACE else request.delta,
        noise=kind,
        max_contributions=request.answers,
    )
    night = Sensitivity(request.answers, request.answers**2)
    return stream_of(params, night, terms, request.workload, bands)


def _error(
    counted: NDArray[np.float64], variances: NDArray[np.float64], request: StreamRequest
) -> float:
    late = slice(request.nights // 2, None)
    ones = request.workload.column(request.nights)
    shown = np.convolve(counted, ones)[: request.nights][late]
    nothing = even_share_error(request.items)
    squares = np.full(len(shown), nothing**2)
    some = shown > 0
    sampled = shown[some] * nothing**2
    squares[some] = np.minimum((variances[late][some] + sampled) / shown[some] ** 2, nothing**2)
    return math.sqrt(float(squares.mean()))


def habits_of(texts: Sequence[str]) -> tuple[Habit, ...]:
    """Parse habits: the probability to answer on a night, and the share of people who have it.

    Raises:
        ValueError: a text is not `CHANCE` or `CHANCE:SHARE`.
    """
    habits = []
    for text in texts:
        chance, _, share = text.partition(":")
        try:
            habits.append(Habit(share=float(share or 1), chance=float(chance)))
        except ValueError as error:
            raise ValueError(
                f"--habit {text}: must be a chance of at most 1, or a chance and a share of people"
                f" as 0.14:0.3 ({error})"
            ) from None
    return tuple(habits)


def alarm_difference(plan: StreamPlan, pairs: int) -> float:
    """Difference of two items' shares of the wins that is certain on all nights; see
    `night_orders`.

    Formula: q sqrt(2) error, with the error of one share in the recommended setting, as root mean
    square over nights. Half of the alarms that are due at just this difference go off on a night.
    A window of W nights moves from a difference d to -d within W nights, and has passed -q sqrt(2)
    error after W / 2 (1 + q sqrt(2) error / d) of them: after 3 W / 4 where d is twice as large.
    """
    best = plan.recommended
    normal = best.noise_kind is NoiseKind.GAUSSIAN
    q = all_nights_quantile(plan.request.nights, pairs, normal=normal)
    return math.sqrt(2) * q * best.error
