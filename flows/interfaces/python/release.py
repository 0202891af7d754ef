"""A release, as Python and notebooks see it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from html import escape
from typing import Any

import pyarrow as pa

from hushrank.flows.config.language import Language
from hushrank.flows.display import ranking_table
from hushrank.flows.errors import ConfigError, require
from hushrank.flows.interfaces.python.arguments import plainly
from hushrank.flows.interfaces.python.configuration import PathLike
from hushrank.flows.interfaces.python.table import Table, ranking_html
from hushrank.flows.ledger.entries import Balance
from hushrank.flows.release.archive import (
    RELEASE,
    REPORT,
    SUMS,
    check_intact,
    find_archived,
    load_archived,
)
from hushrank.flows.release.boards import FIELDS, OPTIONAL_FIELDS, effects_by_board
from hushrank.flows.release.history import (
    SCHEMA,
    abilities_table,
    apart,
    dif_table,
    outputs_of,
    problems_of,
    read_history,
)
from hushrank.flows.release.history import ranking_table as rankings_of
from hushrank.flows.release.release import Release as Record
from hushrank.flows.release.release import load_release
from hushrank.flows.release.sheet_report import step_rows
from hushrank.flows.release.wording import verdict
from hushrank.flows.run.stages import Outcome
from hushrank.flows.terminal import text_console
from hushrank.flows.trust.certificate.model import (
    Certificate,
    load_certificate,
    problems_of_certificate,
)
from hushrank.privacy.accounting import Spend
from hushrank.transforms.common.local_files import MostBytes, home_path
from hushrank.transforms.storage.places import CloudPath, Place, is_cloud, read_whole

TEXT_WIDTH = 110
_OF_SCORES = ["booklet", "score", "ability", "standard_error"]
_EFFECTS = pa.schema(
    [
        *((name, pa.string()) for name in ("board", "name")),
        *((name, pa.float64()) for name in ("scale", "estimate", "low", "high")),
    ]
)
_OF_RELEASE = ["day", "release_id", "name"]
_RELIABILITY = pa.schema(
    [
        ("booklet", pa.string()),
        ("measure", pa.string()),
        *((name, pa.float64()) for name in ("estimate", "low", "high")),
    ]
)
_STEPS = pa.schema(
    [
        ("item", pa.string()),
        ("points", pa.int64()),
        *((name, pa.float64()) for name in ("difficulty", "low", "high")),
    ]
)
_FOR_A_PERSON = pa.schema(
    [
        ("rank", pa.float64()),
        ("item", pa.string()),
        *((name, pa.float64()) for name in ("score", "low", "high")),
        ("rank_low", pa.int64()),
        ("rank_high", pa.int64()),
    ]
)
REPORT_HEIGHT = 700  # height of the page in a notebook, in pixels
_TYPES = {field.name: field.type for field in SCHEMA} | {"place": pa.string()}


class Release:
    """One published ranking. `repr` and notebooks show it; nothing here is confidential.

    Attributes:
        record: content of `release.json`.
        folder: folder of the files: `release.json`, `ranking.csv`, `report.html`,
            `certificate.json`.
        spent: cost that this call charged to the ledger; None: nothing, since it was drawn before.
        balance: the budget afterwards; None for a release that was only read.
    """

    @plainly
    def __init__(
        self,
        record: Record,
        folder: Place,
        *,
        spent: Spend | None = None,
        balance: Balance | None = None,
    ) -> None:
        self.record = record
        self.folder = folder
        self.spent = spent
        self.balance = balance

    @classmethod
    @plainly
    def of(cls, outcome: Outcome) -> Release:
        """Build the release that a run published."""
        spent = outcome.spent if outcome.charged else None
        return cls(outcome.release, outcome.folder, spent=spent, balance=outcome.balance)

    @property
    def id(self) -> str:
        """Id of the release in the ledger and the archive."""
        return self.record.release_id

    @property
    def name(self) -> str:
        """Name of the population."""
        return self.record.name

    @property
    def created(self) -> datetime:
        """Time at which the release was made."""
        return self.record.created

    @property
    def night(self) -> date | None:
        """The day whose rows it ranks; None: all rows."""
        return self.record.night

    @property
    def method(self) -> str:
        """Method that computed the ranking."""
        return self.record.method

    @property
    def epsilon(self) -> float | None:
        """Epsilon of the guarantee, which holds with `delta`."""
        return self.record.privacy.epsilon

    @property
    def delta(self) -> float:
        """Delta of the guarantee."""
        return self.record.privacy.delta

    @property
    def safe(self) -> bool:
        """Whether it protects people; an unsafe release is not for publication."""
        return self.record.safe

    @property
    def informative(self) -> bool:
        """Whether anything can be learned through the noise."""
        return self.record.informative

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings that a reader must know."""
        return self.record.warnings

    @property
    def verdict(self) -> str:
        """Verdict on the ranking, in one to five sentences."""
        return verdict(self.record)

    @property
    def statement(self) -> str:
        """Guarantee in plain words: who is protected, against what, by which noise."""
        return "\n".join(self.record.privacy.statement)

    @property
    def not_protected(self) -> tuple[str, ...]:
        """Facts that the guarantee does not cover."""
        return self.record.privacy.not_protected

    @property
    def ranking(self) -> Table:
        """A row for each item, the best first: place, item, score, intervals, ranks."""
        return _ranking(self.record)

    @property
    def groups(self) -> dict[str, Table]:
        """The ranking of each group, by its name."""
        return {group.name: _ranking(board) for group, board in self.record.boards()}

    @property
    def effects(self) -> Table | None:
        """Effects of covariates on who wins, in log odds; None: the job names none.

        Columns: board (the group; empty: all rows together), name, scale (the difference that
        counts as 1; null for who was shown first), estimate, and low and high, its 95 % interval.
        """
        rows = [
            {"board": board, **effect.model_dump()}
            for board, effects in effects_by_board(self.record.effects, self.record.groups)
            for effect in effects
        ]
        return Table(pa.Table.from_pylist(rows, schema=_EFFECTS)) if rows else None

    @property
    def ties(self) -> Table | None:
        """Share of ties by the model of ties, one row; None: the job does not model them.

        Columns: model, parameter with its 95 % interval low to high, and equals, the percent of
        comparisons between two items of equal scores that tie, with its own. With groups, it is
        of all of them together: how often a group ties enters its scores, but is not told.
        """
        if self.record.ties is None:
            return None
        return Table(pa.Table.from_pylist([self.record.ties.model_dump()]))

    @property
    def abilities(self) -> Table | None:
        """Abilities by raw score of each booklet of a test; None where they are not told."""
        if self.record.test is None:
            return None
        return Table(abilities_table([self.record]).select(_OF_SCORES))

    @property
    def reliability(self) -> Table | None:
        """KR-20 (alpha of points) and person separation of each booklet, with 95 % intervals.

        A row is missing where noise and chance hide a reliability; None: there are no abilities.
        """
        if self.record.test is None:
            return None
        rows = [
            {"booklet": booklet.name, "measure": measure, **found.model_dump()}
            for booklet in self.record.test
            for measure, found in booklet.measures.items()
            if found is not None
        ]
        return Table(pa.Table.from_pylist(rows, schema=_RELIABILITY))

    @property
    def counts(self) -> Table | None:
        """Counts beside the ranking (`privacy.counts`): count, low, high, noise_scale; None: none.

        A row for each number: people and answers that count, and of the people who answered a pair
        twice or more those who are contradicting themselves and those who are consistent.
        """
        if self.record.counts is None:
            return None
        numbers = self.record.counts.numbers.items()
        rows = [{"what": name, **each.model_dump()} for name, each in numbers]
        return Table(pa.Table.from_pylist(rows))

    @plainly
    def rank_for(self, features: Mapping[str, Any], *, two_towers: bool = False) -> Table:
        """Rank for a person with these public features: place, item, score, 95 % intervals, ranks.

        Args:
            features: a value for each feature of `method: personalized`, by name; a number may lie
                between those that the job lists.
            two_towers: rank by two neural networks that are fitted to the released counts now, as
                in section 6 of the paper, without intervals. It takes some seconds.

        Raises:
            ConfigError: the release has no scores by features, or a value is not one of its own.
        """
        from hushrank.flows.release.person_ranking import lines_for, towers_of

        towers = towers_of(self.record) if two_towers else None
        lines = lines_for(self.record, features, towers)
        return Table(pa.Table.from_pylist(lines, schema=_FOR_A_PERSON))

    @plainly
    def drift_from(self, earlier: Release) -> Table:
        """Which items of a test became harder or easier since an earlier release, on its scale.

        A row for each item in common: difficulty before and now, difference (above 0: harder now),
        standard error, 95 % interval, whether it moved (95 % for all together), and whether it is
        an anchor, of which the two scales have the same mean. Nothing is spent.

        Args:
            earlier: of the same test, or of one that has items in common with it.

        Raises:
            ConfigError: both are the same release, a release has no difficulties with errors, under
                5 items are common, over a fifth of these moved, or one test has points and the
                other has none.
        """
        from hushrank.flows.release.linking import drift_rows

        return Table(pa.Table.from_pylist(drift_rows(earlier.record, self.record)))

    @property
    def dif(self) -> Table | None:
        """Items that are harder in one group than in another, of a test; None: not told.

        A row for each item and group, against the first group: difference, standard error, 95 %
        interval, z, size by the rule of ETS, and whether it differs (95 % for all together).
        """
        if self.record.dif is None:
            return None
        return Table(dif_table([self.record]).drop_columns(_OF_RELEASE))

    @property
    def fit(self) -> Table | None:
        """Fit of each item of a test to the Rasch model; None: not told.

        A row for each item: statistic, degrees of freedom, chance, whether it misfits (95 % for all
        together), whether its curve is steeper than that of the model, and its slope (2PL) relative
        to the geometric mean of all items with a 95 % interval, null where slopes are not told.
        """
        if self.record.fit is None:
            return None
        return Table(pa.Table.from_pylist([each.model_dump() for each in self.record.fit]))

    @property
    def steps(self) -> Table | None:
        """Step difficulties of items that give points, with 95 % intervals; None: none does."""
        rows = [step.model_dump() for step in step_rows(self.record.test or ())]
        return Table(pa.Table.from_pylist(rows, schema=_STEPS)) if rows else None

    @property
    def rounds(self) -> Table | None:
        """Rounds of an instant runoff, a row for each item left; None: another method.

        Columns: round, item, ballots and exhausted (noisy counts), leaves (the fewest ballots),
        may_leave (perhaps so without the noise), reached (these items are surely left).
        """
        from hushrank.flows.release.rounds import round_rows, rounds_of

        rows = list(round_rows(rounds_of(self.record)))
        return Table(pa.Table.from_pylist(rows)) if rows else None

    @property
    def top_k(self) -> tuple[str, ...] | None:
        """The best items, if the job asked for them."""
        return self.record.top_k

    def to_pandas(self) -> Any:
        """The ranking as a `pandas.DataFrame`; raises as `Table.to_pandas`."""
        return self.ranking.to_pandas()

    def to_polars(self) -> Any:
        """The ranking as a `polars.DataFrame`; raises as `Table.to_polars`."""
        return self.ranking.to_polars()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.ranking.__arrow_c_stream__(requested_schema)

    @property
    @plainly
    def certificate(self) -> Certificate | None:
        """Certificate that proves the release's claims in exact numbers; None for an older version.

        Raises:
            ArchiveError: the certificate cannot be read.
        """
        return load_certificate(self.folder)

    @plainly
    def report(self, *, language: str | None = None) -> Report:
        """The whole page with figures, privacy statement and budget, which a notebook shows.

        Args:
            language: `en`, `de`, `es`, `fr` or `pt`: draw the page again in this language, without
                earlier releases; None: the file that the run wrote.

        Raises:
            ConfigError: the file is not there any more, the language is another, or the extra
                `languages` is not installed.
        """
        path = self.folder / REPORT
        if language is not None:
            return Report(path, _page_in(self.record, self.balance, language))
        try:
            return Report(path, read_whole(path, MostBytes.RELEASE).decode())
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None

    def __repr__(self) -> str:
        """Text of the verdict and the ranking."""
        text = io.StringIO()
        console = text_console(text, TEXT_WIDTH)
        if not self.safe:
            console.print("UNSAFE: this release protects nobody.", markup=False)
        if self.record.look is not None:
            console.print(self.record.look.seen, markup=False, highlight=False, soft_wrap=True)
        console.print(self.verdict, markup=False, highlight=False, soft_wrap=True)
        console.print(ranking_table(self.record))
        for told in self.record.count_sentences:
            console.print(told, markup=False, highlight=False, soft_wrap=True)
        return text.getvalue().rstrip()

    def _repr_html_(self) -> str:
        return ranking_html(self.record)


