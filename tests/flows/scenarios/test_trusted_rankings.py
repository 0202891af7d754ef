"""Rankings under unit user, from YAML to the page: order, guarantee, bounds, real ballots."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import kendalltau

from hushrank.estimation.rankings.ranking_counts import count_rankings
from hushrank.estimation.rankings.ranking_estimates import kemeny
from hushrank.flows.planning.plan.choice import methods_to_compare
from hushrank.flows.planning.plan.limits import tried_guarantees
from hushrank.flows.planning.plan.survey import Setting, accuracy_of, plan_config
from hushrank.flows.planning.plan.world import World
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.pipelines.reduce import reduce
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import seeded_bits, system_bits
from hushrank.privacy.ranking_sensitivity import Part, ranking_sensitivity
from hushrank.verifier.verify_release import Findings, Wrong, check_elections
from tests.flows.conftest import Survey
from tests.flows.scenarios.test_rankings import (
    BEST_FIRST,
    NAMES,
    long_form,
    refused,
    run,
    true_rankings,
)

METHODS = ("kemeny", "borda", "bradley-terry", "footrule")
GAUSSIAN = {"unit": "user", "epsilon": 1.0, "delta": 1e-6, "noise": "gaussian"}


@pytest.fixture
def ballots(tmp_path: Path) -> Survey:
    pq.write_table(long_form(true_rankings()), tmp_path / "ballots.parquet", row_group_size=5_000)
    settings = {
        "name": "zoo",
        "input": {"kind": "rankings", "paths": ["ballots.parquet"], "columns": {}},
        "items": {"names": NAMES},
        "privacy": {**GAUSSIAN, "max_contributions": 1},
        "method": "kemeny",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 10, "delta": 1e-5},
    }
    return Survey(tmp_path, settings).set()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_the_order_and_pays_once(ballots, command, method):
    release, printed = run(ballots.set(method=method, top_k=2), command)
    assert [line["item"] for line in release["ranking"]] == BEST_FIRST
    assert release["top_k"] == BEST_FIRST[:2]
    assert all(line["low"] <= line["score"] <= line["high"] for line in release["ranking"])
    assert "Spent epsilon 1.00, delta 1e-06" in printed
    privacy = release["privacy"]
    assert (privacy["unit"], privacy["adjacency"]) == ("user", "replace-one")
    assert privacy["mechanism"] == "discrete-gaussian"
    words = " ".join(privacy["statement"])
    assert "If all rankings of one person were replaced by others" in words
    assert "One ranking of each person counts; of several, a secret key chose one." in words
    assert "answer" not in words
    report = (ballots.output / "report.html").read_text()
    heatmap = "Who is above whom, in rankings" in report
    assert heatmap is (method in ("kemeny", "bradley-terry"))
    again, printed = run(ballots, command)
    assert "nothing was spent now" in printed
    assert again == release


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("method", METHODS)
def test_what_is_released_is_what_the_proof_is_about(ballots, command, method, adjacency):
    """Sensitivity and scale follow from the weights and the bounds that the release tells."""
    ballots.set(
        method=method,
        input__max_length=4,
        privacy={"unit": "user", "epsilon": 2.0, "adjacency": adjacency, "max_contributions": 3},
        ledger__delta=0.0,
    )
    pq.write_table(long_form(true_rankings(500)[:, :4]), ballots.folder / "ballots.parquet")
    release, _ = run(ballots, command)
    privacy, parameters = release["privacy"], release["privacy"]["parameters"]
    prefix = "weight_of_"
    weights = {
        Part(name.removeprefix(prefix)): weight
        for name, weight in parameters.items()
        if name.startswith(prefix)
    }
    assert set(weights) <= set(release["released"])
    job = prepare_job(read_survey(ballots.config))
    sensitivity = ranking_sensitivity(job.mechanism.params, parameters["longest_ranking"], weights)
    assert privacy["sensitivity_l1"] == sensitivity.l1
    assert privacy["noise_scale"] == pytest.approx(sensitivity.l1 / 2.0)
    assert "At most 3 rankings of each person count" in " ".join(privacy["statement"])
    assert "longer than 4 items none counts" in " ".join(privacy["statement"])


def test_a_person_with_many_ballots_moves_the_counts_by_the_sensitivity_at_most(ballots):
    """Bounded in the reduction: 40 ballots of one person, all one way and all the other."""
    ballots.set(
        privacy__max_contributions=3, input__columns={"contest": "contest"}, method="kemeny"
    )
    crowd = long_form(true_rankings(50)).append_column("contest", pa.array([0] * 250))
    job, found = None, []
    for order in (NAMES, NAMES[::-1]):
        person = pa.table(
            {
                "user": np.full(200, 999),
                "item": np.tile(order, 40),
                "rank": np.tile(np.arange(1, 6), 40),
                "contest": np.repeat(np.arange(40), 5),
            }
        )
        table = pa.concat_tables([crowd, person])
        pq.write_table(table, ballots.folder / "ballots.parquet", row_group_size=7)
        job = prepare_job(read_survey(ballots.config))
        work = ballots.folder / f"exact{len(found)}"
        key = SecretKey.draw(system_bits())
        method = job.drawn_by.method
        reduce.run(method.reduction(job.config, job.mechanism, job.files, key, str(work)))
        found.append(np.load(work / "exact.npz")["wins"])
    change = found[0] - found[1]
    assert np.abs(change).sum() == job.mechanism.sensitivity.l1 == 3 * 5 * 4
    assert np.square(change).sum() == job.mechanism.sensitivity.l2_squared


def test_lists_without_people_count_each_as_another_persons(ballots, command):
    lists = pa.table({"ranking": [[NAMES[item] for item in row] for row in true_rankings(800)]})
    pq.write_table(lists, ballots.folder / "ballots.parquet")
    ballots.set(input__layout="list", input__columns={"ranking": "ranking"}, method="borda")
    release, _ = run(ballots, command)
    assert [line["item"] for line in release["ranking"]] == BEST_FIRST
    privacy = release["privacy"]
    words = " ".join(privacy["statement"])
    assert "counts as the one ranking of another person" in words
    assert "A person with several rankings" in privacy["not_protected"][0]
    message = refused(ballots.set(privacy__max_contributions=2), command)
    assert "privacy.max_contributions: must be 1 where nothing says whose ranking" in message


def test_an_election_in_the_format_of_preflib(ballots, command):
    counts = {"1,2,3": 300, "2,1,3": 120, "1,3": 80, "3": 30}
    lines = [
        "# FILE NAME: x.soi",
        "# NUMBER ALTERNATIVES: 3",
        f"# NUMBER VOTERS: {sum(counts.values())}",
        f"# NUMBER UNIQUE ORDERS: {len(counts)}",
        *(f"# ALTERNATIVE NAME {k}: {name}" for k, name in enumerate("ABC", 1)),
        *(f"{count}: {order}" for order, count in counts.items()),
    ]
    (ballots.folder / "x.soi").write_text("\n".join(lines) + "\n")
    ballots.set(
        input={"kind": "rankings", "paths": ["x.soi"]}, items={"file": "x.soi"}, method="footrule"
    )
    release, _ = run(ballots, command)
    assert [line["item"] for line in release["ranking"]] == ["A", "B", "C"]
    assert "counts as the one ranking of another" in " ".join(release["privacy"]["statement"])


def test_without_people_the_budget_is_counted_apart(ballots, command):
    run(ballots, command)
    lists = pa.table({"ranking": [NAMES] * 50})
    pq.write_table(lists, ballots.folder / "ballots.parquet")
    ballots.set(input__layout="list", input__columns={"ranking": "ranking"}, output="other")
    code, printed = command("run", ballots.config, "--direct")
    assert code != 0
    assert "Costs of the two cannot be added up" in " ".join(printed.split())


MISTAKES = [
    ({"privacy__mechanism": "mallows"}, "privacy.mechanism: is for unit: local; remove it"),
    ({"privacy__max_contributions": None}, "privacy.max_contributions: missing"),
    ({"privacy__delta": 0.0}, "privacy.delta: missing; noise: gaussian needs it"),
    ({"privacy__distinct_pairs": True}, "privacy.distinct_pairs: is for input.kind: comparisons"),
    ({"privacy__per_item_cap": 1}, "privacy.per_item_cap: is for input.kind: comparisons"),
    ({"input__columns": {"epsilon": "e"}}, "input.columns.epsilon: a personal epsilon only counts"),
    ({"method": "borda", "model": {"debiased": True}}, "model.debiased: is for unit: local"),
    ({"model": {"common_order": True}}, "model.common_order: is for unit: local"),
    ({"items": {"count": 501}}, "items: must be at most 500 with method: kemeny"),
    ({"items": {"count": 1001}, "method": "borda"}, "items: must be at most 1000 with input.kind"),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_what_does_not_go_together_is_explained(ballots, command, changes, message):
    assert message in refused(ballots.set(**changes), command)
    assert not ballots.output.exists()


def test_plan_compares_with_rankings_that_are_privatised_one_by_one(ballots):
    """At the same loss of all rankings of a person: 0.8 * 5 / 2 = 2 for lists of five."""
    world = World(replicates=12, design=None)
    config = plan_config(ballots.set(method="borda", privacy__epsilon=2.0).config)
    own = Setting(method="borda", epsilon=2.0, people=300, answers=1)
    laplace, local = tried_guarantees(config, own, world)
    assert laplace[0].words == "Laplace"
    assert local[0].words == "local, auto, epsilon 2 of a ranking"
    assert local[1].error > 2 * accuracy_of(config, own, world).error
    privacy = {"unit": "local", "mechanism": "mallows", "epsilon": 0.8}
    config = plan_config(ballots.set(privacy=privacy).config)
    found = [each.words for each, _ in tried_guarantees(config, replace(own, epsilon=0.8), world)]
    of = "epsilon 2 of all rankings of a person"
    assert found[-2:] == [f"Gaussian, delta 1e-06, {of}", f"Laplace, {of}"]
    assert methods_to_compare(config) == ("borda", "kemeny", "bradley-terry")


def ranks(ballots: Survey, draws: int) -> list[np.ndarray]:
    """Of all items, in several releases of the same ballots."""
    job = prepare_job(read_survey(ballots.config))
    method, key = job.drawn_by.method, SecretKey.draw(system_bits())
    work = ballots.folder / "exact"
    reduce.run(method.reduction(job.config, job.mechanism, job.files, key, str(work)))
    exact, found = dict(np.load(work / "exact.npz")), []
    for _ in range(draws):
        drawn = method.draw(exact, job.mechanism, system_bits())
        found.append(method.conclude(drawn, job.mechanism, job.config).estimate.rank)
    return found


def mean_tau(found: list[np.ndarray], wanted: np.ndarray) -> float:
    """Kendall's tau of ranks with other ones, on average."""
    return float(np.mean([kendalltau(rank, wanted).statistic for rank in found]))


