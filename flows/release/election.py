"""Elections in a release: winners by rules and their sentences, and votes by precinct."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pydantic import Field

from hushrank.flows.release.released import Rows
from hushrank.flows.statement.record import Record

TITLES = {
    "condorcet": "Condorcet",
    "smith": "Smith set",
    "copeland": "Copeland",
    "schulze": "Schulze",
    "ranked-pairs": "Ranked pairs",
    "minimax": "Minimax",
    "borda": "Borda",
    "plurality": "Plurality",
    "instant-runoff": "Instant-runoff",
}
NOT_A_COUNT = (
    "These are statements about the ballots that were counted, for all {rules} at once with 95 %"
    " confidence, and no certified result: noise was added to protect voters, so an official count"
    " decides who won."
)
CHANCE_STEPS = 100  # chances are rounded down to whole percent


class RuleResult(Record):
    """Winners by one rule.

    Attributes:
        rule: name of the rule.
        winners: winners by the noisy counts; for `smith` the set; for `condorcet` none or one.
        possible: nobody else can have won without the noise, with 95 % for all rules at once.
        sure: the result is surely the same without the noise.
    """

    rule: str
    winners: tuple[str, ...]
    possible: tuple[str, ...]
    sure: bool


class RoundRecord(Record):
    """Results of a round of an instant runoff; its counts are in `released`.

    Attributes:
        out: the item with the smallest noisy count of those left, which leaves.
        possible: nobody else of those left can have the smallest count without the noise.
        reached: without the noise these items are surely left in this round, too.
    """

    out: str
    possible: tuple[str, ...]
    reached: bool


class ElectionRecord(Record):
    """Winners by each rule, from the noisy counts alone.

    Attributes:
        margin_deviation: standard deviation of the noise in a margin, the rankings with one item
            above another less those the other way round; null: no pairs are released.
        sure_from: a margin above that is surely one without the noise, all at once; null likewise.
        chances: chance of each item to beat each other item, given the noise alone, rounded
            down to hundredths; a tie is no win. null likewise.
        rules: winners by each rule.
        rounds: rounds of an instant runoff, the first one first; null: another count.
    """

    margin_deviation: float | None = None
    sure_from: float | None = None
    chances: dict[str, float] | None = None
    rules: tuple[RuleResult, ...]
    rounds: tuple[RoundRecord, ...] | None = None

    def result(self, rule: str) -> RuleResult | None:
        """The winners by a rule; None: it was not asked for."""
        return next((each for each in self.rules if each.rule == rule), None)


class PrecinctRecord(Record):
    """Votes by precinct that add up, from the noisy counts alone; rows of votes have all items.

    Attributes:
        precincts: their codes, as in the rows.
        elsewhere: rankings of no listed precinct have one more row of votes, the last one.
        districts: codes of the precincts in each district; null: there are no districts.
        deviation: standard deviation of the noise in a released number of a precinct.
        reach: value that this noise exceeds with a chance of at most 5 %, one number at a time.
        wide_deviation, wide_reach: the same of a released number of a district, and of all.
        margin_reach: value that the noise in no margin between two items of a precinct exceeds,
            with 95 % for all pairs of the precinct at once; null: of a version without margins.
        wide_margin_reach: the same of a district, and of all.
        votes: votes of each precinct, whole numbers of at least 0.
        votes_of_districts: their sums; null: there are no districts.
        votes_of_all: the sums of all rows.
    """

    precincts: tuple[str, ...] = Field(min_length=1)
    elsewhere: bool
    districts: dict[str, tuple[str, ...]] | None = None
    deviation: float
    reach: float
    wide_deviation: float
    wide_reach: float
    margin_reach: float | None = None
    wide_margin_reach: float | None = None
    votes: Rows
    votes_of_districts: Rows | None = None
    votes_of_all: tuple[int, ...]


def title_of(rule: str) -> str:
    """Name of a rule, as people write it."""
    return TITLES.get(rule) or f"Approval of the first {rule.removeprefix('approval-')}"


def condorcet_sentence(election: ElectionRecord, shown: Mapping[str, str]) -> str | None:
    """Whether one item beats each other one in a direct comparison, in words; None: not asked.

    Args:
        election: the record.
        shown: text that people read for each item.
    """
    found = election.result("condorcet")
    if found is None or election.chances is None:
        return None
    if not found.winners:
        if found.sure:
            return "Surely no candidate is preferred to each other one (no Condorcet winner)."
        return (
            "In the noisy counts no candidate is preferred to each other one, so there is no"
            f" Condorcet winner there.{_likeliest(election.chances, shown)}"
        )
    (winner,) = found.winners
    if found.sure:
        return f"{shown[winner]} is surely preferred to each other candidate (Condorcet winner)."
    chance = election.chances[winner]
    return (
        f"In the noisy counts {shown[winner]} is preferred to each other candidate (Condorcet"
        f" winner); given the noise, that is so with a chance of {_percent(chance)} or more."
    )


def _likeliest(chances: Mapping[str, float], shown: Mapping[str, str]) -> str:
    best = max(chances, key=chances.__getitem__)
    if chances[best] == 0:
        return ""
    chance = _percent(chances[best])
    return f" Given the noise, {shown[best]} is one with a chance of {chance} or more."


def _percent(chance: float) -> str:
    return f"{math.floor(chance * CHANCE_STEPS + 1e-9)} %"


def result_cells(found: RuleResult, shown: Mapping[str, str]) -> tuple[str, str, str]:
    """Rule, winners, and who may have won, as texts of a table."""
    winners = ", ".join(shown[each] for each in found.winners) or "nobody"
    if found.sure:
        return title_of(found.rule), winners, "sure"
    possible = [shown[each] for each in found.possible]
    if found.rule == "condorcet":
        possible.append("nobody")
    return title_of(found.rule), winners, ", ".join(possible)


def election_lines(election: ElectionRecord, shown: Mapping[str, str]) -> Iterator[str]:
    """Yield the terminal's lines about an election."""
    if (sentence := condorcet_sentence(election, shown)) is not None:
        yield sentence
    for found in election.rules:
        title, winners, possible = result_cells(found, shown)
        if found.rule == "condorcet":
            continue
        yield f"{title}: {winners} ({'surely' if found.sure else f'could be {possible}'})."
