"""`privacy.unit: local` from the configuration to the release."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.estimation.common.links import link_named
from hushrank.estimation.fit.pair_fit import AnswerVariance, DebiasedFit, fit_scores
from hushrank.estimation.fit.presentation import OrderSums
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.fit.weighted_pairs import WeightedPairs
from hushrank.flows.methods.registry import METHODS, load_config
from hushrank.flows.statement.local import shuffled_guarantee
from hushrank.privacy.amplification import shuffled_bit_epsilon
from hushrank.privacy.randomized_response import attenuation, flip_thresholds
from hushrank.transforms.comparisons.privatize import Answers, PrivateAnswers, order_of
from hushrank.verifier.verify_release import unlike_order, unlike_weights
from tests.flows.conftest import ITEMS, answers
from tests.flows.scenarios.test_run import states_of

LOCAL = {"unit": "local", "epsilon": 2.0}


def with_epsilons(people: int) -> pa.Table:
    log = answers(people)
    levels = np.random.default_rng(3).choice([0.5, 1.0, 3.0], people)
    return log.append_column("epsilon", pa.array(np.repeat(levels, 6)))


@pytest.fixture
def local(survey):
    return survey.set(privacy=dict(LOCAL), method="debiased-rr", input__ties="random")


@pytest.fixture
def with_column(local):
    pq.write_table(with_epsilons(2000), local.folder / "answers.parquet")
    return local.set(
        privacy={"unit": "local", "epsilon_range": [0.1, 3.0]}, input__columns__epsilon="epsilon"
    )


def run(survey, command, output: str = "out") -> tuple[dict, str]:
    code, printed = command("run", survey.set(output=output).config, "--direct")
    assert code == 0, printed
    return json.loads((survey.folder / output / "release.json").read_text()), printed


def refused(survey, command) -> str:
    code, printed = command("validate", survey.config)
    assert code == 2
    return printed.replace(f"{survey.config}: ", "").strip()


def test_a_run_with_an_epsilon_a_person_finds_the_order(with_column, command):
    release, printed = run(with_column.set(top_k=2), command)
    assert release["safe"] is True
    assert release["scale"] == "log-odds"
    assert [line["item"] for line in release["ranking"]] == ITEMS
    assert release["top_k"] == ITEMS[:2]
    assert all(line["low"] < line["score"] < line["high"] for line in release["ranking"])
    privacy = release["privacy"]
    assert (privacy["unit"], privacy["adjacency"]) == ("local", "replace-one")
    assert privacy["epsilon"] == 3.0
    assert privacy["mechanism"] == "randomised-response"
    assert privacy["parameters"]["epsilon_of_an_answer"] == "0.1 to 3"
    assert privacy["parameters"]["predicted_largest_error"] > 0
    assert "Which pairs were compared" in privacy["not_protected"][0]
    expected = privacy["parameters"]["predicted_largest_error"]
    assert f"the largest error of a score is about {expected:.2g}." in " ".join(printed.split())
    assert "Spent epsilon 3.00; zoo has epsilon 2.00 left" in printed
    assert states_of(with_column) == ["open", "reserve", "draw", "commit"]

    before = release
    release, printed = run(with_column, command)
    assert "This release was drawn before: nothing was spent now." in printed
    assert release == before


def test_the_page_shows_which_epsilons_people_chose_and_what_lies_could_do(with_column, command):
    release, _ = run(with_column.set(ledger__epsilon=10), command)
    chosen = release["released"]["chosen"]
    assert (chosen["low"], chosen["high"]) == (0.1, 3.0)
    assert sum(chosen["answers"]) == 2000 * 6
    assert sum(count > 0 for count in chosen["answers"]) == 3
    assert chosen["information"][-1] == max(chosen["information"])
    page = (with_column.folder / "out" / "report.html").read_text()
    assert "Which epsilons people chose" in page
    assert "ranking leans to the others" in " ".join(page.split())
    assert f"at most about {chosen['weight_of_lies']:.1f} percentage points" in page

    capped, _ = run(with_column.set(model={"epsilon_cap": 1.0}), command, "out2")
    assert [line["item"] for line in capped["ranking"]] == ITEMS
    assert capped["released"]["chosen"]["answers"] == chosen["answers"]
    assert capped["released"]["chosen"]["weight_of_lies"] < chosen["weight_of_lies"]


def test_answers_of_people_with_an_own_epsilon_weigh_as_the_job_says(with_column, command):
    """Nobody's answers go with epsilon here, so a release warns of that in 5 % of draws."""
    with_column.set(ledger__epsilon=10)
    release, _ = run(with_column, command)
    told, sums = release["privacy"]["parameters"], release["released"]["alike"]
    assert told["weights"] == "precision"
    assert told["effective_answers"] < 2000 * 6
    t = {each: math.tanh(each / 2) for each in (0.1, 0.5, 1.0, 3.0)}
    assert np.sum(sums["w"]) == pytest.approx(2000 * 6 * t[0.1] * 2**30, rel=1e-7)
    assert all("People who chose more" in each for each in release["warnings"])
    equal, _ = run(with_column.set(model={"weights": "equal"}), command, "equal")
    assert equal["released"]["alike"]["w"] == sums["w"]
    told = equal["privacy"]["parameters"]
    assert told["weights"] == "equal"
    assert told["effective_answers"] == pytest.approx(2000 * 6, rel=1e-7)
    assert (
        told["predicted_typical_error"]
        > 1.5 * (release["privacy"]["parameters"]["predicted_typical_error"])
    )
    assert equal["warnings"] == []
    assert equal["released"]["chosen"]["weight_of_lies"] == pytest.approx(1 / t[0.1])
    page = " ".join((with_column.folder / "equal" / "report.html").read_text().split())
    assert "Here all answers count alike (model.weights: equal)" in page
    assert "ranking leans to the others" not in page
    assert [line["item"] for line in equal["ranking"]] == ITEMS
    for output in ("out", "equal"):
        code, printed = command("verify", with_column.folder / output)
        assert code == 0, printed
        assert "the weights of people who chose their own epsilon follow from the sums" in printed


