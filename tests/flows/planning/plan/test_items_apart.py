"""People that a test needs to tell items apart, against simulated tests of that size."""

from __future__ import annotations

import re

from scipy.stats import binom

from hushrank.flows.planning.plan.items_apart import POWER
from tests.estimation.responses.test_item_differences import GAUSSIAN as KIND
from tests.estimation.responses.test_item_differences import MOVED, told, two_groups
from tests.flows.every_method import survey_of

GROUPS = {"column": "school", "values": ["North", "South"]}


def test_so_many_people_find_a_large_difference_about_as_often_as_is_said(tmp_path, command):
    """20 seeded tests of the stated size: found in 80 % of them, within a chance of 1e-4."""
    survey = survey_of("totals, gaussian", tmp_path / "survey").set(
        items={"count": 28},
        privacy__max_contributions=28,
        privacy__adjacency="replace-one",
        privacy__epsilon=2.0,
        groups=GROUPS,
    )
    code, printed = command("plan", survey.config, "--people", 2000, "--epsilon", "1")
    assert code == 0, printed
    lines = printed.partition("People needed to tell items apart:")[2]
    (two, dif) = (
        int(n.replace(",", "")) for n in re.search(r"\n *1 +(\S+) +(\S+)", lines).groups()
    )
    assert two < dif
    found, few = (
        sum(
            bool(told(*two_groups(r, people=people // 2), KIND, 1.0, r).differs[MOVED])
            for r in range(20)
        )
        for people in (dif, dif // 3)
    )
    assert binom.cdf(found, 20, POWER) > 1e-4
    assert few < found  # a third of them find it in about 5 % of tests
