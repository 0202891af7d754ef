"""One unit wherever a number stands, labels beside items, Elo, and releases of before all that."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from hushrank.estimation.common.estimate import estimate_of
from hushrank.estimation.common.uncertainty import RankSeparation
from hushrank.flows.config.items_file import read_items
from hushrank.flows.display import ranking_table as table_shown
from hushrank.flows.release.history import export_bytes, ranking_table
from hushrank.flows.release.publish import ranking_csv
from hushrank.flows.release.release import (
    NO_ELO,
    build_release,
    load_release,
    on_scale,
)
from hushrank.flows.release.scale import ELO_A_LOGIT, Scale, ScoreUnit
from hushrank.flows.release.wording import verdict
from hushrank.flows.report.changes import changes_between
from hushrank.flows.report.page import render_report
from tests.releases import ITEMS, PAIR_WINS, make_pairs_release, make_release, provenance

OLDER = Path(__file__).parent / "older" / "before_units.json"  # as this project wrote it before
LABELS = {"London": "Greater London", "Paris": "=Paris", "Milano": "<b>Milano</b>"}


def again(release, **changes):
    """`release` built anew from its own numbers, with `changes`."""
    lines = {line.item: line for line in release.ranking}
    columns = {
        name: np.array([getattr(lines[item], name) for item in ITEMS], kind)
        for name, kind in (
            *(("score", float), ("low", float), ("high", float), ("rank", float)),
            *(("rank_low", np.int64), ("rank_high", np.int64), ("group", np.int64)),
        )
    }
    separation = RankSeparation(columns["rank_low"], columns["rank_high"], columns["group"])
    estimate = estimate_of(
        columns["score"], columns["low"], columns["high"], separation, rank=columns["rank"]
    )
    return build_release(
        provenance(method=release.method),
        ITEMS,
        estimate,
        release.privacy,
        release.released,
        changes.pop("scale", release.scale),
        **changes,
    )


@pytest.fixture
def elo():
    return again(make_pairs_release(PAIR_WINS), shown_as=Scale.ELO, labels=LABELS)


def terminal(release) -> str:
    stream = io.StringIO()
    Console(file=stream, width=120).print(table_shown(release))
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["share", "elo"])
def test_every_place_shows_the_same_number(kind, elo):
    release = make_release() if kind == "share" else elo
    rows = list(csv.DictReader(io.StringIO(ranking_csv(release))))
    content = json.loads(release.to_json())
    page, screen = render_report(release), terminal(release)
    page = page.replace("\N{NO-BREAK SPACE}", " ")
    assert {row["unit"] for row in rows} == {content["unit"]} == {release.unit}
    for row, line, of_json in zip(rows, release.ranking, content["ranking"], strict=True):
        assert float(row["score"]) == pytest.approx(of_json["score"], abs=1e-6)
        short = f"{of_json['score']:.0f}{' %' if kind == 'share' else ''}"
        assert short in next(text for text in screen.splitlines() if line.shown in text)
        assert f"<b>{short}</b>" in page
        assert f"{float(row['score']):.6f}" in page


def test_a_release_of_before_is_read_and_exported_in_percent(tmp_path):
    raw = json.loads(OLDER.read_text(encoding="utf-8"))
    assert "unit" not in raw
    release = load_release(OLDER)
    assert release.unit is ScoreUnit.PERCENT
    for line, old in zip(release.ranking, raw["ranking"], strict=True):
        for name in ("score", "low", "high"):
            assert getattr(line, name) == pytest.approx(100 * (old[name] + 0.5))
    (tmp_path / "again.json").write_text(release.to_json(), encoding="utf-8")
    assert load_release(tmp_path / "again.json") == release  # and is not moved twice
    table = ranking_table([release, make_release()])
    assert set(table["unit"].to_pylist()) == {"percent"}
    assert table["score"].to_pylist()[0] == pytest.approx(79.498118)
    assert b"percent" in export_bytes(table, Path("all.csv"))
    found = changes_between(release, make_release())  # of the same counts and seed
    assert found.sentence == "No change is larger than noise and chance explain."
    assert {row.change for row in found.rows} == {"0"}


def test_elo_is_the_logistic_score_with_the_mean_item_at_1000(elo):
    plain = make_pairs_release(PAIR_WINS)
    assert (elo.scale, elo.unit) == (Scale.ELO, ScoreUnit.ELO)
    assert np.mean([line.score for line in elo.ranking]) == pytest.approx(1000)
    for line, other in zip(elo.ranking, plain.ranking, strict=True):
        for name in ("score", "low", "high"):
            expected = 1000 + ELO_A_LOGIT * getattr(other, name)
            assert getattr(line, name) == pytest.approx(expected)
        assert (line.rank_low, line.rank_high, line.group) == (
            *(other.rank_low, other.rank_high, other.group),
        )
    back = on_scale(elo, Scale.LOG_ODDS)
    assert back.unit is ScoreUnit.LOG_ODDS
    assert back.ranking[0].score == pytest.approx(plain.ranking[0].score)
    assert changes_between(plain, elo).rows  # a job that turns to Elo keeps its history


def test_scores_that_cannot_be_ratings_stay_and_say_so():
    release = again(make_pairs_release(PAIR_WINS), scale=Scale.PROBIT, shown_as=Scale.ELO)
    assert (release.scale, release.unit) == (Scale.PROBIT, ScoreUnit.PROBIT)
    assert NO_ELO in release.warnings


def test_labels_are_shown_and_items_stay_in_the_files(elo, tmp_path):
    assert verdict(elo).startswith("Greater London leads. =Paris is behind it")
    assert "Greater London" in terminal(elo)
    rows = list(csv.DictReader(io.StringIO(ranking_csv(elo))))
    assert {row["item"] for row in rows} == set(ITEMS)
    shown = {row["item"]: row["label"] for row in rows}
    assert (shown["London"], shown["Paris"]) == ("Greater London", "'=Paris")
    assert shown["Stockholm"] == "Stockholm"
    lines = {line["item"]: line for line in json.loads(elo.to_json())["ranking"]}
    assert lines["London"]["label"] == "Greater London"
    page = render_report(elo)
    assert '<tr class="first" data-id="London">' in page
    assert "Greater London (London): " in page
    assert "<b>Milano" not in page
    (tmp_path / "ranking.csv").write_text(ranking_csv(elo), encoding="utf-8")
    assert read_items(tmp_path / "ranking.csv").labels == LABELS  # another job takes it as items


def test_without_labels_no_file_has_a_column_of_them():
    release = make_release()
    assert "label" not in ranking_csv(release).splitlines()[0]
    assert "label" not in json.loads(release.to_json())["ranking"][0]
