"""How far the items of a test moved since an earlier release: lines and words, from both."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from hushrank.estimation.common.links import Floats
from hushrank.estimation.responses.linking import FEWEST, ManyMovedError, drift
from hushrank.flows.errors import ConfigError
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import DIFFICULTIES, Scale
from hushrank.flows.release.wording import name_list
from hushrank.privacy.units import NoiseKind


def drift_rows(earlier: Release, later: Release) -> list[dict[str, Any]]:
    """A line for each item that both releases have, in the order of the later ranking.

    Raises:
        ConfigError: both are the same release, a release has no difficulties with errors, too few
            items are common, too many of them moved, or one test is of points and the other is not.
    """
    if earlier.release_id == later.release_id:
        raise ConfigError(
            f"{earlier.name} is named twice: a release has not moved against itself, and its errors"
            " are one draw; name a release of an earlier test and one of a later test"
        )
    before, now = (_difficulties(release) for release in (earlier, later))
    common = _common_items(earlier, later, before[0], now[0])
    places = [[names[item] for item in common] for names, _, _ in (before, now)]
    (was, of_old), (found, of_new) = (
        (centre[own], covariance[np.ix_(own, own)])
        for own, (_, centre, covariance) in zip(places, (before, now), strict=True)
    )
    gaussian = all(each.privacy.rho is not None for each in (earlier, later))
    kind = NoiseKind.GAUSSIAN if gaussian else NoiseKind.LAPLACE
    try:
        told = drift(was, found, of_old + of_new, kind)
    except ManyMovedError:
        raise ConfigError(
            f"more than a fifth of the {len(common)} items that {earlier.name} and {later.name}"
            " have in common moved against each other, so nothing says which of them stayed and the"
            " two scales cannot be joined. Ask more items of the earlier test again (anchors)"
        ) from None
    columns = (told.difference, told.error, told.low, told.high, told.moved, told.anchor)
    names = ("difference", "standard_error", "low", "high", "moved", "anchor")
    return [
        {"item": item, "before": old, "now": new, **dict(zip(names, line, strict=True))}
        for item, old, new, *line in zip(
            common,
            was.tolist(),
            (found - told.shift).tolist(),
            *(column.tolist() for column in columns),
            strict=True,
        )
    ]


def drift_sentence(lines: Sequence[Mapping[str, Any]], earlier: Release, later: Release) -> str:
    """Say which items moved, and what the comparison rests on.

    Args:
        lines: as of `drift_rows` for both releases.
        earlier, later: the releases.
    """
    shown = earlier.shown() | later.shown()
    moved = [
        f"{shown[line['item']]} ({line['difference']:+.2f})" for line in lines if line["moved"]
    ]
    n, anchors = len(lines), sum(line["anchor"] for line in lines)
    what = (
        f"Of the {n} items in common {name_list(moved)} moved: harder now (+) or easier (-)"
        if moved
        else f"None of the {n} items in common moved by more than noise and chance explain"
    )
    over = "all of them" if anchors == n else f"{anchors} of them, which did not clearly move"
    return (
        f"{what}, with 95 % confidence for all at once."
        f" The two scales have the same mean over {over}."
    )


def _common_items(
    earlier: Release, later: Release, before: Collection[str], now: Collection[str]
) -> list[str]:
    """Items of both whose difficulties can be compared, in the order of `now`."""
    if Scale.POINT_DIFFICULTY in {earlier.scale, later.scale} and earlier.scale is not later.scale:
        raise ConfigError(
            f"of {earlier.name} and {later.name} one has items that give points and the other has"
            " not, so their difficulties are of two models and cannot be compared; name two"
            " releases of tests with points, or two without"
        )
    old_points, points = (getattr(each.released, "points", {}) for each in (earlier, later))
    common = [
        item
        for item in now
        if item in before and len(old_points.get(item, ())) == len(points.get(item, ()))
    ]
    if len(common) < FEWEST:
        raise ConfigError(
            f"{earlier.name} and {later.name} have {len(common)} items in common"
            f"{' with the same most points' if points else ''}, so their"
            " difficulties cannot be put on one scale: different items asked of different people"
            f" say nothing of each other. Ask at least {FEWEST} items of the earlier test again"
            " (anchors)"
        )
    return common


def _difficulties(release: Release) -> tuple[dict[str, int], Floats, Floats]:
    """Place of each item, difficulties and their covariance."""
    if release.scale not in DIFFICULTIES or release.errors is None:
        raise ConfigError(
            f"{release.name} has no difficulties with errors for all items, which drift needs;"
            " name a release of a test in which each item has an interval with both ends"
        )
    names = {line.item: place for place, line in enumerate(release.ranking)}
    lower, n = release.errors.covariance, len(names)
    covariance = np.zeros((n, n))
    for place, row in enumerate(lower):
        covariance[place, : place + 1] = covariance[: place + 1, place] = row
    return names, np.array(release.errors.centre), covariance
