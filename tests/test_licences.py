"""Whoever installs hushrank under the Apache licence gets no library that asks for more."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PERMISSIVE = re.compile(
    r"Apache|MIT|BSD|ISC|PSF|Python Software Foundation|Zlib|Artistic|CC0|MPL|Mozilla", re.I
)
COPYLEFT = re.compile(r"\bA?GPL|GNU (Affero )?General Public", re.I)
# A package whose metadata name no licence, with the one of its file LICENSE.
TOLD_ELSEWHERE = {"resvg-py": "MIT"}
CHOICES = {"text-unidecode": "Artistic License"}  # offered under several, this one among them


def installed_with_every_extra() -> Iterator[importlib.metadata.Distribution]:
    """The packages that `pip install 'hushrank[all]'` brings to this machine."""
    waiting, done = [("hushrank", frozenset({"all"}))], set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in done:
            continue
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system or another Python
        if name not in {one for one, _ in done}:
            yield found
        done.add((name, extras))
        for each in map(Requirement, found.requires or []):
            if each.marker is None or any(
                each.marker.evaluate({"extra": extra}) for extra in extras | {""}
            ):
                waiting.append((canonicalize_name(each.name), frozenset(each.extras)))


def licence_of(package: importlib.metadata.Distribution) -> str:
    told = package.metadata
    classifiers = [each for each in told.get_all("Classifier", []) if each.startswith("License ::")]
    return told.get("License-Expression") or ", ".join(classifiers) or told.get("License") or ""


def refused(name: str, licence: str) -> bool:
    licence = CHOICES.get(name) or licence or TOLD_ELSEWHERE.get(name, "")
    return bool(COPYLEFT.search(licence)) or not PERMISSIVE.search(licence)


def test_no_library_of_an_extra_is_under_a_licence_that_asks_for_more():
    found = {
        canonicalize_name(each.metadata["Name"]): licence_of(each)
        for each in installed_with_every_extra()
    }
    assert {"apache-beam", "prefect", "uvicorn", "deltalake"} <= found.keys()
    assert not {name: text for name, text in found.items() if refused(name, text)}


@pytest.mark.parametrize(
    ("name", "licence"),
    [("preflibtools", "GPL-3.0-or-later"), ("x", "GNU General Public License v3"), ("y", "")],
)
def test_a_copyleft_licence_or_none_is_refused(name, licence):
    assert refused(name, licence)
