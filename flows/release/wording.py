"""A ranking in words and short numbers, the same on the command line and in the report.

Two words say how far an order is known, and no others do. *Reliably*: with 95 % confidence for all
items at once (`AllAtOnce`). *Very likely*: with a probability of 95 % or more, of one statement
alone (`p_best`). An item may be the best if no item is reliably better. What is said of the first:

| may others be the best? | P(best) of the likeliest, as printed | the verdict begins |
|---|---|---|
| no | any | `A leads.` |
| yes | 95 % or more | `A very likely leads B and C; not certain when all items are [...]` |
| yes, and there are two items | 95 % or more | `A very likely leads B, but not reliably.` |
| yes, of those that share its place | less, or unknown | `A and B lead and cannot be told apart.` |
| yes, further down | less, or unknown | `A leads. C may also belong in the leading group.` |
| yes, all items | less, or unknown | `No item can be told apart from any other.` |

Wherever others may be the best, the probabilities follow, if the release has any. So "cannot be
told apart" never stands beside a probability of 95 % or more. Items further down are "in no sure
order", because no probability of their order is known.

Number of people who would have to change for another item to be first, and its sentences.

It is computed from what is released, and costs nothing. `estimation.common.score_change` has the
bounds and their proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import numpy as np

from hushrank.estimation.common.estimate import interval_change
from hushrank.estimation.common.score_change import (
    Gaps,
    LeadBy,
    RowBounds,
    bound_of,
    estimated_changes,
)
from hushrank.flows.release.boards import RankedItem, open_intervals
from hushrank.flows.release.release import Release
from hushrank.flows.release.released import Robustness
from hushrank.flows.release.scale import UNBOUNDED, WORDS, Scale, ScaleWords, log_odds_of
from hushrank.privacy.units import NoiseKind, Unit

MOST_NAMED = 4  # items named in one sentence
LIKELY = 0.05  # less probable items are not named among the most likely best
VERY_LIKELY = 95  # percent, as `chance_text` rounds it, so that a word and its number agree
RELIABLY = "Reliably means: with 95 % confidence for all items at once."
MEANING_OF_VERY_LIKELY = f"Very likely means: with a probability of {VERY_LIKELY} % or more."


def verdict(release: Release) -> str:
    """Say in one to five sentences what the ranking shows; the table above has the cases.

    All but the probabilities is read off the groups and ranks of the rows, so it holds together
    with 95 %. Where all of the second group have as many above them as lead, those are the leaders.
    Where only one item may be the last, all others are reliably better.
    """
    if not release.informative:
        return "Nothing useful can be learned from this release."
    if (best := release.released.best) is not None:
        shown = release.shown()
        return f"Best, in this order: {', '.join(shown.get(item, item) for item in best)}."
    unknown = "Nothing was learned about most items. " if open_intervals(release.ranking) else ""
    return unknown + _order(release)


def _order(release: Release) -> str:
    """Say who leads, who may be the best, and who comes last."""
    lines, words = release.ranking, WORDS[release.scale]
    candidates = [line for line in lines if line.sure_ranks[0] == 1]  # for the first rank
    likely = likely_best(candidates, words) if len(candidates) > 1 else ""
    if (best := _very_likely_best(candidates)) is not None:
        leaders, sentences = candidates, _very_likely_lead(best, release, candidates)
    elif len(candidates) == len(lines):
        return f"No item can be told apart from any other.{likely}"
    else:
        leaders = [line for line in lines if line.group == lines[0].group]
        sentences = _lead(leaders, candidates, words)
    behind = _next_group(lines, leaders)
    if behind:
        them = "it" if len(leaders) == 1 else "both" if len(leaders) == 2 else "them"
        order = ", in no sure order" if len(behind) > 1 else ""
        sentences.append(f"{_names(behind)} {_are(behind)} {words.behind} {them}{order}.")
    last = [line for line in lines if line.sure_ranks[1] == len(lines)]
    if len(last) == 1 and last[0] not in behind:
        sentences.append(f"{last[0].shown} {words.comes_last}.")
    return " ".join(sentences) + likely


def _very_likely_best(candidates: Sequence[RankedItem]) -> RankedItem | None:
    """The item that is very likely but not reliably the best; None: there is no such item."""
    best = max(candidates, key=lambda line: line.p_best or 0)
    very_likely = round(100 * (best.p_best or 0)) >= VERY_LIKELY
    return best if very_likely and len(candidates) > 1 else None


def _very_likely_lead(
    best: RankedItem, release: Release, candidates: Sequence[RankedItem]
) -> list[str]:
    """Say that `best` very likely leads the other candidates, and what speaks against it."""
    others = _names([line for line in candidates if line is not best])
    lead = f"{best.shown} {WORDS[release.scale].very_likely_leads} {others}"
    if len(release.ranking) == 2:
        sentences = [f"{lead}, but not reliably."]
    else:
        sentences = [f"{lead}; not certain when all items are judged at once."]
    first = release.ranking[0]
    if first is not best:
        sentences.append(f"{first.shown} has a higher score, which is known less well.")
    return sentences


def _lead(
    leaders: Sequence[RankedItem], candidates: Sequence[RankedItem], words: ScaleWords
) -> list[str]:
    """Say who shares the first place, and who further down may be the best too."""
    if len(leaders) == 1:
        sentences = [f"{leaders[0].shown} {words.leads[0]}."]
    else:
        sentences = [f"{_names(leaders)} {words.leads[1]} and cannot be told apart."]
    if others := [line for line in candidates if line.group != leaders[0].group]:
        sentences.append(f"{_names(others)} may also belong in the leading group.")
    return sentences


def _next_group(lines: Sequence[RankedItem], leaders: Sequence[RankedItem]) -> list[RankedItem]:
    """The second group, where each of it is behind all leaders, who are the first; else nobody."""
    if len(leaders) == len(lines) or len({line.group for line in leaders}) > 1:
        return []
    after = lines[len(leaders)].group
    behind = [line for line in lines if line.group == after]
    return behind if all(line.sure_ranks[0] == len(leaders) + 1 for line in behind) else []


def groups_note(release: Release) -> str:
    """Say where the rankings of groups are; empty if there are no groups."""
    if not release.groups:
        return ""
    names = [group.name for group in release.groups]
    given = "rankings" if release.released.ballots else "answers"
    note = (
        f"This ranking is of all {given} together. Of {name_list(names)} there"
        f" {'is one each' if len(names) > 1 else 'is one'} in the report, ranking.csv and"
        " release.json, at the same epsilon."
    )
    if release.groups[0].effects is None:
        return note
    return f"{note} Effects of each group are in the report, effects.csv and release.json."


def likely_best(candidates: Sequence[RankedItem], words: ScaleWords) -> str:
    """Say who is probably the best, a sentence after a blank; empty if that is not known.

    Args:
        candidates: the items that may be the best.
        words: words for the release's scale.
    """
    by_chance = sorted(candidates, key=lambda line: -(line.p_best or 0))[: MOST_NAMED - 1]
    named = [
        f"{line.shown} ({chance_text(line.p_best)})"
        for line in by_chance
        if (line.p_best or 0) >= LIKELY
    ]
    return f" Most likely the {words.first}: {name_list(named)}." if named else ""


def certainty(release: Release) -> str:
    """Say how many pairs are reliably ordered, and what that means; empty for older releases."""
    if not (release.informative and release.says("rank_low_all")):
        return ""
    n = len(release.ranking)
    pairs, sure = n * (n - 1) // 2, sum(line.sure_ranks[0] - 1 for line in release.ranking)
    return (
        f"{sure:,} of {pairs:,} pairs are reliably ordered. These orderings, places and rank ranges"
        " all hold together with 95 % confidence."
    )


def chance_text(chance: float | None) -> str:
    """`34 %`, `<1 %`, `>99 %`; a dash where it is not known."""
    if chance is None:
        return "–"
    if 0.01 <= chance <= 0.99:
        return f"{100 * chance:.0f} %"
    return "<1 %" if chance < 0.5 else ">99 %"


def interval_headings(release: Release) -> tuple[str, ...]:
    """Headings of the intervals that a ranking shows: of each item alone, and all at once."""
    return ("95 % alone", "95 % all at once") if release.says("low_all") else ("95 % interval",)


def rank_interval(line: RankedItem) -> str:
    """`1`, or `2–3`: the ranks that hold for all items at once."""
    return range_text(*line.sure_ranks)


def range_text(low: int, high: int) -> str:
    """`1`, or `2–3`."""
    return f"{low}" if low == high else f"{low}–{high}"


def _names(lines: Sequence[RankedItem]) -> str:
    return name_list([line.shown for line in lines])


def name_list(names: list[str]) -> str:
    """`A`, `A and B`, `A, B and C`, or the first few `and 12 more`."""
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _are(lines: Sequence[RankedItem]) -> str:
    return "is" if len(lines) == 1 else "are"


def exact_text(release: Release, line: RankedItem) -> str:
    """Item, score and interval with the digits of `ranking.csv`, in the release's unit."""
    name = line.item if line.label is None else f"{line.label} ({line.item})"
    if not release.informative:
        return f"{name}: nothing is known"
    unit = WORDS[release.scale].unit
    text = f"{name}: {_end(line.score)}{unit}, 95 % interval {_ends(line.low, line.high, unit)}"
    if line.low_all is None or line.high_all is None:
        return text
    text += f", all at once {_ends(line.low_all, line.high_all, unit)}"
    if line.p_best is None or line.p_top is None:
        return text
    return f"{text}, chance to be first {line.p_best:.6f}, among {release.top} {line.p_top:.6f}"


