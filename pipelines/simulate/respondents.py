"""Simulated respondents of a survey's page: each privatises answers of theirs and sends them.

They do what the page does on a device: choose an epsilon, answer pairs by what they truly prefer
(Bradley and Terry), flip each answer with `privatize_answer`, and send one batch over HTTP. Who
prefers what comes from a seed; the flips do not, as on a device.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.privacy.local_source import privatize_answer
from hushrank.privacy.randomness import system_bits

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Population:
    """People who answer.

    Attributes:
        survey: name of the survey.
        items: names of the catalogue.
        scores: true ones, in the order of `items`.
        epsilons: epsilons that people choose from, equally often.
        answers: number of answers of each person, to different pairs.
        seed: seed of everything but the flips.
    """

    survey: str
    items: Sequence[str]
    scores: Floats
    epsilons: Sequence[float]
    answers: int
    seed: int

    def bodies(self, people: int) -> Iterator[bytes]:
        """Yield the body that each of `people` persons sends."""
        rng = np.random.default_rng(self.seed)
        pairs = np.column_stack(np.triu_indices(len(self.items), k=1))
        for _ in range(people):
            asked = pairs[rng.choice(len(pairs), self.answers, replace=False)]
            probabilities = expit(self.scores[asked[:, 0]] - self.scores[asked[:, 1]])
            truth = (rng.random(self.answers) < probabilities).astype(int)
            epsilon = float(rng.choice(self.epsilons))
            yield self._body(asked, truth, epsilon)

    def _body(self, asked: NDArray[np.int64], truth: NDArray[np.int64], epsilon: float) -> bytes:
        answers = [
            {
                "left": self.items[left],
                "right": self.items[right],
                "outcome": 2 * privatize_answer(int(won), epsilon) - 1,
                "epsilon": epsilon,
            }
            for (left, right), won in zip(asked, truth, strict=True)
        ]
        return json.dumps(
            {
                "schema": 1,
                "survey": self.survey,
                "kind": "comparisons",
                "submission": new_submission(),
                "answers": answers,
            }
        ).encode()


def new_submission() -> str:
    """128 random bits that name one sending."""
    return base64.urlsafe_b64encode(system_bits().take(16)).decode()[:22]


@dataclass(frozen=True, slots=True)
class Sent:
    """Status of a response, 0 for none, and seconds until it came."""

    status: int
    seconds: float


async def send(
    bodies: Sequence[bytes], port: int, path: str, *, connections: int, rate: float | None = None
) -> list[Sent]:
    """Send bodies to a collector on this machine, and say what became of each, in their order.

    Args:
        bodies: bodies of requests.
        port: port where the collector listens.
        path: path of the collector's address.
        connections: number of open connections; each waits for a response before it goes on.
        rate: requests a second, evenly spaced; the clock of a request starts when its turn comes,
            so a wait for a free connection counts. None: as fast as connections allow.
    """
    started, outcomes = time.perf_counter(), [Sent(0, 0.0)] * len(bodies)
    turns = iter(range(len(bodies)))

    async def one_connection() -> None:
        connection = _Connection(port, path)
        for turn in turns:
            due = started + turn / rate if rate else time.perf_counter()
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            status = await connection.post(bodies[turn])
            outcomes[turn] = Sent(status, time.perf_counter() - due)
        connection.close()

    await asyncio.gather(*(one_connection() for _ in range(connections)))
    return outcomes


class _Connection:
    """A connection that is opened again when it was closed."""

    def __init__(self, port: int, path: str) -> None:
        self._port, self._path = port, path
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes) -> int:
        """The status of the response; 0: the server went away."""
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            lines = (
                f"POST {self._path} HTTP/1.1",
                "Host: localhost",
                "Content-Type: application/json",
                f"Content-Length: {len(body)}",
            )
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return 0
        if b"connection: close" in head:
            self.close()
        return int(head.split()[1])

    def close(self) -> None:
        """Close it."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
