"""Which code a certificate names: of a checkout, of a wheel, and where nobody knows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hushrank.flows.release import provenance as own
from hushrank.flows.release.provenance import Software


@pytest.fixture(autouse=True)
def anew():
    own.software.cache_clear()
    yield
    own.software.cache_clear()


def installed_in(folder: Path, monkeypatch: pytest.MonkeyPatch, commit: str | None) -> None:
    """A package of two files outside any checkout."""
    for name in ("hushrank", *(f"hushrank/{layer}" for layer in own.LAYERS)):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"# {name}\n")
    if commit is not None:
        (folder / "hushrank" / "COMMIT").write_text(commit)
    names = {"hushrank": folder / "hushrank"}
    names |= {f"hushrank.{layer}": folder / "hushrank" / layer for layer in own.LAYERS}
    monkeypatch.setattr(own, "_folders", lambda: names)


@pytest.mark.parametrize(
    ("text", "commit", "modified"),
    [
        (f"{'a1' * 20}\n", "a1" * 20, False),
        (f"{'a1' * 20} modified\n", "a1" * 20, True),
        ("not a commit\n", None, None),
        (None, None, None),
    ],
)
def test_a_wheel_says_what_it_was_built_from(text, commit, modified, tmp_path, monkeypatch):
    installed_in(tmp_path, monkeypatch, text)
    found = own.software()
    assert (found.commit, found.modified) == (commit, modified)
    suffix = "" if commit is None else f"+g{commit[:12]}{'.modified' * bool(modified)}"
    assert own.full_version("0.1.0") == f"0.1.0{suffix}"


def test_a_checkout_asks_git(tmp_path, monkeypatch):
    installed_in(tmp_path, monkeypatch, None)
    root = tmp_path / "hushrank"
    (root / "pyproject.toml").touch()
    settings = ("-c", "user.name=n", "-c", "user.email=e")

    def git(*words: str) -> str:
        command = ["git", "-C", str(root), *settings, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    git("init")
    git("add", ".")
    git("commit", "--message", "all")
    found = own.software()
    assert (found.commit, found.modified) == (git("rev-parse", "HEAD").strip(), False)
    (root / "flows" / "__init__.py").write_text("# changed\n")
    own.software.cache_clear()
    assert own.software().modified is True
    monkeypatch.setenv("PATH", "")
    own.software.cache_clear()
    assert own.software().commit is None


def test_the_digest_is_that_of_sha256sum_and_moves_with_every_module(tmp_path, monkeypatch):
    installed_in(tmp_path, monkeypatch, None)
    listed = "find hushrank -name '*.py' | LC_ALL=C sort | xargs sha256sum | sha256sum"
    printed = subprocess.run(
        listed, shell=True, cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert own.package_digest() == printed.split()[0]
    (tmp_path / "hushrank" / "privacy" / "__init__.py").write_text("# changed\n")
    assert own.package_digest() != printed.split()[0]


def test_this_code_names_its_libraries():
    found = own.software()
    assert isinstance(found, Software)
    assert set(found.libraries) == set(own.LIBRARIES)
    assert re.fullmatch(r"[0-9a-f]{64}", found.package_sha256 or "")
