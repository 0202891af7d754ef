"""A keyed hash of whole columns: pseudonyms for people, and a secret but repeatable row order.

The hash is AES-256 in CBC-MAC. No message is a prefix of another one, because each starts with its
kind and length. So it is a pseudo-random function under a secret key ([BKR00], [PR00]). One library
call encrypts a block of every row at once, and lets other threads go on meanwhile. The key is drawn
for one run; only a count that may go on after an interruption keeps it until then, in the
confidential folder. So nobody can link pseudonyms between releases or predict which rows are kept,
but a run that is retried or split differently makes the same decisions. Among m different
values, two share their 128-bit hash with probability below m^2 / 2^129.

References:
    [BKR00] Bellare, Kilian, Rogaway. The security of the cipher block chaining message
        authentication code. 2000.
    [PR00] Petrank, Rackoff. CBC MAC for real-time data sources. 2000.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from hushrank.privacy.randomness import BitSource, RandomBits

KEY_BYTES = 32
BLOCK_BYTES = 16
_INTEGER, _STRING, _TUPLE = 1, 2, 3  # first word of a message: its kind
_FEW = 8  # strings up to which hashing one by one is faster than block by block
# Strings at a time: their states stay in a processor's cache, and steps are long enough for threads
# to take turns; of a quarter of these, two threads take longer than one.
CHUNK = 1 << 15
CHUNK_BYTES = 1 << 23  # bytes of a chunk of strings, but a longer string is a chunk of its own

_PREFIX_MASKS = (
    np.where(  # mask k selects the first k bytes of a block
        np.arange(BLOCK_BYTES) < np.arange(BLOCK_BYTES + 1)[:, None], 255, 0
    )
    .astype(np.uint8)
    .view(np.uint64)
)

Hashes = NDArray[np.uint64]  # shape (m, 2): 128 bits a row
# 128 bits a row, in one array or word by word; without the second word it is 0.
Block = Hashes | tuple[NDArray[np.uint64], ...]


@dataclass(frozen=True, slots=True)
class SecretKey:
    """The key of one reduction; it stays on the protected side.

    Attributes:
        value: `KEY_BYTES` bytes.
        source: the source of these bytes; a release whose key can be predicted is not safe.
    """

    value: bytes = field(repr=False)
    source: BitSource

    @classmethod
    def draw(cls, bits: RandomBits) -> SecretKey:
        """A new key, made from the next bits."""
        return cls(bits.take(KEY_BYTES), bits.source)


class KeyedHash:
    """Pseudo-random function from integers, strings or tuples of hashes to 128 bits a row."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key must have {KEY_BYTES} bytes, got {len(key)}")
        self._key = key

    def of_integers(self, values: NDArray[np.int64]) -> Hashes:
        """Hash each integer; shape (m,) -> (m, 2)."""
        blocks = np.empty((len(values), 2), np.uint64)
        blocks[:, 0] = _INTEGER
        blocks[:, 1] = values.view(np.uint64)
        return self._encrypt(blocks)

    def of_strings(self, offsets: NDArray[np.int64], text: NDArray[np.uint8]) -> Hashes:
        """Hash each byte string text[offsets[k]:offsets[k + 1]]; m + 1 offsets -> (m, 2).

        The work is proportional to m plus the number of bytes, even if lengths differ.
        """
        hashes = np.empty((len(offsets) - 1, 2), np.uint64)
        first = 0
        while first < len(hashes):
            fitting = np.searchsorted(offsets, offsets[first] + CHUNK_BYTES, side="right") - 1
            end = min(max(int(fitting), first + 1), first + CHUNK, len(hashes))
            mine = offsets[first : end + 1]
            chunk = text[mine[0] : mine[-1] + BLOCK_BYTES]
            hashes[first:end] = self._of_chunk(mine - mine[0], chunk)
            first = end
        return hashes

    def _of_chunk(self, offsets: NDArray[np.int64], text: NDArray[np.uint8]) -> Hashes:
        """Hash like `of_strings`, at least one string; `text` may go on after the last string."""
        lengths, starts = np.diff(offsets), offsets[:-1]
        longest = int(lengths.max())
        if len(lengths) > _FEW and lengths.min() == longest > 0:
            return self._of_even(text[: offsets[-1]].reshape(-1, longest))
        # The longest first: then strings that go on are always the first ones.
        order = np.argsort((longest - lengths).astype(np.min_scalar_type(longest)), kind="stable")
        lengths, starts = lengths[order], starts[order]
        state = np.empty((len(lengths), 2), np.uint64)
        state[:, 0], state[:, 1] = _STRING, lengths
        state = self._encrypt(state)
        if len(text) < offsets[-1] + BLOCK_BYTES:  # a block is read whole, also the last one
            text = np.concatenate([text, np.zeros(BLOCK_BYTES, np.uint8)])
        windows = np.ndarray((len(text) - BLOCK_BYTES + 1,), f"V{BLOCK_BYTES}", text, strides=(1,))
        done, more = 0, int(np.count_nonzero(lengths))
        while more > _FEW:
            block = windows[starts[:more] + done].view(np.uint64).reshape(-1, 2)
            whole = int(np.count_nonzero(lengths >= done + BLOCK_BYTES))
            block[whole:] &= _PREFIX_MASKS[lengths[whole:more] - done]
            block ^= state[:more]
            state[:more] = self._encrypt(block)
            done += BLOCK_BYTES
            more = int(np.count_nonzero(lengths > done))
        for row in range(more):  # one by one: a long string is then one step
            rest = text[starts[row] + done : starts[row] + lengths[row]].tobytes()
            state[row] = self._chained(state[row].tobytes(), rest)
        hashes = np.empty_like(state)
        hashes[order] = state
        return hashes

    def _of_even(self, texts: NDArray[np.uint8]) -> Hashes:
        """Strings of one length, shape (m, length): in a quarter of the steps of any others."""
        m, length = texts.shape
        blocks = np.zeros((m, -(-length // BLOCK_BYTES), 2), np.uint64)
        kind = f"V{length}"  # copied as a whole, in a third of the time of byte by byte
        padded = np.ndarray((m,), kind, blocks, strides=blocks.strides[:1])
        padded[:] = np.ndarray((m,), kind, texts)
        state = self._encrypt(np.array([[_STRING, length]], np.uint64))
        mixed = np.empty((m, 2), np.uint64)
        for number in range(blocks.shape[1]):
            for word in (0, 1):  # both in one step take five times as long
                np.bitwise_xor(blocks[:, number, word], state[:, word], out=mixed[:, word])
            state = self._encrypt(mixed)
        return state

    def of_tuples(self, label: int, *blocks: Block) -> Hashes:
        """Hash tuples of m blocks each -> (m, 2); each `label` gives another function."""
        first = np.array([[_TUPLE + (len(blocks) << 8), label]], np.uint64)
        state = np.empty((len(_words(blocks[0])[0]), 2), np.uint64)
        # Word by word, because adding a row of two words to each row takes five times as long.
        state[:, 0], state[:, 1] = self._encrypt(first)[0]
        for block in blocks:
            for number, word in enumerate(_words(block)):
                state[:, number] ^= word
            state = self._encrypt(state)
        return state

    def _chained(self, state: bytes, rest: bytes) -> NDArray[np.uint64]:
        """The state of one row after the blocks of `rest`."""
        cipher = Cipher(algorithms.AES(self._key), modes.CBC(state)).encryptor()
        encrypted = cipher.update(rest + bytes(-len(rest) % BLOCK_BYTES))
        return np.frombuffer(encrypted[-BLOCK_BYTES:], np.uint64)

    def _encrypt(self, blocks: Hashes) -> Hashes:
        # ECB of single blocks is the raw block cipher, of which CBC-MAC is made.
        cipher = Cipher(algorithms.AES(self._key), modes.ECB()).encryptor()
        encrypted = np.empty((len(blocks) + 1, 2), np.uint64)  # the library needs a spare block
        into = encrypted.view(np.uint8).reshape(-1)[:-1].data
        cipher.update_into(np.ascontiguousarray(blocks).view(np.uint8).reshape(-1).data, into)
        return encrypted[:-1]


def _words(block: Block) -> Sequence[NDArray[np.uint64]]:
    return block if isinstance(block, tuple) else tuple(block.T)
