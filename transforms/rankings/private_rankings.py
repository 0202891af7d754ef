"""Privatise rankings one by one: the local trust boundary.

`randomize_rankings` is the only step from `Rankings`, which are true, to `PrivateRankings`, which
anyone may see. As for single answers (`transforms.comparisons.privatize`), a ranking is privatised
and counted in one bundle of the engine, whose output is kept whole or not at all.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.privacy.laplace_ranks import laplace_rankings
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.common.epsilons import Epsilons
from hushrank.transforms.common.randomisation import RankingMechanism
from hushrank.transforms.common.schema import to_numpy
from hushrank.transforms.rankings.rankings import Rankings


@dataclass(frozen=True, slots=True)
class PrivateRankings:
    """Synthetic rankings: each is private at its own epsilon; its items and length are not hidden.

    Attributes:
        items, lengths, epsilon: as in `Rankings`.
    """

    items: NDArray[np.int64]
    lengths: NDArray[np.int64]
    epsilon: Epsilons


def randomize_rankings(
    rankings: Rankings,
    mechanism: RankingMechanism,
    bits: RandomBits,
    *,
    already_private: bool = False,
) -> PrivateRankings:
    """Cross the trust boundary: replace every ranking by a synthetic one of the same items.

    Guarantee: epsilon-ranking DP for each ranking with its own epsilon ([RDP] Theorem 1, Lemma 3),
    if `bits.safe`; between any two rankings of the same m items `mallows.whole_ranking_epsilon` or
    `laplace_ranks.whole_ranking_epsilon`. Not hidden: which items were ranked, and how many.

    Args:
        rankings: true rankings.
        mechanism: `laplace-ranks` takes one epsilon for all.
        bits: `system_bits()` in a release.
        already_private: the rankings were privatised at the source with these epsilons; they pass
            as they are.

    Raises:
        ValueError: several epsilons for `laplace-ranks`.
    """
    if already_private:
        return PrivateRankings(rankings.items, rankings.lengths, rankings.epsilon)
    items = _synthetic(rankings.items, rankings.lengths, rankings.epsilon, mechanism, bits)
    return PrivateRankings(items, rankings.lengths, rankings.epsilon)


def privatize_lists(
    batch: pa.RecordBatch,
    column: str,
    epsilon: Epsilons,
    mechanism: RankingMechanism,
    bits: RandomBits,
) -> pa.RecordBatch:
    """The batch with every list of `column` replaced by a synthetic order of the same values.

    Guarantee: that of `randomize_rankings`, for rows whose list holds no value twice; check them
    first (`rankings.encode_lists`). Null and empty lists stay.

    Args:
        batch: rows with a ranking each; of any values, best first.
        column: the lists.
        epsilon: shape (rows,).
        mechanism: as `randomize_rankings`.
        bits: `system_bits()` in a release.
    """
    lists = batch[column]
    lengths = to_numpy(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    values = lists.flatten()
    order = _synthetic(np.arange(len(values)), lengths, epsilon, mechanism, bits)
    offsets = np.append(0, np.cumsum(lengths))
    private = pa.LargeListArray.from_arrays(
        pa.array(offsets, pa.int64()), values.take(pa.array(order)), mask=pc.is_null(lists)
    ).cast(lists.type)
    return batch.set_column(batch.schema.get_field_index(column), column, private)


def _synthetic(
    items: NDArray[np.int64],
    lengths: NDArray[np.int64],
    epsilon: Epsilons,
    mechanism: RankingMechanism,
    bits: RandomBits,
) -> NDArray[np.int64]:
    if not len(lengths):
        return items.copy()
    alike = bool((epsilon == epsilon[0]).all())
    if mechanism is RankingMechanism.MALLOWS:
        return synthetic_rankings(items, lengths, float(epsilon[0]) if alike else epsilon, bits)
    if not alike:
        raise ValueError("laplace-ranks takes one epsilon for all rankings")
    return laplace_rankings(items, lengths, float(epsilon[0]), bits)
