"""Cost of a night on an engine: arithmetic that the documentation shows, from what was measured."""

from __future__ import annotations

import json
import pickle
import re
from itertools import pairwise

import numpy as np
import pytest

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.cli.main import main
from hushrank.flows.interfaces.documents.plans import CostDocument
from hushrank.flows.planning.plan import engine_cost as costs
from hushrank.flows.planning.plan.engine_cost import PRICES, Where, engine_cost
from hushrank.flows.planning.plan.survey import plan_config
from hushrank.transforms.comparisons.shuffle import WORDS, OwnedRows, Partitioning, pack

ROWS, FILES, N_ITEMS = 10**9, 10_000, 300


@pytest.fixture
def config(survey):
    return plan_config(survey.config, n_items=N_ITEMS)


def words(survey, *more: str) -> list[str]:
    return ["plan", str(survey.config), "--items", str(N_ITEMS), "--engine", *more]


def test_the_documentation_shows_what_the_command_prints(survey, capsys, checkout):
    main(words(survey, "dataflow", "--rows", str(ROWS), "--files", str(FILES)))
    printed = capsys.readouterr().out
    page = (checkout / "docs" / "engines.md").read_text()
    shown = page.partition("<!-- night: begin -->\n```\n")[2].partition("```\n<!-- night: end")[0]
    assert shown.endswith("shuffle blocks.\n")
    assert printed[: len(shown)] == shown
    assert "real job takes longer" in printed


def test_seconds_of_a_row_are_those_of_the_benchmark(checkout):
    page = (checkout / "docs" / "benchmarks.md").read_text()
    measured: dict[tuple[bool, bool], float] = {}
    for log, unit, seconds in re.findall(
        r"\| 20 M \| (?:uuid|text20)\.(\w+) \| (\w+) \| hushrank \| [\d.]+ \| ([\d.]+) \|", page
    ):
        key = (unit == "user", log == "parquet")
        measured[key] = max(measured.get(key, 0.0), float(seconds) / 20e6)
    assert measured.keys() == costs.SECONDS_A_ROW.keys()
    for key, seconds in measured.items():
        assert costs.SECONDS_A_ROW[key] == pytest.approx(seconds, abs=1e-9)
    assert f"{costs.SECONDS_A_BLOCK * 1e6:.0f} µs per shuffle block" in page


@pytest.mark.parametrize("rows", [30, 400, 5_000])
def test_bytes_of_a_block_are_those_of_one_that_is_made(rows):
    cut = Partitioning.of_rows(ROWS)
    numbers = np.random.default_rng(1).integers(
        0, 2**63, (WORDS, rows << cut.partition_bits), dtype=np.uint64
    )
    numbers[0] <<= np.uint64(1)
    blocks = [len(pickle.dumps(block)) for _, block in pack(OwnedRows(numbers), cut, None)]
    said = costs.BYTES_A_BLOCK + costs.BYTES_A_ROW * rows
    assert said == pytest.approx(np.mean(blocks), rel=0.15)


def test_a_price_is_hours_and_bytes_times_prices(config):
    given = {"vcpu-hour": 2.0, "memory-gb-hour": 0.25, "disk-gb-hour": 0.04, "shuffle-gb": 3.0}
    cost = engine_cost(config, Where.SPARK, ROWS, FILES, given)
    readers = FILES  # of 100 000 rows, which are fewer than one reader takes
    assert cost.blocks == readers * cost.partitions
    seconds = ROWS * costs.SECONDS_A_ROW[True, True] + cost.blocks * costs.SECONDS_A_BLOCK
    assert cost.hours == pytest.approx(seconds / 3600)
    assert cost.shuffle == pytest.approx(ROWS * 24 + cost.blocks * 300, rel=0.01)
    assert cost.workers_price == pytest.approx(cost.hours * (2 + 4 * 0.25 + 25 * 0.04))
    assert cost.shuffle_price == pytest.approx(2 * cost.shuffle / 1e9 * 3)
    assert cost.price == pytest.approx(cost.workers_price + cost.shuffle_price)
    assert engine_cost(config, Where.SPARK, ROWS, FILES).price is None
    listed = engine_cost(config, Where.DATAFLOW, ROWS, FILES)
    assert listed == engine_cost(config, Where.DATAFLOW, ROWS, FILES, PRICES)
    dearer = engine_cost(config, Where.DATAFLOW, ROWS, FILES, {"shuffle-gb": 1.0})
    assert dearer.workers_price == listed.workers_price
    assert dearer.shuffle_price > 50 * listed.shuffle_price


