"""Ready for Dataflow: what would be submitted and staged, and whether workers can load it.

No test here talks to Google. A template is all that the service would get: pipeline, environment
and options; `dry_run` and `template_location` stop Beam before it sends them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import google.auth
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from apache_beam.portability.api import beam_runner_api_pb2
from google.auth.credentials import AnonymousCredentials

from hushrank.flows import reading
from hushrank.flows.config.runner import DataflowRunner
from hushrank.flows.methods.registry import METHODS
from hushrank.flows.nights import dataflow_template
from hushrank.flows.reading import ReadingError
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.pipelines.engine.runner import Engine, Runner
from hushrank.pipelines.reduce import kind as execution
from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.graph import graph_of
from hushrank.pipelines.reduce.reduction_job import NightOfStream
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.stream_encoder import Terms
from hushrank.transforms.storage.places import CloudPath
from tests.flows.conftest import ITEMS, answers

ROOT = Path(__file__).resolve().parents[3]
ARGUMENTS = (
    "--runner=DataflowRunner",
    "--project=test",
    "--region=europe-west4",
    "--temp_location=gs://survey/confidential/tmp",
    "--staging_location=gs://survey/confidential/staging",
    "--sdk_container_image=example.org/hushrank:0.1.0",
    "--sdk_location=container",
)
TEMPLATE = "gs://survey/confidential/template.json"

CENTRAL = {"unit": "user", "epsilon": 2.0, "max_contributions": 4}
LOCAL = {"unit": "local", "epsilon": 2.0, "budget": "per_user", "max_contributions": 4}
COMPARISONS = {
    "kind": "comparisons",
    "design": "balanced",
    "columns": {"left": "item_i", "right": "item_j"},
}
STREAM = {
    "nights": 3,
    "participations": 2,
    "gap": 1,
    "show": "night",
    "first": "2024-11-16",
}
# type: ignore[dict-item]
EVENTS = {**COMPARISONS, "columns": {**COMPARISONS["columns"], "event": "event"}}
RESPONSES = {"kind": "responses"}
RANKINGS = {"kind": "rankings", "columns": {}}
JOBS: dict[str, dict[str, Any]] = {  # every shape of every graph
    "wins": {"input": COMPARISONS, "privacy": CENTRAL, "method": "noisy-counts"},
    "pairs": {"input": COMPARISONS, "privacy": CENTRAL, "method": "noisy-pairs"},
    "night": {"input": COMPARISONS, "privacy": CENTRAL, "method": "noisy-counts"},  # of a stream
    "unbounded": {
        "input": COMPARISONS,
        "privacy": {"unit": "comparison", "epsilon": 2.0},
        "method": "noisy-counts",
    },
    "events": {"input": EVENTS, "privacy": CENTRAL, "method": "noisy-counts"},
    "answers": {
        "input": {**COMPARISONS, "ties": "random"},
        "privacy": LOCAL,
        "method": "debiased-rr",
    },
    "responses": {"input": RESPONSES, "privacy": CENTRAL, "method": "spectral"},
    "local responses": {"input": RESPONSES, "privacy": LOCAL, "method": "spectral-rr"},
    "rankings": {
        "input": RANKINGS,
        "privacy": {"unit": "local", "mechanism": "mallows", "epsilon": 2.0},
        "method": "kemeny",
    },
}


@pytest.fixture
def anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam asks for credentials even where it talks to an emulator."""
    monkeypatch.setattr(google.auth, "default", lambda *_, **__: (AnonymousCredentials(), "test"))


def rows_of(kind: str) -> pa.Table:
    if kind == "comparisons":
        table = answers(20)
        return table.append_column("event", pa.array(np.arange(len(table))))
    people, places = np.repeat(np.arange(50), len(ITEMS)), np.tile(np.arange(len(ITEMS)), 50)
    table = pa.table({"user": people, "item": np.array(ITEMS)[places]})
    if kind == "responses":
        return table.append_column("correct", pa.array(places % 2 == 0))
    return table.append_column("rank", pa.array(places + 1))


