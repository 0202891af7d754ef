"""What `infra/` promises: read as text, for neither Terraform's providers nor Docker are at hand.

Syntax and policy are the business of `make infra`.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from hushrank.flows.recovery.witness import WITNESS_FILE
from hushrank.flows.run.stream_night import STREAM_FOLDER


@pytest.fixture
def terraform(checkout: Path) -> dict[str, str]:
    """The resources by `type.name`, each with its text."""
    blocks: dict[str, str] = {}
    for path in sorted((checkout / "infra" / "terraform").glob("*.tf")):
        text = path.read_text()
        for match in re.finditer(r'^resource "(\w+)" "(\w+)" \{\n(.*?)^\}', text, re.M | re.S):
            blocks[f"{match[1]}.{match[2]}"] = match[3]
    return blocks


@pytest.fixture
def policy(checkout: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("policy", checkout / "infra" / "policy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    for name in (f"{STREAM_FOLDER}{'0' * 16}/released/00000.npz", WITNESS_FILE):
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
        "google_cloud_run_v2_job.launcher.id}:run"
        in terraform["google_cloud_scheduler_job.nightly"]
    )


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
