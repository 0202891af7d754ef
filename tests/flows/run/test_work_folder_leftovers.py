"""What a crash left of rows that waited in a file is gone after the next run starts to read."""

from __future__ import annotations

import numpy as np

from hushrank.flows.run.confidential_folder import (
    delete_strays,
    forget_exact,
    make_confidential,
    releases_with_strays,
)
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.transforms.storage.spill_file import SPILL_PREFIX, SpillFolder

SURVEY = """
name: s
input: {kind: comparisons, paths: [a.csv], design: balanced}
items: {count: 3}
privacy: {unit: user, epsilon: 1.0, max_contributions: 1}
method: noisy-counts
output: out
confidential: work
ledger: {path: ledger.jsonl, epsilon: 10}
memory_limit: 1 GiB
"""


def test_spill_files_of_earlier_releases_are_removed_and_nothing_else(tmp_path):
    (tmp_path / "a.csv").write_text("user,left,right,outcome\n1,0,1,1\n")
    (tmp_path / "s.yaml").write_text(SURVEY)
    job = prepare_job(read_survey(tmp_path / "s.yaml"))
    assert job.config.memory_limit == 1 << 30
    left = tmp_path / "work" / "0123456789abcdef"
    left.mkdir(mode=0o700, parents=True)
    left.parent.chmod(0o700)
    for name in (f"{SPILL_PREFIX}x", "drawn.npz"):
        (left / name).write_bytes(b"rows")
    make_confidential(job.config.confidential, job.release_id)
    assert [path.name for path in left.iterdir()] == ["drawn.npz"]


def test_the_memory_limit_is_no_part_of_the_job(tmp_path):
    (tmp_path / "a.csv").write_text("user,left,right,outcome\n1,0,1,1\n")
    hashes = set()
    for limit in ("1 GiB", "3 GiB"):
        (tmp_path / "s.yaml").write_text(SURVEY.replace("1 GiB", limit))
        hashes.add(prepare_job(read_survey(tmp_path / "s.yaml")).release_id)
    assert len(hashes) == 1


def test_rows_that_wait_for_others_are_kept_while_a_job_needs_them_and_then_deleted(tmp_path):
    """On an engine: a job may go on when its run has died, and the next run takes its results."""
    (tmp_path / "work").mkdir(mode=0o700)
    release_id = "0123456789abcdef"
    make_confidential(tmp_path / "work", release_id)
    work = tmp_path / "work" / release_id
    (place,) = SpillFolder(str(work)).write([np.zeros(3, np.uint64)])
    waiting = work / place[0]
    make_confidential(tmp_path / "work", release_id)
    assert waiting.exists()
    assert releases_with_strays(tmp_path / "work") == []
    forget_exact(work)  # as once the noise is drawn, or the run gives up
    assert not waiting.exists()
    SpillFolder(str(work)).write([np.zeros(3, np.uint64)])
    assert releases_with_strays(tmp_path / "work") == [release_id]
    delete_strays(work, temporary=False)
    assert list(work.iterdir()) == []
