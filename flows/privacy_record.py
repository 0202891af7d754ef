"""The part of a release that says what it guarantees: `PrivacyRecord`, and how it is made."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field, PlainSerializer

from hushrank.flows.count_statement import CountWords, count_statement
from hushrank.flows.record import Record
from hushrank.flows.statement import Guarantee
from hushrank.privacy.accounting import Spend, composed_epsilon, rho_of
from hushrank.privacy.noise import NoiseLaw, gaussian_law, laplace_law
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.schema import Ties

RHO_DELTA = 1e-6  # at which a guarantee that was given as rho is also told as epsilon


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
        noise_scale: in units of what noise was added to; so are `noise_variance` and `sensitivity`.
        sensitivity: in the norm that the noise is calibrated to, `sensitivity_norm`.
        max_contributions: null for unit `comparison`, which bounds nobody's answers.
        parameters: other public numbers and choices of the mechanism, by name.
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


def count_record(
    words: CountWords,
    params: PrivacyParams,
    law: NoiseLaw,
    sensitivity: Sensitivity,
    ties: Ties | None,
    parameters: dict[str, Parameter] | None = None,
    graph_statement: str | None = None,
) -> PrivacyRecord:
    """The record of noisy counts under `params`.

    Args:
        words: which counts.
        params: the guarantee asked for.
        law: law of the noise that was added.
        sensitivity: of the counts as released, doubled where ties are split.
        ties: what became of comparisons without a winner; None where there are no comparisons.
        parameters: see `PrivacyRecord`.
        graph_statement: see `count_statement`.

    Raises:
        ValueError: `law` is not the noise that `params` needs, or less of it.
    """
    guarantee = _count_guarantee(params)
    _check_noise(params, guarantee, law, sensitivity)
    statement = count_statement(words, params, guarantee, law, sensitivity, ties, graph_statement)
    laplace = law.kind is NoiseKind.LAPLACE
    return PrivacyRecord(
        unit=params.unit,
        adjacency=params.adjacency,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        rho=guarantee.rho,
        mechanism=f"discrete-{law.kind}" if params.private else "none",
        noise_scale=law.scale,
        noise_variance=law.variance,
        sensitivity=sensitivity.l1 if laplace else math.sqrt(sensitivity.l2_squared),
        sensitivity_norm="l1" if laplace else "l2",
        sensitivity_l1=sensitivity.l1,
        sensitivity_l2_squared=sensitivity.l2_squared,
        max_contributions=params.max_contributions if params.unit is Unit.USER else None,
        per_item_cap=params.per_item_cap,
        distinct_pairs=params.distinct_pairs,
        ties=ties,
        parameters=parameters or {},
        statement=statement.sentences,
        not_protected=statement.not_protected,
        theorem=statement.theorem,
        erratum=statement.erratum,
    )


def _count_guarantee(params: PrivacyParams) -> Guarantee:
    if params.noise is NoiseKind.LAPLACE:
        return Guarantee(epsilon=params.epsilon, delta=0.0, rho=None)
    rho = rho_of(params)
    if params.rho is None:
        return Guarantee(epsilon=params.epsilon, delta=params.delta, rho=rho)
    epsilon = composed_epsilon([Spend(rho=rho)], RHO_DELTA)
    return Guarantee(epsilon=epsilon, delta=RHO_DELTA, rho=rho)


def _check_noise(
    params: PrivacyParams, guarantee: Guarantee, law: NoiseLaw, sensitivity: Sensitivity
) -> None:
    if guarantee.rho is None:
        needed = laplace_law(sensitivity, params.epsilon)
    else:
        needed = gaussian_law(sensitivity, guarantee.rho)
    if law.kind is not needed.kind or law.scale < needed.scale:
        raise ValueError(f"the guarantee needs {needed}, but {law} was added")
