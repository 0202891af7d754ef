"""Figure 3 of [XSC]: is the loss convex where its answers are private?

The probit loss of randomised answers may bend the wrong way, since a debiased answer may be
negative. Lemma 4 says that its smallest eigenvalue on the scores that sum to zero grows like m p,
with a chance that tends to 1: here it is measured, at the true scores and divided by G = sum t^2 as
in the paper, beside the eigenvalue of the expected Hessian.

The paper gives 30 people, epsilon 2, scores evenly spaced on [0, 1] and, in turn, p = 0.8 with
items that differ and 30 items with p that differs; which numbers of items and which p it took, the
text does not say.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings. Lemma 4.
"""

from __future__ import annotations

import numpy as np

from hushrank.estimation.common.links import Floats, Link, link_named
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.pair_fit import objective_of
from hushrank.estimation.fit.solve import smallest_curvature
from hushrank.estimation.fit.weighted_pairs import UNITS, WeightedPairs, information_units
from hushrank.experiments.xsc.xsc_setting import OURS, Setting, Values
from hushrank.experiments.xsc.xsc_survey import draw_survey, randomized_sums

EXPECTED = "expectation"  # the eigenvalue of the expected Hessian, not the mean eigenvalue
METRIC = "smallest_eigenvalue"
PEOPLE, EPSILON = 30, 2.0
ITEMS, SHARE_LEFT = (10, 20, 30, 40, 50), 0.8
SHARES, ITEMS_RIGHT = (0.2, 0.4, 0.6, 0.8, 1.0), 30


def curvature_settings() -> tuple[Setting, ...]:
    """The two panels: items that differ, and shares that differ."""

    def setting(panel: str, m: int, share: float) -> Setting:
        return Setting("figure-3", "probit", m, PEOPLE, panel, share=share)

    left = [setting("items", m, SHARE_LEFT) for m in ITEMS]
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
