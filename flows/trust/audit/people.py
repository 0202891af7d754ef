"""Synthetic people: those whom a mechanism should hide worst, and everybody else.

A log holds one person who changes and some others who do not. The person has more rows than the
bounds allow, so that an audit sees whether the bounds hold. Which two of these people are the
hardest to hide, an audit finds out (`flows.trust.audit.audit`).

The job that is audited: the guarantee, bounds and method of a configuration, on a few items.

Only public settings enter. The files of the survey are replaced by synthetic ones with columns of
fixed names, so that their formats, words and columns are no part of an audit.

Audits of an instant runoff: which cells a round has depends on the noise of those before it.

Given who has left, the counts of a round are exact ones with noise of a known law, so the
likelihood ratio of two logs follows from the output alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.rankings.election_rules import count_round, members_of_sets
from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.schedule import StreamConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.registry import METHODS, calibrate, check_job
from hushrank.flows.statement.rankings import RankingCountMechanism
from hushrank.flows.trust.audit.result import Draws
from hushrank.privacy.audit import Rows, Statistic
from hushrank.privacy.stream_encoder import RowTerms, SquareTerms
from hushrank.privacy.units import Adjacency, NoiseKind, Query, Unit
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.responses.answer_sheets import Missing

ROWS = "rows.parquet"
GROUP, WEIGHT, FEATURE = "group", "weight", "feature_{}"
MOST_GROUPS, MOST_NIGHTS = 2, 8
SEPARATOR = "|"
MOST_METERED = 2  # rows of a person on one pair that fit into so few nights
MOST_SQUARES = 12  # of nights that fit, each of 2 or 3 rows
FIRST_NIGHT = date(2026, 1, 1)
_KEPT = {"name", "privacy", "model", "spectral", "top_k", "groups"}
_OF_SOURCES = ("epsilon_range", "epsilon_levels", "epsilon_table", "already_private")


def small_job(
    config: SurveyConfig, n_items: int, folder: Path, longest: int | None = None
) -> SurveyConfig:
    """Return the same job on `n_items` items and on files in `folder`.

    Args:
        config: the job, whose rules hold.
        n_items: size of the synthetic catalogue.
        folder: absolute, exists; for the synthetic files.
        longest: the most items of a ranking; None: as the job has it.

    Raises:
        ConfigError: the job cannot be had on so few items; the text says why.
    """
    given = config.model_dump(mode="json", exclude_unset=True, include=_KEPT)
    content: dict[object, Any] = {key: value for key, value in given.items() if value is not None}
    facts = METHODS[config.method].resolve(config).method.facts
    content |= {
        "method": facts.same_draws or facts.name,
        "items": {"count": n_items},
        "input": _input_of(config, longest),
        "output": str(folder / "out"),
        "confidential": str(folder / "work"),
        "ledger": {"path": str(folder / "ledger.jsonl"), "epsilon": 1e6, "delta": 0.9},
    }
    if config.privacy.unit is Unit.LOCAL:
        content["privacy"] = _at_the_largest_epsilon(config, content["privacy"])
        model: dict[str, Any] = dict(content.get("model") or {})
        unread = ("weights", "item_features")
        content["model"] = {key: each for key, each in model.items() if key not in unread}
    if "groups" in content:
        content["groups"] = _small_groups(content["groups"])
    if config.model.design() is not None:
        content["model"]["exposures"] = str(_public_design(config, n_items, folder))
    if config.schedule.stream is not None:
        content["schedule"] = {"stream": _short_stream(config.schedule.stream)}
        content["input"]["paths"] = ["rows-{date}.parquet"]
    return check_job(folder / "audit.yaml", content)


def _small_groups(given: dict[str, Any]) -> dict[str, Any]:
    """The same groups, but few; of groups that overlap as many as two people need who share none.

    These are named 1, 2, ..., so that no name holds the separator.
    """
    values, most = given["values"], given.get("most")
    if most is not None:
        names = [str(number) for number in range(1, min(2 * most, len(values)) + 1)]
        return {"column": GROUP, "values": names, "most": most, "separator": SEPARATOR}
    found = {**given, "column": GROUP, "values": values[:MOST_GROUPS]}
    if given.get("districts"):
        found["districts"] = {name: [name] for name in found["values"]}
    return found


def _cells(config: SurveyConfig) -> tuple[str, str] | None:
    """Two cells of groups, whose answers count in other groups; None: the job has no groups.

    Where groups overlap, the first cell names all of them, of which the first ones may count.
    """
    if config.groups is None:
        return None
    names, most = config.groups.values, config.groups.most
    if most is None:
        return names[0], names[-1]
    return SEPARATOR.join(names), SEPARATOR.join(names[-most:])


def _input_of(config: SurveyConfig, longest: int | None) -> dict[str, Any]:
    kind: dict[str, Any] = {"kind": config.input.kind, "paths": [ROWS], "on_bad_rows": "set-aside"}
    if isinstance(config.input, InputConfig):
        return kind | _comparisons_of(config.input, local=config.privacy.unit is Unit.LOCAL)
    if isinstance(config.input, RankingsConfig):
        longest = longest or config.input.max_length
        own = {"layout": "list", "columns": {"user": "user"}, "max_length": longest}
        return kind | own | {"unlisted": config.input.unlisted}
    if most_points := config.input.points_of(config.items.catalogue):
        kind["points"] = max(most_points)
    missing = config.input.missing
    return kind if missing is None else kind | {"missing": missing}


def _comparisons_of(given: InputConfig, *, local: bool) -> dict[str, Any]:
    columns = {}
    if given.columns.weight is not None:
        columns["weight"] = WEIGHT
    if given.columns.first is not None and not local:  # there it follows from flipped answers
        columns["first"] = "left"
    found: dict[str, Any] = {"columns": columns, "design": given.design, "ties": given.ties}
    if "tie_model" in given.model_fields_set:
        found["tie_model"] = given.tie_model
    if given.features:
        found["features"] = [
            {"column": FEATURE.format(place), "scale": feature.scale}
            for place, feature in enumerate(given.features)
        ]
    return found


def _at_the_largest_epsilon(config: SurveyConfig, privacy: dict[str, Any]) -> dict[str, Any]:
    """Answers at the largest epsilon that the job accepts, privatised here."""
    kept = {key: value for key, value in privacy.items() if key not in _OF_SOURCES}
    if config.privacy.epsilon is None:
        kept["epsilon"] = config.privacy.local_epsilons().high
    if not isinstance(config.input, RankingsConfig) or "mechanism" not in kept:
        return kept
    guarantee = calibrate(config).mechanism.guarantee  # type: ignore[attr-defined]
    kept |= {"mechanism": guarantee.mechanism, "epsilon": guarantee.high}
    if guarantee.pairs is not None:
        kept["pairs"] = guarantee.pairs.pairs
    return kept


def _public_design(config: SurveyConfig, n_items: int, folder: Path) -> Path:
    design = config.model.design()
    each = 2 * design.comparisons / len(config.items.catalogue.names) if design is not None else 0
    path = folder / "exposures.csv"
    lines = ["item,exposure", *(f"{item},{each!r}" for item in range(n_items))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _short_stream(stream: StreamConfig) -> dict[str, Any]:
    """Shorten a stream to eight nights, on which a person counts as much as allowed."""
    nights = min(stream.nights, MOST_NIGHTS)
    content = stream.model_dump(mode="json", exclude_unset=True)
    gap = min(stream.terms.gap, max(nights // 2, 1))
    content |= {"nights": nights, "first": FIRST_NIGHT.isoformat()}
    if isinstance(stream.terms, RowTerms):
        rows = min(stream.terms.rows, MOST_METERED)
        content["participation"] = {"rows": rows, "pair_gap": gap, "burst": rows}
    elif isinstance(stream.terms, SquareTerms):
        squares = min(stream.terms.squares, MOST_SQUARES)
        content["participation"] = {"squares": squares, "gap": gap, "burst": squares}
    else:
        content.pop("participation", None)
        most = min(stream.terms.participations, -(-nights // gap))
        content |= {"gap": gap, "participations": most}
    window = stream.show.window
    content["show"] = "cumulative" if window is None else {"window": min(window, nights)}
    if stream.bands is not None:
        content["bands"] = min(stream.bands, gap, window or nights)
    return content


MOST_EXCESS = 500  # rows beyond the bound
BEYOND = 10.0  # times the largest weight, or the scale of a feature: what bounds must clip
NO_ANSWER = 99  # neither right nor wrong, nor a number of points
NOBODY = "absent"


@dataclass(frozen=True)
class Person:
    """One person, by what they do.

    Attributes:
        does: what the person does, in words.
        rows: the person's rows, by column, without the person's name; empty: the person is absent.
        graph: pairs that the person compared; where they are public, two people are adjacent only
            if they share them.
    """

    does: str
    rows: dict[str, NDArray[Any]] = field(default_factory=dict)
    graph: str = ""


def adjacent(config: SurveyConfig, people: list[Person]) -> tuple[tuple[int, int], ...]:
    """Return which of these people may stand in each other's place."""
    pairs = combinations(range(len(people)), 2)
    if config.privacy.adjacency is Adjacency.ADD_REMOVE:
        return tuple(pair for pair in pairs if NOBODY in {people[side].does for side in pair})
    if config.privacy.public_graph:
        return tuple((a, b) for a, b in pairs if people[a].graph == people[b].graph)
    return tuple(pairs)