def test_people_who_chose_more_privacy_and_answer_otherwise_are_told_of(with_column, command):
    log = pq.read_table(with_column.folder / "answers.parquet")
    careful = log["epsilon"].to_numpy() < 2
    outcome = np.where(careful, -log["outcome"].to_numpy(), log["outcome"].to_numpy())
    log = log.set_column(log.column_names.index("outcome"), "outcome", pa.array(outcome))
    pq.write_table(log, with_column.folder / "answers.parquet")
    release, printed = run(with_column.set(ledger__epsilon=10), command)
    assert "People who chose more privacy may answer differently" in release["warnings"][0]
    assert "model.weights: equal counts all alike" in " ".join(printed.split())
    assert list(unlike_weights(release)) == []
    for name, change in (("weights", "none"), ("effective_answers", 1.0)):
        forged = json.loads(json.dumps(release))
        forged["privacy"]["parameters"][name] = change
        assert list(unlike_weights(forged)) == [f"parameters.{name}"]
    forged = json.loads(json.dumps(release))
    forged["warnings"] = []
    assert list(unlike_weights(forged)) == ["warnings"]
    for name in ("w", "squares", "squared_weights"):
        forged = json.loads(json.dumps(release))
        forged["released"]["alike"][name][0][1] *= 10_000
        assert f"released.alike.{name}" in list(unlike_weights(forged))
    equal, _ = run(with_column.set(model={"weights": "equal"}), command, "equal")
    assert not any("more privacy" in each for each in equal["warnings"])


def test_a_result_of_one_epsilon_is_said_to_be_that(with_column, command):
    """A tenth of people with epsilon 3, the others with 0.1, have 98 % of the weight."""
    log = pq.read_table(with_column.folder / "answers.parquet")
    own = np.where(np.arange(len(log)) // 6 % 10 == 0, 3.0, 0.1)
    log = log.set_column(log.column_names.index("epsilon"), "epsilon", pa.array(own))
    pq.write_table(log, with_column.folder / "answers.parquet")
    release, _ = run(with_column, command)
    assert any(
        each.startswith("97 % of the weight is that of answers with epsilon 2.85 to 3, so")
        for each in release["warnings"]
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"privacy": dict(LOCAL), "input__columns__epsilon": None},
            "model.weights: is for answers whose epsilons differ; remove it",
        ),
        (
            {"privacy__budget": "per_user"},
            "model.weights: needs privacy.budget: per_comparison; remove one of the two",
        ),
        (
            {"model": {"weights": "equal", "epsilon_cap": 1.0}},
            "model.epsilon_cap: is for model.weights: precision; remove one of the two",
        ),
        ({"method": "laplace-rr"}, "model.weights: "),
    ],
)
def test_equal_weights_that_mean_nothing_are_refused(with_column, command, changes, message):
    printed = refused(with_column.set(model={"weights": "equal"}).set(**changes), command)
    assert message in printed


