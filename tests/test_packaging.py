"""What is built and installed: everything in the tree, nothing else, and from the lock."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import pkgutil
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PROJECT["tool"]["setuptools"]["packages"][1:]
LAYERS = [package for package in PACKAGES if package.count(".") == 1]
MOST_MODULES = 20  # of one room, about; `__init__` aside
SITE_PACKAGES = sysconfig.get_path("purelib")
(INSTALLED,) = importlib.metadata.distributions(name="hushrank", path=[SITE_PACKAGES])
BUILD_INPUTS = ("pyproject.toml", "README.md", "LICENSE")
NAMESPACE, ENTRY = "hushrank", "entry"  # `entry/` holds what lies beside the layers


def modules() -> list[str]:
    """Dotted names of every installed module."""
    found = []
    for package in LAYERS:
        paths = importlib.import_module(package).__path__
        found += [module.name for module in pkgutil.walk_packages(paths, f"{package}.")]
    return found


def tree_files(checkout: Path) -> set[str]:
    """Files that belong in the wheel, by their names there."""
    return {
        f"hushrank/{path.relative_to(checkout)}"
        for package in LAYERS
        for path in (checkout / package.removeprefix("hushrank.")).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    } | {f"hushrank/{path.name}" for path in (checkout / ENTRY).iterdir() if path.is_file()}


def test_the_tests_import_what_they_should():
    direct_url = json.loads(INSTALLED.read_text("direct_url.json") or "{}")
    editable = direct_url.get("dir_info", {}).get("editable", False)
    assert (
        editable == (ROOT / "privacy").is_dir()
    )  # the tree's tests test the tree, the others do not
    home = ROOT if editable else Path(SITE_PACKAGES)
    for package in PACKAGES:
        (folder,) = importlib.import_module(package).__path__
        assert Path(folder).resolve().is_relative_to(home.resolve())


def packages_of_tree(checkout: Path) -> set[str]:
    """Every folder at or below a layer that holds a module, as a package."""
    return {
        ".".join(("hushrank", *path.parent.relative_to(checkout).parts))
        for layer in LAYERS
        for path in (checkout / layer.removeprefix("hushrank.")).rglob("*.py")
    }


def test_the_package_list_is_the_tree(checkout: Path):
    """Setuptools would leave an unlisted room out of the wheel without a word."""
    folders = {path.parent.name for path in checkout.glob("*/__init__.py")}
    top = {f"hushrank.{folder}" for folder in folders - {ENTRY}}
    assert top == set(LAYERS)
    assert PROJECT["tool"]["mypy"]["packages"] == [NAMESPACE]
    assert packages_of_tree(checkout) == set(PACKAGES)
    package_dir = PROJECT["tool"]["setuptools"]["package-dir"]
    assert package_dir == {NAMESPACE: ENTRY} | {
        package: package.removeprefix("hushrank.").replace(".", "/") for package in PACKAGES
    }


def test_an_unlisted_room_is_found(tmp_path: Path):
    for folder in ("flows", "flows/ledger", "flows/ledger/attic"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "module.py").touch()
    assert packages_of_tree(tmp_path) - set(PACKAGES) == {"hushrank.flows.ledger.attic"}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_room_says_what_it_is_for(package: str):
    """Rooms are one level deep, hold a readable number of modules, and are described."""
    assert package.count(".") <= 2
    module = importlib.import_module(package)
    assert module.__doc__
    (folder,) = module.__path__
    inside = [path for path in Path(folder).glob("*.py") if path.name != "__init__.py"]
    if package != "hushrank.privacy":  # flat: a file for each concept
        assert len(inside) <= MOST_MODULES
    if package not in LAYERS:
        assert {"In:", "Out:"} <= set(module.__doc__.split())


def test_the_package_runs_as_the_command():
    """Of the installed namespace, away from the tree."""
    words = [sys.executable, "-m", NAMESPACE, "--version"]
    done = subprocess.run(words, cwd="/", capture_output=True, text=True, check=True)
    assert done.stdout == f"hushrank {INSTALLED.version}\n"


def test_nothing_shadows_the_installed_package(checkout: Path):
    assert not (checkout / "hushrank").exists()


@pytest.mark.parametrize("package", LAYERS)
def test_types_are_published(package: str):
    (folder,) = importlib.import_module(package).__path__
    assert (Path(folder) / "py.typed").is_file()


@pytest.mark.parametrize("module", modules())
def test_every_module_imports(module: str):
    if module == "hushrank.estimation.rankings.two_towers":
        pytest.importorskip("jax", reason="the optional extra `towers` is not installed")
    assert importlib.import_module(module).__doc__


def test_there_are_modules_to_import():
    assert len(modules()) > 2 * len(PACKAGES)


def test_the_version_is_the_project_s():
    assert INSTALLED.version == PROJECT["project"]["version"]


def test_the_command_is_installed_and_callable():
    (script,) = INSTALLED.entry_points.select(group="console_scripts")
    assert script.name == "hushrank"
    assert callable(script.load())


@pytest.mark.slow
def test_the_wheel_holds_the_tree_and_nothing_else(checkout: Path, tmp_path: Path):
    copy = tmp_path / "tree"  # a copy: the build writes into its source folder
    copy.mkdir()
    for folder in (ENTRY, *(package.removeprefix("hushrank.") for package in LAYERS)):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(checkout / folder, copy / folder, ignore=ignored)
    for name in BUILD_INPUTS:
        shutil.copy(checkout / name, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == tree_files(checkout)
    assert len([name for name in held if name.endswith(".py")]) > 2 * len(PACKAGES)


def locked(checkout: Path) -> dict[str, list[str]]:
    """Versions in the lock, by normalised name; some packages have one per Python version."""
    versions: dict[str, list[str]] = {}
    for line in (checkout / "requirements.lock").read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            pin = Requirement(line.split("#")[0])
            versions.setdefault(normal(pin.name), []).append(str(pin.specifier).removeprefix("=="))
    return versions


def normal(name: str) -> str:
    """Package name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_lock_satisfies_every_requirement(checkout: Path):
    pins = locked(checkout)
    wanted = [*PROJECT["project"]["dependencies"]]
    for group in PROJECT["dependency-groups"].values():
        wanted += group
    for requirement in map(Requirement, wanted):
        versions = pins[normal(requirement.name)]
        assert all(requirement.specifier.contains(version) for version in versions), requirement


def test_the_lock_names_no_package_index(checkout: Path):
    text = (checkout / "requirements.lock").read_text()
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text