def comparers(config: SurveyConfig, n_items: int) -> list[Person]:
    """People who compare: one pair, one item with all others, or all pairs; or who are absent."""
    return [*_with_absent(config), *_comparers(config, n_items)]


def _with_absent(config: SurveyConfig) -> list[Person]:
    return [Person(NOBODY)] if config.privacy.adjacency is Adjacency.ADD_REMOVE else []


def _comparers(config: SurveyConfig, n_items: int) -> Iterator[Person]:
    one = config.privacy.unit is Unit.COMPARISON
    bound = 1 if one else config.privacy.max_contributions or 1
    spare = 0 if one or config.privacy.public_graph else min(bound, MOST_EXCESS) + 1
    shapes = {"on one pair": [(0, 1)]}
    if n_items > 2:
        shapes["on the next pair"] = [(1, 2)]
    if n_items > 3:
        shapes["on another pair"] = [(2, 3)]
    if n_items > 2 and not one:
        shapes["on pairs of one item"] = [(0, item) for item in range(1, n_items)]
        shapes["on pairs without a common item"] = [
            (item, item + 1) for item in range(0, n_items - 1, 2)
        ]
        shapes["on all pairs"] = list(combinations(range(n_items), 2))
    outcomes = {"wins": 1, "losses": -1}
    if config.comparisons.ties is not Ties.DROP:
        outcomes["ties"] = 0
    for shape, pairs in shapes.items():
        n_rows = max(bound + spare, len(pairs) if spare else 0)
        sides = np.array(pairs)[np.arange(n_rows) % len(pairs)]
        for outcome, sign in outcomes.items():
            rows = _rows(config, sides, np.full(len(sides), sign, np.int8))
            yield from _variants(config, Person(f"{outcome} {shape}", rows, shape))
    if Query.CONTRADICTIONS in config.privacy.queries:
        sides = np.zeros((bound + spare, 2), np.int64)
        sides[:, 1] = 1
        either = np.where(np.arange(len(sides)) % 2, 1, -1).astype(np.int8)
        yield Person("contrary answers on one pair", _rows(config, sides, either))
    unknown = np.full((bound + spare, 2), n_items + 1)
    if not config.privacy.public_graph:
        rows = _rows(config, unknown, np.ones(len(unknown), np.int8))
        yield Person("rows that break a rule", rows)


