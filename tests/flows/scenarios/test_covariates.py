"""Order effects and style control, from the YAML file to the report."""

from __future__ import annotations

import base64
import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml

from hushrank.estimation.common.covariates import STEPS, unpack
from hushrank.estimation.comparisons import covariate_groups
from hushrank.estimation.comparisons.covariate_groups import rank_groups_with_covariates
from hushrank.flows.methods.counts.common import EVENT_IN_ONE_GROUP
from hushrank.flows.methods.registry import METHODS, load_config
from hushrank.flows.planning.plan.choice import methods_to_compare
from hushrank.flows.planning.plan.plan import FEW_OF_EFFECTS, PlanRequest, world_to_plan
from hushrank.flows.planning.plan.survey import FEWEST, Setting, accuracy_of
from hushrank.flows.planning.plan.world import World
from hushrank.pipelines.reduce import reduce
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import system_bits
from hushrank.transforms.storage.files import list_files

MODELS = [f"model-{letter}" for letter in "abcdefgh"]
TRUTH = np.linspace(1, -1, len(MODELS))
ORDER, LENGTH = 0.4, 1.5
SETTINGS = {
    "name": "arena",
    "input": {
        "kind": "comparisons",
        "design": "random",
        "paths": ["battles.parquet"],
        "columns": {
            "user": "judge", "left": "model_a", "right": "model_b", "winner": "winner",
            "first": "model_a",
        },
        "features": [{"left": "length_a", "right": "length_b", "scale": 500, "name": "length"}],
    },
    "items": {"names": MODELS},
    "privacy": {"unit": "user", "epsilon": 6.0, "max_contributions": 4},
    "method": "perturbed-mle",
    "output": "out",
    "confidential": "work",
    "ledger": {"path": "ledger.jsonl", "epsilon": 20, "refresh": "yearly"},
    "runner": "local",
}  # fmt: skip


