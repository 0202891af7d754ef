"""What a board shows: the archive of releases, read one release at a time.

A release that was changed, or does not fit its certificate, is left out and named. So is one that
protects nobody. Of all releases but the last two only numbers of the ranking are kept: a year of
nights has 16 million numbers of covariance, which no page shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from fractions import Fraction

from hushrank.flows.errors import ArchiveError, ConfigError
from hushrank.flows.release.alarms import bands_of
from hushrank.flows.release.archive import archived, files_of, load_archived
from hushrank.flows.release.boards import RankedItem
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import Scale
from hushrank.flows.release.wording import verdict
from hushrank.flows.trust.certificate.model import (
    LedgerPart,
    load_certificate,
    problems_of_certificate,
)
from hushrank.transforms.common.local_files import MostBytes
from hushrank.transforms.storage.places import Place, read_whole


@dataclass(frozen=True, slots=True)
class Shown:
    """What a board shows of one item in one release.

    Attributes:
        rank: as published.
        low, high: ranks that hold for all items of the release at once, with 95 %; where all
            releases are nights of one stream, on all of its nights.
        score: in the unit of the release.
    """

    rank: float
    low: int
    high: int
    score: float


@dataclass(frozen=True, slots=True)
class PastRelease:
    """One release of the archive.

    Attributes:
        release_id: its id.
        day: its day.
        created: time of the draw.
        says: what its ranking shows, in a sentence.
        epsilon: as published.
        scale: scale of its scores.
        alone: whether ranks are 95 % intervals of single items, as in older releases.
        items: what is shown of each item.
        stream: id of the stream whose nights have ranks that hold all at once; None: there is none.
        bands: those ranks of each item; None: there is no such stream.
        passed: sentence on each item that passed another one.
    """

    release_id: str
    day: date
    created: datetime
    says: str
    epsilon: float
    scale: Scale
    alone: bool
    items: dict[str, Shown]
    stream: str | None = None
    bands: dict[str, tuple[int, int]] | None = None
    passed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """The ledger, as the last certificate states it.

    Attributes:
        epsilon: limit of the period.
        left: what was left after the last release; at least 0.
        refresh: how often a period begins; None: never.
    """

    epsilon: float
    left: float
    refresh: str | None


@dataclass(frozen=True, slots=True)
class Archive:
    """All releases that a board shows.

    Attributes:
        past: all of them, the earliest first; the last is that of `last`.
        last: the last release.
        before: the one before it; None: there is none.
        files: files of the last release, by name.
        budget: None where no ledger counts the last release.
        left_out: sentence on each release that is left out.
    """

    past: tuple[PastRelease, ...]
    last: Release
    before: Release | None
    files: dict[str, bytes]
    budget: Budget | None
    left_out: tuple[str, ...]


def read_archive(outputs: Sequence[Place]) -> Archive:
    """Read and check all releases in output folders.

    Raises:
        ConfigError: there is no release that can be shown, or they belong to several populations.
    """
    past: dict[str, PastRelease] = {}
    left_out: list[str] = []
    latest: list[tuple[Release, Place]] = []
    for folder in (folder for output in outputs for folder in archived(output)):
        release = _checked(folder, left_out)
        if release is None or release.release_id in past:
            continue
        if latest and release.name != latest[0][0].name:
            raise ConfigError(
                f"{folder}: is of the population {release.name}, others are of"
                f" {latest[0][0].name}; name folders of one population"
            )
        past[release.release_id] = _past(release)
        latest = sorted([*latest, (release, folder)], key=lambda each: each[0].moment)[-2:]
    if not latest:
        raise ConfigError(
            f"{', '.join(map(str, outputs))}: holds no release that can be shown."
            f" {' '.join(left_out)} Next: hushrank run".replace("  ", " ")
        )
    last, folder = latest[-1]
    kept = sorted(past.values(), key=lambda each: (each.day, each.created))
    if len({each.stream for each in kept}) == 1:
        kept = [_on_all_nights(each) for each in kept]
    return Archive(
        past=tuple(kept),
        last=last,
        before=latest[0][0] if len(latest) > 1 else None,
        files={name: read_whole(folder / name, MostBytes.RELEASE) for name in files_of(folder)},
        budget=_budget(folder),
        left_out=tuple(left_out),
    )


def _checked(folder: Place, left_out: list[str]) -> Release | None:
    """The release in a folder, or None with a sentence on why it is not shown."""
    try:
        release = load_archived(folder)
        problem = next(problems_of_certificate(folder), None)
    except (ArchiveError, ConfigError) as error:
        release, problem = None, f"{error}"
    if problem is not None:
        left_out.append(f"Left out, because it does not verify: {folder.name}. {problem}")
        return None
    if release is not None and not release.safe:
        left_out.append(f"Left out, because it protects nobody: {folder.name}.")
        return None
    return release


def _past(release: Release) -> PastRelease:
    bands, shown = bands_of(release), release.shown()
    alarms = () if release.alarms is None else release.alarms.passed
    return PastRelease(
        release_id=release.release_id,
        day=release.day,
        created=release.created,
        says=verdict(release),
        epsilon=release.privacy.epsilon,
        scale=release.scale,
        alone=not release.says("rank_low_all"),
        items={line.item: _shown(line) for line in release.ranking},
        stream=None if bands is None or release.stream is None else release.stream.stream,
        bands=bands,
        passed=tuple(f"{shown[each.item]} passed {shown[each.passed]}." for each in alarms),
    )


def _on_all_nights(release: PastRelease) -> PastRelease:
    """The release with ranks that hold on all nights of its stream; others stay as they are."""
    if (bands := release.bands) is None:
        return release
    items = {
        item: replace(shown, low=bands[item][0], high=bands[item][1])
        for item, shown in release.items.items()
    }
    return replace(release, items=items)


def _shown(line: RankedItem) -> Shown:
    low, high = line.sure_ranks
    return Shown(float(line.rank), low, high, line.score)


def _budget(folder: Place) -> Budget | None:
    certificate = load_certificate(folder)
    part: LedgerPart | None = None if certificate is None else certificate.ledger
    if part is None or "inf" in (part.budget.epsilon, part.period.epsilon):
        return None
    limit, spent = Fraction(part.budget.epsilon), Fraction(part.period.epsilon)
    return Budget(float(limit), float(max(limit - spent, Fraction(0))), part.budget.refresh)
