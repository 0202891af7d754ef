"""The sections `privacy`, the guarantee and its bounds, and `ledger`, the budget of releases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, Context
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from hushrank.flows.config.counts import (
    CountsConfig,
    LookConfig,
    problems_of_queries,
    queries_of,
    share_alone,
)
from hushrank.flows.config.section import (
    LEAST_LOSS,
    LEAST_RHO,
    MOST_LOSS,
    MOST_ROWS,
    AnchorPlace,
    AnyPlace,
    Delta,
    LocalPath,
    Section,
    Text,
)
from hushrank.flows.config.yaml_file import refuse
from hushrank.flows.errors import ConfigError
from hushrank.privacy.pilot_query import with_look
from hushrank.privacy.random_pairs import MOST_PAIRS, Hide
from hushrank.privacy.units import (
    MOST_WEIGHT,
    Adjacency,
    Bounding,
    Discovery,
    Levels,
    NoiseKind,
    PrivacyParams,
    Query,
    Unit,
    epsilon_levels,
)
from hushrank.transforms.common.epsilons import AnswerBudget, EpsilonSource
from hushrank.transforms.common.randomisation import RankingMechanism

Fraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
ROUNDING = 1e-9  # tolerance in a logarithm, so that a limit of 1e-5 gives 1e-6
MOST_NAMES = 1_000  # names of a person; more would be noise alone
MOST_ZEROS = 12  # most leading zeros of a number that is written out
MOST_DELTA = 1e-5  # a larger delta needs the option --anyway
_CENTRAL_KEYS = (
    *("delta", "rho", "noise", "per_item_cap", "distinct_pairs", "bounding", "max_weight"),
    *("public_graph", "look", "counts"),
)
MOST_LEVELS = 13  # epsilons among which people choose: more would tell people apart
_LOCAL_KEYS = ("budget", "epsilon_range", "epsilon_levels", "epsilon_table", "already_private")
_OF_PAIRS = ("pairs", "hide")
_NO_RANGE = (
    "missing; epsilons that come with the answers need public bounds, and rows outside are set"
    " aside. Add for example epsilon_range: [0.1, 5]"
)
_NO_BOUND = (
    "missing; unit: user needs the most rows of one person that count."
    " Add for example max_contributions: 10"
)
_NO_STATEMENT = (
    "missing; with public_graph: true the release quotes why anybody may know who compared what."
    " Add for example public_graph_statement: everybody answered about all pairs"
)


class RankingChoice(StrEnum):
    """Mechanism that privatises rankings, or the rule that chooses one."""

    MALLOWS = RankingMechanism.MALLOWS.value
    LAPLACE_RANKS = RankingMechanism.LAPLACE_RANKS.value
    RANDOM_PAIRS = RankingMechanism.RANDOM_PAIRS.value
    AUTO = "auto"

    @property
    def of_whole(self) -> bool:
        """Whether epsilon covers a whole ranking, instead of one moved item."""
        return self in (RankingChoice.RANDOM_PAIRS, RankingChoice.AUTO)


class Budget(StrEnum):
    """Unit that a person's epsilon protects: one answer, or all answers together."""

    PER_COMPARISON = "per_comparison"  # each of their answers
    PER_USER = "per_user"  # all of their answers together


def _infinity(value: object) -> object:
    return math.inf if value == "inf" else value


def _computable(epsilon: float) -> float:
    if 0 < epsilon < LEAST_LOSS or MOST_LOSS < epsilon < math.inf:
        refuse(("", f"must be from {LEAST_LOSS:g} to {MOST_LOSS:g}, got {epsilon!r}; 1 is strong"))
    return epsilon


Epsilon = Annotated[float, BeforeValidator(_infinity), AfterValidator(_computable)]


