"""Each call of the spool to the system fails in turn, alone and together with the next two.

What was acknowledged must then be in one part of its night, what was refused and sent again too,
and what was refused and given up in none; and the spool must write to no file but its own.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import socket
from collections import Counter
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hushrank.flows.collecting.protocol import Recent
from hushrank.flows.collecting.spool import Spool
from tests.flows.collecting.test_spool import DAY, found, group

OF_A_PATH = ("open", "rename", "replace", "link", "unlink", "mkdir", "listdir", "utime")
OF_A_DESCRIPTOR = ("close", "write", "fdatasync", "fsync", "ftruncate", "lseek")
FLUSHES = ("fdatasync", "fsync")  # not done at all, for speed
TOGETHER = ([0], [0, 1], [0, 2], [0, 1, 2])  # which of three calls in a row fail


class Faults:
    """The calls to the system that concern one folder; some of them fail.

    Attributes:
        calls: names of the calls so far.
        opened: descriptors that are open.
        peers: connections of senders: one is made whenever a close fails, and gets its number.
    """

    def __init__(self, folder, monkeypatch, failing=(), *, done=False):
        """
        Args:
            folder: where.
            monkeypatch: undoes all of it.
            failing: numbers of the calls that fail.
            done: whether a call that fails is done nevertheless, as NFS may have it.
        """
        self.folder, self.failing, self.done = os.fspath(folder), set(failing), done
        self.calls, self.opened, self.peers = [], set(), []
        for name in (*OF_A_PATH, *OF_A_DESCRIPTOR):
            monkeypatch.setattr(os, name, self._struck(name, getattr(os, name)))

    def _struck(self, name, real):
        def call(*arguments, **settings):
            first = arguments[0]
            ours = first in self.opened if name in OF_A_DESCRIPTOR else self._is_below(first)
            if not ours:
                return real(*arguments, **settings)
            fails = len(self.calls) in self.failing
            self.calls.append(name)
            result = None
            if not fails or self.done or name == "close":  # the system closes it in any case
                result = None if name in FLUSHES else real(*arguments, **settings)
            if name == "open" and result is not None:
                self.opened.add(result)
                if fails:
                    real_close(result)
                    self.opened.discard(result)
            if name == "close":
                self.opened.discard(first)
                if fails:
                    self.peers.append(socket.socketpair())
            if fails:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return result

        real_close = os.close
        return call

    def _is_below(self, path):
        return isinstance(path, str | Path) and os.fspath(path).startswith(self.folder)

    def check_peers(self):
        """Nobody's connection was written to or closed."""
        for own, other in self.peers:
            own.send(b"alive")
            assert other.recv(100) == b"alive"
            own.close()
            other.close()


class Senders:
    """Sends numbers, each in a group; remembers what became of them."""

    def __init__(self, terms, time):
        self.terms, self.time = terms, time
        self.acknowledged = {}  # the night of each number
        self.given_up = set()

    def send(self, spool, number, *, again):
        """Send a number; if it is refused, do so again after each pass, or give it up."""
        for _ in range(5):
            try:
                spool.append(group(self.terms, number))
                self.acknowledged[number] = self.terms.night.isoformat()
                return
            except OSError:
                pass_of(spool)
                if not again:
                    self.given_up.add(number)
                    return
        raise AssertionError("the spool takes no answers any more")


def pass_of(spool):
    """A pass of the tending task."""
    for step in (spool.tend, spool.write_parts):
        with suppress(OSError):
            step()


def started(folder, terms):
    """A spool, once it can be taken: whoever runs the collector starts it again."""
    for _ in range(4):
        with suppress(OSError):
            return Spool(folder, terms)
    raise AssertionError("the spool cannot be taken any more")


def a_survey(folder, terms, time, senders):
    """Two nights, and a collector that is started again in the second."""
    with closing(started(folder, terms)) as spool:
        senders.send(spool, 1, again=True)
        senders.send(spool, 2, again=False)
        senders.send(spool, 3, again=True)
        pass_of(spool)
        time.now += timedelta(hours=12, minutes=5)
        senders.send(spool, 4, again=True)
        pass_of(spool)
        pass_of(spool)
        assert not spool.broken
    with closing(started(folder, terms)) as spool:
        senders.send(spool, 5, again=False)
        time.now += DAY
        pass_of(spool)
        pass_of(spool)
        senders.send(spool, 6, again=True)
        assert not spool.broken
    with closing(started(folder, terms)) as spool:
        for _ in range(4):
            with suppress(OSError):
                spool.seal()
            pass_of(spool)


def struck_survey(folder, terms, time, failing, done):
    """That survey in a folder of its own, with faults; its senders, and the faults."""
    folder.mkdir()
    start, own = time.now, replace(terms, place=lambda night, id_: place_of(folder, night, id_))
    senders = Senders(own, time)
    with pytest.MonkeyPatch.context() as patched:
        faults = Faults(folder, patched, failing, done=done)
        a_survey(folder / "spool", own, time, senders)
    time.now = start
    return senders, faults


def place_of(folder, night, id_):
    return folder / "answers" / night.isoformat() / f"part-{id_}.parquet"


def still_open(folder):
    """Files of a folder that this process has open."""
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    return [link for link in links if os.path.realpath(link).startswith(os.fspath(folder))]


def numbers(folder):
    """The numbers in the parts of each night; a temporary file would be one, too."""
    found = Counter()
    for path in (folder / "answers").rglob("*"):
        if path.is_file():
            assert re.fullmatch(r"part-[0-9a-f]{16}\.parquet", path.name)
            rows = pq.ParquetFile(path).read(["eps"])["eps"].to_pylist()
            found.update((path.parent.name, number) for number in rows)
    return found


