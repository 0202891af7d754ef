"""`hushrank history` and `hushrank export`: all releases of a population, and nothing edited."""

from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

from hushrank.flows.release.publish import publish
from hushrank.flows.release.release import Release
from hushrank.flows.report.sections import ranks_over_time
from hushrank.flows.report.slide import chart_of, chart_svg
from hushrank.flows.report.svg import Shape
from tests.releases import ITEMS, WINS, make_nights, make_release, page

FIRST = make_release(release_id="a1", seed=1)
RELEASES = [
    make_release(release_id=f"{name}1", seed=seed, created=FIRST.created + timedelta(days=seed))
    for seed, name in enumerate("abcd")
]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    for release in [RELEASES[1], RELEASES[0], *RELEASES[2:]]:  # a night can come late
        publish(release, folder, page("<!doctype html><title>report</title>"))
    return folder


def edit(path: Path) -> Path:
    path.chmod(0o600)
    path.write_bytes(path.read_bytes().replace(b"London", b"Lundin", 1) + b" ")
    return path


def test_every_release_is_listed_the_earliest_first(output, command):
    code, printed = command("history", output)
    assert code == 0, printed
    rows = re.findall(r"^(\d{4}-\d\d-\d\d)\s+(\w+)\s+noisy-counts\s+2\b", printed, re.M)
    assert rows == [(str(release.day), release.release_id) for release in RELEASES]
    assert "London leads." in printed


def test_the_yaml_file_names_the_folder(survey, command):
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    code, printed = command("history", survey.config)
    assert code == 0, printed
    (kept,) = survey.archived()
    assert kept.name[11:] in printed
    assert "ants" in printed


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_all_rankings_are_exported_in_long_form(output, command, tmp_path, ending):
    out = tmp_path / f"all.{ending}"
    code, printed = command("export", output, "--out", out)
    assert code == 0, printed
    assert "24 rows of 4 releases" in printed
    rows = rows_of(out)
    expected = [
        (release.release_id, line.item, line.score, line.rank_high)
        for release in RELEASES
        for line in release.ranking
    ]
    assert len(rows) == len(expected) == 24
    for row, (release_id, item, score, rank_high) in zip(rows, expected, strict=True):
        assert (row["release_id"], row["item"]) == (release_id, item)
        assert float(row["score"]) == score
        assert int(row["rank_high"]) == rank_high
    wins = {row["item"]: float(row["noisy_wins"]) for row in rows if row["release_id"] == "c1"}
    assert wins == RELEASES[2].released.wins


def rows_of(path: Path) -> list[dict]:
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))
    return pq.read_table(path).to_pylist()


def test_one_release_is_exported_by_the_start_of_its_identity(output, command, tmp_path):
    out = tmp_path / "one.csv"
    assert command("export", output, "--out", out, "--release", "b")[0] == 0
    assert {row["release_id"] for row in rows_of(out)} == {"b1"}
    code, printed = command("export", output, "--out", tmp_path / "x.csv", "--release", "z")
    assert code == 2
    assert "--release z: no release has an identity that begins so" in printed
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_ranks_over_time_are_drawn(output, command, tmp_path, ending):
    plot = tmp_path / f"ranks.{ending}"
    code, printed = command("history", output, "--plot", plot)
    assert code == 0, printed
    content = plot.read_bytes()
    if ending == "png":
        assert content.startswith(b"\x89PNG")
    else:
        ElementTree.fromstring(content)
        assert all(f"{item}, 2026-11-".encode() in content for item in ITEMS)


def test_the_plot_of_one_release_shows_its_ranking(tmp_path, command):
    publish(RELEASES[0], tmp_path / "out", page("<!doctype html><title>report</title>"))
    code, printed = command("history", tmp_path / "out", "--plot", tmp_path / "ranks.svg")
    assert code == 0, printed
    assert f"The ranking, because there is one release so far: {tmp_path / 'ranks.svg'}" in printed
    drawn = (tmp_path / "ranks.svg").read_text(encoding="utf-8")
    assert drawn == chart_svg(chart_of(RELEASES[0], Shape.WIDE))
    assert command("history", tmp_path / "out", "--plot", tmp_path / "ranks.png")[0] == 0
    assert (tmp_path / "ranks.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("ending", "start"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")]
)
def test_a_chart_of_one_release_is_exported(output, command, tmp_path, ending, start):
    out = tmp_path / f"ranking.{ending}"
    code, printed = command("export", output, "--out", out, "--shape", "square", "--dark")
    assert code == 0, printed
    last = RELEASES[-1]
    assert f"Wrote {out}: a chart of release {last.release_id}." in printed
    chart = chart_of(last, Shape.SQUARE, dark=True)
    assert f"Alternative text: {chart.description}" in printed
    assert out.read_bytes().startswith(start)
    if ending == "svg":
        assert out.read_text(encoding="utf-8") == chart_svg(chart)
    assert command("export", output, "--out", out, "--release", "b")[0] == 0
    code, printed = command("export", output, "--out", out, "--shape", "round")
    assert code == 2
    assert "round" in printed


def test_a_table_for_excel_begins_with_its_mark_and_has_no_inf(tmp_path, command):
    first, *others = RELEASES[0].ranking
    ranking = (replace(first, low=-math.inf, high=math.inf), *others)
    unbounded = RELEASES[0].model_copy(update={"ranking": ranking})
    publish(unbounded, tmp_path / "out", page("<!doctype html><title>report</title>"))
    out = tmp_path / "all.csv"
    assert command("export", tmp_path / "out", "--out", out, "--excel")[0] == 0
    marked = out.read_bytes()
    assert command("export", tmp_path / "out", "--out", out)[0] == 0
    assert marked == b"\xef\xbb\xbf" + out.read_bytes()
    row = rows_of(out)[0]
    assert (row["low"], row["high"]) == ("", "")
    assert float(row["score"]) == first.score
    code, printed = command("export", tmp_path / "out", "--out", tmp_path / "a.json", "--excel")
    assert code == 2
    assert "--excel: is for a .csv file" in printed
    assert not (tmp_path / "a.json").exists()


