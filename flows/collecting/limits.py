"""What bounds the collector: a rate of answers, and a memory of submissions that never grows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

REMEMBERED = 1 << 18  # submissions: 25 MB


class Bucket:
    """A token bucket: so many answers a second, and as many at once as come in two seconds."""

    BURST_SECONDS = 2.0

    def __init__(self, rate: float, now: float) -> None:
        """Full at the moment `now`, in seconds of any clock that never goes back."""
        self._rate, self._most = rate, rate * self.BURST_SECONDS
        self._left, self._last = self._most, now

    def take(self, answers: int, now: float) -> float:
        """Take so many answers out; 0, or the seconds until there are enough."""
        self._left = min(self._most, self._left + (now - self._last) * self._rate)
        self._last = now
        missing = min(answers, self._most) - self._left
        if missing > 0:
            return missing / self._rate
        self._left -= answers
        return 0.0


class Recent:
    """The last `REMEMBERED` marks."""

    def __init__(self, marks: Iterable[bytes]) -> None:
        """Of the submissions that a spool holds already."""
        self._order = deque[bytes]()
        self._marks = set[bytes]()
        for mark in marks:
            self.add(mark)

    def __contains__(self, mark: bytes) -> bool:
        return mark in self._marks

    def add(self, mark: bytes) -> None:
        """Remember one more, and forget the oldest where there are too many."""
        if mark in self._marks:
            return
        self._order.append(mark)
        self._marks.add(mark)
        if len(self._order) > REMEMBERED:
            self._marks.discard(self._order.popleft())
