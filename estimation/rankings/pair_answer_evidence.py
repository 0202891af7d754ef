"""What private answers to random pairs say: of each pair (Kemeny), of each item (Borda, fits).

An answer y, +1, -1 or 0, has mean t times what is true of its ranking's pair (`RandomPairs`), so
y / t is unbiased, and over the answers to a pair its mean estimates the pair's *margin share* mu:
the share of rankings with a above b, less those with b above a. Around it a pair's answers have the
variance E y^2 / t^2 - mu^2 each, which holds all chance: who answered, and the randomisation.

Sums over rankings are had in two ways. The *ratio* takes mu for each pair, times all rankings: of
pairs that people agree on it has by far the smaller error, because it does not depend on how often
a pair happened to be drawn. It needs several answers a pair, and every ranking must hold both items
or be known to have been asked whatever it holds (complete lists, or hidden items). *Sums* count
every answer for as many rankings as it stands for, of lists of all kinds ([HT]).

A ranking that answers d pairs answers all of them in its own way, so its d answers vary together:
sums of products of two answers of the same ranking (`moments`) less what independent ones would
give are added to the variances, where they add to them.

People may choose their own epsilon (`own_epsilons`). Each law then has counts of its own, and a
ranking of it a weight w. Answers are undone by their own t before they are added, so all means stay
those of the weighted rankings, and sums of squares hold the variance as above.

What private answers to random pairs are reduced to: how often each was given, and how it varies.

Sums of integers over rankings, so the same for every split of the rankings into files, batches and
workers. A pair of a longer list is drawn more seldom, so an answer counts as often as its list has
pairs for each answer of it: `unit` times its *weight* max(l (l - 1) / 2, d), a whole number. Where
lengths are hidden, pairs are drawn from the whole catalogue and every weight is 1.

References:
    [W65] Warner. Randomized response: a survey technique for eliminating evasive answer bias. 1965.
    [HT] Horvitz, Thompson. A generalization of sampling without replacement from a finite universe.
        1952.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.links import LOGISTIC, Floats, laplacian, score_differences
from hushrank.estimation.common.uncertainty import LEVEL
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.pair_fit import require_fittable
from hushrank.estimation.fit.solve import minimise
from hushrank.estimation.rankings.net_evidence import NetEvidence
from hushrank.estimation.rankings.ranking_evidence import RankingEvidence
from hushrank.privacy.random_pairs import Hide, PairAnswers, RandomPairs, n_pairs

Integers = NDArray[np.int64]
LARGEST_SUM = 2**62
LOW_BITS = 20
LOW_HALF = np.int64((1 << LOW_BITS) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class PairAnswerCounts:
    """Sums over private answers about n items.

    Attributes:
        wins: shape (n, n), entry [a, b] = weights of the answers "a above b".
        asked: shape (n, n), symmetric: weights of the answers about a and b, whatever they say.
        squares: the same of squared weights.
        moments: shape (n, n), sum over rankings of net of a times net of b, where an item's net is
            the weight of the answers of one ranking that put it above another, less below.
        lengths: shape (m + 1,), entry k = rankings of k items; where that is hidden, entry 0 counts
            all.

    Raises:
        ValueError: shapes do not agree.
    """

    wins: Integers
    asked: Integers
    squares: Integers
    moments: Integers
    lengths: Integers

    def __post_init__(self) -> None:
        square = (len(self.wins), len(self.wins))
        if {self.wins.shape, self.asked.shape, self.squares.shape, self.moments.shape} != {square}:
            raise ValueError("the counts of private answers do not have the same items")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return len(self.wins)

    @property
    def rankings(self) -> int:
        """How many rankings there are, those without a pair among them."""
        return int(self.lengths.sum())

    @property
    def complete(self) -> bool:
        """Whether every ranking holds all items."""
        return len(self.lengths) > self.n_items and not self.lengths[:-1].any()

    def arrays(self) -> dict[str, Integers]:
        """The counts by name."""
        return {
            "wins": self.wins,
            "asked": self.asked,
            "squares": self.squares,
            "moments": self.moments,
            "lengths": self.lengths,
        }


def weights_of(lengths: Integers, law: RandomPairs) -> Integers:
    """The weight of an answer of each ranking, by the length of its list."""
    if law.hide is Hide.ITEMS:
        return np.ones(len(lengths), np.int64)
    return np.asarray(np.maximum(lengths * (lengths - 1) // 2, law.pairs), np.int64)


def unit_of(law: RandomPairs, n_items: int) -> float:
    """Rankings that a weight of 1 stands for."""
    return (n_pairs(n_items) if law.hide is Hide.ITEMS else 1) / law.pairs


def count_answers(
    answers: PairAnswers, n_items: int, max_length: int, law: RandomPairs
) -> PairAnswerCounts:
    """The counts of some answers.

    Raises:
        ValueError: a ranking is longer than `max_length`, or the sums would not fit into 64 bits.
    """
    counts = no_answers(n_items, max_length)
    if len(answers) and answers.lengths.max() > max_length:
        raise ValueError(f"a ranking has more than {max_length} items")
    counts.lengths[:] = np.bincount(answers.lengths, minlength=max_length + 1)
    weight = weights_of(answers.lengths, law)[answers.ranking]
    cell = answers.first * n_items + answers.second
    flipped = answers.second * n_items + answers.first
    above = np.where(answers.outcome > 0, cell, flipped)
    said = answers.outcome != 0
    shape = (n_items, n_items)
    counts.wins[:] = _summed(above[said], weight[said], shape)
    for total, values in ((counts.asked, weight), (counts.squares, weight**2)):
        total[:] = _summed(cell, values, shape)
        total += total.T
    signed = weight * answers.outcome
    rows = np.concatenate([answers.ranking, answers.ranking])
    columns = np.concatenate([answers.first, answers.second])
    nets = scipy.sparse.csr_array(
        (np.concatenate([signed, -signed]), (rows, columns)), (len(answers), n_items)
    )
    counts.moments[:] = (nets.T @ nets).toarray()
    return merge_answers([counts])


def no_answers(n_items: int, max_length: int) -> PairAnswerCounts:
    """The counts of nothing."""
    wins, asked, squares, moments = np.zeros((4, n_items, n_items), np.int64)
    return PairAnswerCounts(wins, asked, squares, moments, np.zeros(max_length + 1, np.int64))


def merge_answers(parts: Iterable[PairAnswerCounts]) -> PairAnswerCounts:
    """The counts of all answers of `parts`, at least one.

    Raises:
        ValueError: the sums would not fit into 64 bits.
    """
    total: dict[str, Any] = {}
    for part in parts:
        for name, array in part.arrays().items():
            total[name] = total[name] + array if name in total else array.copy()
    if float(np.diagonal(total["moments"]).max()) > LARGEST_SUM:
        raise ValueError("there are too many rankings of so many items for sums of 64 bits")
    return PairAnswerCounts(**total)


def _summed(cells: Integers, weights: Integers, shape: tuple[int, int]) -> Integers:
    """Sums of weights by cell, exact: in two halves, for floats hold whole numbers to 2^53."""
    total = np.zeros(shape[0] * shape[1], np.int64)
    for half, shift in ((weights & LOW_HALF, 0), (weights >> LOW_BITS, LOW_BITS)):
        found = np.bincount(cells, half.astype(np.float64), len(total))
        total += np.rint(found).astype(np.int64) << shift
    return total.reshape(shape)


FEWEST_ANSWERS = 4  # to a pair, on average, for its own mean to be used


@dataclass(frozen=True, slots=True, eq=False)
class AnswerSums:
    """What private answers add up to, of rankings with one law or with several.

    An answer counts for as many rankings as it stands for, times the weight of its ranking. Arrays
    have shape (n, n); rows and columns are items.

    Attributes:
        margins: sums of what the answers say, +1 or -1, undone by the t of their law.
        asked: sums of weights, whatever the answers say; symmetric.
        squares: sums of squared weights; symmetric.
        spread: sums of squares of what the answers say, undone; symmetric.
        moments: sums over rankings of products of two items' nets, undone.
        rankings: how many rankings there are.
        effective: rankings of equal weight that are worth as much.
        attenuation: t; of several laws that with the same mean of 1 / t^2.
        largest: the most that one answer counts, undone.
        together: expected sum of squared weights of a ranking that was asked about both of two
            given pairs; 0 where every ranking answers one.
        enough: the answers suffice for each pair's own mean, and each ranking was asked alike.
        every: each ranking was asked alike: lists are complete, or their items are hidden.
        ranked: which items somebody surely ranked, shape (n,).
        longest: items of the longest list.
        hide: what is private.
        undone: whether answers were divided by t.
    """

    margins: Floats
    asked: Floats
    squares: Floats
    spread: Floats
    moments: Floats
    rankings: int
    effective: float
    attenuation: float
    largest: float
    together: float
    enough: bool
    every: bool
    ranked: NDArray[np.bool_]
    longest: int
    hide: Hide
    undone: bool

    @classmethod
    def of(
        cls,
        levels: Sequence[tuple[PairAnswerCounts, RandomPairs]],
        weights: Floats | None = None,
        *,
        undone: bool = True,
    ) -> AnswerSums:
        """The sums over all levels, at least one.

        Args:
            levels: counts of private answers, and the law by which they were drawn.
            weights: of a ranking of each level, with the mean 1; None: all count alike.
            undone: divide by t; False: count the answers as they are.
        """
        weights = np.ones(len(levels)) if weights is None else weights
        parts = [
            _of_level(counts, law, float(weight), undone=undone)
            for (counts, law), weight in zip(levels, weights, strict=True)
        ]
        total = {name: np.sum([part[name] for part in parts], axis=0) for name in parts[0]}
        n_items, hide = levels[0][0].n_items, levels[0][1].hide
        n = np.array([counts.rankings for counts, _ in levels], np.float64)
        every = hide is Hide.ITEMS or all(
            counts.complete for counts, _ in levels if counts.rankings
        )
        asked = sum(counts.rankings * law.pairs for counts, law in levels)
        squared = float(total["squares"].sum())
        attenuation = math.sqrt(squared / float(total["undone"].sum())) if squared else 1.0
        if len(levels) == 1:
            attenuation = levels[0][1].attenuation if undone else 1.0
        lengths = [int(np.flatnonzero(counts.lengths).max(initial=0)) for counts, _ in levels]
        return cls(
            margins=total["margins"],
            asked=total["asked"],
            squares=total["squares"],
            spread=total["spread"],
            moments=total["moments"],
            rankings=int(n.sum()),
            effective=float(n.sum() ** 2 / max(np.square(weights) @ n, np.finfo(float).tiny)),
            attenuation=attenuation,
            largest=max(float(part["largest"]) for part in parts),
            together=float(total["together"]),
            enough=every and asked >= FEWEST_ANSWERS * n_pairs(n_items),
            every=every,
            ranked=_ranked(levels) if hide is Hide.ITEMS else total["asked"].any(axis=1),
            longest=max(lengths) or n_items,
            hide=hide,
            undone=undone,
        )

    @property
    def mean(self) -> Floats:
        """Margin shares mu, antisymmetric; 0 where nobody was asked."""
        return np.asarray(self.margins / np.where(self.asked > 0, self.asked, 1.0))

    @property
    def answers(self) -> Floats:
        """Effective number of answers to each pair."""
        return np.asarray(self.asked**2 / np.where(self.squares > 0, self.squares, 1.0))

    @property
    def square(self) -> Floats:
        """Mean square of an undone answer to each pair."""
        return np.asarray(self.spread / np.where(self.squares > 0, self.squares, 1.0))

    @property
    def null_variance(self) -> Floats:
        """Variance of a margin share of 0, the largest of any share; 1 where nobody answered."""
        own = self.square / np.maximum(self.answers, 1)
        return np.asarray(np.where(self.answers > 0, own, 1.0))

    @property
    def variance(self) -> Floats:
        """Variance of a margin share: the estimated variance of one answer, over their number."""
        spread, answers = self.square, self.answers
        few = np.maximum(answers - 1, 1) / np.maximum(answers, 1)
        own = (spread - self.mean**2) / few
        own = np.clip(own, np.maximum(spread - 1, 0), spread) / np.maximum(answers, 1)
        return np.asarray(np.where(answers > 1, own, self.null_variance))


def precision_of(law: RandomPairs) -> float:
    """1 / the variance that an answered ranking adds to a pair's margin share, but for a factor.

    d t^2 over the chance that an answer is not 0, where both items are ranked.
    """
    said = 1.0 if law.hide is Hide.ORDER else 1 - law.threshold / 2.0**64
    return law.pairs * law.attenuation**2 / said


def answered_pairs(answers: AnswerSums) -> RankingEvidence:
    """Margins of all pairs, for the Kemeny order."""
    if answers.enough:
        totals = np.full(answers.mean.shape, float(answers.rankings))
        margins, squares = totals * answers.mean, totals**2 * answers.null_variance
    else:
        totals, margins, squares = answers.asked.copy(), answers.margins, answers.spread.copy()
    np.fill_diagonal(totals, 0.0)
    np.fill_diagonal(squares, 0.0)
    return RankingEvidence((totals + margins) / 2, totals, squares, answers.rankings)


def answered_nets(answers: AnswerSums) -> NetEvidence:
    """Sums of half nets over all rankings, for Borda scores."""
    n = answers.rankings
    if answers.enough:
        sums = n * answers.mean.sum(axis=1) / 2
        covariance = laplacian(_off_diagonal(n**2 * answers.variance / 4))
        covariance = covariance + _common(answers, answers.mean / 2)
    else:
        sums = answers.margins.sum(axis=1) / 2
        covariance = answers.moments / 4 - np.outer(sums, sums) / max(answers.effective, 1)
    return _evidence(answers, sums, covariance, 1.0)


def fitted_nets(answers: AnswerSums, ridge: float) -> NetEvidence:
    """Sums of half nets over the answers, for a likelihood of the answers given their pairs.

    Answers are weighted so that they count as one each on average. Their variance is taken around
    the shares of fitted scores, so it holds how often each pair was drawn too.

    Raises:
        ValueError: the items of rankings are hidden, so nobody knows how many hold a pair.
        ConvergenceError: no minimum was reached.
    """
    if answers.hide is Hide.ITEMS:
        raise ValueError("answers that hide which items were ranked have no likelihood by pairs")
    squares, asked = float(answers.squares.sum()), float(answers.asked.sum())
    scale = asked / squares if squares > 0 else 1.0
    sums = scale * answers.margins.sum(axis=1) / 2
    fitted = _margins_of_fit(scale * answers.asked, sums, ridge / answers.attenuation**2)
    covariance = scale**2 * (products_of_answers(answers, fitted) + _common(answers, fitted))
    return _evidence(answers, sums, covariance, scale)


def products_of_answers(answers: AnswerSums, expected: Floats) -> Floats:
    """Sum over answers of the product of two items' nets less the expected ones, shape (n, n).

    Args:
        answers: what was answered.
        expected: half the margin share that each pair is taken to have, shape (n, n).
    """
    around = answers.spread / 4 + answers.squares * (expected**2 - expected * answers.mean)
    return laplacian(_off_diagonal(around))


def products_of_rankings(answers: AnswerSums, expected: Floats) -> Floats:
    """The same over two different answers of one ranking; 0 where a ranking answers one pair.

    Two given pairs are drawn together by a share d (d - 1) / (P (P - 1)) of the rankings. Of
    partial lists nobody knows which are, and nothing is taken off: the result is then too large.
    """
    if answers.together == 0:
        return np.zeros(answers.asked.shape)
    products = (answers.moments - laplacian(_off_diagonal(answers.spread))) / 4
    if answers.every:
        half, known = answers.mean.sum(axis=1) / 2, expected.sum(axis=1)
        crossed = np.outer(half, known)
        alone = laplacian(_off_diagonal(expected**2 - expected * answers.mean))
        products = products - answers.together * (
            crossed + crossed.T - np.outer(known, known) + alone
        )
    return np.asarray(products)


def _of_level(
    counts: PairAnswerCounts, law: RandomPairs, weight: float, *, undone: bool
) -> dict[str, Any]:
    """The sums of one law's answers; `weight` is that of a ranking."""
    t, unit = law.attenuation if undone else 1.0, weight * unit_of(law, counts.n_items)
    said = (counts.wins + counts.wins.T) / np.maximum(counts.asked, 1.0)
    pairs, largest = n_pairs(counts.n_items), unit * _largest_weight(counts, law)
    d, together = min(law.pairs, pairs), 0.0
    if d > 1:
        together = counts.rankings * d * (d - 1) / (pairs * max(pairs - 1, 1)) * largest**2
    return {
        "margins": unit / t * (counts.wins - counts.wins.T),
        "asked": unit * counts.asked.astype(np.float64),
        "squares": unit**2 * counts.squares.astype(np.float64),
        "undone": (unit / t) ** 2 * counts.squares.astype(np.float64),
        "spread": (unit / t) ** 2 * said * counts.squares,
        "moments": (unit / t) ** 2 * counts.moments.astype(np.float64),
        "largest": largest / t if counts.rankings else 0.0,
        "together": together,
    }


