"""Limits of the accuracy of a job: sampling (who was asked), and the noise that protects people.

With N people the squared error by a method's formula is S / N + P / N^2 where noise is added to
counts, and (S + P) / N where each answer is privatised by itself. S is found from the same formula:
with so many people that noise is nothing, or so large an epsilon that answers are left as they are.
Beside it stand the two terms of the papers' theorems at the job's numbers, without their unknown
constants.

Gain from weights for people with many answers (`privacy.bounding: weights`).

From a guess of how much people answer alone. A person with m answers adds m f(m) to the counts with
weights (`privacy.row_weights`), and min(m, L) where the others are left out; the noise is the same.
So the ratio of the two sums over people is that of the signal to the noise.

Comparison of a survey under other guarantees: Laplace or Gaussian noise, trusted or local.

No verdict follows from this. Which guarantee people were promised is not a question of accuracy.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025. Theorems 2.1, 2.2 (a comparison), 3.1 to 3.4 (a person).
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Section 4.
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Corollary 1; errata R3 and R6.
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings. Theorem 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushrank.estimation.rankings.mechanism_choice import order_error
from hushrank.flows.config.privacy import Budget, PrivacyConfig, RankingChoice, usual_delta
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.reductions import CountedMethod
from hushrank.flows.methods.registry import METHODS
from hushrank.flows.planning.plan.survey import (
    Setting,
    accuracy_of,
    answers_of,
    chosen_method,
    error_parts,
    is_right,
    with_setting,
)
from hushrank.flows.planning.plan.world import Accuracy, World
from hushrank.flows.statement.rankings import RankingGuarantee
from hushrank.pipelines.simulate.planned_survey import Activity
from hushrank.privacy.accounting import rho_of
from hushrank.privacy.random_pairs import Hide, n_pairs
from hushrank.privacy.row_weights import FACTOR_BITS, RowFactors
from hushrank.privacy.units import Adjacency, Bounding, NoiseKind, Unit
from hushrank.transforms.common.randomisation import RankingMechanism
from hushrank.transforms.common.schema import Ties


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Parts of the typical error of a score, by formula: squares add up.

    Attributes:
        method: method whose limits these are.
        people: number of people who are supposed to answer.
        epsilon: epsilon of the setting.
        sampling: limit by who was asked.
        privacy: limit by noise, or by randomised answers.
        even: number of people at which both are equal; None: privacy costs the same share whatever
            the number of people is.
        theorem: theorem with the two terms below; empty: none of the papers' fits the job.
        their_sampling, their_privacy: terms of the theorem at the numbers of the job, without
            constants; for randomised answers its one term without privacy and with it.
        error: what both parts are of, in words.
    """

    method: str
    people: int
    epsilon: float
    sampling: float
    privacy: float
    even: int | None
    theorem: str
    their_sampling: float
    their_privacy: float
    error: str

    @property
    def privacy_rules(self) -> bool:
        """Whether privacy adds more to the error than who was asked."""
        return self.privacy > self.sampling

    @property
    def text(self) -> str:
        """Limits in words."""
        rules = "privacy" if self.privacy_rules else "sampling"
        found = (
            f"What limits {self.error} with {self.people:,} people at epsilon"
            f" {self.epsilon:g}: {rules}. By"
            f" formula {self.sampling:.2g} comes from who is asked and {self.privacy:.2g} from"
            " privacy (squares add up)."
        )
        if self.even is None:
            more = 1 + (self.privacy / self.sampling) ** 2
            found += f" Privacy takes {more:.3g} times as many people, however many there are."
        else:
            found += f" Both are equal with about {float(f'{self.even:.2g}'):,.0f} people."
        if self.theorem:
            found += (
                f" {self.theorem}: {self.their_sampling:.2g} and {self.their_privacy:.2g}, without"
                " the constants, which the paper does not give."
            )
        return found


def limits_of(config: SurveyConfig, setting: Setting, world: World) -> Limits | None:
    """Find the parts of the error of one setting; None: no formula tells them apart.

    Args:
        config: the job.
        setting: setting of people, answers, epsilon and method.
        world: assumptions about people and items.
    """
    setting = replace(setting, method=chosen_method(config, setting).method.facts.name)
    if config.input.kind == "rankings" and config.privacy.unit is Unit.LOCAL:
        return _limits_of_rankings(with_setting(config, setting), setting)
    parts = error_parts(config, setting, world)
    if parts is None:
        return None
    local = config.privacy.unit is Unit.LOCAL
    share = parts.privacy / parts.sampling
    theorem, *terms = _theorem(config, setting)
    return Limits(
        method=setting.method,
        people=setting.people,
        epsilon=setting.epsilon,
        sampling=parts.sampling,
        privacy=parts.privacy,
        even=None if local else max(1, round(setting.people * share**2)),
        theorem=str(theorem),
        their_sampling=float(terms[0]),
        their_privacy=float(terms[1]),
        error=f"the error of {setting.method}",
    )


