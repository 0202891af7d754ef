"""Section `schedule`: the rows of a night, the nights that are due, and the split of the budget.

A configuration selects nights where an input path holds `{date}`, or where `schedule.partition` or
`schedule.window` is set; every night is then a release of its own. Otherwise a run ranks all there
is, and the section only says when.

`schedule.stream` names nights that one budget pays for together (`privacy.stream`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum
from itertools import chain, zip_longest
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, Field, StringConstraints, field_validator

from hushrank.flows.config.participation import ParticipationConfig
from hushrank.flows.config.section import LEAST_LOSS, MOST_LOSS, Section, Text
from hushrank.flows.config.yaml_file import refuse
from hushrank.flows.errors import ConfigError
from hushrank.privacy.stream_encoder import (
    ENDLESS,
    MAX_NIGHTS,
    RowTerms,
    StreamTerms,
    Terms,
    Workload,
)
from hushrank.privacy.units import NoiseKind
from hushrank.transforms.storage.window import Epoch, Window

SHOWN_BY_NAME: dict[str, dict[str, int]] = {"night": {"window": 1}, "cumulative": {}}
FIRST_YEARS = range(1900, 2900)  # a stream lasts at most 90 years


def date_of(value: object) -> object:
    """Convert a date written as text, its only form in YAML 1.2."""
    found = None
    if isinstance(value, str):
        try:
            found = date.fromisoformat(value)
        except ValueError:
            found = None
    if found is None or found.year not in FIRST_YEARS:
        refuse(("", f"must be a date such as 2026-11-20, got {str(value)[:40]!r}"))
    return found


class ShowConfig(Section):
    """Content of each night of a stream.

    `show: night` is short for `{window: 1}`, `show: cumulative` for all nights so far.

    Attributes:
        window: the last so many nights; left out: all nights so far.
    """

    window: int | None = Field(default=None, ge=1, le=MAX_NIGHTS, examples=["28"])


ItemPair = Annotated[tuple[str, str], Field(strict=False)]


class AlarmsConfig(Section):
    """Alarms of a stream: "X passed Y", with one error of 5 % for all of its nights together.

    Attributes:
        pairs: pairs of items to watch, named before the first night. Fewer pairs notice smaller
            changes. Without this section all pairs are watched.
    """

    pairs: Annotated[tuple[ItemPair, ...], Field(strict=False)] = Field(
        min_length=1, examples=["[[A, B], [A, C]]"]
    )

    @field_validator("pairs")
    @classmethod
    def _differ(cls, pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        for one, other in pairs:
            if one == other:
                refuse(("", f"an item cannot pass itself, got {one[:40]!r} twice in a pair"))
        if len({frozenset(pair) for pair in pairs}) < len(pairs):
            refuse(("", "a pair stands there twice; name each pair once"))
        return pairs


class StreamConfig(Section):
    """Nights that one budget pays for together. Changing any key here makes another stream.

    Attributes:
        nights: number of nights of the stream; `endless`: 32,768, which are 90 years, for windows.
        participations: most nights on which one person's rows count.
        gap: least distance of two such nights, in nights: 1 is the next night.
        participation: terms that count rows or squares, in place of `participations` and `gap`.
        show: what each night shows: `night`, `cumulative` (all nights so far) or `{window: 28}`.
        first: date of its first night. Nights are numbered from it.
        bands: number of nights over which a night's counts are spread, at most `gap` or `pair_gap`
            and at most the window; left out: as many as that allows, and 1 with `noise: laplace`.
    """

    nights: int = Field(ge=1, le=MAX_NIGHTS, examples=["365", "endless"])
    participations: int | None = Field(default=None, ge=1, le=MAX_NIGHTS, examples=["12"])
    gap: int | None = Field(default=None, ge=1, le=MAX_NIGHTS, examples=["28"])
    participation: ParticipationConfig | None = Field(
        default=None, examples=["{rows: 60, pair_gap: 28}"]
    )
    show: ShowConfig = Field(examples=["{window: 28}"])
    first: Annotated[date, BeforeValidator(date_of)] = Field(examples=["2026-11-20"])
    bands: int | None = Field(default=None, ge=1, le=MAX_NIGHTS, examples=["28"])

    @field_validator("nights", mode="before")
    @classmethod
    def _without_end(cls, value: Any) -> Any:
        return ENDLESS if value == "endless" else value

    @field_validator("show", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value not in SHOWN_BY_NAME:
            refuse(("", f"must be night, cumulative or {{window: 28}}, got {value[:40]!r}"))
        return SHOWN_BY_NAME[value]

    def _problems(self) -> Iterable[tuple[str, str]]:
        for key in ("participations", "gap"):
            if (getattr(self, key) is None) == (self.participation is None):
                yield (
                    key,
                    "not with participation, which says what of a person counts; remove one of"
                    " the two"
                    if self.participation is not None
                    else "missing; add for example participations: 12 and gap: 28",
                )
                return
        yield from self._problems_of_its_end()
        if self.bands is None:
            return
        if self.bands > (gap := self.terms.gap):
            yield (
                "bands",
                f"must be at most {self._gap_key} ({gap}), got {self.bands}: the bands of"
                f" {self._apart} of one person would overlap, and they would lose more than the"
                f" budget; lower bands, or raise {self._gap_key}",
            )
        elif self.bands > self.workload.most_bands(self.terms):
            yield (
                "bands",
                f"must be at most the nights that are shown together"
                f" ({self.workload.most_bands(self.terms)}), got {self.bands}: coefficients beyond"
                " them are negative, and the guarantee needs them >= 0; lower bands, or leave it"
                " out",
            )

    def _problems_of_its_end(self) -> Iterable[tuple[str, str]]:
        metered, endless = self.participation, self.nights == ENDLESS
        if endless and self.show.window is None:
            yield (
                "show",
                "must be a window such as {window: 28} with nights: endless: the noise in all"
                " nights so far grows with their number",
            )
        if metered is None or (metered.refill is not None) == (endless and metered.meters):
            return
        yield (
            "participation.refill",
            "missing; with nights: endless say by how much a person's allowance grows a night, for"
            " example refill: 0.2"
            if metered.refill is None
            else "goes with nights: endless and pair_gap or squares; remove it",
        )

    @property
    def _gap_key(self) -> str:
        return "pair_gap" if isinstance(self.terms, RowTerms) else "gap"

    @property
    def _apart(self) -> str:
        return "two rows on one pair" if isinstance(self.terms, RowTerms) else "two nights"

    @property
    def terms(self) -> StreamTerms:
        """Terms under which a person's rows count."""
        if self.participation is not None:
            return self.participation.terms(self.nights)
        return Terms(nights=self.nights, participations=self.participations or 1, gap=self.gap or 1)

    def identity(self) -> dict[str, Any]:
        """Return the keys that name the stream; a form of terms that is not used is no key."""
        forms = ("participation", "participations", "gap")
        found = self.model_dump(mode="json", exclude={k for k in forms if getattr(self, k) is None})
        if self.participation is not None:  # the first streams that count rows had no other keys
            kept = ("rows", "pair_gap", "burst", "gap")
            named = found["participation"].items()
            found["participation"] = {k: v for k, v in named if v is not None or k in kept}
        return found

    @property
    def workload(self) -> Workload:
        """Windows that the nights show."""
        return Workload(self.show.window)

    @property
    def last(self) -> date:
        """Date of the last night."""
        return self.first + timedelta(days=self.nights - 1)

    def number_of(self, night: date) -> int:
        """Number of a night, from 0; outside the stream it is below 0 or beyond the end."""
        return (night - self.first).days

    def night(self, number: int) -> date:
        """Date of a night."""
        return self.first + timedelta(days=number)


