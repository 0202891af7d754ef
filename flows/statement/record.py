"""The part of a release that says what it guarantees: `PrivacyRecord`, and how it is made.

Record of the pilot query before a release or before a run that stops, and its sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from hushrank.estimation.common.central_noise import (
    LEVEL,
    Calibration,
    Seen,
    one_error,
    total_error,
)
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.statement.mechanism import CountMechanism, CountWords, count_statement
from hushrank.flows.statement.sentences import (
    LOOK_TOOK,
    Guarantee,
    PrivacyStatement,
    number,
    who_counts,
)
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.pilot_query import epsilon_of_counts
from hushrank.privacy.stream_encoder import ONE
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Query, Unit
from hushrank.transforms.common.plain_text import short_list
from hushrank.transforms.common.schema import Ties

if TYPE_CHECKING:  # loaded for jobs that count beside the ranking alone
    from hushrank.estimation.common.private_counts import Numbers


class Record(BaseModel):
    """A part of `release.json`: frozen, and closed to unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def finite_or_text(value: float | None) -> float | str | None:
    """The number, or "inf" or "-inf" as text: JSON has no infinity."""
    return f"{value}" if value is not None and math.isinf(value) else value


# A number that may be infinite, as `inf` or `-inf` in quotes.
Extended = Annotated[float, PlainSerializer(finite_or_text, when_used="json")]
Parameter = bool | int | float | str


class PrivacyRecord(Record):
    """The guarantee, the noise and the bounds it rests on, and the same in words.

    What does not apply to a mechanism is null.

    Attributes:
        epsilon, delta: the guarantee; where the job gave `rho`, what that implies.
        rho: zCDP parameter of Gaussian noise on counts.
        mechanism: `none` where nothing is protected.
        noise_scale: scale in units of what noise was added to; so are `noise_variance` and
            `sensitivity`. Of a night of a stream they are those of the noisy numbers from which all
            that is shown is computed, in counts.
        sensitivity: sensitivity in the norm that the noise is calibrated to, `sensitivity_norm`; of
            a stream that of all nights together.
        sensitivity_l1, sensitivity_l2_squared: exact; of a stream in units of 2^-20 and 2^-40.
        max_contributions: null for unit `comparison`, which bounds nobody's answers.
        names_per_person: the most user names of one person, which are protected together; null or
            left out: each name is taken for a person.
        groups_per_answer: the most groups in which an answer counts, where groups overlap, so that
            the whole has counts of its own; null or left out: an answer is in one group.
        parameters: other public numbers and choices of the mechanism, by name.
        bits: sources of the random bits, by what they decided (`privacy.randomness`); null in
            releases that did not record it.
        reconstructed: the law was not stored with what was drawn, so the code that published it
            worked it out again.
    """

    unit: Unit
    adjacency: Adjacency | None
    epsilon: Extended
    delta: float
    rho: Extended | None = None
    mechanism: str
    noise_scale: float | None = None
    noise_variance: float | None = None
    sensitivity: float | None = None
    sensitivity_norm: str | None = None
    sensitivity_l1: int | None = None
    sensitivity_l2_squared: int | None = None
    max_contributions: int | None = None
    per_item_cap: int | None = None
    distinct_pairs: bool = False
    names_per_person: int | None = None
    groups_per_answer: int | None = None
    ties: Ties | None = None
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    statement: tuple[str, ...]
    not_protected: tuple[str, ...]
    theorem: str
    erratum: str | None = None
    bits: dict[str, tuple[str, ...]] | None = None
    reconstructed: bool = False


def trusted_record(
    params: PrivacyParams, statement: PrivacyStatement, **particular: Any
) -> PrivacyRecord:
    """The record of a mechanism on exact counts: bounds and words, and what is its own.

    Args:
        params: unit, adjacency and enforced bounds.
        statement: the guarantee in words.
        particular: the other fields.
    """
    return PrivacyRecord(
        unit=params.unit,
        adjacency=params.adjacency,
        max_contributions=params.max_contributions if params.unit is Unit.USER else None,
        per_item_cap=params.per_item_cap,
        distinct_pairs=params.distinct_pairs,
        names_per_person=params.names_per_person if params.names_per_person > 1 else None,
        statement=statement.sentences,
        not_protected=statement.not_protected,
        theorem=statement.theorem,
        erratum=statement.erratum,
        **particular,
    )


