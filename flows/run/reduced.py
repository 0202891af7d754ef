"""What a reduction has left beside its exact arrays, for the step that draws."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.errors import PredictableBits
from hushrank.flows.run.job import Job
from hushrank.pipelines.reduce.confidential_area import read_bits, read_votes
from hushrank.privacy.bits_used import BitsUsed


def bits_of_reduction(job: Job) -> BitsUsed:
    """Which random bits the exact arrays were made with, and those that are to be drawn.

    Raises:
        PredictableBits: the job is to be safe, and they are not. No budget was spent.
    """
    try:
        used = read_bits(str(job.work))
    except FileNotFoundError:
        raise PredictableBits(
            "draw: the reduction left no record of the random bits that it used. Nothing was drawn"
            " and no budget was spent; run again."
        ) from None
    if job.safe and not (used.safe and job.bits().safe):
        raise PredictableBits(
            "draw: random bits of this release do not come from the operating system, so its noise"
            " or its choice of rows could be predicted. Nothing was drawn and no budget was spent."
        )
    return used


def votes_of_reduction(job: Job) -> NDArray[np.int64] | None:
    """What the look is to see, without noise, from what the reduction left; None: no look.

    Raises:
        PredictableBits: the reduction left no record of it. No budget was spent.
    """
    if job.drawn_by.look is None:
        return None
    try:
        return read_votes(str(job.work), job.config.privacy.unit)
    except FileNotFoundError:
        raise PredictableBits(
            "draw: the reduction left no record of which rows fit. Nothing was drawn and no budget"
            " was spent; run again."
        ) from None
