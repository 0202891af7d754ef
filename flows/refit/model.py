"""Models that can be fitted to public counts, and which counts each of them takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import Floats, link_named
from hushrank.estimation.common.matrices import OutcomeCounts, PairCounts, WinCounts, WinLossCounts
from hushrank.estimation.comparisons.exposures import Exposures
from hushrank.estimation.comparisons.net_wins import NetWins, rank_by_net_wins
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.estimation.comparisons.noisy_pairs import rank_noisy_pairs
from hushrank.estimation.comparisons.public_pairs import fit_public_pairs
from hushrank.estimation.comparisons.win_loss import rank_by_win_loss
from hushrank.estimation.fit.pair_fit import RIDGE, estimate_from
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.ties.noisy_ties import rank_noisy_ties
from hushrank.estimation.ties.tie_counts import TieCounts
from hushrank.estimation.ties.tie_models import TieModel
from hushrank.flows.config.method import PairEstimator
from hushrank.flows.config.public_design import PublicDesign
from hushrank.flows.errors import ConfigError
from hushrank.flows.refit.counts import PublicCounts
from hushrank.flows.release.scale import SCALE_OF_LINK, Scale
from hushrank.flows.release.ties import TieRecord

LINKS = tuple(SCALE_OF_LINK)
REFUSED = (
    "{key}: a fit to {kind} takes {takes}, not {key}: these counts do not say what it needs, and"
    " another draw would cost epsilon. Nothing was spent."
)
NOT_SPECTRAL = (
    "estimator: spectral needs the logistic link and counts of a job that states a design of chance"
    " (input.design: random or balanced) and lists no pairs; leave it out. Nothing was spent."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Model to fit; None: the one of the counts' method.

    Attributes:
        link: function that turns a difference of scores into a chance of winning.
        ridge: weight c of c |scores|^2, finite and > 0.
        estimator: way from counts of pairs to scores.
        tie_model: model by which ties follow from scores.
        exposures: public numbers of comparisons, of each item or pair.
    """

    link: str | None = None
    ridge: float | None = None
    estimator: PairEstimator | None = None
    tie_model: TieModel | None = None
    exposures: PublicDesign | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Scores, ranks and intervals, and the scale of the scores.

    Attributes:
        ties: shares of ties; None: the model does not say.
    """

    estimate: Estimate
    scale: Scale
    ties: TieRecord | None = None


def fit(counts: PublicCounts, model: Model) -> Fit:
    """Fit `model` to public counts.

    Raises:
        ConfigError: the model needs what the counts do not say, or no fit was found.
    """
    kind = counts.released.kind
    takes, fitted = FITS[kind]
    asked = [each.name for each in fields(model) if getattr(model, each.name) is not None]
    for key in asked:
        if key not in takes:
            raise ConfigError(
                REFUSED.format(key=key, kind=kind, takes=" and ".join(sorted(takes)) or "no key")
            )
    if model.link is not None and model.link not in LINKS:
        raise ConfigError(f"link: must be {', '.join(LINKS)}, got {model.link[:40]!r}")
    if model.ridge is not None and not (math.isfinite(model.ridge) and model.ridge > 0):
        raise ConfigError(f"ridge: must be finite and > 0, got {model.ridge!r}")
    for key in ("ridge", "estimator"):
        if key in asked and model.exposures is not None:
            raise ConfigError(f"{key}: has no effect with exposures; leave one of them out")
    try:
        if model.exposures is not None:
            return _by_exposures(counts, model, model.exposures)
        return fitted(counts, model)
    except ConvergenceError:
        raise ConfigError("model: no fit was found; try link: logistic or a larger ridge") from None


def _link(model: Model) -> str:
    return model.link or "logistic"


def _pairs(counts: PublicCounts, model: Model) -> Fit:
    released: Any = counts.released
    wins = np.array(released.wins, np.int64)
    pairs = PairCounts(wins, released.row_weight, confidential=False)
    asked = None
    if released.asked is not None:
        asked = np.zeros(wins.shape, np.bool_)
        for row, columns in enumerate(released.asked):
            asked[row, list(columns)] = True
        asked |= asked.T
    spectral = model.estimator is PairEstimator.SPECTRAL
    if spectral and (_link(model) != "logistic" or asked is not None or not counts.chance):
        raise ConfigError(NOT_SPECTRAL)
    if spectral and model.ridge is not None:
        raise ConfigError("ridge: has no effect with estimator spectral; leave one of them out")
    ranked = rank_noisy_pairs(
        pairs,
        counts.law,
        link_named(_link(model)),
        asked,
        chance=counts.chance,
        ridge=model.ridge,
        spectral=spectral,
    )
    return Fit(estimate=ranked.estimate, scale=SCALE_OF_LINK[_link(model)])


def _outcomes(counts: PublicCounts, model: Model) -> Fit:
    released: Any = counts.released
    ends = np.cumsum([0, *map(len, released.pairs)])
    columns, totals, wins = (
        np.array([number for row in rows for number in row], np.int64)
        for rows in (released.pairs, released.compared, released.wins)
    )
    shape = (len(released.items),) * 2
    won, met = (
        scipy.sparse.csr_array((each, columns, ends), shape=shape) for each in (wins, totals)
    )
    outcomes = OutcomeCounts(won, met, released.row_weight, confidential=False)
    ridge = RIDGE if model.ridge is None else model.ridge
    found = fit_public_pairs(outcomes, counts.law, link_named(_link(model)), ridge)
    return Fit(estimate=estimate_from(found), scale=SCALE_OF_LINK[_link(model)])


def _ties(counts: PublicCounts, model: Model) -> Fit:
    released: Any = counts.released
    cells = TieCounts(np.array([released.wins, released.ties], np.int64), confidential=False)
    tie_model = model.tie_model or TieModel.DAVIDSON
    ranked = rank_noisy_ties(cells, counts.law, tie_model)
    ties = TieRecord.of(tie_model, ranked.tie)
    return Fit(estimate=ranked.estimate, scale=Scale.LOG_ODDS, ties=ties)


def _win_loss(counts: PublicCounts, model: Model) -> Fit:
    released: Any = counts.released
    wins, losses = (_listed(counts, numbers) for numbers in (released.wins, released.losses))
    both = WinLossCounts(wins, losses, released.row_weight, confidential=False)
    estimate = rank_by_win_loss(both, counts.law, link_named(_link(model)))
    return Fit(estimate=estimate, scale=SCALE_OF_LINK[_link(model)])


def _wins(counts: PublicCounts, model: Model) -> Fit:
    released: Any = counts.released
    wins = WinCounts(_listed(counts, released.wins), released.row_weight, confidential=False)
    if model.link is not None:
        raise ConfigError(
            "link: counts of wins alone do not say how often an item was compared; add exposures,"
            " public numbers of comparisons. Nothing was spent."
        )
    return Fit(estimate=rank_by_win_counts(wins, counts.law), scale=Scale.WIN_SHARE)


def _listed(counts: PublicCounts, numbers: Mapping[str, int | float]) -> Any:
    return np.array([numbers[item] for item in counts.items], np.int64)


def _by_exposures(counts: PublicCounts, model: Model, design: PublicDesign) -> Fit:
    """Scores from wins less half of a public number of comparisons: nothing is estimated of it."""
    released: Any = counts.released
    n, weight, variance = len(counts.items), released.row_weight, counts.law.variance
    try:
        if design.of_pairs:
            expected: Floats = np.asarray(design.pairs(counts.items), np.float64)
        else:
            expected = Exposures(design.exposures(counts.items), 0.0).design()
    except ValueError as error:
        raise ConfigError(f"exposures: {error}") from None
    compared = expected.sum(axis=1) if design.of_pairs else design.exposures(counts.items)
    if released.kind == "win-counts":
        net, noise, draws = _listed(counts, released.wins) / weight - compared / 2, variance, 1
    elif released.kind == "win-loss-counts":
        both = _listed(counts, released.wins) - _listed(counts, released.losses)
        net, noise, draws = both / (2 * weight), variance / 2, 2
    else:
        wins = np.array(released.wins, np.float64)
        net = (wins.sum(axis=1) - wins.sum(axis=0)) / (2 * weight)
        noise, draws = (n - 1) * variance / 2, 2 * (n - 1)
    found = NetWins(
        values=np.asarray(net, np.float64),
        design=expected,
        sampling_factor=np.ones((n, n)),
        link=link_named(_link(model)),
        noise_variance=np.full(n, noise / weight**2),
        exposure_variance=0.0,
        free_share=np.full(n, 0.5),
        kind=counts.law.kind,
        draws=draws,
    )
    return Fit(estimate=rank_by_net_wins(found), scale=SCALE_OF_LINK[_link(model)])


# By the kind of the counts: which keys of a model they can answer, and the fit without exposures.
FITS: Mapping[str, tuple[frozenset[str], Callable[[PublicCounts, Model], Fit]]] = {
    "win-counts": (frozenset({"link", "exposures"}), _wins),
    "win-loss-counts": (frozenset({"link", "exposures"}), _win_loss),
    "pair-counts": (frozenset({"link", "ridge", "exposures", "estimator"}), _pairs),
    "outcome-counts": (frozenset({"link", "ridge"}), _outcomes),
    "tie-counts": (frozenset({"tie_model"}), _ties),
}
