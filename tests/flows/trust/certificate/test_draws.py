"""What a certificate claims of every draw of every method holds, in exact numbers alone."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest

from hushrank.flows.methods.draws import (
    CountNoise,
    Draw,
    FlippedAnswers,
    NoisyAnswers,
    NoisyRanks,
    ObjectiveNoise,
    RandomPairAnswers,
    SyntheticRankings,
    as_shown,
)
from hushrank.flows.run.job import read_survey
from tests.flows.every_method import COMPARISONS, PER_PERSON, VARIANTS, survey_of
from tests.flows.trust.certificate.formulas import evaluated, number

WORDS = 1 << 64
MORE = {  # key -> value, of a job on comparisons
    "unit comparison": {"privacy": {"unit": "comparison", "epsilon": 1.3}},
    "add-remove": {"privacy": {**PER_PERSON, "adjacency": "add-remove"}},
    "cap": {"privacy": {**PER_PERSON, "per_item_cap": 2, "distinct_pairs": True}},
    "weights": {
        "privacy": {
            "unit": "user",
            "epsilon": 2.0,
            "noise": "gaussian",
            "delta": 1e-7,
            "max_contributions": 4,
            "distinct_pairs": True,
            "bounding": "weights",
        }
    },
    "groups": {"groups": {"column": "group", "values": ["1", "2"], "others": "whole"}},
    "no privacy": {"privacy": {**PER_PERSON, "epsilon": "inf"}},
    "ties split": {"input": {**COMPARISONS, "paths": ["rows.parquet"], "ties": "split"}},
    "ties modelled": {
        "input": {**COMPARISONS, "paths": ["rows.parquet"], "ties": "model"},
        "method": "noisy-pairs",
    },
    "stream": {
        "input": {**COMPARISONS, "paths": ["rows-{date}.parquet"]},
        "schedule": {
            "stream": {
                "nights": 6,
                "participations": 2,
                "gap": 2,
                "first": "2026-11-01",
                "show": {"window": 3},
            }
        },
    },
}


def draws_and_epsilon(name: str, folder: Path) -> tuple[tuple[Draw, ...], float]:
    survey = survey_of(name if name in VARIANTS else "noisy-counts", folder)
    for key, value in MORE.get(name, {}).items():
        survey.set(**{key: value})
    calibrated = read_survey(survey.config, no_privacy=name == "no privacy").calibrated
    return calibrated.certified({}), calibrated.spend.epsilon


@pytest.mark.parametrize("name", [*VARIANTS, *MORE])
def test_a_stranger_finds_what_is_claimed(name, tmp_path):
    draws, epsilon = draws_and_epsilon(name, tmp_path)
    for draw in draws:
        assert draw.mechanism != "other"
        assert callable(named(draw.derivation))
        assert list(faults(draw)) == []
    costs = [draw.cost.epsilon for draw in draws if draw.cost.rho is None]
    if epsilon and name != "no privacy":
        assert sum(map(number, costs), Fraction(0)) <= number(as_shown(epsilon))


def named(derivation: str) -> object:
    module, _, name = derivation.rpartition(".")
    return getattr(importlib.import_module(module), name)


def faults(draw: Draw) -> Iterator[str]:
    """Claims of a draw that do not hold."""
    match draw:
        case CountNoise():
            yield from faults_of_counts(draw)
        case ObjectiveNoise():
            yield from faults_of_scores(draw)
        case FlippedAnswers():
            for each in draw.thresholds:
                if not holds(WORDS - each.threshold, each.threshold, number(each.epsilon)):
                    yield f"threshold {each.threshold}"
        case RandomPairAnswers():
            others = 1 if draw.hide == "order" else 2
            share = number(draw.epsilon) / draw.pairs
            if not holds(WORDS - others * draw.threshold, draw.threshold, share):
                yield f"threshold {draw.threshold}"
        case SyntheticRankings():
            for table in draw.tables:
                step = number(table.epsilon) / (draw.longest - 1)
                pairs = zip(table.weights, table.weights[1:], strict=False)
                if not all(low <= high and holds(high, low, step) for high, low in pairs):
                    yield "weights"
                if len(table.weights) != draw.longest or table.weights[-1] < 1:
                    yield "length"
        case NoisyAnswers():
            for law, epsilon in zip(draw.laws, draw.epsilons, strict=True):
                if number(law.scale) < draw.grid / number(epsilon):
                    yield "scale"
        case NoisyRanks():
            for law, epsilon in zip(draw.laws, draw.epsilons, strict=True):
                if number(law.scale) < draw.sensitivity.l1 / number(epsilon):
                    yield "scale"


def holds(more: int, less: int, epsilon: Fraction) -> bool:
    """Whether more <= e^epsilon less, in 60 digits."""
    with mpmath.workdps(60):
        loss = mpmath.log(mpmath.mpf(more) / less)
        return bool(loss <= mpmath.mpf(epsilon.numerator) / epsilon.denominator)


def faults_of_counts(draw: CountNoise) -> Iterator[str]:
    found = evaluated(draw.formula, draw.inputs)
    if (found["l1"], found["l2_squared"]) != (draw.sensitivity.l1, draw.sensitivity.l2_squared):
        yield "sensitivity"
    if draw.mechanism == "none":
        return
    scale, cost = number(draw.law.scale), draw.cost
    if draw.mechanism == "discrete-laplace":
        needed = draw.sensitivity.l1 / number(cost.epsilon)
        if not needed <= scale <= needed * (1 + Fraction(1, 10**12)):
            yield "scale"
    else:
        assert cost.rho is not None
        needed = draw.sensitivity.l2_squared / (2 * number(cost.rho))
        if not needed <= scale**2 <= needed * (1 + Fraction(1, 10**12)):
            yield "scale"


def faults_of_scores(draw: ObjectiveNoise) -> Iterator[str]:
    loss = {name: number(getattr(draw.loss, name)) for name in ("slope", "kappa1")}
    facts = {**loss, "even_curvature": draw.loss.even_curvature, "share": number(draw.share)}
    found = evaluated(draw.formula, {**facts, **draw.inputs})
    stated = number(draw.sensitivity)
    if draw.norm == "l1" and found["l1"] != stated:
        yield "sensitivity"
    if draw.norm == "l2" and abs(found["l2_squared"] - stated**2) > stated**2 / 10**12:
        yield "sensitivity"
    for law, share in zip(draw.laws, (1, number(draw.share)), strict=False):
        if number(law.scale) * number(law.step) * share != number(draw.scale):
            yield "grid"
    assert draw.cover is not None
    cover = draw.cover
    if number(cover.law.scale) < cover.apart / number(cover.epsilon):
        yield "cover"
    if draw.norm == "l1":
        loss_of_all = stated / number(draw.scale) + number(draw.determinant_epsilon)
        total = loss_of_all + number(cover.epsilon)
        if not 0.99 * number(draw.cost.epsilon) <= total <= number(draw.cost.epsilon):
            yield "epsilon"


PLANTED = {
    "noisy-counts": {"law": {"kind": "laplace", "scale": "7/2"}},
    "noisy-counts, gaussian": {"sensitivity": {"l1": 8, "l2_squared": 31}},
    "perturbed-mle": {"scale": "1/1"},
    "kemeny, random-pairs": {"threshold": 1 << 40},
    "debiased-rr": {"thresholds": ({"epsilon": "2/1", "answers": 1, "threshold": 1 << 60},)},
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_false_claim_is_found(name, tmp_path):
    (draw, *_), _ = draws_and_epsilon(name, tmp_path)
    false = type(draw).model_validate({**draw.model_dump(), **PLANTED[name]})
    assert list(faults(false)) != []
