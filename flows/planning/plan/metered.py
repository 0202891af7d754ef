"""Plan of a stream in which a person's nights count, or rows or squares that a meter counts.

Every setting gives the same guarantee to one person on all nights together. For counts of pairs
nights of L rows on distinct pairs cost what k L rows cost; metered rows cost what B rows cost, and
a person may answer on any night. For wins and losses nights cost k (L^2 + L) squares, metered ones
Q. People are simulated from the habits that the operator states; no answer is read.

Two things are weighed: the noise in a shown count, and the answers that count. Both are in the
difference that a night notices. With N answers shown, an item is in 2 N / n of them; the
wins of two items, each a sum of n - 1 noisy counts of variance v, have a difference of variance
2 (n - 1) v + N / (n - 1) where they are equally good. So a night is 95 % certain of the order of
two items, named before, whose shares of won comparisons differ by

    1.96 sqrt(2 (n - 1) v + N / (n - 1)) / (2 N / n).

For counts of wins and losses the pulls, (wins - losses) / 2, of two items have a difference whose
noise has variance v, in place of 2 (n - 1) v; the rest is the same. The difference is

stated as root mean square over the second half of the nights, and no less than that a share can
differ: 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.planning.plan.stream import StreamRequest
from hushrank.pipelines.simulate.simulate_nights import Answers, simulate_answers, simulate_rows
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import stream_of
from hushrank.privacy.stream_encoder import RowTerms, SquareTerms, StreamTerms, Terms
from hushrank.privacy.units import NoiseKind, PrivacyParams, Unit

GAPS = (7, 14, 28)  # bands of a year's nights that were worth comparing
MOST_SIMULATED = 400  # most people that are simulated; more are scaled up from them
CERTAIN = 1.96  # standard deviations: 95 % of one statement


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredSetting:
    """One way to release the nights of pair counts, or of wins and losses.

    Attributes:
        terms: what of a person counts.
        bands: bands of the encoder.
        noise: root mean square over nights of the noise in a shown count, in answers.
        counted: share of people's answers that count.
        noticed: difference of two items' shares of won comparisons that a night notices; 1: none.
    """

    terms: StreamTerms
    bands: int
    noise: float
    counted: float
    noticed: float


def plan_pairs(request: StreamRequest, rows: int) -> tuple[MeteredSetting, ...]:
    """Compare nights that count with metered rows, at gaps of 7, 14 and 28 nights.

    Args:
        request: what is planned; its delta is above 0.
        rows: B, the most rows of one person.

    Returns:
        The settings, the one that notices most first.

    Raises:
        ValueError: `rows` is out of range, or the guarantee has no delta.
    """
    burst = -(-rows // 3)

    def metered(gap: int) -> RowTerms:
        return RowTerms(nights=request.nights, rows=rows, gap=gap, burst=burst)

    return _compare(request, metered, pair_variances, 2 * (request.items - 1))


def plan_squares(request: StreamRequest, squares: int) -> tuple[MeteredSetting, ...]:
    """Compare nights of wins and losses that count with metered squares, at the same gaps.

    Args:
        request: what is planned; its delta is above 0.
        squares: Q, the allowance of one person.

    Returns:
        The settings, the one that notices most first.

    Raises:
        ValueError: `squares` is out of range, or the guarantee has no delta.
    """
    burst = max(2, -(-squares // 3))

    def metered(gap: int) -> SquareTerms:
        return SquareTerms(nights=request.nights, squares=squares, gap=gap, burst=burst)

    return _compare(request, metered, win_loss_variances, 1)


Variances = Callable[[StreamRequest, StreamTerms], tuple[NDArray[np.float64], int]]


def _compare(
    request: StreamRequest,
    metered: Callable[[int], RowTerms | SquareTerms],
    variances_of: Variances,
    draws: int,
) -> tuple[MeteredSetting, ...]:
    """Compare settings of counts, of which two items differ by noise of `draws` shown counts."""
    if request.delta <= 0:
        raise ValueError("rows are compared under Gaussian noise, which needs a delta above 0")
    nights, settings = request.nights, []
    for gap in [gap for gap in GAPS if gap <= nights] or [1]:
        by_nights = Terms(nights=nights, participations=-(-nights // gap), gap=gap)
        for terms in (by_nights, metered(gap)):
            variances, bands = variances_of(request, terms)
            settings.append(_setting(request, terms, variances, bands, draws))
    return tuple(sorted(settings, key=lambda each: each.noticed))


def _setting(
    request: StreamRequest,
    terms: StreamTerms,
    variances: NDArray[np.float64],
    bands: int,
    draws: int,
) -> MeteredSetting:
    people = min(request.people, MOST_SIMULATED)
    answers = _answers(request, terms, people)
    each = request.answers if isinstance(terms, Terms) else 1
    counted = answers.counted.sum(axis=1) * each * request.people / people
    return MeteredSetting(
        terms=terms,
        bands=bands,
        noise=math.sqrt(float(variances.mean())),
        counted=answers.share_counted,
        noticed=_noticed(request, counted, draws * variances),
    )


def _answers(request: StreamRequest, terms: StreamTerms, people: int) -> Answers:
    if not isinstance(terms, Terms):
        rows, items = request.answers, request.items
        return simulate_rows(request.habits, terms, people, rows, items, request.seed)
    return simulate_answers(request.habits, terms, people, request.seed)


def pair_variances(request: StreamRequest, terms: StreamTerms) -> tuple[NDArray[np.float64], int]:
    """Return the variance of a shown count of a pair on each night, and the encoder's bands."""
    rows = 1 if isinstance(terms, RowTerms) else request.answers
    return _variances(request, terms, Sensitivity(rows, rows))


def win_loss_variances(
    request: StreamRequest, terms: StreamTerms
) -> tuple[NDArray[np.float64], int]:
    """Return the variance of a shown count of wins or losses, and the encoder's bands."""
    if isinstance(terms, SquareTerms):
        return _variances(request, terms, Sensitivity(1, 1))
    rows = request.answers
    return _variances(request, terms, Sensitivity(2 * rows, rows**2 + rows))


def _variances(
    request: StreamRequest, terms: StreamTerms, one: Sensitivity
) -> tuple[NDArray[np.float64], int]:
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=request.adjacency,
        epsilon=request.epsilon,
        delta=request.delta,
        noise=NoiseKind.GAUSSIAN,
        max_contributions=request.answers,
        distinct_pairs=True,
    )
    stream = stream_of(params, one, terms, request.workload)
    return stream.variances, stream.encoder.bands


def _noticed(
    request: StreamRequest,
    counted: NDArray[np.float64],
    variances: NDArray[np.float64],
) -> float:
    """Difference that is noticed, with these variances of the noise between two items."""
    late, n = slice(request.nights // 2, None), request.items
    ones = request.workload.column(request.nights)
    shown = np.convolve(counted, ones)[: request.nights][late]
    differ, some = np.ones(len(shown)), shown > 0
    deviation = np.sqrt(variances[late][some] + shown[some] / (n - 1))
    differ[some] = np.minimum(CERTAIN * deviation / (2 * shown[some] / n), 1)
    return math.sqrt(float(np.square(differ).mean()))
