"""Numbers for statisticians: standard errors, noisy counts, and what each column means."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtri

from hushrank.flows.release.codebook import MEANINGS, SPECIAL, TABLES, codebook_table, counts_table
from hushrank.flows.release.history import ranking_table
from hushrank.flows.release.publish import publish
from hushrank.flows.release.release import load_release, on_scale
from hushrank.flows.release.scale import Scale
from hushrank.flows.release.wording import precision_sentence
from hushrank.verifier import verify_release as verifier
from tests.flows.every_method import VARIANTS
from tests.flows.honest_releases import honest
from tests.releases import ITEMS, make_pairs_release, make_release, page

PAGE = Path(__file__).parents[3] / "docs" / "report.md"
_PLACES = np.arange(len(ITEMS))
MET = np.where(np.add.outer(_PLACES, _PLACES) % 2, 3000, 400)  # not by chance alone
SHARE = 0.5 - 0.015 * np.subtract.outer(_PLACES, _PLACES)
WINS = (MET * SHARE).astype(np.int64) * (1 - np.eye(len(ITEMS), dtype=np.int64))


def test_every_column_has_a_meaning_and_no_other():
    columns = {(table, field.name) for table, schema in TABLES.items() for field in schema}
    rows = codebook_table().to_pylist()
    assert {(row["table"], row["column"]) for row in rows} == columns
    assert all(row["meaning"] for row in rows)
    assert {name for _, name in columns} == {*MEANINGS}
    assert {*SPECIAL} <= columns


def test_counts_are_those_of_the_release_in_answers_with_their_noise():
    release = make_release()
    rows = counts_table([release]).to_pylist()
    weight, wins = release.released.row_weight, release.released.wins
    assert {row["item"]: row["count"] for row in rows} == {a: n / weight for a, n in wins.items()}
    sd = np.sqrt(release.privacy.noise_variance) / weight
    assert {(row["what"], row["other"], row["asked"]) for row in rows} == {("wins", None, None)}
    assert [row["sd_noise"] for row in rows] == pytest.approx([sd] * len(rows))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("counts, groups", 2),
        ("counts, other groups", 3),  # two groups, and those of no group
        ("stream of groups", 2),  # shown counts are no whole numbers
        ("stream of metered rows, all nights, groups", 2),
        ("trusted margins, groups", 2),
    ],
)
def test_counts_of_all_groups_together_have_the_noise_of_each(name, parts, tmp_path):
    path = tmp_path / "release.json"
    path.write_bytes(honest(name, tmp_path / "job").files[path.name])
    rows = counts_table([load_release(path)]).to_pylist()
    (whole,) = {row["sd_noise"] for row in rows if not row["board"]}
    (of_group,) = {row["sd_noise"] for row in rows if row["board"]}
    assert whole == pytest.approx(of_group * np.sqrt(parts))


def test_parts_of_a_standard_error_add_up_and_move_with_the_scale():
    release = make_pairs_release(WINS)
    lines = release.ranking
    assert all(line.se for line in lines)
    for line, elo in zip(lines, on_scale(release, Scale.ELO).ranking, strict=True):
        assert line.se == pytest.approx(np.hypot(line.se_noise, line.se_chance), rel=1e-4)
        width = (elo.high - elo.low) / (line.high - line.low)
        parts = [getattr(elo, n) / getattr(line, n) for n in ("se", "se_noise", "se_chance")]
        assert parts == pytest.approx([width] * 3)
    (told,) = {row["release_id"] for row in ranking_table([release]).to_pylist() if row["se"]}
    assert told == release.release_id


@pytest.mark.parametrize(
    "forged",
    [{"se": 9.0}, {"se_noise": 0.0}, {"se_chance": -0.1}, {"se": None}, {"se_noise": None}],
)
def test_the_verifier_finds_parts_that_do_not_add_up(tmp_path, forged):
    publish(make_pairs_release(WINS), tmp_path, page("<!doctype html><title>report</title>"))
    release = json.loads((tmp_path / "release.json").read_text(encoding="utf-8"))
    honest_lines, forged_lines = verifier.Findings(), verifier.Findings()
    verifier.check_order(release, honest_lines, 1)
    assert honest_lines.good
    release["ranking"][1] |= forged
    verifier.check_order(release, forged_lines, 1)
    (wrong,) = (text for kind, text in forged_lines.lines if kind == "WRONG")
    assert wrong == "release.json: the parts of a standard error do not add up"


def test_what_privacy_costs_is_said_only_where_it_is_known(monkeypatch):
    release = make_pairs_release(WINS)
    said = re.fullmatch(
        r"Privacy noise makes a typical interval about (\d+) % longer; with twice the people it"
        r" would be about (\d\d) % as long\.",
        precision_sentence(release),
    )
    share = np.median([(line.se_noise / line.se) ** 2 for line in release.ranking])
    longer, twice = 100 * (1 / np.sqrt(1 - share) - 1), 100 * np.sqrt((2 - share) / 4)
    assert [int(each) for each in said.groups()] == [round(longer), round(twice)]
    for one in ({"pairs_left_out_of_the_fit": 1}, {"estimator": "spectral"}):
        parameters = {**release.privacy.parameters, **one}
        some = release.privacy.model_copy(update={"parameters": parameters})
        assert precision_sentence(release.model_copy(update={"privacy": some})) == ""
    assert precision_sentence(release.model_copy(update={"informative": False})) == ""
    monkeypatch.setattr(type(release.released), "predicts_intervals", False)
    assert precision_sentence(release) == ""


@pytest.mark.parametrize("name", [*VARIANTS])
def test_a_standard_error_is_what_the_interval_allows_for(name, tmp_path):
    """A 95 % interval is 2 z standard errors long, or longer where noise is far from normal.

    An interval at an end of the scale may be cut there.
    """
    release = json.loads(honest(name, tmp_path).files["release.json"])
    if not any(line.get("se") for line in release["ranking"]):
        return
    first, last = (
        end(float(line[name]) for line in release["ranking"] if line.get("se"))
        for end, name in ((min, "low"), (max, "high"))
    )
    for line in release["ranking"]:
        cut = float(line["low"]) == first or float(line["high"]) == last  # at an end of the scale
        if not line.get("se") or cut:
            continue
        by_width = (float(line["high"]) - float(line["low"])) / (2 * ndtri(0.975))
        assert 0.5 < by_width / line["se"] < 3


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs R")
def test_the_snippet_for_r_reads_the_tables(tmp_path, command):
    release = make_pairs_release(WINS)
    publish(release, tmp_path / "out", page("<!doctype html><title>report</title>"))
    for kind, name in (("ranking", "ranking.csv"), ("counts", "counts.csv")):
        out = ("--out", tmp_path / name, "--table", kind)
        assert command("export", tmp_path / "out", *out)[0] == 0
    script = re.search(r"```r\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S).group(1)
    checks = "stopifnot(nrow(ranking) > 2, is.numeric(pairs$met), all(is.finite(pairs$met_sd)))\n"
    (tmp_path / "read.R").write_text(script + checks)
    done = subprocess.run(["Rscript", "read.R"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(item in done.stdout for item in ITEMS)


def test_the_snippet_for_stata_names_columns_of_the_table(tmp_path, command):
    script = re.search(r"```stata\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S).group(1)
    publish(make_release(), tmp_path / "out", page("<!doctype html><title>report</title>"))
    assert command("export", tmp_path / "out", "--out", tmp_path / "ranking.csv")[0] == 0
    with (tmp_path / "ranking.csv").open(newline="", encoding="utf-8") as file:
        columns = {*next(csv.reader(file))}
    named = re.search(r"destring (.*?),", script).group(1).split()
    listed = re.search(r"list (.*)", script).group(1).split()
    assert {*named, *listed} - {"noise_share"} <= columns
