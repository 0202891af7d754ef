"""Honest releases of every kind: each method, unit and setting on which fields or words depend.

A release that has a new field or a new sentence gets a line in `KINDS`; tests of the verifier walk
the table, and `tests/verifier/older` keeps some of them as earlier versions wrote them.
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.flows.interfaces.cli import ledger_commands
from hushrank.flows.ledger.keys import make_key
from tests.flows.conftest import ITEMS, Survey, answers
from tests.flows.every_method import VARIANTS, rows_for, survey_of
from tests.flows.forgeries import Forger, night_log, run

FIRST = date(2026, 11, 1)
PEOPLE, MANY = 12, 600  # the latter where one answer hides among others
STREAM = {"nights": 6, "participations": 2, "gap": 2, "show": {"window": 3}, "first": str(FIRST)}
METERED = {
    "nights": 6, "participation": {"rows": 4, "pair_gap": 2}, "show": {"window": 3},
    "first": str(FIRST),
}  # fmt: skip
SQUARES = {**METERED, "participation": {"squares": 9, "gap": 2}}
REFILLED = {"rows": 4, "burst": 2, "refill": 0.5}
GROUPS = {"column": "team", "values": ["red", "blue"]}
OVERLAP = {**GROUPS, "most": 2, "separator": "|"}
ONE_ROW = {"privacy__unit": "comparison", "privacy__max_contributions": None}
NAMES = {"privacy__names_per_person": 2}
ADDED = {"privacy__adjacency": "add-remove"}
BOOKLETS = {"A": ITEMS[:3], "B": ITEMS[1:]}
SPLIT = {"input__ties": "split"}
WEIGHTS = {"input__columns__weight": "weight", "privacy__max_weight": 1.5}
HEAVY = {"privacy__bounding": "weights", "privacy__distinct_pairs": True}
TIES = {"input__ties": "model", "method": "noisy-pairs"}
AT_SOURCE = {"privacy__already_private": True, "input__columns__epsilon": "own"}
RANGE = {"privacy__epsilon": None, "privacy__epsilon_range": [0.5, 4.0]}
OWN = {"input__columns__epsilon": "own"}
LEVELS = {"privacy__epsilon": None, "privacy__epsilon_levels": [1.0, 2.0, 5.0], **OWN}  # no row: 5
LAPLACE = {"privacy__noise": "laplace", "privacy__delta": None}
BELOW = {"input__unlisted": "below"}
LISTS = {"input__layout": "list", "input__columns": {"ranking": "ranking"}}
PAIRS_AT_SOURCE = {
    "privacy__already_private": True,
    "input__layout": "pairs",
    "input__columns": {"left": "left", "right": "right", "outcome": "said", "length": "items"},
    "privacy__pairs": 1,
}
ALL_COUNTS = {"share": 0.2, "of": ["people", "answers", "contradictions"]}
WORDS = {"left": ["won"], "right": ["lost", "gone"], "tie": ["even"]}

COUNTS, PAIRS, LOSSES = "noisy-counts", "noisy-pairs", "win-loss"
SCORES, EFFECTS, GAUSSIAN = "perturbed-mle, exposures", "perturbed-mle, covariates", "gaussian"
# Name: a variant of `every_method`, and what is different.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in VARIANTS},
    "counts of one row": (COUNTS, {**ONE_ROW, "privacy__adjacency": "add-remove"}),
    "counts of one row replaced": (COUNTS, ONE_ROW),
    "counts, person added": (COUNTS, {**ADDED, "privacy__epsilon": 11.0}),
    "counts, ties split": (COUNTS, {**SPLIT, "input__ties": "split"}),
    "counts, bounds": (COUNTS, {"privacy__per_item_cap": 2, "privacy__distinct_pairs": True}),
    "counts, groups": (COUNTS, {"groups": GROUPS}),
    "counts, other groups": (
        COUNTS,
        {"groups": {**GROUPS, "values": ["red", "grey"], "others": "whole"}},
    ),
    "counts, look, items": (COUNTS, {"privacy__look": {"share": 0.1, "unlisted": True}}),
    "counts, counted": (COUNTS, {"privacy__counts": ALL_COUNTS}),
    "counts, counted, look, added": (
        COUNTS,
        {**ADDED, "privacy__look": 0.1, "privacy__counts": ALL_COUNTS},
    ),
    "counts of one row, counted": (COUNTS, {**ONE_ROW, "privacy__counts": 0.1}),
    "pairs, counted, names, gaussian": (
        PAIRS,
        {**NAMES, "privacy__noise": "gaussian", "privacy__delta": 1e-6, "privacy__counts": 0.1},
    ),
    "scores, counted": (SCORES, {"privacy__counts": 0.1}),
    "spectral, counted": ("spectral", {"privacy__counts": 0.1}),
    "trusted rankings, counted": ("kemeny, user", {"privacy__counts": 0.1}),
    "counts of one row, look, items": (
        COUNTS,
        {**ONE_ROW, "privacy__look": {"share": 0.1, "unlisted": True}},
    ),
    "counts, groups that overlap": (COUNTS, {"groups": OVERLAP}),
    "pairs, groups that overlap, names": (
        PAIRS,
        {**NAMES, "groups": {**OVERLAP, "values": ["red", "blue", "grey"], "others": "whole"}},
    ),
    "win-loss, groups that overlap": (LOSSES, {**ADDED, "groups": {**OVERLAP, "most": 1}}),
    "counts of one row, groups, gaussian": ("noisy-counts, rho", {**ONE_ROW, "groups": GROUPS}),
    "counts, names": (COUNTS, {"privacy__names_per_person": 3, "privacy__look": 0.1}),
    "pairs, names": (PAIRS, NAMES),
    "rankings, an item that all prefer": ("bradley-terry, user", {"privacy__epsilon": 20.0}),
    "counts without noise": (COUNTS, {"privacy__epsilon": 1e5, "ledger__epsilon": 1e6}),
    "scores without noise": (
        "perturbed-mle",
        {"privacy__epsilon": 1e5, "ledger__epsilon": 1e6},
    ),
    "public pairs, a clear lead": ("noisy-pairs, public", {"privacy__epsilon": 20.0}),
    "win-loss, names, added": (LOSSES, {**ADDED, **NAMES}),
    "counts, heavy users, names": ("noisy-counts, gaussian", {**HEAVY, **NAMES}),
    "spectral, names": ("spectral", {**NAMES, "privacy__look": 0.1}),
    "totals, names": ("totals", NAMES),
    "one-shot, names": ("one-shot", NAMES),
    "trusted rankings, names": ("kemeny, user", NAMES),
    "trusted sums, names": ("borda, user", NAMES),
    "rounds, names": ("instant-runoff", NAMES),
    "precincts, names": ("precinct-table", NAMES),
    "counts, weights": (COUNTS, WEIGHTS),
    "counts, heavy users": ("noisy-counts, gaussian", {**HEAVY, **SPLIT, **WEIGHTS}),
    "counts, heavy users, cap": ("noisy-counts, gaussian", {**HEAVY, "privacy__per_item_cap": 2}),
    "counts, labels, top 2": (
        COUNTS,
        {"items": {"file": "labels.csv", "first_code": 0}, "top_k": 2},
    ),
    "counts, words": (COUNTS, {"input__columns__outcome": "said", "input__words": WORDS}),
    "counts, events": (COUNTS, {"input__columns__event": "row", "input__on_bad_rows": "fail"}),
    "counts, any source": (COUNTS, {"input__paths": None, "input__version": "zoo 2026-11-26"}),
    "counts, lines": (COUNTS, {"input__multiline": True}),
    "counts, no noise": (COUNTS, {"privacy__epsilon": "inf"}),
    "counts of one row, look": ("noisy-counts, look", {**ONE_ROW}),
    "counts of found names": (
        "noisy-pairs, found names",
        {**SPLIT, "method": COUNTS, "items": {"discover": {"most_items": 4, "deny": ["@"]}}},
    ),
    "lists of found names": (
        "borda, user",
        {
            **LISTS,
            "input__columns": {"user": "user", "ranking": "ranking"},
            "input__max_length": 4,
            "items": {"discover": {"share": 0.5}},
            "privacy__max_contributions": 1,
            "privacy__epsilon": 95.0,
            "privacy__noise": "gaussian",
            "privacy__delta": 1e-6,
        },
    ),
    "pairs, elo": (PAIRS, {"report": {"scale": "elo"}}),
    "pairs of one row, probit": (PAIRS, {**ONE_ROW, "model": {"link": "probit"}}),
    "pairs, spectral": (PAIRS, {"model": {"estimator": "spectral"}, "input__design": "random"}),
    "pairs, groups, laplace": (PAIRS, {"groups": GROUPS, "model": {"link": "laplace"}}),
    "pairs, weights, ties split": (PAIRS, {**WEIGHTS, **SPLIT}),
    "pairs, heavy users": (PAIRS, {**HEAVY, "privacy__noise": "gaussian", "privacy__delta": 1e-7}),
    "pairs of one row, public": ("noisy-pairs, public", ONE_ROW),
    "pairs, public, ties split": ("noisy-pairs, public", SPLIT),
    "pairs that were asked": (
        PAIRS,
        {"input__pairs": [ITEMS[:2], ITEMS[1:3], ITEMS[2:]], "input__design": "any"},
    ),
    "ties": (PAIRS, TIES),
    "ties, Rao and Kupper, groups": (
        PAIRS,
        {**TIES, "input__tie_model": "rao-kupper", "groups": GROUPS},
    ),
    "win-loss, weights": (LOSSES, WEIGHTS),
    "win-loss, heavy users": ("win-loss, gaussian", HEAVY),
    "win-loss, groups, random": (LOSSES, {"groups": GROUPS, "input__design": "random"}),
    "scores of one row": (SCORES, ONE_ROW),
    "scores, laplace link": (SCORES, {"model": {"link": "laplace", "constants": "paper"}}),
    "scores, ties split, look": (SCORES, {**SPLIT, "privacy__epsilon": 60.0, "privacy__look": 0.5}),
    "scores, public items": (SCORES, {"model": {"exposures": "items.csv"}}),
    "scores, public pairs": (SCORES, {"model": {"exposures": "pairs.csv"}}),
    "scores, one row, public": ("perturbed-mle, exposures, public", ONE_ROW),
    "scores, no noise": (SCORES, {"privacy__epsilon": "inf"}),
    "objective, exposures": ("noisy-objective", {"model": {}}),
    "objective of one row, public": (
        "noisy-objective",
        {
            **ONE_ROW,
            **SPLIT,
            "privacy__public_graph": True,
            "privacy__public_graph_statement": "all",
        },
    ),
    "effects of one row": (EFFECTS, ONE_ROW),
    "effects of many items": (EFFECTS, {"items": {"count": 12}}),
    "effects, who was first": (EFFECTS, {"input__features": None}),
    "effects, features": (EFFECTS, {"input__columns__first": None, **SPLIT}),
    "effects, groups": (EFFECTS, {"groups": GROUPS}),
    "effects of one row, other groups": (
        EFFECTS,
        {
            **ONE_ROW,
            **SPLIT,
            "items": {"count": 12},
            "groups": {**GROUPS, "values": ["red", "grey"], "others": "whole"},
        },
    ),
    "effects of features, groups, added": (
        EFFECTS,
        {**ADDED, "input__columns__first": None, "groups": GROUPS},
    ),
    "one-shot, split, added": ("one-shot", {**SPLIT, **ADDED}),
    "one-shot of one row": ("one-shot", ONE_ROW),
    "answers of many": ("debiased-rr", {"privacy__epsilon": 0.5}),
    "answers, range": ("debiased-rr", {**RANGE, "input__columns__epsilon": "own"}),
    "answers, levels": ("debiased-rr", LEVELS),
    "answers, levels, alike": ("debiased-rr", {**LEVELS, "model": {"weights": "equal"}}),
    "answers at the source, levels": (
        "debiased-rr",
        {**LEVELS, **AT_SOURCE, "privacy__max_contributions": 3, "input__ties": "drop"},
    ),
    "test answers, levels": (
        "spectral-rr",
        {"input__columns": {"epsilon": "own"}, **LEVELS},
    ),
    "rankings, levels": ("borda", LEVELS),
    "answers to pairs, levels": ("kemeny, random-pairs", LEVELS),
    "answers at the source": (
        "debiased-rr",
        {**RANGE, **AT_SOURCE, "privacy__max_contributions": 3, "input__ties": "drop"},
    ),
    "answers, who was first": (
        "debiased-rr",
        {"privacy__max_contributions": 3, "input__columns__first": "item_i"},
    ),
    "answers, link by likelihood": ("debiased-rr", {"model": {"link": "auto"}}),
    "answers per user, range": (
        "debiased-rr, per user",
        {**RANGE, "input__columns__epsilon": "own", "privacy__max_contributions": 3},
    ),
    "laplace answers, range": ("laplace-rr", {**RANGE, "input__columns__epsilon": "own"}),
    "rankings of several": ("kemeny", {"privacy__max_contributions": 2}),
    "best and worst choices": (
        "borda, user",
        {
            "input__layout": "best-worst",
            "input__ties": "random",
            "input__columns": {
                "user": "user",
                "best": "best",
                "worst": "worst",
                "shown": ["a", "b", "c"],
            },
            "privacy__max_contributions": 2,
        },
    ),
    "several sets in a row": (
        "kemeny, user",
        {
            "input__layout": "best-worst",
            "input__ties": "random",
            "input__columns": {
                "user": "user",
                "sets": [{"best": "best", "worst": "worst", "shown": ["a", "b", "c"]}],
            },
            "privacy__max_contributions": 2,
        },
    ),
    "rankings of nobody": ("borda", {"input__columns__user": None}),
    "rankings, contests": ("kemeny", {"input__columns__contest": "team", "input__contest": "red"}),
    "rankings in lists": ("borda", LISTS),
    "trusted rankings in lists": ("footrule", {**LISTS, "privacy__max_contributions": 1}),
    "trusted rankings, one": ("kemeny, user", {"privacy__max_contributions": 1}),
    "answers to pairs at the source": ("kemeny, random-pairs", PAIRS_AT_SOURCE),
    "rankings at the source": (
        "bradley-terry",
        {**RANGE, **AT_SOURCE, "model": {"common_order": True}},
    ),
    "test answers, own epsilons": ("spectral-rr", {**RANGE, "input__columns": {"epsilon": "own"}}),
    "rankings, own epsilons": ("borda", {**RANGE, "input__columns__epsilon": "own"}),
    "answers to pairs, own epsilons": (
        "kemeny, random-pairs",
        {"privacy__epsilon": None, "privacy__epsilon_range": [1.0, 8.0], **OWN},
    ),
    "rankings of some": ("kemeny", {"input__max_length": 3}),
    "rankings with ties, trusted": ("borda, user, ties", {}),
    "pairs of rankings, one": ("borda, auto, hidden items", {"privacy__pairs": 1}),
    "rankings, choice": ("kemeny, random-pairs", {"privacy__mechanism": "auto"}),
    "trusted rankings, two": (
        "borda, user",
        {"privacy__max_contributions": 2, "input__max_length": 3},
    ),
    "trusted rankings, below": ("kemeny, user", BELOW),
    "trusted margins, added": (
        "kemeny, user",
        {**BELOW, **ADDED, "input__max_length": 2, "privacy__max_contributions": 2},
    ),
    "trusted sums, below": (
        "borda, user",
        {**BELOW, "privacy__max_contributions": 2, "input__max_length": 2},
    ),
    "trusted places, below": ("footrule", {**BELOW, "input__max_length": 3}),
    "trusted margins, groups": (
        "precinct-table",
        {**BELOW, **LAPLACE, "method": "kemeny", "privacy__epsilon": 8.0},
    ),
    "trusted pairs, groups": ("precinct-table", {"method": "kemeny", "privacy__epsilon": 3.0}),
    "trusted margins, groups that overlap": (
        "precinct-table",
        {"method": "kemeny", "input__unlisted": "below", "groups": {**OVERLAP, "most": 1}},
    ),
    "trusted sums, groups that overlap, names": (
        "precinct-table",
        {**NAMES, **LAPLACE, "method": "borda", "groups": {**OVERLAP, "others": "whole"}},
    ),
    "trusted places, groups that overlap": (
        "precinct-table",
        {**ADDED, "method": "footrule", "groups": OVERLAP},
    ),
    "trusted sums, groups": (
        "precinct-table",
        {"method": "borda", "groups__others": "whole", "privacy__max_contributions": 2},
    ),
    "trusted places, groups": ("precinct-table", {**ADDED, **LAPLACE, "method": "footrule"}),
    "precincts, elsewhere, districts": (
        "precinct-table",
        {
            **ADDED,
            "groups": {
                "column": "region",
                "values": ["north", "east"],
                "others": "whole",
                "districts": {"upper": ["north"], "lower": ["east"]},
            },
        },
    ),
    "precincts, laplace, of nobody": (
        "precinct-table",
        {
            "privacy__noise": "laplace",
            "privacy__delta": None,
            "input__columns__user": None,
            "input__max_length": 4,
        },
    ),
    "rounds, added": (
        "instant-runoff",
        {**ADDED, **LAPLACE, "privacy__epsilon": 30.0, "input__max_length": 3},
    ),
    "trusted scores, below": ("bradley-terry, user", {**BELOW, "input__overvotes": "exhaust"}),
    "responses, sparse graph, added": ("spectral, sparse", ADDED),
    "responses, graph by itself": ("spectral", {"spectral": {"graph": "auto"}}),
    "responses, booklets": (
        "spectral",
        {
            "input__booklets": BOOKLETS,
            "input__missing": "wrong",
            "privacy__max_contributions": 3,
        },
    ),
    "responses, booklets of all pairs": (
        "spectral",
        {
            "input__booklets": {
                name: [each for each in ITEMS if each != left_out]
                for name, left_out in zip("ABCD", ITEMS, strict=True)
            },
            "privacy__max_contributions": 3,
        },
    ),
    "totals, blanks are wrong": ("totals", {"input__missing": "wrong"}),
    "totals of booklets, added": (
        "totals",
        {**ADDED, "input__booklets": BOOKLETS, "privacy__max_contributions": 3},
    ),
    "totals by group": (
        "totals",
        {
            "privacy__epsilon": 400.0,
            "ledger__epsilon": 1000,
            "groups": {**GROUPS, "others": "whole"},
        },
    ),
    "totals in bands, by group": (
        "totals, gaussian",
        {
            "privacy__epsilon": 60.0,
            "ledger__epsilon": 1000,
            "groups": GROUPS,
            "model": {"bands": 2},
            "privacy__max_contributions": 4,
        },
    ),
    "totals, no noise": ("totals", {"privacy__epsilon": "inf"}),
    "totals of points, added": (
        "totals, points",
        {**ADDED, "privacy__noise": "gaussian", "privacy__delta": 1e-7},
    ),
    "totals of points, steps": (
        "totals, points",
        {"privacy__epsilon": 400.0, "ledger__epsilon": 1000, "input__points": 2},
    ),
    "totals, abilities": ("totals", {"privacy__epsilon": 400.0, "ledger__epsilon": 1000}),
    "totals of many items": (
        "totals",
        {"items": {"count": 45}, "input__missing": "wrong", "privacy__max_contributions": 45},
    ),
    "auto, blanks not asked": ("auto, test", {"input__missing": None}),
    "responses, whole sheets": ("spectral", {"input__missing": "set-aside"}),
    "responses at the source": (
        "spectral-rr",
        {"privacy__already_private": True, "privacy__budget": None},
    ),
    "responses, not debiased": ("spectral-rr", {"spectral": {"debiased": False}}),
}
STREAMS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "stream": ("noisy-counts, rho", {}, STREAM),
    "stream, all nights": (
        "noisy-counts, gaussian",
        {**ADDED, **SPLIT},
        {"nights": 5, "participations": 5, "gap": 1, "show": "cumulative", "first": str(FIRST)},
    ),
    "stream of pairs, night alone": (
        PAIRS,
        {},
        {**STREAM, "participations": 1, "show": {"window": 1}},
    ),
    "stream, watched pair": (
        "noisy-counts, rho",
        {"schedule__alarms": {"pairs": [ITEMS[:2]]}},
        STREAM,
    ),
    "stream of metered rows": (PAIRS, {}, METERED),
    "stream of metered rows, all nights, groups": (
        PAIRS,
        {**ADDED, **SPLIT, "groups": GROUPS},
        {**METERED, "participation": {"rows": 3, "pair_gap": 1, "burst": 3}, "show": "cumulative"},
    ),
    "stream of metered rows, endless": (
        PAIRS,
        {},
        {**METERED, "nights": "endless", "participation": {**REFILLED, "pair_gap": 2}},
    ),
    "stream, names": ("noisy-counts, gaussian", {**ADDED, **NAMES}, STREAM),
    "stream of metered rows, names": (PAIRS, NAMES, METERED),
    "stream of squares": ("win-loss, gaussian", {}, SQUARES),
    "stream of squares, all nights, groups": (
        LOSSES,
        {**ADDED, **SPLIT, "groups": GROUPS},
        {**SQUARES, "participation": {"squares": 6, "gap": 1, "burst": 6}, "show": "cumulative"},
    ),
    "stream of squares, endless, names": (
        "win-loss, gaussian",
        NAMES,
        {
            **{**SQUARES, "nights": "endless"},
            "participation": {"squares": 9, "gap": 2, "burst": 2, "refill": 0.5},
        },
    ),
    "stream of wins and losses": ("win-loss, gaussian", {"groups": GROUPS}, STREAM),
    "stream of groups": ("noisy-counts, rho", {"groups": GROUPS}, STREAM),
    "stream of groups that overlap": (
        "noisy-counts, rho",
        {"groups": {**OVERLAP, "others": "whole"}},
        STREAM,
    ),
    "stream of metered rows, groups that overlap, names": (
        PAIRS,
        {**NAMES, **SPLIT, "groups": {**OVERLAP, "most": 1}},
        METERED,
    ),
}
NIGHTLY = "counts of a night"
OFFICER = "terms of an officer"
ALL = [*KINDS, *STREAMS, NIGHTLY, OFFICER]


OTHER_ROWS = {
    "best-worst": pa.table(
        {
            "user": pa.array([*range(24)]),
            "a": pa.array(ITEMS * 6),
            "b": pa.array((ITEMS[1:] + ITEMS[:1]) * 6),
            "c": pa.array((ITEMS[2:] + ITEMS[:2]) * 6),
            "best": pa.array(ITEMS * 6),
            "worst": pa.array((ITEMS[2:] + ITEMS[:2]) * 6),
        }
    ),
    "list": pa.table(
        {"user": pa.array([*range(24)]), "ranking": pa.array([ITEMS, ITEMS[::-1], ITEMS] * 8)}
    ),
    "pairs": pa.table(
        {
            "left": pa.array(ITEMS * 6),
            "right": pa.array((ITEMS[1:] + ITEMS[:1]) * 6),
            "said": pa.array([1, 1, -1, 1] * 6),
            "items": pa.array([4] * 24),
        }
    ),
}


def own_terms(survey: Survey) -> None:
    """Have an officer open the budget of a survey and raise it: with officer.pem, officer.pub."""
    private = survey.folder / "officer.pem"
    (survey.folder / "officer.pub").write_text(make_key(private))
    for epsilon, why in ((9.0, "board of 3 May"), (12.0, "second wave")):
        survey.set(ledger__terms_key="officer.pub", ledger__epsilon=epsilon)
        ledger_commands.terms(survey.config, private, why)


def honest(name: str, folder: Path) -> Forger:
    """A release of that kind; a night of a stream is its second."""
    if name == NIGHTLY:
        survey = survey_of(COUNTS, folder, PEOPLE).set(
            input__paths=["log-{date}.parquet"], schedule={"timezone": "Europe/Berlin"}
        )
        night_log(folder, str(FIRST))
        run(survey, "--date", str(FIRST))
        return Forger.of(survey)
    if name == OFFICER:
        survey = survey_of(COUNTS, folder, PEOPLE)
        own_terms(survey)
        run(survey)
        return Forger.of(survey)
    if name in STREAMS:
        variant, changes, stream = STREAMS[name]
        survey = survey_of(variant, folder, PEOPLE).set(
            input__paths=["log-{date}.parquet"], schedule={"stream": stream}
        )
        survey.set(**changes)
        for number in range(2):
            day = FIRST + timedelta(days=number)
            pq.write_table(_with_more(answers(PEOPLE)), folder / f"log-{day}.parquet")
            run(survey, "--date", str(day))
        return Forger.of(survey)
    variant, changes = KINDS[name]
    people = MANY if name == "answers of many" else PEOPLE
    survey = survey_of(variant, folder, people)
    rows = rows_for(survey.settings, people)
    pq.write_table(_with_more(rows), folder / "rows.parquet")
    if changes.get("input__version"):
        place = {"path": str(folder / "rows.parquet")}
        survey.settings["input"]["source"] = {"type": "ReadFromParquet", "config": place}
    if changes.get("input__multiline"):
        _as_csv(survey, rows)
    if changes.get("input__layout") in OTHER_ROWS:
        pq.write_table(OTHER_ROWS[changes["input__layout"]], folder / "rows.parquet")
    if "model" in changes and "exposures" in changes["model"]:
        _public_numbers(folder)
    (folder / "labels.csv").write_text("item,name\n" + "".join(f"{i},The {i}\n" for i in ITEMS))
    survey.set(**changes)
    unsafe = ["--no-privacy"] if survey.settings["privacy"].get("epsilon") == "inf" else []
    run(survey, *unsafe)
    return Forger.of(survey)


def _with_more(table: pa.Table) -> pa.Table:
    """With a weight, a group and an epsilon of each row; answers of one pair are ties."""
    n = len(table)
    if "outcome" in table.column_names:
        outcome = np.array(table["outcome"]).copy()
        outcome[::7] = 0
        place = table.column_names.index("outcome")
        table = table.set_column(place, "outcome", pa.array(outcome))
    weights = np.resize([0.5, 1.0, 1.25], n)
    own = np.array(table["user"]) % 3 + 1.0
    if "outcome" in table.column_names:
        said = np.array(["lost", "even", "won"])[np.array(table["outcome"]) + 1]
        table = table.append_column("said", pa.array(said))
    return (
        table.append_column("weight", pa.array(weights))
        .append_column("team", pa.array(np.array(["red", "blue"])[np.array(table["user"]) % 2]))
        .append_column("own", pa.array(own))
        .append_column("row", pa.array(np.arange(n)))
    )


def _as_csv(survey: Survey, table: pa.Table) -> None:
    from pyarrow import csv

    csv.write_csv(table, survey.folder / "rows.csv")
    survey.set(input__paths=["rows.csv"])


def _public_numbers(folder: Path) -> None:
    """How often items and pairs are compared, as an operator states it."""
    items = "".join(f"{item},{12 * len(ITEMS)}\n" for item in ITEMS)
    (folder / "items.csv").write_text(f"item,exposure\n{items}")
    pairs = [(a, b) for at, a in enumerate(ITEMS) for b in ITEMS[at + 1 :]]
    lines = "".join(f"{a},{b},12\n" for a, b in pairs)
    (folder / "pairs.csv").write_text(f"left,right,comparisons\n{lines}")
