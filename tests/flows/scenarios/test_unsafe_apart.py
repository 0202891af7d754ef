"""Releases that protect nobody never stand among, or in place of, those that are public."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from hushrank.flows.errors import ConfigError, PublishError
from hushrank.flows.release.archive import archived, folder_name, keep
from hushrank.flows.release.publish import check_output, contents_of, publish, published
from hushrank.flows.release.release import Release, load_release
from hushrank.transforms.storage.places import CloudPath
from tests.releases import JOB, SEEDED, make_release, page

PAGE = "<!doctype html><title>report</title>"
SAFE = make_release(release_id="safe")
UNSAFE = make_release(release_id="unsafe", bits=SEEDED, created=SAFE.created + timedelta(days=3))
NEXT = make_release(release_id="next", created=SAFE.created + timedelta(days=1))


@pytest.fixture(autouse=True)
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushrank.flows.report.page.render_report", lambda *_, **__: PAGE)


def everything(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_seeded_run_does_not_touch_the_public_release_of_its_output(survey, command):
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    before = everything(survey.folder)
    code, printed = command("run", survey.config, "--direct", "--unsafe-seed", 7)
    assert code == 2
    assert "holds releases that protect people, and an unsafe one (--unsafe-seed, or" in printed
    assert "name another output" in printed
    assert everything(survey.folder) == before
    code, printed = command("run", survey.set(output="test").config, "--direct", "--unsafe-seed", 7)
    assert code == 0, printed
    code, printed = command("run", survey.config, "--direct", "--unsafe-seed", 8)
    assert code == 0, printed  # tests may stand beside tests
    assert not load_release(survey.folder / "test" / "release.json").safe
    assert everything(survey.output).items() <= before.items()


def test_a_safe_run_is_kept_apart_from_tests_and_spends_nothing(survey, command):
    code, printed = command("run", survey.config, "--direct", "--unsafe-seed", 7)
    assert code == 0, printed
    before = everything(survey.folder)
    for arguments in (("validate", survey.config), ("run", survey.config, "--direct")):
        code, printed = command(*arguments)
        assert code == 2
        assert "holds unsafe releases, which protect nobody, and those that are for" in printed
        assert everything(survey.folder) == before


def mixed(output: Path) -> Path:
    """As an earlier version left it: an unsafe release of a later day on top of a safe one."""
    for release in (SAFE, UNSAFE):
        keep(output / "releases" / folder_name(release), contents_of(release) | page(PAGE)({}))
    for name, content in (contents_of(UNSAFE) | page(PAGE)({})).items():
        (output / name).write_bytes(content)
    return output


def test_where_both_are_mixed_already_the_next_safe_release_is_shown(tmp_path):
    output = mixed(tmp_path / "out")
    check_output(output, JOB, safe=True)
    with pytest.raises(ConfigError, match="must not take their place"):  # though one did before
        check_output(output, JOB, safe=False)
    publish(NEXT, output, page(PAGE))
    assert load_release(output / "release.json") == NEXT
    assert len(archived(output)) == 3
    with pytest.raises(ConfigError, match="must not take their place"):
        publish(UNSAFE, output, page(PAGE), allow_unsafe=True)


def test_a_safe_release_that_is_published_again_is_shown_in_place_of_an_unsafe_one(tmp_path):
    output = mixed(tmp_path / "out")
    assert published(output, "safe") is not None
    assert load_release(output / "release.json") == SAFE


def test_history_and_export_leave_unsafe_releases_out_and_say_so(tmp_path, command):
    output, table = mixed(tmp_path / "out"), tmp_path / "all.json"
    code, printed = command("history", output)
    assert code == 0, printed
    said = " ".join(printed.split())
    assert "Left out, because they are unsafe and protect nobody: unsafe." in said
    assert "UNSAFE" not in said
    code, printed = command("export", output, "--out", table)
    assert code == 0, printed
    assert "of 1 release. Left out" in " ".join(printed.split())
    assert {row["release_id"] for row in json.loads(table.read_text())} == {"safe"}
    code, printed = command("export", output, "--out", table, "--release", "unsafe")
    assert code == 0, printed
    assert {row["release_id"] for row in json.loads(table.read_text())} == {"unsafe"}


def test_an_output_of_tests_alone_is_listed(tmp_path, command):
    publish(UNSAFE, tmp_path / "out", page(PAGE), allow_unsafe=True)
    code, printed = command("history", tmp_path / "out")
    assert code == 0, printed
    assert "UNSAFE." in printed
    assert "Left out" not in printed


@pytest.mark.usefixtures("emulator")
def test_a_bucket_keeps_them_apart_too():
    output = CloudPath.parse("gs://survey/out")
    publish(SAFE, output, page(PAGE))
    with pytest.raises(ConfigError, match="must not take their place"):
        check_output(output, JOB, safe=False)
    tests = CloudPath.parse("gs://survey/tests")
    publish(UNSAFE, tests, page(PAGE), allow_unsafe=True)
    with pytest.raises(ConfigError, match="holds unsafe releases"):
        check_output(tests, JOB, safe=True)


def test_a_release_that_claims_to_be_safe_must_say_from_which_bits(tmp_path):
    silent = SAFE.model_copy(update={"privacy": SAFE.privacy.model_copy(update={"bits": None})})
    with pytest.raises(PublishError, match="does not say from which random bits"):
        publish(silent, tmp_path / "out", page(PAGE))
    assert not (tmp_path / "out").exists()


def test_a_release_cannot_claim_to_be_safe_against_its_own_bits(tmp_path):
    content = json.loads(SAFE.to_json())
    content["privacy"]["bits"]["noise"] = ["simulated"]
    with pytest.raises(ValueError, match="can be predicted is not safe"):
        Release.model_validate(content)
    path = tmp_path / "release.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="or was changed"):
        load_release(path)


def test_a_release_of_before_that_says_nothing_of_bits_is_read(tmp_path):
    content = json.loads(SAFE.to_json())
    for name in ("bits", "reconstructed"):
        del content["privacy"][name]
    path = tmp_path / "release.json"
    path.write_text(json.dumps(content))
    assert load_release(path).safe
