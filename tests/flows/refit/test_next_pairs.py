"""`hushrank next-pairs` chooses from a release alone, and refuses methods that count wins."""

from __future__ import annotations

import csv
import json

import pytest

import hushrank as hr
from tests.flows.every_method import survey_of
from tests.flows.forgeries import run


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    survey = survey_of("noisy-pairs", tmp_path_factory.mktemp("pairs"), people=400)
    run(survey.set(privacy__epsilon=8.0))
    return survey


def test_pairs_are_chosen_from_the_release_without_its_rows(released, command, tmp_path):
    before = (released.folder / "ledger.jsonl").read_bytes()
    (released.folder / "rows.parquet").unlink()
    out = tmp_path / "pairs.csv"
    code, printed = command("next-pairs", str(released.output), "--top", "1", "--out", str(out))
    assert code == 0, printed
    assert "no row was read and nothing was spent" in " ".join(printed.split())
    found = hr.next_pairs(released.output / "release.json", top=1)
    with out.open() as file:
        rows = list(csv.DictReader(file))
    n = len(found.pairs)
    items = {line.item for line in hr.read_release(released.output).record.ranking}
    assert n == len(items) * (len(items) - 1) // 2
    assert [(row["left"], row["right"]) for row in rows] == [(p.left, p.right) for p in found.pairs]
    assert sum(float(row["share"]) for row in rows) == pytest.approx(1, abs=1e-6)
    assert found.spent == 0
    code, printed = command("next-pairs", str(released.config), "--top", "1", "--json")
    assert code == 0, printed
    assert json.loads(printed) == json.loads(found.model_dump_json())
    assert (released.folder / "ledger.jsonl").read_bytes() == before


@pytest.mark.parametrize("method", ["noisy-counts", "win-loss"])
def test_methods_that_count_wins_are_refused_by_name(method, tmp_path, command):
    survey = survey_of(method, tmp_path / "counts")
    run(survey)
    for place in (survey.config, survey.output):
        code, printed = command("next-pairs", str(place))
        assert code == 2
        assert f"its method is {method}" in " ".join(printed.split())
    survey.set(input__design="any")
    code, printed = command("validate", str(survey.config))
    assert code == 2
    assert "input.design" in printed


def test_numbers_out_of_range_and_releases_without_errors_are_refused(released, tmp_path):
    with pytest.raises(hr.ConfigError, match="top: must be from 1 to"):
        hr.next_pairs(released.output, top=99)
    with pytest.raises(hr.ConfigError, match="more: must be above 0"):
        hr.next_pairs(released.output, more=0.0)
    content = json.loads((released.output / "release.json").read_text())
    del content["errors"]
    (tmp_path / "release.json").write_text(json.dumps(content))
    with pytest.raises(hr.ConfigError, match="which pairs teach most"):
        hr.next_pairs(tmp_path)
