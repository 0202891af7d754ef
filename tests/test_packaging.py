"""What is built and installed: everything in the tree, nothing else, and from the lock."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from hushrank.transforms.common.extras import EXTRAS
from tests.test_layers import imported, sources

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PROJECT["tool"]["setuptools"]["packages"][1:]
LAYERS = [package for package in PACKAGES if package.count(".") == 1]
SITE_PACKAGES = sysconfig.get_path("purelib")
(INSTALLED,) = importlib.metadata.distributions(name="hushrank", path=[SITE_PACKAGES])
SBOM = "infra/sbom.cdx.json"
TEXTS = ("README.md", "CHANGELOG.md", "LICENSE")
BUILD_INPUTS = ("pyproject.toml", "setup.py", "MANIFEST.in", SBOM, *TEXTS)
EXTRA_REQUIREMENTS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
IMAGE_EXTRAS = ("gcp", "collect")  # as the Makefile has them
THE_SIX = {"apache-beam", "pyarrow", "numpy", "scipy", "google-cloud-storage", "prefect"}
MOST_OF_THE_CORE = 143  # packages, hushrank among them
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
        layer: layer.removeprefix("hushrank.") for layer in LAYERS
    }


def test_an_unlisted_room_is_found(tmp_path: Path):
    for folder in ("flows", "flows/ledger", "flows/ledger/attic"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "module.py").touch()
    assert packages_of_tree(tmp_path) - set(PACKAGES) == {"hushrank.flows.ledger.attic"}


def test_a_room_says_what_it_is_for():
    """A room is described; it may be cut once more, as interfaces are into commands and Python."""
    for package in PACKAGES:
        assert package.count(".") <= 3
        told = importlib.import_module(package).__doc__
        assert told, package
        if package not in LAYERS:
            assert {"In:", "Out:"} <= set(told.split()), package


def test_the_package_runs_as_the_command():
    """Of the installed namespace, away from the tree."""
    words = [sys.executable, "-m", NAMESPACE, "--version"]
    done = subprocess.run(words, cwd="/", capture_output=True, text=True, check=True)
    assert done.stdout == f"hushrank {INSTALLED.version}\n"


def test_nothing_shadows_the_installed_package(checkout: Path):
    assert not (checkout / "hushrank").exists()


def test_types_are_published():
    for package in LAYERS:
        (folder,) = importlib.import_module(package).__path__
        assert (Path(folder) / "py.typed").is_file(), package


def test_every_module_imports():
    """And says what it is."""
    for module in modules():
        if module != "hushrank.transforms.system.windows":
            assert importlib.import_module(module).__doc__, module


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
        (copy / name).parent.mkdir(exist_ok=True)
        shutil.copy(checkout / name, copy / name)
    (copy / "tests").mkdir()
    (copy / "tests" / "test_stray.py").touch()  # setuptools takes such files along unasked
    command = [sys.executable, "-m", "build", "--installer", "uv", "--outdir", str(tmp_path)]
    bin_folder = Path(sys.executable).parent  # with uv, which is faster than pip
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    subprocess.run([*command, str(copy)], check=True, capture_output=True, env=environment)
    (source,), (wheel,) = tmp_path.glob("*.tar.gz"), tmp_path.glob("*.whl")
    first = source.read_bytes()
    for path in copy.rglob("*"):
        os.utime(path, (1, 1))  # another clock
    again = [*command[:-1], str(tmp_path / "again"), "--sdist", str(copy)]
    subprocess.run(again, check=True, capture_output=True, env=environment)
    assert (tmp_path / "again" / source.name).read_bytes() == first
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {*BUILD_INPUTS, "privacy/noise.py", "flows/report/report.css"} <= names
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks"))]
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        (bill,) = (name for name in archive.namelist() if ".dist-info/sboms/" in name)
        assert archive.read(bill) == (checkout / SBOM).read_bytes()
    assert held == tree_files(checkout)
    assert len([name for name in held if name.endswith(".py")]) > 2 * len(PACKAGES)
    check_readme(wheel, checkout)


def check_readme(wheel: Path, checkout: Path) -> None:
    """Package indexes show it away from the tree, so each link is absolute and leads to a file."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        text = archive.read(name).decode()
    tree = re.compile(re.escape(PROJECT["project"]["urls"]["Source"]) + "/(?:blob|raw)/main/")
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert len(links) == len(re.findall(r"\]\(", (checkout / "README.md").read_text())) > 15
    for link in links:
        assert link.startswith("https://"), link
        assert (checkout / tree.sub("", link).partition("#")[0]).is_file(), link
        assert ("/raw/" in link) == link.endswith(".png"), link


def locked(checkout: Path, name: str = "requirements.lock") -> dict[str, list[str]]:
    """Versions in the lock, by normalised name; some packages have one per Python version."""
    versions: dict[str, list[str]] = {}
    for line in (checkout / name).read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            pin = Requirement(line.split("#")[0].removesuffix("\\"))
            versions.setdefault(normal(pin.name), []).append(str(pin.specifier).removeprefix("=="))
    return versions