DEBIAN, CONTEST, CANDIDATES, COPIES = "rank_debian.parquet", 4, 9, 14


def debian(folder: Path, copies: int) -> tuple[pa.Table, np.ndarray]:
    """The ballots of an election, each standing for so many people; shape (n, n), who beat whom."""
    frame = pq.read_table(folder / DEBIAN).to_pandas()
    frame = frame[frame["contest"] == CONTEST]
    whole = frame.groupby("user")["rank"].transform(lambda rank: rank.is_unique)
    frame = frame[whole].sort_values(["user", "rank"])
    lengths = frame.groupby("user", sort=False).size().to_numpy()
    items = frame["item"].to_numpy(np.int64)
    wins = count_rankings(items, lengths, CANDIDATES, CANDIDATES, by_place=False).wins
    users = frame["user"].to_numpy()
    table = pa.table(
        {
            "user": np.concatenate([users + copy * (users.max() + 1) for copy in range(copies)]),
            "item": np.tile(items, copies),
            "rank": np.tile(frame["rank"].to_numpy(), copies),
        }
    )
    return table, wins * copies


@pytest.mark.slow
def test_an_election_keeps_its_order_at_the_loss_of_a_whole_ballot(ballots, command, real_data):
    """Issue 17: at a whole-ballot epsilon of 4.5, Laplace on pair counts has tau 0.95 and more."""
    table, wins = debian(real_data, COPIES)
    pq.write_table(table, ballots.folder / "ballots.parquet")
    ballots.set(
        items={"count": CANDIDATES},
        privacy={"unit": "user", "epsilon": 4.5, "max_contributions": 1},
        ledger__delta=0.0,
    )
    release, _ = run(ballots, command)
    assert release["privacy"]["noise_scale"] == pytest.approx(72 / 4.5)
    wanted = np.argsort(kemeny(wins).order)
    trusted = mean_tau(ranks(ballots, 20), wanted)
    assert trusted >= 0.95
    local = {"unit": "local", "mechanism": "mallows", "epsilon": 1.0, "max_contributions": 1}
    ballots.set(privacy=local, output="local", ledger__path="other.jsonl")
    assert prepare_job(read_survey(ballots.config)).terms.spend.epsilon == 4.5
    assert local_tau(table, wanted) < trusted - 0.02


