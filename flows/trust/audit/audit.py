"""An audit of a job: which inputs, how long, which bounds.

Outputs of a mechanism for an audit: drawn in this process, or in several, for a given time.
"""

from __future__ import annotations

import math
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np

from hushrank.flows.config.discover_rules import require_listed
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.base import ReductionJob
from hushrank.flows.run.context import Survey, code_version
from hushrank.flows.trust.audit.central import BESIDE, LOOK, central_parts, stream_parts
from hushrank.flows.trust.audit.local import local_parts
from hushrank.flows.trust.audit.result import (
    AuditFound,
    Bound,
    Part,
    PartFound,
    Source,
    for_certificate,
)
from hushrank.privacy.audit import AuditResult, Rows, audit_epsilon, epsilon_by_law, most_provable
from hushrank.privacy.pilot_query import epsilon_with
from hushrank.privacy.units import NoiseKind, Unit
from hushrank.transforms.engine import in_process

MOST_RUNS = 2_000_000  # on each input; so many show half the noise of a fit, at delta 10^-6 too
MOST_NUMBERS = 8_000_000  # numbers in the outputs on each input: 64 MB
LEAST_SECONDS = 0.05  # least time of one call of a source

P = ParamSpec("P")
R = TypeVar("R")


class Workers:
    """Processes that do the slow work of an audit.

    Args:
        processes: number of processes that draw at once; 0: this one alone, and no other is
            started.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        if self._processes:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self._processes, mp_context=context, initializer=_without_beam
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of `function`, which another process can import."""
        if self._pool is None:
            return function(*args, **kwargs)
        return self._pool.submit(function, *args, **kwargs).result()

    def outputs(
        self, source: Source, sides: tuple[int, ...], seconds: float, least: int
    ) -> list[Rows]:
        """Equally many outputs on each of these sides, for about this long.

        Args:
            source: the source that draws.
            sides: inputs of the source on which it draws.
            seconds: time after which to stop.
            least: runs on each side that are drawn in any case.

        Returns:
            For each side, shape (runs, d).
        """
        count = max(self._processes, 1)
        own = math.ceil(least / count)
        if self._pool is None:
            return outputs_until(source, sides, seconds, own)
        waiting: list[Future[Any]] = [
            self._pool.submit(outputs_until, source, sides, seconds, own, count)
            for _ in range(count)
        ]
        found = [each.result() for each in waiting]
        return [np.concatenate(parts) for parts in zip(*found, strict=True)]


def _without_beam() -> None:
    """Set up a child process: synthetic logs are small."""
    in_process.choose()


