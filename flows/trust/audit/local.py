"""Audits of mechanisms that privatise every answer before it is counted: unit `local`.

One run is one person, whom nobody else shares an item with: what is drawn for them is drawn for
them alone, and their cells of the counts are one output of the mechanism. So one reduction of a
file of many people (read, encode, meet, privatise, sum) is many runs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.privacy import Budget
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.base import Arrays
from hushrank.flows.methods.registry import calibrate
from hushrank.flows.run.confidential_folder import load_arrays
from hushrank.flows.statement.rankings import SyntheticMechanism
from hushrank.flows.trust.audit.people import ROWS, small_job
from hushrank.flows.trust.audit.result import Columns, Part, Reduce, Untold, written
from hushrank.pipelines.reduce.reduction_job import EXACT_FILE
from hushrank.privacy.audit import Rows
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.random_pairs import Hide, RandomPairs
from hushrank.privacy.randomness import system_bits
from hushrank.transforms.rankings.pair_answers import answer_rankings
from hushrank.transforms.rankings.rankings import Rankings

MOST_CELLS = 200_000  # cells of the matrix of pairs of all people's items
Own = dict[str, NDArray[Any]]  # columns of one person, with items 0, 1, ...
Seen = Callable[[Arrays, int, int], Rows]  # arrays, people, items of each -> a row for each person


def compared(arrays: Arrays, people: int, items: int) -> Rows:
    """The sums of a person's pairs, in order: all that is released of them."""
    places = np.repeat(np.arange(len(arrays["row_ends"]) - 1), np.diff(arrays["row_ends"]))
    order = np.lexsort((arrays["columns"], places))
    return np.asarray(arrays["s"][order].reshape(people, -1), np.float64)


def answered(arrays: Arrays, people: int, items: int) -> Rows:
    """The sums of a person's pairs of test items, in both directions."""
    return _pairs_of(arrays["sums"].sum(axis=0), people, items)


def above(arrays: Arrays, people: int, items: int) -> Rows:
    """Return who is above whom in a person's private ranking, or in the answers about it."""
    return _pairs_of(arrays["wins"], people, items)


def _pairs_of(matrix: NDArray[Any], people: int, items: int) -> Rows:
    first = items * np.arange(people)
    both = [pair for i, j in combinations(range(items), 2) for pair in ((i, j), (j, i))]
    found = [matrix[first + a, first + b] for a, b in both]
    return np.column_stack(found).astype(np.float64)