def count_record(
    words: CountWords,
    mechanism: CountMechanism,
    parameters: dict[str, Parameter] | None = None,
) -> PrivacyRecord:
    """The record of counts to which `mechanism` added noise.

    Args:
        words: words for the kind of counts.
        mechanism: the mechanism that drew the counts.
        parameters: see `PrivacyRecord`.
    """
    params, guarantee, law = mechanism.params, mechanism.guarantee, mechanism.law
    sensitivity = mechanism.sensitivity
    statement = count_statement(words, mechanism)
    laplace = law.kind is NoiseKind.LAPLACE
    unit = 1.0 if mechanism.stream is None else 1 / ONE
    moved = sensitivity.l1 if laplace else math.sqrt(sensitivity.l2_squared)
    return trusted_record(
        params,
        statement,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        rho=guarantee.rho,
        mechanism=f"discrete-{law.kind}" if params.private else "none",
        noise_scale=law.scale * unit,
        noise_variance=law.variance * unit**2,
        sensitivity=moved if mechanism.stream is None else moved * unit,
        sensitivity_norm="l1" if laplace else "l2",
        sensitivity_l1=sensitivity.l1,
        sensitivity_l2_squared=sensitivity.l2_squared,
        groups_per_answer=None if mechanism.groups is None else mechanism.groups.most,
        ties=mechanism.ties,
        parameters=parameters or {},
    )


SHARE_DECIMALS = 4
FALSE_ITEM = 0.001  # chance of a warning of unlisted items where nobody names one
WELL = 0.9  # a share whose interval lies below it is worth a warning
MOST_ITEMS = 3  # items that are named as examples
RESULTS = {1: "left won", -1: "right won", 0: "a tie"}


