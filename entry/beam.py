"""Beam transforms for a pipeline of one's own: `import hushrank.beam as hb`.

    battles = hb.Comparisons(items=models, left="model_a", right="model_b", winner="winner",
                             user="judge")
    wins = rows | hb.BoundContributions(battles, max_contributions=20) | hb.CountWins(battles)

They are the steps of which `hushrank run` builds its own graphs. The rows of a collection are
dicts, `beam.Row`s, named tuples, or Arrow record batches and tables. A value means what its text
means in a CSV file. One element decides nothing but its own rows.

Nothing here adds noise to counts, keeps a ledger or writes a file. All results but those of
`PrivatizeAnswers` are exact and therefore private: see `Exact`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
from numpy.typing import NDArray

from hushrank.pipelines.engine.runner import Engine, Runner
from hushrank.pipelines.reduce.kind import ROWS, Kind
from hushrank.pipelines.reduce.private_job import ReduceAnswers
from hushrank.pipelines.reduce.rankings_job import CountRankings as _CountRankings
from hushrank.pipelines.reduce.reduce import (
    MANY_ROWS,
    Bound,
    Count,
    Encode,
    Job,
    kind_of,
)
from hushrank.pipelines.reduce.reduction_job import ReduceComparisons, Statistic
from hushrank.pipelines.reduce.responses_job import ReduceResponses
from hushrank.pipelines.reduce.source import BatchElements
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import system_bits
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.epsilons import AnswerBudget, AnswerColumns, EpsilonSource
from hushrank.transforms.common.randomisation import Randomisation, law_of_answers
from hushrank.transforms.common.schema import (
    ComparisonColumns,
    Ties,
)
from hushrank.transforms.comparisons.bound import Bounds
from hushrank.transforms.comparisons.privatize import PrivateAnswers
from hushrank.transforms.rankings.ranking_columns import ListColumns
from hushrank.transforms.responses.answer_sheets import Duplicates
from hushrank.transforms.responses.responses import ResponseColumns

__all__ = [
    "BoundContributions",
    "Comparisons",
    "CountPairs",
    "CountWins",
    "DifferentialMeasurements",
    "Exact",
    "PrivatizeAnswers",
    "RankingCounts",
    "Rankings",
    "Responses",
]

WORKERS = Engine(Runner.DATAFLOW)  # memory and sums are planned for workers that share nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons:
    """Which fields of a row say which of two items won.

    Attributes:
        items: names of all items, which are public.
        left, right: fields of the two items.
        winner: field of the item that won, or of the word `tie`.
        outcome: instead of `winner`: field that is 1 if the left item won, -1 if the right one did,
            0 if they tied.
        user: field of the person.
        ties: `drop`, `split` (half a win each: every count is doubled) or `random` (a coin).
    """

    items: Sequence[str]
    left: str = "left"
    right: str = "right"
    winner: str | None = None
    outcome: str | None = None
    user: str = "user"
    ties: str = "drop"

    def __post_init__(self) -> None:
        if (self.winner is None) == (self.outcome is None):
            raise ValueError("give one of winner and outcome")
        if self.ties not in (Ties.DROP, Ties.SPLIT, Ties.RANDOM):
            raise ValueError(f"ties must be drop, split or random, got {self.ties!r}")

    def _job(self, bounds: Mapping[str, Any], **settings: Any) -> ReduceComparisons:
        catalogue, ties = Catalogue(tuple(self.items)), Ties(self.ties)
        columns = ComparisonColumns(
            left=self.left,
            right=self.right,
            outcome=self.outcome,
            winner=self.winner,
            user=self.user,
            event=None,
        )
        bounded = Bounds(n_items=len(catalogue), ties=ties, **bounds)
        return ReduceComparisons(
            columns=columns,
            catalogue=catalogue,
            bounds=bounded,
            **({"statistic": Statistic.WIN_COUNTS} | settings),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Responses:
    """Which fields of a row say whether a person answered a test item correctly.

    Attributes:
        items: names of all test items, which are public.
        user, item: fields of the person and of the test item.
        correct: field that is 1 or true if the answer was right, 0 or false if it was wrong.
    """

    items: Sequence[str]
    user: str = "user"
    item: str = "item"
    correct: str = "correct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rankings:
    """Which fields of a row hold a ranking.

    Attributes:
        items: names of all items, which are public.
        ranking: field of a list of items, best first.
        user: field of the person.
    """

    items: Sequence[str]
    ranking: str = "ranking"
    user: str = "user"


@dataclass(frozen=True, slots=True)
class Exact:
    """Exact sums over private rows. Not private: never show, log or publish them.

    Add noise first, for example with `hushrank.privacy.noise`, calibrated to how far one person
    within the bounds can change the sums (docs/guarantee.md). Then account for what it cost.

    Attributes:
        items: names in the order of the arrays.
        arrays: sums by name. They are left out of the text of this object.
    """

    items: tuple[str, ...]
    arrays: Mapping[str, NDArray[Any]] = field(repr=False)


class _Transform(beam.PTransform):
    """The steps that all kinds of rows share."""

    def __init__(self, job: Job, expected_rows: int = MANY_ROWS, on_bad_rows: str = "fail") -> None:
        super().__init__()
        if on_bad_rows not in ("fail", "drop"):
            raise ValueError(f"on_bad_rows must be fail or drop, got {on_bad_rows!r}")
        self._kind: Kind[Any] = kind_of(replace(job, fail_on_bad_rows=on_bad_rows == "fail"))
        self._expected_rows = expected_rows

    def _encoded(self, rows: beam.PCollection) -> beam.PCollection:
        batches = rows | "Batch" >> beam.ParDo(BatchElements(self._kind.job.columns, strict=True))
        return (batches | "Encode" >> Encode(self._kind, self._expected_rows))[ROWS]

    def _bounded(self, rows: beam.PCollection) -> beam.PCollection:
        return (self._encoded(rows) | "Bound" >> Bound(self._kind))[ROWS]

    def _counted(self, counted: beam.PCollection) -> beam.PCollection:
        return (
            counted | "Count" >> Count(self._kind) | "Name" >> beam.Map(partial(_exact, self._kind))
        )


class BoundContributions(_Transform):
    """Rows of comparisons -> the same without persons, at most `max_contributions` of each.

    The result is for `CountWins` and `CountPairs`. It is exact, thus private. Which rows of a
    person are kept depends on the key and on the person's rows alone, not on bundles or retries.

    Args:
        rows: what the rows say.
        max_contributions: L, the most rows of one person that are kept.
        per_item_cap: the most rows of one person on one item; None: no cap.
        distinct_pairs: keep at most one row of a person on each pair of items.
        expected_rows: about how many rows there are; it decides how many groups of people meet
            apart, never the result.
        on_bad_rows: `fail`, or `drop` rows that break a rule.
        key: 32 secret bytes; None: new ones. The same key and rows give the same result.
    """

    def __init__(
        self,
        rows: Comparisons,
        *,
        max_contributions: int,
        per_item_cap: int | None = None,
        distinct_pairs: bool = False,
        expected_rows: int = MANY_ROWS,
        on_bad_rows: str = "fail",
        key: bytes | None = None,
    ) -> None:
        _check_at_least_one("max_contributions", max_contributions)
        bounds = {
            "max_contributions": max_contributions,
            "per_item_cap": per_item_cap,
            "distinct_pairs": distinct_pairs,
        }
        super().__init__(rows._job(bounds, **_settings(key)), expected_rows, on_bad_rows)

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        """Batch → Encode → Bound."""
        return self._bounded(rows)


class _Counts(_Transform):
    """What `BoundContributions` kept -> one `Exact` with the array `counts`."""

    statistic: Statistic

    def __init__(self, rows: Comparisons) -> None:
        bounds = {"max_contributions": 1}  # they were bounded before
        super().__init__(rows._job(bounds, **_settings(None), statistic=self.statistic))

    def expand(self, bounded: beam.PCollection) -> beam.PCollection:
        """Count, and give the arrays their names."""
        return self._counted(bounded)


class CountWins(_Counts):
    """What `BoundContributions` kept -> one `Exact`: wins of each item, shape (n,)."""

    statistic = Statistic.WIN_COUNTS


class CountPairs(_Counts):
    """What `BoundContributions` kept -> one `Exact`: `counts[a, b]`, how often a beat b.

    With more than 3 000 items the arrays are those of a sparse matrix.
    """

    statistic = Statistic.PAIR_COUNTS


class DifferentialMeasurements(_Transform):
    """Rows of responses -> one `Exact`: `y[a, b]`, how many people got a right and b wrong.

    Args:
        rows: what the rows say.
        max_answers: K, the most answers of one person that count.
        expected_rows, on_bad_rows, key: as for `BoundContributions`. All answers of a person to a
            test item that was answered twice are left out.
    """

    def __init__(
        self,
        rows: Responses,
        *,
        max_answers: int,
        expected_rows: int = MANY_ROWS,
        on_bad_rows: str = "fail",
        key: bytes | None = None,
    ) -> None:
        _check_at_least_one("max_answers", max_answers)
        job = ReduceResponses(
            columns=ResponseColumns(user=rows.user, item=rows.item, correct=rows.correct),
            catalogue=Catalogue(tuple(rows.items)),
            max_answers=max_answers,
            duplicates=Duplicates.REFUSE,
            **_settings(key),
        )
        super().__init__(job, expected_rows, on_bad_rows)

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        """Batch → Encode → Bound → Count."""
        return self._counted(self._bounded(rows))


class RankingCounts(_Transform):
    """Rows of rankings -> one `Exact`: counts of pairs, lengths and places.

    Args:
        rows: what the rows say.
        max_length: m, the most items of a ranking that counts; None: all items.
        max_rankings: the most rankings of one person that count.
        expected_rows, on_bad_rows, key: as for `BoundContributions`.
    """

    def __init__(
        self,
        rows: Rankings,
        *,
        max_length: int | None = None,
        max_rankings: int = 1,
        expected_rows: int = MANY_ROWS,
        on_bad_rows: str = "fail",
        key: bytes | None = None,
    ) -> None:
        _check_at_least_one("max_rankings", max_rankings)
        job = _CountRankings(
            columns=ListColumns(ranking=rows.ranking, user=rows.user),
            catalogue=Catalogue(tuple(rows.items)),
            contest=None,
            max_length=len(rows.items) if max_length is None else max_length,
            max_rankings=max_rankings,
            break_ties=False,
            **_settings(key),
        )
        super().__init__(job, expected_rows, on_bad_rows)

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        """Batch → Encode → Bound → Count."""
        return self._counted(self._bounded(rows))


class PrivatizeAnswers(_Transform):
    """Rows of comparisons -> `beam.Row(left, right, outcome, epsilon)`, privatised one by one.

    Each outcome is flipped with probability 1 / (1 + e^epsilon), so each row is epsilon-DP on its
    own; a fair coin decides ties first. Persons are gone, pairs are not hidden, and each further
    answer of a person costs epsilon again. Rows are drawn once, however often later steps are
    repeated. To privatise the same answers again costs their epsilon again: keep the result.

    Args:
        rows: what the rows say; `ties` and `user` are not used.
        epsilon: of one answer.
        on_bad_rows: as for `BoundContributions`.
    """

    def __init__(self, rows: Comparisons, *, epsilon: float, on_bad_rows: str = "fail") -> None:
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise ValueError(f"epsilon must be finite and > 0, got {epsilon!r}")
        job = ReduceAnswers(
            columns=AnswerColumns(
                left=rows.left,
                right=rows.right,
                outcome=rows.outcome,
                winner=rows.winner,
                user=None,
                event=None,
            ),
            catalogue=Catalogue(tuple(rows.items)),
            ties=Ties.RANDOM,
            budget=AnswerBudget(),
            randomisation=Randomisation.WEIGHTED,
            epsilons=EpsilonSource(low=epsilon, high=epsilon, value=float(epsilon)),
            already_private=False,
            law=law_of_answers(Randomisation.WEIGHTED, epsilon, epsilon),
            **_settings(None),
        )
        super().__init__(job, on_bad_rows=on_bad_rows)
        self._items = job.catalogue.names

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        """Batch → Encode, which randomises → rows, kept by the engine before anybody reads them."""
        private = self._encoded(rows) | "Rows" >> beam.ParDo(_rows_of, self._items)
        return private | "DrawnOnce" >> beam.Reshuffle()


def _settings(key: bytes | None) -> dict[str, Any]:
    """What every job here is told: it reads no file and writes none."""
    bits = system_bits()
    secret = SecretKey.draw(bits) if key is None else SecretKey(key, bits.source)
    return {"files": (), "confidential": "", "engine": WORKERS, "key": secret}


def _check_at_least_one(name: str, number: int) -> None:
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number!r}")


def _exact(kind: Kind[Any], total: Any) -> Exact:
    return Exact(kind.job.catalogue.names, kind.arrays(total))


def _rows_of(private: PrivateAnswers, items: Sequence[str]) -> Iterator[beam.Row]:
    left, right = np.divmod(private.cell, len(items))
    for one, other, won, epsilon in zip(left, right, private.value, private.epsilon, strict=True):
        yield beam.Row(
            left=items[one],
            right=items[other],
            outcome=1 if won else -1,
            epsilon=float(epsilon),
        )
