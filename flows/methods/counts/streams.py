"""Methods on counts, night by night under one budget: `privacy.stream` for a configuration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration
from hushrank.estimation.common.shared_nights import window_totals
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import Arrays, Terms
from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.privacy.accounting import spend_of
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import Stream, stream_of
from hushrank.privacy.stream_encoder import ONE
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams
from hushrank.transforms.common.groups import Groups
from hushrank.transforms.streams.released_files import Drawn, Shown

NIGHT, RELEASED, SHOWN, ANSWERS = "night", "released", "shown", "answers"  # arrays of a night
DECIMALS = 6  # decimals of a shown cell: what is published is what is ranked

Cells = NDArray[np.int64] | NDArray[np.float64]
# Sensitivity of one night's counts, from the bounds, the items, a row's weight and the groups.
SensitivityOf = Callable[[PrivacyParams, int, int, int], Sensitivity]


def calibrate_stream(
    config: SurveyConfig, of: SensitivityOf, groups: Groups | None
) -> tuple[Calibration, Stream] | None:
    """Noise of the nights of a stream; None: the job is none.

    Args:
        config: the job, under unit `user`.
        of: the sensitivity of one night's counts.
        groups: groups that are counted apart; None: there are none.

    Raises:
        ConfigError: the budget is too small for any noise that can be computed with.
    """
    section = config.schedule.stream
    if section is None:
        return None
    params = config.privacy.params()
    added = replace(params, adjacency=Adjacency.ADD_REMOVE)
    n_items, n_groups = len(config.items.catalogue()), 1 if groups is None else len(groups)
    night = of(added, n_items, config.comparisons.ties.row_weight, n_groups)
    try:
        stream = stream_of(params, night, section.terms, section.workload, section.bands)
    except ValueError as error:
        raise ConfigError(f"schedule.stream: {error}; raise the budget of the stream") from None
    spend = spend_of(params, stream.sensitivity.l2_squared)
    return Calibration(stream.sensitivity, "stream_sensitivity", stream.law, spend), stream


def terms_of(mechanism: CountMechanism, where: str) -> Terms:
    """Cost and noise of counts, of a night of a stream too; `where` says of which counts."""
    stream = mechanism.stream
    if stream is None:
        return Terms.of(mechanism.calibration, where)
    bands = stream.encoder.bands
    nights = f"{where}, spread over {bands} nights" if bands > 1 else where
    return Terms.of(mechanism.calibration, nights, 1 / ONE)


def arrays_of(drawn: Drawn, shown: Shown, night: int, stream: Stream) -> Arrays:
    """Return the stored arrays of a night: what was drawn, and what all nights so far show."""
    return {
        NIGHT: np.array(night),
        RELEASED: drawn.released,
        SHOWN: np.round(shown.cells, DECIMALS),
        ANSWERS: np.round(window_totals(stream, shown.sums).answers, DECIMALS),
    }


@dataclass(frozen=True, slots=True)
class ShownCells:
    """Cells that a release is made of.

    Attributes:
        counts: noisy, in the unit of counts; integers where the release is no night of a stream.
        law: law of the noise in each of them.
    """

    counts: Cells
    law: NoiseLaw


def shown_cells(drawn: Arrays, mechanism: CountMechanism, name: str) -> ShownCells:
    """The cells that a method ranks by.

    Args:
        drawn: arrays that were drawn.
        mechanism: mechanism that drew them.
        name: name of the array, where the release is no night of a stream.
    """
    if mechanism.stream is None:
        return ShownCells(drawn[name], mechanism.law)
    return ShownCells(drawn[SHOWN], mechanism.stream.shown_law(int(drawn[NIGHT])))


def drawn_of_group(drawn: Arrays, mechanism: CountMechanism, group: int) -> Arrays:
    """Return the arrays that were drawn for one of several groups."""
    if mechanism.stream is None:
        return {name: values[group] for name, values in drawn.items()}
    return {NIGHT: drawn[NIGHT], SHOWN: drawn[SHOWN][group]}


def drawn_of_all(drawn: Arrays, mechanism: CountMechanism) -> Arrays:
    """The sums over all groups."""
    if mechanism.stream is None:
        return {name: values.sum(axis=0) for name, values in drawn.items()}
    return {NIGHT: drawn[NIGHT], SHOWN: np.round(drawn[SHOWN].sum(axis=0), DECIMALS)}


def without_diagonal(cells: Cells) -> Cells:
    """A noisy matrix of pairs; on its diagonal, where nothing is counted, without its noise."""
    if not cells.diagonal().any():
        return cells
    found = cells.copy()
    np.fill_diagonal(found, 0)
    return found


def simulated_night(
    counts: NDArray[np.int64], mechanism: CountMechanism, bits: RandomBits
) -> Arrays | None:
    """Show these counts as a stream's last night would, for a plan; None: it is no stream.

    Raises:
        ValueError: the bits are those of a release, whose nights are drawn and stored one by one
            (`transforms.streams.released_files`).
    """
    stream = mechanism.stream
    if stream is None:
        return None
    if bits.safe:
        raise ValueError("a night of a stream is drawn by draw_night, which stores it")
    last = stream.terms.nights - 1
    fine = NoiseLaw(NoiseKind.GAUSSIAN, ONE * math.sqrt(float(stream.variances[last])))
    noise = add_noise(np.zeros(counts.shape, np.int64), fine, bits) / ONE
    return {NIGHT: np.array(last), SHOWN: np.round(counts + noise, DECIMALS)}
