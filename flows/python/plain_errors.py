"""What goes wrong, in one sentence and without the traceback of hushrank's own code."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from hushrank.flows.errors import HushrankError, notes_of, problem_of_machine, refusal_of

P = ParamSpec("P")
R = TypeVar("R")

AFTER_INTERRUPT = (
    "What was reserved but not drawn is given back; if noise was drawn already, the same call"
    " publishes that release without spending again."
)


def plainly(function: Callable[P, R]) -> Callable[P, R]:
    """A function that raises hushrank's errors as if it had found them itself.

    Errors of the machine, such as a full disk, become a HushrankError. A fault in the program keeps
    its traceback.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except HushrankError as error:
            error.__context__ = None  # a library's own error may quote a row
            raise error.with_traceback(None) from None
        except KeyboardInterrupt as stop:
            if not notes_of(stop):
                stop.add_note(AFTER_INTERRUPT)
            raise
        except (OSError, MemoryError, RecursionError) as error:
            if refusal := refusal_of(error):
                raise refusal from None
            after = notes_of(error) or AFTER_INTERRUPT
            raise HushrankError(f"{problem_of_machine(error)} {after}") from None

    return call
