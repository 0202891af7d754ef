"""`method: noisy-pairs` where anybody may know who compared what, with few items and with many."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.estimation.comparisons import pairs_by_chance
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.counts.noisy_pairs import NoisyPairs
from hushrank.flows.methods.registry import METHODS, load_config
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.pipelines.reduce import reduce, reduce_comparisons
from hushrank.privacy.audit import audit_epsilon, one_by_one
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.units import NoiseKind
from tests.flows.conftest import ITEMS, answers
from tests.flows.methods.test_noisy_pairs import exact_matrix, published
from tests.statistics import FALSE_POSITIVE_RATE

N, STATED = len(ITEMS), "everybody answered about all pairs"
ROWS = 6  # L
PUBLIC = {"privacy__public_graph": True, "privacy__public_graph_statement": STATED}


@pytest.fixture
def pairs(survey):
    return survey.set(method="noisy-pairs", input__ties="split", **PUBLIC)


@pytest.fixture(params=["few items", "many items"])
def few_or_many(request, monkeypatch):
    """Runs with matrices and without; sizes are those of few items in either."""
    if request.param == "many items":
        monkeypatch.setattr(reduce_comparisons, "MOST_DENSE_ITEMS", N - 1)
        monkeypatch.setattr(pairs_by_chance, "MOST_DENSE_ITEMS", N - 1)


@pytest.mark.usefixtures("few_or_many")
def test_a_run_releases_totals_as_they_are_and_noise_on_who_won(pairs, command):
    code, printed = command("run", pairs.config, "--direct")
    assert code == 0, printed
    release = published(pairs)
    released = release["released"]
    assert released["kind"] == "outcome-counts"
    assert released["items"] == ITEMS
    assert released["pairs"] == [[1, 2, 3], [2, 3], [3], []]
    assert released["compared"] == [[400] * 3, [400] * 2, [400], []]  # half wins
    exact = exact_matrix()
    differences = [
        won - 2 * exact[i, j]
        for i, row in enumerate(released["pairs"])
        for j, won in zip(row, released["wins"][i], strict=True)
    ]
    assert any(differences)
    assert np.abs(differences).max() < 6 * 30  # Laplace of scale 6: beyond 30 scales once in 10^12
    assert [line["item"] for line in release["ranking"]] == ITEMS
    privacy = release["privacy"]
    assert (privacy["sensitivity"], privacy["noise_scale"]) == (12, 6)  # L half wins, over 2
    assert privacy["parameters"] == {
        "link": "logistic",
        "public_graph": True,
        "public_graph_statement": STATED,
        "pairs_compared": 6,
    }
    words = " ".join(privacy["statement"])
    assert f"stated by the operator: “{STATED}”." in words
    assert "If one person had answered otherwise, about the same pairs of items, no" in words
    assert "how often each pair was compared is public and released as it is" in words
    assert "Which items each person compared" in privacy["not_protected"][0]
    assert "Spent epsilon 2" in printed
    assert not list(pairs.work.rglob("exact.npz"))
    page = (pairs.output / "report.html").read_text()
    assert "Who beat whom, with noise" in page


def test_without_privacy_it_is_exact_and_unsafe(pairs, command):
    command("run", pairs.set(privacy__epsilon="inf").config, "--direct", "--no-privacy")
    release = published(pairs)
    assert release["safe"] is False
    won = {
        (i, j): w
        for i, row in enumerate(release["released"]["pairs"])
        for j, w in zip(row, release["released"]["wins"][i], strict=True)
    }
    assert won == {(i, j): 2 * exact_matrix()[i, j] for i in range(N) for j in range(i + 1, N)}


def test_pairs_that_nobody_compared_are_blank(pairs, command):
    table = answers(200)
    apart = (np.asarray(table["item_i"]) == 0) & (np.asarray(table["item_j"]) == 3)
    pq.write_table(table.filter(~apart), pairs.folder / "answers.parquet")
    code, printed = command("run", pairs.config, "--direct")
    assert code == 0, printed
    assert published(pairs)["released"]["pairs"] == [[1, 2], [2, 3], [3], []]
    assert "So do pairs that nobody compared." in (pairs.output / "report.html").read_text()
    assert "<td>–</td>" in (pairs.output / "report.html").read_text().replace(' class="number"', "")


def test_where_a_link_has_no_fit_the_logistic_one_is_taken_and_said(pairs):
    config = load_config(pairs.set(model={"link": "probit"}).config)
    ends, columns = np.array([0, 3, 5, 6, 6]), np.array([1, 2, 3, 2, 3, 3])
    drawn = {
        "wins": np.full(6, 5000),
        "counts": np.full(6, 400),
        "columns": columns,
        "row_ends": ends,
    }
    conclusion = NoisyPairs().conclude(drawn, NoisyPairs().calibrate(config), config)
    assert conclusion.privacy.parameters["link"] == "logistic"
    assert "No fit with link probit was found" in conclusion.warnings[0]


def test_a_hundred_thousand_items_are_allowed_and_no_more(pairs):
    config = load_config(pairs.set(items={"count": 100_000}).config)
    noise = NoisyPairs().terms(NoisyPairs().calibrate(config)).noise
    assert noise.endswith("on who won, in each pair that was compared")
    with pytest.raises(ConfigError, match="takes at most 100000 items, got 100001"):
        NoisyPairs().calibrate(load_config(pairs.set(items={"count": 100_001}).config))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"input__ties": "drop"}, "input.ties: must be split or random with public_graph: true"),
        ({"input__columns__event": "e"}, "input.columns.event: not with public_graph: true"),
        ({"privacy__adjacency": "add-remove"}, "privacy.public_graph: says that who compared"),
    ],
)
def test_what_would_make_the_graph_depend_on_outcomes_is_refused(pairs, change, said):
    with pytest.raises(ConfigError, match=said):
        load_config(pairs.set(**change).config)


def exact_of(survey, outcome: int) -> dict[str, np.ndarray]:
    """Counts of a log in which person 999 answers `outcome` 40 times, about one pair."""
    person = pa.table(
        {
            "user": np.full(40, 999),
            "item_i": np.zeros(40, np.int64),
            "item_j": np.ones(40, np.int64),
            "outcome": np.full(40, outcome, np.int8),
        }
    )
    pq.write_table(
        pa.concat_tables([answers(3), person]), survey.folder / "answers.parquet", row_group_size=7
    )
    job = prepare_job(read_survey(survey.config))
    folder = survey.folder / f"exact{outcome}"
    key = SecretKey.draw(system_bits())
    reduction = METHODS[job.config.method].reduction(
        job.config, job.mechanism, job.files, key, str(folder)
    )
    reduce.run(reduction)
    with np.load(folder / "exact.npz") as stored:
        return dict(stored)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_run_keeps_its_epsilon_and_noise_of_half_the_scale_does_not(pairs, epsilon):
    pairs.set(privacy__epsilon=epsilon, privacy__distinct_pairs=False)
    job = prepare_job(read_survey(pairs.config))
    exact = {wins: exact_of(pairs, wins) for wins in (1, -1)}
    method = METHODS[job.config.method]

    def draw(wins: int) -> dict[str, np.ndarray]:
        return method.draw(exact[wins], job.mechanism, system_bits())

    for name in ("counts", "columns", "row_ends"):  # who compared what is the same in both
        np.testing.assert_array_equal(draw(1)[name], draw(-1)[name])

    @one_by_one
    def ours(wins):
        return draw(wins)["wins"]

    def too_little(wins, runs):
        law = NoiseLaw(NoiseKind.LAPLACE, 2 * ROWS / epsilon / 2)
        counts = exact[wins]["counts"][np.triu_indices(N, 1)]
        return add_noise(np.tile(counts, (runs, 1)), law, system_bits())

    def bound(release, trials):
        confidence = 1 - FALSE_POSITIVE_RATE
        return audit_epsilon(release, 1, -1, trials=trials, confidence=confidence).epsilon_lower

    assert bound(ours, 3_000) <= epsilon
    assert bound(too_little, 60_000) > epsilon


def test_sizes_are_those_of_the_pairs_that_met(pairs):
    """A release of many items: what is stored and published grows with pairs, not with items."""
    config = load_config(pairs.set(items={"count": 5_000}).config)
    counts = {
        "counts": np.array([3, 4]),
        "columns": np.array([4_999, 7]),  # 3 wins of item 7 over the last, 4 of item 9 over 7
        "row_ends": np.r_[np.zeros(8, np.int64), 1, 1, np.full(4_991, 2)],
    }
    mechanism = NoisyPairs().calibrate(config)
    drawn = NoisyPairs().draw(counts, mechanism, system_bits())
    assert sum(array.nbytes for array in drawn.values()) < 50_000
    released = NoisyPairs().conclude(drawn, mechanism, config).released
    assert len(json.dumps(released.model_dump())) < 200_000
    assert (released.pairs[7], released.compared[7]) == ((9, 4_999), (4, 3))
    assert released.pairs[9] == ()
    assert released.wins_by_item() is not None
