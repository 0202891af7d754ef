"""Audits of mechanisms that add noise after counting: units `user` and `comparison`.

Each synthetic log goes through the reduction of a run (read, encode, meet, bound, count). Then the
method draws from the exact arrays as often as an audit wants, as a run would draw once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.method import GraphKind
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.base import Arrays, Calibrated
from hushrank.flows.methods.registry import METHODS, calibrate
from hushrank.flows.run.confidential_folder import Exact, load_arrays
from hushrank.flows.statement.mechanism import Mechanism
from hushrank.flows.statement.rankings import RankingCountMechanism
from hushrank.flows.trust.audit.fits import FitDraws, draws_of
from hushrank.flows.trust.audit.people import (
    NOBODY,
    Person,
    adjacent,
    comparers,
    comparisons_by_others,
    rankers,
    test_takers,
)
from hushrank.flows.trust.audit.result import Columns, Draws, Looks, Part, Reduce, written
from hushrank.flows.trust.audit.small_job import GROUP, ROWS, small_job
from hushrank.pipelines.reduce.reduction_job import EXACT_FILE
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.ranking_sensitivity import Part as RankingPart
from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms.responses.whole_sheets import Missing

LOOK = "the look at the rows"
FEW_TIMES = 5
MOST_TIMES = 100_000
TIMES_RIDGE = 500  # losses of an item that always loses, as a multiple of the ridge


def central_parts(config: SurveyConfig, folder: Path, reduce: Reduce) -> list[Part]:
    """The release, and the look before it if there is one.

    Args:
        config: the whole job.
        folder: folder for synthetic files and their counts.
        reduce: executes a reduction.
    """
    small = small_job(config, items_of(config), folder)
    calibrated = calibrate(small)
    people = _people_of(small)
    pairs, sides = adjacent(small, people), tuple(person.does for person in people)
    counted = [_counted(small, calibrated, person, folder, reduce) for person in people]
    exact = tuple(arrays for arrays, _ in counted)
    parts = [replace(_of_release(small, calibrated, exact), sides=sides, pairs=pairs)]
    if isinstance(parts[0].source, FitDraws):
        parts[0].source.check_release()
        parts[0] = replace(parts[0], apart=parts[0].source.apart(pairs))
    look, votes = calibrated.look, tuple(seen for _, seen in counted if seen is not None)
    if look is not None:
        parts.append(
            Part(
                what=LOOK,
                source=Looks(look, votes),
                sides=sides,
                pairs=pairs,
                epsilon=look.spend.epsilon,
                law=look.law.kind,
                centres=tuple(each.astype(np.float64) for each in votes),
            )
        )
    return parts


def _of_release(small: SurveyConfig, calibrated: Calibrated, exact: tuple[Arrays, ...]) -> Part:
    """The promise of the release; its sides are not named yet."""
    mechanism, centres = calibrated.mechanism, ()
    attacked = calibrated.method.attacked(mechanism)
    if attacked.still is not None:
        still = Draws(small, attacked.still, exact)
        centres = tuple(still.outputs(side, 1)[0] for side in range(len(exact)))
    return Part(
        what="the release",
        source=_source(small, mechanism, exact),
        sides=(),
        pairs=(),
        epsilon=attacked.epsilon,
        delta=attacked.delta,
        law=attacked.law,
        centres=centres,
    )


def _source(small: SurveyConfig, mechanism: Mechanism, exact: tuple[Arrays, ...]) -> Draws:
    """What draws the release, as one that knows its likelihood wherever that is possible."""
    if isinstance(mechanism, RankingCountMechanism) and RankingPart.ROUNDS in mechanism.weights:
        from hushrank.flows.trust.audit.rounds import RoundDraws

        return RoundDraws(small, mechanism, exact)
    return draws_of(small, mechanism, exact)


def items_of(config: SurveyConfig) -> int:
    """A catalogue as small as shows the most that the bounds allow."""
    most, privacy = len(config.items.catalogue()), config.privacy
    bound = privacy.max_contributions or 1
    if isinstance(config.input, RankingsConfig):
        return min(most, 5)
    if not isinstance(config.input, InputConfig):
        spectral = config.spectral
        degree = 6 if spectral is None else spectral.degree or 6
        even = spectral is not None and spectral.graph is GraphKind.EVEN
        return min(most, max(min(bound, 6) + 1, degree + 2 if even else 0))
    wanted = 3
    if privacy.distinct_pairs or privacy.per_item_cap is not None:
        wanted = max(4, min(bound, 6) + 1)
    if privacy.per_item_cap is not None:  # as many pairs without a common item as fill the bound
        wanted = max(wanted, min(2 * -(-bound // privacy.per_item_cap), 12))
    if METHODS[config.method].facts.uses("model.exposures"):  # a fit of scores needs a few
        wanted = max(wanted, 4)
    return min(most, max(wanted, (config.top_k or 0) + 1))


def _people_of(small: SurveyConfig) -> list[Person]:
    n_items = len(small.items.catalogue())
    if isinstance(small.input, RankingsConfig):
        return rankers(small, n_items)
    if isinstance(small.input, InputConfig):
        return comparers(small, n_items)
    return test_takers(small, n_items)


def _counted(
    small: SurveyConfig, calibrated: Calibrated, person: Person, folder: Path, reduce: Reduce
) -> tuple[Arrays, NDArray[np.int64] | None]:
    """Exact arrays, and votes for the look, of a log that holds this person and others."""
    files = written(folder / ROWS, rows_with(small, calibrated, person))
    key, work = SecretKey.draw(system_bits()), folder / f"counted-{len(list(folder.iterdir()))}"
    work.mkdir()
    reduce(calibrated.method.reduction(small, calibrated.mechanism, files, key, str(work)))
    votes = None
    if calibrated.look is not None:
        votes = Exact(work).votes(small.privacy.unit)
    return load_arrays(work / EXACT_FILE), votes


def rows_with(small: SurveyConfig, calibrated: Calibrated, person: Person) -> Columns:
    """Return all rows of a log in which person 0 is this one."""
    others = _others(small, calibrated)
    if person.does == NOBODY:
        return others
    own = {"user": np.zeros(len(next(iter(person.rows.values()))), np.int64), **person.rows}
    joined: Callable[[str], Any] = lambda name: np.concatenate([others[name], own[name]])  # noqa: E731
    if "ranking" in own:
        rankings = [*others["ranking"], *own["ranking"].tolist()]
        return {name: rankings if name == "ranking" else joined(name) for name in others}
    return {name: joined(name) for name in others}


def _others(small: SurveyConfig, calibrated: Calibrated) -> dict[str, Any]:
    n_items = len(small.items.catalogue())
    if isinstance(small.input, InputConfig):
        return comparisons_by_others(small, _times(small, calibrated))
    if isinstance(small.input, RankingsConfig):
        rows = {"user": np.array([1, 2]), "ranking": [[0, 1], [1, 0]]}
        return rows if small.groups is None else {**rows, GROUP: [small.groups.values[0]] * 2}
    missing = small.responses.missing or Missing.UNSEEN
    items = np.arange(min(2, n_items) if missing is Missing.UNSEEN else n_items)
    rows = {"user": np.ones(len(items), np.int64), "item": items, "correct": 1 - items % 2}
    if small.groups is not None:
        rows[GROUP] = np.full(len(items), small.groups.values[0])
    return rows


def _times(small: SurveyConfig, calibrated: Calibrated) -> int:
    """Return how often an item loses: often where a fit hears of it and a row may come or go."""
    ridge = calibrated.method.attacked(calibrated.mechanism).ridge
    flips = small.privacy.public_graph or (
        small.privacy.unit is Unit.COMPARISON
        and small.privacy.adjacency is Adjacency.REPLACE_ONE
        and len(small.items.catalogue()) < 4
    )
    if ridge is None or flips:
        return FEW_TIMES
    return int(np.clip(TIMES_RIDGE * ridge, 1_000, MOST_TIMES))
