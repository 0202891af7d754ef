"""Private answers to random pairs of rankings: the local trust boundary, and their rows in files.

`answer_rankings` is the only step from `Rankings`, which are true, to `PairAnswers`, which anyone
may see. A ranking is answered for and counted in one bundle of the engine, whose output is kept
whole or not at all.

Privatise rankings one by one: the local trust boundary.

`randomize_rankings` is the only step from `Rankings`, which are true, to `PrivateRankings`, which
anyone may see. As for single answers (`transforms.comparisons.privatize`), a ranking is privatised
and counted in one bundle of the engine, whose output is kept whole or not at all.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.privacy.laplace_baselines import laplace_rankings
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.random_pairs import Hide, PairAnswers, RandomPairs, answer_pairs
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import level_of
from hushrank.transforms.common.catalogue import UNKNOWN, Catalogue
from hushrank.transforms.common.encode import Mask, Sifted, sift
from hushrank.transforms.common.epsilons import (
    Epsilons,
    EpsilonSource,
    epsilons_of,
    rules_of_epsilons,
)
from hushrank.transforms.common.randomisation import RankingMechanism
from hushrank.transforms.common.schema import numbers_of, to_numpy
from hushrank.transforms.rankings.person_features import rules_of_profiles
from hushrank.transforms.rankings.ranking_columns import PairColumns
from hushrank.transforms.rankings.rankings import TOO_LONG, Rankings

HALF_AN_ANSWER = "an answer lacks an item or its outcome"
NOT_KNOWN = "an item of an answer is not in the catalogue"
ITSELF = "an answer compares an item with itself"
NO_OUTCOME = "an outcome is none of those that the mechanism gives"
NO_LENGTH = "the length of the ranking is not a whole number"
TWICE = "the ranking answers a pair twice"
NOT_SO_MANY = "the ranking does not have the answers of its length"

Integers = NDArray[np.int64]


def answer_rankings(
    rankings: Rankings, n_items: int, law: RandomPairs, bits: RandomBits
) -> PairAnswers:
    """Cross the trust boundary: draw pairs of every ranking and answer them privately.

    Guarantee: that of `random_pairs.answer_pairs`, if `bits.safe`.

    Args:
        rankings: true ones.
        n_items: size of the catalogue.
        law: law of the answers; its epsilon holds for all rankings.
        bits: `system_bits()` in a release.

    Raises:
        ValueError: a ranking has an epsilon of its own.
    """
    if (rankings.epsilon != law.epsilon).any():
        raise ValueError("random-pairs takes one epsilon for all rankings")
    return answer_pairs(rankings.items, rankings.lengths, n_items, law, bits)


def encode_pair_answers(
    batch: pa.RecordBatch,
    columns: PairColumns,
    catalogue: Catalogue,
    laws: Sequence[RandomPairs],
    max_length: int,
    source: EpsilonSource,
) -> Sifted[list[PairAnswers]]:
    """Encode one batch with the private answers of one ranking in each row.

    Where features of people are read, all have one law.

    Args:
        batch: a batch with the columns that `columns` names.
        columns: roles of the columns.
        catalogue: the public items.
        laws: laws by which the answers were drawn, one for each level of `source`; one law where
            all rankings have one epsilon.
        max_length: rankings of more items are set aside.
        source: source of the epsilons.

    Returns:
        Answers of each law; or, where features are read, of each profile.
    """
    n = len(batch)
    names = [columns.numbered(name) for name in (columns.left, columns.right, columns.outcome)]
    left, right = (_codes(batch, each, catalogue) for each in names[:2])
    outcome = np.column_stack([numbers_of(batch[name])[0] for name in names[2]])
    null = [np.column_stack([to_numpy(pc.is_null(batch[name])) for name in each]) for each in names]
    given = ~(null[0] & null[1] & null[2])
    first, second = np.minimum(left, right), np.maximum(left, right)
    epsilon, broken = epsilons_of(batch, columns, source, None)
    level = np.maximum(level_of(epsilon, source.levels), 0) if source.levels else np.zeros(n, int)
    hide, most = laws[0].hide, np.array([law.pairs for law in laws])[level]
    profile, parts = columns.profiles_of(batch) or (level, len(laws))
    length, whole = _lengths(batch, columns.length)
    wanted = most if columns.length is None else np.minimum(length * (length - 1) // 2, most)
    said = np.isin(outcome, (1.0, -1.0) if hide is Hide.ORDER else (1.0, 0.0, -1.0))
    rules = [
        (HALF_AN_ANSWER, (given & (null[0] | null[1] | null[2])).any(axis=1)),
        (NOT_KNOWN, (given & (first == UNKNOWN)).any(axis=1)),
        (ITSELF, (given & (first == second)).any(axis=1)),
        (NO_OUTCOME, (given & ~said).any(axis=1)),
        (TWICE, _twice(first * len(catalogue) + second, given)),
        (NO_LENGTH, ~whole),
        (TOO_LONG, length > max_length),
        (NOT_SO_MANY, given.sum(axis=1) != wanted),
        *rules_of_epsilons(broken),
        *rules_of_profiles(columns.features, profile),
    ]
    valid, rejects = sift(batch, rules)
    turned = np.where(left < right, outcome, -outcome)

    def of(rows: Mask) -> PairAnswers:
        kept = given[rows]
        return PairAnswers(
            first=first[rows][kept],
            second=second[rows][kept],
            outcome=turned[rows][kept].astype(np.int8),
            ranking=np.repeat(np.arange(len(kept)), kept.sum(axis=1)),
            lengths=length[rows],
        )

    return Sifted([of(valid & (profile == place)) for place in range(parts)], rejects, valid)


def table_of_answers(
    answers: PairAnswers, columns: PairColumns, catalogue: Catalogue, *, as_text: bool
) -> pa.Table:
    """Rows that `encode_pair_answers` reads; rankings without an answer have none.

    Args:
        answers: answers of some rankings.
        columns: names of the columns.
        catalogue: the public items.
        as_text: items by name; False: by number.
    """
    per_ranking = np.bincount(answers.ranking, minlength=len(answers))
    rows = np.flatnonzero(per_ranking)
    row = np.repeat(np.arange(len(rows)), per_ranking[rows])
    starts = np.cumsum(per_ranking[rows]) - per_ranking[rows]
    column = np.arange(len(row)) - starts[row]
    names = pa.array(catalogue.names, pa.string())
    made: dict[str, pa.Array] = {}
    for k in range(columns.pairs):
        own = column == k
        for name, codes in ((columns.left, answers.first), (columns.right, answers.second)):
            items = names.take(_placed(codes[own], row[own], len(rows)))
            made[columns.numbered(name)[k]] = items if as_text else items.cast(pa.int64())
        outcome = _placed(answers.outcome[own], row[own], len(rows))
        made[columns.numbered(columns.outcome)[k]] = outcome.cast(pa.int8())
    if columns.length is not None:
        made[columns.length] = pa.array(answers.lengths[rows])
    return pa.table(made)


def _lengths(batch: pa.RecordBatch, name: str | None) -> tuple[Integers, Mask]:
    """Items of each ranking, 0 if no column says it; and which of them are whole numbers."""
    if name is None:
        return np.zeros(len(batch), np.int64), np.ones(len(batch), np.bool_)
    found = numbers_of(batch[name])[0]
    whole = np.isfinite(found) & (found == np.rint(found)) & (found >= 0)
    length = np.where(whole, np.minimum(np.where(whole, found, 0), 2.0**31), 0)
    return length.astype(np.int64), whole


def _codes(batch: pa.RecordBatch, names: list[str], catalogue: Catalogue) -> Integers:
    return np.column_stack([catalogue.codes(batch[name]) for name in names]).astype(np.int64)


def _twice(cells: Integers, given: Mask) -> Mask:
    """Whether each row has two answers about one pair."""
    apart = np.where(given, cells, -1 - np.arange(cells.shape[1]))
    ordered = np.sort(apart, axis=1)
    return np.asarray((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))


def _placed(values: NDArray[np.int64] | NDArray[np.int8], rows: Integers, n: int) -> pa.Array:
    """Put values into their rows of n; the others are null."""
    whole, absent = np.zeros(n, np.int64), np.ones(n, np.bool_)
    whole[rows], absent[rows] = values, False
    return pa.array(whole, mask=absent)


@dataclass(frozen=True, slots=True)
class PrivateRankings:
    """Synthetic rankings: each is private at its own epsilon; its items and length are not hidden.

    Attributes:
        items, lengths, epsilon: as in `Rankings`.
    """

    items: NDArray[np.int64]
    lengths: NDArray[np.int64]
    epsilon: Epsilons


@dataclass(frozen=True, slots=True)
class ByLevel:
    """Private rankings, or private answers of rankings, apart for each level of epsilon.

    Attributes:
        parts: rankings of each level.
    """

    parts: tuple[PrivateRankings | PairAnswers, ...]


def randomize_rankings(
    rankings: Rankings,
    mechanism: RankingMechanism,
    bits: RandomBits,
    *,
    already_private: bool = False,
) -> PrivateRankings:
    """Cross the trust boundary: replace every ranking by a synthetic one of the same items.

    Guarantee: epsilon-ranking DP for each ranking with its own epsilon ([RDP] Lemmas 1 to 3),
    if `bits.safe`; between any two rankings of the same m items `mallows.whole_ranking_epsilon` or
    `laplace_baselines.whole_ranking_epsilon`. Not hidden: which items were ranked, and how many.

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
    items, lengths, epsilon = rankings.items, rankings.lengths, rankings.epsilon
    if not len(lengths):
        return PrivateRankings(items.copy(), lengths, epsilon)
    alike = bool((epsilon == epsilon[0]).all())
    if mechanism is RankingMechanism.MALLOWS:
        items = synthetic_rankings(items, lengths, float(epsilon[0]) if alike else epsilon, bits)
    elif alike:
        items = laplace_rankings(items, lengths, float(epsilon[0]), bits)
    else:
        raise ValueError("laplace-ranks takes one epsilon for all rankings")
    return PrivateRankings(items, lengths, epsilon)