def _limits_of_rankings(config: SurveyConfig, setting: Setting) -> Limits | None:
    """Parts of the error of a pair's share, of rankings that are privatised one by one.

    Without privacy a share of n rankings has the deviation 1 / (2 sqrt(n)) at most; undoing the
    mechanism multiplies it, as `estimation.rankings.mechanism_choice` derives for neighbours of an
    order where all orders are equally likely.
    """
    guarantee, n_items = RankingGuarantee.of(config), len(config.items.catalogue.names)
    m, number = guarantee.max_length, setting.people * setting.answers
    mallows = guarantee.mechanism is RankingMechanism.MALLOWS
    if m < 2 or not (mallows or guarantee.pairs is not None):
        return None
    if guarantee.pairs is not None:
        whole = math.sqrt(n_pairs(m) / guarantee.pairs.pairs) / guarantee.pairs.attenuation
    else:
        whole = order_error(guarantee.high, m)
    sampling, theorem, terms = 0.5 / math.sqrt(number), "", (0.0, 0.0)
    if mallows and setting.people > n_items * math.e:
        worse = 1 / math.tanh(guarantee.high / (2 * (m - 1)))  # the paper's Psi
        free = n_items * math.log(setting.people / n_items) / setting.people
        theorem = (
            "Corollary 1 of Xu, Sun and Cheng on rankings, which needs people to rank by one common"
            " order, has a power of s log(n / s) / n, for n people and s scores of items, without"
            " privacy and Psi^2 times that with it, Psi = 1 / tanh(eps / (2 (m - 1))), for the"
            " longest ranking m"
        )
        terms = free, free * worse**2
    return Limits(
        method=setting.method,
        people=setting.people,
        epsilon=setting.epsilon,
        sampling=sampling,
        privacy=sampling * math.sqrt(max(whole**2 - 1, 0.0)),
        even=None,
        theorem=theorem,
        their_sampling=terms[0],
        their_privacy=terms[1],
        error="the share of rankings that put one item above its neighbour in the order",
    )


def _theorem(config: SurveyConfig, setting: Setting) -> tuple[str, float, float]:
    """The theorem for unit and kind of input, with its sampling and its privacy term."""
    n, m, epsilon = len(config.items.catalogue.names), setting.people, setting.epsilon
    answers, log_n = answers_of(config, setting.answers), math.log(n)
    person = config.privacy.unit is Unit.USER
    if config.input.kind == "comparisons" and config.privacy.unit is Unit.COMPARISON:
        met = 2 * m * answers / n  # n p of the paper: comparisons of an item
        text = "Theorem 2.1 of Cai, Chakraborty and Wang has sqrt(log n / np) and log n / (np eps)"
        return text, math.sqrt(log_n / met), log_n / (met * epsilon)
    if config.input.kind == "comparisons" and person:
        text = (
            "Theorem 3.1 of Cai, Chakraborty and Wang has sqrt(n log n / m) and n log n / (m eps),"
            " for n items and m people"
        )
        return text, math.sqrt(n * log_n / m), n * log_n / (m * epsilon)
    if config.input.kind == "responses" and person and config.privacy.noise is NoiseKind.GAUSSIAN:
        rho = rho_of(with_setting(config, setting).privacy.params(), 1)
        text = (
            "In the count of a pair of items, section 4 of Nguyen and Zhang has the deviations"
            " sqrt(n p^2) by chance and sqrt(m (m - 1)) / eps* by noise, for n people and m items,"
            f" where eps*^2 / 2 is the rho of zCDP, {rho:.2g} at this epsilon and delta"
        )
        noise = math.sqrt(n * (n - 1) / (2 * rho))
        return text, math.sqrt(m) * answers / n, noise
    if config.input.kind == "comparisons":  # and unit local
        one = epsilon / answers if config.privacy.answer_budget().per_user else epsilon
        free = math.sqrt(log_n * (n - 1) / (2 * m * answers))  # 2 answers / (n - 1) is their m p
        text = (
            "Theorem 2 of Xu, Sun and Cheng has sqrt(log m / (m L p B)), for m items and L people"
            " who each answer the share p of all pairs, here without privacy (B = 1) and with"
            " B = tanh(eps / 2)^2"
        )
        return text, free, free / math.tanh(one / 2)
    return "", 0.0, 0.0


WORTH_SAYING = 1.05  # a smaller gain is not reported
OF_LEAVE_OUT = "times the signal-to-noise ratio of leave-out"
NEEDED = "unit: user, noise: gaussian, distinct_pairs: true"