def _common(answers: AnswerSums, expected: Floats) -> Floats:
    """What the answers of one ranking vary together; none takes variance away.

    `expected` has half the margin share of each pair; see `products_of_rankings`.
    """
    if answers.together == 0:
        return np.zeros(answers.asked.shape)
    values, vectors = np.linalg.eigh(products_of_rankings(answers, expected))
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _margins_of_fit(totals: Floats, sums: Floats, ridge: float) -> Floats:
    """Half the margin shares that scores would have which explain the sums, shape (n, n)."""
    require_fittable(len(sums), ridge)
    scores = minimise(Objective(totals / 2, LOGISTIC, 2 * ridge, -sums)).theta
    return np.asarray(LOGISTIC.cdf(score_differences(scores)) - 0.5)


def _largest_weight(counts: PairAnswerCounts, law: RandomPairs) -> float:
    """Largest weight of an answer of any of the rankings."""
    if law.hide is Hide.ITEMS:
        return 1.0
    longest = int(np.flatnonzero(counts.lengths).max(initial=0))
    return float(max(n_pairs(longest), law.pairs))


def _evidence(answers: AnswerSums, sums: Floats, covariance: Floats, scale: float) -> NetEvidence:
    """Evidence with this covariance; an answer of the largest weight more is added to it.

    Args:
        answers: what was answered.
        sums: of half nets.
        covariance: of the sums.
        scale: what the answers were multiplied by.
    """
    totals = scale * answers.asked
    if answers.hide is Hide.ITEMS:
        totals = np.where(answers.ranked[:, np.newaxis] & answers.ranked, totals, 0.0)
    return NetEvidence(
        sums=sums,
        moments=covariance + np.outer(sums, sums) / max(answers.rankings, 1),
        totals=_off_diagonal(totals),
        rankings=answers.rankings,
        one=scale * answers.largest / 2,
        longest=answers.longest,
        bias=0.0 if answers.undone else np.inf,
        kept=answers.attenuation if answers.undone else 1.0,
    )


def _ranked(levels: Sequence[tuple[PairAnswerCounts, RandomPairs]]) -> NDArray[np.bool_]:
    """Which items somebody surely ranked, where it is hidden which items a list holds.

    The answers to pairs of an item that nobody ranked say "not both ranked", but for chance: each
    says another thing with the known chance of both other answers, apart from all others.
    """
    found = np.zeros(levels[0][0].n_items, np.bool_)
    for counts, law in levels:
        said, asked = (counts.wins + counts.wins.T).sum(axis=1), counts.asked.sum(axis=1)
        chance = 2 * law.threshold / 2.0**64
        tail = LEVEL / 2 / counts.n_items / len(levels)
        found |= said > scipy.stats.binom.isf(tail, asked, chance)
    return found


def _off_diagonal(matrix: Floats) -> Floats:
    off = np.array(matrix, np.float64)
    np.fill_diagonal(off, 0.0)
    return off
