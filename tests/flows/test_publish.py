"""Publishing: whole or not at all, only over the same job's release, and never what is unsafe."""

from __future__ import annotations

import csv
import errno
import os
from pathlib import Path

import pytest

from hushrank.flows.errors import ConfigError, PublishError
from hushrank.flows.publish import FILES, check_output, publish
from hushrank.flows.release import load_release
from tests.releases import JOB, make_release

OLD = make_release(release_id="old", seed=1)
NEW = make_release(release_id="new", seed=2)
PAGE = "<!doctype html><title>report</title>"


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out" / "campus"


def release_in(folder: Path) -> str:
    return load_release(folder / "release.json").release_id


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_three_files_and_nothing_else_are_published(output):
    assert publish(NEW, PAGE, output) == output
    assert names(output) == ["ranking.csv", "release.json", "report.html"]
    assert names(output.parent) == ["campus"]
    assert load_release(output / "release.json") == NEW
    assert (output / "report.html").read_text() == PAGE


def test_the_table_holds_the_ranking(output):
    publish(NEW, PAGE, output)
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


def test_a_new_release_of_the_job_replaces_the_old_one(output):
    publish(OLD, PAGE, output)
    publish(NEW, PAGE, output)
    assert release_in(output) == "new"
    assert names(output.parent) == ["campus"]


def test_the_same_release_again_touches_nothing(output):
    publish(NEW, PAGE, output)
    before = {name: (output / name).stat().st_ino for name in FILES}
    publish(NEW, "another page", output)
    assert {name: (output / name).stat().st_ino for name in FILES} == before
    assert (output / "report.html").read_text() == PAGE


def test_a_file_that_went_missing_is_put_back(output):
    publish(NEW, PAGE, output)
    (output / "report.html").unlink()
    publish(NEW, PAGE, output)
    assert (output / "report.html").read_text() == PAGE


def test_an_unsafe_release_is_refused_unless_insisted_on(output):
    unsafe = make_release(safe_bits=False)
    with pytest.raises(PublishError, match="protects nobody and was not published: A seed"):
        publish(unsafe, PAGE, output)
    assert not output.parent.exists()
    publish(unsafe, PAGE, output, allow_unsafe=True)
    assert load_release(output / "release.json") == unsafe


def refusals(output: Path) -> dict[str, str]:
    """Both the early check and the publisher must refuse, and change nothing."""
    before = sorted(output.parent.rglob("*"))
    texts = {}
    for name, action in {
        "check": lambda: check_output(output, JOB),
        "publish": lambda: publish(NEW, PAGE, output),
    }.items():
        with pytest.raises(ConfigError) as caught:
            action()
        texts[name] = str(caught.value)
        assert caught.value.exit_code == 2
    assert sorted(output.parent.rglob("*")) == before
    return texts


def test_an_output_that_holds_another_jobs_release_is_refused(output):
    publish(make_release(job="another"), PAGE, output)
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
            f"output {output}: holds thesis.docx, which is not part of a release. The whole folder"
            " is replaced by each release: name an empty or a new one"
        )


def test_a_file_put_beside_a_release_is_not_deleted(output):
    publish(OLD, PAGE, output)
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
        assert text == f"output {output}: is a file; name a folder that hushrank may replace"


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


def test_a_mount_point_is_refused_with_a_way_out(output, monkeypatch):
    output.mkdir(parents=True)
    monkeypatch.setattr(Path, "is_mount", lambda path: path == output)
    for text in refusals(output).values():
        assert "is a mount point, which cannot be replaced as a whole" in text
        assert f"for example {output / 'release'}" in text


def test_an_output_that_may_be_used_passes_and_stays_untouched(output):
    check_output(output, JOB)
    assert not output.parent.exists()
    output.mkdir(parents=True)
    check_output(output, JOB)
    publish(OLD, PAGE, output)
    check_output(output, JOB)
    assert release_in(output) == "old"


@pytest.mark.parametrize("before", [None, OLD])
@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_a_full_disk_publishes_nothing_and_leaves_what_was_there(
    output, monkeypatch, before, fails_at
):
    """The disk is full when the first, second or third file is flushed."""
    if before:
        publish(before, PAGE, output)
    flush, flushed = os.fsync, []

    def full(descriptor: int) -> None:
        flushed.append(descriptor)
        if len(flushed) > fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(PublishError) as caught:
            publish(NEW, PAGE, output)
    assert caught.value.exit_code == 1
    assert str(caught.value) == (
        f"output {output}: nothing was published: No space left on device. Put this right and run"
        " again: that publishes the same release and spends nothing"
    )
    assert names(output.parent) == (["campus"] if before else [])
    if before:
        assert release_in(output) == "old"
    publish(NEW, PAGE, output)
    assert release_in(output) == "new"


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_move_that_fails_leaves_the_old_release_in_place(output, monkeypatch, error, fails_at):
    publish(OLD, PAGE, output)
    rename, moves = Path.rename, []

    def failing(path: Path, target: Path) -> Path:
        moves.append(path)
        if len(moves) == fails_at:
            raise error
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", failing)
        with pytest.raises((PublishError, KeyboardInterrupt)):
            publish(NEW, PAGE, output)
    assert release_in(output) == "old"
    assert names(output.parent) == ["campus"]


@pytest.mark.parametrize("killed", ["while writing", "between the moves", "before cleaning up"])
def test_the_run_after_a_killed_one_publishes_and_cleans_up(output, tmp_path, killed):
    """The folders are as a killed process leaves them."""
    partial, previous = (output.parent / f".campus.{end}" for end in ("partial", "previous"))
    if killed == "while writing":
        publish(OLD, PAGE, output)
        partial.mkdir()
        (partial / "release.json").write_text("{")
    elif killed == "between the moves":
        publish(OLD, PAGE, previous)
        publish(NEW, PAGE, partial)
    else:
        publish(OLD, PAGE, previous)
        publish(NEW, PAGE, output)
    publish(NEW, PAGE, output)
    assert release_in(output) == "new"
    assert names(output.parent) == ["campus"]


def test_an_old_release_moved_aside_by_a_killed_run_of_another_job_comes_back(output):
    publish(make_release(job="another", release_id="theirs"), PAGE, output)
    output.rename(output.parent / ".campus.previous")
    with pytest.raises(ConfigError, match="holds the release of another job"):
        publish(NEW, PAGE, output)
    assert release_in(output) == "theirs"


def test_a_link_to_a_folder_stays_a_link(output, tmp_path):
    real = tmp_path / "disk" / "campus"
    real.mkdir(parents=True)
    output.parent.mkdir()
    output.symlink_to(real)
    publish(NEW, PAGE, output)
    assert output.is_symlink()
    assert release_in(real) == "new"
