"""`hushrank simulate --nights`: what it says next, and which options it refuses."""

from __future__ import annotations

import pytest


def test_the_command_says_how_to_rank_all_nights(tmp_path, command):
    words = ("simulate", tmp_path / "s", "--nights", 3, "--people", 50, "--items", 4)
    code, said = command(*words, "--comparisons", 2, "--habit", 0.5, "--first", "2026-02-27")
    assert code == 0
    assert f"hushrank backfill {tmp_path}/s/survey.yaml --from 2026-02-27 --to 2026-03-01" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--habit", "0.5"], "--habit needs --nights"),
        (["--first", "2026-01-01"], "--first needs --nights"),
        (["--nights", "3", "--events"], "--events does not apply to --nights"),
        (["--nights", "0"], "nights must be between 1 and 1100, got 0"),
        (["--nights", "3", "--habit", "2"], "chance must be above 0 and at most 1"),
        (["--nights", "3", "--first", "tomorrow"], "--first: must be a date"),
        (["--nights", "3", "--kind", "responses"], "--nights does not apply to --kind responses"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(tmp_path, command, words, message):
    code, said = command("simulate", tmp_path / "s", *words)
    assert code == 2
    assert message in said
    assert not (tmp_path / "s").exists()