def _rows(
    config: SurveyConfig, sides: NDArray[np.int64], outcome: NDArray[np.int8]
) -> dict[str, NDArray[Any]]:
    """Comparisons with as large weights and features as there can be, in the first group."""
    n = len(sides)
    rows: dict[str, NDArray[Any]] = {"left": sides[:, 0], "right": sides[:, 1], "outcome": outcome}
    if (cells := _cells(config)) is not None:
        rows[GROUP] = np.full(n, cells[0])
    if config.comparisons.columns.weight is not None:
        rows[WEIGHT] = np.full(n, BEYOND * (config.privacy.max_weight or 1.0))
    for place, feature in enumerate(config.comparisons.features):
        rows[FEATURE.format(place)] = np.full(n, BEYOND * feature.scale)
    return rows


def _variants(config: SurveyConfig, person: Person) -> Iterator[Person]:
    """The person; in another group; with the sides exchanged, or with other features."""
    yield person
    rows = person.rows
    if (cells := _cells(config)) is not None and cells[0] != cells[1]:
        other = np.full(len(rows["left"]), cells[1])
        yield Person(f"{person.does}, in another group", {**rows, GROUP: other}, person.graph)
    if config.comparisons.covariates:
        turned = {"left": rows["right"], "right": rows["left"], "outcome": -rows["outcome"]}
        yield Person(f"{person.does}, shown the other way", {**rows, **turned}, person.graph)


