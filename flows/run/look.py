"""The noisy look at the rows that comes before the rest of a release is drawn.

Who votes, and why the look is private, stands in `privacy.look`. The look and the rest are drawn
in one step and stored and marked together: either the ledger marks all of it, or, where the look
says that the rows do not fit, the look alone, and nothing else was drawn. So a run that dies has
one mark or none, as without a look (`flows.run.steps`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import LookStopped
from hushrank.flows.guarantee.look import LookRecord, lost_look_text, stop_text
from hushrank.flows.ledger.account import Attempt, ReleaseState
from hushrank.flows.run.drawn import Drawn
from hushrank.flows.run.job import Job
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import RandomBits


def noisy_votes(
    votes: NDArray[np.int64] | None, job: Job, bits: RandomBits
) -> NDArray[np.int64] | None:
    """`votes` with the noise of the look."""
    look = job.drawn_by.look
    return None if look is None or votes is None else add_noise(votes, look.law, bits)


def record_of(drawn: Drawn, config: SurveyConfig) -> LookRecord | None:
    """What the look of a release saw; None: there was no look.

    Raises:
        LookStopped: it told the run to stop.
    """
    if drawn.seen is None:
        return None
    record = LookRecord.of(drawn.seen, drawn.drawn_by.params)
    if drawn.stopped:
        raise LookStopped(stop_text(config, record, drawn.created))
    return record


def refuse_stopped(release_id: str, attempt: Attempt | None) -> None:
    """Raise LookStopped for a release that its look has stopped, and of which nothing is kept."""
    if attempt is None or attempt.state is not ReleaseState.STOPPED or attempt.drawn_at is None:
        return
    raise LookStopped(lost_look_text(release_id, attempt.drawn_at))
