"""From the page to the report: a made-up survey, whose people, collector and night are real."""

from __future__ import annotations

import json

import pytest

from tests.flows.collecting.surveys import parts


@pytest.mark.slow
def test_the_demo_collects_and_ranks(tmp_path, command):
    folder = tmp_path / "demo"
    code, printed = command("survey", "demo", folder, "--people", "300")
    assert code == 0, printed
    assert "The collector kept 3000 private answers" in printed
    rows = parts(folder / "answers")
    assert len(rows) == 3000
    assert set(rows["epsilon"].to_pylist()) == {0.5, 1.0, 2.0, 4.0}  # the page offers no other
    release = json.loads((folder / "out" / "release.json").read_text())
    assert release["privacy"]["unit"] == "local"
    assert (folder / "out" / "report.html").is_file()
    share = float(printed.rpartition("in their true order: ")[2].rstrip("%.\n "))
    assert share > 80  # 95 with a standard deviation of 1.3, by tallies of 60 such surveys
    code, printed = command("survey", "demo", folder)
    assert code == 2
    assert "is not empty" in printed
