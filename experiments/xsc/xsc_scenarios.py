"""The experiments of [XSC]: their settings, and one replicate of each.

Settings that the paper leaves open: scores are drawn anew for every replicate and centred; where
no share of the pairs is given a person answers half of them (Scenarios III and V, like I and IV),
or in S.1.3 all; Scenario V and S.1.3 have evenly spaced scores between -1 and 1; S.1.3
has the epsilons of Scenario I; the epsilons of Scenario III are those of `scheme_epsilon`.

What the weights of [XSC] are worth where the ranking of the same people is the truth: Table 2.

The paper ranks 60 people's answers about 10 cars without privacy, takes that for the truth, and
counts how often rankings from randomised answers differ. Here people and answers are simulated, so
that what decides can be changed:

    one order    everybody answers by the same scores, each answer by itself: the paper's model
    own orders   everybody has scores of their own around the shared ones, and answers mostly keep
                 to them: as about the cars, 70 % of people contradict themselves somewhere, and 7 %
                 of the answers are against their own order ([XSC] §5.2, §S.1.1)

With everybody answering every pair, Bradley-Terry scores are in the order of the win totals, so a
method is the factor a_l of a person's noisy answers in them: t for `debiased-rr` (unbiased answers
(noisy - p) / t times the weight t^2), 1 for `classic-rr` and `rr-counts`, 1 / t for answers that
are debiased but not weighted. The total of an item then differs from that of the answers themselves
by noise of variance (1 - t^2) / 4 an answer and by counting people unequally, with a t instead of
1 / L. If totals of a person vary s times as much as independent answers would make them, the sum

    sum a^2 (1 - t^2) + s sum (a t - 1 / L)^2    where sum a t = 1

is least at a proportional to t / (1 + (s - 1) t^2). With independent answers (s = 1) that is the
paper's weighting. Where everybody keeps to an order of their own, s is up to (m + 1) / 3, the best
factor hardly depends on t, and equal weights do as well.

Figure 3 of [XSC]: is the loss convex where its answers are private?

The probit loss of randomised answers may bend the wrong way, since a debiased answer may be
negative. Lemma 4 says that its smallest eigenvalue on the scores that sum to zero grows like m p,
with a chance that tends to 1: here it is measured, at the true scores and divided by G = sum t^2 as
in the paper, beside the eigenvalue of the expected Hessian.

The paper gives 30 people, epsilon 2, scores evenly spaced on [0, 1] and, in turn, p = 0.8 with
items that differ and 30 items with p that differs; which numbers of items and which p it took, the
text does not say.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings. §5.1, §S.1
        to §S.3.
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings. §5.2.
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings. Lemma 4.
"""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.common.estimate import (
    footrule_distance,
    kendall_distance,
    linf_error,
    rms_error,
    top_k_distance,
)
from hushrank.estimation.common.links import LOGISTIC, PROBIT, Floats, Link, link_named
from hushrank.estimation.comparisons.mixed_effects import PersonAnswers, fit_mixed
from hushrank.estimation.comparisons.model_selection import select_link
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.pair_fit import AnswerVariance, fit_scores, objective_of
from hushrank.estimation.fit.solve import smallest_curvature
from hushrank.estimation.fit.weighted_pairs import UNITS, WeightedPairs, information_units
from hushrank.experiments.xsc.xsc_setting import (
    LINKS,
    OURS,
    Scenario,
    Setting,
    Values,
    all_scores,
    debiased_scores,
    draw_survey,
    randomized_sums,
    survey_in_parts,
)
from hushrank.privacy.randomized_response import attenuation, flip_thresholds, randomize
from hushrank.privacy.randomness import seeded_bits

ONE_ORDER, OWN_ORDERS = "one order", "own orders"
ITEMS, PEOPLE = 10, 60
REACH = 0.5  # shared scores are evenly spaced between -0.5 and 0.5
STEADINESS = 3.0, 1.5  # of people with own orders: median and logarithmic spread


def weighting_settings() -> tuple[Setting, ...]:
    """The two kinds of people."""
    return tuple(
        Setting("table-2", "logistic", ITEMS, PEOPLE, kind) for kind in (ONE_ORDER, OWN_ORDERS)
    )


