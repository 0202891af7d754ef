"""Data of an audit: what it draws, the outputs it looks at, and what it found.

The result is for people and for the file that a certificate takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import AwareDatetime

from hushrank.estimation.common.central_noise import Calibration
from hushrank.estimation.common.private_counts import noisy_counts
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.base import Arrays, ReductionJob
from hushrank.flows.methods.draws import exact
from hushrank.flows.methods.registry import METHODS
from hushrank.flows.release.provenance import AuditedPair
from hushrank.flows.release.release import json_text
from hushrank.flows.run.drawn import noisy_votes
from hushrank.flows.statement.mechanism import Mechanism
from hushrank.flows.statement.record import Extended, Record
from hushrank.privacy.audit import Rows, Statistic
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.units import Adjacency, NoiseKind, Query, Unit
from hushrank.transforms.storage.files import InputFile, list_files

Reduce = Callable[[ReductionJob], None]
Columns = Mapping[str, object]  # name -> the values of that column


class Source(Protocol):
    """Draws outputs; it is sent to the processes that draw."""

    @property
    def block(self) -> int:
        """Least number of outputs that are drawn at once."""
        ...

    def outputs(self, side: int, runs: int) -> Rows:
        """Return at least `runs` independent outputs on one of its inputs, shape (runs, d)."""
        ...

    def statistics(self, left: int, right: int) -> dict[str, Statistic]:
        """Functions of outputs that may tell these two inputs apart, by name."""
        ...

    def ratio(self, left: int, right: int) -> Statistic | None:
        """Logarithm of the likelihood ratio of two inputs, where it is known."""
        ...


class Untold:
    """A source that knows no statistic of its own."""

    def statistics(self, left: int, right: int) -> dict[str, Statistic]:
        """Return no statistics."""
        return {}

    def ratio(self, left: int, right: int) -> Statistic | None:
        """Return None: the ratio is not known."""
        return None


@dataclass(frozen=True, kw_only=True)
class Part:
    """One promise, and inputs between which it is tried.

    Attributes:
        what: the promise, in words.
        source: the source that draws.
        sides: words for what the person who changes does in each input.
        pairs: sides that are adjacent.
        epsilon, delta: guarantee that is stated for every such pair.
        law: family of the noise, where it is added to counts that are released; else None.
        centres: the output on each side without that noise, shape (d,); empty if it is no such sum.
        apart: distance between the sides of each pair, if it is known; else empty.
    """

    what: str
    source: Source
    sides: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    epsilon: float
    delta: float = 0.0
    law: NoiseKind | None = None
    centres: tuple[Rows, ...] = ()
    apart: tuple[float, ...] = ()


def as_row(arrays: Arrays) -> Rows:
    """Return one output as one row: all numbers, by the names of the arrays."""
    return np.concatenate([np.ravel(arrays[name]).astype(np.float64) for name in sorted(arrays)])


def written(path: Path, columns: Columns) -> tuple[InputFile, ...]:
    """The rows as a file of Parquet, the way a run finds it."""
    pq.write_table(pa.table(dict(columns)), path)
    return tuple(list_files([str(path)]))


@dataclass(frozen=True)
class Draws(Untold):
    """Draws of a method.

    Attributes:
        config: the small job.
        mechanism: the mechanism that draws.
        exact: arrays of each side.
        block: see `Source`.
    """

    config: SurveyConfig
    mechanism: Mechanism
    exact: tuple[Arrays, ...]
    block: int = 20

    def outputs(self, side: int, runs: int) -> Rows:
        """Draw as often as asked for, one by one."""
        method, bits = METHODS[self.config.method].resolve(self.config).method, system_bits()
        drawn = (method.draw(self.exact[side], self.mechanism, bits) for _ in range(runs))
        return np.stack([as_row(each) for each in drawn])


@dataclass(frozen=True)
class Looks(Untold):
    """Looks at the rows of each side, from exact votes of shape (2,)."""

    look: Calibration
    votes: tuple[NDArray[np.int64], ...]
    block: int = 1_000

    def outputs(self, side: int, runs: int) -> Rows:
        """Draw all at once: each run has votes of its own."""
        votes = np.tile(self.votes[side], (runs, 1))
        return np.asarray(noisy_votes(votes, self.look, system_bits()), np.float64)


@dataclass(frozen=True)
class Beside(Untold):
    """A query beside the ranking, from exact numbers of each side."""

    query: Query
    law: Calibration
    numbers: tuple[NDArray[np.int64], ...]
    block: int = 1_000

    def outputs(self, side: int, runs: int) -> Rows:
        """Draw all at once: each run has numbers of its own."""
        exact = {self.query: np.tile(self.numbers[side], (runs, 1))}
        drawn = noisy_counts(exact, {self.query: self.law}, system_bits())
        return np.asarray(drawn[self.query], np.float64)


AUDIT_FILE = "audit.json"
SLACK = 1e-3  # relative: by less are bounds off that take discrete Gaussian noise for continuous
NOT_SHOWN = (
    "A bound at or below the stated epsilon proves nothing: only a theorem proves a guarantee.",
    "The people, items and rows are synthetic, few, and chosen by this program: another input may"
    " be harder to hide.",
    "The ledger, a run that is killed and resumed, files, logs and error texts are not audited, nor"
    " how rows of the survey's own format are read.",
)
ASSUMPTIONS = {
    "nothing": "nothing",
    "gaussian trade-off": "outputs no easier to tell apart than normal ones",
    "noise of the stated family": "independent noise of the stated family, whatever its scale",
}


class Bound(Record):
    """A lower bound on epsilon.

    Attributes:
        epsilon_lower: no smaller epsilon holds, at the delta of the part; "inf": none does.
        assumes: assumption of the bound, beside chance.
        event: the event that shows it, in words.
    """

    epsilon_lower: Extended
    assumes: Literal["nothing", "gaussian trade-off", "noise of the stated family"]
    event: str

    @property
    def assumption(self) -> str:
        """Assumption of the bound, in words for people."""
        return ASSUMPTIONS[self.assumes]


class PartFound(Record):
    """Result for one promise.

    Attributes:
        what: the promise, in words.
        epsilon, delta: the stated guarantee.
        left, right: words for what the person who changes does in the two inputs.
        runs: number of runs on each input.
        most_provable: largest epsilon that so many runs can show without an assumption.
        bounds: bounds of every kind that was tried.
        refuted: whether one of them exceeds the stated epsilon, by more than rounding.
    """

    what: str
    epsilon: float
    delta: float
    left: str
    right: str
    runs: int
    most_provable: float
    bounds: tuple[Bound, ...]
    refuted: bool

    def exceeded_by(self, bound: Bound) -> bool:
        """Whether that bound shows that the promise is broken."""
        room = 0.0 if bound.assumes == "nothing" else SLACK
        return bound.epsilon_lower > self.epsilon * (1 + room)

    @property
    def largest(self) -> Bound:
        """The bound that shows most."""
        return max(self.bounds, key=lambda bound: bound.epsilon_lower)


class AuditFound(Record):
    """An audit of a job.

    Attributes:
        hushrank_audit: version of this form.
        job: identity of the configuration, as a release of it states it.
        name: the population.
        method: the method that was audited.
        unit, adjacency: unit and adjacency of the promise; null under unit `local`.
        epsilon, delta: stated of the whole release.
        epsilon_lower: the largest lower bound of the release itself.
        confidence: probability, over the runs, that no bound is wrong.
        refuted: some bound exceeds what is stated.
        parts: the promises that were tried.
        items: size of the synthetic catalogue.
        seconds: duration of the audit.
        processes: number of processes that drew.
        code_version: version of the code that was audited.
        created: time of the audit, UTC.
        certificate: the part that a certificate of the same job repeats.
        spent, rows_read: always nothing.
        not_shown: limits of every audit, in sentences.
    """

    hushrank_audit: Literal[1] = 1
    job: str
    name: str
    method: str
    unit: Unit
    adjacency: Adjacency | None
    epsilon: Extended
    delta: float
    epsilon_lower: Extended
    confidence: float
    refuted: bool
    parts: tuple[PartFound, ...]
    seconds: float
    processes: int
    code_version: str
    created: AwareDatetime
    certificate: tuple[AuditedPair, ...]
    spent: Literal[0] = 0
    rows_read: Literal[0] = 0
    not_shown: tuple[str, ...] = NOT_SHOWN

    def to_json(self) -> str:
        """Strict JSON, with the fields in a fixed order."""
        return json_text(self.model_dump(mode="json")) + "\n"


def for_certificate(
    parts: tuple[PartFound, ...], confidence: float, created: datetime
) -> tuple[AuditedPair, ...]:
    """The largest bound of each part, as exact numbers, and in words what it assumes."""
    return tuple(
        AuditedPair(
            pair=f"{part.what}: {part.left} | {part.right}; assumes {part.largest.assumption}",
            epsilon_lower=exact(part.largest.epsilon_lower),
            confidence=exact(confidence),
            when=created,
            stated=exact(part.epsilon),
        )
        for part in parts
    )
