"""The part of a release that says what it guarantees: `PrivacyRecord`, and how it is made."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from hushrank.flows.statement.counts import CountWords, count_statement
from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.flows.statement.sentences import PrivacyStatement
from hushrank.privacy.stream_encoder import ONE
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.common.schema import Ties


class Record(BaseModel):
    """A part of `release.json`: frozen, and closed to unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def finite_or_text(value: float | None) -> float | str | None:
    """The number, or "inf" or "-inf" as text: JSON has no infinity."""
    return f"{value}" if value is not None and math.isinf(value) else value


# A number that may be infinite, as `inf` or `-inf` in quotes.
Extended = Annotated[float, PlainSerializer(finite_or_text, when_used="json")]
Parameter = bool | int | float | str


class PrivacyRecord(Record):
    """The guarantee, the noise and the bounds it rests on, and the same in words.

    What does not apply to a mechanism is null.

    Attributes:
        epsilon, delta: the guarantee; where the job gave `rho`, what that implies.
        rho: zCDP parameter of Gaussian noise on counts.
        mechanism: `none` where nothing is protected.
        noise_scale: scale in units of what noise was added to; so are `noise_variance` and
            `sensitivity`. Of a night of a stream they are those of the noisy numbers from which all
            that is shown is computed, in counts.
        sensitivity: sensitivity in the norm that the noise is calibrated to, `sensitivity_norm`; of
            a stream that of all nights together.
        sensitivity_l1, sensitivity_l2_squared: exact; of a stream in units of 2^-20 and 2^-40.
        max_contributions: null for unit `comparison`, which bounds nobody's answers.
        parameters: other public numbers and choices of the mechanism, by name.
        bits: sources of the random bits, by what they decided (`privacy.bits_used`); null in
            releases that did not record it.
        reconstructed: the law was not stored with what was drawn, so the code that published it
            worked it out again.
    """

    unit: Unit
    adjacency: Adjacency | None
    epsilon: Extended
    delta: float
    rho: Extended | None = None
    mechanism: str
    noise_scale: float | None = None
    noise_variance: float | None = None
    sensitivity: float | None = None
    sensitivity_norm: str | None = None
    sensitivity_l1: int | None = None
    sensitivity_l2_squared: int | None = None
    max_contributions: int | None = None
    per_item_cap: int | None = None
    distinct_pairs: bool = False
    ties: Ties | None = None
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    statement: tuple[str, ...]
    not_protected: tuple[str, ...]
    theorem: str
    erratum: str | None = None
    bits: dict[str, tuple[str, ...]] | None = None
    reconstructed: bool = False


def trusted_record(
    params: PrivacyParams, statement: PrivacyStatement, **particular: Any
) -> PrivacyRecord:
    """The record of a mechanism on exact counts: bounds and words, and what is its own.

    Args:
        params: unit, adjacency and enforced bounds.
        statement: the guarantee in words.
        particular: the other fields.
    """
    return PrivacyRecord(
        unit=params.unit,
        adjacency=params.adjacency,
        max_contributions=params.max_contributions if params.unit is Unit.USER else None,
        per_item_cap=params.per_item_cap,
        distinct_pairs=params.distinct_pairs,
        statement=statement.sentences,
        not_protected=statement.not_protected,
        theorem=statement.theorem,
        erratum=statement.erratum,
        **particular,
    )


def count_record(
    words: CountWords,
    mechanism: CountMechanism,
    parameters: dict[str, Parameter] | None = None,
) -> PrivacyRecord:
    """The record of counts to which `mechanism` added noise.

    Args:
        words: words for the kind of counts.
        mechanism: the mechanism that drew the counts.
        parameters: see `PrivacyRecord`.
    """
    params, guarantee, law = mechanism.params, mechanism.guarantee, mechanism.law
    sensitivity = mechanism.sensitivity
    statement = count_statement(words, mechanism)
    laplace = law.kind is NoiseKind.LAPLACE
    unit = 1.0 if mechanism.stream is None else 1 / ONE
    moved = sensitivity.l1 if laplace else math.sqrt(sensitivity.l2_squared)
    return trusted_record(
        params,
        statement,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        rho=guarantee.rho,
        mechanism=f"discrete-{law.kind}" if params.private else "none",
        noise_scale=law.scale * unit,
        noise_variance=law.variance * unit**2,
        sensitivity=moved if mechanism.stream is None else moved * unit,
        sensitivity_norm="l1" if laplace else "l2",
        sensitivity_l1=sensitivity.l1,
        sensitivity_l2_squared=sensitivity.l2_squared,
        ties=mechanism.ties,
        parameters=parameters or {},
    )
