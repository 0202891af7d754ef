"""The stages that a plan shows are those that run, and touch the files that they say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hushrank.pipelines.engine.runner import Engine, Runner
from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.graph import INPUT, WAITING, randomising_stage, stages
from hushrank.transforms.common.schema import Ties
from tests.pipelines.reduce import test_reduce_comparisons as comparisons
from tests.pipelines.reduce import test_reduce_private as private
from tests.pipelines.reduce import test_reduce_rankings as rankings
from tests.pipelines.reduce import test_reduce_responses as responses

CONFLICTING = {"event": "id", "ties": Ties.RANDOM}


def written(work: Path) -> set[str]:
    """Files and folders that a reduction left."""
    return {f"{path.name}/" if path.is_dir() else path.name for path in work.iterdir()}


def job_of(kind: str, folder: Path, work: Path):
    """A job of each kind; all but `private` set rows aside."""
    if kind == "comparisons":
        comparisons.write(comparisons.a_log(), folder, files=2, row_group=300, seed=1)
        return comparisons.a_job(folder, work, **CONFLICTING)
    if kind == "responses":
        responses.write(responses.a_log(repeated=True), folder)
        return responses.a_job(folder, work)
    if kind == "rankings":
        twice = rankings.true_rankings()[:30]
        rankings.write(rankings.long_form(twice, [0, *range(29)]), folder)
        return rankings.a_job(folder, work, already_private=False)
    folder.mkdir()
    private.pq.write_table(private.a_log(), folder / "0.parquet")
    return private.a_job(folder, work)


@pytest.mark.parametrize("kind", ["comparisons", "responses", "rankings", "private"])
def test_every_file_is_written_by_a_stage(tmp_path, kind):
    work = tmp_path / "work"
    job = job_of(kind, tmp_path / "in", work)
    found = stages(job)
    assert not work.exists()
    names = [stage.name for stage in found]
    told = {name for stage in found for name in stage.writes} - set(names)
    reduce.run(job)
    assert written(work) - {"rejects/"} == told - {"rejects/"}
    assert "rejects/" in told
    assert ("rejects/" in written(work)) == (kind != "private")


@pytest.mark.parametrize("kind", ["comparisons", "responses", "rankings", "private"])
def test_edges_have_two_ends(tmp_path, kind):
    found = stages(job_of(kind, tmp_path / "in", tmp_path / "work"))
    names = [stage.name for stage in found]
    edges = {(source, stage.name) for stage in found for source in stage.reads if source in names}
    assert edges == {(s.name, target) for s in found for target in s.writes if target in names}
    assert all(names.index(source) < names.index(target) for source, target in edges)
    assert INPUT in next(stage for stage in found if stage.name == "Read").reads
    sinks = [stage for stage in found if not set(stage.writes) & set(names)]
    assert all(stage.writes for stage in sinks)


def test_the_graph_says_what_it_does(tmp_path):
    found = [stage.name for stage in stages(job_of("responses", tmp_path / "in", tmp_path / "w"))]
    assert found == ["Read", "Encode", "Bound", "Count", "Write"]


def test_where_rows_of_heavy_people_wait_on_an_engine(tmp_path):
    job = job_of("comparisons", tmp_path / "in", tmp_path / "work")
    assert not [stage for stage in stages(job) if WAITING in (*stage.reads, *stage.writes)]
    found = stages(dataclasses.replace(job, engine=Engine(Runner.FLINK)))
    assert [stage.name for stage in found if WAITING in stage.writes] == ["Encode"]
    assert [stage.name for stage in found if WAITING in stage.reads] == ["Bound"]


def test_where_answers_become_private(tmp_path):
    for kind, name in (("rankings", "Bound"), ("private", "Encode")):
        found = stages(job_of(kind, tmp_path / kind, tmp_path / "work"))
        assert randomising_stage([stage.name for stage in found]) == name