@pytest.mark.parametrize("cap", [0.05, 3.0])
def test_a_cap_outside_the_epsilons_of_the_job_is_refused(with_column, command, cap):
    printed = refused(with_column.set(model={"epsilon_cap": cap}), command)
    assert (
        "model.epsilon_cap: must lie within the epsilons that the job accepts, 0.1 to 3" in printed
    )


def test_scores_follow_from_the_released_sums_alone(with_column, command):
    release, _ = run(with_column.set(model={"link": "probit", "ridge": 2.0}), command)
    released = release["released"]
    assert released["kind"] == "private-sums"
    pairs = WeightedPairs(np.array(released["s"]), np.array(released["w"]), released["g"])
    least = attenuation(flip_thresholds(np.array([0.1])))[0] ** 2
    fit = fit_scores(pairs, link_named("probit"), AnswerVariance(least_weight=least), 2.0)
    by_name = {line["item"]: line["score"] for line in release["ranking"]}
    np.testing.assert_allclose([by_name[item] for item in ITEMS], fit.scores, atol=1e-12)
    assert release["scale"] == "probit"


def test_true_answers_are_nowhere_outside_the_confidential_area(local, command):
    """Everybody answers alike, so the sums without noise are known; names are unmistakable."""
    canary = 98_765_432_109_000  # no other number begins with so many of its digits
    log = answers(50)
    log = log.set_column(0, "user", pa.array(log["user"].to_numpy() + canary))
    log = log.set_column(3, "outcome", pa.array(np.ones(len(log), np.int8)))
    pq.write_table(log, local.folder / "answers.parquet")
    release, printed = run(local.set(privacy__epsilon=0.5), command)
    t = attenuation(flip_thresholds(np.array([0.5])))[0]
    exact = round(50 * t * (1 + t) / 2 * 2**30)  # S of a pair, had no answer been flipped
    sums = [s for row in release["released"]["s"] for s in row if s]
    assert all(abs(s - exact) > 2**20 for s in sums)
    outside = [path for path in local.folder.rglob("*") if path.is_file()]
    outside = [path for path in outside if local.work not in path.parents]
    texts = [path.read_bytes() for path in outside if path.name != "answers.parquet"]
    assert texts
    assert not any(str(canary)[:-3].encode() in text for text in [*texts, printed.encode()])
    inside = sorted(path.name for path in local.work.rglob("*") if path.is_file())
    assert inside == ["diagnostics.json", "drawn.npz", "ledgers.json"]
    with np.load(next(local.work.rglob("drawn.npz"))) as drawn:
        assert sorted(drawn) == ["code_version", "created", "g", "law", "s", "w"]
        np.testing.assert_array_equal(drawn["s"], release["released"]["s"])


def test_per_user_and_a_bound_are_charged_for_the_person(local, command):
    local.set(privacy=LOCAL | {"budget": "per_user", "max_contributions": 4})
    release, printed = run(local, command)
    privacy = release["privacy"]
    assert privacy["epsilon"] == privacy["parameters"]["epsilon_of_a_person_at_most"] == 2.0
    assert privacy["max_contributions"] == 4
    # Everybody gave 6 answers, 4 count, each at epsilon 2 / 4.
    share = flip_thresholds(np.array([np.nextafter(0.5, 0)]))
    weight = np.rint(attenuation(share)[0] ** 2 * 2**30)
    assert abs(np.sum(release["released"]["w"]) - 200 * 4 * weight) <= 200 * 4
    assert privacy["parameters"]["information_G"] == pytest.approx(200 * weight / 2**30, rel=1e-6)
    assert "protects all answers of one person at epsilon 2" in printed

    local.set(privacy=LOCAL | {"epsilon": 0.5, "max_contributions": 4})
    release, _ = run(local, command, "out2")
    assert release["privacy"]["epsilon"] == 2.0
    assert "At most 4 answers of each person count" in " ".join(release["privacy"]["statement"])


