"""From a file to the YAML file of a job: what it was taken for, and the questions left open.

The questions are those of `hushrank init`; the page shows them one at a time. A value of a row is
handed out only to a person who has confirmed what `hushrank inspect` asks for as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Lock
from typing import Any

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.config.yaml_file import yaml_content
from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.app.folder import Folder, digest_of, text_at
from hushrank.flows.methods.registry import check_job
from hushrank.flows.planning.plan.survey import EPSILON, plan_config
from hushrank.flows.planning.propose.head import Head, read_head
from hushrank.flows.planning.propose.proposal import (
    ConfigProposal,
    Kind,
    kind_named,
    proposal_of,
)
from hushrank.flows.planning.propose.questions import Choice, Question, kind_question
from hushrank.flows.planning.propose.roles import MEANINGS
from hushrank.flows.reading import read_apart
from hushrank.flows.run.context import record_access
from hushrank.transforms.common.plain_text import short
from hushrank.transforms.storage.places import write_once, write_whole

MOST_HEADS = 50  # files whose header is kept in memory
MOST_CELL = 200  # characters of a cell that are shown
ACCESS = "app, first rows"  # words in the ledger
_DATE = re.compile(r"\{[^}]*\}")  # of a night, in a path


@dataclass(frozen=True, slots=True)
class Asked:
    """Choices that a person has made for a file.

    Attributes:
        file: name of the file in the folder.
        kind: kind of its rows; None: guess it.
        roles: roles of columns, by column; None: guess them.
    """

    file: str
    kind: Kind | None
    roles: Mapping[str, str] | None

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Asked:
        """Read a request.

        Raises:
            ConfigError: a value is none that the page sends.
        """
        file, kind, roles = (content.get(key) for key in ("file", "kind", "roles"))
        if not isinstance(file, str) or not isinstance(kind, str | None):
            raise ConfigError("the page sent no file; load it again")
        if roles is not None and not texts_by_name(roles):
            raise ConfigError("the page sent no roles of columns; load it again")
        return cls(file, kind_named(kind or None), roles)


@dataclass(frozen=True, slots=True)
class Earlier:
    """The YAML file that the same page wrote before, from other answers.

    Attributes:
        survey: its name; empty: there is none.
        digest: of the content that the page wrote.
    """

    survey: str = ""
    digest: str = ""

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Earlier:
        """Read a request."""
        names = (content.get("survey"), content.get("digest"))
        return cls(*map(str, names)) if all(isinstance(each, str) for each in names) else cls()


def texts_by_name(value: object) -> bool:
    """Whether a value from JSON is an object of texts."""
    return isinstance(value, dict) and all(
        isinstance(key, str) and isinstance(text, str) for key, text in value.items()
    )


@dataclass(frozen=True)
class Proposals:
    """Proposals for the files of a folder; each header is read once.

    Attributes:
        folder: the folder, in which this process works.
    """

    folder: Folder
    _heads: dict[tuple[str, int, int], Head] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def proposal(self, asked: Asked, target: Path) -> ConfigProposal:
        """Propose the YAML file `target` as `hushrank init` does.

        Raises:
            ConfigError: the file cannot be read, or a column cannot have its role.
        """
        self.folder.place(asked.file)
        source = Path(asked.file)  # relative, as the YAML file and messages name it
        return proposal_of(source, target, self._head(source), asked.kind, asked.roles)

    def seen(self, asked: Asked, *, confidential: bool) -> dict[str, Any]:
        """Say what a file was taken for, and which questions are open.

        Args:
            asked: the file.
            confidential: whether the person has confirmed that exact rows are for them alone; only
                then are the first rows handed out. Every job of the folder that may read the file
                records that in its ledger first, as for `hushrank inspect`.

        Raises:
            ConfigError: as for `proposal`.
            LedgerError: the access must be recorded, and cannot be.
        """
        proposal = self.proposal(asked, Path("survey.yaml"))
        if confidential:
            for config in self._jobs_of(self.folder.place(asked.file)):
                record_access(config, ACCESS)
        first = kind_question()
        unclear = bool(proposal.questions) and proposal.questions[0].key == first.key
        return {
            "file": asked.file,
            "kind": None if unclear else proposal.kind,
            "kinds": [_choice(each) for each in first.choices],
            "summary": [line.strip() for line in proposal.summary.splitlines()],
            "columns": [
                {
                    "name": column,
                    "role": proposal.roles.get(column, ""),
                    "menu": [{"role": role, "means": MEANINGS[role]} for role in menu],
                }
                for column, menu in proposal.menus.items()
            ],
            "questions": [] if unclear else [*map(question, proposal.questions)],
            "rows": self._rows(Path(asked.file)) if confidential else None,
        }

    def write(self, asked: Asked, typed: Mapping[str, str], earlier: Earlier) -> dict[str, Any]:
        """Write the YAML file, with epsilon still open; or say which answers do not do.

        Args:
            asked: the file.
            typed: what the person has answered, by the key of the question.
            earlier: the file to replace; it must be as the page wrote it.

        Raises:
            ConfigError: the job breaks a rule; nothing was written.
        """
        again = self._is_unchanged(earlier)
        target = Path(earlier.survey if again else self.folder.new_survey(asked.file).name)
        proposal = self.proposal(asked, target)
        answers, wrong = {}, {}
        for each in proposal.questions:
            if each.key == EPSILON:
                continue
            value = each.value_of(typed.get(each.key, ""))
            if value is None:
                wrong[each.key] = f"{each.short}: {_wanted(each)}"
            else:
                answers[each.key] = value
        if wrong:
            return {"wrong": wrong}
        text = proposal.answered(answers).text
        self.check(text, target)
        try:
            if again:
                write_whole(str(target), text.encode())
            elif write_once(str(target), text.encode()) != text.encode():
                raise ConfigError(f"{target}: somebody else wrote it meanwhile; try again")
        except OSError as error:
            raise ConfigError(f"{target}: cannot be written ({error.strerror})") from None
        return {"survey": target.name, "digest": digest_of(text)}

    def _is_unchanged(self, earlier: Earlier) -> bool:
        """Whether a file is there as the page wrote it, so that the page may write it anew."""
        if not earlier.survey:
            return False
        path = self.folder.survey(earlier.survey)
        return digest_of(text_at(path)) == earlier.digest

    def check(self, text: str, target: Path) -> None:
        """Check the content of a YAML file before it is written; epsilon may be open.

        Raises:
            ConfigError: the content breaks a rule.
        """
        content = yaml_content(target, text, (EPSILON,))
        privacy = content.get("privacy")
        if isinstance(privacy, dict) and privacy.get("epsilon") is None:
            privacy["epsilon"] = 1.0
        check_job(target, content, self.folder.root)

    def _jobs_of(self, file: Path) -> Iterator[SurveyConfig]:
        """Yield the jobs of the folder that may read a file, or files of a folder."""
        for name in self.folder.surveys():
            try:
                config = plan_config(Path(name))
            except ConfigError:  # another YAML file
                continue
            if any(_may_read(path, file) for path in config.input.paths):
                yield config

    def _head(self, source: Path) -> Head:
        """Header and first rows; those of a file are kept as long as it is unchanged."""
        if not source.is_file():
            return read_apart(read_head, source)
        found = source.stat()
        key = (str(source), found.st_mtime_ns, found.st_size)
        with self._lock:
            if key not in self._heads:
                head = read_apart(read_head, source)
                if len(self._heads) >= MOST_HEADS:
                    self._heads.clear()
                self._heads[key] = head
            return self._heads[key]

    def _rows(self, source: Path) -> list[list[str]]:
        head = self._head(source)
        return [[_cell(row.get(column)) for column in head.columns] for row in head.rows]


def _may_read(path: str, file: Path) -> bool:
    """Whether `input.paths` with `path` may take in a file, or a file of a folder."""
    place = Path(_DATE.sub("*", path)).resolve()
    pattern = f"{place}".replace("**/", "*")
    inside = place.is_relative_to(file) or file.is_relative_to(place)
    return inside or any(fnmatchcase(f"{each}", pattern) for each in (file, *file.parents))


def _cell(value: object) -> str:
    return "" if value is None else short(str(value), MOST_CELL)


def question(each: Question) -> dict[str, Any]:
    """Return a question as the page shows it."""
    return {
        "key": each.key,
        "short": each.short,
        "asks": each.asks,
        "because": each.because,
        "columns": [*each.columns],
        "choices": [_choice(choice) for choice in each.choices],
        "open": each.is_open,
    }


def _choice(choice: Choice) -> dict[str, str]:
    return {"answer": choice.answer, "when": choice.effect, "does": choice.result}


def _wanted(each: Question) -> str:
    words = [choice.answer for choice in each.choices] or each.columns
    return f"answer with {' or '.join(words)}" if words else "a value is missing, or is not one"
