"""Which items can be put on one scale: the graph of who met, and who beat, whom.

These facts are as confidential as the counts they are read from. Their texts name items and sizes,
so they belong to released matrices and to simulations, not to the path of a private release, whose
ridge needs none of them.

References:
    [F57] Ford. Solution of a ranking problem from binary comparisons. 1957.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

MOST_NAMED = 5  # components, and items of one component, that an error text lists

Wins = (
    NDArray[np.int64] | NDArray[np.float64] | scipy.sparse.csr_array
)  # entry (a, b) > 0: a beat b


class DisconnectedGraphError(ValueError):
    """Scores of some items cannot be compared; the text names the components."""


@dataclass(frozen=True, slots=True)
class ComparisonGraph:
    """What the positions of positive entries in a win matrix say; arrays of shape (n,).

    Attributes:
        opponents: how many other items each item met.
        component: number, from 0, of the set of items that meet each other directly or through
            others; scores in different sets share no scale.
        class_of: number, from 0, of the set of items that reach each other through wins in both
            directions; a likelihood without a ridge has a minimum only if there is one set ([F57]).
        never_won, never_lost: met others, and lost or won every time.
    """

    opponents: NDArray[np.int64]
    component: NDArray[np.int64]
    class_of: NDArray[np.int64]
    never_won: NDArray[np.bool_]
    never_lost: NDArray[np.bool_]

    @property
    def n_components(self) -> int:
        """1 where all items share a scale."""
        return int(self.component.max()) + 1

    @property
    def n_classes(self) -> int:
        """1 where a fit without a ridge exists."""
        return int(self.class_of.max()) + 1


def comparison_graph(wins: Wins) -> ComparisonGraph:
    """Read the graph off a win matrix, shape (n, n), dense or CSR; entries <= 0 are no wins."""
    beat = scipy.sparse.csr_array(wins > 0)
    met = (beat + beat.T).tocsr()
    wins_over, losses_to = np.diff(beat.indptr), np.diff(beat.tocsc().indptr)
    opponents = np.diff(met.indptr).astype(np.int64)
    _, component = scipy.sparse.csgraph.connected_components(met, directed=False)
    _, class_of = scipy.sparse.csgraph.connected_components(
        beat, directed=True, connection="strong"
    )
    return ComparisonGraph(
        opponents=opponents,
        component=component.astype(np.int64),
        class_of=class_of.astype(np.int64),
        never_won=(opponents > 0) & (wins_over == 0),
        never_lost=(opponents > 0) & (losses_to == 0),
    )


def require_scores_to_exist(wins: Wins, items: Sequence[str] | None = None) -> None:
    """Refuse a win matrix whose likelihood has no minimum without a ridge.

    Args:
        wins: shape (n, n).
        items: names for the text; numbers where None.

    Raises:
        DisconnectedGraphError: some items never met the others, or one set of items won every
            comparison with the rest.
    """
    if not isinstance(wins, scipy.sparse.csr_array) and _surely_strong(wins > 0):
        return
    graph = comparison_graph(wins)
    if graph.n_components > 1:
        raise DisconnectedGraphError(
            f"the comparisons fall into {graph.n_components} sets of items that never met: "
            f"{_listed(graph.component, items)}. Set a ridge, add comparisons between the sets, "
            "or rank each set by itself"
        )
    if graph.n_classes > 1:
        raise DisconnectedGraphError(
            f"the items fall into {graph.n_classes} sets, each of which won or lost all its "
            f"comparisons with the next: {_listed(graph.class_of, items)}. Their distance has no "
            "finite estimate: set a ridge"
        )


def _surely_strong(beat: NDArray[np.bool_]) -> bool:
    """Item 0 reaches every item through wins and is reached from it: quick in dense graphs."""
    return _all_reached(beat) and _all_reached(beat.T)


def _all_reached(beat: NDArray[np.bool_], most_passes: int = 4) -> bool:
    reached = beat[0].copy()
    reached[0] = True
    for _ in range(most_passes):
        if reached.all():
            return True
        reached |= beat[reached].any(axis=0)
    return False


def _listed(label: NDArray[np.int64], items: Sequence[str] | None) -> str:
    """The smallest sets first, each with its first items."""
    n_sets = int(label.max()) + 1
    sets = []
    for number in np.argsort(np.bincount(label), kind="stable")[:MOST_NAMED]:
        members = np.flatnonzero(label == number)
        names = [items[i] if items is not None else str(i) for i in members[:MOST_NAMED]]
        more = f" and {len(members) - MOST_NAMED} more" if len(members) > MOST_NAMED else ""
        sets.append("{" + ", ".join(names) + more + "}")
    return ", ".join(sets) + (", ..." if n_sets > MOST_NAMED else "")