def battles(rows: int, seed: int = 3) -> pa.Table:
    """Weak models write long answers, and judges like these."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, len(MODELS), rows)
    b = (a + rng.integers(1, len(MODELS), rows)) % len(MODELS)
    lengths = [np.exp(rng.normal(6 - 0.5 * TRUTH[side], 0.3, rows)).round() for side in (a, b)]
    longer = np.clip((lengths[0] - lengths[1]) / 500, -1, 1)
    chance = 1 / (1 + np.exp(TRUTH[b] - TRUTH[a] - ORDER - LENGTH * longer))
    won = rng.random(rows) < chance
    names = np.array(MODELS)
    return pa.table(
        {
            "judge": rng.integers(0, rows // 3, rows),
            "model_a": names[a], "model_b": names[b],
            "winner": np.where(won, names[a], names[b]),
            "length_a": lengths[0], "length_b": lengths[1],
        }
    )  # fmt: skip


@pytest.fixture
def arena(tmp_path: Path) -> Path:
    pq.write_table(battles(24_000), tmp_path / "battles.parquet")
    (tmp_path / "survey.yaml").write_text(yaml.safe_dump(SETTINGS))
    return tmp_path


def changed(folder: Path, **sections: object) -> Path:
    settings = {**SETTINGS, **sections}
    (folder / "survey.yaml").write_text(yaml.safe_dump(settings))
    return folder / "survey.yaml"


def with_input(**keys: object) -> dict[str, object]:
    return {**SETTINGS["input"], **keys}  # type: ignore[dict-item]


def test_effects_and_adjusted_scores_are_released(arena, command):
    code, printed = command("run", arena / "survey.yaml", "--direct")
    assert code == 0, printed
    release = json.loads((arena / "out/release.json").read_text())
    order, length = release["effects"]
    assert (order["name"], order["scale"]) == ("shown first", None)
    assert (length["name"], length["scale"]) == ("length", 500.0)
    for effect, truth in ((order, ORDER), (length, LENGTH)):
        assert effect["low"] < effect["estimate"] < effect["high"]
        assert abs(effect["estimate"] - truth) < 0.35  # some 4 standard errors, noise included
        assert effect["high"] - effect["low"] < 1
    assert [line["item"] for line in release["ranking"]] == MODELS
    table = (arena / "out/effects.csv").read_bytes()
    first, second = csv.DictReader(io.StringIO(table.decode()))
    assert [first["effect"], first["scale"]] == ["shown first", ""]
    assert [second["effect"], second["scale"]] == ["length", "500"]
    assert float(second["low"]) == pytest.approx(length["low"], abs=1e-6)
    share = 1 / (1 + np.exp(-length["estimate"]))
    assert float(second["share"]) == pytest.approx(share, abs=1e-6)
    (kept,) = (arena / "out/releases").iterdir()
    assert (kept / "effects.csv").read_bytes() == table
    assert "effects.csv" in (kept / "SHA256SUMS").read_text()
    released = release["released"]
    assert released["kind"] == "scores-and-effects"
    assert set(released["effects"]) == {"shown first", "length"}
    assert len(released["of_scores"]) == len(MODELS)
    privacy = release["privacy"]
    assert privacy["epsilon"] == 6.0
    assert privacy["parameters"]["scale_of_length"] == 500.0
    assert any("clipped to between -1 and 1" in sentence for sentence in privacy["statement"])
    assert any("scales of the covariates" in each for each in privacy["not_protected"])
    report = (arena / "out/report.html").read_text()
    assert '<h2 id="effects">Effects</h2>' in report
    assert "500 extra units of length win" in report
    assert base64.b64encode(table).decode() in report
    code, printed = command("history", arena / "out", "--verify")
    assert code == 0, printed
    (kept / "effects.csv").chmod(0o600)
    (kept / "effects.csv").write_bytes(table + b"more")
    code, printed = command("history", arena / "out", "--verify")
    assert code != 0
    assert "effects.csv: was changed after it was published" in " ".join(printed.split())
    left = {path.name for path in (arena / "work").rglob("*") if path.is_file()}
    assert "exact.npz" not in left


def test_a_plan_invents_surveys_without_effects(arena):
    """With the noise that covariates cost; methods that do not look at them are not compared."""
    config = load_config(arena / "survey.yaml")
    assert methods_to_compare(config) == ("perturbed-mle",)
    setting = Setting(method="perturbed-mle", epsilon=4.0, people=4_000, answers=4)
    found = accuracy_of(config, setting, World(replicates=2))
    assert found.informative == 1
    assert 0 < found.error < found.equal


def reduced(folder: Path, config: Path) -> dict[str, np.ndarray]:
    survey = load_config(config)
    method = METHODS["perturbed-mle"]
    mechanism = method.calibrate(survey)
    files = tuple(list_files(survey.input.paths))
    key = SecretKey.draw(system_bits())
    work = folder / "exact"
    work.mkdir()
    reduce.run(method.reduction(survey, mechanism, files, key, str(work)))
    with np.load(work / "exact.npz") as arrays:
        return dict(arrays)


def test_what_is_counted_is_what_the_rows_say(tmp_path):
    """Unit comparison, every row counts: the same as by hand, from CSV, in words of either side."""
    table = battles(500)
    pyarrow.csv.write_csv(table, tmp_path / "battles.csv")
    config = changed(
        tmp_path,
        input=with_input(paths=["battles.csv"]),
        privacy={"unit": "comparison", "epsilon": 1.0},
    )
    arrays = reduced(tmp_path, config)
    steps = unpack(arrays["words"], 2)
    found = sorted(
        zip(arrays["cells"].tolist(), *steps.T.tolist(), arrays["counts"].tolist(), strict=True)
    )
    expected: dict[tuple[int, int, int], int] = {}
    for row in table.to_pylist():
        a, b = MODELS.index(row["model_a"]), MODELS.index(row["model_b"])
        share = min(max((row["length_a"] - row["length_b"]) / 500, -1), 1)
        z = round(share * STEPS)
        won = row["winner"] == row["model_a"]
        cell = (a * 8 + b, STEPS, z) if won else (b * 8 + a, -STEPS, -z)
        expected[cell] = expected.get(cell, 0) + 1
    assert found == sorted((*cell, times) for cell, times in expected.items())


REFUSED = {
    "another method": (
        {"method": "noisy-pairs"},
        "input.features: is for method: perturbed-mle; remove it, or write that method",
    ),
    "gaussian": (
        {"method": "noisy-objective"},
        "input.columns.first: is for method: perturbed-mle",
    ),
    "another link": (
        {"model": {"link": "laplace"}},
        "model.link: must be logistic with covariates",
    ),
    "published constants": (
        {"model": {"constants": "paper"}},
        "model.constants: must be tight with covariates",
    ),
    "expected comparisons": (
        {"model": {"expected_comparisons": 50}},
        "model.expected_comparisons: not with covariates",
    ),
    "too small a ridge": (
        {"model": {"gamma": 0.001}},
        "model.gamma: ridge 0.001 is too small: at epsilon",
    ),
    "no column": (
        {"input": with_input(features=[{"scale": 5}])},
        "input.features[0]: needs column, or left and right",
    ),
    "one side": (
        {"input": with_input(features=[{"left": "length_a", "scale": 5}])},
        "needs column, or left and right",
    ),
    "no scale": (
        {"input": with_input(features=[{"column": "length_a"}])},
        "input.features[0].scale: missing; add for example scale: 500",
    ),
    "one name twice": (
        {"input": with_input(features=[{"column": "length_a", "scale": 5}] * 2)},
        "two effects have the name length_a",
    ),
    "nine features": (
        {"input": with_input(features=[{"column": f"f{i}", "scale": 1} for i in range(9)])},
        "input.features",
    ),
    "the winner is first": (
        {"input": with_input(columns={**SETTINGS["input"]["columns"], "first": "winner"})},  # type: ignore[index]
        "columns.first: column winner does not say who was shown first",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_does_not_go_together_is_refused(arena, command, case):
    changes, told = case
    code, printed = command("validate", changed(arena, **changes))
    assert code == 2
    assert told in printed


def test_jobs_without_covariates_keep_their_identity(arena):
    plain = with_input()
    del plain["features"]
    plain["columns"] = {
        key: column
        for key, column in plain["columns"].items()
        if key != "first"  # type: ignore[attr-defined]
    }
    before = load_config(changed(arena, input=plain)).job_hash()
    assert load_config(changed(arena, input={**plain, "features": []})).job_hash() == before
    assert load_config(changed(arena)).job_hash() != before


def test_real_judges_of_language_models(tmp_path, command, real_data):
    """Crowd judges of 59 models: the left answer has no clear advantage, and the ranking stands."""
    data = real_data / "pair_llmfao.parquet"
    sides = {"left": "item_i", "right": "item_j"}
    columns = {"user": "user", **sides, "outcome": "outcome", "first": "item_i"}
    config = changed(
        tmp_path,
        input={
            "kind": "comparisons", "paths": [str(data)], "columns": columns, "ties": "split",
            "design": "random",
        },
        items={"count": 59},
        privacy={"unit": "comparison", "epsilon": 4.0},
    )  # fmt: skip
    code, printed = command("run", config, "--direct")
    assert code == 0, printed
    release = json.loads((tmp_path / "out/release.json").read_text())
    (effect,) = release["effects"]
    assert abs(effect["estimate"]) < 0.5
    assert effect["high"] - effect["low"] < 1


LANGUAGES = ["English", "Polish", "Czech"]
GROUPS = {"column": "language", "values": LANGUAGES}


@pytest.fixture
def languages(arena: Path) -> Path:
    """The same arena, of which a tenth is in Polish and a fiftieth in Czech."""
    table = battles(24_000)
    place = np.random.default_rng(6).choice(4, len(table), p=[0.78, 0.1, 0.02, 0.1])
    names = np.array([*LANGUAGES, "Latin"])[place]
    table = table.append_column("language", pa.array(names))
    pq.write_table(table, arena / "battles.parquet")
    return arena


def test_each_group_has_a_ranking_and_effects_of_its_own(languages, command):
    survey = changed(languages, groups={**GROUPS, "others": "whole"})
    code, printed = command("run", survey, "--direct")
    assert code == 0, printed
    said = " ".join(printed.split())
    assert "The item that is shown first wins" in said
    assert "Effects of each group are in the report, effects.csv and release.json." in said
    release = json.loads((languages / "out/release.json").read_text())
    assert [group["name"] for group in release["groups"]] == LANGUAGES
    truth = {"shown first": ORDER, "length": LENGTH}
    for board in (release, *release["groups"]):
        assert board["released"]["kind"] == "scores-and-effects"
        for effect in board["effects"]:
            # About 4 standard errors; for eight effects wrong in one of 1,000 runs or fewer.
            reach = float(effect["high"]) - float(effect["low"])
            assert abs(effect["estimate"] - truth[effect["name"]]) < reach
    assert release["ranking"][0]["item"] == MODELS[0]
    table = list(csv.DictReader(io.StringIO((languages / "out/effects.csv").read_text())))
    assert [row["board"] for row in table] == [b for b in ("", *LANGUAGES) for _ in range(2)]
    privacy = release["privacy"]
    assert privacy["epsilon"] == 6.0
    assert any(
        "apart for 3 groups and for all other answers, and for all answers together" in sentence
        for sentence in privacy["statement"]
    )
    certificate = json.loads((languages / "out/certificate.json").read_text())
    scores = certificate["draws"][0]
    assert scores["cover"]["values"] == 5 * 10  # three groups, others, the whole
    assert scores["inputs"]["fits"] == 2
    code, printed = command("verify", languages / "out")
    assert code == 0, printed
    page = (languages / "out/report.html").read_text()
    assert page.count('aria-label="Effects of ') == 3


def test_python_shows_the_effects_of_groups(languages):
    import hushrank as hr

    release = hr.run(changed(languages, groups=GROUPS))
    effects = release.effects.to_arrow().to_pylist()
    assert [(row["board"], row["name"]) for row in effects] == [
        (board, name) for board in ("", *LANGUAGES) for name in ("shown first", "length")
    ]
    assert release.ties is None
    assert set(release.groups) == set(LANGUAGES)


def test_a_board_shows_the_effects_of_each_ranking(languages, tmp_path):
    import hushrank as hr

    survey = changed(languages, groups=GROUPS)
    release = hr.run(survey).record
    hr.board(survey, out=tmp_path / "site")
    names = ["index.html", *(f"group-{number}.html" for number in range(1, 4))]
    for name, effects in zip(
        names, [release.effects, *(group.effects for group in release.groups)], strict=True
    ):
        page = (tmp_path / "site" / name).read_text(encoding="utf-8")
        assert ("These effects are of all groups together." in page) == (name == "index.html")
        for effect in effects:
            assert f'<th scope="row">{effect.name}</th>' in page
            assert f'<td class="number">{effect.estimate:.2f}</td>' in page


def test_a_plan_ranks_groups_in_few_surveys(languages, command, monkeypatch):
    """Ranking groups takes longer than all else, and most of a plan is about the whole."""
    ranked = []

    def counted(*args):
        ranked.append(len(args[0]))
        return rank_groups_with_covariates(*args)

    monkeypatch.setattr(covariate_groups, "rank_groups_with_covariates", counted)
    survey = changed(languages, groups={**GROUPS, "others": "whole"})
    code, printed = command("plan", survey, "--people", "3000", "--epsilon", "6")
    assert code == 0, printed
    assert "Groups at epsilon 6" in printed
    assert set(ranked) == {4}
    assert len(ranked) <= FEWEST
    config = load_config(survey)
    world = world_to_plan(config, PlanRequest(people=(3000,)), World())
    assert world.replicates == FEW_OF_EFFECTS


def test_what_is_said_of_answers_in_several_groups_can_be_done(languages, command):
    """`groups.most` is refused together with covariates, so nobody is told to set it."""
    table = pq.read_table(languages / "battles.parquet")
    event = pa.array([str(row) for row in range(len(table))])
    pq.write_table(table.append_column("event", event), languages / "battles.parquet")
    columns = {**SETTINGS["input"]["columns"], "event": "event"}
    survey = changed(languages, groups=GROUPS, input={**SETTINGS["input"], "columns": columns})
    code, printed = command("run", survey, "--direct")
    assert code == 0, printed
    release = json.loads((languages / "out/release.json").read_text())
    assert EVENT_IN_ONE_GROUP in release["warnings"]
    assert "groups.most" not in " ".join(release["warnings"])
    code, printed = command("inspect", changed(languages, groups=GROUPS), "--yes-confidential")
    assert code == 0, printed
    said = " ".join(printed.split())
    assert "alike but for their group" in said
    assert "groups.most" not in said


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"groups": {**GROUPS, "most": 2, "separator": ";"}}, "groups.most"),
        ({"method": "noisy-objective", "groups": GROUPS}, "groups"),
        (
            {"groups": GROUPS, "schedule": {"stream": {"nights": 7, "participations": 1}}},
            "schedule.stream",
        ),
    ],
)
def test_groups_that_cannot_have_covariates_are_refused(languages, command, sections, key):
    code, printed = command("validate", changed(languages, **sections))
    assert code == 2
    assert key in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize("groups", [None, GROUPS])
def test_auto_takes_the_method_that_knows_covariates(languages, command, groups):
    sections = {"method": "auto"} | ({} if groups is None else {"groups": groups})
    code, printed = command("validate", changed(languages, **sections))
    assert code == 0, printed
    assert "method perturbed-mle" in " ".join(printed.split())
    code, printed = command(
        "validate", changed(languages, **sections, input=with_input(design="any"))
    )
    assert code == 2
    assert "input.design" in printed
