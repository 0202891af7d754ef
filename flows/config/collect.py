"""The `collect` section: answers that are privatised where they are given, and sent.

`hushrank survey build` makes the page from it, `hushrank collect` takes what the page sends, and
the nights of the same file rank it. Nothing here changes what a release is: no job's hash has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from hushrank.flows.config.comparisons import Design, InputConfig
from hushrank.flows.config.method import Problems, Sections, Weights
from hushrank.flows.config.privacy import PrivacyConfig, RankingChoice
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.schedule import ScheduleConfig, date_of, reads, selects_nights
from hushrank.flows.config.section import AnyPlace, LocalPath, Section, Text
from hushrank.flows.config.yaml_file import refuse
from hushrank.privacy.random_pairs import n_pairs
from hushrank.privacy.units import Unit

# limit on the size of the catalogue, because every respondent's browser loads it
MOST_ITEMS = 10_000
MOST_SHOWN = 30  # most items that a person is asked to put in order
USUAL_QUESTIONS = 10
_WEB = re.compile(
    r"(https://[A-Za-z0-9.-]+|http://(localhost|127\.0\.0\.1))(:[0-9]{1,5})?(/[\w./~%-]*)?"
)
_ORIGIN = re.compile(r"(https://[a-z0-9.-]+|http://(localhost|127\.0\.0\.1))(:[0-9]{1,5})?")
_PAGE = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[\w./~%?&=#+-]*)?")
_BESIDE = re.compile(r"/?[\w.~%-]+(/[\w.~%-]+)*")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_NO_PAGE = (
    "the page sends answers that were privatised on the respondent's device, so the file must say"
    " unit: local and already_private: true; add that, or remove this section"
)


class Ask(StrEnum):
    """Way in which a respondent compares items."""

    PAIRS = "pairs"  # two items at a time
    # a respondent orders items; the page sends private answers to random pairs of them
    RANKING = "ranking"


def _url(value: object) -> object:
    if isinstance(value, str) and not (_WEB.fullmatch(value) or _BESIDE.fullmatch(value)):
        refuse(
            (
                "",
                f"must be an https:// address without ? and #, or a path beside the page, got"
                f" {value[:80]!r}; write for example https://answers.example.org/answers",
            )
        )
    return value


def _language(value: object) -> object:
    if isinstance(value, str) and not _LANGUAGE.fullmatch(value):
        refuse(("", f"must be the code of a language, such as en or pt-BR, got {value[:40]!r}"))
    return value


def _of_form(form: re.Pattern[str], rule: str) -> BeforeValidator:
    """Refuse a text of another form; `rule` says which it must have."""

    def check(value: object) -> object:
        if isinstance(value, str) and not form.fullmatch(value):
            refuse(("", f"must be {rule}, got {value[:80]!r}"))
        return value

    return BeforeValidator(check)


Origin = Annotated[
    str,
    _of_form(_ORIGIN, "an https:// address without a path, such as https://survey.example.org"),
]
Notice = Annotated[str, _of_form(_PAGE, "an https:// address, such as https://example.org/privacy")]
Language = Annotated[str, BeforeValidator(_language)]


class AskerConfig(Section):
    """Who asks, as the page says before the first question.

    Attributes:
        organisation: the organisation that asks, and answers for what is done with the answers.
        contact: how people reach it: an e-mail address, a telephone number or a postal address.
        privacy_notice: https:// address of its privacy notice, to which the page links.
        closes: last day on which answers are taken, in `schedule.timezone`; after it the page says
            so, and the collector refuses. None: no day.
    """

    organisation: Text = Field(examples=["University of Example"])
    contact: Text = Field(examples=["survey@example.org"])
    privacy_notice: Notice | None = Field(default=None, examples=["https://example.org/privacy"])
    closes: Annotated[date, BeforeValidator(date_of)] | None = Field(
        default=None, examples=["2026-12-31"]
    )


class CollectConfig(Section):
    """Questions on a page: how they are asked, privatised there, and collected.

    Attributes:
        url: where the page sends answers to: an https:// address, or a path beside the page.
        folder: where the collector writes the answers of each night, local or in gs://; what
            `input.paths` reads.
        about: who asks, and until when; required where `url` is an https:// address.
        ask: for input kind `comparisons`: `pairs`, a respondent chooses one of two items, again and
            again; `ranking`, they put items in order, and the private order of random pairs of them
            is sent, as under `mechanism: random-pairs`.
        questions: how many pairs, test items or answers out of a ranking there are of a respondent;
            None: 10, or all there are; for `ask: ranking` half of the items shown. Of private
            rankings `privacy.pairs` says it.
        shown: for rankings: how many items a respondent puts in order; None: all, at most 30.
        start_epsilon: epsilon that is chosen before anybody chooses, one of
            `privacy.epsilon_levels`; None: the one nearest to 1. With `privacy.epsilon_range` the
            page offers four epsilons of it, and the nearest of them is chosen.
        no_is_right: for test items: those whose right answer is no. The page shows them to whoever
            looks into it.
        languages: languages of the page; the first is for people who have none of them.
        pairs: a CSV file with the columns `left`, `right` and `share`, as `hushrank next-pairs`
            writes it: the page asks pairs at random, each in about that share of its questions, and
            a respondent about no pair twice; None: all pairs alike. Of `ask: pairs`, method
            `debiased-rr` and `design: any`.
        texts: a YAML file of texts, by language, instead of or beside those that come with
            hushrank.
        tokens: the page sends the one-time token with which it was opened (`#t=TOKEN`), and the
            collector takes nothing without one.
        origins: other origins from which a page may send answers; none where the page and `url`
            share one.
        target_error: largest error of a score that the survey aims at, in mean: the collector shows
            how much of the information for it the answers carry. Of method `debiased-rr` with
            `model.weights: precision`.
        stop_at_target: refuse answers once they carry that information.
        rate: most answers a second that a collector takes, all respondents together.
    """

    url: Annotated[str, BeforeValidator(_url)] = Field(
        default="answers", examples=["https://answers.example.org/answers"]
    )
    folder: AnyPlace = Field(examples=["answers"])
    about: AskerConfig | None = None
    ask: Annotated[Ask, Field(strict=False)] = Ask.PAIRS
    questions: int | None = Field(default=None, ge=1, le=100, examples=["10"])
    shown: int | None = Field(default=None, ge=2, le=MOST_SHOWN, examples=["6"])
    start_epsilon: float | None = Field(default=None, gt=0, examples=["1.0"])
    no_is_right: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), examples=["[q7]"]
    )
    languages: Annotated[tuple[Language, ...], Field(strict=False)] = Field(
        default=("en",), min_length=1, max_length=50, examples=["[en, de]"]
    )
    pairs: LocalPath | None = Field(default=None, examples=["pairs.csv"])
    texts: LocalPath | None = Field(default=None, examples=["texts.yaml"])
    tokens: bool = Field(default=False, examples=["true"])
    origins: Annotated[tuple[Origin, ...], Field(strict=False)] = Field(
        default=(), max_length=20, examples=["[https://survey.example.org]"]
    )
    target_error: float | None = Field(default=None, ge=1e-3, le=10, examples=["0.1"])
    stop_at_target: bool = Field(default=False, examples=["true"])
    rate: int = Field(default=5_000, ge=1, le=1_000_000, examples=["5000"])

    def closing(self, schedule: ScheduleConfig) -> datetime | None:
        """The moment from which no answer is taken; None: there is none."""
        if self.about is None or self.about.closes is None:
            return None
        return datetime.combine(self.about.closes + timedelta(days=1), time(), schedule.zone)

    def ranks(self, rows: InputConfig | ResponsesConfig | RankingsConfig) -> bool:
        """Whether a respondent puts items in order."""
        return isinstance(rows, RankingsConfig) or (
            isinstance(rows, InputConfig) and self.ask is Ask.RANKING
        )

    def items_shown(self, n_items: int) -> int:
        """Number of items, out of `n_items`, that a respondent puts in order."""
        return min(self.shown or MOST_SHOWN, n_items)

    def answers_of_a_person(
        self, rows: InputConfig | ResponsesConfig | RankingsConfig, n_items: int
    ) -> int:
        """Most answers of one respondent; a private ranking is one answer."""
        if isinstance(rows, RankingsConfig):
            return 1
        if isinstance(rows, ResponsesConfig):
            return min(self.questions or USUAL_QUESTIONS, n_items)
        shown = self.items_shown(n_items)
        if self.ask is Ask.RANKING:
            return min(self.questions or max(1, shown // 2), n_pairs(shown))
        return min(self.questions or USUAL_QUESTIONS, n_pairs(n_items))


def problems_of_collect(collect: CollectConfig, config: Sections) -> Problems:
    """Yield key and text of the rules that `collect` breaks together with other sections."""
    rows, privacy, method = config.input, config.privacy, config.method
    names = config.items.catalogue.names
    if privacy.unit is not Unit.LOCAL or not privacy.already_private:
        yield "collect", _NO_PAGE
        return
    if config.items.dated:
        yield "items.file", "lists items by night, and the page asks about one list; name one"
    if len(names) > MOST_ITEMS:
        yield "collect", f"a page holds at most {MOST_ITEMS} items, got {len(names)}"
    if collect.about is None and collect.url.startswith("https://"):
        yield (
            "collect.about",
            "missing; a page on the web says who asks before it asks. Add for example about:"
            ' {organisation: "University of Example", contact: "survey@example.org"}',
        )
    yield from _problems_of_ranks(collect, rows, len(names))
    yield from _problems_of_pairs(collect, rows, method)
    yield from _problems_of_epsilon(collect, privacy)
    yield from _problems_of_choice(rows, privacy)
    yield from _problems_of_target(collect, rows, privacy, method, config.schedule)
    if config.model.weights is Weights.EQUAL and collect.target_error is not None:
        yield (
            "collect.target_error",
            "adds up what answers tell with model.weights: precision; remove one of the two",
        )
    yield from _problems_of_key(collect, rows, names)
    if isinstance(rows, ResponsesConfig):
        yield from _problems_of_tests(collect, rows, privacy, len(names))
    elif privacy.max_contributions is not None:
        yield (
            "privacy.max_contributions",
            "not with collect, whose files do not say which answers are of one person; remove it:"
            f" a page asks at most {collect.answers_of_a_person(rows, len(names))}",
        )
    if isinstance(rows, RankingsConfig):
        yield from _problems_of_rankings(rows, privacy)


def _problems_of_key(
    collect: CollectConfig, rows: object, names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    if collect.no_is_right and not isinstance(rows, ResponsesConfig):
        yield "collect.no_is_right", "applies only to input.kind: responses; remove it"
    for name in sorted(set(collect.no_is_right) - set(names)):
        yield (
            "collect.no_is_right",
            f"{name[:80]} is not an item of the catalogue; correct or remove it",
        )


def _problems_of_pairs(
    collect: CollectConfig, rows: InputConfig | ResponsesConfig | RankingsConfig, method: str
) -> Iterator[tuple[str, str]]:
    if collect.pairs is None:
        return
    if not isinstance(rows, InputConfig) or collect.ask is not Ask.PAIRS:
        yield "collect.pairs", "applies only to comparisons with ask: pairs; remove it"
    elif method != "debiased-rr" or rows.design is not Design.ANY:
        yield (
            "collect.pairs",
            "makes some pairs more frequent on purpose, which only a fit that conditions on who met"
            f" whom allows; write method: debiased-rr and input.design: any, got {method} and"
            f" {rows.design.value}, or remove it",
        )


def _problems_of_target(
    collect: CollectConfig,
    rows: InputConfig | ResponsesConfig | RankingsConfig,
    privacy: PrivacyConfig,
    method: str,
    schedule: ScheduleConfig,
) -> Iterator[tuple[str, str]]:
    if collect.target_error is None:
        if collect.stop_at_target:
            yield "collect.stop_at_target", "needs collect.target_error, such as 0.1; add it"
        return
    if method != "debiased-rr":
        yield (
            "collect.target_error",
            f"is for method: debiased-rr, whose errors follow from the epsilons of answers, got"
            f" {method}; remove it",
        )
    if privacy.epsilon_table is not None:
        yield (
            "collect.target_error",
            "does not go with privacy.epsilon_table; remove one of the two",
        )
    if not isinstance(collect.folder, Path):
        yield (
            "collect.target_error",
            "needs collect.folder on this machine, because its parts are counted at each start;"
            " remove it",
        )
    elif selects_nights(rows.paths, schedule) or not all(
        reads(rows.paths, f"{collect.folder}/{night}/part-0.parquet", night)
        for night in (date.min, date.max)
    ):
        yield (
            "collect.target_error",
            "needs one ranking of all that is collected, and here a night ranks only its own"
            f" answers; write input.paths: [{collect.folder}/**/*.parquet], without {{date}} and"
            " without schedule.partition, or remove it",
        )


def _problems_of_ranks(
    collect: CollectConfig,
    rows: InputConfig | ResponsesConfig | RankingsConfig,
    n_items: int,
) -> Iterator[tuple[str, str]]:
    if collect.ask is Ask.RANKING and not isinstance(rows, InputConfig):
        yield "collect.ask", "applies only to input.kind: comparisons; remove it"
    if isinstance(rows, RankingsConfig) and collect.questions is not None:
        yield "collect.questions", "of rankings is privacy.pairs; remove this line"
    if not collect.ranks(rows):
        if collect.shown is not None:
            yield "collect.shown", "applies only to rankings; remove it, or add ask: ranking"
    elif collect.shown is None and n_items > MOST_SHOWN:
        yield (
            "collect.shown",
            f"missing; {n_items} items are too many to put in order. Add for example shown: 6",
        )
    elif (collect.shown or 0) > n_items:
        yield "collect.shown", f"must be at most the number of items ({n_items})"


def _problems_of_epsilon(
    collect: CollectConfig, privacy: PrivacyConfig
) -> Iterator[tuple[str, str]]:
    start = collect.start_epsilon
    if start is None:
        return
    if privacy.epsilon is not None:
        yield (
            "collect.start_epsilon",
            "has no effect, because privacy.epsilon is the same for all; remove it",
        )
    elif privacy.epsilon_levels is not None:
        if start not in privacy.epsilon_levels:
            levels = ", ".join(f"{each:g}" for each in privacy.epsilon_levels)
            yield (
                "collect.start_epsilon",
                f"is {start:g}, which is none of privacy.epsilon_levels [{levels}]",
            )
    elif privacy.epsilon_range is not None:
        low, high = privacy.epsilon_range
        if not low <= start <= high:
            yield (
                "collect.start_epsilon",
                f"is {start:g}, outside privacy.epsilon_range [{low:g}, {high:g}]",
            )


def _problems_of_choice(
    rows: InputConfig | ResponsesConfig | RankingsConfig, privacy: PrivacyConfig
) -> Iterator[tuple[str, str]]:
    """Refuse a choice of epsilon where neither page nor collector writes it beside the answers."""
    of_pairs = isinstance(rows, RankingsConfig) and rows.layout == "pairs"
    if privacy.epsilon is not None or not (of_pairs or isinstance(rows, ResponsesConfig)):
        return
    key = "epsilon_levels" if privacy.epsilon_levels is not None else "epsilon_range"
    yield (
        f"privacy.{key}",
        "not with collect for test answers and for mechanism: random-pairs, which are sent without"
        " a person's epsilon; write privacy.epsilon, the same for all, in its place",
    )


def _problems_of_tests(
    collect: CollectConfig, rows: ResponsesConfig, privacy: PrivacyConfig, n_items: int
) -> Iterator[tuple[str, str]]:
    if rows.layout != "long":
        yield "input.layout", "must be long with collect, whose files have a row for each answer"
    most = privacy.max_contributions
    if most is not None and collect.answers_of_a_person(rows, n_items) > most:
        yield (
            "collect.questions",
            f"must be at most privacy.max_contributions ({most}): a person's epsilon is divided by"
            " all of their answers. Write that number, or less",
        )


def _problems_of_rankings(
    rows: RankingsConfig, privacy: PrivacyConfig
) -> Iterator[tuple[str, str]]:
    if privacy.mechanism is RankingChoice.LAPLACE_RANKS:
        yield "privacy.mechanism", "must be mallows or random-pairs with collect"
    elif privacy.mechanism is RankingChoice.MALLOWS and rows.layout != "list":
        yield "input.layout", "must be list with collect and mechanism: mallows"
