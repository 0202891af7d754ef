"""Facts of a ranking method that the configuration needs, and the sections that set it.

This room knows no method. The caller that checks a configuration passes a table of methods
(`flows.methods.registry`), so every checked configuration has a known method.

The sections are `model` (how scores are fitted), `spectral`, and `report` (how scores are shown).
All of their numbers are public: none may be computed from the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, Self

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    StringConstraints,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from hushrank.flows.config.comparisons import Design, GroupsConfig, InputConfig
from hushrank.flows.config.items import ItemsConfig, PublicDesign, read_public_design
from hushrank.flows.config.language import Language
from hushrank.flows.config.privacy import LedgerConfig, PrivacyConfig
from hushrank.flows.config.rankings import SEVERAL_SEATS, STV, RankingsConfig
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.runner import ObservabilityConfig, RunnerConfig
from hushrank.flows.config.schedule import ScheduleConfig
from hushrank.flows.config.section import LEAST_SETTING, MOST_SETTING, LocalPath, Section
from hushrank.flows.config.yaml_file import refuse
from hushrank.privacy.objective_perturbation import Constants
from hushrank.privacy.units import Unit
from hushrank.transforms.common.plain_text import hidden_character
from hushrank.transforms.storage.places import Place

if TYPE_CHECKING:
    from hushrank.flows.config.items import ItemFeatures

Finite = Annotated[float, Field(ge=-20, le=20, allow_inf_nan=False)]  # a difficulty, in log odds
Setting = Annotated[float, Field(ge=LEAST_SETTING, le=MOST_SETTING, allow_inf_nan=False)]


class Weights(StrEnum):
    """Rule for how much private answers count whose people chose their own epsilon."""

    PRECISION = "precision"  # answers count as much as their epsilon says
    EQUAL = "equal"  # all alike


class PairEstimator(StrEnum):
    """Way from a noisy matrix of wins to scores."""

    LIKELIHOOD = "likelihood"  # scores that fit the counts best, in the way that suits the design
    SPECTRAL = "spectral"  # Rank Centrality: the stationary distribution of a Markov chain


class ModelConfig(Section):
    """Settings of the methods that fit scores.

    Attributes:
        link: function by which a difference of scores becomes a chance of winning.
        estimator: for `noisy-pairs`: `likelihood`, or `spectral`, Rank Centrality: the stationary
            distribution of a chain that moves from an item to those that beat it. It needs `link:
            logistic` and a design of chance. Both are computed from the same noisy counts.
        constants: `tight`, what the proof needs, or `paper`, what the paper prints (more noise).
        expected_comparisons: about how many comparisons an item takes part in; intervals are
            computed from it, and so is gamma if it is not given.
        exposures: a CSV file that says in how many comparisons each item takes part (columns `item`
            and `exposure`), or how often each pair is compared (`left`, `right`, `comparisons`):
            public numbers, of a schedule or of questions asked, and never counted in the answers.
            No epsilon is then spent on them. `hushrank plan` simulates surveys with them. A row on
            a pair that a list of pairs leaves out breaks a rule.
        gamma: weight of the ridge, which draws scores towards zero and on which privacy depends;
            None: see `estimation.comparisons.perturbed_mle.default_ridge`.
        c0: chooses gamma as the paper does, c0 * sqrt(expected_comparisons * log(items)), c0 = 2.
        ridge: weight c of c |scores|^2 in the fit of privatised answers.
        epsilon_cap: under `unit: local`, an answer of a larger epsilon pulls no harder than one of
            this epsilon. It bounds what somebody gains who claims a large epsilon for a lie.
        debiased: undo what the mechanism does to rankings; `auto` undoes it and draws scores
            towards zero as far as chance is left in them. With `common_order` it undoes pairs only
            if that promises the smaller errors; without, nothing else gives an order.
        common_order: under `unit: local`, states that people rank by one common order, from which
            they stray by chance: a ranking with the better of two items in front is at least as
            common as the one with these two exchanged. Only then is the order of private rankings
            that of the true ones where the mechanism was not undone.
        weights: for rankings and comparisons with their own epsilon. `precision` lets those with a
            larger epsilon count more, for the smallest error; if people who chose more privacy
            answer otherwise, the result leans to the others, and a release warns of that. `equal`
            counts all alike.
        bands: for a test by method `totals`: count right less wrong answers apart in so many bands
            of raw scores, 2 to 6, from which follows how well each item fits the model. The noise
            in a difficulty has `bands` times the variance.
        anchors: for a test by method `totals`: fixed difficulties of some items, by name, such as
            those of an item bank. They set the zero of the scale: the mean of the anchors is that
            of their fixed values, weighted by what the test tells of each.
        item_features: for method `personalized`: a CSV file of public features of items, with a
            column `item` and one column of numbers for each feature. What features of people change
            then depends on these; without it every item has effects of its own.
    """

    link: Literal["logistic", "laplace", "probit", "auto"] = Field(
        default="logistic", examples=["logistic"]
    )
    estimator: Annotated[PairEstimator, Field(strict=False)] = Field(
        default=PairEstimator.LIKELIHOOD, examples=["spectral"]
    )
    constants: Annotated[Constants, Field(strict=False)] = Constants.TIGHT
    gamma: Setting | None = Field(default=None, examples=["50"])
    expected_comparisons: Setting | None = Field(default=None, examples=["500"])
    exposures: LocalPath | None = Field(default=None, examples=["exposures.csv"])
    c0: Setting | None = Field(default=None, examples=["2"])
    ridge: Setting = Field(default=1.0, examples=["1"])
    epsilon_cap: Setting | None = Field(default=None, examples=["1"])
    debiased: bool | Literal["auto"] = Field(default="auto", examples=["true"])
    common_order: bool = Field(default=False, examples=["true"])
    weights: Annotated[Weights, Field(strict=False)] = Field(
        default=Weights.PRECISION, examples=["equal"]
    )
    bands: int | None = Field(default=None, ge=2, le=6, examples=["4"])
    anchors: dict[str, Finite] | None = Field(default=None, examples=["{q1: -0.5, q4: 1.2}"])
    item_features: LocalPath | None = Field(default=None, examples=["features.csv"])

    _item_features: ItemFeatures | None = PrivateAttr(default=None)
    _design: PublicDesign | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _read(self) -> Self:
        if self.exposures is not None:
            try:
                self._design = read_public_design(self.exposures)
            except ValueError as error:
                refuse(("exposures", f"{self.exposures}: {error}"))
        if self.item_features is not None:
            from hushrank.flows.config.items import read_item_features

            try:
                self._item_features = read_item_features(self.item_features)
            except ValueError as error:
                refuse(("item_features", f"{self.item_features}: {error}"))
        return self

    def design(self) -> PublicDesign | None:
        """Content of the file of exposures, as it was read when the configuration was loaded."""
        return self._design

    def features_of_items(self) -> ItemFeatures | None:
        """Content of the file of features of items, as it was read with the configuration."""
        return self._item_features

    def with_comparisons(self, comparisons: float) -> Self:
        """Return a copy of this section with a public design of another size."""
        copy = self.model_copy()
        if self._design is not None:
            copy._design = self._design.of_size(comparisons)
        return copy

    def _problems(self) -> Iterable[tuple[str, str]]:
        if self.gamma is not None and self.c0 is not None:
            yield "c0", "sets gamma, which is also given; remove one of them"
        if self.exposures is not None and self.expected_comparisons is not None:
            yield "expected_comparisons", "follows from model.exposures; remove one of them"


class GraphKind(StrEnum):
    """Rule for the pairs of items that are compared."""

    AUTO = "auto"  # all pairs, or `even` if that lowers the noise; public numbers decide
    DENSE = "dense"  # all of them
    SPARSE = "sparse"  # an Erdős–Rényi graph, drawn without looking at any answer
    EVEN = "even"  # drawn without looking at any answer; every item in equally many pairs
    BOOKLETS = "booklets"  # pairs that share one of `input.booklets`


class SpectralEstimator(StrEnum):
    """Way from noisy counts of pairs of test items to difficulties."""

    BALANCE = "balance"  # weights that suit noise and chance, negative counts as they are
    CHAIN = "chain"  # the paper's Algorithm 2: the stationary distribution of a Markov chain


class SpectralConfig(Section):
    """Settings of the methods `spectral` and `spectral-rr`.

    Attributes:
        graph: which pairs of items are compared: all (`dense`), every item in the same number of
            them (`even`), or those of an Erdős–Rényi graph (`sparse`, as in the paper). The last
            two are drawn without looking at any answer. `auto` takes `even` if that halves the
            variance of the noise, by public numbers, otherwise `dense`; see the page on choosing.
            With `input.booklets` it is `booklets`, the pairs of items that share a booklet.
        debiased: for `spectral-rr`: undo the flips; false is the paper's baseline.
        edge_probability: chance of a pair in a sparse graph; by default log(m) / m for m items.
        degree: how many pairs each item has in an even graph, an even number; by default 6, or as
            many as connect an answer with four other answers of the same person.
        estimator: for `spectral`: `balance`, or `chain`, the paper's own (Algorithm 2), which
            raises negative noisy counts to 0. Both are computed from the same kind of counts.
    """

    graph: Annotated[GraphKind, Field(strict=False)] = GraphKind.AUTO
    debiased: bool = True
    edge_probability: float | None = Field(default=None, ge=1e-9, le=1, examples=["0.1"])
    degree: int | None = Field(default=None, ge=2, multiple_of=2, examples=["8"])
    estimator: Annotated[SpectralEstimator, Field(strict=False)] = Field(
        default=SpectralEstimator.BALANCE, examples=["chain"]
    )

    def _problems(self) -> Iterable[tuple[str, str]]:
        if self.edge_probability is not None and self.graph is not GraphKind.SPARSE:
            yield "edge_probability", "needs graph: sparse; remove it, or set that"
        if self.degree is not None and self.graph is not GraphKind.EVEN:
            yield "degree", "needs graph: even; remove it, or set that"


def _on_one_line(text: object) -> object:
    """Replace each line break by one blank, for texts written with YAML's `>` and `|`."""
    if not isinstance(text, str):
        return text
    if hidden := hidden_character(text, lines=True):
        refuse(("", f"holds the invisible character {hidden}; remove it"))
    return " ".join(text.split())


