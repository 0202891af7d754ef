"""Released noisy counts of true rankings, by what was counted.

Whole numbers are released times their weight: 1 in `nets` is `weights["nets"]` there.

Which rules of elections a job asks for, and their winners from noisy counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushrank.estimation.common.score_change import LeadBy
from hushrank.estimation.rankings.election_rules import Margins, Result, positional_results
from hushrank.estimation.rankings.precinct_tables import NoisyPrecincts
from hushrank.estimation.rankings.ranking_counts import NoisyRankings, calibrate_rankings
from hushrank.flows.config.rankings import MOST_CANDIDATES, USUAL_RULES, approval_rules
from hushrank.flows.methods.base import SureVotes
from hushrank.flows.release.election import CHANCE_STEPS, ElectionRecord, RoundRecord, RuleResult
from hushrank.flows.release.released import (
    Count,
    Figure,
    Leads,
    ReleasedRecord,
    Rows,
    counts_of_pairs,
)
from hushrank.flows.release.rounds import ReleasedRounds
from hushrank.flows.statement.rankings import RankingCountMechanism
from hushrank.privacy.ranking_sensitivity import Part, level_weights


class _RankingCounts(ReleasedRecord):
    """What the counts of all methods have.

    Attributes:
        items: in catalogue order; rows are in this order.
        weights: what one adds to each of the counts, by their name.
    """

    ballots = "rankings"
    items: tuple[str, ...]
    weights: dict[str, int]

    @classmethod
    def of(cls, counts: NoisyRankings, items: Sequence[str]) -> Self:
        """The record of noisy `counts`.

        Raises:
            ValueError: they are of another number of items.
        """
        if len(items) != counts.n_items:
            raise ValueError(f"got {len(items)} items, but counts of {counts.n_items}")
        parts: dict[str, Rows | tuple[int, ...] | int] = {}
        for part in counts.weights:
            part_counts = counts.both_ways() if part is Part.MARGINS else counts.parts[part]
            if part is Part.RANKINGS:
                parts[part] = int(part_counts[0])
            elif part_counts.ndim == 1:
                parts[part] = tuple(part_counts.tolist())
            else:
                parts[part] = tuple(map(tuple, part_counts.tolist()))
        weights = {str(part): weight for part, weight in counts.weights.items()}
        # As `release_rankings` made them: a million entries are not checked again.
        return cls.model_construct(None, items=tuple(items), weights=weights, **parts)

    def _leads(self, by: LeadBy, numbers: ArrayLike, part: Part, draws: int = 1) -> Leads:
        return Leads(
            by=by,
            items=self.items,
            numbers=np.asarray(numbers, np.float64),
            draws=draws,
            step=1 / self.weights[part],
        )


class ReleasedAbove(_RankingCounts):
    """In how many rankings one item is above another, with noise.

    Attributes:
        above: entry b of row a counts rankings with a above b; zero on the diagonal.
        squares: of each item, sum over rankings of the square of the items below it less those
            above it; null: not released.
        rankings: how many there are; null: not released.
    """

    shows = (
        Figure.SCORES,
        Figure.ABOVE,
    )
    orders = True
    kind: Literal["above-counts"] = "above-counts"
    above: Rows
    squares: tuple[int, ...] | None = None
    rankings: int | None = None

    def counts(self) -> Iterator[Count]:
        """Yield the rankings with one item above another."""
        weight = self.weights[Part.ABOVE]
        yield from counts_of_pairs("above", self.items, self.above, weight)

    def among(self, items: Sequence[str]) -> NDArray[np.float64]:
        """Rankings with the row's item above the column's, of some items."""
        position = {name: i for i, name in enumerate(self.items)}
        places = [position[name] for name in items]
        cells = [[self.above[row][column] for column in places] for row in places]
        return np.array(cells, np.float64) / self.weights[Part.ABOVE]

    def leads(self) -> Leads:
        """By majorities, of two noisy entries each."""
        above = np.array(self.above, np.float64)
        return self._leads(LeadBy.MAJORITIES, above - above.T, Part.ABOVE, draws=2)


class ReleasedMargins(_RankingCounts):
    """In how many more rankings one item is above another than below it, with noise.

    Attributes:
        margins: entry b of row a counts rankings with a above b less those with b above a; the
            entry of b and a is the same with the other sign.
        rankings: how many there are.
    """

    shows = (
        Figure.SCORES,
        Figure.ABOVE,
    )
    orders = True
    kind: Literal["margin-counts"] = "margin-counts"
    margins: Rows
    rankings: int

    def counts(self) -> Iterator[Count]:
        """Yield the rankings with one item above another less those with it below."""
        weight = self.weights[Part.MARGINS]
        yield from counts_of_pairs("margins", self.items, self.margins, weight)

    def among(self, items: Sequence[str]) -> NDArray[np.float64]:
        """Rankings with the row's item above the column's, of some items; half if neither is."""
        position = {name: i for i, name in enumerate(self.items)}
        places = [position[name] for name in items]
        cells = np.array([[self.margins[row][column] for column in places] for row in places])
        rankings = self.rankings / self.weights[Part.RANKINGS]
        above = (rankings + cells / self.weights[Part.MARGINS]) / 2
        np.fill_diagonal(above, 0.0)
        return np.asarray(above)

    def leads(self) -> Leads:
        """By majorities."""
        return self._leads(LeadBy.MAJORITIES, self.margins, Part.MARGINS)


class ReleasedNets(_RankingCounts):
    """Sums over rankings of what each has below an item less what it has above it, with noise.

    Attributes:
        nets: of each item.
        squares, rankings: as in `ReleasedAbove`.
    """

    shows = (Figure.SCORES,)
    kind: Literal["net-sums"] = "net-sums"
    nets: tuple[int, ...]
    squares: tuple[int, ...]
    rankings: int

    def counts(self) -> Iterator[Count]:
        """Yield what is below an item less what is above it, over all rankings."""
        for item, number in zip(self.items, self.nets, strict=True):
            yield Count("nets", item, None, number, self.weights[Part.NETS])

    def leads(self) -> Leads:
        """By nets, which go up by 2 where a Borda sum goes up by 1."""
        return self._leads(LeadBy.BORDA, self.nets, Part.NETS)


class ReleasedPlaces(_RankingCounts):
    """In how many rankings an item is at a place, with noise.

    Attributes:
        places: entry p of row a counts rankings with a at place p, 0 = best.
    """

    shows = (Figure.SCORES,)
    orders = True
    kind: Literal["place-counts"] = "place-counts"
    places: Rows

    def leads(self) -> Leads:
        """By first places."""
        return self._leads(LeadBy.FIRST_PLACES, [row[0] for row in self.places], Part.PLACES)


ReleasedRankingCounts = (
    ReleasedAbove | ReleasedMargins | ReleasedNets | ReleasedPlaces | ReleasedRounds
)


def released_rankings(counts: NoisyRankings, items: Sequence[str]) -> ReleasedRankingCounts:
    """The record of noisy `counts`.

    Raises:
        ValueError: they are of another number of items.
    """
    if Part.ROUNDS in counts.weights:
        return ReleasedRounds.of(counts.parts[Part.ROUNDS].tolist(), items)
    if Part.ABOVE in counts.weights:
        return ReleasedAbove.of(counts, items)
    if Part.MARGINS in counts.weights:
        return ReleasedMargins.of(counts, items)
    if Part.NETS in counts.weights:
        return ReleasedNets.of(counts, items)
    return ReleasedPlaces.of(counts, items)


OF_PARTS = {
    Part.ABOVE: USUAL_RULES["pairs"],
    Part.MARGINS: USUAL_RULES["pairs"],
    Part.PLACES: USUAL_RULES["places"],
}


def election_record(
    counts: NoisyRankings, items: Sequence[str], asked: Collection[str] | None
) -> ElectionRecord | None:
    """Winners by each rule; None if the counts allow none that is asked for, or of many items.

    Args:
        counts: of pairs, of places or of nets.
        items: names of the catalogue.
        asked: which rules; None: all usual ones that the counts allow.
    """
    if Part.ROUNDS in counts.weights:
        return _of_rounds(counts, items, asked)
    usual = next((rules for part, rules in OF_PARTS.items() if part in counts.weights), ())
    rules = [str(rule) for rule in usual if asked is None or rule in asked]
    if Part.PLACES in counts.weights and asked is not None:
        rules += [rule for rule in approval_rules(counts.longest) if rule in asked]
    if not rules or len(items) > MOST_CANDIDATES:
        return None
    if Part.PLACES in counts.weights:
        found = positional_results(counts, rules)
        return ElectionRecord(rules=tuple(rule_record(each, items) for each in found))
    margins = Margins.of(counts)
    most = CHANCE_STEPS - 1 if margins.deviation else CHANCE_STEPS  # noise leaves none certain
    chances = np.minimum(np.floor(margins.chances() * CHANCE_STEPS), most) / CHANCE_STEPS
    return ElectionRecord(
        margin_deviation=margins.deviation,
        sure_from=margins.sure_from,
        chances=dict(zip(items, chances.tolist(), strict=True)),
        rules=tuple(rule_record(margins.result(rule), items) for rule in rules),
    )


def _of_rounds(
    counts: NoisyRankings, items: Sequence[str], asked: Collection[str] | None
) -> ElectionRecord:
    """The winner of an instant runoff, and what each round shows."""
    from hushrank.estimation.rankings.election_rules import RULE, Rounds

    found = Rounds.of(counts.parts[Part.ROUNDS], counts.law)
    outs = found.order[:0:-1].tolist()
    records = (
        RoundRecord(
            out=items[out],
            possible=tuple(items[i] for i in np.flatnonzero(may_leave).tolist()),
            reached=reached,
        )
        for out, may_leave, reached in zip(
            outs, found.possible, found.reached[:-1].tolist(), strict=True
        )
    )
    rules = (rule_record(found.result(), items),) if asked is None or RULE in asked else ()
    return ElectionRecord(rules=rules, rounds=tuple(records))


def rule_record(found: Result, items: Sequence[str]) -> RuleResult:
    """The winners by one rule, by name."""
    winners, possible = (
        tuple(items[i] for i in np.flatnonzero(who).tolist())
        for who in (found.winners, found.possible)
    )
    return RuleResult(rule=found.rule, winners=winners, possible=possible, sure=found.sure)


def sure_votes(mechanism: RankingCountMechanism) -> SureVotes | None:
    """What a release of pairs, or of first places by precinct, will state; None: of many items."""
    n, params, longest = mechanism.n_items, mechanism.params, mechanism.longest
    if n > MOST_CANDIDATES:
        return None
    sizes = {Part.MARGINS: (n * (n - 1) // 2,), Part.ABOVE: (n, n)}
    parts = {str(part): np.zeros(sizes.get(part, (n,)), np.int64) for part in mechanism.weights}
    groups = mechanism.groups
    counts = NoisyRankings(
        parts,
        mechanism.weights,
        mechanism.law,
        longest,
        mechanism.below,
        draws=1 if groups is None else groups.summed,
        boards=1 if groups is None else 1 + len(groups.names),
    )
    weights = level_weights(params, districts=False)
    table = NoisyPrecincts({}, weights, calibrate_rankings(params, longest, weights).law)
    margins = Margins.of(counts)
    return SureVotes(
        margin=margins.sure_from, true_margin=margins.called_from, **reaches_of(table, n)
    )


def reaches_of(table: NoisyPrecincts, n_items: int) -> dict[str, float]:
    """How far the noise of a table of first places reaches, as `SureVotes` names it."""
    levels = {"precinct": Part.PRECINCTS, "total": Part.TOTALS}
    margins = {f"{name}_margin": table.margin_reach(part, n_items) for name, part in levels.items()}
    return {name: table.reach(part) for name, part in levels.items()} | margins
