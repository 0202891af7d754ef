"""`hushrank.estimate`: other models of public counts, at no cost."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushrank as hr
from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.cli.main import main
from hushrank.flows.nights.estimate_task import estimate_task
from tests.flows.conftest import ITEMS, Survey
from tests.flows.forgeries import run

TABLE = "left,right,left_wins,right_wins\nant,bee,60,40\nbee,cat,65,35\nant,cat,80,20\n"


@pytest.fixture
def matrices(survey: Survey) -> Survey:
    """A finished release of a matrix of wins."""
    survey.set(method="noisy-pairs")
    run(survey)
    return survey


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.csv"
    path.write_text(TABLE)
    return path


def test_the_same_model_gives_the_ranking_of_the_release(matrices):
    fitted = hr.estimate(matrices.output)
    told = json.loads((matrices.output / "release.json").read_text())
    lines = json.loads(fitted.to_json())["ranking"]
    assert lines == told["ranking"]
    assert fitted.post_processing_of.release == told["release_id"]
    assert told["release_id"] in fitted.says


def test_other_models_spend_nothing_and_write_no_file_of_the_release(matrices):
    before = {path: path.read_bytes() for path in matrices.folder.rglob("*") if path.is_file()}
    probit = hr.estimate(matrices.output, link="probit")
    drawn = hr.estimate(matrices.output / "release.json", ridge=1e6)
    assert (probit.scale, probit.spent) == ("probit", 0.0)
    assert max(abs(line.score) for line in drawn.ranking) < 1e-2 < probit.ranking[0].score
    after = {path: path.read_bytes() for path in matrices.folder.rglob("*") if path.is_file()}
    assert before == after


def test_exposures_turn_counts_of_wins_into_scores(survey):
    run(survey)
    exposures = survey.folder / "exposures.csv"
    exposures.write_text("item,exposure\n" + "".join(f"{item},600\n" for item in ITEMS))
    shares = hr.estimate(survey.output)
    scores = hr.estimate(survey.output, exposures=exposures, elo=True)
    assert (shares.scale, scores.scale) == ("win-share", "elo")
    assert [line.item for line in scores.ranking] == [line.item for line in shares.ranking]
    truth = {item: answers_score(place) for place, item in enumerate(ITEMS)}
    assert all(line.low_all <= truth[line.item] <= line.high_all for line in scores.ranking)
    with pytest.raises(ConfigError, match="add exposures"):
        hr.estimate(survey.output, link="probit")
    table = exposures.read_text()
    for content, message in (
        (table.replace("600", "600,7", 1), r"line 2: has more cells than the header names columns"),
        (table.replace(",600", "", 1), r"line 2: has fewer cells than the header"),
        (table.replace("exposure", "exposure,exposure", 1), "column 'exposure' stands twice"),
        (f"{table}emus,600\n", f"line {len(ITEMS) + 2}: item 'emus' is not in the catalogue"),
        (table.replace(f"{ITEMS[0]},600\n", ""), f"item {ITEMS[0]!r} is missing"),
        ("left,right\n", "needs rows, under the header item,exposure or left,right,comparisons"),
        (",".join(f"c{number}" for number in range(20_000)), "needs rows, under the header"),
    ):
        exposures.write_text(content)
        with pytest.raises(ConfigError, match=f"exposures: .*{message}") as refused:
            hr.estimate(survey.output, exposures=exposures)
        assert len(str(refused.value)) < 400


def answers_score(place: int) -> float:
    """Elo rating of the likeliest logistic scores for answers of which the left item wins 80 %."""
    n = len(ITEMS)
    wins = np.array([0.8 * (n - 1 - i) + 0.2 * i for i in range(n)])
    scores = np.zeros(n)
    for _ in range(2000):
        chance = 1 / (1 + np.exp(scores[None, :] - scores[:, None]))
        scores += 0.2 * (wins - (chance.sum(axis=1) - 0.5))
    return float(1000 + 400 / np.log(10) * (scores - scores.mean())[place])


def test_a_public_table_is_fitted(table, tmp_path):
    fitted = hr.estimate(table)
    scores = {line.item: line.score for line in fitted.ranking}
    # Near-exact for this chain of odds; the ridge of 1 draws scores a little towards zero.
    assert scores["ant"] - scores["bee"] == pytest.approx(np.log(60 / 40), abs=0.2)
    assert scores["bee"] - scores["cat"] == pytest.approx(np.log(65 / 35), abs=0.3)
    rows = [dict(row) for row in csv.DictReader(TABLE.splitlines())]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    numbers = {name: list(map(int, columns[name])) for name in ("left_wins", "right_wins")}
    pq.write_table(pa.table({**columns, **numbers}), tmp_path / "pairs.parquet")
    assert hr.estimate(tmp_path / "pairs.parquet").ranking == fitted.ranking
    tied = [f"{line},{'ties' if place == 0 else 9}" for place, line in enumerate(TABLE.split())]
    table.write_text("\n".join(tied))
    with_ties = hr.estimate(table, tie_model="rao-kupper").ties
    assert with_ties is not None
    assert with_ties.equals > 5


@pytest.mark.parametrize(
    ("content", "keys", "message"),
    [
        (TABLE, {"tie_model": "davidson"}, "takes link and ridge, not tie_model"),
        (TABLE, {"tie_model": "x"}, "tie_model: must be davidson"),
        (TABLE, {"link": "cauchy"}, "link: must be logistic"),
        (TABLE, {"ridge": 0.0}, "ridge: must be finite and > 0"),
        ("left,right\na,b\n", {}, "column left_wins not found"),
        (TABLE.replace("60", "-1"), {}, "row 1, column left_wins: must be a whole number"),
        (TABLE.replace("60", "nan"), {}, "row 1, column left_wins: must be a whole number"),
        (TABLE.replace("60", "1e999"), {}, "row 1, column left_wins: must be a whole number"),
        (TABLE.replace("ant,bee", "ant,ant"), {}, "does not meet itself"),
        ("left,right\n1\n", {}, "its rows have other columns"),
        (TABLE.splitlines()[0] + "\n", {}, "must name 2 to"),
    ],
)
def test_what_cannot_be_fitted_is_refused(table, content, keys, message):
    table.write_text(content)
    with pytest.raises(ConfigError, match=message):
        hr.estimate(table, **keys)


def test_a_release_whose_model_needs_another_draw_is_refused(survey):
    survey.set(method="perturbed-mle")
    run(survey)
    with pytest.raises(ConfigError, match="another draw would cost epsilon"):
        hr.estimate(survey.output, link="probit")


def test_the_command_and_the_task_write_the_same_files(table, tmp_path, capsys):
    main(["estimate", str(table), "--link", "laplace", "--to", str(tmp_path / "fit")])
    assert "Fitted to a public table of pairs" in capsys.readouterr().out
    estimate_task.fn(str(table), str(tmp_path / "other"), link="laplace")
    for name in ("estimate.json", "ranking.csv"):
        assert (tmp_path / "fit" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    rows = list(csv.DictReader((tmp_path / "fit" / "ranking.csv").read_text().splitlines()))
    assert [row["item"] for row in rows] == ["ant", "bee", "cat"]
    (tmp_path / "fit" / "release.json").write_text("{}")
    with pytest.raises(SystemExit):
        main(["estimate", str(table), "--to", str(tmp_path / "fit")])
    assert "holds a release" in capsys.readouterr().err
