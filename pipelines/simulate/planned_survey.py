"""Simulated surveys of a planned size, as the counts that a mechanism gets.

No real answer is read. Counts are drawn directly, not row by row, so a survey of millions takes as
long as one of hundreds. The generators are numpy's; no release draws from here.

An `Arena` is a log with an unbalanced design: some items are shown far more often than others, and
some came late. Comparisons may end in ties, which a survey counts in each of the ways there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from hushrank.estimation.common.links import LOGISTIC, Floats, Link
from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS, PairCounts
from hushrank.estimation.comparisons.planning import Exposures
from hushrank.estimation.fit.weighted_pairs import UNITS, weighted_sums
from hushrank.estimation.ties.tie_models import TieModel, outcomes_of
from hushrank.transforms.common.schema import Ties

ROUND_TOTAL = 1e9  # exposures are scaled to it before the fit, so that none is near zero
Counts = NDArray[np.int64]
Activity = tuple[tuple[int, float], ...]  # answers of a person, and the share of people with them
MOST_SIMULATED = MOST_DENSE_ITEMS  # most items; a survey is simulated as matrices of all pairs
WHOLE = 1 - 1e-12  # a chance above this is certain, up to rounding
MOST_CHOICES = 20_000  # of the items of a list, over which a share is averaged
MOST_PAIRS_OF_LISTS = 2e8  # most pairs in all simulated rankings; some seconds
MOST_WORK = 2e10  # most people times items squared of a simulated test; a minute or so


@dataclass(frozen=True, slots=True)
class Meetings:
    """Number of times that two items meet, in a design that is not balanced.

    Attributes:
        factors: shape (n,), each > 0; two items meet in proportion to the product of their factors.
        matched: distance of partners' scores; None: they meet by chance.
        pairs: shape (n, n), how often each pair meets, whatever the factors say; None: as they say.
    """

    factors: tuple[float, ...]
    matched: float | None = None
    pairs: Floats | None = field(default=None, compare=False)

    @classmethod
    def zipf(cls, n_items: int, exponent: float, matched: float | None = None) -> Self:
        """Items shown in proportion to 1 / k^exponent, the first one most often."""
        return cls(tuple((1 / np.arange(1.0, n_items + 1) ** exponent).tolist()), matched)

    @classmethod
    def shown(cls, exposures: Sequence[float], matched: float | None = None) -> Self:
        """Items shown in proportion to known numbers; only roughly if partners are matched.

        Args:
            exposures: exposure of each item, at least 0, none above the sum of the others.
            matched: see the class.
        """
        values = np.array(exposures, np.float64)
        fitted = Exposures(ROUND_TOTAL * values / values.sum(), 0.0).factors()
        return cls(tuple(fitted.tolist()), matched)

    def shares(self, truth: Floats) -> Floats:
        """Share of all comparisons that each pair gets, shape (n, n): symmetric, its sum is 2."""
        if self.pairs is not None:
            return np.asarray(2 * self.pairs / self.pairs.sum())
        chance = np.outer(self.factors, self.factors)
        if self.matched is not None:
            chance *= np.exp(-(np.subtract.outer(truth, truth) ** 2) / (2 * self.matched**2))
        np.fill_diagonal(chance, 0)
        return np.asarray(2 * chance / chance.sum())


@dataclass(frozen=True)
class Arena:
    """Comparisons whose two items are drawn by chance, in proportion to their exposure.

    Attributes:
        n_items, comparisons: the numbers of items and of comparisons.
        spread: standard deviation of the true scores.
        zipf: exponent of the exposures.
        late: items that came late, and were shown a fifth as often as their place implies.
        matched: distance of partners' scores; None: they meet by chance.
    """

    n_items: int
    comparisons: int
    zipf: float = 1.0
    spread: float = 0.7
    late: int = 0
    matched: float | None = None
    link: Link = LOGISTIC

    def truth(self, generator: np.random.Generator) -> Floats:
        """Scores that sum to zero, shape (n,)."""
        scores = generator.normal(0, self.spread, self.n_items)
        return np.asarray(scores - scores.mean())

    def design(self, truth: Floats, generator: np.random.Generator) -> Floats:
        """Expected comparisons of each pair."""
        shown = generator.permutation(1 / np.arange(1.0, self.n_items + 1) ** self.zipf)
        shown[generator.choice(self.n_items, self.late, replace=False)] /= 5
        return self.comparisons * Meetings(tuple(shown.tolist()), self.matched).shares(truth)

    def answers(self, truth: Floats, design: Floats, generator: np.random.Generator) -> PairCounts:
        """Draw who beat whom how often."""
        asked = generator.poisson(np.triu(design))
        won = generator.binomial(asked, self.link.cdf(np.subtract.outer(truth, truth)))
        return PairCounts((won + (asked - won).T).astype(np.int64))


def tied(
    wins: Counts,
    truth: NDArray[np.float64],
    ties: float,
    model: TieModel,
    rng: np.random.Generator,
) -> Counts:
    """Simulate as many comparisons of each pair as in `wins`, with outcomes of a tie model.

    Args:
        wins: shape (n, n); only how often each pair met counts.
        truth: scores, shape (n,).
        ties: chance that equals tie, between 0 and 1.
        model: model of ties.
        rng: source of outcomes.

    Returns:
        Wins and ties, shape (2, n, n); ties above the diagonal.
    """
    i, j = np.triu_indices(len(truth), 1)
    probabilities = outcomes_of(model, truth[i] - truth[j], float(logit(ties))).probabilities
    won, lost, alike = rng.multinomial(wins[i, j] + wins[j, i], probabilities.T).T
    cells = np.zeros((2, *wins.shape), np.int64)
    cells[0, i, j], cells[0, j, i], cells[1, i, j] = won, lost, alike
    return cells


def counts_of(cells: NDArray[np.int64], way: Ties, coins: tuple[int, ...]) -> NDArray[np.int64]:
    """Return what a way of treating ties counts of comparisons.

    Args:
        cells: wins and ties, shape (2, n, n), ties above the diagonal.
        way: rule for ties.
        coins: seeds of a coin for each tie.
    """
    wins, ties = cells
    if way is Ties.MODEL:
        return cells
    if way is Ties.SPLIT:
        return np.asarray(2 * wins + ties + ties.T)
    if way is Ties.RANDOM:
        first = np.random.default_rng(coins).binomial(ties, 0.5)
        return np.asarray(wins + first + (ties - first).T)
    return np.asarray(wins)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSurvey:
    """Public facts about a survey before anybody was asked, and assumptions about the world.

    Attributes:
        n_items: n.
        people: number of people who answer.
        answers: answers of each person that count, to pairs (or test items) drawn at random.
        meetings: pairs that are drawn more often than others; None: all equally often.
        activity: number of answers that people give, whatever counts of them; empty: `answers`
            each.
        group: number of a group of people, each with draws of its own.
        distinct: whether nobody meets a pair twice.
        link: F, how scores become probabilities.
        spread: standard deviation of the true scores, drawn from a normal law.
        ability_spread: standard deviation of the abilities, in a test.
        shares: share of the answers of each group of rows; empty: there are no groups.
        group_spread: standard deviation of a group's true scores around those of the whole.
        ties: chance that two items of equal scores tie; 0: nobody says that they are alike.
        tie_model: model by which ties follow from scores.
        seed: the same seed and replicate give the same world, whatever the other fields are.

    Raises:
        ValueError: a field breaks its rule; the text names it.
    """

    n_items: int
    people: int
    answers: int
    distinct: bool
    link: Link
    spread: float = 1.0
    ability_spread: float = 1.0
    seed: int = 0
    meetings: Meetings | None = None
    activity: Activity = ()
    group: int = 0
    shares: tuple[float, ...] = ()
    group_spread: float = 0.0
    ties: float = 0.0
    tie_model: TieModel = TieModel.DAVIDSON

    def __post_init__(self) -> None:
        if self.n_items < 2:
            raise ValueError(f"items must be at least 2, got {self.n_items}")
        if self.n_items > MOST_SIMULATED:
            raise ValueError(
                f"items must be at most {MOST_SIMULATED} to simulate a survey, got {self.n_items};"
                " plan one of fewer items in which an item is compared as often"
            )
        for name in ("people", "answers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("spread", "ability_spread", "group_spread"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"{name} must be finite and >= 0, got {getattr(self, name)!r}")
        if not 0 <= self.ties < 1:
            raise ValueError(f"ties must be from 0 to below 1, got {self.ties!r}")

    @property
    def pair_comparisons(self) -> float:
        """Expected comparisons of one pair."""
        return self.people * self.answers / self.n_pairs

    @property
    def n_pairs(self) -> int:
        """Unordered pairs of items."""
        return self.n_items * (self.n_items - 1) // 2

    def groups(self, *, all_count: bool) -> Iterator[tuple[int, PlannedSurvey]]:
        """People who are alike: how many answers each gives, and the survey of them alone.

        Args:
            all_count: whether all their answers count; otherwise `answers` at most.
        """
        shares = self.activity or ((self.answers, 1.0),)
        ends = np.rint(np.cumsum([share for _, share in shares]) * self.people).astype(int)
        for group, people in enumerate(np.diff(ends, prepend=0).tolist()):
            rows = min(shares[group][0], self.n_pairs) if self.distinct else shares[group][0]
            if people:
                counted = rows if all_count else min(rows, self.answers)
                yield (
                    rows,
                    replace(self, people=people, answers=counted, activity=(), group=group),
                )

    def truth(self, replicate: int) -> NDArray[np.float64]:
        """True scores or difficulties of one replicate, shape (n,); they sum to zero."""
        scores = self._generator(0, replicate).normal(0.0, self.spread, self.n_items)
        return np.asarray(scores - scores.mean())

    def unit_errors(self, replicate: int) -> NDArray[np.float64]:
        """Independent normal errors of variance 1, shape (n,), where no survey is simulated."""
        return self._generator(6, replicate).standard_normal(self.n_items)

    def true_shares(self, truth: NDArray[np.float64]) -> NDArray[np.float64]:
        """Share of its comparisons that each item wins in a balanced design, less one half."""
        probabilities = self.link.cdf(truth[:, None] - truth[None, :])
        np.fill_diagonal(probabilities, 0.0)
        return np.asarray(probabilities.sum(axis=1) / (self.n_items - 1) - 0.5)

    def pair_wins(self, replicate: int) -> Counts:
        """Draw how often each item beat each other item, shape (n, n)."""
        own = (self.group,) if self.group else ()
        rng, truth = self._generator(1, replicate, *own), self.truth(replicate)
        i, j = np.triu_indices(self.n_items, 1)
        probabilities = self._pair_probabilities(truth)
        if self.distinct:
            totals = rng.binomial(self.people, probabilities)
        else:
            totals = rng.multinomial(self.people * self.answers, probabilities)
        won = rng.binomial(totals, self.link.cdf(truth[i] - truth[j]))
        wins = np.zeros((self.n_items, self.n_items), np.int64)
        wins[i, j], wins[j, i] = won, totals - won
        return wins

    def group_truth(self, replicate: int, group: int) -> NDArray[np.float64]:
        """True scores of one group, shape (n,); they sum to zero."""
        own = self._generator(3, replicate, group).normal(0.0, self.group_spread, self.n_items)
        return np.asarray(self.truth(replicate) + own - own.mean())

    def truth_of_all(self, replicate: int) -> NDArray[np.float64]:
        """True scores of all answers together: of groups the mean, weighed by their shares."""
        if not self.shares:
            return self.truth(replicate)
        of_groups = [self.group_truth(replicate, k) for k in range(len(self.shares))]
        return np.asarray(np.average(of_groups, axis=0, weights=self.shares))

    def grouped_wins(self, replicate: int) -> Counts:
        """Draw how often each item beat each other in each group, shape (g, n, n)."""
        whole, rng = self.pair_wins(replicate), self._generator(4, replicate)
        i, j = np.triu_indices(self.n_items, 1)
        totals = rng.multinomial(whole[i, j] + whole[j, i], self.shares).T
        wins = np.zeros((len(self.shares), self.n_items, self.n_items), np.int64)
        for group, asked in enumerate(totals):
            truth = self.group_truth(replicate, group)
            won = rng.binomial(asked, self.link.cdf(truth[i] - truth[j]))
            wins[group, i, j], wins[group, j, i] = won, asked - won
        return wins

    def with_ties(self, wins: Counts, replicate: int) -> Counts:
        """The comparisons of `wins` with ties: wins and ties of each pair, shape (2, n, n).

        Args:
            wins: number of wins of each item over each other, if nobody may say that they are
                alike.
            replicate: number of the replicate.
        """
        own = (self.group,) if self.group else ()
        rng, truth = self._generator(5, replicate, *own), self.truth(replicate)
        return tied(wins, truth, self.ties, self.tie_model, rng)

    def grouped_ties(self, wins: Counts, replicate: int) -> Counts:
        """Add ties in each group: of shape (g, n, n), shape (g, 2, n, n)."""
        rng = self._generator(5, replicate)
        truths = [self.group_truth(replicate, group) for group in range(len(wins))]
        each = zip(wins, truths, strict=True)
        return np.stack([tied(w, truth, self.ties, self.tie_model, rng) for w, truth in each])

    def exposures(self, replicate: int) -> NDArray[np.float64]:
        """Expected comparisons in which each item takes part, shape (n,)."""
        probabilities = self._pair_probabilities(self.truth(replicate))
        expected = self.people * (probabilities if self.distinct else self.answers * probabilities)
        i, j = np.triu_indices(self.n_items, 1)
        sides = np.bincount(i, expected, self.n_items) + np.bincount(j, expected, self.n_items)
        return np.asarray(sides)

    def randomised_sums(self, replicate: int, epsilon: float, *, weighted: bool) -> Counts:
        """S and W of randomised answers, shape (2, n, n), upper triangle, in units of 2^-30.

        Args:
            replicate: number of the replicate.
            epsilon: epsilon of each answer.
            weighted: debiased sums, instead of counts of randomised answers.
        """
        ones, totals = self._randomised(replicate, epsilon)
        if not weighted:
            return np.stack((ones, totals)) * UNITS
        one, zero = (
            weighted_sums(np.array([1]), np.array([answer], np.uint8), epsilon, self.n_items)
            for answer in (1, 0)
        )
        s = ones * int(one[0][0, 1]) + (totals - ones) * int(zero[0][0, 1])
        return np.stack((s, totals * int(one[1][0, 1])))

    def laplace_sums(self, replicate: int, epsilon: float) -> Counts:
        """S and W of answers that each got Laplace noise of scale 1 / epsilon."""
        rng, wins = self._generator(2, replicate), self.pair_wins(replicate)
        upper = np.triu(np.ones_like(wins, bool), 1)
        totals = np.where(upper, wins + wins.T, 0)
        noise = (rng.gamma(totals) - rng.gamma(totals)) / epsilon  # a sum of `totals` Laplace draws
        s = np.rint((np.where(upper, wins, 0) + noise) * UNITS).astype(np.int64)
        return np.stack((s, totals * UNITS))

    def right_wrong(self, replicate: int, booklets: Sequence[Sequence[int]] = ()) -> Counts:
        """Count the people who were right on one item and wrong on another, shape (n, n).

        Args:
            replicate: number of the survey.
            booklets: as for `sheets`.

        Raises:
            ValueError: a test of this size takes too long to simulate.
        """
        counts = np.zeros((self.n_items, self.n_items))
        for answered, right in self.sheets(replicate, booklets):
            counts += right.T.astype(np.float32) @ (answered & ~right).astype(np.float32)
        return np.rint(counts).astype(np.int64)

    def sheets(
        self, replicate: int, booklets: Sequence[Sequence[int]] = (), group: int = 0
    ) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        """Yield who answered what, and who was right: (answered, right), both shape (people, n).

        Yields a block of people at a time; each person answers `answers` items, drawn at random.

        Args:
            replicate: number of the survey.
            booklets: items of each; people answer one of them, drawn at random, as a whole.
            group: group of the people, where there are groups.

        Raises:
            ValueError: a test of this size takes too long to simulate.
        """
        if self.people * self.n_items**2 > MOST_WORK:
            most = int(MOST_WORK / self.n_items**2)
            raise ValueError(f"people must be at most {most:,} to simulate a test of this length")
        from hushrank.pipelines.simulate.simulated_rows import draw_distinct

        everybody, truth, rng = self._people_of(replicate, group)
        at_once = max(1, (1 << 22) // self.n_items)
        for first in range(0, everybody, at_once):
            people = min(at_once, everybody - first)
            answered = np.zeros((people, self.n_items), bool)
            if booklets:
                whose = rng.integers(len(booklets), size=people)
                for booklet, items in enumerate(booklets):
                    answered[np.ix_(np.flatnonzero(whose == booklet), np.array(items))] = True
            else:
                keys = draw_distinct(np.full(people, self.answers), self.n_items, rng)
                answered.flat[keys] = True
            ability = rng.normal(0.0, self.ability_spread, people)
            right = answered & (rng.random(answered.shape) < expit(ability[:, None] - truth))
            yield answered, right

    def _people_of(self, replicate: int, group: int) -> tuple[int, Floats, np.random.Generator]:
        """How many people a group has, its true scores, and where its answers come from."""
        rng = self._generator(1, replicate, *((group,) if group else ()))
        if not self.shares:
            return self.people, self.truth(replicate), rng
        ends = np.rint(np.cumsum([0.0, *self.shares]) * self.people).astype(int)
        return int(np.diff(ends)[group]), self.group_truth(replicate, group), rng

    def points(
        self, replicate: int, most: Sequence[int], group: int = 0
    ) -> Iterator[NDArray[np.uint8]]:
        """Points of whole sheets, shape (people, n), a block of people at a time.

        An item's steps have its difficulty, as in the rating scale model without thresholds: the
        chance of h points is proportional to exp(h (ability - difficulty)).

        Args:
            replicate: number of the survey.
            most: points that each item gives at most.
            group: group of the people, where there are groups.

        Raises:
            ValueError: a test of this size takes too long to simulate.
        """
        steps = int(max(most))
        everybody, truth, rng = self._people_of(replicate, group)
        if self.people * self.n_items * (steps + 1) > MOST_WORK:
            raise ValueError("people must be fewer to simulate a test with so many points")
        at_once = max(1, (1 << 22) // (self.n_items * (steps + 1)))
        number = np.arange(steps + 1)
        given = number <= np.array(most)[:, np.newaxis]
        for first in range(0, everybody, at_once):
            people = min(at_once, everybody - first)
            ahead = rng.normal(0.0, self.ability_spread, people)[:, np.newaxis] - truth
            weights = np.exp(ahead[..., np.newaxis] * number) * given
            below = weights.cumsum(axis=2)
            drawn = rng.random(ahead.shape) * below[..., -1]
            yield (drawn[..., np.newaxis] >= below[..., :-1]).sum(axis=2).astype(np.uint8)

    def orders(self, replicate: int, length: int, group: int | None = None) -> Counts:
        """Rankings of `length` items each, drawn at random, shape (people * answers, length).

        Each row holds items, best first, by the law of Plackett and Luce: two items of a ranking
        are in their true order with the chance of the logistic link. Of a group there are as many
        as its share says.

        Raises:
            ValueError: so many rankings take too long to simulate.
        """
        lists, rng, truth = self._lists(replicate, group)
        if lists * length**2 > MOST_PAIRS_OF_LISTS:
            most = int(MOST_PAIRS_OF_LISTS / (self.answers * length**2))
            raise ValueError(f"people must be at most {most:,} to simulate rankings of this length")
        orders = np.empty((lists, length), np.int64)
        at_once = max(1, (1 << 22) // self.n_items)
        for first in range(0, lists, at_once):
            block = orders[first : first + at_once]
            utility = truth + rng.gumbel(size=(len(block), self.n_items))
            if length < self.n_items:
                chosen = rng.random(utility.shape).argpartition(length, axis=1)[:, :length]
                places = np.argsort(-np.take_along_axis(utility, chosen, 1), axis=1)
                block[:] = np.take_along_axis(chosen, places, 1)
            else:
                block[:] = np.argsort(-utility, axis=1)
        return orders

    def first_shares(self, truth: Floats, length: int) -> Floats:
        """Share of rankings of `length` items that have each item first, shape (n,), by `orders`.

        Of lists that leave items out it is the mean over many random choices of the items.
        """
        strength = np.exp(truth - truth.max())
        if length == self.n_items:
            return np.asarray(strength / strength.sum())
        chance = self._generator(5).random((MOST_CHOICES, self.n_items))
        chosen = strength * (chance.argsort(axis=1) < length)
        return np.asarray((chosen / chosen.sum(axis=1, keepdims=True)).mean(axis=0))

    def _lists(
        self, replicate: int, group: int | None
    ) -> tuple[int, np.random.Generator, NDArray[np.float64]]:
        """How many rankings there are, of all or of a group; their generator and true scores."""
        if group is None:
            rng, truth = self._generator(1, replicate), self.truth(replicate)
            return self.people * self.answers, rng, truth
        ends = np.rint(np.cumsum(self.shares) * self.people).astype(int)
        people = int(np.diff(ends, prepend=0)[group])
        rng, truth = self._generator(1, replicate, group), self.group_truth(replicate, group)
        return people * self.answers, rng, truth

    def _pair_probabilities(self, truth: NDArray[np.float64]) -> NDArray[np.float64]:
        """Chance of each pair i < j in the upper triangle's order, shape (n_pairs,).

        With `distinct`, the chance that a person is asked about the pair; otherwise the chance that
        an answer is about the pair.
        """
        shares = np.full(self.n_pairs, 1 / self.n_pairs)
        if self.meetings is not None:
            shares = self.meetings.shares(truth)[np.triu_indices(self.n_items, 1)]
        if not self.distinct:
            return np.asarray(shares / shares.sum() if self.meetings is not None else shares)
        return _filled(shares, min(self.answers, self.n_pairs))

    def _randomised(self, replicate: int, epsilon: float) -> tuple[Counts, Counts]:
        rng, wins = self._generator(2, replicate), self.pair_wins(replicate)
        upper = np.triu(np.ones_like(wins, bool), 1)
        won, lost = np.where(upper, wins, 0), np.where(upper, wins.T, 0)
        keep = float(expit(epsilon))
        ones = rng.binomial(won, keep) + rng.binomial(lost, 1 - keep)
        return ones.astype(np.int64), won + lost

    def _generator(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=stream))


def _filled(shares: NDArray[np.float64], answers: int) -> NDArray[np.float64]:
    """min(1, c shares) with sum `answers`: pairs that are certain leave the rest to the others."""
    met = shares > 0  # the others are asked of nobody
    if answers >= met.sum():
        return np.asarray(met, np.float64)
    probabilities = answers * shares / shares.sum()
    while (probabilities > 1).any():
        certain = probabilities >= WHOLE
        rest = np.where(certain, 0.0, shares)
        left = answers - int(certain.sum())
        probabilities = np.where(certain, 1.0, left * rest / rest.sum())
    return np.asarray(probabilities)
