"""The rules between the sections of a job. Each yields the key, from the root, and the rule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.items import ItemsConfig
from hushrank.flows.config.ledger import LedgerConfig
from hushrank.flows.config.method import (
    LOCAL_METHODS,
    METHODS_OF_KIND,
    METHODS_OF_RESPONSES,
    ON_PUBLIC_GRAPHS,
    Method,
)
from hushrank.flows.config.model import ModelConfig, ReportConfig, SpectralConfig
from hushrank.flows.config.observability import ObservabilityConfig
from hushrank.flows.config.places import contains
from hushrank.flows.config.privacy import Budget, PrivacyConfig
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.runner import DataflowRunner, LocalRunner, RunnerConfig, SparkRunner
from hushrank.flows.config.schedule import problems_of_paths
from hushrank.privacy.units import Adjacency, NoiseKind, Unit
from hushrank.transforms.common.encode import TIE_WORD
from hushrank.transforms.common.randomisation import RankingMechanism
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.storage.cloud_storage import Place
from hushrank.transforms.storage.files import REMOTE_PREFIX, is_remote

MOST_ITEMS_LOCAL = 100_000  # of many, sums are kept for pairs that were compared alone
MOST_ITEMS_RANKED = 1_000  # three matrices of this size are released: 20 MB of JSON

NOT_FOR_SPARK = (
    "not with kind: spark, which computes parts again that it lost: an answer would be randomised a"
    " second time, and its epsilon spent twice. Use another kind, or privatise at the source"
    " (already_private: true)"
)
_ONE_EPSILON = (
    "needs exactly one of privacy.epsilon (a number for all), privacy.epsilon_table (a file with"
    " the columns user and epsilon) and input.columns.epsilon (a column of the {})"
)
_TIES_SHOW = (
    "{} would show which answers were ties, because only the other ones count in full. Write ties:"
    " random, which decides a tie by a fair coin before it is privatised"
)
_NO_PERSONAL_EPSILON = (
    "a personal epsilon only counts where each person's answers are privatised one by one; under"
    " unit comparison or user everybody is protected at privacy.epsilon. Remove this line"
)


class Sections(Protocol):
    """The sections that rules look at: `config.survey.SurveyConfig`, which is made of them."""

    @property
    def name(self) -> str: ...
    @property
    def input(self) -> InputConfig | ResponsesConfig | RankingsConfig: ...
    @property
    def comparisons(self) -> InputConfig: ...
    @property
    def rankings(self) -> RankingsConfig: ...
    @property
    def items(self) -> ItemsConfig: ...
    @property
    def privacy(self) -> PrivacyConfig: ...
    @property
    def method(self) -> Method: ...
    @property
    def model(self) -> ModelConfig: ...
    @property
    def spectral(self) -> SpectralConfig | None: ...
    @property
    def top_k(self) -> int | None: ...
    @property
    def report(self) -> ReportConfig: ...
    @property
    def output(self) -> Place: ...
    @property
    def confidential(self) -> Place: ...
    @property
    def ledger(self) -> LedgerConfig: ...
    @property
    def observability(self) -> ObservabilityConfig: ...
    @property
    def runner(self) -> RunnerConfig: ...


def problems_of_job(config: Sections) -> Iterable[tuple[str, str]]:
    """Key and rule of what the sections break together. Keys start at the root of the file."""
    yield from _problems_of_places(config)
    for key, rule in problems_of_paths(config.input.paths):
        yield f"input.{key}", rule
    yield from _problems_of_items(config)
    yield from _problems_of_method(config)
    yield from _problems_of_kind(config)
    yield from _problems_of_runner(config)
    for key, rule in config.report.problems_with(config.method, config.model.link):
        yield f"report.{key}", rule


def _problems_of_places(config: Sections) -> Iterable[tuple[str, str]]:
    output, confidential, ledger = config.output, config.confidential, config.ledger.path
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
    if config.name in config.ledger.other_people:
        yield "ledger.other_people", f"must not name {config.name} itself; remove it"
    for key, path in config.observability.places().items():
        if contains(output, path) or contains(ledger, path):
            yield (
                f"observability.{key}",
                "must be neither in output nor the ledger, which nothing else may write;"
                " name another place",
            )


def _problems_of_items(config: Sections) -> Iterable[tuple[str, str]]:
    catalogue = config.items.catalogue()
    if config.top_k is not None and config.top_k >= len(catalogue):
        yield "top_k", f"must be below the number of items ({len(catalogue)}), got {config.top_k}"
    if (
        isinstance(config.input, InputConfig)
        and config.input.columns.winner is not None
        and TIE_WORD in map(str.lower, catalogue.names)
    ):
        yield (
            "items",
            f"an item is named {TIE_WORD}, which means a tie in column winner; rename it",
        )


def _problems_of_method(config: Sections) -> Iterable[tuple[str, str]]:
    suits = METHODS_OF_KIND[config.input.kind]
    if config.method not in suits:
        yield (
            "method",
            f"{config.method} is not for input.kind: {config.input.kind}; write"
            f" {' or '.join(suits)}",
        )
    if config.spectral is not None and config.method not in METHODS_OF_RESPONSES:
        yield "spectral", "is for method: spectral or spectral-rr; remove it"
    for key, rule in config.model.problems_with(config.method):
        yield f"model.{key}", rule
    if config.method is Method.NOISY_OBJECTIVE and config.privacy.noise is not NoiseKind.GAUSSIAN:
        yield (
            "privacy.noise",
            "must be gaussian with method: noisy-objective; write it, with a delta",
        )
    if config.privacy.public_graph and config.method not in ON_PUBLIC_GRAPHS:
        yield "privacy.public_graph", f"changes nothing with method: {config.method}; remove it"
    if isinstance(config.input, InputConfig):
        yield from _problems_of_adjacency(config, config.input)
    if config.method is Method.ONE_SHOT and config.top_k is None:
        yield (
            "top_k",
            "missing; method: one-shot finds that many items. Add for example top_k: 3",
        )


def _problems_of_adjacency(config: Sections, rows: InputConfig) -> Iterable[tuple[str, str]]:
    """Inputs of which one changed unit moves more than the sensitivities count."""
    privacy = config.privacy
    public = privacy.public_graph and config.method in ON_PUBLIC_GRAPHS
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


def _problems_of_kind(config: Sections) -> Iterable[tuple[str, str]]:
    """What suits no input of that kind, or not under unit `local`."""
    local = config.privacy.unit is Unit.LOCAL
    if config.input.kind == "rankings":
        yield from _problems_of_rankings(config)
        return
    if config.privacy.mechanism is not None:
        yield "privacy.mechanism", "is for input.kind: rankings; remove it"
    if config.input.kind == "responses":
        yield from _problems_of_responses(config)
        return
    if not local:
        if config.comparisons.columns.epsilon is not None:
            yield "input.columns.epsilon", _NO_PERSONAL_EPSILON
        if config.method in LOCAL_METHODS:
            yield (
                "method",
                f"{config.method} privatises every answer by itself; set privacy.unit: local, or"
                " write noisy-counts",
            )
        return
    if config.method not in LOCAL_METHODS:
        yield (
            "method",
            f"{config.method} adds noise after counting, which privacy.unit: local rules out; write"
            f" {', '.join(LOCAL_METHODS[:-1])} or {LOCAL_METHODS[-1]}",
        )
    yield from _problems_of_answers(config)


def _problems_of_responses(config: Sections) -> Iterable[tuple[str, str]]:
    privacy, local = config.privacy, config.privacy.unit is Unit.LOCAL
    if local != (config.method == "spectral-rr"):
        yield (
            "method",
            "spectral-rr privatises every answer by itself, so it goes with privacy.unit: local;"
            " spectral adds noise after counting and goes with user. Change one of them",
        )
    elif local and privacy.budget is not Budget.PER_USER:
        yield "privacy.budget", "must be per_user with method: spectral-rr, which splits epsilon"
    if local and (privacy.already_private or privacy.epsilon_table or privacy.epsilon_range):
        yield "privacy", "method: spectral-rr takes one epsilon for all, and true answers"


def _problems_of_sources(
    privacy: PrivacyConfig, column: str | None, rows: str
) -> Iterable[tuple[str, str]]:
    """Epsilons that come from nowhere, or from two places."""
    sources = (privacy.epsilon, privacy.epsilon_table, column)
    if sum(source is not None for source in sources) != 1:
        yield "privacy", _ONE_EPSILON.format(rows)


def _problems_of_answers(config: Sections) -> Iterable[tuple[str, str]]:
    privacy, columns = config.privacy, config.comparisons.columns
    yield from _problems_of_sources(privacy, columns.epsilon, "answers")
    if columns.event is not None:
        yield (
            "input.columns.event",
            "under unit: local copies of one event are privatised one by one, each at a cost;"
            " remove copies from the input, and this line",
        )
    ties = config.comparisons.ties
    if privacy.already_private and ties is not Ties.DROP:
        yield "input.ties", "must be drop: answers that were privatised have no ties"
    elif not privacy.already_private and ties is not Ties.RANDOM:
        yield "input.ties", _TIES_SHOW.format(ties)
    if privacy.already_private and config.method == "laplace-rr":
        yield (
            "method",
            "laplace-rr adds its own noise to answers; with already_private use debiased-rr",
        )
    if privacy.budget is Budget.PER_USER and config.method == "laplace-rr":
        yield "privacy.budget", "must be per_comparison with method: laplace-rr; remove this line"
    if len(config.items.catalogue()) > MOST_ITEMS_LOCAL:
        yield "items", f"must be at most {MOST_ITEMS_LOCAL} with method: {config.method}"


def _problems_of_rankings(config: Sections) -> Iterable[tuple[str, str]]:
    """Key and rule of what the sections of a job on rankings break together."""
    privacy, n_items = config.privacy, len(config.items.catalogue())
    if privacy.unit is not Unit.LOCAL:
        yield (
            "privacy.unit",
            f"must be local with input.kind: rankings, got {privacy.unit}: rankings are privatised"
            " one by one, before they are counted",
        )
        return
    if privacy.mechanism is None:
        yield "privacy.mechanism", "missing; add mechanism: mallows"
    if "budget" in privacy.model_fields_set:
        yield "privacy.budget", "has no meaning for rankings; set max_contributions, and remove it"
    if n_items > MOST_ITEMS_RANKED:
        yield "items", f"must be at most {MOST_ITEMS_RANKED} with input.kind: rankings"
    yield from _problems_of_epsilon(config)
    if config.rankings.columns.user is None and config.rankings.layout == "list":
        for key, given in (
            ("privacy.max_contributions", privacy.max_contributions is not None),
            ("privacy.epsilon_table", privacy.epsilon_table is not None),
        ):
            if given:
                yield key, "needs input.columns.user, which says whose ranking a row is"


def _problems_of_epsilon(config: Sections) -> Iterable[tuple[str, str]]:
    privacy, columns = config.privacy, config.rankings.columns
    yield from _problems_of_sources(privacy, columns.epsilon, "rankings")
    if privacy.mechanism is RankingMechanism.LAPLACE_RANKS and privacy.epsilon is None:
        yield "privacy.epsilon", "missing; mechanism: laplace-ranks takes one number for all"
    if config.model.debiased is True:
        if privacy.epsilon is None:
            yield "model.debiased", "needs privacy.epsilon, one number for all; write auto or false"
        if privacy.mechanism is RankingMechanism.LAPLACE_RANKS:
            yield "model.debiased", "needs mechanism: mallows; write auto or false"


def _problems_of_runner(config: Sections) -> Iterable[tuple[str, str]]:
    """Rules between the engine and the rest of a job, broken by `config`."""
    runner = config.runner
    if isinstance(runner, LocalRunner) and runner.spill is not None:
        if not is_remote(str(config.confidential)):
            yield (
                "runner.spill",
                "is for confidential in Cloud Storage; rows wait in a confidential folder of this"
                " machine as it is. Remove it",
            )
        if contains(config.output, runner.spill):
            yield "runner.spill", "must not be in output, which holds what may be shown; move it"
    if isinstance(runner, DataflowRunner):
        for place, path in enumerate(config.input.paths):
            if not is_remote(path):
                yield f"input.paths[{place}]", _must_be_remote(path)
        if not is_remote(str(config.confidential)):
            yield "confidential", _must_be_remote(str(config.confidential))
        if config.privacy.epsilon_table is not None:
            yield (
                "privacy.epsilon_table",
                "not with kind: dataflow, whose workers cannot reach a local file; give each answer"
                " its epsilon in a column (input.columns.epsilon)",
            )
    local = config.privacy.unit is Unit.LOCAL and not config.privacy.already_private
    if isinstance(runner, SparkRunner) and local:
        yield "runner", NOT_FOR_SPARK


def _must_be_remote(path: str) -> str:
    return (
        f"must start with {REMOTE_PREFIX} with kind: dataflow, whose workers cannot reach a local"
        f" path, got {path!r}; copy it to Cloud Storage"
    )
