"""A run over many files that is interrupted: what it counted waits, and the next run goes on."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows import reading
from hushrank.flows.errors import ConfigError
from hushrank.flows.reading import ReadingError
from hushrank.pipelines.engine import runner
from hushrank.pipelines.reduce import reduce
from hushrank.transforms.engine import in_process
from tests.flows.conftest import Survey, answers
from tests.pipelines.broken_off import run_noting

FILES = 6
AFTER = 4  # files that are read before the interruption
OLD = (0, 0)  # times of a file that every retention has passed
REDUCE = reduce.run
Reads = Callable[..., list[list[str]]]


@pytest.fixture
def many(survey, monkeypatch) -> Survey:
    """Six files, which are enough here to be resumed; one worker reads them."""
    monkeypatch.setattr(runner, "LARGE_FILES", FILES)
    (survey.folder / "answers.parquet").unlink()
    for part in range(FILES):
        rows = answers(30, seed=part)
        users = pa.array(rows["user"].to_numpy() + 20 * part)  # a third of them are in two files
        path = survey.folder / f"rows-{part}.parquet"
        pq.write_table(rows.set_column(0, "user", users), path)
    return survey.set(
        input__paths=["rows-*.parquet"],
        runner={"kind": "local", "workers": 1},
        privacy__max_contributions=4,
    )


@pytest.fixture
def reads(monkeypatch) -> Reads:
    """Replace the reduction: it notes what it reads, and may break off."""

    def install(error: BaseException | None = None, first: Any = None) -> list[list[str]]:
        found: list[list[str]] = []

        def noted(job: Any) -> None:
            monkeypatch.setattr(reduce, "run", REDUCE)
            found.append(run_noting(job, FILES if error is None else AFTER))
            if first is not None:
                first()
            if error is not None:
                raise error

        monkeypatch.setattr(reduce, "run", noted)
        return found

    return install


def waiting(survey: Survey) -> list[Path]:
    return sorted([*survey.work.rglob(".waiting.*"), *survey.work.rglob(".counting")])


def events(survey: Survey) -> list[str]:
    return [json.loads(line)["event"] for line in survey.ledger.read_text().splitlines()]


def wins(survey: Survey) -> dict[str, float]:
    found: dict[str, float] = json.loads((survey.output / "release.json").read_text())["released"]
    return found


@pytest.mark.parametrize(
    ("error", "exits"), [(KeyboardInterrupt(), 130), (ReadingError("it was killed"), 1)]
)
def test_the_next_run_reads_what_is_left_and_pays_once(many, command, reads, error, exits):
    first = reads(error)
    code, printed = command("run", many.config, "--direct")
    assert code == exits
    (work,) = many.work.glob("*/")
    assert f"What was counted so far waits in {work}, which is confidential" in printed
    assert events(many) == ["open", "reserve", "cancel"]
    assert {path.stat().st_mode & 0o777 for path in waiting(many)} == {0o600}
    assert not list(many.work.rglob("exact.npz"))
    assert "rows-" not in printed

    then = reads()
    code, printed = command("run", many.config, "--direct")
    assert code == 0, printed
    assert len(first[0]) == AFTER
    assert len(then[0]) == FILES - AFTER
    assert not set(first[0]) & set(then[0])
    assert waiting(many) == []
    assert events(many) == ["open", "reserve", "cancel", "reserve", "draw", "commit"]


def test_the_release_is_that_of_a_run_in_one_go(many, command, reads):
    """A seed makes the same key and the same noise, so every published number is the same."""
    seeded = ("run", many.config, "--direct", "--unsafe-seed", 7)
    assert command(*seeded)[0] == 0
    whole = wins(many)
    many.set(confidential="other", output="out-again")
    reads(KeyboardInterrupt())
    assert command(*seeded)[0] == 130
    then = reads()
    assert command(*seeded)[0] == 0
    assert len(then[0]) == FILES - AFTER
    released = json.loads((many.folder / "out-again" / "release.json").read_text())["released"]
    assert released == whole


def test_the_key_of_a_seed_never_makes_a_safe_release(many, command, reads):
    reads(KeyboardInterrupt())
    assert command("run", many.config, "--direct", "--unsafe-seed", 7)[0] == 130
    then = reads()
    assert command("run", many.config, "--direct")[0] == 0
    assert len(then[0]) == FILES, "what waited under a key that a seed gives was taken"
    release = json.loads((many.output / "release.json").read_text())
    assert release["safe"] is True


def test_a_mistake_in_the_input_leaves_nothing(many, command, reads):
    reads(ConfigError("rows-4.parquet: damaged"))
    code, printed = command("run", many.config, "--direct")
    assert code == 2
    assert "waits in" not in printed
    assert waiting(many) == []


def test_a_full_disk_gets_its_room_back(many, command, reads):
    reads(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "work"))
    code, printed = command("run", many.config, "--direct")
    assert code == 1
    assert f"work: {os.strerror(errno.ENOSPC)}" in printed
    assert "waits in" not in printed
    assert waiting(many) == []
    assert events(many) == ["open", "reserve", "cancel"]


@pytest.mark.parametrize(("number", "told"), [(errno.ENOSPC, OSError), (errno.EIO, ReadingError)])
def test_the_process_that_reads_tells_of_a_full_disk_and_quotes_no_row(
    monkeypatch, tmp_path, number, told
):
    def fail(_: Any) -> None:
        raise OSError(number, "of row 7")

    monkeypatch.setattr(reduce, "run", fail)
    monkeypatch.setattr(runner, "does_without_beam", lambda _: False)
    monkeypatch.setattr(in_process, "is_chosen", lambda: False)
    job: Any = SimpleNamespace(confidential=str(tmp_path), engine=runner.HERE)
    with pytest.raises(told) as failure:
        reading._reduce(job)
    assert str(tmp_path) in str(failure.value)
    assert "row 7" not in str(failure.value)


def test_changed_rows_are_another_job_and_count_anew(many, command, reads):
    reads(KeyboardInterrupt())
    command("run", many.config, "--direct")
    rows = pq.read_table(many.folder / "rows-0.parquet")
    pq.write_table(rows.slice(0, len(rows) // 2), many.folder / "rows-0.parquet")
    then = reads()
    code, printed = command("run", many.config, "--direct")
    assert code == 0, printed
    assert len(then[0]) == FILES


@pytest.mark.parametrize("seed", [(), ("--unsafe-seed", 7)])
def test_clean_deletes_what_nobody_takes_up(many, command, reads, seed):
    reads(KeyboardInterrupt())
    command("run", many.config, "--direct", *seed)
    left = waiting(many)
    assert len(left) > AFTER
    command("clean", many.config, "--delete")
    assert waiting(many) == left, "younger than retention.rejects_days"
    for path in left:
        os.utime(path, OLD)
    code, printed = command("clean", many.config)
    assert code == 0
    assert ".waiting." in printed
    command("clean", many.config, "--delete")
    assert waiting(many) == []


def test_two_runs_at_once_do_not_share_parcels(many, command, reads):
    told: list[tuple[int, str]] = []
    first = reads(first=lambda: told.append(command("run", many.config, "--direct")))
    assert command("run", many.config, "--direct")[0] == 0
    ((code, printed),) = told
    assert code != 0
    assert "is being run" in printed or "another run" in printed.lower(), printed
    assert len(first[0]) == FILES
    assert events(many) == ["open", "reserve", "draw", "commit"]


def test_a_stream_of_nights_counts_each_night_anew(many, command, reads):
    """Its people are kept night by night: an interrupted night leaves nothing that counts."""
    for part in range(FILES):
        path = many.folder / f"rows-{part}.parquet"
        path.rename(many.folder / f"2024-11-20-rows-{part}.parquet")
    stream = {
        "nights": 2,
        "participations": 1,
        "gap": 1,
        "show": {"window": 1},
        "first": "2024-11-20",
    }
    many.set(input__paths=["{date}-rows-*.parquet"], schedule={"stream": stream})
    reads(KeyboardInterrupt())
    code, printed = command("run", many.config, "--direct", "--date", "2024-11-20")
    assert code == 130, printed
    assert "waits in" not in printed
    assert not list(many.work.rglob(".waiting.*"))
