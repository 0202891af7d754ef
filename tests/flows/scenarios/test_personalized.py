"""Rankings by public features of people: from the file to the ranking for a new person."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushrank as hr
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.rankings import two_towers
from hushrank.estimation.rankings.pair_answer_evidence import PairAnswerCounts
from hushrank.estimation.rankings.personalized import fit_personalized
from hushrank.flows.run.job import read_survey
from hushrank.flows.trust.audit.people import small_job
from hushrank.privacy.local_source import privatize_ranking
from hushrank.privacy.random_pairs import Hide, law_of_epsilon
from hushrank.transforms.rankings.person_features import PersonFeature, PersonFeatures
from tests.flows.conftest import Survey

ITEMS = ["tea", "coffee", "water", "cola"]
BASE = np.array([0.4, 0.8, 0.0, -1.2])
AGE, SOUTH = np.array([0.9, 0.3, 0.0, -1.2]), np.array([-1.2, 0.4, 0.4, 0.4])
FEATURES = PersonFeatures(
    features=(
        PersonFeature(name="age", numbers=(20.0, 40.0, 60.0)),
        PersonFeature(name="region", words=("north", "south")),
    )
)


def people(n: int) -> list[tuple[int, str, list[int]]]:
    """Age, region and order of each."""
    rng = np.random.default_rng(4)
    found = []
    for _ in range(n):
        age, south = int(rng.choice([20, 40, 60])), bool(rng.integers(2))
        scores = BASE + (age - 40) / 20 * AGE + south * SOUTH
        order = np.argsort(-(scores + rng.gumbel(size=4))).tolist()
        found.append((age, "south" if south else "north", order))
    return found


def survey_in(folder: Path, n: int = 3_000) -> Survey:
    with (folder / "ballots.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["age", "region", *ITEMS])
        for age, region, order in people(n):
            rows.writerow([age, region, *(order.index(k) + 1 for k in range(4))])
        rows.writerows([[61, "south", 1, 2, 3, 4], [40, "east", 1, 2, 3, 4]] * 3)
    settings: dict[str, Any] = {
        "name": "drinks",
        "input": {
            "kind": "rankings",
            "layout": "wide",
            "paths": ["ballots.csv"],
            "person_features": {"age": [20, 40, 60], "region": ["north", "south"]},
        },
        "items": {"names": ITEMS},
        "privacy": {"unit": "local", "epsilon": 6, "mechanism": "random-pairs"},
        "method": "personalized",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 20, "delta": 1e-5},
    }
    return Survey(folder, settings).set()


def test_a_ranking_for_a_new_person_follows_from_the_release(tmp_path, command, monkeypatch):
    survey = survey_in(tmp_path)
    code, printed = command("run", survey.config)
    assert code == 0, printed
    assert "age changes the score of cola by -" in printed
    release = json.loads((survey.output / "release.json").read_text())
    parts = release["released"]["by_profile"]
    assert [sum(each["rankings"]) for each in parts] == [
        sum(
            (age, region) == (each["features"]["age"], each["features"]["region"])
            for age, region, _ in people(3_000)
        )
        for each in parts
    ]  # rows with another value were set aside
    names = ("wins", "asked", "squares", "moments")
    counts = [
        PairAnswerCounts(*(np.array(each[name]) for name in names), np.array(each["rankings"]))
        for each in parts
    ]
    law = law_of_epsilon(6.0, release["privacy"]["parameters"]["pairs_answered"], Hide.ORDER)
    again = fit_personalized(
        counts, law, FEATURES.encoded(), np.eye(4) - 1 / 4
    )  # anybody can fit it
    personal = release["personal"]
    np.testing.assert_allclose(again.coefficients, personal["coefficients"], atol=1e-9)
    for effect, true in zip(
        personal["effects"], [*AGE - AGE.mean(), *SOUTH - SOUTH.mean()], strict=True
    ):
        assert abs(effect["estimate"] - true) < 5 * (effect["high"] - effect["low"]) / 3.9
    assert any("(age, region)" in each for each in release["privacy"]["not_protected"])
    table = hr.read_release(survey.output).rank_for({"age": 60, "region": "south"})
    true = BASE + AGE + SOUTH
    assert [row["item"] for row in table.to_pylist()] == [ITEMS[k] for k in np.argsort(-true)]
    between = hr.read_release(survey.output).rank_for({"age": "47.5", "region": "north"})
    _, printed = command("rank-for", survey.output, "region=north", "age=47.5", "--json")
    assert json.loads(printed)["ranking"] == between.to_pylist()
    monkeypatch.setattr(two_towers, "DECAYS", (30.0,))  # one is enough here
    monkeypatch.setattr(two_towers, "MOST_ITERATIONS", 50)
    towers = hr.read_release(survey.output).rank_for(
        {"age": 60, "region": "south"}, two_towers=True
    )
    assert towers.to_pylist()[0]["item"] == ITEMS[int(np.argmax(true))]
    assert {(row["low"], row["high"]) for row in towers.to_pylist()} == {(-np.inf, np.inf)}
    _, printed = command("rank-for", survey.output, "region=south", "age=60", "--two-towers")
    assert "Two towers state no interval. Of people whose features were left out" in printed
    assert "so a small one may be chance" in " ".join(printed.split())

    def fails(*_: object) -> None:
        raise ConvergenceError("no minimum")

    monkeypatch.setattr(two_towers, "fit_personalized", fails)
    code, printed = command("rank-for", survey.output, "region=south", "age=60", "--two-towers")
    assert code == 2
    assert "too little to fit its own scores again" in " ".join(printed.split())
    assert "What features of people change" in (survey.output / "report.html").read_text()
    assert "nothing was spent now" in command("run", survey.config)[1]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["age=30"], "region: missing"),
        (["age=30", "region=east"], "region must be one of north, south"),
        (["age=61", "region=north"], "age must be a number from 20 to 60"),
        (["age=old", "region=north"], "age must be a number from 20 to 60"),
        (["age=30", "region=north", "size=2"], "size: is no feature of this release"),
        (["age", "region=north"], "write each feature as NAME=VALUE"),
        (["age=30", "age=40", "region=north"], "age: stands twice"),
    ],
)
def test_people_with_other_features_are_refused(given, says, released, command):
    code, printed = command("rank-for", released, *given)
    assert code == 2
    assert says in printed


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("personalized")
    survey = survey_in(folder, 200)
    hr.run(survey.config)
    return survey.output


def test_answers_from_devices_and_features_of_items_are_read(tmp_path, command):
    law_pairs, rows = 2, []
    for age, region, order in people(1_500):
        given = privatize_ranking([ITEMS[k] for k in order], 6.0, pairs=law_pairs)
        row: dict[str, Any] = {"age": float(age), "region": region, "length": 4}
        for k, answer in enumerate(given, start=1):
            row |= dict(zip((f"left_{k}", f"right_{k}", f"outcome_{k}"), answer, strict=True))
        rows.append(row)
    survey = survey_in(tmp_path, 1)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "answers.parquet")
    (tmp_path / "features.csv").write_text("item,sugar\ntea,0\ncoffee,1\nwater,0\ncola,9\n")
    survey.set(
        input__paths=["answers.parquet"],
        input__layout="pairs",
        privacy__already_private=True,
        privacy__pairs=law_pairs,
        model={"item_features": "features.csv"},
    )
    code, printed = command("run", survey.config)
    assert code == 0, printed
    personal = json.loads((survey.output / "release.json").read_text())["personal"]
    assert [(each["of"], each["by"]) for each in personal["effects"]] == [
        ("sugar", "age"),
        ("sugar", "region=south"),
    ]
    assert personal["effects"][0]["high"] < 0  # the older, the less cola
    assert command("verify", survey.output)[0] == 0
    audited = small_job(read_survey(survey.config).config, 6, tmp_path)  # the same draws
    assert (audited.method, audited.privacy.pairs) == ("bradley-terry", law_pairs)
    (tmp_path / "features.csv").write_text("item,sugar\ntea,0\ncoffee,0\nwater,0\ncola,0\n")
    assert "sugar is the same for all items" in command("validate", survey.config)[1]
    (tmp_path / "features.csv").write_text(
        "item,sugar,grams\ntea,0,0\ncoffee,1,4\nwater,0,0\ncola,9,36\n"
    )
    code, printed = command("validate", survey.config)
    assert code == 2
    assert "model.item_features: the features of items follow from each other" in printed


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"report": {"scale": "elo"}}, "which method: personalized does not have"),
        ({"privacy__mechanism": "mallows"}, "privacy.mechanism: must be random-pairs"),
        ({"privacy__hide": "items"}, "privacy.hide: must be order with method: personalized"),
        ({"input__person_features": None}, "input.person_features: missing"),
        ({"input__person_features": {"age": [40, 20]}}, "ascending order"),
        ({"input__person_features": {"age": [40]}}, "two different values at least"),
        ({"input__person_features": {"age": [40, "old"]}}, "all numbers or all words"),
        ({"input__person_features": {"tea": [0, 1]}}, "is a column of the ranking already"),
        ({"input__person_features": {"age": list(range(300))}}, "300 combinations of values"),
        ({"input__layout": "long"}, "needs layout: list, wide or pairs"),
        ({"method": "borda"}, "input.person_features: changes nothing with method: borda"),
        ({"model": {"item_features": "none.csv"}}, "model.item_features: "),
    ],
)
def test_settings_that_do_not_go_together_are_refused(tmp_path, command, changes, says):
    survey = survey_in(tmp_path, 1)
    survey.set(**changes)
    code, printed = command("validate", survey.config)
    assert code == 2
    assert says in " ".join(printed.split())


def test_profiles_are_numbered_alike_where_they_are_read_and_where_they_are_used():
    batch = pa.record_batch(
        {
            "age": pa.array([20, 29, 31, 60, 19, None]),
            "region": pa.array(["south", "north", "south", "north", "north", "north"]),
        }
    )
    assert FEATURES.profiles_of(batch).tolist() == [1, 0, 3, 4, -1, -1]
    assert FEATURES.values()[3] == {"age": 40.0, "region": "south"}
    np.testing.assert_array_equal(
        FEATURES.encoded()[[1, 0, 3, 4]], [[-1, 1], [-1, 0], [0, 1], [1, 0]]
    )
