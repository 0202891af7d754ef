"""Which code runs: version, commit, digest of its files, and the libraries that it draws with."""

from __future__ import annotations

import hashlib
import importlib
import platform
import re
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from pydantic import Field

from hushrank.flows.statement.record import Record

PACKAGE = "hushrank"
LAYERS = ("estimation", "flows", "pipelines", "privacy", "transforms")
LIBRARIES = ("apache-beam", "dp-accounting", "numpy", "opendp", "pyarrow", "scipy")
COMMIT = "COMMIT"  # beside the package's `__init__`, where it was built from a checkout
SHOWN_DIGITS = 12  # of a commit, in a version
GIT_SECONDS = 10


class Software(Record, strict=True):
    """The code that drew the noise.

    Attributes:
        hushrank: its version.
        commit: of the source, 40 hex digits; null: not known.
        modified: the checkout had changes that are in no commit; null: not known.
        package_sha256: digest of a list of its Python files: lines `digest  path` as `sha256sum`
            prints them, sorted; null: not recorded.
        python: its version; null: not recorded.
        libraries: versions of those that draw, count and compute.
    """

    hushrank: str
    commit: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    modified: bool | None = None
    package_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    python: str | None = None
    libraries: dict[str, str] = Field(default_factory=dict)


@cache
def installed_version(name: str) -> str:
    """Version of an installed distribution, from the first lines of its metadata.

    `importlib.metadata.version` parses the whole file, descriptions too, and so takes milliseconds.

    Raises:
        PackageNotFoundError: the package is not installed.
    """
    found = distribution(name)
    header = (found.read_text("METADATA") or "").partition("\n\n")[0]
    stated = re.search(r"^Version: (\S+)$", header, re.MULTILINE)
    return stated[1] if stated else found.version


@cache
def software() -> Software:
    """The code that this process runs; nothing but its own files is looked at."""
    commit, modified = _commit()
    return Software(
        hushrank=installed_version(PACKAGE),
        commit=commit,
        modified=modified,
        package_sha256=package_digest(),
        python=platform.python_version(),
        libraries=dict(_versions()),
    )


def full_version(plain: str) -> str:
    """A version with the commit where one is known: `0.1.0+g1a2b3c4d5e6f`, and `.modified`."""
    found = software()
    if found.commit is None:
        return plain
    modified = ".modified" if found.modified else ""
    return f"{plain}+g{found.commit[:SHOWN_DIGITS]}{modified}"


def package_digest() -> str:
    """SHA-256 of a list of all modules: lines of `sha256sum`, sorted by path."""
    found = {}
    for name, folder in _folders().items():
        paths = folder.glob("*.py") if name == PACKAGE else folder.rglob("*.py")
        for path in paths:
            place = "/".join((*name.split("."), *path.relative_to(folder).parts))
            found[place] = hashlib.sha256(path.read_bytes()).hexdigest()
    lines = (f"{digest}  {place}\n" for place, digest in sorted(found.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _folders() -> dict[str, Path]:
    """Return the folders where the package and each of its layers are installed."""
    names = (PACKAGE, *(f"{PACKAGE}.{layer}" for layer in LAYERS))
    return {name: Path(importlib.import_module(name).__path__[0]) for name in names}


def _versions() -> list[tuple[str, str]]:
    found = []
    for name in LIBRARIES:
        try:
            found.append((name, installed_version(name)))
        except PackageNotFoundError:
            continue
    return found


def _commit() -> tuple[str | None, bool | None]:
    """The commit, and whether the files differ from it: of the wheel, or of the checkout."""
    folders = _folders()
    root = folders[f"{PACKAGE}.privacy"].parent
    if (root / ".git").exists() and (root / "pyproject.toml").exists():
        return _commit_of_checkout(root)
    try:
        text = (folders[PACKAGE] / COMMIT).read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return None, None
    known = bool(text) and len(text[0]) == 40 and set(text[0]) <= set("0123456789abcdef")
    return (text[0], "modified" in text[1:]) if known else (None, None)


def _commit_of_checkout(root: Path) -> tuple[str | None, bool | None]:
    """Return commit and cleanness from git; None where git is missing or fails."""
    commit = _git(root, "rev-parse", "--verify", "HEAD")
    if commit is None or len(commit.strip()) != 40:
        return None, None
    changed = _git(root, "status", "--porcelain", "--", "entry", *LAYERS)
    return commit.strip(), None if changed is None else bool(changed)


def _git(root: Path, *words: str) -> str | None:
    command = ["git", "--no-optional-locks", "-C", str(root), *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=GIT_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
