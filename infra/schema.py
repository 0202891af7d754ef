"""Check the Terraform files against the provider's schema.

`terraform validate` needs the provider itself, which is not always to be had. The npm package
`@cdktf/provider-google` is made from its schema: it names every resource, argument and block, and
says which of them are required.
"""

from __future__ import annotations

import re
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hcl2

META = {"count", "depends_on", "for_each", "lifecycle", "provider", "provisioner"}
LEAST = 20  # resources: fewer mean that files were passed over

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
    blocks = [(name, value) for name, value in block.items() if not name.startswith("__")]
    given = {name for name, _ in blocks}
    for dynamic in block.get("dynamic", []):
        given |= set(dynamic)
        blocks += [(name, each["content"]) for name, each in dynamic.items()]
    for name, value in blocks:
        if name in META or name == "dynamic":
            continue
        if name not in known:
            yield f"{where}: {name} is no argument of it"
        elif known[name].kind in schema:
            for nested in value:
                yield from problems_of(f"{where}.{name}", nested, known[name].kind, schema)
    for name, argument in known.items():
        if argument.required and name not in given:
            yield f"{where}: {name} is missing"


def main() -> None:
    """Print what is wrong and exit 1, or say how many resources were looked at."""
    package, folder = sys.argv[1:]
    found, n_resources = [], 0
    with tarfile.open(package) as members:
        names = set(members.getnames())
        for path in sorted(Path(folder).glob("*.tf")):
            with path.open() as text:
                parts = hcl2.load(text).get("resource", [])
            for kind, resources in (each for part in parts for each in part.items()):
                where = kind.removeprefix("google_")
                member = f"package/lib/{where.replace('_', '-')}/index.d.ts"
                if member not in names or (declared := members.extractfile(member)) is None:
                    found.append(f"{path.name}: {kind} is no resource of the provider")
                    continue
                schema = schema_of(declared.read().decode())
                top = next(name for name in schema if name.endswith("Config"))
                for name, block in resources.items():
                    n_resources += 1
                    found += problems_of(f"{path.name}: {kind}.{name}", block, top, schema)
    if n_resources < LEAST:
        found.append(f"only {n_resources} resources were found, of at least {LEAST}")
    if found:
        sys.exit("\n".join(found))
    print(f"provider's schema: {n_resources} resources fit")  # noqa: T201


if __name__ == "__main__":
    main()