class LookRecord(Record):
    """Noisy result of the pilot query.

    Attributes:
        voters: who was counted: `people`, each once, or `rows`.
        fit, unfit: numbers of voters that fit the configuration, and that do not; may be negative.
        share: share of those that fit, in [0, 1]; null where noise left none at all.
        share_low, share_high: 95 % interval of the share.
        epsilon: epsilon that the pilot query took of the release's.
        noise_scale: scale of the Laplace noise in `fit` and in `unfit`.
        people: number of people who were asked, as the configuration says; null or left out: it
            does not say, so the run did not stop for missing people.
        unlisted: number of voters who name an item that is not listed; may be negative; left out:
            they were not counted.
    """

    voters: str
    fit: int
    unfit: int
    share: float | None
    share_low: float
    share_high: float
    epsilon: float
    noise_scale: float
    people: int | None = None
    unlisted: int | None = None

    @classmethod
    def of(cls, seen: Seen, params: PrivacyParams) -> LookRecord:
        """The record of what was seen under `params`."""
        low, high = seen.interval()
        return cls(
            voters="people" if params.unit is Unit.USER else "rows",
            fit=seen.fit,
            unfit=seen.unfit,
            share=None if seen.share is None else round(seen.share, SHARE_DECIMALS),
            share_low=round(low, SHARE_DECIMALS),
            share_high=round(high, SHARE_DECIMALS),
            epsilon=params.look,
            noise_scale=seen.law.scale,
            people=seen.people,
            unlisted=seen.unlisted,
        )

    @property
    def seen(self) -> str:
        """Say how many voted at all, with the error of that number."""
        error = total_error(NoiseLaw(NoiseKind.LAPLACE, self.noise_scale))
        asked = "" if self.people is None else f" of the {self.people:,} who were asked"
        return (
            f"The pilot query saw about {max(self.fit + self.unfit, 0):,} {self.voters}{asked},"
            f" give or take {error:,} (95 %)."
        )

    @property
    def hardly_any(self) -> bool:
        """Whether no more voted than noise may be, at `LEVEL`."""
        law = NoiseLaw(NoiseKind.LAPLACE, self.noise_scale)
        return self.fit + self.unfit <= total_error(law)

    @property
    def silent(self) -> bool:
        """Whether the run stopped because most people were missing, although rows may fit."""
        seen = Seen(
            self.fit, self.unfit, NoiseLaw(NoiseKind.LAPLACE, self.noise_scale), self.people
        )
        return seen.silent and not seen.misfits

    @property
    def sentence(self) -> str:
        """Say what was seen, for people."""
        what = "people whose answers fit" if self.voters == "people" else "rows that fit"
        share = "" if self.share is None else f" (about {100 * self.share:.0f} %)"
        return (
            f"A noisy look at the rows saw about {max(self.fit, 0):,} {what} and"
            f" {max(self.unfit, 0):,} that do not{share}; the share that fits is between"
            f" {100 * self.share_low:.0f} and {100 * self.share_high:.0f} %, with"
            f" {100 * LEVEL:.0f} %."
        )

    @property
    def of_items(self) -> str:
        """Say how many name an item that is not listed; empty: they were not counted."""
        if self.unlisted is None:
            return ""
        who = "rows name" if self.voters == "rows" else "people gave an answer with"
        error = one_error(NoiseLaw(NoiseKind.LAPLACE, self.noise_scale))
        return (
            f"About {max(self.unlisted, 0):,} {who} an item that is not listed, give or take"
            f" {error:,} (95 %)."
        )

    @property
    def names_unlisted(self) -> bool:
        """Whether somebody names an item that is not listed; if nobody does, true by chance once in
        1,000 releases."""
        law = NoiseLaw(NoiseKind.LAPLACE, self.noise_scale)
        return self.unlisted is not None and self.unlisted > one_error(law, 2 * FALSE_ITEM)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences where many rows do not fit, or where an item is not listed."""
        found = []
        if self.share_high < WELL:
            found.append(f"{self.sentence} Rows that do not fit count nothing.")
        if self.names_unlisted:
            found.append(
                f"{self.of_items} Such rows count nothing. If an item is new, add it to items."
            )
        return tuple(found)


class FoundRecord(Record):
    """Names of items that people wrote often enough, with the noisy weight of each.

    Attributes:
        weights: noisy weight by name: of people who write d names, each counts 1 / sqrt(d).
        threshold: least noisy weight of a name that is published.
        noise_scale: scale of the discrete Gaussian noise in each weight.
    """

    weights: dict[str, float]
    threshold: float
    noise_scale: float

    @property
    def sentence(self) -> str:
        """Say what the weights mean."""
        return (
            "A person who wrote d different names gives each of them the weight 1 / sqrt(d), so one"
            " with a single name gives 1. Each sum of weights has noise of standard deviation"
            f" {self.noise_scale:.1f}. No name whose noisy sum is below {self.threshold:.1f} is"
            " published, nor how many such names there are. So a sum little above that is more"
            " often too large than too small."
        )


class CountRecord(Record):
    """A noisy number and where the true one is.

    Attributes:
        count: the number, with noise; may be negative.
        low, high: 95 % interval of the true number, for this number alone.
        noise_scale: scale of its discrete Laplace noise.
    """

    count: int
    low: int
    high: int
    noise_scale: float

    @classmethod
    def of(cls, count: int, law: NoiseLaw) -> CountRecord:
        """The record of a count with noise of this law."""
        from hushrank.estimation.common.private_counts import Interval

        found = Interval.of(count, law)
        return cls(count=count, low=found.low, high=found.high, noise_scale=law.scale)

    @property
    def deviation(self) -> float:
        """Standard deviation of its noise."""
        return math.sqrt(NoiseLaw(NoiseKind.LAPLACE, self.noise_scale).variance)

    @property
    def about(self) -> str:
        """The number for people, with its interval: about 900 (880 to 920)."""
        return f"about {max(self.count, 0):,} ({self.low:,} to {self.high:,})"


class ContradictionsRecord(Record):
    """How many people contradict themselves, of those with decided answers to a pair twice or more.

    Attributes:
        contradicting: people who gave contrary answers about some pair.
        consistent: people with such a pair who never did.
        share: share of the former among both, in [0, 1]; left out where noise left nobody.
        share_low, share_high: 95 % interval of the share.
    """

    contradicting: CountRecord
    consistent: CountRecord
    share_low: float
    share_high: float
    share: float | None = None

    @classmethod
    def of(cls, pair: NDArray[np.int64], law: NoiseLaw) -> ContradictionsRecord:
        """The record of two noisy numbers with noise of this law."""
        from hushrank.estimation.common.private_counts import share_of_contradicting

        seen = share_of_contradicting(pair, law)
        low, high = seen.interval()
        return cls(
            contradicting=CountRecord.of(seen.fit, law),
            consistent=CountRecord.of(seen.unfit, law),
            share=None if seen.share is None else round(seen.share, SHARE_DECIMALS),
            share_low=round(low, SHARE_DECIMALS),
            share_high=round(high, SHARE_DECIMALS),
        )

    def sentence(self, who: str) -> str:
        """Say how many contradict themselves, for people; `who` is the word for those counted.

        Ends of the interval are rounded outwards, so that it holds the true share as printed.
        """
        pair = self.contradicting.count, self.consistent.count
        share = "an unknown share" if self.share is None else f"about {100 * self.share:.0f} %"
        return (
            f"Of about {max(sum(pair), 0):,} {who} with decided answers to one pair twice or more,"
            f" {share} gave contrary answers about some pair ({math.floor(100 * self.share_low)} to"
            f" {math.ceil(100 * self.share_high)} %, with {100 * LEVEL:.0f} %)."
        )


class CountsRecord(Record):
    """Counts beside the ranking; what was not asked is left out.

    Attributes:
        epsilon: epsilon that they took together of the release's, each the same part.
        people: people with an answer that counts; names, where a person may have several.
        answers: answers that count, within the bounds of each person.
        contradictions: people, or names, who contradict themselves, and who do not.
    """

    epsilon: float
    people: CountRecord | None = None
    answers: CountRecord | None = None
    contradictions: ContradictionsRecord | None = None

    @classmethod
    def of(
        cls, drawn: Numbers, laws: Mapping[Query, Calibration], params: PrivacyParams
    ) -> CountsRecord:
        """The record of the noisy numbers of each query, drawn by these calibrations."""
        found: dict[str, CountRecord | ContradictionsRecord] = {}
        for query, numbers in drawn.items():
            law = laws[query].law
            if query is Query.CONTRADICTIONS:
                found[query] = ContradictionsRecord.of(numbers, law)
            else:
                found[query] = CountRecord.of(int(numbers[0]), law)
        return cls.model_validate({"epsilon": epsilon_of_counts(params), **found})

    @property
    def numbers(self) -> dict[str, CountRecord]:
        """Every number by its name."""
        pair = self.contradictions
        found = {"people": self.people, "answers": self.answers}
        if pair is not None:
            found |= {"contradicting": pair.contradicting, "consistent": pair.consistent}
        return {name: each for name, each in found.items() if each is not None}

    def sentences(self, names_per_person: int | None) -> Iterator[str]:
        """Yield what was counted, for people: where a person may have several names, names."""
        parts, who = [], who_counts(names_per_person)
        if self.people is not None:
            parts.append(f"{self.people.about} {who} gave an answer that counts")
        if self.answers is not None:
            parts.append(f"{self.answers.about} answers count")
        if parts:
            text = ", and ".join(parts)
            each = ", each with" if len(parts) > 1 else ", with"
            yield f"{text[0].upper()}{text[1:]}{each} {100 * LEVEL:.0f} %."
        if self.contradictions is not None:
            yield self.contradictions.sentence(who)


def record_with_counts(record: PrivacyRecord, params: PrivacyParams) -> PrivacyRecord:
    """`record` for the whole release, if counts beside its ranking were drawn.

    Args:
        record: the record of the ranking; or of ranking and pilot query together, whose numbers are
            those of the whole release already.
        params: parameters of the release.
    """
    told = {**record.parameters, "counts_epsilon": epsilon_of_counts(params)}
    if params.look:
        return record.model_copy(update={"parameters": told})
    own = Guarantee(epsilon=record.epsilon, delta=record.delta, rho=record.rho)
    whole = own.with_look(params)
    return record.model_copy(
        update={"epsilon": whole.epsilon, "rho": whole.rho, "parameters": told}
    )


def silence_text(people: int) -> str:
    """The sentence of a statement on the second reason for which a run stops."""
    return (
        "The run would have stopped as well had it been near certain that fewer than half of the"
        f" {people:,} people asked have rows that name them."
    )


def record_with_look(
    record: PrivacyRecord, look: LookRecord, params: PrivacyParams
) -> PrivacyRecord:
    """`record`, which a method made of its own part of the budget, for the whole release."""
    own = Guarantee(epsilon=record.epsilon, delta=record.delta, rho=record.rho)
    whole = own.with_look(params)
    told = {"look_epsilon": look.epsilon, "look_noise_scale": look.noise_scale}
    statement = list(record.statement)
    if look.people is not None:
        (place,) = (k for k, each in enumerate(statement) if each.startswith(LOOK_TOOK))
        statement.insert(place + 1, silence_text(look.people))
    return record.model_copy(
        update={
            "epsilon": whole.epsilon,
            "rho": whole.rho,
            "parameters": {**record.parameters, **told},
            "statement": tuple(statement),
        }
    )


def stop_text(config: SurveyConfig, look: LookRecord, drawn: datetime) -> str:
    """Why a run stopped after its look: what was seen, what is expected, what was spent."""
    why = (
        f"{look.sentence} {look.of_items}".rstrip()
        + " So the columns, words or items of the configuration do not fit the files."
    )
    if look.silent:
        why = (
            f"{look.seen} So rows are missing, name nobody (a column user that is empty or another"
            " one), or cannot be read (numbers above 2^53 as people, line breaks in CSV)."
        )
    return (
        f"look: stopped. {why} {_expected(config)} hushrank inspect, with the same file, shows at"
        " the terminal which rows break which rule, for the holder of the data alone. Nothing was"
        f" published. The look spent epsilon {number(look.epsilon)} on {drawn:%Y-%m-%d}, and the"
        " rest was given back. Re-running repeats this at no cost; a corrected"
        " configuration is another job, which looks anew."
    )


def lost_look_text(release_id: str, drawn: datetime) -> str:
    """Build the refusal when the pilot query's result has been deleted."""
    return (
        f"look: stopped. On {drawn:%Y-%m-%d} a noisy look at the rows of release {release_id} saw"
        " that they do not fit the configuration; what it saw is not kept. hushrank inspect shows"
        " at the terminal which rows break which rule, for the holder of the data alone. Nothing"
        " was spent now; a corrected configuration is another job, which looks anew."
    )


