"""Plan of a stream of pair counts: a person's nights counted, or a person's rows.

Every setting gives the same guarantee to one person on all nights together. Nights of L rows on
distinct pairs cost what k L rows cost; metered rows cost what B rows cost, and a person may answer
on any night. People are simulated from the habits that the operator states; no answer is read.

Two things are weighed: the noise in a shown count of a pair, and the answers that count. Both are
in the difference that a night notices. With N answers shown, an item is in 2 N / n of them; the
wins of two items, each a sum of n - 1 noisy counts of variance v, have a difference of variance
2 (n - 1) v + N / (n - 1) where they are equally good. So a night is 95 % certain of the order of
two items, named before, whose shares of won comparisons differ by

    1.96 sqrt(2 (n - 1) v + N / (n - 1)) / (2 N / n),

stated as root mean square over the second half of the nights, and no less than that a share can
differ: 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.planning.plan.stream import StreamRequest
from hushrank.pipelines.simulate.simulate_nights import Answers, simulate_answers, simulate_rows
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import stream_of
from hushrank.privacy.stream_encoder import RowTerms, Terms
from hushrank.privacy.units import NoiseKind, PrivacyParams, Unit

GAPS = (7, 14, 28)  # bands of a year's nights that were worth comparing
MOST_SIMULATED = 400  # most people that are simulated; more are scaled up from them
CERTAIN = 1.96  # standard deviations: 95 % of one statement


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSetting:
    """One way to release the nights of pair counts.

    Attributes:
        terms: what of a person counts.
        bands: bands of the encoder.
        noise: root mean square over nights of the noise in a shown count of a pair, in answers.
        counted: share of people's answers that count.
        noticed: difference of two items' shares of won comparisons that a night notices; 1: none.
    """

    terms: Terms | RowTerms
    bands: int
    noise: float
    counted: float
    noticed: float


def plan_pairs(request: StreamRequest, rows: int) -> tuple[PairSetting, ...]:
    """Compare nights that count with metered rows, at gaps of 7, 14 and 28 nights.

    Args:
        request: what is planned; its delta is above 0.
        rows: B, the most rows of one person.

    Returns:
        The settings, the one that notices most first.

    Raises:
        ValueError: `rows` is out of range, or the guarantee has no delta.
    """
    if request.delta <= 0:
        raise ValueError("rows are compared under Gaussian noise, which needs a delta above 0")
    nights, burst = request.nights, -(-rows // 3)
    gaps = [gap for gap in GAPS if gap <= nights] or [1]
    settings = [
        _setting(request, terms)
        for gap in gaps
        for terms in (
            Terms(nights=nights, participations=-(-nights // gap), gap=gap),
            RowTerms(nights=nights, rows=rows, gap=gap, burst=burst),
        )
    ]
    return tuple(sorted(settings, key=lambda each: each.noticed))


def _setting(request: StreamRequest, terms: Terms | RowTerms) -> PairSetting:
    variances, bands = pair_variances(request, terms)
    people = min(request.people, MOST_SIMULATED)
    answers = _answers(request, terms, people)
    each = 1 if isinstance(terms, RowTerms) else request.answers
    counted = answers.counted.sum(axis=1) * each * request.people / people
    return PairSetting(
        terms=terms,
        bands=bands,
        noise=math.sqrt(float(variances.mean())),
        counted=answers.share_counted,
        noticed=_noticed(request, counted, variances),
    )


def _answers(request: StreamRequest, terms: Terms | RowTerms, people: int) -> Answers:
    if isinstance(terms, RowTerms):
        rows, items = request.answers, request.items
        return simulate_rows(request.habits, terms, people, rows, items, request.seed)
    return simulate_answers(request.habits, terms, people, request.seed)


def pair_variances(
    request: StreamRequest, terms: Terms | RowTerms
) -> tuple[NDArray[np.float64], int]:
    """Return the variance of a shown count of a pair on each night, and the encoder's bands."""
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=request.adjacency,
        epsilon=request.epsilon,
        delta=request.delta,
        noise=NoiseKind.GAUSSIAN,
        max_contributions=request.answers,
        distinct_pairs=True,
    )
    rows = 1 if isinstance(terms, RowTerms) else request.answers
    stream = stream_of(params, Sensitivity(rows, rows), terms, request.workload)
    return stream.variances, stream.encoder.bands


def _noticed(
    request: StreamRequest,
    counted: NDArray[np.float64],
    variances: NDArray[np.float64],
) -> float:
    late, n = slice(request.nights // 2, None), request.items
    ones = request.workload.column(request.nights)
    shown = np.convolve(counted, ones)[: request.nights][late]
    differ, some = np.ones(len(shown)), shown > 0
    deviation = np.sqrt(2 * (n - 1) * variances[late][some] + shown[some] / (n - 1))
    differ[some] = np.minimum(CERTAIN * deviation / (2 * shown[some] / n), 1)
    return math.sqrt(float(np.square(differ).mean()))
