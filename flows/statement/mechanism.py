"""Mechanism of a release: calibrated once, stored with what was drawn, and stated.

A mechanism is a frozen object of public numbers. It draws the noise, and statement, record and
intervals are made from it, so that what is stated is what was drawn, whatever a later version of
the code would come to. It is stored as JSON (`flows.run.drawn`): the names of these classes' fields
are a file format. Each kind of method has its own class; the one of counts, which three methods
share, is here, and beside it what four methods build on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration, law_of_sum
from hushrank.flows.config.comparisons import Design
from hushrank.flows.statement.sentences import Guarantee
from hushrank.privacy.accounting import Spend, epsilon_of, spend_of
from hushrank.privacy.noise import NoiseLaw, gaussian_law, laplace_law
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import Stream
from hushrank.privacy.units import PrivacyParams
from hushrank.transforms.common.groups import Groups
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
        return self.law if self.groups is None else law_of_sum(self.law, len(self.groups))

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
