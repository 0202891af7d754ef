"""Published release: `release.json`, its schema and how it is made.

`docs/release.schema.json` is made from `Release`. The verifier has its own list of the same fields,
by what was drawn: a new field needs a line there, and the draw that pays for it. The file is strict
JSON in a readable layout: one line for each key and each row of a table of numbers.

A release is computed only from what the mechanism drew and from the public configuration. JSON has
no infinity, so the text "inf" or "-inf" stands for `epsilon` and `rho` of a release without
privacy, and for open ends of an interval.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import cache, partial
from itertools import chain
from operator import attrgetter, is_not
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import AwareDatetime, ConfigDict, Field, ValidationError, model_validator

from hushrank.estimation.common.estimate import Estimate, top_k
from hushrank.flows.config.method import AboutConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.release.boards import (
    Board,
    GroupRanking,
    RankedItem,
    ReleasedErrors,
    group_ranking,
    number_of_best,
    open_intervals,
    probabilities_of,
    published_lines,
    ranked_items,
)
from hushrank.flows.release.election import ElectionRecord, PrecinctRecord
from hushrank.flows.release.provenance import Provenance, RowSource
from hushrank.flows.release.released import (
    AlarmRecord,
    Effect,
    PersonalRecord,
    Released,
    Robustness,
    TieRecord,
)
from hushrank.flows.release.scale import (
    UNITS,
    Scale,
    ScoreUnit,
    elo_of,
    log_odds_of,
    published,
)
from hushrank.flows.release.sheet_report import GroupDifferences, ItemFitRecord, TestRecord
from hushrank.flows.release.stream import StreamRecord
from hushrank.flows.statement.record import (
    CountsRecord,
    FoundRecord,
    LookRecord,
    PrivacyRecord,
    Record,
)
from hushrank.privacy.randomness import BitsUsed
from hushrank.transforms.common.local_files import MostBytes, open_to_read
from hushrank.transforms.storage.places import Place, read_whole

INDENT = "  "
SAME = 1e-6  # shown counts of a night have decimals, whose sums are rounded
SCALARS = frozenset((str, int, float, bool, type(None)))
ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def json_text(value: Any) -> str:
    """Write dicts, lists and scalars as strict JSON; keys keep their order.

    Raises:
        ValueError: a number is infinite or not a number; JSON has no such numbers.
    """
    return "".join(json_pieces(value))


def json_pieces(value: Any, margin: str = "") -> Iterator[str]:
    """The text of `json_text` in pieces, so that a long one need not be in memory.

    Args:
        value: as in `json_text`. An iterator is written as the list of what it yields, which is one
            dict, list or text at least.
        margin: text in front of the value's last line.

    Raises:
        ValueError: `value` breaks a rule of `json_text`.
    """
    inner = margin + INDENT
    if isinstance(value, dict) and value:
        if SCALARS.issuperset(map(type, value.values())):
            yield f"{{\n{inner}{_encoder(inner).encode(value)[1:-1]}\n{margin}}}"
            return
        parts = ((f"{inner}{ENCODER.encode(key)}: ", part) for key, part in value.items())
        yield from _lines("{}", parts, inner, margin)
    elif isinstance(value, Iterator) or (
        isinstance(value, list) and value and isinstance(value[0], dict | list | str)
    ):
        yield from _lines("[]", ((inner, part) for part in value), inner, margin)
    else:
        yield ENCODER.encode(value)


def _lines(
    brackets: str, parts: Iterable[tuple[str, Any]], inner: str, margin: str
) -> Iterator[str]:
    before = f"{brackets[0]}\n"
    for start, part in parts:
        yield before + start
        yield from json_pieces(part, inner)
        before = ",\n"
    yield f"\n{margin}{brackets[1]}"


@cache
def _encoder(inner: str) -> json.JSONEncoder:
    """Writes a dict of scalars with each key on a line of its own, without a step in Python."""
    return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(f",\n{inner}", ": "))


HEAD_BYTES = 1 << 20  # of a longer file only these bytes are read for its first fields
END = b"\n}\n"  # last bytes of a whole file

NOT_INFORMATIVE = (
    "Nothing useful can be learned from this release: the noise that protects people is as large"
    " as all of the answers together. More people, fewer items, a larger epsilon or a smaller"
    " max_contributions would help."
)
MOSTLY_OPEN = (
    "Nothing was learned about most items: {:,} of {:,} intervals have an open end. More people,"
    " fewer items or a larger epsilon would help."
)
NOBODY_SEEN = (
    "Nothing useful can be learned from this release, and noise need not be the reason: {} Few"
    " people may have answered; or rows name nobody, or cannot be read, which hushrank inspect"
    " shows at the terminal to the holder of the data."
)
NO_COMPARISONS = "Nothing can be learned from this release: no comparison has a winner."
SEEDED = (
    "A seed was injected: anybody who knows it can remove the noise, so nobody is protected."
    " Not for publication."
)
UNCOUNTED = (
    "No ledger counts this release, so nobody knows what it reveals together with others from the"
    " same answers. Not for publication."
)
RECONSTRUCTED = (
    "The version of hushrank that drew the noise did not store its law. Scale, sensitivity and"
    " guarantee are reconstructed: the version that published this release computed them from the"
    " same configuration."
)
NO_ELO = (
    "Elo ratings were asked for, but they need scores of a logistic link. These scores are on the"
    " scale of the method."
)
OPTIONAL = (
    *(
        "about",
        "top_k",
        "night",
        "unit",
        "top",
        "errors",
        "look",
        "counts",
        "found",
        "stream",
        "effects",
        "ties",
    ),
    *("test", "dif", "fit", "personal", "groups", "source", "election", "robustness"),
    *("precincts", "alarms"),
)
NO_PRIVACY = "Epsilon is infinite: no noise was added, so nobody is protected. Not for publication."


class Release(Record):
    """One published ranking. `build_release` makes it; its JSON is `release.json`.

    Attributes:
        about: description of the survey in the operator's words; None: nothing is stated.
        source: the Beam transform that yielded the rows; None: they were in files.
        job: id of the job's configuration; another job may not overwrite this release.
        safe: False if a seed was injected or no noise was added; never to be published.
        informative: False if nothing can be learned through the noise.
        scale: scale of the scores.
        unit: unit of the scores. Earlier versions stored no unit, and their shares were parts of 1,
            less one half; `load_release` turns them into percent.
        ranking: lines, best first.
        top_k: the best items, best first, if the job asked for them.
        top: k of `p_top` in the ranking.
        errors: joint errors of the scores; None: not known, of an earlier version, or
            items are too many.
        look: result of a pilot query before the draw; None: there was none.
        counts: counts beside the ranking; None: there are none.
        found: names of items that people wrote often enough; None: the items are public.
        groups: a ranking of each group, where there are groups; `ranking` is of all together.
        stream: the night of a stream that it is, which `privacy` covers whole; None: it is none.
        effects: effects of covariates on who wins; None: the job names none.
        ties: shares of ties; None: the job does not model ties.
        test: reliability and abilities by raw score, of each booklet of a test; None: the method
            does not tell them, or nothing was learned.
        dif: differences between the difficulty of test items in each group and in the first; None:
            there are no groups, or nothing was learned.
        fit: fit of each item of a test to the model; None: there are no bands of raw scores,
            or nothing was learned.
        personal: scores by public features of people; None: the method has one score for each item.
        election: winners by rules of elections; None: the released counts tell none.
        precincts: votes by public precinct that add up; None: counts are not kept apart so.
        robustness: number of people who would have to change for another item to be first; None:
            the release tells nothing of that.
        alarms: items of a stream that passed each other; None: nothing was watched.
    """

    release_id: str
    created: AwareDatetime
    night: date | None = None
    name: str
    about: AboutConfig | None = None
    source: RowSource | None = None
    job: str
    method: str
    code_version: str
    safe: bool
    informative: bool
    warnings: tuple[str, ...]
    scale: Scale
    unit: ScoreUnit | None = None
    ranking: tuple[RankedItem, ...] = Field(min_length=2)
    top_k: tuple[str, ...] | None = None
    top: int | None = None
    errors: ReleasedErrors | None = None
    privacy: PrivacyRecord
    look: LookRecord | None = None
    found: FoundRecord | None = None
    counts: CountsRecord | None = None
    stream: StreamRecord | None = None
    effects: tuple[Effect, ...] | None = None
    ties: TieRecord | None = None
    test: tuple[TestRecord, ...] | None = None
    dif: tuple[GroupDifferences, ...] | None = None
    fit: tuple[ItemFitRecord, ...] | None = None
    personal: PersonalRecord | None = None
    election: ElectionRecord | None = None
    precincts: PrecinctRecord | None = None
    robustness: tuple[Robustness, ...] | None = None
    alarms: AlarmRecord | None = None
    released: Released
    groups: tuple[GroupRanking, ...] | None = None

    @property
    def count_sentences(self) -> Iterable[str]:
        """Sentences on counts beside the ranking; empty: there are none."""
        return self.counts.sentences(self.privacy.names_per_person) if self.counts else ()

    def to_json(self) -> str:
        """Strict JSON with keys in a fixed order; keys without content are left out."""
        return "".join(self.json_pieces())

    def json_pieces(self) -> Iterator[str]:
        """The text of `to_json` in pieces: that of a million items takes 300 MB."""
        absent = {name for name in OPTIONAL if getattr(self, name) is None}
        without = self.model_dump(
            mode="json", exclude={"ranking": True, "groups": {"__all__": {"ranking"}}}
        )
        content = {
            name: published_lines(self.ranking, self.says) if name == "ranking" else without[name]
            for name in type(self).model_fields
            if name not in absent
        }
        if self.look is not None:  # as in earlier releases
            empty = {name for name in ("people", "unlisted") if getattr(self.look, name) is None}
            content["look"] = self.look.model_dump(mode="json", exclude=empty)
        if self.counts is not None:
            content["counts"] = self.counts.model_dump(mode="json", exclude_none=True)
        if self.groups is not None:
            content["groups"] = [
                {
                    name: published_lines(group.ranking, self.says_anywhere)
                    if name == "ranking"
                    else of_group[name]
                    for name in type(group).model_fields
                    if name not in OPTIONAL or getattr(group, name) is not None
                }
                for group, of_group in zip(self.groups, without["groups"], strict=True)
            ]
        yield from json_pieces(content)
        yield "\n"

    @model_validator(mode="after")
    def _is_as_safe_as_its_bits(self) -> Self:
        told = self.privacy.bits
        if self.safe and told is not None and not BitsUsed.from_dict(told).safe:
            raise ValueError("a release whose random bits can be predicted is not safe")
        return self

    @property
    def proven_safe(self) -> bool:
        """Whether it is safe and names its random bits, or is from a version without such names."""
        return self.safe and (self.privacy.bits is not None or self.privacy.reconstructed)

    def says(self, name: str) -> bool:
        """Whether lines of the ranking have a value in the optional field of this name."""
        return any(map(partial(is_not, None), map(attrgetter(name), self.ranking)))

    def says_anywhere(self, name: str) -> bool:
        """Whether the ranking or that of a group does: all together may say less than a group."""
        return self.says(name) or any(board.says(name) for _, board in self.boards())

    def boards(self) -> Iterator[tuple[GroupRanking, Release]]:
        """Yield each group, with the release as if its ranking were all that it holds."""
        for group in self.groups or ():
            of_group = {
                name: getattr(group, name)
                for name in ("informative", "ranking", "released", "election", "effects")
            }
            yield (
                group,
                self.model_copy(update={**of_group, "groups": None, "top_k": None, "errors": None}),
            )

    @property
    def noise_variance(self) -> float | None:
        """Variance of the noise in each released count; None where no noise was added to counts.

        Each group's counts have noise of their own, and so have rows of no group where they count.
        Where groups overlap, or rows have covariates, the whole is no sum and has its own noise.
        """
        known = self.privacy.noise_variance if self.stream is None else self.stream.shown_variance
        alone = self.privacy.groups_per_answer is not None or self.effects is not None
        if not self.groups or known is None or alone:
            return known
        whole = self.released.wins_by_item()
        parts = [each.released.wins_by_item() for each in self.groups]
        added = not self._groups_add_up()
        if whole is not None:
            sums = [sum(part[item] for part in parts if part) for item in whole]
            added = not np.allclose([*whole.values()], sums, rtol=0, atol=SAME)
        return known * (len(self.groups) + added)

    def _groups_add_up(self) -> bool:
        """Whether leads of the groups add up to those of all together; False: there are none."""
        counts = [self.released, *(each.released for each in self.groups or ())]
        leads = [each.numbers for part in counts if (each := part.leads()) is not None]
        return bool(leads) and np.allclose(leads[0], np.sum(leads[1:], axis=0), rtol=0, atol=SAME)

    @property
    def is_order(self) -> bool:
        """Whether scores say no more than places in an order, so that ranks are their intervals."""
        return self.released.orders and self.scale is Scale.ABOVE_MIDDLE

    @property
    def labelled(self) -> bool:
        """Whether items have a label beside the word that stands in the rows."""
        return self.says("label")

    def shown(self) -> dict[str, str]:
        """Text that people read for each item."""
        return {line.item: line.shown for line in self.ranking}

    @property
    def heading(self) -> str:
        """Heading of the ranking: the title that the operator states, or the release's name."""
        return self.name if self.about is None else self.about.title or self.name

    @property
    def day(self) -> date:
        """The day of the release: its night, or else the day on which it was made, UTC."""
        return self.night or self.created.astimezone(UTC).date()

    @property
    def moment(self) -> tuple[date, datetime]:
        """Position among releases of its job: the day, then the time at which it was made."""
        return self.day, self.created

    def places(self) -> list[str]:
        """Place of each line of the ranking by groups: `1`, `2=`, `2=`, `4`."""
        sizes = Counter(line.group for line in self.ranking)
        first: dict[int, int] = {}
        places = []
        for position, line in enumerate(self.ranking, start=1):
            place = first.setdefault(line.group, position)
            places.append(f"{place}=" if sizes[line.group] > 1 else f"{place}")
        return places


