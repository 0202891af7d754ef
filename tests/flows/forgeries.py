"""Releases to forge: honest ones, and a forger who edits their files with more or less care."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hushrank.flows.methods.base import ReductionJob
from hushrank.transforms.storage.files import source_of
from hushrank.verifier.verify_release import Findings, verify
from tests.draws import NAMES
from tests.flows.conftest import InProcessReducer, Survey
from tests.flows.every_method import rows_of, survey_of
from tests.flows.small_jobs import SMALL_JOBS

Edit = Callable[["Forger"], object]


def published(name: str, folder: Path, **changes: Any) -> Forger:
    """An honest release of a variant of `every_method`, beside an earlier one in its ledger."""
    survey = survey_of(name, folder)
    if changes:
        survey.set(**changes)
    run(survey)
    return Forger.of(survey)


class Reducer(InProcessReducer):
    """Leaves all to `SMALL_JOBS`, but rows of a Beam source, which that process does without.

    Some kinds draw while rows are read: the same there as here, in every run.
    """

    def reduce(self, job: ReductionJob) -> None:
        if source_of(job.files) is None:
            SMALL_JOBS.run(job, draws=NAMES[-1] if NAMES else None)
        else:
            super().reduce(job)


def run(survey: Survey, *options: str) -> None:
    """`hushrank run`, without a process of its own for the reader."""
    from hushrank.flows.interfaces.cli.main import main

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hushrank.flows.reading.Reducer", Reducer)
        try:
            main(["run", str(survey.config), "--direct", *options])
        except SystemExit as stop:
            code = stop.code
        else:
            code = 0
    assert not code


def night_log(folder: Path, day: str) -> None:
    """What is read on a night of a stream."""
    pq.write_table(rows_of("comparisons", 12), folder / f"log-{day}.parquet")


@dataclass
class Forger:
    """The files of a release, by name, and the lines of its ledger."""

    files: dict[str, bytes]
    ledger: bytes

    @classmethod
    def of(cls, survey: Survey) -> Forger:
        """The last release of a survey, as it is kept."""
        folder = sorted((survey.folder / survey.settings["output"] / "releases").iterdir())[-1]
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        return cls(files, survey.ledger.read_bytes())

    def copy(self) -> Forger:
        """Another one, to spoil."""
        return Forger(dict(self.files), self.ledger)

    def found(self) -> Findings:
        """What the verifier says."""
        return verify(self.files, self.ledger)

    def wrong(self) -> str:
        """All that the verifier finds wrong, as one text."""
        return "\n".join(text for kind, text in self.found().lines if kind == "WRONG")

    def document(self, name: str) -> Any:
        """What a JSON file holds."""
        return json.loads(self.files[name])

    def set(self, name: str, path: str, value: Any) -> Forger:
        """Change one entry of a JSON file; a function gets what is there."""
        document = self.document(name)
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        place = document
        for parent in parents:
            place = place[parent]
        place[last] = value(place[last]) if callable(value) else value
        self.files[name] = json.dumps(document, ensure_ascii=False, indent=1).encode()
        return self

    def certify(self, path: str, value: Any) -> Forger:
        """Change the certificate."""
        return self.set("certificate.json", path, value)

    def tell(self, path: str, value: Any) -> Forger:
        """Change release.json."""
        return self.set("release.json", path, value)

    def replace(self, name: str, old: str, new: str) -> Forger:
        """Change a text in a file, everywhere."""
        content = self.files[name].decode()
        assert old in content
        self.files[name] = content.replace(old, new).encode()
        return self

    def lines(self, change: Callable[[list[bytes]], list[bytes]]) -> Forger:
        """Change the lines of the ledger."""
        self.ledger = b"".join(change(self.ledger.splitlines(keepends=True)))
        return self

    def with_digests(self) -> Forger:
        """The forger computes all digests and hashes anew, and puts the files into the page."""
        page = self.files["report.html"].decode()
        for name in (
            "release.json",
            "ranking.csv",
            "effects.csv",
            "scores.csv",
            "steps.csv",
            "dif.csv",
            "fit.csv",
        ):
            if name in self.files:
                coded = base64.b64encode(self.files[name]).decode()
                page = re.sub(
                    rf'(base64,)[^"]*(" download="[^"]*-{re.escape(name)}")',
                    rf"\g<1>{coded}\2",
                    page,
                )
        self.files["report.html"] = page.encode()
        stated = self.document("certificate.json")["files"]
        self.certify("files", {name: _digest(self.files[name]) for name in stated})
        names = sorted(set(self.files) - {"SHA256SUMS"})
        sums = "".join(f"{_digest(self.files[name])}  {name}\n" for name in names)
        self.files["SHA256SUMS"] = sums.encode()
        return self

    def with_hashes(self) -> Forger:
        """The forger chains the lines of the ledger anew, and numbers them."""
        previous, made = "0" * 64, []
        for number, line in enumerate(self.ledger.splitlines(), start=1):
            fields = json.loads(line) | {"seq": number, "previous": previous}
            del fields["hash"]
            body = json.dumps(fields, separators=(",", ":")).encode()
            previous = _digest(body)
            made.append(body[:-1] + f',"hash":"{previous}"}}\n'.encode())
        self.ledger = b"".join(made)
        return self


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def part(share: str) -> Callable[[str], str]:
    """A fraction of the certificate, times `share`."""

    def changed(text: str) -> str:
        value = Fraction(text) * Fraction(share)
        return f"{value.numerator}/{value.denominator}"

    return changed
