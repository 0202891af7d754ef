"""The keyed hash is CBC-MAC with AES-256, whatever the block structure of the column."""

from __future__ import annotations

import statistics
import threading
import time
from unittest import mock

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import example, given
from hypothesis import strategies as st

from hushrank.privacy import keyed_hash
from hushrank.privacy.keyed_hash import KeyedHash, SecretKey
from hushrank.privacy.randomness import BitSource, seeded_bits, system_bits

KEY = bytes(range(32))


def cbc_mac(*words: int, tail: bytes = b"") -> bytes:
    message = b"".join(word.to_bytes(8, "little") for word in words) + tail
    message += bytes(-len(message) % 16)
    return Cipher(algorithms.AES(KEY), modes.CBC(bytes(16))).encryptor().update(message)[-16:]


def hash_strings(values: list[bytes]) -> list[bytes]:
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int64)
    text = np.frombuffer(b"".join(values), np.uint8)
    return [row.tobytes() for row in KeyedHash(KEY).of_strings(offsets, text)]


@given(st.lists(st.binary(max_size=50), max_size=8))
def test_strings_are_hashed_as_their_length_then_their_bytes(values):
    assert hash_strings(values) == [cbc_mac(2, len(value), tail=value) for value in values]


def test_long_strings_are_hashed_as_short_ones():
    values = [bytes([n]) * length for n in range(12) for length in (3, 16, 1000 + n, 4096)]
    assert hash_strings(values) == [cbc_mac(2, len(value), tail=value) for value in values]


@given(
    st.one_of(
        st.lists(st.integers(0, 40), min_size=1, max_size=50),
        st.builds(lambda length, m: [length] * m, st.integers(0, 50), st.integers(1, 50)),
    ),
    st.integers(0, 20),
    st.integers(0, 20),
)
@example([16] * 30, 3, 0)
@example([0, 200, 3, 3, 3, 0, 0, 150, 1], 0, 0)  # some are longer than a chunk may be
@example([16] * 30, 0, 0)  # the blocks of these strings are `text` itself, block by block
def test_strings_are_hashed_alike_in_chunks_of_one_length_or_of_many(lengths, before, after):
    content = bytes(range(1, 256)) * 10
    text = np.frombuffer(content[: before + sum(lengths) + after], np.uint8)  # read-only
    offsets = before + np.cumsum([0, *lengths], dtype=np.int64)
    with mock.patch.multiple(keyed_hash, CHUNK=12, CHUNK_BYTES=100):
        hashes = KeyedHash(KEY).of_strings(offsets, text)
    for found, start, end in zip(hashes, offsets, offsets[1:], strict=False):
        assert found.tobytes() == cbc_mac(2, int(end - start), tail=text[start:end].tobytes())


def test_the_work_follows_the_bytes_and_not_the_longest_string(monkeypatch):
    passes: list[int] = []
    encrypt = KeyedHash._encrypt

    def counted(self, blocks):
        passes.append(len(blocks))
        return encrypt(self, blocks)

    monkeypatch.setattr(KeyedHash, "_encrypt", counted)
    values = [b"ann" * 10] * 1000 + [b"x" * 3_000_000]
    (*_, found) = hash_strings(values)
    assert found == cbc_mac(2, len(values[-1]), tail=values[-1])
    assert len(passes) == 3  # lengths, and the two blocks of the others


def test_a_string_and_the_same_with_a_zero_byte_differ():
    one, other = hash_strings([b"ann", b"ann\0"])
    assert one != other


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8))
def test_integers_are_hashed_as_one_block(values):
    hashes = KeyedHash(KEY).of_integers(np.array(values, np.int64))
    assert [row.tobytes() for row in hashes] == [cbc_mac(1, value % 2**64) for value in values]


def test_tuples_are_hashed_with_their_label_and_length():
    block = np.array([[5, 6], [7, 8]], np.uint64)
    other = block + np.uint64(1)
    hashes = KeyedHash(KEY).of_tuples(9, block, other)
    assert [row.tobytes() for row in hashes] == [
        cbc_mac(3 + (2 << 8), 9, 5, 6, 6, 7),
        cbc_mac(3 + (2 << 8), 9, 7, 8, 8, 9),
    ]


def test_another_key_is_another_function():
    values = np.arange(100)
    assert not (
        KeyedHash(KEY).of_integers(values) == KeyedHash(bytes(32)).of_integers(values)
    ).any()


def test_a_key_of_another_length_is_refused():
    with pytest.raises(ValueError, match="the key must have 32 bytes, got 16"):
        KeyedHash(bytes(16))


def test_a_key_is_drawn_from_its_bits_and_tells_their_source_alone():
    key, seeded = SecretKey.draw(system_bits()), SecretKey.draw(seeded_bits(1))
    assert key.value != SecretKey.draw(system_bits()).value
    assert len(key.value) == 32
    assert (key.source, seeded.source) == (BitSource.SYSTEM, BitSource.SEEDED)
    assert repr(key) == "SecretKey(source=<BitSource.SYSTEM: 'system'>)"


def test_other_threads_go_on_while_rows_are_hashed():
    """A library that holds the interpreter's lock meanwhile would let workers wait for each other.

    With such a library (cryptography 49) another thread has 1 turn at most while a block of every
    row is encrypted, with 50 a thousand. A loaded machine gives it few turns, so many rows are
    hashed, several times, and the median counts.
    """
    blocks = np.zeros((1 << 23, 2), np.uint64)
    keyed, hashing, ended, turns = KeyedHash(KEY), [False], [False], [0]

    def other() -> None:
        while not ended[0]:
            turns[0] += hashing[0]
            time.sleep(0)

    thread = threading.Thread(target=other)
    thread.start()
    found = []
    for _ in range(9):
        turns[0], hashing[0] = 0, True
        keyed._encrypt(blocks)
        hashing[0] = False
        found.append(turns[0])
    ended[0] = True
    thread.join()
    assert statistics.median(found) > 10, found
