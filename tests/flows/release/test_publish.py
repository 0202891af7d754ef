"""Publishing: whole or not at all, beside the same job's releases only, never what is unsafe."""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import shutil
import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from hushrank.flows.errors import ArchiveError, ConfigError, PublishError
from hushrank.flows.release.archive import FILES, load_archived
from hushrank.flows.release.publish import check_output, publish, published, ranking_csv
from hushrank.flows.release.release import Release, load_release
from hushrank.verifier.verify_release import COLUMNS, compare_table
from tests.releases import JOB, SEEDED, make_release, page

OLD = make_release(release_id="old", seed=1)
NEW = make_release(release_id="new", seed=2)
HTML = "<!doctype html><title>report</title>"
PAGE = page(HTML)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out" / "campus"


def release_in(folder: Path) -> str:
    return load_release(folder / "release.json").release_id


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_three_files_are_shown_and_kept_and_nothing_else(output):
    assert publish(NEW, output, PAGE) == output
    shown = ["ranking.csv", "release.json", "report.html"]
    assert names(output) == sorted([*shown, "releases"])
    assert names(output / "releases") == ["2026-11-20-new"]
    (kept,) = (output / "releases").iterdir()
    assert names(kept) == ["SHA256SUMS", *shown]
    for name in shown:
        assert (kept / name).read_bytes() == (output / name).read_bytes()
        assert (kept / name).stat().st_mode & 0o222 == 0
    assert names(output.parent) == ["campus"]
    assert load_release(output / "release.json") == NEW
    assert (output / "report.html").read_text() == HTML


def test_the_table_holds_the_ranking(output):
    publish(NEW, output, PAGE)
    with (output / "ranking.csv").open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(NEW.ranking)
    for row, line in zip(table, NEW.ranking, strict=True):
        assert row["item"] == line.item
        for name in ("rank", "rank_low", "rank_high", "group"):
            assert float(row[name]) == getattr(line, name)
        for name in ("score", "low", "high"):
            assert float(row[name]) == pytest.approx(getattr(line, name), abs=1e-6)
        assert int(row["noisy_wins"]) == NEW.released.wins[line.item]
        assert row["unit"] == NEW.unit == "percent"


def with_open_ends() -> Release:
    first = replace(NEW.ranking[0], high=math.inf, high_all=math.inf)
    return NEW.model_copy(update={"ranking": (first, *NEW.ranking[1:])})


def test_an_end_that_is_not_known_is_an_empty_cell_and_the_verifier_takes_both():
    release = with_open_ends()
    text = ranking_csv(release)
    row = next(csv.DictReader(io.StringIO(text)))
    assert (row["high"], row["high_all"]) == ("", "")
    assert float(row["low"]) == pytest.approx(release.ranking[0].low, abs=1e-6)
    assert "inf" not in text
    whole = json.loads(release.to_json())
    lines = [{**line, "unit": "percent", "noisy_wins": None} for line in whole["ranking"]]
    for line in lines:
        line |= {f"p_top_{whole['top']}": line["p_top"], "label": line["item"], "board": ""}
        line["noisy_wins"] = release.released.wins[line["item"]]
    older = text.replace(",,", ",inf,", 2)  # as earlier versions wrote it
    assert older.count("inf") == 2
    for content in (text, older):
        assert compare_table(content.encode(), lines, COLUMNS) == []
    known = text.replace(f"{release.ranking[1].high:.6f}", "")
    assert compare_table(known.encode(), lines, COLUMNS)


def test_a_new_release_of_the_job_is_shown_and_the_old_one_kept(output):
    publish(OLD, output, PAGE)
    kept = output / "releases" / "2026-11-20-old"
    before = {name: (kept / name).read_bytes() for name in names(kept)}
    publish(NEW, output, PAGE)
    assert release_in(output) == "new"
    assert names(output.parent) == ["campus"]
    assert {name: (kept / name).read_bytes() for name in names(kept)} == before
    assert load_archived(kept) == OLD


