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
OPENS, CLOSES, QUOTE, BACKSLASH = b"[{", b"]}", ord('"'), ord("\\")
BLANKS = b" \t\r\n"
OUTSIDE = BLANKS + OPENS + CLOSES + b'",:+-.0123456789eEtrufalsn'
NOT_A_LIST = "{}: not a JSON file of one list of objects. Write it as JSON Lines, an object a line."
DAMAGED = "{}: not a complete list in JSON (truncated or damaged). Write it again."

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]

# Kinds of bytes, which decide what they do outside of strings.
_OPEN, _CLOSE, _BETWEEN, _LINE_END, _WRONG = 1, 2, 4, 8, 16
_KIND_OF = bytes(
    _OPEN * (byte in OPENS)
    | _CLOSE * (byte in CLOSES)
    | _BETWEEN * (byte == ord(","))
    | _LINE_END * (byte in b"\r\n")
    | _WRONG * (byte not in OUTSIDE)
    for byte in range(256)
)
_ON_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


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
        self._waiting = memoryview(head if self._lines else self._changed(head))

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
            self._waiting = memoryview(block if self._lines else self._changed(block))
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
        kinds = np.frombuffer(block.translate(_KIND_OF), np.uint8)
        quoted = self._quoted_in(block)
        if (kinds[quoted] & _LINE_END).any() or (kinds[~quoted] & _WRONG).any():
            raise InputError(DAMAGED.format(self._path))
        places = np.flatnonzero((kinds & (_OPEN | _CLOSE | _BETWEEN) != 0) & ~quoted)
        found, before = kinds[places], self._depth
        depth = before + np.cumsum((found == _OPEN).astype(np.int64) - (found == _CLOSE))
        begins = places[(found == _OPEN) & (depth == 1)]
        ends = places[(found == _CLOSE) & (depth == 0)]
        text = np.frombuffer(bytearray(block.translate(_ON_ONE_LINE)), np.uint8)
        lists = (text[begins] == OPENS[0]).all() and (text[ends] == CLOSES[0]).all()
        if not lists or len(begins) + self._over + (before > 0) > 1 or (depth < 0).any():
            raise InputError(NOT_A_LIST.format(self._path))
        first = begins[0] if len(begins) else 0 if before > 0 else len(block)
        last = ends[0] if len(ends) else len(block)
        if block[:first].strip(BLANKS) or block[last + 1 :].strip(BLANKS):
            raise InputError(NOT_A_LIST.format(self._path))
        if len(depth):
            self._depth = int(depth[-1])
        self._over |= len(ends) > 0
        text[begins], text[ends] = BLANKS[0], BLANKS[0]
        text[places[(found == _BETWEEN) & (depth == 1)]] = ord("\n")
        return text.tobytes()

    def _quoted_in(self, block: bytes) -> Mask:
        """Whether each byte is in a string, from its first quote on and without its last."""
        text = np.frombuffer(block, np.uint8)
        quotes = text == QUOTE
        escaped = _escaped(text, self._escapes)
        quotes[escaped[escaped < len(text)]] = False
        self._escapes = bool(len(text)) and len(escaped) > 0 and int(escaped[-1]) == len(text)
        turns = np.add.accumulate(quotes.view(np.uint8), dtype=np.uint8)  # odd or even is enough
        quoted: Mask = (turns & 1).view(np.bool_) ^ self._quoted
        if len(text):
            self._quoted = bool(quoted[-1])
        return quoted


def _escaped(text: Bytes, first: bool) -> NDArray[np.int64]:
    """Places of the bytes behind a backslash that is not escaped itself, ascending.

    Args:
        text: a block; the place after its last byte may be among those found.
        first: whether the first byte is behind such a backslash of the block before.
    """
    slashes = np.flatnonzero(text == BACKSLASH)
    if first and len(text):
        slashes = slashes[slashes > 0]
    new = np.ones(len(slashes), np.bool_)
    new[1:] = np.diff(slashes) > 1
    starts = np.flatnonzero(new)
    in_run = np.arange(len(slashes)) - np.repeat(starts, np.diff(np.append(starts, len(slashes))))
    after = slashes[in_run % 2 == 0] + 1
    return np.append(0, after) if first and len(text) else after
