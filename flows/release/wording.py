"""A ranking in words and short numbers, the same on the command line and in the report."""

from __future__ import annotations

from collections.abc import Sequence

from hushrank.flows.release.release import RankedItem, Release
from hushrank.flows.release.scale import WORDS, ScaleWords
from hushrank.flows.release.statistics import ReleasedList

MOST_NAMED = 4  # items named in one sentence


def verdict(release: Release) -> str:
    """What the ranking says, at 95 % confidence, in one to three sentences.

    No item is surely better than any of those with `rank_low` 1, so they lead and cannot be told
    apart. Whoever is surely better than an item is so than all below it, so items next in the
    ranking with as many above them as there are leaders are behind all leaders and nobody else.
    """
    if not release.informative:
        return "Nothing useful can be learned from this release."
    if isinstance(release.released, ReleasedList):
        shown = release.shown()
        return f"Best, in this order: {', '.join(shown.get(i, i) for i in release.released.items)}."
    lines, n = release.ranking, len(release.ranking)
    leaders = [line for line in lines if line.rank_low == 1]
    if len(leaders) == n:
        return "No item can be told apart from any other."
    behind = []
    if lines[len(leaders)].rank_low == len(leaders) + 1:
        behind = [line for line in lines if line.rank_low == len(leaders) + 1]
    words = WORDS[release.scale]
    sentences = [_lead(leaders, words)]
    if behind:
        them = "it" if len(leaders) == 1 else "both" if len(leaders) == 2 else "them"
        apart = " and cannot be told apart" if len(behind) > 1 else ""
        sentences.append(f"{_names(behind)} {_are(behind)} {words.behind} {them}{apart}.")
    last = [line for line in lines if line.rank_high == n]
    if len(last) == 1 and last[0] not in behind:
        sentences.append(f"{last[0].shown} {words.comes_last}.")
    return " ".join(sentences)


def rank_interval(line: RankedItem) -> str:
    """`1`, or `2–3`."""
    if line.rank_low == line.rank_high:
        return f"{line.rank_low}"
    return f"{line.rank_low}–{line.rank_high}"


def _lead(leaders: Sequence[RankedItem], words: ScaleWords) -> str:
    if len(leaders) == 1:
        return f"{leaders[0].shown} {words.leads[0]}."
    return f"{_names(leaders)} {words.leads[1]} and cannot be told apart."


def _names(lines: Sequence[RankedItem]) -> str:
    return name_list([line.shown for line in lines])


def name_list(names: list[str]) -> str:
    """`A`, `A and B`, `A, B and C`, or the first few `and 12 more`."""
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _are(lines: Sequence[RankedItem]) -> str:
    return "is" if len(lines) == 1 else "are"