def test_rows_that_need_not_meet_are_not_sent(survey, config):
    with_people = engine_cost(config, Where.FLINK, ROWS)
    survey.set(privacy={"unit": "comparison", "epsilon": 1.0})
    alone = engine_cost(plan_config(survey.config, n_items=N_ITEMS), Where.FLINK, ROWS)
    assert (alone.partitions, alone.blocks) == (1, 0)
    assert alone.shuffle < with_people.shuffle / 20
    assert alone.hours < with_people.hours / 5
    survey.set(input__paths=["answers.csv"])
    text = engine_cost(plan_config(survey.config, n_items=N_ITEMS), Where.FLINK, ROWS)
    assert not text.columnar
    assert text.hours > 4 * alone.hours


def test_more_rows_and_files_take_more(config):
    found = [engine_cost(config, Where.DATAFLOW, rows) for rows in (10**6, 10**8, 10**10)]
    for less, more in pairwise(found):
        assert less.hours < more.hours
        assert less.shuffle < more.shuffle
        assert less.price < more.price
    few, many = (engine_cost(config, Where.DATAFLOW, ROWS, files) for files in (1000, 100_000))
    assert few.blocks < many.blocks
    assert few.hours < many.hours


def test_the_document_has_the_numbers(survey, capsys):
    main(words(survey, "flink", "--rows", "5000000", "--price", "vcpu-hour=0.04", "--json"))
    printed = json.loads(capsys.readouterr().out)
    found = CostDocument.model_validate_json(json.dumps(printed), strict=False)
    assert (found.engine, found.rows, found.files, found.prices_from) == (
        "flink",
        5 * 10**6,
        5,
        None,
    )
    assert found.price == pytest.approx(0.04 * found.vcpu_hours)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["beam", "--rows", "10"], "must be dataflow, flink, spark"),
        (["spark"], "--rows is missing"),
        (["spark", "--rows", "10", "--price", "cpu=1"], "--price cpu: must be one of vcpu-hour"),
        (["spark", "--rows", "10", "--price", "vcpu-hour"], "must be NAME=NUMBER"),
        (["spark", "--rows", "10", "--price", "vcpu-hour=-1"], "must be a number >= 0"),
        (["spark", "--rows", "10", "--price", "shuffle-gb=1"], "add --price vcpu-hour"),
        (["spark", "--rows", "10", "--files", "0"], "--files must be from 1"),
        (["spark", "--rows", str(10**13)], "--rows must be from 1"),
    ],
)
def test_what_cannot_be_computed_is_refused(survey, command, given, said):
    code, printed = command(*words(survey, *given))
    assert code == 2
    assert said in " ".join(printed.split())


def test_it_needs_a_job_of_comparisons(survey, command):
    code, printed = command("plan", "--engine", "spark", "--rows", "10")
    assert code == 2
    assert "needs a job" in printed
    code, printed = command("plan", survey.config, "--people", "10", "--files", "3")
    assert code == 2
    assert "need --engine" in " ".join(printed.split())
    survey.set(
        input={"kind": "rankings", "paths": ["answers.csv"], "columns": {"user": "who"}},
        method="borda",
        privacy={"unit": "user", "max_contributions": 1, "epsilon": 1.0},
    )
    config = plan_config(survey.config)
    with pytest.raises(ConfigError, match="measured for comparisons"):
        engine_cost(config, Where.SPARK, 10**6)
