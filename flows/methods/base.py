"""Ranking methods: what each takes, which reduction it needs, what it costs and releases.

Configuration, plan and run know nothing about methods but this. A method is a module of its own in
this room, with its objects in `METHODS`, where `flows.methods.registry` finds them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar

from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import (
    Calibration,
    noticed_from,
    one_error,
    total_error,
)
from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import Floats
from hushrank.flows.config.method import MethodFacts
from hushrank.flows.config.row_rules import takes_extras
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.draws import Draw, Unexplained, cost_of
from hushrank.flows.methods.formulas import noise_of_look, noise_of_query
from hushrank.flows.release.boards import Board
from hushrank.flows.release.election import ElectionRecord, PrecinctRecord
from hushrank.flows.release.released import Effect, PersonalRecord, Released, TieRecord
from hushrank.flows.release.scale import Scale
from hushrank.flows.release.sheet_report import BookletRecord, GroupDifferences, ItemFitRecord
from hushrank.flows.statement.mechanism import CountMechanism, Mechanism
from hushrank.flows.statement.record import PrivacyRecord
from hushrank.flows.statement.sentences import who_counts
from hushrank.privacy.accounting import Spend, decimal_value
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.pilot_query import spend_with_look
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import Discovery, NoiseKind, PrivacyParams, Query, Unit
from hushrank.transforms.storage.files import InputFile

if TYPE_CHECKING:  # a run loads the job of its own kind alone
    from hushrank.pipelines.reduce.names_job import ReduceNames
    from hushrank.pipelines.reduce.private_job import ReduceAnswers
    from hushrank.pipelines.reduce.rankings_job import CountRankings, ReduceRankings
    from hushrank.pipelines.reduce.reduction_job import ReduceComparisons
    from hushrank.pipelines.reduce.responses_job import ReduceResponses
    from hushrank.pipelines.simulate.planned_survey import PlannedSurvey

Arrays = dict[str, NDArray[Any]]  # arrays by name as they are stored, never of objects
DESIGN, GROUPS = "input.design", "groups"
WORDS_OF_QUERY = {
    Query.PEOPLE: "{}",
    Query.ANSWERS: "answers",
    Query.CONTRADICTIONS: "{} who contradict themselves",
}
ReductionJob: TypeAlias = (
    "ReduceComparisons | ReduceAnswers | ReduceResponses | ReduceRankings | CountRankings"
    " | ReduceNames"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Cost and protection of a run, from the public configuration alone.

    Attributes:
        spend: charged to the ledger.
        noise: noise in a few words, for the terminal.
    """

    spend: Spend
    noise: str

    @classmethod
    def of(cls, calibration: Calibration, where: str, unit: float = 1.0) -> Self:
        """State the terms of discrete noise that is added to counts, or to fractions of them.

        Args:
            calibration: calibration of the noise.
            where: name of the counts.
            unit: worth of 1 in them.
        """
        law = calibration.law
        scale = law.scale * unit
        noise = f"discrete {law.kind.capitalize()} noise of scale {scale:.6g} {where}"
        return cls(spend=calibration.spend, noise=noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """Results that follow from the released arrays.

    Attributes:
        estimate: scores, ranks and intervals.
        privacy: the guarantee, in numbers and words.
        released: record of the arrays themselves.
        scale: scale of the scores.
        warnings: warnings for a reader.
        effects: effects of covariates; None if there are none.
        boards: rankings of groups; empty: there are none.
        ties: shares of ties; None if the job does not model ties.
        test: reliability and abilities by raw score, of each booklet; None where they are not told.
        dif: differences between the difficulty of items in each group and in the first; None: not
            told.
        fit: fit of each item to the model; None: not told.
        personal: scores by features of people; None: the method has one score for each item.
        election: winners by rules of elections; None where the counts tell none.
        precincts: votes by public precinct; None where counts are not kept apart by precinct.
    """

    estimate: Estimate
    privacy: PrivacyRecord
    released: Released
    scale: Scale
    warnings: tuple[str, ...] = ()
    effects: tuple[Effect, ...] | None = None
    boards: tuple[Board, ...] = ()
    ties: TieRecord | None = None
    test: tuple[BookletRecord, ...] | None = None
    dif: tuple[GroupDifferences, ...] | None = None
    fit: tuple[ItemFitRecord, ...] | None = None
    personal: PersonalRecord | None = None
    election: ElectionRecord | None = None
    precincts: PrecinctRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacked:
    """Facts about a mechanism that an audit needs before it attacks it.

    Attributes:
        epsilon, delta: guarantee that a release states, without a pilot query before it.
        law: family of the noise, where it is added to counts that are released; else None.
        still: the same mechanism without noise, for synthetic counts only; None as `law` is.
        ridge: ridge of a fit with noise inside: how little it hears of single answers; None: no
            fit.
    """

    epsilon: float
    delta: float
    law: NoiseKind | None = None
    still: Mechanism | None = None
    ridge: float | None = None


C = TypeVar("C", bound=CountMechanism)


def without_noise(counts: C) -> C:
    """Return it without noise, to know what noise was added to. Only for synthetic counts."""
    law = NoiseLaw(counts.law.kind, 0.0)
    return replace(counts, calibration=replace(counts.calibration, law=law))


def attacked_counts(counts: CountMechanism) -> Attacked:
    """Return the facts that an audit needs about noise on counts that are released."""
    return Attacked(
        epsilon=counts.guarantee.epsilon,
        delta=counts.guarantee.delta,
        law=counts.law.kind,
        still=without_noise(counts),
    )


M = TypeVar("M", bound=Mechanism)


class Method(ABC):
    """Method that a YAML file may name: a way from rows to a ranking, or a rule that chooses one.

    Attributes:
        facts: name, input, units, keys and rules; see `MethodFacts`.
    """

    facts: MethodFacts

    @property
    def ways(self) -> tuple[RankingMethod[Any], ...]:
        """The methods that may rank under this name."""
        return ()

    @abstractmethod
    def resolve(self, config: SurveyConfig) -> Choice:
        """Choose the method that ranks, from the public configuration alone.

        Called once a release, before it is calibrated. What was chosen is stored with what it drew.

        Raises:
            ConfigError: no method suits the configuration.
        """


class RankingMethod(Method, Generic[M]):
    """Way from rows to a ranking.

    A release is calibrated once. Everything after that takes the mechanism, and nothing after the
    draw calibrates again.

    Attributes:
        mechanism: class of its mechanisms: a frozen dataclass that pydantic turns into JSON and
            back.
    """

    mechanism: type[M]

    @property
    def ways(self) -> tuple[RankingMethod[Any], ...]:
        """Itself."""
        return (self,)

    def resolve(self, config: SurveyConfig) -> Choice:
        """Return this method itself."""
        return Choice(self)

    @abstractmethod
    def calibrate(self, config: SurveyConfig) -> M:
        """The mechanism, from the public configuration alone.

        Called once a release, before anything is read or spent, so this is where a method checks
        what it needs.

        Raises:
            ConfigError: the configuration does not suit the method; each line of the text is
                `key: rule; fix`, as for every other mistake in the YAML file.
        """

    @abstractmethod
    def terms(self, mechanism: M) -> Terms:
        """Cost and noise."""

    @abstractmethod
    def reduction(
        self,
        config: SurveyConfig,
        mechanism: M,
        files: tuple[InputFile, ...],
        key: SecretKey,
        folder: str,
    ) -> ReductionJob:
        """Return the work of the protected side on the rows; it leaves exact arrays in `folder`."""

    @abstractmethod
    def draw(self, exact: Arrays, mechanism: M, bits: RandomBits) -> Arrays:
        """Arrays that may be published, from exact ones. Called once a release."""

    @abstractmethod
    def conclude(self, drawn: Arrays, mechanism: M, config: SurveyConfig) -> Conclusion:
        """Post-processing of what was drawn by `mechanism`: may be repeated freely."""

    def certified(self, mechanism: M, drawn: Arrays) -> tuple[Draw, ...]:
        """Return the certificate's part on each draw; by default the cost alone.

        Args:
            mechanism: the mechanism that drew.
            drawn: arrays that were stored of it, with a public graph that it was drawn on.
        """
        what = f"what method {self.facts.name} releases"
        derivation = f"{type(mechanism).__module__}.{type(mechanism).__qualname__}"
        cost = cost_of(mechanism.spend)
        return (Unexplained(mechanism="other", what=what, derivation=derivation, cost=cost),)

    def attacked(self, mechanism: M) -> Attacked:
        """Return the facts that an audit needs; by default the cost."""
        return Attacked(epsilon=mechanism.spend.epsilon, delta=mechanism.spend.delta)


@dataclass(frozen=True, slots=True)
class SureVotes:
    """Reach of the noise in ballots, whatever they say.

    Attributes:
        margin: a larger noisy margin of a pair is sure, all pairs and rules at once with 95 %.
        true_margin: a pair that is so far apart without the noise is called sure with 95 %.
        precinct, total: by method `precinct-table` at the same budget: a released number of a
            precinct, and of all, is within this of the true one with 95 %, alone.
        precinct_margin, total_margin: by the same method: a larger noisy margin between two items
            is sure in a precinct, and in all, all pairs of one row at once with 95 %.
    """

    margin: float
    true_margin: float
    precinct: float
    total: float
    precinct_margin: float
    total_margin: float


class PlannedMethod(RankingMethod[M]):
    """A method that `hushrank plan` can try on simulated surveys.

    Attributes:
        plan_order: place of the method among those that a plan compares, those that assume less
            first; None: a plan tries it where the job names it, and only there.
        noise_on_pairs: whether its noise is on counts of pairs, not of items.
    """

    plan_order: int | None = None
    noise_on_pairs: bool = False

    def suits(self, config: SurveyConfig) -> bool:
        """Whether it is right for the stated design, and can do what the job asks beside."""
        designed = not any(key in (DESIGN, GROUPS) for key, _ in self.facts.rules(config))
        return designed and takes_extras(config, self.facts)

    def noise_in_net_wins(self, mechanism: M) -> float | None:
        """Variance of the privacy noise in an item's wins less half its comparisons.

        In comparisons. None: `auto` does not know the method.
        """
        return None

    def least_noise_in_net_wins(self, config: SurveyConfig) -> float:
        """A lower bound of `noise_in_net_wins`, found without calibration; 0: none is known."""
        return 0.0

    def estimand(self, config: SurveyConfig, survey: PlannedSurvey, truth: Floats) -> Floats:
        """Return its scores without noise and chance, shape (n,), by what the method claims.

        Args:
            config: the job.
            survey: a simulated one.
            truth: true scores or difficulties, shape (n,).
        """
        return truth

    @abstractmethod
    def simulated(self, config: SurveyConfig, survey: PlannedSurvey, replicate: int) -> Arrays:
        """Return a simulated survey's arrays, as the protected side would leave them for `draw`.

        Raises:
            ValueError: a survey of this size takes too long to simulate.
        """

    def conclude_whole(self, drawn: Arrays, mechanism: M, config: SurveyConfig) -> Conclusion:
        """`conclude` without rankings of groups, which take longer."""
        return self.conclude(drawn, mechanism, config)

    def sure_votes(self, mechanism: M) -> SureVotes | None:
        """From how many ballots on a release calls a margin sure; None: it states no margins."""
        return None

    def predicted_error(
        self, config: SurveyConfig, survey: PlannedSurvey, mechanism: M
    ) -> float | None:
        """n^(-1/2) l2 norm of the error of the scores, for scores near each other.

        It is that of estimates without bias: shrinking noisy scores towards zero can do better.
        None: no formula is known.
        """
        return None


@dataclass(frozen=True, slots=True)
class Choice:
    """Choice of the method that ranks.

    Attributes:
        method: the method.
        reason: why it, in words, where the job leaves that open; empty: the job names it.
        mechanism: mechanism by which it was chosen; None: it is still to be calibrated.
    """

    method: RankingMethod[Any]
    reason: str = ""
    mechanism: Mechanism | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Mechanism of a release with its method.

    Attributes:
        chosen: method that draws and ranks, and why.
        mechanism: mechanism that this method calibrated.
        look: noise of the look at the rows that comes first (`privacy.look`); None: there is
            none.
        counts: noise of each query beside the ranking (`privacy.counts`); empty: there are none.
    """

    chosen: Choice
    mechanism: Mechanism
    look: Calibration | None = None
    counts: dict[Query, Calibration] = field(default_factory=dict)

    @property
    def method(self) -> RankingMethod[Any]:
        """The method that draws and ranks."""
        return self.chosen.method

    @property
    def params(self) -> PrivacyParams:
        """Unit, adjacency and budget; of a mechanism that is no local one."""
        params: PrivacyParams = self.mechanism.params  # type: ignore[attr-defined]
        return params

    @property
    def discovery(self) -> Discovery | None:
        """Parts of the budget if names of items are drawn first; None: the items are public."""
        params: PrivacyParams | None = getattr(self.mechanism, "params", None)
        return None if params is None else params.discovery

    def certified(self, drawn: Arrays) -> tuple[Draw, ...]:
        """Return the certificate's parts on every draw of a release, a pilot query first."""
        own = self.method.certified(self.mechanism, drawn)
        looks = () if self.look is None else (noise_of_look(self.look, self.params),)
        beside = (noise_of_query(each, self.params) for each in self.counts.values())
        return (*looks, *beside, *own)

    @property
    def spend(self) -> Spend:
        """Cost of drawing the release, the pilot query and names of items included."""
        if (terms := self.discovery) is not None:
            return Spend(epsilon=terms.epsilon, delta=terms.delta)
        spend = self.mechanism.spend
        unchanged = self.look is None and not self.counts
        return spend if unchanged else spend_with_look(spend, self.params)

    @property
    def terms(self) -> Terms:
        """Cost and noise of the release, the look included."""
        terms = self.method.terms(self.mechanism)
        if (parts := self.discovery) is not None:
            from hushrank.privacy.discovered_names import NamesMechanism

            names = NamesMechanism.of(parts, self.params.adjacency)
            first = f"first the names that enough people write (about {names.people_needed(1):,}"
            first += f" with one name each, {names.people_needed(parts.most_names):,} with"
            first += f" {parts.most_names})"
            return replace(terms, spend=self.spend, noise=f"{first}; then {terms.noise}")
        terms = replace(terms, spend=self.spend, noise=f"{terms.noise}{self._beside}")
        if self.look is None:
            return terms
        voters = "people" if self.params.unit is Unit.USER else "rows"
        first = (
            f"first a private sanity check (epsilon {self.look.spend.epsilon:g}) that catches"
            f" wrongly mapped columns when there are about {noticed_from(self.look.law):,}"
            f" {voters} or more, and counts them to within {total_error(self.look.law):,}"
        )
        return replace(terms, spend=self.spend, noise=f"{first}; then {terms.noise}")

    @property
    def _beside(self) -> str:
        """Counts beside the ranking, what they cost, and how far off they may be, in words."""
        if not self.counts:
            return ""
        who = who_counts(self.params.names_per_person)
        told = (
            f"{WORDS_OF_QUERY[query].format(who)} to within {one_error(each.law):,}"
            for query, each in self.counts.items()
        )
        cost = sum(decimal_value(each.spend.epsilon) for each in self.counts.values())
        return f"; and counts beside the ranking (epsilon {float(cost):g}): {', '.join(told)}"
