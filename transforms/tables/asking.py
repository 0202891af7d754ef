"""Requests to a service: in bounded time, many at once, with errors in our own words.

Texts of those libraries may hold a URL with a password, a signed request or a row. So no message
here quotes them: it names the kind of error, and what the user can do.
"""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from hushrank.transforms.common.schema import InputError

PATIENCE = 60.0  # seconds for one question to a catalog or a store, its repeats included
AT_ONCE = 16  # questions that wait for their answers at the same time

Place = TypeVar("Place")
Answer = TypeVar("Answer")


class ServiceError(InputError):
    """Error of a service or a library, in a sentence."""


def ask(question: Callable[[], Answer], where: str, advice: str) -> Answer:
    """Return the answer to `question`, asked in a thread, so that a silent service cannot block us.

    Args:
        question: function to call.
        where: the table or object, for messages.
        advice: place where the library finds its address and its credentials.

    Raises:
        InputError: no answer within `PATIENCE`, or an error; none of its text is shown.
    """
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            answers.append(question())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True, name="ask")
    thread.start()
    thread.join(PATIENCE)
    if thread.is_alive():
        raise ServiceError(
            f"{where}: no answer within {PATIENCE:.0f} seconds. {advice} Nothing was spent."
        )
    if errors:
        with explained(where, advice):
            raise errors[0]
    return answers[0]


def in_order(
    ask: Callable[[Place], Answer], places: Sequence[Place], *, remote: bool
) -> Iterator[Answer]:
    """Yield the answer of each place, in order; stop at the first place whose question raises.

    Args:
        ask: the question; where places are remote it is asked in threads.
        places: places to ask.
        remote: whether an answer takes so long that it pays to ask others meanwhile.
    """
    if not remote:
        yield from map(ask, places)
        return
    pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ask")
    try:
        yield from pool.map(ask, places)
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def explained(where: str, advice: str) -> Iterator[None]:
    """Raise a library's errors as `InputError`, without their text.

    Args:
        where: the table or object.
        advice: place where the library finds its address and its credentials.
    """
    try:
        yield
    except (InputError, GeneratorExit, KeyboardInterrupt):
        raise
    except Exception as error:
        kind = type(error).__name__
        raise ServiceError(
            f"{where}: cannot be read ({kind}). {advice} Nothing was spent."
        ) from None


class Answering(io.RawIOBase):
    """File of a library whose errors are told apart from those of a damaged file."""

    def __init__(self, file: Any, where: str, advice: str) -> None:
        super().__init__()
        self._file, self._where, self._advice = file, where, advice

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move, as files do."""
        with explained(self._where, self._advice):
            self._file.seek(offset, whence)
            return int(self._file.tell())

    def tell(self) -> int:
        """Return the position."""
        return int(self._file.tell())

    def readinto(self, buffer: Any) -> int:
        """Read as much as `buffer` holds; less only at the end of the file."""
        with explained(self._where, self._advice):
            content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Close the library's file too."""
        if not self.closed:
            with contextlib.suppress(OSError):
                self._file.close()
        super().close()
