"""Reduce a comparison log to sums of privatised answers: read, encode, privatise, aggregate.

Only sums of privatised answers leave this pipeline. They wait in the confidential folder, beside
the rows that broke a rule and the tallies, until the run marks them as released; if it never does,
nobody has seen them. Nothing is logged and no Beam metrics are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hushrank.estimation.weighted_pairs import PairSums
from hushrank.pipelines.confidential_area import set_aside, write_tally
from hushrank.pipelines.execution import execute
from hushrank.pipelines.private_job import ReduceAnswers
from hushrank.pipelines.reduction_job import EXACT_FILE
from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.privacy.randomness import system_bits
from hushrank.transforms.aggregate import TallyFn
from hushrank.transforms.answers import (
    Answers,
    encode_answers,
    share_epsilons,
    split_by_owner,
)
from hushrank.transforms.encode import text_of_rejects
from hushrank.transforms.engine import TaggedOutput, beam
from hushrank.transforms.epsilons import read_epsilon_table
from hushrank.transforms.files import check_files
from hushrank.transforms.privatize import PrivatePairsFn, privatize
from hushrank.transforms.read import Split, plan_splits, read_batches
from hushrank.transforms.write import npz_bytes, write_whole

PARTITION_ROWS = 1_250_000  # sorted in memory at once: tens of megabytes
MAX_PARTITIONS = 1 << 15

TALLY, ANSWERS = "tally", "answers"


def run(job: ReduceAnswers) -> None:
    """Execute `job`; afterwards `job.confidential` holds its sums, tallies and rejects.

    Raises:
        InputError: a file cannot be read, or a row broke a rule under `fail_on_bad_rows`.
    """
    splits = plan(job)
    execute(job, lambda pipeline, _: build(pipeline, job, splits))


def plan(job: ReduceAnswers) -> list[Split]:
    """The shares of the input that are read apart, from footers and headers only."""
    schemas = check_files(job.files, job.columns)
    shares = [plan_splits(file, schemas[file.path], job.columns) for file in job.files]
    return [split for share in shares for split in share]


def build(pipeline: beam.Pipeline, job: ReduceAnswers, splits: list[Split]) -> None:
    """Add the whole graph of `job` to `pipeline`."""
    n_rows = sum(split.rows for split in splits)
    n_partitions = min(max(n_rows // PARTITION_ROWS, 1), MAX_PARTITIONS)
    read = (
        pipeline
        | "Splits" >> beam.Create(splits)
        | beam.Reshuffle()
        | "ReadEncode"
        >> beam.ParDo(_ReadEncode(job, n_partitions)).with_outputs(TALLY, main=ANSWERS)
    )
    answers, tallies = read[ANSWERS], [read[TALLY]]
    if job.shares.meet:
        shared = (
            answers
            | "MeetOwners" >> beam.GroupByKey()
            | "Share" >> beam.ParDo(_Share(job)).with_outputs(TALLY, main=ANSWERS)
        )
        answers = shared[ANSWERS]
        tallies.append(shared[TALLY])
    sums = answers | "Sum" >> beam.CombineGlobally(
        PrivatePairsFn(job.randomisation, len(job.catalogue))
    )
    tally = tuple(tallies) | beam.Flatten() | "Tally" >> beam.CombineGlobally(TallyFn())
    _ = sums | "WriteSums" >> beam.ParDo(_WriteSums(job.confidential))
    _ = tally | "WriteTally" >> beam.ParDo(_WriteTally(job.confidential))


class _ReadEncode(beam.DoFn):
    """Split -> PrivateAnswers, or (partition, blob of true answers) where owners must meet."""

    def __init__(self, job: ReduceAnswers, n_partitions: int) -> None:
        self._job = job
        self._n_partitions = n_partitions

    def setup(self) -> None:
        path = self._job.epsilons.table
        self._table = None if path is None else read_epsilon_table(path)
        self._hash = KeyedHash(self._job.key) if self._job.shares.meet else None

    def process(self, split: Split) -> Iterator[Any]:
        job, bits = self._job, system_bits()
        tally = {"rows_read": 0, "rows_rejected": 0}
        for number, batch in enumerate(read_batches(split)):
            encoded = encode_answers(
                batch.rows, job.columns, job.catalogue, job.epsilons, self._table, self._hash,
                job.ties, bits,
            )  # fmt: skip
            rejects = list(encoded.rejects)
            if batch.malformed:
                rejects.append(text_of_rejects(batch.malformed, split.schema))
            for part, table in enumerate(rejects):
                set_aside(job.confidential, f"{split.name}#{number}.{part}", table)
                tally["rows_rejected"] += len(table)
            tally["rows_read"] += len(batch.rows) + len(batch.malformed)
            if self._hash is None:
                yield privatize(
                    encoded.answers, job.randomisation, bits, already_private=job.already_private
                )
                continue
            for partition, rows in split_by_owner(encoded.answers, self._n_partitions):
                yield partition, rows.to_blob()
        yield TaggedOutput(TALLY, tally)


class _Share(beam.DoFn):
    """(partition, blobs of true answers) -> PrivateAnswers, each with its share of the epsilon."""

    def __init__(self, job: ReduceAnswers) -> None:
        self._job = job

    def process(self, element: tuple[int, Any]) -> Iterator[Any]:
        job = self._job
        rows = Answers.of_blobs(element[1])
        shared, information = share_epsilons(rows, job.shares, KeyedHash(job.key))
        tally = {"rows_with_owner": len(rows), "rows_kept": len(shared)}
        yield privatize(
            shared,
            job.randomisation,
            system_bits(),
            already_private=job.already_private,
            information=information,
        )
        yield TaggedOutput(TALLY, tally)


class _WriteSums(beam.DoFn):
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, total: tuple[PairSums, int]) -> None:
        (s, w), information = total
        content = npz_bytes(s=s, w=w, g=np.array(information, np.int64))
        write_whole(f"{self._folder}/{EXACT_FILE}", content)


class _WriteTally(beam.DoFn):
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, tally: dict[str, int]) -> None:
        write_tally(self._folder, tally)
