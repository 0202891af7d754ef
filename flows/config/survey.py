"""The YAML file of a job: its sections and the rules between them.

`load_config` reads it once, the catalogue's file included, so that what was checked is what runs.
Relative paths start at the folder of the YAML file. Each section is a module `config_*`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator

from hushrank.flows.config.budget import with_nightly_share
from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.items import ItemsConfig
from hushrank.flows.config.local import problems_of_job
from hushrank.flows.config.memory import MemorySize
from hushrank.flows.config.model import ModelConfig
from hushrank.flows.config.observability import ObservabilityConfig
from hushrank.flows.config.places import FOLDER, AnyPlace, contains
from hushrank.flows.config.privacy import PrivacyConfig
from hushrank.flows.config.problems import config_error, refuse
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.runner import (
    LocalRunner,
    RunnerConfig,
    problems_of_runner,
    spelled_out,
)
from hushrank.flows.config.schedule import (
    ScheduleConfig,
    problems_of_paths,
    selects_nights,
)
from hushrank.flows.config.section import LEAST_LOSS, MOST_LOSS, Delta, Section
from hushrank.flows.config.spectral import SpectralConfig
from hushrank.flows.config.yaml_file import read_yaml
from hushrank.flows.errors import ConfigError
from hushrank.pipelines.engine.memory_plan import DEFAULT_MEMORY
from hushrank.privacy.units import Adjacency, NoiseKind, Unit
from hushrank.transforms.common.encode import TIE_WORD
from hushrank.transforms.common.epsilons import AnswerColumns
from hushrank.transforms.common.schema import Columns, ComparisonColumns, Ties


class RetentionConfig(Section):
    """What `hushrank clean` deletes; nothing of it enters the release key.

    Attributes:
        rejects_days: after which rows that were set aside, exact row counts and error texts go.
        drawn_days: after which the stored noise of a published release goes.
    """

    rejects_days: int = Field(default=30, ge=0, le=36_500, examples=["30"])
    drawn_days: int = Field(default=365, ge=0, le=36_500, examples=["365"])


class Method(StrEnum):
    """How a ranking is computed. A new method is a member here; its rules go in `SurveyConfig`."""

    NOISY_COUNTS = "noisy-counts"
    NOISY_PAIRS = "noisy-pairs"
    PERTURBED_MLE = "perturbed-mle"
    NOISY_OBJECTIVE = "noisy-objective"
    ONE_SHOT = "one-shot"
    DEBIASED_RR = "debiased-rr"
    CLASSIC_RR = "classic-rr"
    LAPLACE_RR = "laplace-rr"
    RR_COUNTS = "rr-counts"
    SPECTRAL = "spectral"
    SPECTRAL_RR = "spectral-rr"
    KEMENY = "kemeny"
    BORDA = "borda"
    BRADLEY_TERRY = "bradley-terry"


PERTURBED_OBJECTIVE = (Method.PERTURBED_MLE, Method.NOISY_OBJECTIVE)
ON_PUBLIC_GRAPHS = (*PERTURBED_OBJECTIVE, Method.NOISY_PAIRS)
METHODS_OF_RESPONSES = (Method.SPECTRAL, Method.SPECTRAL_RR)
METHODS_OF_RANKINGS = (Method.KEMENY, Method.BORDA, Method.BRADLEY_TERRY)
METHODS_OF_KIND = {
    "comparisons": tuple(
        method for method in Method if method not in METHODS_OF_RESPONSES + METHODS_OF_RANKINGS
    ),
    "responses": METHODS_OF_RESPONSES,
    "rankings": METHODS_OF_RANKINGS,
}


Fraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]

_Input = TypeVar("_Input", InputConfig, ResponsesConfig, RankingsConfig)


class LedgerConfig(Section):
    """The privacy budget of the population.

    Attributes:
        path: the file of the ledger.
        epsilon: the most that one unit may lose altogether in a period, at `delta`.
        delta: at which totals are stated; more than 0 where a release has a delta or a rho.
        refresh: when the total renews; None: never.
        alerts: fractions of the total at which people are warned, once a period; 1.0 warns when one
            more release does not fit.
        other_people: names of other jobs whose people are others than those of this one, although
            they read the same files; without this, the same files under two names are refused.
    """

    path: AnyPlace = Field(examples=[".hushrank/ledger.jsonl"])
    epsilon: float = Field(ge=LEAST_LOSS, le=MOST_LOSS, allow_inf_nan=False, examples=["10"])
    delta: Delta = Field(default=0.0, examples=["1.0e-6"])
    refresh: Literal["daily", "weekly", "monthly", "yearly"] | None = None
    alerts: Annotated[tuple[Fraction, ...], Field(strict=False)] = Field(
        default=(), examples=["[0.5, 0.8, 1.0]"]
    )
    other_people: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), examples=["[staff-choice]"]
    )


class SurveyConfig(Section):
    """One job.

    Attributes:
        name: the population, the people whose budget is counted together.
        input: which rows are read, and what they mean.
        items: the public catalogue, all that can be ranked.
        privacy: the guarantee.
        method: how the ranking is computed; see the page on choosing.
        model: of methods that fit scores.
        spectral: of `spectral` and `spectral-rr`.
        top_k: how many of the best items to name; `one-shot` requires it.
        output: folder for what may be shown, and nothing else.
        confidential: folder for what must not be shown; made for its owner only.
        ledger: the privacy budget.
        schedule: which rows a night ranks, and when.
        observability: where runs are told of.
        retention: how long the confidential folder keeps what no release needs any more.
        runner: the engine that reads the rows; `local` is short for `{kind: local}`.
        memory_limit: bytes, or a size such as 2 GiB, that reading rows may take.
    """

    name: str = Field(examples=["campus-choice"])
    input: InputConfig | ResponsesConfig | RankingsConfig = Field(
        discriminator="kind", examples=["{kind: comparisons, paths: [answers.csv]}"]
    )
    items: ItemsConfig = Field(examples=["{names: [London, Paris]}"])
    privacy: PrivacyConfig = Field(examples=["{unit: user, epsilon: 2.0, max_contributions: 10}"])
    method: Annotated[Method, Field(strict=False)] = Field(examples=["noisy-counts"])
    model: ModelConfig = Field(default_factory=ModelConfig, examples=["{link: logistic}"])
    spectral: SpectralConfig | None = None
    top_k: int | None = Field(default=None, ge=1, examples=["3"])
    output: AnyPlace = Field(examples=["out/campus"])
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
    runner: RunnerConfig = Field(
        default_factory=LocalRunner, discriminator="kind", examples=["local"]
    )
    memory_limit: MemorySize = Field(default=DEFAULT_MEMORY, examples=["2 GiB"])

    @model_validator(mode="before")
    @classmethod
    def _share_of_the_month(cls, content: Any) -> Any:
        return with_nightly_share(content)

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
    def _check(self) -> Self:
        problems = [
            *self._problems_of_places(),
            *((f"input.{key}", rule) for key, rule in problems_of_paths(self.input.paths)),
            *self._problems_of_items(),
            *self._problems_of_method(),
            *problems_of_job(self),
            *problems_of_runner(self),
        ]
        if problems:
            refuse(*problems)
        return self

    def _problems_of_places(self) -> Iterable[tuple[str, str]]:
        output, confidential, ledger = self.output, self.confidential, self.ledger.path
        if contains(output, confidential) or contains(confidential, output):
            yield "confidential", "and output must not contain each other; name separate folders"
        if contains(output, ledger):
            yield "ledger.path", "must not be in output, which holds what may be shown; move it"
        if contains(confidential, ledger):
            yield (
                "ledger.path",
                "must not be in confidential: clearing that folder would forget what was spent;"
                " move it",
            )
        if self.name in self.ledger.other_people:
            yield "ledger.other_people", f"must not name {self.name} itself; remove it"
        for key, path in self.observability.places().items():
            if contains(output, path) or contains(ledger, path):
                yield (
                    f"observability.{key}",
                    "must be neither in output nor the ledger, which nothing else may write;"
                    " name another place",
                )

    def _problems_of_items(self) -> Iterable[tuple[str, str]]:
        catalogue = self.items.catalogue()
        if self.top_k is not None and self.top_k >= len(catalogue):
            yield "top_k", f"must be below the number of items ({len(catalogue)}), got {self.top_k}"
        if (
            isinstance(self.input, InputConfig)
            and self.input.columns.winner is not None
            and TIE_WORD in map(str.lower, catalogue.names)
        ):
            yield (
                "items",
                f"an item is named {TIE_WORD}, which means a tie in column winner; rename it",
            )

    def _problems_of_method(self) -> Iterable[tuple[str, str]]:
        suits = METHODS_OF_KIND[self.input.kind]
        if self.method not in suits:
            yield (
                "method",
                f"{self.method} is not for input.kind: {self.input.kind}; write"
                f" {' or '.join(suits)}",
            )
        if self.spectral is not None and self.method not in METHODS_OF_RESPONSES:
            yield "spectral", "is for method: spectral or spectral-rr; remove it"
        for key, rule in self.model.problems_with(self.method):
            yield f"model.{key}", rule
        if self.method is Method.NOISY_OBJECTIVE and self.privacy.noise is not NoiseKind.GAUSSIAN:
            yield (
                "privacy.noise",
                "must be gaussian with method: noisy-objective; write it, with a delta",
            )
        if self.privacy.public_graph and self.method not in ON_PUBLIC_GRAPHS:
            yield "privacy.public_graph", f"changes nothing with method: {self.method}; remove it"
        if isinstance(self.input, InputConfig):
            yield from self._problems_of_adjacency(self.input)
        if self.method is Method.ONE_SHOT and self.top_k is None:
            yield (
                "top_k",
                "missing; method: one-shot finds that many items. Add for example top_k: 3",
            )

    def _problems_of_adjacency(self, rows: InputConfig) -> Iterable[tuple[str, str]]:
        """Inputs of which one changed unit moves more than the sensitivities count."""
        privacy = self.privacy
        public = privacy.public_graph and self.method in ON_PUBLIC_GRAPHS
        if public and rows.ties is Ties.DROP:
            yield (
                "input.ties",
                "must be split or random with public_graph: true: a dropped tie makes who compared"
                " what depend on the outcomes",
            )
        if public and rows.columns.event is not None:
            yield (
                "input.columns.event",
                "not with public_graph: true: which events contradict themselves, and so who"
                " compared what, depends on the outcomes; remove copies from the input",
            )
        # The row that goes may have set its event aside, which now counts, beside the row that
        # comes: two wins more for one item, where one win moving to another was reckoned with.
        replaced = privacy.adjacency is Adjacency.REPLACE_ONE
        if privacy.unit is Unit.COMPARISON and replaced and rows.columns.event is not None:
            yield (
                "input.columns.event",
                "under unit: comparison needs adjacency: add-remove, because a replaced row can"
                " change two events; set that, or unit: user",
            )

    @property
    def comparisons(self) -> InputConfig:
        """The `input` section of a job on comparisons; ConfigError on another job."""
        return self._input_of(InputConfig, "comparisons")

    @property
    def responses(self) -> ResponsesConfig:
        """The `input` section of a job on test answers; ConfigError on another job."""
        return self._input_of(ResponsesConfig, "responses")

    @property
    def rankings(self) -> RankingsConfig:
        """The `input` section of a job on rankings; ConfigError on another job."""
        return self._input_of(RankingsConfig, "rankings")

    def _input_of(self, section: type[_Input], kind: str) -> _Input:
        if not isinstance(self.input, section):
            raise ConfigError(f"input.kind: must be {kind}, got {self.input.kind}")
        return self.input

    def columns(self) -> Columns:
        """The columns to read, whatever the kind of the input."""
        if isinstance(self.input, RankingsConfig):
            return self.input.ranking_columns()
        if isinstance(self.input, ResponsesConfig):
            return self.input.response_columns(self.items.catalogue())
        if self.privacy.unit is Unit.LOCAL:
            return self.answer_columns()
        return self.comparison_columns()

    def comparison_columns(self) -> ComparisonColumns:
        """The columns to read; the user's is not read where neither bounds nor events need it."""
        columns = self.comparisons.columns
        needs_user = self.privacy.unit is Unit.USER or columns.event is not None
        return ComparisonColumns(
            left=columns.left,
            right=columns.right,
            outcome=columns.outcome,
            winner=columns.winner,
            user=columns.user if needs_user else None,
            event=columns.event,
        )

    def answer_columns(self) -> AnswerColumns:
        """The columns to read under `unit: local`; the user's only where answers must meet."""
        columns, privacy = self.comparisons.columns, self.privacy
        needs_user = privacy.local_shares().meet or privacy.epsilon_table is not None
        return AnswerColumns(
            left=columns.left,
            right=columns.right,
            outcome=columns.outcome,
            winner=columns.winner,
            user=columns.user if needs_user else None,
            event=None,
            epsilon=columns.epsilon,
        )

    @property
    def nightly(self) -> bool:
        """Whether a night's date decides which rows are ranked."""
        return selects_nights(self.input.paths, self.schedule)

    def job_hash(self) -> str:
        """SHA-256, in hex, of everything here that can change the released result.

        In it: name, input (with absolute paths, in any order), the names of the catalogue in their
        order (so a changed items file is another job), privacy, method, model and top_k, with
        defaults as if written out, and how a night's rows are told from others. Not in it: which
        night; output, confidential, ledger, retention, runner and memory_limit, which decide where
        and under which budget but not what; nor the content of the input files, whose identity the
        release key adds.
        """
        dumped = self.model_dump_json(
            include={"name", "input", "privacy", "method", "model", "top_k"}
        )
        content = json.loads(dumped)
        content["input"]["paths"] = sorted(set(self.input.paths))
        if not self.input.multiline:  # a key that older versions did not have: their jobs stay
            del content["input"]["multiline"]
        content["items"] = self.items.catalogue().names
        if self.spectral is not None:
            content["spectral"] = json.loads(self.spectral.model_dump_json())
        if chosen := self.schedule.identity():
            content["schedule"] = chosen
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


def load_config(path: Path) -> SurveyConfig:
    """The job that the YAML file at `path` describes.

    Raises:
        ConfigError: the file or one of its values breaks a rule; one line for each problem found.
    """
    content = read_yaml(path)
    try:
        return SurveyConfig.model_validate(content, context={FOLDER: path.parent})
    except ValidationError as error:
        raise config_error(path, error, SurveyConfig) from None