def comparisons_by_others(config: SurveyConfig, times: int) -> dict[str, NDArray[Any]]:
    """Rows of everybody else: item 1 beats 0, 2 beats 1, and 3 beats 2, so many times.

    Wins of the items that always lose then pull at a fit with nearly all their force. One of them
    over 0 in the place of one of them over 2 moves item 1 twice as far: nothing moves a fit more.
    """
    n_items = len(config.items.catalogue.names)
    pairs = np.array([(item + 1, item) for item in range(min(n_items - 1, 3))])
    each = 1 if config.privacy.distinct_pairs else config.privacy.max_contributions or 1
    each = min(each, config.privacy.per_item_cap or each)
    sides = np.repeat(pairs, times, axis=0)
    rows = _rows(config, sides, np.ones(len(sides), np.int8))
    return {"user": 1 + np.arange(len(sides)) // each, **rows}


def test_takers(config: SurveyConfig, n_items: int) -> list[Person]:
    """People who are right on one half of their items and wrong on the other.

    Where whole sheets count, also somebody who is right on all, wrong on all, or set aside. Where a
    pilot query asks whether rows fit, or people are counted, also somebody whose rows do not.
    """
    most = config.privacy.max_contributions or 2
    found = list[Person]()
    for does, answered in (("as many answers as count", most), ("an answer to all", n_items)):
        items = np.arange(min(answered, n_items))
        for half, right in (("first", items < len(items) // 2), ("last", items >= len(items) // 2)):
            rows = {"item": items, "correct": right.astype(np.int64)}
            found.append(Person(f"{does}, right on the {half} half", rows))
    if (config.responses.missing or Missing.UNSEEN) is not Missing.UNSEEN:
        items = np.arange(n_items)
        for does, answer in (
            ("right on all", 1),
            ("wrong on all", 0),
            ("a sheet that is set aside", NO_ANSWER),
        ):
            found.append(Person(does, {"item": items, "correct": np.full(n_items, answer)}))
    if most_points := config.responses.points_of(config.items.catalogue):
        rows = {"item": np.arange(n_items), "correct": np.array(most_points)}
        found.append(Person("all points on all", rows))
    if config.privacy.look is not None or config.privacy.queries:
        items = np.arange(min(most, n_items))
        rows = {"item": items, "correct": np.full(len(items), NO_ANSWER)}
        found.append(Person("answers that break a rule", rows))
    return [*_with_absent(config), *_in_groups(config, found)]


def _in_groups(config: SurveyConfig, people: list[Person]) -> list[Person]:
    """These people with each of the two cells of groups; as they are where there are no groups."""
    if (cells := _cells(config)) is None:
        return people
    return [
        Person(f"{each.does}, in group {number}", {**each.rows, GROUP: np.full(n, cell)})
        for number, cell in enumerate(dict.fromkeys(cells), 1)
        for each in people
        for n in [len(next(iter(each.rows.values())))]
    ]


def rankers(config: SurveyConfig, n_items: int) -> list[Person]:
    """People who give more rankings than count, all alike.

    Two of them attain the sensitivity of every method (`privacy.ranking_sensitivity`): of pairs, if
    the order is reversed; of places, if every item moves; of nets and squares together, if all
    rankings are set aside or none is.
    """
    longest = min(config.rankings.max_length or n_items, n_items)
    times = 2 * (config.privacy.max_contributions or 1) + 1
    order = np.arange(longest)
    shapes = {
        "the items in order": order,
        "the items in reverse": order[::-1],
        "the items, each at another place": np.roll(order, 1),
        "the last items, in reverse": (n_items - 1 - order),
        "two items": order[:2],
        "two items, in reverse": order[1::-1],
        "an item twice, which breaks a rule": order[[0, 0]],
    }
    found = [Person(does, {"ranking": np.tile(each, (times, 1))}) for does, each in shapes.items()]
    return [*_with_absent(config), *_in_groups(config, found)]


@dataclass(frozen=True)
class RoundDraws(Draws):
    """Draws of all rounds, which know their likelihood."""

    mechanism: RankingCountMechanism

    def ratio(self, left: int, right: int) -> Statistic:
        """Logarithm of how much likelier the counts are on the left log, by the stated law."""
        n_items = self.mechanism.n_items
        members = members_of_sets(n_items, self.mechanism.longest)

        def ratio_of(outputs: Rows) -> NDArray[np.float64]:
            rounds = outputs.reshape(len(outputs), n_items - 1, n_items + 1).astype(np.int64)
            here = np.ones((len(outputs), n_items), np.bool_)
            told = np.zeros(len(outputs))
            for place in range(n_items - 1):
                counts = rounds[:, place]
                for mask in np.unique(here, axis=0):
                    own = np.flatnonzero((here == mask).all(axis=1))
                    exact = [
                        count_round(self.exact[side]["firsts"], members, mask)
                        for side in (left, right)
                    ]
                    told[own] += self._of_round(counts[own], *exact)
                last_first = np.where(here, counts[:, :-1], counts.max() + 1)[:, ::-1]
                outs = n_items - 1 - last_first.argmin(axis=1)
                here[np.arange(len(outputs)), outs] = False
            return told

        return ratio_of

    def _of_round(
        self, own: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        scale, power = self.mechanism.law.scale, 1
        if self.mechanism.law.kind is NoiseKind.GAUSSIAN:
            scale, power = 2 * scale**2, 2
        further = np.abs(own - right) ** power - np.abs(own - left) ** power
        return np.asarray(further.sum(axis=1) / scale)
