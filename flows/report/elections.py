"""Parts of the page on elections: winners by rules, margins, rounds, and votes by precinct."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hushrank.flows.release.election import (
    NOT_A_COUNT,
    ElectionRecord,
    condorcet_sentence,
    result_cells,
)
from hushrank.flows.release.release import Release

MOST_CANDIDATES = 12  # candidates in the table of margins; a longer ranking shows its best
MOST_PRECINCTS = 200  # in the table of votes; the file has all
RULE_WORDS = {"elsewhere": "Elsewhere", "all": "All together"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionFacts:
    """Texts as they are shown.

    Attributes:
        sentence: whether one candidate is preferred to each other one; empty: it was not asked.
        rules: rule, winners, and whether that is sure or who could have won.
        names: candidates of the table of margins, best first; empty: no pairs are released.
        margins: margins of each candidate over the others, and whether each is sure.
        how: text on how to read the table.
        left_out: number of candidates that the table lacks.
        rounds: of an instant runoff its table: number, who leaves, and how sure that is; counts of
            `columns`, best first, with exhausted ballots last.
        columns: headings of these counts; empty: there are no rounds.
        how_rounds: text on how to read that table.
        caution: text on what these statements are not.
    """

    sentence: str
    rules: tuple[tuple[str, str, str], ...]
    names: tuple[str, ...]
    margins: tuple[tuple[tuple[str, bool], ...], ...]
    how: str
    left_out: int
    rounds: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    columns: tuple[str, ...] = ()
    how_rounds: str = ""
    caution: str = ""


def election_facts(release: Release, *, grouped: bool = False) -> ElectionFacts | None:
    """The facts of an election; None where the release states none.

    Args:
        release: the release, or what it says of one group.
        grouped: whether statements hold for all groups at once.
    """
    election = release.election
    if election is None:
        return None
    shown = release.shown()
    best = [line.item for line in release.ranking[:MOST_CANDIDATES]]
    margins = _margins(release, election, best)
    how = ""
    if election.margin_deviation is not None and election.sure_from is not None:
        how = (
            "How many more ballots prefer the candidate of the row to that of the column than the"
            " other way round, by the noisy counts. The noise in each has a standard deviation of"
            f" {election.margin_deviation:.1f} ballots. A margin above {election.sure_from:.1f} is"
            " bold: it is surely on that side without the noise, for all"
            f" {'pairs, rules and groups' if grouped else 'pairs and rules'} at once with 95 %"
            " confidence."
        )
    rounds: dict[str, Any] = {}
    if election.rounds is not None:
        rounds = _rounds(release, shown)
    return ElectionFacts(
        sentence=condorcet_sentence(election, shown) or "",
        rules=tuple(result_cells(each, shown) for each in election.rules),
        names=tuple(shown[item] for item in best) if margins else (),
        margins=margins,
        how=how,
        left_out=len(release.ranking) - len(best),
        caution=NOT_A_COUNT.format(rules="rules and groups" if grouped else "rules"),
        **rounds,
    )


def _rounds(release: Release, shown: dict[str, str]) -> dict[str, Any]:
    from hushrank.flows.release.rounds import HOW, rounds_of

    items = [line.item for line in release.ranking]
    rows = tuple(
        (
            shown[each.out],
            each.certainty(shown),
            (
                *(f"{each.counts[item]:,}" if item in each.counts else "" for item in items),
                f"{each.exhausted:,}",
            ),
        )
        for each in rounds_of(release)
    )
    return {
        "rounds": rows,
        "columns": (*(shown[item] for item in items), "exhausted"),
        "how_rounds": HOW.format(deviation=math.sqrt(release.noise_variance or 0.0)),
    }


def _margins(
    release: Release, election: ElectionRecord, items: list[str]
) -> tuple[tuple[tuple[str, bool], ...], ...]:
    above = release.released.among(items)
    if election.sure_from is None or above is None:
        return ()
    margins = above - above.T
    return tuple(
        tuple(
            ("", False) if i == j else (f"{margin:+,.0f}", bool(margin > election.sure_from))
            for j, margin in enumerate(row)
        )
        for i, row in enumerate(margins.tolist())
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VotesFacts:
    """Votes by precinct as texts.

    Attributes:
        names: candidates in the columns, best first.
        rows: all together, districts, and precincts, each with the votes of the candidates, and who
            leads by how much.
        margins: whether the rows say who leads.
        how: text on how far they may be off.
        left_out: number of precincts that the table lacks.
        candidates_left_out: number of candidates that it lacks.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...], str], ...]
    margins: bool
    how: str
    left_out: int
    candidates_left_out: int


def votes_facts(release: Release) -> VotesFacts | None:
    """The votes of each precinct; None where the release states none."""
    record = release.precincts
    if record is None:
        return None
    from hushrank.flows.release.precincts import leader_text, levels_of, precincts_sentence

    shown, place = release.shown(), {line.item: n for n, line in enumerate(release.ranking)}
    levels = list(levels_of(record, release.released))
    items: tuple[str, ...] = release.released.items  # type: ignore[attr-defined]
    best = sorted(range(len(items)), key=lambda number: place[items[number]])[:MOST_CANDIDATES]
    listed = [each for each in levels if each.level in ("precinct", "elsewhere")]
    above = [each for each in reversed(levels) if each.level == "all"]
    above += [each for each in levels if each.level == "district"]
    return VotesFacts(
        names=tuple(shown[items[number]] for number in best),
        rows=tuple(
            (
                RULE_WORDS.get(each.level, each.code),
                tuple(f"{each.votes[number]:,}" for number in best),
                leader_text(each, [shown[item] for item in items]),
            )
            for each in (*above, *listed[:MOST_PRECINCTS])
        ),
        margins=record.margin_reach is not None,
        how=precincts_sentence(record),
        left_out=max(len(listed) - MOST_PRECINCTS, 0),
        candidates_left_out=len(items) - len(best),
    )
