"""Who may do what in which bucket, by what the Terraform files of `infra/` grant."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hcl2
from hcl2.utils import SerializationOptions

PROJECT = "var.project"
ANYONE = {'"allUsers"', '"allAuthenticatedUsers"'}  # each account is one of them
# Who has one of these on an account has that account's rights.
ACTING = {
    f"iam.serviceAccounts.{right}"
    for right in ("actAs", "getAccessToken", "implicitDelegation", "signBlob", "signJwt")
}

READ, CREATE = {"storage.objects.get", "storage.objects.list"}, {"storage.objects.create"}
USE = READ | CREATE | {"storage.objects.delete", "storage.objects.update"}
ADMIN = USE | {"storage.objects.getIamPolicy", "storage.objects.setIamPolicy"}
LOOK_UP = {"storage.buckets.get", "storage.buckets.list"}
# What predefined roles hold of objects, of buckets and of acting as an account, as Google documents
# them. One with an empty set holds nothing of these; one that is not here is refused.
ROLES: dict[str, set[str]] = {
    "roles/storage.objectViewer": READ,
    "roles/storage.objectCreator": CREATE,
    "roles/storage.objectUser": USE,
    "roles/storage.objectAdmin": ADMIN,
    "roles/storage.bucketViewer": LOOK_UP,
    "roles/storage.admin": ADMIN
    | LOOK_UP
    | {f"storage.buckets.{right}" for right in ("create", "delete", "setIamPolicy", "update")},
    "roles/dataflow.worker": {
        "storage.buckets.get",
        "storage.objects.create",
        "storage.objects.get",
    },
    "roles/iam.serviceAccountUser": {"iam.serviceAccounts.actAs"},
    "roles/iam.serviceAccountTokenCreator": ACTING - {"iam.serviceAccounts.actAs"},
    "roles/artifactregistry.reader": set(),
    "roles/cloudsql.client": set(),
    "roles/secretmanager.secretAccessor": set(),
    "roles/run.invoker": set(),
}
# Permissions of custom roles that reach no bucket, no account and no grant.
ELSEWHERE = re.compile(
    r"(?:autoscaling\.sites|dataflow\.\w+|logging\.logEntries|monitoring\.timeSeries)\.\w+"
    r"|compute\.instance(?:GroupManagers\.update|s\.delete|s\.setDiskAutoDelete)"
    r"|resourcemanager\.projects\.get"
)

BUCKET, ACCOUNT = "google_storage_bucket", "google_service_account"
CUSTOM_ROLE = "google_project_iam_custom_role"
# Resources that grant a role to a member, and the argument that says on what.
GRANTS = {
    f"{BUCKET}_iam_member": "bucket",
    f"{ACCOUNT}_iam_member": "service_account_id",
    "google_project_iam_member": "project",
    "google_artifact_registry_repository_iam_member": "repository",
    "google_cloud_run_v2_job_iam_member": "name",
    "google_cloud_run_v2_service_iam_member": "name",
    "google_secret_manager_secret_iam_member": "secret_id",
}
OTHERS = {  # resources that grant nothing by themselves
    BUCKET,
    ACCOUNT,
    CUSTOM_ROLE,
    "google_artifact_registry_repository",
    "google_cloud_run_v2_job",
    "google_cloud_run_v2_service",
    "google_cloud_scheduler_job",
    "google_compute_firewall",
    "google_compute_global_address",
    "google_compute_network",
    "google_compute_subnetwork",
    "google_project_iam_audit_config",
    "google_project_service",
    "google_secret_manager_secret",
    "google_service_networking_connection",
    "google_sql_database",
    "google_sql_database_instance",
}
BLOCKS = {"locals", "output", "provider", "resource", "terraform", "variable"}


class NotUnderstoodError(Exception):
    """The files hold what may grant rights and what this module cannot evaluate."""


@dataclass(frozen=True)
class Grant:
    """A member's rights on one thing: a bucket, an account, the project or something else."""

    member: str
    rights: set[str]
    on: str


