"""Audits as a product: correct mechanisms pass, and planted faults are refuted.

A bound is below the truth but for a chance of 10^-6 an audit, so a test of a correct job fails as
rarely. Faults double what a person loses, or more; with the runs that the tests take each is seen
with probability above 1 - 10^-3, most by far more (`benchmarks/audit_power.py` measures all). Three
were computed for normal and Laplace noise: half of that of `noisy-objective`, whose w then moves by
1.08 standard deviations, escapes with probability 10^-5, half of it where it is drawn, by 1.23,
with 10^-6, and a quarter of that with covariates with 10^-9.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hushrank.flows.errors import AuditStopped
from hushrank.flows.methods.registry import METHODS
from hushrank.flows.trust.audit import audit as whole
from hushrank.flows.trust.audit.audit import Workers
from hushrank.flows.trust.audit.central import Nights
from hushrank.flows.trust.audit.result import AuditFound, Beside, Draws, Looks, Part
from hushrank.privacy.audit import epsilon_of_shift
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.units import NoiseKind
from tests.flows.small_jobs import SMALL_JOBS
from tests.flows.trust.audit.planted import (
    BUGS,
    JOBS,
    Bug,
    broken_batch,
    grids,
    survey_of,
    unheard_noise,
    unheard_noise_of_covariates,
)
from tests.statistics import FALSE_POSITIVE_RATE

RUNS = 250
CORRECT = (  # the others have the same code behind them, and `benchmarks/audit_power.py` has all
    *("counts", "counts, Gaussian", "counts, rho", "counts, one row", "counts, item cap"),
    *("counts, split ties", "counts, groups", "counts, look", "counts, weights", "pairs, ties"),
    *("counts, look, items", "counts, counted", "spectral, counted", "footrule, counted"),
    *("pairs, public graph", "win-loss", "one-shot", "spectral", "borda", "bradley-terry"),
    *(
        "mle, noisy exposures",
        "mle, covariates",
        "mle, covariates, groups",
        "objective",
        "objective, small delta",
    ),
    *("footrule", "instant-runoff", "stream", "stream, metered rows", "debiased-rr", "laplace-rr"),
    "stream, squares",
    *("spectral-rr", "mallows", "precincts", "borda, groups"),
    *("random-pairs, hidden items", "auto", "personalized", "spectral, look", "footrule, look"),
    *("totals", "totals, Gaussian, added", "totals, groups", "totals, bands", "totals of points"),
    "totals of points, groups",
    *("counts, groups that overlap", "pairs, groups that overlap"),
    *("stream, groups that overlap", "stream, metered rows, groups that overlap"),
    *("kemeny, groups that overlap", "footrule, groups that overlap"),
)
COUNTED = (  # all jobs that add noise to counts and release them
    *("counts", "counts, Gaussian", "counts, rho", "counts, one row"),
    *("counts, a person comes or goes", "counts, distinct pairs", "counts, item cap"),
    *("counts, split ties", "counts, groups", "counts, look", "counts, weights", "pairs"),
    *("pairs, distinct", "counts, Gaussian, item cap", "pairs, ties", "pairs, public graph"),
    *("win-loss", "spectral", "borda", "kemeny", "bradley-terry", "footrule", "stream"),
    *("totals", "totals, Gaussian, added", "totals, groups", "totals, bands", "totals of points"),
    *("counts, counted", "counts, counted, added", "spectral, counted", "footrule, counted"),
    *("pairs, names", "spectral, names", "borda, names", "stream, names"),
    *(
        "stream, metered rows",
        "stream, squares",
        "totals of points, groups",
        "precincts",
        "borda, groups",
    ),
    *("counts, groups that overlap", "pairs, groups that overlap"),
    *("stream, groups that overlap", "stream, metered rows, groups that overlap"),
    *("kemeny, groups that overlap", "footrule, groups that overlap"),
)
FAULTS = (
    *("names are people, counts", "names are people, stream", "names are people, borda"),
    *("half the noise", "half the noise, Gaussian", "half the noise, groups"),
    *("half the noise, weights", "half the noise, ties", "half the noise, public graph"),
    *("half the noise, tests", "half the noise, kemeny", "half the noise, bradley-terry"),
    *("half the noise of the look", "unlisted items for free"),
    *("half the noise of counted people", "counted people without noise"),
    *("answers counted as one", "contradictions counted as people"),
    *("half the sensitivity, item cap", "adjacency confused"),
    *("the noise of wins alone", "L + 1 answers count", "pairs are not distinct", "no item cap"),
    *("weights are not clipped", "heavy people do not shrink", "the same noise on all counts"),
    *("the same noise in every run", "no noise on zeros", "one night is charged"),
    *("the gap of pairs is not kept", "rows are not metered"),
    *("the gap of nights is not kept", "squares are not metered"),
    *("nights share their noise", "thresholds of twice the epsilon, debiased-rr"),
    *("thresholds of twice the epsilon, spectral-rr", "thresholds of twice the epsilon, mallows"),
    "thresholds of twice the epsilon, random-pairs, hidden items",
    *("half the noise, objective, where it is drawn", "half the noise, objective"),
    *("a quarter of the noise, covariates", "half the noise, fit on a public graph"),
    "each round pays nothing for the others",
    *("adjacency confused, borda", "twice L count, spectral", "half the noise, totals"),
    *("half the noise, points", "half the noise, points, groups", "scores of points for free"),
    *("a voter in two precincts", "levels at the cost of one"),
    "groups of rankings at the cost of one",
    *("overlap at the cost of one", "overlap without the whole", "twice in the whole"),
    *("all groups count", "all groups count, stream", "overlap at the cost of one, stream"),
    "overlap without the whole, metered rows",
    *("overlap of rankings at the cost of one", "overlap of rankings without the whole"),
    "all groups of rankings count",
    *("right answers alone", "right answers alone, by group"),
    *("half the noise, bands", "a sheet in several bands"),
    *("sheets by score for free", "how many sheets count is told"),
)


@pytest.fixture(autouse=True)
def small_reductions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "reduce_rows", SMALL_JOBS.run)


def audited(name: str, folder: Path, least: int = RUNS) -> AuditFound:
    survey = survey_of(name, folder)
    return whole.audit(survey, seconds=0, processes=0, least=least, wrong=FALSE_POSITIVE_RATE)


def test_every_method_is_audited():
    assert {job["method"] for job in JOBS.values()} == set(METHODS) - {"auto"}


@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_mechanism_is_not_refuted(name, tmp_path):
    found = audited(name, tmp_path)
    assert not found.refuted
    assert found.job == survey_of(name, tmp_path).config.job_hash()
    for part in found.parts:
        assert part.runs >= RUNS
        for bound in part.bounds:
            if bound.assumes == "noise of the stated family":  # the worst case is attained
                assert 0.5 < bound.epsilon_lower / part.epsilon <= 1.001


def law_of(part: Part) -> NoiseLaw:
    """Of the noise that the counts of a part get."""
    match part.source:
        case Looks(look=look):
            return look.law
        case Beside(law=law):
            return law.law
        case Nights(stream=stream):
            return stream.law
        case Draws(mechanism=mechanism):
            return getattr(mechanism, "counts", mechanism).law  # of a list of counts, its own
    raise TypeError(part.source)


@pytest.mark.parametrize("name", COUNTED)
def test_the_chosen_logs_lose_all_that_is_stated(name, tmp_path):
    """No other two logs can lose more, so an audit has not chosen the wrong ones."""
    for part in whole.parts_of(survey_of(name, tmp_path).config, tmp_path):
        left, right = whole.hardest(part, Workers(0), 0.0)
        shares = (part.centres[left] - part.centres[right]) / law_of(part).scale
        if part.law is NoiseKind.LAPLACE:
            lost = np.abs(shares).sum()
        else:
            lost = epsilon_of_shift(float(np.linalg.norm(shares)), part.delta)
        assert 0.99 < lost / part.epsilon < 1 + 1e-9


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_refuted(name, tmp_path, monkeypatch):
    bug = BUGS[name]
    bug.plant(monkeypatch)
    assert audited(bug.job, tmp_path, bug.least).refuted


@pytest.mark.parametrize(
    ("job", "refuted"), [("mle, public graph", False), ("mle, public graph", True)]
)
def test_a_fit_with_an_eighth_of_its_noise_is_refuted(job, refuted, tmp_path, monkeypatch):
    if refuted:
        Bug(job, grids(8)).plant(monkeypatch)
    assert audited(job, tmp_path, 600).refuted is refuted


@pytest.mark.parametrize(
    ("job", "plant"),
    [
        ("objective", unheard_noise),
        ("mle, noisy exposures", unheard_noise),
        ("mle, covariates", unheard_noise_of_covariates),
        ("objective", broken_batch),
    ],
)
def test_a_release_that_fits_otherwise_is_not_audited(job, plant, tmp_path, monkeypatch):
    """Half of w is lost where a release finds its minimiser, or one of a batch is not the right."""
    plant(monkeypatch)
    with pytest.raises(AuditStopped, match="the code that fits is broken"):
        audited(job, tmp_path)


def test_a_bound_that_a_release_does_not_promise_is_not_tried(tmp_path):
    """A fit with Gaussian noise states epsilon and delta, and no normal laws."""
    (part,) = audited("objective", tmp_path).parts
    assert [bound.assumes for bound in part.bounds] == ["nothing"]
    (part,) = audited("counts, Gaussian", tmp_path).parts
    assert "gaussian trade-off" in [bound.assumes for bound in part.bounds]


def test_nothing_of_the_survey_is_read_or_left_behind(tmp_path):
    """There are no rows, no ledger and no folder of releases: it needs none and makes none."""
    audited("counts, look", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["survey.yaml"]


Command = Callable[..., tuple[int, str]]


def test_the_command_writes_what_it_prints(tmp_path, command: Command, monkeypatch):
    survey = survey_of("counts, look", tmp_path)
    # Draws of its process are real, and an audit of users is wrong once in 1 000 times.
    monkeypatch.setattr(whole, "audit", partial(whole.audit, wrong=FALSE_POSITIVE_RATE))
    code, printed = command("audit", survey.path, "--minutes", 0.01, "--processes", 1)
    assert code == 0, printed
    assert "No row of the survey was read, and nothing was spent." in printed
    assert "This is not a proof" in printed
    written = AuditFound.model_validate_json((tmp_path / "audit.json").read_text(), strict=False)
    assert written.job == survey.config.job_hash()
    assert written.epsilon == 2.0
    assert [part.epsilon for part in written.parts] == [1.8, 0.2]
    assert len(written.certificate) == 2
    assert written.certificate[1].stated == "3602879701896397/18014398509481984"  # 0.2, as it is
    assert {path.name for path in tmp_path.iterdir()} == {"survey.yaml", "audit.json"}


def test_a_broken_promise_is_exit_code_1(tmp_path, command: Command, monkeypatch):
    survey, right = survey_of("counts", tmp_path), whole.audit
    BUGS["the same noise in every run"].plant(monkeypatch)
    monkeypatch.setattr(
        whole, "audit", lambda survey, **_: right(survey, seconds=0, processes=0, least=RUNS)
    )
    code, printed = command("audit", survey.path, "--out", tmp_path / "found.json")
    assert code == 1
    assert "EXCEEDED" in printed
    assert "Do not release." in printed
    code, printed = command("audit", survey.path, "--json")
    assert code == 1
    found = json.loads(printed)
    assert found["refuted"]
    assert found["epsilon_lower"] == "inf"
    assert found["certificate"][0]["epsilon_lower"] == "inf"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--minutes", "0"), "--minutes must be above 0"),
        (("--out", "nowhere/audit.json"), "cannot be written"),
    ],
)
def test_what_cannot_be_is_refused_before_minutes_pass(tmp_path, command: Command, words, said):
    code, printed = command("audit", survey_of("counts", tmp_path).path, *words)
    assert code == 2
    assert said in printed