def worth_of_weights(setting: Setting, rng: np.random.Generator) -> Values:
    """Kendall errors of the methods in one simulated survey, by the ranking of its answers."""
    m, people = setting.size
    answers = simulated_answers(setting.scheme, m, people, rng)
    epsilon = drawn_epsilon(people, rng)
    bits, t = seeded_bits(int(rng.integers(2**63))), _attenuation(epsilon)
    noisy = randomize(answers.ravel(), np.repeat(epsilon, answers.shape[1]), bits)
    signs = 2.0 * noisy.reshape(answers.shape) - 1
    laplace = answers - 0.5 + rng.laplace(scale=1 / epsilon[:, np.newaxis], size=answers.shape)
    truth = item_totals((2.0 * answers - 1).sum(axis=0), m)
    values: Values = {(OURS, "inverse_sqrt_b"): inverse_sqrt_b(epsilon)}
    for method, sums in {
        OURS: t @ signs,
        "rr-counts": signs.sum(axis=0),
        "unweighted-rr": (1 / t) @ signs,
        "laplace-rr": laplace.sum(axis=0),
    }.items():
        values |= kendall_errors(item_totals(sums, m), truth, method)
    return values


def simulated_answers(
    kind: str, m: int, people: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Answers of shape (people, pairs), 1 where the first item of the pair won."""
    first, second = np.triu_indices(m, 1)
    scores = np.tile(REACH * np.linspace(1, -1, m), (people, 1))
    steadiness = np.ones((people, 1))
    if kind == OWN_ORDERS:
        scores = scores + rng.standard_normal((people, m))
        median, spread = STEADINESS
        steadiness = median * np.exp(spread * rng.standard_normal((people, 1)))
    chance = expit(steadiness * (scores[:, first] - scores[:, second]))
    return (rng.random(chance.shape) < chance).astype(np.uint8)


def drawn_epsilon(people: int, rng: np.random.Generator) -> Floats:
    """Everybody's epsilon uniform in (A, A + 1), with one A uniform in (0.2, 2)."""
    level = rng.uniform(0.2, 2)
    return rng.uniform(level, level + 1, people)


def inverse_sqrt_b(people_epsilon: Floats) -> float:
    """B^(-1/2), B the mean of t^2 over the people: what errors are proportional to ([XSC] §4.1)."""
    return float(1 / np.sqrt(np.square(_attenuation(people_epsilon)).mean()))


def _attenuation(epsilon: Floats) -> Floats:
    """t of everybody."""
    return attenuation(flip_thresholds(epsilon))


def item_totals(sums: Floats, m: int) -> Floats:
    """Sum of each item's pairs' sums; rounded, so that equal totals are equal."""
    first, second = np.triu_indices(m, 1)
    won, lost = (np.bincount(items, sums, m) for items in (first, second))
    return np.asarray(np.round(won - lost, 9))


def kendall_errors(scores: Floats, truth: Floats, method: str) -> Values:
    """K as the paper prints it, where equal items are no error, and with half an error for each.

    Totals of whole answers are often equal, and weighted ones never: by the printed K a method is
    better for being undecided.
    """
    distance, n = kendall_distance(scores, truth), len(truth)
    tied = np.equal.outer(scores, scores) & ~np.equal.outer(truth, truth)
    half = distance + float(tied.sum()) / 2 / (n * (n - 1))
    return {(method, "kendall"): distance, (method, "kendall_ties_half"): half}


EXPECTED = "expectation"  # the eigenvalue of the expected Hessian, not the mean eigenvalue
METRIC = "smallest_eigenvalue"
CURVATURE_PEOPLE, EPSILON = 30, 2.0
CURVATURE_ITEMS, SHARE_LEFT = (10, 20, 30, 40, 50), 0.8
SHARES, ITEMS_RIGHT = (0.2, 0.4, 0.6, 0.8, 1.0), 30


def curvature_settings() -> tuple[Setting, ...]:
    """The two panels: items that differ, and shares that differ."""

    def setting(panel: str, m: int, share: float) -> Setting:
        return Setting("figure-3", "probit", m, CURVATURE_PEOPLE, panel, share=share)

    left = [setting("items", m, SHARE_LEFT) for m in CURVATURE_ITEMS]
    return (*left, *(setting("share", ITEMS_RIGHT, share) for share in SHARES))


def hessian_eigenvalue(setting: Setting, rng: np.random.Generator) -> Values:
    """Smallest eigenvalue on the scores that sum to zero, and 1 where it is above zero."""
    (m, people), link = setting.size, link_named(setting.link)
    share = 1.0 if setting.share is None else setting.share
    truth, epsilon = np.linspace(0, 1, m), np.full(people, EPSILON)
    survey = draw_survey(truth, link, epsilon, share, rng)
    weighted, _ = randomized_sums(survey, rng)
    g = information_units(epsilon) / UNITS
    found = smallest_curvature(objective_of(WeightedPairs(*weighted), link, 0.0), truth) / g
    return {
        (OURS, METRIC): found,
        (OURS, "convex"): float(found > 0),
        (EXPECTED, METRIC): expected_eigenvalue(truth, link, share),
    }


def expected_eigenvalue(truth: Floats, link: Link, share: float) -> float:
    """Smallest eigenvalue of the expected Hessian, whose weights add up to `share` a pair."""
    chance = link.cdf(truth[:, np.newaxis] - truth) * (1 - np.eye(len(truth)))
    objective = Objective(np.asarray(share * chance), link, 0.0, np.zeros(len(truth)))
    return smallest_curvature(objective, truth)


SCENARIO_ITEMS = (10, 20, 30)
SURVEYS_A_POINT = 10  # of Scenario II
SHARE = 0.5  # of the pairs that a person answers
EQUAL_AT = 10 * 100  # m L where the schemes of Scenario III meet
EQUAL_EPSILON = 2.82  # there


def uniform_scores(n_items: int, rng: np.random.Generator) -> Floats:
    """Uniform(-1, 1), centred."""
    scores = rng.uniform(-1, 1, n_items)
    return np.asarray(scores - scores.mean())


def _score_errors(scores: Floats, truth: Floats, method: str = OURS) -> Values:
    return {(method, "l2"): rms_error(scores, truth), (method, "linf"): linf_error(scores, truth)}


def _rank_errors(scores: Floats, truth: Floats, method: str = OURS) -> Values:
    return {
        (method, "kendall"): kendall_distance(scores, truth),
        (method, "footrule"): footrule_distance(scores, truth),
        (method, "topk"): top_k_distance(scores, truth, len(truth) // 2),
    }


def _consistency(setting: Setting, rng: np.random.Generator) -> Values:
    """Scenario I."""
    (m, people), link = setting.size, link_named(setting.link)
    truth = uniform_scores(m, rng)
    survey = draw_survey(truth, link, rng.uniform(1, 5, people), SHARE, rng)
    return _score_errors(debiased_scores(survey, link, rng), truth)


def _privacy_effect(setting: Setting, rng: np.random.Generator) -> Values:
    """Scenario II: one level of epsilon a replicate, recorded as 1 / sqrt(B).

    The error of one survey of 20 items varies by a sixth around its mean, which alone keeps any
    correlation below 0.85. So a point is the mean of ten surveys; the first counts by itself too.
    """
    (m, people), link = setting.size, link_named(setting.link)
    truth, level = uniform_scores(m, rng), rng.uniform(0.5, 2.5)
    epsilon = rng.uniform(level, level + 0.5, people)
    errors = []
    for _ in range(SURVEYS_A_POINT):
        survey = draw_survey(truth, link, epsilon, 1.0, rng)
        errors.append(_score_errors(debiased_scores(survey, link, rng), truth))
    values = {key: float(np.mean([error[key] for error in errors])) for key in errors[0]}
    single = {(method, f"{metric}_of_one"): v for (method, metric), v in errors[0].items()}
    privacy = 1 / math.sqrt(np.square(np.tanh(epsilon / 2)).mean())
    return {**values, **single, (OURS, "inverse_sqrt_b"): privacy}


def scheme_epsilon(scheme: str, m: int, people: int) -> float:
    """Epsilon of everybody in Scenario III.

    [XSC] prints log(mL)^2, 1 and log(mL)^-2 over sqrt(mL), up to constants, and neither these nor
    the share of answered pairs. Its Table 6 has equal errors for all schemes at 10 items and 100
    people. Half of the pairs and epsilon 2.82 there give those errors, and those of schemes 2 and 3
    at all sizes; those of scheme 1 are those of log(mL)^1.5.
    """
    grown = math.log(m * people) / math.log(EQUAL_AT)
    power = {"1": 1.5, "2": 0, "3": -2}[scheme]
    return EQUAL_EPSILON * float(grown**power) * math.sqrt(EQUAL_AT / (m * people))


def _tradeoff(setting: Setting, rng: np.random.Generator) -> Values:
    """Scenario III."""
    (m, people), link = setting.size, link_named(setting.link)
    truth = uniform_scores(m, rng)
    epsilon = np.full(people, scheme_epsilon(setting.scheme, m, people))
    survey = draw_survey(truth, link, epsilon, SHARE, rng)
    return _score_errors(debiased_scores(survey, link, rng), truth)


def _separation(setting: Setting, rng: np.random.Generator) -> Values:
    """Scenario IV."""
    (m, people), link = setting.size, link_named(setting.link)
    truth = np.asarray((setting.delta or 0.0) * (np.arange(m) - (m - 1) / 2), np.float64)
    survey = draw_survey(truth, link, rng.uniform(1, 5, people), SHARE, rng)
    return _rank_errors(debiased_scores(survey, link, rng), truth)


def _comparison(setting: Setting, rng: np.random.Generator) -> Values:
    """Scenario V: sizes are drawn too. Items come in random order: ties favour none of them."""
    link = link_named(setting.link)
    people, m = int(rng.integers(150, 401)), int(rng.integers(10, 31))
    truth = np.asarray(rng.permutation(np.linspace(-1, 1, m)), np.float64)
    survey = draw_survey(truth, link, rng.uniform(0.2, 2, people), SHARE, rng)
    values: Values = {}
    for method, scores in all_scores(survey, link, rng).items():
        if method != "rr-counts":  # its scores are counts: they have no scale of their own
            values |= _score_errors(scores, truth, method)
        values |= _rank_errors(scores, truth, method)
    return values


def _person_effects(setting: Setting, rng: np.random.Generator) -> Values:
    """S.1.2: no privacy, every pair, effects from N(0, 1)."""
    m, people = setting.size
    truth, effects = uniform_scores(m, rng), rng.standard_normal(people)
    first, second = np.triu_indices(m, 1)
    x = effects[:, np.newaxis] + (truth[first] - truth[second])
    outcomes = (rng.random(x.shape) < LOGISTIC.cdf(x)).astype(np.float64).ravel()
    answers = PersonAnswers(
        person=np.repeat(np.arange(people), len(first)),
        first=np.tile(first, people),
        second=np.tile(second, people),
        s=outcomes,
        w=np.ones_like(outcomes),
        n_people=people,
        n_items=m,
    )
    fit = fit_mixed(answers, LOGISTIC)
    return {
        ("mixed-effects", "l2"): rms_error(fit.scores, truth),
        ("mixed-effects", "sigma_error"): abs(fit.sigma - 1),
    }


def _link_choice(setting: Setting, rng: np.random.Generator) -> Values:
    """S.1.3: the true link is drawn."""
    m, people = setting.size
    link = (LOGISTIC, PROBIT)[int(rng.integers(2))]
    survey = draw_survey(np.linspace(-1, 1, m), link, rng.uniform(1, 5, people), 1.0, rng)
    weighted, _ = randomized_sums(survey, rng)
    selected = select_link(WeightedPairs(*weighted), [LOGISTIC, PROBIT], AnswerVariance())
    return {(OURS, "correct_link"): float(selected.fit.link == link.name)}


def _scalability(setting: Setting, rng: np.random.Generator) -> Values:
    """S.3: seconds to randomise and sum the answers, and to estimate from the sums."""
    (m, people), link = setting.size, link_named(setting.link)
    truth = uniform_scores(m, rng)
    sums, seconds = survey_in_parts(truth, link, rng.uniform(1, 5, people), rng)
    pairs, estimating = WeightedPairs(*sums), []
    for _ in range(3):  # the fastest: milliseconds are easily disturbed
        started = time.perf_counter()
        fit_scores(pairs, link, AnswerVariance())
        estimating.append(time.perf_counter() - started)
    return {(OURS, "seconds_to_sums"): seconds, (OURS, "seconds_to_scores"): min(estimating)}


def _grid(
    scenario: str,
    people: tuple[int, ...],
    links: tuple[str, ...] = LINKS,
    items: tuple[int, ...] = SCENARIO_ITEMS,
    schemes: tuple[str, ...] = ("",),
    deltas: tuple[float | None, ...] = (None,),
) -> tuple[Setting, ...]:
    return tuple(
        Setting(scenario, link, m, L, scheme, delta)
        for link in links
        for scheme in schemes
        for delta in deltas
        for m in items
        for L in people
    )


def scenarios(quick: bool) -> dict[str, Scenario]:
    """Every experiment by name; `quick` leaves the largest sizes of S.3 out."""
    doubling = tuple(100 * 2**k for k in range(1, 4 if quick else 6))
    sizes = (10, 20, 40) if quick else (10, 20, 40, 80, 160)
    return {
        "I": Scenario(_grid("I", (100, 200, 300, 400)), _consistency),
        "II": Scenario(_grid("II", (200,), items=(20,)), _privacy_effect),
        "III": Scenario(_grid("III", (100, 200, 400, 800), schemes=("1", "2", "3")), _tradeoff),
        "IV": Scenario(_grid("IV", (100, 200, 300), deltas=(0.05, 0.1, 0.15)), _separation),
        "V": Scenario(tuple(Setting("V", link) for link in LINKS), _comparison),
        "S.1.2": Scenario(_grid("S.1.2", (100, 200, 300), links=("logistic",)), _person_effects),
        "S.1.3": Scenario(_grid("S.1.3", (100, 200, 400, 800), links=("auto",)), _link_choice),
        "S.3": Scenario(
            _grid("S.3", doubling, links=("logistic",), items=sizes),
            _scalability,
            most_replicates=30,
            timed=True,
        ),
        "figure-3": Scenario(curvature_settings(), hessian_eigenvalue),
        "table-2": Scenario(weighting_settings(), worth_of_weights, times=20),
    }