class PrivacyConfig(Section):
    """The guarantee and the bounds that it rests on.

    Attributes:
        unit: unit that is protected. `user`: a person with all their rows; `comparison`: one row;
            `local`: one answer or ranking, privatised before it is counted.
        adjacency: `replace-one` hides what a person answered; `add-remove` hides also whether they
            took part. Unit `local` is always `replace-one`.
        epsilon: the privacy loss in nats, 1e-9 to 1e6; smaller protects more. With `gaussian` noise
            together with `delta`. inf, with the option --no-privacy, adds no noise and is marked
            unsafe. Under unit `local` that of every answer, the same for all.
        delta: chance that the promise of epsilon fails, for `gaussian` noise; leave it out for
            `laplace`. Above 1e-5 a run is refused unless it has the option --anyway.
        rho: zCDP, for `gaussian` noise, instead of `epsilon` and `delta`.
        noise: `laplace` gives pure epsilon; `gaussian` gives (epsilon, delta) or rho and adds up
            better over many releases.
        max_contributions: the most rows of one person that count (L; of test answers K; of rankings
            whole ones); required for unit `user`, refused for `comparison`; under `local` it bounds
            a person's total.
        per_item_cap: most of a person's rows in which the same item occurs; for unit `user`,
            at most `max_contributions`.
        distinct_pairs: whether at most one of a person's rows on each pair of items counts; for
            unit `user`.
        names_per_person: the most user names of one person (k), such as cookies, devices or members
            of a household; for unit `user`. A public assumption, which nothing checks. The
            guarantee is then of any k names together, with k times the noise; bounds are of each
            name.
        bounding: rule for the rows of a person who has more than `max_contributions`.
            `leave-out`: that many count, drawn at random. `weights`: all count, with a weight that
            falls with their number so that the noise stays the same; for unit `user`, `gaussian`
            noise and `distinct_pairs: true`.
        max_weight: the largest weight of a row (W), 1 to 30 with at most 3 decimals; needed with
            `input.columns.weight`. Larger weights count as this. The noise is W times as large, so
            divide weights by their usual size first.
        public_graph: anybody may know who compared what; then only who won is protected. Of methods
            `perturbed-mle`, `noisy-objective` and `noisy-pairs`; needs ties `split` or `random`,
            `replace-one` and no event column.
        public_graph_statement: why that is so, in the operator's words; the release quotes it.
        look: the pilot query, not with `rho`: a share of `epsilon` (0.02), or `{share, people}`. It
            tells through noise how many people's rows (under unit `comparison`: how many rows) fit
            the columns, items and words of this file. Where it is near certain that fewer than half
            do, the run stops there and the rest is given back. Without this key there is none.
        counts: counts beside the ranking, not with `rho`: a share of `epsilon` (0.05), or `{share,
            of}`. The release says how many people and answers counted, with noise and intervals.
            Without this key there are none.
        budget: for unit `local`: `per_comparison`, epsilon is for each answer; `per_user`, it is
            divided by the number of the person's answers.
        epsilon_range: for unit `local`: public bounds of epsilons that come with the answers; rows
            outside are set aside. Epsilons of rankings and of test answers are rounded down to 13
            public levels: the bounds, and steps of equal ratio between them.
        epsilon_levels: for unit `local`, in place of `epsilon_range`: the public epsilons among
            which people choose, ascending. A row with any other is set aside, so an epsilon tells
            no more of a person than which of the few it is.
        epsilon_table: for unit `local`: a CSV or Parquet file with the columns user and epsilon.
        already_private: for unit `local`: the answers were privatised at the source. Of test
            answers every person divided `epsilon` by the number of theirs, which is at most
            `max_contributions`.
        mechanism: mechanism that privatises rankings: `mallows` and the baseline `laplace-ranks`
            draw a synthetic one, and epsilon is for one moved item; `random-pairs` answers a few
            pairs of its items, and epsilon is for the whole ranking; `auto` takes the better of
            `mallows` and `random-pairs` where a whole ranking loses epsilon, from public numbers.
            `laplace-ranks` takes one epsilon for all. Required for input kind `rankings` under unit
            `local`.
        pairs: for `random-pairs`: how many pairs a ranking answers, with epsilon divided among
            them; None: as many as give the smallest error, at each level of epsilon.
        hide: for `random-pairs`: `order`, which items somebody ranked is not hidden, as with
            `mallows`; `items`, that is hidden too, by asking about any items of the catalogue.
    """

    unit: Annotated[Unit, Field(strict=False)] = Field(examples=["user"])
    adjacency: Annotated[Adjacency, Field(strict=False)] = Adjacency.REPLACE_ONE
    epsilon: Annotated[float, BeforeValidator(_infinity), AfterValidator(_computable)] | None = (
        Field(default=None, gt=0, examples=["2.0"])
    )
    delta: Delta = Field(default=0.0, examples=["1.0e-6"])
    rho: float | None = Field(
        default=None, ge=LEAST_RHO, le=MOST_LOSS, allow_inf_nan=False, examples=["0.1"]
    )
    noise: Annotated[NoiseKind, Field(strict=False)] = NoiseKind.LAPLACE
    max_contributions: int | None = Field(default=None, ge=1, le=MOST_ROWS, examples=["10"])
    per_item_cap: int | None = Field(default=None, ge=1, le=MOST_ROWS, examples=["5"])
    distinct_pairs: bool = Field(default=False, examples=["true"])
    names_per_person: int = Field(default=1, ge=1, le=MOST_NAMES, examples=["3"])
    bounding: Annotated[Bounding, Field(strict=False)] = Field(
        default=Bounding.LEAVE_OUT, examples=["weights"]
    )
    max_weight: float | None = Field(default=None, ge=1, le=MOST_WEIGHT, examples=["3"])
    public_graph: bool = Field(default=False, examples=["true"])
    public_graph_statement: Text | None = Field(
        default=None, examples=["everybody answered about all pairs"]
    )

    look: Annotated[LookConfig | None, BeforeValidator(share_alone)] = Field(
        default=None, examples=["0.02"]
    )

    counts: Annotated[CountsConfig | None, BeforeValidator(share_alone)] = Field(
        default=None, examples=["0.05"]
    )

    budget: Annotated[Budget, Field(strict=False)] = Budget.PER_COMPARISON
    epsilon_range: Annotated[tuple[float, float], Field(strict=False)] | None = Field(
        default=None, examples=["[0.1, 5]"]
    )
    epsilon_levels: Annotated[tuple[float, ...], Field(strict=False)] | None = Field(
        default=None, min_length=2, max_length=MOST_LEVELS, examples=["[0.5, 1, 2, 4]"]
    )
    epsilon_table: LocalPath | None = Field(default=None, examples=["epsilons.csv"])
    already_private: bool = Field(default=False, examples=["true"])
    mechanism: Annotated[RankingChoice, Field(strict=False)] | None = Field(
        default=None, examples=["mallows"]
    )
    pairs: int | None = Field(default=None, ge=1, le=MOST_PAIRS, examples=["1"])
    hide: Annotated[Hide, Field(strict=False)] = Field(default=Hide.ORDER, examples=["items"])

    _asked: int | None = PrivateAttr(default=None)
    _discovery: Discovery | None = PrivateAttr(default=None)

    def bound_by_pairs(self, n_pairs: int) -> None:
        """Lower the bound on a person's distinct pairs to the number of public pairs."""
        self._asked = n_pairs

    def pay_for_names(self, share: float, most_names: int) -> None:
        """Set a part of the budget aside for names that are found in the rows."""
        from hushrank.privacy.discovered_names import discovery_of

        self._discovery = discovery_of(
            self.epsilon or 0.0, self.delta, share, most_names, self.adjacency
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        local = self.unit is Unit.LOCAL
        problems = [*_problems_of_local(self), *(() if local else self._problems())]
        problems += _problems_of_pairs(self)
        if problems:
            refuse(*problems)
        if local:
            return self
        try:
            self.params()
        except ValueError as error:
            key, _, rule = str(error).partition(
                " "
            )  # every rule of PrivacyParams begins with its key
            refuse((key, rule))
        return self

    def _problems(self) -> Iterable[tuple[str, str]]:
        if self.rho is None and self.epsilon is None:
            yield "epsilon", "missing; add for example epsilon: 2.0"
        if self.rho is not None and (self.epsilon is not None or self.delta > 0):
            yield "rho", "stands for the whole guarantee; remove it, or remove epsilon and delta"
        if self.unit is Unit.USER and self.max_contributions is None:
            yield "max_contributions", _NO_BOUND
        if self.unit is Unit.COMPARISON and self.max_contributions is not None:
            yield "max_contributions", "bounds one person's rows; remove it, or set unit: user"
        if self.unit is Unit.COMPARISON and self.names_per_person > 1:
            yield (
                "names_per_person",
                "is for unit: user; unit: comparison protects each row, whoever gave it. Remove it,"
                " or set unit: user",
            )
        if self.look is not None and self.look.people is not None and self.unit is not Unit.USER:
            yield "look.people", "counts people, so it needs unit: user; remove it"
        if (
            self.noise is NoiseKind.GAUSSIAN
            and self.rho is None
            and self.delta == 0
            and self.private
        ):
            yield "delta", "missing; noise: gaussian needs it. Add for example delta: 1.0e-6"
        if self.counts is not None:
            yield from problems_of_queries(
                self.counts, self.unit, self.bounding, distinct_pairs=self.distinct_pairs
            )
        yield from self._problems_of_graph()

    @property
    def queries(self) -> tuple[Query, ...]:
        """Queries beside the ranking, in the order of `Query`; empty: there are none."""
        return () if self.counts is None else queries_of(self.counts, self.unit, self.bounding)

    def _problems_of_graph(self) -> Iterable[tuple[str, str]]:
        if self.public_graph and self.public_graph_statement is None:
            yield "public_graph_statement", _NO_STATEMENT
        if self.public_graph_statement is not None and not self.public_graph:
            yield "public_graph_statement", "needs public_graph: true; add that, or remove this"
        weights = {"bounding": self.bounding is Bounding.WEIGHTS, "max_weight": self.max_weight}
        for key, given in weights.items():
            if self.public_graph and given:
                yield key, "not with public_graph: true, which makes totals public; remove one"
        if self.public_graph and self.adjacency is Adjacency.ADD_REMOVE:
            yield (
                "public_graph",
                "says that who compared what is public, and adjacency: add-remove hides it;"
                " remove public_graph, or set adjacency: replace-one",
            )

    @property
    def private(self) -> bool:
        """Whether the release has noise; False for `epsilon: inf`."""
        return self.rho is not None or self.epsilon != math.inf

    def answer_budget(self) -> AnswerBudget:
        """Rule by which a person's epsilon becomes that of an answer, under `unit: local`."""
        return AnswerBudget(
            per_user=self.budget is Budget.PER_USER, max_contributions=self.max_contributions
        )

    def local_epsilons(self) -> EpsilonSource:
        """Source of epsilons, and their public bounds, under `unit: local`."""
        low, high = self.epsilon_bounds or (self.epsilon or 0.0, self.epsilon or 0.0)
        table = None if self.epsilon_table is None else str(self.epsilon_table)
        levels = self.epsilon_levels or ()
        return EpsilonSource(
            low=low,
            high=high,
            value=self.epsilon,
            table=table,
            levels=levels,
            levels_alone=bool(levels),
        )

    @property
    def epsilon_bounds(self) -> tuple[float, float] | None:
        """The least and the largest epsilon of an answer; None: all have the same."""
        if self.epsilon_levels is not None:
            return self.epsilon_levels[0], self.epsilon_levels[-1]
        return self.epsilon_range

    def levels(self) -> Levels:
        """Public levels of epsilon under `unit: local`; of one where all have the same."""
        if self.epsilon is not None:
            return (self.epsilon,)
        return self.epsilon_levels or epsilon_levels(*(self.epsilon_range or (0.0, 0.0)))

    def params(self) -> PrivacyParams:
        """Return the guarantee for the mechanisms, without the cost of the pilot query or of names.

        With `distinct_pairs` a person has at most as many rows as there are public pairs.
        """
        rows = self.max_contributions or 1
        if self._asked is not None and self.distinct_pairs:
            rows = min(rows, self._asked)
        whole = PrivacyParams(
            unit=self.unit,
            adjacency=self.adjacency,
            epsilon=math.inf if self.epsilon is None else self.epsilon,
            delta=self.delta,
            rho=self.rho,
            noise=self.noise,
            max_contributions=rows,
            per_item_cap=self.per_item_cap,
            distinct_pairs=self.distinct_pairs,
            bounding=self.bounding,
            max_weight=self.max_weight,
            names_per_person=self.names_per_person,
        )
        if (found := self._discovery) is not None:
            return replace(whole, epsilon=math.inf, delta=0.0, rho=found.rest, discovery=found)
        parts = whole
        if self.look is not None:
            parts = with_look(whole, self.look.share, unlisted=self.look.unlisted)
        if self.counts is not None and self.queries:
            from hushrank.privacy.private_counts import with_counts

            parts = with_counts(parts, self.counts.share, self.queries, whole.epsilon)
        return parts


def _problems_of_local(privacy: PrivacyConfig) -> Iterable[tuple[str, str]]:
    """Yield key and rule of each problem under unit `local`, or with keys that only it has."""
    if privacy.unit is not Unit.LOCAL:
        for key in _LOCAL_KEYS:
            if key in privacy.model_fields_set:
                yield key, "is for unit: local; remove it"
        return
    for key in _CENTRAL_KEYS:
        if key in privacy.model_fields_set:
            yield key, "has no meaning under unit: local; remove it"
    if privacy.names_per_person > 1:
        yield (
            "names_per_person",
            "is for unit: user; under unit: local each answer has noise of its own, so for k names"
            " of a person divide epsilon, or the epsilons of the answers, by k, and remove this",
        )
    if privacy.adjacency is not Adjacency.REPLACE_ONE:
        yield (
            "adjacency",
            "must be replace-one under unit: local, which hides what was answered but not that an"
            " answer was given; remove this line",
        )
    if privacy.epsilon is not None and math.isinf(privacy.epsilon):
        yield "epsilon", "must be finite under unit: local"
    if privacy.already_private and privacy.budget is Budget.PER_USER:
        yield (
            "budget",
            "per_user divides an epsilon before an answer is privatised, and already_private: true"
            " says that this happened; remove one of them",
        )
    yield from _problems_of_range(privacy)


def _problems_of_levels(privacy: PrivacyConfig) -> Iterable[tuple[str, str]]:
    levels = privacy.epsilon_levels or ()
    shown = ", ".join(f"{each:g}" for each in levels)
    if not all(low < high for low, high in pairwise(levels)):  # so no level is NaN
        yield "epsilon_levels", f"must ascend, got [{shown}]"
    elif not LEAST_LOSS <= levels[0] <= levels[-1] <= MOST_LOSS:
        within = f"{LEAST_LOSS:g} to {MOST_LOSS:g}"
        yield "epsilon_levels", f"must be within {within}, got [{shown}]"
    for key in ("epsilon", "epsilon_range", "epsilon_table"):
        if getattr(privacy, key) is not None:
            yield key, "says another epsilon than epsilon_levels; remove one of them"


def _problems_of_range(privacy: PrivacyConfig) -> Iterable[tuple[str, str]]:
    if privacy.epsilon_levels is not None:
        yield from _problems_of_levels(privacy)
        return
    if privacy.epsilon_range is None:
        if privacy.epsilon is None:
            yield "epsilon_range", _NO_RANGE
        return
    low, high = privacy.epsilon_range
    if not 0 < low <= high < math.inf:
        yield "epsilon_range", f"must be [low, high] with 0 < low <= high, got [{low:g}, {high:g}]"
    elif low < LEAST_LOSS or high > MOST_LOSS:
        within = f"{LEAST_LOSS:g} to {MOST_LOSS:g}"
        yield "epsilon_range", f"must be within {within}, got [{low:g}, {high:g}]"
    elif privacy.epsilon is not None and not low <= privacy.epsilon <= high:
        yield "epsilon", f"is {privacy.epsilon:g}, outside epsilon_range [{low:g}, {high:g}]"


def _problems_of_pairs(privacy: PrivacyConfig) -> Iterable[tuple[str, str]]:
    mechanism = privacy.mechanism
    if mechanism is None or not mechanism.of_whole:
        for key in _OF_PAIRS:
            if key in privacy.model_fields_set:
                yield key, "is for mechanism: random-pairs; remove it"
        return
    if not privacy.already_private:
        return
    if mechanism is RankingChoice.AUTO:
        yield (
            "mechanism",
            "auto chooses before rankings are privatised, and already_private: true says that they"
            " were; name the mechanism that privatised them",
        )
    elif privacy.pairs is None and privacy.epsilon is not None:
        yield (
            "pairs",
            "missing; already_private: true needs to know how many pairs each ranking answered."
            " Add for example pairs: 1",
        )


class LedgerConfig(Section):
    """The privacy budget of the population.

    Attributes:
        path: the file of the ledger.
        epsilon: the most that one unit may lose altogether in a period, at `delta`.
        delta: delta at which totals are stated; more than 0 if a release has a delta or a rho.
            Above 1e-5 a run is refused unless it has the option --anyway.
        refresh: period after which the total renews; None: never.
        alerts: fractions of the total at which people are warned, once a period; 1.0 warns when one
            more release does not fit.
        lifetime_epsilon: where the total renews, the most that one unit may lose over all periods,
            at `delta`; a run that would bring the total above it is refused for good. At least
            `epsilon`; None: no limit.
        other_people: names of other jobs that read the same files although their people are others
            than those of this job; without this key, the same files under two names are refused.
        signing_key: file of the private key that signs every line (`hushrank ledger key` makes
            one); None: lines are not signed. Every job of a signed ledger needs the key.
        terms_key: file of the public key of the officer who alone opens, changes or recovers the
            budget (`hushrank ledger terms`); runs cannot. None: whoever edits this section can.
        record_access: whether `inspect`, `clean --delete` and `survey tokens` write a line into the
            ledger, with who and when, before they begin; with `signing_key` they do in any case.
        anchor: a second place that knows how far the ledger was, so that an older copy is refused:
            a file on another disk, a gs:// folder in another bucket, or git:FOLDER in a git
            repository; None: there is none.
    """

    path: AnyPlace = Field(examples=[".hushrank/ledger.jsonl"])
    epsilon: float = Field(ge=LEAST_LOSS, le=MOST_LOSS, allow_inf_nan=False, examples=["10"])
    delta: Delta = Field(default=0.0, examples=["1.0e-6"])
    refresh: Literal["daily", "weekly", "monthly", "yearly"] | None = None
    alerts: Annotated[tuple[Fraction, ...], Field(strict=False)] = Field(
        default=(), examples=["[0.5, 0.8, 1.0]"]
    )
    lifetime_epsilon: float | None = Field(
        default=None, ge=LEAST_LOSS, le=MOST_LOSS, allow_inf_nan=False, examples=["20"]
    )
    other_people: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), examples=["[staff-choice]"]
    )
    signing_key: LocalPath | None = Field(default=None, examples=["/etc/hushrank/ledger.pem"])
    terms_key: LocalPath | None = Field(default=None, examples=["/etc/hushrank/officer.pub"])
    record_access: bool = False
    anchor: AnchorPlace | None = Field(default=None, examples=["gs://other-bucket/campus-anchor"])

    @property
    def records_access(self) -> bool:
        """Whether commands that show or delete confidential data leave a line in the ledger."""
        return self.record_access or self.signing_key is not None

    @model_validator(mode="after")
    def _check_lifetime(self) -> Self:
        limit, key = self.lifetime_epsilon, "lifetime_epsilon"
        if limit is not None and self.refresh is None:
            refuse(
                (
                    key,
                    f"needs refresh; without it epsilon ({self.epsilon:g}) is the total for"
                    " good. Remove this line, or add for example refresh: monthly",
                )
            )
        if limit is not None and limit < self.epsilon:
            refuse(
                (
                    key,
                    f"must be at least epsilon ({self.epsilon:g}), the total of one period,"
                    f" got {limit:g}; raise it, or lower epsilon",
                )
            )
        return self