def test_answers_privatised_at_the_source_pass_as_they_are(with_column, command):
    private = with_column.folder / "private.parquet"
    arguments = ("--left", "item_i", "--right", "item_j", "--epsilon-range", "0.1", "3")
    code, printed = command(
        "privatize", with_column.folder / "answers.parquet", "--out", private, *arguments,
        "--epsilon-column", "epsilon",
    )  # fmt: skip
    assert code == 0, printed
    assert pq.read_schema(private).names == ["item_i", "item_j", "outcome", "epsilon"]
    settings = {"unit": "local", "already_private": True, "epsilon_range": [0.1, 3.0]}
    with_column.set(privacy=settings, input__ties=None, input__paths=["private.parquet"])
    release, printed = run(with_column, command)
    assert [line["item"] for line in release["ranking"]] == ITEMS
    assert "true answers were never collected" in release["privacy"]["statement"][0]
    with_column.set(name="zoo-again", ledger__other_people=["zoo"])
    again, _ = run(with_column, command, "out2")
    assert again["released"] == release["released"]


@pytest.fixture
def many_items(monkeypatch):
    """Sums and fits without matrices, as of many items."""
    few = len(ITEMS) - 1
    monkeypatch.setattr("hushrank.pipelines.reduce.reduce_private.MOST_DENSE_ITEMS", few)
    monkeypatch.setattr("hushrank.flows.release.private_sums.MOST_MEASURED", few)


@pytest.mark.usefixtures("many_items")
@pytest.mark.parametrize("link", ["logistic", "laplace", "auto"])
def test_many_items_are_ranked_by_the_pairs_that_met(local, command, link):
    pq.write_table(answers(2000), local.folder / "answers.parquet")
    release, _ = run(local.set(model={"link": link}), command)
    assert [line["item"] for line in release["ranking"]] == ITEMS
    assert all(line["low"] < line["score"] < line["high"] for line in release["ranking"])
    assert release["privacy"]["parameters"]["is_minimum"] is True
    released = release["released"]
    assert released["pairs"] == [[1, 2, 3], [2, 3], [3], []]
    s, w = (np.zeros((4, 4), np.int64) for _ in range(2))
    for i, row in enumerate(released["pairs"]):
        s[i, row], w[i, row] = released["s"][i], released["w"][i]
    name = release["privacy"]["parameters"]["link"]
    least = attenuation(flip_thresholds(np.array([2.0])))[0] ** 2
    fit = fit_scores(WeightedPairs(s, w), link_named(name), AnswerVariance(least_weight=least))
    by_name = {line["item"]: line["score"] for line in release["ranking"]}
    np.testing.assert_allclose([by_name[item] for item in ITEMS], fit.scores, atol=1e-7)


@pytest.mark.usefixtures("many_items")
@pytest.mark.parametrize("method", ["classic-rr", "laplace-rr", "rr-counts"])
def test_baselines_rank_many_items_too(local, command, method):
    release, _ = run(local.set(method=method, privacy__epsilon=4.0), command)
    assert [line["item"] for line in release["ranking"]] == ITEMS


@pytest.mark.usefixtures("many_items")
def test_sums_of_very_many_pairs_are_not_published(local, command, monkeypatch):
    monkeypatch.setattr("hushrank.flows.release.private_sums.MOST_SUMS", 5)
    release, _ = run(local, command)
    assert [release["released"][name] for name in ("pairs", "s", "w")] == [None] * 3


@pytest.mark.parametrize("link", ["logistic", "probit", "laplace", "auto"])
def test_every_link_fits_and_tells_the_state_of_its_hessian(local, command, link):
    release, _ = run(local.set(model={"link": link}), command)
    parameters = release["privacy"]["parameters"]
    assert parameters["is_minimum"] is True
    assert parameters["smallest_curvature"] > 0
    assert parameters["link"] in ("logistic", "probit", "laplace")
    assert parameters["link_chosen_by_likelihood"] == (link == "auto")
    assert release["warnings"] == []


@pytest.mark.parametrize("method", ["classic-rr", "laplace-rr", "rr-counts"])
def test_baselines_rank_and_say_that_they_are_baselines(local, command, method):
    release, _ = run(local.set(method=method, privacy__epsilon=4.0), command)
    assert [line["item"] for line in release["ranking"]] == ITEMS
    assert f"{method} is a baseline" in release["warnings"][0]


