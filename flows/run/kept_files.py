"""Files that a run has kept in a release's folder and reads again, and what it says of damage."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.errors import EstimateError, HushrankError, PredictableBits
from hushrank.flows.methods.base import Arrays
from hushrank.flows.run.budget import ledger_of
from hushrank.flows.run.confidential_folder import DRAWN_FILE
from hushrank.flows.run.drawn import Drawn, drawn_of
from hushrank.flows.run.job import Job
from hushrank.pipelines.reduce.confidential_area import read_bits, read_votes
from hushrank.pipelines.reduce.reduction_job import EXACT_FILE
from hushrank.privacy.bits_used import BitsUsed
from hushrank.privacy.units import Unit
from hushrank.transforms.storage.cloud_storage import Place
from hushrank.transforms.storage.write import npz_arrays

_NO_RECORD = "draw: the reduction left no record of {}. Nothing was drawn or spent; run again."
_NO_RECORDS = (  # what is missing, is damaged, or is no record at all
    *(FileNotFoundError, IsADirectoryError, ValueError, LookupError, TypeError, AttributeError),
    *(OverflowError, RecursionError),
)


def load_arrays(path: Place) -> Arrays:
    """The arrays in an `.npz` file, by name.

    Raises:
        ValueError: it is damaged.
    """
    return npz_arrays(path.read_bytes())


def load_exact(work: Place) -> Arrays:
    """The exact arrays of a release.

    Raises:
        HushrankError: they are damaged. No budget was spent.
    """
    path = work / EXACT_FILE
    try:
        return load_arrays(path)
    except (ValueError, IsADirectoryError):
        raise HushrankError(
            f"draw: {path} is damaged: what was counted is lost. Nothing was drawn or spent; run"
            " again, which counts anew."
        ) from None


def load_drawn(work: Place, digests: Collection[str], *, of_stream: bool) -> Arrays:
    """The noisy result of a release.

    Args:
        work: the folder of the release.
        digests: what the ledger's marks name; none: they name nothing.
        of_stream: whether the release is a night of a stream, which has stored its noise besides.

    Raises:
        EstimateError: the file is damaged, or is not what was drawn.
    """
    path = work / DRAWN_FILE
    try:
        content = path.read_bytes()
        if digests and hashlib.sha256(content).hexdigest() not in digests:
            raise damaged_drawn(path, of_stream=of_stream)
        return npz_arrays(content)
    except (ValueError, IsADirectoryError):
        raise damaged_drawn(path, of_stream=of_stream) from None


def damaged_drawn(path: Place, *, of_stream: bool) -> EstimateError:
    """The error of a noisy result that cannot be read, or is another one."""
    remedy = (
        "Delete it and run again: it is made again from the folder of the stream, at no cost."
        if of_stream
        else "Put a copy of it back, as it was after the draw, and run again, which costs nothing."
        " Without a copy, delete it: running again then draws new noise and pays again."
    )
    return EstimateError(
        f"estimate: {path} is damaged, or is not what was drawn for this release. The noise is"
        f" paid for, and nothing was published. {remedy}"
    )


def bits_of_reduction(work: Place) -> BitsUsed:
    """Which random bits the exact arrays were made with.

    Raises:
        PredictableBits: nothing says so. No budget was spent.
    """
    try:
        return read_bits(str(work))
    except _NO_RECORDS:
        raise PredictableBits(_NO_RECORD.format("the random bits that it used")) from None


def votes_of_reduction(work: Place, unit: Unit) -> NDArray[np.int64]:
    """What a look at the rows is to see, without noise: see `read_votes`.

    Raises:
        PredictableBits: nothing says so. No budget was spent.
    """
    try:
        return read_votes(str(work), unit)
    except _NO_RECORDS:
        raise PredictableBits(_NO_RECORD.format("the rows that fit")) from None


def stored_noise(job: Job) -> Drawn:
    """What was drawn, as the ledger's mark names it.

    Raises:
        EstimateError: the file is damaged or another one, or this version cannot read it.
    """
    attempts = ledger_of(job.config).book().account.attempts if job.safe else ()
    mine = [attempt for attempt in attempts if attempt.release_id == job.release_id]
    of_stream = any(attempt.of for attempt in mine)  # its file may have been made again
    marks = set() if of_stream else {attempt.result for attempt in mine if attempt.result}
    entries = load_drawn(job.work, marks, of_stream=of_stream)
    try:
        return drawn_of(entries, job.config)
    except (KeyError, ValueError):
        raise damaged_drawn(job.work / DRAWN_FILE, of_stream=of_stream) from None
