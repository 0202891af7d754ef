"""Winners by rules of elections, and the margins between candidates, on the page of a report."""

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

MOST = 12  # candidates in the table of margins; a longer ranking shows its best


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionFacts:
    """Texts as they are shown.

    Attributes:
        sentence: whether one candidate is preferred to each other one; empty: it was not asked.
        rules: rule, winners, and whether that is sure or who could have won.
        names: candidates of the table of margins, best first; empty: no pairs are released.
        margins: of each the margins over the others, and whether each is sure.
        how: how to read the table.
        left_out: how many candidates it lacks.
        rounds: of an instant runoff its table: number, who leaves, and how sure that is; counts of
            `columns`, best first, with exhausted ballots last.
        columns: headings of these counts; empty: there are no rounds.
        how_rounds: how to read that table.
        caution: what these statements are not.
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
    caution: str = NOT_A_COUNT


def election_facts(release: Release) -> ElectionFacts | None:
    """The facts of an election; None where the release states none."""
    election = release.election
    if election is None:
        return None
    shown = release.shown()
    best = [line.item for line in release.ranking[:MOST]]
    margins = _margins(release, election, best)
    how = ""
    if election.margin_deviation is not None and election.sure_from is not None:
        how = (
            "How many more ballots prefer the candidate of the row to that of the column than the"
            " other way round, by the noisy counts. The noise in each has a standard deviation of"
            f" {election.margin_deviation:.1f} ballots. A margin above {election.sure_from:.1f} is"
            " bold: it is surely on that side without the noise, for all pairs and rules at once"
            " with 95 % confidence."
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