def schema() -> str:
    """The JSON Schema of `release.json`, as `docs/release.schema.json` holds it."""
    described = Release.model_json_schema(mode="serialization")
    return (
        json_text({"$schema": "https://json-schema.org/draft/2020-12/schema", **described}) + "\n"
    )


class Head(Record):
    """The first fields of a `Release`, which say whose it is and of which day."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    release_id: str
    created: AwareDatetime
    night: date | None = None
    job: str
    safe: bool

    @property
    def day(self) -> date:
        """The day of the release, as `Release.day`."""
        return self.night or self.created.astimezone(UTC).date()


def load_head(path: Place) -> Head | Release:
    """The first fields of the release in a file; where they stand apart, no more is read.

    Raises:
        ConfigError: as `load_release`; the lines of the ranking are not looked at.
    """
    if isinstance(path, Path) and path.is_file() and path.stat().st_size > HEAD_BYTES:
        with open_to_read(path) as file:
            head, ranking, _ = file.read(HEAD_BYTES).partition(b',\n  "ranking": [\n')
            file.seek(-len(END), os.SEEK_END)
            if ranking and file.read() == END:  # else it was written by another hand, or cut
                with suppress(ValidationError):
                    return Head.model_validate_json(head + b"}")
    return load_release(path)


def load_release(path: Place) -> Release:
    """Read the release in the file at `path`, with its numbers in today's unit.

    Raises:
        ConfigError: the file is missing, unreadable or no release.
    """
    try:
        return with_unit(Release.model_validate_json(read_whole(path, MostBytes.RELEASE)))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise ConfigError(f"{path}: is not a release of hushrank, or was changed") from error


def with_unit(release: Release) -> Release:
    """A release of a version without units, with its numbers as they are published today."""
    if release.unit is not None:
        return release
    lines = (line.moved(partial(published, release.scale)) for line in release.ranking)
    return release.model_copy(update={"ranking": tuple(lines), "unit": UNITS[release.scale]})


def on_scale(release: Release, scale: Scale) -> Release:
    """The release with its scores on `scale`, if this changes log odds to Elo or back."""
    onto: dict[tuple[Scale, Scale], Callable[[float], float]] = {
        (Scale.LOG_ODDS, Scale.ELO): elo_of,
        (Scale.ELO, Scale.LOG_ODDS): log_odds_of,
    }
    move = onto.get((release.scale, scale))
    if move is None:
        return release
    changed: dict[str, Any] = {"scale": scale, "unit": UNITS[scale]}
    changed["ranking"] = tuple(line.moved(move) for line in release.ranking)
    if release.errors is not None:
        changed["errors"] = release.errors.moved(move(0.0), move(1.0) - move(0.0))
    if release.groups is not None:
        changed["groups"] = tuple(
            group.model_copy(update={"ranking": tuple(line.moved(move) for line in group.ranking)})
            for group in release.groups
        )
    return release.model_copy(update=changed)


FROM_PROVENANCE = (  # fields of a release that it takes as they are
    *("release_id", "created", "night", "name", "about", "source", "job", "method"),
    *("code_version", "stream"),
)


def _after_look(warnings: Sequence[str], look: LookRecord | None) -> tuple[str, ...]:
    """Warnings of a look and of the ranking; where hardly anybody was seen, that is the reason."""
    if look is None:
        return tuple(warnings)
    nobody = NOBODY_SEEN.format(look.seen) if look.hardly_any else NOT_INFORMATIVE
    return (*look.warnings, *(nobody if w == NOT_INFORMATIVE else w for w in warnings))


def build_release(
    provenance: Provenance,
    items: Sequence[str],
    estimate: Estimate,
    privacy: PrivacyRecord,
    released: Released,
    scale: Scale,
    warnings: Sequence[str] = (),
    n_top: int | None = None,
    labels: Mapping[str, str] | None = None,
    shown_as: Scale | None = None,
    look: LookRecord | None = None,
    found: FoundRecord | None = None,
    counts: CountsRecord | None = None,
    boards: Sequence[Board] = (),
    **of_some_methods: Any,
) -> Release:
    """Build a release from published statistics and an estimate computed from them.

    Args:
        provenance: origin of the release.
        items: the public catalogue.
        estimate: computed from `released`.
        privacy: guarantee of the release.
        released: the noisy statistics of the mechanism.
        scale: scale of the scores of `estimate`.
        warnings: warnings for a reader, besides those that `provenance` and `privacy` imply.
        n_top: number of the best items that `top_k` names; None: there is no such list.
        labels: texts that people read instead of items.
        look: result of the pilot query; its warnings are the release's.
        found: names of items that were drawn first; None: the items are public.
        counts: counts beside the ranking; None: there are none.
        shown_as: Elo turns log odds into ratings; other scores stay, with a warning.
        boards: rankings of groups, computed from noisy counts too.
        **of_some_methods: fields of `Release` that only some methods have, by name.

    Raises:
        ValueError: the sizes differ.
    """
    if len(items) != estimate.n_items:
        raise ValueError(f"got {len(items)} items, but an estimate of {estimate.n_items}")
    elo, names = shown_as is Scale.ELO, labels or {}
    night = provenance.stream is not None
    ranking = ranked_items(
        items, estimate, scale, names, probabilities_of(estimate, n_top), with_share=night
    )
    told = _warnings_of_ranking(estimate, ranking, no_elo=elo and scale is not Scale.LOG_ODDS)
    groups = tuple(group_ranking(items, each, scale, names, n_top) for each in boards)
    release = Release(
        **{name: getattr(provenance, name) for name in FROM_PROVENANCE},
        safe=provenance.safe and privacy.mechanism != "none",
        informative=estimate.informative,
        warnings=(*_warnings(provenance, privacy), *_after_look(warnings, look), *told),
        scale=scale,
        unit=UNITS[scale],
        ranking=ranking,
        top_k=None if n_top is None else tuple(items[i] for i in top_k(estimate, n_top)),
        top=_top_of(ranking, groups, n_top),
        errors=ReleasedErrors.of(estimate, scale),
        privacy=privacy.model_copy(update=_origin(provenance)),
        look=look,
        found=found,
        counts=counts,
        **of_some_methods,
        released=released,
        groups=groups or None,
    )
    return on_scale(release, Scale.ELO) if elo else release


def _warnings_of_ranking(
    estimate: Estimate, ranking: Sequence[RankedItem], *, no_elo: bool
) -> Iterator[str]:
    if estimate.informative and (number := open_intervals(ranking)):
        yield MOSTLY_OPEN.format(number, len(ranking))
    if no_elo:
        yield NO_ELO


def _top_of(
    ranking: Sequence[RankedItem], groups: Sequence[GroupRanking], n_top: int | None
) -> int | None:
    """The k of `p_top`; None where no line has such a chance."""
    lines = chain(ranking, *(group.ranking for group in groups))
    known = any(line.p_top is not None for line in lines)
    return number_of_best(len(ranking), n_top) if known else None


def _origin(provenance: Provenance) -> dict[str, Any]:
    """The fields of a `PrivacyRecord` that say how the release was drawn."""
    if provenance.bits is None:
        return {"bits": None, "reconstructed": True}
    bits = {purpose: tuple(named) for purpose, named in provenance.bits.to_dict().items()}
    return {"bits": bits, "reconstructed": False}


def _warnings(provenance: Provenance, privacy: PrivacyRecord) -> Iterator[str]:
    if privacy.mechanism == "none":
        yield NO_PRIVACY
    elif not provenance.safe:
        secret = provenance.bits is not None and provenance.bits.safe
        yield UNCOUNTED if secret else SEEDED
    if provenance.bits is None:
        yield RECONSTRUCTED
