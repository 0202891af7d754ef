"""What is stated is what was drawn, whatever the code that publishes it would have drawn."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushrank.estimation.common import central_noise, private_counts
from hushrank.estimation.comparisons import covariate_mle, noisy_counts, perturbed_mle
from hushrank.estimation.rankings import ranking_counts
from hushrank.estimation.responses import measurements, point_totals, sheet_totals
from hushrank.flows.assembly import MEMORY
from hushrank.flows.errors import EstimateError
from hushrank.flows.ledger.entries import Draw, read_chain, write_lines
from hushrank.flows.methods.base import Conclusion
from hushrank.flows.methods.registry import METHODS, calibrate
from hushrank.flows.methods.responses import spectral
from hushrank.flows.release.release import RECONSTRUCTED, Release, load_release
from hushrank.flows.release.scale import published as published_as
from hushrank.flows.run.confidential_folder import load_arrays
from hushrank.flows.run.context import Job
from hushrank.flows.run.drawn import Drawn, drawn_of, entries_of, look_of
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.flows.run.run import draw, estimate, reduce, reserve
from hushrank.flows.statement import rankings as ranking_statement
from hushrank.flows.statement.found_names import record_with_names
from hushrank.flows.statement.record import record_with_counts, record_with_look
from hushrank.privacy import random_pairs, randomized_response
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.transforms.common import randomisation
from hushrank.transforms.storage.places import npz_bytes
from tests.flows.conftest import InProcessReducer, Survey
from tests.flows.crashes import drawn_job_of
from tests.flows.every_method import BITS, VARIANTS, survey_of

# `auto` draws nothing: it chooses.
KINDS = {type(way) for method in METHODS.values() for way in method.ways}


@pytest.fixture(autouse=True)
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "hushrank.flows.report.page.render_report", lambda *_, **__: "<html></html>"
    )


@pytest.fixture(scope="module", params=VARIANTS)
def drawn_once(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Survey, Job, bytes, Drawn]:
    """Name of a variant, its survey, its job, and what was drawn for it: as stored, as returned."""
    survey = survey_of(request.param, tmp_path_factory.mktemp("drawn"))
    job = prepare_job(read_survey(survey.config))
    reserve(job, MEMORY)
    returned = draw(job, reduce(job, InProcessReducer().run))
    return request.param, survey, job, (job.work / "drawn.npz").read_bytes(), returned


@pytest.fixture
def drawn(drawn_once) -> tuple[str, Survey, Job]:
    """As it was when the run died: nothing is published."""
    name, survey, job, content, _ = drawn_once
    shutil.rmtree(survey.output, ignore_errors=True)
    store(job, content)
    return name, survey, job


def store(job: Job, content: bytes) -> None:
    """Put `content` in the place of what was drawn, as if the ledger's mark had named it."""
    (job.work / "drawn.npz").write_bytes(content)
    path, digest = Path(f"{job.config.ledger.path}"), hashlib.sha256(content).hexdigest()
    lines = b""
    for entry in read_chain(path.read_bytes(), "ledger").entries:
        what = entry.what
        if isinstance(what, Draw):
            what = what.model_copy(update={"result": digest})
        lines += write_lines(
            read_chain(lines, "ledger"),
            [what],
            population=entry.population,
            operator=entry.operator,
            time=entry.time,
        )
    path.write_bytes(lines)


def stored(job: Job) -> Drawn:
    return drawn_of(load_arrays(job.work / "drawn.npz"), job.config)


def concluded(job: Job) -> Conclusion:
    """What the mechanism that drew says of what it drew, and the look before it."""
    drawn = stored(job)
    said = job.drawn_by.method.conclude(drawn.arrays, job.mechanism, job.config)
    if drawn.found is not None:
        whole = record_with_names(said.privacy, job.drawn_by.params)
        return dataclasses.replace(said, privacy=whole)
    if drawn.counts:
        whole = record_with_counts(said.privacy, job.drawn_by.params)
        return dataclasses.replace(said, privacy=whole)
    seen = look_of(drawn, job.config)
    if seen is None:
        return said
    return dataclasses.replace(
        said, privacy=record_with_look(said.privacy, seen, job.drawn_by.params)
    )


