"""Counts to which rankings are reduced: who is above whom, who is where, and how that varies.

Sums of integers over rankings, so the same for every split of the rankings into files, batches and
workers. The *net* of an item in a ranking is the number of items below it less those above it;
zero where the ranking leaves the item out. Half of it is the item's Borda score there.

Where the items that a ranking leaves out count as below those it lists (`below`), each of k listed
items is also above each other one, and the net of an item that is left out is -k.

`by_place` keeps apart at which two places of a list of which length each pair stood. It is all that
debiasing needs, and `wins` and `moments` follow from it.

The central mechanism on counts of rankings: exact counts in, noisy counts out, and back.

What is released is one vector of integers (`privacy.ranking_sensitivity`): parts with weights.

    kemeny           margins and the number of rankings if each tells of all pairs, else above
    bradley-terry    above, and squares and the number of rankings
    borda            nets, and squares and the number of rankings
    footrule         places
    instant-runoff   rounds (`estimation.rankings.election_rules`)

Pairs and places have all that their methods need. Sums of nets do not show how much rankings vary,
which intervals need, so sums of squares come with them. Borda scores also follow from pairs or
places, but with more noise. For n complete rankings of m items and one rho, the variance of a sum
of half nets, in units of 1 / (2 rho), is

    nets      (m - 1)^2 (m + 1) / 3    m (m^2 - 1) / 3, and the sums of all items are known to be 0
    above     m (m - 1)^2 / 2          (m - 1) / 2 cells of m (m - 1)
    places    m^2 (m^2 - 1) / 6        2 m times the sum of squared half nets

so nets are the best for every m >= 2 (with Laplace noise by a factor that grows with m).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration, calibrate
from hushrank.estimation.common.links import Floats
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.ranking_sensitivity import (
    Part,
    Weights,
    ranking_below_sensitivity,
    ranking_sensitivity,
)
from hushrank.privacy.units import PrivacyParams

BLOCK_CELLS = 1 << 18  # pairs at a time: the intermediates stay in the processor's cache
BLOCK_ROWS = 1 << 14  # rankings at a time, for the same reason
MOST_BY_PLACE = 1 << 21  # cells of `by_place`: 16 MB
Integers = NDArray[np.int64]


def pair_counts(items: Integers, lengths: Integers, n_items: int) -> Integers:
    """How often each item is ranked above each other.

    All ordered pairs of a ranking count, m (m - 1) / 2 of them; an item that a ranking leaves out
    is in no pair of it.

    Args:
        items: shape (sum of lengths,), the rankings one after the other, each best first; codes
            below `n_items`, no item twice in a ranking.
        lengths: shape (n,), how many items each has.
        n_items: size of the catalogue.

    Returns:
        shape (n_items, n_items), entry [a, b] = rankings with a above b.

    Raises:
        ValueError: the lengths do not fit, a code is out of range, or a ranking repeats an item.
    """
    wins = np.zeros(n_items**2, np.int64)
    for table in tables_by_length(items, lengths, n_items):
        above, below = np.triu_indices(table.shape[1], 1)
        size = max(BLOCK_CELLS // max(len(above), 1), 1)
        for start in range(0, len(table), size):
            rows = table[start : start + size]
            cells = rows[:, above] * n_items + rows[:, below]
            wins += np.bincount(cells.ravel(), minlength=n_items**2)
    square: Integers = wins.reshape(n_items, n_items)
    if np.diagonal(square).any():
        raise ValueError("a ranking holds an item twice")  # which, is private
    return square


def tables_by_length(items: Integers, lengths: Integers, n_items: int) -> Iterator[Integers]:
    """Rankings of the same length as a matrix, one row each; empty ones are left out.

    Raises:
        ValueError: as `pair_counts`, but for items that a ranking repeats.
    """
    if (lengths < 0).any() or lengths.sum() != len(items):
        raise ValueError("lengths must be >= 0 and sum to the number of items")
    if len(items) and not 0 <= items.min() <= items.max() < n_items:
        raise ValueError(f"item codes must be 0 to {n_items - 1}")
    if len(lengths) and lengths.max() > n_items:
        raise ValueError("a ranking holds an item twice")
    found = np.flatnonzero(np.bincount(lengths)[1:]) + 1
    if len(found) == 1 and len(items) == found[0] * len(lengths):
        yield items.reshape(len(lengths), -1)
        return
    starts = np.cumsum(lengths) - lengths
    for length in found:
        yield items[starts[lengths == length][:, None] + np.arange(length)]


@dataclass(frozen=True, slots=True, eq=False)
class RankingCounts:
    """Counts over rankings of n items, none longer than m.

    Attributes:
        wins: shape (n, n), entry [a, b] = rankings with a above b.
        moments: shape (n, n), sum over rankings of net of a times net of b; with `tails` only the
            diagonal is counted, the squares.
        places: shape (n, m), entry [a, p] = rankings with a at place p, 0 = best.
        lengths: shape (m + 1,), entry k = rankings of k items.
        by_place: shape (pairs, n, n), entry [`place_pair`, a, b] = rankings with a and b at these
            places; None: not kept, or not possible with so many items.

    Raises:
        ValueError: shapes do not agree.
    """

    wins: Integers
    moments: Integers
    places: Integers
    lengths: Integers
    by_place: Integers | None = None
    tails: Integers | None = None

    def __post_init__(self) -> None:
        n_items, longest = len(self.wins), len(self.lengths) - 1
        square = (n_items, n_items)
        fits = self.wins.shape == self.moments.shape == square
        fits &= self.places.shape == (n_items, longest)
        if self.by_place is not None:
            fits &= self.by_place.shape == (n_place_pairs(longest), *square)
        if self.tails is not None:
            fits &= self.tails.shape == (n_items, n_tails(n_items, longest))
        if not fits:
            raise ValueError("the counts of rankings do not have the same items and lengths")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return len(self.wins)

    @property
    def max_length(self) -> int:
        """m, the longest list that is counted."""
        return len(self.lengths) - 1

    @property
    def rankings(self) -> int:
        """How many rankings there are."""
        return int(self.lengths.sum())

    def arrays(self) -> dict[str, Integers]:
        """The counts by name."""
        arrays = {
            "wins": self.wins,
            "moments": self.moments,
            "places": self.places,
            "lengths": self.lengths,
        }
        more = {"by_place": self.by_place, "tails": self.tails}
        return arrays | {name: array for name, array in more.items() if array is not None}


def count_rankings(
    items: Integers,
    lengths: Integers,
    n_items: int,
    max_length: int,
    *,
    by_place: bool,
    below: bool = False,
) -> RankingCounts:
    """The counts of some rankings.

    Args:
        items: shape (sum of lengths,), the rankings one after the other, each best first; codes
            below `n_items`, no item twice in a ranking.
        lengths: shape (n,), how many items each has, at most `max_length`.
        n_items: size of the catalogue.
        max_length: m.
        by_place: keep pairs apart by place.
        below: count the items that a ranking leaves out as below those it lists.

    Raises:
        ValueError: the lengths do not fit, a code is out of range, or a ranking repeats an item; or
            `by_place` and `below` are both set.
    """
    if by_place and below:
        raise ValueError("pairs are kept apart by place only where items left out count nowhere")
    if len(lengths) and lengths.max() > max_length:
        raise ValueError(f"a ranking has more than {max_length} items")
    counts = no_rankings(n_items, max_length, by_place=by_place, below=below)
    counts.lengths[:] = np.bincount(lengths, minlength=max_length + 1)
    for table in tables_by_length(items, lengths, n_items):
        length = table.shape[1]
        columns = np.ascontiguousarray(table.T)
        _add_places(counts, columns)
        if counts.by_place is not None:
            start = n_place_pairs(length - 1)
            _add_by_place(counts.by_place[start : start + length * (length - 1) // 2], columns)
        else:
            _add_pairs(counts.wins, counts.moments, columns)
    if counts.by_place is not None:
        _derive(counts.wins, counts.moments, counts.by_place, max_length)
    if np.diagonal(counts.wins).any():
        raise ValueError("a ranking holds an item twice")  # which, is private
    if below:
        _put_below(counts)
    return counts


def no_rankings(
    n_items: int, max_length: int, *, by_place: bool, below: bool = False
) -> RankingCounts:
    """The counts of nothing."""
    square = (n_items, n_items)
    pairs = n_place_pairs(max_length)
    return RankingCounts(
        np.zeros(square, np.int64),
        np.zeros(square, np.int64),
        np.zeros((n_items, max_length), np.int64),
        np.zeros(max_length + 1, np.int64),
        np.zeros((pairs, *square), np.int64) if by_place else None,
        np.zeros((n_items, n_tails(n_items, max_length)), np.int64) if below else None,
    )


def merge_counts(parts: Iterable[RankingCounts]) -> RankingCounts:
    """The counts of all rankings of `parts`, at least one; all keep places, or none does."""
    first, *others = parts
    total = RankingCounts(**{name: array.copy() for name, array in first.arrays().items()})
    for part in others:
        for name, array in part.arrays().items():
            total.arrays()[name] += array
    return total


def n_place_pairs(max_length: int) -> int:
    """Pairs of places p < l of lists of 2 to `max_length` items: their sum over the lengths."""
    return (max_length - 1) * max_length * (max_length + 1) // 6


def n_tails(n_items: int, max_length: int) -> int:
    """Lengths of the lists, 1 to `max_length`, that leave an item out."""
    return min(max_length, n_items - 1)


def place_pairs(max_length: int) -> Iterator[tuple[int, int, int, int]]:
    """Position in `by_place`, length of the list, place p and place l > p of each."""
    position = 0
    for length in range(2, max_length + 1):
        for first, second in zip(*np.triu_indices(length, 1), strict=True):
            yield position, length, int(first), int(second)
            position += 1


def nets(length: int) -> Integers:
    """Number of items below each place of a list, minus the number above."""
    return length - 1 - 2 * np.arange(length)


def _add_places(counts: RankingCounts, columns: Integers) -> None:
    """Count items at each place, and the squares of their nets; of lists of one length."""
    length, n_items = len(columns), counts.n_items
    diagonal = np.einsum("ii->i", counts.moments)
    left_out = np.full(n_items, columns.shape[1])
    reach = length if counts.tails is None else n_items
    for place, column in enumerate(columns):
        own = np.bincount(column, minlength=n_items)
        counts.places[:, place] += own
        diagonal[:] += (reach - 1 - 2 * place) ** 2 * own
        left_out -= own
    if counts.tails is not None and length < n_items:
        counts.tails[:, length - 1] += left_out
        diagonal[:] += length**2 * left_out


def _put_below(counts: RankingCounts) -> None:
    """Count also the pairs of an item that a ranking lists and one that it leaves out."""
    squares = np.diagonal(counts.moments).copy()
    counts.moments[:] = np.diag(squares)
    listed = counts.places.sum(axis=1)
    counts.wins[:] = listed[:, np.newaxis] - counts.wins.T  # listed, unless the other is above
    np.fill_diagonal(counts.wins, 0)


def _cells(columns: Integers, n_items: int) -> Iterator[Integers]:
    """Cell a * n + b of every pair of places, shape (pairs, rankings), some rankings at a time."""
    above, below = np.triu_indices(len(columns), 1)
    size = max(max(BLOCK_CELLS, n_items**2) // max(len(above), 1), 1)
    for start in range(0, columns.shape[1], size):
        block = columns[:, start : start + size]
        yield block[above] * n_items + block[below]


def _add_by_place(counts: Integers, columns: Integers) -> None:
    """Pair by pair where a histogram of all cells is the lesser part of that, else at once."""
    pairs, n_items, _ = counts.shape
    if n_items**2 > columns.shape[1]:
        offset = n_items**2 * np.arange(pairs)[:, None]
        for cells in _cells(columns, n_items):
            cells += offset
            counts += np.bincount(cells.ravel(), minlength=counts.size).reshape(counts.shape)
        return
    size = max(BLOCK_ROWS, n_items**2)
    for start in range(0, columns.shape[1], size):
        block = columns[:, start : start + size]
        position = 0
        for place, column in enumerate(block):
            row = column * n_items
            for other in block[place + 1 :]:
                own = np.bincount(row + other, minlength=n_items**2)
                counts[position] += own.reshape(n_items, n_items)
                position += 1


def _add_pairs(wins: Integers, moments: Integers, columns: Integers) -> None:
    n_items, length = len(wins), len(columns)
    net = nets(length)
    above, below = np.triu_indices(length, 1)
    products = (net[above] * net[below]).astype(np.float64)  # sums stay exact far below 2^53
    for cells in _cells(columns, n_items):
        wins += np.bincount(cells.ravel(), minlength=n_items**2).reshape(wins.shape)
        weights = np.repeat(products, cells.shape[1])
        summed = np.bincount(cells.ravel(), weights, n_items**2).reshape(wins.shape)
        moments += np.rint(summed + summed.T).astype(np.int64)


def _derive(wins: Integers, moments: Integers, by_place: Integers, max_length: int) -> None:
    for position, length, first, second in place_pairs(max_length):
        pair, net = by_place[position], nets(length)
        wins += pair
        moments += net[first] * net[second] * (pair + pair.T)


def calibrate_rankings(
    params: PrivacyParams,
    longest: int,
    weights: Weights,
    *,
    below: int | None = None,
    n_groups: int = 1,
    most: int | None = None,
) -> Calibration:
    """Noise for counts of rankings of at most `longest` items; from public parameters only.

    Args:
        params, longest, weights: as for `ranking_sensitivity`.
        below: the size of the catalogue, if items that a list leaves out count as below those it
            lists; None: a list says nothing of them.
        n_groups: public groups with counts of their own; 1: there are none.
        most: the most groups in which a ranking counts beside the whole, where groups overlap;
            None: they do not.
    """
    if below is None:
        sensitivity = ranking_sensitivity(params, longest, weights, n_groups, most)
        return calibrate(params, sensitivity, "ranking_sensitivity")
    sensitivity = ranking_below_sensitivity(params, longest, weights, below, n_groups, most)
    return calibrate(params, sensitivity, "ranking_below_sensitivity")


def release_rankings(
    counts: RankingCounts, weights: Weights, law: NoiseLaw, bits: RandomBits
) -> dict[str, Integers]:
    """Add noise to every entry of every part, zeros too; no item is above itself.

    Guarantee: that for which `calibrate_rankings` made the law, for counts of a log whose bounds
    were enforced, if `bits.safe`.

    Args:
        counts: confidential.
        weights: of each part that is released.
        law: of the noise on each entry.
        bits: `system_bits()` in a release.

    Returns:
        Weighted noisy counts by part, which may be published; of margins those of pairs a < b.
    """
    exact = {part: weight * _part(counts, part) for part, weight in weights.items()}
    noisy = add_noise(np.concatenate([each.ravel() for each in exact.values()]), law, bits)
    ends = np.cumsum([each.size for each in exact.values()])
    released = {
        str(part): own.reshape(exact[part].shape)
        for part, own in zip(exact, np.split(noisy, ends[:-1]), strict=True)
    }
    if Part.ABOVE in exact:
        np.fill_diagonal(released[Part.ABOVE], 0)
    return released


def net_variance(
    weights: Weights, law: NoiseLaw, n_items: int, longest: int, lists: float, *, below: bool
) -> float:
    """Variance to expect of an item's net (items below it less items above it), over all lists.

    Law: lists of `longest` items in a random order, and noise on every released entry.

    Args:
        weights, law: as for `release_rankings`.
        n_items: size of the catalogue.
        longest: items of a list.
        lists: how many lists there are.
        below: whether unlisted items count as below the listed ones.
    """
    places = np.arange(1, longest + 1)
    nets = (n_items if below else longest) + 1.0 - 2 * places
    unlisted = longest if below else 0  # items that an unlisted one is below of
    chance = (np.sum(nets**2) + (n_items - longest) * unlisted**2) / n_items
    entries = {
        Part.NETS: 1 - 1 / n_items,
        Part.ABOVE: 2.0 * (n_items - 1),
        Part.MARGINS: n_items - 1.0,
        Part.PLACES: float(np.sum(nets**2)),
    }
    (noise,) = (
        n * law.variance / weights[part] ** 2 for part, n in entries.items() if part in weights
    )
    return float(lists * chance + noise)


def _part(counts: RankingCounts, part: Part) -> Integers:
    if part is Part.ABOVE:
        return counts.wins
    if part is Part.MARGINS:
        return np.asarray((counts.wins - counts.wins.T)[np.triu_indices(counts.n_items, 1)])
    if part is Part.PLACES:
        if counts.tails is None:
            return counts.places
        return np.concatenate([counts.places, counts.tails], axis=1)
    if part is Part.NETS:
        return np.asarray(counts.wins.sum(axis=1) - counts.wins.sum(axis=0))
    if part is Part.SQUARES:
        return np.diagonal(counts.moments)
    return np.array([counts.rankings])


@dataclass(frozen=True, slots=True, eq=False)
class NoisyRankings:
    """Released counts of rankings.

    Attributes:
        parts: as `release_rankings` returned them.
        weights: of each of them.
        law: of the noise on each entry.
        longest: the most items of a list.
        below: whether items that a list leaves out count as below those it lists.
        draws: number of groups whose entries these are the sums of; each has noise of its own.
        boards: number of such counts of which statements about elections hold at once.
        shown: items of a set that a person sees, of sets of which one person has `sets`; 0: lists
            are taken as independent of each other.
        found: whether items are names that were found in the rows, so that people wrote each.

    Raises:
        ValueError: a part is missing, or there is none.
    """

    parts: Mapping[str, Integers]
    weights: Weights
    law: NoiseLaw
    longest: int
    below: bool = False
    draws: int = 1
    boards: int = 1
    shown: int = 0
    sets: int = 1
    found: bool = False

    def __post_init__(self) -> None:
        if not self.parts or set(self.parts) != set(map(str, self.weights)):
            raise ValueError(f"got the parts {sorted(self.parts)}, but weights of others")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        if (rounds := self.parts.get(Part.ROUNDS)) is not None:
            return len(rounds) + 1
        if (margins := self.parts.get(Part.MARGINS)) is not None:
            return (1 + math.isqrt(1 + 8 * len(margins))) // 2
        return max(len(part) for part in self.parts.values())

    @property
    def told(self) -> int:
        """How many items one list says something of, at most."""
        return self.n_items if self.below else self.longest

    @property
    def nets_go_together(self) -> float:
        """Factor of the variance of sums of nets, for sets of one person that go together.

        Law: 1 + (L - 1) (k / n) c for L sets of each person, each of k of n items by chance. A set
        shows an item that another one showed with the chance k / n, and c is the share of the
        variance of its net in a set that tastes explain. If everybody has an order of their own,
        and all orders are as likely, an item below r others has the net k - 1 in a set with the
        chance p[r] = C(n - 1 - r, k - 1) / C(n - 1, k - 1), its negative with p[n - 1 - r], and 0
        on average otherwise; the mean square of a net is (k^2 - 1) / 3. So c is
        3 (k - 1) / (k + 1) times the mean over r of (p[r] - p[n - 1 - r])^2: 0.6 for 4 of 6 items,
        0.5 for 4 of 20. Tastes that have more in common, or leave more to chance, have a smaller c.
        Camps that love or hate an item may have a larger one, up to 1.
        """
        n, k = self.n_items, self.shown
        if self.sets == 1 or k < 2:
            return 1.0
        all_below = np.array([math.comb(r, k - 1) for r in range(n)]) / math.comb(n - 1, k - 1)
        explained = 3 * (k - 1) / (k + 1) * float(np.square(all_below - all_below[::-1]).mean())
        return 1 + (self.sets - 1) * k / n * explained

    @property
    def margins_go_together(self) -> float:
        """The same for the margin of a pair, at most: 1 + (L - 1) k (k - 1) / (n (n - 1)).

        Two sets both show a pair with that chance, and what they then say of it is at most the
        same.
        """
        n = self.n_items
        return 1 + (self.sets - 1) * self.shown * max(self.shown - 1, 0) / (n * (n - 1))

    def both_ways(self) -> Integers:
        """Weighted margins of both sides of each pair, which differ in sign; shape (n, n)."""
        margins = np.zeros((self.n_items, self.n_items), np.int64)
        margins[np.triu_indices(self.n_items, 1)] = self.parts[Part.MARGINS]
        return np.asarray(margins - margins.T)

    def of(self, part: Part) -> Floats:
        """What was counted, with noise."""
        if part is Part.MARGINS:
            return np.asarray(self.both_ways() / self.weights[part], np.float64)
        return np.asarray(self.parts[part] / self.weights[part], np.float64)

    def variance(self, part: Part) -> float:
        """Variance of the noise in one entry of `of(part)`."""
        return self.draws * self.law.variance / self.weights[part] ** 2

    def by_group(self) -> list[NoisyRankings]:
        """The counts of each group, where parts have groups along their first axis."""
        return [
            replace(self, parts={name: part[group] for name, part in self.parts.items()})
            for group in range(len(next(iter(self.parts.values()))))
        ]

    def together(self) -> NoisyRankings:
        """The sums over all groups, likewise."""
        sums = {name: part.sum(axis=0) for name, part in self.parts.items()}
        return replace(self, parts=sums, draws=len(next(iter(self.parts.values()))))
