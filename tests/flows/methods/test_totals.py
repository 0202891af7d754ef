"""Method `totals`, from rows to a release, and what `auto` takes for a test."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from scipy.special import expit

import hushrank
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import METHODS, calibrate, load_config
from hushrank.flows.release.release import load_release
from hushrank.flows.release.scale import Scale
from hushrank.flows.report.changes import changes_between
from hushrank.privacy.randomness import seeded_bits
from hushrank.verifier.verify_release import are_slopes
from tests.flows.conftest import ITEMS
from tests.flows.every_method import survey_of
from tests.flows.forgeries import Forger, run

WHOLE = {"privacy__max_contributions": len(ITEMS)}


@pytest.fixture
def test_of_four(tmp_path):
    """A test of four items, of which the first is the easiest, and its answers."""
    survey = survey_of("totals", tmp_path / "survey").set(privacy__epsilon=20.0)
    rng = np.random.default_rng(0)
    difficulty = np.array([-1.5, -0.5, 0.5, 1.5])
    right = rng.random((4000, 4)) < expit(rng.normal(size=(4000, 1)) - difficulty)
    write(survey, right.astype(np.int8))
    return survey, right


def write(survey, correct, items=ITEMS):
    people, n = correct.shape
    pq.write_table(
        pa.table(
            {
                "user": np.repeat(np.arange(people), n),
                "item": np.tile(np.array(items), people),
                "correct": correct.ravel(),
            }
        ),
        survey.folder / "rows.parquet",
    )


def test_a_release_has_the_difficulties_and_what_they_are_made_of(test_of_four, command):
    survey, right = test_of_four
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    release = load_release(survey.output / "release.json")
    assert [line.item for line in release.ranking] == list(reversed(ITEMS))
    for line, difficulty in zip(release.ranking, (1.5, 0.5, -0.5, -1.5), strict=True):
        assert line.low < difficulty < line.high
    told = release.released
    assert told.kind == "sheet-totals"
    exact = dict(zip(ITEMS, (2 * right.sum(axis=0) - len(right)).tolist(), strict=True))
    for item, value in told.right_minus_wrong.items():
        assert abs(value / told.answer_weight - exact[item]) < 15  # scale 0.5 at epsilon 20
    assert told.knots == ((0, 1, 2, 3, 4),)
    assert told.booklets is None
    assert release.privacy.sensitivity_l1 == 2 * (4 * told.answer_weight + told.sheet_weight)
    assert "every number of sheets by raw score" in " ".join(release.privacy.statement)


def test_a_sheet_that_breaks_a_rule_adds_nothing(test_of_four, command):
    """A point above 1, a blank, and an item answered twice: each sets its whole sheet aside."""
    survey, right = test_of_four
    points = right.astype(np.int8)[:40]
    points[3, 2] = 2
    write(survey, points)
    table = pq.read_table(survey.folder / "rows.parquet").to_pandas()
    table = pa.Table.from_pandas(table.drop(index=[4 * 7 + 1]), preserve_index=False)
    again = table.slice(4 * 9, 1)
    pq.write_table(pa.concat_tables([table, again]), survey.folder / "rows.parquet")
    survey.set(privacy__epsilon=300.0, ledger__epsilon=1000.0)  # no noise: chance 1e-12
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    told = load_release(survey.output / "release.json").released
    counts = np.delete(right[:40], [3, 7, 9], axis=0)
    (sheets,) = told.sheets
    by_score = np.bincount(counts.sum(axis=1), minlength=5)
    assert (np.array(sheets) == told.sheet_weight * by_score).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input__missing": None}, "input.missing: unseen is not for method: totals"),
        (
            {"privacy__max_contributions": 3},
            "privacy.max_contributions: must be 4 for method: totals, which counts whole sheets",
        ),
        ({"spectral": {"graph": "dense"}}, "spectral: is for method: spectral or spectral-rr"),
        ({"privacy__per_item_cap": 1}, "privacy.per_item_cap: is for comparisons"),
        (
            {"items": {"names": ITEMS[:2]}, "privacy__max_contributions": 2},
            "items: must be at least 3 for method: totals, got 2",
        ),
        (
            {"items": {"count": 2001}, "privacy__max_contributions": 2001},
            "items: must be at most 2000 for method: totals, got 2001",
        ),
    ],
)
def test_what_does_not_suit_it_is_refused(tmp_path, changes, message):
    survey = survey_of("totals", tmp_path / "survey").set(**changes)
    with pytest.raises(ConfigError) as refused:
        calibrate(load_config(survey.config))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("items", "changes", "taken"),
    [
        (28, {}, "totals"),
        (100, {}, "totals"),
        (28, {"privacy__noise": "gaussian", "privacy__delta": 1e-6}, "totals"),
        (28, {"privacy__adjacency": "add-remove"}, "totals"),
        (28, {"input__missing": None}, "spectral"),
        (28, {"privacy__max_contributions": 10}, "spectral"),
    ],
)
def test_auto_takes_the_one_of_less_noise(tmp_path, items, changes, taken):
    survey = survey_of("auto, test", tmp_path / "survey")
    settings = {"items": {"count": items}, "privacy__max_contributions": items, **changes}
    config = load_config(survey.set(**settings).config)
    found = calibrate(config)
    assert found.method.facts.name == taken
    assert found.chosen.reason
    if taken == "totals" or "input__missing" not in changes:
        return
    assert "not asked" in found.chosen.reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"groups": {"column": "school", "values": ["a", "b"]}}, "by group (groups)"),
        ({"model": {"anchors": {ITEMS[0]: 0.0, ITEMS[1]: 1.0}}}, "(model.anchors)"),
        (
            {"model": {"bands": 2}, "privacy__noise": "gaussian", "privacy__delta": 1e-6},
            "(model.bands)",
        ),
    ],
)
def test_auto_takes_totals_for_what_it_alone_can_do(tmp_path, changes, reason):
    survey = survey_of("auto, test", tmp_path / "survey").set(input__missing="wrong", **changes)
    found = calibrate(load_config(survey.config))
    assert found.method.facts.name == "totals"
    assert reason in found.chosen.reason


@pytest.mark.parametrize(
    ("items", "noise", "least", "most"),
    [  # spectral's error by noise, relative to that of totals, in simulated tests: .9 to 1.1, ...
        (5, {"privacy__noise": "gaussian", "privacy__delta": 1e-6}, 0.9, 1.15),
        (28, {"privacy__noise": "gaussian", "privacy__delta": 1e-6}, 1.0, 1.2),
        (100, {"privacy__noise": "gaussian", "privacy__delta": 1e-6}, 1.1, 1.35),
        (5, {}, 1.1, 1.5),
        (28, {}, 3.0, 5.0),
    ],
)
def test_the_noise_that_auto_compares_is_that_of_simulated_tests(
    tmp_path, items, noise, least, most
):
    survey = survey_of("auto, test", tmp_path / "survey")
    changes = {"items": {"count": items}, "privacy__max_contributions": items, **noise}
    reason = calibrate(load_config(survey.set(**changes).config)).chosen.reason
    totals, spectral = (float(each.split()[0]) for each in reason.split(": ")[1].split(", "))
    assert least < spectral / totals < most


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"link": "probit"}}, "model.link: is not used where test items are ranked"),
        ({"spectral": {"graph": "dense"}}, "spectral: is for method: spectral or spectral-rr"),
    ],
)
def test_auto_refuses_what_no_method_of_a_test_uses(tmp_path, changes, message):
    with pytest.raises(ConfigError) as refused:
        load_config(survey_of("auto, test", tmp_path / "survey").set(**changes).config)
    assert message in str(refused.value)


def test_a_plan_tries_it(tmp_path, command):
    survey = survey_of("totals", tmp_path / "survey")
    code, printed = command("plan", survey.config, "--people", 300, "--epsilon", "4")
    assert code == 0, printed
    compared = printed.partition("Methods at epsilon 4:")[2]
    assert "\ntotals" in compared


def test_what_is_drawn_is_what_is_stated(tmp_path):
    """The draw uses the mechanism that was stored, not one that is computed again."""
    config = load_config(survey_of("totals", tmp_path / "survey").config)
    method, mechanism = METHODS["totals"], calibrate(config).mechanism
    exact = {"sheets": np.zeros(mechanism.shape.n_entries, np.int64)}
    louder = replace(
        mechanism,
        counts=replace(
            mechanism.counts,
            calibration=replace(
                mechanism.counts.calibration,
                law=replace(mechanism.counts.law, scale=1e6),
            ),
        ),
    )
    assert np.abs(method.draw(exact, mechanism, seeded_bits(1))["sheets"]).max() < 200
    assert np.abs(method.draw(exact, louder, seeded_bits(1))["sheets"]).max() > 10_000


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """A release of a test of four items, with its reliability and abilities."""
    survey = survey_of("totals", tmp_path_factory.mktemp("reported") / "job")
    rng = np.random.default_rng(0)
    right = rng.random((3000, 4)) < expit(1.3 * rng.normal(size=(3000, 1)) - np.arange(-1.5, 2, 1))
    write(survey, right.astype(np.int8))
    run(survey.set(privacy__epsilon=20.0, ledger__epsilon=50.0))
    return survey, right


def test_a_release_says_how_reliable_the_test_is_and_what_a_raw_score_means(reported):
    survey, right = reported
    release = load_release(survey.output / "release.json")
    (test,) = release.test
    score, share = right.sum(axis=1), right.mean(axis=0)
    exact = 4 / 3 * (1 - (share * (1 - share)).sum() / score.var())
    assert test.kr20.low < exact < test.kr20.high
    assert test.separation.low < test.separation.estimate < test.separation.high
    assert [len(test.ability), len(test.error)] == [5, 5]
    assert list(test.ability) == sorted(test.ability)
    table = pacsv.read_csv(survey.output / "scores.csv")
    assert table.column_names == ["score", "ability", "standard_error"]
    assert table["ability"].to_pylist() == pytest.approx(test.ability, abs=1e-6)
    page = " ".join((survey.output / "report.html").read_text().split())
    told = f"{test.kr20.estimate:.2f} (95 % interval: {test.kr20.low:.2f} to {test.kr20.high:.2f})"
    assert f"Reliability (KR-20): {told}." in page
    assert f'<td class="number">{test.ability[0]:+.2f}</td>' in page


def test_terminal_python_and_export_say_the_same(reported, command, tmp_path):
    survey, _ = reported
    (test,) = load_release(survey.output / "release.json").test
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    assert f"Reliability (KR-20): {test.kr20.estimate:.2f}" in printed
    assert "scores.csv" in printed
    release = hushrank.read_release(survey.output)
    assert release.abilities["ability"].to_pylist() == list(test.ability)
    assert release.reliability["measure"].to_pylist() == ["kr20", "separation"]
    assert release.reliability["low"].to_pylist()[0] == test.kr20.low
    out = tmp_path / "abilities.csv"
    code, printed = command("export", survey.config, "--table", "abilities", "--out", out)
    assert code == 0, printed
    assert pacsv.read_csv(out)["score"].to_pylist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda f: f.tell("test.0.ability.2", 0.7), "the ability of score 2 is"),
        (lambda f: f.tell("test.0.error.1", 0.3), "the ability of score 1 is"),
        (lambda f: f.tell("test.0.kr20.estimate", 0.5).tell("test.0.kr20.low", 0.4), "KR-20 does"),
        (lambda f: f.tell("test.0.kr20.high", 1.2), "outside its interval"),
        (lambda f: f.tell("test.0.ability", lambda all_: all_[1:]), "or of other scores"),
        (lambda f: f.replace("scores.csv", "\n3,", "\n3,9"), "scores.csv differs"),
    ],
)
def test_the_verifier_finds_abilities_that_do_not_follow(reported, forge, message):
    survey, _ = reported
    honest = Forger.of(survey)
    assert not honest.wrong()
    assert message in forge(honest.copy()).with_digests().wrong()


def test_booklets_have_abilities_of_their_own(tmp_path):
    booklets = {"A": ITEMS[:3], "B": ITEMS[1:]}
    survey = survey_of("totals", tmp_path / "job").set(
        input__booklets=booklets,
        privacy__max_contributions=3,
        privacy__epsilon=20.0,
        ledger__epsilon=50.0,
    )
    rng = np.random.default_rng(1)
    right = (rng.random((4000, 4)) < expit(rng.normal(size=(4000, 1)) - np.arange(4))).astype(int)
    sheets = [
        pa.table({"user": np.full(3, person), "item": items, "correct": right[person, first:][:3]})
        for person in range(4000)
        for first, items in [(person % 2, booklets["AB"[person % 2]])]
    ]
    pq.write_table(pa.concat_tables(sheets), survey.folder / "rows.parquet")
    run(survey)
    release = load_release(survey.output / "release.json")
    assert [test.name for test in release.test] == ["A", "B"]
    assert [test.kr20 for test in release.test] == [None, None]
    easy, hard = release.test
    assert easy.ability[1] < hard.ability[1]  # a point is worth more among harder items
    assert pacsv.read_csv(survey.output / "scores.csv")["booklet"].to_pylist() == [*"AAAABBBB"]
    assert not Forger.of(survey).wrong()


@pytest.mark.parametrize("short", [2, 11, 12])
def test_a_booklet_with_too_few_knots_is_refused_before_anything_is_spent(tmp_path, short):
    """Beside 48 items every second score is a knot."""
    items = [f"q{number}" for number in range(47 + short)]
    survey = survey_of("totals", tmp_path / "job").set(
        items={"names": items},
        input__booklets={"A": items[:48], "B": items[-short:]},
        privacy__max_contributions=48,
    )
    if short == 12:
        calibrate(load_config(survey.config))
        return
    with pytest.raises(ConfigError, match=f"B has {short} items .* give it 12 items or more"):
        load_config(survey.config)


SCHOOLS = {"column": "school", "values": ["North", "South"]}


def by_school(survey, people, extra=0.0, seed=2, items=ITEMS):
    """Sheets of two schools, of which one is abler; the last item is harder in the other one."""
    rng = np.random.default_rng(seed)
    school = np.arange(people) % 2
    difficulty = (
        np.linspace(-1.5, 1.5, len(items)) + np.outer(school, np.eye(len(items))[-1]) * extra
    )
    ability = rng.normal(size=(people, 1)) + 0.5 * (1 - school[:, np.newaxis])
    right = (rng.random((people, len(items))) < expit(ability - difficulty)).astype(np.int8)
    write(survey, right, items)
    table = pq.read_table(survey.folder / "rows.parquet")
    names = np.array(["North", "South"])[school].repeat(len(items))
    pq.write_table(table.append_column("school", pa.array(names)), survey.folder / "rows.parquet")
    return right, school


@pytest.fixture(scope="module")
def schools(tmp_path_factory):
    """A release of a test that two schools took, and the answers."""
    survey = survey_of("totals", tmp_path_factory.mktemp("schools") / "job")
    right, school = by_school(survey, 6000, extra=0.9)
    # Noise is large enough to be seen in KR-20, where the sums over groups have twice the variance.
    run(survey.set(privacy__epsilon=4.0, ledger__epsilon=50.0, groups=SCHOOLS))
    return survey, right, school


def test_each_group_has_counts_of_its_own(schools):
    survey, right, school = schools
    release = load_release(survey.output / "release.json")
    whole, boards = release.released, {board.name: board for board in release.groups}
    assert list(boards) == ["North", "South"]
    for number, board in enumerate(boards.values()):
        own, told = right[school == number].astype(int), board.released
        for item, exact in zip(ITEMS, 2 * own.sum(axis=0) - len(own), strict=True):
            assert abs(told.right_minus_wrong[item] / told.answer_weight - exact) < 130  # scale 2.5
        by_score = np.bincount(own.sum(axis=1), minlength=5)
        assert np.abs(np.array(told.sheets[0]) / told.sheet_weight - by_score).max() < 130
        assert board.own == 1
    for item, total in whole.right_minus_wrong.items():
        assert total == sum(board.released.right_minus_wrong[item] for board in boards.values())
    assert release.privacy.sensitivity_l1 == 2 * (4 * whole.answer_weight + whole.sheet_weight)
    (sentence,) = (each for each in release.privacy.statement if "2 groups" in each)
    assert "holds across all groups" in sentence
    assert len(release.test) == 1
    assert not Forger.of(survey).wrong()


def test_a_sheet_of_two_groups_or_of_none_adds_nothing(tmp_path):
    survey = survey_of("totals", tmp_path / "job")
    right, school = by_school(survey, 40)
    table = pq.read_table(survey.folder / "rows.parquet").to_pandas()
    table.loc[4 * 3 + 1, "school"] = "South"  # person 3's others name South as well
    table.loc[4 * 6 + 1, "school"] = "South"  # person 6's name North
    table.loc[4 * 8 + 2, "school"] = "East"
    table.loc[4 * 10, "school"] = None
    pq.write_table(pa.Table.from_pandas(table), survey.folder / "rows.parquet")
    run(survey.set(privacy__epsilon=300.0, ledger__epsilon=1000.0, groups=SCHOOLS))
    release = load_release(survey.output / "release.json")
    keep = ~np.isin(np.arange(40), [6, 8, 10])
    for number, board in enumerate(release.groups):
        own = right[keep & (school == number)]
        by_score = np.bincount(own.sum(axis=1), minlength=5)
        (sheets,) = board.released.sheets
        assert (np.array(sheets) == board.released.sheet_weight * by_score).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "spectral"}, "groups: needs a method that releases counts"),
        ({"method": "spectral"}, "write method: totals; or remove it"),
        ({"groups__column": "user"}, "groups.column: user is input.columns.user already"),
        (
            {"input__layout": "wide", "groups__column": ITEMS[0]},
            f"groups.column: {ITEMS[0]} is the column of an item",
        ),
    ],
)
def test_groups_that_do_not_suit_are_refused(tmp_path, changes, message):
    survey = survey_of("totals", tmp_path / "survey").set(groups={**SCHOOLS}).set(**changes)
    with pytest.raises(ConfigError) as refused:
        load_config(survey.config)
    assert message in str(refused.value)


def test_items_that_differ_between_groups_are_named(schools, command, tmp_path):
    survey, _, _ = schools
    (pair,) = load_release(survey.output / "release.json").dif
    assert (pair.group, pair.against) == ("South", "North")
    told = {each.item: each for each in pair.items}
    assert list(told) == ITEMS
    last = told[ITEMS[-1]]  # 0.9 harder, less the mean of all four
    assert last.low < 0.675 < last.high
    assert last.differs
    assert last.size in "BC"
    page = " ".join((survey.output / "report.html").read_text().split())
    assert f"{ITEMS[-1]} ({last.difference:+.2f}, size {last.size})" in page
    assert f'<td class="number">{last.difference:+.2f}</td>' in page
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    assert "South against North: with 95 % confidence for all items at once" in printed
    table = pacsv.read_csv(survey.output / "dif.csv")
    assert table["difference"].to_pylist() == pytest.approx(
        [each.difference for each in pair.items], abs=1e-6
    )
    assert table["differs"].to_pylist()[-1] == "yes"
    found = hushrank.read_release(survey.output).dif
    assert found["item"].to_pylist() == ITEMS
    assert found["size"].to_pylist() == [each.size for each in pair.items]
    out = tmp_path / "dif.parquet"
    code, printed = command("export", survey.config, "--table", "dif", "--out", out)
    assert code == 0, printed
    assert pq.read_table(out)["against"].to_pylist() == ["North"] * 4


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda f: f.tell("dif.0.items.1.difference", 2.5), "dif: items of South"),
        (lambda f: f.tell("dif.0.items.3.size", "A"), "its interval or size does not follow"),
        (lambda f: f.tell("dif.0.items.3.high", 9.0), "its interval or size does not follow"),
        (lambda f: f.tell("dif.0.against", "South"), "is not compared with the first one"),
        (lambda f: f.tell("dif.0.group", "East"), "none of this release"),
        (lambda f: f.replace("dif.csv", ",yes", ",no"), "dif.csv differs"),
        (lambda f: f.tell("groups.1.released.sheets.0.2", lambda n: n + 5), "sheets of all groups"),
    ],
)
def test_the_verifier_finds_differences_that_do_not_follow(schools, forge, message):
    survey, _, _ = schools
    honest = Forger.of(survey)
    assert not honest.wrong()
    assert message in forge(honest.copy()).with_digests().wrong()


EIGHT = [f"q{number}" for number in range(8)]


@pytest.fixture(scope="module")
def anchored(tmp_path_factory):
    """A release of a test of four items on the scale of two of them, of which one has moved."""
    survey = survey_of("totals, gaussian", tmp_path_factory.mktemp("anchored") / "job")
    rng = np.random.default_rng(4)
    right = rng.random((20000, 4)) < expit(rng.normal(size=(20000, 1)) - [-1.5, -0.5, 0.5, 1.5])
    write(survey, right.astype(np.int8))
    run(
        survey.set(
            privacy__epsilon=8.0,
            ledger__epsilon=50.0,
            model={"anchors": {ITEMS[0]: 8.5, ITEMS[1]: 9.5, ITEMS[2]: 12.0}},
        )
    )
    return survey


def test_anchors_set_the_zero_and_one_that_moved_is_told(anchored, command):
    """Two of three are 10 harder than they were made, and the third 11.5."""
    release = load_release(anchored.output / "release.json")
    scores = {line.item: line for line in release.ranking}
    assert release.scale is Scale.ANCHORED_DIFFICULTY
    assert scores[ITEMS[3]].score == pytest.approx(1.5 + 10.5, abs=0.15)
    assert scores[ITEMS[1]].score - scores[ITEMS[0]].score == pytest.approx(1.0, abs=0.15)
    assert release.released.anchors == {ITEMS[0]: 8.5, ITEMS[1]: 9.5, ITEMS[2]: 12.0}
    (warning,) = [text for text in release.warnings if text.startswith("Anchors that have other")]
    assert f"{ITEMS[2]} (-1.0" in warning or f"{ITEMS[2]} (-0.9" in warning
    (test,) = release.test
    assert min(test.ability) > 6  # abilities are on that scale too
    page = " ".join((anchored.output / "report.html").read_text().split())
    assert "on the scale of the anchors" in page
    assert "0 is the mean of these items" not in page
    code, printed = command("verify", anchored.output)
    assert code == 0, printed


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("scale", "difficulty"),
        ("released.anchors", None),
        ("released.anchors", {ITEMS[0]: 0.0, ITEMS[1]: 0.0}),
        ("released.anchors", {ITEMS[0]: 8.5}),
    ],
)
def test_the_verifier_notices_a_scale_that_is_not_that_of_the_anchors(anchored, where, value):
    honest = Forger.of(anchored)
    assert not honest.wrong()
    forged = honest.copy().tell(where, value).with_digests()
    assert "difficulties are not on the scale of the anchors" in forged.wrong()


@pytest.fixture(scope="module")
def banded(tmp_path_factory):
    """A release of a test of eight items in three bands, of which the sixth item is flat."""
    survey = survey_of("totals, gaussian", tmp_path_factory.mktemp("banded") / "job")
    rng = np.random.default_rng(5)
    slope = np.where(np.arange(8) == 5, 0.2, 1.0)
    difficulty = np.linspace(-1.2, 1.2, 8)
    right = rng.random((6000, 8)) < expit(slope * (rng.normal(size=(6000, 1)) - difficulty))
    write(survey, right.astype(np.int8), EIGHT)
    run(
        survey.set(
            items={"names": EIGHT},
            privacy__max_contributions=8,
            privacy__epsilon=4.0,
            ledger__epsilon=50.0,
            model={"bands": 3},
        )
    )
    return survey, right.astype(int)


def test_bands_of_raw_scores_say_which_items_do_not_fit(banded, command):
    survey, right = banded
    release = load_release(survey.output / "release.json")
    told, score = release.released, right.sum(axis=1)
    (starts,) = told.bands
    band = np.searchsorted(starts, score, side="right") - 1
    for number, part in enumerate(told.by_band):
        own = right[band == number]
        for item, exact in zip(EIGHT, 2 * own.sum(axis=0) - len(own), strict=True):
            assert abs(part[item] / told.answer_weight - exact) < 60  # nine standard deviations
    for item in EIGHT:
        assert told.right_minus_wrong[item] == sum(part[item] for part in told.by_band)
    fits = {each.item: each for each in release.fit}
    assert fits["q5"].misfits
    assert not fits["q5"].steeper
    assert {each.degrees for each in release.fit} == {2}
    assert "for sheets of low to high raw scores" in " ".join(release.privacy.statement)
    page = " ".join((survey.output / "report.html").read_text().split())
    assert "q5 (flatter)" in page
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    assert "Item fit: with 95 % confidence" in printed
    table = pacsv.read_csv(survey.output / "fit.csv")
    assert table["slope"].to_pylist()[5] == "flatter"
    slope, low, high = fits["q5"].slope
    assert table["discrimination"][5].as_py() == pytest.approx(slope, abs=1e-6)
    assert low < slope < high < 1
    assert min(each.slope[0] for each in release.fit) == fits["q5"].slope[0]
    assert "of q5 to" in page
    assert "Slopes (2PL" in printed
    assert hushrank.read_release(survey.output).fit["item"].to_pylist() == EIGHT


def test_items_move_since_an_earlier_release_or_two_tests_cannot_be_compared(banded):
    survey, _ = banded
    release = hushrank.read_release(survey.output)
    others = tuple(
        replace(line, item=line.item if line.item in EIGHT[:2] else f"{line.item}b")
        for line in release.record.ranking
    )
    centre = tuple(release.record.errors.centre)
    swapped = release.record.errors.model_copy(update={"centre": centre[::-1]})
    again = hushrank.Release(
        release.record.model_copy(update={"release_id": "another"}), survey.output
    )
    table = release.drift_from(again)
    assert sorted(table["item"].to_pylist()) == EIGHT
    assert np.abs(np.array(table["difference"])).max() < 1e-9
    assert not any(table["moved"].to_pylist())
    assert table["before"].to_pylist() == table["now"].to_pylist()
    for changes, message in (
        ({"ranking": others}, "2 items in common"),
        ({"release_id": release.record.release_id}, "is named twice"),
        ({"errors": None}, "no difficulties with errors"),
        ({"errors": swapped}, "more than a fifth of the 8 items"),
        ({"scale": Scale.POINT_DIFFICULTY}, "one has items that give points"),
    ):
        other = hushrank.Release(
            release.record.model_copy(update={"release_id": "another"} | changes), survey.output
        )
        with pytest.raises(hushrank.HushrankError, match=message):
            release.drift_from(other)


def test_the_command_names_the_items_that_moved_between_two_tests(banded, command, tmp_path):
    survey, _ = banded
    record = hushrank.read_release(survey.output).record
    at = [line.item for line in record.ranking].index("q2")
    centre = [each + 1.5 * (i == at) for i, each in enumerate(record.errors.centre)]
    errors = record.errors.model_copy(update={"centre": tuple(centre)})
    moved, other = (tmp_path / name / "release.json" for name in ("moved", "other"))
    moved.parent.mkdir()
    other.parent.mkdir()
    moved.write_text(
        record.model_copy(update={"errors": errors, "release_id": "later"}).model_dump_json()
    )
    renamed = tuple(replace(line, item=f"{line.item}b") for line in record.ranking)
    other.write_text(
        record.model_copy(update={"ranking": renamed, "release_id": "other"}).model_dump_json()
    )
    out = tmp_path / "drift.csv"
    code, printed = command("drift", survey.output, moved, "--out", out)
    assert code == 0, printed
    assert "Of the 8 items in common q2 (+1.50) moved: harder now (+) or easier (-)" in printed
    assert "the same mean over 7 of them" in printed
    table = {row["item"]: row for row in pacsv.read_csv(out).to_pylist()}
    assert [item for item, row in table.items() if row["moved"]] == ["q2"]
    code, printed = command("drift", survey.output, survey.output, "--out", tmp_path / "none.csv")
    assert code != 0
    assert "is named twice" in printed
    assert not (tmp_path / "none.csv").exists()
    again = tmp_path / "again" / "release.json"
    again.parent.mkdir()
    again.write_text(record.model_copy(update={"release_id": "again"}).model_dump_json())
    code, printed = command("drift", survey.output, again)
    assert code == 0, printed
    assert "None of the 8 items in common moved by more than noise and chance explain" in printed
    assert "have the same mean over all of them." in printed
    code, printed = command("drift", survey.output, moved, "--json")
    assert json.loads(printed)["items"][0]["anchor"] in (True, False)
    code, printed = command("drift", survey.output, other)
    assert code != 0
    assert "0 items in common" in printed
    assert "(anchors)" in printed
    before = record.model_copy(update={"created": record.created - timedelta(days=300)})
    later = record.model_copy(update={"errors": errors, "release_id": "later"})
    assert "q2 (+1.50) moved" in changes_between(before, later).how


def test_the_verifier_takes_slopes_of_three_bands_of_one_booklet_alone():
    slopes = [[math.exp(middle + side) for side in (0, -0.1, 0.1)] for middle in (-1, 0, 1)]
    bands, knots = [{}, {}, {}], [[0, 1]]
    assert are_slopes(slopes, {"by_band": bands, "knots": knots})
    assert not are_slopes(slopes, {"by_band": bands[1:], "knots": knots})
    assert not are_slopes(slopes, {"by_band": bands, "knots": knots * 2})
    assert not are_slopes(slopes * 101, {"by_band": bands, "knots": knots})
    slopes[0][1] = slopes[1][1]
    assert not are_slopes(slopes, {"by_band": bands, "knots": knots})


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda f: f.tell("fit.5.misfits", False), "what is said of q5 does not follow"),
        (lambda f: f.tell("fit.5.chance", 0.5), "what is said of q5 does not follow"),
        (lambda f: f.tell("fit", lambda all_: all_[1:]), "fit: an item stands twice"),
        (lambda f: f.tell("released.by_band.1.q2", lambda n: n + 2), "not the sums over bands"),
        (lambda f: f.tell("released.bands.0.1", lambda n: n + 1), "other raw scores than those"),
        (lambda f: f.tell("released.bands", None), "without their numbers"),
        (lambda f: f.replace("fit.csv", "flatter", "steeper"), "fit.csv differs"),
        (lambda f: f.tell("fit.5.discrimination", 1.0), "slopes are not relative to their mean"),
        (lambda f: f.tell("fit.5.discrimination", None), "slopes are not relative to their mean"),
        (lambda f: f.tell("fit.5.discrimination_high", 9.9), "lie outside their intervals"),
    ],
)
def test_the_verifier_finds_fits_that_do_not_follow(banded, forge, message):
    survey, _ = banded
    honest = Forger.of(survey)
    assert not honest.wrong()
    assert message in forge(honest.copy()).with_digests().wrong()


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("totals", {"model": {"bands": 2}}, "model.bands: needs noise: gaussian"),
        ("totals, gaussian", {"model": {"bands": 3}}, "model.bands: must be at most 2 for sheets"),
        ("totals, gaussian", {"model": {"bands": 7}}, "model.bands: "),
        ("auto, test", {"model": {"bands": 2}}, "model.bands: needs noise: gaussian"),
        ("auto, test", {"model": {"anchors": {"a": 1.0}}}, "model.anchors: a is not one of items"),
        ("auto, test", {"model": {"gamma": 2.0}}, "model.gamma: is not used"),
        ("totals", {"model": {"anchors": {"x": 1.0, ITEMS[0]: 0.0}}}, "x is not one of items"),
        ("totals", {"model": {"anchors": {ITEMS[0]: 0.0}}}, "must name 2 items or more, got 1"),
        ("totals", {"model": {"anchors": {ITEMS[0]: "inf"}}}, "model.anchors"),
    ],
)
def test_bands_that_do_not_suit_are_refused(tmp_path, name, changes, message):
    with pytest.raises(ConfigError) as refused:
        load_config(survey_of(name, tmp_path / "survey").set(**changes).config)
    assert message in str(refused.value)
