"""A small survey for every method, and for every way in which a method can draw."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.flows.conftest import ITEMS, Survey, answers

PEOPLE = 40
COMPARISONS = {
    "kind": "comparisons",
    "design": "balanced",
    "columns": {"left": "item_i", "right": "item_j"},
}
PER_PERSON = {"unit": "user", "epsilon": 2.0, "max_contributions": 4}
GAUSSIAN = {**PER_PERSON, "noise": "gaussian", "delta": 1e-7}
PUBLIC = {**PER_PERSON, "public_graph": True, "public_graph_statement": "all saw all pairs"}
RHO = {"unit": "user", "rho": 0.3, "noise": "gaussian", "max_contributions": 4}
ANSWERS = {"unit": "local", "epsilon": 2.0, "budget": "per_comparison"}
SHEETS = {"unit": "local", "epsilon": 6.0, "budget": "per_user", "max_contributions": 4}
BALLOTS = {"unit": "local", "mechanism": "mallows", "epsilon": 2.0}
LOOK = {"epsilon": 60.0, "look": 0.5}  # noise is 0 but for a chance below 1e-12
COUNTED = {"epsilon": 60.0, "counts": {"share": 0.5, "of": ["people"]}}  # likewise
SCORES = {"expected_comparisons": 100.0}


def _comparisons(method: str, privacy: dict[str, Any], **more: Any) -> dict[str, Any]:
    ties = "random" if privacy["unit"] == "local" or "public_graph" in privacy else "drop"
    return {
        "input": {**COMPARISONS, "ties": ties},
        "privacy": privacy,
        "method": method,
        **more,
    }


def _with_covariates(settings: dict[str, Any]) -> dict[str, Any]:
    """The left item is shown first, and a feature is made of what is there."""
    rows = settings["input"]
    columns = {**rows["columns"], "first": rows["columns"]["left"]}
    features = [{"left": "item_i", "right": "item_j", "scale": 4, "name": "place"}]
    return {**settings, "input": {**rows, "columns": columns, "features": features}}


def _responses(method: str, privacy: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"input": {"kind": "responses"}, "privacy": privacy, "method": method, **more}


def _sheets(method: str, privacy: dict[str, Any], **rows: Any) -> dict[str, Any]:
    """Test answers of which only whole sheets count."""
    rows = {"kind": "responses", "missing": "set-aside", **rows}
    return {"input": rows, "privacy": privacy, "method": method}


def _rankings(method: str, **privacy: Any) -> dict[str, Any]:
    kind = {"kind": "rankings", "columns": {}}
    return {"input": kind, "privacy": {**BALLOTS, **privacy}, "method": method}


def _counted(method: str, privacy: dict[str, Any], **rows: Any) -> dict[str, Any]:
    kind = {"kind": "rankings", "columns": {}, **rows}
    return {"input": kind, "privacy": privacy, "method": method}


# Where the random bits of each variant come from, whatever the rows are.
NOISE, KEYED = {"noise": ["opendp"]}, {"row-choice": ["system"]}
FLIPS, COINS = {"randomisation": ["system"]}, {"coins": ["system"]}
LAPLACE, RANKS = {"randomisation": ["opendp"]}, {"randomisation": ["opendp", "system"]}
BITS = {
    "noisy-counts": NOISE | KEYED,
    "noisy-counts, gaussian": NOISE | KEYED,
    "noisy-counts, rho": NOISE | KEYED,
    "noisy-counts, look": NOISE | KEYED,
    "noisy-counts, counted": NOISE | KEYED,
    "perturbed-mle, look": NOISE | KEYED,
    "noisy-pairs": NOISE | KEYED,
    "noisy-pairs, public": NOISE | KEYED | COINS,
    "noisy-pairs, found names": NOISE | KEYED,
    "win-loss": NOISE | KEYED,
    "win-loss, gaussian": NOISE | KEYED,
    "auto": NOISE | KEYED,
    "perturbed-mle": NOISE | KEYED,
    "perturbed-mle, exposures": NOISE | KEYED,
    "perturbed-mle, exposures, public": NOISE | KEYED | COINS,
    "perturbed-mle, covariates": NOISE | KEYED,
    "perturbed-mle, public": NOISE | KEYED | COINS,
    "noisy-objective": NOISE | KEYED,
    "one-shot": NOISE | KEYED,
    "debiased-rr": FLIPS | COINS,
    "debiased-rr, per user": FLIPS | KEYED | COINS,
    "classic-rr": FLIPS | COINS,
    "laplace-rr": LAPLACE | COINS,
    "rr-counts": FLIPS | KEYED | COINS,
    "spectral": NOISE | KEYED,
    "spectral, look": NOISE | KEYED,
    "spectral, sparse": NOISE | KEYED,
    "spectral, even": NOISE | KEYED,
    "totals": NOISE | KEYED,
    "totals, look": NOISE | KEYED,
    "totals, gaussian": NOISE | KEYED,
    "totals, points": NOISE | KEYED,
    "auto, test": NOISE | KEYED,
    "spectral-rr": FLIPS | KEYED,
    "spectral-rr, sparse": FLIPS | KEYED,
    "kemeny": FLIPS | KEYED,
    "borda": FLIPS | KEYED,
    "borda, laplace-ranks": RANKS | KEYED,
    "bradley-terry": FLIPS | KEYED,
    "kemeny, random-pairs": FLIPS | KEYED,
    "personalized": FLIPS | KEYED,
    "borda, auto, hidden items": FLIPS | KEYED,
    "kemeny, user": NOISE | KEYED,
    "borda, user": NOISE | KEYED,
    "borda, user, ties": NOISE | KEYED | COINS,
    "bradley-terry, user": NOISE | KEYED,
    "footrule": NOISE | KEYED,
    "instant-runoff": NOISE | KEYED,
    "footrule, look": NOISE | KEYED,
    "precinct-table": NOISE | KEYED,
}


SPARSE = {"graph": "sparse", "edge_probability": 0.9}
VARIANTS: dict[str, dict[str, Any]] = {
    "noisy-counts": _comparisons("noisy-counts", PER_PERSON),
    "noisy-counts, gaussian": _comparisons("noisy-counts", GAUSSIAN),
    "noisy-counts, rho": _comparisons("noisy-counts", RHO),
    "noisy-counts, look": _comparisons("noisy-counts", {**GAUSSIAN, **LOOK}),
    "noisy-counts, counted": _comparisons("noisy-counts", {**GAUSSIAN, **COUNTED}),
    "perturbed-mle, look": _comparisons("perturbed-mle", {**PER_PERSON, **LOOK}),
    "noisy-pairs": _comparisons("noisy-pairs", PER_PERSON),
    "noisy-pairs, public": _comparisons("noisy-pairs", PUBLIC),
    "noisy-pairs, found names": _comparisons(
        "noisy-pairs",
        {**GAUSSIAN, "epsilon": 95.0, "adjacency": "add-remove"},
        items={"discover": {"share": 0.5}},
    ),
    "win-loss": _comparisons("win-loss", PER_PERSON),
    "win-loss, gaussian": _comparisons("win-loss", GAUSSIAN),
    "auto": _comparisons("auto", PER_PERSON),
    "perturbed-mle": _comparisons("perturbed-mle", PER_PERSON, model=SCORES),
    "perturbed-mle, exposures": _comparisons("perturbed-mle", PER_PERSON),
    "perturbed-mle, exposures, public": _comparisons("perturbed-mle", PUBLIC),
    "perturbed-mle, covariates": _with_covariates(_comparisons("perturbed-mle", PER_PERSON)),
    "perturbed-mle, public": _comparisons("perturbed-mle", PUBLIC, model=SCORES),
    "noisy-objective": _comparisons("noisy-objective", GAUSSIAN, model=SCORES),
    "one-shot": _comparisons("one-shot", PER_PERSON, top_k=2),
    "debiased-rr": _comparisons("debiased-rr", ANSWERS),
    "debiased-rr, per user": _comparisons("debiased-rr", {**ANSWERS, "budget": "per_user"}),
    "classic-rr": _comparisons("classic-rr", ANSWERS),
    "laplace-rr": _comparisons("laplace-rr", ANSWERS),
    "rr-counts": _comparisons("rr-counts", {**ANSWERS, "max_contributions": 3}),
    "spectral": _responses("spectral", PER_PERSON),
    "spectral, look": _responses("spectral", {**PER_PERSON, **LOOK}),
    "spectral, sparse": _responses("spectral", PER_PERSON, spectral=SPARSE),
    "spectral, even": _responses("spectral", PER_PERSON, spectral={"graph": "even", "degree": 2}),
    "totals": _sheets("totals", PER_PERSON),
    "totals, look": _sheets("totals", {**PER_PERSON, **LOOK}),
    "totals, gaussian": _sheets("totals", {**GAUSSIAN, "adjacency": "add-remove"}),
    "totals, points": _sheets("totals", PER_PERSON, points={ITEMS[0]: 2}),
    "auto, test": _sheets("auto", PER_PERSON),
    "spectral-rr": _responses("spectral-rr", SHEETS),
    "spectral-rr, sparse": _responses("spectral-rr", SHEETS, spectral=SPARSE),
    "kemeny": _rankings("kemeny"),
    "borda": _rankings("borda"),
    "borda, laplace-ranks": _rankings("borda", mechanism="laplace-ranks"),
    "bradley-terry": _rankings("bradley-terry"),
    "kemeny, random-pairs": _rankings("kemeny", mechanism="random-pairs"),
    "personalized": {
        "input": {
            "kind": "rankings",
            "layout": "list",
            "columns": {"ranking": "ranking", "user": "user"},
            "person_features": {"age": [20, 60], "region": ["north", "south"]},
        },
        "privacy": {**BALLOTS, "mechanism": "random-pairs"},
        "method": "personalized",
    },
    "borda, auto, hidden items": _rankings("borda", mechanism="auto", hide="items"),
    "kemeny, user": _counted("kemeny", GAUSSIAN),
    "borda, user": _counted("borda", {**PER_PERSON, "adjacency": "add-remove"}),
    "borda, user, ties": _counted("borda", RHO, ties="random"),
    "bradley-terry, user": _counted("bradley-terry", GAUSSIAN),
    "footrule": _counted("footrule", PER_PERSON),
    "instant-runoff": _counted("instant-runoff", GAUSSIAN, unlisted="below"),
    "footrule, look": _counted("footrule", {**PER_PERSON, **LOOK}),
    "precinct-table": {
        "input": {
            "kind": "rankings",
            "layout": "list",
            "columns": {"ranking": "ranking", "user": "user"},
        },
        "groups": {"column": "region", "values": ["north", "south"]},
        "privacy": {**GAUSSIAN, "max_contributions": 1},
        "method": "precinct-table",
    },
}


def survey_of(name: str, folder: Path, people: int = PEOPLE, work: str = "work") -> Survey:
    """The survey of a variant, with `people` people, and its file of rows."""
    settings = copy.deepcopy(VARIANTS[name])
    folder.mkdir(exist_ok=True)
    pq.write_table(rows_for(settings, people), folder / "rows.parquet")
    settings |= {
        "name": "zoo",
        "input": {**settings["input"], "paths": ["rows.parquet"]},
        "items": settings.get("items", {"names": ITEMS, "first_code": 0}),
        "output": "out",
        "confidential": work,
        "ledger": {"path": "ledger.jsonl", "epsilon": 100, "delta": 1e-5},
    }
    return Survey(folder, settings).set()


def rows_for(settings: dict[str, Any], people: int) -> pa.Table:
    """Rows that a survey with these settings can read."""
    if settings["input"].get("layout") != "list":
        return rows_of(settings["input"]["kind"], people)
    number = np.arange(people)
    return pa.table(
        {
            "user": number,
            "ranking": pa.array([ITEMS] * people),
            "age": number % 41 + 20,
            "region": np.array(["north", "south"])[number % 2],
        }
    )


def rows_of(kind: str, people: int) -> pa.Table:
    """Everybody says much the same: of everything, all."""
    if kind == "comparisons":
        return answers(people)
    user = np.repeat(np.arange(people), len(ITEMS))
    place = np.tile(np.arange(len(ITEMS)), people)
    table = pa.table({"user": user, "item": np.array(ITEMS)[place]})
    if kind == "responses":
        return table.append_column("correct", pa.array((user + place) % 3 > 0))
    return table.append_column("rank", pa.array(place + 1))
