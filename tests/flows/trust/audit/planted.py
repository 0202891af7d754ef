"""Jobs of every method, and faults that are planted where a run draws or counts.

`benchmarks/audit_power.py` measures with the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from hushrank.estimation.common import central_noise, private_counts
from hushrank.estimation.comparisons import covariate_mle, noisy_counts, perturbed_mle
from hushrank.estimation.fit import likelihood as many_fits
from hushrank.estimation.rankings import election_rules, ranking_counts
from hushrank.estimation.responses import measurements, point_totals, sheet_totals
from hushrank.estimation.ties import tie_models
from hushrank.flows.config.privacy import PrivacyConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.counts import common
from hushrank.flows.methods.rankings import precinct_table, trusted_rankings
from hushrank.flows.methods.reductions import CountedMethod
from hushrank.flows.methods.responses import spectral, totals
from hushrank.flows.run import drawn
from hushrank.flows.run.context import Survey
from hushrank.flows.run.job import read_survey
from hushrank.flows.trust.audit import audit as whole
from hushrank.flows.trust.audit import central
from hushrank.flows.trust.audit.result import Part
from hushrank.pipelines.reduce.reduction_job import NightOfStream
from hushrank.privacy import stream as stream_module
from hushrank.privacy.exact_minimiser import GriddedNoise, gridded
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.ranking_sensitivity import Part as Counted
from hushrank.privacy.ranking_sensitivity import _Lists
from hushrank.privacy.sensitivity import Sensitivity, win_counts_sensitivity
from hushrank.privacy.stream import stream_of
from hushrank.privacy.stream_encoder import RowTerms, Terms
from hushrank.privacy.units import Adjacency, PrivacyParams, Query
from hushrank.transforms.common.sorting import Mask
from hushrank.transforms.streams.people_files import Owners, People
from hushrank.transforms.streams.recent_pairs import Pairs
from hushrank.transforms.streams.row_meter import RowMeter
from hushrank.transforms.streams.square_meter import SquareMeter

Settings = dict[str, Any]
Plant = Callable[[pytest.MonkeyPatch], None]

COMPARED: Settings = {"kind": "comparisons", "paths": ["rows.csv"], "design": "balanced"}
TIED: Settings = {**COMPARED, "ties": "random"}
RANKED: Settings = {"kind": "rankings", "paths": ["rows.csv"]}
TESTED: Settings = {"kind": "responses", "paths": ["rows.csv"]}
SHEETS: Settings = {**TESTED, "missing": "set-aside"}
OVERLAPPING: Settings = {"column": "g", "values": ["a", "b", "c"], "most": 2, "separator": "|"}
USER: Settings = {"unit": "user", "epsilon": 2.0, "max_contributions": 6}
GAUSSIAN: Settings = {**USER, "noise": "gaussian", "delta": 1e-6}
ADDED: Settings = {**USER, "adjacency": "add-remove"}
PUBLIC: Settings = {**USER, "public_graph": True, "public_graph_statement": "everybody has all"}
LOCAL: Settings = {"unit": "local", "epsilon": 2.0}
TRUSTED: Settings = {"unit": "user", "epsilon": 1.0, "max_contributions": 2}
METERED: Settings = {
    "nights": 6, "participation": {"rows": 2, "pair_gap": 3}, "show": "cumulative",
    "first": "2026-01-01",
}  # fmt: skip
SQUARES: Settings = {**METERED, "participation": {"squares": 12, "gap": 3, "burst": 12}}
STREAM: Settings = {
    "nights": 365, "participations": 14, "gap": 28, "show": {"window": 28}, "first": "2026-12-01"
}  # fmt: skip


def job(input: Settings, privacy: Settings, method: str, **more: Any) -> Settings:
    return {"input": input, "privacy": privacy, "method": method, **more}


SIZE = {"model": {"expected_comparisons": 200}}
JOBS: dict[str, Settings] = {
    "counts": job(COMPARED, USER, "noisy-counts"),
    "counts, Gaussian": job(COMPARED, GAUSSIAN, "noisy-counts"),
    "counts, rho": job(
        COMPARED, {**USER, "noise": "gaussian", "epsilon": None, "rho": 0.1}, "noisy-counts"
    ),
    "counts, one row": job(COMPARED, {"unit": "comparison", "epsilon": 1.0}, "noisy-counts"),
    "counts, a person comes or goes": job(COMPARED, ADDED, "noisy-counts"),
    "counts, distinct pairs": job(COMPARED, {**USER, "distinct_pairs": True}, "noisy-counts"),
    "counts, item cap": job(COMPARED, {**USER, "per_item_cap": 2}, "noisy-counts"),
    "counts, split ties": job({**COMPARED, "ties": "split"}, USER, "noisy-counts"),
    "counts, groups": job(
        COMPARED, USER, "noisy-counts", groups={"column": "g", "values": ["a", "b", "c"]}
    ),
    "counts, groups that overlap": job(
        COMPARED, USER, "noisy-counts", groups={**OVERLAPPING, "values": ["a", "b", "c", "d"]}
    ),
    "pairs, groups that overlap": job(
        {**COMPARED, "ties": "model"}, GAUSSIAN, "noisy-pairs", groups=OVERLAPPING
    ),
    "counts, names": job(COMPARED, {**USER, "look": 0.1, "names_per_person": 2}, "noisy-counts"),
    "pairs, names": job(
        COMPARED, {**GAUSSIAN, "distinct_pairs": True, "names_per_person": 3}, "noisy-pairs"
    ),
    "spectral, names": job(TESTED, {**USER, "names_per_person": 2}, "spectral"),
    "borda, names": job(RANKED, {**TRUSTED, "names_per_person": 2}, "borda"),
    "stream, names": job(
        {**COMPARED, "paths": ["rows-{date}.csv"]},
        {**GAUSSIAN, "names_per_person": 2},
        "noisy-counts",
        schedule={"stream": STREAM},
    ),
    "counts, look": job(COMPARED, {**USER, "look": 0.1}, "noisy-counts"),
    "counts, look, items": job(
        COMPARED, {**USER, "look": {"share": 0.1, "unlisted": True}}, "noisy-counts"
    ),
    "counts, counted": job(
        COMPARED,
        {**USER, "counts": {"share": 0.3, "of": ["people", "answers", "contradictions"]}},
        "noisy-counts",
    ),
    "counts, counted, added": job(
        COMPARED,
        {**ADDED, "look": 0.1, "counts": {"share": 0.3, "of": ["people", "contradictions"]}},
        "noisy-counts",
    ),
    "spectral, counted": job(TESTED, {**USER, "counts": 0.2}, "spectral"),
    "footrule, counted": job(RANKED, {**TRUSTED, "counts": 0.2}, "footrule"),
    "counts, weights": job(
        {**COMPARED, "columns": {"weight": "w"}},
        {**GAUSSIAN, "max_weight": 3.0, "distinct_pairs": True, "bounding": "weights"},
        "noisy-counts",
    ),
    "pairs": job(COMPARED, USER, "noisy-pairs"),
    "pairs, distinct": job(COMPARED, {**GAUSSIAN, "distinct_pairs": True}, "noisy-pairs"),
    "counts, Gaussian, item cap": job(COMPARED, {**GAUSSIAN, "per_item_cap": 2}, "noisy-counts"),
    "pairs, ties": job({**COMPARED, "ties": "model"}, USER, "noisy-pairs"),
    "pairs, public graph": job(TIED, PUBLIC, "noisy-pairs"),
    "win-loss": job(COMPARED, USER, "win-loss"),
    "one-shot": job(COMPARED, ADDED, "one-shot", top_k=2),
    "mle": job(COMPARED, USER, "perturbed-mle", **SIZE),
    "mle, noisy exposures": job(COMPARED, ADDED, "perturbed-mle"),
    "mle, public graph": job(TIED, PUBLIC, "perturbed-mle"),
    "mle, covariates": job(
        {**COMPARED, "columns": {"first": "left"}, "features": [{"column": "f", "scale": 5.0}]},
        ADDED,
        "perturbed-mle",
    ),
    "mle, covariates, groups": job(
        {**COMPARED, "columns": {"first": "left"}, "features": [{"column": "f", "scale": 5.0}]},
        ADDED,
        "perturbed-mle",
        groups={"column": "g", "values": ["a", "b"]},
    ),
    "objective": job(COMPARED, {**GAUSSIAN, "delta": 0.01}, "noisy-objective", **SIZE),
    "objective, small delta": job(COMPARED, GAUSSIAN, "noisy-objective", **SIZE),
    "spectral": job(TESTED, USER, "spectral"),
    "spectral, look": job(TESTED, {**USER, "look": 0.1}, "spectral"),
    "totals": job(SHEETS, {**USER, "max_contributions": 12}, "totals"),
    "totals, Gaussian, added": job(
        SHEETS, {**GAUSSIAN, "max_contributions": 12, "adjacency": "add-remove"}, "totals"
    ),
    "totals, bands": job(
        SHEETS,
        {**GAUSSIAN, "max_contributions": 12, "adjacency": "add-remove"},
        "totals",
        model={"bands": 3},
    ),
    "totals of points": job({**SHEETS, "points": 2}, {**USER, "max_contributions": 12}, "totals"),
    "totals of points, groups": job(
        {**SHEETS, "points": 2},
        {**USER, "max_contributions": 12},
        "totals",
        groups={"column": "g", "values": ["a", "b"]},
    ),
    "totals, groups": job(
        SHEETS,
        {**GAUSSIAN, "max_contributions": 12},
        "totals",
        groups={"column": "g", "values": ["a", "b"]},
    ),
    "borda": job(RANKED, TRUSTED, "borda"),
    "kemeny": job(RANKED, TRUSTED, "kemeny"),
    "bradley-terry": job(RANKED, {**TRUSTED, "noise": "gaussian", "delta": 1e-6}, "bradley-terry"),
    "footrule": job(RANKED, TRUSTED, "footrule"),
    "kemeny, groups that overlap": job(
        {**RANKED, "layout": "list", "columns": {"user": "user"}, "unlisted": "below"},
        {**TRUSTED, "noise": "gaussian", "delta": 1e-6},
        "kemeny",
        groups=OVERLAPPING,
    ),
    "footrule, groups that overlap": job(
        {**RANKED, "layout": "list", "columns": {"user": "user"}},
        {**TRUSTED, "adjacency": "add-remove"},
        "footrule",
        groups={**OVERLAPPING, "others": "whole"},
    ),
    "borda, groups": job(
        {**RANKED, "layout": "list", "columns": {"user": "user"}},
        TRUSTED,
        "borda",
        groups={"column": "g", "values": ["a", "b", "c"]},
    ),
    "precincts": job(
        {**RANKED, "layout": "list", "columns": {"user": "user"}},
        TRUSTED,
        "precinct-table",
        groups={
            "column": "g",
            "values": ["a", "b", "c"],
            "districts": {"x": ["a", "b"], "y": ["c"]},
        },
    ),
    "instant-runoff": job({**RANKED, "unlisted": "below"}, TRUSTED, "instant-runoff"),
    "footrule, look": job(RANKED, {**TRUSTED, "look": 0.1}, "footrule"),
    "stream": job(
        {**COMPARED, "paths": ["rows-{date}.csv"]},
        GAUSSIAN,
        "noisy-counts",
        schedule={"stream": STREAM},
    ),
    "stream, metered rows": job(
        {**COMPARED, "paths": ["rows-{date}.csv"]},
        GAUSSIAN,
        "noisy-pairs",
        schedule={"stream": METERED},
    ),
    "stream, squares": job(
        {**COMPARED, "paths": ["rows-{date}.csv"]},
        GAUSSIAN,
        "win-loss",
        schedule={"stream": SQUARES},
    ),
    "stream, squares, one row a night": job(
        {**COMPARED, "paths": ["rows-{date}.csv"]},
        {**GAUSSIAN, "max_contributions": 1},
        "win-loss",
        schedule={"stream": SQUARES},
    ),
    "stream, groups that overlap": job(
        {**COMPARED, "paths": ["rows-{date}.csv"]},
        GAUSSIAN,
        "noisy-counts",
        schedule={"stream": STREAM},
        groups=OVERLAPPING,
    ),
    "stream, metered rows, groups that overlap": job(
        {**COMPARED, "paths": ["rows-{date}.csv"]},
        GAUSSIAN,
        "noisy-pairs",
        schedule={"stream": METERED},
        groups=OVERLAPPING,
    ),
    "debiased-rr": job(TIED, {**LOCAL, "budget": "per_user"}, "debiased-rr"),
    "debiased-rr, one answer": job(TIED, LOCAL, "debiased-rr"),
    "laplace-rr": job(TIED, LOCAL, "laplace-rr"),
    "classic-rr": job(TIED, LOCAL, "classic-rr"),
    "rr-counts": job(TIED, LOCAL, "rr-counts"),
    "spectral-rr": job(
        TESTED, {**LOCAL, "budget": "per_user", "max_contributions": 4}, "spectral-rr"
    ),
    "mallows": job(RANKED, {**LOCAL, "mechanism": "mallows"}, "kemeny"),
    "laplace-ranks": job(RANKED, {**LOCAL, "mechanism": "laplace-ranks"}, "borda"),
    "random-pairs": job(RANKED, {**LOCAL, "mechanism": "random-pairs", "pairs": 2}, "borda"),
    "random-pairs, hidden items": job(
        RANKED, {**LOCAL, "mechanism": "random-pairs", "pairs": 2, "hide": "items"}, "borda"
    ),
    "auto": job(RANKED, {**LOCAL, "mechanism": "auto"}, "bradley-terry"),
    "personalized": job(
        {**RANKED, "layout": "list", "person_features": {"age": [20, 60]}},
        {**LOCAL, "mechanism": "random-pairs"},
        "personalized",
    ),
}


def survey_of(name: str, folder: Path, items: int = 12) -> Survey:
    """A configuration without any file of rows beside it."""
    content = {
        "name": "zoo",
        "items": {"count": items},
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 100, "delta": 0.5},
        **JOBS[name],
    }
    content["privacy"] = {k: v for k, v in content["privacy"].items() if v is not None}
    path = folder / "survey.yaml"
    path.write_text(yaml.safe_dump(content))
    return read_survey(path, anyway=True)


@dataclass(frozen=True)
class Bug:
    """A fault.

    Attributes:
        job: in which it shows.
        plant: puts it there.
        least: runs on each input with which a test sees it. Some faults of `noisy-objective` need
            minutes, and `benchmarks/audit_power.py` alone has them.
    """

    job: str
    plant: Plant
    least: int = 600


def less_noise(module: Any, factor: float = 2.0) -> Plant:
    """The noise of one module has a smaller scale than is stated."""

    def draw(counts: Any, law: NoiseLaw, bits: Any) -> Any:
        return add_noise(counts, replace(law, scale=law.scale / factor), bits)

    return lambda patch: patch.setattr(module, "add_noise", draw)


def in_two_precincts(patch: pytest.MonkeyPatch) -> None:
    """A ranking counts in its precinct and in the next one."""
    release = precinct_table.release_precincts

    def twice(first_places: Any, *how: Any) -> Any:
        return release(first_places + np.roll(first_places, 1, axis=0), *how)

    patch.setattr(precinct_table, "release_precincts", twice)


def groups_at_the_cost_of_one(patch: pytest.MonkeyPatch) -> None:
    """Noise as if nobody could move to another group."""
    for name in ("calibrate_rankings", "spread_weights"):
        found = getattr(trusted_rankings, name)

        def of_one(*how: Any, n_groups: int, _found: Any = found, **more: Any) -> Any:
            return _found(*how, **more)

        patch.setattr(trusted_rankings, name, of_one)


def unlisted_items_for_free(patch: pytest.MonkeyPatch) -> None:
    """The look has the noise of votes alone, and tells who names an unlisted item besides."""
    votes = central_noise.votes_sensitivity
    patch.setattr(
        central_noise,
        "votes_sensitivity",
        lambda params: votes(replace(params, look_unlisted=False)),
    )


def counted_without_noise(patch: pytest.MonkeyPatch) -> None:
    """The number of people is published as it is."""
    patch.setattr(private_counts, "add_noise", lambda exact, law, bits: exact)


def query_as_people(query: Query) -> Plant:
    """Noise of a query as if a person moved it by one."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        people = private_counts.SENSITIVITIES[Query.PEOPLE]
        patch.setitem(private_counts.SENSITIVITIES, query, people)

    return plant


