"""Reduced matrices and the estimators that read them. Pure: no files, logs or Beam.

The names below are the public library: `hushrank.estimation` loads each when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hushrank.estimation.common.central_noise import Calibration as Calibration
    from hushrank.estimation.common.central_noise import (
        calibrate_pair_counts as calibrate_pair_counts,
    )
    from hushrank.estimation.common.central_noise import (
        calibrate_win_counts as calibrate_win_counts,
    )
    from hushrank.estimation.common.central_noise import calibrate_win_loss as calibrate_win_loss
    from hushrank.estimation.common.central_noise import release_pair_counts as release_pair_counts
    from hushrank.estimation.common.central_noise import release_win_counts as release_win_counts
    from hushrank.estimation.common.central_noise import release_win_loss as release_win_loss
    from hushrank.estimation.common.estimate import Estimate as Estimate
    from hushrank.estimation.common.estimate import kendall_distance as kendall_distance
    from hushrank.estimation.common.estimate import linf_error as linf_error
    from hushrank.estimation.common.estimate import rms_error as rms_error
    from hushrank.estimation.common.estimate import top_k as top_k
    from hushrank.estimation.common.links import Link as Link
    from hushrank.estimation.common.links import link_named as link_named
    from hushrank.estimation.common.matrices import PairCounts as PairCounts
    from hushrank.estimation.common.matrices import WinCounts as WinCounts
    from hushrank.estimation.common.matrices import WinLossCounts as WinLossCounts
    from hushrank.estimation.comparisons.contradictions import Contradictions as Contradictions
    from hushrank.estimation.comparisons.contradictions import contradictions as contradictions
    from hushrank.estimation.comparisons.mixed_effects import MixedFit as MixedFit
    from hushrank.estimation.comparisons.mixed_effects import PersonAnswers as PersonAnswers
    from hushrank.estimation.comparisons.mixed_effects import (
        PresentationEffect as PresentationEffect,
    )
    from hushrank.estimation.comparisons.mixed_effects import fit_mixed as fit_mixed
    from hushrank.estimation.comparisons.mixed_effects import (
        presentation_effect as presentation_effect,
    )
    from hushrank.estimation.comparisons.net_wins import rank_by_win_loss as rank_by_win_loss
    from hushrank.estimation.comparisons.noisy_counts import (
        rank_by_win_counts as rank_by_win_counts,
    )
    from hushrank.estimation.comparisons.noisy_pairs import RankedPairs as RankedPairs
    from hushrank.estimation.comparisons.noisy_pairs import rank_noisy_pairs as rank_noisy_pairs
    from hushrank.estimation.comparisons.planning import information_needed as information_needed
    from hushrank.estimation.comparisons.planning import people_needed as people_needed
    from hushrank.estimation.rankings.ranking_estimates import borda_scores as borda_scores
    from hushrank.estimation.rankings.ranking_estimates import disagreements as disagreements
    from hushrank.estimation.rankings.ranking_estimates import kemeny as kemeny
    from hushrank.estimation.responses.item_graph import ItemGraph as ItemGraph
    from hushrank.estimation.responses.item_graph import complete_graph as complete_graph

_HOMES = {  # the module of each name; a test compares them with the imports above
    "common.central_noise": (
        "Calibration",
        "calibrate_pair_counts",
        "calibrate_win_counts",
        "calibrate_win_loss",
        "release_pair_counts",
        "release_win_counts",
        "release_win_loss",
    ),
    "common.estimate": (
        "Estimate",
        "kendall_distance",
        "linf_error",
        "rms_error",
        "top_k",
    ),
    "common.links": (
        "Link",
        "link_named",
    ),
    "common.matrices": (
        "PairCounts",
        "WinCounts",
        "WinLossCounts",
    ),
    "comparisons.contradictions": ("Contradictions", "contradictions"),
    "comparisons.mixed_effects": (
        "MixedFit",
        "PersonAnswers",
        "PresentationEffect",
        "fit_mixed",
        "presentation_effect",
    ),
    "comparisons.net_wins": ("rank_by_win_loss",),
    "comparisons.noisy_counts": ("rank_by_win_counts",),
    "comparisons.noisy_pairs": (
        "RankedPairs",
        "rank_noisy_pairs",
    ),
    "comparisons.planning": (
        "information_needed",
        "people_needed",
    ),
    "rankings.ranking_estimates": (
        "borda_scores",
        "disagreements",
        "kemeny",
    ),
    "responses.item_graph": (
        "ItemGraph",
        "complete_graph",
    ),
}
_MODULES = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # to a checker, a name that is not above is an error

    def __getattr__(name: str) -> Any:
        """The name, loaded now (PEP 562)."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(_MODULES)