def _expected(config: SurveyConfig) -> str:
    """The columns, words, items and groups that rows must have."""
    if config.input.kind != "comparisons":
        items = set(config.items.catalogue.names)
        named = [(role, name) for role, name in config.columns().roles() if name not in items]
        results = "as answers 1 (right) and 0 (wrong)"
        if config.input.kind == "rankings":
            results = "as ranks numbers, of which 1 is the best"
        if config.input.kind == "responses" and config.responses.key is not None:
            results = "as answers those that input.key scores"
        elif config.input.kind == "responses" and config.responses.points is not None:
            results = "as answers the whole points of input.points"
        elif config.input.kind == "responses" and config.responses.words is not None:
            results = "as answers the words of input.words"
        return _expected_rows(config, named, results)
    columns = config.comparison_columns()
    roles = {"user": columns.user, "left": columns.left, "right": columns.right}
    if columns.pairs:
        roles = {
            "user": columns.user,
            "of the pairs": short_list([c for c, *_ in columns.pairs], 3),
        }
        return _expected_rows(config, list(roles.items()), _results(config))
    if columns.left == columns.winner:
        roles = {"user": columns.user, "winner": columns.left, "loser": columns.right}
    roles |= {"outcome": columns.outcome, "winner": columns.winner, "event": columns.event}
    return _expected_rows(config, list(roles.items()), _results(config))


