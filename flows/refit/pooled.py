"""`hushrank pool`: one ranking from finished releases about different people, at no cost."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from hushrank.estimation.common.pooled_scores import (
    NotLinked,
    PartScores,
    PooledScores,
    pool_scores,
)
from hushrank.flows.errors import ConfigError
from hushrank.flows.ledger.texts import needed_text
from hushrank.flows.refit.fitted import PublicRanking
from hushrank.flows.refit.model import release_file
from hushrank.flows.release.boards import (
    ReleasedErrors,
    number_of_best,
    probabilities_of,
    ranked_items,
)
from hushrank.flows.release.history import files_in
from hushrank.flows.release.release import Release, load_release
from hushrank.flows.release.scale import UNITS, Scale
from hushrank.flows.statement.record import Record
from hushrank.privacy.units import NoiseKind
from hushrank.transforms.common.local_files import MostBytes, read_local

POOLED, RELEASE, CERTIFICATE = "pooled.json", "release.json", "certificate.json"
MOST_RELEASES, MOST_ITEMS = 1_000, 1_000
OF_A_MODEL = (Scale.LOG_ODDS, Scale.ELO, Scale.LAPLACE, Scale.PROBIT, Scale.DIFFICULTY)
MOST_UNEQUAL = 1e8  # variances of differences in one release
DIFFER = 0.01  # a chance below this is told
NO_ERRORS = (
    "{}: does not say how far its scores may be off together (errors), so it cannot be weighed:"
    " nothing was learned, an interval has an open end, or an older version made it. Leave it out."
)


class PooledPart(Record):
    """One release that was combined.

    Attributes:
        release: id of the release.
        name: name of its population.
        sha256: digest of its `release.json`.
        share: weight of the release; all shares add up to 1.
        certified: whether its certificate was beside it, and the release is what that says; an
            older version did not look.
    """

    release: str
    name: str
    sha256: str
    share: float
    certified: bool | None = None


class Pooled(PublicRanking):
    """One ranking from several releases.

    Attributes:
        parts: the releases.
        says: sentence on what was done.
        cost: sentence on what it costs a person in all of the releases.
        spent: epsilon that combining them cost: always 0.
        chance: probability of differences between releases as large as theirs, if all had the same
            scores.
    """

    parts: tuple[PooledPart, ...]
    says: str
    cost: str
    spent: float = 0.0
    chance: float


def pool(places: Sequence[str | Path]) -> Pooled:
    """Combine finished releases; what `hushrank.pool` does once its arguments are checked.

    Raises:
        ConfigError: the releases cannot be combined; the text says why.
    """
    files = [release_file(Path(place)) for place in places]
    if not 2 <= len(files) <= MOST_RELEASES:
        raise ConfigError(f"pool: name 2 to {MOST_RELEASES:,} releases, got {len(files)}")
    releases = [load_release(file) for file in files]
    _check(files, releases)
    certified = [_certified(file) for file in files]
    items = tuple(dict.fromkeys(line.item for each in releases for line in each.ranking))
    found = _combined(releases, items)
    scale = releases[0].scale
    labels = {line.item: line.label for r in releases for line in r.ranking if line.label}
    lines = ranked_items(
        items, found.estimate, scale, labels, probabilities_of(found.estimate, None)
    )
    return Pooled(
        parts=_parts(files, releases, found, certified),
        says=(
            f"Post-processing of {len(releases)} releases, weighed by precision. No row was read"
            " and no noise was drawn."
        ),
        cost=_cost(releases),
        chance=found.chance,
        informative=True,
        warnings=(*_uncertified(releases, certified), *_warnings(releases, found.chance)),
        scale=scale,
        unit=UNITS[scale],
        top=number_of_best(len(items), None),
        ranking=lines,
    )


def _parts(
    files: Sequence[Path],
    releases: Sequence[Release],
    found: PooledScores,
    certified: Sequence[bool],
) -> tuple[PooledPart, ...]:
    return tuple(
        PooledPart(
            release=release.release_id,
            name=release.name,
            sha256=hashlib.sha256(read_local(file, MostBytes.RELEASE)).hexdigest(),
            share=round(float(share), 6),
            certified=sure,
        )
        for file, release, share, sure in zip(files, releases, found.shares, certified, strict=True)
    )


def _combined(releases: Sequence[Release], items: Sequence[str]) -> PooledScores:
    if len(items) > MOST_ITEMS:
        raise ConfigError(f"pool: takes at most {MOST_ITEMS:,} items, got {len(items):,}")
    places = {item: place for place, item in enumerate(items)}
    parts = [_part(each, errors, places) for each in releases if (errors := each.errors)]
    try:
        return pool_scores(parts, len(items))
    except NotLinked:
        raise ConfigError(
            "pool: no chain of items links all of these releases, so their scores have no common"
            " zero; leave out the ones that share no two items with the others"
        ) from None


def _check(files: Sequence[Path], releases: Sequence[Release]) -> None:
    first = releases[0]
    for file, release in zip(files, releases, strict=True):
        if release.errors is None or not release.informative:
            raise ConfigError(NO_ERRORS.format(file))
        if (release.scale, release.unit) != (first.scale, first.unit):
            raise ConfigError(
                f"{file}: its scores are {release.scale.value}, those of {files[0]} are"
                f" {first.scale.value}; give both one method, link and report.scale"
            )
        if release.scale is Scale.VOTES:
            raise ConfigError(
                f"{file}: counts first places, which add up and are not averaged; add its numbers"
            )
        items, others = ({line.item for line in each.ranking} for each in (release, first))
        if release.scale not in OF_A_MODEL and items != others:
            raise ConfigError(
                f"{file}: ranks other items than {files[0]}, and a score on the scale"
                f" {release.scale.value} depends on all items that are ranked beside it; pool"
                " releases of the same items, or of a method with a link"
            )
    for (a, one), (b, other) in combinations(zip(files, releases, strict=True), 2):
        if one.release_id == other.release_id:
            raise ConfigError(f"{b}: is the same release as {a}; name each once")
        streams = one.stream, other.stream
        if None not in streams and len({each.stream for each in streams if each}) == 1:
            raise ConfigError(
                f"{b}: is a night of the same stream as {a}: they share noise and people, and a"
                " later night holds the earlier ones already; name one of them"
            )


def _certified(file: Path) -> bool:
    """Whether the certificate of a release is beside it, and the release is what that says.

    Raises:
        ConfigError: the release is not what its certificate says.
    """
    files = files_in(file.parent) if file.name == RELEASE else {}
    if CERTIFICATE not in files:
        return False
    from hushrank.verifier.verify_release import verify

    found = verify(files)
    if found.judged and not found.good:
        wrong = next(text for kind, text in found.lines if kind == "WRONG")
        raise ConfigError(
            f"{file}: is not what its certificate says: {wrong}. Leave it out, or ask its holder"
            f" for the release again (hushrank verify {file.parent})"
        )
    return found.judged


def _uncertified(releases: Sequence[Release], certified: Sequence[bool]) -> Iterator[str]:
    for release, sure in zip(releases, certified, strict=True):
        if not sure:
            yield (
                f"Release {release.release_id} of {release.name} came without a certificate that"
                " this version can check, so nothing here shows that its noise is what it states."
                f" Ask its holder for {CERTIFICATE}, beside {RELEASE}."
            )


def _part(release: Release, errors: ReleasedErrors, places: dict[str, int]) -> PartScores:
    joint, n = errors.on_link(release.scale), len(release.ranking)
    apart = np.eye(n) - 1 / n
    spread = np.linalg.eigvalsh(apart @ joint.covariance @ apart)[1:]  # of differences of scores
    if not spread[0] * MOST_UNEQUAL > spread[-1]:
        raise ConfigError(
            f"release {release.release_id}: some differences of its scores have no error, or one"
            " far larger than others have, so it cannot be weighed; leave it out"
        )
    laplace = "laplace" in release.privacy.mechanism
    return PartScores(
        items=[places[line.item] for line in release.ranking],
        errors=joint,
        kind=NoiseKind.LAPLACE if laplace else NoiseKind.GAUSSIAN,
    )


def _cost(releases: Sequence[Release]) -> str:
    """Add up what a person in all of them has spent; a sum holds for every law of noise."""
    kinds = {f"{r.privacy.unit.value}, {r.privacy.adjacency or 'local'}" for r in releases}
    if len(kinds) > 1:
        return (
            f"The releases protect different units or changes ({'; '.join(sorted(kinds))}), so"
            " their costs cannot be added up here."
        )
    unit = releases[0].privacy.unit.value
    epsilon = sum(release.privacy.epsilon for release in releases)
    delta = sum(release.privacy.delta for release in releases)
    who = "person who answered" if unit == "user" else f"unit ({unit}) that counts"
    beside = f" and delta {delta:.3g}" if delta else ""
    return (
        f"Combining costs nothing more. A {who} in all {len(releases)} releases is protected by"
        f" epsilon {needed_text(epsilon)}{beside} together, the sum of what each release states; in"
        " one of them alone, by what that one states."
    )


def _warnings(releases: Sequence[Release], chance: float) -> Iterator[str]:
    for release in releases:
        if not release.safe:
            yield f"Release {release.release_id} protects nobody. Not for publication."
    names = [release.name for release in releases]
    if len({*names}) < len(names):
        yield (
            "Two of these releases are of one population and may count the same people. Their"
            " errors are taken as independent, so the intervals are then too narrow."
        )
    if any("laplace" in release.privacy.mechanism for release in releases):
        yield (
            "The noise of some releases is Laplace noise; intervals allow for the tails of one such"
            " draw, as if no others were added to it, which is wider than they mostly need."
        )
    if chance < DIFFER:
        yield (
            "These releases differ by more than their errors explain (chance"
            f" {chance:.2g}): their people do not rank alike. A pooled score is then an average"
            " over the releases, each weighed by its share, and no common truth."
        )
