"""Whoever installs hushrank under the Apache licence gets no library that asks for more."""

from __future__ import annotations

import importlib.util
import json
import platform
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from tests.test_packaging import SBOM, locked

PERMISSIVE = re.compile(
    r"Apache|MIT|BSD|ISC|PSF|Python Software Foundation|Zlib|Artistic|CC0|MPL|Mozilla", re.I
)
COPYLEFT = re.compile(r"\bA?GPL|GNU (Affero )?General Public", re.I)
CHOICES = {"text-unidecode": "Artistic License"}  # offered under several, this one among them


@pytest.fixture(scope="module")
def third_party(checkout: Path) -> ModuleType:
    """The script that describes what hushrank takes from others."""
    place = checkout / "infra" / "third_party.py"
    spec = importlib.util.spec_from_file_location("third_party", place)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module


@pytest.fixture(scope="module")
def bill(checkout: Path) -> dict[str, Any]:
    """The bill of materials that the wheel carries."""
    return json.loads((checkout / SBOM).read_text())


def refused(name: str, licence: str) -> bool:
    licence = CHOICES.get(name, licence)
    return bool(COPYLEFT.search(licence)) or not PERMISSIVE.search(licence)


def test_no_library_of_an_extra_is_under_a_licence_that_asks_for_more(third_party: ModuleType):
    found = {
        third_party.name_of(each): third_party.licence_of(each)
        for each in third_party.installed_with_every_extra()
    }
    assert {"apache-beam", "prefect", "uvicorn", "deltalake"} <= found.keys()
    assert not {name: text for name, text in found.items() if refused(name, text)}


@pytest.mark.parametrize(
    ("name", "licence"),
    [("preflibtools", "GPL-3.0-or-later"), ("x", "GNU General Public License v3"), ("y", "")],
)
def test_a_copyleft_licence_or_none_is_refused(name, licence):
    assert refused(name, licence)


def test_no_lock_holds_the_copyleft_readers_of_preflib(checkout: Path):
    for name in ("requirements.lock", "infra/image.lock"):
        assert not {"preflibtools", "prefsampling"} & locked(checkout, name).keys()


def test_the_bill_of_materials_names_the_packages_of_the_lock(checkout: Path, bill: dict[str, Any]):
    pins = locked(checkout)
    assert len(bill["components"]) > 200
    for each in bill["components"]:
        assert each["version"] in pins[canonicalize_name(each["name"])], each["name"]
        assert each["licenses"], each["name"]
        assert each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}"
    refs = {each["bom-ref"] for each in (bill["metadata"]["component"], *bill["components"])}
    assert {each["ref"] for each in bill["dependencies"]} == refs
    assert {ref for each in bill["dependencies"] for ref in each["dependsOn"]} <= refs


def test_the_bill_of_materials_is_what_make_lock_writes(
    third_party: ModuleType, bill: dict[str, Any]
):
    (made_on,) = bill["metadata"]["properties"]
    here = f"{platform.system()}, Python {sys.version_info.major}.{sys.version_info.minor}"
    if made_on["value"] != here:
        pytest.skip(f"it describes {made_on['value']}, and this is {here}")
    assert third_party.bill_of_materials(third_party.installed_with_every_extra()) == bill


def test_the_image_gets_a_bill_and_each_text_once(third_party: ModuleType, checkout: Path):
    packages = third_party.installed_with_every_extra()
    texts = third_party.licence_texts([*packages, *packages[:3]])
    for each in packages:
        assert f"\n{third_party.name_of(each)} {each.version}: " in texts
    assert texts.count("Apache License\n") >= 1
    assert "the package has no file with a text" in texts
    command = "third_party.py --everything --sbom"
    assert command in (checkout / "infra" / "Dockerfile").read_text()
