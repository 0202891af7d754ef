"""One person with millions of rows: bounded memory, whatever the unit and the kind of the input."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.estimation.common.matrices import CellCounts, pair_counts_of
from hushrank.pipelines.engine.runner import LEAST_MEMORY, MemoryPlan
from hushrank.pipelines.reduce import reduce, reduce_comparisons
from hushrank.pipelines.reduce.reduction_job import Statistic
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.epsilons import AnswerBudget
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.responses.answer_sheets import Duplicates
from hushrank.transforms.storage.read import MOST_TEXT_BYTES
from hushrank.transforms.storage.spill_file import SPILL_PREFIX
from tests.loaded_process import LoadedProcess, loaded_process
from tests.pipelines.reduce import test_reduce_comparisons as comparisons
from tests.pipelines.reduce import test_reduce_private as private
from tests.pipelines.reduce import test_reduce_rankings as rankings
from tests.pipelines.reduce import test_reduce_responses as responses

KINDS = ["comparisons", "local answers", "responses", "rankings"]
N_FEW_ITEMS = 5
HEAVY_ROWS, OTHER_ROWS, N_ITEMS = 10_000_000, 1_000_000, 50

# Jobs of `LoadedProcess`: each is done in a process whose peak memory is then the job's.
HERE, WITHOUT_BEAM = (
    f"tests.pipelines.scenarios.{name}" for name in ("test_memory", "memory_without_beam")
)


def load() -> None:
    importlib.import_module("hushrank.pipelines.engine.options")  # and with it Beam


def reduce_comparisons_there(log: str, work: str, changes: str) -> None:
    reduce.run(a_heavy_job(Path(log), Path(work), **json.loads(changes)))


def reduce_rankings_there(log: str, work: str, form: str) -> None:
    contests = dataclasses.replace(rankings.RANKS, contest="contest")
    columns = rankings.LISTS if form == "lists" else contests
    reduce.run(rankings.a_job(Path(log), Path(work), columns=columns, max_rankings=3))


def reduce_long_names_there(folder: str) -> None:
    for log in sorted(Path(folder).glob("*.parquet")):
        for kind in KINDS:
            reduce_with_least_memory(log, log.with_name(f"{log.stem} {kind}"), kind)


@pytest.fixture(scope="module", params=[WITHOUT_BEAM, HERE], ids=["stand-in", "Beam"])
def loaded(request) -> Iterator[LoadedProcess]:
    with loaded_process(request.param) as process:
        yield process


def a_heavy_job(folder: Path, work: Path, **changes):
    changes = {"ties": Ties.RANDOM, "n_items": N_ITEMS, **changes}
    changes["statistic"] = Statistic(changes.get("statistic", Statistic.WIN_COUNTS))
    job = comparisons.a_job(folder, work, **changes)
    return dataclasses.replace(job, catalogue=Catalogue.of_count(changes["n_items"]))


def reduce_with_least_memory(log: Path, work: Path, kind: str) -> None:
    """A log whose people and events, or contests, are named in `a_log_of_long_names`."""
    contests = dataclasses.replace(rankings.RANKS, contest="contest")
    last = {"order": "contest", "duplicates": Duplicates.LAST}
    job = {
        "comparisons": lambda: comparisons.a_job(log, work, event="contest"),
        "local answers": lambda: private.a_job(log, work, AnswerBudget(per_user=True)),
        "responses": lambda: responses.a_job(log, work, **last),
        "rankings": lambda: rankings.a_job(log, work, columns=contests),
    }[kind]()
    reduce.run(dataclasses.replace(job, memory_limit=LEAST_MEMORY))


def a_log_of_long_names(path: Path, n_bytes: int) -> None:
    """Rows of every kind that name one person and one event, by so many bytes."""
    m = 200_000

    def named(letter: str) -> pa.Array:
        codes = pa.array(np.zeros(m, np.int32))
        return pa.DictionaryArray.from_arrays(codes, pa.array([letter * n_bytes]))

    item = np.arange(m) % N_FEW_ITEMS
    who, contest = named("p"), named("c")
    columns = {"who": who, "user": who, "contest": contest, "item": item, "rank": np.arange(m)}
    columns |= {"a": item, "b": (item + 1) % N_FEW_ITEMS, "y": np.ones(m, np.int8)}
    columns |= {"right": np.ones(m, np.int8), "eps": np.ones(m)}
    pq.write_table(pa.table(columns), path)


def small_plan(*_: int) -> MemoryPlan:
    return MemoryPlan(waiting_bytes=1 << 14, rows_at_once=150)


@pytest.fixture(scope="module")
def a_heavy_log(tmp_path_factory) -> Path:
    """One person with ten million rows among a hundred thousand with ten; some rows are ties."""
    folder = tmp_path_factory.mktemp("heavy")
    rng = np.random.default_rng(5)
    for part in range(11):
        m = (HEAVY_ROWS + OTHER_ROWS) // 11
        heavy = rng.random(m) < HEAVY_ROWS / (HEAVY_ROWS + OTHER_ROWS)
        left = rng.integers(0, N_ITEMS, m)
        columns = {
            "who": np.where(heavy, 0, rng.integers(1, 100_000, m)),
            "a": left,
            "b": (left + rng.integers(1, N_ITEMS, m)) % N_ITEMS,
            "y": rng.integers(-1, 2, m).astype(np.int8),
            "id": rng.integers(0, 1 << 40, m),
        }
        pq.write_table(pa.table(columns), folder / f"{part}.parquet", compression="none")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"max_contributions": 5}, marks=pytest.mark.soak),
        {"max_contributions": None, "user": None},  # ties decided by the pair: its rows meet
        {"max_contributions": 5, "event": "id"},
    ],
    ids=["bounded", "unit comparison", "events"],
)
def test_a_person_with_ten_million_rows_does_not_blow_a_partition(
    a_heavy_log, loaded, tmp_path, changes
):
    job = ("reduce_comparisons_there", a_heavy_log, tmp_path / "w", json.dumps(changes))
    assert loaded.do(*job).peak < 1.5e9  # below the default memory_limit of 2 GiB, engine included
    tally = json.loads((tmp_path / "w" / "diagnostics.json").read_text())
    counted = int(np.load(tmp_path / "w" / "exact.npz")["counts"].sum())
    assert tally["rows_with_owner"] == 11_000_000
    assert tally["rows_kept"] == counted
    if changes["max_contributions"] is not None:
        assert tally["owners"] <= counted <= 5 * tally["owners"]


@pytest.mark.slow
def test_pairs_of_a_hundred_thousand_items_take_memory_by_the_pairs_met(loaded, tmp_path):
    n_items, m = 100_000, 3_000_000  # a dense matrix would take 80 GB
    rng = np.random.default_rng(6)
    left = rng.integers(0, n_items, m)
    right = (left + rng.integers(1, n_items, m)) % n_items
    columns = {"who": rng.integers(0, m // 5, m), "a": left, "b": right}
    columns["y"] = rng.choice(np.array([-1, 1], np.int8), m)
    for name, row_group in (("one", 1 << 20), ("other", 200_000)):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(columns), tmp_path / name / "log.parquet", row_group_size=row_group)
        changes = {"n_items": n_items, "statistic": "pair-counts", "max_contributions": 50}
        folders = (tmp_path / name, tmp_path / f"{name}-work")
        job = ("reduce_comparisons_there", *folders, json.dumps(changes))
        assert loaded.do(*job).peak < 1.5e9
    one, other = (np.load(tmp_path / f"{name}-work" / "exact.npz") for name in ("one", "other"))
    for name in ("counts", "columns", "row_ends"):
        assert (one[name] == other[name]).all()
    winner, loser = np.where(columns["y"] > 0, (left, right), (right, left))
    counts = pair_counts_of(one, row_weight=1)
    cells = CellCounts.of(winner * n_items + loser)
    assert (counts.wins.data == cells.counts).all()
    assert (counts.wins.indices == cells.cells % n_items).all()


def test_one_long_name_that_every_row_repeats_keeps_within_the_least_memory(loaded, tmp_path):
    """Written out, names and events of these files of some hundred kB are 1.6 to 4 GB."""
    for n_bytes in (4_000, 10_000):
        a_log_of_long_names(tmp_path / f"{n_bytes}.parquet", n_bytes)
    # In one process: it is loaded once.
    assert loaded.do("reduce_long_names_there", tmp_path).peak < LEAST_MEMORY
    for n_bytes in (4_000, 10_000):
        tallies = [
            json.loads((tmp_path / f"{n_bytes} {kind}" / "diagnostics.json").read_text())
            for kind in KINDS
        ]
        assert [tally["rows_read"] for tally in tallies] == [200_000] * len(KINDS)
        if n_bytes > MOST_TEXT_BYTES:
            assert [tally["rows_rejected"] for tally in tallies] == [200_000] * len(KINDS)


CENTRAL = [
    {"max_contributions": 5},
    {"max_contributions": 5, "per_item_cap": 2, "distinct_pairs": True},
    {"max_contributions": 5, "event": "id"},
    {"max_contributions": None, "ties": Ties.RANDOM},
]


@pytest.mark.parametrize("changes", CENTRAL, ids=map(str, range(len(CENTRAL))))
def test_counts_do_not_depend_on_the_memory(tmp_path, monkeypatch, changes):
    comparisons.write(comparisons.a_log(), tmp_path / "log", files=3, row_group=200, seed=1)
    plenty = comparisons.counts_of(tmp_path / "log", tmp_path / "plenty", **changes)
    monkeypatch.setattr(MemoryPlan, "of", small_plan)
    scarce = comparisons.counts_of(tmp_path / "log", tmp_path / "scarce", **changes)
    assert (scarce == plenty).all()
    assert comparisons.tally_of(tmp_path / "scarce") == comparisons.tally_of(tmp_path / "plenty")


@pytest.mark.parametrize("budget", [AnswerBudget(per_user=True), AnswerBudget(max_contributions=4)])
def test_sums_of_privatised_answers_do_not_depend_on_the_memory(tmp_path, monkeypatch, budget):
    pq.write_table(private.a_log(), tmp_path / "log.parquet", row_group_size=500)
    fixed = {"budget": budget, "already_private": True, "ties": Ties.DROP}  # so nothing is drawn
    plenty = private.sums_of(tmp_path / "log.parquet", tmp_path / "plenty", **fixed)
    monkeypatch.setattr(MemoryPlan, "of", small_plan)
    scarce = private.sums_of(tmp_path / "log.parquet", tmp_path / "scarce", **fixed)
    for name, array in plenty.items():
        assert (scarce[name] == array).all(), name


@pytest.mark.parametrize("form", ["lists", "ranks", "contests"])
def test_counts_of_rankings_do_not_depend_on_the_memory(tmp_path, monkeypatch, form):
    true = rankings.true_rankings()
    users = [number % 40 for number in range(len(true))] if form != "ranks" else None
    table = (rankings.list_form if form == "lists" else rankings.long_form)(true, users)
    columns = rankings.LISTS if form == "lists" else rankings.RANKS
    if form == "contests":
        of_ranking = np.repeat(np.arange(len(true)), list(map(len, true)))
        table = table.append_column("contest", pa.array(of_ranking))
        columns = dataclasses.replace(columns, contest="contest")
    folder = rankings.write(table, tmp_path / "log", 1 if form == "lists" else 2, 60)
    every = {"columns": columns, "max_rankings": 10}  # nobody has more
    plenty = rankings.reduced(folder, tmp_path / "plenty", **every)
    bounded = {"columns": columns, "max_rankings": 2}
    few = 80 if users else len(true)
    assert rankings.reduced(folder, tmp_path / "few", **bounded)["lengths"].sum() == few
    monkeypatch.setattr(MemoryPlan, "of", small_plan)
    scarce = rankings.reduced(folder, tmp_path / "scarce", **every)
    for name, array in plenty.items():
        assert (scarce[name] == array).all(), name
    kept = rankings.reduced(folder, tmp_path / "kept", **bounded)
    assert kept["lengths"].sum() == few
    tallies = [json.loads((tmp_path / name / "diagnostics.json").read_text()) for name in
               ("plenty", "scarce")]  # fmt: skip
    assert tallies[0] == tallies[1]


def test_refused_rankings_do_not_depend_on_the_memory(tmp_path, monkeypatch):
    true = [[0, 1, 0], [2, 3], [1, 1]] * 50  # two of three hold an item twice
    folder = rankings.write(rankings.long_form(true), tmp_path / "log", 2, 60)
    refused = []
    for name, plan in (("plenty", MemoryPlan.of), ("scarce", small_plan)):
        monkeypatch.setattr(MemoryPlan, "of", plan)
        rankings.reduced(folder, tmp_path / name)
        files = (tmp_path / name / "rejects").iterdir()
        refused.append(sum(len(pq.read_table(path)) for path in files))
        tally = json.loads((tmp_path / name / "diagnostics.json").read_text())
        assert tally["rows_rejected"] == refused[-1]
    assert refused == [250, 250]


@pytest.mark.slow
@pytest.mark.parametrize("form", [pytest.param("lists", marks=pytest.mark.soak), "ranks"])
def test_a_person_with_millions_of_rankings_does_not_blow_a_partition(loaded, tmp_path, form):
    """Ten million rows of one person: rankings of three, or of five items in contests of five."""
    rng = np.random.default_rng(7)
    (tmp_path / "log").mkdir()
    m = 1_000_000
    for part in range(10):
        if form == "lists":
            lists = pa.FixedSizeListArray.from_arrays(
                np.argsort(rng.random((m, 5)), axis=1)[:, :3].ravel(), 3
            )
            table = pa.table(
                {"user": np.zeros(m, np.int64), "ranking": lists.cast(pa.list_(pa.int64()))}
            )
        else:
            contest = np.tile(np.arange(part * m // 5, (part + 1) * m // 5), 5)  # rows lie apart
            table = pa.table({
                "user": np.zeros(m, np.int64),
                "contest": contest,
                "item": np.repeat(np.arange(5), m // 5),
                "rank": rng.random(m),
            })  # fmt: skip
        pq.write_table(table, tmp_path / "log" / f"{part}.parquet", compression="none")
    job = ("reduce_rankings_there", tmp_path / "log", tmp_path / "w", form)
    assert loaded.do(*job).peak < 2e9  # the default memory_limit is 2 GiB, engine included
    tally = json.loads((tmp_path / "w" / "diagnostics.json").read_text())
    n_rankings = 10_000_000 if form == "lists" else 2_000_000
    assert (tally["rankings_with_owner"], tally["rankings_kept"]) == (n_rankings, 3)


@pytest.mark.parametrize("ties", [Ties.DROP, Ties.SPLIT])
def test_sparse_pair_counts_are_the_dense_ones(tmp_path, monkeypatch, ties):
    comparisons.write(comparisons.a_log(), tmp_path / "log", files=3, row_group=200, seed=1)
    how = {"statistic": Statistic.PAIR_COUNTS, "ties": ties}
    dense = comparisons.counts_of(tmp_path / "log", tmp_path / "dense", **how)
    monkeypatch.setattr(reduce_comparisons, "MOST_DENSE_ITEMS", 2)
    reduce.run(comparisons.a_job(tmp_path / "log", tmp_path / "sparse", **how))
    with np.load(tmp_path / "sparse" / "exact.npz") as stored:
        sparse = pair_counts_of(stored, ties.row_weight)
    assert (sparse.wins.toarray() == dense).all()


def test_a_limit_below_the_engine_is_refused():
    with pytest.raises(ValueError, match="at least"):
        MemoryPlan.of(LEAST_MEMORY - 1)


@pytest.mark.parametrize("kind", [comparisons, private, responses])
def test_nothing_that_waited_in_a_file_is_left(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(MemoryPlan, "of", small_plan)
    log = tmp_path / "log.parquet"
    pq.write_table(kind.a_log(), log)
    meet = (AnswerBudget(per_user=True),) if kind is private else ()
    reduce.run(kind.a_job(log, tmp_path / "w", *meet))
    left = {path.name for path in (tmp_path / "w").iterdir()}
    assert left >= {"exact.npz", "diagnostics.json"}
    assert not [name for name in left if name.startswith(SPILL_PREFIX)]
