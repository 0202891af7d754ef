"""Number of people who would have to change for another item to be first, and its sentences.

It is computed from what is released, and costs nothing. `estimation.common.robustness` has the
bounds and their proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from hushrank.estimation.common.robustness import (
    Gaps,
    LeadBy,
    RowBounds,
    bound_of,
    estimated_changes,
)
from hushrank.flows.release.release import Release
from hushrank.flows.release.released import Robustness
from hushrank.flows.release.scale import Scale, log_odds_of
from hushrank.privacy.units import NoiseKind, Unit

LEAST_TOLD = 2  # people: that no fewer than one suffices goes without saying
MOST_ESTIMATED = 300  # items, for which a curvature is inverted


def robustness_of(release: Release) -> tuple[Robustness, ...] | None:
    """Compute robustness from the released counts; None: nothing is known from them.

    That is so of local answers, whose holder may send anything; of rows with weights; of a stream,
    in which nights share people; and of scores that were drawn, of which no counts are known.
    """
    variance = 0.0 if release.privacy.mechanism == "none" else _variance(release)
    weighted = "design_effect" in release.privacy.parameters
    if (
        not release.informative
        or release.privacy.unit is Unit.LOCAL
        or release.stream is not None
        or weighted
        or variance is None
    ):
        return None
    gaps = _gaps(release, variance)
    found = [] if gaps is None else [*_certified(release, gaps)]
    found += _estimated(release, variance)
    return tuple(found) or None


def _variance(release: Release) -> float | None:
    """Variance of continuous noise that reaches at least as far as the discrete noise of a count.

    Of discrete Laplace noise it is that of the continuous law of the same scale: at scales below 1
    the discrete law has less variance but as long tails.
    """
    known, privacy = release.noise_variance, release.privacy
    if known is None or privacy.noise_scale is None or _kind(release) is NoiseKind.GAUSSIAN:
        return known
    return known * 2 * privacy.noise_scale**2 / (privacy.noise_variance or 1.0)


def _bounds(release: Release) -> RowBounds:
    privacy = release.privacy
    return RowBounds(
        rows=privacy.max_contributions or 1,
        per_item=privacy.per_item_cap,
        distinct=privacy.distinct_pairs,
    )


def _kind(release: Release) -> NoiseKind:
    gaussian = "gaussian" in release.privacy.mechanism
    return NoiseKind.GAUSSIAN if gaussian else NoiseKind.LAPLACE


def _gaps(release: Release, variance: float) -> Gaps | None:
    """Return each other item's distance behind the first of the ranking; None: no such counts."""
    found = release.released.leads()
    if found is None:
        return None
    first = release.ranking[0].item
    return Gaps(
        by=found.by,
        gaps=found.gaps(first),
        deviation=math.sqrt(found.draws * variance) * found.step,
        kind=_kind(release),
        draws=found.draws if found.by is LeadBy.MAJORITIES else 1,
        step=found.step,
    )


def _certified(release: Release, gaps: Gaps) -> Iterator[Robustness]:
    bound = bound_of(gaps.by, _bounds(release), gaps.n_items)
    if replaced := gaps.at_least(2 * bound):
        yield Robustness(
            by=gaps.by,
            first=release.ranking[0].item,
            replaced=replaced,
            changed=gaps.at_least(bound),
            bound=bound,
            noise_allowance=gaps.allowance,
            kind="certificate",
        )


def _estimated(release: Release, variance: float) -> Iterator[Robustness]:
    """Yield robustness of Bradley-Terry scores that were fitted to the counts of pairs."""
    n, weight = len(release.ranking), getattr(release.released, "row_weight", None)
    fitted = release.scale in (Scale.LOG_ODDS, Scale.ELO)
    if not fitted or weight is None or n > MOST_ESTIMATED or not release.released.tells_rates:
        return
    lines = release.ranking
    wins = release.released.among([line.item for line in lines])
    if wins is None or not np.isfinite(wins).all():
        return
    scores = np.array([line.score for line in lines])
    if release.scale is Scale.ELO:
        scores = log_odds_of(scores)
    found = estimated_changes(scores, wins, variance / weight**2, _kind(release), _bounds(release))
    if found is not None:
        yield Robustness(
            by=LeadBy.SCORES,
            first=lines[0].item,
            replaced=found.replaced,
            changed=found.changed,
            bound=None,
            noise_allowance=None,
            kind="estimate",
        )


_LOST = {
    LeadBy.WINS: "For another item to have as many wins as {first}",
    LeadBy.NET_WINS: "For another item to have as many wins less losses as {first}",
    LeadBy.MAJORITIES: "For {first} to lose its majority over some other item",
    LeadBy.BORDA: "For another item to have a Borda sum as large as that of {first}",
    LeadBy.FIRST_PLACES: "For another item to have as many first places as {first}",
    LeadBy.SCORES: "For another item to have a score as high as that of {first}",
}


def robustness_sentences(release: Release, shown: Mapping[str, str]) -> Iterator[str]:
    """Yield sentences for terminal and page; a bound on few people says nothing and is left out."""
    rows = release.privacy.unit is Unit.COMPARISON
    whose = "" if rows else "the answers of "
    for each in release.robustness or ():
        if each.replaced < LEAST_TOLD:
            continue
        what = f"{each.replaced:,} {'rows' if rows else 'people'}"
        lost = _LOST[each.by].format(first=shown[each.first])
        if each.kind == "estimate":
            yield f"{lost}, {whose}about {what} would have to be replaced: an estimate, no bound."
            continue
        yield (
            f"{lost}, {whose}at least {what} would have to be replaced, or at least"
            f" {each.changed:,} taken away or added (95 % confidence).{_weaker(release, each)}"
        )


def _weaker(release: Release, told: Robustness) -> str:
    """Say what makes the bound small where it may be far below the truth."""
    most = release.privacy.max_contributions
    if release.privacy.unit is Unit.COMPARISON:
        return " One person may have given many rows."
    if told.bound is None or told.bound < LEAST_TOLD or most is None:
        return ""
    return (
        f" The truth may be far larger: the bound allows each person to move the lead by"
        f" {2 * told.bound:,}, as {most:,} answers of one person may count. A smaller"
        " max_contributions allows each person less."
    )
