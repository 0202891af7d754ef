"""What `infra/` promises: read as text, for neither Terraform's providers nor Docker are at hand.

Syntax and policy are the business of `make infra`.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from hushrank.flows.collecting.server import HEALTH
from hushrank.flows.interfaces.cli.main import COMMANDS
from hushrank.flows.run.stream_night import STREAM_FOLDER
from hushrank.flows.trust.recovery import CHECKPOINT_FILE


@pytest.fixture
def terraform(checkout: Path) -> dict[str, str]:
    """The resources by `type.name`, each with its text."""
    blocks: dict[str, str] = {}
    for path in sorted((checkout / "infra" / "terraform").glob("*.tf")):
        text = path.read_text()
        for match in re.finditer(r'^resource "(\w+)" "(\w+)" \{\n(.*?)^\}', text, re.M | re.S):
            blocks[f"{match[1]}.{match[2]}"] = match[3]
    return blocks


def script(checkout: Path, name: str) -> ModuleType:
    """A program of `infra/`, as a module."""
    spec = importlib.util.spec_from_file_location(
        f"infra_{name}", checkout / "infra" / f"{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look there for themselves
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def policy(checkout: Path) -> ModuleType:
    return script(checkout, "policy")


def test_what_is_confidential_goes_and_what_is_released_stays(terraform, checkout):
    confidential = terraform["google_storage_bucket.confidential"]
    rule = re.search(
        r"age += var.confidential_days\n +matches_prefix = concat\(\[\"dataflow/\"\],"
        r" \[for digit in split\(\"\", \"(\w+)\"\) : \"work/\$\{digit\}\"\]\)\n    }\n"
        r"    action {\n      type = \"Delete\"",
        confidential,
    )
    prefixes = ("dataflow/", *(f"work/{digit}" for digit in rule[1]))
    outputs = (checkout / "infra" / "terraform" / "outputs.tf").read_text()
    for place in ("work", "dataflow"):
        assert f'${{google_storage_bucket.confidential.name}}/{place}"' in outputs
    for release in (f"{first:x}" * 16 for first in range(16)):
        assert f"work/{release}/exact.npz".startswith(prefixes)
    # A stream needs what its first night has left until its last one.
    for name in (f"{STREAM_FOLDER}{'0' * 16}/released/00000.npz", CHECKPOINT_FILE):
        assert not f"work/{name}".startswith(prefixes)
    assert "retention_duration_seconds = 0" in confidential  # deleted means gone
    assert re.search(r"versioning {\n    enabled = false", confidential)
    released = terraform["google_storage_bucket.released"]
    assert "retention_policy" in released
    assert "Delete" not in released
    ledger = terraform["google_storage_bucket.ledger"]
    assert re.search(r"versioning {\n    enabled = true", ledger)
    assert "retention_policy" not in ledger  # its object is replaced at every entry


def test_every_version_of_the_ledger_is_kept(terraform):
    """What is deleted after a time are versions of leases and lengths alone."""
    ledger = terraform["google_storage_bucket.ledger"]
    rules = re.findall(r"lifecycle_rule \{.*?\n  \}", ledger, re.S)
    assert len(rules) == 1
    assert re.search(r'matches_suffix += \[".lease", ".length"\]', rules[0])


def test_the_schedule_starts_the_command(terraform):
    job = terraform["google_cloud_run_v2_job.launcher"]
    assert re.search(
        r'command = \["hushrank"\]\n +args += \["catch-up", "--direct", "/survey/', job
    )
    assert re.search(r"max_retries += 0", job)
    assert (
        "google_cloud_run_v2_job.launcher[0].id}:run"
        in terraform["google_cloud_scheduler_job.nightly"]
    )


def test_one_orchestrator_starts_nights_and_a_worker_is_the_launcher(terraform):
    """Cloud Scheduler starts no nights beside Prefect."""
    for name in ("run_v2_job.launcher", "run_v2_job_iam_member.scheduler", "scheduler_job.nightly"):
        assert re.search(r"count += local.without_prefect\n", terraform[f"google_cloud_{name}"])
    for name in ("google_cloud_run_v2_service.worker", "google_cloud_run_v2_job.deploy"):
        assert re.search(r"count += local.with_prefect\n", terraform[name])
        assert "service_account = google_service_account.launcher.email" in terraform[name]
    server = terraform["google_cloud_run_v2_service.server"]
    assert "service_account = google_service_account.server.email" in server
    assert 'ingress             = "INGRESS_TRAFFIC_INTERNAL_ONLY"' in server
    assert "PREFECT_SERVER_API_AUTH_STRING" in server


def report(kind: str, passed: int, **results: object) -> dict[str, object]:
    empty = {"failed_checks": [], "skipped_checks": [], "parsing_errors": []}
    return {
        "check_type": kind,
        "results": {**empty, **results},
        # type: ignore[arg-type]
        "summary": {"passed": passed, "parsing_errors": len(results.get("parsing_errors", []))},
    }


def test_a_clean_scan_passes(policy):
    assert policy.problems([report("terraform", 48), report("dockerfile", 53)]) == []


def test_a_finding_an_unread_file_and_an_empty_scan_fail(policy):
    finding = {
        "file_path": "/buckets.tf",
        "file_line_range": [7, 9],
        "check_id": "CKV_GCP_114",
        "check_name": "public access",
    }
    skipped = {"resource": "a.b", "check_id": "CKV_1", "check_result": {"result": "SKIPPED"}}
    found = policy.problems(
        [
            report(
                "terraform",
                3,
                failed_checks=[finding],
                skipped_checks=[skipped],
                parsing_errors=["/broken.tf"],
            )
        ]
    )
    assert found == [
        "/broken.tf: cannot be read",
        "terraform/buckets.tf:7: CKV_GCP_114 public access",
        "a.b: CKV_1 is skipped without a reason",
        "terraform: only 3 checks passed, of at least 40",
        "dockerfile: nothing was scanned",
    ]


def declared(name: str, of: str, kind: str = "string") -> str:
    """An argument as the npm package declares it; a question mark: it may be left out."""
    camel = re.sub(r"_(\w)", lambda match: match[1].upper(), name.removesuffix("?"))
    link = f"https://registry.terraform.io/#{name.removesuffix('?')} {of}#{name.removesuffix('?')}"
    mark = "?" if name.endswith("?") else ""
    return f"    /**\n    * Docs: {{@link {link}}}\n    */\n    readonly {camel}{mark}: {kind};\n"


BOX = f"""export interface PaperBoxConfig extends cdktf.TerraformMetaArguments {{
{declared("colour", "PaperBox")}{declared("max_load?", "PaperBox", "number")}\
{declared("lid?", "PaperBox", "PaperBoxLid")}}}
export interface PaperBoxLid {{
{declared("hinge_count", "PaperBox", "number")}}}
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A provider with one resource."""
    (tmp_path / "index.d.ts").write_text(BOX)
    with tarfile.open(tmp_path / "package.tgz", "w:gz") as members:
        members.add(tmp_path / "index.d.ts", "package/lib/paper-box/index.d.ts")
    return tmp_path / "package.tgz"


GOOD = """resource "google_paper_box" "b" {
  count    = 2
  colour   = "red"
  max_load = var.load
  lid {
    hinge_count = 2
  }
}
"""
DYNAMIC = (
    '  dynamic "lid" {\n    for_each = var.lids\n    content {\n      hinge = 2\n    }\n  }\n}\n'
)
AT = "a.tf: google_paper_box.b"


@pytest.mark.parametrize(
    ("old", "new", "problems"),
    [
        ("red", "blue", []),
        ("max_load", "maximal_load", [f"{AT}: maximal_load is no argument of it"]),
        ("max_load", "maxLoad", [f"{AT}: maxLoad is no argument of it"]),
        ('colour   = "red"', "", [f"{AT}: colour is missing"]),
        ("hinge_count = 2", "", [f"{AT}.lid: hinge_count is missing"]),
        ("hinge_count", "hinge_count = 2\n a", [f"{AT}.lid: a is no argument of it"]),
        ("lid {\n    hinge_count = 2\n  }", "lid = 2", [f"{AT}: lid is a block, not an argument"]),
        (
            "}\n}\n",
            "}\n" + DYNAMIC,
            [f"{AT}.lid: hinge is no argument of it", f"{AT}.lid: hinge_count is missing"],
        ),
        ("paper_box", "paper_bag", ["a.tf: google_paper_bag is no resource of the provider"]),
    ],
)
def test_arguments_are_those_of_the_provider(checkout, package, tmp_path, old, new, problems):
    assert GOOD.count(old) == 1
    (tmp_path / "a.tf").write_text(GOOD.replace(old, new))
    assert script(checkout, "schema").check(package, tmp_path) == (problems, 1)


def run_schema(checkout: Path, package: Path, integrity: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, checkout / "infra" / "schema.py", package, integrity, package.parent]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_package_other_than_the_pinned_one_is_not_read(checkout, package):
    digest = hashlib.sha512(package.read_bytes()).digest()
    ours = f"sha512-{base64.b64encode(digest).decode()}"
    ended = run_schema(checkout, package, ours)
    assert (ended.returncode, ended.stderr) == (1, "only 0 resources were found, of at least 20\n")
    with package.open("ab") as file:
        file.write(b"\0")
    ended = run_schema(checkout, package, ours)
    assert ended.returncode == 1
    assert f"{ours} is pinned in infra/check.sh. Nothing was read of it." in ended.stderr


def test_the_provider_s_package_is_pinned(checkout):
    text = (checkout / "infra" / "check.sh").read_text()
    assert re.search(r"^integrity=sha512-[A-Za-z0-9+/]{86}==$", text, re.M)
    assert 'infra/schema.py "$tools/$provider" "$integrity" infra/terraform\n' in text


def pods(checkout: Path) -> list[dict]:
    """What the pods of the recipe for Kubernetes are made of."""
    path = checkout / "infra" / "kubernetes" / "hushrank.yaml"
    found = {each["kind"]: each["spec"] for each in yaml.safe_load_all(path.read_text())}
    night = found["CronJob"]["jobTemplate"]["spec"]["template"]
    return [found["StatefulSet"]["template"]["spec"], night["spec"]]


def test_pods_run_as_anybody_on_a_root_that_nobody_writes(checkout):
    for pod in pods(checkout):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        volumes = {each["name"] for each in pod["volumes"]}
        for each in (*pod["containers"], *pod["initContainers"]):
            closed = each["securityContext"]
            assert closed["readOnlyRootFilesystem"] is True
            assert closed["allowPrivilegeEscalation"] is False
            assert closed["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in each["resources"]["limits"]
            assert {mount["name"] for mount in each["volumeMounts"]} <= volumes
    collector = pods(checkout)[0]["containers"][0]
    assert collector["readinessProbe"]["httpGet"]["path"] == HEALTH


def test_recipes_call_commands_that_there_are(checkout):
    called = [pod["containers"][0]["args"][0] for pod in pods(checkout)]
    for path in (checkout / "infra" / "systemd").glob("*.service"):
        called += re.findall(r"^ExecStart=\S+/hushrank (\S+)", path.read_text(), re.M)
    known = {name for commands in COMMANDS.values() for name in commands}
    assert len(called) == 4
    assert {*called} <= known


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_reads_the_units(checkout):
    units = sorted(map(str, (checkout / "infra" / "systemd").iterdir()))
    asked = ["systemd-analyze", "verify", *units]
    said = subprocess.run(asked, capture_output=True, text=True).stderr
    # of a program that is not installed here it complains in any case
    assert [line for line in said.splitlines() if "is not executable" not in line] == []


def test_the_slim_image_needs_no_account_and_takes_what_the_wheel_is_built_of(checkout):
    text, whole = (
        (checkout / "infra" / name).read_text() for name in ("Dockerfile.slim", "Dockerfile")
    )
    assert re.search(r"^USER [1-9]\d+:[1-9]\d+$", text, re.M)
    copied = r"^COPY (?!--from|infra/image)(.*)$"
    assert re.findall(copied, text, re.M) == [
        each for each in re.findall(copied, whole, re.M) if "launch.py" not in each
    ]
