"""Releases to show and to publish, made the way a run makes them but for a seed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from hushrank.estimation.common.central_noise import (
    calibrate_pair_counts,
    calibrate_win_counts,
    release_pair_counts,
    release_win_counts,
)
from hushrank.estimation.common.links import LOGISTIC
from hushrank.estimation.common.matrices import PairCounts, WinCounts
from hushrank.estimation.comparisons.mle_uncertainty import rank_by_scores
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.estimation.comparisons.noisy_pairs import rank_noisy_pairs
from hushrank.estimation.comparisons.perturbed_mle import MleSettings, calibrate_mle, perturbed_mle
from hushrank.flows.guarantee.counts import PAIR_COUNTS, WIN_COUNTS
from hushrank.flows.guarantee.mechanism import CountMechanism
from hushrank.flows.guarantee.perturbed_mle import mle_record
from hushrank.flows.guarantee.record import count_record
from hushrank.flows.guarantee.score_mechanism import ScoreMechanism
from hushrank.flows.release.provenance import Provenance
from hushrank.flows.release.release import (
    NO_COMPARISONS,
    NOT_INFORMATIVE,
    Release,
    build_release,
)
from hushrank.flows.release.scale import Scale
from hushrank.flows.release.statistics import ReleasedCounts, ReleasedPairs, ReleasedScores
from hushrank.privacy.bits_used import BitsUsed, Purpose
from hushrank.privacy.randomness import BitSource, seeded_bits
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit
from hushrank.transforms.common.schema import Ties

ITEMS = ("Barcelona", "London", "Milano", "Paris", "St.Gallen", "Stockholm")
WINS = (500, 1050, 560, 790, 770, 330)
PAIR_WINS = (
    (0, 60, 110, 85, 95, 150),
    (230, 0, 215, 190, 205, 240),
    (135, 65, 0, 90, 125, 160),
    (190, 90, 180, 0, 170, 200),
    (175, 80, 150, 105, 0, 165),
    (110, 50, 100, 70, 95, 0),
)
JOB = "ab" * 32
# These releases are drawn from a seed, so that pages and files are the same every time; they say
# of themselves what a run would. Pass `bits=SEEDED` for one that tells the truth.
OF_A_RUN = BitsUsed.of(Purpose.NOISE, [BitSource.OPENDP])
OF_A_RUN |= BitsUsed.of(Purpose.ROW_CHOICE, [BitSource.SYSTEM])
SEEDED = BitsUsed.of(Purpose.NOISE, [BitSource.SEEDED, BitSource.SIMULATED])


def user_params(**changes: Any) -> PrivacyParams:
    """One person protected at epsilon 2, with `changes`."""
    chosen = {
        "unit": Unit.USER,
        "adjacency": Adjacency.REPLACE_ONE,
        "epsilon": 2.0,
        "max_contributions": 15,
        "distinct_pairs": True,
    }
    return PrivacyParams(**(chosen | changes))


def provenance(**changes: Any) -> Provenance:
    """Where the releases of these tests come from, with `changes`."""
    chosen = {
        "release_id": "7c1f93",
        "created": datetime(2026, 11, 20, 2, 0, 4, tzinfo=UTC),
        "name": "campus-choice",
        "job": JOB,
        "method": "noisy-counts",
        "code_version": "0.1.0",
        "charged": True,
        "bits": OF_A_RUN,
    }
    return Provenance(**(chosen | changes))


def make_pairs_release(wins: Sequence[Sequence[int]], **changes: Any) -> Release:
    """A release of the matrix of these exact `wins` of `ITEMS`; `changes` are of its provenance."""
    params = user_params()
    exact = PairCounts(np.array(wins, np.int64))
    calibration = calibrate_pair_counts(params, len(ITEMS))
    mechanism = CountMechanism.of(params, calibration, len(ITEMS), Ties.DROP)
    noisy = release_pair_counts(exact, calibration, seeded_bits(5))
    ranked = rank_noisy_pairs(noisy, calibration.law, LOGISTIC)
    parameters = {"link": "logistic", "pairs": ranked.n_pairs}
    privacy = count_record(PAIR_COUNTS, mechanism, parameters)
    return build_release(
        provenance(method="noisy-pairs", **changes),
        ITEMS,
        ranked.estimate,
        privacy,
        ReleasedPairs.of(noisy, ITEMS),
        Scale.LOG_ODDS,
    )


def make_scores_release(wins: Sequence[Sequence[int]], **changes: Any) -> Release:
    """A release of scores fitted to these exact `wins`; `changes` are of its provenance."""
    settings = MleSettings(expected_comparisons=1300)
    exact = PairCounts(np.array(wins, np.int64))
    calibrated = calibrate_mle(user_params(), settings, len(ITEMS))
    scores = perturbed_mle(exact, calibrated, seeded_bits(5))
    return build_release(
        provenance(method="perturbed-mle", **changes),
        ITEMS,
        rank_by_scores(scores, calibrated),
        mle_record(ScoreMechanism.of(calibrated, Ties.DROP, None)),
        ReleasedScores.of(scores, ITEMS),
        Scale.LOG_ODDS,
    )


def make_release(
    items: Sequence[str] = ITEMS,
    wins: Sequence[int] = WINS,
    params: PrivacyParams | None = None,
    ties: Ties = Ties.DROP,
    n_top: int | None = None,
    seed: int = 5,
    **changes: Any,
) -> Release:
    """A release of these exact `wins`; `changes` are of its provenance."""
    params = params or user_params()
    exact = WinCounts(np.array(wins, np.int64), ties.row_weight)
    calibration = calibrate_win_counts(params, len(wins), ties.row_weight)
    noisy = release_win_counts(exact, calibration, seeded_bits(seed))
    privacy = count_record(WIN_COUNTS, CountMechanism.of(params, calibration, len(wins), ties))
    estimate = rank_by_win_counts(noisy, calibration.law)
    released = ReleasedCounts.of(noisy, items)
    nothing = NOT_INFORMATIVE if params.private else NO_COMPARISONS
    warnings = () if estimate.informative else (nothing,)
    origin = provenance(**changes)
    return build_release(
        origin, items, estimate, privacy, released, Scale.WIN_SHARE, warnings, n_top
    )