def _ends(low: float, high: float, unit: str) -> str:
    if math.isinf(low) and math.isinf(high):
        return UNBOUNDED
    return f"{_end(low)} to {_end(high)}{unit}"


def _end(value: float) -> str:
    return f"{value:.6f}" if math.isfinite(value) else "open"


LEAST_TOLD = 2  # people: that no fewer than one suffices goes without saying
MOST_ESTIMATED = 300  # items, for which a curvature is inverted


def robustness_of(release: Release) -> tuple[Robustness, ...] | None:
    """Compute robustness from the released counts; None: nothing is known from them.

    That is so of local answers, whose holder may send anything; of rows with weights; of a stream,
    in which nights share people; and of scores that were drawn, of which no counts are known.
    """
    variance = 0.0 if release.privacy.mechanism == "none" else _variance(release)
    weighted = "design_effect" in release.privacy.parameters
    if (
        not release.informative
        or release.privacy.unit is Unit.LOCAL
        or release.stream is not None
        or weighted
        or variance is None
    ):
        return None
    gaps = _gaps(release, variance)
    found = [] if gaps is None else [*_certified(release, gaps)]
    found += _estimated(release, variance)
    return tuple(found) or None


def _variance(release: Release) -> float | None:
    """Variance of continuous noise that reaches at least as far as the discrete noise of a count.

    Of discrete Laplace noise it is that of the continuous law of the same scale: at scales below 1
    the discrete law has less variance but as long tails.
    """
    known, privacy = release.noise_variance, release.privacy
    if known is None or privacy.noise_scale is None or _kind(release) is NoiseKind.GAUSSIAN:
        return known
    return known * 2 * privacy.noise_scale**2 / (privacy.noise_variance or 1.0)


