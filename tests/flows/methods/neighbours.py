"""All small people of a job on comparisons, counted as a run counts, and what a draw adds noise to.

Nothing here knows a sensitivity. A *person* is a few rows on a few items; each goes through the
code that encodes, bounds and counts. What a method's `draw` adds noise to is heard where noise
would be added: the exact numbers, and the law. So an enumeration of all pairs of people shows what
the law has to pay for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from hushrank.estimation.comparisons import covariate_mle, perturbed_mle
from hushrank.flows.config.check import check_config
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.base import Arrays, Calibrated
from hushrank.flows.methods.registry import facts_of_methods
from hushrank.pipelines.reduce.reduce_comparisons import ComparisonsKind
from hushrank.pipelines.reduce.reduction_job import ReduceComparisons
from hushrank.privacy import noise
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import BitSource, system_bits
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.comparisons.bound import bound_bucket
from hushrank.transforms.storage.files import FileFormat, InputFile
from hushrank.transforms.storage.split import Split

KEY = SecretKey(bytes(range(32)), BitSource.SEEDED)
GROUPS, ELSEWHERE = ("north", "south"), "nowhere"  # the last one is not listed
AT_ONCE = 64  # people that are counted together, each on items of their own

Row = tuple[int, int, int, str]  # low item, high item, outcome, group
Person = tuple[Row, ...]
Numbers = NDArray[np.int64]
FACTS = facts_of_methods()


def job(method: str, privacy: dict[str, Any], n_items: int, **settings: Any) -> SurveyConfig:
    """A job, as a YAML file would say it. `settings`: `ties`, and sections of the file."""
    rows = {"kind": "comparisons", "paths": ["rows.parquet"], "design": "balanced"}
    rows |= {"ties": settings.pop("ties", "drop"), **settings.pop("input", {})}
    rows = {key: value for key, value in rows.items() if value is not None}
    content = {
        "name": "small",
        "method": method,
        "items": {"count": n_items},
        "input": rows,
        "privacy": {"unit": "user", "epsilon": 1.0, **privacy},
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 1000, "delta": 0.5},
        **settings,
    }
    return check_config(Path("/nowhere/survey.yaml"), content, FACTS)


def rows_of(n_items: int, outcomes: Sequence[int], groups: Sequence[str] = ("",)) -> list[Row]:
    """Every row that there can be."""
    pairs = combinations(range(n_items), 2)
    return [(*pair, outcome, group) for pair, outcome, group in product(pairs, outcomes, groups)]


def people_of(rows: Sequence[Row], most: int) -> list[Person]:
    """Everybody with at most `most` rows, and some with more, of which a bound leaves some out."""
    some = [
        person for size in range(most + 1) for person in combinations_with_replacement(rows, size)
    ]
    return [*some, *(person * (most + 1) for person in pairwise(rows))]


def counted(config: SurveyConfig, calibrated: Calibrated, people: Sequence[Person]) -> list[Arrays]:
    """The exact arrays that a run would leave of each person alone."""
    asked = calibrated.method.reduction(config, calibrated.mechanism, (), KEY, "/nowhere")
    assert isinstance(asked, ReduceComparisons)
    if asked.weighted or asked.columns.n_covariates:  # one number, or cells, of all rows
        return [_counted(asked, [person]) for person in people]
    found: list[Arrays] = []
    for start in range(0, len(people), AT_ONCE):
        few = people[start : start + AT_ONCE]
        n_items, size = len(asked.catalogue), len(few)
        wide = replace(
            asked,
            catalogue=Catalogue.of_count(n_items * size),
            bounds=replace(asked.bounds, n_items=n_items * size),
        )
        counts = _counted(wide, few, n_items)["counts"]
        found += [{"counts": each} for each in _apart(counts, n_items, size)]
    return found


def _apart(counts: Numbers, n_items: int, size: int) -> Numbers:
    """Counts of each person, from those of all of them, each on items of their own."""
    if counts.shape[-2:] != (n_items * size,) * 2:
        return np.moveaxis(counts.reshape(*counts.shape[:-1], size, n_items), -2, 0)
    blocks = counts.reshape(*counts.shape[:-2], size, n_items, size, n_items)
    return np.moveaxis(np.diagonal(blocks, axis1=-4, axis2=-2), -1, 0)


def _counted(asked: ReduceComparisons, people: Sequence[Person], apart: int = 0) -> Arrays:
    """Counts of all people together; the items of each are `apart` from those before."""
    kind = ComparisonsKind(asked)
    rows = [
        (number, low + apart * number, high + apart * number, outcome, group)
        for number, person in enumerate(people)
        for low, high, outcome, group in person
    ]
    user, left, right, outcome, group = zip(*rows, strict=True) if rows else ((),) * 5
    columns: dict[str, Any] = {
        "user": pa.array(user, pa.int64()),
        "left": pa.array(left, pa.int64()),
        "right": pa.array(right, pa.int64()),
        "outcome": pa.array(outcome, pa.int64()),
        "group": pa.array(group, pa.string()),
        "weight": pa.array(np.full(len(rows), 1000.0)),  # above every bound
        "feature": pa.array(np.full(len(rows), 1000.0)),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    file = InputFile("rows.parquet", 1, "1", FileFormat.PARQUET)
    found = kind.encode(batch, 0, Split(file, batch.schema, (), (), batch.num_rows)).rows
    if kind.meets_owners:
        found = bound_bucket(found, kind._bounds, kind.keyed_hash).kept
    sums = kind.combine()
    total = sums.extract_output(sums.add_input(sums.create_accumulator(), found))
    return dict(kind.arrays(total))


@dataclass(frozen=True)
class Heard:
    """Exact numbers to which noise of one law is added."""

    exact: Numbers
    law: NoiseLaw


class Ear:
    """Hears what noise would be added to, while none is."""

    def __init__(self) -> None:
        self.parts: list[Heard] = []

    def add_noise(self, counts: Numbers, law: NoiseLaw, bits: object) -> Numbers:
        """In the place of `noise.add_noise`."""
        self.parts.append(Heard(np.array(counts).ravel(), law))
        return np.array(counts)

    def draw(self, calibrated: Calibrated, exact: Arrays) -> list[Heard]:
        """What a draw from `exact` adds noise to, in order; a fit finds zeros."""
        self.parts.clear()
        calibrated.method.draw(exact, calibrated.mechanism, system_bits())
        return list(self.parts)


@contextmanager
def listening() -> Iterator[Ear]:
    """An ear in all places where noise is added."""
    ear, real = Ear(), noise.add_noise
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("hushrank.") and vars(module).get("add_noise") is real:
                patch.setattr(module, "add_noise", ear.add_noise)
        for fitting in (perturbed_mle, covariate_mle):
            patch.setattr(fitting, "covered_fits", lambda linear, *_: np.zeros(linear.shape))
        yield ear