def test_an_earlier_day_is_kept_beside_what_is_shown_of_a_later_one(output):
    publish(NEW, output, PAGE)
    earlier = make_release(release_id="late", created=NEW.created - timedelta(days=3))
    folder = publish(earlier, output, PAGE)
    assert folder == output / "releases" / "2026-11-17-late"
    assert load_archived(folder) == earlier
    assert release_in(output) == "new"
    assert published(output, "late") == (earlier, folder)
    assert published(output, "new") == (NEW, output)
    assert published(output, "never") is None


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum of coreutils")
def test_the_digests_are_those_that_common_tools_check(output):
    publish(NEW, output, PAGE)
    (kept,) = (output / "releases").iterdir()
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(check, cwd=kept, capture_output=True).returncode == 0
    (kept / "ranking.csv").chmod(0o600)
    (kept / "ranking.csv").write_text("rank,item\n1,mine\n")
    assert subprocess.run(check, cwd=kept, capture_output=True).returncode == 1


@pytest.mark.parametrize("name", ["release.json", "ranking.csv", "report.html", "SHA256SUMS"])
@pytest.mark.parametrize("how", ["changed", "missing"])
def test_a_kept_release_that_was_changed_is_named_and_not_shown_again(output, name, how):
    publish(NEW, output, PAGE)
    (path,) = output.glob(f"releases/*/{name}")
    path.chmod(0o600)
    if how == "changed":
        path.write_bytes(path.read_bytes()[1:] + b"!")
    else:
        path.unlink()
    for action in (lambda: published(output, "new"), lambda: publish(NEW, output, PAGE)):
        with pytest.raises(ArchiveError) as caught:
            action()
        assert caught.value.exit_code == 1
        text = str(caught.value)
        assert f"Move {path.parent} away" in text
        if name == "SHA256SUMS" and how == "changed":
            assert ": was changed after it was published" in text
        else:
            assert text.startswith(f"{path}: ")


def test_the_same_release_again_touches_nothing(output):
    publish(NEW, output, PAGE)
    before = {name: (output / name).stat().st_ino for name in FILES}
    publish(NEW, output, page("another page"))
    assert {name: (output / name).stat().st_ino for name in FILES} == before
    assert (output / "report.html").read_text() == HTML


def test_a_file_that_went_missing_is_put_back(output):
    publish(NEW, output, PAGE)
    (output / "report.html").unlink()
    publish(NEW, output, PAGE)
    assert (output / "report.html").read_text() == HTML


def test_an_unsafe_release_is_refused_unless_insisted_on(output):
    unsafe = make_release(bits=SEEDED)
    with pytest.raises(PublishError, match="protects nobody and was not published: A seed"):
        publish(unsafe, output, PAGE)
    assert not output.parent.exists()
    publish(unsafe, output, PAGE, allow_unsafe=True)
    assert load_release(output / "release.json") == unsafe


def refusals(output: Path) -> dict[str, str]:
    """Both the early check and the publisher must refuse, and change nothing."""
    before = sorted(output.parent.rglob("*"))
    texts = {}
    for name, action in {
        "check": lambda: check_output(output, JOB),
        "publish": lambda: publish(NEW, output, PAGE),
    }.items():
        with pytest.raises(ConfigError) as caught:
            action()
        texts[name] = str(caught.value)
        assert caught.value.exit_code == 2
    assert sorted(output.parent.rglob("*")) == before
    return texts


def test_an_output_that_holds_another_jobs_release_is_refused(output):
    publish(make_release(job="another"), output, PAGE)
    for text in refusals(output).values():
        assert text == (
            f"output {output}: holds the release of another job, or of this one as it was"
            " configured before; name another output, or move that release away"
        )


def test_an_output_with_files_that_are_no_release_is_refused(output):
    output.mkdir(parents=True)
    (output / "thesis.docx").touch()
    for text in refusals(output).values():
        assert text == (
            f"output {output}: holds thesis.docx, which is not part of a release. Releases are"
            " kept in a folder of their own: name an empty or a new one"
        )


def test_a_file_put_beside_a_release_is_not_deleted(output):
    publish(OLD, output, PAGE)
    (output / "notes.txt").write_text("mine")
    for text in refusals(output).values():
        assert "holds notes.txt, which is not part of a release" in text


def test_part_of_a_release_is_refused(output):
    output.mkdir(parents=True)
    (output / "report.html").touch()
    for text in refusals(output).values():
        assert "holds report.html, which is not part of a release" in text


def test_a_damaged_release_is_refused(output):
    output.mkdir(parents=True)
    (output / "release.json").write_text("{}")
    for text in refusals(output).values():
        assert "is not a release of hushrank, or was changed" in text