def overlap_at_the_cost_of_one(patch: pytest.MonkeyPatch) -> None:
    """Noise as if an answer counted in one group, and never in the whole besides."""
    patch.setattr(Sensitivity, "in_groups", lambda one, most: one)


def overlap_without_the_whole(patch: pytest.MonkeyPatch) -> None:
    """Noise for the groups of an answer, as if the whole were their sum."""
    whole = Sensitivity.in_groups
    patch.setattr(Sensitivity, "in_groups", lambda one, most: whole(one, most - 1))


def overlap_of_lists(less: int | None) -> Plant:
    """Noise for so many groups of a ranking fewer; None: as if groups did not overlap."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        corners = _Lists.corners

        def wrong(lists: _Lists, adjacency: Adjacency) -> Any:
            overlap = None if less is None or lists.overlap is None else lists.overlap - less
            return corners(replace(lists, overlap=overlap), adjacency)

        patch.setattr(_Lists, "corners", wrong)

    return plant


def twice_in_the_whole(patch: pytest.MonkeyPatch) -> None:
    """An answer counts in the whole once more for each of its groups."""
    draw = common.GroupedMethod.draw

    def again(self: Any, exact: Any, *how: Any) -> Any:
        counts = exact["counts"].copy()
        counts[-1] += counts[:-1].sum(axis=0)
        return draw(self, {"counts": counts}, *how)

    patch.setattr(common.GroupedMethod, "draw", again)


def all_groups_count(patch: pytest.MonkeyPatch) -> None:
    """An answer counts in all of its groups, whatever their number."""
    reduction = CountedMethod.reduction

    def wrong(*args: Any, **kwargs: Any) -> Any:
        found = reduction(*args, **kwargs)
        return replace(found, groups=replace(found.groups, most=len(found.groups.names)))

    patch.setattr(CountedMethod, "reduction", wrong)


def all_groups_of_rankings_count(patch: pytest.MonkeyPatch) -> None:
    """A ranking counts in all of its groups, whatever their number."""
    counting = trusted_rankings.counting_job

    def wrong(*args: Any) -> Any:
        found = counting(*args)
        sets = found.columns.features
        groups = replace(sets.groups, most=len(sets.groups.names))
        columns = replace(found.columns, features=replace(sets, groups=groups))
        return replace(found, columns=columns)

    patch.setattr(trusted_rankings, "counting_job", wrong)


def one_level_is_charged(patch: pytest.MonkeyPatch) -> None:
    """Noise that hides the cells of precincts alone."""
    calibrate = precinct_table.calibrate_rankings

    def too_little(params: PrivacyParams, longest: int, weights: Any) -> Any:
        return calibrate(params, longest, {Counted.PRECINCTS: weights[Counted.PRECINCTS]})

    patch.setattr(precinct_table, "calibrate_rankings", too_little)


def names_are_people(patch: pytest.MonkeyPatch) -> None:
    """Noise as if nobody had a second name."""
    patch.setattr(Sensitivity, "of_names", lambda one, names: one)


def same_noise(counts: Any, law: NoiseLaw, bits: Any) -> Any:
    """One draw for all counts."""
    return counts + add_noise(np.zeros(1, np.int64), law, bits)


def replayed(counts: Any, law: NoiseLaw, bits: Any) -> Any:
    """What a source of bits draws that starts anew with every release."""
    return counts + np.arange(counts.size).reshape(counts.shape)


def none_on_zeros(counts: Any, law: NoiseLaw, bits: Any) -> Any:
    return np.where(counts == 0, 0, add_noise(counts, law, bits))


def drawn_by(noise: Any) -> Plant:
    return lambda patch: patch.setattr(central_noise, "add_noise", noise)


def wrong_sensitivity(module: Any, name: str, factor: int = 2) -> Plant:
    right = getattr(module, name)

    def wrong(*args: Any, **kwargs: Any) -> Sensitivity:
        true = right(*args, **kwargs)
        return Sensitivity(max(true.l1 // factor, 1), max(true.l2_squared // factor**2, 1))

    return lambda patch: patch.setattr(module, name, wrong)


def confused_adjacency(patch: pytest.MonkeyPatch) -> None:
    """A replaced person is charged as one who comes or goes."""

    def wrong(params: Any, *args: Any) -> Sensitivity:
        return win_counts_sensitivity(replace(params, adjacency=Adjacency.ADD_REMOVE), *args)

    patch.setattr(central_noise, "win_counts_sensitivity", wrong)


def wins_alone(patch: pytest.MonkeyPatch) -> None:
    """Wins and losses get the noise that wins need."""
    patch.setattr(central_noise, "win_loss_sensitivity", win_counts_sensitivity)


def other_bounds(**changes: Any) -> Plant:
    """The reduction keeps more than the mechanism was told."""
    reduction = CountedMethod.reduction

    def wrong(*args: Any, **kwargs: Any) -> Any:
        found = reduction(*args, **kwargs)
        return replace(found, bounds=replace(found.bounds, **changes))

    return lambda patch: patch.setattr(CountedMethod, "reduction", wrong)


def unclipped_weights(patch: pytest.MonkeyPatch) -> None:
    reduction = CountedMethod.reduction

    def wrong(*args: Any, **kwargs: Any) -> Any:
        found = reduction(*args, **kwargs)
        return replace(found, columns=replace(found.columns, most_units=30_000))

    patch.setattr(CountedMethod, "reduction", wrong)


def twice_the_people(patch: pytest.MonkeyPatch) -> None:
    """Of a person twice as much counts as the mechanism was told, of rankings and of answers."""
    rankings, answers = trusted_rankings.TrustedRankings.reduction, spectral.reduce_test

    def of_rankings(*args: Any, **kwargs: Any) -> Any:
        found = rankings(*args, **kwargs)
        return replace(found, max_rankings=2 * found.max_rankings)

    def of_answers(*args: Any, max_answers: int, **kwargs: Any) -> Any:
        return answers(*args, max_answers=2 * max_answers, **kwargs)

    patch.setattr(trusted_rankings.TrustedRankings, "reduction", of_rankings)
    patch.setattr(spectral, "reduce_test", of_answers)


def right_answers_alone(patch: pytest.MonkeyPatch) -> None:
    """A wrong answer counts 0 and a right one twice: a sheet that comes moves a total by 2."""
    right = totals.release_sheet_totals

    def wrong(counted: Any, calibration: Any, bits: Any) -> Any:
        entries, shape = counted.entries.copy(), counted.shape
        people = entries[shape.n_items :].sum() // shape.sheet_weight
        entries[: shape.n_items] += shape.answer_weight * people
        return right(replace(counted, entries=entries), calibration, bits)

    patch.setattr(totals, "release_sheet_totals", wrong)


def also_in_bands_below(patch: pytest.MonkeyPatch) -> None:
    """A sheet counts in its band of raw scores and in all bands below, at the cost of one."""
    right = totals.release_sheet_totals

    def wrong(counted: Any, calibration: Any, bits: Any) -> Any:
        entries, shape = counted.entries.copy(), counted.shape
        by_band = entries[: shape.n_answers].reshape(shape.bands, shape.n_items)
        entries[: shape.n_answers] = by_band[::-1].cumsum(axis=0)[::-1].ravel()
        return right(replace(counted, entries=entries), calibration, bits)

    patch.setattr(totals, "release_sheet_totals", wrong)


def histogram_for_free(patch: pytest.MonkeyPatch) -> None:
    """Sheets by raw score are left out of the sensitivity."""
    right = sheet_totals.sheet_totals_sensitivity

    def wrong(params: Any, n_items: int, answer_weight: int, sheet_weight: int) -> Sensitivity:
        whole = right(params, n_items, answer_weight, sheet_weight)
        sides = 1 if params.adjacency is Adjacency.ADD_REMOVE else 2
        l1 = whole.l1 - sides * sheet_weight
        return Sensitivity(l1, whole.l2_squared - sides * sheet_weight**2)

    patch.setattr(sheet_totals, "sheet_totals_sensitivity", wrong)


def scores_of_points_for_free(patch: pytest.MonkeyPatch) -> None:
    """Sheets by raw score are left out of the sensitivity of totals of points."""
    right = point_totals.point_totals_sensitivity

    def wrong(params: Any, points: Any, *weights: int) -> Sensitivity:
        whole, sheet = right(params, points, *weights), weights[1]
        sides = 1 if params.adjacency is Adjacency.ADD_REMOVE else 2
        return Sensitivity(whole.l1 - sides * sheet, whole.l2_squared - sides * sheet**2)

    patch.setattr(point_totals, "point_totals_sensitivity", wrong)


def sheets_told(patch: pytest.MonkeyPatch) -> None:
    """How many sheets count is told as it is, beside noisy totals."""
    right = totals.Totals.draw

    def wrong(self: Any, exact: Any, mechanism: Any, bits: Any) -> Any:
        people = exact["sheets"][mechanism.shape.n_items :].sum(keepdims=True)
        return {**right(self, exact, mechanism, bits), "people": people}

    patch.setattr(totals.Totals, "draw", wrong)


def charged_as_added(patch: pytest.MonkeyPatch) -> None:
    """Whatever the method, a replaced person is charged as one who comes or goes."""
    right = PrivacyConfig.params

    def wrong(self: PrivacyConfig) -> PrivacyParams:
        return replace(right(self), adjacency=Adjacency.ADD_REMOVE)

    patch.setattr(PrivacyConfig, "params", wrong)


def one_night_is_charged(patch: pytest.MonkeyPatch) -> None:
    """A stream on several of whose nights a person counts is charged for one of them."""

    def wrong(params: Any, night: Any, terms: Terms, workload: Any, bands: Any) -> Any:
        charged = stream_of(params, night, replace(terms, participations=1), workload, bands)
        return replace(charged, terms=terms)

    patch.setattr(common, "stream_of", wrong)


def other_meter(**changes: int) -> Plant:
    """Rows are metered by other terms than the noise was computed for."""

    def wrong(**given: Any) -> NightOfStream:
        return NightOfStream(**{**given, "terms": replace(given["terms"], **changes)})

    return lambda patch: patch.setattr(central, "NightOfStream", wrong)


def gap_of_pairs(patch: pytest.MonkeyPatch) -> None:
    """Nights of other pairs follow each other, though they move the cells of the same items."""

    def wrong(meter: SquareMeter, owners: Owners, pairs: Pairs) -> Mask:
        right = RowMeter(meter.before, meter.night, _as_rows(meter))
        return right.apart(owners, pairs)

    def remembered(meter: SquareMeter, owners: Owners, pairs: Pairs) -> People:
        after = RowMeter(meter.before, meter.night, _as_rows(meter)).with_rows(owners, pairs)
        return replace(after, times=with_rows(meter, owners, pairs).times)

    with_rows = SquareMeter.with_rows
    patch.setattr(SquareMeter, "apart", wrong)
    patch.setattr(SquareMeter, "with_rows", remembered)


def _as_rows(meter: SquareMeter) -> RowTerms:
    terms = meter.terms
    return RowTerms(nights=terms.nights, gap=terms.gap, rows=999, burst=999)


def forgotten_squares(patch: pytest.MonkeyPatch) -> None:
    """A person has the whole allowance on each night that counts."""

    def wrong(meter: SquareMeter, owners: Owners, pairs: Pairs) -> People:
        after = with_rows(meter, owners, pairs)
        return replace(after, times=np.minimum(after.times, 0).astype(np.uint16))

    with_rows = SquareMeter.with_rows
    patch.setattr(SquareMeter, "with_rows", wrong)


def nights_share_noise(patch: pytest.MonkeyPatch) -> None:
    """Noise of the first night on all nights."""
    kept: list[Any] = []

    def wrong(stream: Any, recent: Any, bits: Any) -> Any:
        encoded = stream_module.encoded_night(stream.encoder, recent)
        if len(recent) == 1 or not kept or kept[0].shape != encoded.shape:
            kept[:] = [add_noise(np.zeros_like(encoded), stream.law, bits)]
        return encoded + kept[0]

    patch.setattr(central, "released_night", wrong)


def grids(factor: float) -> Plant:
    return lambda patch: patch.setattr(
        perturbed_mle, "gridded", lambda kind, scale: gridded(kind, scale / factor)
    )


def covariate_grids(factor: float) -> Plant:
    right = covariate_mle._grids
    return lambda patch: patch.setattr(
        covariate_mle, "_grids", lambda scale, share: right(scale / factor, share)
    )


def narrow_fits(patch: pytest.MonkeyPatch) -> None:
    """Noise of fits is drawn at half of the scale that everything else was computed for."""
    right = GriddedNoise.draw

    def wrong(self: GriddedNoise, size: int, bits: Any) -> Any:
        return right(replace(self, law=replace(self.law, scale=self.law.scale / 2)), size, bits)

    patch.setattr(GriddedNoise, "draw", wrong)


def unheard_noise(patch: pytest.MonkeyPatch) -> None:
    """A release, which fits alone, hears half of the noise that it drew."""
    right = perturbed_mle._minimiser
    patch.setattr(perturbed_mle, "_minimiser", lambda counts, made, w: right(counts, made, w / 2))


def unheard_noise_of_covariates(patch: pytest.MonkeyPatch) -> None:
    """The same where there are covariates."""
    right = covariate_mle.fit_covariates
    patch.setattr(
        covariate_mle,
        "fit_covariates",
        lambda counts, ridges, w, tolerance: right(counts, ridges, w / 2, tolerance),
    )


def broken_batch(patch: pytest.MonkeyPatch) -> None:
    """Fits of many at once vouch for minimisers of half of the noise."""
    right = many_fits.many_fits
    patch.setattr(
        many_fits,
        "many_fits",
        lambda likelihood, w, tolerance: right(likelihood, w / 2, tolerance),
    )


def twice_epsilon(patch: pytest.MonkeyPatch) -> None:
    """Wrong thresholds: what is drawn is private at epsilon 2, and 1 is stated."""
    right = whole.parts_of

    def wrong(config: SurveyConfig, folder: Path) -> list[Part]:
        return [replace(part, epsilon=part.epsilon / 2) for part in right(config, folder)]

    patch.setattr(whole, "parts_of", wrong)


COUNTED = "win_counts_sensitivity"
BUGS: dict[str, Bug] = {
    "half the noise": Bug("counts", less_noise(central_noise)),
    "half the noise, Gaussian": Bug("counts, Gaussian", less_noise(central_noise)),
    "half the noise, rho": Bug("counts, rho", less_noise(central_noise)),
    "half the noise, one row": Bug("counts, one row", less_noise(central_noise)),
    "half the noise, groups": Bug("counts, groups", less_noise(central_noise)),
    "half the noise, weights": Bug("counts, weights", less_noise(central_noise)),
    "half the noise, distinct pairs": Bug("counts, distinct pairs", less_noise(central_noise)),
    "half the noise, pairs": Bug("pairs", less_noise(central_noise)),
    "half the noise, ties": Bug("pairs, ties", less_noise(tie_models)),
    "half the noise, public graph": Bug("pairs, public graph", less_noise(central_noise)),
    "half the noise, tests": Bug("spectral", less_noise(measurements)),
    "half the noise, totals": Bug("totals", less_noise(sheet_totals)),
    "half the noise, points, groups": Bug("totals of points, groups", less_noise(point_totals)),
    "half the noise, points": Bug("totals of points", less_noise(point_totals)),
    "scores of points for free": Bug("totals of points", scores_of_points_for_free, 2_500),
    "right answers alone": Bug("totals, Gaussian, added", right_answers_alone),
    "right answers alone, by group": Bug("totals, groups", right_answers_alone),
    "half the noise, bands": Bug("totals, bands", less_noise(sheet_totals)),
    "a sheet in several bands": Bug("totals, bands", also_in_bands_below),
    "sheets by score for free": Bug("totals", histogram_for_free, 2_500),
    "how many sheets count is told": Bug("totals, Gaussian, added", sheets_told),
    "half the noise, borda": Bug("borda", less_noise(ranking_counts)),
    "half the noise, kemeny": Bug("kemeny", less_noise(ranking_counts)),
    "half the noise, bradley-terry": Bug("bradley-terry", less_noise(ranking_counts)),
    "half the noise, footrule": Bug("footrule", less_noise(ranking_counts)),
    "overlap at the cost of one": Bug("counts, groups that overlap", overlap_at_the_cost_of_one),
    "overlap without the whole": Bug("pairs, groups that overlap", overlap_without_the_whole),
    "twice in the whole": Bug("counts, groups that overlap", twice_in_the_whole),
    "all groups count": Bug("counts, groups that overlap", all_groups_count),
    "overlap at the cost of one, stream": Bug(
        "stream, groups that overlap", overlap_at_the_cost_of_one
    ),
    "overlap without the whole, metered rows": Bug(
        "stream, metered rows, groups that overlap", overlap_without_the_whole, 3_000
    ),
    "overlap of rankings at the cost of one": Bug(
        "footrule, groups that overlap", overlap_of_lists(None)
    ),
    "overlap of rankings without the whole": Bug(
        "kemeny, groups that overlap", overlap_of_lists(1), 3_000
    ),
    "all groups of rankings count": Bug(
        "kemeny, groups that overlap", all_groups_of_rankings_count, 3_000
    ),
    "all groups count, stream": Bug("stream, groups that overlap", all_groups_count, 3_000),
    "groups of rankings at the cost of one": Bug("borda, groups", groups_at_the_cost_of_one),
    "a voter in two precincts": Bug("precincts", in_two_precincts),
    "levels at the cost of one": Bug("precincts", one_level_is_charged),
    "each round pays nothing for the others": Bug(
        "instant-runoff", less_noise(election_rules, 4), 2_000
    ),
    "half the noise of the look": Bug("counts, look", less_noise(drawn)),
    "half the noise of counted people": Bug("counts, counted", less_noise(private_counts)),
    "counted people without noise": Bug("counts, counted", counted_without_noise),
    "answers counted as one": Bug("counts, counted", query_as_people(Query.ANSWERS)),
    "contradictions counted as people": Bug(
        "counts, counted", query_as_people(Query.CONTRADICTIONS)
    ),
    "unlisted items for free": Bug("counts, look, items", unlisted_items_for_free, 4_000),
    **{
        f"names are people, {name}": Bug(f"{name}, names", names_are_people, 2_500)
        for name in ("counts", "pairs", "spectral", "borda", "stream")
    },
    "half the sensitivity": Bug("counts", wrong_sensitivity(central_noise, COUNTED)),
    "half the sensitivity, item cap": Bug(
        "counts, item cap", wrong_sensitivity(central_noise, COUNTED)
    ),
    "half the sensitivity, split ties": Bug(
        "counts, split ties", wrong_sensitivity(central_noise, COUNTED)
    ),
    "adjacency confused": Bug("counts", confused_adjacency),
    "the noise of wins alone": Bug("win-loss", wins_alone),
    "L + 1 answers count": Bug("counts", other_bounds(max_contributions=7), 2_500),
    "twice L answers count": Bug(
        "counts, a person comes or goes", other_bounds(max_contributions=12)
    ),
    "pairs are not distinct": Bug("pairs, distinct", other_bounds(distinct_pairs=False)),
    "no item cap": Bug("counts, Gaussian, item cap", other_bounds(per_item_cap=None)),
    "weights are not clipped": Bug("counts, weights", unclipped_weights),
    "heavy people do not shrink": Bug(
        "counts, weights", other_bounds(factors=None, max_contributions=100)
    ),
    "the same noise on all counts": Bug("pairs", drawn_by(same_noise), 3_000),
    "the same noise in every run": Bug("counts", drawn_by(replayed)),
    "no noise on zeros": Bug("counts", drawn_by(none_on_zeros), 3_000),
    "one night is charged": Bug("stream", one_night_is_charged),
    "nights share their noise": Bug("stream", nights_share_noise, 3_000),
    "the gap of pairs is not kept": Bug("stream, metered rows", other_meter(gap=1), 3_000),
    "the gap of nights is not kept": Bug("stream, squares", other_meter(gap=1), 3_000),
    "squares are not metered": Bug("stream, squares", other_meter(squares=999, burst=999), 3_000),
    "a pair gap meters squares": Bug("stream, squares, one row a night", gap_of_pairs, 100_000),
    "what a night uses is forgotten": Bug("stream, squares", forgotten_squares, 8_000),
    "rows are not metered": Bug("stream, metered rows", other_meter(rows=99, burst=99), 3_000),
    "half the noise, win-loss": Bug("win-loss", less_noise(central_noise)),
    "half the noise, stream": Bug("stream", less_noise(stream_module)),
    "half the noise, one-shot": Bug("one-shot", less_noise(noisy_counts), 20_000),
    "a quarter of the noise, one-shot": Bug("one-shot", less_noise(noisy_counts, 4), 3_000),
    "half the noise, fit": Bug("mle", grids(2), 4_000),
    "half the noise, fit on a public graph": Bug("mle, public graph", grids(2), 4_000),
    "half the noise, fit and exposures": Bug("mle, noisy exposures", grids(2), 8_000),
    "half the noise, objective": Bug("objective", grids(2), 240_000),
    "half the noise, objective, where it is drawn": Bug("objective", narrow_fits, 70_000),
    "half the noise, objective, small delta": Bug("objective, small delta", grids(2)),
    "a quarter of the noise, groups": Bug("mle, covariates, groups", covariate_grids(4), 4_000),
    "half the noise, covariates": Bug("mle, covariates", covariate_grids(2), 20_000),
    "a quarter of the noise, covariates": Bug("mle, covariates", covariate_grids(4), 4_000),
    **{
        f"adjacency confused, {name}": Bug(name, charged_as_added)
        for name in (
            *("counts, Gaussian", "counts, groups", "counts, item cap", "pairs", "pairs, ties"),
            *("win-loss", "mle", "objective", "spectral", "borda", "kemeny", "bradley-terry"),
            *("footrule", "stream"),
        )
    },
    **{
        f"twice L answers count, {name}": Bug(name, other_bounds(max_contributions=12))
        for name in (
            *("counts, Gaussian", "counts, groups", "pairs", "pairs, ties", "win-loss"),
            *("one-shot", "mle", "mle, noisy exposures", "mle, covariates", "objective"),
        )
    },
    **{
        f"twice L count, {name}": Bug(name, twice_the_people)
        for name in ("spectral", "borda", "kemeny", "bradley-terry", "footrule")
    },
    **{
        f"thresholds of twice the epsilon, {name}": Bug(name, twice_epsilon, 4_000)
        for name in (
            *("debiased-rr", "debiased-rr, one answer", "laplace-rr", "classic-rr", "rr-counts"),
            *("spectral-rr", "mallows", "laplace-ranks", "random-pairs"),
            *("random-pairs, hidden items", "auto"),
        )
    },
}