def _bounds(release: Release) -> RowBounds:
    privacy = release.privacy
    return RowBounds(
        rows=privacy.max_contributions or 1,
        per_item=privacy.per_item_cap,
        distinct=privacy.distinct_pairs,
        longest=_longest(release),
    )


def _longest(release: Release) -> int | None:
    """Most items that a ranking of found names says something of; None: it may be all."""
    longest = release.privacy.parameters.get("longest_ranking")
    return longest if release.found is not None and isinstance(longest, int) else None


def _own_names(release: Release) -> int:
    """Names of a person, under each of which they may have all rows that the bounds allow."""
    return release.privacy.names_per_person or 1


def _kind(release: Release) -> NoiseKind:
    gaussian = "gaussian" in release.privacy.mechanism
    return NoiseKind.GAUSSIAN if gaussian else NoiseKind.LAPLACE


def _gaps(release: Release, variance: float) -> Gaps | None:
    """Return each other item's distance behind the first of the ranking; None: no such counts."""
    found = release.released.leads()
    if found is None:
        return None
    first = release.ranking[0].item
    return Gaps(
        by=found.by,
        gaps=found.gaps(first),
        deviation=math.sqrt(found.draws * variance) * found.step,
        kind=_kind(release),
        draws=found.draws if found.by is LeadBy.MAJORITIES else 1,
        step=found.step,
    )


def _certified(release: Release, gaps: Gaps) -> Iterator[Robustness]:
    bound = _own_names(release) * bound_of(gaps.by, _bounds(release), gaps.n_items)
    if replaced := gaps.at_least(2 * bound):
        yield Robustness(
            by=gaps.by,
            first=release.ranking[0].item,
            replaced=replaced,
            changed=gaps.at_least(bound),
            bound=bound,
            noise_allowance=gaps.allowance,
            kind="certificate",
        )


