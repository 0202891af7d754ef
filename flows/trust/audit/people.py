"""Synthetic people: those whom a mechanism should hide worst, and everybody else.

A log holds one person who changes and some others who do not. The person has more rows than the
bounds allow, so that an audit sees whether the bounds hold. Which two of these people are the
hardest to hide, an audit finds out (`flows.trust.audit.audit`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.trust.audit.small_job import FEATURE, GROUP, WEIGHT
from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.responses.whole_sheets import Missing

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
    if config.groups is not None:
        rows[GROUP] = np.full(n, config.groups.values[0])
    if config.comparisons.columns.weight is not None:
        rows[WEIGHT] = np.full(n, BEYOND * (config.privacy.max_weight or 1.0))
    for place, feature in enumerate(config.comparisons.features):
        rows[FEATURE.format(place)] = np.full(n, BEYOND * feature.scale)
    return rows


def _variants(config: SurveyConfig, person: Person) -> Iterator[Person]:
    """The person; in another group; with the sides exchanged, or with other features."""
    yield person
    rows = person.rows
    if config.groups is not None and len(config.groups.values) > 1:
        other = np.full(len(rows["left"]), config.groups.values[1])
        yield Person(f"{person.does}, in another group", {**rows, GROUP: other}, person.graph)
    if config.comparisons.covariates:
        turned = {"left": rows["right"], "right": rows["left"], "outcome": -rows["outcome"]}
        yield Person(f"{person.does}, shown the other way", {**rows, **turned}, person.graph)


def comparisons_by_others(config: SurveyConfig, times: int) -> dict[str, NDArray[Any]]:
    """Rows of everybody else: item 1 beats 0, 2 beats 1, and 3 beats 2, so many times.

    Wins of the items that always lose then pull at a fit with nearly all their force. One of them
    over 0 in the place of one of them over 2 moves item 1 twice as far: nothing moves a fit more.
    """
    n_items = len(config.items.catalogue())
    pairs = np.array([(item + 1, item) for item in range(min(n_items - 1, 3))])
    each = 1 if config.privacy.distinct_pairs else config.privacy.max_contributions or 1
    each = min(each, config.privacy.per_item_cap or each)
    sides = np.repeat(pairs, times, axis=0)
    rows = _rows(config, sides, np.ones(len(sides), np.int8))
    return {"user": 1 + np.arange(len(sides)) // each, **rows}


def test_takers(config: SurveyConfig, n_items: int) -> list[Person]:
    """People who are right on one half of their items and wrong on the other.

    Where whole sheets count, also somebody who is right on all, wrong on all, or set aside. Where a
    pilot query asks whether rows fit, also somebody whose rows do not.
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
    if most_points := config.responses.points_of(config.items.catalogue()):
        rows = {"item": np.arange(n_items), "correct": np.array(most_points)}
        found.append(Person("all points on all", rows))
    if config.privacy.look is not None:
        items = np.arange(min(most, n_items))
        rows = {"item": items, "correct": np.full(len(items), NO_ANSWER)}
        found.append(Person("answers that break a rule", rows))
    return [*_with_absent(config), *_in_groups(config, found)]


def _in_groups(config: SurveyConfig, people: list[Person]) -> list[Person]:
    """These people in each of the first two groups; as they are where there are none."""
    if config.groups is None:
        return people
    return [
        Person(f"{each.does}, in group {number}", {**each.rows, GROUP: np.full(n, name)})
        for number, name in enumerate(config.groups.values[:2], 1)
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
