"""Items that give points, answers with a key: from rows to a release, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import hushrank
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import calibrate, load_config
from hushrank.flows.release.release import load_release
from tests.flows.conftest import ITEMS
from tests.flows.every_method import survey_of
from tests.flows.forgeries import Forger, run
from tests.flows.methods.test_totals import write

POINTS = (2, 1, 3, 2)
JOB = {"input__points": dict(zip(ITEMS, POINTS, strict=True)), "method": "auto"}


def sheets_of(people, ability=0.0, harder=0.0):
    """Points of everybody: the more able, the more; the last item is the hardest."""
    rng = np.random.default_rng(0 if not ability else 1)
    ahead = rng.normal(ability, size=(people, 1)) - np.array([-1.0, -0.5, 0.5 + harder, 1.0])
    weights = np.exp(ahead[..., None] * np.arange(4)) * (np.arange(4) <= np.array(POINTS)[:, None])
    below = weights.cumsum(axis=2)
    drawn = rng.random(ahead.shape) * below[..., -1]
    return (drawn[..., None] >= below[..., :-1]).sum(axis=2)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A release at an epsilon so large that the noise is 0 but for a chance of 1e-12."""
    survey = survey_of("totals, points", tmp_path_factory.mktemp("points") / "job")
    points = sheets_of(2000)
    rows = points.astype(float)
    rows[3, 0], rows[5, 1], rows[7, 2] = 3, 2, 0.5  # these sheets do not count
    write(survey, rows)
    run(survey.set(**JOB, privacy__epsilon=300.0, ledger__epsilon=1000.0))
    return survey, np.delete(points, [3, 5, 7], axis=0)


def test_a_release_has_sheets_by_points_and_by_score(released):
    survey, points = released
    release = load_release(survey.output / "release.json")
    told = release.released
    assert (told.kind, release.scale) == ("point-totals", "point-difficulty")
    for item, (name, cells) in enumerate(told.points.items()):
        counted = np.bincount(points[:, item], minlength=POINTS[item] + 1)
        assert name == ITEMS[item]
        assert (np.array(cells) == told.answer_weight * counted).all()
    by_score = np.bincount(points.sum(axis=1), minlength=9)
    assert (np.array(told.sheets) == told.sheet_weight * by_score).all()
    (test,) = release.test
    assert [step.points for step in test.steps] == [1, 2, 1, 1, 2, 3, 1, 2]
    for line in release.ranking:
        own = [step.difficulty for step in test.steps if step.item == line.item]
        truth = [-1.0, -0.5, 0.5, 1.0][ITEMS.index(line.item)]
        assert line.score == pytest.approx(np.mean(own), abs=1e-9)
        assert line.low < truth < line.high
    exact = 4 / 3 * (1 - points.var(axis=0).sum() / points.sum(axis=1).var())
    assert test.alpha.estimate == pytest.approx(exact, abs=1e-6)


def test_groups_are_counted_apart_and_say_which_item_is_harder_in_one(tmp_path, command):
    """The third item is 1.2 harder in the second school, which is abler."""
    survey = survey_of("totals, points", tmp_path / "job")
    points = np.concatenate([sheets_of(3000), sheets_of(3000, ability=0.5, harder=1.2)])
    school = np.repeat(["a", "b"], 3000)
    pq.write_table(
        pa.table(
            {
                "user": np.repeat(np.arange(6000), 4),
                "item": np.tile(np.array(ITEMS), 6000),
                "correct": points.ravel(),
                "school": np.repeat(school, 4),
            }
        ),
        survey.folder / "rows.parquet",
    )
    groups = {"groups": {"column": "school", "values": ["a", "b"]}}
    run(survey.set(**JOB, **groups, privacy__epsilon=300.0, ledger__epsilon=1000.0))
    release = load_release(survey.output / "release.json")
    for group, own in zip(release.groups, (points[:3000], points[3000:]), strict=True):
        for item, cells in enumerate(group.released.points.values()):
            counted = np.bincount(own[:, item], minlength=POINTS[item] + 1)
            assert (np.array(cells) == group.released.answer_weight * counted).all()
    (against,) = release.dif
    assert [each.item for each in against.items if each.differs and each.difference > 0.5] == [
        ITEMS[2]
    ]
    (apart,) = (each for each in against.items if each.item == ITEMS[2])
    assert apart.low < 1.2 * 3 / 4 < apart.high  # relative to the mean of four items
    assert sum(len(each.ranking) for each in release.groups) == 2 * len(ITEMS)
    code, printed = command("verify", survey.output)
    assert code == 0, printed
    honest = Forger.of(survey)
    cells = next(iter(release.groups[1].released.points.values()))
    forged = honest.copy().tell(f"groups.1.released.points.{ITEMS[0]}", [*cells, 0])
    assert "sheets are counted by other points" in forged.with_digests().wrong()


