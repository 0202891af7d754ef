"""Real surveys from the command line, as their owners would run them."""

from __future__ import annotations

import csv
import html
import json

import numpy as np
import pytest

from hushrank.flows.release.boards import better_lines
from hushrank.flows.release.release import load_release
from hushrank.flows.release.wording import verdict

CEMS = ["London", "Paris", "Milano", "St.Gallen", "Barcelona", "Stockholm"]  # in the file's order


def run(survey, command, real_data, name, *arguments, **changes):
    """Rank the named dataset; returns the release."""
    survey.set(input__paths=[str(real_data / f"{name}.parquet")], ledger__epsilon=100, **changes)
    code, printed = command("run", survey.config, "--direct", *arguments)
    assert code == 0, printed
    release = json.loads((survey.output / "release.json").read_text())
    mean = sum(line["score"] for line in release["ranking"]) / len(release["ranking"])
    assert mean == pytest.approx(50 if release["unit"] == "percent" else 0, abs=1e-9)
    return release, printed


def names(release) -> list[str]:
    return [line["item"] for line in release["ranking"]]


def test_cems_without_privacy_ranks_london_first_and_stockholm_last(survey, command, real_data):
    release, printed = run(
        survey,
        command,
        real_data,
        "pair_cems",
        "--no-privacy",
        items={"names": CEMS, "first_code": 0},
        privacy__epsilon="inf",
        privacy__max_contributions=15,
    )
    assert names(release) == ["London", "Paris", "St.Gallen", "Barcelona", "Milano", "Stockholm"]
    wins = [1082, 737, 511, 631, 614, 392]
    assert release["released"]["wins"] == dict(zip(CEMS, wins, strict=True))
    assert release["safe"] is False
    assert "nobody is protected" in printed


def test_cems_at_epsilon_4_still_tells_the_ends_apart(survey, command, real_data):
    release, _ = run(
        survey,
        command,
        real_data,
        "pair_cems",
        items={"names": CEMS, "first_code": 0},
        privacy__max_contributions=15,
        privacy__epsilon=4.0,
    )
    assert release["privacy"]["noise_scale"] == 6  # 24 / 4: every pair at most once a person
    # London is 345 wins ahead, Stockholm 119 behind: noise of scale 6 turns neither round
    # but with probability 1.3e-8.
    assert (names(release)[0], names(release)[-1]) == ("London", "Stockholm")
    assert release["ranking"][0]["rank_high"] == 1


@pytest.mark.parametrize("name", ["pair_firstnames", "pair_germanparties2009"])
def test_complete_designs(survey, command, real_data, name):
    release, _ = run(
        survey, command, real_data, name, items={"count": 6}, privacy__max_contributions=15
    )
    assert release["informative"]
    assert sorted(names(release)) == [str(code) for code in range(6)]


@pytest.mark.parametrize("ties", ["drop", "split", "random"])
def test_heavy_annotators_with_many_ties(survey, command, real_data, ties):
    release, _ = run(
        survey,
        command,
        real_data,
        "pair_llmfao",
        items={"count": 59},
        input__ties=ties,
        privacy__max_contributions=21,
        privacy__epsilon=4.0,
    )
    weight = 2 if ties == "split" else 1
    assert release["released"]["row_weight"] == weight
    assert release["privacy"]["sensitivity"] == 2 * 21 * weight
    assert len(release["ranking"]) == 59


def test_five_people_on_thousands_of_items_teach_nothing_and_the_report_says_so(
    survey, command, real_data
):
    release, printed = run(
        survey,
        command,
        real_data,
        "pair_tournesol_tiny",
        items={"count": 6248},
        privacy__max_contributions=100,
        privacy__distinct_pairs=None,
    )
    assert release["informative"] is False
    assert "Nothing useful can be learned from this release" in printed
    report = (survey.output / "report.html").read_text()
    assert "Nothing useful can be learned from this release" in report
    assert len(report) < 1_000_000
    assert all(line["rank_low"] == 1 and line["rank_high"] == 6248 for line in release["ranking"])


@pytest.mark.parametrize(
    ("name", "n_items", "changes"),
    [
        ("pair_cems", 6, {"privacy__max_contributions": 15, "privacy__epsilon": 2.0}),
        (
            "pair_llmfao",
            59,
            {
                "privacy": {"unit": "comparison", "epsilon": 2.0},
                "input__design": "random",
                "method": "win-loss",
            },
        ),
    ],
)
def test_headline_rows_and_files_agree(survey, command, real_data, name, n_items, changes):
    release, printed = run(
        survey,
        command,
        real_data,
        name,
        items={"names": CEMS, "first_code": 0} if n_items == 6 else {"count": n_items},
        **changes,
    )
    kept = load_release(survey.output / "release.json")
    lines, places, said = kept.ranking, kept.places(), verdict(kept)
    better = better_lines([line.surely_above for line in lines])
    apart = np.array([[one.low_all > other.high_all for other in lines] for one in lines])
    shared = np.equal.outer(np.array(places), np.array(places))
    assert better.any()
    assert not (shared & better).any()
    assert (better | ~apart).all()
    assert " ".join(said.split()) in " ".join(printed.split())
    leaders = [
        line.shown for line, place in zip(lines, places, strict=True) if place in ("1", "1=")
    ]
    assert said.startswith(tuple(leaders))
    assert f"{better.sum()} of {n_items * (n_items - 1) // 2} pairs" in " ".join(
        printed.replace(",", "").split()
    )
    page = (survey.output / "report.html").read_text()
    assert said in html.unescape(page).replace("\N{NO-BREAK SPACE}", " ")
    with (survey.output / "ranking.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["surely_above"] for row in rows] == [line.surely_above for line in lines]
    assert sum(float(row["p_best"]) for row in rows) == pytest.approx(1, abs=1e-2)
    assert all(line["p_best"] <= line["p_top"] for line in release["ranking"])
