"""Rules of a simulation, true scores and independent streams."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushrank.pipelines.simulate.simulated_rows import SimulationSpec


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"items": 1}, "items must be between 2 and 1048576, got 1"),
        ({"people": 0}, "people must be between 1 and 1099511627776, got 0"),
        ({"comparisons": 0}, "comparisons must be between 1 and 1048576, got 0"),
        ({"heavy_factor": 0}, "heavy_factor must be between 1 and 69905, got 0"),
        ({"heavy_share": 1.5}, "heavy_share must be between 0 and 1, got 1.5"),
        ({"ties": -0.1}, "ties must be between 0 and 1, got -0.1"),
        ({"ties": math.nan}, "ties must be between 0 and 1, got nan"),
        ({"seed": -1}, "seed must be between 0 and inf, got -1"),
        ({"link": "cauchy"}, "link must be one of logistic, probit, laplace; got 'cauchy'"),
        ({"spread": math.inf}, "spread must be finite and >= 0, got inf"),
        ({"scores": (1.0, 2.0)}, "scores must have 6 entries, got 2"),
        ({"scores": (math.nan,) * 6}, "scores must be finite, got (nan, nan, nan, nan, nan, nan)"),
        ({"epsilons": (1.0, 0.0)}, "epsilons must be finite and > 0, got (1.0, 0.0)"),
        (
            {"items": 5, "comparisons": 11},
            "comparisons must be at most 10, the pairs of 5 items,"
            " while distinct_pairs is set; got 11",
        ),
    ],
)
def test_a_broken_rule_is_named(wrong, message):
    with pytest.raises(ValueError, match="must") as caught:
        SimulationSpec(**{"items": 6, "people": 10} | wrong)
    assert str(caught.value) == message


def test_repeated_pairs_have_no_such_limit():
    SimulationSpec(items=5, people=1, comparisons=11, distinct_pairs=False)


@pytest.mark.parametrize("scores", [None, (0.5, 2.0, -1.0)])
def test_true_scores_sum_to_zero(scores):
    true_scores = SimulationSpec(items=3, people=1, comparisons=1, scores=scores).true_scores()
    assert abs(true_scores.sum()) < 1e-12
    if scores is not None:
        np.testing.assert_allclose(np.diff(true_scores), np.diff(scores))


def test_spread_is_the_scale_of_the_scores():
    one, three = (
        SimulationSpec(items=20_000, people=1, spread=spread).true_scores() for spread in (1, 3)
    )
    np.testing.assert_allclose(three, 3 * one)  # the same draws
    assert abs(one.std() - 1) < 5 / math.sqrt(2 * 20_000)  # 5 standard errors: 6e-7


def test_ids_are_numbers_or_names_of_one_length():
    assert SimulationSpec(items=11, people=1).item_ids()[:2] == ("0", "1")
    names = SimulationSpec(items=11, people=1, named=True).item_ids()
    assert names[0] == "item-00"
    assert names[10] == "item-10"
    assert len(set(names)) == 11


def test_streams_and_seeds_differ():
    spec = SimulationSpec(items=6, people=1, comparisons=1)
    other = SimulationSpec(items=6, people=1, comparisons=1, seed=1)
    draws = {
        generator.integers(1 << 62)
        for one in (spec, other)
        for generator in (one.generator(0), one.generator(1, 0), one.generator(1, 1))
    }
    assert len(draws) == 6
    assert spec.generator(1, 0).integers(1 << 62) in draws