def test_page_tables_and_python_say_the_same(released, command, tmp_path):
    survey, points = released
    (test,) = load_release(survey.output / "release.json").test
    steps = pacsv.read_csv(survey.output / "steps.csv")
    assert steps.column_names == ["item", "points", "difficulty", "low", "high"]
    assert steps["difficulty"].to_pylist() == pytest.approx(
        [step.difficulty for step in test.steps], abs=1e-6
    )
    assert pacsv.read_csv(survey.output / "scores.csv")["score"].to_pylist() == list(range(9))
    page = " ".join((survey.output / "report.html").read_text().split())
    for words in (
        f"Reliability (Cronbach's alpha): {test.alpha.estimate:.2f} (95 % interval:".replace(
            "'", "&#39;"
        ),
        "Difficulty of each step",
        "by the partial credit model",
    ):
        assert words in page
    assert "Rasch" not in page
    assert "KR-20" not in page
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    assert "with intervals: steps.csv." in printed
    release = hushrank.read_release(survey.output)
    assert release.reliability["measure"].to_pylist() == ["alpha", "separation"]
    assert release.steps["points"].to_pylist() == [1, 2, 1, 1, 2, 3, 1, 2]
    code, printed = command(
        "score",
        survey.folder / "rows.parquet",
        "--release",
        survey.output,
        "--out",
        tmp_path / "own.csv",
    )
    assert code == 0, printed
    own = pacsv.read_csv(tmp_path / "own.csv")["score"].to_pylist()
    assert [own[each] for each in (3, 5, 7)] == [None] * 3
    assert [each for each in own if each is not None] == points.sum(axis=1).tolist()


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda f: f.tell("test.0.ability.2", 0.7), "the ability of score 2 is"),
        (lambda f: f.tell("test.0.steps.0.difficulty", 0.1), "have another mean"),
        (lambda f: f.tell("test.0.steps.0.low", 5.0), "a step is outside its interval"),
        (lambda f: f.tell("test.0.steps", lambda all_: all_[1:]), "of other scores"),
        (lambda f: f.tell("test.0.steps.0.points", 2), "of other points, than were counted"),
        (
            lambda f: f.tell("test.0.alpha.estimate", 0.5).tell("test.0.alpha.low", 0.4),
            "alpha does",
        ),
        (lambda f: f.tell("released.share", 2), "share"),
    ],
)
def test_the_verifier_finds_what_does_not_follow(released, forge, message):
    survey, _ = released
    honest = Forger.of(survey)
    assert not honest.wrong()
    assert message in forge(honest.copy()).with_digests().wrong()


def test_a_forged_table_of_steps_is_found_by_what_release_json_says(released):
    """The forger puts it into the page, too."""
    forged = Forger.of(released[0]).replace("steps.csv", ",2,", ",9,").with_digests()
    (wrong,) = forged.wrong().splitlines()
    assert wrong.startswith("steps.csv differs from release.json: ")


FOUR_WAYS = (
    {"input__key": "ABCD"},
    {"input__key": "abcd"},
    {"input__key": ["A", " b", "C", "d"]},
    {"input__key": dict(zip(reversed(ITEMS), "DCBA", strict=True))},
)