def local_tau(table: pa.Table, wanted: np.ndarray) -> float:
    """Mean tau of the Kemeny order of synthetic rankings, as they are, at the same loss."""
    items = table["item"].to_numpy()
    users = table["user"].to_numpy()
    lengths = np.diff(np.flatnonzero(np.append(np.diff(users, prepend=-1) != 0, True)))
    found = []
    for seed in range(10):
        synthetic = synthetic_rankings(items, lengths, 1.0, seeded_bits(seed))
        wins = count_rankings(synthetic, lengths, CANDIDATES, CANDIDATES, by_place=False).wins
        found.append(kendalltau(np.argsort(kemeny(wins).order), wanted).statistic)
    return float(np.mean(found))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["borda", "footrule"])
def test_the_few_ballots_that_there_were_do_too(ballots, real_data, method):
    table, _ = debian(real_data, 1)
    pq.write_table(table, ballots.folder / "ballots.parquet")
    ballots.set(items={"count": CANDIDATES}, privacy__epsilon=4.5, method=method)
    found = ranks(ballots, 20)
    (wanted,) = ranks(ballots.set(privacy__epsilon=1e5), 1)  # noise of a scale below 0.2
    assert mean_tau(found, wanted) >= 0.93


def test_partial_rankings_of_varieties(ballots, command, real_data):
    """Three of ten varieties each: the order is that of the exact sums, but for items near it."""
    table = pq.read_table(real_data / "rank_beans_nicaragua.parquet")
    ballots.set(
        input__paths=[str(real_data / "rank_beans_nicaragua.parquet")],
        input__max_length=3,
        items={"count": 10},
        privacy__epsilon=4.5,
        method="borda",
    )
    release, _ = run(ballots, command)
    frame = table.to_pandas().sort_values(["user", "rank"])
    lengths = frame.groupby("user", sort=False).size().to_numpy()
    items = frame["item"].to_numpy(np.int64)
    exact = count_rankings(items, lengths, 10, 3, by_place=False)
    sums = (exact.wins - exact.wins.T).sum(axis=1) / 2 / exact.rankings
    held = [line["low"] <= sums[int(line["item"])] <= line["high"] for line in release["ranking"]]
    assert sum(held) >= 9  # intervals allow for chance in who answered, too
    shown = [sums[int(line["item"])] for line in release["ranking"]]
    assert kendalltau(-np.arange(10), shown).statistic > 0.6


