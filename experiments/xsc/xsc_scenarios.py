"""The experiments of [XSC]: their settings, and one replicate of each.

Settings that the paper leaves open: scores are drawn anew for every replicate and centred; where
no share of the pairs is given a person answers half of them (Scenarios III and V, like I and IV),
or in S.1.3 all; Scenario V and S.1.3 have evenly spaced scores between -1 and 1; S.1.3
has the epsilons of Scenario I; the epsilons of Scenario III are those of `scheme_epsilon`.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings. §5.1, §S.1
        to §S.3.
"""

from __future__ import annotations

import math
import time

import numpy as np

from hushrank.estimation.common.links import LOGISTIC, PROBIT, Floats, link_named
from hushrank.estimation.common.metrics import (
    footrule_distance,
    kendall_distance,
    linf_error,
    rms_error,
    top_k_distance,
)
from hushrank.estimation.comparisons.mixed_effects import PersonAnswers, fit_mixed
from hushrank.estimation.comparisons.model_selection import select_link
from hushrank.estimation.fit.pair_fit import AnswerVariance, fit_scores
from hushrank.estimation.fit.weighted_pairs import WeightedPairs
from hushrank.experiments.xsc.xsc_curvature import curvature_settings, hessian_eigenvalue
from hushrank.experiments.xsc.xsc_setting import LINKS, OURS, Scenario, Setting, Values
from hushrank.experiments.xsc.xsc_survey import (
    all_scores,
    debiased_scores,
    draw_survey,
    randomized_sums,
    survey_in_parts,
)
from hushrank.experiments.xsc.xsc_weighting import weighting_settings, worth_of_weights

ITEMS = (10, 20, 30)
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
    items: tuple[int, ...] = ITEMS,
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