class Terraform:
    """Terraform files, and what they grant.

    `allowed` tells all that an account may do with objects and buckets by these files. It
    evaluates every grant of a role to a member: on buckets, on the project (so on each bucket) and
    on accounts (who may act as an account has its rights), with `for_each` over maps, sets and
    locals, with `count` as if the resource were there, with predefined roles (`ROLES`) and the
    files' own, and with members that stand for everybody.

    It is an allow-list: anything else raises `NotUnderstoodError`. So do `*_iam_binding`,
    `*_iam_policy`, access lists, folders, organisations, keys, modules, data sources, files that
    override others, provisioners, conditions, roles and permissions that are not listed
    above, and expressions other than texts and references.

    It cannot see what is granted outside of these files: by a folder or an organisation, by hand,
    by Google to its own agents, to the owners of the project, to a group that an account is in.
    Nor can it see whom an operator names in a variable; by default that must be nobody.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._resources: dict[str, dict[str, Any]] = {}  # by `type.name`
        self._locals: dict[str, Any] = {}
        self._variables: dict[str, dict[str, Any]] = {}
        for parts in map(_parsed, texts):
            if not parts.keys() <= BLOCKS:
                raise NotUnderstoodError(f"blocks {sorted(parts.keys() - BLOCKS)}")
            for kind, named in (
                pair for part in parts.get("resource", []) for pair in part.items()
            ):
                _add(
                    self._resources, {f"{_bare(kind)}.{_bare(name)}": named[name] for name in named}
                )
            for part in parts.get("locals", []):
                _add(self._locals, part)
            for part in parts.get("variable", []):
                _add(self._variables, {f"var.{_bare(name)}": body for name, body in part.items()})
        for name, body in self._resources.items():
            kind = name.split(".")[0]
            if kind not in GRANTS.keys() | OTHERS or "provisioner" in body:
                raise NotUnderstoodError(f"resource {name}")
            if kind in (BUCKET, ACCOUNT, CUSTOM_ROLE) and body.keys() & {"for_each", "count"}:
                raise NotUnderstoodError(f"{name}: more than one of a name")

    def named(self, kind: str) -> dict[str, dict[str, Any]]:
        """The resources of a kind: their arguments by name, as `hcl2` has them."""
        start = f"{kind}."
        return {
            name.removeprefix(start): body
            for name, body in self._resources.items()
            if name.startswith(start)
        }

    def allowed(self, account: str) -> dict[str, set[str]]:
        """Permissions of the account on each bucket and its objects, by the bucket's name."""
        grants = list(self.grants())
        accounts = self._acting_as(account, grants)
        found: dict[str, set[str]] = {name: set() for name in self.named(BUCKET)}
        for grant in grants:
            if grant.member in accounts | ANYONE:
                for name, rights in found.items():
                    if grant.on in (PROJECT, f"{BUCKET}.{name}"):
                        rights |= {right for right in grant.rights if right.startswith("storage.")}
        return found

    def _acting_as(self, account: str, grants: Iterable[Grant]) -> set[str]:
        """The account, those that it may act as, those that these may act as, and so on."""
        everyone = {f"{ACCOUNT}.{name}" for name in self.named(ACCOUNT)}
        if f"{ACCOUNT}.{account}" not in everyone:
            raise NotUnderstoodError(f"there is no account {account}")
        found: set[str] = set()
        more = {f"{ACCOUNT}.{account}"}
        while more - found:
            found |= more
            for grant in grants:
                if grant.member in found | ANYONE and grant.rights & ACTING:
                    more |= everyone if grant.on == PROJECT else everyone & {grant.on}
        return found

    def grants(self) -> Iterator[Grant]:
        """Every grant of the files; with `for_each`, one for each."""
        for name, body in self._resources.items():
            kind = name.split(".")[0]
            if kind not in GRANTS:
                continue
            parts = ("member", "role", GRANTS[kind])
            unknown = body.keys() - {"count", "for_each", "location", *parts}
            try:
                if unknown:
                    raise NotUnderstoodError(f"arguments {sorted(unknown)}")
                for each in self._instances(body.get("for_each")):
                    member, role, on = (str(self._value(body.get(part), each)) for part in parts)
                    yield Grant(self._member(member), self._rights(role), self._target(kind, on))
            except NotUnderstoodError as error:
                raise NotUnderstoodError(f"{name}: {error}") from None

    def _instances(self, for_each: Any) -> Iterator[dict[str, Any]]:
        """What `each` is, for each instance of a resource."""
        if for_each is None:
            yield {}
            return
        of_set = re.fullmatch(r"\$\{toset\((.*)\)\}", str(for_each), re.S)
        values = self._value(_parsed(f"x = {of_set[1]}\n")["x"] if of_set else for_each)
        if isinstance(values, list):
            yield from ({"key": value, "value": value} for value in values)
        elif isinstance(values, dict):
            yield from ({"key": f'"{key}"', "value": value} for key, value in values.items())
        elif values.startswith("var."):
            yield {"key": values, "value": values}  # it stands for all that the variable holds
        else:
            raise NotUnderstoodError(f"for_each = {for_each}")

    def _value(self, expression: Any, each: Mapping[str, Any] | None = None) -> Any:
        """A text in its quotes, a reference as its path, or a map or list of these."""
        if isinstance(expression, dict):
            return {_bare(key): self._value(value, each) for key, value in expression.items()}
        if isinstance(expression, list):
            return [self._value(value, each) for value in expression]
        if re.fullmatch(r'"[^"\\$%]*"', str(expression)):
            return expression
        path = re.fullmatch(r"\$\{([\w-]+(?:\.[\w-]+(?:\[0\])?)+)\}", str(expression))
        if path is None:
            raise NotUnderstoodError(f"the expression {expression}")
        root, name, *rest = path[1].split(".")
        if root not in ("local", "each"):
            return path[1]
        try:
            found = self._value(self._locals[name]) if root == "local" else (each or {})[name]
            for part in rest:
                found = found[part]
        except (KeyError, TypeError):
            raise NotUnderstoodError(f"{path[1]} is not there") from None
        return found

    def _member(self, member: str) -> str:
        account = member.removesuffix(".member")
        if account != member and account in self._resources and account.startswith(f"{ACCOUNT}."):
            return account
        if member in ANYONE or self._variables.get(member, {}).get("default") == []:
            return member
        raise NotUnderstoodError(f"member {member}")

    def _rights(self, role: str) -> set[str]:
        if role in {f'"{name}"' for name in ROLES}:
            return ROLES[_bare(role)]
        custom = re.fullmatch(rf"{CUSTOM_ROLE}\.([\w-]+)\.(?:name|id)", role)
        if custom is None or custom[1] not in self.named(CUSTOM_ROLE):
            raise NotUnderstoodError(f"role {role}")
        listed = map(_bare, self._value(self.named(CUSTOM_ROLE)[custom[1]]["permissions"]))
        rights = {right for right in listed if not ELSEWHERE.fullmatch(right)}
        unknown = {right for right in rights - ACTING if not right.startswith("storage.")}
        if unknown:
            raise NotUnderstoodError(f"permissions {sorted(unknown)}")
        return rights

    def _target(self, kind: str, on: str) -> str:
        if kind == "google_project_iam_member" and on == PROJECT:
            return on
        thing = re.sub(r"(?:\[0\])?\.(?:name|id|secret_id)$", "", on)
        if thing != on and thing in self._resources and f"{thing.split('.')[0]}_iam_member" == kind:
            return thing
        raise NotUnderstoodError(f"a grant on {on}")


def texts_of(folder: Path) -> dict[str, str]:
    """Terraform's files of a folder, by name; refused if others would override them."""
    for path in folder.iterdir():
        if path.name.endswith((".tf.json", "override.tf")):
            raise NotUnderstoodError(path.name)
    return {path.name: path.read_text() for path in sorted(folder.glob("*.tf"))}


@functools.cache
def _parsed(text: str) -> dict[str, Any]:
    plain = SerializationOptions(with_comments=False, explicit_blocks=False)
    return hcl2.loads(text, serialization_options=plain)


def _add(where: dict[str, Any], more: Mapping[str, Any]) -> None:
    if where.keys() & more.keys():
        raise NotUnderstoodError(f"twice: {sorted(where.keys() & more.keys())}")
    where.update(more)


def _bare(text: str) -> str:
    return text.removeprefix('"').removesuffix('"')