_LINE = BeforeValidator(_on_one_line)
Words = Annotated[str, StringConstraints(min_length=1, max_length=200), _LINE]
Sentences = Annotated[str, StringConstraints(min_length=1, max_length=1000), _LINE]


class Sample(StrEnum):
    """Relation of the people who were asked to those about whom a reader wants to know."""

    DRAWN = "drawn"  # a random sample of them was asked
    EVERYBODY = "everybody"  # all of them were asked
    OPEN = "open"  # whoever wished could answer


class AboutConfig(Section):
    """Description of the survey: the question, the people and the dates, in the operator's words.

    Nothing is computed from this section, and the page shows it as plain text. The page says "not
    stated" for a key that is left out.

    Attributes:
        title: heading of the page; else it is the name of the job.
        question: the question as people read it.
        who: who was asked, such as the students of one university.
        how_recruited: how they were found and invited.
        sample: `drawn`, a random sample of `who` was asked; `everybody`, all of them were; `open`,
            whoever wished could answer. Only with `drawn` may readers take the result for that of
            all of `who`; the page says so.
        dates: when answers were collected.
        contact: whom to ask, such as an e-mail address.
    """

    title: Words | None = Field(default=None, examples=["Canteen survey 2026"])
    question: Sentences | None = Field(
        default=None, examples=["Which of these two dishes do you like better?"]
    )
    who: Sentences | None = Field(default=None, examples=["students of Example University"])
    how_recruited: Sentences | None = Field(
        default=None, examples=["by a link in the newsletter of May"]
    )
    sample: Annotated[Sample, Field(strict=False)] | None = Field(default=None, examples=["open"])
    dates: Words | None = Field(default=None, examples=["4 to 18 May 2026"])
    contact: Words | None = Field(default=None, examples=["survey@example.org"])