def settings_of(job: dict[str, Any], root: str) -> dict[str, Any]:
    kind = job["input"]["kind"]
    return {
        "name": "zoo",
        "items": {"names": ITEMS, "first_code": 0},
        "output": f"{root}/released",
        "confidential": f"{root}/confidential",
        "ledger": {"path": f"{root}/ledger.jsonl", "epsilon": 5, "delta": 1e-6},
        **job,
        "input": {**job["input"], "paths": [f"{root}/input/{kind}.parquet"]},
    }


def reduction_of(name: str, folder: Path, engine: Engine) -> Any:
    """The reduction of a job on local files: building its graph reads headers only."""
    kind = JOBS[name]["input"]["kind"]
    (folder / "input").mkdir()
    pq.write_table(rows_of(kind), folder / "input" / f"{kind}.parquet")
    config = folder / "survey.yaml"
    config.write_text(yaml.safe_dump(settings_of(JOBS[name], str(folder))))
    job = prepare_job(read_survey(config))
    method = job.drawn_by.method
    key = SecretKey.draw(system_bits())
    made = method.reduction(job.config, job.mechanism, job.files, key, str(job.work))
    changes: dict[str, Any] = {"engine": engine}
    if name == "night":
        terms = Terms(nights=3, participations=2, gap=1)
        place = {"stream": "s", "folder": str(folder / "stream"), "attempt": "a"}
        changes["stream"] = NightOfStream(**place, key=key, terms=terms, night=0)
    return type(made)(**{**_fields(made), **changes})


def _fields(made: Any) -> dict[str, Any]:
    return {name: getattr(made, name) for name in type(made).__dataclass_fields__}


@pytest.mark.parametrize("name", JOBS)
def test_a_dry_run_accepts_every_graph(name, tmp_path, emulator, anybody):
    engine = Engine(Runner.DATAFLOW, (*ARGUMENTS, "--dry_run=True"))
    result = graph_of(reduction_of(name, tmp_path, engine)).run()
    assert result.state == "DONE"
    assert result.job.proto.type_.name == "JOB_TYPE_BATCH"


def test_what_is_staged_is_the_graph_and_the_image(tmp_path, emulator, anybody):
    engine = Engine(Runner.DATAFLOW, (*ARGUMENTS, f"--template_location={TEMPLATE}"))
    graph_of(reduction_of("wins", tmp_path, engine)).run()
    template = json.loads(CloudPath.parse(TEMPLATE).read_bytes())
    options = template["environment"]["sdkPipelineOptions"]["options"]
    images = {
        pool["workerHarnessContainerImage"] for pool in template["environment"]["workerPools"]
    }
    assert images == {"example.org/hushrank:0.1.0"}
    graph = beam_runner_api_pb2.Pipeline.FromString(
        CloudPath.parse(options["pipelineUrl"]).read_bytes()
    )
    names = {transform.unique_name for transform in graph.components.transforms.values()}
    assert {"Read", "Encode", "Bound", "Count", "Write"} <= names
    staged = [str(found.path) for found in CloudPath.parse("gs://survey").objects()]
    assert not [path for path in staged if "main_session" in path or path.endswith(".tar.gz")]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (None, "reduce: Beam checked the job and did not send it (dry run): no row was read."),
        ("RUNNING", "reduce: the job took longer than runner.max_hours, so it was stopped."),
        ("CANCELLED", "reduce: the engine ended the job as CANCELLED."),
    ],
)
def test_how_an_engine_ended_a_job_is_said_in_a_sentence(monkeypatch, tmp_path, state, said):
    cancelled = []

    class Ended:
        def run(self) -> Ended:
            return self

        def wait_until_finish(self, _: int) -> str | None:
            return state

        def cancel(self) -> None:
            cancelled.append(state)

    job = reduction_of("wins", tmp_path, Engine(Runner.DATAFLOW, ARGUMENTS))
    monkeypatch.setattr(execution, "_pipeline", lambda _: Ended())
    monkeypatch.setattr(reduce, "run", lambda _: execution.execute(job, lambda *_: None))
    with pytest.raises(ReadingError) as raised:
        reading._reduce(job)
    assert str(raised.value) == f"{said} No budget was spent."
    assert cancelled == (["RUNNING"] if state == "RUNNING" else [])
    assert not (Path(job.confidential) / "error.txt").exists()