def test_untouched_releases_pass_the_check(output, command):
    code, printed = command("history", output, "--verify")
    assert code == 0
    assert printed.strip() == "4 releases are unchanged."


@pytest.mark.parametrize("name", ["release.json", "ranking.csv", "report.html"])
def test_an_edited_release_is_named_and_never_used(output, command, tmp_path, name):
    path = edit(output / "releases" / "2026-11-22-c1" / name)
    for arguments in (("--verify",), ()):
        code, printed = command("history", output, *arguments)
        assert code == 1
        assert f"{path}: was changed after it was published." in printed
    code, _ = command("export", output, "--out", tmp_path / "all.csv")
    assert code == 1
    assert not (tmp_path / "all.csv").exists()


def test_an_edited_copy_on_top_is_named(output, command):
    path = edit(output / "ranking.csv")
    code, printed = command("history", output, "--verify")
    assert code == 1
    assert f"{path}: differs from {output}/releases/2026-11-23-d1/ranking.csv" in printed
    assert command("history", output)[0] == 0  # which reads what is kept


def test_a_release_in_another_ones_place_is_named(output, command):
    kept = output / "releases" / "2026-11-22-c1"
    kept.rename(kept.with_name("2026-11-25-c1"))
    code, printed = command("history", output, "--verify")
    assert code == 1
    assert "2026-11-25-c1: holds release 2026-11-22-c1" in printed


def foreign(tmp_path: Path) -> Release:
    other = make_release(release_id="z9", name="another-population")
    publish(other, tmp_path / "other", page("<!doctype html><title>report</title>"))
    return other


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("history", "nowhere"), "nowhere: is neither a YAML file of a job nor a folder"),
        (("history", "{empty}"), "holds no release yet. Next: hushrank run, or hr.run in Python"),
        (("history", "{out}", "{other}"), "hold releases of several populations (another-pop"),
        (("history", "{out}", "--plot", "a.pdf"), "--plot a.pdf: must end in .svg or .png"),
        (("export", "{out}", "--out", "a.xlsx"), "--out a.xlsx: must end in .csv, .parquet, .json"),
        (("export", "{out}", "--out", "no/where/a.csv"), "a.csv: cannot be written: No such file"),
    ],
)
def test_mistakes_are_named(output, command, tmp_path, arguments, message):
    foreign(tmp_path)
    (tmp_path / "empty").mkdir()
    places = {"out": output, "other": tmp_path / "other", "empty": tmp_path / "empty"}
    code, printed = command(*(str(argument).format(**places) for argument in arguments))
    assert code == 2
    assert message in printed


def test_what_changed_since_an_earlier_day_is_told(output, command):
    day = RELEASES[0].day
    code, printed = command("history", output, "--since", day)
    assert code == 0, printed
    assert f"Since the release of {day:%-d %B %Y}: No change is larger than" in printed
    assert re.search(r"^item +before +now +change", printed, re.M)
    before, now = (
        {line.item: line for line in each.ranking} for each in (RELEASES[0], RELEASES[-1])
    )
    code, printed = command("history", output, "--since", day, "--json")
    found = json.loads(printed)["changes"]
    assert {row["item"] for row in found["items"]} == set(ITEMS)
    for row in found["items"]:
        moved = now[row["item"]].score - before[row["item"]].score
        assert float(row["change"]) == pytest.approx(moved, abs=0.501)
        assert not row["beyond"]
    assert found["how"] == ""
    assert json.loads(command("history", output, "--json")[1])["changes"] is None


def test_nights_of_a_stream_are_compared_by_what_they_share(tmp_path, command):
    nights = make_nights([WINS] * 5)
    for night in nights:
        publish(night, tmp_path / "out", page("<!doctype html><title>report</title>"))
    code, printed = command("history", tmp_path / "out", "--since", nights[1].day)
    assert code == 0, printed
    assert "Compared are the answers of 1 November 2026 to 2 November 2026 and those" in printed
    assert "No night is in both; the noise they have in common is allowed for." in printed


@pytest.mark.parametrize("since", ["2020-01-01", str(RELEASES[-1].day)])
def test_a_day_without_an_earlier_release_is_refused(output, command, since):
    code, printed = command("history", output, "--since", since)
    assert code == 2
    assert f"--since {since}: there is no earlier release of that day." in printed
    assert "--since: must be a date" in command("history", output, "--since", "May")[1]


def test_of_many_items_five_have_colours_dashes_and_intervals():
    """Ten bands on top of each other were one grey area."""
    names, wins = [f"item {i}" for i in range(20)], [3000 - 70 * i for i in range(20)]
    nights = [
        make_release(
            names, wins, seed=seed, release_id=f"n{seed}", created=FIRST.created + timedelta(seed)
        )
        for seed in range(8)
    ]
    drawn = ranks_over_time(nights, ".svg").decode()
    kinds = re.findall(r'class="series ([^"]*)"', drawn)
    assert kinds == [*(f"c{i} s{i}" for i in range(5)), *["rest"] * 5]
    assert drawn.count('class="whisker"') == 5 * len(nights)
    assert 'class="area"' not in drawn
    assert drawn.count('class="point"') == 10 * len(nights)
    many = [each.model_copy(update={"release_id": f"m{i}"}) for i, each in enumerate(nights * 5)]
    crowded = ranks_over_time(many, ".svg").decode()
    assert ('class="whisker"' in crowded, crowded.count('class="area"')) == (False, 10)
