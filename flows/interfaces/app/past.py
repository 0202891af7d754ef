"""Releases of a job with their files, its budget, their verification, and a notebook."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.app.folder import Folder
from hushrank.flows.interfaces.documents.runs import summary_of
from hushrank.flows.methods.registry import load_config
from hushrank.flows.release.archive import archived, files_of, find_archived, load_archived
from hushrank.flows.release.history import apart, changed_jobs, read_history
from hushrank.flows.release.release import Release
from hushrank.flows.report.changes import job_change
from hushrank.flows.report.sections import ranks_over_time
from hushrank.flows.report.slide import chart_of, chart_svg
from hushrank.flows.report.svg import SVG, Shape
from hushrank.transforms.common.local_files import MostBytes, read_local

CHART = "ranking.svg"
OUTSIDE = "output: {} is not in this folder, so the page does not show it"
CHECKS = {"validate": ("validate",), "verify": ("verify",), "ledger": ("ledger", "show")}
CHECK_SECONDS = 600
ID = re.compile("[A-Za-z0-9-]+")


@dataclass(frozen=True, slots=True)
class Past:
    """The releases of the jobs of a folder.

    Attributes:
        folder: the folder, in which this process works.
    """

    folder: Folder

    def releases(self, name: str) -> dict[str, Any]:
        """List the releases of a job, the last one first, with the names of their files.

        Raises:
            HushrankError: the file or a release breaks a rule.
        """
        output = self._output(name)
        folders = archived(output)
        if not folders:
            return {"releases": []}
        listed, left_out = apart(read_history([output]))
        shown = [*left_out, *listed]
        return {
            "releases": [
                {**summary_of(each).model_dump(mode="json"), "files": self._names(output, each)}
                for each in reversed(shown)
            ]
        }

    def file(self, name: str, release_id: str, file: str) -> bytes:
        """Return a published file of a release, or its chart.

        Raises:
            ConfigError: there is no such release or file.
        """
        output = self._output(name)
        kept = find_archived(output, release_id) if ID.fullmatch(release_id) else None
        if kept is None:
            raise ConfigError(f"{name}: has no such release")
        if file == CHART:
            return chart_svg(chart_of(load_archived(kept), Shape.WIDE)).encode()
        if file not in files_of(kept) or not isinstance(kept, Path):
            raise ConfigError(f"{name}: the release has no such file")
        path = kept / file
        self.folder.place(path.resolve().relative_to(self.folder.root).as_posix())
        return read_local(path, MostBytes.RELEASE)

    def picture(self, name: str) -> bytes:
        """Draw ranks over time, as `hushrank history --plot` does, as SVG.

        Raises:
            ConfigError: there is no release yet.
        """
        output = self._output(name)
        releases, _ = apart(read_history([output]))
        breaks = {
            after.release_id: job_change(before, after)
            for before, after in changed_jobs([output], releases)
        }
        return ranks_over_time(releases, SVG, breaks)

    def check(self, name: str, what: str) -> dict[str, Any]:
        """Run a command that only looks; return what it prints and whether all is well.

        Args:
            name: name of the YAML file.
            what: one of `CHECKS`.

        Raises:
            ConfigError: the page asks for another command.
        """
        self.folder.survey(name)
        if what not in CHECKS:
            raise ConfigError("the page asked for an unknown check; load it again")
        done = subprocess.run(
            [sys.executable, "-m", "hushrank", *CHECKS[what], name],
            cwd=self.folder.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=CHECK_SECONDS,
            check=False,
            env={**os.environ, "COLUMNS": "100", "TERM": "dumb"},
        )
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        return {"good": done.returncode == 0, "lines": [line for line in lines if line.strip()]}

    def notebook(self, name: str) -> bytes:
        """Return a Jupyter notebook that runs the same job from Python.

        Raises:
            ConfigError: there is no such YAML file.
        """
        self.folder.survey(name)
        return notebook_bytes(name)

    def _output(self, name: str) -> Path:
        self.folder.survey(name)
        output = load_config(Path(name)).output
        if not isinstance(output, Path) or not output.resolve().is_relative_to(self.folder.root):
            raise ConfigError(OUTSIDE.format(output))
        return output

    def _names(self, output: Path, release: Release) -> list[str]:
        kept = find_archived(output, release.release_id)
        return [] if kept is None else [*files_of(kept), CHART]


def notebook_bytes(survey: str) -> bytes:
    """Build a notebook that runs the job of a YAML file beside it."""
    cells = [
        (
            "markdown",
            f"# The job of `{survey}`, from Python\n\n"
            "Put this notebook beside the YAML file. A release that was drawn before is shown"
            " again; that spends nothing.",
        ),
        ("code", "import hushrank as hr"),
        ("code", f"release = hr.run({survey!r})\nrelease"),
        ("markdown", "The ranking as a table, with intervals:"),
        ("code", "release.ranking"),
    ]
    content = {
        "cells": [
            {
                "cell_type": kind,
                "id": f"cell-{number}",
                "metadata": {},
                "source": source,
                **({"execution_count": None, "outputs": []} if kind == "code" else {}),
            }
            for number, (kind, source) in enumerate(cells)
        ],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1).encode()
