"""The `runner` section: what each engine needs, and what is said where it is missing."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.options.pipeline_options import (
    DebugOptions,
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PortableOptions,
    PrismRunnerOptions,
    SetupOptions,
    StandardOptions,
    WorkerOptions,
)

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config
from hushrank.pipelines.engine.options import pipeline_options
from hushrank.pipelines.engine.runner import DEFAULT_MEMORY, HERE, Runner
from tests.flows.conftest import Survey

FLINK = {"kind": "flink", "job_server": "localhost:8099"}
DATAFLOW = {
    "kind": "dataflow",
    "project": "census",
    "region": "europe-west4",
    "temp_location": "gs://census-work/tmp",
    "image": "example.org/hushrank:1",
}


def loaded(survey: Survey, runner: Any, **changes: Any) -> SurveyConfig:
    return load_config(survey.set(runner=runner, **changes).config)


def refused(survey: Survey, runner: Any, **changes: Any) -> str:
    with pytest.raises(ConfigError) as error:
        loaded(survey, runner, **changes)
    return str(error.value).replace(f"{survey.config}: ", "")


@pytest.mark.parametrize("runner", ["local", {"kind": "local"}, None])
def test_local_needs_nothing(survey, runner):
    assert loaded(survey, runner).runner.engine() == HERE


def test_rows_may_wait_on_a_named_disk_where_the_confidential_area_is_remote(survey):
    spilling, remote = {"kind": "local", "spill": "scratch"}, "gs://census-work/area"
    engine = loaded(survey, spilling, confidential=remote).runner.engine()
    assert engine.spill == str(survey.folder / "scratch")
    said = refused(survey, {"kind": "local", "spill": "out/scratch"}, confidential=remote)
    assert said.startswith("runner.spill: is in output")
    said = refused(survey, spilling, confidential="work")
    assert said.startswith("runner.spill: is for confidential in Cloud Storage; rows wait in")


def test_workers_are_a_number_or_as_many_as_the_machine_and_the_memory_allow(survey):
    assert loaded(survey, {"kind": "local", "workers": "auto"}).runner.engine() == HERE
    engine = loaded(survey, {"kind": "local", "workers": 6}).runner.engine()
    assert engine.workers == engine.workers_within(DEFAULT_MEMORY) == 6
    said = refused(survey, {"kind": "local", "workers": 7})
    assert said.startswith("runner.workers: 7 workers need a memory_limit of 2180 MiB, and it is")
    assert loaded(survey, {"kind": "local", "workers": 7}, memory_limit="2180 MiB")
    for wrong in (0, -1, 1025, 2.0, True, "all", None):
        said = refused(survey, {"kind": "local", "workers": wrong})
        assert said.startswith("runner.workers: must be auto, or a number from 1 to 1024, got")


def test_the_engine_is_not_part_of_the_job(survey):
    here = loaded(survey, "local").job_hash()
    assert loaded(survey, {"kind": "local", "workers": 2}).job_hash() == here
    assert loaded(survey, FLINK).job_hash() == here


def test_options_of_flink(survey):
    runner = {
        **FLINK, "environment": "external", "workers": "localhost:50000", "parallelism": 4,
        "workers_per_machine": 2,
    }  # fmt: skip
    engine = loaded(survey, runner).runner.engine()
    options = pipeline_options(engine)
    assert engine.runner is Runner.FLINK
    assert options.view_as(StandardOptions).runner == "FlinkRunner"
    portable = options.view_as(PortableOptions)
    assert portable.job_endpoint == "localhost:8099"
    assert (portable.environment_type, portable.environment_config) == (
        "EXTERNAL",
        "localhost:50000",
    )
    assert portable.sdk_worker_parallelism == "2"
    assert options.view_as(FlinkRunnerOptions).parallelism == 4
    assert options.view_as(SetupOptions).save_main_session is False


def test_options_of_a_flink_cluster(survey):
    runner = {
        "kind": "flink", "master": "flink:8081", "version": "1.20", "environment": "docker",
        "image": "example.org/hushrank:1",
    }  # fmt: skip
    options = pipeline_options(loaded(survey, runner).runner.engine())
    flink = options.view_as(FlinkRunnerOptions)
    assert (flink.flink_master, flink.flink_version) == ("flink:8081", "1.20")
    assert options.view_as(PortableOptions).environment_config == "example.org/hushrank:1"


def test_options_of_prism(survey, tmp_path):
    (tmp_path / "prism").touch()
    engine = loaded(survey, {"kind": "prism", "binary": "prism"}).runner.engine()
    assert engine.runner is Runner.PRISM
    options = pipeline_options(engine)
    assert options.view_as(StandardOptions).runner == "PrismRunner"
    assert options.view_as(PrismRunnerOptions).prism_location == str(tmp_path / "prism")
    assert options.view_as(PortableOptions).environment_type == "LOOPBACK"
    said = refused(survey, {"kind": "prism"})
    assert said.startswith("runner: needs exactly one of job_server and binary; add binary")
    said = refused(survey, {"kind": "prism", "binary": "nowhere"})
    assert said.startswith("runner.binary: no such file")


def in_the_cloud(survey: Survey) -> dict[str, Any]:
    """Settings of `survey` with its places in Cloud Storage."""
    return {"input__paths": ["gs://census-input/*.parquet"], "confidential": "gs://census-work/zoo"}


def test_options_of_dataflow(survey, tmp_path):
    runner = {**DATAFLOW, "service_account": "w@census.iam", "max_workers": 9}
    options = pipeline_options(loaded(survey, runner, **in_the_cloud(survey)).runner.engine())
    cloud, workers = options.view_as(GoogleCloudOptions), options.view_as(WorkerOptions)
    assert (cloud.project, cloud.region) == ("census", "europe-west4")
    assert cloud.temp_location == cloud.staging_location == "gs://census-work/tmp"
    assert cloud.service_account_email == "w@census.iam"
    assert workers.sdk_container_image == "example.org/hushrank:1"
    assert workers.max_num_workers == 9
    assert workers.use_public_ips is False
    assert options.view_as(SetupOptions).sdk_location == "container"
    assert options.view_as(DebugOptions).experiments is None


def test_a_wheel_in_place_of_an_image(survey, tmp_path):
    wheel = tmp_path / "hushrank-1-py3-none-any.whl"
    wheel.touch()
    runner = {**DATAFLOW, "image": None, "wheel": wheel.name}
    options = pipeline_options(loaded(survey, runner, **in_the_cloud(survey)).runner.engine())
    assert options.view_as(SetupOptions).extra_packages == [str(wheel)]
    assert options.view_as(SetupOptions).setup_file is None


def test_dataflow_cannot_reach_local_paths(survey):
    told = refused(survey, DATAFLOW)
    assert "input.paths[0]: must start with gs:// with kind: dataflow" in told
    assert f"cannot reach a local path, got '{survey.folder}/answers.parquet'" in told
    assert "confidential: must start with gs:// with kind: dataflow" in told


@pytest.mark.parametrize(
    ("runner", "told"),
    [
        ("flnk", "runner.kind: must be local or flink or spark or prism or dataflow, got 'flnk'."),
        ("flink", "runner: needs exactly one of job_server and master"),
        ({**FLINK, "master": "b:1"}, "runner: needs exactly one of job_server and master"),
        ({**FLINK, "job_server": "here"}, "runner.job_server: must be host:port, got 'here'"),
        ({**FLINK, "environment": "external"}, "runner.workers: missing with environment: ext"),
        ({**FLINK, "environment": "docker"}, "runner.image: missing with environment: docker"),
        ({**FLINK, "workers": "a:1"}, "runner.workers: goes with environment: external"),
        ({**FLINK, "image": "a"}, "runner.image: goes with environment: docker"),
        ({**FLINK, "parallelism": 0}, "runner.parallelism: must be >= 1, got 0"),
        ({**FLINK, "version": "1.19"}, "runner.version: goes with master"),
        ({**FLINK, "job_server_jar": "a"}, "runner.job_server_jar: goes with master"),
        ({**FLINK, "region": "x"}, "runner.region: unknown key"),
        ({"kind": "dataflow"}, "runner.project: missing; add for example project: my-project"),
        ({**DATAFLOW, "image": None}, "runner: needs exactly one of image and wheel"),
        ({**DATAFLOW, "wheel": "a.whl"}, "runner: needs exactly one of image and wheel"),
        ({**DATAFLOW, "image": None, "wheel": "a.whl"}, "runner.wheel: no such wheel"),
        ({**DATAFLOW, "temp_location": "/tmp"}, "runner.temp_location: must be a gs:// folder"),
    ],
)
def test_mistakes_are_named(survey, runner, told):
    assert told in refused(survey, runner)


def test_no_local_privacy_on_an_engine_that_computes_again(survey):
    private = {
        "privacy": {"unit": "local", "epsilon": 1.0},
        "method": "debiased-rr",
        "input__ties": "random",
    }
    spark = {**FLINK, "kind": "spark"}
    assert loaded(survey, spark).runner.engine().runner is Runner.SPARK
    assert loaded(survey, FLINK, **private).runner.engine().runner is Runner.FLINK
    assert "runner: not with kind: spark, which computes parts again" in refused(
        survey, spark, **private
    )


def test_no_local_rankings_on_an_engine_that_computes_again(survey):
    """Which of many rankings of a person count is drawn in the job, private or not."""
    private = {
        "input": {"kind": "rankings", "paths": ["ballots.parquet"], "columns": {}},
        "privacy": {
            "unit": "local", "mechanism": "mallows", "epsilon": 1.0, "already_private": True
        },
        "method": "kemeny",
    }  # fmt: skip
    assert loaded(survey, FLINK, **private).runner.engine().runner is Runner.FLINK
    assert "runner: not with kind: spark, which computes parts again" in refused(
        survey, {**FLINK, "kind": "spark"}, **private
    )