def change_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later version that comes to other laws everywhere: three times the noise, or a third."""

    def third(function):
        return lambda first, *rest: function(first / 3, *rest)

    for name in ("win_counts", "win_loss", "pair_counts", "outcomes", "exposures"):
        _tripled(monkeypatch, central_noise, f"{name}_sensitivity")
    _tripled(monkeypatch, measurements, "measurement_sensitivity")
    _tripled(monkeypatch, sheet_totals, "sheet_totals_sensitivity")
    _tripled(monkeypatch, point_totals, "point_totals_sensitivity")
    _tripled(monkeypatch, central_noise, "votes_sensitivity")
    thrice = dict.fromkeys(private_counts.SENSITIVITIES, lambda params: Sensitivity(3, 3))
    monkeypatch.setattr(private_counts, "SENSITIVITIES", thrice)
    _tripled(monkeypatch, ranking_counts, "ranking_sensitivity")
    _tripled(monkeypatch, ranking_counts, "ranking_below_sensitivity")
    _tripled(monkeypatch, noisy_counts, "one_shot_sensitivity")

    def louder(calibrate):
        def calibrated(*given, **named):
            noise = calibrate(*given, **named)
            changes = {"scale": 3 * noise.scale, "sensitivity": 3 * noise.sensitivity}
            return dataclasses.replace(noise, **changes)

        return calibrated

    for module, name in (
        (perturbed_mle, "calibrate_noise"),
        (covariate_mle, "calibrate_covariates"),
    ):
        monkeypatch.setattr(module, name, louder(getattr(module, name)))
    for module in (randomisation, randomized_response, random_pairs):
        flips = third(module.flip_thresholds)
        monkeypatch.setattr(module, "flip_thresholds", flips)
    three = third(random_pairs._thresholds_of_three)
    monkeypatch.setattr(random_pairs, "_thresholds_of_three", three)
    monkeypatch.setattr(randomisation, "insertion_weights", third(randomisation.insertion_weights))
    monkeypatch.setattr(randomisation, "response_law", third(randomisation.response_law))
    ranks = randomisation.rank_law
    monkeypatch.setattr(
        randomisation, "rank_law", lambda n_items, epsilon: ranks(n_items, epsilon / 3)
    )
    for mechanism, whole in ranking_statement.WHOLE_RANKING.items():
        monkeypatch.setitem(ranking_statement.WHOLE_RANKING, mechanism, third(whole))
    graph = spectral.random_graph
    for name in ("random_graph", "even_graph"):
        monkeypatch.setattr(spectral, name, lambda n, _, bits: graph(n, 1.0, bits))
    monkeypatch.setattr("hushrank.flows.run.run.stated_version", lambda: "9.9.9")
    monkeypatch.setattr("hushrank.flows.run.context.code_version", lambda: "9.9.9")


def _tripled(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    derive = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *given: derive(*given).scaled(3))


def published(survey) -> Release:
    return load_release(survey.output / "release.json")


def numbers(release: Release) -> list[tuple[float, float, float]]:
    return [(line.score, line.low, line.high) for line in release.ranking]


def test_a_release_drawn_by_one_version_is_published_by_another_as_it_was_drawn(
    drawn, command, monkeypatch
):
    name, survey, job = drawn
    expected = concluded(job)
    change_the_code(monkeypatch)
    assert calibrate(job.config).mechanism != job.mechanism  # power

    def never(*_: object) -> None:
        raise AssertionError("calibrated after the draw")

    for kind in KINDS:
        monkeypatch.setattr(kind, "calibrate", never)
    code, printed = command("resume", job.release_id, survey.config)
    assert code == 0, printed

    release = published(survey)
    untold = {"bits", "reconstructed"}
    if reason := job.drawn_by.chosen.reason:
        expected.privacy.parameters["method_chosen_because"] = reason
    assert release.privacy.model_dump(exclude=untold) == expected.privacy.model_dump(exclude=untold)
    assert release.safe
    told = release.privacy.bits
    assert told is not None
    assert {purpose: list(sources) for purpose, sources in told.items()} == BITS[name]
    assert not release.privacy.reconstructed
    assert RECONSTRUCTED not in release.warnings
    assert release.code_version != "9.9.9"
    estimate = expected.estimate
    ends = (estimate.scores, estimate.low, estimate.high)
    columns = [published_as(expected.scale, each) for each in ends]
    order = estimate.order
    np.testing.assert_array_equal(numbers(release), np.column_stack(columns)[order])


def test_what_an_earlier_version_drew_is_published_and_said_to_be_reconstructed(drawn, command):
    _, survey, job = drawn
    expected = concluded(job)
    forget_the_law(job)
    code, printed = command("resume", job.release_id, survey.config)
    assert code == 0, printed
    release = published(survey)
    assert release.safe
    assert release.privacy.reconstructed
    assert release.privacy.bits is None
    assert RECONSTRUCTED in release.warnings
    assert release.privacy.statement == expected.privacy.statement
    assert release.privacy.noise_scale == expected.privacy.noise_scale


def forget_the_law(job: Job) -> None:
    """Leave of `drawn.npz` what versions wrote that stored arrays alone."""
    entries = load_arrays(job.work / "drawn.npz")
    earlier = {name: entries[name] for name in entries if name not in ("law", "edges")}
    store(job, npz_bytes(**earlier))


def test_what_is_stored_is_read_back_exactly(drawn):
    _, _, job = drawn
    found = stored(job)
    assert found.mechanism == job.mechanism
    again = drawn_of(entries_of(found), job.config)
    assert (again.mechanism, again.bits) == (found.mechanism, found.bits)
    assert (again.created, again.code_version) == (found.created, found.code_version)


def test_a_run_ranks_what_it_has_drawn_as_a_later_run_ranks_what_is_stored(drawn, drawn_once):
    _, _, job = drawn
    returned, found = drawn_once[-1], stored(job)
    assert type(returned.drawn_by.method) is type(found.drawn_by.method)
    entries, again = entries_of(returned), entries_of(found)
    assert {name: (each.dtype, each.tolist()) for name, each in entries.items()} == {
        name: (each.dtype, each.tolist()) for name, each in again.items()
    }
    assert estimate(job, returned).to_json() == estimate(job, found).to_json()


def test_a_release_without_noise_is_stored_and_read_back(tmp_path, command):
    survey = survey_of("noisy-counts", tmp_path).set(privacy__epsilon="inf")
    code, printed = command("run", survey.config, "--direct", "--no-privacy")
    assert code == 0, printed
    (path,) = survey.work.rglob("drawn.npz")
    job = prepare_job(read_survey(survey.config, no_privacy=True))
    assert drawn_of(load_arrays(path), job.config).mechanism == job.mechanism
    law = json.loads(str(load_arrays(path)["law"]))
    assert law["mechanism"]["params"]["epsilon"] == "Infinity"  # strict JSON


@pytest.mark.parametrize("change", [{"format": 2}, {"more": 1}, {"mechanism": {}}])
def test_a_law_in_an_unknown_form_is_refused_and_kept(tmp_path, change, command):
    survey = survey_of("noisy-counts", tmp_path)
    job = drawn_job_of(survey.config)
    path = job.work / "drawn.npz"
    entries = load_arrays(path)
    entries["law"] = np.array(json.dumps(json.loads(str(entries["law"])) | change))
    store(job, npz_bytes(**entries))
    with pytest.raises(EstimateError, match="in a form of hushrank"):
        stored(job)
    code, printed = command("resume", job.release_id, survey.config)
    assert code == 1
    assert "The noise is paid for and kept, and nothing is published" in printed
    assert path.exists()


@pytest.mark.parametrize(
    "name",
    [
        "debiased-rr",
        "debiased-rr, per user",
        "laplace-rr",
        "kemeny",
        "borda, laplace-ranks",
        "kemeny, random-pairs",
        "borda, auto, hidden items",
    ],
)
def test_workers_that_would_draw_by_another_law_refuse(name, tmp_path, monkeypatch):
    job = prepare_job(read_survey(survey_of(name, tmp_path).config))
    reserve(job, MEMORY)
    change_the_code(monkeypatch)
    with pytest.raises(RuntimeError, match="would randomise by another law than the run states"):
        reduce(job, InProcessReducer().run)
    assert not (job.work / "exact.npz").exists()


class CountedCalibrations:
    """How often any method was calibrated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for kind in KINDS:
            monkeypatch.setattr(kind, "calibrate", self._counted(kind.calibrate))

    def _counted(self, calibrate):
        def counted(method, config):
            self.count += 1
            return calibrate(method, config)

        return counted

    def since(self) -> int:
        """Calibrations since this was last asked."""
        found, self.count = self.count, 0
        return found