def language_named(language: str) -> Language:
    """Return the language of that code.

    Raises:
        ConfigError: there is none, or its extra is not installed.
    """
    known = {each.value: each for each in Language}
    if language not in known:
        rule = f"must be {', '.join(known)} or None"
        raise ConfigError(f"language: {rule}, got {language!r}")
    if known[language] is not Language.ENGLISH:
        require("languages", f"language {language}")
    return known[language]


def _page_in(record: Record, balance: Balance | None, language: str) -> str:
    from hushrank.flows.report.page import render_report

    return render_report(record, balance, language=language_named(language))


class Report:
    """The page of a release.

    Attributes:
        path: the file that the run wrote.
        html: text of the page; it loads nothing from outside.
    """

    @plainly
    def __init__(self, path: Place, html: str) -> None:
        self.path = path
        self.html = html

    def __repr__(self) -> str:
        return f"Report({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its style does not touch the notebook."""
        return (
            f'<iframe title="Report" srcdoc="{escape(self.html)}" sandbox="allow-scripts"'
            f' width="100%" height="{REPORT_HEIGHT}" style="border:0"></iframe>'
        )


class History(Sequence[Release]):
    """All releases of a population, the earliest first.

    Attributes:
        left_out: releases that protect nobody, which are never mixed with the others.
    """

    @plainly
    def __init__(self, releases: Sequence[Release], left_out: Sequence[Release] = ()) -> None:
        self._releases = tuple(releases)
        self.left_out = tuple(left_out)

    def __len__(self) -> int:
        return len(self._releases)

    def __getitem__(self, index: Any) -> Any:
        """A release, or a part of the history."""
        if isinstance(index, slice):
            return History(self._releases[index])
        return self._releases[index]

    def __iter__(self) -> Iterator[Release]:
        return iter(self._releases)

    @property
    def rankings(self) -> Table:
        """A row for each item of each release."""
        return Table(rankings_of([release.record for release in self]))

    @property
    def summary(self) -> Table:
        """A row for each release: day, id, method, guarantee, and what it says."""
        rows = [
            {
                "day": release.record.day,
                "release_id": release.id,
                "method": release.method,
                "epsilon": release.epsilon,
                "delta": release.delta,
                "safe": release.safe,
                "says": release.verdict,
            }
            for release in self
        ]
        return Table(pa.Table.from_pylist(rows))

    def __repr__(self) -> str:
        return "\n".join(f"{each.record.day}  {each.id}  {each.verdict}" for each in self)

    def _repr_html_(self) -> str:
        return self.summary._repr_html_()


