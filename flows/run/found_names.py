"""Names of items that a run draws before it ranks them: drawn once, stored, marked, taken up again.

The names are stored in the release's folder, then the ledger marks the whole reservation as spent,
and only then are they used. A run that dies before the mark has spent nothing, and the next one
takes up the stored names. A run that dies after it leaves names that the mark's digest knows, and
no run ever draws others.
"""

from __future__ import annotations

import hashlib

from hushrank.flows.config.discover_rules import name_rules
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.errors import EstimateError
from hushrank.flows.ledger.account import ReleaseState
from hushrank.flows.run.confidential_folder import (
    NAMES_FILE,
    Exact,
    delete_folder,
    make_confidential,
    names_folder,
    store,
)
from hushrank.flows.run.context import Job, Read
from hushrank.flows.run.input_files import told_as_input
from hushrank.flows.run.stages import safe_bits, spent_if_it_fails
from hushrank.flows.statement.found_names import FoundNames
from hushrank.flows.terminal import signals_held
from hushrank.pipelines.reduce.names_job import ReduceNames
from hushrank.privacy.discovered_names import NamesMechanism, publish_names
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import BitsUsed, Purpose
from hushrank.transforms.rankings.ranking_columns import AS_GIVEN
from hushrank.transforms.storage.places import Place, read_whole


def settle_names(job: Job, read: Read) -> None:
    """Take the names that were drawn for the job, or draw them.

    Raises:
        EstimateError: names that are paid for are damaged.
        HushrankError: as a reduction and a draw.
    """
    found = kept_names(job)
    if found is None:
        found = _draw(job, read)
    delete_folder(names_folder(job.work))
    job.take_names(found)


def kept_names(job: Job) -> FoundNames | None:
    """Return the names that an earlier run drew for the job; None: none did.

    Raises:
        EstimateError: the ledger's mark has another digest, or they cannot be read.
    """
    path = job.work / NAMES_FILE
    try:
        content = read_whole(path)
    except FileNotFoundError:
        return None
    attempt = job.attempt if job.safe else None
    if attempt is not None and attempt.state is ReleaseState.RESERVED:
        with signals_held():
            job.ledger.mark_found(job.release_id, _digest(content))
    elif attempt is not None and attempt.result != _digest(content):
        raise EstimateError(
            f"names: {path} is damaged, or is not what was drawn for this release. Its budget is"
            " spent, and nothing was published. Put a copy of it back, and run again at no cost."
        )
    return FoundNames.from_json(content)


def _draw(job: Job, read: Read) -> FoundNames:
    """Have the names counted, draw, store and mark them."""
    folder = names_folder(job.work)
    make_confidential(job.config.confidential, folder.name)
    read(_reduction(job, folder))
    with told_as_input():
        job.contents.require_unchanged()  # before the draw: the ranking would refuse it after it
    exact, params = Exact(folder), job.drawn_by.params
    used, arrays, bits = safe_bits(job, exact), exact.arrays(), job.bits()
    if params.discovery is None:
        raise ValueError("the mechanism pays for no names")
    mechanism = NamesMechanism.of(params.discovery, params.adjacency)
    with spent_if_it_fails(job):
        places, noisy = publish_names(arrays["weights"], mechanism, bits)
    used |= BitsUsed.of(Purpose.NOISE, bits.used)
    found = FoundNames.of(arrays["names"], arrays["ends"], places, noisy, mechanism, used)
    content = found.to_json()
    with signals_held():
        store(job.work / NAMES_FILE, content)
        if job.safe:
            job.ledger.mark_found(job.release_id, _digest(content))
    return found


def _reduction(job: Job, folder: Place) -> ReduceNames:
    """The job that counts names into `folder`."""
    config, discover = job.config, job.config.items.discover
    if discover is None:
        raise ValueError("the items of this job are public")
    rankings = config.input if isinstance(config.input, RankingsConfig) else None
    return ReduceNames(
        files=job.files,
        columns=config.comparison_columns() if rankings is None else config.whole_ranking_columns(),
        contest=None if rankings is None else rankings.contest,
        reading=AS_GIVEN if rankings is None else rankings.reading,
        catalogue=config.items.catalogue,
        key=SecretKey.draw(job.bits()),
        confidential=str(job.work),
        memory_limit=config.memory_limit,
        engine=config.runner.engine(),
        heads=job.heads,
        rules=name_rules(config),
        most_names=discover.most_items,
        folder=str(folder),
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