class ReportConfig(Section):
    """Presentation of scores, from the next release on.

    This section does not change what is drawn, so it makes no new job.

    Attributes:
        scale: `elo`: as ratings like those of chess players, the mean item at 1000; `method`: on
            the scale of the method. Elo needs scores of a logistic link.
        audit: what `hushrank audit` has written of this job; its bounds go into the certificate.
        about: description of the survey, for the top of the page.
        language: language of the report, `report.html`; all other files are English.
    """

    scale: Literal["method", "elo"] = Field(default="method", examples=["elo"])
    audit: LocalPath | None = Field(default=None, examples=["audit.json"])
    about: AboutConfig | None = Field(
        default=None, examples=["{title: Canteen survey, sample: open}"]
    )
    language: Annotated[Language, Field(strict=False)] = Field(
        default=Language.ENGLISH, examples=["de"]
    )


METHODS = "methods"  # key of the table of methods in the validation context


class Sections(Protocol):
    """Sections that rules look at; `config.survey.SurveyConfig` has them."""

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
    def groups(self) -> GroupsConfig | None: ...
    @property
    def privacy(self) -> PrivacyConfig: ...
    @property
    def method(self) -> str: ...
    @property
    def model(self) -> ModelConfig: ...
    @property
    def spectral(self) -> SpectralConfig | None: ...
    @property
    def top_k(self) -> int | None: ...
    @property
    def rules(self) -> tuple[str, ...] | None: ...
    @property
    def report(self) -> ReportConfig: ...
    @property
    def output(self) -> Place: ...
    @property
    def supersedes(self) -> tuple[Place, ...]: ...
    @property
    def confidential(self) -> Place: ...
    @property
    def ledger(self) -> LedgerConfig: ...
    @property
    def schedule(self) -> ScheduleConfig: ...
    @property
    def observability(self) -> ObservabilityConfig: ...
    @property
    def runner(self) -> RunnerConfig: ...
    @property
    def memory_limit(self) -> int: ...