@pytest.mark.parametrize(
    "same",
    [
        [{"input__points": None} | each for each in FOUR_WAYS],
        [{"input__points": points} for points in (2, dict.fromkeys(reversed(ITEMS), 2))],
        [
            {"input__points": points}
            for points in ({ITEMS[1]: 3}, dict.fromkeys(ITEMS, 1) | {ITEMS[1]: 3})
        ],
    ],
)
def test_one_key_is_one_job_however_it_is_written(tmp_path, same):
    def hash_of(changes):
        survey = survey_of("totals, points", tmp_path / "job").set(**changes)
        return load_config(survey.config).job_hash()

    assert len({hash_of(changes) for changes in same}) == 1
    assert hash_of(same[0]) != hash_of({"input__points": None, "input__key": "ABCA"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(
            (
                {"input__points": None, "input__key": key, "input__words": words},
                "bees, but no cell can hold it: an empty cell, NA and words.blank stand for no",
            )
            for key, words in (
                ("A CD", None),
                (["A", " ", "C", "D"], None),
                (dict(zip(ITEMS, ["A", "NA", "C", "D"], strict=True)), None),
                ("AXCD", {"blank": ["x"]}),
            )
        ),
        *(
            (
                {"input__points": None, "input__key": "ABCD", "input__words": {side: ["x"]}},
                f"input.words.{side}: key says which answers are right",
            )
            for side in ("right", "wrong")
        ),
        (
            {"input__points": None, "input__words": {"right": ["x"], "blank": ["."]}},
            "input.words.wrong: missing; which words say that an answer is wrong?",
        ),
        ({"input__points": None, "input__key": "ABC"}, "input.key: must have one answer for each"),
        ({"input__points": None, "input__key": {"ants": "A"}}, "input.key: has no answer to bees"),
        (
            {"input__points": None, "input__key": {**dict.fromkeys(ITEMS, "A"), "Rome": "B"}},
            "input.key: Rome is not one of items",
        ),
        ({"input__key": "ABCD"}, "input.key: says which answers are right, and so does points"),
        ({"input__columns": {"weight": "w"}}, "input.columns.weight: unknown key"),
        ({"input__points": {"Rome": 2}}, "input.points: Rome is not one of items"),
        ({"input__points": 10}, "input.points: must be the most points of every item, 1 to 9"),
        ({"input__points": {ITEMS[0]: 0}}, "input.points: must be the most points of every"),
        ({"input__missing": None}, "input.missing: unseen is not for points"),
        ({"method": "spectral"}, "input.points: is for method: totals, not spectral"),
        ({"model": {"bands": 3}}, "model.bands: is for items that are right or wrong"),
        ({"model": {"anchors": {ITEMS[0]: 0.0, ITEMS[1]: 1.0}}}, "model.anchors: are for items"),
        ({"privacy__max_contributions": 3}, "must be 4 for input.points"),
        (
            {"input__booklets": {"A": ITEMS[:3], "B": ITEMS[1:]}},
            "input.points: items with points are counted where everybody was asked all",
        ),
        (
            {"items": {"count": 200}, "input__points": 9, "privacy__max_contributions": 200},
            "give at most 1,000 points, got 1,800",
        ),
        (
            {"items": {"names": ITEMS[:2]}, "input__points": 2, "privacy__max_contributions": 2},
            "items: must be at least 3 for method: totals, got 2",
        ),
    ],
)
def test_what_does_not_suit_points_is_refused(tmp_path, changes, message):
    survey = survey_of("totals, points", tmp_path / "job").set(**changes)
    with pytest.raises(ConfigError) as refused:
        calibrate(load_config(survey.config))
    assert message in str(refused.value)


def test_the_lines_for_r_read_what_is_there(released):
    """R is not run: the files, columns and the covariance that docs/tests.md names are read."""
    survey, _ = released
    page = (Path(hushrank.__file__).parents[1] / "docs" / "tests.md").read_text()
    snippet = page.partition("```r\n")[2].partition("```")[0]
    for name in re.findall(r'read\.csv\("out/exam/(\S+?)"\)  # ([^.\n]*)', snippet):
        columns = pacsv.read_csv(survey.output / name[0]).column_names
        assert {re.sub(r" \(.*\)", "", each).strip() for each in name[1].split(",")} - {""} <= {
            *columns
        }
    assert len(re.findall(r"read\.csv", snippet)) == 2
    record = json.loads((survey.output / "release.json").read_text())
    errors = record["errors"]  # as errors$centre and errors$covariance
    n = len(errors["centre"])
    covariance = np.zeros((n, n))
    covariance.T[np.tril_indices(n)] = np.concatenate(errors["covariance"])
    covariance = np.maximum(covariance, covariance.T) + np.minimum(covariance, covariance.T)
    covariance[np.diag_indices(n)] /= 2
    widths = [line["high"] - line["low"] for line in record["ranking"]]
    assert 2 * 1.96 * np.sqrt(np.diag(covariance)) == pytest.approx(widths, rel=0.02)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9
    assert covariance.sum(axis=1) == pytest.approx(0, abs=1e-6)


def test_items_whose_most_points_changed_are_not_compared(released):
    survey, _ = released
    release = hushrank.read_release(survey.output)
    told = release.record.released
    other_points = {**told.points, ITEMS[0]: (*told.points[ITEMS[0]], 0)}
    changed = told.model_copy(update={"points": other_points})
    record = release.record.model_copy(update={"released": changed, "release_id": "another"})
    other = hushrank.Release(record, survey.output)
    with pytest.raises(hushrank.HushrankError, match="3 items in common with the same most points"):
        release.drift_from(other)
