"""Ask a library that talks to a service: in bounded time, with errors in our own words.

Texts of those libraries may hold a URL with a password, a signed request or a row. So no message
here quotes them: it names the kind of error, and what the user can do.
"""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from hushrank.transforms.common.schema import InputError

PATIENCE = 60.0  # seconds for one question to a catalog or a store, its repeats included

Answer = TypeVar("Answer")


class ServiceError(InputError):
    """A service or a library that failed, in a sentence."""


def need(extra: str, package: str, where: str) -> None:
    """Refuse `where` if the package that reads it is not installed.

    Raises:
        InputError: the package is missing; the text names the extra of hushrank that has it.
    """
    try:
        version(package)
    except PackageNotFoundError:
        raise InputError(
            f"{where}: needs {package}. Run: pip install 'hushrank[{extra}]'. Nothing was read or"
            " spent."
        ) from None


def ask(question: Callable[[], Answer], where: str, advice: str) -> Answer:
    """The answer to `question`, asked in a thread, so that a silent service cannot hold us.

    Args:
        question: what to call.
        where: the table or object, for messages.
        advice: where the library finds its address and its credentials.

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


@contextlib.contextmanager
def explained(where: str, advice: str) -> Iterator[None]:
    """Raise what a library raises as `InputError`, without its text.

    Args:
        where: the table or object.
        advice: where the library finds its address and its credentials.
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
    """A file of a library, whose errors are told apart from those of a damaged file."""

    def __init__(self, file: Any, where: str, advice: str) -> None:
        super().__init__()
        self._file, self._where, self._advice = file, where, advice

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move, as files do."""
        with explained(self._where, self._advice):
            self._file.seek(offset, whence)
            return int(self._file.tell())

    def tell(self) -> int:
        """The position."""
        return int(self._file.tell())

    def readinto(self, buffer: Any) -> int:
        """Read as much as `buffer` holds; less only at the end of the file."""
        with explained(self._where, self._advice):
            content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Close the file of the library too."""
        if not self.closed:
            with contextlib.suppress(OSError):
                self._file.close()
        super().close()