def test_classic_scores_are_drawn_to_zero_and_debiased_ones_are_not(local, command):
    pq.write_table(answers(3000), local.folder / "answers.parquet")
    scores = {}
    for method in ("debiased-rr", "classic-rr"):
        release, _ = run(local.set(method=method, privacy__epsilon=1.0), command, method)
        scores[method] = release["ranking"][0]["score"] - release["ranking"][-1]["score"]
    # Everybody wins 80 %: the fit on all 6 pairs. At t = 0.46 the classic share is 64 %.
    assert scores["classic-rr"] < 0.6 * scores["debiased-rr"]


def test_shuffling_is_reported_where_the_theorem_applies(local, command):
    pq.write_table(answers(20_000), local.folder / "answers.parquet")
    release, _ = run(local.set(privacy__epsilon=0.5), command)
    parameters = release["privacy"]["parameters"]
    assert parameters["fewest_answers_to_a_pair"] == 20_000
    expected = shuffled_bit_epsilon(0.5, 20_000, 1e-6)
    assert parameters["epsilon_of_an_answer_after_shuffling"] == pytest.approx(expected)
    assert expected < 0.5
    assert "summed exactly, with 20000 answers" in " ".join(release["privacy"]["statement"])


def test_a_shuffled_guarantee_without_a_delta_takes_a_small_one():
    assert shuffled_guarantee(0.5, 20_000, 0.0).delta == 1e-6


def test_few_answers_are_said_to_say_nothing(local, command):
    pq.write_table(answers(2), local.folder / "answers.parquet")
    release, _ = run(local.set(privacy__epsilon=0.1), command)
    assert release["informative"] is False
    assert "Nothing useful can be learned" in release["warnings"][0]


def test_a_table_of_epsilons_is_part_of_the_release_s_identity(local, command):
    table = local.folder / "epsilons.csv"
    table.write_text("user,epsilon\n" + "".join(f"{user},1.5\n" for user in range(200)))
    local.set(
        privacy={"unit": "local", "epsilon_table": "epsilons.csv", "epsilon_range": [1.0, 2.0]}
    )
    first, _ = run(local, command)
    table.write_text("user,epsilon\n" + "".join(f"{user},1.25\n" for user in range(200)))
    second, _ = run(local, command)
    assert first["release_id"] != second["release_id"]
    assert first["released"]["w"] != second["released"]["w"]


