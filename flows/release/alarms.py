"""Alarms of a stream: which items passed each other, with one error for all of its nights.

The watched pairs are those that `schedule.alarms` names, or all. Each release of a stream states,
for each of them, the order that was last certain (`estimation.common.night_orders`), so a night
needs the release of one earlier night and no other. A pair whose order on a later night is certain
the other way round has passed. An order that is no longer certain changes nothing.

The pairs must be named before the first release, because a pair that is chosen in view of a release
would need the error of all pairs. So a night whose file names other pairs than the nights before it
is refused (`check_pairs`). Alarms are no part of a stream's key: they are post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.night_orders import (
    all_nights_quantile,
    certain_orders,
    rank_bands,
)
from hushrank.flows.errors import NOTHING_SPENT, ArchiveError, ConfigError
from hushrank.flows.release.archive import archived, load_archived
from hushrank.flows.release.boards import MOST_LISTED
from hushrank.flows.release.release import Release
from hushrank.flows.release.released import AlarmRecord, Passed
from hushrank.transforms.storage.places import Place

NORMAL, MOST_NAMED = "discrete-gaussian", 5
AHEAD, BEHIND, OPEN = ">", "<", "="
Pairs = Sequence[tuple[str, str]]
Orders = NDArray[np.bool_]


def pairs_of(watched: Pairs | None, items: Sequence[str]) -> list[tuple[str, str]]:
    """Return the watched pairs; without named ones all pairs, items sorted by name."""
    return list(combinations(sorted(items), 2)) if watched is None else list(watched)


def orders_tonight(release: Release, n_pairs: int) -> Orders | None:
    """Orders that are certain on all nights, shape (n, n) by line of the ranking.

    None: the release is no night of a stream or states no errors.
    """
    if release.stream is None or release.errors is None:
        return None
    normal = release.privacy.mechanism == NORMAL
    nights, number = release.stream.nights, release.stream.number
    q = all_nights_quantile(nights, n_pairs, normal=normal, number=number)
    return certain_orders(np.array(release.errors.centre), release.errors.matrix(), q)


def alarms_of(release: Release, before: Release | None, watched: Pairs | None) -> AlarmRecord:
    """State the last certain order of each watched pair, and which items passed each other.

    Args:
        release: a night of a stream.
        before: an earlier night that states alarms; None: there is none.
        watched: pairs that the file names; None: all.

    Raises:
        ValueError: the release is no night of a stream.
    """
    if release.stream is None:
        raise ValueError("only nights of a stream have alarms")
    lines = {line.item: place for place, line in enumerate(release.ranking)}
    pairs = pairs_of(watched, [*lines])
    told = None if before is None else before.alarms
    orders = [*(OPEN * len(pairs) if told is None else told.orders)]
    ahead, passed = orders_tonight(release, len(pairs)), []
    places = [] if ahead is None else [(lines[one], lines[two]) for one, two in pairs]
    for at, (one, two) in enumerate(places):
        if ahead is None or not (ahead[one, two] or ahead[two, one]):
            continue
        now = AHEAD if ahead[one, two] else BEHIND
        if orders[at] not in (OPEN, now):
            first, second = pairs[at] if now == AHEAD else pairs[at][::-1]
            passed.append(Passed(item=first, passed=second))
        orders[at] = now
    normal, stream = release.privacy.mechanism == NORMAL, release.stream
    q = all_nights_quantile(stream.nights, len(pairs), normal=normal, number=stream.number)
    return AlarmRecord(
        pairs=None if watched is None else tuple(watched),
        number=len(pairs),
        quantile=q,
        orders="".join(orders),
        passed=tuple(passed),
    )


def with_alarms(release: Release, output: Place, watched: Pairs | None) -> Release:
    """Return the release with its alarms; other releases, and those of many items, have none."""
    if release.stream is None or len(release.ranking) > MOST_LISTED:
        return release
    stream, number = release.stream.stream, release.stream.number
    before = last_with_alarms(output, stream, number)
    if before is not None and before.alarms is not None:  # `check_pairs` refused others
        watched = before.alarms.pairs
    return release.model_copy(update={"alarms": alarms_of(release, before, watched)})


def last_with_alarms(output: Place, stream: str, number: int) -> Release | None:
    """Return the last earlier night of a stream that is kept and states alarms; None: none does."""
    for folder in reversed(archived(output)):
        with suppress(ArchiveError, ConfigError):
            night = load_archived(folder)
            told = night.stream
            if told is not None and told.stream == stream and told.number < number:
                if night.alarms is not None:
                    return night
                return None
    return None


def check_pairs(output: Place, stream: str, number: int, watched: Pairs | None) -> None:
    """Refuse pairs that were not named before the stream's first night.

    Args:
        output: folder of the job's releases.
        stream: id of the stream.
        number: number of the night that is due, from 1.
        watched: pairs that the file names; None: all, which needs no choice.

    Raises:
        ConfigError: earlier nights watched other pairs, or none that are kept.
    """
    if number == 1:
        return
    before = last_with_alarms(output, stream, number)
    known = None if before is None or before.alarms is None else before.alarms.pairs
    same = {frozenset(pair) for pair in known or ()} == {frozenset(pair) for pair in watched or ()}
    if same:
        return
    found = "watch all pairs" if known is None else f"watch {_named(known)}"
    if before is None:
        found = f"are not in {output}, or watch no pairs"
    raise ConfigError(
        f"schedule.alarms.pairs: the nights before this one {found}. Pairs that are chosen after a"
        " release may be chosen because of it, and then the error of 5 % for the whole stream does"
        " not hold. Write the pairs as they were, or start a new stream with another"
        f" schedule.stream.first. {NOTHING_SPENT}"
    )


def _named(pairs: Pairs) -> str:
    more = "" if len(pairs) <= MOST_NAMED else f" and {len(pairs) - MOST_NAMED} more pairs"
    return "; ".join(f"{one}, {other}" for one, other in pairs[:MOST_NAMED]) + more


def alarm_sentences(release: Release) -> Iterator[str]:
    """Say which items passed each other on this night, and how sure that is."""
    told, stream = release.alarms, release.stream
    if told is None or stream is None:
        return
    shown = release.shown()
    for each in told.passed:
        yield f"{shown[each.item]} passed {shown[each.passed]}."
    which = "named pair" if told.pairs is not None else "pair"
    plural = "" if told.number == 1 else "s"
    certain = sum(order != OPEN for order in told.orders)
    if not told.passed:
        yield "No watched item passed another one for certain."
    yield (
        f"{told.number:,} {which}{plural} of items {'is' if told.number == 1 else 'are'} watched;"
        f" the order of {certain:,} of them was certain on this night or an earlier one. With"
        f" probability 95 % or more, no order that is called certain on any of the"
        f" {stream.nights:,} nights of the stream is wrong, if answers are independent. That needs"
        f" {told.quantile:.2f} standard errors."
    )


def bands_of(release: Release) -> dict[str, tuple[int, int]] | None:
    """Lowest and highest rank of each item, which hold on all nights of the stream with 95 %.

    None: the release is no night of a stream, or has too many items.
    """
    n = len(release.ranking)
    if release.stream is None or n > MOST_LISTED:
        return None
    ahead = orders_tonight(release, n * (n - 1) // 2)
    if ahead is None:
        ahead = np.zeros((n, n), np.bool_)
    low, high = (each.tolist() for each in rank_bands(ahead))
    return {line.item: (low[place], high[place]) for place, line in enumerate(release.ranking)}


def same_stream(releases: Sequence[Release]) -> bool:
    """Whether all releases are nights of one stream."""
    names = {None if each.stream is None else each.stream.stream for each in releases}
    return len(names) == 1 and None not in names
