"""Write what hushrank takes from others: a bill of materials, and the texts of their licences.

`make lock` writes `infra/sbom.cdx.json` (CycloneDX 1.6) for the wheel: the packages of
`hushrank[all]` on this interpreter. The wheel carries it in `.dist-info/sboms` (PEP 770). The wheel
holds nobody else's code, so it needs no texts of licences. The image does, so its build writes the
same document about all packages of the image, and their texts:
    python third_party.py --everything --sbom FILE --texts FILE
Equal packages give equal bytes: neither file has a date or a random number.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

Package = importlib.metadata.Distribution
# Licences of packages whose metadata name none, as their file LICENSE or their sources say.
FROM_TEXT = {"resvg-py": "MIT"}
LICENCE_FILE = re.compile(r"\.dist-info/.*(LICEN[CS]E|COPYING|NOTICE|AUTHORS)", re.IGNORECASE)


def name_of(package: Package) -> str:
    """Name of a package as indexes compare it."""
    return canonicalize_name(package.metadata["Name"])


def needed(package: Package, extras: frozenset[str]) -> Iterator[Requirement]:
    """List what a package with these extras requires on this interpreter."""
    for each in map(Requirement, package.requires or ()):
        if each.marker is None or any(
            each.marker.evaluate({"extra": extra}) for extra in extras | {""}
        ):
            yield each


def installed_with_every_extra() -> list[Package]:
    """List the packages that `pip install 'hushrank[all]'` brings here, by name."""
    waiting, found, done = [("hushrank", frozenset({"all"}))], dict[str, Package](), set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in done:
            continue
        done.add((name, extras))
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system or another Python
        waiting += [
            (canonicalize_name(each.name), frozenset(each.extras))
            for each in needed(found[name], extras)
        ]
    return sorted(found.values(), key=name_of)


def licence_of(package: Package) -> str:
    """Licence that a package's metadata name; empty if they name none."""
    fields = package.metadata
    classifiers = fields.get_all("Classifier") or []
    kinds = [each.split(" :: ")[-1] for each in classifiers if each.startswith("License ::")]
    named = fields.get("License-Expression") or ", ".join(kinds) or fields.get("License")
    return named or FROM_TEXT.get(name_of(package), "")


def component(package: Package) -> dict[str, Any]:
    """Describe one package as CycloneDX does."""
    name, version = name_of(package), package.version
    expression, licence = package.metadata.get("License-Expression"), licence_of(package)
    licences = [{"expression": expression} if expression else {"license": {"name": licence}}]
    purl = f"pkg:pypi/{name}@{version}"
    described = {"type": "library", "bom-ref": purl, "name": name, "version": version}
    return described | {"purl": purl} | ({"licenses": licences} if licence else {})


def bill_of_materials(packages: Iterable[Package]) -> dict[str, Any]:
    """Build the CycloneDX document of these packages, and of what needs what without extras."""
    described = {name_of(each): component(each) for each in packages}
    own = described.pop("hushrank")
    depends = []
    for name, one in {"hushrank": own, **described}.items():
        extras = frozenset({"all"}) if name == "hushrank" else frozenset()
        asked = needed(importlib.metadata.distribution(name), extras)
        names = {canonicalize_name(each.name) for each in asked} & described.keys()
        refs = [described[other]["bom-ref"] for other in sorted(names)]
        depends.append({"ref": one["bom-ref"], "dependsOn": refs})
    major, minor, _ = platform.python_version_tuple()
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": own,
            "properties": [
                {
                    "name": "hushrank:interpreter",
                    "value": f"{platform.system()}, Python {major}.{minor}",
                }
            ],
        },
        "components": list(described.values()),
        "dependencies": depends,
    }


def licence_texts(packages: Iterable[Package]) -> str:
    """Collect the licences of these packages, each text once, under the packages that have it."""
    owners: dict[str, list[str]] = {}
    for package in packages:
        title = f"{name_of(package)} {package.version}: {licence_of(package) or 'see its text'}"
        files = [each for each in package.files or () if LICENCE_FILE.search(each.as_posix())]
        texts = [Path(str(each.locate())).read_text("utf-8", "replace").strip() for each in files]
        for text in dict.fromkeys(texts) or ("(the package has no file with a text)",):
            owners.setdefault(text, []).append(title)
    rule = "=" * 80
    return "\n".join(f"{rule}\n" + "\n".join(owners[text]) + f"\n\n{text}\n" for text in owners)


def main() -> None:
    """Write the files that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--everything", action="store_true", help="all installed packages")
    parser.add_argument("--sbom", type=Path, required=True)
    parser.add_argument("--texts", type=Path)
    asked = parser.parse_args()
    packages = installed_with_every_extra()
    if asked.everything:
        by_name = {name_of(each): each for each in importlib.metadata.distributions()}
        packages = [by_name[name] for name in sorted(by_name)]
    document = json.dumps(bill_of_materials(packages), indent=1)
    asked.sbom.write_text(document + "\n", encoding="utf-8")
    if asked.texts is not None:
        asked.texts.write_text(licence_texts(packages), encoding="utf-8")


if __name__ == "__main__":
    main()
