"""What a build adds to pyproject.toml: commit, bill of materials, the README for package indexes.

The commit is in `hushrank/COMMIT`, which certificates of releases name. A wheel is built from a
checkout, or from a source archive, which has taken the file along. Where neither knows the commit
there is no file. The bill of materials (`infra/third_party.py`) goes into `.dist-info/sboms`, where
PEP 770 has it. In the README of the package, links to files of the tree lead to its repository.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
CODE = ("entry", "estimation", "flows", "pipelines", "privacy", "transforms", "verifier")
PLACE = Path("entry", "COMMIT")
SBOM = Path("infra", "sbom.cdx.json")
BRANCH = "main"
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)]*)")  # to a file of the tree


def commit() -> str:
    """The commit, and `modified` where the code differs from it; empty: nobody knows."""
    if not (ROOT / ".git").exists():
        kept = ROOT / PLACE
        return kept.read_text(encoding="ascii") if kept.exists() else ""
    try:
        head, changed = (
            subprocess.run(
                ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--", *CODE))
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{head} modified\n" if changed else f"{head}\n"


def readme() -> str:
    """The README with absolute links."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = project["urls"]["Source"]

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[1].endswith(".png") else "blob"  # a picture must be the file itself
        return f"]({source}/{kind}/{BRANCH}/{link[1]}"

    return LINK.sub(absolute, (ROOT / "README.md").read_text(encoding="utf-8"))


class BuildWithCommit(build_py):
    """Puts the commit beside the package's `__init__`; an editable install asks git itself."""

    def run(self) -> None:
        """Build, then write the file."""
        super().run()
        if not self.editable_mode and (text := commit()):
            Path(self.build_lib, "hushrank", "COMMIT").write_text(text, encoding="ascii")


class WheelWithMaterials(bdist_wheel):
    """Puts the bill of materials into the wheel's metadata."""

    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        """Write the metadata, then the bill."""
        super().egg2dist(egginfo_path, distinfo_path)
        folder = Path(distinfo_path, "sboms")
        folder.mkdir()
        shutil.copyfile(ROOT / SBOM, folder / SBOM.name)


EARLIEST = 315_532_800  # 1 January 1980, the first date that a wheel can hold


class SourceWithCommit(sdist):
    """Takes the commit along in a source archive; the same tree gives the same bytes."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Copy the files, then write it."""
        super().make_release_tree(base_dir, files)
        if text := commit():
            Path(base_dir, PLACE).write_text(text, encoding="ascii")

    def make_archive(
        self,
        base_name: str,
        format: str,
        root_dir: str | os.PathLike[str] | None = None,
        base_dir: str | None = None,
        owner: str | None = None,
        group: str | None = None,
    ) -> str:
        """Write the archive, then once more without this machine's clock, account and order."""
        found = super().make_archive(base_name, format, root_dir, base_dir, owner, group)
        if format != "gztar":
            return found
        date = int(os.environ.get("SOURCE_DATE_EPOCH", EARLIEST))
        plain = io.BytesIO()
        with tarfile.open(found) as before, tarfile.open(fileobj=plain, mode="w") as after:
            for member in sorted(before, key=lambda each: each.name):
                mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                same = member.replace(
                    mtime=date, mode=mode, uid=0, gid=0, uname="", gname="", deep=False
                )
                same.pax_headers = {}
                after.addfile(same, before.extractfile(member) if member.isfile() else None)
        Path(found).write_bytes(gzip.compress(plain.getvalue(), mtime=date))
        return found


setup(
    cmdclass={
        "bdist_wheel": WheelWithMaterials,
        "build_py": BuildWithCommit,
        "sdist": SourceWithCommit,
    },
    long_description=readme(),
    long_description_content_type="text/markdown",
)
