"""Errors with which a flow refuses or fails.

Every text says what, where, which rule and how to fix it, and never a private value.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from typing import ClassVar, Self

from hushrank.transforms import system
from hushrank.transforms.common.local_files import UnfitFile
from hushrank.transforms.common.plain_text import short_message

NOTHING_SPENT = "Nothing was read or spent."


NOTHING = "nothing"  # was spent


@dataclass(frozen=True, slots=True)
class Problem:
    """A rule that is broken.

    Attributes:
        place: place of the problem, such as `survey.yaml: privacy.epsilon`, a file, a ledger or an
            option; empty: the rule says it.
        rule: sentence on what is wrong.
        fix: sentence on how to put it right; empty: the rule says it.
        line: line of the file that `place` names, from 1; None: not known.
    """

    place: str = ""
    rule: str = ""
    fix: str = ""
    line: int | None = None

    @property
    def sentence(self) -> str:
        """The three parts; a fix that begins in lower case ends the sentence of the rule."""
        start = f"{self.place}: {self.rule}" if self.place else self.rule
        if not self.fix:
            return start
        return f"{start}{'. ' if self.fix[0].isupper() else '; '}{self.fix}"


class HushrankError(Exception):
    """A failure that explains itself: the command line prints its text without a traceback.

    The text is made of its problems, or is the rule of the only one. It has an end, whatever names
    it holds (`transforms.common.plain_text.short_message`).

    Attributes:
        exit_code: exit code of the process.
        problems: the rules that are broken, at least one.
        spent: cost, in words; `NOTHING`; None: not known.
    """

    exit_code: ClassVar[int] = 1
    spent: str | None = None

    def __init__(
        self,
        text: object = "",
        *problems: Problem,
        closing: str = "",
        spent: str | None = None,
    ) -> None:
        """Describe the failure by a text, or by problems.

        Args:
            text: what is wrong, where, and how to put it right; empty: it is made of `problems`.
            problems: the parts of the text.
            closing: a sentence that follows problems.
            spent: see the class; None: what holds for all errors of the class.
        """
        made = "\n".join(each.sentence for each in problems)
        if closing:
            made = f"{made}{'' if made.endswith('.') else '.'} {closing}"
        super().__init__(short_message(str(text) or made))
        self.problems = problems or (Problem(rule=f"{self}"),)
        if spent is not None:
            self.spent = spent

    @classmethod
    def at(cls, place: object, text: str) -> Self:
        """The error that `text` tells, at a place that it may begin with."""
        return cls(text, Problem(f"{place}", text.removeprefix(f"{place}: ")))

    @property
    def fields(self) -> dict[str, object]:
        """Fields that a program reads: the first problem, what was spent, and all problems."""
        problems = [
            {
                "place": short_message(each.place) or None,
                "line": each.line,
                "rule": short_message(each.rule),
                "fix": short_message(each.fix) or None,
            }
            for each in self.problems
        ]
        return {**problems[0], "spent": self.spent, "problems": problems}

    def _render_traceback_(self) -> list[str]:
        """Lines that a notebook shows: IPython asks for them."""
        return [f"{type(self).__name__}: {text_of(self)}"]


def notes_of(error: BaseException) -> str:
    """The sentences that were added to an error on its way, in their order; empty: none."""
    return " ".join(getattr(error, "__notes__", ()))


def text_of(error: HushrankError) -> str:
    """An error's own text, and the sentences that were added to it."""
    return short_message(f"{error} {notes_of(error)}".strip())


class Interrupted(HushrankError):  # noqa: N818 - somebody wants it to end
    """Ctrl-C, or a signal that means the same (`flows.terminal`)."""

    exit_code = 130  # by convention 128 and the number of SIGINT


class ConfigError(HushrankError):
    """The configuration or the input breaks a rule that the person can put right."""

    exit_code = 2
    spent = NOTHING

    @classmethod
    def from_input(cls, error: Exception) -> Self:
        """The refusal of an input; an `InputError` names its file first."""
        place, found, _ = f"{error}".partition(": ")
        return cls.at(place, f"{error}") if found else cls(f"{error}")


def require(extra: str, where: str) -> None:
    """Refuse what needs an extra that is not installed: before anything is read or spent.

    Args:
        extra: as `pip install 'hushrank[EXTRA]'` names it.
        where: the command, option or key that needs it.

    Raises:
        ConfigError: the extra is not installed.
    """
    from hushrank.transforms.common.extras import is_installed, remedy  # loads Arrow

    if not is_installed(extra):
        rule, _, fix = remedy(extra).partition(". ")
        raise ConfigError("", Problem(where, rule, fix), closing=NOTHING_SPENT)