YEARS = range(1900, 3000)  # outside these years, clocks of some time zones cannot tell the day
MOST_NIGHTS = 31  # most nights of a month
TELLING_DAYS = tuple(date(2026, 1, 1) + timedelta(days) for days in range(3 * 365))
ONE_YEAR = TELLING_DAYS[:365]

_DATE = re.compile(r"\{date(?::([^{}]+))?\}")
_WILD = re.compile(r"\*\*|\*|\?|\[[^]]*\]")
# wildcards of more than one character; others match one character
_ANY = {"**": ".*", "*": "[^/]*"}

Partition = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+$")]


class EmptyNights(StrEnum):
    """Treatment of a night without files."""

    SKIP = "skip"
    FAIL = "fail"


class CatchUp(StrEnum):
    """Order in which missed nights are ranked; it matters if the budget runs out."""

    OLDEST_FIRST = "oldest-first"
    NEWEST_FIRST = "newest-first"


class NightlyBudget(StrEnum):
    """Source of a night's cost."""

    PER_NIGHT = "per-night"  # section privacy states it
    PER_MONTH = "per-month"  # the ledger's total, shared by the nights of a month


class ScheduleConfig(Section):
    """Schedule of nights: the rows that a night ranks, and the time of its run.

    Attributes:
        cron: times at which `hushrank serve` and `hushrank deploy` run, in `timezone`.
        timezone: time zone of the nights' dates, an IANA name.
        lag_days: a run on a day ranks the night this many days before it. At least 1: a night is
            released once, so its day must be over, in `timezone`.
        partition: name of a folder level `<partition>=<date>`, of which only the night's is read.
        window: column of times; only rows whose time is in the night are read.
        epoch: unit of numbers in it, counted from 1970; digits behind the point decide nothing.
        empty: a night without files is skipped (`skip`) or is an error (`fail`); either way
            nothing is spent. In a stream, `skip` takes it for a night without rows, and it is
            released as such; `fail` makes the stream wait for its files.
        catch_up: missed night that is ranked first; it matters where the budget runs out.
        catch_up_days: number of days before the last night that are searched for missed ones.
        budget: `per-night`, section `privacy` says what a night costs; `per-month`, the ledger's
            total is shared by the nights of a month.
        nights: most nights in a month, among which `per-month` shares the budget.
        stream: nights that one budget pays for together; left out: each night has its own.
        alarms: pairs of items that are watched in a stream; left out: all pairs.
    """

    cron: Text | None = Field(default=None, examples=['"0 2 * * *"'])
    timezone: str = Field(default="UTC", examples=["Europe/Berlin"])
    lag_days: int = Field(default=1, ge=1, le=366, examples=["1"])
    partition: Partition | None = Field(default=None, examples=["date"])
    window: Text | None = Field(default=None, examples=["answered_at"])
    epoch: Epoch | None = Field(default=None, examples=["ms"])
    empty: Annotated[EmptyNights, Field(strict=False)] = EmptyNights.FAIL
    catch_up: Annotated[CatchUp, Field(strict=False)] = CatchUp.OLDEST_FIRST
    catch_up_days: int = Field(default=7, ge=0, le=366, examples=["7"])
    budget: Annotated[NightlyBudget, Field(strict=False)] = NightlyBudget.PER_NIGHT
    nights: int = Field(default=MOST_NIGHTS, ge=1, le=MOST_NIGHTS, examples=["31"])
    stream: StreamConfig | None = None
    alarms: AlarmsConfig | None = None

    @field_validator("timezone")
    @classmethod
    def _check_timezone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            refuse(
                ("", f"must be the name of a time zone such as Europe/Berlin, got {name[:80]!r}")
            )
        return name

    @field_validator("lag_days", mode="before")
    @classmethod
    def _check_lag(cls, value: object) -> object:
        if value == 0:
            refuse(("", "must be at least 1: a night is released once, so its day must be over"))
        return value

    @field_validator("budget", mode="before")
    @classmethod
    def _either_spelling(cls, value: object) -> object:
        return value.replace("_", "-") if isinstance(value, str) else value

    def _problems(self) -> Iterable[tuple[str, str]]:
        if self.epoch is not None and self.window is None:
            yield "epoch", "is about the column schedule.window; name that, or remove this"
        if self.alarms is not None and self.stream is None:
            yield "alarms", "is for schedule.stream, whose nights it watches; remove it"

    @property
    def zone(self) -> ZoneInfo:
        """Time zone of the nights' dates."""
        return ZoneInfo(self.timezone)

    def selects_rows(self) -> bool:
        """Whether this section alone makes a night select some rows out of all."""
        return self.partition is not None or self.window is not None

    def last_night(self, now: datetime) -> date:
        """Latest night that may be ranked at the moment `now`, which has a time zone."""
        return now.astimezone(self.zone).date() - timedelta(days=self.lag_days)

    @property
    def times_in_words(self) -> str:
        """Text on the values that the column of times should hold; empty: there is none."""
        if self.window is None:
            return ""
        numbers = "" if self.epoch is None else f", or numbers of {self.epoch} since 1970"
        return (
            "dates or times such as 2026-11-20, 2026-11-20 18:30 or 2026-11-20T18:30:00+01:00"
            f" (without an offset on the clocks of {self.timezone}){numbers}"
        )

    def window_on(self, night: date) -> Window | None:
        """Rows of `night`; None: all rows of its files."""
        if self.window is None:
            return None
        return Window.of(self.window, night, self.zone, self.epoch)

    def partition_on(self, night: date) -> str | None:
        """Folder that holds the files of `night`; None: any folder."""
        return None if self.partition is None else f"{self.partition}={night.isoformat()}"

    def identity(self) -> dict[str, Any]:
        """Return all settings here that can change a released result."""
        chosen: dict[str, Any] = {
            "partition": self.partition,
            "window": self.window,
            "epoch": self.epoch,
            "stream": None if self.stream is None else self.stream.identity(),
        }
        if self.window is not None:
            chosen["timezone"] = self.timezone
        return {key: value for key, value in chosen.items() if value is not None}


