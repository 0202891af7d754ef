"""Where a pipeline runs. Without Beam, so that whoever names an engine need not load it."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from hushrank.transforms.files import InputFile, is_remote


class Runner(StrEnum):
    """Engine that executes the pipeline graph."""

    LOCAL = "local"  # in this process


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


def is_small(job: HasInput) -> bool:
    """Whether Beam's stand-in should run the job: few local bytes, wherever Beam would run it."""
    paths = [job.confidential, *(file.path for file in job.files)]
    few = sum(file.size for file in job.files) <= SMALL_BYTES
    return few and not any(map(is_remote, paths))