def refusal_of(error: BaseException) -> ConfigError | None:
    """The refusal of what is no regular file; None: it is another error."""
    if not isinstance(error, UnfitFile | IsADirectoryError):
        return None
    no_home = error.errno == errno.ENOENT
    fix = "Put a regular file there, or name another place."
    fix = "Write the path in full." if no_home else fix
    problem = Problem(f"{error.filename}", f"{error.strerror}", fix)
    return ConfigError("", problem, closing=notes_of(error))


class MethodRefused(ConfigError):  # noqa: N818 - the configuration is at fault
    """The configuration does not suit its method, whichever night is ranked."""


class NightWithoutFiles(ConfigError):  # noqa: N818 - often nobody's fault
    """There are no files for a night. Nothing was read or spent."""


class NightOutOfTurn(ConfigError):  # noqa: N818 - that nights are in order is a rule, not a fault
    """A night of a stream that is not the next one to be drawn. Nothing was read or spent."""


class BudgetRefused(HushrankError):  # noqa: N818 - a refusal is a right outcome, not a fault
    """The ledger does not hold what the run needs. Raised before any row is read."""

    exit_code = 3
    spent = NOTHING


class LedgerError(HushrankError):
    """The ledger is damaged, in use, or at odds with the configuration. Nothing was spent."""

    exit_code = 2
    spent = NOTHING


class RunInProgress(LedgerError):  # noqa: N818 - the other run is as it should be
    """Another run holds what this one needs. Nothing was spent."""


class PredictableBits(HushrankError):  # noqa: N818 - what they are is the fault
    """Random bits of a release that is to be safe can be predicted. Nothing is released."""


class AuditStopped(HushrankError):  # noqa: N818 - named after what stopped
    """Error if a release draws what its audit does not examine. Nothing was read or spent."""

    spent = NOTHING


class DrawError(HushrankError):
    """Error if a draw failed or is lost, and the ledger counts it. A fresh draw pays again."""


class LookStopped(HushrankError):  # noqa: N818 - that it stopped is a right outcome
    """A noisy look at the rows says that they do not fit. It is paid for, and the rest is not."""

    exit_code = 4


class EstimateError(HushrankError):
    """Error if a draw cannot be ranked. It is paid for and kept, and nothing was published."""


class PublishError(HushrankError):
    """The release could not be written in full; the output folder is as it was before."""


class ArchiveError(HushrankError):
    """A published release is not as it was published."""

    spent = NOTHING


class ServerRefused(HushrankError):  # noqa: N818 - the settings are at fault
    """Prefect's settings name a server that cannot be used: wrong key, version or address."""

    exit_code = 2


class BackupError(HushrankError):
    """A backup cannot be made or put back; the text says whether anything was written."""

    exit_code = 2
    spent = NOTHING


class UninformativeWarning(UserWarning):
    """Python warns so of a release that teaches nothing: noise and chance explain all of it."""


LEAST_ADDRESS_SPACE = 768 << 20  # bytes, of which the libraries take most

_NO_MEMORY = re.compile(r"cannot allocate memory|failed to map segment|can't start new thread")
_TOO_FEW_FILES = "{} has too few file descriptors: raise the limit (ulimit -n 1024) and try again."
_TOO_LITTLE_MEMORY = (
    "There is not enough memory for this process: free some, or raise its limit (ulimit -v)."
)


def check_address_space() -> None:
    """Refuse a limit under which the libraries cannot be loaded: some end the process at that.

    Raises:
        ConfigError: the process may take less than `LEAST_ADDRESS_SPACE`.
    """
    limit = system.address_space()
    if limit is not None and limit < LEAST_ADDRESS_SPACE:
        raise ConfigError(
            f"This process may take {limit >> 20} MiB of memory (ulimit -v), and a run needs at"
            f" least {LEAST_ADDRESS_SPACE >> 20} MiB. Raise the limit. Nothing was read or spent."
        )


def problem_of_machine(error: BaseException) -> str | None:
    """A sentence on what the machine refuses to give, without the error's own text.

    Returns:
        None: the error is not the machine's but the program's.
    """
    if is_of_memory(error):
        return _TOO_LITTLE_MEMORY
    if isinstance(error, RecursionError):
        return "Something in the configuration or the input is nested too deeply to be read."
    if isinstance(error, OSError):
        if error.errno in (errno.EMFILE, errno.ENFILE):
            who = "This process" if error.errno == errno.EMFILE else "This machine"
            return _TOO_FEW_FILES.format(who)
        return f"{error.filename or 'hushrank'}: {error.strerror}."
    return None


def is_of_memory(error: BaseException) -> bool:
    """Whether the machine gave too little memory; libraries wrap that in all kinds of errors."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or bool(_NO_MEMORY.search(str(error).lower()))
