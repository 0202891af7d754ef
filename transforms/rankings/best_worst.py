"""Tables in which a row is a choice of the best and the worst of a few items that were shown. Pure.

That is best-worst scaling, which market research calls MaxDiff. A row with k items shown says that
the best is above the k - 1 others, and that the k - 2 items between are above the worst: 2k - 3
comparisons. It says nothing of the order of those between. So it is read as a ranking of the k
items with a tie, which a secret coin breaks; then it is one ranking of at most k items like any
other, and the sensitivity of counts of rankings holds for it. By Borda sums an item gains k - 1
where it is the best, loses k - 1 where it is the worst, and gains nothing on average where it is
between: this is the usual count of best less worst.

A row of an export may hold all sets of a person; then each set that was answered becomes a row of
its own first. What such a row means follows from the cells of its set and the public settings.

References:
    Louviere, Flynn and Marley, Best-Worst Scaling (2015), chapters 1 and 2.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import UNKNOWN, Catalogue
from hushrank.transforms.common.encode import Sifted, missing, pseudonyms, sift
from hushrank.transforms.common.epsilons import (
    EpsilonSource,
    EpsilonTable,
    epsilons_of,
    rules_of_epsilons,
)
from hushrank.transforms.common.schema import cell_texts, named_before, to_numpy
from hushrank.transforms.rankings.person_features import rules_of_profiles
from hushrank.transforms.rankings.ranking_columns import (
    AS_GIVEN,
    BestWorstColumns,
    ItemSet,
    are_unranked,
)
from hushrank.transforms.rankings.rankings import (
    NOT_KNOWN,
    REPEATED,
    TOO_LONG,
    Rankings,
    items_there,
)

BEST, BETWEEN, WORST, NOT_SHOWN = range(4)  # places of an item in a row, the best first


def encode_best_worst(
    batch: pa.RecordBatch,
    columns: BestWorstColumns,
    catalogue: Catalogue,
    source: EpsilonSource,
    table: EpsilonTable | None,
    keyed_hash: KeyedHash | None,
    max_length: int,
) -> Sifted[Rankings]:
    """Encode one batch with a choice of the best and the worst in each row, as rankings with ties.

    Args:
        batch: a batch with the columns that `columns` names.
        columns: columns of the items shown, of the best and of the worst.
        catalogue: the public items.
        source, table: source of the epsilons, with its table.
        keyed_hash: makes the pseudonyms of people; None: nobody's rankings need to meet.
        max_length: rows in which more items were shown are set aside.
    """
    shown = np.stack([items_there(batch[each], catalogue, AS_GIVEN) for each in columns.shown], 1)
    best, worst = (
        items_there(batch[each], catalogue, AS_GIVEN)[:, np.newaxis]
        for each in (columns.best, columns.worst)
    )
    place = np.select([shown < 0, shown == best, shown == worst], [NOT_SHOWN, BEST, WORST], BETWEEN)
    lengths = np.count_nonzero(shown >= 0, axis=1)
    chosen = (best >= 0) & (worst >= 0)
    found = ((place == BEST).any(axis=1) & (place == WORST).any(axis=1))[:, np.newaxis]
    epsilon, broken = epsilons_of(batch, columns, source, table)
    profile = None if columns.features is None else columns.features.profiles_of(batch)
    valid, rejects = sift(
        batch,
        [
            ("null user", missing(batch, columns.user)),
            (NOT_KNOWN, (np.concatenate([shown, best, worst], axis=1) == UNKNOWN).any(axis=1)),
            ("the row names no best or no worst item", (~chosen)[:, 0]),
            (REPEATED, np.asarray(named_before(shown).any(axis=1))),
            ("best and worst are not two of the items that were shown", (~found)[:, 0]),
            (TOO_LONG, lengths > max_length),
            *rules_of_epsilons(broken),
            *rules_of_profiles(columns.features, profile),
        ],
    )
    owner = None
    if columns.user is not None and keyed_hash is not None:
        owner = pseudonyms(batch[columns.user], keyed_hash)[valid]
    shown, place, lengths = shown[valid], place[valid], lengths[valid]
    order = np.lexsort((shown, place), axis=1)  # tied items as in the catalogue
    items, place = (np.take_along_axis(each, order, axis=1) for each in (shown, place))
    listed = np.arange(items.shape[1]) < lengths[:, np.newaxis]
    tied = np.zeros(items.shape, np.bool_)
    tied[:, 1:] = (place[:, 1:] == BETWEEN) & (place[:, :-1] == BETWEEN)
    kept = None if profile is None else profile[valid]
    rankings = Rankings(
        items[listed].astype(np.int64), lengths, epsilon[valid], owner, tied[listed], profile=kept
    )
    return Sifted(rankings, rejects, valid)


def rows_of_sets(batch: pa.RecordBatch, columns: BestWorstColumns) -> pa.RecordBatch:
    """Turn rows that hold several sets each into a row for each set with a choice.

    The new rows have the columns `best`, `worst` and `shown` of `columns`, all texts, beside every
    column of the batch that is no set's. They are ordered by row, then by set. A set whose best and
    worst are both blank was not answered, and has no row. A set that shows fewer items than the
    largest one has nulls after its last.

    Args:
        batch: rows with all columns that the sets of `columns` name.
        columns: their roles.
    """
    n_sets, n_rows = len(columns.sets), len(batch)
    best, worst = (
        pa.concat_arrays([_written(batch[getattr(each, role)]) for each in columns.sets])
        for role in ("best", "worst")
    )
    answered = to_numpy(pc.or_(best.is_valid(), worst.is_valid()))
    row, number = np.nonzero(answered.reshape(n_sets, n_rows).T)
    place = pa.array(number * n_rows + row)
    held = {name for each in columns.sets for name in each.columns}
    kept = {name: batch[name].take(pa.array(row)) for name in batch.schema.names}
    kept = {name: column for name, column in kept.items() if name not in held}
    kept |= {columns.best: best.take(place), columns.worst: worst.take(place)}
    for position, name in enumerate(columns.shown):
        cells = [_shown_at(batch, each, position) for each in columns.sets]
        kept[name] = pa.concat_arrays(cells).take(place)
    return pa.RecordBatch.from_pydict(kept)


def _shown_at(batch: pa.RecordBatch, of: ItemSet, position: int) -> pa.Array:
    """Items that a set shows at a position, as texts; nulls after its last."""
    if position >= of.size:
        return pa.nulls(len(batch), pa.large_string())
    if of.shown:
        return _written(batch[of.shown[position]])
    return pa.repeat(pa.scalar(of.items[position], pa.large_string()), len(batch))


def _written(column: pa.Array) -> pa.Array:
    """Cells as texts; null where they are empty or NA."""
    cells = cell_texts(column)
    return pc.if_else(pa.array(are_unranked(cells)), pa.scalar(None, pa.large_string()), cells)
