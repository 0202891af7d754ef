"""Winners by the rules of elections, from noisy counts, and who could have won without the noise.

Margins D[a, b] are the rankings with a above b less those with b above a, with noise. All rules run
on D as it is; equal numbers, which noise makes rare, give several winners, and ranked pairs takes
items in the order of the catalogue there.

Law: with probability 95 % or more all of this holds at once. Every margin is within `sure_from` of
the one without noise, and every difference of Borda scores within its own reach. Both are bounds of
Bonferroni: the margins have nine tenths of the 5 %, the Borda scores one tenth. Noise is on whole
numbers, so half a step is added to what continuous noise would need. Of counts by place, all scores
of all rules share the 5 % evenly. So do public groups and all rankings together, where groups have
counts of their own.

Let L = D - sure_from and U = D + sure_from hold the true margins T. Then, whatever T is,

    condorcet     a beats all others only if all U[a, b] > 0, and surely if all L[a, b] > 0
    smith         the Smith set lies in the smallest set whose members surely beat all others; so do
                  the winners of copeland, schulze and ranked-pairs, which are in the Smith set
    copeland      a score (wins less losses) lies between those of the worst and of the best signs
    schulze       the widest path is monotone in the margins: no winner is a with path U[a, b] below
                  path L[b, a] for some b
    ranked-pairs  its winner is in the Split Cycle winners ([HP23]): L[b, a] > path U[a, b] excludes
    minimax       the largest defeat lies between the largest L[b, a] and the largest U[b, a]

Chances: given independent noise of known law, and every whole T as likely as any other beforehand,
a is the Condorcet winner with probability prod_b P(T[a, b] >= 1). A tie, T = 0, is no win, so each
factor is F(D - 1/2), F the distribution function of continuous noise, and F(D - 1) below D = 1/2.
Of Laplace noise F has the scale s of the discrete law. Then no factor is too large: with
p = exp(-1/s), a whole D >= 1 has P(T <= 0) = p^D / (1 + p) <= exp(-(D - 1/2) / s) / 2, because
2 exp(-1/(2s)) <= 1 + p, and one D <= 0 has P(T >= 1) = p^(1 - D) / (1 + p) >= exp((D - 1) / s) / 2.

Instant runoff by noisy rounds: exact first choices in, noisy rounds out, and what they say.

In each round a ranking counts for the best of its items that are left; without any it is exhausted.
The item with the smallest noisy count leaves, of equal ones the last of the catalogue, until one is
left. The noise of all rounds is drawn before the first one.

Exact counts. How a ranking counts depends on which items are left alone, so all rounds, whatever
leaves when, follow from one table: in how many rankings item a comes right after the items of a
set, in any order. A round is the sum of its rows whose items all have left. The table has a row for
each set of fewer items than the longest ranking has: its size is public.

Law: with probability 95 % or more all of this holds at once. Let m items be left in a round and k
of them be K. In the exact counts of these m, all of K together have less than each other one if

    (noisy count of a) - (noisy counts of K) > reach(m, k)    for each a that is not in K.

Then all of K leave before any other item does: as long as one of K is left, the rankings of those
are among those that counted for K at first, and the others never lose any. So whatever the order
in K, the next items left are the same, and what is surely so goes on from there.

For one K the statement is wrong only if the item a outside of K with the smallest exact count has
no more than all of K together, and its noise less theirs exceeds the reach: one event, as a does
not depend on the noise. Half of the 5 % of a round is for k = 1, where K would have to be one of
the m - 1 items that do not have the smallest exact count; so too if the one that has it is missing
from `possible`. The rest is shared evenly by the larger k, each with C(m, k) sets K (Bonferroni).
Rounds share the 5 % evenly. The noise of a round is independent of the items left in it, which
follow from earlier rounds.

References:
    [S11] Schulze. A new monotonic, clone-independent ... single-winner election method. 2011.
    [T87] Tideman. Independence of clones as a criterion for voting rules. 1987. (ranked pairs)
    [HP23] Holliday, Pacuit. Split Cycle: a new Condorcet-consistent voting method. 2023.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import CLEAR_TOTAL, Estimate
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL, log_tail, quantile
from hushrank.estimation.rankings.ranking_counts import Integers, NoisyRankings, tables_by_length
from hushrank.estimation.rankings.ranking_estimates import order_estimate
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.ranking_sensitivity import Part
from hushrank.privacy.units import NoiseKind

Mask = NDArray[np.bool_]

OF_MARGINS = ("condorcet", "smith", "copeland", "schulze", "ranked-pairs", "minimax", "borda")
PLURALITY, APPROVAL = "plurality", "approval-"
FOR_BORDA = 0.1  # share of the 5 % that Borda scores have


@dataclass(frozen=True, slots=True, kw_only=True)
class Margins:
    """Noisy margins and how far they may be off.

    Attributes:
        margins: shape (n, n), antisymmetric.
        deviation: standard deviation of the noise in a margin.
        kind: its law; `draws`, of how many equal draws it is the sum.
        step: by which the noise goes.
        boards: number of such tables, of groups and of all together, that share the 5 % evenly.
    """

    margins: Floats
    deviation: float
    kind: NoiseKind
    draws: int
    step: float
    boards: int = 1

    @classmethod
    def of(cls, counts: NoisyRankings) -> Margins:
        """From a release with `above`, or with `margins`."""
        if Part.MARGINS in counts.weights:
            return cls(
                margins=counts.of(Part.MARGINS),
                deviation=math.sqrt(counts.variance(Part.MARGINS)),
                kind=counts.law.kind,
                draws=counts.draws,
                step=1 / counts.weights[Part.MARGINS],
                boards=counts.boards,
            )
        wins = counts.parts[Part.ABOVE]
        return cls(
            margins=np.asarray((wins - wins.T) / counts.weights[Part.ABOVE], np.float64),
            deviation=math.sqrt(2 * counts.variance(Part.ABOVE)),
            kind=counts.law.kind,
            draws=2 * counts.draws,
            step=1 / counts.weights[Part.ABOVE],
            boards=counts.boards,
        )

    @property
    def sure_from(self) -> float:
        """What the noise of no margin exceeds, with nine tenths of the 5 %."""
        return self._reach(1 - FOR_BORDA, self.deviation)

    @property
    def called_from(self) -> float:
        """A margin that without the noise is so large is called sure with a chance of 95 %."""
        usual = noise_reach(LEVEL, self.deviation, self.kind, self.draws, self.step)
        return self.sure_from + usual

    def _reach(self, share: float, deviation: float) -> float:
        n = len(self.margins)
        tail = LEVEL * share / (n * (n - 1) * self.boards)
        return noise_reach(tail, deviation, self.kind, self.draws, self.step)

    def chances(self) -> Floats:
        """Chance of each item to beat all others without the noise, shape (n,)."""
        won = self.margins - np.where(self.margins < 0.5, 1.0, 0.5)
        if self.deviation == 0:
            below = np.where(self.margins > 0, 1.0, 0.0)
        elif self.kind is NoiseKind.GAUSSIAN:
            below = scipy.special.ndtr(won / self.deviation)
        else:
            steps = self.deviation / (math.sqrt(self.draws) * self.step)  # squared: 2 p / (1 - p)^2
            scale = self.step / (2 * math.asinh(1 / (math.sqrt(2) * steps)))
            below = _laplace_cdf(won / scale, self.draws)
        np.fill_diagonal(below, 1.0)
        return np.asarray(below.prod(axis=1))

    def result(self, rule: str) -> Result:
        """Winners by one of `OF_MARGINS`, and who could have won."""
        margins, reach = self.margins, self.sure_from
        low, high = margins - reach, margins + reach
        others = ~np.eye(len(margins), dtype=np.bool_)
        smith = smith_set((low > 0) & others)
        if rule == "condorcet":
            winners = np.asarray((margins > 0).sum(axis=1) == len(margins) - 1)
            possible = np.asarray(((high > 0) | ~others).all(axis=1))
            sure = ((low > 0) | ~others).all(axis=1).any() or not possible.any()
            return Result(rule, winners, possible, bool(sure))
        if rule == "smith":
            return Result.of(rule, smith_set((margins > 0) & others), smith)
        if rule == "copeland":
            worst = ((low > 0) & others).sum(axis=1) - ((low < 0) & others).sum(axis=1)
            best = ((high > 0) & others).sum(axis=1) - ((high < 0) & others).sum(axis=1)
            scores = np.sign(margins).sum(axis=1)
            return Result.of(rule, scores == scores.max(), smith & (best >= worst.max()))
        if rule == "minimax":
            defeats, least, most = (
                np.where(others, each, -np.inf).max(axis=1) for each in (-margins, -high, -low)
            )
            return Result.of(rule, defeats == defeats.min(), least <= most.min())
        if rule == "borda":
            scores, n = _in_steps(margins.sum(axis=1), self.step), len(margins)
            apart = self._reach(FOR_BORDA, math.sqrt(2 * n) * self.deviation)
            return Result.of(rule, scores == scores.max(), scores + apart >= scores.max())
        strongest = widest_paths(np.where(others, high, 0.0))
        if rule == "schulze":
            paths, weakest = widest_paths(margins), widest_paths(np.where(others, low, 0.0))
            winners = np.asarray((paths >= paths.T).all(axis=1))
            return Result.of(rule, winners, smith & (strongest >= weakest.T).all(axis=1))
        if rule == "ranked-pairs":
            kept = ((strongest >= low.T) | ~others).all(axis=1)
            return Result.of(rule, ranked_pairs_winners(margins), smith & kept)
        raise ValueError(f"rule must be one of {', '.join(OF_MARGINS)}, got {rule!r}")


@dataclass(frozen=True, slots=True)
class Result:
    """Winners by one rule.

    Attributes:
        rule: its name.
        winners: shape (n,), by the noisy counts; of `smith` the set.
        possible: shape (n,): nobody else wins without the noise, with 95 % for all rules at once.
        sure: the noisy counts and those without noise have the same winner, or `condorcet` surely
            has none.
    """

    rule: str
    winners: Mask
    possible: Mask
    sure: bool

    @classmethod
    def of(cls, rule: str, winners: Mask, possible: Mask) -> Result:
        """Result of a rule that always has a winner: it is sure if only one is possible."""
        return cls(rule, winners, possible, int(possible.sum()) == 1)


def positional_results(counts: NoisyRankings, rules: Sequence[str]) -> list[Result]:
    """Winners by the number of rankings with an item among the first k places.

    Args:
        counts: a release with `places`.
        rules: `plurality`, k = 1, or `approval-k`; k is at most the longest ranking.
    """
    places, n = counts.of(Part.PLACES), counts.n_items
    step, found = 1 / counts.weights[Part.PLACES], []
    for rule in rules:
        k = places_of(rule)
        scores = _in_steps(places[:, :k].sum(axis=1), step)
        deviation = math.sqrt(2 * k * counts.variance(Part.PLACES))
        tail = LEVEL / (len(rules) * n * (n - 1) * counts.boards)
        reach = noise_reach(tail, deviation, counts.law.kind, 2 * k * counts.draws, step)
        possible = scores + reach >= scores.max()
        found.append(Result.of(rule, scores == scores.max(), np.asarray(possible)))
    return found


def places_of(rule: str) -> int:
    """How many places count alike by `plurality` or `approval-k`."""
    return 1 if rule == PLURALITY else int(rule.removeprefix(APPROVAL))


def smith_set(beats: Mask) -> Mask:
    """The smallest set of items of which each beats each item outside, shape (n,).

    If a is in it and does not beat b, b is in it too; such closed sets are nested, because of two
    disjoint ones each would beat the other.

    Args:
        beats: shape (n, n), whether a beats b; never both ways.
    """
    needs = ~beats
    for via in range(len(beats)):
        needs |= needs[:, via : via + 1] & needs[via]
    np.fill_diagonal(needs, True)
    return np.asarray(needs[int(needs.sum(axis=1).argmin())])


def widest_paths(margins: Floats) -> Floats:
    """Strength of the strongest path of wins from a to b, 0 if there is none; infinite on the
    diagonal, shape (n, n)."""
    paths = np.maximum(margins, 0.0)
    for via in range(len(paths)):
        np.maximum(paths, np.minimum(paths[:, via : via + 1], paths[via]), out=paths)
    np.fill_diagonal(paths, np.inf)
    return paths


def ranked_pairs_winners(margins: Floats) -> Mask:
    """Those whom no locked pair beats; pairs of equal margins are locked in catalogue order."""
    above = np.eye(len(margins), dtype=np.bool_)  # of locked pairs and their chains
    first, second = np.nonzero(margins > 0)
    for pair in np.argsort(-margins[first, second], kind="stable").tolist():
        a, b = int(first[pair]), int(second[pair])
        if not above[b, a]:
            above |= np.outer(above[:, a], above[b])
    return np.asarray(above.sum(axis=0) == 1)


def _in_steps(scores: Floats, step: float) -> Floats:
    """The same, so that scores that are equal are equal in their last digit too."""
    return np.asarray(np.rint(scores / step) * step)


def noise_reach(tail: float, deviation: float, kind: NoiseKind, draws: int, step: float) -> float:
    """What a sum of noise exceeds with chance `tail`.

    Args:
        tail: of one side.
        deviation: standard deviation of the sum.
        kind: law of each draw.
        draws: how many equal ones it is the sum of.
        step: by which it goes; half of it is added to what continuous noise would need.
    """
    if deviation == 0:
        return 0.0
    return float(quantile(np.array(1.0), tail, kind, draws)) * deviation + step / 2


def _laplace_cdf(standard: Floats, draws: int) -> Floats:
    """Distribution function of a sum of `draws` Laplace variables of scale 1."""
    size = np.abs(standard)
    if draws > 2:
        upper = np.exp(log_tail(size / math.sqrt(2 * draws), np.ones_like(size), draws))
        return np.asarray(np.where(standard > 0, 1 - upper, upper))
    upper = np.exp(-size) * (0.5 if draws == 1 else (2 + size) / 4)
    return np.asarray(np.where(standard > 0, 1 - upper, upper))


MOST_ROUNDS = 20
MOST_CELLS = 1 << 21  # of the table of first choices: 16 MB
RULE = "instant-runoff"


def n_sets(n_items: int, longest: int) -> int:
    """Sets of fewer than `longest` items."""
    return sum(math.comb(n_items, size) for size in range(longest))


def first_choices(items: Integers, lengths: Integers, n_items: int, longest: int) -> Integers:
    """Count which item of rankings comes right after which set of others.

    Args:
        items: shape (sum of lengths,), the rankings one after the other, each best first; codes
            below `n_items`, no item twice in a ranking.
        lengths: shape (n,), how many items each has, at most `longest`.
        n_items: size of the catalogue.
        longest: most items of a ranking.

    Returns:
        Shape (`n_sets`, n_items), entry [s, a] = rankings with a right after all items of set s.

    Raises:
        ValueError: the lengths do not fit, a code is out of range, or a ranking repeats an item.
    """
    counts = np.zeros((n_sets(n_items, longest), n_items), np.int64)
    if len(lengths) and lengths.max() > longest:
        raise ValueError(f"a ranking has more than {longest} items")
    for table in tables_by_length(items, lengths, n_items):
        ordered = np.sort(table, axis=1)
        if (ordered[:, 1:] == ordered[:, :-1]).any():
            raise ValueError("a ranking holds an item twice")  # which, is private
        for place in range(table.shape[1]):
            cells = _set_numbers(table[:, :place], n_items) * n_items + table[:, place]
            counts += np.bincount(cells, minlength=counts.size).reshape(counts.shape)
    return counts


def _set_numbers(sets: Integers, n_items: int) -> Integers:
    """Number of each set: smaller ones first, then by the combinatorial number system.

    Args:
        sets: shape (rows, size), the items of each in any order.
        n_items: size of the catalogue.
    """
    size = sets.shape[1]
    choose = np.array([[math.comb(item, k) for k in range(size + 1)] for item in range(n_items)])
    first = sum(math.comb(n_items, k) for k in range(size))
    return np.asarray(first + choose[np.sort(sets, axis=1), np.arange(1, size + 1)].sum(axis=1))


def members_of_sets(n_items: int, longest: int) -> Mask:
    """Which items each set of `first_choices` has, shape (`n_sets`, n_items)."""
    members = np.zeros((n_sets(n_items, longest), n_items), np.bool_)
    for size in range(1, longest):
        sets = np.array(list(combinations(range(n_items), size)))
        members[_set_numbers(sets, n_items)[:, np.newaxis], sets] = True
    return members


def release_rounds(firsts: Integers, longest: int, law: NoiseLaw, bits: RandomBits) -> Integers:
    """Count all rounds with noise on every cell, zeros and exhausted rankings too.

    Guarantee: that for which the law was made by `ranking_below_sensitivity` of rounds, for counts
    of a log whose bounds were enforced, if `bits.safe`. All noise is drawn before the first round,
    and a cell of an item that has left is none.

    Args:
        firsts: confidential, of `first_choices`.
        longest: as for these.
        law: of the noise on each cell.
        bits: `system_bits()` in a release.

    Returns:
        Shape (rounds, n_items + 1), the last column of exhausted rankings; 0 of items that left.
    """
    n_items = firsts.shape[1]
    cells = np.arange(n_items + 1, 2, -1)  # of items left and of exhausted rankings, round by round
    noise = np.split(add_noise(np.zeros(cells.sum(), np.int64), law, bits), cells.cumsum()[:-1])
    members, left = members_of_sets(n_items, longest), np.ones(n_items, np.bool_)
    rounds = []
    for own in noise:
        counts = count_round(firsts, members, left)
        counts[np.append(left, True)] += own
        rounds.append(counts)
        left[smallest(counts[:-1], left)] = False
    return np.array(rounds)


def count_round(firsts: Integers, members: Mask, left: Mask) -> Integers:
    """Count rankings by their best item left, and last those without one; exact.

    Args:
        firsts: of `first_choices`.
        members: of `members_of_sets`.
        left: shape (n_items,), which items are left; others have 0.
    """
    counts = firsts[~(members & left).any(axis=1)].sum(axis=0) * left
    return np.append(counts, firsts[0].sum() - counts.sum())


def smallest(counts: Integers, left: Mask) -> int:
    """The item left with the smallest count; of equal ones the last of the catalogue."""
    among = np.flatnonzero(left)[::-1]
    return int(among[np.argmin(counts[among])])


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Noisy rounds and what is sure without the noise, all at once with 95 %.

    Attributes:
        counts: shape (rounds, n_items), noisy; 0 of items that left.
        exhausted: shape (rounds,), noisy.
        law: of the noise on each cell.
        order: items, best first: the one that stays, and before that who left last.
        possible: shape (rounds, n_items): who may have had the fewest of those left.
        reached: shape (rounds + 1,): whether these items were surely left, without the noise too;
            the last one says so of the winner.
    """

    counts: Integers
    exhausted: Integers
    law: NoiseLaw
    order: Integers
    possible: Mask
    reached: Mask

    @classmethod
    def of(cls, released: Integers, law: NoiseLaw) -> Rounds:
        """What follows from the rounds that `release_rounds` made."""
        counts = released[:, :-1]
        n_items = counts.shape[1]
        left, outs = np.ones(n_items, np.bool_), []
        possible = np.zeros(counts.shape, np.bool_)
        for own, may_leave in zip(counts, possible, strict=True):
            out = smallest(own, left)
            may_leave[:] = left & (own - own[out] <= _reach(n_items, int(left.sum()), 1, law))
            may_leave[out] = True
            left[out] = False
            outs.append(out)
        order = np.array([int(np.flatnonzero(left)[0]), *reversed(outs)])
        reached = np.zeros(n_items, np.bool_)
        reached[0] = True
        for first, end in _sure_steps(counts, order, law):
            reached[end] |= reached[first]
        return cls(counts, released[:, -1], law, order, possible, reached)

    @property
    def surely_left(self) -> int:
        """Rounds after which the items left are surely the same without the noise."""
        return int(np.flatnonzero(self.reached)[-1])

    def result(self) -> Result:
        """The winner, and those who could have won without the noise."""
        n_items = len(self.order)
        winners, possible = np.zeros(n_items, np.bool_), np.zeros(n_items, np.bool_)
        winners[self.order[0]] = True
        possible[self.order[: n_items - self.surely_left]] = True
        return Result.of(RULE, winners, possible)

    def estimate(self) -> Estimate:
        """The order in which items stayed; who surely stayed longer is surely above."""
        n_items = len(self.order)
        place = np.argsort(self.order)
        better = np.zeros((n_items, n_items), np.bool_)
        for rounds in np.flatnonzero(self.reached).tolist():
            stayed = place < n_items - rounds
            better |= stayed[:, np.newaxis] & ~stayed
        total = float(self.counts[0].sum() + self.exhausted[0])
        deviation = math.sqrt((n_items + 1) * self.law.variance)
        informative = total > CLEAR_TOTAL * deviation
        return order_estimate(self.order, lambda _: better, informative=informative)


def _sure_steps(counts: Integers, order: Integers, law: NoiseLaw) -> Iterator[tuple[int, int]]:
    """Rounds (first, end) where those who left between them surely leave before all others do."""
    n_items = len(order)
    for first, own in enumerate(counts):
        for end in range(first + 1, n_items):
            stays, leaves = order[: n_items - end], order[n_items - end : n_items - first]
            lead = own[stays].min() - own[leaves].sum()
            if lead > _reach(n_items, n_items - first, end - first, law):
                yield first, end


def _reach(n_items: int, left: int, leave: int, law: NoiseLaw) -> float:
    """What the noise in the count of one item less those of `leave` others does not exceed."""
    share = 1.0 if left == 2 else 0.5 if leave == 1 else 0.5 / (left - 2)
    ways = left - 1 if leave == 1 else math.comb(left, leave)
    tail = LEVEL * share / ((n_items - 1) * ways)
    deviation = math.sqrt((leave + 1) * law.variance)
    return noise_reach(tail, deviation, law.kind, leave + 1, 1.0)
