"""Designs that operators state: what `auto`, `win-loss` and `perturbed-mle` make of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.counts.win_loss import ReleasedWinLoss
from hushrank.flows.methods.likelihood.perturbed_mle import MLE, PerturbedLikelihood
from hushrank.flows.methods.registry import METHODS, load_config
from tests.flows.conftest import ITEMS

MANY = [f"item {number}" for number in range(60)]
PERSON = {"unit": "user", "epsilon": 2.0, "max_contributions": 6}
# Of a job of before designs were stated, by the code of then.
HASH_OF_OLD = "d6409d003658f051e01b1645aca642373bbd096c5c29bfd04210127b5e07b5f2"
REJECTED: list[dict] = [
    *({"privacy": {"epsilon": epsilon}} for epsilon in (0.01, 1.0, 20.0)),
    {"privacy": {"epsilon": 2.0, "adjacency": "add-remove"}},
    {"privacy": {"epsilon": 2.0, "distinct_pairs": True}},
    {"privacy": {"epsilon": 2.0, "per_item_cap": 1}},
    {"privacy": {"epsilon": 2.0, "delta": 1e-6, "noise": "gaussian"}},
    {
        "privacy": {
            "epsilon": 2.0,
            "public_graph": True,
            "public_graph_statement": "all saw all pairs",
        }
    },
    *(
        {"privacy": {"epsilon": 2.0}, "model": model}
        for model in (
            {"link": "laplace"},
            {"expected_comparisons": 1e7},
        )
    ),
]
OLD = """
name: zoo
input: {kind: comparisons, paths: [/data/answers.parquet], columns: {left: item_i, right: item_j}}
items: {names: [ants, bees, cats, dogs]}
privacy: {unit: user, epsilon: 2.0, max_contributions: 6, distinct_pairs: true}
method: noisy-counts
output: out
confidential: work
ledger: {path: ledger.jsonl, epsilon: 5}
"""


def released(survey) -> dict:
    return json.loads((survey.output / "release.json").read_text())


def chosen(survey, **changes) -> str:
    config = load_config(survey.set(method="auto", **changes).config)
    return METHODS["auto"].resolve(config).method.facts.name


def unequal_answers(people: int) -> pa.Table:
    """Ants are in nearly every comparison; who wins is a coin's choice."""
    rng = np.random.default_rng(2)
    first = np.where(rng.random(6 * people) < 0.9, 0, rng.integers(0, 4, 6 * people))
    second = (first + rng.integers(1, 4, 6 * people)) % 4
    return pa.table(
        {
            "user": np.repeat(np.arange(people), 6),
            "item_i": pa.array(np.array(ITEMS)[first]),
            "item_j": pa.array(np.array(ITEMS)[second]),
            "outcome": rng.choice([-1, 1], 6 * people).astype(np.int8),
        }
    )