NIGHT = "2026-11-20"
NOT_SENT = "Beam checked the job and did not send it"


@pytest.mark.engine
def test_a_night_on_dataflow_goes_through_its_flow_and_is_paid_once(
    tmp_path, emulator, anybody, on_prefect, command, monkeypatch
):
    """Up to the submission, which Beam's dry run stops; what workers would count is counted here.

    Before the workers have counted, a night that fails costs nothing.
    """
    settings = settings_of(JOBS["wins"], "gs://survey")
    settings |= {
        "name": "dataflow",
        "input": settings["input"] | {"paths": ["gs://survey/input/{date}.parquet"]},
        "runner": {"kind": "dataflow", "project": "test", "region": "europe-west4",
                   "temp_location": "gs://survey/confidential/tmp",
                   "image": "example.org/hushrank:0.1.0"},
    }  # fmt: skip
    config = tmp_path / "survey.yaml"
    config.write_text(yaml.safe_dump(settings))
    pq.write_table(rows_of("comparisons"), tmp_path / "rows.parquet")
    rows = CloudPath.parse(f"gs://survey/input/{NIGHT}.parquet")
    rows.write((tmp_path / "rows.parquet").read_bytes())
    engine = DataflowRunner.engine

    def stopped_before_it_is_sent(section: DataflowRunner) -> Engine:
        made = engine(section)
        return replace(made, arguments=(*made.arguments, "--dry_run=True"))

    monkeypatch.setattr(DataflowRunner, "engine", stopped_before_it_is_sent)
    run, submitted = beam.Pipeline.run, dict[int, Any]()

    def noted(pipeline: beam.Pipeline, *arguments: Any, **keywords: Any) -> Any:
        result = run(pipeline, *arguments, **keywords)
        if hasattr(result, "job"):  # Beam calls this twice for one job
            submitted[id(result.job)] = result.job
        return result

    monkeypatch.setattr(beam.Pipeline, "run", noted)
    backfill = ("backfill", config, "--from", NIGHT, "--to", NIGHT, "--prefect")
    with pytest.raises(RuntimeError, match=NOT_SENT):  # a child process would put it into words
        command(*backfill)
    assert {job.proto.type_.name for job in submitted.values()} == {"JOB_TYPE_BATCH"}
    attempts = len(submitted)  # Prefect repeats the step
    elsewhere, counts = execution._run_elsewhere, []

    def submitted_and_counted(job: Any, build: Any) -> None:
        with pytest.raises(RuntimeError, match=NOT_SENT):
            elsewhere(job, build)
        counts.append(job.engine.runner)
        execution._run_here(replace(job, engine=Engine(Runner.LOCAL, beam=True)), build)

    monkeypatch.setattr(execution, "_run_elsewhere", submitted_and_counted)
    for attempt in range(2):
        code, printed = command(*backfill)
        assert code == 0, printed
        assert ("released before" in printed) is (attempt == 1)
    assert counts == [Runner.DATAFLOW]
    assert len(submitted) == attempts + 1
    entries = CloudPath.parse("gs://survey/ledger.jsonl").read_text().splitlines()
    assert [json.loads(entry)["event"] for entry in entries].count("draw") == 1
    runs = on_prefect.flow_runs(flow_runs={"name": {"like_": f"dataflow-{NIGHT}"}})
    assert sorted(each["state_type"] for each in runs) == ["COMPLETED", "FAILED"]