def refuse(*arguments):
    """What a failing disk does, in the place of any call."""
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(
    ("done", "together"),
    [(False, TOGETHER), (True, TOGETHER[::3])],
    ids=["fails", "is done and said to fail"],
)
def test_whatever_fails_each_answer_counts_as_its_sender_was_told(
    tmp_path,
    terms,
    time,
    done,
    together,
):
    struck, descriptors = Counter(), len(os.listdir("/proc/self/fd"))
    for at in itertools.count():
        for turn, offsets in enumerate(together):
            folder = tmp_path / f"{at}-{turn}"
            senders, faults = struck_survey(folder, terms, time, {at + n for n in offsets}, done)
            check(folder, senders, faults, (offsets, faults.calls[at : at + 3]))
            struck.update(faults.calls[at : at + 1])
        if at >= len(faults.calls):
            break
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert {*OF_A_PATH, *OF_A_DESCRIPTOR} - {"replace"} == struck.keys() - {"replace"}


def check(folder, senders, faults, where):
    """Parts hold what senders were told, and the spool held no descriptor but its own."""
    faults.check_peers()
    assert not still_open(folder), where
    wanted = {(night, number): 1 for number, night in senders.acknowledged.items()}
    assert numbers(folder) == wanted, where
    assert {1, 3, 4, 6} <= senders.acknowledged.keys(), where
    assert not senders.given_up & senders.acknowledged.keys(), where
    left = {path.suffix for path in (folder / "spool").iterdir()}
    assert left <= {"", ".tokens"}, where


def test_a_close_that_fails_leaves_the_next_connection_alone(tmp_path, terms, monkeypatch):
    """The system has freed the number by then, and gives it to whoever connects next."""
    spool = Spool(tmp_path / "spool", terms)
    spool.append(group(terms, 1))
    real = os.close

    def close_and_refuse(descriptor):
        real(descriptor)
        refuse()

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", refuse)
        patched.setattr(os, "close", close_and_refuse)
        with pytest.raises(OSError, match="Input/output"):
            spool.append(group(terms, 2))
    own, other = socket.socketpair()
    spool.append(group(terms, 3))
    other.setblocking(False)
    with pytest.raises(BlockingIOError):
        other.recv(41)
    own.send(b"alive")
    assert other.recv(41) == b"alive"
    spool.seal()
    spool.write_parts()
    spool.close()
    assert found(tmp_path) == {"2026-11-20": [1, 3]}


def test_nothing_is_kept_while_a_refused_answer_could_be_counted(
    tmp_path,
    terms,
    said,
    monkeypatch,
):
    """Its sender sends it again, so it would be in two journals."""
    spool = Spool(tmp_path / "spool", terms)
    spool.append(group(terms, 1))

    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", refuse)
        with monkeypatch.context() as still:
            still.setattr(os, "fdatasync", refuse)
            with pytest.raises(OSError, match="Input/output"):
                spool.append(group(terms, 2))
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output"):
                spool.append(group(terms, 2))
            spool.tend()
        assert spool.broken
    spool.tend()
    assert not spool.broken
    spool.append(group(terms, 2))
    spool.seal()
    spool.write_parts()
    assert found(tmp_path) == {"2026-11-20": [1, 2]}
    assert [text.partition(": ")[2][:26] for text in said] == [
        "answers cannot be kept: In",
        "answers can be kept again.",
        "was left by an error or by",
    ]


def test_refused_answers_that_cannot_be_cut_off_are_known_by_their_submission(
    tmp_path,
    terms,
    said,
    monkeypatch,
):
    """The collector ends before the disk lets it; the next one does not keep them again."""
    spool = Spool(tmp_path / "spool", terms)
    spool.append(group(terms, 1))

    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", refuse)
        patched.setattr(os, "fdatasync", refuse)
        with pytest.raises(OSError, match="Input/output"):
            spool.append(group(terms, 2))
        spool.close()
    assert "cannot be cut off a journal" in said[-1]
    with closing(Spool(tmp_path / "spool", terms)) as again:
        assert (2).to_bytes(8, "little") in Recent(again.submissions())


def test_a_journal_that_an_error_left_open_is_sealed_by_the_next_pass(
    tmp_path,
    terms,
    time,
    said,
    monkeypatch,
):
    spool = Spool(tmp_path / "spool", terms)
    spool.append(group(terms, 1))
    time.now += timedelta(hours=12, minutes=1)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", refuse)
        with pytest.raises(OSError, match="Input/output"):
            spool.tend()
        spool.append(group(terms, 2))  # of the next night, whose journal can be written
    spool.tend()
    assert spool.write_parts() == 1
    assert found(tmp_path) == {"2026-11-20": [1]}
    assert len(said) == 1
    assert "was left by an error" in said[0]
    assert "the part of 2026-11-20" in said[0]


def test_half_written_parts_of_dead_processes_are_deleted(tmp_path, terms):
    """Its own, whose journal it has; and old ones of others, but none that may be written now."""
    spool = Spool(tmp_path / "spool", terms)
    spool.append(group(terms, 1))
    spool.seal()
    (sealed,) = spool.folder.glob("*.sealed")
    night = tmp_path / "answers" / "2026-11-20"
    night.mkdir(parents=True)
    own, old, new = (
        night / f".part-{id_}.parquet.{32 * digit}"
        for id_, digit in ((sealed.stem[11:], "a"), (16 * "0", "b"), (16 * "1", "c"))
    )
    foreign = night / f".notes.{32 * 'd'}"
    for path in (own, old, new, foreign):
        path.write_bytes(b"half")
    for path in (old, foreign):
        os.utime(path, (0, 0))
    spool.write_parts()
    assert not own.exists()
    assert not old.exists()
    assert new.exists()
    assert foreign.exists()