def selects_nights(paths: Sequence[str], schedule: ScheduleConfig) -> bool:
    """Whether a night's date decides which rows are ranked."""
    return schedule.selects_rows() or any(map(names_night, paths))


def names_night(path: object) -> bool:
    """Whether a path holds a date that a night fills in."""
    return _DATE.search(str(path)) is not None


def path_on(path: str, night: date) -> str:
    """Fill a night into `path`: `{date}` as 2026-11-20, and `{date:%Y/%m/%d}` by its own format."""
    return _DATE.sub(
        lambda found: night.strftime(found[1]) if found[1] else night.isoformat(), path
    )


def date_formats(paths: Sequence[str]) -> list[str]:
    """Formats of `strftime` in which the paths write a night, such as %Y/%m/%d."""
    return [form for path in paths for form in _DATE.findall(path) if form]


def reads(paths: Sequence[str], file: str, night: date) -> bool:
    """Whether one of the paths names `file` on `night`: itself, a folder above it, or a pattern."""
    parts = file.split("/")
    above = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    patterns = [_pattern(path_on(path, night)) for path in paths]
    return any(pattern.fullmatch(each) for pattern in patterns for each in above)


def date_problem(path: str) -> str:
    """Rule that the date in a path breaks; empty: none."""
    if "{date" not in path or names_night(path):
        return ""
    return f"{path}: write {{date}}, or for example {{date:%Y%m%d}}"


