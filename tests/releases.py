"""Releases to show and to publish, made the way a run makes them but for a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from hushrank.estimation.common.central_noise import (
    Calibration,
    calibrate_pair_counts,
    calibrate_win_counts,
    release_pair_counts,
    release_win_counts,
)
from hushrank.estimation.common.links import LOGISTIC
from hushrank.estimation.common.matrices import PairCounts, WinCounts
from hushrank.estimation.common.score_change import window_totals
from hushrank.estimation.comparisons.mle_uncertainty import rank_by_scores
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.estimation.comparisons.noisy_pairs import rank_noisy_pairs
from hushrank.estimation.comparisons.perturbed_mle import MleSettings, calibrate_mle, perturbed_mle
from hushrank.flows.methods.counts.noisy_counts import ReleasedCounts
from hushrank.flows.methods.counts.noisy_pairs import ReleasedPairs
from hushrank.flows.methods.likelihood.perturbed_mle import ReleasedScores
from hushrank.flows.release.archive import REPORT, Attach
from hushrank.flows.release.provenance import Provenance
from hushrank.flows.release.release import (
    NO_COMPARISONS,
    NOT_INFORMATIVE,
    Release,
    build_release,
)
from hushrank.flows.release.scale import Scale
from hushrank.flows.release.stream import StreamRecord
from hushrank.flows.statement.mechanism import PAIR_COUNTS, WIN_COUNTS, CountMechanism
from hushrank.flows.statement.perturbed_mle import ScoreMechanism, mle_record
from hushrank.flows.statement.record import count_record
from hushrank.privacy.accounting import spend_of
from hushrank.privacy.randomness import BitSource, BitsUsed, Purpose, seeded_bits
from hushrank.privacy.sensitivity import win_counts_sensitivity
from hushrank.privacy.stream import released_night, shown_night, stream_of
from hushrank.privacy.stream_encoder import Terms, Workload
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
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


def stream_params(**changes: Any) -> PrivacyParams:
    """One person protected on all nights of a stream, with `changes`."""
    gaussian = {"epsilon": 2.0, "delta": 1e-6, "noise": NoiseKind.GAUSSIAN}
    return user_params(**({"max_contributions": 1, "distinct_pairs": False} | gaussian | changes))


def stream_mechanism(
    window: int | None, params: PrivacyParams, nights: int = 8, gap: int = 3
) -> CountMechanism:
    """Win counts of `ITEMS`, of which each night shows the last `window`."""
    terms = Terms(nights=nights, participations=-(-nights // gap), gap=gap)
    added = replace(params, adjacency=Adjacency.ADD_REMOVE)
    night = win_counts_sensitivity(added, len(ITEMS))
    stream = stream_of(params, night, terms, Workload(window))
    spend = spend_of(params, stream.sensitivity.l2_squared)
    calibration = Calibration(stream.sensitivity, "stream_sensitivity", stream.law, spend)
    return CountMechanism.of(params, calibration, len(ITEMS), Ties.DROP, stream=stream)


def make_nights(
    wins: Sequence[Sequence[int]],
    window: int | None = 3,
    seed: int = 5,
    params: PrivacyParams | None = None,
) -> list[Release]:
    """Releases of the first nights of a stream with these exact `wins`, a row a night."""
    mechanism = stream_mechanism(window, params or stream_params())
    stream, bits, first = mechanism.stream, seeded_bits(seed), date(2026, 11, 1)
    assert stream is not None
    exact, releases, noisy = [np.array(night, np.int64) for night in wins], [], []
    for number in range(len(wins)):
        recent = exact[max(0, number + 1 - stream.encoder.bands) : number + 1][::-1]
        noisy.append(released_night(stream, recent, bits))
        shown, law = shown_night(stream, np.array(noisy)), stream.shown_law(number)
        answers = window_totals(stream, np.array(noisy).sum(axis=1)).answers
        counts = WinCounts(shown, 1, confidential=False)
        record = StreamRecord.of("5ea3", first, number, stream, noisy[-1], answers)
        night = first + timedelta(days=number)
        made = datetime(night.year, night.month, night.day, 2, tzinfo=UTC) + timedelta(days=1)
        origin = provenance(release_id=f"night{number}", night=night, created=made, stream=record)
        estimate = rank_by_win_counts(counts, law)
        privacy = count_record(WIN_COUNTS, mechanism)
        released = ReleasedCounts.of(counts, ITEMS)
        warnings = () if estimate.informative else (NOT_INFORMATIVE,)
        releases.append(
            build_release(origin, ITEMS, estimate, privacy, released, Scale.WIN_SHARE, warnings)
        )
    return releases


def page(html: str) -> Attach:
    """What attaches this page to a release as its report."""
    return lambda _files: {REPORT: html.encode()}
