"""Certificates of whole runs: what they say of the release, the ledger and the code."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import hushrank
from hushrank.flows.ledger.keys import load_signer
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.methods.draws import CountNoise
from hushrank.flows.release import publish as publishing
from hushrank.flows.release.archive import SUMS
from hushrank.flows.release.release import load_release
from hushrank.flows.trust.certificate.build import ledger_part
from hushrank.flows.trust.certificate.model import (
    Certificate,
    load_certificate,
    problems_of_certificate,
)
from tests.flows.conftest import Survey
from tests.flows.every_method import survey_of
from tests.flows.trust.certificate.formulas import number
from tests.ledgers import Clock, pure, release, terms_of

PAGE = "<html></html>"
RUN = (
    "noisy-counts, look",
    "perturbed-mle, covariates",
    "spectral, even",
    "debiased-rr, per user",
    "kemeny, random-pairs",
    "footrule",
)


@pytest.fixture(autouse=True)
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushrank.flows.report.page.render_report", lambda *_, **__: PAGE)


def certificate_of(survey: Survey) -> Certificate:
    (folder,) = survey.archived()
    found = load_certificate(folder)
    assert found is not None
    return found


@pytest.mark.parametrize("name", RUN)
def test_a_release_and_its_certificate_say_the_same(name, tmp_path, command, checkout):
    survey = survey_of(name, tmp_path)
    assert command("run", survey.config, "--direct")[0] == 0
    (folder,) = survey.archived()
    text = (folder / "certificate.json").read_text()
    assert (survey.output / "certificate.json").read_text() == text
    schema = json.loads((checkout / "docs" / "certificate.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(json.loads(text))
    found, told = certificate_of(survey), load_release(folder / "release.json")
    assert found.to_json() == text
    assert found.guarantee.statement == told.privacy.statement
    assert found.bits == told.privacy.bits
    assert found.files == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name not in ("certificate.json", SUMS)
    }
    assert hashlib.sha256(text.encode()).hexdigest() in (folder / SUMS).read_text()
    noise = told.privacy.noise_scale
    if told.privacy.sensitivity_l1 is not None:
        draw = found.draws[-1]
        assert isinstance(draw, CountNoise)
        assert draw.sensitivity.l1 == told.privacy.sensitivity_l1
        assert draw.sensitivity.l2_squared == told.privacy.sensitivity_l2_squared
        assert noise == float(number(draw.law.scale))
    assert list(problems_of_certificate(folder)) == []
    assert command("history", "--verify", survey.output)[0] == 0


def test_the_ledger_s_line_is_the_release_s_own(tmp_path, command):
    survey = survey_of("noisy-counts", tmp_path)
    assert command("run", survey.config, "--direct")[0] == 0
    lines = [json.loads(line) for line in survey.ledger.read_text().splitlines()]
    found = certificate_of(survey).ledger
    assert found is not None
    line = lines[found.entry.line - 1]
    assert (line["event"], line["release_id"]) == (
        "reserve",
        certificate_of(survey).release.release_id,
    )
    assert (found.entry.hash, found.entry.previous) == (line["hash"], line["previous"])
    assert found.paid_by == found.entry
    assert (found.period.epsilon, found.lifetime.epsilon) == ("2/1", "2/1")


def test_a_run_that_is_killed_and_taken_up_again_publishes_the_same_certificate(
    tmp_path, command, monkeypatch
):
    survey, made = survey_of("noisy-counts", tmp_path), []

    def killed(folder, contents, report, certify):
        made.append(certify({**contents, **report(contents)})["certificate.json"])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(publishing, "keep", killed)
        assert command("run", survey.config, "--direct")[0] != 0
    other = survey.set(name="others", output="out-others", ledger__other_people=["zoo"])
    assert command("run", other.config, "--direct")[0] == 0
    survey.set(name="zoo", output="out", ledger__other_people=None)
    monkeypatch.setattr("hushrank.flows.release.provenance.installed_version", lambda _: "9.9.9")
    assert command("run", survey.config, "--direct")[0] == 0
    assert [(survey.output / "certificate.json").read_bytes()] == made


def test_the_key_of_the_ledger_signs_the_certificate(tmp_path, command):
    survey = survey_of("noisy-counts", tmp_path)
    assert command("ledger", "key", "--out", tmp_path / "key.pem")[0] == 0
    survey.set(ledger__signing_key="key.pem")
    assert command("run", survey.config, "--direct")[0] == 0
    (folder,) = survey.archived()
    text, signature = ((folder / f"certificate.{end}").read_bytes() for end in ("json", "sig"))
    assert (survey.output / "certificate.sig").read_bytes() == signature
    assert "certificate.sig" in (folder / SUMS).read_text()
    key = load_signer(tmp_path / "key.pem")
    assert key.verifies(text, signature)
    assert not key.verifies(text + b" ", signature)
    assert command("history", "--verify", survey.output)[0] == 0


def test_a_seeded_release_says_so_and_names_no_ledger(tmp_path, command):
    survey = survey_of("noisy-counts", tmp_path)
    assert command("run", survey.config, "--direct", "--unsafe-seed", 1)[0] == 0
    found = certificate_of(survey)
    assert (found.release.safe, found.ledger) == (False, None)
    assert "seeded" in str(found.bits)


def test_a_release_of_a_version_without_certificates_is_shown_and_verified(tmp_path, command):
    survey = survey_of("noisy-counts", tmp_path)
    assert command("run", survey.config, "--direct")[0] == 0
    (folder,) = survey.archived()
    for name in ("certificate.json", SUMS):
        (folder / name).chmod(0o644)
    (folder / "certificate.json").unlink()
    (survey.output / "certificate.json").unlink()
    sums = (folder / SUMS).read_text().splitlines(keepends=True)
    (folder / SUMS).write_text("".join(line for line in sums if "certificate" not in line))
    assert command("history", "--verify", survey.output)[0] == 0
    assert command("run", survey.config, "--direct")[0] == 0
    assert hushrank.read_release(survey.output).certificate is None


FALSE = {
    "another release": (("release", "release_id"), "0123456789abcdef", "release_id is"),
    "a smaller epsilon": (("guarantee", "epsilon"), "1/1", "epsilon is 1/1"),
    "another sensitivity": (("draws", 0, "sensitivity", "l1"), 7, "sensitivity"),
    "another page": (("files", "report.html"), "0" * 64, "another digest of report.html"),
    "a key that is not known": (("release", "more"), 1, "no certificate"),
}


@pytest.mark.parametrize("name", FALSE)
def test_a_certificate_of_something_else_is_found(name, tmp_path, command):
    """Even where the digests of the archive were made anew."""
    survey = survey_of("noisy-counts", tmp_path)
    assert command("run", survey.config, "--direct")[0] == 0
    (folder,) = survey.archived()
    path, sums = folder / "certificate.json", folder / SUMS
    (*parents, last), value, told = FALSE[name]
    content = json.loads(path.read_text())
    part = content
    for key in parents:
        part = part[key]
    part[last] = value
    before = path.read_bytes()
    for each in (path, sums):
        each.chmod(0o644)
    path.write_text(json.dumps(content))
    old, new = (hashlib.sha256(each).hexdigest() for each in (before, path.read_bytes()))
    sums.write_text(sums.read_text().replace(old, new))
    code, printed = command("history", "--verify", survey.output)
    assert code == 1
    assert told in " ".join(printed.split())


def test_totals_are_of_the_period_of_all_time_and_of_the_same_input(tmp_path):
    clock = Clock(datetime(2026, 10, 30, 12, tzinfo=UTC))
    ledger = Ledger(tmp_path / "ledger.jsonl", terms_of(), clock=clock)
    for number_, epsilon in enumerate((0.1, 0.1, 0.2)):
        release(ledger, f"october-{number_}", epsilon)
    clock.now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    ledger.reserve("cancelled", pure(5.0))
    ledger.cancel("cancelled")
    ledger.reserve("mine", pure(0.7))
    before = ledger_part(ledger, "mine")
    ledger.mark_drawn("mine")
    release(ledger, "later", 2.0)
    assert ledger_part(ledger, "mine") == before
    assert before.period.epsilon == before.period.sum.epsilon == "7/10"
    assert before.lifetime.sum.epsilon == "11/10"
    assert sorted((each.times, each.epsilon) for each in before.lifetime.spends) == [
        (1, "1/5"),
        (1, "7/10"),
        (2, "1/10"),
    ]
    assert (before.period_start, before.period_end) == (
        datetime(2026, 11, 1, tzinfo=UTC),
        datetime(2026, 12, 1, tzinfo=UTC),
    )
    chain = ledger.book().chain
    assert before.entry.hash == chain.hash_of(before.entry.line)
    assert chain.entries[before.entry.line - 1].what.release_id == "mine"
    assert ledger_part(ledger, "unknown") is None


def test_another_population_on_the_same_input_is_named(tmp_path, command):
    survey = survey_of("noisy-counts", tmp_path)
    assert command("run", survey.config, "--direct")[0] == 0
    survey.set(name="others", output="out-others", ledger__other_people=["zoo"])
    assert command("run", survey.config, "--direct")[0] == 0
    (folder,) = (tmp_path / "out-others" / "releases").iterdir()
    found = load_certificate(folder)
    assert found is not None
    assert found.ledger is not None
    (same,) = found.ledger.same_input
    assert (same.population, same.stated_other_people) == ("zoo", True)
    assert same.lifetime is not None
    assert same.lifetime.epsilon == "2/1"


def test_no_exact_number_and_no_path_is_in_it(tmp_path, command, monkeypatch):
    """Planted counts are multiples of a number, as a digest is by a chance of 10^-6 at most."""
    from hushrank.flows.run import run as nightly

    survey, factor = survey_of("noisy-pairs", tmp_path), 1_000_000_007
    reduce = nightly.reduce

    def planted(job, reducer):
        exact = reduce(job, reducer)
        with np.load(job.work / "exact.npz") as stored:
            arrays = {name: factor * stored[name] for name in stored.files}
        np.savez(job.work / "exact.npz", **arrays)
        return exact

    monkeypatch.setattr(nightly, "reduce", planted)
    assert command("run", survey.config, "--direct")[0] == 0
    text = (survey.output / "certificate.json").read_text()
    assert [n for n in re.findall(r"\d{10,}", text) if int(n) % factor == 0] == []
    assert str(tmp_path) not in text
    assert "rows.parquet" not in text


def test_python_shows_the_certificate(tmp_path, command):
    survey = survey_of("noisy-counts", tmp_path)
    assert command("run", survey.config, "--direct")[0] == 0
    found = hushrank.read_release(survey.output)
    assert found.certificate == certificate_of(survey)
    page = Path(hushrank.__path__[0])  # of the code that drew it
    assert page.exists()
    assert found.certificate.software.hushrank in found.record.code_version