def activity_of(levels: Sequence[str]) -> Activity:
    """Parse texts such as 5:0.9 and 60:0.1 into how much people answer; shares are relative.

    Raises:
        ConfigError: a text is something else.
    """
    found = []
    for level in levels:
        rows, _, share = level.partition(":")
        try:
            found.append((int(rows), float(share or 1)))
        except ValueError:
            found.append((0, 0.0))
        if not (found[-1][0] >= 1 and 0 < found[-1][1] < float("inf")):
            raise ConfigError(
                f"--activity must be a number of answers >= 1, or with a share > 0 as 60:0.1, got"
                f" {level!r}"
            )
    total = sum(share for _, share in found)
    return tuple((rows, share / total) for rows, share in sorted(found))


def gain_of_weights(
    config: SurveyConfig, method: str, most: int, activity: Activity
) -> float | None:
    """Signal to noise with weights divided by that without; None: the method takes no weights.

    Args:
        config: the job; its noise and distinct pairs are taken as weights need them.
        method: method that ranks.
        most: L.
        activity: numbers of answers that people give.
    """
    ranks = METHODS[method]
    if not isinstance(ranks, CountedMethod) or ranks.counted is None or not activity:
        return None
    if config.privacy.unit is not Unit.USER or config.privacy.public_graph:
        return None
    n_items = len(config.items.catalogue.names)
    params = replace(
        config.privacy.params(),
        noise=NoiseKind.GAUSSIAN,
        delta=0.0,
        rho=1.0,
        max_contributions=most,
        per_item_cap=None,
        distinct_pairs=True,
        bounding=Bounding.WEIGHTS,
    )
    rows = np.minimum([each for each, _ in activity], n_items * (n_items - 1) // 2)
    share = np.array([each for _, each in activity])
    weight = RowFactors(params, ranks.counted, n_items).of(rows) / 2**FACTOR_BITS
    return float(share @ (rows * weight) / (share @ np.minimum(rows, most)))


def weights_text(config: SurveyConfig, method: str, most: int, activity: Activity) -> str:
    """Text on the gain from weights; empty: there is nothing to say."""
    gain = gain_of_weights(config, method, most, activity)
    if gain is None:
        return ""
    privacy, chosen = config.privacy, config.privacy.bounding is Bounding.WEIGHTS
    if gain < WORTH_SAYING:
        advice = "leave-out is as good" if chosen else "nothing to gain"
        return f"Heavy users: privacy.bounding: weights has {gain:.2f} {OF_LEAVE_OUT}; {advice}."
    said = f"Heavy users: privacy.bounding: weights has {gain:.2f} {OF_LEAVE_OUT}"
    if chosen:
        return f"{said}, and the job uses it."
    ready = privacy.noise is NoiseKind.GAUSSIAN and privacy.distinct_pairs
    return f"{said}, at the same guarantee; add it." if ready else f"{said}; it needs {NEEDED}."


def one_name(config: SurveyConfig, base: Setting, world: World) -> Accuracy | None:
    """Accuracy if each name were a person's only one; None: the job takes it so already."""
    if config.privacy.names_per_person == 1:
        return None
    return accuracy_of(_with(config, names_per_person=1), base, world)


LOCAL = {"comparisons": "debiased-rr", "responses": "spectral-rr"}  # methods by kind of input
TRUSTED = {"comparisons": "auto", "responses": "auto"}
BY_PAIRS = "kemeny"  # replaces ranking methods that have no local form


@dataclass(frozen=True, slots=True)
class Alternative:
    """Job under another guarantee.

    Attributes:
        words: name of the guarantee.
        method: method that ranks under it.
        config: configuration of the job under it.
        setting: setting with the same people and epsilon.
    """

    words: str
    method: str
    config: SurveyConfig
    setting: Setting


def tried_guarantees(
    config: SurveyConfig, base: Setting, world: World
) -> list[tuple[Alternative, Accuracy]]:
    """Compute the accuracy of the survey under each other guarantee that some method gives."""
    found = []
    delta = usual_delta(base.people)
    if config.ledger.delta:
        delta = min(delta, config.ledger.delta)
    for other, method in _alternatives(config, base.method, delta):
        setting = replace(base, method=method, epsilon=_same_loss(config, other, base))
        if not is_right(other, method):
            continue
        try:
            name = chosen_method(other, setting).method.facts.name
            accuracy = accuracy_of(other, setting, world)
        except ConfigError:  # no method gives that guarantee
            continue
        words = guarantee_words(other) + _epsilon_words(config, other, setting)
        found.append((Alternative(words, name, other, setting), accuracy))
    return found


def _same_loss(config: SurveyConfig, other: SurveyConfig, base: Setting) -> float:
    """Epsilon under another guarantee at which a person's total loss is the same.

    Under unit `local` the epsilon of rankings is that of one moved item, or of one whole ranking;
    a person loses a multiple of it.
    """
    if config.input.kind != "rankings" or not (_local_unit(config) or _local_unit(other)):
        return base.epsilon
    of_person = [
        RankingGuarantee.of(with_setting(each, base)).person if _local_unit(each) else base.epsilon
        for each in (config, other)
    ]
    return base.epsilon * of_person[0] / of_person[1]


def _local_unit(config: SurveyConfig) -> bool:
    return config.privacy.unit is Unit.LOCAL


def _epsilon_words(config: SurveyConfig, other: SurveyConfig, setting: Setting) -> str:
    if config.input.kind != "rankings" or not (_local_unit(config) or _local_unit(other)):
        return ""
    of = "of all rankings of a person"
    if _local_unit(other):
        mechanism = other.privacy.mechanism
        of = "of a ranking" if mechanism and mechanism.of_whole else "of a moved item"
    return f", epsilon {setting.epsilon:.3g} {of}"


def guarantee_words(config: SurveyConfig) -> str:
    """Text of a job's guarantee: the law of its noise, or that answers are privatised one by
    one."""
    if config.privacy.unit is not Unit.LOCAL:
        return _noise_words(config)
    mechanism = config.privacy.mechanism
    return "local, before counting" if mechanism is None else f"local, {mechanism}"


def _alternatives(
    config: SurveyConfig, own: str, delta: float
) -> Iterator[tuple[SurveyConfig, str]]:
    """Yield the job under other guarantees, each with the method that it then names.

    Args:
        config: the job.
        own: method of the job.
        delta: delta of Gaussian noise, where the job has none.
    """
    privacy, kind = config.privacy, config.input.kind
    if privacy.unit is not Unit.LOCAL:
        gaussian = privacy.noise is NoiseKind.GAUSSIAN
        noise = NoiseKind.LAPLACE if gaussian else NoiseKind.GAUSSIAN
        bounding = Bounding.LEAVE_OUT if gaussian else privacy.bounding
        yield _with(config, noise=noise, delta=0.0 if gaussian else delta, bounding=bounding), own
        if privacy.names_per_person > 1:  # which local privacy does not know
            return
        if kind == "rankings":
            local = Unit.LOCAL in METHODS[own].facts.units
            yield _local(config), own if local else BY_PAIRS
        elif kind in LOCAL and config.schedule.stream is None and config.groups is None:
            yield _local(config), LOCAL[kind]
    elif kind == "rankings" and not privacy.already_private:
        for mechanism in _other_mechanisms(privacy):
            yield _with(config, mechanism=mechanism), own
        config = _with(config, mechanism=None, pairs=None, hide=Hide.ORDER)
        yield _with(config, unit=Unit.USER, noise=NoiseKind.GAUSSIAN, delta=delta), own
        yield _with(config, unit=Unit.USER), own
    elif kind in TRUSTED and not privacy.already_private:
        yield _trusted(config), TRUSTED[kind]


def _other_mechanisms(privacy: PrivacyConfig) -> tuple[RankingChoice, ...]:
    """Local mechanisms of rankings to compare with the job's own, at the same loss of a person."""
    mallows, pairs = RankingChoice.MALLOWS, RankingChoice.RANDOM_PAIRS
    if privacy.hide is Hide.ITEMS:  # no other mechanism hides the items
        return ()
    return tuple(each for each in (mallows, pairs) if each is not privacy.mechanism)


def _local(config: SurveyConfig) -> SurveyConfig:
    """Return the job with local privacy, and epsilon for the same unit as before."""
    one = config.privacy.unit is Unit.COMPARISON
    other = _with(
        config,
        unit=Unit.LOCAL,
        budget=Budget.PER_COMPARISON if one else Budget.PER_USER,
        adjacency=Adjacency.REPLACE_ONE,
        bounding=Bounding.LEAVE_OUT,
        max_weight=None,
    )
    if config.input.kind == "rankings":
        return _with(other, mechanism=RankingChoice.AUTO)
    if config.input.kind != "comparisons":
        return other
    ties = config.comparisons.model_copy(update={"ties": Ties.RANDOM})  # unit local requires this
    return other.model_copy(update={"input": ties})


def _trusted(config: SurveyConfig) -> SurveyConfig:
    one = config.privacy.budget is Budget.PER_COMPARISON
    bound = {"max_contributions": None} if one else {}
    return _with(config, unit=Unit.COMPARISON if one else Unit.USER, **bound)


def _with(config: SurveyConfig, **privacy: object) -> SurveyConfig:
    return config.model_copy(update={"privacy": config.privacy.model_copy(update=privacy)})


def _noise_words(config: SurveyConfig) -> str:
    privacy = config.privacy
    delta = f", delta {privacy.delta:g}" if privacy.noise is NoiseKind.GAUSSIAN else ""
    return f"{privacy.noise.value.capitalize()}{delta}"