def test_an_election_names_winners_by_each_rule_and_the_page_shows_margins(ballots, command):
    """Nothing is paid for it, the job stays the same, and a forged winner or margin is refuted."""
    of_all = prepare_job(read_survey(ballots.config)).config.job_hash()
    release, printed = run(ballots.set(rules=["condorcet", "smith", "schulze"]), command)
    assert prepare_job(read_survey(ballots.config)).config.job_hash() == of_all
    assert f"{BEST_FIRST[0]} is surely preferred to each other candidate" in " ".join(
        printed.split()
    )
    assert "95 % alone" not in printed  # a place in an order is no measurement
    election = release["election"]
    assert [each["rule"] for each in election["rules"]] == ["condorcet", "smith", "schulze"]
    assert all(each["winners"] == BEST_FIRST[:1] and each["sure"] for each in election["rules"])
    page = (ballots.folder / "out" / "report.html").read_text()
    assert "Margin of … over" in page
    above, items = release["released"]["above"], release["released"]["items"]
    best, next_ = (items.index(name) for name in BEST_FIRST[:2])
    assert f"<b>{above[best][next_] - above[next_][best]:+,}</b>" in page
    file = ballots.folder / "out" / "release.json"
    assert command("verify", str(file.parent))[0] == 0
    honest = file.read_text()
    forgeries = [
        ({"sure_from": election["sure_from"] / 2}, "not as sure as their noise allows"),
        ({"chances": dict.fromkeys(items, 0.99)}, "does not follow from the noise"),
        ({"rules": [{**election["rules"][0], "winners": []}]}, "the Condorcet winner is not that"),
        ({"chances": None}, "not as sure as their noise allows"),
    ]
    for forged, told in forgeries:
        file.write_text(json.dumps({**json.loads(honest), "election": {**election, **forged}}))
        code, printed = command("verify", str(file.parent))
        assert code != 0
        assert told in " ".join(printed.split())