def outputs_until(
    source: Source, sides: tuple[int, ...], seconds: float, least: int, processes: int = 1
) -> list[Rows]:
    """See `Workers.outputs`; for one process of so many, which share what memory there is.

    The clock says how many runs there are. A run takes a little longer with some results than with
    others, so their number depends on results a little; a bound takes it as given.
    """
    end, runs, size = time.monotonic() + seconds, 0, source.block
    most, numbers = MOST_RUNS // processes, MOST_NUMBERS // processes
    found: list[list[Rows]] = [[] for _ in sides]
    while runs < least or (time.monotonic() < end and runs < most):
        started = time.monotonic()
        for place, side in enumerate(sides):
            found[place].append(source.outputs(side, size))
        runs += len(found[0][-1])
        most = min(most, numbers // max(found[0][-1].shape[1], 1))
        if time.monotonic() - started < LEAST_SECONDS:
            size = min(2 * size, 10_000)
    return [np.concatenate(parts) for parts in found]


WRONG = 1e-3  # chance that any bound of an audit is wrong
PILOT, PILOT_SHARE = 60, 0.15  # runs, and part of the time, that choose the two inputs
LEAST = 200  # runs on each input
Report = Callable[[str], None]


def audit(
    survey: Survey,
    *,
    seconds: float,
    processes: int,
    least: int = LEAST,
    wrong: float = WRONG,
    report: Report = lambda _: None,
) -> AuditFound:
    """Audit the mechanism that a configuration describes.

    No row of the survey is read, no ledger is opened and nothing is spent.

    Args:
        survey: the configuration.
        seconds: time to draw.
        processes: number of processes that draw; 0: this one.
        least: runs on each input that are drawn in any case.
        wrong: chance that any bound is wrong.
        report: is called with a sentence on each step.

    Raises:
        ConfigError: the configuration suits no method.
    """
    config, started = survey.config, time.monotonic()
    require_listed(config, f"{survey.path}", "audit")
    calibrated = survey.calibrated
    prefix = "hushrank-audit-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder, Workers(processes) as workers:
        report("counting synthetic logs")
        parts = workers.call(parts_of, config, Path(folder))
        each = max(started + seconds - time.monotonic(), 0.0) / len(parts)
        found = []
        for part in parts:
            report(f"drawing: {part.what}")
            found.append(examined(part, workers, each, least, wrong / len(parts)))
    local = config.privacy.unit is Unit.LOCAL
    attacked = calibrated.method.attacked(calibrated.mechanism)
    epsilon, delta = attacked.epsilon, attacked.delta
    if not local:
        epsilon = epsilon_with(epsilon, calibrated.params)
    created, tried = datetime.now(UTC).replace(microsecond=0), tuple(found)
    whole = [each for each in found if each.what != LOOK and not each.what.startswith(BESIDE)]
    return AuditFound(
        job=config.job_hash(),
        name=config.name,
        method=calibrated.method.facts.name,
        unit=config.privacy.unit,
        adjacency=None if local else config.privacy.adjacency,
        epsilon=epsilon,
        delta=delta,
        epsilon_lower=max(each.largest.epsilon_lower for each in whole),
        confidence=1 - wrong,
        refuted=any(each.refuted for each in found),
        parts=tried,
        seconds=round(time.monotonic() - started, 1),
        processes=processes,
        code_version=code_version(),
        created=created,
        certificate=for_certificate(tried, 1 - wrong, created),
    )


def parts_of(config: SurveyConfig, folder: Path) -> list[Part]:
    """The promises of a job, with inputs that are counted already."""
    if config.privacy.unit is Unit.LOCAL:
        return local_parts(config, folder, reduce_rows)
    if config.schedule.stream is not None:
        return stream_parts(config, folder, reduce_rows)
    return central_parts(config, folder, reduce_rows)


def reduce_rows(job: ReductionJob) -> None:
    """Reduce synthetic rows in this process, as the child process of a run does."""
    from hushrank.pipelines.reduce import reduce  # loads an engine: which one is chosen before

    reduce.run(job)


def examined(part: Part, workers: Workers, seconds: float, least: int, wrong: float) -> PartFound:
    """Bounds of one promise.

    Args:
        part: the promise.
        workers: draw.
        seconds: time to draw.
        least: runs on each input, at least.
        wrong: chance that one of the bounds is wrong.
    """
    left, right = hardest(part, workers, PILOT_SHARE * seconds)
    share = 1 - PILOT_SHARE if len(part.pairs) > 1 else 1.0
    outputs = workers.outputs(part.source, (left, right), share * seconds, least)
    gaussian, known = part.law is NoiseKind.GAUSSIAN, bool(part.centres)
    kinds = 1 + gaussian + known
    bounds = [_black_box(part, outputs, wrong / kinds, gaussian=False, sides=(left, right))]
    if gaussian:
        bounds.append(_black_box(part, outputs, wrong / kinds, gaussian=True, sides=(left, right)))
    if known:
        bounds.append(_by_law(part, outputs, (left, right), wrong / kinds))
    runs = len(outputs[0])
    found = PartFound(
        what=part.what,
        epsilon=part.epsilon,
        delta=part.delta,
        left=part.sides[left],
        right=part.sides[right],
        runs=runs,
        most_provable=most_provable(runs, 1 - wrong / kinds),
        bounds=tuple(bounds),
        refuted=False,
    )
    return found.model_copy(update={"refuted": any(map(found.exceeded_by, found.bounds))})


def hardest(part: Part, workers: Workers, seconds: float) -> tuple[int, int]:
    """The adjacent inputs that are hardest to tell apart by the promise: easiest, if it is broken.

    Where counts get noise, those whose counts are farthest apart; else by a few runs of their own,
    which no bound counts.
    """
    if len(part.pairs) == 1:
        return part.pairs[0]
    if part.apart:
        return part.pairs[int(np.argmax(part.apart))]
    if part.centres:
        order = 1 if part.law is NoiseKind.LAPLACE else 2
        apart = [
            float(np.linalg.norm(part.centres[a] - part.centres[b], order)) for a, b in part.pairs
        ]
        return part.pairs[int(np.argmax(apart))]
    sides = tuple(sorted({side for pair in part.pairs for side in pair}))
    outputs = dict(zip(sides, workers.outputs(part.source, sides, seconds, PILOT), strict=True))
    apart = [_pilot(outputs[a], outputs[b]) for a, b in part.pairs]
    return part.pairs[int(np.argmax(apart))]


def _pilot(left: Rows, right: Rows) -> float:
    """Measure how well a linear score tells the outputs apart; 0 for outputs of different forms."""
    if left.shape[1] != right.shape[1]:
        return math.inf
    spread = (left.var(axis=0) + right.var(axis=0)) / 2
    change = np.square(left.mean(axis=0) - right.mean(axis=0))
    fixed = spread == 0
    if (change[fixed] > 0).any():
        return math.inf
    return float((change[~fixed] / spread[~fixed]).sum())


def _black_box(
    part: Part, outputs: list[Rows], wrong: float, *, gaussian: bool, sides: tuple[int, int]
) -> Bound:
    left, right = outputs
    if left.shape[1] != right.shape[1]:
        width = max(left.shape[1], right.shape[1])
        left, right = (np.pad(each, ((0, 0), (0, width - each.shape[1]))) for each in outputs)
    statistics, ratio = part.source.statistics(*sides), part.source.ratio(*sides)
    varies = (left != left[0]).any(axis=0) | (right != left[0]).any(axis=0)
    if statistics or ratio:  # these know every column by its place
        varies[:] = True
    pair = left[:, varies], right[:, varies]
    if not varies.any():
        return Bound(epsilon_lower=0.0, assumes="nothing", event="all outputs are the same")
    if pair[0].shape[1] > 1:
        statistics["differences of neighbouring columns"] = _differences
    if part.centres:
        moved = np.flatnonzero((part.centres[sides[0]] != part.centres[sides[1]])[varies])
        if len(moved):
            statistics["columns that moved"] = lambda rows: rows[:, moved]
    found: AuditResult = audit_epsilon(
        lambda rows, _: rows,
        *pair,
        trials=len(left),
        confidence=1 - wrong,
        delta=part.delta,
        statistics=statistics,
        ratio=ratio,
        gaussian=gaussian,
    )
    return Bound(
        epsilon_lower=found.epsilon_lower,
        assumes="gaussian trade-off" if gaussian else "nothing",
        event=found.event,
    )


def _by_law(part: Part, outputs: list[Rows], sides: tuple[int, int], wrong: float) -> Bound:
    if part.law is None:
        raise ValueError("the part has no noise of a known family")
    centres = [part.centres[side] for side in sides]
    noise = np.concatenate([rows - centre for rows, centre in zip(outputs, centres, strict=True)])
    change = centres[0] - centres[1]
    epsilon = epsilon_by_law(change, noise, part.law, delta=part.delta, level=wrong)
    moved = int(np.count_nonzero(change))
    order = 1 if part.law is NoiseKind.LAPLACE else 2
    return Bound(
        epsilon_lower=epsilon,
        assumes="noise of the stated family",
        event=f"{moved} counts move, by {np.linalg.norm(change, order):.6g} in l{order} norm",
    )


def _differences(rows: Rows) -> Rows:
    return np.diff(rows, axis=1)
