"""The job that a YAML file describes: its sections, and its identity.

Relative paths start at the folder of the YAML file. Each section is a module of this room, and
`check` makes a job of the file's content.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from functools import cached_property
from typing import Annotated, Any, Self, TypeVar

import numpy as np
from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from hushrank.flows.config.collect import CollectConfig, problems_of_collect
from hushrank.flows.config.comparisons import Design, GroupsConfig, InputConfig
from hushrank.flows.config.items import ItemsConfig, PublicDesign
from hushrank.flows.config.items import spelled_out as spelled_out_items
from hushrank.flows.config.method import (
    GraphKind,
    ModelConfig,
    PairEstimator,
    ReportConfig,
    SpectralConfig,
    SpectralEstimator,
    Weights,
    known_method,
    methods_of,
)
from hushrank.flows.config.privacy import LedgerConfig, PrivacyConfig
from hushrank.flows.config.rankings import SEVERAL_SEATS, RankingColumns, RankingsConfig
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.rules import MOST_ITEMS_RANKED, problems_of_job
from hushrank.flows.config.runner import (
    LocalRunner,
    MemorySize,
    ObservabilityConfig,
    RunnerConfig,
    spelled_out,
)
from hushrank.flows.config.schedule import (
    ScheduleConfig,
    selects_nights,
    with_distinct_pairs,
    with_nightly_share,
)
from hushrank.flows.config.section import SURVEY, AnyPlace, Section, Text
from hushrank.flows.config.yaml_file import refuse
from hushrank.flows.errors import ConfigError
from hushrank.pipelines.engine.runner import DEFAULT_MEMORY
from hushrank.privacy.random_pairs import Hide, RandomPairs, laws_of_levels, n_pairs
from hushrank.privacy.units import Bounding, Unit
from hushrank.transforms.common.epsilons import AnswerColumns
from hushrank.transforms.common.schema import CHOICE, Columns, ComparisonColumns, Ties
from hushrank.transforms.rankings.ranking_columns import ListColumns, OneRowColumns, RankColumns
from hushrank.transforms.responses.responses import ResponseColumns, WideColumns
from hushrank.transforms.tables.names import BEAM


class RetentionConfig(Section):
    """Time after which `hushrank clean` deletes files; nothing here enters the release key.

    Attributes:
        rejects_days: days until rejected rows, exact row counts and error texts are deleted.
        drawn_days: days until the stored noise of a published or unsafe release is deleted.
    """

    rejects_days: int = Field(default=30, ge=0, le=36_500, examples=["30"])
    drawn_days: int = Field(default=365, ge=0, le=36_500, examples=["365"])


# Keys of `model` that earlier versions did not have, with the value that changes nothing.
LATER_MODEL_KEYS: dict[str, object] = {
    "epsilon_cap": None,
    "bands": None,
    "anchors": None,
    "common_order": False,
    "weights": Weights.PRECISION,
    "estimator": PairEstimator.LIKELIHOOD,
}
_Input = TypeVar("_Input", InputConfig, ResponsesConfig, RankingsConfig)


class SurveyConfig(Section):
    """One job.

    Attributes:
        name: the population, the people whose budget is counted together.
        input: rows that are read, and their meaning.
        items: the catalogue, all that can be ranked: public, or `discover`.
        groups: public groups that are ranked one by one and all together; of comparisons, with a
            method that releases counts.
        privacy: the guarantee.
        method: method that computes the ranking; see the page on choosing.
        model: settings of methods that fit scores.
        spectral: settings of methods that measure pairs of test items.
        top_k: number of the best items to name; some methods require it.
        rules: rules of elections for which a release names the winners: `condorcet`, `smith`,
            `copeland`, `schulze`, `ranked-pairs`, `minimax` and `borda` with methods that count
            pairs; `plurality`, and `approval-2`, `approval-3` and so on, with `footrule`;
            `instant-runoff` with that method. Left out: all of these but approval. They cost
            nothing.
        report: form of scores and page.
        output: folder for public files, and nothing else.
        supersedes: output folders of earlier jobs that this one continues, where epsilon, items,
            bounds or something else changed: history, export and report then show their releases
            too, and where the job changed.
        confidential: folder for files that must stay private; made for its owner only.
        ledger: the privacy budget.
        schedule: rows that a night ranks, and times of runs.
        observability: destinations of reports on runs.
        retention: time for which the confidential folder keeps files that no release needs any
            more.
        collect: the page that asks people, and the collector of its private answers.
        runner: the engine that reads the rows; `local` is short for `{kind: local}`.
        memory_limit: bytes, or a size such as 2 GiB, that reading rows may take.
    """

    name: str = Field(examples=["campus-choice"])
    input: InputConfig | ResponsesConfig | RankingsConfig = Field(
        discriminator="kind", examples=["{kind: comparisons, paths: [answers.csv]}"]
    )
    items: Annotated[ItemsConfig, BeforeValidator(spelled_out_items)] = Field(
        examples=["{names: [London, Paris]}"]
    )
    groups: GroupsConfig | None = Field(
        default=None, examples=["{column: language, values: [English, German]}"]
    )
    privacy: PrivacyConfig = Field(examples=["{unit: user, epsilon: 2.0, max_contributions: 10}"])
    method: Annotated[str, BeforeValidator(known_method)] = Field(examples=["auto"])
    model: ModelConfig = Field(default_factory=ModelConfig, examples=["{link: logistic}"])
    spectral: SpectralConfig | None = None
    top_k: int | None = Field(default=None, ge=1, examples=["3"])
    rules: Annotated[tuple[Text, ...], Field(strict=False)] | None = Field(
        default=None, examples=["[condorcet, schulze]"]
    )
    report: ReportConfig = Field(default_factory=ReportConfig, examples=["{scale: elo}"])
    output: AnyPlace = Field(examples=["out/campus"])
    supersedes: Annotated[tuple[AnyPlace, ...], Field(strict=False)] = Field(
        default=(), examples=["[out/campus-2025]"]
    )
    confidential: AnyPlace = Field(examples=[".hushrank/work"])
    ledger: LedgerConfig = Field(examples=["{path: .hushrank/ledger.jsonl, epsilon: 10}"])
    schedule: ScheduleConfig = Field(
        default_factory=ScheduleConfig, examples=["{window: answered_at, timezone: Europe/Berlin}"]
    )
    observability: ObservabilityConfig = Field(
        default_factory=ObservabilityConfig, examples=["{log: hushrank.log.jsonl}"]
    )
    retention: RetentionConfig = Field(
        default_factory=RetentionConfig, examples=["{rejects_days: 30}"]
    )
    collect: CollectConfig | None = Field(
        default=None, examples=["{folder: answers, questions: 10}"]
    )
    runner: RunnerConfig = Field(
        default_factory=LocalRunner, discriminator="kind", examples=["local"]
    )
    memory_limit: MemorySize = Field(default=DEFAULT_MEMORY, examples=["2 GiB"])
    _settled_design: Design = PrivateAttr(default=Design.ANY)
    _counted: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _checked_on: Callable[[date], SurveyConfig] | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _share_of_the_month(cls, content: Any) -> Any:
        return with_distinct_pairs(with_nightly_share(content))

    @model_validator(mode="before")
    @classmethod
    def _one_seat(cls, content: Any) -> Any:
        rows = content.get("input") if isinstance(content, Mapping) else None
        for section, key in ((content, "seats"), (rows, "input.seats")):
            if isinstance(section, Mapping) and "seats" in section:
                refuse((key, SEVERAL_SEATS))
        return content

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
            refuse(
                (
                    "",
                    "must be 1 to 100 letters, digits, '.', '_' or '-', got"
                    f" {name[:80]!r}; rename it",
                )
            )
        return name

    @field_validator("runner", mode="before")
    @classmethod
    def _spell_out(cls, value: Any) -> Any:
        return spelled_out(value)

    @model_validator(mode="after")
    def _check_together(self, info: ValidationInfo) -> Self:
        methods = methods_of(info)
        self._settled_design = methods[self.method].design or Design.ANY
        problems = list(problems_of_job(self, methods, (info.context or {}).get(SURVEY)))
        if (asked := self.asked_design()) is not None and not problems:
            self.privacy.bound_by_pairs(len(asked.items))
        if (found := self.items.discover) is not None and not problems:
            self.privacy.pay_for_names(found.share, found.most_items)
        if self.collect is not None:
            problems += problems_of_collect(self.collect, self)
        if problems:
            refuse(*problems)
        return self

    @property
    def comparisons(self) -> InputConfig:
        """Section `input` of a job on comparisons; ConfigError on another job."""
        return self._input_of(InputConfig, "comparisons")

    @property
    def responses(self) -> ResponsesConfig:
        """Section `input` of a job on test answers; ConfigError on another job."""
        return self._input_of(ResponsesConfig, "responses")

    @property
    def rankings(self) -> RankingsConfig:
        """Section `input` of a job on rankings; ConfigError on another job."""
        return self._input_of(RankingsConfig, "rankings")

    def _input_of(self, section: type[_Input], kind: str) -> _Input:
        if not isinstance(self.input, section):
            raise ConfigError(f"input.kind: must be {kind}, got {self.input.kind}")
        return self.input

    def asked_design(self) -> PublicDesign | None:
        """Public pairs that people were asked about; None: all of them, or no comparisons."""
        return self.input.asked() if isinstance(self.input, InputConfig) else None

    def asked_pairs(self) -> tuple[int, ...] | None:
        """Keys of the asked pairs, as from `encode.pair_keys`, ascending."""
        design = self.asked_design()
        return None if design is None else self._keys_of(design)

    def counted_pairs(self) -> tuple[int, ...] | None:
        """Keys of the public pairs whose rows count, as `asked_pairs`; None: rows of all pairs do.

        They are the asked pairs, or those that a file of `model.exposures` says are compared.
        """
        design = self.model.design()
        if design is None or not design.of_pairs:
            return self.asked_pairs()
        return self._keys_of(design)

    def _keys_of(self, design: PublicDesign) -> tuple[int, ...]:
        names = self.items.catalogue.names
        left, right = np.nonzero(np.triu(design.pairs(names)))
        return tuple((left * len(names) + right).tolist())

    def columns(self) -> Columns:
        """Columns to read, for every kind of input."""
        if isinstance(self.input, RankingsConfig):
            return self.ranking_columns()
        if isinstance(self.input, ResponsesConfig):
            return self.response_columns()
        if self.privacy.unit is Unit.LOCAL:
            return self.answer_columns()
        return self.comparison_columns()

    def response_columns(self) -> ResponseColumns | WideColumns:
        """Columns to read in a job on test answers."""
        group = None if self.groups is None else self.groups.column
        return self.responses.response_columns(self.items.catalogue, group)

    def ranking_columns(self) -> RankingColumns:
        """Columns to read in a job on rankings."""
        if self.rankings.layout != "pairs":
            return self.whole_ranking_columns()
        laws = self.laws_of_pairs()
        if not laws:  # the rules require a mechanism that has them
            raise ConfigError("privacy.mechanism: must be random-pairs with input.layout: pairs")
        return self.rankings.pair_columns(laws[-1])

    def whole_ranking_columns(self) -> RankColumns | ListColumns | OneRowColumns:
        """Columns to read in rankings that are no answers to pairs, their group among them."""
        columns = self.rankings.ranking_columns(self.items.catalogue.names)
        if self.groups is None or isinstance(columns, RankColumns):
            return columns
        from hushrank.transforms.rankings.person_features import groups_of_rankings

        own = groups_of_rankings(self.groups.column, self.groups.sets(), self.groups.groups())
        return replace(columns, features=own)

    def laws_of_pairs(self) -> tuple[RandomPairs, ...]:
        """Laws by which rankings may answer random pairs, one for each level of epsilon.

        Where rankings were privatised at the source, nobody there knew how long the longest list
        would be, so the best number of pairs is that of long lists.

        Returns:
            Ascending in epsilon; of one law if all rankings have one epsilon; empty: the job draws
            by another mechanism.

        Raises:
            ConfigError: a ranking has fewer pairs than it should answer.
        """
        privacy, n_items = self.privacy, len(self.items.catalogue.names)
        if privacy.mechanism is None or not privacy.mechanism.of_whole:
            return ()
        longest = min(self.rankings.max_length or n_items, n_items)
        among = MOST_ITEMS_RANKED if privacy.already_private else longest
        among = n_items if privacy.hide is Hide.ITEMS else among
        if (privacy.pairs or 0) > n_pairs(among) and not privacy.already_private:
            raise ConfigError(
                f"privacy.pairs: must be at most {n_pairs(among)}, the pairs of {among} items, got"
                f" {privacy.pairs}"
            )
        return laws_of_levels(privacy.levels(), privacy.pairs, among, privacy.hide)

    def comparison_columns(self) -> ComparisonColumns:
        """Columns to read in comparisons; without the user if neither bounds nor events need it."""
        columns = self.comparisons.columns
        left, right = columns.sides()
        needs_user = self.privacy.unit is Unit.USER or columns.event is not None
        return ComparisonColumns(
            left=left,
            right=right,
            outcome=columns.outcome if columns.pairs is None else CHOICE,
            winner=columns.winner,
            user=columns.user if needs_user else None,
            event=columns.event,
            words=self.comparisons.meanings(self.items.catalogue.names),
            group=None if self.groups is None or self.groups.most else self.groups.column,
            sets=None if self.groups is None else self.groups.sets(),
            weight=columns.weight,
            most_units=0 if columns.weight is None else self.privacy.params().most_units,
            first=columns.first,
            pairs=columns.asked(),
            features=tuple(feature.feature() for feature in self.comparisons.features),
        )

    def answer_columns(self) -> AnswerColumns:
        """Columns to read under `unit: local`; the user only if answers of a person must be
        grouped."""
        columns, privacy = self.comparisons.columns, self.privacy
        left, right = columns.sides()
        needs_user = privacy.answer_budget().meet or privacy.epsilon_table is not None
        return AnswerColumns(
            left=left,
            right=right,
            outcome=columns.outcome if columns.pairs is None else CHOICE,
            winner=columns.winner,
            user=columns.user if needs_user else None,
            event=None,
            epsilon=columns.epsilon,
            words=self.comparisons.meanings(self.items.catalogue.names),
            first=columns.first,
            pairs=columns.asked(),
        )

    def takes_even_graph(self) -> bool:
        """Whether `spectral.graph: auto` takes an even graph; public numbers alone decide."""
        if self.privacy.unit is not Unit.USER or self.privacy.max_contributions is None:
            return False
        from hushrank.estimation.responses.item_graph import even_graph_pays

        return even_graph_pays(self.privacy.params(), len(self.items.catalogue.names))

    @property
    def nightly(self) -> bool:
        """Whether a night's date decides which rows are ranked."""
        return selects_nights(self.input.paths, self.schedule)

    @property
    def deltas(self) -> dict[str, float]:
        """Deltas by their key: of a release, and of the totals of the ledger."""
        return {"privacy.delta": self.privacy.delta, "ledger.delta": self.ledger.delta}

    @property
    def stated_people(self) -> int | None:
        """Public number of people who were asked; None: the file does not state it."""
        look = self.privacy.look
        return None if look is None else look.people

    @cached_property
    def job_hashes(self) -> tuple[str, ...]:
        """Identities of the job: the present one, and those of earlier versions that differ."""
        forms = itertools.product((False, True), repeat=2)
        return tuple(
            dict.fromkeys(self.job_hash(by_place=place, by_words=words) for words, place in forms)
        )

    def on_night(self, night: date) -> Self:
        """Return the job with the items that `night` lists; all rules are checked with them.

        Raises:
            ConfigError: no list is there, or one of its items or a rule is broken.
        """
        if not self.items.dated or self._checked_on is None:
            return self
        return self.model_copy(update={"items": self._checked_on(night).items})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy as pydantic does, but recompute all derived values."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("job_hashes", None)
        return copied

    def job_hash(self, *, by_place: bool = False, by_words: bool = False) -> str:
        """SHA-256, in hex, of everything here that can change the released result.

        It covers: name, input (with paths in any order; one that is written relative to the YAML
        file, or lies in its folder, counts from there, so everything may be moved together), the
        names of the catalogue in their order (so a changed items file is another job; of a file
        that lists items by night its place alone, and the release key adds the night's), groups,
        privacy, method, model (of public exposures the numbers) and top_k, with defaults as if
        written out, and how rows are assigned to nights. It leaves out: the date of the night;
        rules, report and the labels of items, which change how a release is written but not what
        was drawn; output, supersedes, confidential, ledger, retention, collect, runner and
        memory_limit, which decide where and under which budget, but not what.
        It also leaves out the content of the input files, whose identity the release key adds, and
        so the source and the version of rows that no file holds.

        Args:
            by_place: hash absolute paths, as earlier versions did.
            by_words: hash also words that need no key, and counts as written, as earlier ones did.
        """
        parts = {"name", "input", "privacy", "method", "model", "top_k"}
        content = json.loads(self.model_dump_json(include=parts))
        del content["model"]["exposures"]
        if (design := self.model.design()) is not None:  # else as in versions without the key
            content["model"]["exposures"] = sorted(zip(design.items, design.numbers, strict=True))
        for key, default in LATER_MODEL_KEYS.items():
            if content["model"][key] == default:
                del content["model"][key]
        self._write_item_features(content["model"])
        counted = {} if by_place else self._counted
        content["input"]["paths"] = sorted({counted.get(each, each) for each in self.input.paths})
        _without_version(content["input"])
        if (table := content["privacy"]["epsilon_table"]) is not None:
            content["privacy"]["epsilon_table"] = counted.get(table, table)
        names = self.items.catalogue.names
        if (
            isinstance(self.input, InputConfig)
            and not by_words
            and not self.items.dated
            and self.input.needs_no_words(names)
        ):
            content["input"]["words"] = content["input"]["columns"]["winner_values"] = None
        _without_new_keys(content["input"], self._settled_design, self.asked_design())
        if (counts := self.privacy.counts) is not None and not by_words:
            content["privacy"]["counts"] = counts.normal(self.privacy.unit, self.privacy.bounding)
        _without_new_privacy(content["privacy"])
        content["items"] = self.items.identity(counted)
        if isinstance(self.input, ResponsesConfig) and not self.items.dated:
            content["input"] |= self.input.normal_forms(self.items.catalogue)
        if self.items.first_code and self.columns().item_names():  # 0 reads rows as no key does
            content["first_code"] = self.items.first_code
        if self.groups is not None:
            content["groups"] = json.loads(self.groups.model_dump_json(exclude_none=True))
        if self.spectral is not None:
            content["spectral"] = json.loads(self.spectral.model_dump_json())
            _without_new_graphs(content["spectral"], even=self.takes_even_graph())
        if chosen := self.schedule.identity():
            content["schedule"] = chosen
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def _write_item_features(self, content: dict[str, Any]) -> None:
        """Write the content of the file of features of items, or nothing, as earlier versions."""
        del content["item_features"]
        if (features := self.model.features_of_items()) is not None:
            content["item_features"] = features.content()


