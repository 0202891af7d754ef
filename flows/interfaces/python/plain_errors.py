"""What goes wrong, in one sentence and without the traceback of hushrank's own code."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from hushrank.flows.errors import HushrankError, notes_of, problem_of_machine, refusal_of
from hushrank.flows.interfaces.python.arguments import check_arguments

P = ParamSpec("P")
R = TypeVar("R")

AFTER_RELEASING = (
    "What was reserved but not drawn is given back; if noise was drawn already, the same call"
    " publishes that release without spending again."
)
NOTHING_SPENT = "Nothing was spent."


def plainly(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a public function, and make its errors hushrank's own.

    `flows.interfaces.python.arguments` checks the arguments before the function begins. Errors of
    the machine, such as a full disk, become a HushrankError, and traces of hushrank's own code
    are left out. A fault in the program keeps its traceback.
    """
    return _plain(function, NOTHING_SPENT)


def releasing(function: Callable[P, R]) -> Callable[P, R]:
    """Do what `plainly` does, for a function that reserves budget: its errors speak of that."""
    return _plain(function, AFTER_RELEASING)


def _plain(function: Callable[P, R], after: str) -> Callable[P, R]:
    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given, named = check_arguments(function, args, kwargs)
            return function(*given, **named)
        except HushrankError as error:
            error.__context__ = None  # a library's own error may quote a row
            raise error.with_traceback(None) from None
        except KeyboardInterrupt as stop:
            if not notes_of(stop):
                stop.add_note(after)
            raise
        except (OSError, MemoryError, RecursionError) as error:
            if refusal := refusal_of(error):
                raise refusal from None
            said = f"{problem_of_machine(error)} {notes_of(error) or after}"
            raise HushrankError(said) from None

    return call
