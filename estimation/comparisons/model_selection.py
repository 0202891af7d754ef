"""Choose the link by likelihood (`link: auto`): each is fitted, the unpenalised loss decides.

The sums are private already, so looking at them with several links costs no privacy. So are noisy
counts that were released. There the likelihood is that of `noisy_pairs`, in which noise enters
linearly: noise of mean zero favours no link.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings. §S.1.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hushrank.estimation.common.links import Link
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons.noisy_pairs import Mask, fit_noisy_pairs
from hushrank.estimation.fit.pair_fit import RIDGE, DebiasedFit, SumsVariance, fit_scores
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.fit.weighted_pairs import WeightedPairs
from hushrank.privacy.noise import NoiseLaw


@dataclass(frozen=True, slots=True)
class SelectedLink:
    """The link with the smallest loss.

    Attributes:
        fit: fit with that link.
        losses: minus the weighted log-likelihood at each link's fit, without the ridge, by name.
        failures: links that could not be fitted, with the solver's reason.
    """

    fit: DebiasedFit
    losses: Mapping[str, float]
    failures: Mapping[str, str]


def link_of_counts(
    counts: PairCounts, law: NoiseLaw, candidates: Sequence[Link], asked: Mask | None = None
) -> Link:
    """Return the link that fits released counts best: the unpenalised loss of each decides.

    Args:
        counts: noisy counts of at least 2 items.
        law: law of the noise in one entry.
        candidates: at least one link; the first of equals wins.
        asked: as in `noisy_pairs.rank_noisy_pairs`.

    Raises:
        ValueError: no candidates, or the counts are confidential.
        ConvergenceError: no candidate could be fitted.
    """
    if not candidates:
        raise ValueError("link: auto needs at least one link to choose from")
    losses: dict[Link, float] = {}
    for link in candidates:
        with suppress(ConvergenceError):
            found = fit_noisy_pairs(counts, law, link, RIDGE, asked)
            if found.fit.is_minimum:
                losses[link] = found.fit.loss
    if not losses:
        raise ConvergenceError("no link could be fitted to the noisy counts")
    return min(losses, key=lambda link: losses[link])


def select_link(
    pairs: WeightedPairs,
    candidates: Sequence[Link],
    variance: SumsVariance,
    ridge: float = RIDGE,
) -> SelectedLink:
    """Fit every candidate and keep the one whose unpenalised loss is smallest ([XSC] §S.1.3).

    A link whose objective has no minimum cannot be chosen; it is named in `failures`.

    Args:
        pairs: sums of privatised answers.
        candidates: at least one link; the first of equals wins.
        variance, ridge: as `fit_scores`.

    Returns:
        The best fit and how the others did.

    Raises:
        ValueError: no candidates.
        ConvergenceError: no candidate could be fitted.
    """
    if not candidates:
        raise ValueError("link: auto needs at least one link to choose from")
    fits: list[DebiasedFit] = []
    failures: dict[str, str] = {}
    for link in candidates:
        try:
            fits.append(fit_scores(pairs, link, variance, ridge))
        except ConvergenceError as error:
            failures[link.name] = str(error)
    if not fits:
        raise ConvergenceError(f"none of the links {', '.join(failures)} could be fitted")
    best = min(fits, key=lambda fit: fit.loss)
    return SelectedLink(best, {fit.link: fit.loss for fit in fits}, failures)