def _expected_rows(
    config: SurveyConfig, roles: Sequence[tuple[str, str | None]], results: str
) -> str:
    named = ", ".join(f"{role} {name}" for role, name in roles if name is not None)
    names = config.items.catalogue.names
    items = ", ".join(names[:MOST_ITEMS]) + (", ..." if len(names) > MOST_ITEMS else "")
    groups = ""
    if config.groups is not None:
        where, given = " and ".join(config.groups.read), config.groups
        which = "one" if given.most is None else "any"
        groups = f"; in column {where} {which} of the {len(given.values)} groups"
        if given.columns is not None:
            groups = f"; in the columns {where} true or false"
    times = config.schedule.times_in_words
    times = f"; in column {config.schedule.window} {times}" if times else ""
    return (
        f"They expect the columns {named}; {results}{groups}{times}; and {len(names):,} items"
        f" ({items})."
    )


def _results(config: SurveyConfig) -> str:
    """Say what values of the result a row may hold."""
    columns = config.comparison_columns()
    if columns.pairs:
        return "in each of those one of its two items, or a word of input.words, or nothing"
    if columns.words is not None:
        words = ", ".join(f"{word} ({RESULTS[value]})" for word, value in columns.words.meanings)
        others = "" if columns.winner is None else "an item as the winner, or "
        return f"as results {others}the words {words}"
    if columns.winner is not None:
        return "an item as the winner, or the word tie"
    return "as results 1 (left won), -1 (right won) and 0 (a tie)"