def problems_of_paths(paths: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield key and rule of each problem with the dates in input paths."""
    for path in paths:
        if problem := date_problem(path):
            yield "paths", problem
        if not names_night(path):
            continue
        if len({path_on(path, day) for day in TELLING_DAYS}) < len(TELLING_DAYS):
            yield (
                "paths",
                f"{path}: two nights would read the same file; write {{date}}, or name year, month"
                " and day as in {date:%Y/%m/%d}",
            )
        elif _overlap(path):
            yield (
                "paths",
                f"{path}: one night would read files of others too; give its date a fixed width, as"
                " {date:%d} and {date:%m} do, or put text or a slash between it and the wildcard",
            )


def _overlap(path: str) -> bool:
    """Whether the pattern of one night matches the shortest name of another's.

    Dates of one width never do, as then no wildcard is left for what would be different.
    """
    dates = _DATE.findall(path)
    if all(len({len(day.strftime(code or "%F")) for day in ONE_YEAR}) == 1 for code in dates):
        return False
    names = [path_on(path, day) for day in ONE_YEAR]
    shortest = [_WILD.sub(lambda wild: "" if wild[0] in _ANY else "0", name) for name in names]
    return any(
        sum(pattern.fullmatch(other) is not None for other in shortest) > 1
        for pattern in map(_pattern, names)
    )


def _pattern(path: str) -> re.Pattern[str]:
    """Pattern that a path with wildcards matches."""
    wilds = [_ANY.get(wild, "[^/]") for wild in _WILD.findall(path)]
    literals = map(re.escape, _WILD.split(path))
    return re.compile("".join(chain.from_iterable(zip_longest(literals, wilds, fillvalue=""))))


_COMPUTED = "is computed under schedule.budget: per-month; remove it, or write budget: per-night"


def with_nightly_share(content: Any) -> Any:
    """Return the content of a YAML file with a night's privacy filled in, if the file leaves it
    open.

    Content that is wrong otherwise is returned as it is, to be refused in the usual words.

    Raises:
        PydanticCustomError: the file says two things at once, or the budget of a month nowhere.
    """
    if not isinstance(content, Mapping):
        return content
    schedule, privacy, ledger = (content.get(key) for key in ("schedule", "privacy", "ledger"))
    if not isinstance(schedule, Mapping) or not _shares(schedule.get("budget")):
        return content
    if not (isinstance(privacy, Mapping) and isinstance(ledger, Mapping)):
        return content
    problems = list(_problems(privacy, ledger))
    if problems:
        refuse(*problems)
    total, delta = ledger.get("epsilon"), ledger.get("delta", 0.0)
    nights = schedule.get("nights", MOST_NIGHTS)
    if not isinstance(total, int | float) or not isinstance(delta, int | float):
        return content
    if not LEAST_LOSS <= total <= MOST_LOSS:
        return content
    if not isinstance(nights, int) or privacy.get("noise", "laplace") not in list(NoiseKind):
        return content
    from hushrank.privacy.filters import even_share

    noise = NoiseKind(privacy.get("noise", "laplace"))
    try:
        share = even_share(noise, nights, total, delta)
    except ValueError:
        return content
    found = {"epsilon": share.epsilon} if share.rho is None else {"rho": share.rho}
    return {**content, "privacy": {**privacy, **found}}


def with_distinct_pairs(content: Any) -> Any:
    """Return the content of a YAML file in which a stream that meters rows has distinct pairs.

    Its meters count a person's rows on the same two items once a night at most, so
    `privacy.distinct_pairs` need not be written.
    """
    if not isinstance(content, Mapping) or not isinstance(content.get("privacy"), Mapping):
        return content
    found: Any = content
    for key in ("schedule", "stream", "participation"):
        found = found.get(key) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or not {"pair_gap", "squares"} & {*found}:
        return content
    return {**content, "privacy": {"distinct_pairs": True, **content["privacy"]}}


def _shares(budget: object) -> bool:
    return isinstance(budget, str) and budget.replace("_", "-") == NightlyBudget.PER_MONTH


def _problems(privacy: Mapping[str, Any], ledger: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for key in ("epsilon", "rho", "delta"):
        if key in privacy:
            yield f"privacy.{key}", _COMPUTED
    if privacy.get("unit") == "local":
        yield (
            "schedule.budget",
            "per-month is not for privacy.unit: local, where people choose; write per-night",
        )
    if ledger.get("refresh") != "monthly":
        yield "ledger.refresh", "must be monthly with schedule.budget: per-month"
    if privacy.get("noise") == NoiseKind.GAUSSIAN and not ledger.get("delta"):
        yield "ledger.delta", "missing; noise: gaussian needs it. Add for example delta: 1.0e-6"


def day_of(text: str, option: str) -> date:
    """Parse the date that an option gives.

    Raises:
        ConfigError: the text is no day.
    """
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None:
        raise ConfigError(
            f"{option}: must be a date such as 2026-11-20, got {text[:40]!r}. Nothing was read or"
            " spent."
        )
    if day.year not in YEARS:
        raise ConfigError(
            f"{option}: must be of the years {YEARS[0]} to {YEARS[-1]}, got {day}. Nothing was read"
            " or spent."
        )
    return day