Problems = Iterable[tuple[str, str]]  # key from the root of the file, and the broken rule


def _no_rules(config: Sections) -> Problems:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodFacts:
    """Facts about one method, for callers that do not run it.

    Attributes:
        name: name of the method in the YAML file, and in releases.
        summary: description of the method, for the table of methods in the reference.
        kind: the kind of input that it ranks.
        also: further kinds, of a method that chooses among others.
        units: the units that it protects.
        reads: dotted keys that only some methods use and that this one uses, among `groups`,
            `model`, `spectral`, `privacy.public_graph` and `input.features`. The other such keys
            are refused with it.
        requires: keys that it cannot do without, each with the message if the key is missing.
        logistic: whether its scores always are those of a logistic link.
        chooses_link: whether `model.link` may be `auto`.
        finds_names: whether its items may be names that are found in the rows.
        best_worst: whether it may rank sets of which only the best and the worst item are known.
        design: the only design that it takes; None: several.
        baseline: whether it is only there for comparison, because a better method does the same.
        streams: whether one budget can pay for many nights of it (`schedule.stream`).
        metered: key by which a stream may count the rows of a person in place of nights, because it
            then bounds what a person moves: `pair_gap`, `squares` of numbers of rows, or `gap` for
            one row a night; empty: none.
        any_pairs: whether its fit takes as given who met whom, so that earlier releases may choose
            the pairs that are asked.
        rules: further rules that a configuration with this method must keep.
        elections: which rules of elections its counts of whole rankings tell: those that compare
            pairs, those that look at first places, or those that count in rounds; None: none.
        same_draws: another method whose draws are the same, and which is audited in its place.
    """

    name: str
    summary: str
    kind: str
    units: tuple[Unit, ...]
    reads: Collection[str] = ()
    requires: Mapping[str, str] = field(default_factory=dict)
    logistic: bool = False
    chooses_link: bool = False
    finds_names: bool = False
    best_worst: bool = False
    design: Design | None = None
    baseline: bool = False
    streams: bool = False
    metered: Literal["", "pair_gap", "squares", "gap"] = ""
    any_pairs: bool = False
    rules: Callable[[Sections], Problems] = _no_rules
    also: tuple[str, ...] = ()
    elections: Literal["pairs", "places", "rounds"] | None = None
    same_draws: str | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """All kinds of input that the method ranks."""
        return (self.kind, *self.also)

    @property
    def linked(self) -> bool:
        """Whether the scores have a link that the configuration names."""
        return "model.link" in self.reads

    @property
    def local(self) -> bool:
        """Whether answers are always privatised one by one, before they are counted."""
        return set(self.units) == {Unit.LOCAL}

    def uses(self, key: str) -> bool:
        """Whether this method uses a key that not every method uses."""
        return key in self.reads or key in self.requires


Methods = Mapping[str, MethodFacts]  # methods by name, in the order of the pages


def methods_of(info: ValidationInfo) -> Methods:
    """Return the table that the caller passed to a validation.

    Raises:
        LookupError: no table was passed, which is a fault in the program.
    """
    methods: Methods | None = (info.context or {}).get(METHODS)
    if methods is None:
        raise LookupError("a configuration is checked against a table of methods: check_config")
    return methods


def known_method(name: Any, info: ValidationInfo) -> str:
    """Return `name` if a method has it; else raise pydantic's error for a value outside a list."""
    methods = methods_of(info)
    if isinstance(name, str) and name in methods:
        return name
    if isinstance(name, str) and name.lower() in STV:
        refuse(("", SEVERAL_SEATS))
    *others, last = map(repr, methods)
    expected = f"{', '.join(others)} or {last}" if others else last
    raise PydanticCustomError("enum", "Input should be {expected}", {"expected": expected})