# Without our tree and the tests: what a worker has is the wheel.
LOAD = """
import sys
wheel, *graphs = sys.argv[1:]
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]
sys.path = [wheel] + [path for path in sys.path if "__editable__" not in path]
import apache_beam as beam
from apache_beam.portability.api import beam_runner_api_pb2
for graph in graphs:
    with open(graph, "rb") as stream:
        content = stream.read()
    assert b"__main__" not in content, "a pickle refers to the program that submits"
    proto = beam_runner_api_pb2.Pipeline.FromString(content)
    pipeline = beam.Pipeline.from_runner_api(proto, "FnApiRunner", None)
    loaded = []
    class Visitor(beam.pipeline.PipelineVisitor):
        def visit_transform(self, node):
            function = getattr(node.transform, "fn", None)
            loaded.append(type(function).__module__)
    pipeline.visit(Visitor())
    assert sum(module.startswith("hushrank.") for module in loaded) >= 3, loaded
ours = [module.__file__ for name, module in sys.modules.items() if name.startswith("hushrank.")]
assert all(file.startswith(wheel) for file in ours), ours
assert not [name for name in sys.modules if name.split(".")[0] in ("tests", "pytest")]
"""


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"  # a copy: the build writes into its source folder
    tree.mkdir()
    for code in (
        "privacy",
        "estimation",
        "transforms",
        "pipelines",
        "flows",
        "experiments",
        "entry",
        "verifier",
    ):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(checkout / code, tree / code, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(checkout / name, tree)
    (tree / "infra").mkdir()
    shutil.copy(checkout / "infra" / "sbom.cdx.json", tree / "infra")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(tree)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    installed = folder / "installed"
    with zipfile.ZipFile(built) as archive:
        archive.extractall(installed)
    return installed


@pytest.mark.slow
def test_workers_that_have_only_our_wheel_can_load_every_graph(wheel, tmp_path):
    engine = Engine(Runner.DATAFLOW, (*ARGUMENTS, "--dry_run=True"))
    graphs = []
    for name in JOBS:
        folder = tmp_path / name
        folder.mkdir()
        graphs.append(folder / "graph.pb")
        proto = graph_of(reduction_of(name, folder, engine)).to_runner_api()
        graphs[-1].write_bytes(proto.SerializeToString())
    loading = subprocess.run(
        [sys.executable, "-I", "-c", LOAD, str(wheel), *map(str, graphs)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=840,
    )
    assert loading.returncode == 0, loading.stderr[-2000:]


# The flex template


def upload(root: str, job: dict[str, Any], folder: Path) -> str:
    kind = job["input"]["kind"]
    pq.write_table(rows_of(kind), folder / "rows.parquet")
    rows = CloudPath.parse(f"{root}/input/{kind}.parquet")
    rows.write((folder / "rows.parquet").read_bytes())
    survey = CloudPath.parse(f"{root}/survey.yaml")
    survey.write(yaml.safe_dump(settings_of(job, root)).encode())
    return str(survey)


def test_the_template_submits_a_survey_and_leaves_it_to_the_engine(tmp_path, emulator, anybody):
    survey = upload("gs://survey", JOBS["wins"], tmp_path)
    at = f"--template_location={TEMPLATE}"
    dataflow_template.main([f"--survey={survey}", *ARGUMENTS, at, "--job_name=nightly"])
    template = json.loads(CloudPath.parse(TEMPLATE).read_bytes())
    assert template["name"] == "nightly"
    assert not CloudPath.parse("gs://survey/ledger.jsonl").exists()  # nothing is spent by counting


def test_a_run_takes_up_what_a_template_has_counted(tmp_path, emulator, monkeypatch):
    upload("gs://survey", JOBS["wins"], tmp_path)
    config = tmp_path / "survey.yaml"
    config.write_text(yaml.safe_dump(settings_of(JOBS["wins"], "gs://survey")))
    job = prepare_job(read_survey(config))
    key = SecretKey.draw(system_bits())
    made = METHODS["noisy-counts"].reduction(
        job.config, job.mechanism, job.files, key, str(job.work)
    )
    reduce.run(made)  # as the workers would
    exact = (job.work / "exact.npz").read_bytes()

    def must_not_run(*_: object) -> None:
        raise AssertionError("rows were read again")

    monkeypatch.setattr("hushrank.pipelines.reduce.kind._pipeline", must_not_run)
    elsewhere = Engine(Runner.DATAFLOW, ARGUMENTS)
    reduce.run(type(made)(**{**_fields(made), "engine": elsewhere, "key": bytes([1]) * 32}))
    assert (job.work / "exact.npz").read_bytes() == exact


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output": "out"}, "output: must start with gs:// for this template"),
        ({"confidential": "/tmp/c"}, "confidential: must start with gs:// for this template"),
        ({"top_k": 9}, "top_k: must be below the number of items"),
        (
            {
                "privacy": CENTRAL | {"noise": "gaussian", "delta": 1e-6},
                "schedule": {"partition": "date", "stream": STREAM},
            },
            "schedule.stream: this template counts nights by themselves",
        ),
    ],
)
def test_a_survey_that_workers_could_not_serve_is_refused(
    tmp_path,
    emulator,
    capsys,
    change,
    message,
):
    upload("gs://survey", JOBS["wins"], tmp_path)
    settings = settings_of(JOBS["wins"], "gs://survey") | change
    CloudPath.parse("gs://survey/survey.yaml").write(yaml.safe_dump(settings).encode())
    with pytest.raises(SystemExit) as stopped:
        dataflow_template.main(["--survey=gs://survey/survey.yaml", *ARGUMENTS])
    assert stopped.value.code == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert "Traceback" not in printed