@plainly
def read_release(folder: PathLike | CloudPath) -> Release:
    """Read the release in an output folder, or the one in a folder of its archive.

    Args:
        folder: the folder, local or gs://.

    Raises:
        ConfigError: the folder holds no release.
        ArchiveError: a file of the release was changed after it was published.
    """
    place = _place(folder)
    if (place / SUMS).exists():
        return Release(load_archived(place), place)
    record = load_release(place / RELEASE)
    kept = find_archived(place, record.release_id)
    if kept is not None:
        check_intact(kept)
    return Release(record, place)


@plainly
def history(*sources: PathLike | CloudPath) -> History:
    """Read the releases in output folders, or of the jobs of YAML files.

    Raises:
        ConfigError: there is no release, or the releases are of several populations.
        ArchiveError: a file was changed after it was published.
    """
    from hushrank.flows.methods.registry import load_config

    outputs = outputs_of(map(str, sources), load_config)
    problems = problems_of(outputs, problems_of_certificate)
    if problems:
        raise ConfigError("\n".join(problems))
    shown, left_out = apart(read_history(outputs))
    return History(
        [Release(record, _kept(outputs, record)) for record in shown],
        [Release(record, _kept(outputs, record)) for record in left_out],
    )


def _kept(outputs: Sequence[Place], record: Record) -> Place:
    found = (find_archived(output, record.release_id) for output in outputs)
    return next(folder for folder in found if folder is not None)


def _place(folder: object) -> Place:
    text = str(folder)
    return CloudPath.parse(text) if is_cloud(text) else home_path(text)


def _ranking(record: Record) -> Table:
    lines = zip(record.places(), record.ranking, strict=True)
    rows = [{"place": place, **line.content()} for place, line in lines]
    names = [name for name in FIELDS if name not in OPTIONAL_FIELDS or record.says(name)]
    types = [(name, _TYPES.get(name, pa.float64())) for name in ("place", *names)]
    return Table(pa.Table.from_pylist(rows, schema=pa.schema(types)))
