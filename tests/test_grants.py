"""The accounts of `infra/terraform` have the buckets they need; `tests.grants` misses no grant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.grants import BUCKET, CREATE, LOOK_UP, READ, USE, NotUnderstoodError, Terraform, texts_of

ALLOWED = {
    "launcher": {
        "input": READ,
        "config": READ,
        "confidential": USE | LOOK_UP,
        "released": READ | CREATE,  # so it replaces nothing there
        "ledger": USE,
    },
    "worker": {"input": READ, "confidential": USE | LOOK_UP},
    "reader": {"released": READ},
    "scheduler": {},
    "server": {},
}


@pytest.fixture(scope="module")
def texts(checkout: Path) -> dict[str, str]:
    return texts_of(checkout / "infra" / "terraform")


def resource(kind: str, **arguments: str) -> str:
    """A resource named `planted`, with its arguments as they are written in a file."""
    lines = (f"  {name} = {value}\n" for name, value in arguments.items())
    return f'resource "google_{kind}" "planted" {{\n{"".join(lines)}}}\n'


def member(kind: str, **arguments: str) -> str:
    """A grant to the worker to use objects, if nothing else is said."""
    given = {"role": '"roles/storage.objectUser"', "member": "local.worker", **arguments}
    return resource(f"{kind}_iam_member", **given)


LEDGER, CONFIDENTIAL = f"{BUCKET}.ledger.name", f"{BUCKET}.confidential.name"
PREFECT = "google_cloud_run_v2_service.server"  # anybody in the network may ask it for its key
LAUNCHER = "google_service_account.launcher.name"
PLANTED = "google_project_iam_custom_role.planted.name"


@pytest.mark.parametrize("account", ALLOWED)
def test_an_account_reaches_the_buckets_that_it_needs_and_no_more(texts, account):
    reached = Terraform(texts.values()).allowed(account)
    assert {bucket: rights for bucket, rights in reached.items() if rights} == ALLOWED[account]


def test_operators_add_readers_of_releases_and_writers_of_answers_alone(texts):
    grants = Terraform(texts.values()).grants()
    assert [
        (grant.member, grant.rights, grant.on)
        for grant in grants
        if "account" not in grant.member and grant.on != PREFECT
    ] == [
        ("var.readers", READ, "google_storage_bucket.released"),
        ("var.uploaders", CREATE, "google_storage_bucket.input"),
    ]


def test_there_are_five_buckets_and_none_can_be_made_public(texts):
    buckets = Terraform(texts.values()).named(BUCKET)
    assert set(buckets) == {"input", "config", "confidential", "released", "ledger"}
    for bucket in buckets.values():
        assert bucket["uniform_bucket_level_access"] is True
        assert bucket["public_access_prevention"] == '"enforced"'


GIVEN = {
    "on the bucket": (member("storage_bucket", bucket=LEDGER), USE),
    "by its id": (member("storage_bucket", bucket=f"{BUCKET}.ledger.id"), USE),
    "on the project": (
        member("project", role='"roles/dataflow.worker"', project="var.project"),
        {"storage.buckets.get", "storage.objects.create", "storage.objects.get"},
    ),
    "for each of a map": (
        member(
            "storage_bucket",
            for_each=f"{{ a = {CONFIDENTIAL}, b = {LEDGER} }}",
            bucket="each.value",
        ),
        USE,
    ),
    "for each of a set": (
        member(
            "storage_bucket", for_each=f"toset([{CONFIDENTIAL}, {LEDGER}])", bucket="each.value"
        ),
        USE,
    ),
    "for each of a local": (
        f'locals {{\n  planted = {{ a = {{ "where" = {LEDGER} }} }}\n}}\n'
        + member("storage_bucket", for_each="local.planted", bucket="each.value.where"),
        USE,
    ),
    "if a count is not 0": (member("storage_bucket", bucket=LEDGER, count="local.some"), USE),
    "to everybody": (member("storage_bucket", bucket=LEDGER, member='"allUsers"'), USE),
    "to everybody with an account": (
        member("storage_bucket", bucket=LEDGER, member='"allAuthenticatedUsers"'),
        USE,
    ),
    "by acting as the launcher": (
        member(
            "service_account", role='"roles/iam.serviceAccountUser"', service_account_id=LAUNCHER
        ),
        USE,
    ),
    "by tokens of any account": (
        member("project", role='"roles/iam.serviceAccountTokenCreator"', project="var.project"),
        USE,
    ),
    "by a role of the files": (
        resource("project_iam_custom_role", permissions='["storage.objects.get"]')
        + member("storage_bucket", bucket=LEDGER, role=PLANTED),
        {"storage.objects.get"},
    ),
}


@pytest.mark.parametrize("plant", GIVEN)
def test_a_grant_of_the_ledger_is_seen(texts, plant):
    text, rights = GIVEN[plant]
    assert Terraform([*texts.values(), text]).allowed("worker")["ledger"] == rights


CHANGED = {
    "another bucket": (
        f'bucket = {CONFIDENTIAL}\n  role   = "roles/storage.bucketViewer"',
        f'bucket = {LEDGER}\n  role   = "roles/storage.bucketViewer"',
        LOOK_UP,
    ),
    "another account": (
        f'bucket = {LEDGER}, role = "roles/storage.objectUser", member = local.launcher',
        f'bucket = {LEDGER}, role = "roles/storage.objectUser", member = local.worker',
        USE,
    ),
    "another identity of a local": (
        "launcher = google_service_account.launcher.member",
        "launcher = google_service_account.worker.member",
        USE,
    ),
    "a permission more": (
        '"logging.logEntries.create",',
        '"logging.logEntries.create", "storage.objects.list",',
        {"storage.objects.list"},
    ),
}


@pytest.mark.parametrize("change", CHANGED)
def test_a_grant_that_was_changed_is_seen(texts, change):
    old, new, rights = CHANGED[change]
    accounts = texts["accounts.tf"]
    assert accounts.count(old) == 1
    changed = {**texts, "accounts.tf": accounts.replace(old, new)}
    assert Terraform(changed.values()).allowed("worker")["ledger"] == rights


ADMIN = {"role": '"roles/storage.admin"', "members": "[local.worker]"}
REFUSED = {
    resource("project_iam_binding", project="var.project", **ADMIN): "google_project_iam_binding",
    resource("storage_bucket_iam_binding", bucket=LEDGER, **ADMIN): "storage_bucket_iam_binding",
    resource("storage_bucket_iam_policy", bucket=LEDGER): "storage_bucket_iam_policy",
    resource("project_iam_policy", project="var.project"): "project_iam_policy",
    resource("storage_bucket_acl", bucket=LEDGER): "storage_bucket_acl",
    resource("storage_default_object_acl", bucket=LEDGER): "storage_default_object_acl",
    resource("service_account_key", service_account_id=LAUNCHER): "service_account_key",
    member("folder", folder='"folders/1"'): "folder_iam_member",
    member("organization", org_id='"1"'): "organization_iam_member",
    member("storage_managed_folder", bucket=LEDGER): "storage_managed_folder_iam_member",
    member("project", project='"another"'): 'a grant on "another"',
    member("storage_bucket", bucket='"p-hushrank-ledger"'): 'a grant on "p-hushrank-ledger"',
    member("storage_bucket", bucket=f"true ? {LEDGER} : var.name"): "expression .*true",
    member("storage_bucket", bucket="local.nowhere"): "local.nowhere is not there",
    member("storage_bucket", bucket=LEDGER, role='"roles/storage.new"'): "role .*storage.new",
    member("storage_bucket", bucket=LEDGER, role='"projects/p/roles/r"'): "role .*projects/p",
    member("storage_bucket", bucket=LEDGER, role="var.name"): "role var.name",
    member("storage_bucket", bucket=LEDGER, member='"group:g@example.org"'): "member .*group:g",
    member("storage_bucket", bucket=LEDGER, member='"serviceAccount:${local.a}"'): "expression .*",
    member("storage_bucket", bucket=LEDGER, member="google_service_account.a.member"): "member .*a",
    member("storage_bucket", bucket=LEDGER, when="2"): r"arguments \['when'\]",
    member("storage_bucket", bucket=LEDGER)[:-2] + "  condition {\n  }\n}\n": "'condition'",
    member("storage_bucket", bucket=LEDGER, for_each="merge(local.a)"): "expression .*merge",
    'variable "planted" {\n  default = ["user:a@example.org"]\n}\n'
    + member("storage_bucket", bucket=LEDGER, member="var.planted"): "member var.planted",
    resource("project_iam_custom_role", permissions='["resourcemanager.projects.setIamPolicy"]')
    + member("project", project="var.project", role=PLANTED): "permissions .*setIamPolicy",
    resource("storage_bucket", for_each='{ a = "a" }', name="each.value"): "more than one",
    'module "planted" {\n  source = "./more"\n}\n': "blocks .*module",
    'data "google_iam_policy" "planted" {\n}\n': "blocks .*data",
    resource("project_service")[:-2] + '  provisioner "local-exec" {\n  }\n}\n': "project_service",
    'resource "google_service_account" "worker" {\n}\n': "twice: .*worker",
}


@pytest.mark.parametrize(("plant", "message"), REFUSED.items(), ids=REFUSED.values())
def test_what_is_not_understood_is_refused(texts, plant, message):
    with pytest.raises(NotUnderstoodError, match=message):
        Terraform([*texts.values(), plant]).allowed("worker")


def test_an_account_that_is_not_there_is_refused(texts):
    with pytest.raises(NotUnderstoodError, match="no account workers"):
        Terraform(texts.values()).allowed("workers")


@pytest.mark.parametrize("name", ["more.tf.json", "override.tf", "accounts_override.tf"])
def test_files_that_change_what_others_say_are_refused(tmp_path, name):
    (tmp_path / "accounts.tf").touch()
    assert texts_of(tmp_path) == {"accounts.tf": ""}
    (tmp_path / name).touch()
    with pytest.raises(NotUnderstoodError, match=name):
        texts_of(tmp_path)
