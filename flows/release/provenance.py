"""The origin of a release: its job and draw, its rows, its software, what attacks have shown.

Results of an audit of the job, for the certificate of its releases. Rows that a release was
counted from, if a Beam transform and no file held them. Running code: version, commit, digest of
its files, and the libraries that it draws with.
"""

from __future__ import annotations

import hashlib
import importlib
import platform
import re
import subprocess
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from hushrank.flows.config.method import AboutConfig
from hushrank.flows.config.schedule import path_on
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.release.stream import StreamRecord
from hushrank.flows.statement.record import Record
from hushrank.privacy.randomness import BitsUsed
from hushrank.transforms.common.local_files import MostBytes, read_local
from hushrank.transforms.tables.names import PYTHON

# A fraction in lowest terms, such as `7/10`; or `inf`.
FractionText = Annotated[str, Field(pattern=r"^(inf|(0|[1-9][0-9]*)/[1-9][0-9]*)$")]


class AuditedPair(Record, strict=True):
    """Result of an attack on the configured mechanism.

    Attributes:
        pair: two neighbouring synthetic inputs, in words.
        epsilon_lower: the mechanism's epsilon is at least this, with that confidence.
        confidence: confidence of the lower bound.
        when: time of the audit.
        stated: epsilon as claimed.
    """

    pair: str
    epsilon_lower: FractionText
    confidence: FractionText
    when: AwareDatetime
    stated: FractionText


class _Audit(BaseModel):
    """Fields of `hushrank audit`'s file that a certificate needs."""

    job: str
    refuted: bool
    certificate: tuple[AuditedPair, ...]


def audited_pairs(config: SurveyConfig) -> tuple[AuditedPair, ...] | None:
    """The bounds in the file `report.audit`; None: the job names none.

    Raises:
        ConfigError: the file cannot be read, is of another configuration, or refutes what is
            stated.
    """
    path = config.report.audit
    if path is None:
        return None
    try:
        found = _Audit.model_validate_json(read_local(path, MostBytes.RECORDS))
    except OSError as error:
        raise ConfigError(
            f"report.audit: {path} cannot be read: {error.strerror}. Run hushrank audit, or remove"
            " the key. Nothing was spent."
        ) from None
    except ValidationError:
        raise ConfigError(
            f"report.audit: {path} is not what hushrank audit writes. Run hushrank audit again."
            " Nothing was spent."
        ) from None
    if found.job not in config.job_hashes:
        raise ConfigError(
            f"report.audit: {path} is an audit of another configuration. Run hushrank audit again."
            " Nothing was spent."
        )
    if found.refuted:
        raise ConfigError(
            f"report.audit: {path} shows that the mechanism breaks what is stated. Do not publish"
            " with it, and report the fault. Nothing was spent."
        )
    return found.certificate


class RowSource(Record):
    """The transform and the public name of its rows, in the operator's words.

    Attributes:
        type: name of the transform in Beam YAML; `PTransform` if Python passed it.
        version: public name of the rows. The same version again is the same release.
    """

    type: str
    version: str

    @property
    def text(self) -> str:
        """Type and name of the source, for people."""
        named = "a Beam transform" if self.type == PYTHON else f"Beam's {self.type}"
        return f"version {self.version}, read by {named}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The origin of a release.

    Attributes:
        release_id: unique to this release.
        created: time of the draw, with a time zone.
        night: the day whose rows are ranked; None if the configuration selects no nights.
        name: name of the job and its population.
        job: id of the job's configuration.
        method: the method as in the configuration.
        code_version: version of the hushrank that drew the noise; a later one may have published.
        charged: whether the ledger counts it; False if a seed was injected or there is no noise.
        bits: sources of the random bits; None if an older version did not record them; then
            the law of the noise was not stored either.
        stream: night of a stream; None: the release is none.
        about: description of the survey; None: nothing is stated.
        source: the Beam transform that yielded the rows; None: they were in files.
    """

    release_id: str
    created: datetime
    night: date | None = None
    name: str
    job: str
    method: str
    code_version: str
    charged: bool
    bits: BitsUsed | None
    stream: StreamRecord | None = None
    about: AboutConfig | None = None
    source: RowSource | None = None

    @property
    def safe(self) -> bool:
        """Whether nobody can predict or repeat the draw."""
        return self.charged and (self.bits is None or self.bits.safe)


def row_source_of(config: SurveyConfig, night: date | None) -> RowSource | None:
    """Return the source of a job's rows; None: they come from files.

    Args:
        config: the job.
        night: the day whose rows are ranked; None: the version as it is written.
    """
    stated, version = config.input.source, config.input.version
    if version is None:
        return None
    version = version if night is None else path_on(version, night)
    return RowSource(type=PYTHON if stated is None else stated.type, version=version)


PACKAGE = "hushrank"
LAYERS = ("estimation", "flows", "pipelines", "privacy", "transforms")
LIBRARIES = ("apache-beam", "dp-accounting", "numpy", "opendp", "pyarrow", "scipy")
COMMIT = "COMMIT"  # beside the package's `__init__`, where it was built from a checkout
SHOWN_DIGITS = 12  # digits of a commit that a version shows
GIT_SECONDS = 10


class Software(Record, strict=True):
    """The code that drew the noise.

    Attributes:
        hushrank: version of hushrank.
        commit: commit of the source, 40 hex digits; null: not known.
        modified: the checkout had changes that are in no commit; null: not known.
        package_sha256: digest of a list of its Python files: lines `digest  path` as `sha256sum`
            prints them, sorted; null: not recorded.
        python: version of Python; null: not recorded.
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
