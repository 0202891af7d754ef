"""A ranking in words and short numbers, the same on the command line and in the report."""

from __future__ import annotations

from collections.abc import Sequence

from hushrank.flows.release.boards import RankedItem
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import WORDS, ScaleWords
from hushrank.flows.release.statistics import ReleasedList

MOST_NAMED = 4  # items named in one sentence
LIKELY = 0.05  # less probable items are not named among the most likely best


def verdict(release: Release) -> str:
    """What the ranking says, in one to four sentences that hold together with 95 %.

    It is read off the groups and ranks of the rows: who shares the first place leads. Nobody is
    surely better than any of those with a rank of 1 at best, so such an item further down may be
    the best, too. Where all of the second group have as many above them as lead, those are the
    leaders. Where only one item may be the last, all others are surely better.
    """
    if not release.informative:
        return "Nothing useful can be learned from this release."
    if isinstance(release.released, ReleasedList):
        shown = release.shown()
        return f"Best, in this order: {', '.join(shown.get(i, i) for i in release.released.items)}."
    lines, n = release.ranking, len(release.ranking)
    first = lines[0].group
    leaders = [line for line in lines if line.group == first]
    likely = likely_best(release) if len(leaders) > 1 else ""
    if all(line.sure_ranks[0] == 1 for line in lines):
        return f"No item can be told apart from any other.{likely}"
    words = WORDS[release.scale]
    sentences = [_lead(leaders, words)]
    if others := [line for line in lines if line.sure_ranks[0] == 1 and line.group != first]:
        them = "it" if len(leaders) == 1 else "any of them"
        verb = "is" if len(others) == 1 else "are"
        sentences.append(f"{_names(others)} {verb} not surely {words.behind} {them}.")
    behind = _next_group(lines, leaders)
    if behind:
        them = "it" if len(leaders) == 1 else "both" if len(leaders) == 2 else "them"
        apart = " and cannot be told apart" if len(behind) > 1 else ""
        sentences.append(f"{_names(behind)} {_are(behind)} {words.behind} {them}{apart}.")
    last = [line for line in lines if line.sure_ranks[1] == n]
    if len(last) == 1 and last[0] not in behind:
        sentences.append(f"{last[0].shown} {words.comes_last}.")
    return " ".join(sentences) + likely


def _next_group(lines: Sequence[RankedItem], leaders: Sequence[RankedItem]) -> list[RankedItem]:
    """The second group, where each of it is behind all leaders; else nobody."""
    after = lines[len(leaders)].group
    behind = [line for line in lines if line.group == after]
    return behind if all(line.sure_ranks[0] == len(leaders) + 1 for line in behind) else []


def groups_note(release: Release) -> str:
    """Where the rankings of groups are; empty where there are no groups."""
    if not release.groups:
        return ""
    names = [group.name for group in release.groups]
    return (
        f"This is the ranking of all answers together. Of {name_list(names)} there"
        f" {'is one each' if len(names) > 1 else 'is one'} in the report, ranking.csv and"
        " release.json, at the same epsilon."
    )


def likely_best(release: Release) -> str:
    """Who is probably the best, a sentence after a blank; empty where that is not known."""
    if not release.says("p_best"):
        return ""
    by_chance = sorted(release.ranking, key=lambda line: -(line.p_best or 0))[: MOST_NAMED - 1]
    named = [
        f"{line.shown} ({chance_text(line.p_best)})"
        for line in by_chance
        if (line.p_best or 0) >= LIKELY
    ]
    words = WORDS[release.scale]
    return f" Most likely the {words.first}: {name_list(named)}." if named else ""


def certainty(release: Release) -> str:
    """How many pairs are in a sure order, and what holds at once; empty of older releases."""
    if not (release.informative and release.says("rank_low_all")):
        return ""
    n = len(release.ranking)
    pairs, sure = n * (n - 1) // 2, sum(line.sure_ranks[0] - 1 for line in release.ranking)
    return (
        f"{sure:,} of {pairs:,} pairs of items are surely in the order shown. That, places and"
        " ranks hold for all items at once with 95 % confidence."
    )


def chance_text(chance: float | None) -> str:
    """`34 %`, `<1 %`, `>99 %`; a dash where it is not known."""
    if chance is None:
        return "–"
    if 0.01 <= chance <= 0.99:
        return f"{100 * chance:.0f} %"
    return "<1 %" if chance < 0.5 else ">99 %"


def rank_interval(line: RankedItem) -> str:
    """`1`, or `2–3`: the ranks that hold for all items at once."""
    low, high = line.sure_ranks
    return f"{low}" if low == high else f"{low}–{high}"


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
