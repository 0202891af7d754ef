"""Occasion of a release: a release by itself, or a night of a stream. The steps of a run ask it.

`flows.run.steps` does what is the same for both: it stores what was drawn, marks it in the ledger
and gives it its name. Here is the release by itself; nights are in `flows.run.stream_night`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.errors import DrawError, PredictableBits
from hushrank.flows.ledger.account import Attempt
from hushrank.flows.ledger.key import Purpose as Named
from hushrank.flows.methods.base import Arrays, ReductionJob
from hushrank.flows.release.identity import described, ids_of_old, known_or_new, meant_by
from hushrank.flows.run.confidential_folder import FAILED_FILE, Exact, forget_exact
from hushrank.flows.run.context import Job, Noisy, Read
from hushrank.flows.run.drawn import Drawn, noisy_votes, people_asked, seen_by
from hushrank.flows.run.input_files import told_as_input
from hushrank.flows.signals import signals_held
from hushrank.privacy.accounting import Spend
from hushrank.privacy.bits_used import BitsUsed, Purpose
from hushrank.privacy.units import Unit
from hushrank.transforms.storage.write import write_whole


def mark(job: Job, digest: str | None = None, noisy: Noisy | None = None) -> None:
    """Record that the job's noise was drawn.

    Where a look has stopped the job, only the look was drawn, and only that is spent.

    Args:
        job: the job that drew the noise.
        digest: digest of the file that holds the noise.
        noisy: the noisy result; None, without a digest: the mechanism failed.
    """
    look, stopped = job.drawn_by.look, noisy is not None and noisy.stopped
    if not job.safe:
        job.ledger.record_unsafe(job.release_id, _why_unsafe(job))
    elif stopped and look is not None and digest is not None:
        job.ledger.mark_stopped(job.release_id, look.spend, digest)
    else:
        job.ledger.mark_drawn(job.release_id, digest, "" if noisy is None else noisy.people)


def _why_unsafe(job: Job) -> str:
    if not job.config.privacy.private:
        return "released without noise (epsilon: inf)"
    if not job.survey.counted:
        return "no lasting ledger counts it"
    return "its random bits came from an injected seed, so its noise can be computed"


@contextmanager
def spent_if_it_fails(
    job: Job, failures: type[Exception] = Exception, otherwise: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Mark the draw as spent if the mechanism fails: that may tell something about the rows.

    `FAILED_FILE` says so to whoever would try again unasked.

    Args:
        job: the job that is drawn in the block.
        failures: errors of the mechanism.
        otherwise: errors that are no failure of it: nothing was drawn.
    """
    try:
        yield
    except otherwise:
        raise
    except failures:
        with signals_held():
            mark(job)
            write_whole(str(job.work / FAILED_FILE), b"")
        raise


class SingleRelease:
    """A release by itself."""

    by_content = True

    def release_id(self, job: Job) -> str:
        """Return the id, from the job and the content of its files; see `Occasion.release_id`."""
        account = job.ledger.known().account if job.safe else None
        with told_as_input():
            inputs = meant_by(job.contents, job.files), meant_by(job.contents, job.tables)
            hashes = job.config.job_hashes()
            text, *earlier = (
                described(each, *inputs, night=job.night, seed=job.seed) for each in hashes
            )
        if account is None:
            return job.key.tag(Named.RELEASE, text)
        older = [job.key.tag(Named.RELEASE, each) for each in earlier]
        for each in hashes:
            older += ids_of_old(job.key, each, job.files, job.tables, job.night)
        return known_or_new(account, job.key, text, older, again=job.again)

    def reserve(self, job: Job, *, noise_lost: bool) -> Spend:
        """Reserve the release's own cost; see `Occasion.reserve`."""
        job.ledger.reserve(
            job.release_id,
            job.terms.spend,
            config_hash=job.config.job_hashes()[0],
            night=job.night,
            noise_lost=noise_lost,
            inputs=job.inputs,
        )
        return job.terms.spend

    def restore(self, job: Job, attempt: Attempt) -> None:
        """Return None, because the noise is in one file alone; see `Occasion.restore`."""

    def reduce(self, job: Job, asked: ReductionJob, read: Read) -> None:
        """Into the folder of the release; see `Occasion.reduce`."""
        read(asked)
        with told_as_input():
            job.contents.require_unchanged()
        job.contents.remember()

    def draw(self, job: Job, exact: Exact) -> Noisy:
        """Draw, after the pilot query if there is one; see `Occasion.draw`."""
        arrays, reduced, votes = exact.arrays(), safe_bits(job, exact), None
        if job.drawn_by.look is not None:
            votes = exact.votes(job.config.privacy.unit)
        with spent_if_it_fails(job):
            return noise_of(job, arrays, votes, reduced)

    def record(self, drawn: Drawn) -> None:
        """Return None, because the release is no night; see `Occasion.record`."""

    def counted(self, job: Job) -> dict[str, Callable[[], None]]:
        """Name the folder of the release; see `Occasion.counted`."""
        return {str(job.work): partial(forget_exact, job.work)}

    def sweep(self, job: Job) -> None:
        """Do nothing, because there are no other nights; see `Occasion.sweep`."""

    def tidy(self, job: Job) -> None:
        """The exact arrays; see `Occasion.tidy`."""
        forget_exact(job.work)


def safe_bits(job: Job, exact: Exact) -> BitsUsed:
    """Return the sources of random bits with which the exact arrays were made.

    Raises:
        PredictableBits: the job is to be safe, and they are not, or those that are to be drawn.
    """
    used = exact.bits()
    if job.safe and not (used.safe and job.bits().safe):
        raise PredictableBits(
            "draw: random bits of this release do not come from the operating system, so its noise"
            " or its choice of rows could be predicted. Nothing was drawn and no budget was spent."
        )
    return used


def noise_of(job: Job, exact: Arrays, votes: NDArray[np.int64] | None, reduced: BitsUsed) -> Noisy:
    """Have the mechanism draw, after the pilot query if there is one, and check the bits.

    Raises:
        DrawError: the mechanism failed, or its bits are not those of a release that must be safe.
    """
    bits, drawn_by = job.bits(), job.drawn_by
    noisy = noisy_votes(votes, drawn_by.look, bits)
    seen = seen_by(noisy, drawn_by, people_asked(job.config))
    arrays: Arrays = {}
    if seen is None or not seen.stops:
        arrays = drawn_by.method.draw(exact, drawn_by.mechanism, bits)
    used = reduced | BitsUsed.of(Purpose.NOISE, bits.used)
    drew = used.covers(Purpose.NOISE) or job.config.privacy.unit is Unit.LOCAL
    if job.safe and not (drew and used.safe):
        raise DrawError(
            "draw: the noise was not drawn from bits of the operating system. It is thrown away;"
            " the budget is spent, and nothing is released."
        )
    return Noisy(arrays=arrays, drawn_by=drawn_by, bits=used, votes=noisy)