def test_a_survey_that_is_not_there_is_refused(emulator, capsys):
    with pytest.raises(SystemExit) as stopped:
        dataflow_template.main(["--survey=gs://survey/nowhere.yaml", *ARGUMENTS])
    assert stopped.value.code == 2
    assert "--survey gs://survey/nowhere.yaml: cannot be read" in capsys.readouterr().err


def test_the_template_s_parameters_are_those_of_its_program(checkout):
    described = json.loads((checkout / "infra" / "dataflow" / "metadata.json").read_text())
    asked = {
        action.option_strings[0].removeprefix("--"): action
        for action in dataflow_template.arguments()._actions
        if action.dest != "help"
    }
    assert {parameter["name"] for parameter in described["parameters"]} == set(asked)
    for parameter in described["parameters"]:
        action = asked[parameter["name"]]
        assert parameter["isOptional"] is not action.required
        assert parameter["helpText"].removesuffix(".").lower() == (action.help or "").lower()


def test_the_image_s_program_and_version_are_ours(checkout):
    docker = (checkout / "infra" / "Dockerfile").read_text()
    pins = (checkout / "requirements.lock").read_text()
    (beam,) = (line for line in pins.splitlines() if line.startswith("apache-beam=="))
    assert f"_sdk:{beam.removeprefix('apache-beam==').split()[0]}" in docker.replace(
        "apache-beam", ""
    )
    assert "FLEX_TEMPLATE_PYTHON_PY_FILE=/opt/hushrank/launch.py" in docker
    launch = (checkout / "infra" / "dataflow" / "launch.py").read_text()
    assert "from hushrank.flows.nights.dataflow_template import main" in launch
    lines = [line.split() for line in docker.splitlines() if line.startswith("COPY ")]
    copied = [name for words in lines if not words[1].startswith("--from") for name in words[1:-1]]
    packages = tomllib.loads((checkout / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {folder.split("/")[0] for folder in packages["package-dir"].values()}
    assert {*folders, "pyproject.toml", "infra/image.lock", "infra/dataflow/launch.py"} <= {*copied}
    sent = (checkout / ".dockerignore").read_text().splitlines()  # to the program that builds it
    for name in {*copied, "setup.py", "README.md", "LICENSE"}:
        assert f"!{name}" in sent, name
