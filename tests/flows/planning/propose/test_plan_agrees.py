"""What `init` proposes is what `plan` recommends: its method under its noise and bounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hushrank.flows.planning.plan.choice import methods_to_compare, verdict
from hushrank.flows.planning.plan.plan import DEFAULT_TARGET, parse_target
from hushrank.flows.planning.plan.survey import (
    Setting,
    accuracy_of,
    answers_of,
    chosen_method,
    plan_config,
)
from hushrank.flows.planning.plan.world import World, world_of
from hushrank.flows.planning.propose.proposal import propose_config

VOTES = "person,left,right,winner\n" + "".join(f"p{k},a,b,a\n" for k in range(5))
BALLOTS = "voter,item,rank\n" + "".join(f"v{k},a,1\nv{k},b,2\n" for k in range(5))


def agrees(folder: Path, rows: str, **answers: str) -> bool:
    """Whether the plan for 500 people recommends what the answered proposal ranks by."""
    (folder / "rows.csv").write_text(rows)
    proposal = propose_config(folder / "rows.csv", folder / "survey.yaml")
    given = {
        each.key: answers.get(each.key.rpartition(".")[2]) or each.choices[0].written
        for each in proposal.questions
    }
    (folder / "survey.yaml").write_text(proposal.answered(given).text)
    config = plan_config(folder / "survey.yaml")
    world = world_of(config, World(replicates=12), None, None)
    base = Setting(method=config.method, epsilon=1.0, people=500, answers=answers_of(config))
    own = chosen_method(config, base).method.facts.name
    compared = [
        (each, accuracy_of(config, each, world))
        for each in (replace(base, method=name) for name in methods_to_compare(config, own))
    ]
    best = verdict(config, compared, parse_target(DEFAULT_TARGET))
    if len(compared) == 1:  # of design any, only one method is right
        return best is None and compared[0][0].method == own
    return best is not None and best.setting.method == own


@pytest.mark.parametrize("n_items", [4, 8])
@pytest.mark.parametrize("design", ["balanced", "random", "any"])
def test_of_comparisons(tmp_path, n_items, design):
    items = f"{{count: {n_items}}}"
    chosen = {"items": items, "epsilon": "1", "max_contributions": "10"}
    assert agrees(tmp_path, VOTES, design=design, **chosen)


@pytest.mark.parametrize("n_items", [4, 8, 12])
def test_of_rankings(tmp_path, n_items):
    items = f"{{count: {n_items}}}"
    assert agrees(tmp_path, BALLOTS, items=items, epsilon="1", best="lowest", unlisted="unknown")