def normal(name: str) -> str:
    """Package name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_lock_satisfies_every_requirement(checkout: Path):
    pins = locked(checkout)
    wanted = [*PROJECT["project"]["dependencies"], *of_extras(*EXTRA_REQUIREMENTS)]
    for group in PROJECT["dependency-groups"].values():
        wanted += group
    for requirement in map(Requirement, wanted):
        versions = pins[normal(requirement.name)]
        assert all(requirement.specifier.contains(version) for version in versions), requirement


def of_extras(*names: str) -> list[str]:
    """What extras require, but for other extras."""
    lines = (line for name in names for line in EXTRA_REQUIREMENTS[name])
    return [line for line in lines if not line.startswith("hushrank[")]


def test_every_pin_has_its_hashes(checkout: Path):
    for name in ("requirements.lock", "infra/image.lock"):
        pins = re.split(r"(?m)^(?=[a-z])", (checkout / name).read_text())[1:]
        assert len(pins) > 100
        for pin in pins:
            assert re.search(r" --hash=sha256:[0-9a-f]{64}\b", pin), pin


def test_the_image_s_lock_is_a_part_of_the_lock(checkout: Path):
    whole, part = locked(checkout), locked(checkout, "infra/image.lock")
    assert all(set(versions) <= set(whole[name]) for name, versions in part.items())
    for requirement in (*PROJECT["project"]["dependencies"], *of_extras(*IMAGE_EXTRAS)):
        assert normal(Requirement(requirement).name) in part
    assert f"IMAGE_EXTRAS := {' '.join(IMAGE_EXTRAS)}\n" in (checkout / "Makefile").read_text()
    assert not {"pytest", "matplotlib", "deltalake"} & set(part)


def test_the_extras_are_those_that_the_program_names():
    assert set(EXTRAS) == set(EXTRA_REQUIREMENTS) - {"all"}
    (everything,) = map(Requirement, EXTRA_REQUIREMENTS["all"])
    assert everything.extras == set(EXTRAS)


OF_WINDOWS = {"ntsecuritycon", "pywintypes", "win32api", "win32security"}  # parts of pywin32


def imported_distributions() -> dict[str, list[set[str]]]:
    """For each imported library the distributions that may have it, by the importing module's name.

    Parts of `google` are distributions of their own; those of `opentelemetry` are told together.
    """
    homes = importlib.metadata.packages_distributions()
    found: dict[str, list[set[str]]] = {}
    for module, source in sources().items():
        for name in imported(ast.parse(source)):
            top = name.split(".")[0]
            if top in sys.stdlib_module_names or top == NAMESPACE:
                continue
            if top == "google":
                parts = name.split(".")[: 3 if name.startswith("google.cloud.") else 2]
                names = {"-".join(parts).removesuffix("_v1")}
            else:
                names = {"pywin32"} if top in OF_WINDOWS else set(homes[top])
            found.setdefault(module, []).append(set(map(normal, names)))
    return found


def test_what_the_package_imports_is_declared():
    """Not by luck: `requests`, say, which another library brings today."""
    declared = {
        normal(Requirement(line).name)
        for line in (*PROJECT["project"]["dependencies"], *of_extras(*EXTRA_REQUIREMENTS))
    }
    found = imported_distributions()
    assert {"requests"} in found["hushrank.transforms.storage.places"]
    undeclared = [
        (module, names)
        for module, each in found.items()
        for names in each
        if not names & declared and names != {"google-cloud"}  # `from google.cloud import …`
    ]
    assert undeclared == []


def test_the_core_is_small():
    """What `pip install .` brings to this interpreter, by what installed packages require."""
    installed = {
        normal(each.metadata["Name"]): each
        for each in importlib.metadata.distributions(path=[SITE_PACKAGES])
    }
    wanted, core = ["hushrank"], set[str]()
    extras: dict[str, set[str]] = {"hushrank": set()}
    while wanted:
        name = wanted.pop()
        core.add(name)
        for line in installed[name].requires or ():
            needed = Requirement(line)
            asked = [{"extra": extra} for extra in extras.get(name, ())] or [{"extra": ""}]
            if needed.marker is not None and not any(map(needed.marker.evaluate, asked)):
                continue
            other = normal(needed.name)
            grown = extras.setdefault(other, set()) | needed.extras
            if other not in core or grown != extras[other]:
                extras[other] = grown
                wanted.append(other)
    assert core >= THE_SIX
    assert not {"matplotlib", "google-cloud-bigquery"} & core
    assert len(core) <= MOST_OF_THE_CORE, sorted(core)


def test_the_lock_names_no_package_index(checkout: Path):
    text = (checkout / "requirements.lock").read_text()
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text