def _without_version(content: dict[str, Any]) -> None:
    """Drop the source of a Beam transform's rows and their version, which the release key adds."""
    del content["source"]
    if content.pop("version") is not None:
        content["paths"] = [BEAM]


def _without_new_privacy(content: dict[str, Any]) -> None:
    """Write `privacy` as versions without its new keys did, if these have no effect."""
    look = content["look"]
    if look is not None and not look["unlisted"]:
        del look["unlisted"]
        if look["people"] is None:  # it was a number
            content["look"] = look["share"]
    defaults: dict[str, object] = {
        **dict.fromkeys(("look", "counts")),
        "bounding": Bounding.LEAVE_OUT,
        "max_weight": None,
        "pairs": None,
        "hide": Hide.ORDER,
        "names_per_person": 1,
        "epsilon_levels": None,
    }
    for key, default in defaults.items():
        if content[key] == default:
            del content[key]


def _without_new_keys(
    content: dict[str, Any], settled_design: Design, asked: PublicDesign | None
) -> None:
    """Drop new keys of `input` that have no effect, so that older jobs keep their hash.

    Listed pairs are written as names, so a file and a list of the same pairs are one job.
    """
    if asked is not None:
        content["pairs"] = asked.named()
    defaults = {"delimiter": ",", "encoding": "utf-8", "decimal": ".", "header_rows": 1}
    for key, default in defaults.items():
        if content[key] == default:
            del content[key]
    if content.get("design") == settled_design:
        del content["design"]
    if content.get("ties") != Ties.MODEL:
        content.pop("tie_model", None)
    if content.get("best") == "lowest":
        del content["best"]
    names = ["loser", "weight", "first", "winner_values", "pairs"]
    if content["kind"] == "comparisons" and content["layout"] == "long":
        del content["layout"]
    names += ["epsilon"] if content["kind"] == "responses" else []
    if content["kind"] == "rankings":
        names += ["left", "right", "outcome", "length", "items", "places", "best", "worst", "shown"]
        of_ranks = {"unlisted": "unknown", "skipped": "close"}
        of_ranks |= dict.fromkeys(("overvotes", "repeated"), "set-aside")
        for key in (key for key, default in of_ranks.items() if content[key] == default):
            del content[key]
    if content["kind"] == "responses" and content["words"] and not content["words"]["blank"]:
        del content["words"]["blank"]
    if content.get("booklets"):
        content["booklets"] = {name: sorted(items) for name, items in content["booklets"].items()}
    if content.get("missing") == "unseen":  # a missing key means the same
        del content["missing"]
    unset = (
        *("partitions", "pairs", "multiline", "words", "features", "not_ranked", "overvoted"),
        *("write_ins", "no_valid_vote", "person_features", "missing", "booklets", "points", "key"),
    )
    new = (*((content, key) for key in unset), (content["columns"], "booklet"))
    columns = ((content["columns"], name) for name in names)
    for section, key in (*new, *columns):
        if not section.get(key):
            section.pop(key, None)


def _without_new_graphs(content: dict[str, Any], *, even: bool) -> None:
    """Write `spectral` as versions without `auto` did, so that older jobs keep their hash."""
    if content["degree"] is None:
        del content["degree"]
    if content["estimator"] == SpectralEstimator.BALANCE:
        del content["estimator"]
    if content["graph"] == GraphKind.AUTO and not even:
        content["graph"] = GraphKind.DENSE