def _estimated(release: Release, variance: float) -> Iterator[Robustness]:
    """Yield robustness of Bradley-Terry scores that were fitted to the counts of pairs."""
    n, weight = len(release.ranking), getattr(release.released, "row_weight", None)
    fitted = release.scale in (Scale.LOG_ODDS, Scale.ELO)
    if not fitted or weight is None or n > MOST_ESTIMATED or not release.released.tells_rates:
        return
    lines = release.ranking
    wins = release.released.among([line.item for line in lines])
    if wins is None or not np.isfinite(wins).all():
        return
    scores = np.array([line.score for line in lines])
    if release.scale is Scale.ELO:
        scores = log_odds_of(scores)
    found = estimated_changes(scores, wins, variance / weight**2, _kind(release), _bounds(release))
    if found is not None:
        yield Robustness(
            by=LeadBy.SCORES,
            first=lines[0].item,
            replaced=-(-found.replaced // _own_names(release)),
            changed=-(-found.changed // _own_names(release)),
            bound=None,
            noise_allowance=None,
            kind="estimate",
        )


_LOST = {
    LeadBy.WINS: "For another item to have as many wins as {first}",
    LeadBy.NET_WINS: "For another item to have as many wins less losses as {first}",
    LeadBy.MAJORITIES: "For {first} to lose its majority over some other item",
    LeadBy.BORDA: "For another item to have a Borda sum as large as that of {first}",
    LeadBy.FIRST_PLACES: "For another item to have as many first places as {first}",
    LeadBy.SCORES: "For another item to have a score as high as that of {first}",
}


NONE_OF_ROUNDS = (
    "How many people it takes to change the winner is not stated of an instant runoff: a few"
    " ballots may decide who leaves in a close round, and all later rounds with it."
)


LEAST_WIDENED = 1.005  # factor below which the noise is not worth a sentence
LEFT_OUT = "pairs_left_out_of_the_fit"  # less noise would use them
# Parameters of releases. Noise lengthens spectral intervals up to twice as much as predicted.
NOT_PREDICTED = (LEFT_OUT, "estimator")
MOST_WIDENED = 10.0  # a larger factor is not told more exactly


def precision_sentence(release: Release) -> str:
    """Say how much privacy widened the intervals, and what twice the people would bring.

    It is about the typical interval, by the median share of noise in the squared standard errors.
    Empty where that is not known, as where noise decided which pairs count, or no noise was added.
    """
    pairs = [(line.se, line.se_noise) for line in release.ranking]
    shares = [(noise / se) ** 2 for se, noise in pairs if se and noise is not None]
    central = release.privacy.unit is not Unit.LOCAL and release.stream is None
    whole = len(shares) == len(pairs)
    usual = not any(map(release.privacy.parameters.get, NOT_PREDICTED))
    predicted = release.released.predicts_intervals and usual
    if not (release.informative and central and whole and predicted):
        return ""
    change = interval_change(median(shares))
    if change.widened < LEAST_WIDENED:
        return ""
    who = "comparisons" if release.privacy.unit is Unit.COMPARISON else "people"
    twice = f"with twice the {who} it would be about {100 * change.at_twice:.0f} % as long"
    if change.widened > MOST_WIDENED:
        return f"Nearly all of a typical interval is privacy noise; {twice}."
    more = f"{100 * (change.widened - 1):.0f} %"
    return f"Privacy noise makes a typical interval about {more} longer; {twice}."


def robustness_sentences(release: Release, shown: Mapping[str, str]) -> Iterator[str]:
    """Yield sentences for terminal and page; a bound on few people says nothing and is left out."""
    if release.election is not None and release.election.rounds is not None:
        yield NONE_OF_ROUNDS
    rows = release.privacy.unit is Unit.COMPARISON
    whose = "" if rows else "the answers of "
    for each in release.robustness or ():
        if each.replaced < LEAST_TOLD:
            continue
        what = f"{each.replaced:,} {'rows' if rows else 'people'}"
        lost = _LOST[each.by].format(first=shown[each.first])
        if release.found is not None:  # other people might have other names found
            lost = lost.replace("other item", "other found name", 1)
        if each.kind == "estimate":
            yield f"{lost}, {whose}about {what} would have to be replaced: an estimate, no bound."
            continue
        yield (
            f"{lost}, {whose}at least {what} would have to be replaced, or at least"
            f" {each.changed:,} taken away or added (95 % confidence).{_weaker(release, each)}"
        )


def _weaker(release: Release, told: Robustness) -> str:
    """Say what makes the bound small where it may be far below the truth."""
    most = release.privacy.max_contributions
    if release.privacy.unit is Unit.COMPARISON:
        return " One person may have given many rows."
    if told.bound is None or told.bound < LEAST_TOLD or most is None:
        return ""
    most *= _own_names(release)
    allowed = (
        " The truth may be far larger: the bound allows each person to move the lead by"
        f" {2 * told.bound:,}"
    )
    if most == 1:
        return f"{allowed}."
    return (
        f"{allowed}, as {most:,} answers of one person may count. A smaller max_contributions"
        " allows each person less."
    )