@dataclass(frozen=True)
class Privatised(Untold):
    """Everybody in a file says the same, of items of their own.

    Attributes:
        config: the small job, on the items of all people.
        people: people in one file; the least that it draws at once.
        items: items of each person.
        sides: rows of one person.
        seen: the part of each person's answers that a release shows.
        reduce: executes a reduction.
    """

    config: SurveyConfig
    people: int
    items: int
    sides: tuple[Own, ...]
    seen: Seen
    reduce: Reduce

    @property
    def block(self) -> int:
        """The people of one file."""
        return self.people

    def outputs(self, side: int, runs: int) -> Rows:
        """Draw from as many files as it takes."""
        calibrated = calibrate(self.config)
        method, mechanism, found = calibrated.method, calibrated.mechanism, []
        for _ in range(-(-runs // self.people)):
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                files = written(folder / ROWS, self._rows(self.sides[side]))
                key = SecretKey.draw(system_bits())
                self.reduce(method.reduction(self.config, mechanism, files, key, str(folder)))
                arrays = load_arrays(folder / EXACT_FILE)
            drawn = method.draw(arrays, mechanism, system_bits())
            found.append(self.seen(drawn, self.people, self.items))
        return np.concatenate(found)

    def _rows(self, own: Own) -> Columns:
        """Person k has the items from k times their number on."""
        shift = self.items * np.arange(self.people)
        if "ranking" in own:
            rankings = own["ranking"] + shift[:, None]
            return {"user": np.arange(self.people), "ranking": rankings.tolist()}
        each = len(next(iter(own.values())))
        rows: dict[str, Any] = {"user": np.repeat(np.arange(self.people), each)}
        for name, values in own.items():
            moved = np.repeat(shift, each) if name in ("left", "right", "item") else 0
            rows[name] = np.tile(values, self.people) + moved
        return rows


@dataclass(frozen=True)
class PairAnswers(Untold):
    """Private answers to random pairs of the whole catalogue, where also the items are hidden.

    Such answers say nothing of whose items they are about, so many people cannot share a file.
    """

    law: RandomPairs
    n_items: int
    rankings: tuple[NDArray[np.int64], ...]
    block: int = 1_000

    def outputs(self, side: int, runs: int) -> Rows:
        """Return one row a ranking: the code of each pair and its answer, ordered by pair."""
        items = np.tile(self.rankings[side], runs)
        lengths = np.full(runs, len(self.rankings[side]))
        epsilon = np.full(runs, self.law.epsilon)
        true = Rankings(items=items, lengths=lengths, epsilon=epsilon)
        found = answer_rankings(true, self.n_items, self.law, system_bits())
        pair = found.first * self.n_items + found.second
        order = np.lexsort((pair, found.ranking))
        return np.asarray((3 * pair + found.outcome + 1)[order].reshape(runs, -1), np.float64)


@dataclass(frozen=True)
class _Plan:
    """Plan of an audit: a promise for two people."""

    what: str
    does: tuple[str, str]
    items: int
    sides: tuple[Own, Own]
    seen: Seen
    people: int = field(default=0)


def local_parts(config: SurveyConfig, folder: Path, reduce: Reduce) -> list[Part]:
    """Return the promises for one answer, for all answers of a person, or for a ranking."""
    if isinstance(config.input, RankingsConfig):
        return _of_rankings(config, folder, reduce)
    if isinstance(config.input, InputConfig):
        plan = _of_comparisons(config)
    else:
        sides = ({"item": np.arange(2), "correct": np.array(right)} for right in ([1, 0], [0, 1]))
        plan = _Plan(
            "all answers of a person",
            ("right on the first of two items alone", "right on the second alone"),
            2,
            (next(sides), next(sides)),
            answered,
        )
    people = _people_in_a_file(plan.items, dense=plan.seen is not compared)
    small = small_job(config, plan.items * people, folder)
    source = Privatised(small, people, plan.items, plan.sides, plan.seen, reduce)
    high = small.privacy.local_epsilons().high
    return [Part(what=plan.what, source=source, sides=plan.does, pairs=((0, 1),), epsilon=high)]


def _people_in_a_file(items: int, *, dense: bool) -> int:
    return max(int(MOST_CELLS**0.5) // items, 1) if dense else 2_000


def _of_comparisons(config: SurveyConfig) -> _Plan:
    per_user = config.privacy.budget is Budget.PER_USER
    most = min(config.privacy.max_contributions or 3, 3) if per_user else 1
    pairs = np.array(list(combinations(range(3), 2)))[:most]
    items = 2 if most == 1 else 3
    won, lost = (
        {"left": pairs[:, 0], "right": pairs[:, 1], "outcome": np.full(most, sign)}
        for sign in (1, -1)
    )
    what = "all answers of a person" if per_user else "one answer"
    return _Plan(
        what, ("the left item always wins", "the right item"), items, (won, lost), compared
    )


def _of_rankings(config: SurveyConfig, folder: Path, reduce: Reduce) -> list[Part]:
    real = calibrate(config).mechanism
    if not isinstance(real, SyntheticMechanism):
        raise ValueError("rankings under unit local have a law of synthetic rankings")
    law, items = real.guarantee.pairs, 3
    while law is not None and items * (items - 1) // 2 < law.pairs and items < law.pairs + 2:
        items += 1
    items = min(items, real.guarantee.max_length)
    order = np.arange(items)
    if law is not None and law.hide is Hide.ITEMS:
        source = PairAnswers(law, items, (order, order[::-1]))
        return [_whole(source, law.epsilon)]
    people = _people_in_a_file(items, dense=True)
    small = small_job(config, items * people, folder, longest=items)
    guarantee = calibrate(small).mechanism.guarantee  # type: ignore[attr-defined]
    sides = ({"ranking": order}, {"ranking": order[::-1]}, {"ranking": np.roll(order, -1)})
    source_of = Privatised(small, people, items, sides, above, reduce)
    whole = _whole(source_of, guarantee.whole_ranking)
    if law is not None:
        return [whole]
    moved = Part(
        what="one moved item of a ranking",
        source=source_of,
        sides=("in order", "in reverse", "the first item last"),
        pairs=((0, 2),),
        epsilon=guarantee.high,
    )
    return [moved, whole]


def _whole(source: Privatised | PairAnswers, epsilon: float) -> Part:
    return Part(
        what="a whole ranking",
        source=source,
        sides=("in order", "in reverse"),
        pairs=((0, 1),),
        epsilon=epsilon,
    )
