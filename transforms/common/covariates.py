"""Covariates of comparisons, as they are read: clipped to public bounds and put on a grid.

Pure: a batch in, a word for each row out. What a row's covariates are follows from the row and from
public settings alone, and they are within [-1, 1] whatever the row holds: that is the bound on
which `privacy.covariate_perturbation` rests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.estimation.common.covariates import STEPS, Steps, Words, pack
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import Mask, Rules
from hushrank.transforms.common.numbers import numbers_of
from hushrank.transforms.common.schema import ComparisonColumns, Feature

NOT_SHOWN = "the item shown first is neither of the two items"
NOT_A_NUMBER = "a feature is missing or not a number"


@dataclass(frozen=True, slots=True)
class Covariates:
    """Covariates of the rows of a batch.

    Attributes:
        words: shape (m,), as they speak for the left item.
        rules: the rules that rows break.
    """

    words: Words
    rules: Rules


def covariates_of(
    batch: pa.RecordBatch, columns: ComparisonColumns, catalogue: Catalogue
) -> Covariates:
    """The covariates of each row: who was shown first, if a column says so, then the features.

    Args:
        batch: rows as read.
        columns: names the columns, and the public scale of each feature.
        catalogue: the public items.
    """
    steps = np.zeros((len(batch), columns.n_covariates), np.int8)
    rules: list[tuple[str, Mask]] = []
    first = 0
    if columns.first is not None:
        steps[:, 0], broken = _shown_first(batch, columns, catalogue)
        rules.append((NOT_SHOWN, broken))
        first = 1
    missing = np.zeros(len(batch), np.bool_)
    for place, feature in enumerate(columns.features, start=first):
        values = _difference(batch, feature)
        missing |= np.isnan(values)
        steps[:, place] = clipped(values, feature.scale)
    rules.append((NOT_A_NUMBER, missing))
    return Covariates(pack(steps), [rule for rule in rules if rule[1].any()])


def clipped(values: NDArray[np.float64], scale: float) -> Steps:
    """values / scale, clipped to [-1, 1], in the nearest steps of the grid; 0 for NaN."""
    with np.errstate(over="ignore"):
        shares = np.clip(np.nan_to_num(values / scale, nan=0.0), -1.0, 1.0)
    return np.rint(shares * STEPS).astype(np.int8)


def _shown_first(
    batch: pa.RecordBatch, columns: ComparisonColumns, catalogue: Catalogue
) -> tuple[Steps, Mask]:
    """`STEPS` where the left item was shown first, minus that where the right one was."""
    if columns.first == columns.left:
        return np.full(len(batch), STEPS, np.int8), np.zeros(len(batch), np.bool_)
    left, right, first = (
        catalogue.codes(batch[name]) for name in (columns.left, columns.right, columns.first)
    )
    steps = STEPS * np.subtract(first == left, first == right, dtype=np.int8)
    return steps, (first != left) & (first != right)


def _difference(batch: pa.RecordBatch, feature: Feature) -> NDArray[np.float64]:
    """The left item's value less the right one's; NaN where one of them is no number."""
    values, _ = numbers_of(batch[feature.column])
    if feature.right is None:
        return values
    others, _ = numbers_of(batch[feature.right])
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(values - others)