def test_an_output_that_is_a_file_is_refused(output):
    output.parent.mkdir()
    output.touch()
    for text in refusals(output).values():
        assert text == f"output {output}: is a file; name a folder for releases"


def test_an_output_below_a_file_is_refused(output):
    output.parent.touch()
    with pytest.raises(ConfigError, match="is not a folder that can be written"):
        check_output(output, JOB)


def test_an_output_that_cannot_be_written_is_refused(output, monkeypatch):
    output.parent.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != output.parent)
    for text in refusals(output).values():
        assert text == (
            f"output {output}: {output.parent} is not a folder that can be written; change its"
            " permissions, or name another output"
        )


def test_an_output_that_may_be_used_passes_and_stays_untouched(output):
    check_output(output, JOB)
    assert not output.parent.exists()
    output.mkdir(parents=True)
    check_output(output, JOB)
    publish(OLD, output, PAGE)
    check_output(output, JOB)
    assert release_in(output) == "old"


@pytest.mark.parametrize("before", [None, OLD])
@pytest.mark.parametrize("fails_at", [0, 1, 2, 4, 6, 7])
def test_a_full_disk_publishes_nothing_and_leaves_what_was_there(
    output, monkeypatch, before, fails_at
):
    """The disk is full when this or that file is flushed, in the archive or on top."""
    if before:
        publish(before, output, PAGE)
    flush, flushed = os.fsync, []

    def full(descriptor: int) -> None:
        flushed.append(descriptor)
        if len(flushed) > fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(PublishError) as caught:
            publish(NEW, output, PAGE)
    assert caught.value.exit_code == 1
    assert str(caught.value) == (
        f"output {output}: nothing was published: No space left on device. Put this right and run"
        " again: that publishes the same release and spends nothing"
    )
    assert names(output.parent) == (["campus"] if before else [])
    if before:
        assert release_in(output) == "old"
    publish(NEW, output, PAGE)
    assert release_in(output) == "new"


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
@pytest.mark.parametrize("fails_at", [1, 2, 3, 4])
def test_a_move_that_fails_leaves_the_old_release_in_place(output, monkeypatch, error, fails_at):
    publish(OLD, output, PAGE)
    move, moves = Path.replace, []

    def failing(path: Path, target: Path) -> Path:
        moves.append(path)
        if len(moves) == fails_at:
            raise error
        return move(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", failing)
        with pytest.raises((PublishError, KeyboardInterrupt)):
            publish(NEW, output, PAGE)
    assert release_in(output) == "old"
    assert names(output.parent) == ["campus"]
    assert names(output / "releases") == ["2026-11-20-old"]
    assert (output / "report.html").read_text() == HTML


@pytest.mark.parametrize("killed", ["writing", "before it is shown", "after one file"])
@pytest.mark.parametrize("before", [None, OLD])
def test_the_run_after_a_killed_one_shows_what_was_kept(output, tmp_path, killed, before):
    """The folders are as a killed process leaves them."""
    if before:
        publish(before, output, page("old page"))
    whole = tmp_path / "elsewhere"
    publish(NEW, whole, PAGE)
    kept = output / "releases" / "2026-11-20-new"
    if killed == "writing":
        partial = kept.with_name(".2026-11-20-new.partial")
        partial.mkdir(parents=True)
        (partial / "release.json").write_text("{")
    else:
        shutil.copytree(whole / "releases" / "2026-11-20-new", kept)
    if killed == "after one file":
        shutil.copy(whole / "report.html", output / "report.html")
        (output / ".ranking.csv.partial").write_text("ra")
    if killed == "writing":
        publish(NEW, output, PAGE)
    else:
        assert published(output, "new") == (NEW, output)
    assert release_in(output) == "new"
    assert (output / "report.html").read_text() == HTML
    assert sorted(set(names(output)) | set(names(output / "releases"))) == sorted(
        {*FILES, "releases", "2026-11-20-new"} | ({"2026-11-20-old"} if before else set())
    )


def test_a_link_to_a_folder_stays_a_link(output, tmp_path):
    real = tmp_path / "disk" / "campus"
    real.mkdir(parents=True)
    output.parent.mkdir()
    output.symlink_to(real)
    publish(NEW, output, PAGE)
    assert output.is_symlink()
    assert release_in(real) == "new"
