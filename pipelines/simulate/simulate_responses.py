"""Write simulated test answers of any size, with the true difficulties and a job file for them.

Simulated respondents of a survey's page: each privatises answers of theirs and sends them.  They
do what the page does on a device: choose an epsilon, answer pairs by what they truly prefer
(Bradley and Terry), flip each answer with `privatize_answer`, and send one batch over HTTP. Who
prefers what comes from a seed; the flips do not, as on a device.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.pipelines.simulate.simulate import (
    Progress,
    Simulated,
    deal_log,
    simulated_folder,
    write_side_files,
)
from hushrank.pipelines.simulate.simulated_rows import draw_distinct
from hushrank.privacy.local_source import privatize_answer
from hushrank.privacy.randomness import system_bits
from hushrank.transforms.storage.files import FileFormat

BLOCK_ANSWERS = 1 << 20  # about how many answers are in memory at a time
MOST_ITEMS = 5000  # most items that method spectral takes
DIFFICULTY_STREAM, ANSWERS_STREAM = range(2)  # independent streams of one seed


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesSpec:
    """A test under the Rasch model: right with probability 1 / (1 + e^(difficulty - ability)).

    Its rows depend on these fields alone. (numpy may change its streams between versions.)

    Attributes:
        items: m, the items 0 to m - 1.
        people: the people 0 to people - 1.
        answers: number of answers of each person, to different items drawn uniformly at random.
        spread: standard deviation of the true difficulties, drawn from a normal law, then centred.
        ability_spread: standard deviation of the abilities, drawn from a normal law.
        named: items are called item-0, item-1, ... (with leading zeros) instead of 0, 1, ...
        seed: seed of the simulation; the same seed gives the same rows.

    Raises:
        ValueError: a field breaks its rule; the text names field, rule and value.
    """

    items: int
    people: int
    answers: int
    spread: float = 1.0
    ability_spread: float = 1.0
    named: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (
            ("items", 2, MOST_ITEMS),
            ("people", 1, 1 << 40),
            ("answers", 1, self.items),
            ("spread", 0, 1000),
            ("ability_spread", 0, 1000),
            ("seed", 0, math.inf),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"{name} must be between {least} and {most}, got {value!r}")

    def item_ids(self) -> tuple[str, ...]:
        """The names of the items in the public catalogue."""
        width = len(str(self.items - 1)) if self.named else 0
        prefix = "item-" if self.named else ""
        return tuple(f"{prefix}{item:0{width}}" for item in range(self.items))

    def difficulties(self) -> NDArray[np.float64]:
        """True difficulties, shape (items,); they sum to zero, larger is harder."""
        drawn = self.generator(DIFFICULTY_STREAM).normal(0.0, self.spread, self.items)
        return np.asarray(drawn - drawn.mean())

    def generator(self, *stream: int) -> np.random.Generator:
        """Generator of one stream of this seed; streams are independent of each other."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=stream))

    @property
    def n_blocks(self) -> int:
        """Number of blocks of equal size into which the people are divided."""
        return min(self.people, math.ceil(self.people * self.answers / BLOCK_ANSWERS))


def simulate_responses(
    spec: ResponsesSpec,
    out: Path,
    *,
    files: int | None = None,
    format_: FileFormat = FileFormat.PARQUET,
    progress: Progress | None = None,
) -> Simulated:
    """Write the test that `spec` describes into the folder `out`, made if it does not exist.

    Memory does not grow with the number of people. An error half-way leaves the folder empty.

    Args:
        spec: items, people and how they answer.
        out, files, format_, progress: as for `simulate.simulate_comparisons`.

    Raises:
        ValueError: `files` is out of range.
        FileExistsError: `out` is not empty, or is a file.
    """
    item = pa.string() if spec.named else pa.int32()
    schema = pa.schema({"user": pa.int64(), "item": item, "correct": pa.int8()})
    with simulated_folder(out, spec.people, files, format_) as written:
        deal_log(answer_blocks(spec), spec.n_blocks, schema, written.log, format_, progress)
        scores = spec.difficulties().tolist()
        write_side_files(written, spec.item_ids(), scores, _job(spec, format_))
    return written


def answer_blocks(spec: ResponsesSpec) -> Iterator[pa.Table]:
    """Columns `user`, `item` and `correct`; every answer of a block's people, in random order."""
    ids = pa.array(spec.item_ids()) if spec.named else None
    difficulty = spec.difficulties()
    for block in range(spec.n_blocks):
        first, end = (spec.people * edge // spec.n_blocks for edge in (block, block + 1))
        rng = spec.generator(ANSWERS_STREAM, block)
        keys = draw_distinct(np.full(end - first, spec.answers), spec.items, rng)
        rng.shuffle(keys)
        person, item = np.divmod(keys, spec.items)
        ability = rng.normal(0.0, spec.ability_spread, end - first)
        correct = rng.random(len(keys)) < expit(ability[person] - difficulty[item])
        items = pa.array(item.astype(np.int32)) if ids is None else ids.take(pa.array(item))
        columns = {"user": person + first, "item": items, "correct": correct.astype(np.int8)}
        yield pa.table(columns)


def _job(spec: ResponsesSpec, format_: FileFormat) -> dict[str, Any]:
    """A job that estimates the difficulties; relative paths start at the job file's folder."""
    return {
        "name": "simulated-test",
        "input": {"kind": "responses", "paths": [f"survey/*.{format_.value}"]},
        "items": {"file": "items.csv"},
        "privacy": {
            "unit": "user",
            "adjacency": "replace-one",
            "noise": "gaussian",
            "epsilon": 2.0,
            "delta": 1e-6,
            "max_contributions": max(2, spec.answers),
        },
        "method": "spectral",
        "output": "out",
        "confidential": ".hushrank/work",
        "ledger": {
            "path": ".hushrank/ledger.jsonl",
            "epsilon": 10.0,
            "delta": 1e-6,
            "refresh": "monthly",
        },
        "runner": "local",
    }


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
