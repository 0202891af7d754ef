"""Sensitivity of totals of sheets with points, by enumeration of every pair of adjacent inputs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from hushrank.estimation.responses.point_totals import PointShape
from hushrank.flows.methods.responses.partial_credit import RESTATED
from hushrank.privacy.response_sensitivity import point_totals_sensitivity
from hushrank.privacy.units import Adjacency, Unit
from hushrank.verifier import verify_release as verifier
from tests.flows.trust.certificate.test_formulas import comes_to
from tests.privacy.test_sheet_totals_sensitivity import largest, params

ADDED, REPLACED = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
SHAPES = {  # points, groups, step
    "three of two points": ((2, 2, 2), 1, 1),
    "mixed": ((1, 3, 2), 1, 1),
    "knots": ((3, 3), 1, 4),
    "two groups": ((2, 1, 2), 2, 1),
}


def rows_of(shape: PointShape, groups: int) -> np.ndarray:
    """What each possible sheet adds, one that is set aside among them; a row each."""
    items = np.arange(len(shape.points))
    found = [np.zeros(groups * shape.n_entries, np.int64)]
    for group, points in product(range(groups), product(*(range(m + 1) for m in shape.points))):
        own = shape.count(np.zeros_like(items), items, np.array(points, np.uint8))
        found.append(np.zeros_like(found[0]))
        found[-1][group * shape.n_entries :][: shape.n_entries] = own
    return np.array(found)


@pytest.mark.parametrize(("answer", "sheet"), [(1, 1), (1, 4), (3, 2)])
@pytest.mark.parametrize(("adjacency", "share"), [(ADDED, 1), (REPLACED, 1), (ADDED, 12)])
@pytest.mark.parametrize("name", SHAPES)
def test_it_is_the_largest_move(name, adjacency, share, answer, sheet):
    points, groups, step = SHAPES[name]
    shape = PointShape(
        points=points,
        step=step,
        answer_weight=answer,
        sheet_weight=sheet * step,
        share=share,
    )
    weights = (answer, sheet * step, share)
    bound = point_totals_sensitivity(params(len(points), adjacency), points, *weights)
    assert largest(rows_of(shape, groups), adjacency) == (bound.l1, bound.l2_squared)
    sides = 1 if adjacency is ADDED else 2
    assert verifier.point_totals(sides, points, *weights) == (bound.l1, bound.l2_squared)
    own = dict(zip(("answer_weight", "sheet_weight", "share"), weights, strict=True))
    own |= {"n": len(points), "L": len(points), "sides": sides, "points": points}
    assert comes_to(RESTATED.formula(own)) == bound


def test_shares_shorten_a_sheet_that_is_added_and_would_not_one_that_is_replaced():
    points = (2, 2, 2)
    plain, shared = (
        point_totals_sensitivity(params(3, ADDED), points, share, share, share) for share in (3, 1)
    )
    assert plain.l2_squared - 9 == 9 * 9 * 3 * 2 // 3  # 2/3 of K, in units of a D
    assert shared.l2_squared - 1 == 3
    rows = rows_of(PointShape(points=points, step=1, answer_weight=1, sheet_weight=1, share=3), 1)
    cells = rows[1:, :9]
    assert (np.square(cells[:, None] - cells).sum(axis=2)).max() == 2 * 3 * 3**2


def test_what_cannot_be_is_refused():
    row = replace(params(3, REPLACED), unit=Unit.COMPARISON, max_contributions=1)
    with pytest.raises(ValueError, match="unit: user, got comparison"):
        point_totals_sensitivity(row, (2, 2, 2))
    for points, weights, message in (
        ((2,), (1, 1, 1), "points must be >= 1"),
        ((2, 0), (1, 1, 1), "points must be >= 1"),
        ((2, 2), (0, 1, 1), "weights must be >= 1"),
        ((2, 2), (1, 1, 3), "are not for replace-one"),
        ((2,) * 4, (1, 1, 1), "max_contributions must be >= 4"),
    ):
        with pytest.raises(ValueError, match=message):
            point_totals_sensitivity(params(3, REPLACED), points, *weights)
    with pytest.raises(ValueError, match="are not for add-remove"):
        point_totals_sensitivity(params(3, ADDED), (2, 3), 1, 1, 3)
