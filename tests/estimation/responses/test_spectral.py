"""Items about whose difficulty the counts say nothing."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.estimation.responses.item_graph import complete_graph
from hushrank.estimation.responses.spectral_estimate import Connection, connection


def limits(found: Connection) -> list[str]:
    """Per item: which limits its difficulty has."""
    return [
        "".join(
            mark
            for mark, missing in (("<", found.no_lower_limit[i]), (">", found.no_upper_limit[i]))
            if not missing
        )
        for i in range(len(found.component))
    ]


def test_what_the_counts_do_not_limit_is_found() -> None:
    y = np.full((5, 5), 10.0)
    y[3, :] = 0  # nobody is right on item 3
    y[:, 3] = 8
    y[:, 4] = 0  # everybody is right on item 4
    y[3, 4] = 0
    np.fill_diagonal(y, 0)
    found = connection(y, complete_graph(5), 0.0)
    assert limits(found) == ["<>", "<>", "<>", "<", ">"]
    assert len(set(found.component[:3].tolist())) == 1
    y[4, :] = 0  # nobody answers item 4
    assert limits(connection(y, complete_graph(5), 0.0))[4] == ""


def test_two_booklets_without_a_common_item_share_no_scale() -> None:
    y = np.kron(np.eye(2), np.full((3, 3), 20.0))
    np.fill_diagonal(y, 0)
    found = connection(y, complete_graph(6), 0.0)
    assert limits(found) == [""] * 6
    assert found.component.tolist() in ([0] * 3 + [1] * 3, [1] * 3 + [0] * 3)
    y[0, 3] = y[3, 0] = 1
    assert limits(connection(y, complete_graph(6), 0.0)) == ["<>"] * 6


@pytest.mark.parametrize("scale", [0.02, 0.5])
def test_noise_hides_neither_a_linked_nor_an_empty_item(scale: float) -> None:
    """At 0.5 no single count stands clear of noise, but the sums do."""
    m, typical = 40, 100.0
    noise_sd = scale * typical
    y = np.random.default_rng(1).normal(typical, noise_sd, (m, m))
    y[:, 7] -= typical  # everybody is right on item 7
    y[9, :] -= typical  # nobody is right on item 9
    np.fill_diagonal(y, 0)
    found = limits(connection(y, complete_graph(m), noise_sd))
    assert found[7] == ">"
    assert found[9] == "<"
    assert [found[i] for i in range(m) if i not in (7, 9)] == ["<>"] * (m - 2)