@pytest.mark.parametrize(
    "name", ["noisy-counts", "perturbed-mle", "one-shot", "debiased-rr", "spectral-rr", "kemeny"]
)
def test_a_plain_run_calibrates_once_and_so_does_validate(name, tmp_path, command, monkeypatch):
    calibrations = CountedCalibrations(monkeypatch)
    survey = survey_of(name, tmp_path)
    for arguments in (("validate",), ("run", "--direct")):
        code, printed = command(arguments[0], survey.config, *arguments[1:])
        assert code == 0, printed
        assert calibrations.since() == 1


def test_a_backfill_calibrates_once_and_a_resumed_release_not_at_all(
    tmp_path, command, monkeypatch
):
    survey = survey_of("noisy-counts", tmp_path)
    for night in ("2024-11-16", "2024-11-17", "2024-11-18"):
        (tmp_path / f"{night}.parquet").write_bytes((tmp_path / "rows.parquet").read_bytes())
    survey.set(input__paths=["{date}.parquet"])
    calibrations = CountedCalibrations(monkeypatch)
    code, printed = command(
        "backfill", survey.config, "--from", "2024-11-16", "--to", "2024-11-17", "--direct"
    )
    assert code == 0, printed
    assert calibrations.since() == 1

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    night = ("--date", "2024-11-18", "--direct")
    with monkeypatch.context() as patch:
        patch.setattr("hushrank.flows.release.archive.keep", full)
        patch.setattr("hushrank.flows.release.publish.keep", full)
        code, printed = command("run", survey.config, *night)
        assert code == 1, printed
    assert calibrations.since() == 1
    code, printed = command("run", survey.config, *night)  # takes up what was drawn
    assert code == 0, printed
    assert "its noise was drawn before" in printed
    assert calibrations.since() <= 1


def test_a_configuration_that_does_not_suit_its_method_is_told_once_for_all_nights(
    tmp_path, command
):
    survey = survey_of("perturbed-mle", tmp_path)
    survey.set(input__paths=["{date}.parquet"], model={**VARIANTS["perturbed-mle"]["model"]})
    survey.set(model__gamma=1e-9)
    code, printed = command(
        "backfill", survey.config, "--from", "2024-11-16", "--to", "2024-11-18", "--direct"
    )
    assert code == 2
    assert printed.count("model.gamma: ridge 1e-09 is too small") == 1
    assert "failed" not in printed
    assert not survey.ledger.exists()
