"""Check the Terraform files against the provider's schema.

`terraform validate` needs the provider itself, which is not always to be had. The npm package
`@cdktf/provider-google` is made from its schema: it names every resource, argument and block, and
says which of them are required.

    schema.py PACKAGE INTEGRITY FOLDER

INTEGRITY is the package's, as npm states it: `sha512-` and the hash in base64.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hcl2
from hcl2.utils import SerializationOptions

META = {"count", "depends_on", "for_each", "lifecycle", "provider", "provisioner"}
LEAST = 20  # resources: fewer mean that files were passed over
PLAIN = SerializationOptions(
    with_comments=False, explicit_blocks=False, strip_string_quotes=True, preserve_heredocs=False
)

_INTERFACE = re.compile(r"^export interface (\w+)[^{]*\{\n(.*?)^\}", re.M | re.S)
_PROPERTY = re.compile(r"#(\w+) \w+#\w+\}\s*(?:\n\s*\*[^\n]*)*?\*/\s*readonly \w+(\??): (\w+|\{)")


@dataclass(frozen=True)
class Argument:
    """An argument or block: whether it has to be there, and the name of its type."""

    required: bool
    kind: str


Schema = dict[str, dict[str, Argument]]  # by interface, then by argument


def schema_of(declarations: str) -> Schema:
    """The interfaces of one resource's declarations."""
    return {
        name: {
            argument: Argument(not optional, kind)
            for argument, optional, kind in _PROPERTY.findall(body)
        }
        for name, body in _INTERFACE.findall(declarations)
    }


def problems_of(where: str, block: Mapping[str, Any], kind: str, schema: Schema) -> Iterator[str]:
    """What the block says that the schema does not know, and what it leaves out."""
    known = schema[kind]
    blocks = list(block.items())
    given = {name for name, _ in blocks}
    for dynamic in block.get("dynamic", []):
        given |= set(dynamic)
        blocks += [(name, each["content"]) for name, each in dynamic.items()]
    for name, value in blocks:
        if name in META or name == "dynamic":
            continue
        if name not in known:
            yield f"{where}: {name} is no argument of it"
        elif known[name].kind in schema and not isinstance(value, list):
            yield f"{where}: {name} is a block, not an argument"
        elif known[name].kind in schema:
            for nested in value:
                yield from problems_of(f"{where}.{name}", nested, known[name].kind, schema)
    for name, argument in known.items():
        if argument.required and name not in given:
            yield f"{where}: {name} is missing"


def read_resources(folder: Path) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """File, kind, name and arguments of each resource."""
    for path in sorted(folder.glob("*.tf")):
        with path.open() as text:
            parts = hcl2.load(text, serialization_options=PLAIN).get("resource", [])
        for kind, named in (each for part in parts for each in part.items()):
            for name, block in named.items():
                yield path.name, kind, name, block


def read_schemas(package: Path, kinds: Iterable[str]) -> dict[str, Schema]:
    """The schemas of those kinds of resources that the package has."""
    files = {
        f"package/lib/{kind.removeprefix('google_').replace('_', '-')}/index.d.ts": kind
        for kind in kinds
    }
    found = {}
    with tarfile.open(package) as members:
        for member in members:  # in their order: to go back is to unpack all again
            if member.name in files and (declared := members.extractfile(member)) is not None:
                found[files[member.name]] = schema_of(declared.read().decode())
    return found


def check(package: Path, folder: Path) -> tuple[list[str], int]:
    """What is wrong with the folder's files by the package's schema, and how many resources."""
    resources = list(read_resources(folder))
    schemas = read_schemas(package, {kind for _, kind, _, _ in resources})
    found: list[str] = []
    for file, kind, name, block in resources:
        if kind in schemas:
            top = next(name for name in schemas[kind] if name.endswith("Config"))
            found += problems_of(f"{file}: {kind}.{name}", block, top, schemas[kind])
        else:
            found.append(f"{file}: {kind} is no resource of the provider")
    return found, len(resources)


def refuse_another(package: Path, integrity: str) -> None:
    """Exit unless the package is the one that was pinned."""
    digest = hashlib.sha512(package.read_bytes()).digest()
    actual = f"sha512-{base64.b64encode(digest).decode()}"
    if actual != integrity:
        sys.exit(
            f"{package}: its hash is {actual}, and {integrity} is pinned in infra/check.sh. Nothing"
            " was read of it. Delete it and run `make infra` again; if its hash stays the same,"
            " what npm serves has changed."
        )


def main() -> None:
    """Print what is wrong and exit 1, or say how many resources were looked at."""
    package, integrity, folder = sys.argv[1:]
    refuse_another(Path(package), integrity)
    found, n_resources = check(Path(package), Path(folder))
    if n_resources < LEAST:
        found.append(f"only {n_resources} resources were found, of at least {LEAST}")
    if found:
        sys.exit("\n".join(found))
    print(f"provider's schema: {n_resources} resources fit")  # noqa: T201


if __name__ == "__main__":
    main()
