"""A cell of the heatmap is that of its row against its column, in colour, number and words."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.flows.report import heatmap
from tests.releases import PAIR_WINS, make_pairs_release


def test_a_row_is_over_its_column(monkeypatch):
    drawn = {}

    def keep(figure, axes, description, spots):
        drawn.update(axes=axes, spots=spots)
        return "<svg/>"

    monkeypatch.setattr(heatmap, "page_svg", keep)
    release = make_pairs_release(PAIR_WINS)
    heatmap.heatmap_svg(release, release.released, "wins")
    names = [line.item for line in release.ranking]
    place = {item: i for i, item in enumerate(release.released.items)}
    wins = np.array(
        [[release.released.wins[place[a]][place[b]] for b in names] for a in names], np.float64
    )
    np.fill_diagonal(wins, np.nan)
    assert not np.array_equal(wins, wins.T, equal_nan=True)
    most = np.nanmax(wins)
    assert len(drawn["axes"].patches) == len(drawn["spots"]) == wins.size - len(wins)
    for cell, spot in zip(drawn["axes"].patches, drawn["spots"], strict=True):
        column, row = (int(corner) for corner in cell.get_xy())
        assert (spot.x, spot.y) == ((column, column + 1), (row, row + 1))
        assert spot.text == f"{names[row]} over {names[column]}: {wins[row, column]:,g}"
        assert cell.get_alpha() == pytest.approx(max(wins[row, column], 0) / most)
    numbers = drawn["axes"].texts
    assert len(numbers) == wins.size - len(wins)
    for number in numbers:
        column, row = (int(place) for place in number.get_position())
        assert number.get_text() == f"{wins[row, column]:,.0f}"