class TestAuto:
    """The method of least noise that is right for the design."""

    @pytest.mark.parametrize(
        ("design", "method"),
        [("balanced", "win-loss"), ("random", "win-loss"), ("any", "noisy-pairs")],
    )
    def test_of_many_items(self, survey, design, method):
        assert chosen(survey, items={"names": MANY}, input__design=design) == method

    @pytest.mark.parametrize(
        ("answers", "method"), [(15, "noisy-counts"), (10, "noisy-counts"), (4, "win-loss")]
    )
    def test_wins_alone_are_enough_where_everybody_is_asked_about_most_pairs(
        self, survey, answers, method
    ):
        privacy = {**PERSON, "max_contributions": answers, "distinct_pairs": True}
        of = {"items": {"count": 6}, "input__design": "balanced", "privacy": privacy}
        assert chosen(survey, **of) == method

    def test_few_items_leave_room_for_pairs(self, survey):
        assert chosen(survey, input__design="any", privacy=PERSON) == "noisy-pairs"

    def test_so_do_many_answers_on_distinct_pairs_with_gaussian_noise(self, survey):
        privacy = {"unit": "user", "epsilon": 1.0, "delta": 1e-6, "noise": "gaussian"}
        privacy |= {"max_contributions": 300, "distinct_pairs": True}
        assert chosen(survey, items={"count": 30}, privacy=privacy) == "noisy-pairs"

    def test_a_link_without_a_bound_rules_likelihood_out(self, survey):
        of = {"items": {"names": MANY}, "input__design": "any"}
        assert chosen(survey, **of, model={"link": "probit"}) == "noisy-pairs"

    def test_too_many_items_for_all_that_suit(self, survey):
        survey.set(method="auto", items={"count": 5_000}, input__design="random")
        with pytest.raises(ConfigError, match=r"model\.expected_comparisons: missing; with more"):
            METHODS["auto"].resolve(load_config(survey.config))
        assert chosen(survey, model={"expected_comparisons": 500}) == "perturbed-mle"

    def test_where_nobody_says_who_met_whom_none_is_taken_that_supposes_chance(self, survey):
        survey.set(method="auto", items={"count": 5_000}, input__design="any")
        for items, said in (
            (2_500, r"compared in model\.exposures, or write"),
            (5_000, "it: write"),
        ):
            with pytest.raises(
                ConfigError, match=rf"{said} random .*else rank at most 2,000 items"
            ):
                METHODS["auto"].resolve(load_config(survey.set(items={"count": items}).config))

    def test_the_noise_that_it_compares_is_the_noise_that_is_drawn(self, survey):
        survey.set(items={"names": MANY}, input__design="balanced", privacy=PERSON)
        config = load_config(survey.set(method="auto").config)
        b = 2 * 6 / 2.0  # sensitivity 2 L over epsilon, of wins
        expected = {
            "noisy-counts": 2 * b**2,
            "win-loss": (2 * b) ** 2,  # sensitivity 4 L, halved difference of two draws
            "noisy-pairs": 59 * b**2,
            "perturbed-mle": 2 * (2 * b / 0.875 / 0.99) ** 2,
        }
        for name, variance in expected.items():
            method = METHODS[name]
            found = method.noise_in_net_wins(method.calibrate(config))
            assert found == pytest.approx(variance, rel=0.02), name

    @pytest.mark.parametrize("design", ["balanced", "random", "any"])
    @pytest.mark.parametrize(("items", "answers"), [(2, 1), (4, 6), (6, 15), (25, 6), (60, 40)])
    def test_a_bound_rejects_only_what_calibration_would(
        self, survey, monkeypatch, design, items, answers
    ):
        rejected = 0
        for changes in REJECTED:
            privacy = {"unit": "user", "max_contributions": answers, **changes["privacy"]}
            of = {"items": {"count": items}, "input__design": design, "input__ties": "split"}
            survey.set(method="auto", **of, privacy=privacy, model=changes.get("model", {}))
            config = load_config(survey.config)
            quick = METHODS["auto"].resolve(config)
            bound = MLE.least_noise_in_net_wins(config)
            with monkeypatch.context() as slow:
                slow.setattr(PerturbedLikelihood, "least_noise_in_net_wins", lambda *_: 0.0)
                whole = METHODS["auto"].resolve(config)
            assert quick == replace(whole, reason=quick.reason), changes
            assert quick.mechanism == whole.mechanism, changes
            if bound and "(perturbed-mle)" in whole.reason:
                variance = MLE.noise_in_net_wins(MLE.calibrate(config))
                assert float(f"{bound**0.5:.3g}") <= variance**0.5, changes
            if "at least" in quick.reason:
                rejected += 1
                assert "at least" not in whole.reason
                assert "perturbed-mle" in whole.reason
        assert rejected > 0 or design != "random"

    def test_it_says_why_and_the_release_records_it(self, survey, command):
        survey.set(
            method="auto", input__design="random", items={"names": [*ITEMS, *MANY], "first_code": 0}
        )
        code, printed = command("validate", survey.config)
        assert code == 0, printed
        why = (
            "chance decided which items met (input.design: random); standard error of a win count: "
        )
        assert f"method win-loss, because {why}" in " ".join(printed.split())
        code, printed = command("run", survey.config)
        assert code == 0, printed
        release = released(survey)
        assert release["method"] == "win-loss"
        assert release["privacy"]["parameters"]["method_chosen_because"].startswith(why)

    def test_it_reads_no_row(self, survey):
        (survey.folder / "answers.parquet").unlink()
        assert chosen(survey, input__design="balanced")


class TestStatedDesigns:
    """`input.design`."""

    @pytest.mark.parametrize("design", [None, "random", "any"])
    def test_wins_alone_need_a_balanced_one(self, survey, design):
        with pytest.raises(ConfigError) as caught:
            load_config(survey.set(input__design=design).config)
        assert str(caught.value).endswith(
            "survey.yaml: input.design: method: noisy-counts ranks by wins, and so by how often an"
            " item was shown too: write balanced if every pair of items was asked about equally"
            " often, else set method: auto"
        )

    def test_wins_and_losses_need_partners_by_chance(self, survey):
        with pytest.raises(ConfigError, match=r"else set method: noisy-pairs"):
            load_config(survey.set(method="win-loss", input__design="any").config)

    @pytest.mark.parametrize("method", ["noisy-counts", "win-loss"])
    def test_they_are_part_of_the_statement(self, survey, command, method):
        code, printed = command("run", survey.set(method=method).config)
        assert code == 0, printed
        said = " ".join(released(survey)["privacy"]["statement"])
        assert "The operator states that every pair of items was asked about equally often" in said

    def test_a_job_of_before_is_the_same_job(self, tmp_path):
        text = OLD.replace("{kind: comparisons,", "{kind: comparisons, design: balanced,")
        Path(tmp_path, "old.yaml").write_text(text)
        assert load_config(tmp_path / "old.yaml").job_hash() == HASH_OF_OLD

    def test_another_design_is_another_job_where_it_decides(self, survey):
        hashes = {
            load_config(survey.set(method="auto", input__design=design).config).job_hash()
            for design in ("balanced", "random", "any")
        }
        assert len(hashes) == 3


