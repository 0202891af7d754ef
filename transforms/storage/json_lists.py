"""JSON files that hold one list of objects, read as JSON Lines: an object a line.

Commas between objects become line ends, and line ends elsewhere become spaces; nothing else of the
text changes. Where an object ends follows from its own brackets and quotes as long as the file is
JSON. Text that cannot be JSON outside its strings, or a line end inside one, shows that a quote is
missing somewhere, which would let one object decide where others end: such a file is refused.

A file that begins with an object holds an object a line already, whatever its name says.
"""

from __future__ import annotations

import io
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hushrank.transforms.common.schema import InputError

BLOCK = 1 << 20
MARK = b"\xef\xbb\xbf"  # byte order mark
OPENS, CLOSES, QUOTE, BACKSLASH, COMMA = b"[{", b"]}", ord('"'), ord("\\"), ord(",")
BLANKS = b" \t\r\n"
OUTSIDE = BLANKS + OPENS + CLOSES + b'",:+-.0123456789eEtrufalsn'
NOT_A_LIST = "{}: not a JSON file of one list of objects. Write it as JSON Lines, an object a line."
DAMAGED = "{}: not a complete list in JSON (truncated or damaged). Write it again."

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]


def _table(characters: bytes) -> Mask:
    found = np.zeros(256, np.bool_)
    found[list(characters)] = True
    return found


_OUTSIDE, _BLANK, _OPENS, _CLOSES = (_table(each) for each in (OUTSIDE, BLANKS, OPENS, CLOSES))
_LINE_ENDS = _table(b"\r\n")


def lines_of(path: str, stream: IO[bytes]) -> io.BufferedReader:
    """The objects of the list in a stream, a line each; it can be read from the start again.

    Args:
        path: name of the file, for messages.
        stream: the file, unpacked.

    Raises:
        InputError: here or on reading, if the text is no list, or not a whole one.
    """
    return io.BufferedReader(_Lines(path, stream))


class _Lines(io.RawIOBase):
    """See `lines_of`."""

    def __init__(self, path: str, stream: IO[bytes]) -> None:
        self._path, self._stream = path, stream
        self._restart()

    def _restart(self) -> None:
        self._stream.seek(0)
        self._place = self._depth = 0
        self._quoted = self._escapes = self._over = False
        head = self._stream.read(BLOCK).removeprefix(MARK)
        self._lines = head.lstrip(BLANKS)[:1] == b"{"
        self._waiting = head if self._lines else self._changed(head)

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes: from the start."""
        return True

    def readinto(self, room: Any) -> int:
        """Fill the room with the next bytes; return how many, 0 at the end."""
        while not self._waiting:
            block = self._stream.read(BLOCK)
            if not block:
                if not (self._lines or self._over):
                    raise InputError(DAMAGED.format(self._path))
                return 0
            self._waiting = block if self._lines else self._changed(block)
        view = memoryview(room).cast("B")
        size = min(len(view), len(self._waiting))
        view[:size], self._waiting = self._waiting[:size], self._waiting[size:]
        self._place += size
        return size

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        """Move forward, or back to the start and then forward."""
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("the end of the lines is not known")
        wanted = place + (self._place if whence == io.SEEK_CUR else 0)
        if wanted < self._place:
            self._restart()
        while self._place < wanted and self.read(min(wanted - self._place, BLOCK)):
            pass
        return self._place

    def tell(self) -> int:
        """Bytes read so far."""
        return self._place

    def _changed(self, block: bytes) -> bytes:
        """The next block with its objects on lines of their own."""
        text = np.frombuffer(block, np.uint8).copy()
        quoted = self._quotes(text)
        if (_LINE_ENDS[text] & quoted).any() or not _OUTSIDE[text[~quoted]].all():
            raise InputError(DAMAGED.format(self._path))
        up, down = _OPENS[text] & ~quoted, _CLOSES[text] & ~quoted
        depth = self._depth + np.cumsum(up.astype(np.int64) - down)
        begins, ends = up & (depth == 1), down & (depth == 0)
        lists = (text[begins] == OPENS[0]).all() and (text[ends] == CLOSES[0]).all()
        beside = (depth <= 0) & ~ends & (quoted | ~_BLANK[text])
        if not lists or beside.any() or begins.sum() + self._over + (self._depth > 0) > 1:
            raise InputError(NOT_A_LIST.format(self._path))
        if len(depth):
            self._depth = int(depth[-1])
        self._over |= bool(ends.any())
        text[_LINE_ENDS[text] | begins | ends] = BLANKS[0]
        text[(text == COMMA) & (depth == 1) & ~quoted] = ord("\n")
        return text.tobytes()

    def _quotes(self, text: Bytes) -> Mask:
        """Whether each byte is in a string, from its first quote on and without its last."""
        places = np.flatnonzero(text == QUOTE)
        at = np.arange(len(text))
        last = np.maximum.accumulate(np.where(text == BACKSLASH, -1 - self._escapes, at))
        before = np.where(places > 0, last[places - 1], -1 - self._escapes) if len(places) else last
        real = places[(places - 1 - before[: len(places)]) % 2 == 0]
        turns = np.zeros(len(text), np.int64)
        turns[real] = 1
        quoted = (np.cumsum(turns) + self._quoted) % 2 == 1
        if len(text):
            self._quoted = bool(quoted[-1])
            self._escapes = bool((at[-1] - last[-1]) % 2)
        return np.asarray(quoted)