def findings(release, election):
    """What the verifier calls wrong in this election of the release."""
    said = Findings()
    try:
        check_elections({**release, "election": election}, said, 1)
    except Wrong as error:
        said.check(good=False, wrong=str(error))
    return [text for kind, text in said.lines if kind == "WRONG"]


def test_forged_winners_are_refuted_by_every_rule(ballots, command):
    """One rule after the other: another winner, who is called sure or is not possible."""
    release, _ = run(ballots.set(privacy__epsilon=8.0), command)
    election, (best, other) = release["election"], BEST_FIRST[:2]
    assert findings(release, election) == []
    last = BEST_FIRST[-1:]
    for honest in election["rules"]:
        forgeries = [
            {"winners": [other], "possible": [best]},
            {"winners": [other], "possible": [other]},
            {"winners": last, "possible": [best, *last], "sure": False},
            {"winners": []},
            {"sure": not honest["sure"]},
            {"rule": "made-up", "possible": []},
            {"rule": "plurality"},
        ]
        for forged in forgeries:
            changed = {**election, "rules": [{**honest, **forged}]}
            assert findings(release, changed), (honest, forged)


def test_places_tell_plurality_and_approval(ballots, command):
    release, printed = run(
        ballots.set(method="footrule", rules=["plurality", "approval-2"]), command
    )
    election = release["election"]
    assert findings(release, election) == []
    for honest in election["rules"]:
        last = BEST_FIRST[-1:]
        for forged in (
            {"winners": last, "possible": last, "sure": True},
            {"winners": last, "possible": [*honest["possible"], *last], "sure": False},
            {"sure": not honest["sure"]},
            {"rule": "condorcet"},
            {"rule": "approval-99"},
        ):
            assert findings(release, {**election, "rules": [{**honest, **forged}]}), forged
    first, two = release["election"]["rules"]
    assert (first["rule"], first["winners"]) == ("plurality", BEST_FIRST[:1])
    assert (two["rule"], set(two["winners"]) <= set(BEST_FIRST[:2])) == ("approval-2", True)
    assert "Plurality: " in printed
    assert release["election"]["margin_deviation"] is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rules": ["lottery"]}, "rules: no rule is named lottery; write condorcet, "),
        ({"rules": ["plurality"]}, "rules: plurality needs method: footrule"),
        (
            {"rules": ["schulze"], "method": "borda"},
            "schulze needs method: kemeny or bradley-terry",
        ),
        ({"rules": ["approval-99"], "method": "footrule"}, "no rule is named approval-99"),
        ({"rules": ["condorcet"], "items": {"count": 101}}, "rules: are for at most 100 items"),
    ],
)
def test_rules_that_counts_do_not_tell_are_refused(ballots, command, changes, told):
    code, printed = command("validate", ballots.set(**changes).config)
    assert (code, told in " ".join(printed.split())) == (2, True)
