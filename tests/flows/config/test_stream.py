"""`schedule.stream` in the YAML file: what it means, and what is refused with which words."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import calibrate, load_config
from hushrank.privacy.stream_encoder import Terms, Workload
from tests.flows.config.test_survey import write

STREAM = {
    "nights": 365,
    "participations": 12,
    "gap": 28,
    "show": {"window": 28},
    "first": "2026-11-20",
}
GAUSSIAN = {"unit": "user", "noise": "gaussian", "rho": 0.1, "max_contributions": 15}
USUAL = {"input.paths": ["survey/{date}.parquet"], "privacy": GAUSSIAN}


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def job(changes: dict[str, Any] | None = None, **stream: Any) -> Path:
    return write(USUAL | {"schedule": {"stream": STREAM | stream}} | (changes or {}))


def test_a_stream_is_read():
    config = load_config(job())
    stream = config.schedule.stream
    assert stream.terms == Terms(nights=365, participations=12, gap=28)
    assert (stream.workload, stream.bands) == (Workload(28), None)
    assert (stream.first, stream.last) == (date(2026, 11, 20), date(2027, 11, 19))
    assert stream.number_of(date(2026, 11, 22)) == 2
    found = calibrate(config).mechanism.stream
    assert (found.terms, found.encoder.bands) == (stream.terms, 28)


@pytest.mark.parametrize(("show", "window"), [("night", 1), ("cumulative", None)])
def test_what_is_shown_has_names(show, window):
    assert load_config(job(show=show)).schedule.stream.workload == Workload(window)


def test_a_stream_that_counts_nights_keeps_its_name():
    """The job's hash names the stream in ledgers and folders: another one would be a new stream."""
    known = "564513d2aa35826f2d6db4b19fca76a0efe400cfcf739aa5100615aa96617263"
    assert load_config(job()).job_hash() == known


def test_every_term_makes_another_job_and_no_other_key_does():
    first = load_config(job()).job_hash()
    for key, value in (
        ("nights", 364),
        ("participations", 11),
        ("gap", 29),
        ("show", "cumulative"),
        ("first", "2026-11-21"),
        ("bands", 7),
    ):
        assert load_config(job(**{key: value})).job_hash() != first, key
    schedule = {"stream": STREAM, "empty": "skip", "cron": "0 2 * * *", "catch_up_days": 3}
    assert load_config(job({"schedule": schedule})).job_hash() == first
    assert load_config(write(USUAL)).job_hash() != first


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        ({"bands": 29, "gap": 28, "show": "cumulative"}, "bands: must be at most gap (28), got 29"),
        ({"bands": 15, "show": {"window": 14}}, "bands: must be at most the nights that are shown"),
        ({"gap": 0}, "gap: must be >= 1, got 0"),
        ({"participations": 0}, "participations: must be >= 1"),
        ({"nights": 40_000}, "nights: must be <= 32768"),
        ({"first": "soon"}, "first: must be a date such as 2026-11-20, got 'soon'"),
        ({"first": 2026}, "first: must be a date such as 2026-11-20"),
        ({"first": "0001-01-01"}, "first: must be a date such as 2026-11-20"),
        ({"show": "week"}, "show: must be night, cumulative or {window: 28}, got 'week'"),
        ({"show": {"window": 0}}, "show.window: must be >= 1"),
    ],
)
def test_bad_terms_are_refused(stream, says):
    with pytest.raises(ConfigError) as refused:
        load_config(job(**stream))
    assert f"schedule.stream.{says}" in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"method": "one-shot", "top_k": 2},
            "schedule.stream: is for method: noisy-counts or noisy-pairs",
        ),
        (
            {"privacy": {"unit": "comparison", "epsilon": 1.0}},
            "needs privacy.unit: user, got comparison",
        ),
        ({"input.paths": ["survey/*.parquet"]}, "needs nights: write {date} into input.paths"),
        (
            {
                "privacy": {"unit": "user", "max_contributions": 3},
                "schedule": {"stream": STREAM, "budget": "per-month"},
            },
            "schedule.budget: must be per-night with schedule.stream",
        ),
        (
            {"privacy": {"unit": "user", "epsilon": 1.0, "max_contributions": 3, "look": 0.02}},
            "privacy.look: not with schedule.stream",
        ),
        (
            {"privacy": {"unit": "user", "epsilon": "inf", "max_contributions": 3}},
            "privacy.epsilon: must be finite with schedule.stream",
        ),
        (
            {
                "method": "noisy-pairs", "input.ties": "random",
                "privacy": GAUSSIAN | {"public_graph": True, "public_graph_statement": "seen"},
            },
            "privacy.public_graph: not with schedule.stream",
        ),
    ],
)  # fmt: skip
def test_a_stream_is_refused_where_it_cannot_be_had(changes, says):
    with pytest.raises(ConfigError) as refused:
        load_config(job(changes))
    assert says in str(refused.value)


def test_laplace_noise_takes_no_factorisation():
    laplace = {"privacy": {"unit": "user", "epsilon": 1.0, "max_contributions": 3}}
    with pytest.raises(ConfigError, match=r"schedule.stream.bands: must be 1 with noise: laplace"):
        load_config(job(laplace, bands=7))
    mechanism = calibrate(load_config(job(laplace))).mechanism
    assert mechanism.stream.encoder.bands == 1
    assert mechanism.spend.epsilon == 1.0


def test_a_budget_that_no_noise_can_keep_is_refused():
    config = load_config(job({"privacy": GAUSSIAN | {"rho": 1e-18}}))
    with pytest.raises(ConfigError, match=r"schedule.stream: rho 1e-18 is too small"):
        calibrate(config)