class TestWinLoss:
    """`method: win-loss`."""

    def test_a_run_releases_wins_and_losses(self, survey, command):
        code, printed = command("run", survey.set(method="win-loss", input__design="random").config)
        assert code == 0, printed
        release = released(survey)
        assert release["released"]["kind"] == "win-loss-counts"
        assert list(release["released"]["losses"]) == ITEMS
        assert release["scale"] == "log-odds"
        assert release["ranking"][0]["item"] == "ants"
        assert release["privacy"]["sensitivity_l1"] == 16  # 6 distinct pairs of 4 items, not 4 * 6
        assert release["privacy"]["noise_scale"] == pytest.approx(8, rel=1e-6)
        report = (survey.output / "report.html").read_text()
        assert '<h2 id="scores">' in report
        parts = ReleasedWinLoss.model_validate(release["released"])
        assert parts.wins["ants"] > parts.losses["ants"]

    def test_a_design_that_was_not_balanced_is_told(self, survey, command):
        pq.write_table(unequal_answers(2_000), survey.folder / "answers.parquet")
        survey.set(method="win-loss", input__design="balanced", privacy=PERSON)
        command("run", survey.config)
        (warning,) = (line for line in released(survey)["warnings"] if "was not so" in line)
        assert "method noisy-counts would not" in warning

    def test_a_balanced_one_is_not_blamed(self, survey, command):
        command("run", survey.set(method="win-loss", input__design="balanced").config)
        assert not [line for line in released(survey)["warnings"] if "was not so" in line]

    def test_what_is_shown_most_does_not_lead_for_that(self, survey, command):
        pq.write_table(unequal_answers(2_000), survey.folder / "answers.parquet")
        command("run", survey.set(method="noisy-counts", privacy=PERSON).config)
        first = released(survey)["ranking"][0]
        assert (first["item"], first["rank_high"]) == ("ants", 1)  # sure, and wrong
        survey.set(method="win-loss", input__design="random", output="other")
        command("run", survey.config)
        ants = next(line for line in released_in(survey, "other") if line["item"] == "ants")
        assert ants["low"] < 0 < ants["high"]
        assert (ants["rank_low"], ants["rank_high"]) == (1, 4)


def released_in(survey, output: str) -> list[dict]:
    return json.loads((survey.folder / output / "release.json").read_text())["ranking"]


class TestExposures:
    """`method: perturbed-mle` without `model.expected_comparisons`."""

    def test_a_share_of_epsilon_pays_for_them(self, survey, command):
        survey.set(method="perturbed-mle", input__design="random", privacy=PERSON)
        code, printed = command("run", survey.config)
        assert code == 0, printed
        release = released(survey)
        privacy, exposures = release["privacy"], release["released"]["exposures"]
        assert list(exposures) == ITEMS
        assert privacy["epsilon"] == 2.0
        assert privacy["parameters"]["exposures_epsilon"] == 0.25
        assert privacy["parameters"]["exposures_noise_scale"] == pytest.approx(24 / 0.25, rel=1e-6)
        parts = privacy["sensitivity"] / privacy["noise_scale"]
        parts += privacy["parameters"]["epsilon_det"] + privacy["parameters"]["epsilon_out"]
        assert parts <= 1.75
        assert parts == pytest.approx(1.75, rel=1e-3)
        assert "expected_comparisons" not in privacy["parameters"]
        said = " ".join(privacy["statement"])
        assert "They take 0.25 of epsilon, and the scores 1.75." in said
        assert "The scores' epsilon of 1.75 has three parts" in said
        assert f"{2.0:.2f}" in printed

    @pytest.mark.parametrize("method", ["perturbed-mle", "noisy-objective"])
    def test_where_nobody_says_who_met_whom_they_are_asked_for(self, survey, command, method):
        gaussian = PERSON | {"noise": "gaussian", "delta": 1e-6}
        survey.set(method=method, input__design="any", privacy=gaussian)
        survey.set(ledger__delta=1e-5)
        code, printed = command("run", survey.config)
        assert code == 2
        assert "input.design: any leaves open which items met" in printed
        assert not (survey.folder / "ledger.jsonl").exists()

    def test_on_a_public_graph_they_are_public(self, survey, command):
        privacy = PERSON | {"public_graph": True, "public_graph_statement": "all saw all pairs"}
        survey.set(method="perturbed-mle", input__ties="random", privacy=privacy)
        code, printed = command("run", survey.config)
        assert code == 0, printed
        release = released(survey)
        assert release["released"]["exposures"] == dict.fromkeys(ITEMS, 600.0)
        assert "exposures_epsilon" not in release["privacy"]["parameters"]
        said = " ".join(release["privacy"]["statement"])
        assert "They follow from who compared what, which is public, and carry no noise." in said

    def test_intervals_follow_the_exposure(self, survey, command):
        pq.write_table(unequal_answers(3_000), survey.folder / "answers.parquet")
        survey.set(method="perturbed-mle", input__design="random", privacy=PERSON)
        command("run", survey.config)
        width = {line["item"]: line["high"] - line["low"] for line in released(survey)["ranking"]}
        assert width["ants"] < min(width[item] for item in ITEMS if item != "ants")