def check_deltas(
    where: str,
    deltas: Mapping[str, float],
    *,
    anyway: bool,
    people: int | None = None,
) -> None:
    """Refuse a delta that would expose too many people if the guarantee fails.

    The limit is 1e-5, or 1 / (10 * people) if that is smaller: if the promise fails for a person
    with that probability, it fails for a tenth of one person on average.

    Args:
        where: the file that states the deltas, for the message; empty: the command line.
        deltas: key or option, and its delta.
        anyway: the operator accepts a larger one.
        people: a public number of people who may answer; None: nobody states it.

    Raises:
        ConfigError: a delta is above the limit; one line for each.
    """
    limit = _limit(people)
    above = f"{limit:.3g}"
    if limit < MOST_DELTA:
        above += f", which is 1 / (10 * {people:,} people)"
    lines = [
        f"{where}{': ' * bool(where)}{key}: must be at most {above}, got {delta:g}, at which the"
        f" promise may fail for {share_of_people(delta)}; write for example delta:"
        f" {usual_delta(people):.1e}, or accept it with --anyway (in Python anyway=True)."
        " Nothing was read or spent."
        for key, delta in deltas.items()
        if delta > limit
    ]
    if lines and not anyway:
        raise ConfigError("\n".join(lines))


def _limit(people: int | None) -> float:
    return MOST_DELTA if people is None else min(MOST_DELTA, 1 / (10 * max(people, 1)))


def usual_delta(people: int | None = None) -> float:
    """The largest power of ten below the limit of `check_deltas`: 1e-6 unless people are many."""
    return float(f"1e{math.floor(math.log10(_limit(people)) - ROUNDING)}")


def share_of_people(delta: float, one: str = "person", many: str = "people") -> str:
    """Text of how many people a probability means, rounded up to two digits: `3 people in 10`.

    Args:
        delta: the probability, > 0.
        one, many: nouns for one and for many of those whom it concerns.
    """
    rounded = Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(delta)).normalize()
    _, digits, exponent = rounded.as_tuple()
    count, zeros = int("".join(map(str, digits))), -int(exponent)
    of = f"{10**zeros:,}" if zeros <= MOST_ZEROS else f"10^{zeros}"
    return f"{count} {one if count == 1 else many} in {of}"
