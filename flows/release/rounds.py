"""Noisy rounds of an instant runoff in a release: the counts, their table and sentences."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from hushrank.flows.release.released import Figure, ReleasedRecord
from hushrank.transforms.common.plain_text import write_cell

if TYPE_CHECKING:
    from hushrank.flows.release.release import Release

HOW = (
    "How many ballots count for each candidate left, by the noisy counts; the one with the fewest"
    " leaves. A ballot that lists nobody who is left is exhausted. The noise in each count has a"
    " standard deviation of {deviation:.1f} ballots. What is called sure holds for all rounds at"
    " once with 95 % confidence."
)


class ReleasedRounds(ReleasedRecord):
    """How many rankings count for each item in each round, with noise.

    Attributes:
        items: in catalogue order; columns are in this order.
        weights: what one adds to each count.
        rounds: entry a of row r counts rankings with a as the best item left in round r; null: a
            has left.
        exhausted: rankings without an item that is left, of each round.
    """

    shows = (Figure.SCORES,)
    ballots = "rankings"
    orders = True
    kind: Literal["round-counts"] = "round-counts"
    items: tuple[str, ...]
    weights: dict[str, int]
    rounds: tuple[tuple[int | None, ...], ...]
    exhausted: tuple[int, ...]

    @classmethod
    def of(cls, counts: Sequence[Sequence[int]], items: Sequence[str]) -> Self:
        """The record of noisy counts.

        Args:
            counts: of each round those of all items, then of exhausted rankings.
            items: names of the catalogue.

        Raises:
            ValueError: they are of another number of items.
        """
        if {len(row) for row in counts} != {len(items) + 1}:
            raise ValueError(f"got {len(items)} items, but rounds of another number")
        rounds, left = [], [True] * len(items)
        for row in counts:
            rounds.append(tuple(n if here else None for n, here in zip(row, left, strict=False)))
            among = reversed([place for place, here in enumerate(left) if here])
            left[min(among, key=row.__getitem__)] = False
        return cls(
            items=tuple(items),
            weights={"rounds": 1},
            rounds=tuple(rounds),
            exhausted=tuple(row[-1] for row in counts),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round, for a table.

    Attributes:
        counts: noisy counts of the items left, by item.
        exhausted: noisy count of exhausted rankings.
        out: who leaves.
        possible: who may have had the fewest.
        reached: these items are surely left without the noise, too.
    """

    counts: dict[str, int]
    exhausted: int
    out: str
    possible: tuple[str, ...]
    reached: bool

    @property
    def sure(self) -> bool:
        """Whether the same item surely leaves here without the noise."""
        return self.reached and len(self.possible) == 1

    def certainty(self, shown: Mapping[str, str]) -> str:
        """How sure it is who leaves, in a few words."""
        if self.sure:
            return "surely"
        others = ", ".join(shown[item] for item in self.possible)
        if self.reached:
            return f"could have been {others}"
        if len(self.possible) == 1:
            return "surely, if these were left"
        return f"could have been {others}, if these were left"


def rounds_of(release: Release) -> tuple[Round, ...]:
    """The rounds of a release; none if it has no instant runoff."""
    election, released = release.election, release.released
    if election is None or election.rounds is None or not isinstance(released, ReleasedRounds):
        return ()
    return tuple(
        Round(
            counts={
                item: count
                for item, count in zip(released.items, counts, strict=True)
                if count is not None
            },
            exhausted=exhausted,
            out=told.out,
            possible=told.possible,
            reached=told.reached,
        )
        for counts, exhausted, told in zip(
            released.rounds, released.exhausted, election.rounds, strict=True
        )
    )


def round_rows(rounds: Sequence[Round]) -> Iterator[dict[str, int | str | bool]]:
    """A row for each item left in each round."""
    for number, each in enumerate(rounds, 1):
        for item, count in each.counts.items():
            yield {
                **{"round": number, "item": item, "ballots": count, "exhausted": each.exhausted},
                "leaves": item == each.out,
                "may_leave": item in each.possible,
                "reached": each.reached,
            }


def rounds_csv(rounds: Sequence[Round]) -> str:
    """The rounds as a table, a line for each item left."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["round", "item", "ballots", "exhausted", "leaves", "may_leave", "reached"])
    for number, item, *counts, leaves, may_leave, reached in map(dict.values, round_rows(rounds)):
        words = ["yes" if so else "no" for so in (leaves, may_leave, reached)]
        table.writerow([number, write_cell(str(item)), *counts, *words])
    return text.getvalue()


def round_lines(rounds: Sequence[Round], shown: Mapping[str, str]) -> Iterator[str]:
    """What a terminal says of each round."""
    for number, each in enumerate(rounds, 1):
        counts = sorted(each.counts.items(), key=lambda pair: -pair[1])
        told = ", ".join(f"{shown[item]} {count:,}" for item, count in counts)
        yield (
            f"Round {number}: {told}; exhausted {each.exhausted:,}. {shown[each.out]} leaves"
            f" ({each.certainty(shown)})."
        )