RANGE = {"epsilon_range": [0.1, 3.0]}
MISTAKES = [
    (
        {"input__ties": None},
        "input.ties: drop would show which answers were ties, because only the other ones count in"
        " full. Write ties: random, which decides a tie by a fair coin before it is privatised",
    ),
    (
        {"privacy__already_private": True},
        "input.ties: must be drop: answers that were privatised have no ties",
    ),
    (
        {"privacy": {"unit": "local"}, "input__columns__epsilon": "epsilon"},
        "privacy.epsilon_range: missing; epsilons that come with the answers need public bounds,"
        " and rows outside are set aside. Add for example epsilon_range: [0.1, 5]",
    ),
    (
        {"privacy": {"unit": "local"} | RANGE},
        "privacy: needs exactly one of privacy.epsilon (a number for all), privacy.epsilon_table"
        " (a file with the columns user and epsilon) and input.columns.epsilon (a column of the"
        " answers)",
    ),
    (
        {"privacy__epsilon": 4.0, "privacy__epsilon_range": [0.1, 3.0]},
        "privacy.epsilon: is 4, outside epsilon_range [0.1, 3]",
    ),
    (
        {"privacy__epsilon_range": [3.0, 0.1]},
        "privacy.epsilon_range: must be [low, high] with 0 < low <= high, got [3, 0.1]",
    ),
    ({"privacy__epsilon": "inf"}, "privacy.epsilon: must be finite under unit: local"),
    ({"privacy__delta": 1e-6}, "privacy.delta: has no meaning under unit: local; remove it"),
    (
        {"method": "noisy-counts"},
        "method: noisy-counts adds noise after counting, which privacy.unit: local rules out; write"
        " debiased-rr, classic-rr, laplace-rr or rr-counts",
    ),
    (
        {"privacy": {"unit": "user", "epsilon": 1.0, "max_contributions": 6}},
        "method: debiased-rr privatises every answer by itself; set privacy.unit: local, or write"
        " auto",
    ),
    (
        {
            "privacy": {"unit": "user", "epsilon": 1.0, "max_contributions": 6, **RANGE},
            "method": "noisy-counts",
        },
        "privacy.epsilon_range: is for unit: local; remove it",
    ),
    (
        {"input__columns__event": "outcome_id"},
        "input.columns.event: under unit: local copies of one event are privatised one by one, each"
        " at a cost; remove copies from the input, and this line",
    ),
    (
        {"method": "laplace-rr", "privacy__budget": "per_user"},
        "privacy.budget: must be per_comparison with method: laplace-rr; remove this line",
    ),
    ({"items": {"count": 100_001}}, "items: must be at most 100000 with method: debiased-rr"),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_mistakes_are_named_with_their_fix(local, command, changes, message):
    assert refused(local.set(**changes), command) == message


def test_a_table_that_is_not_there_is_named(local, command):
    local.set(privacy={"unit": "local", "epsilon_table": "gone.csv", **RANGE})
    assert refused(local, command) == (
        f"privacy.epsilon_table: {local.folder / 'gone.csv'}: no such file; relative paths start at"
        " the YAML file"
    )


@pytest.mark.parametrize(
    ("file", "items"), [("pair_cems", 6), ("pair_germanparties2009", 6), ("pair_firstnames", 6)]
)
def test_real_surveys_keep_their_winner(local, command, file, items):
    path = Path(__file__).parents[4] / f"shared/data/{file}.parquet"
    if not path.exists():
        pytest.skip(f"{path} is not here: it is not part of the project")
    local.set(items={"count": items}, input__paths=[str(path)], privacy__epsilon=3.0)
    log = pq.read_table(path)
    first, second, outcome = (log[name].to_numpy() for name in ("item_i", "item_j", "outcome"))
    wins = np.bincount(np.where(outcome > 0, first, second)[outcome != 0], minlength=items)
    release, _ = run(local, command)
    best = release["ranking"][0]["item"]
    # The best of a ranking with noise is among the two with most wins in the exact counts.
    assert int(best) in np.argsort(wins)[-2:]


def far_outside(n_items: int = 4) -> dict[str, np.ndarray]:
    """Sums far outside [0, W], as much noise leaves them: the probit objective has no minimum."""
    w = np.triu(np.full((n_items, n_items), 2**30, np.int64), 1)
    return {"s": 10 * w, "w": w, "g": np.array(0)}


def concluded(drawn, config):
    method = METHODS[config.method]
    return method.conclude(drawn, method.calibrate(config), config)


def test_where_a_link_has_no_fit_the_logistic_one_is_taken_and_said(local):
    config = load_config(local.set(model={"link": "probit"}).config)
    pairs = WeightedPairs(far_outside()["s"], far_outside()["w"])
    with pytest.raises(ConvergenceError):
        fit_scores(pairs, link_named("probit"), AnswerVariance())
    conclusion = concluded(far_outside(), config)
    assert conclusion.privacy.parameters["link"] == "logistic"
    assert "No fit with link probit was found" in " ".join(conclusion.warnings)
    config = load_config(local.set(model={"link": "auto"}).config)
    conclusion = concluded(far_outside(), config)
    assert conclusion.privacy.parameters["link"] != "probit"
    assert "Link probit has no fit" in " ".join(conclusion.warnings)


def test_a_fit_that_is_no_minimum_is_said(local, monkeypatch):
    config = load_config(local.config)

    def saddle(*arguments) -> DebiasedFit:
        return dataclasses.replace(fit_scores(*arguments), smallest_curvature=-0.5)

    monkeypatch.setattr("hushrank.estimation.fit.pair_fit.fit_scores", saddle)
    conclusion = concluded(far_outside(), config)
    assert conclusion.privacy.parameters["is_minimum"] is False
    assert "is no minimum (smallest curvature -0.5)" in " ".join(conclusion.warnings)


@pytest.mark.parametrize(
    ("method", "name", "stated"),
    [
        ("debiased-rr", "flip_probability", 1 / (math.exp(2.0) + 1)),
        ("rr-counts", "flip_probability", 1 / (math.exp(2.0) + 1)),
        ("laplace-rr", "noise_scale_of_an_answer", 1 / 2.0),
    ],
)
def test_the_law_of_an_answer_is_stated_where_all_have_the_same(local, method, name, stated):
    config = load_config(local.set(method=method, privacy__max_contributions=6).config)
    parameters = concluded(far_outside(), config).privacy.parameters
    assert parameters[name] == pytest.approx(stated)
    ranged = load_config(
        local.set(
            privacy__epsilon_range=[0.5, 3.0],
            privacy__epsilon=None,
            input__columns__epsilon="epsilon",
        ).config
    )
    assert name not in concluded(far_outside(), ranged).privacy.parameters


def in_order(local, coin: float):
    """The answers with a column of who was shown first: the left item with the chance `coin`."""
    log = pq.read_table(local.folder / "answers.parquet")
    left, right = (log[name].to_pylist() for name in ("item_i", "item_j"))
    heads = np.random.default_rng(4).random(len(log)) < coin
    first = [a if up else b for a, b, up in zip(left, right, heads, strict=True)]
    pq.write_table(log.append_column("top", pa.array(first)), local.folder / "answers.parquet")
    return local.set(
        privacy={**LOCAL, "max_contributions": 6}, input__columns__first="top", ledger__epsilon=50
    )


def test_a_release_tells_how_often_the_item_shown_first_won(local, command):
    """Nobody prefers the first item here: the interval misses 50 % in one draw of twenty."""
    release, _ = run(in_order(local, 0.5), command)
    told = release["released"]["presentation"]
    assert told["unbalanced"] == 0
    assert told["low"] - 0.02 < 0.5 < told["high"] + 0.02  # but for a chance below 1e-4
    assert told["low"] < told["share"] < told["high"]
    assert told["spread_low"] <= told["spread"] <= told["spread_high"]
    page = (local.folder / "out" / "report.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert f"The item shown first won {100 * told['share']:.1f} % of answers" in page
    assert list(unlike_order(release["released"])) == []
    for name in ("share", "spread_high", "unbalanced"):
        changed = json.loads(json.dumps(release["released"]))
        changed["presentation"][name] += 1
        assert list(unlike_order(changed)) == [f"released.presentation.{name}"]
    changed["presentation"]["parts"][3][1] += 1
    assert "released.presentation.parts" in list(unlike_order(changed))
    code, printed = command("verify", local.folder / "out")
    assert code == 0, printed
    assert "the effect of the item shown first follows from its sums" in printed


def test_with_the_order_an_answer_is_not_said_to_hide_among_all_others(local, command):
    """The sums of a part are of few people: of one person with one answer they show it as it is."""
    cell, epsilon, owner = np.array([1]), np.array([2.0]), np.zeros((1, 2), np.uint64)
    alone = Answers(cell, np.array([1], np.uint8), epsilon, owner, np.array([True]))
    for value in (0, 1):
        private = PrivateAnswers(cell, np.array([value], np.uint8), epsilon)
        pull = OrderSums.of_row(order_of(alone, private, 2, None), 2).parts[0, 0]
        assert (pull > 0) == (value == 1)
    release, _ = run(in_order(local, 0.5), command)
    told = release["privacy"]
    assert "epsilon_of_an_answer_after_shuffling" not in told["parameters"]
    assert "one of many" not in " ".join(told["statement"])
    assert "Somebody who sees this release alone" not in " ".join(told["statement"])
    assert "Which item of each pair was shown first" in " ".join(told["not_protected"])
    code, printed = command("verify", local.folder / "out")
    assert code == 0, printed


def test_an_order_that_no_coin_decided_is_told_and_nothing_else(local, command):
    release, printed = run(in_order(local, 0.9), command)
    told = release["released"]["presentation"]
    assert told["unbalanced"] > 0
    assert told["share"] is None
    assert "one item was shown first more often than a coin" in " ".join(printed.split())
    assert "won None" not in (local.folder / "out" / "report.html").read_text()
    assert list(unlike_order(release["released"])) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"privacy": dict(LOCAL)}, "needs the most answers of a person that count"),
        ({"method": "classic-rr"}, "is for method: perturbed-mle or debiased-rr"),
    ],
)
def test_what_the_order_needs_is_asked_for(local, command, changes, message):
    told = in_order(local, 0.5).set(**changes)
    assert message in " ".join(refused(told, command).split())
