"""Black-box lower bounds on the epsilon of a release function.

The release is run many times on two adjacent inputs. If it is (epsilon, delta)-DP, then for every
event E, P(E | left) <= e^epsilon P(E | right) + delta, and the same with the inputs exchanged. The
outputs are split in three parts, run by run:

    a quarter  shapes scores: functions of an output that grow with how much better `left` explains
               it than `right`;
    a quarter  chooses, in each direction, the score and the threshold with the best bound;
    a half     bounds the probabilities of the two chosen events ([CP34]).

The last part has no influence on the choice of events, so the bound holds at the stated confidence
for every mechanism and every choice of events. A bound above the promised epsilon proves a bug. A
bound below it proves nothing; only a theorem proves a guarantee.

Lower bounds on epsilon of a mechanism that adds independent noise of a stated family. Pure.

`privacy.audit` assumes nothing, and so cannot show more than log(runs), nor the loss that is spread
over many counts. Where a release adds independent discrete Laplace or Gaussian noise to exact
counts, of whatever scale, its loss between two inputs follows from how far the counts move, v, and
from the scales, s: of Laplace noise it is sum |v| / s ([DR14] Theorem 3.6, with equality), and of
Gaussian noise that of the shift sqrt(sum v^2 / s^2) (`privacy.gaussian_profile`). So an upper
confidence bound on each scale gives a lower bound on epsilon. That says nothing of noise of another
family, or that is not independent.

References:
    [CP34] Clopper, Pearson. The use of confidence or fiducial limits illustrated in the case of the
        binomial. 1934.
    [DRS22] Dong, Roth, Su. Gaussian differential privacy. 2022.
    [DR14] Dwork, Roth. The Algorithmic Foundations of Differential Privacy. 2014.
    [DZ10] Dembo, Zeitouni. Large Deviations Techniques and Applications. 2010. Section 2.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from hushrank.privacy.gaussian_profile import Shift, composed_gaussians
from hushrank.privacy.units import NoiseKind

Floats = NDArray[np.float64]


def epsilon_by_law(
    change: Floats, noise: Floats, kind: NoiseKind, *, delta: float, level: float
) -> float:
    """A lower bound on epsilon at `delta`, if the noise is independent and of the family `kind`.

    Args:
        change: shape (d,): how far each exact count moves between the two inputs.
        noise: shape (runs, d): noise of that many runs.
        kind: family of the noise in every count that moves; scales may differ.
        delta: delta of the promised (epsilon, delta)-DP.
        level: probability that the bound is wrong, over the runs.

    Returns:
        At least 0; `inf` where a count that moves has no noise.

    Raises:
        ValueError: the shapes do not fit, or there is no run.
    """
    if noise.ndim != 2 or change.shape != noise.shape[1:] or not len(noise):
        raise ValueError(f"noise of shape {noise.shape} does not fit {change.shape} counts")
    moved = np.flatnonzero(change)
    if not len(moved):
        return 0.0
    scales = np.array([scale_at_most(noise[:, j], kind, level / len(moved)) for j in moved])
    if not scales.all():
        return math.inf
    shares = np.abs(change[moved]) / scales
    if kind is NoiseKind.LAPLACE:
        return float(shares.sum())
    return epsilon_of_shift(float(np.linalg.norm(shares)), delta)


def epsilon_of_shift(shift: float, delta: float) -> float:
    """Epsilon at `delta` of Gaussian noise whose mean moves by `shift` standard deviations."""
    return composed_gaussians([Shift(shift**2, 0.0)], delta)


def scale_at_most(noise: Floats, kind: NoiseKind, level: float) -> float:
    """An upper confidence bound on the scale of discrete noise.

    Laplace: |X| is an exponential family in log q, q = exp(-1 / scale), so the Chernoff bound on a
    mean of |X| as small as the one seen, a, is exp(-runs KL(q_a, q)) with q_a the member of mean a
    ([DZ10]); it holds for any number of runs. Gaussian: runs mean(X^2) / scale^2 is taken as chi
    squared, of which the discrete law differs by less than 10^-7 from scale 1 on.

    Args:
        noise: shape (runs,), integers.
        kind: family.
        level: probability that the true scale is larger.
    """
    runs = len(noise)
    if not noise.any():
        return 0.0
    if kind is NoiseKind.GAUSSIAN:
        return math.sqrt(float(np.square(noise).sum()) / float(scipy.stats.chi2.ppf(level, runs)))
    mean = float(np.abs(noise).mean())
    seen = (math.sqrt(1 + mean**2) - 1) / mean  # q_a: the mean of |X| is 2 q / (1 - q^2)

    def excess(scale: float) -> float:
        q = math.exp(-1 / scale)
        at_zero = math.log1p(-seen) - math.log1p(seen) - math.log(-math.expm1(-1 / scale))
        divergence = at_zero + math.log1p(q) + mean * (math.log(seen) + 1 / scale)
        return runs * divergence + math.log(level)

    low = -1 / math.log(seen)
    high = 2 * low
    while excess(high) < 0:
        high *= 2
    return float(scipy.optimize.brentq(excess, low, high))


Input = TypeVar("Input")
Rows = NDArray[np.float64]  # shape (runs, d): one output a row
Release = Callable[[Input, int], ArrayLike]  # input, number of runs -> one output a row
Statistic = Callable[[Rows], ArrayLike]  # outputs -> one or several numbers a row
Bound = Callable[[NDArray[np.int64], int, float], Rows]  # counts, runs, level -> a bound an event

LEAST_TRIALS = 100
MANY_VALUES = 64  # a column with more distinct values is cut at quantiles
SIGNIFICANT = 3.0  # standard errors between two counts; below it they score as equal
TAILS = np.array([1e-4, 1e-3, 1e-2])
CUT_LEVELS = np.unique(np.concatenate([TAILS, np.linspace(0, 1, 17), 1 - TAILS]))
THRESHOLD_LEVELS = np.unique(np.concatenate([TAILS, np.linspace(0, 1, 65), 1 - TAILS]))
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, so that a fingerprint keeps every bit


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """The result of an audit.

    Attributes:
        epsilon_lower: the release is not (epsilon, delta)-DP for any smaller epsilon; at least 0.
        confidence: probability, over the runs, that this statement is true.
        delta: the delta of the statement.
        event: the event that shows it, in words.
        trials: runs on each input.
        held_out: runs on each input in which the event was counted.
        counts: occurrences of the event: under the input that favours it, under the other.
    """

    epsilon_lower: float
    confidence: float
    delta: float
    event: str
    trials: int
    held_out: int
    counts: tuple[int, int]


def audit_epsilon(
    release: Release[Input],
    left: Input,
    right: Input,
    *,
    trials: int,
    confidence: float,
    delta: float = 0.0,
    statistics: Mapping[str, Statistic] | None = None,
    ratio: Statistic | None = None,
    gaussian: bool = False,
) -> AuditResult:
    """Compute a lower bound on the epsilon at which `release` distinguishes `left` from `right`.

    Three scores are always tried: all columns of an output as if they were independent, one linear
    combination of them, and the output as a whole (which notices frequent outputs, such as rankings
    of few items). The first and the last find outputs that only one input can produce.

    Args:
        release: called as release(input, runs); returns that many independent outputs, finite
            numbers of shape (runs,) or (runs, d). `one_by_one` turns a function that returns a
            single output into such a function.
        left: outputs on one input.
        right: an input adjacent to it.
        trials: runs on each input, at least 100.
        confidence: confidence of the bound, strictly between 0 and 1, for instance 1 - 1e-6.
        delta: delta of the promised (epsilon, delta)-DP.
        statistics: more functions of the outputs to try, by name: shape (runs, d) ->
            (runs,) or (runs, k).
        ratio: logarithm of the likelihood ratio of the two inputs, where it is known: shape (runs,
            d) -> (runs,). It is a score as it is.
        gaussian: bound the shift m of two normal laws that are as far apart as the events show,
            and tell it as epsilon at `delta` ([DRS22]). The bound is one on epsilon if the release
            is stated to be no easier to tell apart than such laws, as with Gaussian noise. A small
            `delta`, at which few runs show nothing, is then no hindrance.

    Returns:
        The bound and the event that shows it.

    Raises:
        ValueError: an argument is out of range, or the outputs do not have the stated form.
    """
    _check(trials, confidence, delta)
    outputs = _rows(release(left, trials), trials), _rows(release(right, trials), trials)
    if outputs[0].shape != outputs[1].shape:
        raise ValueError("the outputs on the two inputs have different numbers of columns")
    quarter, half = trials // 4, trials // 2
    shaping, choosing, held_out = (
        (outputs[0][runs], outputs[1][runs])
        for runs in (slice(quarter), slice(quarter, half), slice(half, None))
    )
    level = (1 - confidence) / 4  # two events, two probabilities each (Bonferroni)
    scores: list[_Score] = _shape_scores(*shaping, statistics or {})
    if ratio is not None:
        scores.append(_Known("the likelihood ratio", ratio))
    bound = _shift_bound if gaussian else partial(_epsilon_bound, delta=delta)
    events = _choose_events(scores, *choosing, level, bound)
    counts = [event.counts(*held_out) for event in events]
    bounds = bound(np.transpose(counts), trials - half, level)
    best = int(np.argmax(bounds))
    found = float(bounds[best])
    return AuditResult(
        epsilon_lower=epsilon_of_shift(found, delta) if gaussian else found,
        confidence=confidence,
        delta=delta,
        event=str(events[best]),
        trials=trials,
        held_out=trials - half,
        counts=counts[best],
    )


def one_by_one(release: Callable[[Input], ArrayLike]) -> Release[Input]:
    """The batch form for `audit_epsilon` of a function that returns one output at each call."""
    return lambda data, runs: np.array([np.ravel(release(data)) for _ in range(runs)])


class _Score(Protocol):
    """Score of how much better the left input explains an output."""

    @property
    def name(self) -> str:
        """Name of the score, in words."""
        ...

    def __call__(self, outputs: Rows) -> NDArray[np.float64]:
        """The score of each output: above 0 if the output is evidence for the left input."""
        ...


@dataclass(frozen=True, slots=True)
class _Known:
    """The likelihood ratio itself."""

    name: str
    ratio: Statistic

    def __call__(self, outputs: Rows) -> NDArray[np.float64]:
        """See `_Score`."""
        return np.asarray(self.ratio(outputs), np.float64)


@dataclass(frozen=True, slots=True)
class _Shaped:
    """A sum of one number for each column: the log-likelihood ratio of its cell, from a table."""

    name: str
    columns: Callable[[Rows], Rows]
    cuts: list[NDArray[np.float64]]  # cuts of each column, ascending
    tables: list[NDArray[np.float64]]  # numbers of each column, one for each of its cells

    def __call__(self, outputs: Rows) -> NDArray[np.float64]:
        """See `_Score`."""
        total = np.zeros(len(outputs))
        for column, cuts, table in zip(
            self.columns(outputs).T, self.cuts, self.tables, strict=True
        ):
            total += table[np.searchsorted(cuts, column, side="right")]
        return total


@dataclass(frozen=True, slots=True)
class _Event:
    """The event that `sign` times a score is at least `threshold`; `sign` is the favoured input."""

    score: _Score
    sign: int  # +1: left, -1: right
    threshold: float

    def counts(self, left: Rows, right: Rows) -> tuple[int, int]:
        """Count how often the event occurs: on the input that it favours, on the other."""
        favoured, other = (left, right) if self.sign > 0 else (right, left)
        return self._count(favoured), self._count(other)

    def _count(self, outputs: Rows) -> int:
        return int(np.count_nonzero(self.sign * self.score(outputs) >= self.threshold))

    def __str__(self) -> str:
        side = "left" if self.sign > 0 else "right"
        return f"{self.score.name} favours the {side} input by {self.threshold:.3g} nats or more"


def _shape_scores(left: Rows, right: Rows, statistics: Mapping[str, Statistic]) -> list[_Score]:
    """Four kinds of scores: all columns, a linear combination, the whole, and each statistic."""
    both = np.concatenate([left, right])
    spread = both.var(axis=0)
    weights = (left.mean(axis=0) - right.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    marks, counts = np.unique(_fingerprints(both), return_counts=True)
    frequent = np.sort(marks[np.argsort(counts)[1 - MANY_VALUES :]])

    def whole(outputs: Rows) -> Rows:
        found = _fingerprints(outputs)
        place = np.searchsorted(frequent, found).clip(max=len(frequent) - 1)
        return np.where(frequent[place] == found, place, -1.0)

    looks: dict[str, Statistic] = {
        "every column": lambda outputs: outputs,
        "a linear combination": lambda outputs: outputs @ weights,
        "the whole output": whole,
        **statistics,
    }
    return [_shape_score(name, partial(_look, look), left, right) for name, look in looks.items()]


def _look(statistic: Statistic, outputs: Rows) -> Rows:
    return _rows(statistic(outputs), len(outputs))


def _shape_score(name: str, columns: Callable[[Rows], Rows], left: Rows, right: Rows) -> _Shaped:
    """Estimate the log-likelihood ratio of every cell; 0 where the counts hardly differ."""
    cuts, tables = [], []
    for on_left, on_right in zip(columns(left).T, columns(right).T, strict=True):
        starts = _cuts(np.concatenate([on_left, on_right]))
        n_left, n_right = (
            np.bincount(np.searchsorted(starts, side, "right"), minlength=len(starts) + 1)
            for side in (on_left, on_right)
        )
        clear = np.abs(n_left - n_right) >= SIGNIFICANT * np.sqrt(n_left + n_right)
        cuts.append(starts)
        tables.append(np.where(clear, np.log((n_left + 0.5) / (n_right + 0.5)), 0.0))
    return _Shaped(name, columns, cuts, tables)


def _cuts(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """The beginnings of cells: each value, or each quantile, has a cell of its own.

    So an output that only one input produces, such as a count without noise, stays apart from its
    neighbours.
    """
    values = np.unique(column)
    if len(values) > MANY_VALUES:
        values = np.quantile(column, CUT_LEVELS, method="nearest")
    return np.unique(np.concatenate([values, np.nextafter(values, np.inf)]))


def _choose_events(
    scores: list[_Score], left: Rows, right: Rows, level: float, bound: Bound
) -> list[_Event]:
    """Choose for each input the event that favours it with the best bound on these outputs."""
    values = [(score, score(left), score(right)) for score in scores]
    events = []
    for sign in (1, -1):
        best, chosen = -1.0, _Event(scores[0], sign, 0.0)
        for score, *sides in values:
            favoured, other = (np.sort(sign * side) for side in sides[::sign])
            pooled = np.concatenate([favoured, other])
            thresholds = np.unique(np.quantile(pooled, THRESHOLD_LEVELS, method="nearest"))
            below = np.stack([np.searchsorted(side, thresholds) for side in (favoured, other)])
            bounds = bound(len(left) - below, len(left), level)
            if bounds.max() > best:
                place = int(np.argmax(bounds))
                best = bounds[place]
                chosen = _Event(score, sign, float(thresholds[place]))
        events.append(chosen)
    return events


def most_provable(trials: int, confidence: float) -> float:
    """The largest bound that `audit_epsilon` can give at delta 0: of an event that always occurs on
    one input, and never on the other."""
    held_out = trials - trials // 2
    counts = np.array([[held_out], [0]])
    return float(_epsilon_bound(counts, held_out, (1 - confidence) / 4, 0.0)[0])


def _epsilon_bound(
    counts: NDArray[np.int64], runs: int, level: float, delta: float
) -> NDArray[np.float64]:
    """ln((p - delta) / q), at least 0, with p bounded from below and q from above.

    Args:
        counts: shape (2, k): counts of k events, on the input that each favours and on the other.
        runs: number of runs on each input.
        level: probability with which each of the two bounds may fail.
        delta: delta of the promised (epsilon, delta)-DP.

    Returns:
        shape (k,).
    """
    p, q = _probabilities(counts, runs, level)
    bound: NDArray[np.float64] = np.log(np.maximum((p - delta) / q, 1.0))
    return bound


def _shift_bound(counts: NDArray[np.int64], runs: int, level: float) -> NDArray[np.float64]:
    """Phi^-1(p) - Phi^-1(q), at least 0: see `_epsilon_bound`."""
    p, q = _probabilities(counts, runs, level)
    known = (p > 0) & (q < 1)
    shift = ndtri(np.where(known, p, 0.5)) - ndtri(np.where(known, q, 0.5))
    bound: NDArray[np.float64] = np.maximum(shift, 0.0)
    return bound


def _probabilities(counts: NDArray[np.int64], runs: int, level: float) -> tuple[Rows, Rows]:
    """Chance of each event on the input that it favours, at least, and on the other, at most
    ([CP34])."""
    favoured, other = counts
    p = scipy.stats.beta.ppf(level, np.maximum(favoured, 1), runs - favoured + 1)
    q = scipy.stats.beta.isf(level, other + 1, np.maximum(runs - other, 1))
    return np.where(favoured > 0, p, 0.0), np.where(other < runs, q, 1.0)


def _fingerprints(outputs: Rows) -> NDArray[np.uint64]:
    """A 64-bit hash of each row. A collision only merges two outputs, which is still an event."""
    marks = np.zeros(len(outputs), np.uint64)
    for column in outputs.T:
        marks ^= (column + 0.0).view(np.uint64)  # -0.0 + 0.0 is 0.0
        marks ^= marks >> np.uint64(32)
        marks *= MULTIPLIER
    return marks


def _rows(values: ArrayLike, runs: int) -> Rows:
    rows = np.asarray(values, np.float64)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or len(rows) != runs:
        raise ValueError(f"need one row for each of {runs} runs, got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("the outputs must be finite numbers")
    return rows


def _check(trials: int, confidence: float, delta: float) -> None:
    if trials < LEAST_TRIALS:
        raise ValueError(f"trials must be >= {LEAST_TRIALS}, got {trials!r}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be strictly between 0 and 1, got {confidence!r}")
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be at least 0 and below 1, got {delta!r}")
