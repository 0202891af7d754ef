"""`hushrank collect` and `hushrank survey tokens`: what they refuse, and what an error says."""

from __future__ import annotations

import os

import pytest

from hushrank.flows.interfaces.cli import survey_command
from tests.flows.collecting.surveys import survey

TOKENS = {"folder": "answers", "tokens": True}


@pytest.mark.parametrize(
    "words", [["survey", "tokens", "survey.yaml", 3], ["collect", "survey.yaml", "--seal"]]
)
@pytest.mark.parametrize("mode", [0o777, 0o750, 0o704])
def test_a_confidential_folder_that_others_can_open_is_refused(
    tmp_path, command, monkeypatch, words, mode
):
    monkeypatch.chdir(tmp_path)
    config = survey(tmp_path, collect=TOKENS)
    config.confidential.mkdir()
    config.confidential.chmod(mode)
    code, printed = command(*words)
    assert code == 2
    assert "is open to other users of this machine" in printed
    assert not list(config.confidential.iterdir())
    assert not (tmp_path / "tokens.txt").exists()


def make_nothing(path):
    pass


def make_file(path):
    path.write_text("")


def make_folder(path):
    path.mkdir()


@pytest.mark.parametrize("make", [make_nothing, make_file, make_folder])
def test_sealing_a_folder_in_which_nothing_was_kept_is_refused(tmp_path, command, make):
    survey(tmp_path)
    make(tmp_path / "spool")
    before = sorted(tmp_path.rglob("*"))
    for words in (["--spool", tmp_path / "spool"], []):
        code, printed = command("collect", tmp_path / "survey.yaml", "--seal", *words)
        assert code == 2
        assert "no collector has kept answers here, so there is nothing to write" in printed
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["survey", "tokens", "survey.yaml", 3, "--out", "/dev/null/tokens"], "Nothing was spent."),
        (["collect", "survey.yaml", "--seal"], "Answers that were acknowledged are kept."),
    ],
)
def test_errors_of_the_machine_do_not_speak_of_reservations(
    tmp_path, command, monkeypatch, words, sentence
):
    monkeypatch.chdir(tmp_path)
    survey(tmp_path, collect=TOKENS)

    def fails(*arguments):
        raise OSError(5, "Input/output error", "work")

    monkeypatch.setattr("hushrank.flows.run.confidential_folder.check_confidential", fails)
    code, printed = command(*words)
    assert code == 1
    assert f"work: Input/output error. {sentence}" in printed
    assert "reserved" not in printed


def test_a_standard_error_that_nobody_reads_ends_nothing(monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as broken:
        monkeypatch.setattr("sys.stderr", broken)
        survey_command._tell("The disk refuses." * 10_000)
        monkeypatch.undo()
        os.write(writing, b"x")  # the null device stands in its place


@pytest.mark.parametrize("place", ["answers", "out"])
def test_a_spool_is_no_place_of_the_survey(tmp_path, command, place):
    survey(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    code, printed = command(
        "collect", tmp_path / "survey.yaml", "--seal", "--spool", tmp_path / place
    )
    assert code == 2
    assert "--spool" in printed
    assert "Nothing was written." in printed
    assert sorted(tmp_path.rglob("*")) == before


def test_a_spool_may_be_named_where_it_is_anyway(tmp_path, command):
    config = survey(tmp_path)
    spool = config.confidential / "collector"
    code, printed = command("collect", tmp_path / "survey.yaml", "--seal", "--spool", spool)
    assert code == 2
    assert "no collector has kept answers here" in printed
