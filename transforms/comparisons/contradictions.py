"""Which people contradict themselves, among comparisons that count: `privacy.private_counts`. Pure.

A person with two or more decided answers to one pair has a *repeated* pair. Whoever prefers each of
its items at least once contradicts themselves; whoever has repeated pairs and never does is
consistent. Ties decide nothing. Both follow from a person's own rows alone.
"""

from __future__ import annotations

import numpy as np

from hushrank.transforms.common.sorting import new_run, number_runs
from hushrank.transforms.comparisons.shuffle import CONSISTENT, CONTRADICTING, OwnedRows


def tally_of_contradictions(rows: OwnedRows) -> dict[str, int]:
    """Count the people who contradict themselves, and those with repeated pairs who do not.

    Args:
        rows: all rows that count of some people, in any order, ties not yet tossed.
    """
    decided = rows.filter(rows.outcome != 0)
    if not len(decided):
        return {CONTRADICTING: 0, CONSISTENT: 0}
    owner, pair = decided.owner_words, decided.pair
    order = np.lexsort((pair, *owner))
    first, second, pair = (words[order] for words in (*owner, pair))
    starts, new_owner = new_run(first, second, pair), new_run(first, second)
    places = np.flatnonzero(starts)
    sizes = np.diff(places, append=len(order))
    wins = np.add.reduceat((decided.outcome[order] > 0).astype(np.int64), places)
    person = number_runs(new_owner)[places]
    n_people = int(new_owner.sum())
    repeated = np.bincount(person[sizes > 1], minlength=n_people) > 0
    contrary = np.bincount(person[(wins > 0) & (wins < sizes)], minlength=n_people) > 0
    return {
        CONTRADICTING: int(np.count_nonzero(contrary)),
        CONSISTENT: int(np.count_nonzero(repeated & ~contrary)),
    }
