"""Where a pipeline runs. Without Beam, so that whoever names an engine need not load it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from hushrank.transforms.files import InputFile, is_remote


class Runner(StrEnum):
    """Engine that executes the pipeline graph."""

    LOCAL = "local"  # in this process
    FLINK = "flink"
    SPARK = "spark"
    DATAFLOW = "dataflow"


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine, and how to reach it.

    Attributes:
        runner: which one.
        arguments: Beam's own options for it, as at a command line.
        most_seconds: after which a job that has not ended is stopped; for engines elsewhere.
    """

    runner: Runner = Runner.LOCAL
    arguments: tuple[str, ...] = ()
    most_seconds: int = 86_400


HERE = Engine()

SMALL_BYTES = 16 << 20  # some million rows; reading more takes longer than loading Beam


class HasInput(Protocol):
    """A reduction, as far as its size goes."""

    @property
    def files(self) -> tuple[InputFile, ...]:
        """What it reads."""
        ...

    @property
    def confidential(self) -> str:
        """Where it writes."""
        ...

    @property
    def engine(self) -> Engine:
        """Where it runs."""
        ...


def is_small(job: HasInput) -> bool:
    """Whether Beam's stand-in should run the job: few local bytes, and no other engine named."""
    paths = [job.confidential, *(file.path for file in job.files)]
    few = sum(file.size for file in job.files) <= SMALL_BYTES
    here = job.engine.runner is Runner.LOCAL
    return here and few and not any(map(is_remote, paths))
