"""Each number that the step `draw` stores has noise of its own, of the law that is stated.

Every method draws many times from equal counts, as a run does, with the look at the rows before it
where there can be one. Of each entry the mean size of the noise is that of the law; of every two
entries the signs agree as often as not, so no noise is used twice. And a look stops a run by the
noisy votes alone.

A correct mechanism fails with probability 1e-6 at most, all entries of a test together. The size of
noise is compared by a normal test: its tail at 6.5 standard errors (1e-10) is right to a factor of
ten for 2,000 draws of these laws, and no test has 500 entries. Signs of independent noise are fair
coins, for which Hoeffding's bound holds exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Seen
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.registry import calibrate
from hushrank.flows.run.context import Job, Noisy, Survey
from hushrank.flows.run.job import occasion_of
from hushrank.flows.run.stages import noise_of
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import BitsUsed
from hushrank.privacy.units import NoiseKind
from tests.flows.methods.neighbours import GROUPS, job
from tests.statistics import (
    FALSE_POSITIVE_RATE,
    binomial_p_value,
    cells_p_value,
    discrete_gaussian_pmf,
    discrete_laplace_pmf,
)

DRAWS = 2_000
FAR = 6.5  # standard errors of a mean size
N = 3  # items
PAIRS = N * (N - 1)
MANY_FIT = np.array([100_000, 10])  # votes at which no look stops

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Entries:
    """Noise in some numbers, shape (draws, entries), and the mean and deviation of its size."""

    noise: NDArray[np.float64]
    mean: float
    deviation: float

    @classmethod
    def of(cls, noise: NDArray[np.float64], law: NoiseLaw) -> Entries:
        """Of a law of whole numbers."""
        reach = math.ceil(60 * law.scale)
        if law.scale > 1000:  # as good as continuous
            laplace = law.kind is NoiseKind.LAPLACE
            mean = 1.0 if laplace else math.sqrt(2 / math.pi)
            square = 2.0 if laplace else 1.0
            return cls(noise, mean * law.scale, math.sqrt(square - mean**2) * law.scale)
        values = np.arange(-reach, reach + 1)
        laplace = law.kind is NoiseKind.LAPLACE
        chance = (discrete_laplace_pmf if laplace else discrete_gaussian_pmf)(law.scale)(values)
        mean = float(np.abs(values) @ chance)
        return cls(noise, mean, math.sqrt(float(values**2 @ chance) - mean**2))


def problems(parts: list[Entries], scale: float = 1.0) -> list[str]:
    """Entries whose noise has another size, and pairs that are not independent.

    Args:
        parts: of one release.
        scale: what to multiply all noise by, for a mechanism that is wrong.
    """
    noise = np.hstack([part.noise for part in parts]) * scale
    mean, deviation = (
        np.concatenate([np.full(part.noise.shape[1], getattr(part, name)) for part in parts])
        for name in ("mean", "deviation")
    )
    runs, entries = noise.shape
    off = (np.abs(noise).mean(axis=0) - mean) / (deviation / math.sqrt(runs))
    found = [f"entry {k}: {off[k]:.1f} errors off" for k in np.flatnonzero(np.abs(off) > FAR)]
    signs = np.sign(noise)
    agree, both = signs.T @ signs, np.abs(signs).T @ np.abs(signs)
    n_pairs = max(entries * (entries - 1) // 2, 1)
    most = np.sqrt(2 * both * math.log(4 * n_pairs / FALSE_POSITIVE_RATE))
    alike = np.triu(np.abs(agree) > most, 1)
    return found + [f"entries {a} and {b}: not independent" for a, b in np.argwhere(alike)]


@dataclass(frozen=True)
class Case:
    """A way to draw.

    Attributes:
        config: the job.
        exact: what was counted: the same for every draw.
        parts: published arrays, and the mask of the entries that count something.
    """

    config: SurveyConfig
    exact: Arrays
    parts: dict[str, NDArray[np.bool_]] = field(default_factory=dict)


OFF_DIAGONAL = ~np.eye(N, dtype=bool)
ALL = np.ones(N, bool)
ONE = np.ones(1, bool)
TIED = np.stack([OFF_DIAGONAL, np.triu(OFF_DIAGONAL)])
LOOKING = {"epsilon": 4.0, "look": 0.5, "max_contributions": 1}  # one law for votes and counts
RHO = {"epsilon": None, "rho": 0.05, "noise": "gaussian", "max_contributions": 2}
PUBLIC = {"public_graph": True, "public_graph_statement": "all saw all pairs"}
COUNTS: dict[str, tuple[tuple[int, ...], dict[str, NDArray[np.bool_]]]] = {
    "noisy-counts": ((N,), {"counts": ALL}),
    "win-loss": ((N, N), {"wins": ALL, "losses": ALL}),
    "noisy-pairs": ((N, N), {"wins": OFF_DIAGONAL}),
}
WEIGHTED = {"input": {"columns": {"weight": "weight"}}}


def cases() -> dict[str, Case]:
    """Every method that adds noise to counts, in every way in which it does."""
    found = {}
    for method, (shape, parts) in COUNTS.items():
        for others, size in (("set-aside", 2), ("whole", 3)):
            groups = {"groups": {"column": "group", "values": list(GROUPS), "others": others}}
            each = {name: np.stack([mask] * size) for name, mask in parts.items()}
            config = job(method, LOOKING, N, **groups)
            counts = np.zeros((size, *shape), np.int64)
            found[f"{method}, groups, others {others}"] = Case(config, {"counts": counts}, each)
        exact = {"counts": np.zeros(shape, np.int64)}
        for privacy, ties in ((LOOKING, "drop"), (RHO, "split")):
            config = job(method, privacy, N, ties=ties)
            found[f"{method}, {ties}"] = Case(config, exact, parts)
        heavy = exact | {"squares": np.zeros(1, np.int64)}
        config = job(method, LOOKING | {"max_weight": 2}, N, **WEIGHTED)
        found[f"{method}, weights"] = Case(config, heavy, parts | {"squares": ONE})
    groups = {"groups": {"column": "group", "values": list(GROUPS), "others": "whole"}}
    exact = {"counts": np.zeros((2, N, N), np.int64)}
    config = job("noisy-pairs", LOOKING, N, ties="model")
    found["ties as outcomes"] = Case(config, exact, {"cells": TIED})
    config = job("noisy-pairs", LOOKING, N, ties="model", **groups)
    exact = {"counts": np.zeros((3, 2, N, N), np.int64)}
    found["ties as outcomes, groups"] = Case(config, exact, {"cells": np.stack([TIED] * 3)})
    for graph in ("dense", "even"):
        spectral = {"graph": graph} if graph == "dense" else {"graph": graph, "degree": 2}
        rows = {"kind": "responses", "ties": None, "design": None}
        config = job("spectral", RHO, N, spectral=spectral, input=rows)
        exact = {"y": np.zeros((N, N), np.int64)}
        found[f"spectral, {graph}"] = Case(config, exact, {"y": OFF_DIAGONAL})
    rankings = {"kind": "rankings", "columns": {}, "ties": None, "design": None}
    exact = {
        **{name: np.zeros((N, N), np.int64) for name in ("wins", "moments", "places")},
        "lengths": np.zeros(N + 1, np.int64),
    }
    spread = {"squares": ALL, "rankings": ONE}
    for method, parts in {
        "kemeny": {"above": OFF_DIAGONAL},
        "borda": {"nets": ALL, **spread},
        "bradley-terry": {"above": OFF_DIAGONAL, **spread},
        "footrule": {"places": np.ones((N, N), bool)},
    }.items():
        config = job(method, {"epsilon": 1.0, "max_contributions": 1}, N, input=rankings)
        found[method] = Case(config, exact, parts)
    return found


CASES = cases()


def drawn(
    case: Case,
    monkeypatch: pytest.MonkeyPatch,
    votes: NDArray[np.int64] | None = None,
    runs: int = DRAWS,
) -> list[Noisy]:
    """What is drawn, many times."""
    survey = Survey(Path("survey.yaml"), case.config)
    calibrated = survey.calibrated
    one = Job(made_for=occasion_of, survey=survey, files=(), calibrated=calibrated)
    return [noise_of(one, case.exact, votes, BitsUsed(), {}) for _ in range(runs)]


def votes_of(found: list[Noisy], votes: NDArray[np.int64]) -> list[Entries]:
    """Noise of the look; nothing where there is none."""
    look = found[0].drawn_by.look
    if look is None:
        return []
    return [Entries.of(np.array([each.votes for each in found]) - votes, look.law)]


def column(found: list[Noisy], name: str, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """One array of all draws, shape (draws, entries that count something)."""
    values = np.array([each.arrays[name] for each in found])
    assert values.shape[1:] == mask.shape
    assert not values[:, ~mask].any(), "noise where nothing is counted"
    return values[:, mask].astype(np.float64)


def stated_law(found: list[Noisy]) -> NoiseLaw:
    mechanism: Any = found[0].drawn_by.mechanism
    law: NoiseLaw = getattr(mechanism, "counts", mechanism).calibration.law
    return law


def assert_noise(parts: list[Entries]) -> None:
    """The stated law is what was drawn; a wrong one, and noise that is used twice, are caught."""
    assert problems(parts) == []
    assert problems(parts, 1.2)
    assert problems(parts, 0.8)
    last = parts[-1].noise
    shared = last.copy()
    shared[:, -1] = parts[0].noise[:, 0]
    caught = problems([*parts[:-1], Entries(shared, parts[-1].mean, parts[-1].deviation)])
    assert any("not independent" in each for each in caught)


@pytest.mark.parametrize("name", CASES)
def test_every_published_entry_has_noise_of_its_own(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    found = drawn(case, monkeypatch, MANY_FIT)
    assert set(found[0].arrays) - {"edges"} == set(case.parts)
    law = stated_law(found)
    parts = [Entries.of(column(found, *part), law) for part in case.parts.items()]
    assert_noise([*votes_of(found, MANY_FIT), *parts])


def test_who_won_on_a_public_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals are public; of each pair that met one count has noise, and the other follows."""
    config = job("noisy-pairs", LOOKING | PUBLIC, N, ties="random")
    counts = np.full((N, N), 7) * OFF_DIAGONAL
    found = drawn(Case(config, {"counts": counts}), monkeypatch, MANY_FIT)
    varying = [
        name
        for name, values in found[0].arrays.items()
        if any((each.arrays[name] != values).any() for each in found)
    ]
    (name,) = varying
    noise = np.array([each.arrays[name] for each in found]) - 7.0
    assert noise.shape == (DRAWS, PAIRS // 2)
    assert_noise([*votes_of(found, MANY_FIT), Entries.of(noise, stated_law(found))])


@pytest.mark.parametrize("method", ["perturbed-mle", "noisy-objective"])
def test_scores_and_exposures(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rows, a score is -w / ridge, less the mean: a difference of two is one of two w."""
    laplace = method == "perturbed-mle"
    privacy: dict[str, Any] = {"epsilon": 2.0, "look": 0.5, "max_contributions": 1}
    if not laplace:
        privacy |= {"noise": "gaussian", "delta": 1e-6}
    config = job(method, privacy, N)
    found = drawn(Case(config, {"counts": np.zeros((N, N), np.int64)}), monkeypatch, MANY_FIT)
    made: Any = found[0].drawn_by.mechanism
    scores = -made.objective.ridge * np.array([each.arrays["scores"] for each in found])
    mean, square = (1.5, 4.0) if laplace else (2 / math.sqrt(math.pi), 2.0)
    scale = made.objective.scale
    apart = Entries(
        scores[:, :1] - scores[:, 1:2], mean * scale, math.sqrt(square - mean**2) * scale
    )
    exposures = np.array([each.arrays["exposures"] for each in found]).astype(np.float64)
    shown = Entries.of(exposures, made.exposures.law)
    assert_noise([*votes_of(found, MANY_FIT), apart, shown])


def test_scores_effects_and_information(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rows, an effect is -share w / ridge, and all information is noise."""
    rows = {"columns": {"first": "left"}, "features": [{"column": "feature", "scale": 1.0}]}
    privacy = {"epsilon": 2.0, "look": 0.5, "max_contributions": 1}
    config = job("perturbed-mle", privacy, 12, input=rows)
    nothing = np.empty(0, np.int64)
    exact = {"cells": nothing, "words": nothing.astype(np.uint64), "counts": nothing}
    found = drawn(Case(config, exact), monkeypatch, MANY_FIT, DRAWS // 2)
    made = found[0].drawn_by.mechanism.calibrated  # type: ignore[attr-defined]
    scores = -made.ridges[0] * np.array([each.arrays["scores"] for each in found])
    effects = -made.ridges[-1] * np.array([each.arrays["effects"] for each in found])
    scale = made.objective.scale
    parts = [
        Entries(scores[:, :1] - scores[:, 1:2], 1.5 * scale, math.sqrt(1.75) * scale),
        Entries(effects, scale / made.objective.share, scale / made.objective.share),
    ]
    for name, law in (
        ("of_scores", made.of_scores.law),
        ("between", made.between.law),
        ("of_effects", made.of_effects.law),
    ):
        values = np.array([each.arrays[name] for each in found]).astype(np.float64)
        parts.append(Entries.of(values.reshape(len(found), -1), law))
    assert_noise([*votes_of(found, MANY_FIT), *parts])


def test_lists_of_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of equal counts every order of the best two is about as likely: noise is not shared."""
    config = job("one-shot", {"epsilon": 0.02, "max_contributions": 1}, N, top_k=2)
    found = drawn(Case(config, {"counts": np.zeros(N, np.int64)}), monkeypatch)
    lists = np.array([each.arrays["items"] for each in found])
    counts = np.unique(lists @ [N, 1], return_counts=True)[1]
    assert len(counts) == PAIRS
    # Equal noisy counts, of which the first item comes first, have a chance below 1 % at this
    # scale, 100: in a test of 2 000 draws that does not show.
    assert cells_p_value(counts, np.full(PAIRS, 1 / PAIRS)) > FALSE_POSITIVE_RATE


@pytest.mark.parametrize("unit", ["user", "comparison"])
def test_a_look_stops_by_the_noisy_votes_alone(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the threshold: about half of all looks stop, as often as the noise says, and no other."""
    privacy: dict[str, Any] = {"unit": unit, "epsilon": 2.0, "look": 0.2}
    if unit == "user":
        privacy["max_contributions"] = 1
    config = job("noisy-counts", privacy, N)
    law = calibrate(config).look.law  # type: ignore[union-attr]
    apart = next(votes for votes in range(10_000) if Seen(0, votes, law).stops)
    exact = np.array([500, 500 + apart])
    found = drawn(Case(config, {"counts": np.zeros(N, np.int64)}), monkeypatch, exact)
    stopped = np.array([each.stopped for each in found])
    seen = np.array([each.votes for each in found])
    assert (stopped == (seen[:, 1] - seen[:, 0] >= apart)).all()
    assert all(bool(each.arrays) != each.stopped for each in found)
    values = np.arange(-math.ceil(60 * law.scale), math.ceil(60 * law.scale) + 1)
    probabilities = discrete_laplace_pmf(law.scale)(values)
    chance = (
        1 + float(probabilities @ probabilities)
    ) / 2  # of a difference of two that is 0 or more
    stops = int(stopped.sum())
    assert binomial_p_value(stops, DRAWS, chance) > FALSE_POSITIVE_RATE
    for wrong in (0, DRAWS):  # by the exact votes, all stop or none
        assert binomial_p_value(wrong, DRAWS, chance) < FALSE_POSITIVE_RATE
