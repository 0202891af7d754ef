"""Methods on answers that are privatised one by one: `debiased-rr` and baselines beside it.

What the reduction leaves is private already: the sums of privatised answers. It waits in the
confidential area until the ledger has recorded the release, so that nothing is seen that was not
charged; `draw` then lets it out as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import LINKS, Floats, link_named
from hushrank.estimation.common.matrices import WinCounts
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.estimation.comparisons.planning import mean_pair_weight, predicted_error
from hushrank.estimation.fit.chosen_epsilons import EpsilonBins
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.fit.weighted_pairs import (
    UNITS,
    WeightedPairs,
    impossible_shares,
    weighted_pairs_of,
)
from hushrank.flows.config.comparisons import Design, InputConfig
from hushrank.flows.config.method import MethodFacts, Problems, Sections, Weights
from hushrank.flows.config.privacy import Budget
from hushrank.flows.config.section import BadRows
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import Arrays, Conclusion, PlannedMethod, Terms
from hushrank.flows.methods.draws import (
    MOST_LISTED,
    Draw,
    FlippedAnswers,
    NoisyAnswers,
    Threshold,
    at_most,
    cost_of,
    ends,
    ends_of_law,
    exact,
    laplace_laws,
)
from hushrank.flows.methods.local_answers.own_epsilons import (
    problems_of_weights,
    told_of_weights,
    weighed,
)
from hushrank.flows.release.private_sums import ReleasedSums
from hushrank.flows.release.released import MOST_MEASURED
from hushrank.flows.release.scale import SCALE_OF_LINK, Scale
from hushrank.flows.release.wording import name_list
from hushrank.flows.statement.local import (
    AnswerMechanism,
    LocalGuarantee,
    Shuffled,
    local_record,
    shuffled_guarantee,
)
from hushrank.flows.statement.record import Parameter
from hushrank.pipelines.reduce.private_job import ReduceAnswers
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.accounting import Spend
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.laplace_baselines import GRID
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomized_response import attenuation, epsilon_of_answer, flip_thresholds
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import NoiseKind, Unit
from hushrank.transforms.common.randomisation import LocalLaw, Randomisation, law_of_answers
from hushrank.transforms.storage.files import InputFile

if TYPE_CHECKING:
    from hushrank.estimation.fit.pair_fit import DebiasedFit, SumsVariance

NO_NOISE = NoiseLaw(NoiseKind.LAPLACE, 0.0)  # beyond that of the answers, which chance covers
NOT_INFORMATIVE = (
    "Nothing useful can be learned from this release: privatised answers say less than the ridge"
    " about every item. More answers, fewer items or larger epsilons would help."
)
CLASSIC = (
    "classic-rr is a baseline: it takes privatised answers for true ones, so scores and intervals"
    " are drawn towards 0. debiased-rr undoes that at the same epsilon."
)
COUNTS = (
    "rr-counts is a baseline: shares are of privatised answers, which are drawn towards 50 %."
    " debiased-rr undoes that at the same epsilon."
)
MOST_NAMED = 5  # items that a warning of lies names
LAPLACE = "laplace-rr is a baseline: debiased-rr has smaller errors at the same epsilon."


@dataclass(frozen=True, kw_only=True)
class LocalResponses(PlannedMethod[AnswerMechanism]):
    """Method with one way to privatise answers, and one to get scores from their sums.

    Attributes:
        facts, plan_order: see `PlannedMethod`.
        randomisation: the mechanism.
        by_counts: rank by wins of privatised answers, without a model.
        remark: remark for a reader of the release; empty: none.
    """

    facts: MethodFacts
    plan_order: int | None
    randomisation: Randomisation
    by_counts: bool = False
    remark: str = ""

    mechanism = AnswerMechanism

    def calibrate(self, config: SurveyConfig) -> AnswerMechanism:
        """The law of private answers at both ends of the range of epsilons."""
        guarantee = LocalGuarantee.of(config)
        try:
            law = law_of_answers(self.randomisation, guarantee.low, guarantee.high)
        except ValueError as error:
            raise ConfigError(f"privacy: method: {self.facts.name}: {error}") from None
        return AnswerMechanism(
            guarantee=guarantee,
            randomisation=self.randomisation,
            law=law,
            ties=config.comparisons.ties,
            spend=Spend(epsilon=guarantee.charged),
        )

    def terms(self, mechanism: AnswerMechanism) -> Terms:
        """Cost and noise."""
        guarantee = mechanism.guarantee
        if guarantee.already_private:
            noise = "none is added: the answers were privatised where they were given"
        elif mechanism.randomisation is Randomisation.LAPLACE:
            noise = "Laplace noise on each answer, before counting"
        else:
            noise = "each answer flipped at random, before counting"
        whom = "one answer" if guarantee.person is None else "all answers of one person"
        noise += f" (protects {whom} at epsilon {mechanism.spend.epsilon:g}, or less)"
        return Terms(spend=mechanism.spend, noise=noise)

    def reduction(
        self,
        config: SurveyConfig,
        mechanism: AnswerMechanism,
        files: tuple[InputFile, ...],
        key: SecretKey,
        folder: str,
    ) -> ReduceAnswers:
        """Privatise each answer and sum by pair."""
        already_private = mechanism.guarantee.already_private
        return ReduceAnswers(
            files=files,
            columns=config.answer_columns(),
            catalogue=config.items.catalogue,
            ties=mechanism.ties,
            epsilons=config.privacy.local_epsilons(),
            budget=config.privacy.answer_budget(),
            randomisation=mechanism.randomisation,
            already_private=already_private,
            key=key,
            confidential=folder,
            fail_on_bad_rows=config.input.on_bad_rows is BadRows.FAIL,
            law=None if already_private else mechanism.law,
            epsilon_cap=config.model.epsilon_cap,
        )

    def draw(self, exact: Arrays, mechanism: AnswerMechanism, bits: RandomBits) -> Arrays:
        """Let out what is private already: see the module's text."""
        return exact

    def conclude(
        self, drawn: Arrays, mechanism: AnswerMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Fit scores to the sums, or rank by them."""
        pairs = weighted_pairs_of(drawn)
        estimate, scale, parameters, warnings = self._estimate(pairs, mechanism, config)
        if self.remark:
            warnings = (self.remark, *warnings)
        if not estimate.informative:
            warnings = (NOT_INFORMATIVE, *warnings)
        if self.randomisation is Randomisation.WEIGHTED:
            warnings = (*_dishonest(pairs, config), *warnings)
        bins, equal = _bins(pairs, config), config.model.weights is Weights.EQUAL
        released = ReleasedSums.of(pairs, config.items.catalogue.names, bins, equal=equal)
        order, shuffled = released.presentation, None
        if order is None:  # its sums are of few people, among whom an answer does not hide as well
            shuffled = _shuffled(pairs, mechanism, config.ledger.delta)
        elif order.unbalanced:
            warnings = (order.sentence(), *warnings)
        return Conclusion(
            estimate=estimate,
            privacy=local_record(mechanism, parameters, shuffled, ordered=order is not None),
            released=released,
            scale=scale,
            warnings=warnings,
        )

    def suits(self, config: SurveyConfig) -> bool:
        """Shares say how often an item was shown, too, and against whom."""
        return not self.by_counts or config.comparisons.design is Design.BALANCED

    def estimand(self, config: SurveyConfig, survey: PlannedSurvey, truth: Floats) -> Floats:
        """True scores, or shares won where every pair is asked about equally often."""
        return survey.true_shares(truth) if self.by_counts else truth

    def simulated(self, config: SurveyConfig, survey: PlannedSurvey, replicate: int) -> Arrays:
        """Sums of privatised answers of a simulated survey."""
        epsilon = _epsilon_of_answer(config, survey)
        if self.randomisation is Randomisation.LAPLACE:
            sums = survey.laplace_sums(replicate, epsilon)
        else:
            weighted = self.randomisation is Randomisation.WEIGHTED
            sums = survey.randomised_sums(replicate, epsilon, weighted=weighted)
        g = round(sums[1].sum() / survey.answers)
        return {"s": sums[0], "w": sums[1], "g": np.array(g, np.int64)}

    def predicted_error(
        self, config: SurveyConfig, survey: PlannedSurvey, mechanism: AnswerMechanism
    ) -> float | None:
        """Predicted error of scores from debiased answers; baselines and chosen epsilons: None."""
        epsilon = _epsilon_of_answer(config, survey)
        if self.randomisation is not Randomisation.WEIGHTED or not epsilon:
            return None
        t = float(attenuation(flip_thresholds(np.array([epsilon])))[0])
        if not (math.isfinite(t) and t > 0):
            return None
        weight = survey.pair_comparisons * t**2
        return predicted_error(survey.n_items, weight, survey.link).typical

    def _estimate(
        self, pairs: WeightedPairs, mechanism: AnswerMechanism, config: SurveyConfig
    ) -> tuple[Estimate, Scale, dict[str, Parameter], tuple[str, ...]]:
        from hushrank.estimation.fit.pair_fit import estimate_from, win_totals

        if self.by_counts:
            wins = np.rint(win_totals(pairs)).astype(np.int64)
            estimate = rank_by_win_counts(WinCounts(wins, confidential=False), NO_NOISE)
            return estimate, Scale.WIN_SHARE, {}, ()
        told: dict[str, Parameter] = {}
        warned: tuple[str, ...] = ()
        fitted, variance = pairs, _variance(mechanism)
        if pairs.alike.size and (bins := _bins(pairs, config)) is not None:
            fitted, variance = weighed(pairs, config)
            told, warned = told_of_weights(pairs, bins, config)
        fit, warnings = _fit(fitted, config, variance)
        known = _information(fitted, pairs.g, fit.link)
        known |= _state(fit, chosen=config.model.link == "auto")
        return estimate_from(fit), SCALE_OF_LINK[fit.link], told | known, (*warned, *warnings)

    def certified(self, mechanism: AnswerMechanism, drawn: Arrays) -> tuple[Draw, ...]:
        """Return the draw of each answer, before it is counted."""
        guarantee = mechanism.guarantee
        epsilons = ends(guarantee)
        split = guarantee.budget is Budget.PER_USER
        budget: Literal["per_answer", "per_user"] = "per_user" if split else "per_answer"
        if mechanism.randomisation is Randomisation.LAPLACE:
            return (
                NoisyAnswers(
                    mechanism="laplace-response",
                    what="each answer, before it is counted",
                    derivation="hushrank.privacy.laplace_baselines.response_law",
                    budget=budget,
                    at_source=guarantee.already_private,
                    grid=GRID,
                    epsilons=tuple(at_most(each) for each in epsilons),
                    laws=laplace_laws(mechanism.law),
                    most_answers=guarantee.max_contributions,
                    cost=cost_of(mechanism.spend),
                ),
            )
        return (
            FlippedAnswers(
                mechanism="randomised-response",
                what="each answer, before it is counted",
                derivation="hushrank.privacy.randomized_response.flip_thresholds",
                budget=budget,
                at_source=guarantee.already_private,
                thresholds=tuple(_split(mechanism) if split else _whole(mechanism.law)),
                most_answers=guarantee.max_contributions,
                cost=cost_of(mechanism.spend),
            ),
        )


def _epsilon_of_answer(config: SurveyConfig, survey: PlannedSurvey) -> float:
    epsilon = float(config.privacy.epsilon or 0)
    return epsilon / survey.answers if config.privacy.answer_budget().per_user else epsilon


def _dishonest(pairs: WeightedPairs, config: SurveyConfig) -> Iterator[str]:
    """A warning if honest answers do not give such sums."""
    found = impossible_shares(pairs)
    if found.items or found.pairs:
        names = config.items.catalogue.names
        named = name_list([names[item] for item in found.items[:MOST_NAMED]])
        about = f"; answers about {named}" if found.items else ""
        yield (
            "Some answers are dishonest: shares of wins lie outside 0 to 100 % by more than honest"
            " answers with the epsilons that they claim allow, but for one release in a million"
            f" ({found.pairs} pairs{about}). Do not rely on this ranking."
        )


def _bins(pairs: WeightedPairs, config: SurveyConfig) -> EpsilonBins | None:
    """Bins of the epsilons that were counted; None where they were not."""
    if not pairs.chosen.size:
        return None
    epsilons = config.privacy.local_epsilons()
    return EpsilonBins(epsilons.low, epsilons.high, config.model.epsilon_cap)


def _variance(mechanism: AnswerMechanism) -> SumsVariance:
    """Variance of the sums that follows from the public bounds."""
    from hushrank.estimation.fit.pair_fit import AnswerVariance

    if mechanism.randomisation is Randomisation.LAPLACE:
        widest = mechanism.law.numbers[0] / GRID
        return AnswerVariance(least_weight=1.0, extra=2 * widest**2)
    if mechanism.randomisation is Randomisation.COUNTED:
        return AnswerVariance(least_weight=1.0)
    return AnswerVariance(least_weight=mechanism.least_weight or 0.0)


def _shuffled(pairs: WeightedPairs, mechanism: AnswerMechanism, delta: float) -> Shuffled | None:
    """The guarantee after shuffling: for answers that one mechanism privatised."""
    guarantee = mechanism.guarantee
    if guarantee.low != guarantee.high or guarantee.budget is Budget.PER_USER:
        return None
    compared = pairs.met()
    weighted = mechanism.randomisation is Randomisation.WEIGHTED
    weight = mechanism.least_weight if weighted else 1.0
    if not len(compared) or not weight:
        return None
    reports = round(float(compared.min()) / (weight * UNITS))
    bits = mechanism.randomisation is not Randomisation.LAPLACE
    return shuffled_guarantee(guarantee.high, max(reports, 1), delta, bits=bits)


def _fit(
    pairs: WeightedPairs, config: SurveyConfig, variance: SumsVariance
) -> tuple[DebiasedFit, tuple[str, ...]]:
    """The fit with the link that was asked for; with the logistic one if that has no minimum."""
    from hushrank.estimation.comparisons.model_selection import select_link
    from hushrank.estimation.fit.pair_fit import fit_scores

    ridge, name = config.model.ridge, config.model.link
    try:
        if name == "auto":
            chosen = select_link(pairs, list(LINKS.values()), variance, ridge)
            failed = (f"Link {link} has no fit: noise left none." for link in chosen.failures)
            return chosen.fit, (*failed, *_doubt(chosen.fit))
        fit = fit_scores(pairs, link_named(name), variance, ridge)
        return fit, _doubt(fit)
    except ConvergenceError:
        fit = fit_scores(pairs, link_named("logistic"), variance, ridge)
        return fit, (f"No fit with link {name} was found: noise left none. This is logistic.",)


def _doubt(fit: DebiasedFit) -> tuple[str, ...]:
    if fit.is_minimum:
        return ()
    return (
        f"The fit with link {fit.link} is no minimum (smallest curvature"
        f" {fit.smallest_curvature:.3g}): noise is large. Do not rely on it; try link logistic.",
    )


def _information(pairs: WeightedPairs, g: int, link: str) -> dict[str, Parameter]:
    """Return what the answers say before anything is estimated: G, and the errors to expect."""
    weight = mean_pair_weight(pairs)
    known: dict[str, Parameter] = {"information_per_pair": weight}
    if g:
        known["information_G"] = g / UNITS
    if weight > 0:
        expected = predicted_error(pairs.n_items, weight, link_named(link))
        known["predicted_typical_error"] = expected.typical
        known["predicted_largest_error"] = expected.largest
    return known


def _state(fit: DebiasedFit, *, chosen: bool) -> dict[str, Parameter]:
    return {
        "link": fit.link,
        "link_chosen_by_likelihood": chosen,
        "ridge": fit.ridge,
        "smallest_curvature": fit.smallest_curvature,
        "is_minimum": fit.is_minimum,
    }


def _whole(law: LocalLaw) -> Iterator[Threshold]:
    """Thresholds of answers that each have an epsilon of their own."""
    for epsilon, threshold in ends_of_law(law):
        yield Threshold(epsilon=at_most(epsilon), answers=1, threshold=int(threshold))


def _split(mechanism: AnswerMechanism) -> Iterator[Threshold]:
    """Thresholds of somebody with 1, 2, ... answers, among which their epsilon is split."""
    guarantee = mechanism.guarantee
    if law_of_answers(mechanism.randomisation, guarantee.low, guarantee.high) != mechanism.law:
        return
    most = min(guarantee.max_contributions or 1, MOST_LISTED)
    answers = np.arange(1, most + 1)
    for epsilon in ends(guarantee):
        shares = epsilon_of_answer(np.full(most, epsilon), answers)
        thresholds = flip_thresholds(shares).tolist()
        for share, number, threshold in zip(shares, answers, thresholds, strict=True):
            yield Threshold(epsilon=exact(float(share)), answers=int(number), threshold=threshold)


def _problems_of_laplace(config: Sections) -> Problems:
    if config.privacy.already_private:
        yield (
            "method",
            "laplace-rr adds its own noise to answers; with already_private use debiased-rr",
        )
    if config.privacy.budget is Budget.PER_USER:
        yield "privacy.budget", "must be per_comparison with method: laplace-rr; remove this line"


def _problems_of_cap(config: Sections) -> Problems:
    cap = config.model.epsilon_cap
    if cap is None:
        return
    epsilons = config.privacy.local_epsilons()
    if config.privacy.budget is Budget.PER_USER:
        yield "model.epsilon_cap", "needs privacy.budget: per_comparison; remove one of the two"
    if not epsilons.low <= cap < epsilons.high:
        yield (
            "model.epsilon_cap",
            f"must lie within the epsilons that the job accepts, {epsilons.low:g} to"
            f" {epsilons.high:g}, and below the largest; change it, or remove it",
        )


def _problems_of_debiased(config: Sections) -> Problems:
    yield from _problems_of_cap(config)
    yield from problems_of_weights(config)
    rows = config.input
    if not isinstance(rows, InputConfig) or rows.columns.first is None:
        return
    if config.privacy.max_contributions is None:
        yield (
            "privacy.max_contributions",
            "missing; input.columns.first needs the most answers of a person that count. Add for"
            " example max_contributions: 20",
        )
    if (n_items := len(config.items.catalogue.names)) > MOST_MEASURED:
        yield (
            "input.columns.first",
            f"is for at most {MOST_MEASURED} items, got {n_items}; remove it",
        )


_DEBIASED = MethodFacts(
    name="debiased-rr",
    summary="flip each answer at random; scores undo the flips",
    kind="comparisons",
    units=(Unit.LOCAL,),
    reads=(
        *("model.link", "model.ridge", "model.epsilon_cap", "model.weights"),
        "input.columns.first",
    ),
    chooses_link=True,
    any_pairs=True,
    rules=_problems_of_debiased,
)
_CLASSIC = replace(
    _DEBIASED,
    rules=_problems_of_cap,
    reads=("model.link", "model.ridge"),
    any_pairs=False,
    name="classic-rr",
    summary="flip each answer at random; scores take the flipped ones for true",
    baseline=True,
)
_LAPLACE = replace(
    _CLASSIC,
    name="laplace-rr",
    summary="add Laplace noise to each answer; fit scores",
    rules=_problems_of_laplace,
)
_COUNTS = replace(
    _CLASSIC,
    name="rr-counts",
    summary="flip each answer at random; rank by wins of flipped ones",
    reads=(),
    chooses_link=False,
)
METHODS = (
    LocalResponses(facts=_DEBIASED, plan_order=0, randomisation=Randomisation.WEIGHTED),
    LocalResponses(
        facts=_CLASSIC, plan_order=2, randomisation=Randomisation.COUNTED, remark=CLASSIC
    ),
    LocalResponses(
        facts=_LAPLACE, plan_order=3, randomisation=Randomisation.LAPLACE, remark=LAPLACE
    ),
    LocalResponses(
        facts=_COUNTS,
        plan_order=1,
        randomisation=Randomisation.COUNTED,
        by_counts=True,
        remark=COUNTS,
    ),
)
